"""NDCG, precision, lift and recall of what was served, search by search.

NDCG@K is that of Järvelin and Kekäläinen 2002 with linear gains, as scikit-learn's ``ndcg_score``
computes it: ties share the mean of their places, the ideal order is over all that is known to be
relevant. What nobody labelled counts as not relevant here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import estimating, rerank
from .log import Floats, Ints, Log


def ndcg(gains: Sequence[float], scores: Sequence[float], k: int = 10) -> float:
    """NDCG@K of one ranking, 0 to 1: ``scores`` order it, ``gains`` say what it is worth.

    scikit-learn's, which tells nothing of a single result: that is 1 where it is relevant. No
    relevant one gives 0.
    """
    if len(gains) < 2:
        return float(any(gain > 0 for gain in gains))
    from sklearn.metrics import ndcg_score  # takes a second to import

    return float(ndcg_score([list(gains)], [list(scores)], k=k))


@dataclass(frozen=True)
class Figures:
    """(n,) of each search of a log; NaN where nothing is known to be relevant.

    ``precision`` is over the K first results, ``pool_precision`` over all candidates, ``lift`` the
    one over the other, ``recall`` the share of the known relevant ones among the K first.
    """

    ndcg: Floats
    precision: Floats
    pool_precision: Floats
    lift: Floats
    recall: Floats


def figures(log: Log, rank: Ints, k: int) -> Figures:
    """The figures of an order, given as ``rank`` (N,) from 1 within each search."""
    relevant = log.gain > 0
    sizes = np.diff(log.start)
    sums = rerank.discounts(k, int(max(rank.max(initial=1), 1)))
    value = np.where(relevant, np.nan_to_num(log.gain) * np.diff(sums)[rank - 1], 0.0)
    ideal = estimating.ideal(log, np.nan_to_num(log.gain), k)
    top = np.bincount(log.of, relevant & (rank <= k), len(log))
    known = np.bincount(log.of, relevant, len(log))
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(known > 0, top / np.minimum(k, sizes), np.nan)
        pool = np.where(known > 0, known / sizes, np.nan)
        return Figures(
            ndcg=np.where(known > 0, np.bincount(log.of, value, len(log)) / ideal, np.nan),
            precision=precision,
            pool_precision=pool,
            lift=precision / pool,
            recall=np.where(known > 0, top / known, np.nan),
        )
