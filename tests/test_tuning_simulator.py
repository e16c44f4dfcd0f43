"""The simulator that tuning is tried on: its truth is the truth, and its users are as it says."""

from __future__ import annotations

import itertools
import json
from contextlib import closing
from dataclasses import fields, replace

import numpy as np
import pytest

from benchmarks.simulated_world import START, relevance, zipf
from benchmarks.simulator import AUTO, REPEAT_S, Scenario, Simulated, simulate, write
from datasette_limbic import connection, scoring, times
from datasette_limbic.integrity.files import check_file
from datasette_limbic.tuning import reading
from datasette_limbic.tuning.labels import LabelPolicy
from datasette_limbic.tuning.log import (
    NONE,
    NOT_USEFUL,
    OPENED,
    REACCESSED,
    STRATEGY_NAMES,
    USEFUL,
    Log,
)

MANY = 4000
BETAS, GAMMAS = (0.1, 0.5, 1.0, 1.5, 3.0), (0.001, 0.01, 0.05, 0.1, 0.3)


def same(one: Log, other: Log, but: tuple[str, ...] = ()) -> bool:
    return all(
        np.array_equal(a, b, equal_nan=True) if a.dtype.kind == "f" else np.array_equal(a, b)
        for a, b in (
            (np.asarray(getattr(one, each.name)), np.asarray(getattr(other, each.name)))
            for each in fields(Log)
            if each.name not in (*but, "left_out")
        )
    )


def pools(found: Simulated, values):
    return np.asarray(values).reshape(-1, found.scenario.candidates)


VARIANTS = (
    Scenario(),
    Scenario(strategies=AUTO, baseline_share=0.2),
    Scenario(click_model="cascade", preference="none"),
    Scenario(click_model="geometric", preference="position"),
    Scenario(feedback=True, baseline_share=0.5, searches=300),
    Scenario(candidates=7, limit=10, clients=1, queries=40, click_model="none", days=3),
)


@pytest.mark.parametrize("scenario", VARIANTS)
def test_one_seed_one_log(scenario):
    one, again, other = simulate(scenario, 5), simulate(scenario, 5), simulate(scenario, 6)
    assert same(one.log, again.log)
    assert np.array_equal(one.relevant, again.relevant)
    assert np.array_equal(one.examined, again.examined)
    for name in ("query", "client", "at", "base", "entity", "gain"):
        assert not np.array_equal(getattr(one.log, name), getattr(other.log, name)) or (
            name == "client" and scenario.clients == 1
        ), name
    if scenario.preference != "position":
        assert one.true_ndcg(0.7, 0.02) == again.true_ndcg(0.7, 0.02) != other.true_ndcg(0.7, 0.02)


@pytest.mark.parametrize("scenario", VARIANTS)
def test_a_log_as_tuning_reads_it(scenario):
    found = simulate(scenario, 1)
    log, n, m = found.log, scenario.searches, scenario.candidates
    assert len(log) == n
    assert len(log.query) == len(log.client) == n
    assert log.start.tolist() == list(range(0, n * m + 1, m))
    assert (np.diff(log.at) >= 0).all()
    assert (log.at == np.round(log.at)).all()
    assert (np.diff(pools(found, log.entity), axis=1) > 0).all()
    for name in ("base", "importance", "temporal", "cooc"):
        assert getattr(log, name).shape == (n * m,)
        assert np.isfinite(getattr(log, name)).all()
    for ranks in (log.baseline_rank, log.limbic_rank):
        assert (np.sort(pools(found, ranks), axis=1) == np.arange(1, m + 1)).all()
    # labels: 0 for what was shown and left alone, unknown for what was not shown
    assert np.array_equal(np.isnan(log.gain), ~log.shown)
    gains = {NONE: 0.0, OPENED: 1.0, USEFUL: 2.0, NOT_USEFUL: 0.0, REACCESSED: 0.5}
    assert (log.gain[log.shown] == [gains[source] for source in log.source[log.shown]]).all()
    assert np.array_equal(~np.isin(log.source, (NONE, REACCESSED)), found.opened)
    assert (found.opened <= found.examined).all()
    assert (found.examined <= log.shown).all()
    assert found.opened.any()
    assert (log.importance >= 0).all()
    assert (log.importance <= 1 + scoring.BETA_DEG).all()
    assert (log.temporal >= scoring.TEMPORAL_FLOOR).all()


@pytest.mark.parametrize("scenario", VARIANTS[:2])
def test_ranks_are_those_of_the_formulas(scenario):
    found = simulate(replace(scenario, searches=30), 2)
    log = found.log
    for i in range(len(log)):
        rows = range(log.start[i], log.start[i + 1])
        strategy = STRATEGY_NAMES[log.strategy[i]]
        limbic = [
            scoring.limbic_score(
                *(log.base[r], log.importance[r], log.temporal[r], log.cooc[r]),
                **{"beta_sal": 0.5, "gamma": 0.01},
            )
            for r in rows
        ]
        low, width = min(limbic), max(limbic) - min(limbic)
        final = [
            score
            if strategy == "limbic"
            else scoring.blend(strategy, log.base[r], (score - low) / width)
            for r, score in zip(rows, limbic, strict=True)
        ]
        by_final = sorted(zip(rows, final, strict=True), key=lambda x: (-x[1], log.entity[x[0]]))
        assert log.limbic_rank[[r for r, _ in by_final]].tolist() == list(range(1, 31))
        by_base = sorted(rows, key=lambda r: (-log.base[r], log.entity[r]))
        assert log.baseline_rank[by_base].tolist() == list(range(1, 31))


@pytest.mark.parametrize("drift", [0.0, 1.0])
def test_factors_are_those_of_the_formulas(drift):
    found = simulate(Scenario(searches=20, drift=drift), 2)
    log, entities = found.log, found.queries.entities
    for i in range(len(log)):
        rows = slice(log.start[i], log.start[i + 1])
        chosen = log.entity[rows] - 1
        hours = np.full(30, drift * (log.at[i] - START) / 3600)
        accesses = entities.accesses(chosen, hours, found.use)
        age = entities.age(chosen, hours, found.use)
        assert accesses.max() > 0
        for row, each in enumerate(chosen):
            assert log.importance[rows][row] == pytest.approx(
                scoring.compute_importance(accesses[row], accesses.max(), entities.degree[each]),
                rel=1e-12,
            )
            assert log.temporal[rows][row] == pytest.approx(
                scoring.compute_temporal_factor(START, None, now=START + 3600 * age[row]), rel=1e-9
            )
    # an access starts the age anew, and counts one
    used = np.flatnonzero(entities.before > 3)[:20]
    before, after = (np.full(len(used), hours) for hours in (0.0, 24.0 * 365))
    came = entities.accesses(used, after, found.use) - entities.accesses(used, before, found.use)
    assert (came > 0).any()
    assert (entities.age(used, after, found.use) <= entities.gap[used]).all()


def test_factors_are_shaped_as_in_real_memories():
    log = simulate(Scenario(searches=MANY), 3).log
    assert 0.15 <= log.base.min() < log.base.max() <= 0.75
    best = np.sort(log.base.reshape(-1, 30), axis=1)
    assert np.median(best[:, -1]) > 0.5 > 0.35 > np.median(best)
    assert 0.2 < (log.importance == 0).mean() < 0.5
    assert log.importance.max() > 1
    assert 0.3 < (log.cooc == 0).mean() < 0.6
    assert np.median(log.cooc) < 1 < 15 < np.quantile(log.cooc, 0.999) < 60
    hours = -np.log(log.temporal) / scoring.LAMBDA_HOURLY
    assert np.quantile(hours, 0.05) < 72
    assert hours.max() > 365 * 24


# --- what is relevant, and what parameters are truly worth


def test_relevance_is_the_chance_of_being_wanted():
    """Against Plackett-Luce written out: every order of the first three."""
    odds = np.random.default_rng(1).normal(0, 2, (3, 5))
    wanted = np.array([1, 2, 3])
    expected = np.zeros(odds.shape)
    for row, count in enumerate(wanted):
        weight = np.exp(odds[row])
        for order in itertools.permutations(range(5), int(count)):
            chance, rest = 1.0, weight.sum()
            for each in order:
                chance *= weight[each] / rest
                rest -= weight[each]
            expected[row, list(order)] += chance
    np.testing.assert_allclose(relevance(odds, wanted), expected, rtol=1e-12)


@pytest.mark.parametrize("preference", ["scores", "none"])
def test_what_is_relevant_comes_as_often_as_relevance_says(preference):
    found = simulate(Scenario(searches=MANY, queries=MANY, query_tail=0, preference=preference), 4)
    once = np.unique(found.asked, return_index=True)[1]
    said, did = pools(found, found.relevance)[once], pools(found, found.relevant)[once]
    assert set(did.sum(axis=1)) == {1, 2, 3}
    np.testing.assert_allclose(said.sum(axis=1), did.sum(axis=1), rtol=1e-9)
    bins = np.array_split(np.argsort(said.ravel()), 10)
    for rows in bins:
        chance = said.ravel()[rows]
        error = np.sqrt((chance * (1 - chance)).sum()) / len(rows)
        assert abs(did.ravel()[rows].mean() - chance.mean()) < 4 * error
    if preference == "scores":
        assert said.max() > 5 * said.min()
    else:
        # of one, two or three of them, all alike
        assert len(np.unique(said.round(9))) == 3


@pytest.mark.parametrize("truth", [(1.5, 0.1), (0.1, 0.001), (0.5, 0.05)])
@pytest.mark.parametrize(
    "scenario", [Scenario(), Scenario(strategies=AUTO), Scenario(feedback=True, opens=1.0)]
)
def test_nothing_is_better_than_the_truth(scenario, truth):
    scenario = replace(scenario, beta_true=truth[0], gamma_true=truth[1])
    found = [simulate(scenario, seed) for seed in range(3)]
    for k in (3, 10):
        worth = {
            cell: [each.true_ndcg(*cell, k=k) for each in found]
            for cell in {*itertools.product(BETAS, GAMMAS), truth}
        }
        # in every sample, not on average alone
        for cell, values in worth.items():
            assert (np.array(values) <= np.array(worth[truth]) + 1e-12).all(), cell
        # and far from the truth it is seen
        far = (3.0, 0.3) if truth[0] < 1 else (0.1, 0.001)
        assert np.mean(worth[far]) < np.mean(worth[truth]) - 0.005


@pytest.mark.parametrize("strategies", [(("limbic", 1.0),), AUTO])
@pytest.mark.parametrize("truth", [(1.5, 0.1), (0.1, 0.001)])
def test_gains_are_such_as_tuning_may_hope_for(truth, strategies):
    scenario = Scenario(beta_true=truth[0], gamma_true=truth[1], strategies=strategies)
    gains = [simulate(scenario, seed).true_gain(*truth) for seed in range(8)]
    assert 0.0045 < np.mean(gains) < 0.055
    assert min(gains) > 0


def test_the_log_tells_of_the_truth_as_well():
    """What is relevant in the log itself stands higher by the true parameters."""

    def ndcg(found, beta, gamma):
        from datasette_limbic.tuning import rerank

        ranks = rerank.ranks(found.log, beta, gamma)
        each = np.where(ranks <= 10, 1 / np.log2(1 + ranks), 0.0) * found.relevant
        ideal = rerank.discounts(10, 30)[pools(found, found.relevant).sum(axis=1)]
        return (pools(found, each).sum(axis=1) / ideal).mean()

    found = [simulate(Scenario(searches=MANY, queries=MANY, own=0), seed) for seed in range(2)]
    now, true, far = (
        np.mean([ndcg(each, *cell) for each in found])
        for cell in ((0.5, 0.01), (1.5, 0.1), (0.0, 0.0))
    )
    assert far < now < true


def test_without_preference_all_parameters_are_worth_the_same():
    found = simulate(Scenario(preference="none"), 1)
    assert found.true_gain(1.5, 0.1) == pytest.approx(0, abs=1e-12)
    assert 0.1 < found.true_ndcg(0.5, 0.01) < 0.25
    # what is opened is the relevant all the same
    assert found.relevant[found.opened].mean() > 3 * found.relevant[found.log.shown].mean()


def test_openings_by_position_know_nothing():
    scenario = Scenario(searches=20_000, baseline_share=0.5, rating_share=0.5)
    scenario = replace(scenario, preference="position")
    found = simulate(scenario, 1)
    log = found.log
    assert not found.relevant.any()
    assert not found.relevance.any()
    assert np.isnan(found.true_ndcg(1.5, 0.1))
    assert np.isnan(found.true_gain(1.5, 0.1))
    for rank in (1, 2, 3):
        here = log.served_rank == rank
        opened = found.opened[here]
        assert opened.mean() == pytest.approx(scenario.blind / rank, rel=0.07)
        for factor in (log.base, log.importance, log.temporal, log.cooc):
            # 4 standard errors
            assert abs(np.corrcoef(factor[here], opened)[0, 1]) < 4 / np.sqrt(here.sum())
        # nor which order it was served by
        limbic = log.limbic[log.of][here]
        by = [opened[served].mean() for served in (limbic, ~limbic)]
        assert by[0] == pytest.approx(by[1], abs=4 * np.sqrt(2 * 0.25 * 0.75 / (here.sum() / 2)))
    useful = (log.source == USEFUL).sum()
    rated = useful + (log.source == NOT_USEFUL).sum()
    assert useful / rated == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(rated))


def test_the_fresh_sample_is_another_one():
    scenario = Scenario(queries=50)
    found = simulate(scenario, 1)
    fresh = found.fresh.log
    assert found.fresh is found.fresh
    assert len(fresh) == 400
    assert fresh.at.min() > found.log.at.max()
    known = {tuple(pool) for pool in pools(found, found.log.entity).tolist()}
    assert not known & {tuple(pool) for pool in pools(found, fresh.entity).tolist()}
    # and yet of the same entities: what is accessed often is so there too
    counts = [np.bincount(log.entity, minlength=401) for log in (found.log, fresh)]
    mean = [
        np.bincount(log.entity, log.importance, 401) / np.maximum(count, 1)
        for log, count in zip((found.log, fresh), counts, strict=True)
    ]
    common = np.minimum(*counts) > 20
    assert common.sum() > 100
    assert np.corrcoef(mean[0][common], mean[1][common])[0, 1] > 0.8
    # it does not depend on what the log holds
    assert same(fresh, simulate(replace(scenario, eta=0.2), 1).fresh.log)


# --- who asks what


def test_heavy_tails():
    scenario = Scenario(searches=20_000, own=0, days=365)
    found = simulate(scenario, 1)
    asked = np.sort(np.unique(found.log.query, return_counts=True)[1])[::-1]
    law = zipf(scenario.queries, 1.0) * scenario.searches
    np.testing.assert_allclose(asked[:5], law[:5], rtol=0.12)
    np.testing.assert_allclose(asked[100:120].sum(), law[100:120].sum(), rtol=0.15)
    clients = np.sort(np.unique(found.log.client, return_counts=True)[1])[::-1]
    np.testing.assert_allclose(clients, zipf(8, 1.0) * scenario.searches, rtol=0.05, atol=100)
    # a tenth of the entities makes much of the pools, and has most of the accesses
    retrieved = np.sort(np.bincount(simulate(Scenario(query_tail=0), 1).log.entity, minlength=401))
    assert retrieved[-40:].sum() > 0.3 * retrieved.sum()
    accesses = np.sort(found.queries.entities.before)
    assert accesses[-40:].sum() > 0.5 * accesses.sum()
    assert (accesses == 0).mean() > 0.3


def test_clients_have_favourites_of_their_own():
    def favourites(own):
        log = simulate(Scenario(searches=MANY, own=own, days=365), 1).log
        best = []
        for client in (f"client {number}" for number in (1, 2, 3)):
            mine = [q for q, c in zip(log.query, log.client, strict=True) if c == client]
            best.append(max(sorted(set(mine)), key=mine.count))
        return len(set(best))

    assert favourites(0.0) == 1
    assert favourites(1.0) == 3


def test_nobody_asks_the_same_again_within_the_hour():
    log = simulate(Scenario(searches=10_000, clients=3, queries=300), 1).log
    last: dict = {}
    for at, key in zip(log.at, zip(log.client, log.query, strict=True), strict=True):
        assert at - last.get(key, 0) > REPEAT_S
        last[key] = at
    # not even where there is nothing else to ask
    log = simulate(Scenario(searches=500, clients=1, queries=1, days=1), 1).log
    assert 5 < len(log) <= 24
    assert (np.diff(log.at) > REPEAT_S).all()
    # with room enough, all ask
    assert len(simulate(Scenario(searches=1000, queries=1), 1).log) > 900


def test_the_same_query_has_the_same_pool_and_moving_factors():
    for drift in (0.0, 1.0):
        found = simulate(Scenario(queries=20, searches=200, drift=drift), 1)
        log, moved = found.log, 0.0
        for query in np.unique(found.asked):
            which = np.flatnonzero(found.asked == query)
            for name in ("entity", "base", "baseline_rank"):
                values = pools(found, getattr(log, name))[which]
                assert (values == values[0]).all(), name
            for values in (found.relevant, found.relevance):
                assert (pools(found, values)[which] == pools(found, values)[which[0]]).all()
            importance = pools(found, log.importance)[which]
            cooc = pools(found, log.cooc)[which]
            assert (np.diff(cooc, axis=0) >= 0).all()
            moved += np.abs(np.diff(importance, axis=0)).sum()
            # slowly: the order of importance hardly changes
            if len(which) > 1:
                assert np.corrcoef(importance[0], importance[-1])[0, 1] > 0.9
        assert bool(moved > 0) is (drift > 0)


def test_what_is_opened_strengthens_itself():
    scenario = Scenario(
        searches=2000, queries=50, drift=0.0, click_model="none", noise=0.0, opens=1.0
    )
    without, found = simulate(scenario, 1), simulate(replace(scenario, feedback=True), 1)
    assert not without.use.accesses.any()
    assert found.use.accesses.sum() == found.opened.sum()
    # the first day is the same, and nothing but that
    first = int(np.searchsorted(found.log.at, found.log.at[0] // 86_400 * 86_400 + 86_400)) * 30
    assert 0 < first < len(found.opened)
    for name in ("importance", "temporal", "limbic_rank"):
        one, other = getattr(without.log, name), getattr(found.log, name)
        assert np.array_equal(one[:first], other[:first])
        assert not np.array_equal(one, other)
    # what was never opened loses importance to what was
    opened = found.use.accesses[found.log.entity - 1] > 0
    change = found.log.importance - without.log.importance
    assert change[opened].mean() > 0 > change[~opened].mean()
    assert (found.log.temporal >= without.log.temporal).all()
    assert np.array_equal(found.log.base, without.log.base)


# --- what is looked at


@pytest.mark.parametrize(
    ("options", "law"),
    [
        ({"click_model": "position", "eta": 1.0}, lambda r: 1 / r),
        ({"click_model": "position", "eta": 0.5}, lambda r: r**-0.5),
        ({"click_model": "position", "eta": 0}, lambda r: 1.0 + 0 * r),
        ({"click_model": "geometric", "decay": 0.8}, lambda r: 0.8 ** (r - 1)),
        ({"click_model": "none"}, lambda r: 1.0 + 0 * r),
        # every result is opened with .25, and half of those end it
        (
            {"click_model": "cascade", "stop": 0.5, "preference": "position"},
            lambda r: (1 - 0.25 * 0.5) ** (r - 1),
        ),
    ],
)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_examination_is_as_the_click_model_says(options, law, share):
    found = simulate(Scenario(searches=8000, baseline_share=share, **options), 1)
    rank = found.log.served_rank
    for r in range(1, 11):
        seen, expected = found.examined[rank == r].mean(), law(np.float64(r))
        assert abs(seen - expected) <= 4 * np.sqrt(expected * (1 - expected) / 8000), r
    assert not found.examined[rank > 10].any()


def test_a_cascade_ends_at_an_opening():
    found = simulate(Scenario(click_model="cascade", stop=1.0), 1)
    assert pools(found, found.opened).sum(axis=1).max() == 1
    rank, opened = found.log.served_rank, found.opened
    for i in np.flatnonzero(pools(found, opened).any(axis=1))[:50]:
        rows = slice(i * 30, (i + 1) * 30)
        assert rank[rows][found.examined[rows]].max() == rank[rows][opened[rows]][0]
    never = simulate(Scenario(click_model="cascade", stop=0.0), 1)
    assert np.array_equal(never.examined, never.log.shown)


def test_what_is_looked_at_is_opened_by_its_relevance():
    scenario = Scenario(searches=20_000, days=365, clients=40, opens=0.7, noise=0.05)
    found = simulate(replace(scenario, rating_share=0.3), 1)
    looked, relevant = found.examined, found.relevant
    assert found.opened[looked & relevant].mean() == pytest.approx(0.7, abs=0.12)
    assert found.opened[looked & ~relevant].mean() == pytest.approx(0.05, abs=0.004)
    rated = np.isin(found.log.source, (USEFUL, NOT_USEFUL))
    assert rated[found.opened].mean() == pytest.approx(0.3, abs=0.02)
    assert np.array_equal((found.log.source == USEFUL)[rated], relevant[rated])


def test_labels_are_those_of_the_policy():
    scenario = Scenario(searches=3000, queries=100, rating_share=0.5)
    found = simulate(scenario, 1)
    openings = simulate(scenario, 1, policy=LabelPolicy(reaccess_hours=0))
    plain = simulate(scenario, 1, policy=LabelPolicy(useful=3, opened=0.5, not_useful=0.25))
    assert np.array_equal(found.opened, openings.opened)
    # nobody opens by name here
    assert not (found.log.source == REACCESSED).any()
    assert np.array_equal(found.log.source, openings.log.source)
    assert {*zip(plain.log.source, plain.log.gain, strict=True)} >= {
        (USEFUL, 3.0),
        (OPENED, 0.5),
        (NOT_USEFUL, 0.25),
    }


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_the_baseline_is_served_to_its_share(share):
    log = simulate(Scenario(searches=MANY, baseline_share=share), 1).log
    assert (~log.limbic).mean() == pytest.approx(share, abs=0.03)
    assert (log.baseline_share == share).all()


def test_strategies_come_in_their_shares():
    found = simulate(Scenario(searches=MANY, queries=MANY, query_tail=0, strategies=AUTO), 1)
    for name, share in AUTO:
        here = found.log.strategy == STRATEGY_NAMES.index(name)
        assert here.mean() == pytest.approx(share, abs=0.03)
    # one for each query
    assert len({*zip(found.asked, found.log.strategy, strict=True)}) == len(set(found.asked))


@pytest.mark.parametrize("feedback", [False, True])
def test_no_searches(feedback):
    found = simulate(Scenario(searches=0, feedback=feedback), 1)
    assert len(found.log) == len(found.log.base) == len(found.relevance) == 0
    assert found.true_gain(1.5, 0.1) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"searches": -1}, "searches must be a whole number from 0 on, not -1"),
        ({"days": 0}, "days must be a whole number from 1 on, not 0"),
        ({"days": 1.5}, "days must be a whole number from 1 on, not 1.5"),
        ({"baseline_share": 1.5}, "baseline_share must be from 0 to 1, not 1.5"),
        ({"opens": float("nan")}, "opens must be a finite number, not nan"),
        ({"taste": 0.0}, "taste must be above 0, not 0.0"),
        ({"decay": 1.1}, "decay must be at most 1, not 1.1"),
        ({"eta": -1.0}, "eta must be 0 or more, not -1.0"),
        ({"entities": 20}, "a pool of 30 candidates needs as many entities: there are 20"),
        ({"preference": "clicks"}, "preference has 'clicks'; there are: scores, none, position"),
        ({"click_model": "pbm"}, "click_model has 'pbm'; there are: position, geometric"),
        ({"strategies": (("auto", 1.0),)}, "strategies has 'auto'; there are: cosine_heavy"),
        ({"strategies": ()}, "strategies needs names with shares above 0"),
    ],
)
def test_what_cannot_be_simulated(options, message):
    with pytest.raises(ValueError) as raised:
        Scenario(**options)
    assert str(raised.value).startswith(message)


# --- the same log in a memory


@pytest.fixture
def written(empty_db):
    found = simulate(
        Scenario(searches=150, strategies=AUTO, baseline_share=0.3, rating_share=0.5), 7
    )
    with closing(connection.connect(empty_db)) as conn:
        write(conn, found)
    return found, empty_db


def test_a_written_log_is_sound(written):
    report = check_file(written[1])
    assert report.findings == []
    assert all(result.ok for result in report.results)


def test_a_written_log_is_the_same_log(written):
    found, path = written
    log = found.log
    with closing(connection.connect(path, readonly=True)) as conn:
        searches = conn.execute(
            "select id, query, client, created_at, now, strategy, result_limit, parameters,"
            " parameters_version, policy, treatment, probability from limbic_searches order by id"
        ).fetchall()
        rows = conn.execute(
            "select entity_id, returned, baseline_rank, treatment_rank, base, importance,"
            " temporal_factor, cooc_boost, cosine_sim, final_score, entity_name, search_id"
            " from limbic_search_candidates order by search_id, entity_id"
        ).fetchall()
        names = dict(conn.execute("select id, name from entities"))
        events = conn.execute(
            "select search_id, entity_id, event, client, created_at from limbic_feedback"
        ).fetchall()
    assert [row[0] for row in searches] == log.id.tolist()
    assert tuple(row[1] for row in searches) == log.query
    assert tuple(row[2] for row in searches) == log.client
    for column in (3, 4):
        assert [times.parse_time(row[column]) for row in searches] == log.at.tolist()
    assert [STRATEGY_NAMES.index(row[5]) for row in searches] == log.strategy.tolist()
    for row, limbic in zip(searches, log.limbic, strict=True):
        given = json.loads(row[7])
        assert (row[6], row[8]) == (10, None)
        assert (given["beta_sal"], given["gamma"], given["strategy"]) == (0.5, 0.01, "auto")
        assert row[9:] == (("limbic", 1, 0.7) if limbic else ("baseline", 0, 0.3))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    arrays = (log.entity, log.shown, log.baseline_rank, log.limbic_rank)
    arrays += (log.base, log.importance, log.temporal, log.cooc, log.base)
    for column, array in zip(columns[:9], arrays, strict=True):
        assert np.array_equal(column, array)
    # the final score is in the order of the ranks
    final = pools(found, columns[9])
    order = np.argsort(pools(found, log.limbic_rank), axis=1)
    assert (np.diff(np.take_along_axis(final, order, axis=1), axis=1) <= 0).all()
    assert all(names[row[0]] == row[10] for row in rows)
    # and what became of it
    row_of = {(row[11], row[0]): place for place, row in enumerate(rows)}
    wanted = {("opened", place) for place in np.flatnonzero(found.opened)}
    for source, event in ((USEFUL, "useful"), (NOT_USEFUL, "not_useful")):
        wanted |= {(event, place) for place in np.flatnonzero(log.source == source)}
    assert {event for event, _ in wanted} == {"opened", "useful", "not_useful"}
    assert len(events) == len(wanted)
    assert {(event, row_of[search, entity]) for search, entity, event, _, _ in events} == wanted
    for search, _, _, client, moment in events:
        assert client == log.client[search - 1]
        assert 0 < times.parse_time(moment) - log.at[search - 1] < 3600


def test_a_written_log_is_read_as_it_was(written):
    found, path = written
    with closing(connection.connect(path, readonly=True)) as conn:
        log = reading.read(conn)
    assert log.left_out == {}
    assert same(log, found.log, but=("baseline_share",))
    # known by the probability of what was served: 1 - .7 is not quite .3
    np.testing.assert_allclose(log.baseline_share, 0.3, rtol=1e-12)


def test_a_log_is_written_alike_each_time(written, tmp_path):
    from empty_memory import empty_memory

    found, path = written
    again = empty_memory(tmp_path / "again.db")
    with closing(connection.connect(again)) as conn:
        write(conn, found)
    tables = ("limbic_searches", "limbic_search_candidates", "limbic_feedback", "entity_access")

    def content(path):
        with closing(connection.connect(path, readonly=True)) as conn:
            return [conn.execute(f"select * from {name}").fetchall() for name in tables]

    assert content(path) == content(again)


def test_a_memory_with_entities_is_left_alone(empty_db):
    found = simulate(Scenario(searches=3), 1)
    with closing(connection.connect(empty_db)) as conn:
        with conn:
            conn.execute("insert into entities(name) values ('Ana')")
        with pytest.raises(ValueError, match="this memory has entities already"):
            write(conn, found)
        assert conn.execute("select name from entities").fetchall() == [("Ana",)]
        assert conn.execute("select count(*) from limbic_searches").fetchone() == (0,)


def test_a_write_that_fails_leaves_nothing(empty_db):
    found = simulate(Scenario(searches=40, opens=1.0), 1)
    with closing(connection.connect(empty_db)) as conn:
        conn.execute(
            "create temp trigger enough before insert on limbic_feedback"
            " when (select count(*) from limbic_feedback) = 5"
            " begin select raise(abort, 'enough'); end"
        )
        with pytest.raises(Exception, match="enough"):
            write(conn, found)
        for table in ("entities", "limbic_searches", "limbic_search_candidates"):
            assert conn.execute(f"select count(*) from {table}").fetchone() == (0,)
        assert not conn.in_transaction
        conn.execute("drop trigger enough")
        write(conn, found)
        assert conn.execute("select count(*) from limbic_searches").fetchone() == (40,)
