"""A pool ranked again with other parameters, and what a candidate lacked: no statement is run.

The candidates of a search, and their factors, do not depend on ``beta_sal``, ``gamma`` and the
strategy: only the scores do. So what another choice would have made of a pool is worked out from
the pool itself, as the statement would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import routing, scoring
from .request import Request
from .scoring import Parameters
from .search import Pool

FACTORS = ("base", "salience", "time", "cooc")


def strategy_of(request: Request, pool: Pool) -> str:
    """What the strategy of ``request`` comes to for the pool: ``auto`` looks at the query."""
    if pool.shape.listing:
        return "limbic"
    if request.strategy == "auto":
        return routing.detect_query_type(request.query, request.limit)
    return request.strategy


def multipliers(row: Mapping[str, Any], parameters: Parameters) -> dict[str, float]:
    """The four factors of a candidate, whose product is its limbic score."""
    temporal = row["temporal_factor"]
    return {
        "base": row["base"],
        "salience": 1.0 + parameters.beta_sal * row["importance"],
        "time": parameters.unknown_temporal if temporal is None else temporal,
        "cooc": 1.0 + parameters.gamma * row["cooc_boost"],
    }


def limbic_scores(rows: Sequence[Mapping[str, Any]], parameters: Parameters) -> list[float]:
    """The limbic score of each candidate, in the order of operations of the statement."""
    return [
        scoring.limbic_score(
            row["base"],
            row["importance"],
            row["temporal_factor"],
            row["cooc_boost"],
            beta_sal=parameters.beta_sal,
            gamma=parameters.gamma,
            unknown_temporal=parameters.unknown_temporal,
        )
        for row in rows
    ]


def final(strategy: str, base: float, limbic: float, low: float, high: float) -> float:
    """The final score of one candidate of a pool whose limbic scores run from low to high."""
    if strategy == "limbic":
        return limbic
    return scoring.blend(strategy, base, (limbic - low) / (high - low) if high > low else 1.0)


def ranks(pool: Pool, other: Request) -> dict[int, int]:
    """The rank from 1 that each candidate has with the parameters and strategy of ``other``."""
    rows = pool.rows
    scores = limbic_scores(rows, other.parameters)
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    strategy = strategy_of(other, pool)
    order = sorted(
        (-final(strategy, row["base"], score, low, high), row["id"])
        for row, score in zip(rows, scores, strict=True)
    )
    return {number: rank for rank, (_, number) in enumerate(order, 1)}


@dataclass(frozen=True)
class Lack:
    """What kept a candidate out: the factor that costs it most against the last that made it.

    ``own`` and ``needed`` are that factor here and there; with ``needed`` in place of ``own`` its
    final score would have been ``would_be``; ``enough`` says whether that is as good as the last.
    """

    factor: str
    own: float
    needed: float
    would_be: float
    enough: bool


def lacks(pool: Pool, limit: int) -> dict[int, Lack | None]:
    """For each candidate past ``limit`` what it lacked; None where no factor is below the last's.

    Then the two differ by nothing, or by rounding, and the id decided. One factor is exchanged at
    a time; the pool's lowest and highest limbic scores stay what they are.
    """
    rows = pool.rows
    if not 0 < limit < len(rows):
        return {}
    parameters, strategy = pool.request.parameters, pool.strategy
    scores = [row["limbic_score"] for row in rows]
    low, high = min(scores), max(scores)
    last = rows[limit - 1]
    needed = multipliers(last, parameters)
    found: dict[int, Lack | None] = {}
    for row in rows[limit:]:
        own = multipliers(row, parameters)
        best: Lack | None = None
        for factor in FACTORS:
            if own[factor] >= needed[factor]:
                continue
            tried = {**own, factor: needed[factor]}
            limbic = tried["base"] * tried["salience"] * tried["time"] * tried["cooc"]
            would_be = final(strategy, tried["base"], limbic, low, high)
            if best is None or would_be > best.would_be:
                enough = would_be >= last["final_score"]
                best = Lack(factor, own[factor], needed[factor], would_be, enough)
        found[row["id"]] = best
    return found
