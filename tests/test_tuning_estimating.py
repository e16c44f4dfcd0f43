"""What other parameters would have given: unbiased where orders were served at random.

That is NDCG among the results that were likely enough to be shown and looked at, over searches
where one of those is right: of the rest nobody can know.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from tuning_helpers import UNKNOWN, log_of

from benchmarks.scenario import Scenario
from benchmarks.simulator import simulate
from datasette_limbic.tuning import estimating, metrics, position, rerank, weights
from datasette_limbic.tuning.estimating import MAX_LOG_ERROR, MIN_PAIRS, RANDOMISED, REPLAY
from datasette_limbic.tuning.log import OPENED, REACCESSED, SOURCES, USEFUL
from datasette_limbic.tuning.position import KNOTS, Examination

NOW = (0.5, 0.01)
CELLS = np.array([NOW, (1.5, 0.1), (0.1, 0.001), (3.0, 0.01), (0.5, 0.3)])
SEEDS = 16


@cache
def world(seed, share=0.5):
    """A log whose orders were served at random, and the one right result of each search."""
    log = simulate(Scenario(searches=1500, baseline_share=share), seed).log
    rng = np.random.default_rng([seed, 1])
    # what is right follows other parameters than those that ranked, and chance
    liking = rerank.final_scores(log, 1.5, 0.1) / 0.1 + rng.gumbel(size=len(log.base))
    could = (log.baseline_rank <= log.limit[log.of]) | (log.limbic_rank <= log.limit[log.of])
    liking = np.where(could, liking, -np.inf).reshape(len(log), -1)
    return log, log.start[:-1] + liking.argmax(axis=1)


def opened(seed, eta, share=0.5):
    """The same log as users leave it who look at a rank with probability rank^-eta."""
    log, right = world(seed, share)
    rng = np.random.default_rng([seed, 2])
    seen = log.shown[right] & (rng.random(len(right)) < log.served_rank[right] ** -eta)
    gain = np.where(log.shown, 0.0, UNKNOWN)
    gain[right[seen]] = 1.0
    source = np.zeros(len(gain), int)
    source[right[seen]] = OPENED
    return replace(log, gain=gain, source=source), right


def true_ndcg(log, right, examination):
    """(C,) NDCG@10 of each cell among what is likely enough to be looked at, and the share of
    right results that are."""
    likely = weights.possible(log, curves(examination))
    there = right[likely[right]]
    places = rerank.placed(log, there, CELLS, k=10, among=likely)
    return places.mean(axis=0), len(there) / len(right)


def curves(examination):
    return [partial(position.examined, log_e=each.log_e) for each in examination.values()]


def known(eta):
    """The examination curve as it is, without any error."""
    size = 6
    return Examination(-eta * np.log(KNOTS[:size]), np.zeros((size, size)), 1000, eta)


@cache
def fitted(seed, eta, share):
    log, right = opened(seed, eta, share)
    basis = estimating.basis(log, *NOW)
    assert basis.kind == RANDOMISED
    assert (basis.supported == weights.possible(basis.log, curves(basis.examination))).all()
    return log, right, basis


def errors(eta, how, share=0.5):
    """(SEEDS, C) the estimate of each cell less the truth, with the curve that is "fitted" or
    "known", or the known one for what is left out alone: "plain", each label counting 1."""
    found = []
    for seed in range(SEEDS):
        log, right, basis = fitted(seed, eta, share)
        if how != "fitted":
            true = {"opened": known(eta)}
            likely = weights.possible(basis.log, curves(true))
            basis = replace(basis, examination=true, supported=likely)
        truth, _ = true_ndcg(log, right, basis.examination)
        if how == "plain":
            basis = replace(basis, examination={})
        found.append(estimating.sums(basis, CELLS, 10).mean() - truth)
    return np.array(found)


def bias(away):
    """Mean over seeds, in standard errors of it."""
    return away.mean(axis=0) / (away.std(axis=0, ddof=1) / np.sqrt(len(away)))


def test_the_weighted_estimate_is_the_truth_where_all_is_looked_at():
    away = errors(0.0, "known")
    assert (np.abs(bias(away)) < 3).all(), bias(away)
    assert (np.abs(away.mean(axis=0)) < 0.01).all()
    # unweighted, what stood within the limit of one order alone counts half of what it should
    plain = errors(0.0, "plain")
    assert np.abs(bias(plain)).max() > 5


def test_the_weighted_estimate_is_the_truth_under_position_bias():
    away = errors(0.5, "known")
    assert (np.abs(bias(away)) < 3).all(), bias(away)
    plain = errors(0.5, "plain")
    assert bias(plain)[0] > 10
    assert plain.mean(axis=0)[0] > 0.05
    # what stands first is looked at most, so it speaks for the parameters in force
    gain = plain[:, 1] - plain[:, 0]
    assert gain.mean() < -5 * gain.std(ddof=1) / np.sqrt(SEEDS)


def shown_by_either(log, curves):
    limit = log.limit[log.of]
    return (log.baseline_rank <= limit) | (log.limbic_rank <= limit)


def test_what_is_hardly_ever_looked_at_is_left_out_and_not_cut_off(monkeypatch):
    """Where the limbic order is seldom served, what it alone lifts is seldom seen. Were those
    labels to count a limited weight each, what is in force would seem worse than it is."""
    _, share = true_ndcg(*opened(0, 1.0, 0.85), {"opened": known(1.0)})
    assert 0.3 < share < 0.8
    away = errors(1.0, "known", 0.85)
    assert (np.abs(bias(away)) < 3).all(), bias(away)
    gains = away - away[:, :1]
    assert (np.abs(bias(gains[:, 1:])) < 3).all(), bias(gains[:, 1:])
    monkeypatch.setattr(weights, "possible", shown_by_either)
    fitted.cache_clear()
    clipped = errors(1.0, "known", 0.85)
    fitted.cache_clear()
    assert np.abs(bias((clipped - clipped[:, :1])[:, 1:])).max() > 5


def gains_by_position(seeds=8):
    """(seeds, C - 1) what each other cell seems to have over the one in force, where results are
    opened for their rank alone and the limbic order is seldom served."""
    found = []
    for seed in range(seeds):
        log = simulate(Scenario(searches=3000, baseline_share=0.9, preference="position"), seed).log
        basis = estimating.basis(log, *NOW)
        assert basis.kind == RANDOMISED
        mean = estimating.sums(basis, CELLS, 10).mean()
        found.append(mean[1:] - mean[0])
    return np.array(found)


def test_where_only_the_rank_counts_no_parameters_are_better(monkeypatch):
    gains = gains_by_position()
    assert (np.abs(bias(gains)) < 3).all(), bias(gains)
    assert (np.abs(gains.mean(axis=0)) < 0.006).all()
    # with weights that are cut off instead, all that differ seem to be worse, or better
    monkeypatch.setattr(weights, "possible", shown_by_either)
    assert (np.abs(bias(gains_by_position())) > 5).all()


@pytest.mark.parametrize("eta", [0.5, 1.0])
def test_a_curve_that_was_estimated_takes_most_of_the_bias_away(eta):
    gain = {}
    for name in ("fitted", "plain"):
        away = errors(eta, name)
        gain[name] = np.abs((away - away[:, :1]).mean(axis=0)[1:])
    assert gain["fitted"].max() < 0.3 * gain["plain"].max()


PAIR = {"gain": [1.0, 0.0], "baseline_rank": [2, 1], "share": 0.5}


def labelled(searches, sources=None):
    """A log of these, with the sources of the labels that are above 0 by search."""
    log = log_of(searches)
    if sources is None:
        return log
    source = np.array(sources)[log.of]
    return replace(log, source=np.where(log.gain > 0, source, log.source))


def both_arms(count):
    """As many as are asked for, half of them served in either order, opened at the first rank of
    that in some, so that something is known."""
    arms = ({}, {"limbic": False})
    return [{**PAIR, **arms[i % 2]} for i in range(count)]


def test_how_much_a_rank_matters_is_learned_or_nothing_is_weighted():
    few = estimating.basis(labelled(both_arms(MIN_PAIRS - 1)), *NOW)
    assert few.kind == REPLAY
    assert few.biased
    assert f"only {MIN_PAIRS - 1} opened results" in few.reason
    assert f"{MIN_PAIRS} are needed" in few.reason
    enough = estimating.basis(labelled(both_arms(MIN_PAIRS)), *NOW)
    assert enough.kind == RANDOMISED
    assert not enough.biased
    assert enough.reason == ""
    assert len(enough.log) == enough.served == MIN_PAIRS


def test_a_curve_that_is_known_badly_is_not_used():
    """All pairs at the ranks 1 and 2, and one far down: nobody knows how much that was seen."""
    wide = {"gain": [1.0] + [0.0] * 39, "limit": 40, "share": 0.5}
    far = {**wide, "baseline_rank": [40, *range(1, 40)]}
    log = labelled([*both_arms(MIN_PAIRS), far])
    found = estimating.basis(log, *NOW)
    assert found.kind == REPLAY
    assert "known to a factor of" in found.reason
    assert f"{math.exp(MAX_LOG_ERROR):.2f} is needed" in found.reason


def test_labels_of_a_kind_that_nothing_is_known_of_count_nothing():
    searches = both_arms(MIN_PAIRS + 10)
    sources = [OPENED] * MIN_PAIRS + [REACCESSED] * 10
    found = estimating.basis(labelled(searches, sources), *NOW)
    assert found.kind == RANDOMISED
    assert found.not_used == ("reaccessed",)
    assert set(found.examination) == {"opened"}
    assert len(found.log) == MIN_PAIRS
    assert found.served == MIN_PAIRS + 10
    assert REACCESSED not in found.log.source
    assert found.as_dict()["not_used"] == ["reaccessed"]
    # nor does what chance might have brought of that kind, wherever
    log = labelled(searches, sources)
    by_chance = replace(log, chance=np.where(log.shown, 0.2, 0.0))
    found = estimating.basis(by_chance, *NOW)
    assert found.not_used == ("reaccessed",)
    assert len(found.log) == MIN_PAIRS
    assert (found.log.chance == 0).all()
    assert (estimating.sums(found, TWO, 10).above > 0).all()
    # while it counts where only the other kind is not known well enough
    again = [REACCESSED] * MIN_PAIRS + [OPENED] * 10
    found = estimating.basis(replace(by_chance, source=labelled(searches, again).source), *NOW)
    assert found.not_used == ("opened",)
    assert len(found.log) == MIN_PAIRS + 10
    assert (found.log.chance[found.log.source == REACCESSED] == 0.2).all()
    # in a search that has another one as well, the other alone counts
    both = {"gain": [1.0, 0.5, 0.0], "baseline_rank": [2, 1, 3], "share": 0.5}
    log = labelled([*searches[:MIN_PAIRS], both])
    row = int(log.start[-2]) + 1
    log.source[row] = REACCESSED
    found = estimating.basis(log, *NOW)
    assert found.log.gain[-3:].tolist() == [1.0, 0.0, 0.0]
    # ratings tell of position as openings do
    found = estimating.basis(labelled(searches, [USEFUL] * len(searches)), *NOW)
    assert found.examination["opened"].pairs == len(searches)
    assert [name for name in SOURCES if name in found.examination] == ["opened"]


def test_each_kind_of_label_has_to_be_likely_enough():
    """Of two kinds with curves of their own, one of them leaves out what the other would not."""
    size = 10
    pool = {
        "gain": [1.0] + [0.0] * (size - 1),
        "baseline_rank": [size, *range(1, size)],
        "share": 0.5,
    }
    # opened as often in either order; come back to once in twenty where it stood last
    opened_in = [i % 2 == 0 for i in range(200)]
    again_in = [i % 20 > 0 for i in range(200)]
    log = labelled(
        [{**pool, "limbic": limbic} for limbic in opened_in + again_in],
        [OPENED] * 200 + [REACCESSED] * 200,
    )
    found = estimating.basis(log, *NOW)
    assert set(found.examination) == {"opened", "reaccessed"}
    alone = {
        name: weights.possible(found.log, curves({name: each})).reshape(-1, size)[0]
        for name, each in found.examination.items()
    }
    assert alone["opened"].all()
    assert not alone["reaccessed"].all()
    assert alone["reaccessed"][0]
    assert found.supported.reshape(-1, size).tolist() == [alone["reaccessed"].tolist()] * 400


def test_a_replay_takes_what_the_parameters_in_force_ranked_and_served():
    one = {"gain": [1.0, 0.0]}
    log = log_of(
        [
            one,
            {**one, "beta_sal": 0.6},
            {**one, "gamma": 0.02},
            {**one, "limbic": False, "share": 1.0},
            {**one, "gain": [0.0, 0.0]},
            {**one, "version": 7},
            {**one, "gain": [0.0, 1.0], "limit": 1},  # relevant, but was not shown
        ]
    )
    found = estimating.basis(log, *NOW)
    assert found.kind == REPLAY
    assert found.log.id.tolist() == [1, 6]
    assert found.served == 4
    assert found.examination == {}
    assert "never served" in found.reason
    assert estimating.basis(log, 0.6, 0.01).log.id.tolist() == [2]
    assert estimating.basis(log, 0.5, 0.02).log.id.tolist() == [3]
    assert len(estimating.basis(log, 9.0, 9.0).log) == 0


def test_a_randomised_log_takes_whatever_ranked():
    searches = both_arms(MIN_PAIRS)
    searches[0] = {**searches[0], "beta_sal": 3.0}
    searches.append({"gain": [1.0, 0.0], "share": 0.0})  # not by chance
    found = estimating.basis(labelled(searches), *NOW)
    assert found.log.id.tolist() == list(range(1, MIN_PAIRS + 1))


# under (.5, .01) A stands before B, under (3, .01) B before A
TURNS = {"base": [0.9, 0.6], "importance": [0.0, 0.5]}
TWO = np.array([NOW, (3.0, 0.01)])


def test_without_weights_an_estimate_is_the_mean_ndcg():
    log = simulate(Scenario(searches=60), 0).log
    found = estimating.basis(log, *NOW)
    sums = estimating.sums(found, CELLS, 5)
    assert sums.below == pytest.approx(np.ones(len(found.log)))
    for cell, (beta, gamma) in enumerate(CELLS):
        scores = rerank.final_scores(found.log, beta, gamma)
        for i in range(len(found.log)):
            rows = np.arange(found.log.start[i], found.log.start[i + 1])
            rows = rows[found.log.shown[rows]]
            expected = metrics.ndcg(found.log.gain[rows], scores[rows], 5)
            assert sums.above[i, cell] == pytest.approx(expected)
    # what the parameters in force served is what they would serve
    served = metrics.figures(found.log, found.log.served_rank, 5).ndcg
    assert sums.mean()[0] == pytest.approx(served.mean())
    some = np.arange(len(found.log)) % 3 == 0
    assert sums.mean(some)[0] == pytest.approx(served[some].mean())


def test_what_was_not_shown_earns_nothing():
    """It is known to be relevant: the ideal has it. But no cell gains by lifting it."""
    shown = {**TURNS, "gain": [1.0, 0.0], "limit": 1}
    rated = {**shown, "gain": [1.0, 2.0]}
    alone = {**shown, "gain": [0.0, 2.0]}
    found = estimating.basis(log_of([shown, rated, alone]), *NOW)
    assert found.log.id.tolist() == [1, 2]
    assert found.supported.tolist() == [True, False] * 2
    sums = estimating.sums(found, TWO, 10)
    assert sums.above[0] == pytest.approx([1.0, 1.0])
    ideal = 2 + 1 / np.log2(3)
    assert sums.above[1] == pytest.approx([1 / ideal] * 2)
    # shown, it is lifted
    all_shown = estimating.sums(estimating.basis(log_of([{**rated, "limit": 2}]), *NOW), TWO, 10)
    assert all_shown.above[0] == pytest.approx([(1 + 2 / np.log2(3)) / ideal, 1.0])


def test_what_the_other_order_would_have_shown_earns_nothing_either():
    """Such a label came by another way than being looked at here, and nobody knows its chance."""
    searches = [{**each, **TURNS} for each in both_arms(MIN_PAIRS)]
    rated = {**TURNS, "gain": [1.0, 2.0], "baseline_rank": [2, 1], "share": 0.5, "limit": 1}
    found = estimating.basis(labelled([*searches, rated]), *NOW)
    assert found.kind == RANDOMISED
    # both could have been shown, so both are ranked again
    assert found.supported[-2:].tolist() == [True, True]
    assert estimating.labels(found, 10).rows[-1] == len(found.log.gain) - 2
    sums = estimating.sums(found, TWO, 10)
    ideal = 2 + 1 / np.log2(3)
    assert sums.above[-1] / sums.below[-1] == pytest.approx([1 / ideal, 1 / np.log2(3) / ideal])


def test_a_label_counts_by_the_inverse_of_its_propensity():
    searches = [{**each, **TURNS} for each in both_arms(MIN_PAIRS)]
    low = {**TURNS, "gain": [0.0, 1.0], "baseline_rank": [2, 1], "share": 0.5}
    found = estimating.basis(labelled([*searches, low]), *NOW)
    # at rank 2 nobody looks but one in five
    curve = Examination(np.log([1.0, 0.2]), np.zeros((2, 2)), 100, 1.0)
    found = replace(found, examination={"opened": curve})
    sums = estimating.sums(found, TWO, 10)
    assert sums.below == pytest.approx(1 / 0.6)
    assert sums.above[0] == pytest.approx(np.array([1.0, 1 / np.log2(3)]) / 0.6)
    assert sums.above[-1] == pytest.approx(np.array([1 / np.log2(3), 1.0]) / 0.6)
    # shown by one order alone
    rare = replace(found, log=replace(found.log, limit=np.where(found.log.id == 1, 1, 10)))
    assert estimating.sums(rare, TWO, 10).below[0] == pytest.approx(1 / 0.5)
    # a curve that might be true as well can fall below the clip: it counts no more than that
    below = Examination(np.log([1.0, 0.01]), np.zeros((2, 2)), 100, 1.0)
    log = replace(found.log, baseline_share=np.full(len(found.log), 0.97))
    unsure = replace(found, log=log, examination={"opened": below})
    assert estimating.sums(unsure, TWO, 10).below[0] == pytest.approx(1 / 0.1)


def test_several_labels_of_a_search_share_it():
    """Whatever is opened of it, a search whose labels all count 1 counts 1."""
    found = estimating.basis(log_of([{"gain": [2.0, 1.0, 0.0]}, {"gain": [0.0, 1.0, 1.0]}]), *NOW)
    some = estimating.labels(found, 10)
    assert some.rows.tolist() == [0, 1, 4, 5]
    assert some.part == pytest.approx([2 / 3, 1 / 3, 1 / 2, 1 / 2])
    ideals = np.array([2 + 1 / np.log2(3), 1 + 1 / np.log2(3)])
    assert estimating.ideal(found.log, found.log.gain, 10) == pytest.approx(ideals)
    assert some.gain == pytest.approx(np.array([2, 1, 1, 1]) / np.repeat(ideals, 2))
    assert estimating.ideal(found.log, found.log.gain, 1) == pytest.approx([2.0, 1.0])
    assert some.by_search(np.ones(4)) == pytest.approx([2, 2])


def test_coming_back_counts_less_what_chance_brings():
    """A result that nobody came back to counts below 0 where chance might have brought that."""
    searches = [
        {**TURNS, "gain": [0.5, 0.0], "chance": [0.2, 0.1]},
        {**TURNS, "gain": [0.0, 0.0], "chance": [0.2, 0.1]},
        {**TURNS, "gain": [1.0, 0.0], "chance": [0.2, 0.0]},
        {**TURNS, "gain": [0.0, 0.0]},
    ]
    sources = [REACCESSED, REACCESSED, OPENED, OPENED]
    found = estimating.basis(labelled(searches, sources), *NOW)
    assert found.log.id.tolist() == [1, 2, 3]
    sums = estimating.sums(found, TWO, 10)
    second = 1 / np.log2(3)
    chance = -0.2 - 0.1 * second, -0.2 * second - 0.1
    # what was opened beats what chance says of it
    assert sums.above == pytest.approx(
        np.array([[0.5 + chance[0], 0.5 * second + chance[1]], chance, [1.0, second]])
    )
    assert sums.below == pytest.approx([0.5, 0.0, 1.0])


def test_drawn_differences_begin_with_the_estimate():
    log, _ = opened(0, 1.0)
    found = estimating.basis(log, *NOW)
    sums = estimating.sums(found, CELLS, 10)
    rng = np.random.default_rng(0)
    above, below = estimating.drawn_differences(found, CELLS[1:3], CELLS[0], 10, rng)
    assert len(above) == 2
    for cell, each in zip((1, 2), above, strict=True):
        assert each.shape == below.shape == (1 + estimating.CURVES, len(found.log))
        assert each[0] == pytest.approx(sums.above[:, cell] - sums.above[:, 0])
    assert below[0] == pytest.approx(sums.below)
    totals = below.sum(axis=1)
    assert len(set(totals.tolist())) == len(totals)
    assert np.median(totals[1:]) == pytest.approx(totals[0], rel=0.1)
    # a replay has no curve to be unsure of
    replayed = estimating.basis(simulate(Scenario(searches=60), 0).log, *NOW)
    above, below = estimating.drawn_differences(replayed, CELLS[1:2], CELLS[0], 10, rng)
    assert above[0].shape == below.shape == (1, len(replayed.log))


def test_a_part_of_a_basis_is_that_part():
    log, _ = opened(1, 1.0)
    found = estimating.basis(log, *NOW)
    sums = estimating.sums(found, CELLS, 10)
    some = np.arange(len(found.log)) % 3 == 1
    part = estimating.narrowed(found, some)
    again = estimating.sums(part, CELLS, 10)
    assert again.above == pytest.approx(sums.above[some])
    assert again.below == pytest.approx(sums.below[some])
    assert part.examination is found.examination


def test_nothing_at_all():
    found = estimating.basis(log_of([]), *NOW)
    assert (found.kind, found.served, len(found.log)) == (REPLAY, 0, 0)
    sums = estimating.sums(found, CELLS, 10)
    assert sums.above.shape == (0, len(CELLS))
    assert np.isnan(sums.mean()).all()
