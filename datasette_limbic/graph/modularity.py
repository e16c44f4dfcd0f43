"""Communities of highest modularity, by the method of Louvain, whole arrays at a time.

networkx has the same method, a node at a time: minutes of Python's lock for 100,000 entities,
where this takes a second or two, and finds communities that are as good.
"""

from __future__ import annotations

from typing import Any

SEED = 8
ROUNDS = 12
"""Looks at each node, at most, before what was found is joined."""
TURNS = 4
"""Shares of the nodes that move at the same time: were it all, two could change places for ever."""
REST = 0.002
"""The share of the nodes that may still move where it is left at that."""
ENOUGH = 0.95
"""Where so large a share of the groups remains, no more are joined."""


def louvain(count: int, one: Any, other: Any, weight: Any, resolution: float = 1.0) -> Any:
    """The number of the community of each of ``count`` nodes, which links of a weight join.

    Each pair is there once, none with itself. Deterministic; communities are numbered from 0 by
    their lowest member. The higher ``resolution``, the smaller they are.
    """
    import numpy

    chance = numpy.random.default_rng(SEED)
    labels: Any = numpy.arange(count)
    inner: Any = numpy.zeros(count)
    weight = weight.astype("f8")
    while len(inner):
        before = len(inner)
        found = _moved(one, other, weight, inner, resolution, chance)
        groups, found = _numbered(found)
        labels = found[labels]
        if groups > ENOUGH * before:
            break
        one, other = found[one], found[other]
        same = one == other
        inner = numpy.bincount(found, inner, groups)
        inner += 2 * numpy.bincount(one[same], weight[same], groups)
        pairs, weight = joined(groups, one, other, weight)
        one, other = pairs.T
    return _numbered(labels)[1]


def joined(groups: int, one: Any, other: Any, weight: Any) -> tuple[Any, Any]:
    """Pairs of different groups that links join, lower first, and the sum of their weights."""
    import numpy

    low, high = numpy.minimum(one, other), numpy.maximum(one, other)
    apart = low != high
    pairs, at = numpy.unique(low[apart] * groups + high[apart], return_inverse=True)
    sums = numpy.bincount(at, weight[apart], len(pairs)).astype(weight.dtype)
    return numpy.stack([pairs // max(1, groups), pairs % max(1, groups)], axis=1), sums


def _numbered(labels: Any) -> tuple[int, Any]:
    """How many labels there are, and the same ones numbered in the order of their first places."""
    import numpy

    _, first, at = numpy.unique(labels, return_index=True, return_inverse=True)
    order = numpy.empty(len(first), "i8")
    order[numpy.argsort(first)] = numpy.arange(len(first))
    return len(first), order[at]


def _moved(one: Any, other: Any, weight: Any, inner: Any, resolution: float, chance: Any) -> Any:
    """Labels after each node went to whichever neighbour's group gains most, until few move.

    ``inner`` is the weight within each node, both ways. Of equal groups a node stays in its own,
    or goes to the lowest.
    """
    import numpy

    count = len(inner)
    source, target = numpy.concatenate([one, other]), numpy.concatenate([other, one])
    weights = numpy.concatenate([weight, weight])
    strength = numpy.bincount(source, weights, count) + inner
    per = resolution / max(1.0, float(strength.sum()))
    labels, held = numpy.arange(count), strength.copy()
    waiting = numpy.ones(count, bool)
    for _ in range(ROUNDS):
        turns = chance.integers(0, TURNS, count)
        changed = numpy.zeros(count, bool)
        for turn in range(TURNS):
            moving = waiting & (turns == turn)
            nodes, at = moving.nonzero()[0], moving[source]
            # a node may always stay where it is
            keys, which = numpy.unique(
                numpy.concatenate(
                    [source[at] * count + labels[target[at]], nodes * count + labels[nodes]]
                ),
                return_inverse=True,
            )
            into = numpy.bincount(
                which, numpy.concatenate([weights[at], numpy.zeros(len(nodes))]), len(keys)
            )
            node, label = keys // max(1, count), keys % max(1, count)
            stays = label == labels[node]
            own = strength[node]
            gain = into - own * per * (held[label] - numpy.where(stays, own, 0))
            # rounded, so that sums in another order decide the same
            order = numpy.lexsort((label, ~stays, -numpy.round(gain, 9), node))
            best = order[numpy.unique(node[order], return_index=True)[1]]
            best = best[~stays[best]]
            node, label = node[best], label[best]
            held -= numpy.bincount(labels[node], strength[node], count)
            held += numpy.bincount(label, strength[node], count)
            labels[node] = label
            changed[node] = True
        if changed.sum() <= REST * count:
            break
        waiting = changed.copy()
        waiting[target[changed[source]]] = True
    return labels
