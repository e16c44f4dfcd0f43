"""Opposites that only their place tells: limits, small words such as *up* and *down*, symbols."""

from __future__ import annotations

from collections.abc import Iterator

from datasette_limbic.stop_words import STOP_WORDS

from . import vocabulary as v
from .stated import Stated, stem

# They are read as limits where both texts have such.
_LIMITING = frozenset(word for phrase in v.BOUNDS for word in phrase)
_OTHER_SIDE = {"low": "high", "high": "low"}


def opposed_limits(one: Stated, other: Stated) -> tuple[str, str] | None:
    """``>= 50`` and ``<= 50``, ``at least 5`` and ``up to 5``, as written; else None."""
    for (value, side), raw in one.bounds.items():
        against = (value, _OTHER_SIDE[side])
        own = (value, side) in other.bounds or against in one.bounds
        if against in other.bounds and not own:
            return raw, other.bounds[against]
    return None


def opposed_signs(one: Stated, other: Stated) -> tuple[str, str] | None:
    """A symbol of each, absent from the other, of which one is the opposite of the other."""
    for sign in sorted(one.signs - other.signs):
        for against in sorted(v.SIGNS[sign] & (other.signs - one.signs)):
            return sign, against
    return None


def opposed_in_place(one: Stated, other: Stated) -> tuple[str, str] | None:
    """A word of each that is an opposite there: beside the same word, in texts of which one has
    no other content than the other."""
    for word in one.opposable_in_place:
        if word in other.words or (word in _LIMITING and one.bounds and other.bounds):
            continue
        for against in sorted(v.WEAK_OPPOSITES[word] & other.words):
            if against in one.words:
                continue
            if _beside(one, word) & _beside(other, against) and (
                not _content(one, other, word) or not _content(other, one, against)
            ):
                return word, against
    return None


def crossed(one: Stated, other: Stated, words: tuple[str, str]) -> bool:
    """Whether what is left of the first of two opposites is right of the second, and so both say
    the same: "A is before B", "B is after A"."""
    (left, right), (others_left, others_right) = (
        _around(text, word) for text, word in zip((one, other), words, strict=True)
    )
    crossing = len(left & others_right) + len(right & others_left)
    return crossing > len(left & others_left) + len(right & others_right)


def _around(text: Stated, word: str) -> tuple[frozenset[str], frozenset[str]]:
    """Stems of the content words before the first such word, and after it."""
    at = text.tokens.index(word)
    before, after = (
        frozenset(stem(each) for each in part if each not in STOP_WORDS)
        for part in (text.tokens[:at], text.tokens[at + 1 :])
    )
    return before, after


def _beside(text: Stated, word: str) -> set[tuple[int, str]]:
    return set(_neighbours(text.tokens, word))


def _neighbours(tokens: tuple[str, ...], word: str) -> Iterator[tuple[int, str]]:
    for i, token in enumerate(tokens):
        if token == word:
            yield -1, stem(tokens[i - 1]) if i else ""
            yield 1, stem(tokens[i + 1]) if i + 1 < len(tokens) else ""


def _content(one: Stated, other: Stated, word: str) -> frozenset[str]:
    """Stems of the content words of ``one`` alone, but for ``word``."""
    new = frozenset(stem(each) for each in one.words - STOP_WORDS - other.words if each != word)
    return new - other.stems
