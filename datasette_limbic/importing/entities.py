"""Writing entities, merged by name with what is there, and the times known of them."""

from __future__ import annotations

from typing import Any

from datasette.utils.sqlite import sqlite3

from ..times import parse_time
from .observations import ObservationWriter
from .items import GENERIC, Entity
from .summary import FileSummary

_BATCH = 5000

_INSERT = """
insert into entities(id, name, entity_type, created_at, updated_at, last_activity_at,
  archived_at, archived_reason, confidence, valid_from, valid_to)
values (?, ?, ?, ?, ?, null, ?, ?, ?, ?, ?)
"""
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


class EntityWriter:
    """Adds entities with their observations, in batches; knows which ids are new."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.observations = ObservationWriter(conn)
        self.above = int(conn.execute("select coalesce(max(id), 0) from entities").fetchone()[0])
        self.next_id = self.above + 1
        self.names: set[str] = set()
        self.new: list[tuple[Any, ...]] = []
        self.times: list[tuple[int, str | None, str | None]] = []
        self.stale: list[tuple[str, int]] = []
        conn.execute(
            "create temp table _limbic_import_times"
            "(entity_id integer primary key, own text, known text)"
        )

    def add(self, entity: Entity, line: int, file: FileSummary) -> None:
        """Create the entity, or merge it into the one of that very name."""
        if entity.name in self.names:
            self.flush()
        row = self.conn.execute(
            "select id, entity_type, created_at, updated_at, archived_at, archived_reason,"
            " confidence, valid_from, valid_to from entities where name = ?",
            [entity.name],
        ).fetchone()
        counts = file.observations
        file.entities.lines += 1
        counts.in_file += len(entity.observations) + len(entity.skipped)
        if entity.skipped:
            file.skip(line, entity.name, entity.skipped)
        if row is None:
            file.entities.created += 1
            entity_id = self._create(entity)
            for observation in entity.observations:
                self.observations.insert(entity_id, observation)
            counts.added += len(entity.observations)
        else:
            file.entities.merged += 1
            entity_id = row[0]
            self._merge(tuple(row), entity, line, file)
            if entity.observations and not self.observations.known(entity_id):
                self.flush()
            added = self.observations.unite(entity_id, entity.observations)
            counts.added += added
            counts.already_there += len(entity.observations) - added
        self._note_times(entity_id, entity)
        if len(self.observations.new) + len(self.new) >= _BATCH:
            self.flush()

    def add_stub(self, name: str) -> None:
        """An entity of which only the name is known."""
        self._create(Entity(name, None, [], []))

    def _create(self, entity: Entity) -> int:
        entity_id = self.next_id
        self.next_id += 1
        self.names.add(entity.name)
        self.new.append(
            (
                entity_id,
                entity.name,
                entity.entity_type or GENERIC,
                entity.created_at,
                entity.updated_at,
                entity.archived_at,
                entity.archived_reason,
                1.0 if entity.confidence is None else entity.confidence,
                entity.valid_from,
                entity.valid_to,
            )
        )
        return entity_id

    def _merge(self, row: tuple[Any, ...], entity: Entity, line: int, file: FileSummary) -> None:
        entity_id, kind, created, updated, archived, reason, confidence, start, end = row
        given = entity.entity_type
        if given and given not in (kind, GENERIC):
            # Generic is the default: it says that nobody gave a type yet
            if kind == GENERIC:
                kind = given
            else:
                file.type_conflict(line, entity.name, kind, given)
        if entity.confidence is not None and confidence == 1.0 and entity_id > self.above:
            confidence = entity.confidence
        merged = (
            entity_id,
            kind,
            earliest(created, entity.created_at),
            latest(updated, entity.updated_at),
            entity.archived_at if archived is None else archived,
            entity.archived_reason if reason is None else reason,
            confidence,
            entity.valid_from if start is None else start,
            entity.valid_to if end is None else end,
        )
        if merged == row:
            return
        self.conn.execute(_UPDATE, [*merged[1:], entity_id])
        # as the triggers would: the text that is embedded changed, and the neighbours' too
        if (merged[1], merged[4], *merged[7:]) != (row[1], row[4], *row[7:]):
            self.stale.append(("entities", entity_id))
        if (merged[4] is None) != (row[4] is None):
            self.stale.extend(
                ("entities", source)
                for (source,) in self.conn.execute(
                    "select from_entity from relations where to_entity = ?", [entity_id]
                )
            )

    def _note_times(self, entity_id: int, entity: Entity) -> None:
        """Its own last activity, and the newest time that the file knows of it."""
        known = [t for t in (entity.created_at, entity.updated_at) if t]
        known += [o.created_at for o in entity.observations if o.created_at]
        if known or entity.last_activity_at:
            newest = max(known) if known else None
            self.times.append((entity_id, entity.last_activity_at, newest))

    def flush(self) -> None:
        """Write everything that waits in batches."""
        if self.new:
            self.conn.executemany(_INSERT, self.new)
        self.observations.flush()
        if self.times:
            self.conn.executemany(_NOTE_TIMES, self.times)
        for stale in (self.stale, self.observations.stale):
            if stale:
                self.conn.executemany(
                    "insert or ignore into limbic_stale(collection, item_id) values (?, ?)", stale
                )
        for batch in (self.new, self.times, self.stale, self.observations.stale):
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
