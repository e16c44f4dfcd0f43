"""NDCG@K that other parameters would have had, from what became of the searches that were served.

For each search with a relevant result and each pair of parameters, a numerator and a denominator:
the estimate over any set of searches is the sum of the ones over the sum of the others, which is
the mean NDCG@K where all weights are 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from . import position, rerank, weights
from .log import NONE, NOT_USEFUL, OPENED, REACCESSED, USEFUL, Bools, Floats, Ints, Log
from .position import Examination
from .rerank import Progress

RANDOMISED, REPLAY = "randomised", "replay"
GROUPS = {"opened": (OPENED, USEFUL, NOT_USEFUL), "reaccessed": (REACCESSED,)}
"""Kinds of labels that come to be in ways of their own: for each it is learned apart how much a
rank matters."""
CURVES = 200
"""So many examination curves that might be true are drawn for an interval."""
MIN_PAIRS = 30
"""Opened results at different ranks in the two orders, below which position bias is not known."""
MAX_LOG_ERROR = 0.7
"""Standard error of log e(rank) from which it is not known either: a factor of two."""


@dataclass(frozen=True)
class Basis:
    """The searches that an estimate rests on, and how their labels count."""

    kind: str
    log: Log
    """Those alone that can be used and tell something: see ``telling``."""
    supported: Bools
    """(N,) candidates that are re-ranked: those likely enough to be shown and looked at."""
    examination: dict[str, Examination]
    """By GROUPS; empty in a replay."""
    reason: str
    """Why it is no randomised one; empty where it is."""
    served: int = 0
    """Searches that could be used, with or without a label."""
    not_used: tuple[str, ...] = ()
    """Groups of labels that count nothing, since position bias is not known for them."""

    @property
    def biased(self) -> bool:
        return self.kind == REPLAY

    def as_dict(self) -> dict[str, Any]:
        return {
            "estimation": self.kind,
            "biased": self.biased,
            "reason": self.reason or None,
            "searches": self.served,
            "labelled": int(relevant(self.log).sum()),
            "examination": {name: each.as_dict() for name, each in self.examination.items()},
            "not_used": list(self.not_used),
        }


def relevant(log: Log) -> Bools:
    """(n,) searches in which a result that was shown has a gain above 0: labelled ones."""
    found: Bools = np.bincount(log.of, (log.gain > 0) & log.shown, len(log)) > 0
    return found


def telling(log: Log) -> Bools:
    """(n,) those, and searches after which chance might have brought a label."""
    by_chance = np.bincount(log.of, (log.chance > 0) & log.shown, len(log)) > 0
    return relevant(log) | by_chance


def basis(log: Log, beta_sal: float, gamma: float) -> Basis:
    """What of a log can be used, and how; ``beta_sal`` and ``gamma`` are in force.

    Randomised: searches that were served either order by a known chance, whatever parameters
    ranked them. Else replay: those that were ranked by the parameters in force and served so. What
    stood first there was looked at most, so such a log speaks for the parameters in force, never
    for others: a bias that is on the safe side.
    """
    mixed = (log.baseline_share > 0) & (log.baseline_share < 1)
    reason = "the baseline was never served, so results stood in one order alone"
    if mixed.any():
        random = log.select(mixed)
        known, reason = _examinations(random)
        if known:
            random = _without(random, [name for name in GROUPS if name not in known])
            random = random.select(telling(random))
            return Basis(
                RANDOMISED,
                random,
                weights.possible(
                    random,
                    [partial(position.examined, log_e=each.log_e) for each in known.values()],
                ),
                known,
                "",
                int(mixed.sum()),
                tuple(name for name in GROUPS if name not in known),
            )
    usable = in_force(log, beta_sal, gamma)
    part = log.select(usable & telling(log))
    return Basis(REPLAY, part, part.shown, {}, reason, int(usable.sum()))


def _examinations(log: Log) -> tuple[dict[str, Examination], str]:
    """How much a rank matters, by kind of label, where that is known; and why not for the rest."""
    known = {}
    reasons = []
    for name, sources in GROUPS.items():
        rows = position.informative(log) & np.isin(log.source, sources)
        pairs = int(rows.sum())
        if pairs < MIN_PAIRS:
            reasons.append(
                f"only {pairs:,} {name} results stood at another rank in the other order, and "
                f"{MIN_PAIRS} are needed to know how much a rank matters"
            )
            continue
        found = position.fit(log, rows)
        worst = float(np.sqrt(np.diag(found.covariance).max()))
        if worst <= MAX_LOG_ERROR:
            known[name] = found
        else:
            reasons.append(
                f"how much a rank matters for {name} results is known to a factor of "
                f"{np.exp(worst):.2f} only, and {np.exp(MAX_LOG_ERROR):.2f} is needed"
            )
    return known, "; ".join(reasons)


def _without(log: Log, names: Sequence[str]) -> Log:
    """The log as if it had no labels of these kinds."""
    dropped = np.isin(log.source, [source for name in names for source in GROUPS[name]])
    gain = np.where(dropped, np.where(log.shown, 0.0, np.nan), log.gain)
    chance = np.where(dropped | ("reaccessed" in names), 0.0, log.chance)
    return replace(log, gain=gain, source=np.where(dropped, NONE, log.source), chance=chance)


def in_force(log: Log, beta_sal: float, gamma: float) -> Bools:
    """(n,) searches that were ranked and served by just these parameters."""
    found: Bools = log.limbic & (log.beta_sal == beta_sal) & (log.gamma == gamma)
    return found


@dataclass(frozen=True)
class Sums:
    """``above`` (n, C) and ``below`` (n,) of each search of a Basis, for C cells."""

    cells: Floats
    above: Floats
    below: Floats

    def mean(self, rows: Bools | None = None) -> Floats:
        """(C,) the estimate over some of the searches; NaN where there are none."""
        above, below = (
            (self.above, self.below) if rows is None else (self.above[rows], self.below[rows])
        )
        with np.errstate(invalid="ignore"):
            found: Floats = above.sum(axis=0) / below.sum()
        return found


@dataclass(frozen=True)
class Labels:
    """The L candidates of a Basis whose places count, search by search."""

    rows: Ints
    gain: Floats
    """(L,) what its discount counts: gain ÷ ideal DCG of the search."""
    part: Floats
    """(L,) share of the gains of its search."""
    search: Ints
    searches: int

    def by_search(self, values: Floats) -> Floats:
        """(..., n) sums of (..., L)."""
        found = np.zeros((*values.shape[:-1], self.searches))
        if len(self.rows):
            where, first = np.unique(self.search, return_index=True)
            found[..., where] = np.add.reduceat(values, first, axis=-1)
        return found


def labels(found: Basis, k: int) -> Labels:
    """What was shown and is relevant. A label of anything else came by another way, whose chance
    nobody knows. Ideal: all that is known to be relevant in the pool, shown or not.

    Coming back to a result counts by itself, as that of a search with one relevant result, and
    less what chance brings (``Log.chance``): so a result that nobody came back to can count below
    0, and one that everybody opens anyway counts nothing on average.
    """
    log = found.log
    here = found.supported & log.shown
    again = log.source == REACCESSED
    used = np.where(again, 0.0, np.nan_to_num(log.gain))
    best = ideal(log, used, k)[log.of]
    gains = np.bincount(log.of, np.where(here, used, 0.0), len(log))[log.of]
    share, part = np.zeros(len(used)), np.zeros(len(used))
    plain = here & (used > 0)
    share[plain], part[plain] = used[plain] / best[plain], used[plain] / gains[plain]
    # a label of another kind says what chance might have brought
    chance = np.where((log.source == NONE) | again, log.chance, 0.0)
    came = here & (again | (chance > 0))
    share[came] += (np.where(again, log.gain, 0.0) - chance)[came]
    part[came] += np.where(again, log.gain, 0.0)[came]
    rows = np.flatnonzero(plain | came)
    return Labels(rows, share[rows], part[rows], log.of[rows], len(log))


def ideal(log: Log, gain: Floats, k: int) -> Floats:
    """(n,) DCG@K of the best order of each search, with linear gains (N,); 0 without any."""
    rows = np.flatnonzero(gain > 0)
    if not len(rows):
        return np.zeros(len(log))
    order = rows[np.lexsort((-gain[rows], log.of[rows]))]
    search = log.of[order]
    first = np.searchsorted(search, search)
    place = np.arange(len(order)) - first
    sums = rerank.discounts(k, int(place.max()) + 1)
    each = gain[order] * np.diff(sums)[place]
    return np.asarray(np.bincount(search, each, len(log)), np.float64)


def weigh(found: Basis, some: Labels, draws: Mapping[str, Floats] | None = None) -> Floats:
    """(L,) what each label counts for, or (B, L) under drawn examination curves (B, J)."""
    weight = np.ones(len(some.rows))
    for name, curve in found.examination.items():
        # what chance might have brought is weighed as what it would have brought
        source = found.log.source[some.rows]
        rows = np.isin(np.where(source == NONE, REACCESSED, source), GROUPS[name])
        log_e = curve.log_e if draws is None else draws[name]
        propensity = weights.propensities(
            found.log, some.rows[rows], partial(position.examined, log_e=log_e)
        )
        if propensity.ndim > weight.ndim:
            weight = np.repeat(weight[None], len(propensity), axis=0)
        weight[..., rows] = weights.inverse(propensity)
    return weight


def sums(found: Basis, cells: Floats, k: int, *, progress: Progress | None = None) -> Sums:
    """The sums for all cells (C, 2) at once."""
    some = labels(found, k)
    places = rerank.placed(
        found.log, some.rows, cells, k=k, among=found.supported, progress=progress
    )
    weight = weigh(found, some)
    above = some.by_search(weight * some.gain * places.T).T
    return Sums(cells, above, some.by_search(weight * some.part))


def drawn_differences(
    found: Basis, cells: Floats, other: Floats, k: int, rng: np.random.Generator
) -> tuple[list[Floats], Floats]:
    """``above`` (B, n) of the NDCG of each of ``cells`` less that of ``other``, and ``below``.

    Row 0 is the estimate. Where position bias was estimated, the further rows take examination
    curves that might be true as well, so that the interval holds what is not known of them.
    """
    some = labels(found, k)
    places = rerank.placed(
        found.log, some.rows, np.concatenate([cells, other[None]]), k=k, among=found.supported
    )
    weight = np.atleast_2d(weigh(found, some))
    if found.examination:
        drawn = {name: each.draws(CURVES, rng) for name, each in found.examination.items()}
        weight = np.concatenate([weight, weigh(found, some, drawn)])
    above = [
        some.by_search(weight * (some.gain * (places[:, each] - places[:, -1])))
        for each in range(len(cells))
    ]
    return above, some.by_search(weight * some.part)


def narrowed(found: Basis, rows: Bools) -> Basis:
    """The same of some of its searches."""
    return replace(found, log=found.log.select(rows), supported=found.supported[rows[found.log.of]])
