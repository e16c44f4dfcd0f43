"""All pairs of observations that are alike, within each entity."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from datasette_limbic.errors import BadParameter
from datasette_limbic.text import normalise, word_tokens

from .candidates import by_cosine, by_words
from .model import Observation, Pair, Thresholds, earlier_first
from .reading import attribute_of, read
from .rules import OVERLAP, containment_of, judge
from .series import SERIES, of_a_series, without_series
from .stated import LOOKED_AT, Stated

# Products of another shape are summed in another order: who is near is said by the cosine itself.
_ROUNDING = 1e-5

Progress = Callable[[int, int, str], None]


def find_pairs(
    observations: Sequence[Observation],
    vectors: Any,
    thresholds: Thresholds,
    *,
    progress: Progress | None = None,
    only: Collection[int] | None = None,
) -> list[Pair]:
    """Duplicates, contradictions and pairs worth a look, by entity, then ids.

    ``only`` are ids of observations: then pairs of those alone, the same as all would hold.

    ``vectors`` are those of the observations in the same order, unit length, (n, d) float32, a
    row of NaN where there is none; None where no observation has one: then texts are compared by
    their words alone. ``progress(done, total, stage)`` is called in the stages ``cosine``,
    ``words`` and ``judged``.

    The result is bounded by the number of observations. Of texts that are the same (``exact``),
    each later one makes a pair with the earliest, not with all the others, and that one stands
    for them all in the other comparisons. Each text is judged against the 20 nearest
    (``candidates.NEAREST``) by cosine and the 20 most alike by words. Of texts over 20,000
    characters only so many are looked at, except for whether two are the same.

    Raises BadParameter where ``vectors`` has another length than ``observations``.
    """
    import numpy as np

    matrix = None
    if vectors is not None:
        matrix = np.asarray(vectors, dtype=np.float32)
        if matrix.ndim != 2 or len(matrix) != len(observations):
            raise BadParameter(
                f"vectors has the shape {matrix.shape} for {len(observations)} observations:"
                " use a row for each, of NaN where there is none"
            )
    groups = _same_texts(observations)
    found = [*_exact(observations, groups, matrix)]
    found += _alike(observations, groups, matrix, thresholds, progress, only)
    if only is not None:
        found = [pair for pair in found if pair.earlier_id in only or pair.later_id in only]
    return sorted(found, key=lambda pair: (pair.entity_id, pair.earlier_id, pair.later_id))


def _same_texts(observations: Sequence[Observation]) -> list[list[int]]:
    """Rows of each different text of each entity, the earliest first; by entity, then row."""
    groups: dict[tuple[int, str], list[int]] = defaultdict(list)
    for i, each in enumerate(observations):
        groups[each.entity_id, normalise(each.content)].append(i)
    for members in groups.values():
        if len(members) > 1:
            earliest = members[0]
            for i in members[1:]:
                if earlier_first(observations[earliest], observations[i])[0] is observations[i]:
                    earliest = i
            members.remove(earliest)
            members.insert(0, earliest)
    return sorted(groups.values(), key=lambda rows: (observations[rows[0]].entity_id, rows[0]))


def _exact(
    observations: Sequence[Observation], groups: list[list[int]], matrix: Any
) -> Iterator[Pair]:
    for earliest, *others in groups:
        if others:
            words = frozenset(word_tokens(observations[earliest].content[:LOOKED_AT]))
            for i in others:
                one, other = earlier_first(observations[earliest], observations[i])
                cosine = None if matrix is None else _known(float(matrix[earliest] @ matrix[i]))
                yield Pair(
                    one.entity_id, one.id, other.id, "duplicate", "exact", cosine,
                    1.0 if words else None, None,
                )  # fmt: skip


def _known(cosine: float) -> float | None:
    """A cosine within -1 to 1, as rounding may leave it a little outside; None for NaN."""
    return None if math.isnan(cosine) else max(-1.0, min(1.0, cosine))


def _alike(
    observations: Sequence[Observation],
    groups: list[list[int]],
    matrix: Any,
    thresholds: Thresholds,
    progress: Progress | None,
    only: Collection[int] | None,
) -> list[Pair]:
    """The pairs of different texts; of those with an id in ``only``, and more."""
    heads = [observations[rows[0]] for rows in groups]
    vectors = _vectors(groups, matrix)
    found = _Candidates(heads, vectors, thresholds)
    if only is not None:
        return list(without_series(_around(found, heads, vectors, thresholds, only)))
    pairs = found.pairs(progress)
    judged = _judged(heads, pairs, _cosines(vectors, pairs), thresholds, progress)
    return list(without_series(judged))


class _Candidates:
    """What is worth judging among the different texts."""

    def __init__(self, heads: Sequence[Observation], vectors: Any, thresholds: Thresholds) -> None:
        import numpy as np

        self.vectors, self.thresholds = vectors, thresholds
        self.starts = _starts(heads)
        words = [word_tokens(each.content[:LOOKED_AT]) for each in heads]
        self.words = [frozenset(each) for each in words]
        self.lengths = np.array([len(each.content) for each in heads], dtype=np.int64)
        self.counts = np.array([len(each) for each in words], dtype=np.int64)
        self.attributes = _attributes(heads)

    def pairs(self, progress: Progress | None = None, some: Any = None) -> Any:
        """(later row, earlier row), each pair once, in order; given ``some`` rows, theirs."""
        import numpy as np

        total = len(self.words)
        found = [self.attributes]
        if some is not None:
            found = [self.attributes[np.isin(self.attributes, some).any(axis=1)]]
        if self.vectors is not None:
            lowest = self.thresholds.lowest - _ROUNDING
            found.append(np.stack(by_cosine(self.vectors, self.starts, lowest, some)[:2], axis=1))
        if progress is not None:
            progress(total, total, "cosine")
        more = by_words(
            self.words,
            self.lengths,
            self.counts,
            self.starts,
            self.thresholds.containment,
            OVERLAP,
            None if progress is None else lambda done: progress(done, total, "words"),
            some,
        )
        found.append(np.stack(more, axis=1))
        return np.unique(np.concatenate(found), axis=0)


def _around(
    candidates: _Candidates,
    heads: Sequence[Observation],
    vectors: Any,
    thresholds: Thresholds,
    only: Collection[int],
) -> Iterator[Pair]:
    """Judge the pairs of ``only``, and from their contradictions on until it is known whether
    each belongs to a series."""
    import networkx
    import numpy as np

    row_of = {each.id: row for row, each in enumerate(heads)}
    frontier = {row for row, each in enumerate(heads) if each.id in only}
    graph = networkx.Graph()
    looked_at: set[int] = set()
    judged: set[tuple[int, int]] = set()
    while frontier:
        pairs = candidates.pairs(some=np.array(sorted(frontier), dtype=np.int64))
        new = np.array([tuple(each) not in judged for each in pairs.tolist()], dtype=bool)
        pairs = pairs[new]
        judged.update(map(tuple, pairs.tolist()))
        for pair in _judged(heads, pairs, _cosines(vectors, pairs), thresholds, None):
            yield pair
            if of_a_series(pair):
                graph.add_edge(row_of[pair.earlier_id], row_of[pair.later_id])
        looked_at |= frontier
        frontier = {
            row
            for component in networkx.connected_components(graph)
            if len(component) < SERIES
            for row in component - looked_at
        }


def _attributes(heads: Sequence[Observation]) -> Any:
    """Pairs (later row, earlier row) of neighbours that give a value to the same attribute."""
    import numpy as np

    last: dict[tuple[int, str], int] = {}
    pairs = []
    for row, each in enumerate(heads):
        found = attribute_of(each.content[:LOOKED_AT])
        if found is not None:
            key = (each.entity_id, found[0])
            if key in last:
                pairs.append((row, last[key]))
            last[key] = row
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _starts(heads: Sequence[Observation]) -> Any:
    import numpy as np

    entities = np.array([each.entity_id for each in heads], dtype=np.int64)
    changes = np.flatnonzero(entities[1:] != entities[:-1]) + 1
    return np.concatenate([[0], changes, [len(heads)]]) if len(heads) else np.zeros(1, np.int64)


def _vectors(groups: list[list[int]], matrix: Any) -> Any:
    """A vector of each different text, None where there are none at all."""
    import numpy as np

    if matrix is None:
        return None
    with np.errstate(all="ignore"):
        known = np.isfinite(np.einsum("ij,ij->i", matrix, matrix))
    # one row stands for those of the same text, and one of them that has a vector for its vector
    taken = np.array(
        [next((i for i in rows if known[i]), rows[0]) for rows in groups], dtype=np.int64
    )
    in_place = len(taken) == len(matrix) and bool((taken[1:] > taken[:-1]).all())
    return matrix if in_place else matrix[taken]


def _cosines(vectors: Any, pairs: Any) -> Iterator[float | None]:
    import numpy as np

    if vectors is None:
        yield from (None for _ in pairs)
        return
    for at in range(0, len(pairs), 4096):
        part = pairs[at : at + 4096]
        with np.errstate(all="ignore"):
            found = np.einsum("ij,ij->i", vectors[part[:, 0]], vectors[part[:, 1]])
        yield from (_known(value) for value in found.tolist())


def _judged(
    heads: Sequence[Observation],
    pairs: Any,
    cosines: Iterable[float | None],
    thresholds: Thresholds,
    progress: Progress | None,
) -> Iterator[Pair]:
    taken_apart: dict[int, Stated] = {}
    entity: int | None = None

    def stated(row: int) -> Stated:
        found = taken_apart.get(row)
        if found is None:
            found = taken_apart[row] = read(heads[row].content)
        return found

    for done, ((row, column), cosine) in enumerate(zip(pairs.tolist(), cosines, strict=True), 1):
        if heads[row].entity_id != entity:  # pairs come by entity
            entity = heads[row].entity_id
            taken_apart.clear()
        a, b = stated(column), stated(row)
        containment = containment_of(a, b)
        verdict = judge(a, b, cosine, containment, thresholds)
        if verdict is not None:
            one, other = earlier_first(heads[column], heads[row])
            if verdict.difference and one is heads[row]:
                verdict = judge(b, a, cosine, containment, thresholds) or verdict
            yield Pair(
                one.entity_id, one.id, other.id, verdict.kind, verdict.rule, cosine, containment,
                verdict.difference,
            )  # fmt: skip
        if progress is not None and (done % 1000 == 0 or done == len(pairs)):
            progress(done, len(pairs), "judged")
