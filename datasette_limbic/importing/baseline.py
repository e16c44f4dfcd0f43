"""What a source brought when it was last imported, so that importing it again is a sync.

Three states are compared: the source then, the source now, the memory now. What the source did
not change is left as it is here, so a person's corrections and deletions stay; what it changed
is taken over where nobody changed it here.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Any, NamedTuple

from datasette.utils.sqlite import sqlite3

from .batches import Inserts
from .items import Entity, Observation
from .source import Source

WIDTH = 8
ENDED, FLAGGED = 1, 2
# Texts remembered of entities that come again, over all of them.
_REMEMBERED = 100_000
_FLAGS = tuple(bytes([i]) for i in range(4))
_NO_FLAGS = _FLAGS[0]

_UPSERT = """
insert into _limbic_source_entities(source_id, key, entity_id, import_id, entity_type,
  archived_at, valid_from, valid_to, observations)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict(source_id, key) do update set entity_id = excluded.entity_id,
  import_id = excluded.import_id, entity_type = excluded.entity_type,
  archived_at = excluded.archived_at, valid_from = excluded.valid_from,
  valid_to = excluded.valid_to, observations = excluded.observations
"""


def digest(content: object) -> bytes:
    """16 bytes that stand for a text."""
    data = content if isinstance(content, bytes) else str(content).encode("utf-8", "replace")
    return blake2b(data, digest_size=16).digest()


def digests(entity: Entity) -> list[bytes]:
    """Digests of its observations."""
    if entity.only_texts:
        return [
            blake2b(o[0].encode("utf-8", "replace"), digest_size=16).digest()
            for o in entity.observations
        ]
    return [digest(o.content) for o in entity.observations]


def brief(found: bytes, observation: Observation) -> bytes:
    """What is kept of an observation: seven bytes of its digest, and its flags."""
    return found[:7] + _FLAGS[_flags_of(observation)]


def _flags_of(observation: Observation) -> int:
    return (ENDED if observation.valid_to is not None else 0) | (FLAGGED if observation.flag else 0)


class Fields(NamedTuple):
    """What a source says of an entity itself, as far as it can change it later."""

    entity_type: str | None
    archived_at: str | None
    valid_from: str | None
    valid_to: str | None


class Text:
    """One text that a source brought: how often and with what flags, before and now."""

    __slots__ = ("count", "flags", "now", "now_flags")

    def __init__(self, count: int = 0, flags: int = 0) -> None:
        self.count, self.flags, self.now, self.now_flags = count, flags, 0, 0


class State:
    """One entity as its source has it: before, and as far as this import has read.

    ``before`` is None where no earlier import had it.
    """

    def __init__(
        self, entity_id: int, import_id: int, fields: Fields, blob: bytes, is_earlier: bool
    ) -> None:
        self.entity_id, self.import_id = entity_id, import_id
        self.before = fields if is_earlier else None
        self.now: Fields | None = None if is_earlier else fields
        self.texts: dict[bytes, Text] = {}
        self.dirty = False
        #: whether the entity is counted as created or updated
        self.counted = not is_earlier
        for at in range(0, len(blob), WIDTH):
            text = self.texts.setdefault(blob[at : at + 7], Text(0, 3))
            text.count += 1
            text.flags &= blob[at + 7]

    def see(self, entity: Entity, digests: list[bytes]) -> None:
        """Take in what one row of this import says."""
        given = Fields(entity.entity_type, entity.archived_at, entity.valid_from, entity.valid_to)
        if self.now is None:
            self.now = given
        else:  # a second row: what the first one said stays
            self.now = Fields(
                *(new if old is None else old for old, new in zip(self.now, given, strict=True))
            )
        self.see_texts(entity.observations, digests)

    def see_texts(self, observations: list[Observation], digests: list[bytes]) -> None:
        """Take in more of its observations."""
        self.dirty = True
        counts: dict[bytes, int] = {}
        for observation, found in zip(observations, digests, strict=True):
            text = self.texts.setdefault(found[:7], Text())
            counts[found] = counts.get(found, 0) + 1
            text.now = max(text.now, counts[found])
            text.now_flags = _flags_of(observation)

    def blob(self) -> bytes:
        """All texts. None is forgotten: one that goes from the source and comes back is still
        one that was removed here."""
        return b"".join(
            (key + _FLAGS[text.now_flags if text.now else text.flags]) * max(text.count, text.now)
            for key, text in sorted(self.texts.items())
        )

    def gone(self) -> int:
        """How many texts an earlier import had and this one did not."""
        if self.before is None:
            return 0
        return sum(max(0, text.count - text.now) for text in self.texts.values())


class Baseline:
    """The last known state of one source. ``restore`` forgets what is not here any more."""

    def __init__(
        self, conn: sqlite3.Connection, source: Source, import_id: int, restore: bool = False
    ) -> None:
        self.conn, self.import_id, self.restore = conn, import_id, restore
        self.complete_rows = source.complete_rows
        location = blake2b(str(source.path.resolve()).encode("utf-8", "replace"), digest_size=16)
        self.source_id = int(
            conn.execute(
                "insert into _limbic_sources(location, name, format, import_id)"
                " values (?, ?, ?, ?) on conflict(location) do update set"
                " name = excluded.name, format = excluded.format, import_id = excluded.import_id"
                " returning id",
                [location.hexdigest(), storable(source.path.name), source.format, import_id],
            ).fetchall()[0][0]
        )
        #: whether this source was imported before; else only this import's own rows are there
        self.known = (
            conn.execute(
                "select 1 from _limbic_source_entities where source_id = ? limit 1",
                [self.source_id],
            ).fetchone()
            is not None
        )
        self.pending: dict[str, tuple[Any, ...]] = {}
        self.evicted: dict[str, tuple[Any, ...]] = {}
        self.new = Inserts(
            "_limbic_source_entities",
            ("source_id", "key", "entity_id", "import_id", "observations"),
            dict.fromkeys(Fields._fields, "null"),
        )
        self.states: OrderedDict[str, State] = OrderedDict()
        self.remembered = 0
        self.gone_texts = 0

    def state(self, key: str) -> State | None:
        """The entity as an earlier import, or earlier rows of this one, had it."""
        if key in self.states:
            self.states.move_to_end(key)
            return self.states[key]
        waiting = self.pending.pop(key, None) or self.evicted.pop(key, None)
        row = (
            waiting
            or self.conn.execute(
                "select source_id, key, entity_id, import_id, entity_type, archived_at,"
                " valid_from, valid_to, observations from _limbic_source_entities"
                " where source_id = ? and key = ?",
                [self.source_id, key],
            ).fetchone()
        )
        if row is None:
            return None
        _, _, entity_id, import_id, *fields, blob = row
        while self.states and self.remembered > _REMEMBERED:
            self._forget()
        state = State(entity_id, import_id, Fields(*fields), blob, import_id != self.import_id)
        state.dirty = waiting is not None
        self.remembered += len(state.texts)
        self.states[key] = state
        return state

    def note(self, key: str, entity_id: int, entity: Entity, digests: list[bytes]) -> None:
        """Keep what the source says of an entity of which nothing was known before."""
        fields = (entity.entity_type, entity.archived_at, entity.valid_from, entity.valid_to)
        if entity.only_texts:
            blob = b"".join([found[:7] + _NO_FLAGS for found in sorted(digests)])
        elif len(set(digests)) == len(digests):
            blob = b"".join(sorted(map(brief, digests, entity.observations)))
        else:
            state = State(entity_id, self.import_id, Fields(*fields), b"", is_earlier=False)
            state.see_texts(entity.observations, digests)
            blob = state.blob()
        self.pending[key] = (self.source_id, key, entity_id, self.import_id, *fields, blob)

    def _forget(self) -> None:
        key, state = self.states.popitem(last=False)
        self.remembered -= len(state.texts)
        self.gone_texts += state.gone()
        if state.dirty:
            self.evicted[key] = self._row(key, state)

    def _row(self, key: str, state: State) -> tuple[Any, ...]:
        fields = state.now or state.before
        assert fields is not None
        return (self.source_id, key, state.entity_id, self.import_id, *fields, state.blob())

    def flush(self) -> None:
        """Write what waits."""
        for source_id, key, entity_id, import_id, *fields, blob in self.pending.values():
            self.new.add((source_id, key, entity_id, import_id, blob), *fields)
        self.new.flush(self.conn)
        rows = [*self.evicted.values()]
        for key, state in self.states.items():
            if state.dirty:
                rows.append(self._row(key, state))
                state.dirty = False
        self.conn.executemany(_UPSERT, rows)
        self.pending.clear()
        self.evicted.clear()

    def gone(self) -> tuple[int, int]:
        """How many entities, and observations of those that stayed, an earlier import had and
        this one did not. To be asked once, at the end."""
        while self.states:
            self._forget()
        self.flush()
        row = self.conn.execute(
            "select count(*) from _limbic_source_entities where source_id = ? and import_id < ?",
            [self.source_id, self.import_id],
        ).fetchone()
        return int(row[0]), self.gone_texts


def storable(name: str) -> str:
    """A file name may hold bytes that are no text."""
    return name.encode("utf-8", "replace").decode("utf-8")
