"""What a text states that another may contradict: numbers, dates, negations and names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from datasette_limbic.stop_words import STOP_WORDS
from datasette_limbic.text import fold, word_tokens

from . import vocabulary as v

LOOKED_AT = 20_000
"""Characters of a text that are looked at, but for whether two texts are the same."""
PREFIX = 5
"""Names of which one begins with the other, of so many letters, are the same name."""

_PIECE = re.compile(
    r"""[^\W_](?:[\w’'+#]|-(?=\w))*
    |[,;:.!?&|/](?=\s)|[&|/]
    |(?<=\s)(?:[<>]=?|[≤≥→←]|[-=]>)(?=\s)""",
    re.VERBOSE,
)
_POSSESSIVE = re.compile(r"['’]s?$")


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
    bounds: dict[tuple[str, str], str]
    """What is said to be at least (``low``) or at most (``high``) so much: ("50", "low")."""
    signs: frozenset[str]
    """Symbols that have an opposite, such as thumbs up."""

    # asked once for each pair that a text is in

    @cached_property
    def known(self) -> frozenset[str]:
        """Words and names."""
        return self.words | self.names.keys()

    @cached_property
    def date_parts(self) -> frozenset[str]:
        """Years, months and days of its dates."""
        return frozenset(str(part) for date in self.dates for part in date if part is not None)

    @cached_property
    def units(self) -> dict[str, set[str | None]]:
        """The units of each number, None where it is said without one."""
        found: dict[str, set[str | None]] = {}
        for number in self.numbers:
            found.setdefault(number.value, set()).add(number.unit)
        return found

    @cached_property
    def opposable(self) -> tuple[str, ...]:
        """The tokens that have an opposite."""
        return tuple(word for word in self.tokens if word in v.OPPOSITES)

    @cached_property
    def opposable_in_place(self) -> tuple[str, ...]:
        """The tokens that have an opposite in some places."""
        return tuple(dict.fromkeys(word for word in self.tokens if word in v.WEAK_OPPOSITES))

    @cached_property
    def turned(self) -> tuple[str, ...]:
        """The words that begin as if with a prefix that turns a word around, in order."""
        return tuple(sorted(word for word in self.words if word.startswith(v.OPPOSING_PREFIXES)))

    @cached_property
    def beginnings(self) -> dict[str, frozenset[str]]:
        """Of each name, what it begins with, of at least ``PREFIX`` letters."""
        return {
            # "ana@one.example" and "ana@two.example" begin alike and are two
            name: frozenset()
            if "@" in name or "://" in name
            else frozenset(name[:end] for end in range(PREFIX, len(name)))
            for name in self.names
        }

    @cached_property
    def _pieces(self) -> tuple[tuple[str, str], ...]:
        pieces: list[tuple[str, str]] = []
        for match in _PIECE.finditer(self.content[:LOOKED_AT]):
            raw = _POSSESSIVE.sub("", match.group())
            word = fold(raw)
            if len(raw) == 1 and raw.isupper() and pieces:
                word = raw  # "service A"; at the start an article
            if word not in v.ARTICLES and (pieces or word not in v.LINKS):
                pieces.append((word if word in STOP_WORDS else stem(word), raw))
        while pieces and pieces[-1][0] in v.CLAUSE_ENDS:
            pieces.pop()
        return tuple(pieces)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Stems of the words in order without articles, and what stands between them: commas,
        ends of sentences, signs of comparison. Stop words are as they are, a single capital
        too."""
        return tuple(word for word, _ in self._pieces)

    @cached_property
    def order_written(self) -> tuple[str, ...]:
        """``order`` as written."""
        return tuple(raw for _, raw in self._pieces)

    @cached_property
    def capitalised(self) -> dict[str, list[str]]:
        """Names that are a word with a capital, by their first 4 letters; the first 20 of each."""
        found: dict[str, list[str]] = {}
        for name, raw in self.names.items():
            if raw.istitle() and raw.isalpha():
                known = found.setdefault(name[:4], [])
                if len(known) < 20:
                    known.append(raw)
        return found

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
