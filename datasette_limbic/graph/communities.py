"""What hangs together more closely than with the rest, found the same way each time.

Parts of a part are found in the same way, so that whatever is shown has few parts: the smallest
share one where there are too many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .modularity import louvain
from .whole import Whole

MOST = 200
"""Entities that are drawn in one picture; more are split."""
ALONE = 40
"""Communities that are always a part of their own."""
SHARED = 20
"""Parts for those that are too many, several in each."""
RESOLUTIONS = (1.0, 4.0, 16.0)
"""Tried in turn: the higher, the smaller the communities."""
TOO_LARGE = 0.9
"""A community with a larger share than this leaves nothing to be seen apart."""


@dataclass(frozen=True, eq=False)
class Part:
    """``members`` as places in a ``Whole``, lowest first; ``communities`` that share it."""

    members: Any
    communities: int = 1
    _parts: list[list[Part]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.members)

    def parts(self, whole: Whole) -> list[Part]:
        """The parts of this one, found once."""
        if not self._parts:
            self._parts.append(parts(whole, self.members))
        return self._parts[0]


def parts(whole: Whole, members: Any) -> list[Part]:
    """Two or more parts of which each of ``members`` is in one, the largest first.

    Communities that are too many share parts, those of similar size. None where so few entities
    can be drawn by themselves. Deterministic.
    """
    if len(members) <= MOST:
        return []
    ordered = _ordered(whole, communities(whole, members))
    found = [Part(each) for each in ordered]
    if len(found) <= ALONE + SHARED:
        return found
    return found[:ALONE] + _shared(ordered[ALONE:])


def communities(whole: Whole, members: Any) -> list[Any]:
    """The communities among ``members``, as arrays of places, in no order that means anything.

    Where nothing stands apart, as in a star, each entity is one.
    """
    import numpy

    one, other, weight = whole.among(members)
    for resolution in RESOLUTIONS if len(one) else ():
        labels = louvain(len(members), one, other, weight, resolution)
        sizes = numpy.bincount(labels)
        if sizes.max() <= TOO_LARGE * len(members):
            by = numpy.argsort(labels, kind="stable")
            return [members[each] for each in numpy.split(by, numpy.cumsum(sizes)[:-1])]
    return [members[at : at + 1] for at in range(len(members))]


def moved(found: Sequence[Part], before: Whole, after: Whole) -> list[Part]:
    """The same parts of another ``Whole`` with the same ``links``, whose places may be others."""
    return [
        Part(after.linked[before.linked.searchsorted(part.members)], part.communities)
        for part in found
    ]


def _ordered(whole: Whole, found: Sequence[Any]) -> list[Any]:
    """The largest first, of equal ones that with the entity that is linked to most.

    Not that of the most important one: what is found stays so while relations do.
    """
    import numpy

    linked = whole.neighbours
    first = numpy.array([each.min() for each in found])
    most = numpy.array([linked[each].max() for each in found])
    sizes = numpy.array([len(each) for each in found])
    return [found[at] for at in numpy.lexsort((first, -most, -sizes))]


def _shared(found: Sequence[Any]) -> list[Part]:
    """Communities put together, in their order, so that each part has about as many entities."""
    import numpy

    upto = numpy.cumsum([len(each) for each in found])
    part = numpy.minimum(SHARED - 1, (upto - 1) * SHARED // upto[-1])
    pieces = [
        [each for each, number in zip(found, part.tolist(), strict=True) if number == wanted]
        for wanted in range(SHARED)
    ]
    return [Part(numpy.sort(numpy.concatenate(each)), len(each)) for each in pieces if each]
