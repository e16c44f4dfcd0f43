"""What the log says: figures of both orders, by strategy and week, the surface, who would gain."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from tuning_helpers import DAY, START, UNKNOWN, log_of

from benchmarks.simulator import AUTO, Scenario, simulate
from datasette_limbic.tuning import analysing, metrics, rerank
from datasette_limbic.tuning.proposing import propose

NOW = (0.5, 0.01)
SECOND = 1 / math.log2(3)
# under 0.5 the second is below, under 1 it is above
TURNS = {"base": [0.9, 0.65], "importance": [0.0, 0.5]}


def as_json(found):
    return json.loads(json.dumps(found, allow_nan=False))


def arm(found, name):
    return next(each for each in found["arms"] if each["arm"] == name)


def test_each_arm_is_judged_by_what_it_served():
    log = log_of(
        [
            {"gain": [1.0, 0.0], "baseline_rank": [2, 1], "query": "a"},
            {"gain": [0.0, 2.0], "baseline_rank": [2, 1], "query": "b"},
            {"gain": [0.0, 0.0], "query": "c"},
            {"gain": [0.0, 1.0], "baseline_rank": [2, 1], "limbic": False, "query": "d"},
        ]
    )
    found = as_json(analysing.figures(log, 10))
    limbic, baseline = arm(found, "limbic"), arm(found, "baseline")
    assert limbic["served"]["searches"] == 3
    assert limbic["served"]["labelled"] == 2
    assert limbic["served"]["ndcg"]["value"] == pytest.approx((1 + SECOND) / 2)
    assert limbic["served"]["precision"] == pytest.approx(1 / 2)
    assert limbic["served"]["lift"] == pytest.approx(1.0)
    assert limbic["served"]["recall"] == pytest.approx(1.0)
    assert baseline["served"]["searches"] == baseline["served"]["labelled"] == 1
    assert baseline["served"]["ndcg"]["value"] == pytest.approx(1.0)
    # either order over all searches
    assert limbic["shadow"]["searches"] == baseline["shadow"]["searches"] == 4
    assert limbic["shadow"]["ndcg"]["value"] == pytest.approx((1 + 2 * SECOND) / 3)
    assert baseline["shadow"]["ndcg"]["value"] == pytest.approx((2 + SECOND) / 3)
    # no search had a chance of the other order
    assert found["difference"] is None


def test_k_is_the_depth():
    log = log_of([{"gain": [0.0, 1.0, 0.0]}, {"gain": [1.0, 0.0, 0.0]}])
    found = arm(as_json(analysing.figures(log, 1)), "limbic")["served"]
    assert found["ndcg"]["value"] == pytest.approx(1 / 2)
    assert found["precision"] == pytest.approx(1 / 2)
    assert found["lift"] == pytest.approx(3 / 2)
    assert found["recall"] == pytest.approx(1 / 2)


def test_the_difference_counts_what_found_nothing_and_each_by_its_chance():
    shares = [0.2, 0.2, 0.5, 0.2, 0.5, 0.5]
    limbic = [True, True, True, False, False, False]
    gains = [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    log = log_of(
        [
            {"gain": gain, "limbic": arm, "share": share}
            for gain, arm, share in zip(gains, limbic, shares, strict=True)
        ]
        # the other order had no chance: it is no comparison
        + [{"gain": [1.0, 0.0], "share": 0.0}, {"gain": [1.0, 0.0], "share": 1.0, "limbic": False}]
    )
    found = analysing.figures(log, 10)["difference"]
    one = (1.0 / 0.8 + 0 / 0.8 + SECOND / 0.5) / (1 / 0.8 + 1 / 0.8 + 1 / 0.5)
    other = (1.0 / 0.2 + 0 / 0.5 + SECOND / 0.5) / (1 / 0.2 + 1 / 0.5 + 1 / 0.5)
    assert found["value"] == pytest.approx(one - other)
    assert found["low"] <= found["value"] <= found["high"]
    # served one of them alone, there is none
    assert analysing.figures(log.select(log.limbic), 10)["difference"] is None


def test_the_difference_of_arms_is_the_truth_on_average():
    """Both orders differ truly; and where they serve the same, by nothing."""
    same, values = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        searches = [
            {
                "gain": [1.0, 0.0] if first else [0.0, 1.0],
                "baseline_rank": [2, 1],
                "limbic": bool(arm),
                "share": 0.3,
                "at": START + i % 20 * DAY,
                "query": f"query {i % 20}",
            }
            # of ten, the limbic order has seven right
            for i, (first, arm) in enumerate(
                zip(rng.random(200) < 0.7, rng.random(200) >= 0.3, strict=True)
            )
        ]
        values.append(analysing.figures(log_of(searches), 1)["difference"])
        for each in searches:
            each["baseline_rank"] = [1, 2]
        same.append(analysing.figures(log_of(searches), 1)["difference"])
    for found, truth in ((values, 0.4), (same, 0.0)):
        estimates = [each["value"] for each in found]
        error = np.std(estimates) / math.sqrt(len(estimates))
        assert abs(np.mean(estimates) - truth) < 3 * error
        assert np.mean([each["low"] <= truth <= each["high"] for each in found]) >= 0.85


def test_strategies_and_weeks_are_parts_of_the_whole():
    log = simulate(Scenario(searches=300, baseline_share=0.3, strategies=AUTO, days=30), 0).log
    found = as_json(analysing.figures(log, 10))
    whole = {name: arm(found, name)["served"] for name in analysing.ARMS}
    names = [each["strategy"] for each in found["strategies"]]
    assert sorted(names) == sorted(name for name, _ in AUTO)
    for parts in (found["strategies"], found["weeks"]):
        for name, all_of_it in whole.items():
            for count in ("searches", "labelled"):
                assert sum(part[name][count] for part in parts) == all_of_it[count]
            mean = sum(
                part[name]["labelled"] * part[name]["ndcg"]["value"]
                for part in parts
                if part[name]["ndcg"]
            )
            assert mean / all_of_it["labelled"] == pytest.approx(all_of_it["ndcg"]["value"])
    weeks = [each["week"] for each in found["weeks"]]
    assert weeks == sorted(set(weeks))
    assert 5 <= len(weeks) <= 6


def test_weeks_begin_on_monday_in_utc():
    monday = START - (START // DAY + 3) % 7 * DAY
    log = log_of(
        [
            {"gain": [1.0], "at": at}
            for at in (monday - 1, monday, monday + 7 * DAY - 1, monday + 21 * DAY)
        ]
    )
    found = analysing.figures(log, 10)["weeks"]
    assert [each["limbic"]["searches"] for each in found] == [1, 2, 1]
    from datetime import date

    days = [date.fromisoformat(each["week"]) for each in found]
    assert [day.weekday() for day in days] == [0, 0, 0]
    assert [(day - days[1]).days for day in days] == [-7, 0, 21]


@pytest.mark.parametrize(
    "searches",
    [
        [],
        [{"gain": [0.0, UNKNOWN]}],
        [{"gain": [1.0]}],
        [{"gain": [1.0, 0.0], "limbic": False, "share": 1.0}],
        [{"gain": [UNKNOWN, 2.0], "limit": 1}],
    ],
)
def test_little_to_tell_is_told_as_none(searches):
    found = as_json(analysing.figures(log_of(searches), 10))
    assert found["difference"] is None
    for each in found["arms"]:
        served = each["served"]
        assert served["searches"] >= served["labelled"]
        assert (served["ndcg"] is None) == (served["labelled"] == 0)
        assert (served["lift"] is None) == (served["labelled"] == 0)


def test_one_log_one_answer():
    log = simulate(Scenario(searches=200, baseline_share=0.3), 0).log
    assert analysing.figures(log, 10) == analysing.figures(log, 10)


def rising(count, **more):
    return [{**TURNS, "gain": [0.0, 1.0], **more} for _ in range(count)]


def proposal(searches, betas=(0.25, 1.0), gammas=(0.01, 0.02)):
    return propose(log_of(searches), NOW, betas=list(betas), gammas=list(gammas))


def test_the_surface_is_the_estimate_of_each_cell():
    found = proposal([*rising(55), *[{**TURNS, "gain": [1.0, 0.0]}] * 5])
    assert found.proposed
    surface = as_json(analysing.surface(found))
    assert surface["beta_sal"] == [0.25, 0.5, 1.0]
    assert surface["gamma"] == [0.01, 0.02]
    low, high = (55 * SECOND + 5) / 60, (55 + 5 * SECOND) / 60
    assert np.array(surface["ndcg"]) == pytest.approx(
        np.array([[low, low], [low, low], [high, high]])
    )
    assert surface["in_force"] == [1, 0]
    assert surface["target"] == [2, 0]
    assert surface["best"] == [2, 0]
    assert surface["gain"] == pytest.approx(high - low)
    for place, values in ((surface["target"], found.target), (surface["in_force"], NOW)):
        assert (surface["beta_sal"][place[0]], surface["gamma"][place[1]]) == values


def test_a_refusal_has_a_surface_where_it_came_so_far():
    found = proposal([{**TURNS, "gain": [1.0, 0.0]} for _ in range(60)])
    assert found.refusal.code == "no_better"
    surface = analysing.surface(found)
    assert surface["target"] is None
    assert surface["gain"] == 0.0
    too_few = proposal(rising(10))
    assert analysing.surface(too_few) is None
    assert analysing.movers(too_few) is None


def test_who_would_gain_and_lose_the_most():
    deep = {
        "base": [0.99] * 3 + [0.9, 0.65],
        "importance": [9.0] * 3 + [0.0, 0.5],
        "gain": [0.0] * 4 + [1.0],
    }
    searches = [
        *rising(50),
        *[deep] * 3,  # from the fifth place to the fourth
        *[{**TURNS, "gain": [1.0, 0.0]}] * 2,
        *[{"gain": [1.0, 0.0], "base": [0.9, 0.1]}] * 5,
    ]
    found = proposal(searches)
    assert found.target == (1.0, 0.01)
    moved = as_json(analysing.movers(found))
    assert (moved["beta_sal"], moved["gamma"]) == found.target
    assert (moved["better"], moved["worse"], moved["same"]) == (53, 2, 5)
    assert len(moved["gain"]) == analysing.MOVERS
    for row in moved["gain"]:
        assert row["id"] <= 50
        assert (row["before"], row["after"]) == pytest.approx((SECOND, 1.0))
    assert sorted(row["id"] for row in moved["lose"]) == [54, 55]
    for row in moved["lose"]:
        assert (row["before"], row["after"]) == pytest.approx((1.0, SECOND))
        assert row["change"] == pytest.approx(SECOND - 1.0)


def test_movers_are_those_of_the_best_cell_where_nothing_is_proposed():
    found = proposal([*rising(30), *[{**TURNS, "gain": [1.0, 0.0]}] * 30])
    assert found.refusal is not None
    moved = analysing.movers(found)
    best = int(found.sums.mean().argmax())
    assert (moved["beta_sal"], moved["gamma"]) == tuple(found.sums.cells[best])
    changes = [row["change"] for row in moved["gain"]]
    assert changes == sorted(changes, reverse=True)


def test_movers_rank_the_pools_of_a_real_looking_log():
    log = simulate(Scenario(searches=800, click_model="none", taste=1.0), 2).log
    found = propose(log, NOW, betas=[0.1, 1.5], gammas=[0.001, 0.1])
    moved = analysing.movers(found)
    assert moved["gain"]
    for row in [*moved["gain"], *moved["lose"]]:
        one = log.select(log.id == row["id"])
        for name, cell in (("before", NOW), ("after", (moved["beta_sal"], moved["gamma"]))):
            rank = rerank.ranks(one, *cell)
            assert metrics.figures(one, rank, 10).ndcg[0] == pytest.approx(row[name])
