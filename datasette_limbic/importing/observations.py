"""Writing observations: new ones in batches, known ones united with what is there."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Any

from datasette.utils.sqlite import sqlite3

from .items import Observation

# Texts remembered (as digests) of entities that are merged, over all of them.
_REMEMBERED = 100_000

_INSERT = """
insert into observations(id, entity_id, content, created_at, kind, confidence,
  valid_from, valid_to, similarity_flag)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_FILL = """
update observations set created_at = coalesce(created_at, ?), kind = coalesce(kind, ?),
  valid_from = coalesce(valid_from, ?), valid_to = coalesce(valid_to, ?)
where id = ?
"""
# Which columns are NULL, as bits.
_GAPS = """
select id, content, (created_at is null) + 2 * (kind is null)
  + 4 * (valid_from is null) + 8 * (valid_to is null)
from observations where entity_id = ? order by id
"""
_VALIDITY = 4 + 8


class ObservationWriter:
    """Adds observations; knows which ids are new and which vectors went stale.

    An observation is told by its entity and its text. A line's own repetitions are kept, but
    no import makes more copies of a text than one line of it holds or the database has.
    """

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.above = int(
            conn.execute("select coalesce(max(id), 0) from observations").fetchone()[0]
        )
        self.next_id = self.above + 1
        self.new: list[tuple[Any, ...]] = []
        self.fills: list[tuple[Any, ...]] = []
        self.stale: list[tuple[str, int]] = []
        # per merged entity: digest of a text -> its rows, as [id, gaps]
        self.texts: OrderedDict[int, dict[bytes, list[list[int]]]] = OrderedDict()
        self.remembered = 0

    def insert(self, entity_id: int, observation: Observation) -> int:
        """Add one, whatever is there."""
        observation_id = self.next_id
        self.next_id += 1
        content, created, kind, confidence, start, end, flag = observation
        belief = 1.0 if confidence is None else confidence
        self.new.append(
            (observation_id, entity_id, content, created, kind, belief, start, end, flag)
        )
        return observation_id

    def known(self, entity_id: int) -> bool:
        """Whether the entity's texts are remembered, those that wait in a batch included."""
        return entity_id in self.texts

    def unite(self, entity_id: int, observations: list[Observation]) -> int:
        """Add those that are not there, fill what was unknown of the others.

        Nothing of an entity that is not ``known`` may wait in a batch. Returns how many were added.
        """
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
            rows.append([self.insert(entity_id, observation), _gaps_of(observation)])
            self.remembered += 1
            added += 1
        return added

    def _fill(self, entity_id: int, stored: list[int], observation: Observation) -> None:
        useful = stored[1] & ~_gaps_of(observation)
        if not useful:
            return
        stored[1] &= ~useful
        _, created, kind, _, start, end, _ = observation
        self.fills.append((created, kind, start, end, stored[0]))
        if useful & _VALIDITY:  # decides whether the text is part of what is embedded
            self.stale.append(("observations", stored[0]))
            self.stale.append(("entities", entity_id))

    def _texts_of(self, entity_id: int) -> dict[bytes, list[list[int]]]:
        """Digests of the entity's observations, from memory or from the database."""
        if entity_id in self.texts:
            self.texts.move_to_end(entity_id)
            return self.texts[entity_id]
        while self.texts and self.remembered > _REMEMBERED:
            _, dropped = self.texts.popitem(last=False)
            self.remembered -= sum(len(rows) for rows in dropped.values())
        found: dict[bytes, list[list[int]]] = {}
        for observation_id, content, gaps in self.conn.execute(_GAPS, [entity_id]):
            found.setdefault(_digest(content), []).append([observation_id, gaps])
            self.remembered += 1
        self.texts[entity_id] = found
        return found

    def flush(self) -> None:
        """Write what waits; the entities must be there already."""
        if self.new:
            self.conn.executemany(_INSERT, self.new)
            self.new.clear()
        if self.fills:
            self.conn.executemany(_FILL, self.fills)
            self.fills.clear()


def _digest(content: object) -> bytes:
    data = content if isinstance(content, bytes) else str(content).encode("utf-8", "replace")
    return blake2b(data, digest_size=16).digest()


def _gaps_of(observation: Observation) -> int:
    _, created, kind, _, start, end, _ = observation
    return (created is None) + 2 * (kind is None) + 4 * (start is None) + 8 * (end is None)
