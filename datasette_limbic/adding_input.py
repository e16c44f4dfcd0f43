"""What is asked for when observations are added: checked row by row, so that none spoils another.

The shape is that of MCP server-memory's ``add_observations``, with more where a caller has more
to say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import times
from .errors import BadParameter
from .text import storable

MAX_OBSERVATIONS = 500
"""Observations of one call."""
MAX_TEXT = 1_000_000
"""Characters of one observation."""
MAX_KIND = 100
SHOWN = 200
"""Characters of a rejected text that the answer repeats."""

_ITEM = ("entityName", "id", "contents")
_CONTENT = ("content", "kind", "confidence", "valid_from", "valid_to")


@dataclass(frozen=True)
class New:
    """One observation to add."""

    content: str
    kind: str | None = None
    confidence: float = 1.0
    valid_from: str | None = None
    valid_to: str | None = None


@dataclass(frozen=True)
class Item:
    """What is to be added to one entity."""

    at: int
    """Its place in what was sent, from 0."""
    name: str | None
    id: int | None
    new: tuple[New, ...]

    def rejected(self, error: str, content: Any = None) -> dict[str, Any]:
        """A row of the answer's ``rejected``."""
        return _rejected(self.at, self.name, self.id, error, content)


@dataclass
class Asked:
    """The items that may be added, and what is wrong with the rest."""

    items: list[Item] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)


def read(items: Any) -> Asked:
    """Check what was sent: a list of {entityName or id, contents}.

    Raises BadParameter where it is no list, is empty, or holds over MAX_OBSERVATIONS; whatever is
    wrong with a single item or text stands in ``rejected``.
    """
    if not isinstance(items, (list, tuple)):
        raise BadParameter(
            f'observations is {items!r:.60}: use a list, as in [{{"entityName": "Atlas", '
            '"contents": ["…"]}]'
        )
    if not items:
        raise BadParameter(
            'nothing to add: give observations, as in [{"entityName": "Atlas", "contents": ["…"]}]'
        )
    count = sum(len(each) for each in map(_contents, items))
    if max(count, len(items)) > MAX_OBSERVATIONS:
        raise BadParameter(
            f"{max(count, len(items)):,} observations were sent: at most {MAX_OBSERVATIONS} are "
            "added at once, so send the rest in another request"
        )
    asked = Asked()
    for at, item in enumerate(items):
        _read_item(asked, at, item)
    return asked


def _contents(item: Any) -> list[Any]:
    found = item.get("contents") if isinstance(item, Mapping) else None
    return list(found) if isinstance(found, (list, tuple)) else []


def _read_item(asked: Asked, at: int, item: Any) -> None:
    if not isinstance(item, Mapping):
        asked.rejected.append(
            _rejected(at, None, None, f"{item!r:.60} is no object with entityName and contents")
        )
        return
    name, entity_id, error = _entity(item)
    contents = item.get("contents")
    unknown = _unknown(item, _ITEM)
    if unknown:
        error = error or f"unknown key {unknown}: an item takes {', '.join(_ITEM)}"
    elif isinstance(contents, str):
        error = error or "contents is one text: put it into a list"
    elif not isinstance(contents, (list, tuple)):
        error = error or f"contents is {contents!r:.60}: use a list of texts"
    elif not contents:
        error = error or "contents is empty: give at least one text"
    if error:
        asked.rejected.append(_rejected(at, name, entity_id, error))
        return
    good = []
    for each in _contents(item):
        try:
            good.append(_new(each))
        except ValueError as problem:
            shown = each.get("content") if isinstance(each, Mapping) else each
            asked.rejected.append(_rejected(at, name, entity_id, str(problem), shown))
    if good:
        asked.items.append(Item(at, name, entity_id, tuple(good)))


def _entity(item: Mapping[str, Any]) -> tuple[str | None, int | None, str | None]:
    """Name, id, and what is wrong with them."""
    name, entity_id = item.get("entityName"), item.get("id")
    if name is not None and not isinstance(name, str):
        return None, None, f"entityName is {name!r:.60}: use the entity's name as text"
    name = None if name is None else storable(name)
    if entity_id is None:
        return name, None, None if name is not None else "which entity? give entityName, or id"
    if isinstance(entity_id, bool) or not isinstance(entity_id, int):
        return name, None, f"id is {entity_id!r:.60}: use the entity's id, a whole number"
    if not -(2**63) <= entity_id < 2**63:
        return name, None, "id is no id of an entity: it is too large"
    return name, entity_id, None


def _new(value: Any) -> New:
    """Raises ValueError with what is wrong."""
    given = {"content": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        raise ValueError(f"{value!r:.60} is no text: use a text, or an object with content")
    unknown = _unknown(given, _CONTENT)
    if unknown:
        raise ValueError(
            f"unknown key {unknown}: an observation takes {', '.join(_CONTENT)}, and its times "
            "of creation and change are set here"
        )
    content = given.get("content")
    if not isinstance(content, str):
        raise ValueError(f"content is {content!r:.60}: use a text")
    if len(content) > MAX_TEXT:
        raise ValueError(
            f"the text has {len(content):,} characters, and at most {MAX_TEXT:,} are kept: "
            "cut it into several observations"
        )
    content = clean(content)
    if all(c == "\ufffd" or c.isspace() for c in content):
        raise ValueError("the text is empty: say something")
    begins, ends = (_time(name, given.get(name)) for name in ("valid_from", "valid_to"))
    if begins is not None and ends is not None and ends <= begins:
        raise ValueError(f"valid_to is {ends}, not after valid_from, which is {begins}")
    return New(content, _kind(given.get("kind")), _confidence(given), begins, ends)


def clean(content: str) -> str:
    """Text as SQLite can hold and search it: NUL, where its functions stop reading, and half a
    surrogate pair become U+FFFD."""
    return storable(content).replace("\0", "\ufffd")


def _kind(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_KIND:
        raise ValueError(f"kind is {value!r:.60}: use a text of up to {MAX_KIND} characters")
    return clean(value.strip())


def _confidence(given: Mapping[str, Any]) -> float:
    value = given.get("confidence")
    if value is None:
        return 1.0
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not 0 <= value <= 1
        or not math.isfinite(value)
    ):
        raise ValueError(f"confidence is {value!r:.60}: use a number from 0 to 1")
    return float(value)


def _time(name: str, value: Any) -> str | None:
    if value is None:
        return None
    found = times.to_sql(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(
            f"{name} is {value!r:.60}: use a time such as 2026-03-01 or 2026-03-01T09:30:00Z"
        )
    return found


def _unknown(given: Mapping[str, Any], known: tuple[str, ...]) -> str:
    return ", ".join(sorted(f"{key!s:.40}" for key in given if key not in known)[:5])


def _rejected(
    at: int, name: str | None, entity_id: int | None, error: str, content: Any = None
) -> dict[str, Any]:
    row: dict[str, Any] = {"item": at, "entityName": name}
    if entity_id is not None:
        row["entity_id"] = entity_id
    if isinstance(content, str):
        row["content"] = clean(content[:SHOWN])
    return {**row, "error": clean(error)}
