"""The scoring formulas: numbers in, numbers out.

Nothing here reads a clock (where `now` matters it is an argument), a database or a setting. The
formulas and the names of the constants are those of the documents "Sistema Límbico" (composite
score), "Mantenimiento & Operaciones" (consolidation) and DDR-007 (temporal score). The constants
are read when a function is called, so assigning to one takes effect at once. The functions that
rank whole pools live in `datasette_limbic.ranking` and are importable from here too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from datasette_limbic.routing import STRATEGIES, detect_query_type
from datasette_limbic.times import hours_since

if TYPE_CHECKING:
    from datasette_limbic.ranking import (
        rank_candidates,
        rank_hybrid_candidates,
        reciprocal_rank_fusion,
    )

__all__ = [
    "Parameters",
    "blend",
    "compute_cooc_boost",
    "compute_importance",
    "compute_temporal_factor",
    "consolidation_importance",
    "cooc_term",
    "cosine_sim",
    "detect_query_type",
    "fused_base",
    "idf",
    "limbic_score",
    "rank_candidates",
    "rank_hybrid_candidates",
    "reciprocal_rank_fusion",
    "rrf",
    "temporal_score",
    "text_only_base",
]

BETA_SAL: float = 0.5
BETA_DEG: float = 0.15
D_MAX: int = 15
LAMBDA_HOURLY: float = 0.0001
GAMMA: float = 0.01
RRF_K: float = 60
EXPANSION_FACTOR: int = 3
TEMPORAL_FLOOR: float = 0.1
COOC_TEMPORAL_FLOOR: float = 0.1
# The sum over a pool has no bound of its own: 30 candidates reach a factor of 1.3. None: no cap.
COOC_CAP: float | None = None
# What an unknown time counts as inside the composite: neither fresh nor forgotten.
UNKNOWN_TEMPORAL: float = 0.5
ALPHA_CONS: float = 0.2
ALPHA_DECAY: float = math.exp(-24 * LAMBDA_HOURLY)
HALF_LIFE_DAYS: float = 180.0
INSIGHT_HALF_LIFE_DAYS: float = 30.0
# A text-only hit's base similarity runs from TEXT_BASE to TEXT_BASE + TEXT_SPAN.
TEXT_BASE: float = 0.2
TEXT_SPAN: float = 0.6
# What a text that holds the whole query counts as with fusion='fused' (measured: docs/quality.md).
FUSED_TEXT_WEIGHT: float = 0.8

_RANGES: dict[str, tuple[float, float]] = {
    "beta_sal": (0, 10),
    "beta_deg": (0, 10),
    "d_max": (1, 1_000_000),
    "lambda_hourly": (0, 1),
    "gamma": (0, 10),
    "rrf_k": (0, 1_000_000),
    "temporal_floor": (0, 1),
    "cooc_temporal_floor": (0, 1),
    "cooc_cap": (0, 1_000_000),
    "unknown_temporal": (0, 1),
}


@dataclass(frozen=True)
class Parameters:
    """The parameters of one ranking; the defaults are the module's constants at that moment.

    ValueError names the value and the allowed range where one is not a number within it.
    """

    beta_sal: float = field(default_factory=lambda: BETA_SAL)
    beta_deg: float = field(default_factory=lambda: BETA_DEG)
    d_max: float = field(default_factory=lambda: D_MAX)
    lambda_hourly: float = field(default_factory=lambda: LAMBDA_HOURLY)
    gamma: float = field(default_factory=lambda: GAMMA)
    rrf_k: float = field(default_factory=lambda: RRF_K)
    temporal_floor: float = field(default_factory=lambda: TEMPORAL_FLOOR)
    cooc_temporal_floor: float = field(default_factory=lambda: COOC_TEMPORAL_FLOOR)
    cooc_cap: float | None = field(default_factory=lambda: COOC_CAP)
    unknown_temporal: float = field(default_factory=lambda: UNKNOWN_TEMPORAL)

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if value is None and name == "cooc_cap":
                continue
            # Comparisons with NaN are false, so it is refused here too.
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not low <= value <= high:
                raise ValueError(
                    f"{name} must be a number from {low:,.15g} to {high:,.15g}, not {value!r}"
                )

    def as_dict(self) -> dict[str, float | None]:
        """Each by its name (``dataclasses.asdict`` copies every value, which a search notices)."""
        return dict(vars(self))

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Parameters:
        """Parameters from configuration or a query string: numeric text counts as a number,
        `None` and `''` as not given. ValueError on an unknown name or a bad value."""
        known = [item.name for item in fields(cls)]
        chosen: dict[str, Any] = {}
        for name, value in mapping.items():
            if name not in known:
                raise ValueError(f"Unknown parameter {name!r}; there are: {', '.join(known)}")
            if isinstance(value, str) and value.strip():
                try:
                    chosen[name] = float(value)
                except ValueError:
                    chosen[name] = value  # __post_init__ says what is allowed
            elif value is not None and not isinstance(value, str):
                chosen[name] = value
        return cls(**chosen)


def cosine_sim(distance: float | None) -> float | None:
    """Base similarity max(0, 1 − cosine distance), 0 to 1; `None` for an unknown distance."""
    return None if distance is None else max(0.0, 1.0 - distance)


def text_only_base(norm_rrf: float) -> float:
    """Base similarity of a hit without a vector: 0.2 + 0.6·norm_rrf, from 0.2 to 0.8."""
    return TEXT_BASE + TEXT_SPAN * norm_rrf


def fused_base(
    cosine_sim: float | None, coverage: float | None, weight: float | None = None
) -> float:
    """Base similarity where both kinds of evidence count and the stronger decides, 0 to 1.

    max(cosine_sim, weight·coverage). `coverage` (`text.coverage`) is the share of the query's
    information that the text holds, 0 to 1, and 1.25 for an exact name. `None` on either side,
    where that search did not find the candidate, adds nothing. `weight` defaults to
    FUSED_TEXT_WEIGHT.
    """
    factor = FUSED_TEXT_WEIGHT if weight is None else weight
    return max(cosine_sim or 0.0, min(1.0, factor * (coverage or 0.0)))


def idf(frequency: float, rows: float | None) -> float:
    """Inverse document frequency as SQLite's bm25() takes it: ln((N − n + .5)/(n + .5)), > 0.

    `frequency` is the number n of rows with the term, `rows` the number N of all.
    """
    total = max(rows or 0, frequency)
    return max(1e-6, math.log((total - frequency + 0.5) / (frequency + 0.5)))


def compute_importance(
    access_count: float,
    max_access: float,
    degree: float,
    *,
    beta_deg: float | None = None,
    d_max: float | None = None,
) -> float:
    """importance(e) = log₂(1+access)/log₂(1+max_access) · (1 + β_deg·min(degree, D_max)/D_max).

    `max_access` is the largest count in the pool; 0 gives 0. Ranges from 0 to 1 + β_deg (1.15).
    Negative counts count as 0.
    """
    if max_access <= 0 or access_count <= 0:
        return 0.0
    weight = BETA_DEG if beta_deg is None else beta_deg
    limit = D_MAX if d_max is None else d_max
    # log1p keeps the precision of log2(1 + n), and the ratio does not depend on the base.
    frequency = math.log1p(access_count) / math.log1p(max_access)
    return frequency * (1.0 + weight * min(max(degree, 0), limit) / limit)


def compute_temporal_factor(
    last_access: object,
    created_at: object,
    *,
    now: object,
    lambda_hourly: float | None = None,
    floor: float | None = None,
) -> float | None:
    """temporal_factor(e) = max(floor, exp(−λ·hours since last_access, else since created_at)).

    Times are anything `times.parse_time` reads. From `floor` (0.1) to 1; a future time gives 1;
    `None` when neither time is known.
    """
    hours = hours_since(last_access, now)
    if hours is None:
        hours = hours_since(created_at, now)
        if hours is None:
            return None
    return _decay(hours, lambda_hourly, TEMPORAL_FLOOR if floor is None else floor)


def cooc_term(
    count: float,
    hours: float | None,
    *,
    lambda_hourly: float | None = None,
    floor: float | None = None,
    unknown: float | None = None,
) -> float:
    """One pair's part of cooc_boost: log₂(1+count)·max(floor, exp(−λ·hours)).

    `hours` since the pair was last returned together; `None` (unknown) decays to
    UNKNOWN_TEMPORAL. A count below 0 counts as 0.
    """
    if count <= 0:
        return 0.0
    if hours is None:
        return math.log2(1 + count) * (UNKNOWN_TEMPORAL if unknown is None else unknown)
    bottom = COOC_TEMPORAL_FLOOR if floor is None else floor
    return math.log2(1 + count) * _decay(hours, lambda_hourly, bottom)


def compute_cooc_boost(
    entity_id: Any,
    co_occurrences: Mapping[tuple[Any, Any], Any],
    result_ids: Collection[Any],
    *,
    now: object = None,
    lambda_hourly: float | None = None,
    floor: float | None = None,
    cap: float | None = None,
    unknown: float | None = None,
) -> float:
    """cooc_boost(e, R): the sum of `cooc_term` over the other ids of the pool; 0 without pairs.

    `co_occurrences` maps canonical pairs (a, b), a < b, to a count (taken as fresh) or to
    (count, last_co); `now` is needed for the latter. Has no upper bound unless `cap` (default
    COOC_CAP) is given.
    """
    total = 0.0
    for other in set(result_ids):
        if other == entity_id:
            continue
        pair = (entity_id, other) if entity_id < other else (other, entity_id)
        value = co_occurrences.get(pair)
        if value is None:
            continue
        count: float = value
        hours: float | None = 0.0
        if isinstance(value, (tuple, list)):
            count, hours = value[0], hours_since(value[1], now)
        total += cooc_term(count, hours, lambda_hourly=lambda_hourly, floor=floor, unknown=unknown)
    limit = COOC_CAP if cap is None else cap
    return total if limit is None else min(total, limit)


def limbic_score(
    base: float,
    importance: float,
    temporal_factor: float | None,
    cooc_boost: float,
    *,
    beta_sal: float | None = None,
    gamma: float | None = None,
    unknown_temporal: float | None = None,
) -> float:
    """The composite: base·(1 + β_sal·importance)·temporal_factor·(1 + γ·cooc_boost).

    An unknown `temporal_factor` (`None`) counts as `unknown_temporal` (0.5). From 0; can pass 1.
    """
    if temporal_factor is None:
        temporal_factor = UNKNOWN_TEMPORAL if unknown_temporal is None else unknown_temporal
    salience = 1.0 + (BETA_SAL if beta_sal is None else beta_sal) * importance
    association = 1.0 + (GAMMA if gamma is None else gamma) * cooc_boost
    return base * salience * temporal_factor * association


def temporal_score(
    last_activity_at: object,
    half_life_days: float | None,
    degree: float = 0,
    *,
    now: object,
) -> float | None:
    """Recency by activity (DDR-007): 2^(−age / (half_life·(1 + log₂(1 + degree)))), 0 to 1.

    `half_life_days` `None` means exempt: 1, whatever the age. An unknown time gives `None`, one
    in the future 1. ValueError for a half-life that is not above 0.
    """
    if half_life_days is None:
        return 1.0
    if not half_life_days > 0:
        raise ValueError(f"half_life_days must be above 0, not {half_life_days!r}")
    hours = hours_since(last_activity_at, now)
    if hours is None:
        return None
    stretched = half_life_days * (1.0 + math.log2(1 + max(degree, 0)))
    return float(2.0 ** -(hours / 24 / stretched))


def consolidation_importance(total_accesses: float, days: float | None) -> float | None:
    """ALPHA_CONS·ln(1 + total accesses)·ALPHA_DECAY^days since the last access; 0 and up.

    0 without accesses; `None` when there are accesses but their age is unknown. Days below 0
    count as 0. Source: "Mantenimiento & Operaciones".
    """
    if total_accesses <= 0:
        return 0.0
    if days is None:
        return None
    return float(ALPHA_CONS * math.log1p(total_accesses) * ALPHA_DECAY ** max(days, 0))


def rrf(*ranks: float | None, k: float | None = None) -> float | None:
    """Reciprocal rank fusion: Σ 1/(k + rank); a missing rank (`None`) adds nothing.

    Ranks count from 1 (ValueError below). `None` when every rank is missing. Source: Cormack,
    Clarke and Büttcher, SIGIR 2009; `k` defaults to RRF_K, their 60.
    """
    smoothing = RRF_K if k is None else k
    total: float | None = None
    for rank in ranks:
        if rank is None:
            continue
        if not rank >= 1:
            raise ValueError(f"rank must be 1 or more, not {rank!r}")
        total = (total or 0.0) + 1.0 / (smoothing + rank)
    return total


def blend(strategy: str, base: float, limbic_norm: float) -> float:
    """The final score: w_cos·base + w_limbic·limbic_norm, with the strategy's weights.

    For 'limbic' (weights 0 and 1) pass the limbic score itself. ValueError on another name.
    """
    try:
        w_cos, w_limbic = STRATEGIES[strategy]
    except (KeyError, TypeError):
        raise ValueError(
            f"Unknown strategy {strategy!r}; there are: {', '.join(STRATEGIES)}"
        ) from None
    return w_cos * base + w_limbic * limbic_norm


def _decay(hours: float, lambda_hourly: float | None, floor: float) -> float:
    rate = LAMBDA_HOURLY if lambda_hourly is None else lambda_hourly
    left = math.exp(-rate * hours) if hours > 0 else 1.0
    return left if left > floor else floor


def __getattr__(name: str) -> Any:
    # ranking imports this module, so its functions can only be fetched when first asked for.
    if name in ("rank_candidates", "rank_hybrid_candidates", "reciprocal_rank_fusion"):
        from datasette_limbic import ranking

        return getattr(ranking, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
