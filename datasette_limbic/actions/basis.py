"""What a proposal was made from, as a token that goes out with it and comes back with the yes.

The server keeps nothing of what it shows: the token alone tells, when a person approves, which of
the rows are another than they saw.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import itemgetter
from typing import Any

from ..errors import BadParameter
from ..exporting.values import dumps
from ..text import listed

MANY = 1_000
"""Rows of one kind up to which a proposal says which of them is another than it was."""
MAX_BYTES = 16 * 1024 * 1024
# What is found or counted beside a row: it moves by itself and makes no proposal untrue.
_BESIDE = frozenset(("similarity_flag", "updated_at", "last_activity_at"))
_ONE_OF = "one of the "
_SHOWN = ("name", "entity_type", "archived_at", "valid_from", "valid_to", "confidence")
_SAID = {
    "name": "name",
    "entity_type": "type",
    "archived_at": "archived",
    "valid_from": "beginning",
    "valid_to": "end",
    "confidence": "confidence",
}


@dataclass(frozen=True)
class Basis:
    """Digests of rows, and of each entity the values that a person would miss.

    ``members``: entity id → the ids of all of its observations with their digests, where one that
    came meanwhile counts. ``rows``: "observation 3" → digest, of single rows, and of what is only
    missed as a whole, such as "the relations of entity 3".
    """

    entities: Mapping[str, list[Any]] = field(default_factory=dict)
    members: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rows: Mapping[str, str] = field(default_factory=dict)

    def token(self) -> str:
        """The same as text for a form or JSON."""
        raw = json.dumps([self.entities, self.members, self.rows], separators=(",", ":"))
        return base64.urlsafe_b64encode(zlib.compress(raw.encode("utf-8"), 9)).decode("ascii")

    def changes_since(self, earlier: Basis) -> list[str]:
        """What is another than it was, a sentence each; empty where nothing is."""
        found: list[str] = []
        for number, was in earlier.entities.items():
            is_now = self.entities.get(number)
            if is_now is None:
                found.append(f"entity {number} is another one now")
            elif is_now != was:
                found += [
                    f"the {_SAID[column]} of entity {number} was {old!r:.60} and is {new!r:.60}"
                    for column, old, new in zip_longest(_SHOWN, was[: len(_SHOWN)], is_now)
                    if old != new
                ] or [f"entity {number} is another one now"]
        found += [
            f"entity {number} came" for number in self.entities if number not in earlier.entities
        ]
        for number in {**earlier.members, **self.members}:
            was_there, is_there = earlier.members.get(number), self.members.get(number)
            if was_there is None or is_there is None:
                found.append(f"the observations of entity {number} are no part of what was shown")
            else:
                found += _compared(was_there, is_there, "observation")
        earlier_rows, rows = _alike(earlier.rows, self.rows)
        return found + _compared(earlier_rows, rows, "")


def make(
    entities: Iterable[Mapping[str, Any]] = (),
    members: Mapping[int, Iterable[Mapping[str, Any]]] | None = None,
    rows: Mapping[str, Iterable[Mapping[str, Any]]] | None = None,
    together: Mapping[str, Any] | None = None,
) -> Basis:
    """The basis of whole rows: entities, all observations of some entity, single rows by
    what one of them is called; of more than MANY of these, all by one digest.

    ``together``: what is one digest however much it is, by what it is called in a sentence.
    """
    return Basis(
        {str(row["id"]): [_plain(row.get(c)) for c in _SHOWN] for row in entities},
        {
            str(number): {str(row["id"]): digest(row) for row in owned}
            for number, owned in (members or {}).items()
        },
        {
            name: found
            for what, some in (rows or {}).items()
            for name, found in _digests(what, list(some)).items()
        }
        | {what: _digest(value) for what, value in (together or {}).items()},
    )


def _digests(what: str, some: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    if len(some) <= MANY:
        return {f"{what} {row['id']}": digest(row) for row in some}
    # of one table: the columns of the first are those of all
    values = itemgetter(*sorted(some[0].keys() - _BESIDE))
    return {f"{_ONE_OF}{what}s": _hashed(repr([values(row) for row in some]))}


def digest(row: Mapping[str, Any]) -> str:
    """12 hex digits of a row, without what moves by itself."""
    return _digest(facts(row))


def facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without what moves by itself, in order of the names, for a digest."""
    return {name: _plain(row[name]) for name in sorted(row) if name not in _BESIDE}


def _digest(value: Any) -> str:
    return _hashed(dumps(value))


def _hashed(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _alike(
    was: Mapping[str, str], now: Mapping[str, str]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Both without the single rows of a kind that only one of them has as a whole."""
    one_sided = was.keys() ^ now.keys()
    whole = [key.removeprefix(_ONE_OF) for key in one_sided if key.startswith(_ONE_OF)]
    single = tuple(f"{many[:-1]} " for many in whole)

    def alike(rows: Mapping[str, str]) -> Mapping[str, str]:
        return {key: value for key, value in rows.items() if not key.startswith(single)}

    return alike(was), alike(now)


def read(token: Any) -> Basis:
    """The basis of a token. Raises BadParameter where it is none of ours."""
    try:
        unpack = zlib.decompressobj()
        raw = unpack.decompress(base64.urlsafe_b64decode(str(token)), MAX_BYTES)
        if unpack.unconsumed_tail:
            raise ValueError("too long")
        parts = json.loads(raw)
        if not isinstance(parts, list) or len(parts) != 3:
            raise ValueError("not three parts")
        entities, members, rows = parts
        if not all(isinstance(part, dict) for part in (entities, members, rows)):
            raise ValueError("not three objects")
        if not all(isinstance(part, dict) for part in members.values()):
            raise ValueError("members are no objects")
        if not all(isinstance(part, list) for part in entities.values()):
            raise ValueError("entities are no lists")
    except (ValueError, zlib.error, RecursionError) as error:
        raise BadParameter(
            f"basis is {token!r:.40}, which is none of a proposal: look at the proposal again and "
            "send its basis unchanged"
        ) from error
    return Basis(entities, members, rows)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value)
    return value.hex() if isinstance(value, bytes) else value


def _compared(was: Mapping[str, str], now: Mapping[str, str], what: str) -> list[str]:
    groups = (
        ("changed", [key for key, value in was.items() if key in now and now[key] != value]),
        ("went", [key for key in was if key not in now]),
        ("came", [key for key in now if key not in was]),
    )
    return [
        listed([f"{what} {key}".strip() for key in keys]) + f" {verb}"
        for verb, keys in groups
        if keys
    ]
