"""What two texts state differently."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from datasette_limbic.text import fold, word_tokens

from . import vocabulary as v
from .opposites import crossed, opposed_in_place, opposed_limits, opposed_signs
from .order import swapped
from .stated import PREFIX, Number, Stated, stem


class Difference(NamedTuple):
    """A value of each of two texts that the other does not hold."""

    kind: str
    """``date``, ``number``, ``limit``, ``name``, ``negation``, ``opposite``, ``order``, or the
    attribute that has two values."""
    one: str
    other: str
    values: int = 1
    """Values that each of the two has and the other has not, of the one that has fewer; of names
    1, since only the first of each is looked for."""

    def __str__(self) -> str:
        return self.kind if self.kind == "negation" else f"{self.kind}: {self.one} / {self.other}"


def differences(one: Stated, other: Stated) -> list[Difference]:
    """What each of the two states and the other does not, of the same sort; empty where one only
    adds to the other."""
    attribute = _attribute_difference(one, other)
    if attribute is not None:
        return [attribute]
    compared = (_date_difference, _number_difference, _negation_difference, _name_difference)
    found = [each for compare in compared if (each := compare(one, other)) is not None]
    if not found and (turned := _order_difference(one, other)) is not None:
        found.append(turned)
    return found


def differ(one: Stated, other: Stated) -> bool:
    """Whether ``differences`` finds any: for pairs of which no more is asked, what is found
    soonest first."""
    return any(
        compare(one, other) is not None
        for compare in (
            _attribute_difference,
            _name_difference,
            _number_difference,
            _date_difference,
            _negation_difference,
            _order_difference,
        )
    )


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
    if not (one.dates or one.rhythms) or not (other.dates or other.rhythms):
        return None
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
    limits = opposed_limits(one, other)
    if limits is not None and _turned(one, other) is None:
        return Difference("limit", *limits)
    if not one.numbers or not other.numbers:
        return None
    mine, yours = _new_numbers(one, other), _new_numbers(other, one)
    if mine and yours and one.numbers[mine[0]] == other.numbers[yours[0]]:
        # "5 GB" and "5 MB"
        return _difference(
            "number", [f"{n.value} {n.unit}" for n in mine], [f"{n.value} {n.unit}" for n in yours]
        )
    return _difference("number", [one.numbers[n] for n in mine], [other.numbers[n] for n in yours])


def _new_numbers(one: Stated, other: Stated) -> list[Number]:
    parts, units = other.date_parts, other.units
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
    mine, yours = _new_name(one, other), _new_name(other, one)
    if mine is None and yours is None:
        # a sentence's first word may be a name; it counts where all the rest is the same
        if (
            one.first
            and other.first
            and len(one.words) > 3
            and one.mould[1:] == other.mould[1:]
            and one.tokens[1:] == other.tokens[1:]
            and not same_name(fold(one.first), fold(other.first))
            and not spelled_alike(one.first, other.first)
        ):
            return Difference("name", one.first, other.first)
        return None
    return None if mine is None or yours is None else Difference("name", mine, yours)


def _new_name(one: Stated, other: Stated) -> str | None:
    """The first name of ``one`` that ``other`` does not hold, as written."""
    known = other.known
    for name, raw in one.names.items():
        if (
            name not in known
            and one.beginnings[name].isdisjoint(known)
            and not (len(name) >= PREFIX and one.joined_names[name] in other.joined)
            and not any(spelled_alike(raw, each) for each in other.capitalised.get(name[:4], ()))
        ):
            return raw
    return None


def same_name(one: str, other: str) -> bool:
    """Equal, or one of at least ``PREFIX`` letters begins the other; both folded."""
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= PREFIX and long.startswith(short))


def spelled_alike(one: str, other: str) -> bool:
    """Whether two names may be one in two languages (Lisbon, Lisboa; London, Londres): words with
    a capital that share at least 4 letters and more than half, and end in 1 to 3 others. Not those
    that differ in -a and -o alone: Mariana and Mariano are two."""
    if not (one.istitle() and other.istitle() and one.isalpha() and other.isalpha()):
        return False
    one_folded, other_folded = fold(one), fold(other)
    if one_folded[:4] != other_folded[:4]:
        return False
    same = itertools.takewhile(
        lambda both: both[0] == both[1], zip(one_folded, other_folded, strict=False)
    )
    shared = len(list(same))
    rests = {one_folded[shared:], other_folded[shared:]}
    most = max(len(one_folded), len(other_folded))
    return (
        shared >= 4
        and 2 * shared > most
        and rests != {"a", "o"}
        and all(1 <= len(rest) <= 3 for rest in rests)
    )


def _order_difference(one: Stated, other: Stated) -> Difference | None:
    if opposed_in_place(one, other) is not None:
        return None  # "A is before B", "B is after A"
    found = swapped(one, other)
    return None if found is None else Difference("order", *found)


def _negation_difference(one: Stated, other: Stated) -> Difference | None:
    """One says no where the other says yes. Not where a limit is turned around too: "up to 5 are
    allowed", "over 5 are not allowed"."""
    return _turned(one, other) if opposed_limits(one, other) is None else None


def _turned(one: Stated, other: Stated) -> Difference | None:
    """One is the other turned around: by a negation or by the opposite word, not by both
    ("dislikes", "does not like")."""
    opposite = _opposite(one, other)
    if opposite is not None and not v.NEGATIONS.isdisjoint(opposite):
        # "always" and "never": the opposite is the negation, of what both speak of
        return Difference("opposite", *opposite) if _negated_apart(one, other) else None
    in_place = opposed_in_place(one, other)
    if _negated_apart(one, other):
        return None if opposite or in_place else Difference("negation", "", "")
    if in_place is not None and not crossed(one, other, in_place):
        opposite = opposite or in_place
    opposite = opposite or opposed_signs(one, other)
    return Difference("opposite", *opposite) if opposite else None


def _negated_apart(one: Stated, other: Stated) -> bool:
    if one.negations == other.negations:
        return False
    mine, yours = one.negated - other.negated, other.negated - one.negated
    turned = {stem(w) for pair in [_opposite(one, other)] if pair for w in pair}
    return bool(mine & (other.stems | turned) or yours & (one.stems | turned))


def _opposite(one: Stated, other: Stated) -> tuple[str, str] | None:
    """A word of each, absent from the other, of which one is the opposite of the other."""
    for word in one.opposable:
        if word not in other.words:
            for against in v.OPPOSITES[word]:
                if against in other.words and against not in one.words:
                    return word, against
    for word, against in _prefixed(one, other):
        return word, against
    for against, word in _prefixed(other, one):
        return word, against
    return None


def _prefixed(plain: Stated, turned: Stated) -> Iterator[tuple[str, str]]:
    """Words of ``plain`` alone that are in ``turned``, in any inflection, after a prefix that turns
    them around; in order."""
    prefixed = [word for word in turned.turned if word not in plain.words]
    if not prefixed:
        return
    stems = {stem(word): word for word in sorted(plain.words - turned.words) if len(word) > 3}
    for word in prefixed:
        for prefix in v.OPPOSING_PREFIXES:
            found = stems.get(stem(word[len(prefix) :])) if word.startswith(prefix) else None
            if found is not None:
                yield found, word
