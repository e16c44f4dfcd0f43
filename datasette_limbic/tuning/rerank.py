"""Ranking a logged pool again with other parameters, exactly as the search statement would.

The same operations in the same order as ``queries/search.sql`` and the SQL functions do them, in
double precision: equal to the last bit, so that what ties there ties here. Only ``beta_sal`` and
``gamma`` are varied; all other parameters are in the logged factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..routing import STRATEGIES
from .log import STRATEGY_NAMES, Bools, Floats, Ints, Log

BUDGET = 1 << 18
"""So many scores of candidates under cells are held at once: some 2 MB for each array of them."""
_WEIGHTS = np.array([STRATEGIES[name] for name in STRATEGY_NAMES])
_LIMBIC = STRATEGY_NAMES.index("limbic")
Progress = Callable[[int, int], None]


def limbic_scores(
    base: Floats, importance: Floats, temporal: Floats, cooc: Floats, beta: Floats, gamma: Floats
) -> Floats:
    """base·(1 + β·importance)·temporal·(1 + γ·cooc), in the order that ``scoring`` takes."""
    found: Floats = base * (1.0 + beta * importance) * temporal * (1.0 + gamma * cooc)
    return found


def final_scores(log: Log, beta: float, gamma: float) -> Floats:
    """(N,) the final score of every candidate under one pair of parameters."""
    found = np.empty(len(log.base))
    for part in _blocks(log, np.arange(len(log)), 1):
        found[part.rows[part.present]] = part.finals(log, np.array([[beta, gamma]]))[
            part.present, 0
        ]
    return found


def ranks(log: Log, beta: float, gamma: float) -> Ints:
    """(N,) the rank of every candidate, from 1: by final score, then by id, as the SQL orders."""
    scores = final_scores(log, beta, gamma)
    order = np.lexsort((log.entity, -scores, log.of))
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order)) - np.repeat(log.start[:-1], np.diff(log.start)) + 1
    return found


def discounts(k: int, most: int) -> Floats:
    """(most + 1,) sums of 1/log2(1 + rank) over the first ranks; those past ``k`` add nothing.

    Source: Järvelin and Kekäläinen 2002, as scikit-learn's ``dcg_score`` has it.
    """
    rank = np.arange(1, most + 1)
    each = np.where(rank <= k, 1.0 / np.log2(1.0 + rank), 0.0)
    return np.concatenate([[0.0], np.cumsum(each)])


def placed(
    log: Log,
    wanted: Ints,
    cells: Floats,
    *,
    k: int,
    among: Bools | None = None,
    progress: Progress | None = None,
) -> Floats:
    """(L, C) the discount of the place where each wanted candidate lands, under each cell.

    ``wanted`` (L,) are rows of candidates, ascending; ``cells`` (C, 2) pairs of ``beta_sal`` and
    ``gamma``. Scores are normalised over the whole pool, as in a search; places are counted among
    the candidates of ``among`` (N,), by default all. Candidates that tie share the mean of their
    places' discounts, as in ``ndcg_score``.
    """
    found = np.empty((len(wanted), len(cells)))
    if not len(wanted):
        return found
    searches, first = np.unique(log.of[wanted], return_index=True)
    last = np.append(first[1:], len(wanted))
    sums = discounts(k, int(np.diff(log.start)[searches].max()))
    done = 0
    for part in _blocks(log, searches, len(cells)):
        scores = part.finals(log, cells)
        counted = part.present if among is None else part.present & among[part.rows]
        index = np.searchsorted(searches, part.searches)
        counts = (last - first)[index]
        block = np.repeat(np.arange(len(index)), counts)
        place = np.concatenate([np.arange(first[i], last[i]) for i in index])
        column = wanted[place] - log.start[part.searches][block]
        own = scores[block, column]
        above = np.zeros(own.shape, np.int64)
        level = np.zeros(own.shape, np.int64)
        # a column at a time: a third axis would not fit into memory
        for other in range(scores.shape[1]):
            there = counted[block, other][:, None]
            theirs = scores[block, other]
            above += (theirs > own) & there
            level += (theirs == own) & there
        # a wanted one that does not count stands where it would among the others
        level = np.maximum(level, 1)
        top = np.minimum(above + level, len(sums) - 1)
        found[place] = (sums[top] - sums[above]) / level
        done += len(part.searches)
        if progress is not None:
            progress(done, len(searches))
    return found


class _Block:
    """Some searches of about the same size, padded to a rectangle."""

    def __init__(self, log: Log, searches: Ints) -> None:
        self.searches = searches
        sizes = np.diff(log.start)[searches]
        column = np.arange(int(sizes.max()))
        self.present = column < sizes[:, None]
        self.rows = np.where(self.present, log.start[searches][:, None] + column, 0)

    def finals(self, log: Log, cells: Floats) -> Floats:
        """(searches, columns, C) final scores; minus infinity where nothing is."""
        rows, present = self.rows[..., None], self.present[..., None]
        limbic = limbic_scores(
            log.base[rows],
            log.importance[rows],
            log.temporal[rows],
            log.cooc[rows],
            cells[:, 0],
            cells[:, 1],
        )
        strategy = log.strategy[self.searches]
        blended = strategy != _LIMBIC
        if blended.any():
            low = np.where(present, limbic, np.inf).min(axis=1, keepdims=True)
            width = np.where(present, limbic, -np.inf).max(axis=1, keepdims=True) - low
            with np.errstate(divide="ignore", invalid="ignore"):
                norm = np.where(width > 0, (limbic - low) / width, 1.0)
            weight = _WEIGHTS[strategy][:, None, None, :]
            mixed = weight[..., 0] * log.base[rows] + weight[..., 1] * norm
            limbic = np.where(blended[:, None, None], mixed, limbic)
        return np.where(present, limbic, -np.inf)


def _blocks(log: Log, searches: Ints, cells: int) -> Iterator[_Block]:
    """The searches, those of a size together, in blocks that fit into the budget."""
    sizes = np.diff(log.start)[searches]
    order = np.argsort(sizes, kind="stable")
    searches, sizes = searches[order], sizes[order]
    begin = 0
    while begin < len(searches):
        # the largest comes last: as many as fit at its size
        end = begin + max(1, BUDGET // max(1, int(sizes[begin]) * cells))
        end = min(end, len(searches))
        while end > begin + 1 and (end - begin) * int(sizes[end - 1]) * cells > 2 * BUDGET:
            end = begin + (end - begin) // 2
        yield _Block(log, searches[begin:end])
        begin = end
