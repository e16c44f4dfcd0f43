"""Writing entities, merged by name with what is there, and the times known of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from datasette.utils.sqlite import sqlite3

from .activity import Activity
from .baseline import Baseline
from .batches import Inserts
from .items import GENERIC, Entity, Observations
from .later import Later
from .merging import Stored, merged
from .moved import Moved
from .observations import ObservationWriter, United
from .source_state import State, digest
from .source_state import digests as digests_of
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


class Found(NamedTuple):
    """An entity that is here."""

    id: int
    name: str
    stored: Stored
    last_activity_at: str | None


class EntityWriter:
    """Adds entities with their observations, in batches; knows which ids are new."""

    def __init__(self, conn: sqlite3.Connection, now: str, moved: Moved) -> None:
        self.conn, self.now, self.moved = conn, now, moved
        self.observations = ObservationWriter(conn, moved)
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
        self.activity = Activity(conn)
        self.stale: list[tuple[str, int]] = []
        self.keys: list[tuple[int, str, int | None]] = []
        self.baseline: Baseline | None = None
        self.later = Later(now)
        if not self.never_reused:
            self._forget_ids()
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
        if self.baseline is not None:
            self.later.settle(self, self.baseline)
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
            if state is not None and state.entity_id in self.moved.touched:
                self.moved.comes_again(state.entity_id, entity_id)
                self._unite(entity_id, entity, digests, state, file)
            else:
                self.observations.insert_all(entity_id, entity)
                counts.added += len(entity.observations)
        else:
            file.entities.merged += 1
            entity_id = row.id
            ours = entity_id > self.above
            becomes = merged(row.stored, entity, state, is_new=ours, line=line, file=file)
            # last_activity_at is written at the end of the import
            moves = self.activity.moves(entity_id, row.last_activity_at, entity.last_activity_at)
            changed = self.write(row, becomes) or moves
            united = self._unite(entity_id, entity, digests, state, file)
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
                self.later.look(key, state, entity, file)
        if key != (entity.name if row is None else row.name):
            self.keys.append((base.import_id, key, entity_id))
        self.activity.note_row(entity_id, entity)
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
            said = Entity(row.entity, None, row.observations, [])
            united = self._unite(found.id, said, digests, state, file)
            self.activity.note_row(found.id, said)
            if (united.added or united.updated) and not state.counted:
                state.counted = True
                file.entities.updated += 1
        state.see_texts(row.observations, digests)
        if self.observations.new.waiting + self.new.waiting >= _BATCH:
            self.flush()

    def _unite(
        self,
        entity_id: int,
        entity: Entity,
        digests: list[bytes],
        state: State | None,
        file: FileSummary,
    ) -> United:
        assert self.baseline is not None
        observations = entity.observations
        if observations and not self.observations.known(entity_id):
            self.flush()
        base = self.baseline
        united = self.observations.unite(
            entity_id, observations, digests, state, base.restore, base.complete_rows
        )
        file.observations.add(united)
        if united.added and entity_id in self.moved.touched:
            self._sent_on(entity_id, entity, united.added, file)
        return united

    def _sent_on(self, entity_id: int, entity: Entity, added: int, file: FileSummary) -> None:
        """What is new of an entity that was merged into another came to that one."""
        kept = self.moved.takes(entity_id)
        if kept == entity_id:
            return
        self.activity.note_row(kept, Entity(entity.name, None, entity.observations, []))
        file.send_on(entity.name, self.name_of(kept), added)

    def name_of(self, entity_id: int) -> str:
        """The name of an entity that is here."""
        row = self.conn.execute("select name from entities where id = ?", [entity_id]).fetchone()
        return str(row[0])

    def _find(self, name: str, state: State | None) -> Found | None:
        """The entity that this one became before (renamed since, maybe), else the one so named."""
        if state is not None:
            row = self.find_by_id(state.entity_id)
            if row is not None and (self.never_reused or row.name == name):
                return row
            if row is not None:
                self._disown(state)
        return _found(self.conn.execute(f"{_COLUMNS} name = ?", [name]).fetchone())

    def find_by_id(self, entity_id: int) -> Found | None:
        """The entity of that id."""
        return _found(self.conn.execute(f"{_COLUMNS} id = ?", [entity_id]).fetchone())

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

    def write(self, row: Found, becomes: Stored) -> bool:
        """Update the entity; False where it is the same already."""
        here = row.stored
        if becomes == here:
            return False
        self.conn.execute(_UPDATE, [*becomes, row.id])
        # as the triggers would: the text that is embedded changed, and the neighbours' too
        embedded = ("entity_type", "archived_at", "valid_from", "valid_to")
        if any(getattr(becomes, column) != getattr(here, column) for column in embedded):
            self.stale.append(("entities", row.id))
        if (becomes.archived_at is None) != (here.archived_at is None):
            self.stale.extend(
                ("entities", source)
                for (source,) in self.conn.execute(
                    "select from_entity from relations where to_entity = ?", [row.id]
                )
            )
        return True

    def flush(self) -> None:
        """Write everything that waits in batches."""
        self.new.flush(self.conn)
        self.observations.flush()
        if self.baseline is not None:
            self.baseline.flush()
        self.activity.flush()
        if self.keys:
            self.conn.executemany(
                "insert or ignore into temp._limbic_import_keys values (?, ?, ?)", self.keys
            )
        for stale in (self.stale, self.observations.stale):
            if stale:
                self.conn.executemany(
                    "insert or ignore into limbic_stale(collection, item_id) values (?, ?)", stale
                )
        for batch in (self.keys, self.stale, self.observations.stale):
            batch.clear()
        self.names.clear()


def _found(row: Any) -> Found | None:
    return None if row is None else Found(row[0], row[1], Stored(*row[2:10]), row[10])


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
