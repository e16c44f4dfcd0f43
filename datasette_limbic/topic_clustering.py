"""Grouping texts by several views of them at once, and how much of it is not chance.

A *view* is a matrix with a row per text: its embedding vector, the TF-IDF of its words, that of
pieces of its words. Two texts are near when a short random walk from either, over a graph of each
text's nearest neighbours in every view, ends at the same texts. That lets a text without a word in
common with its topic join it through others, which no single distance does. `python -m benchmarks
--only topics` compares the ways that were tried.

Silhouettes are adjusted for chance, as the adjusted Rand index is: 0 is what the same views, turned
at random, give; 1 is perfect. Unadjusted, a walk makes groups out of anything.

Rotations are too strict in one case: two tight groups with nothing in common in any view vary in a
single direction, and points spread along a line fall into pieces as well. What a person would tell
apart at sight is therefore looked for first.

Sources: similarity graphs of several views, Wang et al. 2014 (Similarity Network Fusion); walks as
a distance, Pons and Latapy 2005; random rotations of data as chance, Langsrud 2005; choosing the
number of groups against chance, Tibshirani et al. 2001 (gap statistic).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

NEIGHBOURS = 4
NEIGHBOURING = 1 / 15
"""The neighbours of a text in each view: this share of all texts, and no fewer than NEIGHBOURS."""
ROTATIONS = 19
"""How often chance is asked with the views turned."""
EXCHANGES = 9
"""How often chance is asked once more, with the words of all texts dealt out anew."""
CLEARLY = 3.0
"""Standard deviations by which chance must be beaten, in both ways of asking it."""
SIGHT = 0.1
"""The plain silhouette (-1 to 1) of groups that are told at sight."""
BETWEEN = 0.01
"""The share of the graph's weight that may lie between groups that are told at sight."""
LANDMARKS = 250
"""Above this many texts, so many are grouped, chosen at random, and the others join them."""
ASKED = 120
"""Above this many texts, chance is asked about so many of them, chosen at random."""
ENOUGH = 0.45
"""The fewest groups are taken that give this share of the most that any number gives: the sum of
the silhouettes of all texts in groups that stand apart, of which there must be two."""


@dataclass(frozen=True)
class Grouping:
    """`labels`: the group of each text (int array (n,), from 0). `silhouettes`: of each text, -1
    to 1, adjusted for chance unless the groups are told at sight. `beats_chance`: whether chance
    groups clearly worse.
    """

    labels: Any
    silhouettes: Any
    beats_chance: bool


def group(
    views: Sequence[Any],
    *,
    min_size: int,
    max_groups: int,
    bar: float,
    exchanged: Callable[[Any, int], Sequence[Any]] | None = None,
) -> Grouping:
    """Group the rows of `views`, each dense or sparse (n, any), rows of length 1 or all zero.

    From 2 to `max_groups` groups, not more than n / `min_size`; one group where that leaves no
    choice. A group stands apart with at least `min_size` rows and a mean silhouette of at least
    `bar` (-1 to 1, adjusted); see ENOUGH for the choice.
    `exchanged(rows, seed)` gives the first of the views again for some rows, with what they hold
    dealt out at random.
    """
    with _one_at_a_time, _blas().limit(limits=1, user_api="blas"):
        return _group(views, min_size, max_groups, bar, exchanged)


_one_at_a_time = threading.Lock()


@lru_cache(maxsize=1)
def _blas() -> Any:
    # The matrices are too small to share among threads: where anything else runs, two threads took
    # up to eight times as long as one. The limit is one of the whole process, hence the lock.
    import scipy.linalg  # noqa: F401  (brings its own BLAS, which must be loaded to be limited)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _group(
    views: Sequence[Any],
    min_size: int,
    max_groups: int,
    bar: float,
    exchanged: Callable[[Any, int], Sequence[Any]] | None,
) -> Grouping:
    import numpy as np

    rows = views[0].shape[0]
    marks = np.arange(rows)
    if rows > LANDMARKS:
        # Seeded: the same rows in the same order give the same answer.
        marks = np.sort(np.random.default_rng(0).permutation(rows)[:LANDMARKS])
    kernels = [_product(view[marks], view[marks]) for view in views]
    most = min(max_groups, len(marks) // min_size)
    if most < 2 or all(_all_alike(kernel) for kernel in kernels):
        return Grouping(np.zeros(rows, dtype=int), np.zeros(rows), False)
    found = _cut(kernels, most, min_size)
    at_sight = _told_at_sight(kernels, found, min_size)
    if at_sight is not None:
        (labels, silhouettes), chance, beaten = at_sight, 0.0, True
    else:
        means, beaten = _against_chance(kernels, found.cuts, marks, most, min_size, bar, exchanged)
        chosen = _choose(found.cuts, means, min_size, bar)
        labels, silhouettes = found.cuts[chosen].labels, found.cuts[chosen].silhouettes
        chance = means[chosen]
    if len(marks) < rows:
        labels, silhouettes = _join(views, marks, found, labels)
    return Grouping(labels, _firm(silhouettes, chance), beaten)


def _choose(cuts: dict[int, _Cut], chance: dict[int, float], min_size: int, bar: float) -> int:
    """The number of groups, 2 or more; see ENOUGH. Where no two groups stand apart in any, the
    number with the highest adjusted value."""
    import numpy as np

    given = {}
    for k in chance:
        cut = cuts[k]
        firm = _firm(cut.silhouettes, chance[k])
        sizes, sums = np.bincount(cut.labels), np.bincount(cut.labels, firm)
        apart = (sizes >= min_size) & (sums >= bar * sizes)
        given[k] = float(sums[apart].sum()) if apart.sum() >= 2 else 0.0
    if not max(given.values()) > 0:
        return max(chance, key=lambda k: _adjust(cuts[k].value, chance[k]))
    return min(k for k in given if given[k] >= ENOUGH * max(given.values()))


def _firm(silhouettes: Any, chance: float) -> Any:
    import numpy as np

    return np.clip(_adjust(silhouettes, chance), -1.0, 1.0)


@dataclass(frozen=True)
class _Cut:
    labels: Any
    silhouettes: Any
    value: float  # their mean over all texts, those in groups below the size counting 0


@dataclass(frozen=True)
class _Walked:
    cuts: dict[int, _Cut]
    graph: Any  # (n, n): the weight between each text and its nearest
    step: Any  # (n, n): where one step leads
    places: Any  # (n, n): square roots of where two steps lead; rows of length 1


def _cut(kernels: Sequence[Any], most: int, min_size: int) -> _Walked:
    """Groups of 2 to `most`, by Ward's method on where walks end."""
    import numpy as np
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    rows = len(kernels[0])
    graph = _graph(kernels)
    degree = np.maximum(graph.sum(axis=1), 1e-6)
    step = graph + np.diag(degree)  # half of each step stays, so that near counts more than far
    step /= step.sum(axis=1, keepdims=True)
    places = np.sqrt(step @ step)
    distance = np.clip(1.0 - places @ places.T, 0.0, None)
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(np.sqrt(2.0 * distance), checks=False), "ward")
    cuts: dict[int, _Cut] = {}
    for count, labels in enumerate(_labels(tree, most), 2):
        silhouettes = _silhouettes(distance, labels)
        large = np.bincount(labels)[labels] >= min_size
        cuts[count] = _Cut(labels, silhouettes, float(silhouettes[large].sum()) / rows)
    return _Walked(cuts, graph, step, places)


def _labels(tree: Any, most: int) -> list[Any]:
    """The labels of 2 to `most` groups of a linkage, from 0.

    The last merges are undone one by one: `fcluster` checks the whole tree for each number of
    groups, which took longer than all else here.
    """
    import numpy as np
    from scipy.cluster.hierarchy import leaves_list

    rows = len(tree) + 1
    leaves = leaves_list(tree)
    labels = np.zeros(rows, dtype=int)
    # node: where its leaves start, how many they are; the latest merge has the highest number
    open_nodes = {2 * rows - 2: (0, rows)}
    found = []
    for new in range(1, most):
        node = max(open_nodes)
        start, size = open_nodes.pop(node)
        left, right = (int(child) for child in tree[node - rows, :2])
        left_size = int(tree[left - rows, 3]) if left >= rows else 1
        open_nodes[left] = (start, left_size)
        open_nodes[right] = (start + left_size, size - left_size)
        labels = labels.copy()
        labels[leaves[start + left_size : start + size]] = new
        found.append(labels)
    return found


def _graph(kernels: Sequence[Any]) -> Any:
    """Each text joined to its nearest in each view; every view weighs the same in all."""
    import numpy as np

    rows = len(kernels[0])
    total = np.zeros_like(kernels[0])
    for kernel in kernels:
        near = _nearest(kernel, rows, itself=True)
        near = np.maximum(near, near.T)
        weight = near.sum(axis=1).mean()
        if weight > 0:
            total += near / weight
    return total


def _nearest(similarity: Any, rows: int, *, itself: bool) -> Any:
    """`similarity` (n, m) with all but the nearest of each row set to 0, and negative ones too.
    `itself`: it is square, and its diagonal counts for nothing."""
    import numpy as np

    count = max(NEIGHBOURS, round(rows * NEIGHBOURING))
    near = np.clip(similarity, 0.0, None)
    if itself:
        np.fill_diagonal(near, 0.0)
    order = np.argsort(-near, axis=1, kind="stable")
    np.put_along_axis(near, order[:, count:], 0.0, axis=1)
    return near


def _silhouettes(distance: Any, labels: Any) -> Any:
    """Each row's silhouette, as scikit-learn's `silhouette_samples`, in a fraction of the time."""
    import numpy as np

    rows = np.arange(len(labels))
    sizes = np.bincount(labels)
    sums = distance @ np.eye(len(sizes))[labels]
    own = sums[rows, labels] / np.maximum(sizes[labels] - 1, 1)
    means = sums / sizes
    means[rows, labels] = np.inf
    other = means.min(axis=1)
    found = (other - own) / np.maximum(np.maximum(other, own), 1e-12)
    found[sizes[labels] == 1] = 0.0
    return found


def _against_chance(
    kernels: Sequence[Any],
    cuts: dict[int, _Cut],
    marks: Any,
    most: int,
    min_size: int,
    bar: float,
    exchanged: Callable[[Any, int], Sequence[Any]] | None,
) -> tuple[dict[int, float], bool]:
    """The value that chance gives to each number of groups, and whether it is clearly beaten.

    A rotation keeps how much varies together and in how many directions, within each view and
    between them, and takes away that texts lie in groups.
    """
    import numpy as np

    rows = len(kernels[0])
    asked = np.arange(rows)
    if rows > ASKED:
        asked = np.sort(np.random.default_rng(0).permutation(rows)[:ASKED])
        kernels = [kernel[np.ix_(asked, asked)] for kernel in kernels]
        min_size = max(1, round(min_size * ASKED / rows))
        most = min(most, ASKED // min_size)
        cuts = _cut(kernels, most, min_size).cuts
    rng = np.random.default_rng(0)
    table = np.array([_turned_values(kernels, most, min_size, rng) for _ in range(ROTATIONS)])
    means = table.mean(axis=0)
    chance = dict(zip(range(2, most + 1), means.tolist(), strict=True))
    best = max(_adjust(cut.value, chance[k]) for k, cut in cuts.items())
    if best < bar or not _clearly(best, _adjust(table, means).max(axis=1)):
        return chance, False
    if exchanged is None:
        return chance, True
    again = [
        _adjust(
            _exchanged_values(kernels, exchanged(marks[asked], seed), seed, most, min_size), means
        ).max()
        for seed in range(EXCHANGES)
    ]
    return chance, _clearly(best, again)


def _clearly(value: float, chance: Any) -> bool:
    """Whether `value` lies more than CLEARLY standard deviations above what chance gave.

    By logarithms of the distance to 1: nothing can lie far above values that are nearly perfect.
    """
    import numpy as np

    short = -np.log(np.maximum(1.0 - np.array([value, *chance]), 1e-6))
    return bool(short[0] > short[1:].mean() + CLEARLY * short[1:].std())


def _values(kernels: Sequence[Any], most: int, min_size: int) -> Any:
    import numpy as np

    return np.array([cut.value for cut in _cut(kernels, most, min_size).cuts.values()])


def _turned_values(kernels: Sequence[Any], most: int, min_size: int, rng: Any) -> Any:
    """The value of each number of groups when all views are turned by one random rotation."""
    turn = _rotation(len(kernels[0]), rng)
    return _values([_turned(kernel, turn) for kernel in kernels], most, min_size)


def _exchanged_values(
    kernels: Sequence[Any], views: Sequence[Any], seed: int, most: int, min_size: int
) -> Any:
    """The value of each number with `views` in place of the first ones and the others turned.

    Words are few in a text and most are in one or two texts, which a rotation does not keep.
    """
    import numpy as np

    turn = _rotation(len(kernels[0]), np.random.default_rng(seed))
    mixed = [_product(view, view) for view in views]
    mixed += [_turned(kernel, turn) for kernel in kernels[len(views) :]]
    return _values(mixed, most, min_size)


def _told_at_sight(kernels: Sequence[Any], found: _Walked, min_size: int) -> tuple[Any, Any] | None:
    """Labels and silhouettes of groups with next to nothing between them, or None: hardly a text
    of one is among the nearest of another's in any view, and in some view they are plainly tight.

    Random texts of one word each have nothing between them either, but are at most .05 tight. A
    text that is not in a tight place itself hangs on by a thread: its silhouette is 0.
    """
    import numpy as np

    graph = found.graph
    for count in sorted(found.cuts, reverse=True):
        labels = found.cuts[count].labels
        members = np.eye(count)[labels]
        within = float(np.einsum("ij,ij->", members, graph @ members))
        if members.sum(axis=0).min() < min_size or within < (1.0 - BETWEEN) * graph.sum():
            continue
        plain = np.array(
            [_silhouettes(np.clip(1.0 - kernel, 0.0, None), labels) for kernel in kernels]
        )
        if plain.mean(axis=1).max() >= SIGHT:
            loose = plain.max(axis=0) < SIGHT / 2
            return labels, np.where(loose, 0.0, found.cuts[count].silhouettes)
    return None


def _rotation(rows: int, rng: Any) -> Any:
    """A random rotation of `rows` dimensions that leaves the mean of the rows where it is."""
    import numpy as np

    random = np.hstack([np.ones((rows, 1)), rng.standard_normal((rows, rows - 1))])
    basis = np.linalg.qr(random)[0][:, 1:]  # of all that is orthogonal to the mean
    return 1.0 / rows + basis @ _plain_basis(rows).T


@lru_cache(maxsize=8)
def _plain_basis(rows: int) -> Any:
    import numpy as np

    return np.linalg.qr(np.hstack([np.ones((rows, 1)), np.eye(rows)[:, 1:]]))[0][:, 1:]


def _turned(kernel: Any, turn: Any) -> Any:
    """The similarities after a rotation; a row that is missing in the view stays missing."""
    import numpy as np

    turned = turn @ kernel @ turn.T
    length = np.sqrt(np.maximum(np.diag(turned), 1e-9))
    turned /= np.outer(length, length)
    missing = np.diag(kernel) <= 0
    turned[missing] = 0.0
    turned[:, missing] = 0.0
    return turned


def _join(views: Sequence[Any], marks: Any, found: _Walked, labels: Any) -> tuple[Any, Any]:
    """Label all rows by the landmarks that walks from them reach; labels and silhouettes."""
    import numpy as np

    rows = views[0].shape[0]
    reach = np.zeros((rows, len(marks)))
    for view in views:
        near = _nearest(_product(view, view[marks]), len(marks), itself=False)
        weight = near.sum(axis=1).mean()
        if weight > 0:
            reach += near / weight
    total = reach.sum(axis=1, keepdims=True)
    places = np.sqrt((reach / np.maximum(total, 1e-12)) @ found.step)
    places[marks] = found.places
    distance = np.clip(1.0 - places @ found.places.T, 0.0, None)
    sizes = np.bincount(labels)
    means = (distance @ np.eye(len(sizes))[labels]) / sizes
    joined = means.argmin(axis=1)
    joined[marks] = labels
    ranked = np.sort(means, axis=1)
    silhouettes = 1.0 - ranked[:, 0] / np.maximum(ranked[:, 1], 1e-12)
    return joined, silhouettes


def _product(one: Any, other: Any) -> Any:
    import numpy as np

    product = one @ other.T
    dense = product.toarray() if hasattr(product, "toarray") else product
    return np.asarray(dense, dtype=np.float64)


def _all_alike(kernel: Any) -> bool:
    """Whether a view tells nothing apart: all rows the same, or all missing."""
    return float(kernel.max() - kernel.min()) < 1e-6


def _adjust(value: Any, chance: Any) -> Any:
    return (value - chance) / (1.0 - chance)
