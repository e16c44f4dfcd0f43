"""One entity as a source has it: what it said before, and what it says now.

Texts are kept as digests, eight bytes for each copy: seven of the digest, and one of flags.
"""

from __future__ import annotations

import marshal
from collections import Counter
from hashlib import blake2b
from typing import NamedTuple

from .items import GENERIC, Entity, Observation

WIDTH = 8
# What a source said of an observation beside its text; GONE: nothing any more.
ENDED, FLAGGED, DATED, KIND, BEGUN, GONE = 1, 2, 4, 8, 16, 32
FLAGS = tuple(bytes([i]) for i in range(2 * GONE))
NO_FLAGS = FLAGS[0]


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
    return found[:7] + FLAGS[flags_of(observation)]


def flags_of(observation: Observation) -> int:
    """What is said of an observation beside its text."""
    _, created, kind, _, start, end, flag, *_ = observation
    return (
        (ENDED if end is not None else 0)
        | (FLAGGED if flag else 0)
        | (DATED if created is not None else 0)
        | (KIND if kind is not None else 0)
        | (BEGUN if start is not None else 0)
    )


class Fields(NamedTuple):
    """What a source says of an entity itself, as far as it can change it later."""

    entity_type: str | None
    archived_at: str | None
    valid_from: str | None
    valid_to: str | None


def fields_of(entity: Entity) -> Fields:
    """What one row says of the entity itself."""
    return Fields(entity.entity_type, entity.archived_at, entity.valid_from, entity.valid_to)


class Text:
    """One text that a source brought: the flags of each of its copies, before and now."""

    __slots__ = ("before", "now")

    def __init__(self, before: bytes = b"", now: bytes = b"") -> None:
        self.before, self.now = bytearray(before), bytearray(now)

    @property
    def is_outdated(self) -> bool:
        """Whether the last import had it and this one does not."""
        return not self.now and any(not flags & GONE for flags in self.before)


class State:
    """One entity as its source has it: before, and as far as this import has read.

    ``before`` is None where no earlier import had it, ``now`` where no row of this one has.
    """

    def __init__(
        self, entity_id: int, import_id: int, fields: Fields, blob: bytes, is_earlier: bool
    ) -> None:
        self.entity_id, self.import_id = entity_id, import_id
        self.stored = digest(blob) if is_earlier else b""
        self.stored_id = entity_id
        self.before = fields if is_earlier else None
        self.now: Fields | None = None if is_earlier else fields
        self.texts: dict[bytes, Text] = {}
        self.dirty = False
        #: whether the entity is counted as created or updated
        self.counted = not is_earlier
        for at in range(0, len(blob), WIDTH):
            text = self.texts.setdefault(blob[at : at + 7], Text())
            (text.before if is_earlier else text.now).append(blob[at + 7])

    @property
    def is_stub(self) -> bool:
        """Whether nothing but the name was known of it."""
        return self.before == Fields(None, None, None, None) and not self.texts

    def see(self, entity: Entity, digests: list[bytes]) -> None:
        """Take in what one row of this import says: the first that says anything counts."""
        old, new = self.now or Fields(None, None, None, None), fields_of(entity)
        archived = new.archived_at if old.archived_at is None else old.archived_at
        if archived is not None and self.before and self.before.archived_at is not None:
            archived = self.before.archived_at  # still archived, whatever the date is by now
        self.now = Fields(
            new.entity_type or old.entity_type
            if old.entity_type in (None, GENERIC)
            else old.entity_type,
            archived,
            new.valid_from if old.valid_from is None else old.valid_from,
            new.valid_to if old.valid_to is None else old.valid_to,
        )
        self.see_texts(entity.observations, digests)

    def see_texts(self, observations: list[Observation], digests: list[bytes]) -> None:
        """Take in more of its observations."""
        self.dirty = True
        copies: Counter[bytes] = Counter()
        for observation, found in zip(observations, digests, strict=True):
            text = self.texts.setdefault(found[:7], Text())
            copy = copies[found]
            copies[found] += 1
            if copy < len(text.now):
                text.now[copy] |= flags_of(observation)
            else:
                text.now.append(flags_of(observation))

    def fields(self, complete_rows: bool) -> Fields | None:
        """What the source says of the entity. What a row left out that may not say all, the
        source is still known to have said."""
        if self.now is None or self.before is None or complete_rows:
            return self.now or self.before
        return Fields(*(b if n is None else n for n, b in zip(self.now, self.before, strict=True)))

    def blob(self, whole: bool = True) -> bytes:
        """All texts. None is forgotten: one that goes from the source and comes back is still
        one that was removed here. ``whole``: what was not seen is gone."""
        found = []
        absent = GONE if whole else 0
        for key, text in sorted(self.texts.items()):
            found += [key + FLAGS[flags] for flags in text.now]
            found += [key + FLAGS[flags | absent] for flags in text.before[len(text.now) :]]
        return b"".join(found)

    def gone(self) -> dict[bytes, Text]:
        """Texts of which an earlier import had more copies than this one."""
        return {key: text for key, text in self.texts.items() if len(text.before) > len(text.now)}

    def pack(self) -> bytes:
        """All of it, to be kept outside the memory."""
        texts = [(key, bytes(text.before), bytes(text.now)) for key, text in self.texts.items()]
        before, now = (None if f is None else tuple(f) for f in (self.before, self.now))
        return marshal.dumps(
            (
                *(self.entity_id, self.import_id, before, now, texts),
                *(self.dirty, self.counted, self.stored, self.stored_id),
            )
        )

    @classmethod
    def unpack(cls, packed: bytes) -> State:
        """The state that ``pack`` gave."""
        entity_id, import_id, before, now, texts, *flags = marshal.loads(packed)
        state = cls(entity_id, import_id, Fields(None, None, None, None), b"", is_earlier=False)
        state.before, state.now = (None if f is None else Fields(*f) for f in (before, now))
        state.dirty, state.counted, state.stored, state.stored_id = flags
        state.texts = {key: Text(*copies) for key, *copies in texts}
        return state
