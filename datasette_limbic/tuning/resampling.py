"""Intervals by resampling what belongs together: a client's day, or all uses of one query.

Searches of one client on one day resemble each other, and so do all that ask the same. Whole
clusters are drawn, for either, and the wider interval counts. The percentiles are widened for few
clusters (Hesterberg 2015, "expanded percentile").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..answers import plain
from .log import Floats, Ints, Log

DRAWS = 2000
LEVEL = 0.95
_AT_ONCE = 1 << 21
SECONDS = 86_400


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval at LEVEL, and what it was resampled over.

    ``clusters`` is the smallest number of them; where there is one alone, nobody knows the bounds:
    NaN.
    """

    value: float
    low: float
    high: float
    clusters: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON: None for what nobody knows."""
        found: dict[str, Any] = plain(vars(self))
        return found


def client_days(log: Log) -> Ints:
    """(n,) which client and UTC day each search belongs to; unknown clients are one."""
    keys = zip(log.client, (log.at // SECONDS).astype(np.int64).tolist(), strict=True)
    return _numbered(list(keys))


def queries(log: Log) -> Ints:
    """(n,) which distinct query each search asks."""
    return _numbered(log.query)


def _numbered(keys: Sequence[Any]) -> Ints:
    known: dict[Any, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)


def ratio_interval(
    above: Floats, below: Floats, clusterings: Sequence[Ints], rng: np.random.Generator
) -> Interval:
    """Σ above / Σ below with its interval: the wider one of all ``clusterings``.

    ``above`` is (n,), or (B, n) where each draw has values of its own (uncertain weights), and the
    first of them is the estimate; ``below`` likewise. Empty or all zero below: NaN.
    """
    above, below = np.atleast_2d(above), np.atleast_2d(below)
    total = float(below[0].sum())
    if not total:
        return Interval(float("nan"), float("nan"), float("nan"), 0)
    value = float(above[0].sum()) / total
    low, high, least = np.inf, -np.inf, None
    for cluster in clusterings:
        number = int(cluster.max()) + 1
        if number < 2:
            return Interval(value, float("nan"), float("nan"), number)
        drawn = _drawn(above, below, cluster, number, rng)
        found = _bounds(drawn, number)
        if np.isnan(found).any():
            return Interval(value, float("nan"), float("nan"), number)
        low, high = min(low, float(found[0])), max(high, float(found[1]))
        least = number if least is None else min(least, number)
    return Interval(value, min(low, value), max(high, value), least or 0)


def difference_interval(
    value: Floats,
    one: Floats,
    other: Floats,
    clusterings: Sequence[Ints],
    rng: np.random.Generator,
) -> Interval:
    """Σ one·value / Σ one − Σ other·value / Σ other for weights (n,), with its interval."""

    def ratio(weights: Floats) -> float:
        return float((weights * value).sum() / weights.sum())

    estimate = ratio(one) - ratio(other)
    low, high, least = estimate, estimate, None
    for cluster in clusterings:
        number = int(cluster.max()) + 1
        if number < 2:
            return Interval(estimate, float("nan"), float("nan"), number)
        columns = np.stack([one * value, one, other * value, other])
        sums = _by_cluster(columns, cluster, number)
        parts = []
        for size in _portions(number):
            counts = _counts(number, size, rng)
            drawn = counts @ sums.T
            with np.errstate(divide="ignore", invalid="ignore"):
                parts.append(drawn[:, 0] / drawn[:, 1] - drawn[:, 2] / drawn[:, 3])
        bounds = _bounds(np.concatenate(parts), number)
        if np.isnan(bounds).any():
            return Interval(estimate, float("nan"), float("nan"), number)
        low, high = min(low, float(bounds[0])), max(high, float(bounds[1]))
        least = number if least is None else min(least, number)
    return Interval(estimate, low, high, least or 0)


def _portions(number: int) -> Iterator[int]:
    """How many draws of so many clusters are made at once."""
    step = max(1, _AT_ONCE // number)
    for begin in range(0, DRAWS, step):
        yield min(step, DRAWS - begin)


def _counts(number: int, size: int, rng: np.random.Generator) -> Floats:
    """(size, number) how often each cluster is drawn."""
    # as a multinomial draw gives them, which takes ten times as long
    drawn = rng.integers(0, number, (size, number)) + np.arange(size)[:, None] * number
    counts = np.bincount(drawn.ravel(), minlength=size * number)
    return counts.reshape(size, number).astype(float)


def _bounds(drawn: Floats, clusters: int) -> Floats:
    """(2,) the bounds that these draws of so many clusters give; NaN where none gives a number."""
    drawn = drawn[np.isfinite(drawn)]
    tail = _tail(clusters)
    found: Floats = np.quantile(drawn, [tail, 1.0 - tail]) if len(drawn) else np.full(2, np.nan)
    return found


def _tail(clusters: int) -> float:
    """The share of draws to leave out on either side, for so many clusters."""
    from scipy.special import ndtr, stdtrit  # scipy.stats takes .6 s more

    if clusters < 2:
        return 0.0
    alpha = (1.0 - LEVEL) / 2
    wider = np.sqrt(clusters / (clusters - 1)) * stdtrit(clusters - 1, alpha)
    return float(ndtr(wider))


def _drawn(
    above: Floats, below: Floats, cluster: Ints, number: int, rng: np.random.Generator
) -> Floats:
    """(DRAWS,) ratios of resampled clusters."""
    sums = [np.atleast_2d(_by_cluster(each, cluster, number)) for each in (above, below)]
    found = []
    begin = 0
    for size in _portions(number):
        counts = _counts(number, size, rng)
        pair = []
        for each in sums:
            rows = each if len(each) == 1 else each[(begin + np.arange(size)) % len(each)]
            pair.append((counts * rows).sum(axis=1) if len(each) > 1 else counts @ rows[0])
        begin += size
        with np.errstate(divide="ignore", invalid="ignore"):
            found.append(pair[0] / pair[1])
    drawn: Floats = np.concatenate(found)
    return drawn


def _by_cluster(values: Floats, cluster: Ints, number: int) -> Floats:
    """(..., number) sums of (..., n) by cluster."""
    order = np.argsort(cluster, kind="stable")
    edges = np.searchsorted(cluster[order], np.arange(number))
    found: Floats = np.add.reduceat(values[..., order], edges, axis=-1)
    return found


def standard_errors(above: Floats, below: Floats, clusterings: Sequence[Ints]) -> Floats:
    """(C,) standard errors of Σ above / Σ below for (n, C) columns: linearised, by cluster.

    The largest of all ``clusterings``.
    """
    total = below.sum()
    rest = (above - (above.sum(axis=0) / total) * below[:, None]) / total
    found = np.zeros(above.shape[1])
    for cluster in clusterings:
        sums = _by_cluster(rest.T, cluster, int(cluster.max()) + 1)
        found = np.maximum(found, np.sqrt((sums**2).sum(axis=1)))
    return found
