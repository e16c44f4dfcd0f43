"""What a text states that another may contradict: numbers, dates, negations and names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from datasette_limbic.text import word_tokens

LOOKED_AT = 20_000
"""Characters of a text that are looked at, but for whether two texts are the same."""


class Date(NamedTuple):
    """A day, or as much of it as is said."""

    year: int | None
    month: int | None
    day: int | None

    def same(self, other: Date) -> bool:
        """Whether both may be the same day: nothing said in both differs, and something is."""
        both = [(a, b) for a, b in zip(self, other, strict=True) if a is not None and b is not None]
        return bool(both) and all(a == b for a, b in both)


class Number(NamedTuple):
    """A number as text without separators, and its unit where one is said."""

    value: str
    unit: str | None


@dataclass(frozen=True)
class Stated:
    """One text taken apart. The dictionaries give each value as it is written."""

    content: str
    normal: str
    """``normalise`` of the whole text."""
    tokens: tuple[str, ...]
    words: frozenset[str]
    dates: dict[Date, str]
    rhythms: dict[str, str]
    """Weekdays and frequencies."""
    numbers: dict[Number, str]
    names: dict[str, str]
    """Names, also of files and in code."""
    first: str | None
    """The first word where it has a capital, as written: perhaps a name."""
    negations: int
    negated: frozenset[str]
    """Stems of the words that negations turn around: of each the first content word after it, or
    the last one before it where its clause ends there."""
    labels: frozenset[str]
    """What tells a record from others of its series: ``task 15``, the date it opens with."""
    attribute: tuple[str, str] | None
    """``Status: Open`` as (``status``, ``Open``), of what has one value at a time."""
    mould: tuple[str, ...]
    """The tokens with each value replaced by its kind, without negations."""

    # asked once for each pair that a text is in

    @cached_property
    def joined(self) -> str:
        """All tokens without spaces between them."""
        return "".join(self.tokens)

    @cached_property
    def joined_names(self) -> dict[str, str]:
        """Each name with its words joined, as ``joined`` has them."""
        return {name: "".join(word_tokens(name)) for name in self.names}

    @cached_property
    def stems(self) -> frozenset[str]:
        """``stem`` of each word."""
        return frozenset(map(stem, self.words))


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A word without the endings that its inflection has in English or Spanish; only for
    comparison, and no more than that."""
    for ending in ("ing", "es", "ed", "os", "as", "s", "d", "o", "a", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= (3 if ending == "s" else 4):
            return word[: -len(ending)]
    return word
