"""Writing entities and their observations, merged with what is there by name."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..times import parse_time
from .rows import GENERIC, Entity, Observation
from .summary import FileSummary

_BATCH = 5000
# Contents remembered (as digests) of entities that are merged, over all of them.
_REMEMBERED = 100_000

_INSERT_ENTITY = """
insert into entities(id, name, entity_type, created_at, updated_at, last_activity_at,
  archived_at, archived_reason, confidence, valid_from, valid_to)
values (?, ?, ?, ?, ?, null, ?, ?, ?, ?, ?)
"""
_INSERT_OBSERVATION = """
insert into observations(id, entity_id, content, created_at, kind, confidence,
  valid_from, valid_to, similarity_flag)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_FILLABLE = ("created_at", "kind", "valid_from", "valid_to")


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
    """Adds entities in batches; knows which ids are new and what the file knows of times.

    An observation is told by its entity and its text. A line's own repetitions are kept, but
    no import makes more copies of a text than one line of it holds or the database has.
    """

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.above_entity = self._last_id("entities")
        self.above_observation = self._last_id("observations")
        self.next_entity = self.above_entity + 1
        self.next_observation = self.above_observation + 1
        self.names: set[str] = set()
        self.new_entities: list[tuple[Any, ...]] = []
        self.new_observations: list[tuple[Any, ...]] = []
        self.fills: list[tuple[Any, ...]] = []
        self.times: list[tuple[int, str | None, str | None]] = []
        self.stale: list[tuple[str, int]] = []
        # per merged entity: digest of a text -> its rows, as [id, which columns are NULL]
        self.texts: OrderedDict[int, dict[bytes, list[list[int]]]] = OrderedDict()
        self.remembered = 0
        conn.execute(
            "create temp table _limbic_import_times"
            "(entity_id integer primary key, own text, known text)"
        )

    def _last_id(self, table: str) -> int:
        return int(self.conn.execute(f"select coalesce(max(id), 0) from {table}").fetchone()[0])

    def add(self, entity: Entity, line: int, file: FileSummary) -> None:
        """Create the entity, or merge it into the one of that very name."""
        if entity.name in self.names:
            self.flush()
        row = self.conn.execute(
            "select id, entity_type, created_at, updated_at, archived_at, archived_reason,"
            " confidence, valid_from, valid_to from entities where name = ?",
            [entity.name],
        ).fetchone()
        file.entities.lines += 1
        file.observations.in_file += len(entity.observations) + len(entity.skipped)
        if entity.skipped:
            file.skip(line, entity.name, entity.skipped)
        if row is None:
            entity_id = self._create(entity)
            file.entities.created += 1
            file.observations.added += len(entity.observations)
            for observation in entity.observations:
                self._insert(entity_id, observation)
        else:
            entity_id = row[0]
            file.entities.merged += 1
            self._merge(row, entity, line, file)
            added = self._unite(entity_id, entity.observations)
            file.observations.added += added
            file.observations.already_there += len(entity.observations) - added
        self._note_times(entity_id, entity)
        if len(self.new_observations) + len(self.new_entities) >= _BATCH:
            self.flush()

    def add_stub(self, name: str) -> None:
        """An entity of which only the name is known."""
        self._create(Entity(name, None, [], []))

    def _create(self, entity: Entity) -> int:
        entity_id = self.next_entity
        self.next_entity += 1
        self.names.add(entity.name)
        self.new_entities.append(
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
        if entity.confidence is not None and confidence == 1.0 and entity_id > self.above_entity:
            confidence = entity.confidence
        merged = (
            entity_id,
            kind,
            earliest(created, entity.created_at),
            latest(updated, entity.updated_at),
            archived if archived is not None else entity.archived_at,
            reason if reason is not None else entity.archived_reason,
            confidence,
            start if start is not None else entity.valid_from,
            end if end is not None else entity.valid_to,
        )
        if merged == tuple(row):
            return
        self.conn.execute(
            "update entities set entity_type = ?, created_at = ?, updated_at = ?,"
            " archived_at = ?, archived_reason = ?, confidence = ?, valid_from = ?, valid_to = ?"
            " where id = ?",
            [*merged[1:], entity_id],
        )
        # as the triggers would: the text that is embedded changed, and a neighbour's too
        if (merged[1], merged[4], *merged[7:]) != (row[1], row[4], *row[7:]):
            self.stale.append(("entities", entity_id))
        if (merged[4] is None) != (row[4] is None):
            self.stale.extend(
                ("entities", source)
                for (source,) in self.conn.execute(
                    "select from_entity from relations where to_entity = ?", [entity_id]
                )
            )

    def _insert(self, entity_id: int, observation: Observation) -> int:
        observation_id = self.next_observation
        self.next_observation += 1
        content, created, kind, confidence, start, end, flag = observation
        belief = 1.0 if confidence is None else confidence
        self.new_observations.append(
            (observation_id, entity_id, content, created, kind, belief, start, end, flag)
        )
        return observation_id

    def _unite(self, entity_id: int, observations: list[Observation]) -> int:
        """Add the observations that are not there; fill what was unknown of those that are."""
        if not observations:
            return 0
        texts = self._texts_of(entity_id)
        seen: dict[bytes, int] = {}
        added = 0
        for observation in observations:
            digest = _digest(observation.content)
            rows = texts.setdefault(digest, [])
            copy = seen.get(digest, 0)
            seen[digest] = copy + 1
            if copy < len(rows):
                self._fill(entity_id, rows[copy], observation)
                continue
            rows.append([self._insert(entity_id, observation), _gaps_of(observation)])
            self.remembered += 1
            added += 1
        return added

    def _fill(self, entity_id: int, stored: list[int], observation: Observation) -> None:
        useful = stored[1] & ~_gaps_of(observation)
        if useful:
            stored[1] &= ~useful
            _, created, kind, _, start, end, _ = observation
            self.fills.append((created, kind, start, end, stored[0]))
            if useful & 0b1100:  # validity decides whether the text is embedded
                self.stale.append(("observations", stored[0]))
                self.stale.append(("entities", entity_id))

    def _texts_of(self, entity_id: int) -> dict[bytes, list[list[int]]]:
        """Digests of the entity's observations, from memory or from the database."""
        if entity_id in self.texts:
            self.texts.move_to_end(entity_id)
            return self.texts[entity_id]
        # of an entity that was let go, rows may still wait to be written
        self.flush()
        while self.texts and self.remembered > _REMEMBERED:
            _, dropped = self.texts.popitem(last=False)
            self.remembered -= sum(len(rows) for rows in dropped.values())
        found: dict[bytes, list[list[int]]] = {}
        for row in self.conn.execute(
            "select id, content, (created_at is null) + 2 * (kind is null)"
            " + 4 * (valid_from is null) + 8 * (valid_to is null)"
            " from observations where entity_id = ? order by id",
            [entity_id],
        ):
            found.setdefault(_digest(row[1]), []).append([row[0], row[2]])
            self.remembered += 1
        self.texts[entity_id] = found
        return found

    def _note_times(self, entity_id: int, entity: Entity) -> None:
        """Its own last activity, and the newest time that the file knows of it."""
        known = [t for t in (entity.created_at, entity.updated_at) if t]
        known += [o.created_at for o in entity.observations if o.created_at]
        if known or entity.last_activity_at:
            newest = max(known) if known else None
            self.times.append((entity_id, entity.last_activity_at, newest))

    def flush(self) -> None:
        """Write everything that waits in batches."""
        run = self.conn.executemany
        if self.new_entities:
            run(_INSERT_ENTITY, self.new_entities)
        if self.new_observations:
            run(_INSERT_OBSERVATION, self.new_observations)
        if self.fills:
            sets = ", ".join(f"{column} = coalesce({column}, ?)" for column in _FILLABLE)
            run(f"update observations set {sets} where id = ?", self.fills)
        if self.times:
            run(
                "insert into _limbic_import_times values (?, ?, ?) on conflict do update set"
                " own = coalesce(max(own, excluded.own), own, excluded.own),"
                " known = coalesce(max(known, excluded.known), known, excluded.known)",
                self.times,
            )
        if self.stale:
            run("insert or ignore into limbic_stale(collection, item_id) values (?, ?)", self.stale)
        for batch in (self.new_entities, self.new_observations, self.fills, self.times, self.stale):
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


def _digest(content: object) -> bytes:
    data = content if isinstance(content, bytes) else str(content).encode("utf-8", "replace")
    return blake2b(data, digest_size=16).digest()


def _gaps_of(observation: Observation) -> int:
    _, created, kind, _, start, end, _ = observation
    return (created is None) + 2 * (kind is None) + 4 * (start is None) + 8 * (end is None)
