"""The same words in another order: "from MySQL to Postgres" and "from Postgres to MySQL"."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from datasette_limbic.stop_words import STOP_WORDS
from datasette_limbic.text import fold

from . import vocabulary as v
from .stated import Stated, stem

# Words of a text that may differ where the rest changes places ("was", "by").
_APART = 6
# Words of a phrase that changes its place.
_PHRASE = 12
# Names of which each is compared with each.
_NAMES = 8

_EQUALS = frozenset(map(stem, v.BETWEEN_EQUALS)) | v.BETWEEN_EQUALS
_TOGETHER = frozenset(map(stem, v.TOGETHER))

Swap = tuple[str, str]
"""``MySQL … Postgres`` and ``Postgres … MySQL``."""


def swapped(one: Stated, other: Stated) -> Swap | None:
    """Two phrases or names that change places and so turn the statement around, as each text has
    them; None where none do or where order says nothing: in a list ("Ana and Luis"), around *is*
    ("the boss is Ana"), between equals ("Ana is married to Luis"), in the passive ("is led by").
    """
    alike = len(one.words ^ other.words) <= _APART
    names = _shared_names(one, other)
    if not alike and len(names) < 2:
        return None  # most pairs; to put a text in order is dear
    a, b = one.order, other.order
    if a == b or min(len(a), len(b)) < 3:
        return None
    if alike:
        exchange = _exchange(a, b)
        if exchange is not None:
            start, first, last, end = exchange
            if _neutral(a[:start], a[first:last], a[end:]):
                return None
            left = " ".join(one.order_written[start:first])
            right = " ".join(one.order_written[last:end])
            return f"{left} … {right}", f"{right} … {left}"
        if _passive_instead(a, b):
            return " ".join(one.order_written), " ".join(other.order_written)
    return _markers(one, other, a, b, names) if 2 <= len(names) <= _NAMES else None


def _exchange(a: Sequence[str], b: Sequence[str]) -> tuple[int, int, int, int] | None:
    """Where X begins and ends, and Y, in a of the form ``p X q Y r`` with b ``p Y q X r``."""
    if len(a) != len(b) or a == b or sorted(a) != sorted(b):
        return None
    start = next(i for i in range(len(a)) if a[i] != b[i])
    end = len(a) - next(i for i in range(len(a)) if a[-1 - i] != b[-1 - i])
    a, b = a[start:end], b[start:end]
    size = len(a)
    most = min(_PHRASE, size - 1)
    firsts = [n for n in range(1, most + 1) if a[:n] == b[size - n :]]
    lasts = [n for n in range(1, most + 1) if b[:n] == a[size - n :]]
    for x, y in itertools.product(firsts, lasts):
        if x + y <= size and a[x : size - y] == b[y : size - x]:
            return start, start + x, end - y, end
    return None


def _neutral(before: Sequence[str], between: Sequence[str], after: Sequence[str]) -> bool:
    """Whether it says nothing which of two phrases is named first."""
    middle = list(between)
    # "on Monday this, on Friday that": the second "on" belongs to what changes places
    for tail in reversed(before):
        if not middle or middle[-1] != tail:
            break
        middle.pop()
    for head in after:
        if not middle or middle[0] != head:
            break
        middle.pop(0)
    if middle and all(word in v.LINKS for word in middle):
        return True
    if not between:
        return True
    middle = middle or list(between)
    if middle[0] in v.LINKS and middle[-1] in v.LINKS:  # "A, B and C"
        return True
    if any(word in _EQUALS for word in (*middle, *before[-2:])):
        return True
    if middle[-1] in ("with", "con") and any(word in _TOGETHER for word in middle):
        return True
    if all(word in v.COPULAS for word in middle):
        return not before or before[-1] not in v.PREPOSITIONS
    return False


def _passive_instead(a: Sequence[str], b: Sequence[str]) -> bool:
    """ "A calls B" and "A is called by B": the same order is another statement there."""
    if _is_passive(a) == _is_passive(b) or any(word in _EQUALS for word in a):
        return False
    mine, yours = (
        [word for word in each if word not in STOP_WORDS and word not in v.COPULAS]
        for each in (a, b)
    )
    return mine == yours and len(mine) >= 3


def _is_passive(order: Sequence[str]) -> bool:
    return any(
        word in ("by", "por") and any(each in v.COPULAS for each in order[max(0, i - 3) : i])
        for i, word in enumerate(order)
    )


def _shared_names(one: Stated, other: Stated) -> set[str]:
    """Stems of names of both; a first word is one where the other text has it as a name."""
    mine, yours = one.names.keys(), other.names.keys()
    shared = {stem(name) for name in mine & yours}
    for each, names in ((one, yours), (other, mine)):
        if each.first is not None and fold(each.first) in names:
            shared.add(stem(fold(each.first)))
    return shared


def _markers(
    one: Stated, other: Stated, a: Sequence[str], b: Sequence[str], names: set[str]
) -> Swap | None:
    """Two names whose words before them change places: "to A from B", "from A to B"."""
    before, again = _before(a, names), _before(b, names)
    both = [name for name in before if name in again]
    for x, y in itertools.combinations(both, 2):
        if before[x] == before[y] or (before[x], before[y]) != (again[y], again[x]):
            continue
        pair = {before[x], before[y]}
        if pair & v.LINKS or ("" in pair and pair & v.COPULAS):
            continue
        if any(word in _EQUALS for word in a):
            continue
        return _in_order(one, x, y), _in_order(other, x, y)
    return None


def _before(order: Sequence[str], names: set[str]) -> dict[str, str]:
    """The word before each of the names that is there once; '' at the start of a clause."""
    times = Counter(word for word in order if word in names)
    found: dict[str, str] = {}
    for i, word in enumerate(order):
        if times[word] == 1:
            previous = order[i - 1] if i else ""
            found[word] = "" if previous in v.CLAUSE_ENDS else previous
    return found


def _in_order(text: Stated, x: str, y: str) -> str:
    """``from MySQL … to Postgres``: both with the word before them."""
    i, j = sorted((text.order.index(x), text.order.index(y)))
    return " … ".join(" ".join(text.order_written[max(0, k - 1) : k + 1]) for k in (i, j))
