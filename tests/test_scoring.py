from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from datasette_limbic import ranking, scoring
from datasette_limbic.scoring import Parameters
from datasette_limbic.times import parse_time

REFERENCE_DIR = Path(__file__).parent / "reference"
REFERENCE = json.loads((REFERENCE_DIR / "scoring.json").read_text("utf-8"))
RANKINGS = json.loads((REFERENCE_DIR / "ranking.json").read_text("utf-8"))["cases"]
NOW = "2026-11-29T12:00:00Z"
EPOCH = parse_time(NOW)


def hours_ago(hours):
    return None if hours is None else EPOCH - 3600 * hours


def close(expected):
    return None if expected is None else pytest.approx(expected, rel=1e-12, abs=0)


def cases(name):
    return [pytest.param(c["args"], c["expect"], id=str(c["args"])) for c in REFERENCE[name]]


@pytest.mark.parametrize(("args", "expected"), cases("cosine_sim(distance)"))
def test_cosine_sim(args, expected):
    assert scoring.cosine_sim(*args) == close(expected)


@pytest.mark.parametrize(
    ("args", "expected"), cases("importance(access_count, max_access, degree)")
)
def test_importance(args, expected):
    assert scoring.compute_importance(*args) == close(expected)


@pytest.mark.parametrize(("args", "expected"), cases("temporal_factor(hours since last access)"))
def test_temporal_factor_by_hours(args, expected):
    result = scoring.compute_temporal_factor(hours_ago(args[0]), None, now=NOW)
    assert result == close(expected)


@pytest.mark.parametrize(
    ("args", "expected"), cases("temporal_factor(last_access, created_at, now)")
)
def test_temporal_factor_by_times(args, expected):
    last_access, created_at, now = args
    assert scoring.compute_temporal_factor(last_access, created_at, now=now) == close(expected)


@pytest.mark.parametrize(
    ("args", "expected"), cases("cooc_boost([(co_count, hours since last_co)])")
)
def test_cooc_boost(args, expected):
    pairs = {(1, n): (c, hours_ago(h)) for n, (c, h) in enumerate(args[0], start=2)}
    ids = range(1, len(pairs) + 2)
    assert scoring.compute_cooc_boost(1, pairs, ids, now=NOW) == close(expected)
    terms = [scoring.cooc_term(count, hours) for count, hours in args[0]]
    assert sum(terms) == close(expected)


@pytest.mark.parametrize(
    ("args", "expected"), cases("limbic_score(base, importance, temporal_factor, cooc_boost)")
)
def test_limbic_score(args, expected):
    assert scoring.limbic_score(*args) == close(expected)


@pytest.mark.parametrize(("args", "expected"), cases("rrf(rank, rank, ...)"))
def test_rrf(args, expected):
    assert scoring.rrf(*args) == close(expected)


@pytest.mark.parametrize(
    ("args", "expected"), cases("temporal_score(age_days, half_life_days, degree)")
)
def test_temporal_score(args, expected):
    days, half_life, degree = args
    last = None if days is None else EPOCH - 86400 * days
    assert scoring.temporal_score(last, half_life, degree, now=NOW) == close(expected)


@pytest.mark.parametrize(
    ("args", "expected"), cases("consolidation_importance(total_accesses, days)")
)
def test_consolidation_importance(args, expected):
    assert scoring.consolidation_importance(*args) == close(expected)


@pytest.mark.parametrize(("args", "expected"), cases("limbic_blend(strategy, base, limbic_norm)"))
def test_blend(args, expected):
    assert scoring.blend(*args) == close(expected)


def test_the_documents_worked_example():
    """The document prints 0.908; its own numbers give 0.9067."""
    inputs = REFERENCE["worked_example"]["inputs"]
    base = scoring.cosine_sim(inputs["distance"])
    importance = scoring.compute_importance(
        inputs["access_count"], inputs["max_access"], inputs["degree"]
    )
    temporal = scoring.compute_temporal_factor(hours_ago(inputs["hours"]), None, now=NOW)
    for age, name in ((0, "cooc_fresh"), (720, "cooc_30_days")):
        boost = sum(scoring.cooc_term(count, age) for count in inputs["co_counts"])
        score = scoring.limbic_score(base, importance, temporal, boost)
        assert score == close(REFERENCE["worked_example"][name])
    assert round(REFERENCE["worked_example"]["cooc_fresh"], 4) == 0.9067


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (scoring.compute_importance(20, 20, 15), 1.15),
        (1 + scoring.BETA_SAL * scoring.compute_importance(20, 20, 15), 1.575),
        (scoring.cooc_term(5, 0), math.log2(6)),
        (math.log(2) / scoring.LAMBDA_HOURLY / 24, 288.811325),
        (scoring.ALPHA_DECAY, math.exp(-0.0024)),
    ],
)
def test_the_documents_figures(value, expected):
    assert value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("days", "at_floor"), [(959, False), (960, True), (36500, True)])
def test_the_floor_is_reached_after_959_days(days, at_floor):
    factor = scoring.compute_temporal_factor(hours_ago(24 * days), None, now=NOW)
    assert (factor == 0.1) is at_floor


# Whole rankings


def pool_of(case):
    rows = case["candidates"]
    candidates = [
        {"entity_id": row["id"], **{k: row[k] for k in ("distance", "knn_rank", "fts_rank")}}
        for row in rows
    ]
    access = {
        row["id"]: {"access_count": row["access"], "last_access": hours_ago(row["hours"])}
        for row in rows
    }
    pairs = {
        tuple(sorted((row["id"], int(other)))): (count, hours_ago(hours))
        for row in rows
        for other, (count, hours) in row["cooc"].items()
    }
    return candidates, access, {row["id"]: row["degree"] for row in rows}, pairs


@pytest.mark.parametrize("number", range(len(RANKINGS)))
@pytest.mark.parametrize("reverse", [False, True])
def test_reference_rankings(number, reverse):
    case = RANKINGS[number]
    candidates, access, degrees, pairs = pool_of(case)
    rank = scoring.rank_hybrid_candidates if case["hybrid"] else scoring.rank_candidates
    given_order = candidates[::-1] if reverse else candidates
    ranked = rank(given_order, access, degrees, pairs, None, now=NOW, strategy=case["strategy"])
    assert [row["entity_id"] for row in ranked] == [row["id"] for row in case["expect"]]
    for row, expected in zip(ranked, case["expect"], strict=True):
        got = {**row["scoring"], **{k: v for k, v in row.items() if k != "scoring"}}
        for name in expected.keys() - {"id", "rrf_score"}:
            assert got[name] == close(expected[name]), (row["entity_id"], name)
        if case["hybrid"]:
            assert got["rrf_score"] == close(expected["rrf_score"])
        assert row["routing_strategy"] == case["strategy"]
    for limit in (0, 1, 3):
        short = rank(given_order, access, degrees, pairs, limit, now=NOW, strategy=case["strategy"])
        assert short == ranked[:limit]


def test_fusing_two_rankings():
    knn = [{"entity_id": 3, "distance": 0.1}, {"entity_id": 1, "distance": 0.2}]
    fts = [{"entity_id": 1, "bm25": -4.0}, {"entity_id": 9}, {"entity_id": 1}]
    merged = scoring.reciprocal_rank_fusion(knn, fts)
    assert [(c["entity_id"], c["knn_rank"], c["fts_rank"], c["distance"]) for c in merged] == [
        (1, 2, 1, 0.2),
        (3, 1, None, 0.1),
        (9, None, 2, None),
    ]
    assert merged[0]["rrf_score"] == close(1 / 62 + 1 / 61)
    assert [c["matched_by"] for c in merged] == [["knn", "fts"], ["knn"], ["fts"]]
    assert merged[0]["bm25"] == -4.0
    assert scoring.reciprocal_rank_fusion(knn, fts, k=0)[0]["rrf_score"] == close(1.5)
    assert scoring.reciprocal_rank_fusion([], []) == []


def test_the_documents_pipeline():
    merged = scoring.reciprocal_rank_fusion(
        [{"entity_id": 1, "distance": 0.35}], [{"entity_id": 2}], k=scoring.RRF_K
    )
    ranked = scoring.rank_hybrid_candidates(
        candidates=merged,
        access_data={1: {"access_count": 10, "last_access": NOW, "created_at": None}},
        degrees={1: 8},
        co_occurrences={(1, 2): 5},
        limit=10,
        now=NOW,
    )
    first = ranked[0]
    assert first["entity_id"] == 1
    assert first["scoring"]["cooc_boost"] == close(math.log2(6))
    assert first["scoring"]["importance"] == close(1.08)
    # Equal rrf scores: the text-only hit gets the top of its range, its age is unknown.
    assert ranked[1]["scoring"]["base"] == close(0.8)
    assert ranked[1]["scoring"]["temporal_factor"] is None
    assert ranked[1]["limbic_score"] == close(0.8 * 0.5 * (1 + 0.01 * math.log2(6)))


def test_created_at_stands_in_for_an_access_that_never_was():
    row = scoring.rank_candidates(
        *([{"entity_id": 1, "distance": 0}], {1: {"created_at": hours_ago(720)}}, {}, {}, 1),
        now=NOW,
    )[0]
    assert row["scoring"]["temporal_factor"] == close(0.9305308958112057)


def test_without_now_the_clock_counts():
    row = scoring.rank_candidates(
        [{"entity_id": 1, "distance": 0}], {1: {"last_access": "2020-01-01"}}, {}, {}, 1
    )[0]
    assert row["scoring"]["temporal_factor"] < 0.7


def test_fused_lets_the_stronger_evidence_decide():
    candidates = scoring.reciprocal_rank_fusion(
        [{"entity_id": i, "distance": 0.5} for i in (1, 2)],
        [{"entity_id": 2}, {"entity_id": 3}],
    )
    coverage = {2: 1.0, 3: 0.25}
    for row in candidates:
        row["text_coverage"] = coverage.get(row["entity_id"])
    bases = {}
    for fusion in ranking.FUSIONS:
        ranked = scoring.rank_hybrid_candidates(
            candidates, {}, {}, {}, None, now=NOW, fusion=fusion
        )
        bases[fusion] = {row["entity_id"]: row["scoring"]["base"] for row in ranked}
    assert bases["document"][1] == bases["document"][2] == 0.5
    assert bases["fused"] == pytest.approx({1: 0.5, 2: 0.8, 3: 0.2})


@pytest.mark.parametrize(
    ("cosine", "coverage", "weight", "expected"),
    [
        (0.6, None, None, 0.6),
        (0.6, 0.0, None, 0.6),
        (0.6, 1.0, None, 0.8),
        (None, 0.5, None, 0.4),
        (None, 1.25, None, 1.0),
        (None, 3.0, None, 1.0),
        (None, None, None, 0.0),
        (0.9, 1.0, None, 0.9),
        (0.2, 0.5, 1.0, 0.5),
    ],
)
def test_fused_base(cosine, coverage, weight, expected):
    assert scoring.fused_base(cosine, coverage, weight) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("frequency", "rows", "expected"),
    [(0, 100, 5.303304908059076), (1, 100, 4.194692536056382), (90, 100, 1e-6), (5, None, 1e-6)],
)
def test_idf_is_that_of_bm25(frequency, rows, expected):
    assert scoring.idf(frequency, rows) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scoring.blend("auto", 1, 1), "Unknown strategy 'auto'"),
        (lambda: scoring.rrf(0), "rank must be 1 or more, not 0"),
        (lambda: scoring.rrf(math.nan), "rank must be 1 or more"),
        (lambda: scoring.temporal_score(NOW, 0, now=NOW), "half_life_days must be above 0, not 0"),
        (
            lambda: scoring.rank_candidates([{"entity_id": 7, "distance": None}], {}, {}, {}, 1),
            "Candidate 7 has no distance",
        ),
        (
            lambda: scoring.rank_hybrid_candidates(
                [{"entity_id": 7, "distance": 0.1}], {}, {}, {}, 1
            ),
            "Candidate 7 has neither",
        ),
        (
            lambda: scoring.rank_hybrid_candidates([], {}, {}, {}, 1, fusion="both"),
            "Unknown fusion 'both'",
        ),
        (lambda: scoring.rank_candidates([], {}, {}, {}, -1), "limit must be 0 or more, not -1"),
        (
            lambda: scoring.rank_candidates(
                [{"entity_id": 1, "distance": 0}], {}, {}, {}, 1, strategy="best"
            ),
            "Unknown strategy 'best'",
        ),
        (lambda: Parameters(gamma=-1), "gamma must be a number from 0 to 10, not -1"),
        (lambda: Parameters(d_max=0), "d_max must be a number from 1 to 1,000,000, not 0"),
        (lambda: Parameters(beta_sal=math.nan), "beta_sal must be a number"),
        (lambda: Parameters(temporal_floor=1.5), "from 0 to 1, not 1.5"),
        (lambda: Parameters(gamma=True), "gamma must be a number"),
        (lambda: Parameters.from_mapping({"gamma": "high"}), "gamma must be .* not 'high'"),
        (lambda: Parameters.from_mapping({"gama": 1}), "Unknown parameter 'gama'.*gamma"),
    ],
)
def test_errors_name_the_value(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_unknown_attributes_are_still_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        scoring.nothing  # noqa: B018


def test_parameters_from_a_form():
    parameters = Parameters.from_mapping({"gamma": " 0.05 ", "beta_sal": "", "cooc_cap": None})
    assert parameters == Parameters(gamma=0.05)
    assert Parameters.from_mapping({"cooc_cap": "5"}).cooc_cap == 5
    assert Parameters.from_mapping({}) == Parameters()


def test_constants_are_read_when_called(monkeypatch):
    pair = {(1, 2): (1, hours_ago(1e6))}
    before = scoring.compute_cooc_boost(1, pair, [1, 2], now=NOW)
    monkeypatch.setattr(scoring, "COOC_TEMPORAL_FLOOR", 0.7)
    monkeypatch.setattr(scoring, "GAMMA", 1.0)
    monkeypatch.setattr(scoring, "BETA_SAL", 0.0)
    monkeypatch.setattr(scoring, "RRF_K", 0)
    monkeypatch.setattr(scoring, "COOC_CAP", 0.6)
    monkeypatch.setattr(scoring, "D_MAX", 30)
    monkeypatch.setattr(scoring, "UNKNOWN_TEMPORAL", 0.25)
    assert before == close(0.1)
    assert scoring.compute_cooc_boost(1, pair, [1, 2], now=NOW) == 0.6
    assert scoring.limbic_score(1, 1, 1, 1) == 2.0
    assert scoring.limbic_score(1, 0, None, 0) == 0.25
    assert scoring.rrf(2) == 0.5
    assert scoring.compute_importance(1, 1, 15) == close(1.075)
    assert Parameters().gamma == 1.0
    assert Parameters().d_max == 30


def test_parameters_reach_every_factor():
    case = RANKINGS[2]
    base = scoring.rank_hybrid_candidates(*pool_of(case), None, now=NOW)
    for change in (
        {"beta_sal": 1.0},
        {"beta_deg": 1.0},
        {"d_max": 40},
        {"lambda_hourly": 0.001},
        {"gamma": 0.1},
        {"rrf_k": 1},
        {"temporal_floor": 0.3},
        {"cooc_temporal_floor": 0.3},
        {"cooc_cap": 1.0},
    ):
        changed = scoring.rank_hybrid_candidates(
            *pool_of(case), None, now=NOW, parameters=Parameters(**change)
        )
        scores = [{r["entity_id"]: r["limbic_score"] for r in rows} for rows in (base, changed)]
        assert scores[0] != scores[1], change


def test_cooc_cap_bounds_a_pool_of_thirty():
    ids = list(range(30))
    pairs = {(a, b): 1 for a in ids for b in ids if a < b}
    assert scoring.compute_cooc_boost(0, pairs, ids) == 29
    assert pytest.approx(1.29) == 1 + scoring.GAMMA * 29
    assert scoring.compute_cooc_boost(0, pairs, ids, cap=5) == 5


def test_an_unknown_age_of_a_pair_is_not_fresh():
    assert scoring.compute_cooc_boost(1, {(1, 2): (1, None)}, [1, 2], now=NOW) == 0.5
    assert scoring.compute_cooc_boost(1, {(1, 2): (1, "soon")}, [1, 2], now=NOW) == 0.5
    assert scoring.compute_cooc_boost(1, {(1, 2): 1}, [1, 2]) == 1.0


# Properties

counts = st.integers(min_value=0, max_value=10**9)
hours = st.floats(min_value=0, max_value=1e7)
unit = st.floats(min_value=0, max_value=1)


@given(counts, counts, counts)
def test_importance_bounds(access, maximum, degree):
    assume(access <= maximum)
    assert 0 <= scoring.compute_importance(access, maximum, degree) <= 1.15 + 1e-12


@given(counts, counts, counts, st.integers(min_value=1, max_value=10**9))
def test_importance_rises_with_access_and_degree(a, b, degree, maximum):
    low, high = sorted((a, b))
    importance = scoring.compute_importance
    assert importance(low, maximum, degree) <= importance(high, maximum, degree)
    assert importance(a, maximum, degree) <= importance(a, maximum, degree + 1)
    assert importance(a, maximum, degree) == importance(a, maximum, degree, beta_deg=0.15, d_max=15)


@given(hours, hours)
def test_recency_falls_with_age_and_stays_bounded(a, b):
    young, old = sorted((a, b))
    factors = [scoring.compute_temporal_factor(hours_ago(h), None, now=EPOCH) for h in (young, old)]
    scores = [scoring.temporal_score(hours_ago(h), 180, 3, now=EPOCH) for h in (young, old)]
    assert 1 >= factors[0] >= factors[1] >= 0.1
    assert 1 >= scores[0] >= scores[1] >= 0


@given(hours, st.integers(0, 10**6), st.floats(min_value=0.1, max_value=1e4))
def test_neighbours_and_longer_half_lives_keep_an_entity_fresh(age, degree, half_life):
    def score(half_life, degree):
        return scoring.temporal_score(hours_ago(age), half_life, degree, now=EPOCH)

    assert score(half_life, degree) <= score(half_life, degree + 1)
    assert score(half_life, degree) <= score(half_life * 2, degree)


@given(unit, unit, unit, st.floats(min_value=0, max_value=200), st.floats(0.1, 10))
def test_the_score_scales_with_base_and_rises_in_every_factor(base, imp, temporal, cooc, scale):
    score = scoring.limbic_score(base, imp, temporal, cooc)
    assert scoring.limbic_score(base * scale, imp, temporal, cooc) == pytest.approx(
        score * scale, rel=1e-9, abs=1e-300
    )
    assert score <= scoring.limbic_score(base, imp + 0.1, temporal, cooc)
    assert score <= scoring.limbic_score(base, imp, min(1, temporal + 0.1), cooc)
    assert score <= scoring.limbic_score(base, imp, temporal, cooc + 1)
    assert score >= base * temporal


@given(st.lists(st.one_of(st.none(), st.integers(1, 10**6)), min_size=1), st.integers(1, 1000))
def test_rrf_ignores_missing_ranks_and_their_order(ranks, extra):
    score = scoring.rrf(*ranks)
    assert score == scoring.rrf(*[r for r in ranks if r is not None])
    assert score == (None if score is None else pytest.approx(scoring.rrf(*ranks[::-1]), rel=1e-9))
    assert scoring.rrf(*ranks, extra) > (score or 0)


@given(st.sampled_from(["cosine_heavy", "hybrid_balanced", "limbic_heavy"]), unit, unit)
def test_blend_lies_between_its_parts(strategy, base, norm):
    result = scoring.blend(strategy, base, norm)
    assert min(base, norm) - 1e-12 <= result <= max(base, norm) + 1e-12


@given(unit, st.one_of(st.none(), unit), unit)
def test_fused_base_only_ever_raises(cosine, coverage, weight):
    fused = scoring.fused_base(cosine, coverage, weight)
    assert cosine <= fused <= 1


distances = st.lists(st.floats(min_value=0, max_value=2), min_size=1, max_size=12)


@given(distances, st.sampled_from(["limbic", "cosine_heavy", "hybrid_balanced", "limbic_heavy"]))
def test_rankings_are_complete_ordered_and_normalised(values, strategy):
    candidates = [{"entity_id": i, "distance": d} for i, d in enumerate(values)]
    ranked = scoring.rank_candidates(candidates, {}, {}, {}, None, now=NOW, strategy=strategy)
    assert sorted(row["entity_id"] for row in ranked) == list(range(len(values)))
    keys = [(-row["final_score"], row["entity_id"]) for row in ranked]
    assert keys == sorted(keys)
    norms = [row["limbic_norm"] for row in ranked]
    assert max(norms) == 1.0
    assert all(0 <= norm <= 1 for norm in norms)


def test_ranking_leaves_its_input_alone():
    candidates, access, degrees, pairs = pool_of(RANKINGS[2])
    before = json.dumps([candidates, access, degrees, list(pairs.items())])
    scoring.rank_hybrid_candidates(candidates, access, degrees, pairs, 3, now=NOW)
    assert json.dumps([candidates, access, degrees, list(pairs.items())]) == before


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (scoring.compute_importance(1, 1, -3), 1.0),
        (scoring.compute_importance(-1, 1, 3), 0.0),
        (scoring.temporal_score(NOW, 180, -3, now=NOW), 1.0),
        (scoring.consolidation_importance(1, -3), 0.2 * math.log(2)),
        (scoring.consolidation_importance(-1, 3), 0.0),
        (scoring.cooc_term(-1, 0), 0.0),
        (scoring.cooc_term(1, -3), 1.0),
        (scoring.compute_cooc_boost(1, {(1, 1): 7}, [1, 1]), 0.0),
    ],
)
def test_values_that_cannot_be_count_as_none(result, expected):
    assert result == close(expected)


def test_equal_ranks_are_ordered_by_id():
    merged = scoring.reciprocal_rank_fusion([{"entity_id": 5, "distance": 0}], [{"entity_id": 2}])
    assert [candidate["entity_id"] for candidate in merged] == [2, 5]


def test_what_an_unknown_time_counts_as_is_a_parameter():
    row = scoring.rank_candidates(
        *([{"entity_id": i, "distance": 0} for i in (1, 2)], {}, {}, {(1, 2): (1, None)}, 1),
        now=NOW,
        parameters=Parameters(unknown_temporal=0.25, gamma=1),
    )[0]
    assert row["scoring"]["cooc_boost"] == 0.25
    assert row["limbic_score"] == close(0.25 * 1.25)
