"""Ranking whole pools of candidates: the formulas of `scoring`, applied and ordered.

The same rankings come out of the SQL statement in `queries/`; these functions are the documented
Python API and what the SQL is checked against. Source: the document "Sistema Límbico".
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from datasette_limbic import scoring
from datasette_limbic.scoring import Parameters

Candidate = dict[str, Any]
# access_data, degrees, co_occurrences, as the public functions take them.
_Signals = tuple[
    Mapping[Any, Mapping[str, Any]], Mapping[Any, float], Mapping[tuple[Any, Any], Any]
]
FUSIONS: tuple[str, ...] = ("document", "fused")


def reciprocal_rank_fusion(
    semantic_results: Iterable[Mapping[str, Any]],
    fts_results: Iterable[Mapping[str, Any]],
    k: float | None = None,
) -> list[Candidate]:
    """Fuse two rankings, best first in each, into candidates for `rank_hybrid_candidates`.

    Items are mappings with `entity_id` (semantic ones also with `distance`); their position is
    their rank, and a repeated id keeps its first. Returns dicts with all the items' keys and
    `distance` (`None` for text-only hits), `knn_rank`, `fts_rank`, `rrf_score` and `matched_by`,
    by falling `rrf_score`, then by id. `k` defaults to RRF_K.
    """
    merged: dict[Any, Candidate] = {}
    for rank_key, results in (("knn_rank", semantic_results), ("fts_rank", fts_results)):
        for rank, item in enumerate(results, start=1):
            candidate = merged.setdefault(
                item["entity_id"],
                {
                    "entity_id": item["entity_id"],
                    "distance": None,
                    "knn_rank": None,
                    "fts_rank": None,
                },
            )
            if candidate[rank_key] is None:
                candidate.update({key: v for key, v in item.items() if v is not None})
                candidate[rank_key] = rank
    for candidate in merged.values():
        candidate["rrf_score"] = scoring.rrf(candidate["knn_rank"], candidate["fts_rank"], k=k)
        candidate["matched_by"] = [
            name for name in ("knn", "fts") if candidate[f"{name}_rank"] is not None
        ]
    return sorted(merged.values(), key=lambda c: (-c["rrf_score"], c["entity_id"]))


def rank_candidates(
    candidates: Sequence[Mapping[str, Any]],
    access_data: Mapping[Any, Mapping[str, Any]],
    degrees: Mapping[Any, float],
    co_occurrences: Mapping[tuple[Any, Any], Any],
    limit: int | None,
    *,
    now: object = None,
    parameters: Parameters | None = None,
    strategy: str = "limbic",
) -> list[Candidate]:
    """Re-rank KNN candidates: the best `limit` of the pool, best first, ties by id.

    `candidates` are `{entity_id, distance}` (cosine distance), `access_data` maps ids to
    `{access_count, last_access}` and optionally `created_at`, `degrees` ids to numbers of
    neighbours, `co_occurrences` canonical pairs to a count or (count, last_co). Ids without data
    count as never accessed, without neighbours, of unknown age. `limit` `None` returns the pool.

    Returns the candidates' own keys with `limbic_score`, `limbic_norm`, `final_score`,
    `routing_strategy` and `scoring`, the factors behind them. ValueError on a candidate without a
    distance, an unknown strategy or a negative limit.
    """
    bases = []
    for candidate in candidates:
        base = scoring.cosine_sim(candidate["distance"])
        if base is None:
            raise ValueError(
                f"Candidate {candidate['entity_id']!r} has no distance; "
                "use rank_hybrid_candidates for hits of text search"
            )
        bases.append(base)
    signals = (access_data, degrees, co_occurrences)
    return _rank(candidates, bases, signals, limit, now, parameters or Parameters(), strategy)


def rank_hybrid_candidates(
    candidates: Sequence[Mapping[str, Any]],
    access_data: Mapping[Any, Mapping[str, Any]],
    degrees: Mapping[Any, float],
    co_occurrences: Mapping[tuple[Any, Any], Any],
    limit: int | None,
    *,
    now: object = None,
    parameters: Parameters | None = None,
    strategy: str = "limbic",
    fusion: str = "document",
) -> list[Candidate]:
    """Re-rank the candidates of `reciprocal_rank_fusion`; otherwise as `rank_candidates`.

    Needs `distance` (`None` for text-only hits) and `rrf_score` or the ranks (`knn_rank`,
    `fts_rank`). `fusion='document'`: text evidence counts only where the vectors missed;
    `'fused'`: the stronger of cosine and `text_coverage` (0 to 1, of each text hit) decides
    (`scoring.fused_base`). ValueError also on another `fusion` and on a candidate with neither
    score nor ranks.
    """
    if fusion not in FUSIONS:
        raise ValueError(f"Unknown fusion {fusion!r}; there are: {', '.join(FUSIONS)}")
    parameters = parameters or Parameters()
    pool = [{**c, "rrf_score": _rrf_score(c, parameters.rrf_k)} for c in candidates]
    norm_rrf = _min_max([c["rrf_score"] for c in pool])
    bases = []
    for candidate, norm in zip(pool, norm_rrf, strict=True):
        cosine = scoring.cosine_sim(candidate.get("distance"))
        if fusion == "fused":
            bases.append(scoring.fused_base(cosine, candidate.get("text_coverage")))
        else:
            bases.append(scoring.text_only_base(norm) if cosine is None else cosine)
    signals = (access_data, degrees, co_occurrences)
    return _rank(pool, bases, signals, limit, now, parameters, strategy)


def _rrf_score(candidate: Mapping[str, Any], k: float) -> float:
    given = candidate.get("rrf_score")
    score = (
        scoring.rrf(candidate.get("knn_rank"), candidate.get("fts_rank"), k=k)
        if given is None
        else float(given)
    )
    if score is None:
        raise ValueError(
            f"Candidate {candidate['entity_id']!r} has neither rrf_score nor a rank; "
            "pass what reciprocal_rank_fusion returns"
        )
    return score


def _min_max(values: Sequence[float]) -> list[float]:
    """Each value's place between the smallest (0) and the largest (1); all equal: 1."""
    if not values:
        return []
    low, high = min(values), max(values)
    # Two different values may be so close that their difference is 0 as well.
    width = high - low
    return [(value - low) / width if width > 0 else 1.0 for value in values]


def _rank(
    candidates: Sequence[Mapping[str, Any]],
    bases: Sequence[float],
    signals: _Signals,
    limit: int | None,
    now: object,
    parameters: Parameters,
    strategy: str,
) -> list[Candidate]:
    access_data, degrees, co_occurrences = signals
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, not {limit!r}")
    moment = time.time() if now is None else now
    ids = [candidate["entity_id"] for candidate in candidates]
    access = {i: access_data.get(i) or {} for i in ids}
    max_access = max((a.get("access_count") or 0 for a in access.values()), default=0)
    ranked: list[Candidate] = []
    for candidate, base in zip(candidates, bases, strict=True):
        entity_id = candidate["entity_id"]
        seen = access[entity_id]
        importance = scoring.compute_importance(
            seen.get("access_count") or 0,
            max_access,
            degrees.get(entity_id) or 0,
            beta_deg=parameters.beta_deg,
            d_max=parameters.d_max,
        )
        temporal = scoring.compute_temporal_factor(
            seen.get("last_access"),
            seen.get("created_at"),
            now=moment,
            lambda_hourly=parameters.lambda_hourly,
            floor=parameters.temporal_floor,
        )
        cooc = scoring.compute_cooc_boost(
            entity_id,
            co_occurrences,
            ids,
            now=moment,
            lambda_hourly=parameters.lambda_hourly,
            floor=parameters.cooc_temporal_floor,
            cap=parameters.cooc_cap,
            unknown=parameters.unknown_temporal,
        )
        score = scoring.limbic_score(
            base,
            importance,
            temporal,
            cooc,
            beta_sal=parameters.beta_sal,
            gamma=parameters.gamma,
            unknown_temporal=parameters.unknown_temporal,
        )
        factors = {
            "base": base,
            "cosine_sim": scoring.cosine_sim(candidate.get("distance")),
            "importance": importance,
            "temporal_factor": temporal,
            "cooc_boost": cooc,
        }
        ranked.append({**candidate, "limbic_score": score, "scoring": factors})
    norms = _min_max([row["limbic_score"] for row in ranked])
    for row, norm in zip(ranked, norms, strict=True):
        operand = row["limbic_score"] if strategy == "limbic" else norm
        row["limbic_norm"] = row["scoring"]["limbic_norm"] = norm
        row["final_score"] = scoring.blend(strategy, row["scoring"]["base"], operand)
        row["routing_strategy"] = strategy
    ranked.sort(key=lambda row: (-row["final_score"], row["entity_id"]))
    return ranked[:limit]
