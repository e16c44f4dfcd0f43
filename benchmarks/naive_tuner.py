"""The tuner that everybody writes first, to be compared with: grid search, and the best cell.

It takes every labelled search, whoever ranked it, for the truth: NDCG@K of the whole pool re-ranked
under each cell, what nobody labelled counting as not relevant, no weights, no holdout, no interval,
and of a tie the first cell. It fools itself in two ways. The best of many cells is above the one
in force on any log, were it by chance alone; and what stood first was opened most, so that the
labels speak for whatever order was served.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datasette_limbic.tuning import estimating, rerank
from datasette_limbic.tuning.grid import Grid
from datasette_limbic.tuning.log import Log


@dataclass(frozen=True)
class Naive:
    """``target`` (beta_sal, gamma) with the NDCG@K that it seems to ``gain`` over what is in
    force; ``target`` None where that is the best cell itself, or nothing has a label."""

    target: tuple[float, float] | None
    gain: float


def tune(
    log: Log,
    in_force: tuple[float, float],
    *,
    betas: Sequence[float],
    gammas: Sequence[float],
    k: int = 10,
) -> Naive:
    """The best cell of the grid over all labelled searches. Deterministic."""
    grid = Grid.of(betas, gammas, in_force)
    rows = np.flatnonzero(log.gain > 0)
    if not len(rows):
        return Naive(None, 0.0)
    ideal = estimating.ideal(log, np.nan_to_num(log.gain), k)
    share = log.gain[rows] / ideal[log.of[rows]]
    cells = grid.cells
    mean = share @ rerank.placed(log, rows, cells, k=k) / len(np.unique(log.of[rows]))
    best = int(mean.argmax())
    if best == grid.current:
        return Naive(None, 0.0)
    beta, gamma = (float(value) for value in cells[best])
    return Naive((beta, gamma), float(mean[best] - mean[grid.current]))
