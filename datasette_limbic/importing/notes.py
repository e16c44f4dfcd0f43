"""Reading single values of a row, and noting what cannot be used."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..times import to_sql


@dataclass
class Notes:
    """What was met and not used: keys without a home, values that cannot be read."""

    extra_keys: Counter[str] = field(default_factory=Counter)
    unreadable: Counter[tuple[str, str]] = field(default_factory=Counter)
    replaced_characters: int = 0
    # entities whose confidence is another here, which stays
    kept_confidence: int = 0
    # rows of the source that have no place here, by what they are ("searches", "reflections")
    not_carried: Counter[str] = field(default_factory=Counter)
    # what else a person should know, in whole sentences
    remarks: list[str] = field(default_factory=list)

    def extras(self, kind: str, left: dict[str, Any]) -> None:
        for key in left:
            self.extra_keys[f"{kind}.{self.text(key)}"[:200]] += 1

    def cannot_read(self, field_name: str, value: object) -> None:
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        self.unreadable[field_name, self.text(shown[:60])] += 1

    def text(self, text: str) -> str:
        """``text`` as SQLite can hold it: a lone surrogate is no character, U+FFFD stands in."""
        if text.isascii():
            return text
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            self.replaced_characters += 1
            # surrogates that form a pair are one character, written in two escapes
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return text


def take(left: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Take the first of the spellings that is there; another one stays, and counts as extra."""
    for name in names:
        if name in left:
            return left.pop(name)
    return None


def text_of(value: object, notes: Notes) -> str | None:
    if isinstance(value, str):
        return notes.text(value)
    if value is None or isinstance(value, (dict, list)):
        return None
    return as_text(value)


def as_text(value: object) -> str:
    """A number as JSON writes it, an object or list as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def time_of(left: dict[str, Any], shown: str, names: tuple[str, ...], notes: Notes) -> str | None:
    for name in names:
        if name in left:
            value = left.pop(name)
            if value is None or value == "":
                continue
            text = to_sql(value)
            if text is None:
                notes.cannot_read(shown, value)
            return text
    return None


def confidence_of(left: dict[str, Any], notes: Notes) -> float | None:
    value = left.pop("confidence", None)
    if value is None:
        return None
    try:
        number = float("nan" if isinstance(value, bool) else value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if 0.0 <= number <= 1.0:
        return number
    notes.cannot_read("confidence", value)
    return None
