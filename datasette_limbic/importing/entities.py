"""Writing entities, merged by name with what is there, and the times known of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..times import parse_time
from .baseline import Baseline, State, digest, fields_of
from .baseline import digests as digests_of
from .batches import Inserts
from .items import GENERIC, Entity, Observation, Observations
from .observations import ObservationWriter, United
from .summary import FileSummary

_BATCH = 5000

_COLUMNS = (
    "select id, name, entity_type, created_at, updated_at, archived_at, archived_reason,"
    " confidence, valid_from, valid_to, last_activity_at from entities where "
)
_UPDATE = """
update entities set entity_type = ?, created_at = ?, updated_at = ?, archived_at = ?,
  archived_reason = ?, confidence = ?, valid_from = ?, valid_to = ?
where id = ?
"""
_NOTE_TIMES = """
insert into _limbic_import_times values (?, ?, ?) on conflict(entity_id) do update set
  own = coalesce(max(own, excluded.own), own, excluded.own),
  known = coalesce(max(known, excluded.known), known, excluded.known)
"""


def earliest(stored: str | None, given: str | None) -> str | None:
    """The earlier of two times, the stored one where they are equal or it cannot be read."""
    return stored if given is None or not _beats(given, stored, -1) else given


def latest(stored: str | None, given: str | None) -> str | None:
    """The later of two times, the stored one where they are equal or it cannot be read."""
    return stored if given is None or not _beats(given, stored, 1) else given


def _beats(given: str, stored: str | None, sign: int) -> bool:
    if stored is None:
        return True
    old, new = parse_time(stored), parse_time(given)
    return old is not None and new is not None and (new - old) * sign > 0


@dataclass
class _Later:
    """An entity that cannot be settled before all rows of its source were read."""

    file: FileSummary
    at: str
    kinds: set[str | None]


class EntityWriter:
    """Adds entities with their observations, in batches; knows which ids are new."""

    def __init__(self, conn: sqlite3.Connection, now: str) -> None:
        self.conn, self.now = conn, now
        self.observations = ObservationWriter(conn)
        # the id of a deleted entity is never given to another, so that it stays known as gone
        self.never_reused = _has_sequence(conn)
        self.above = _highest_id(conn, self.never_reused)
        self.next_id = self.above + 1
        self.names: set[str] = set()
        self.new = Inserts(
            "entities",
            ("id", "name", "entity_type"),
            {
                "created_at": "null",
                "updated_at": "null",
                "archived_at": "null",
                "archived_reason": "null",
                "confidence": "1.0",
                "valid_from": "null",
                "valid_to": "null",
            },
        )
        self.times: list[tuple[int, str | None, str | None]] = []
        self.stale: list[tuple[str, int]] = []
        self.keys: list[tuple[int, str, int | None]] = []
        self.baseline: Baseline | None = None
        self.later: dict[str, _Later] = {}
        if not self.never_reused:
            self._forget_ids()
        conn.execute(
            "create temp table _limbic_import_times"
            "(entity_id integer primary key, own text, known text)"
        )
        # what a source calls an entity where that is not its name here; NULL: removed here
        conn.execute(
            "create temp table _limbic_import_keys"
            "(import_id integer, key text, entity_id integer, primary key (import_id, key))"
            " without rowid"
        )

    def begin(self, baseline: Baseline) -> None:
        """Go on with another source."""
        self.end()
        self.baseline = baseline

    def end(self) -> None:
        """Write all of a source: what it refers to by its own ids is known now."""
        self.flush()
        self._settle_later()
        if self.baseline is not None:
            self.baseline.finish()
        self.flush()
        self.observations.settle_references()

    def _forget_ids(self) -> None:
        """Ids that are free can be given anew: what sources said of their last owners is void."""
        for table, columns in (
            ("_limbic_source_relations", ("from_entity", "to_entity")),
            ("_limbic_source_counts", ("entity_a_id", "entity_b_id")),
        ):
            for column in columns:
                self.conn.execute(f"delete from {table} where {column} > ?", [self.above])
        self.conn.execute(
            "update _limbic_source_entities set entity_id = 0 where entity_id > ?", [self.above]
        )

    def add(self, entity: Entity, line: int, file: FileSummary) -> None:
        """Create the entity, or merge it into the one of that very name."""
        base = self.baseline
        assert base is not None
        key = entity.key if entity.key is not None else entity.name
        file.entities.lines += 1
        counts = file.observations
        counts.in_file += len(entity.observations) + len(entity.skipped)
        if entity.skipped:
            file.skip(line, entity.name, entity.skipped)
        if entity.name in self.names:
            self.flush()
        state = base.state(key) if base.known else None
        row = self._find(entity.name, state)
        if row is not None and state is None:
            state = base.state(key)  # an earlier row of this import
        digests = digests_of(entity)
        is_new = state is None or (state.is_stub and (entity.entity_type or entity.observations))
        if row is None and not is_new and not base.restore:
            assert state is not None
            self._stay_away(key, state, entity, digests, file)
            return
        if row is None:
            file.entities.created += 1
            entity_id = self._create(entity)
            self.observations.insert_all(entity_id, entity)
            counts.added += len(entity.observations)
        else:
            file.entities.merged += 1
            entity_id = row[0]
            changed = self._merge(row, entity, line, file, state)
            united = self._unite(entity_id, entity.observations, digests, state, file)
            if changed or united.added or united.updated:
                file.entities.updated += 1
                if state is not None:
                    state.counted = True
        if state is None:
            base.note(key, entity_id, entity, digests)
        else:
            state.entity_id = entity_id
            state.see(entity, digests)
            if base.complete_rows and state.before is not None:
                self._look_later(key, state, entity, file)
        if key != (entity.name if row is None else row[1]):
            self.keys.append((base.import_id, key, entity_id))
        self._note_times(entity_id, entity)
        if self.observations.new.waiting + self.new.waiting >= _BATCH:
            self.flush()

    def add_observations(self, row: Observations, file: FileSummary) -> None:
        """More observations of an entity whose own row came before."""
        base = self.baseline
        assert base is not None
        if row.entity in self.names:
            self.flush()
        state = base.state(row.entity)
        assert state is not None
        found = self._find(row.entity, state)
        digests = [digest(o.content) for o in row.observations]
        file.observations.in_file += len(row.observations)
        if found is None:
            file.observations.removed_here += len(row.observations)
        else:
            united = self._unite(found[0], row.observations, digests, state, file)
            self._note_times(found[0], Entity(row.entity, None, row.observations, []))
            if (united.added or united.updated) and not state.counted:
                state.counted = True
                file.entities.updated += 1
        state.see_texts(row.observations, digests)
        if self.observations.new.waiting + self.new.waiting >= _BATCH:
            self.flush()

    def _unite(
        self,
        entity_id: int,
        observations: list[Observation],
        digests: list[bytes],
        state: State | None,
        file: FileSummary,
    ) -> United:
        assert self.baseline is not None
        if observations and not self.observations.known(entity_id):
            self.flush()
        base = self.baseline
        united = self.observations.unite(
            entity_id, observations, digests, state, base.restore, base.complete_rows
        )
        file.observations.add(united)
        return united

    def _find(self, name: str, state: State | None) -> tuple[Any, ...] | None:
        """The entity that this one became before (renamed since, maybe), else the one so named."""
        if state is not None:
            row = self.conn.execute(f"{_COLUMNS} id = ?", [state.entity_id]).fetchone()
            if row is not None and (self.never_reused or row[1] == name):
                return tuple(row)
            if row is not None:
                self._disown(state)
        row = self.conn.execute(f"{_COLUMNS} name = ?", [name]).fetchone()
        return None if row is None else tuple(row)

    def _disown(self, state: State) -> None:
        """Its id is another entity's by now: what the source said by that id is void."""
        assert self.baseline is not None
        args = {"source": self.baseline.source_id, "id": state.entity_id}
        self.conn.execute(
            "delete from _limbic_source_relations"
            " where source_id = :source and (from_entity = :id or to_entity = :id)",
            args,
        )
        self.conn.execute(
            "delete from _limbic_source_counts"
            " where source_id = :source and (entity_a_id = :id or entity_b_id = :id)",
            args,
        )
        state.entity_id, state.dirty = 0, True

    def _stay_away(
        self, key: str, state: State, entity: Entity, digests: list[bytes], file: FileSummary
    ) -> None:
        """An entity that was brought before and deleted here since is not brought again."""
        assert self.baseline is not None
        file.entities.removed_here += 1
        file.observations.removed_here += len(entity.observations)
        state.see(entity, digests)
        self.keys.append((self.baseline.import_id, key, None))

    def add_stub(self, name: str) -> int:
        """An entity of which only the name is known."""
        return self._create(Entity(name, None, [], []))

    def _create(self, entity: Entity) -> int:
        entity_id = self.next_id
        self.next_id += 1
        self.names.add(entity.name)
        self.new.add(
            (entity_id, entity.name, entity.entity_type or GENERIC),
            entity.created_at,
            entity.updated_at,
            entity.archived_at,
            entity.archived_reason,
            entity.confidence,
            entity.valid_from,
            entity.valid_to,
        )
        return entity_id

    def _merge(
        self,
        row: tuple[Any, ...],
        entity: Entity,
        line: int,
        file: FileSummary,
        state: State | None,
    ) -> bool:
        """Update the entity where the row knows more; True where anything changed.

        What the row leaves out may stand in another one: see ``_look_later``.
        """
        entity_id, _, kind, created, updated, archived, reason, confidence, start, end, used = row
        kind = self._settle_type(kind, entity, line, file, state)
        if entity.confidence is not None and confidence == 1.0 and entity_id > self.above:
            confidence = entity.confidence
        archived_now = _settle("archived_at", archived, entity, state)
        is_told = reason is None and not _was(state, "archived_at")
        if archived_now is not None and (archived_now != archived or is_told):
            reason = entity.archived_reason
        merged = (
            kind,
            earliest(created, entity.created_at),
            latest(updated, entity.updated_at),
            archived_now,
            reason,
            confidence,
            _settle("valid_from", start, entity, state),
            _settle("valid_to", end, entity, state),
        )
        is_moved = self._moves(entity_id, used, entity.last_activity_at)
        return self._write(row, merged) or is_moved

    def _moves(self, entity_id: int, used: str | None, given: str | None) -> bool:
        """Whether the row moves last_activity_at, which is written at the end of the import."""
        if latest(used, given) == used:
            return False
        row = self.conn.execute(
            "select own from temp._limbic_import_times where entity_id = ?", [entity_id]
        ).fetchone()
        return row is None or latest(row[0], given) != row[0]

    def _write(self, row: tuple[Any, ...], merged: tuple[Any, ...]) -> bool:
        entity_id, old = row[0], row[2:-1]
        if merged == old:
            return False
        self.conn.execute(_UPDATE, [*merged, entity_id])
        # as the triggers would: the text that is embedded changed, and the neighbours' too
        if (merged[0], merged[3], *merged[6:]) != (old[0], old[3], *old[6:]):
            self.stale.append(("entities", entity_id))
        if (merged[3] is None) != (old[3] is None):
            self.stale.extend(
                ("entities", source)
                for (source,) in self.conn.execute(
                    "select from_entity from relations where to_entity = ?", [entity_id]
                )
            )
        return True

    def _settle_type(
        self, kind: str, entity: Entity, line: int, file: FileSummary, state: State | None
    ) -> str:
        given, was, said = entity.entity_type, _was(state, "entity_type"), _said(state)
        if not given or given in (kind, GENERIC):
            return kind
        if said not in (None, GENERIC):
            if given != said:  # the first row stays
                file.type_conflict(line, entity.name, kind, given)
            return kind
        # Generic is the default: it says that nobody gave a type yet
        if kind == GENERIC and was in (None, GENERIC):
            return given
        if kind == was:
            return given  # the source changed its mind, and nobody here did
        if given != was:
            file.type_conflict(line, entity.name, kind, given)
        return kind

    def _look_later(self, key: str, state: State, entity: Entity, file: FileSummary) -> None:
        """Remember what only the end of the source can tell: that it says something no more."""
        assert state.before is not None
        given = fields_of(entity)
        is_less = any(b and not g for b, g in zip(state.before[1:], given[1:], strict=True))
        if not is_less and not (
            entity.replaces and any(text.is_outdated for text in state.texts.values())
        ):
            return
        later = self.later.setdefault(key, _Later(file, self.now, set()))
        if entity.replaces:
            later.at = entity.updated_at or self.now
            later.kinds.update(o.kind for o in entity.observations)

    def _settle_later(self) -> None:
        """Take back what the source took back, where it stands here as the source said it."""
        for key, later in self.later.items():
            assert self.baseline is not None
            state = self.baseline.state(key)
            assert state is not None
            row = self.conn.execute(f"{_COLUMNS} id = ?", [state.entity_id]).fetchone()
            if row is None or state.before is None or state.now is None:
                continue
            replaced = self.observations.replace(state.entity_id, later.kinds, state, later.at)
            kind, created, updated, archived, reason, confidence, start, end = row[2:-1]
            archived_now, start_now, end_now = (
                None if said is None and here == was else here
                for here, was, said in zip(
                    (archived, start, end), state.before[1:], state.now[1:], strict=True
                )
            )
            reason_now = reason if archived_now == archived else None
            merged = (kind, created, updated, archived_now, reason_now, confidence)
            changed = self._write(row, (*merged, start_now, end_now))
            later.file.observations.replaced += replaced
            if (changed or replaced) and not state.counted:
                later.file.entities.updated += 1
                state.counted = True
        self.later.clear()

    def _note_times(self, entity_id: int, entity: Entity) -> None:
        """Its own last activity, and the newest time that the file knows of it."""
        known = [t for t in (entity.created_at, entity.updated_at) if t]
        if not entity.only_texts:
            known += [o.created_at for o in entity.observations if o.created_at]
        if known or entity.last_activity_at:
            newest = max(known) if known else None
            self.times.append((entity_id, entity.last_activity_at, newest))

    def flush(self) -> None:
        """Write everything that waits in batches."""
        self.new.flush(self.conn)
        self.observations.flush()
        if self.baseline is not None:
            self.baseline.flush()
        if self.times:
            self.conn.executemany(_NOTE_TIMES, self.times)
        if self.keys:
            self.conn.executemany(
                "insert or ignore into temp._limbic_import_keys values (?, ?, ?)", self.keys
            )
        for stale in (self.stale, self.observations.stale):
            if stale:
                self.conn.executemany(
                    "insert or ignore into limbic_stale(collection, item_id) values (?, ?)", stale
                )
        for batch in (self.times, self.keys, self.stale, self.observations.stale):
            batch.clear()
        self.names.clear()

    def settle_activity(self) -> None:
        """Move last_activity_at on to what the files know, never back."""
        self.flush()
        updates = []
        for entity_id, own, known, stored in self.conn.execute(
            "select t.entity_id, t.own, t.known, e.last_activity_at"
            " from _limbic_import_times t join entities e on e.id = t.entity_id"
        ):
            newest = latest(stored, own or known)
            if newest != stored:
                updates.append((newest, entity_id))
        self.conn.executemany("update entities set last_activity_at = ? where id = ?", updates)


def _has_sequence(conn: sqlite3.Connection) -> bool:
    """Whether the table counts its ids up for ever; one that was taken over may not."""
    row = conn.execute("select sql from sqlite_master where name = 'entities'").fetchone()
    return "autoincrement" in row[0].lower()


def _highest_id(conn: sqlite3.Connection, has_sequence: bool) -> int:
    found = [conn.execute("select coalesce(max(id), 0) from entities").fetchone()[0]]
    if has_sequence:
        row = conn.execute("select seq from sqlite_sequence where name = 'entities'").fetchone()
        found += [row[0]] if row else []
    return max(int(number) for number in found)


def _was(state: State | None, field: str) -> Any:
    """What an earlier import of the source said of the entity."""
    return None if state is None or state.before is None else getattr(state.before, field)


def _said(state: State | None, field: str = "entity_type") -> Any:
    """What an earlier row of this import said of the entity."""
    return None if state is None or state.now is None else getattr(state.now, field)


def _settle(field: str, ours: Any, entity: Entity, state: State | None) -> Any:
    """A value that may be unknown: filled where nothing is here; of what an earlier import
    brought, changed where the source changed it and nobody here did."""
    theirs, was = getattr(entity, field), _was(state, field)
    if theirs is None or _said(state, field) is not None:
        return ours  # the first row that says it stays
    if was is None:
        return theirs if ours is None else ours
    if field == "archived_at":
        return ours  # still archived there, whatever the date is by now
    return theirs if ours == was else ours
