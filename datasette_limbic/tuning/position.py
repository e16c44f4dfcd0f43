"""How likely a result is looked at, by its rank: position bias, estimated from the log itself.

Where both orders were served at random, a result that was opened stood at one rank in the order
that was served and would have stood at another in the other one. Given that it was opened, the
odds that this happened under the baseline are share/(1 − share) · e(baseline rank)/e(limbic rank):
how relevant it is, and everything else about query and client, cancels. That is a logistic
regression with an offset. Source: the idea of intervention harvesting (Agarwal et al. 2019), by
conditional likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .log import Bools, Floats, Ints, Log

KNOTS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 100)
"""Ranks between which log e is linear in the logarithm of the rank."""
PENALTY = 2.0
"""How firmly log e(rank) is held to −η·log(rank); 1/(2·0.5²), a standard deviation of .5."""
RIDGE = 0.02
"""How firmly η is held to 0: hardly, so that there is always an answer."""
ROUNDS = 100


@dataclass(frozen=True)
class Examination:
    """e(rank) relative to rank 1, with its uncertainty.

    ``log_e`` (J,) stands at KNOTS[:J], ``covariance`` (J, J); ``pairs`` is how many opened results
    it was learned from, and ``eta`` the exponent of rank^−η that it was held to.
    """

    log_e: Floats
    covariance: Floats
    pairs: int
    eta: float

    def draws(self, count: int, rng: np.random.Generator) -> Floats:
        """(count, J) log_e as it might be as well."""
        drawn: Floats = rng.multivariate_normal(self.log_e, self.covariance, count, method="eigh")
        return drawn

    def as_dict(self) -> dict[str, Any]:
        """Rank by rank, with the standard error of log e."""
        return {
            "pairs": self.pairs,
            "eta": self.eta,
            "ranks": [
                {"rank": rank, "examined": float(np.exp(value)), "log_error": float(error)}
                for rank, value, error in zip(
                    KNOTS, self.log_e, np.sqrt(np.diag(self.covariance)), strict=False
                )
            ],
        }


def examined(rank: Ints, log_e: Floats) -> Floats:
    """(..., L) e(rank) for ``log_e`` (..., J).

    Not cut off at 1: where everything is looked at, errors to one side alone would be a bias.
    """
    found: Floats = np.exp(log_e @ _basis(rank, log_e.shape[-1]).T)
    return found


def informative(log: Log) -> Bools:
    """(N,) opened or useful results that stood within the limit in both orders, at different
    ranks, where either could have been served."""
    share, limit = log.baseline_share[log.of], log.limit[log.of]
    found: Bools = (
        (log.gain > 0)
        & log.shown
        & (share > 0)
        & (share < 1)
        & (log.baseline_rank <= limit)
        & (log.limbic_rank <= limit)
        & (log.baseline_rank != log.limbic_rank)
    )
    return found


def fit(log: Log, informing: Bools | None = None) -> Examination:
    """The examination curve of a log; flat and quite uncertain where it says nothing.

    ``informing`` (N,) are the results to learn from, by default all that are ``informative``.
    """
    from scipy.optimize import minimize  # takes .2 s

    rows = np.flatnonzero(informative(log) if informing is None else informing)
    most = int(max([*log.baseline_rank[rows], *log.limbic_rank[rows], 2]))
    knots = np.array([k for k in KNOTS if k < most] + [k for k in KNOTS if k >= most][:1])
    size = len(knots)
    # e(1) is 1: without its column
    contrast = (_basis(log.baseline_rank[rows], size) - _basis(log.limbic_rank[rows], size))[:, 1:]
    share = log.baseline_share[log.of[rows]]
    offset = np.log(share) - np.log1p(-share)
    served = np.where(log.limbic[log.of[rows]], 0.0, 1.0)
    slope = np.log(knots[1:].astype(float))

    def loss(x: Floats) -> tuple[float, Floats]:
        values, eta = x[:-1], x[-1]
        logit = offset + contrast @ values
        away = values + eta * slope
        total = (np.logaddexp(0.0, logit) - served * logit).sum()
        total += PENALTY * away @ away + RIDGE * eta**2
        wrong = 1.0 / (1.0 + np.exp(-np.clip(logit, -500, 500))) - served
        gradient = contrast.T @ wrong + 2 * PENALTY * away
        return float(total), np.append(gradient, 2 * PENALTY * away @ slope + 2 * RIDGE * eta)

    found = minimize(loss, np.zeros(size), jac=True, method="BFGS", options={"maxiter": ROUNDS})
    logit = np.clip(offset + contrast @ found.x[:-1], -500, 500)
    chance = 1.0 / (1.0 + np.exp(-logit))
    hessian = np.zeros((size, size))
    hessian[:-1, :-1] = (contrast.T * (chance * (1 - chance))) @ contrast
    hessian[:-1, :-1] += 2 * PENALTY * np.eye(size - 1)
    hessian[:-1, -1] = hessian[-1, :-1] = 2 * PENALTY * slope
    hessian[-1, -1] = 2 * PENALTY * slope @ slope + 2 * RIDGE
    covariance = np.zeros((size, size))
    covariance[1:, 1:] = np.linalg.inv(hessian)[:-1, :-1]
    return Examination(np.append(0.0, found.x[:-1]), covariance, len(rows), float(found.x[-1]))


def _basis(rank: Ints, size: int) -> Floats:
    """(L, size) how much of each knot a rank has: two neighbours, or the last one alone."""
    knots = np.log(np.array(KNOTS[:size], float))
    where = np.clip(np.log(np.maximum(rank, 1)), None, knots[-1])
    left = np.clip(np.searchsorted(knots, where, side="right") - 1, 0, size - 2)
    part = (where - knots[left]) / (knots[left + 1] - knots[left])
    found = np.zeros((len(rank), size))
    index = np.arange(len(rank))
    found[index, left] = 1.0 - part
    found[index, left + 1] += part
    return found
