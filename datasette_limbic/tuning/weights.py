"""What a label counts for, where results that stood higher were likelier to be looked at.

Where both orders were served at random, a result that was opened counts 1 / P(it was shown and
looked at) over both of them. Results for which that is too seldom are left out whatever became of
them: were their weights cut off instead, whichever order shows them would seem worse. Sources:
Joachims, Swaminathan and Schnabel 2017 (inverse propensity from clicks); Oosterhuis and de Rijke
2020 (propensities over all rankings that could have been served); Swaminathan and Joachims 2015
(self-normalised).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from .log import Bools, Floats, Ints, Log

CLIP = 0.1
"""The least propensity of a result that counts: no label counts for more than ten."""


def possible(log: Log, curves: Iterable[Callable[[Ints], Floats]]) -> Bools:
    """(N,) whether a candidate was likely enough to be shown and looked at: by CLIP at least, under
    each of the ``curves`` of examination."""
    rows = np.arange(len(log.of))
    found = np.ones(len(rows), bool)
    for curve in curves:
        found &= propensities(log, rows, curve) >= CLIP
    return found


def propensities(log: Log, rows: Ints, examined: Callable[[Ints], Floats]) -> Floats:
    """(..., L) probability that each of ``rows`` was shown and looked at, before clipping.

    ``examined`` gives the probability by rank (L,), with any leading axes of its own.
    """
    limit, share = log.limit[log.of[rows]], log.baseline_share[log.of[rows]]
    found: Floats = np.zeros(())
    for rank, chance in ((log.baseline_rank, share), (log.limbic_rank, 1.0 - share)):
        here = rank[rows]
        found = found + np.where(here <= limit, chance * examined(here), 0.0)
    return found


def inverse(propensity: Floats) -> Floats:
    """1 / propensity, 1 / CLIP at most: a curve that might be true as well can fall below it."""
    found: Floats = 1.0 / np.maximum(propensity, CLIP)
    return found


def effective(weights: Floats) -> float:
    """Effective sample size (Σw)² / Σw² (Kish 1965): how many equal weights tell as much."""
    total = float((weights**2).sum())
    return float(weights.sum()) ** 2 / total if total else 0.0
