"""What a report raises for a person to decide, and what tells whether that is news."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ..answers import plain
from ..config import Settings
from ..text import short as in_one_line

KINDS = ("contradiction", "duplicate", "name_clash", "bridge", "split", "archive_candidate")
"""In the order of the queue: what may be false first, then what is there twice, then the rest."""
SHOWN = 20
"""Rows of one insight that are shown; all of them are counted."""
CUT = 600
"""Characters of an observation that are shown."""
_KEY = re.compile(rf"({'|'.join(KINDS)})(:-?\d+)+")


@dataclass(frozen=True)
class Looking:
    """When the reports are looked at, and with what."""

    now: str
    """UTC, as SQLite writes it."""
    stale_days: float
    stale_max_access: int
    settings: Settings

    def values(self) -> dict[str, Any]:
        """Named parameters of the reports' queries."""
        return {
            "now": self.now,
            "stale_days": self.stale_days,
            "stale_max_access": self.stale_max_access,
        }


@dataclass(frozen=True)
class Raised:
    """One thing that a person is to decide."""

    key: str
    """The same at each run, see ``key_of``."""
    kind: str
    entity_id: int
    title: str
    body: str
    material: Mapping[str, Any]
    """What it rests on, as plain data. Another digest of it means other evidence, so nothing is in
    it that time or counting alone changes: no age, no score, no date of computing."""
    facts: Mapping[str, Any]
    """What a person is shown."""
    action: str
    """What approving does: the name of an action."""
    arguments: Mapping[str, Any]
    """Its arguments; a person may change them before approving."""
    confidence: float
    """0 to 1; each kind says what it means."""

    @property
    def digest(self) -> str:
        """Of ``material``."""
        return digest_of(self.material)

    def evidence(self) -> str:
        """As the column ``evidence`` keeps it."""
        shown = {
            "facts": self.facts,
            "action": self.action,
            "arguments": self.arguments,
            "material": self.material,
        }
        return json.dumps(plain(shown), ensure_ascii=False, allow_nan=False)


Raising = Generator[Raised, None, None]
"""What a report raises, one by one."""


def key_of(kind: str, *ids: int) -> str:
    """``duplicate:17:203``: the kind, then ids that tell one from another.

    They are those of the entity and of observations; a contradiction's are its two observations
    alone, which stay whatever entity they move to. An import brings keys of other forms, see
    ``imported_key`` and ``is_ours``.
    """
    return ":".join([kind, *map(str, ids)])


def is_key(key: Any) -> bool:
    """Whether a key has the form of those that ``key_of`` makes."""
    return isinstance(key, str) and _KEY.fullmatch(key) is not None


def imported_key(key: str, entity: str | None) -> str:
    """Where a finding of another memory's own is kept: its ids mean something else here.

    No report of ours ever makes such a key. ``entity`` is the name of what it is about, so that
    later exports of the same memory find it again, and those of another do not.
    """
    return f"imported:{text_digest(entity or '')}:{key}"


def digest_of(material: Any) -> str:
    """32 hex digits of plain data, whatever the order of its keys."""
    text = json.dumps(plain(material), sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def text_digest(text: str) -> str:
    """12 hex digits that stand for a text in ``material``."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def read_evidence(text: Any) -> Any:
    """What the column ``evidence`` holds; text that is no JSON as it is."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return plain(text)


def is_ours(key: Any, kind: Any, digest: Any, evidence: Any) -> bool:
    """Whether a report of this memory raised an insight, so that its ids are those of rows here.

    ``evidence`` is parsed. What an import merged from elsewhere has a digest of its whole text,
    never that of its material, whatever its key is.
    """
    match = _KEY.fullmatch(key) if isinstance(key, str) else None
    return (
        match is not None
        and match[1] == kind
        and isinstance(evidence, dict)
        and isinstance(evidence.get("material"), dict)
        and digest == digest_of(evidence["material"])
    )


def material_of(evidence: Any) -> dict[str, Any] | None:
    """What an insight rested on, from its parsed evidence; None where that is of another form."""
    found = evidence.get("material") if isinstance(evidence, dict) else None
    return found if isinstance(found, dict) else None


def text_of(value: Any) -> str:
    """A name or content as text, whatever another program put there."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def short(value: Any, length: int = CUT) -> str:
    """A text in one line, cut."""
    return in_one_line(value, length)


def named(name: Any) -> str:
    """A name in single quotes, cut."""
    return f"'{short(name, 80)}'"


def entity_fact(number: int, name: Any, entity_type: Any) -> dict[str, Any]:
    """An entity among the facts."""
    return {"id": number, "name": text_of(name), "entityType": text_of(entity_type)}


def between_0_and_1(value: Any) -> float:
    """A figure that may lie a little outside, or be none; then 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return 0.0
    return min(1.0, max(0.0, float(value)))
