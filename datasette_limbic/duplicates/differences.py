"""What two texts state differently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from datasette_limbic.text import fold, word_tokens

from . import vocabulary as v
from .stated import Number, Stated, stem

PREFIX = 5
"""Names of which one begins with the other, of so many letters, are the same name."""


class Difference(NamedTuple):
    """A value of each of two texts that the other does not hold."""

    kind: str
    """``date``, ``number``, ``name``, ``negation``, ``opposite``, or the attribute that has two
    values."""
    one: str
    other: str
    values: int = 1
    """Values that each of the two has and the other has not, of the one that has fewer."""

    def __str__(self) -> str:
        return self.kind if self.kind == "negation" else f"{self.kind}: {self.one} / {self.other}"


def differences(one: Stated, other: Stated) -> list[Difference]:
    """What each of the two states and the other does not, of the same sort; empty where one only
    adds to the other."""
    attribute = _attribute_difference(one, other)
    if attribute is not None:
        return [attribute]
    compared = (_date_difference, _number_difference, _negation_difference, _name_difference)
    return [found for compare in compared if (found := compare(one, other)) is not None]


def _attribute_difference(one: Stated, other: Stated) -> Difference | None:
    mine, yours = one.attribute, other.attribute
    if mine is None or yours is None or mine[0] != yours[0]:
        return None
    short, long = sorted((word_tokens(mine[1]), word_tokens(yours[1])), key=len)
    # "Resolved" and "Resolved in May" are one value
    if long[: len(short)] == short:
        return None
    return Difference(mine[0], mine[1], yours[1])


def _date_difference(one: Stated, other: Stated) -> Difference | None:
    mine = [raw for d, raw in one.dates.items() if not any(d.same(e) for e in other.dates)]
    yours = [raw for d, raw in other.dates.items() if not any(d.same(e) for e in one.dates)]
    if mine and yours:
        return _difference("date", mine, yours)
    mine = [raw for key, raw in one.rhythms.items() if key not in other.rhythms]
    yours = [raw for key, raw in other.rhythms.items() if key not in one.rhythms]
    return _difference("date", mine, yours)


def _difference(kind: str, mine: list[str], yours: list[str]) -> Difference | None:
    if not mine or not yours:
        return None
    return Difference(kind, mine[0], yours[0], min(len(mine), len(yours)))


def _number_difference(one: Stated, other: Stated) -> Difference | None:
    mine, yours = _new_numbers(one, other), _new_numbers(other, one)
    if mine and yours and one.numbers[mine[0]] == other.numbers[yours[0]]:
        # "5 GB" and "5 MB"
        return _difference(
            "number", [f"{n.value} {n.unit}" for n in mine], [f"{n.value} {n.unit}" for n in yours]
        )
    return _difference("number", [one.numbers[n] for n in mine], [other.numbers[n] for n in yours])


def _new_numbers(one: Stated, other: Stated) -> list[Number]:
    parts = {str(part) for date in other.dates for part in date if part is not None}
    units: dict[str, set[str | None]] = {}
    for number in other.numbers:
        units.setdefault(number.value, set()).add(number.unit)
    return [
        number
        for number in one.numbers
        if number.value not in parts
        # a unit that only one of the two names says nothing
        and not (
            (found := units.get(number.value))
            and (number.unit is None or None in found or number.unit in found)
        )
    ]


def _name_difference(one: Stated, other: Stated) -> Difference | None:
    mine, yours = _new_names(one, other), _new_names(other, one)
    if not (mine or yours):
        # a sentence's first word may be a name; it counts where all the rest is the same
        if (
            one.first
            and other.first
            and len(one.words) > 3
            and one.mould[1:] == other.mould[1:]
            and one.tokens[1:] == other.tokens[1:]
            and not same_name(fold(one.first), fold(other.first))
        ):
            return Difference("name", one.first, other.first)
        return None
    return _difference("name", mine, yours)


def _new_names(one: Stated, other: Stated) -> list[str]:
    words, names = other.words, other.names
    return [
        raw
        for name, raw in one.names.items()
        if name not in words
        and name not in names
        and not any(name[:end] in words or name[:end] in names for end in range(PREFIX, len(name)))
        and not (len(name) >= PREFIX and one.joined_names[name] in other.joined)
    ]


def same_name(one: str, other: str) -> bool:
    """Equal, or one of at least ``PREFIX`` letters begins the other; both folded."""
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= PREFIX and long.startswith(short))


def _negation_difference(one: Stated, other: Stated) -> Difference | None:
    """One says no where the other says yes: by a negation or by the opposite word, not by both
    ("dislikes", "does not like")."""
    opposite = _opposite(one, other)
    if _negated_apart(one, other):
        return None if opposite else Difference("negation", "", "")
    return Difference("opposite", *opposite) if opposite else None


def _negated_apart(one: Stated, other: Stated) -> bool:
    if one.negations == other.negations:
        return False
    shared = one.stems & other.stems
    shared |= {stem(w) for pair in [_opposite(one, other)] if pair for w in pair}
    return bool((one.negated ^ other.negated) & shared)


def _opposite(one: Stated, other: Stated) -> tuple[str, str] | None:
    """A word of each, absent from the other, of which one is the opposite of the other."""
    mine, yours = one.words - other.words, other.words - one.words
    for word in one.tokens:
        if word in mine:
            for against in v.OPPOSITES.get(word, ()):
                if against in yours:
                    return word, against
    for word, against in _prefixed(mine, yours):
        return word, against
    for against, word in _prefixed(yours, mine):
        return word, against
    return None


def _prefixed(plain: frozenset[str], turned: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Words of ``plain`` that are in ``turned``, in any inflection, after a prefix that turns
    them around; in order."""
    prefixed = sorted(word for word in turned if word.startswith(v.OPPOSING_PREFIXES))
    if not prefixed:
        return
    stems = {stem(word): word for word in sorted(plain) if len(word) > 3}
    for word in prefixed:
        for prefix in v.OPPOSING_PREFIXES:
            found = stems.get(stem(word[len(prefix) :])) if word.startswith(prefix) else None
            if found is not None:
                yield found, word
