"""The rule for two texts: the same, saying something different of the same thing, or neither."""

from __future__ import annotations

from typing import NamedTuple

from datasette_limbic.stop_words import STOP_WORDS

from .differences import Difference, differ, differences
from .model import LENGTH_RATIO, MIN_WORDS, Thresholds
from .reading import read
from .stated import Stated, stem

OVERLAP = 0.6
"""Texts that share so many of the words of the one that has more may contradict each other by
wording."""


class Verdict(NamedTuple):
    """What two texts are to each other; see ``Pair``."""

    kind: str
    rule: str
    difference: str | None = None


def containment_of(one: Stated, other: Stated) -> float | None:
    """``text_containment`` of the part of both that is looked at."""
    if not one.words or not other.words:
        return None
    return len(one.words & other.words) / min(len(one.words), len(other.words))


def judge(
    one: str | Stated,
    other: str | Stated,
    cosine: float | None,
    containment: float | None,
    thresholds: Thresholds,
) -> Verdict | None:
    """What two texts are to each other, or None. Symmetric but for the order of ``difference``.

    ``cosine`` is that of their vectors (None where one has none), ``containment`` that of
    ``containment_of``.

    The same text after normalising is a duplicate. Otherwise texts are alike by cosine, by
    containment (one at least twice as long), or by wording (most words shared, and the same
    but for values or order, or worth a look by cosine). Alike texts that differ in a value are a
    contradiction, unless they are records of a series; so are those in which names or phrases
    change places. Texts without a word are the same only where they are equal. Those the same but
    for one content word (peanuts, cats) are at most worth a look: no cosine tells synonyms from
    opposites.
    """
    a = read(one) if isinstance(one, str) else one
    b = read(other) if isinstance(other, str) else other
    if a.normal == b.normal:
        return Verdict("duplicate", "exact")
    if not a.words or not b.words:
        return None  # symbols alone have a vector that says nothing
    close = cosine is not None and cosine >= thresholds.cosine
    near = cosine is not None and cosine >= thresholds.lowest
    held = _held(a, b, containment, thresholds)
    attribute = a.attribute and b.attribute and a.attribute[0] == b.attribute[0]
    worded = attribute or (
        not (close or held)
        and (near or a.mould == b.mould or a.words == b.words)
        and _overlap(a, b) >= OVERLAP
    )
    if not (close or held or worded):
        # worth a look at most, and only where the two do not differ
        return Verdict("look", "cosine") if near and not differ(a, b) else None
    rule = "cosine" if close else "containment" if held else "wording"
    found = differences(a, b)
    if found:
        if is_series(a, b, found):
            return None
        return Verdict("contradiction", rule, "; ".join(map(str, found)))
    if (close or held) and not one_word_apart(a, b):
        return Verdict("duplicate", rule)
    return Verdict("look", "cosine") if near else None


def _held(a: Stated, b: Stated, containment: float | None, thresholds: Thresholds) -> bool:
    """Whether the longer text holds the shorter one."""
    if containment is None or containment < thresholds.containment:
        return False
    short, long = sorted((a, b), key=lambda each: len(each.content))
    if len(long.content) < LENGTH_RATIO * len(short.content) or len(short.tokens) < MIN_WORDS:
        return False
    # "in the", "has a": that the same small words are in both says nothing
    content = {stem(word) for word in short.words - STOP_WORDS}
    shared = content & long.stems
    return len(shared) >= thresholds.containment * len(content)


def _overlap(a: Stated, b: Stated) -> float:
    more = max(len(a.words), len(b.words))
    return len(a.words & b.words) / more if more else 0.0


def is_series(a: Stated, b: Stated, found: list[Difference]) -> bool:
    """Whether two texts that differ are records of a series ("Task 15 completed"), rather than
    one statement that changed: their labels differ, or more than one figure does. What has one
    value at a time ("Status: open") is no record."""
    if a.attribute and b.attribute and a.attribute[0] == b.attribute[0]:
        return False
    if a.labels and b.labels and not a.labels & b.labels:
        return True
    return sum(each.values for each in found if each.kind in ("date", "number")) > 1


def one_word_apart(a: Stated, b: Stated) -> bool:
    """Whether two texts are the same, word for word, but for one content word each."""
    if len(a.tokens) != len(b.tokens):
        return False
    apart = [(x, y) for x, y in zip(a.tokens, b.tokens, strict=True) if x != y]
    content = [(x, y) for x, y in apart if x not in STOP_WORDS or y not in STOP_WORDS]
    return len(content) == 1 and stem(content[0][0]) != stem(content[0][1])
