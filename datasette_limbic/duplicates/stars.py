"""A cluster of duplicates as merges that lose nothing: one that stays, and those that it says.

A cluster hangs together through pairs, so two of its texts may be far apart. One that is kept
stands only for those that it makes a pair with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from datasette_limbic.text import normalise

from .clusters import Cluster
from .model import Observation, Pair, earlier_first

Star = tuple[int, list[int]]
"""The id of the one that is kept, and of those that go, ascending."""


def stars(
    cluster: Cluster,
    observations: Sequence[Observation],
    says: Callable[[int, int], bool],
) -> list[Star]:
    """The suggested survivor with all that it says; of the rest again the longest, and so on.

    ``observations`` are at least those of the cluster; ``says(kept, other)`` tells whether the
    one may stand for the other (``by_pairs`` makes such a function). Those that nothing longer
    says are in none.
    """
    known = {each.id: each for each in observations}
    left = [known[i] for i in cluster.ids]
    kept = known[cluster.survivor_id]
    found = []
    while left:
        removed = [each.id for each in left if each is not kept and says(kept.id, each.id)]
        if removed:
            found.append((kept.id, removed))
        gone = {kept.id, *removed}
        left = [each for each in left if each.id not in gone]
        if left:
            kept = _longest(left)
    return found


def by_pairs(
    pairs: Iterable[Pair], observations: Iterable[Observation]
) -> Callable[[int, int], bool]:
    """``says`` by pairs that were found: each of the same text stands for all of them, since
    only one of them is compared with others."""
    texts = {each.id: normalise(each.content) for each in observations}
    alike = {
        frozenset((texts[p.earlier_id], texts[p.later_id]))
        for p in pairs
        if p.kind == "duplicate" and p.earlier_id in texts and p.later_id in texts
    }

    def says(kept: int, other: int) -> bool:
        return texts[kept] == texts[other] or frozenset((texts[kept], texts[other])) in alike

    return says


def _longest(some: Sequence[Observation]) -> Observation:
    found = some[0]
    for each in some[1:]:
        if len(each.content) > len(found.content):
            found = each
        elif len(each.content) == len(found.content):
            found = earlier_first(found, each)[0]
    return found
