"""How much a rank matters, learned from results that stood at another rank in the other order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tuning_helpers import log_of

from datasette_limbic.tuning import position
from datasette_limbic.tuning.log import Log
from datasette_limbic.tuning.position import KNOTS

SEEDS = 80
SHARE = 0.3


def clicks(seed, examined, *, searches=800, size=12, share=SHARE, limit=10) -> Log:
    """Searches whose results are opened where they are looked at (``examined`` by rank) and
    appeal, which differs a lot; the limbic order is the better one, so it is no coin."""
    rng = np.random.default_rng(seed)
    appeal = rng.beta(0.5, 1.5, (searches, size))
    ranks = [
        (-(appeal * pull + rng.random((searches, size)))).argsort(axis=1).argsort(axis=1) + 1
        for pull in (0.5, 2.0)
    ]
    limbic = rng.random(searches) >= share
    served = np.where(limbic[:, None], ranks[1], ranks[0])
    seen = (served <= limit) & (rng.random(served.shape) < examined(served))
    opened = seen & (rng.random(served.shape) < appeal)
    one = log_of([{"gain": [0.0] * size, "limit": limit, "share": share}])
    return replace(
        one,
        **{
            name: np.repeat(getattr(one, name), searches)
            for name in ("strategy", "limit", "beta_sal", "gamma", "baseline_share", "version")
        },
        **{
            name: np.tile(getattr(one, name), searches)
            for name in ("entity", "base", "importance", "temporal", "cooc")
        },
        id=np.arange(1, searches + 1),
        query=tuple(map(str, range(searches))),
        client=("agent",) * searches,
        at=np.arange(searches, dtype=float),
        limbic=limbic,
        start=np.arange(searches + 1) * size,
        baseline_rank=ranks[0].ravel(),
        limbic_rank=ranks[1].ravel(),
        gain=opened.ravel().astype(float),
        source=np.where(opened.ravel(), 3, 0),
    )


def power(eta):
    return lambda rank: rank ** -float(eta)


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0, 1.5])
def test_the_curve_is_found_within_its_errors(eta):
    """At each knot the truth lies within two standard errors in 19 of 20 logs, about; and on
    average the curve is the truth."""
    away, found = [], []
    for seed in range(SEEDS):
        curve = position.fit(clicks(seed, power(eta)))
        truth = -eta * np.log(KNOTS[: len(curve.log_e)])
        error = np.sqrt(np.diag(curve.covariance))
        assert curve.log_e[0] == error[0] == 0.0  # relative to the first rank
        away.append(((curve.log_e - truth)[1:6]) / error[1:6])
        found.append(curve.log_e[:6])
    inside = (np.abs(away) <= 2.0).mean(axis=0)
    assert inside.shape == (5,)  # ranks 2, 3, 5, 8 and 13
    assert (inside >= 0.9).all(), inside
    mean = np.mean(found, axis=0)
    assert mean == pytest.approx(-eta * np.log(KNOTS[:6]), abs=0.1)
    # the errors are no larger than need be: what they tell of is there
    assert (np.std(away, axis=0) > 0.5).all()


@pytest.mark.parametrize(
    "examined",
    [lambda rank: 0.8 ** (rank - 1.0), lambda rank: np.where(rank <= 3, 1.0, 0.3)],
    ids=["falls by a fifth each rank", "a page of three"],
)
def test_another_shape_than_a_power_is_followed(examined):
    found = np.mean(
        [position.fit(clicks(seed, examined, searches=6000)).log_e[:5] for seed in range(12)],
        axis=0,
    )
    ranks = np.array(KNOTS[:5])
    assert found == pytest.approx(np.log(examined(ranks)), abs=0.25)
    # and no power of the rank would do as well
    slope = np.log(ranks)
    power_law = slope * (slope @ np.log(examined(ranks)) / (slope @ slope))
    truth = np.log(examined(ranks))
    assert np.abs(found - truth).max() < np.abs(power_law - truth).max()


def test_more_clicks_tell_more():
    errors = [
        np.sqrt(np.diag(position.fit(clicks(0, power(1), searches=n)).covariance))[1:6]
        for n in (200, 2000, 20000)
    ]
    assert (errors[0] > errors[1]).all()
    assert (errors[1] > errors[2]).all()
    assert (errors[2][:4] < 0.08).all()
    assert errors[2][4] > 0.08  # rank 13 was never shown


def test_how_relevant_results_are_cancels():
    """The orders differ in quality, and one is served more often: nothing of that is bias."""
    for share in (0.1, 0.9):
        found = [
            position.fit(clicks(seed, power(0), share=share, searches=3000)).eta
            for seed in range(30)
        ]
        error = np.std(found) / np.sqrt(len(found))
        assert abs(np.mean(found)) < 3 * error + 0.01


def flat(curve):
    return curve.log_e == pytest.approx(0.0, abs=1e-6)


def test_nothing_to_learn_from_gives_a_flat_curve_that_is_quite_uncertain():
    for searches in (
        [],
        [{"gain": [0.0] * 3, "share": 0.5}],  # nothing opened
        [{"gain": [1.0] * 3, "share": 0.5}],  # at the same ranks in both orders
        [{"gain": [1.0, 0.0], "baseline_rank": [2, 1], "share": 0.0}],  # no chance
    ):
        log = log_of(searches)
        found = position.fit(log)
        assert found.pairs == position.informative(log).sum() == 0
        assert flat(found)
        assert found.eta == pytest.approx(0.0, abs=1e-6)
        assert np.sqrt(found.covariance[1, 1]) > 1.0
        assert position.examined(np.array([1, 5, 500]), found.log_e) == pytest.approx([1, 1, 1])


PAIR = {"gain": [1.0, 0.0], "baseline_rank": [2, 1], "share": 0.5}


def test_one_pair_moves_the_curve_hardly():
    """Opened in the order where it stood first: a little bias is likelier than none."""
    found = position.fit(log_of([PAIR]))
    assert found.pairs == 1
    assert -3.0 < found.log_e[1] < -0.1
    assert np.sqrt(found.covariance[1, 1]) > 1.0
    # had it been opened at the lower rank: the other way round
    other = position.fit(log_of([{**PAIR, "limbic": False}]))
    assert other.log_e[1] == pytest.approx(-found.log_e[1], abs=1e-4)


@pytest.mark.parametrize("size", [30, 1000])
@pytest.mark.parametrize("limbic", [True, False])
def test_what_separates_completely_still_has_an_answer(size, limbic):
    """All openings in one arm, always at the first rank: no finite maximum of the likelihood."""
    ranks = {} if limbic else {"baseline_rank": [1, 2], "limbic_rank": [2, 1]}
    found = position.fit(log_of([{**PAIR, **ranks, "limbic": limbic}] * size))
    assert np.isfinite(found.log_e).all()
    assert np.isfinite(found.covariance).all()
    assert found.log_e[1] < -2.0
    assert np.sqrt(found.covariance[1, 1]) > 0.3
    assert (np.linalg.eigvalsh(found.covariance) > -1e-9).all()


@pytest.mark.parametrize(("limit", "knots"), [(1, 2), (2, 2), (3, 3), (10, 6), (100, 10)])
def test_the_curve_reaches_as_far_as_results_were_shown(limit, knots):
    log = clicks(1, power(0.7), size=120 if limit == 100 else 12, searches=300, limit=limit)
    found = position.fit(log)
    assert len(found.log_e) == knots
    assert found.covariance.shape == (knots, knots)
    # of one result there is no other rank to stand at
    assert (found.pairs == 0) == (limit == 1)
    assert [row["rank"] for row in found.as_dict()["ranks"]] == list(KNOTS[:knots])
    assert found.as_dict()["ranks"][0] == {"rank": 1, "examined": 1.0, "log_error": 0.0}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"limbic": False}, True),
        ({"gain": [2.0, 0.0]}, True),
        ({"gain": [0.0, 0.0]}, False),
        ({"gain": [float("nan"), 0.0]}, False),
        ({"share": 0.0}, False),
        ({"share": 1.0, "limbic": False}, False),
        ({"baseline_rank": [1, 2]}, False),
        ({"limit": 2}, True),
        ({"limit": 1}, False),  # in the other order it was not shown
        ({"limit": 1, "limbic": False}, False),  # it was not shown at all
    ],
)
def test_what_tells_of_position(change, expected):
    log = log_of([{**PAIR, **change}])
    assert position.informative(log).tolist() == [expected, False]
    assert position.fit(log).pairs == int(expected)


def test_only_what_is_asked_for_informs():
    log = clicks(0, power(1))
    rows = position.informative(log) & (np.arange(len(log.gain)) % 3 == 0)
    found = position.fit(log, rows)
    assert found.pairs == rows.sum() < position.fit(log).pairs
    assert found.covariance[3, 3] > position.fit(log).covariance[3, 3]


def test_between_knots_the_curve_is_a_power():
    log_e = np.log([1.0, 0.5, 0.25, 0.2])  # at ranks 1, 2, 3, 5
    rank = np.array([1, 2, 3, 4, 5, 6, 80])
    part = (np.log(4) - np.log(3)) / (np.log(5) - np.log(3))
    expected = [1.0, 0.5, 0.25, 0.25 ** (1 - part) * 0.2**part, 0.2, 0.2, 0.2]
    assert position.examined(rank, log_e) == pytest.approx(expected)
    # curves by row; one that rises is not cut off
    both = position.examined(rank, np.stack([log_e, -log_e]))
    assert both[0] == pytest.approx(expected)
    assert both[1] == pytest.approx(1 / np.array(expected))


def test_drawn_curves_are_spread_as_the_covariance_says():
    found = position.fit(clicks(0, power(1)))
    drawn = found.draws(20_000, np.random.default_rng(1))
    assert drawn.shape == (20_000, len(found.log_e))
    assert (drawn[:, 0] == 0.0).all()
    assert drawn.mean(axis=0) == pytest.approx(found.log_e, abs=0.02)
    assert np.cov(drawn.T) == pytest.approx(found.covariance, abs=0.01)
