"""What hangs together more closely than with the rest, found the same way each time.

Louvain finds the better communities, and takes minutes for 100,000 entities; label propagation
takes seconds, and Louvain then joins what that found. Parts of a part are found in the same way,
so that whatever is shown has few parts: the smallest share one where there are too many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .whole import Whole

MOST = 200
"""Entities that are drawn in one picture; more are split."""
ALONE = 40
"""Communities that are always a part of their own."""
SHARED = 20
"""Parts for those that are too many, several in each."""
LOUVAIN = 5_000
"""Entities up to which Louvain looks at each of them: some seconds."""
RESOLUTIONS = (1.0, 4.0, 16.0)
"""Tried in turn: the higher, the smaller the communities."""
TOO_LARGE = 0.9
"""A community with a larger share than this leaves nothing to be seen apart."""
SEED = 8


@dataclass(frozen=True, eq=False)
class Part:
    """``members`` as places in a ``Whole``, lowest first; ``communities`` that share it."""

    members: Any
    communities: int = 1

    def __len__(self) -> int:
        return len(self.members)


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

    within = _within(whole, members)
    for labels in _tried(len(members), *within):
        sizes = numpy.bincount(labels)
        if sizes.max() <= TOO_LARGE * len(members):
            by = numpy.argsort(labels, kind="stable")
            return [members[each] for each in numpy.split(by, numpy.cumsum(sizes)[:-1])]
    return [members[at : at + 1] for at in range(len(members))]


def _within(whole: Whole, members: Any) -> tuple[Any, Any, Any]:
    """Links between ``members``, as places among these."""
    import numpy

    places = numpy.full(len(whole), -1, "i8")
    places[members] = numpy.arange(len(members))
    one, other = places[whole.one], places[whole.other]
    both = (one >= 0) & (other >= 0)
    return one[both], other[both], whole.weight[both]


def _tried(count: int, one: Any, other: Any, weight: Any) -> Any:
    """Labels of each entity, found in one way after the other."""

    if not len(one):
        return
    if count <= LOUVAIN:
        for resolution in RESOLUTIONS:
            yield _louvain(count, one, other, weight, resolution)
        return
    yield _propagated(count, one, other, weight)


def _louvain(count: int, one: Any, other: Any, weight: Any, resolution: float = 1.0) -> Any:
    import networkx

    found = networkx.community.louvain_communities(
        _graph(count, one, other, weight), resolution=resolution, seed=SEED
    )
    return _labels(count, found)


def _propagated(count: int, one: Any, other: Any, weight: Any) -> Any:
    """Label propagation, and Louvain over what it found.

    What very many are linked to would lend all of them its label, and says little of any: it is
    put aside at first, and joins a community with the others of its size.
    """
    import networkx
    import numpy

    linked = numpy.bincount(one, minlength=count) + numpy.bincount(other, minlength=count)
    hub = linked > numpy.sqrt(count)
    kept = ~(hub[one] | hub[other])
    labels = _labels(
        count,
        networkx.community.fast_label_propagation_communities(
            _graph(count, one[kept], other[kept], weight[kept]), weight="weight", seed=SEED
        ),
    )
    groups = int(labels.max()) + 1
    if groups > LOUVAIN * 2:
        return labels
    between, counts = joined(labels, groups, one, other, weight)
    inner = labels[one] == labels[other]
    within = numpy.bincount(labels[one[inner]], weights=weight[inner], minlength=groups)
    own = numpy.arange(groups)
    return _louvain(
        groups,
        numpy.concatenate([between[:, 0], own]),
        numpy.concatenate([between[:, 1], own]),
        numpy.concatenate([counts, within.astype("i8")]),
    )[labels]


def joined(labels: Any, groups: int, one: Any, other: Any, weight: Any) -> tuple[Any, Any]:
    """Pairs of different labels that links join, lower first, and the sum of their weights."""
    import numpy

    low, high = numpy.minimum(labels[one], labels[other]), numpy.maximum(labels[one], labels[other])
    apart = low != high
    pairs, at = numpy.unique(low[apart] * groups + high[apart], return_inverse=True)
    sums = numpy.bincount(at, weights=weight[apart], minlength=len(pairs)).astype("i8")
    return numpy.stack([pairs // max(1, groups), pairs % max(1, groups)], axis=1), sums


def _graph(count: int, one: Any, other: Any, weight: Any) -> Any:
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_weighted_edges_from(zip(one.tolist(), other.tolist(), weight.tolist(), strict=True))
    return graph


def _labels(count: int, found: Any) -> Any:
    """The number of each one's community, which are numbered by their lowest member."""
    import numpy

    labels = numpy.zeros(count, "i8")
    for number, each in enumerate(sorted(found, key=min)):
        labels[list(each)] = number
    return labels


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
