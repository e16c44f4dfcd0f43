"""The memory of the simulator: entities with a past, queries with pools, and what is relevant.

Figures are shaped as those of real memories: a few entities get most of the use, a good part was
never accessed, most candidates of a pool resemble the query little and a few do much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from datasette_limbic import scoring
from datasette_limbic.tuning import rerank
from datasette_limbic.tuning.log import NONE, STRATEGY_NAMES, Bools, Floats, Ints, Log

from .scenario import Scenario

START = 1_788_220_800.0
"""Midnight of 1 September 2026, UTC: when the first day of a simulated log begins."""
HISTORY_HOURS = 365 * 24.0
"""How long entities have been in use before it, and how old the oldest are at most."""
MEAN_ACCESSES = 4.0
MOST_WANTED = 3
"""So many candidates of a pool are relevant at most."""
SPREAD = 25.0
"""Logarithms of odds that differ by more are as good as certain; more is lost in rounding."""


def zipf(count: int, exponent: float) -> Floats:
    """(count,) probabilities that fall as rank^−exponent."""
    weight = np.arange(1, count + 1) ** -float(exponent)
    found: Floats = weight / weight.sum()
    return found


def places(scores: Floats) -> Ints:
    """(n, m) ranks by falling score within each row, from 1; of equal ones the left comes first."""
    order = np.argsort(-scores, axis=1, kind="stable")
    found = np.empty(scores.shape, np.int64)
    np.put_along_axis(found, order, np.arange(1, scores.shape[1] + 1)[None], axis=1)
    return found


@dataclass
class Use:
    """Accesses that a log itself brings about: how many of each entity, and the last one."""

    accesses: Floats
    """(E,)"""
    last: Floats
    """(E,) hours since START, −inf where there is none."""

    @classmethod
    def none(cls, entities: int) -> Use:
        return cls(np.zeros(entities), np.full(entities, -np.inf))


class Entities:
    """E entities: how popular each is, and how its accesses go on.

    An accessed one comes up at even intervals, so that its count and its age belong together.
    """

    def __init__(self, scenario: Scenario, rng: np.random.Generator) -> None:
        count = scenario.entities
        self.popularity = rng.permutation(zipf(count, scenario.entity_tail))
        expected = MEAN_ACCESSES * count * self.popularity * rng.gamma(0.5, 2.0, count)
        self.before = rng.poisson(expected).astype(float)
        used = self.before > 0
        self.gap = np.where(used, HISTORY_HOURS / (self.before + 1) * rng.uniform(0.3, 3, count), 0)
        self.gap[~used] = np.inf
        # never accessed: as long ago as it was made; some hours to two years
        self.phase = np.where(
            used,
            rng.random(count) * np.where(used, self.gap, 1.0),
            np.exp(rng.uniform(np.log(6), np.log(2 * HISTORY_HOURS), count)),
        )
        self.degree = np.minimum(np.floor(rng.pareto(1.2, count) * 2), 60.0)
        # what comes up often comes up together
        self.sociable = np.sqrt(self.before)

    def accesses(self, chosen: Ints, hours: Floats, use: Use) -> Floats:
        """Accesses of the chosen ones so far; ``hours`` since START."""
        before = self.before[chosen] + np.floor((self.phase[chosen] + hours) / self.gap[chosen])
        found: Floats = before + use.accesses[chosen]
        return found

    def age(self, chosen: Ints, hours: Floats, use: Use) -> Floats:
        """Hours since the last access, else since it was made."""
        age = np.mod(self.phase[chosen] + hours, self.gap[chosen])
        found: Floats = np.minimum(age, np.maximum(hours - use.last[chosen], 0.0))
        return found


class Queries:
    """Q distinct queries with the m candidates of each: the same ones whenever it is asked."""

    def __init__(
        self, scenario: Scenario, entities: Entities, count: int, rng: np.random.Generator
    ) -> None:
        self.scenario, self.entities = scenario, entities
        m = scenario.candidates
        # without replacement, by popularity: who is first in a race at these speeds
        race = rng.standard_exponential((count, scenario.entities)) / entities.popularity
        pool = np.argpartition(race, m - 1, axis=1)[:, :m] if count else np.empty((0, m), np.int64)
        self.pool: Ints = np.sort(pool, axis=1)
        self.base = 0.15 + 0.6 * rng.beta(1.2, 3.5, (count, m))
        boost = rng.lognormal(-0.6, 1.0, (count, m)) * (rng.random((count, m)) < 0.75)
        self.boost = np.minimum(boost * entities.sociable[self.pool], 40.0)
        shares = np.array([share for _, share in scenario.strategies])
        known = np.array([STRATEGY_NAMES.index(name) for name, _ in scenario.strategies])
        self.strategy: Ints = known[rng.choice(len(known), count, p=shares / shares.sum())]
        self.wanted: Ints = np.minimum(rng.integers(1, MOST_WANTED + 1, count), m)
        """(Q,) how many of its candidates are relevant."""
        self._luck = rng.gumbel(size=(count, m))

    def __len__(self) -> int:
        return len(self.pool)

    def log(self, which: Ints, hours: Floats, use: Use) -> Log:
        """Searches for the queries ``which`` (n,), at ``hours`` (n,) since START, ascending.

        All served by the limbic order, by nobody, without labels. Everything else is as it would
        be logged.
        """
        scenario, pool = self.scenario, self.pool[which]
        n, m = pool.shape
        then = hours[:, None] * scenario.drift
        accesses = self.entities.accesses(pool, then, use)
        most = accesses.max(axis=1, keepdims=True, initial=0.0)
        frequency = np.log1p(accesses) / np.log1p(np.maximum(most, 1.0))
        linked = np.minimum(self.entities.degree[pool], scoring.D_MAX) / scoring.D_MAX
        age = self.entities.age(pool, then, use)
        log = Log(
            id=np.arange(1, n + 1),
            query=("",) * n,
            client=(None,) * n,
            at=START + np.round(hours * 3600),
            strategy=self.strategy[which],
            limit=np.full(n, scenario.limit),
            beta_sal=np.full(n, scenario.beta_sal),
            gamma=np.full(n, scenario.gamma),
            limbic=np.ones(n, bool),
            baseline_share=np.full(n, scenario.baseline_share),
            version=np.zeros(n, np.int64),
            start=np.arange(n + 1) * m,
            entity=pool.ravel() + 1,
            base=self.base[which].ravel(),
            importance=(frequency * (1.0 + scoring.BETA_DEG * linked)).ravel(),
            temporal=np.maximum(
                scoring.TEMPORAL_FLOOR, np.exp(-scoring.LAMBDA_HOURLY * age)
            ).ravel(),
            cooc=(self.boost[which] * (1.0 + then / HISTORY_HOURS)).ravel(),
            baseline_rank=places(self.base[which]).ravel(),
            limbic_rank=np.zeros(n * m, np.int64),
            gain=np.full(n * m, np.nan),
            source=np.full(n * m, NONE),
            chance=np.zeros(n * m),
        )
        scores = rerank.final_scores(log, scenario.beta_sal, scenario.gamma)
        return replace(log, limbic_rank=places(scores.reshape(n, m)).ravel())

    def odds(self, hours: Floats, use: Use) -> Floats:
        """(Q, m) logarithms of the odds of being relevant, from the true scores at ``hours``."""
        if self.scenario.preference != "scores":
            return np.zeros(self.pool.shape)
        log = self.log(np.arange(len(self)), hours, use)
        true = rerank.final_scores(log, self.scenario.beta_true, self.scenario.gamma_true)
        score = true.reshape(self.pool.shape)
        away = score - score.mean(axis=1, keepdims=True)
        width = away.std(axis=1, keepdims=True)
        scaled = away / np.where(width > 0, width, 1.0) / self.scenario.taste
        found: Floats = np.maximum(scaled, scaled.max(axis=1, keepdims=True) - SPREAD)
        return found

    def relevant(self, odds: Floats) -> Bools:
        """(Q, m) what is relevant: the best ``wanted`` by the odds with Gumbel noise."""
        found: Bools = places(odds + self._luck) <= self.wanted[:, None]
        return found


def relevance(odds: Floats, wanted: Ints) -> Floats:
    """(Q, m) the probability of being among the best ``wanted`` (Q,) once Gumbel noise is added.

    That is being among the first of a Plackett-Luce ranking; exact. It rises with the odds, so no
    order of a pool has a higher expected NDCG than that of the true scores.
    """
    chance = np.exp(odds - odds.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    least = np.finfo(float).tiny
    found: Floats = chance.copy()
    # second: one other came first
    after = chance / np.maximum(1.0 - chance, least)
    second = chance * (after.sum(axis=1, keepdims=True) - after)
    found += np.where(wanted[:, None] >= 2, second, 0.0)
    rows = np.flatnonzero(wanted >= 3)
    if len(rows):
        # third: two others came first, in either order
        first, then = chance[rows, :, None], chance[rows, None, :]
        rest = np.maximum(1.0 - first - then, least)
        pairs = np.where(np.eye(odds.shape[1], dtype=bool), 0.0, after[rows, :, None] * then) / rest
        whole = pairs.sum(axis=(1, 2))[:, None]
        found[rows] += chance[rows] * (whole - pairs.sum(axis=1) - pairs.sum(axis=2))
    np.minimum(found, 1.0, out=found)
    return found


class Fresh:
    """Other queries to the same entities after the log, each asked once."""

    def __init__(self, queries: Queries, use: Use, rng: np.random.Generator) -> None:
        scenario, count = queries.scenario, len(queries)
        hours = 24.0 * scenario.days * (1.0 + np.sort(rng.random(count)))
        self.log = queries.log(np.arange(count), hours, use)
        self._queries, self._odds = queries, queries.odds(hours, use)

    @cached_property
    def relevance(self) -> Floats:
        """(Q, m) the probability of being relevant."""
        return relevance(self._odds, self._queries.wanted)

    def ndcg(self, beta: float, gamma: float, k: int) -> float:
        """Mean NDCG@k that the order under these parameters is expected to have."""
        shape = self.relevance.shape
        sums = rerank.discounts(k, shape[1])
        scores = rerank.final_scores(self.log, beta, gamma).reshape(shape)
        gained = (self.relevance * np.diff(sums)[places(scores) - 1]).sum(axis=1)
        return float((gained / sums[np.minimum(self._queries.wanted, k)]).mean())
