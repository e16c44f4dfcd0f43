"""What a label counts for: propensities over both orders, the clip, the effective sample size."""

from __future__ import annotations

import numpy as np
import pytest
from tuning_helpers import log_of

from datasette_limbic.tuning import weights

SHARE = 0.3
# rank in the baseline's order, in the limbic one, and the chance to be looked at by 1 / rank
CASES = {
    "in both orders": (1, 2, SHARE * 1 + (1 - SHARE) / 2),
    "the other way round": (2, 1, SHARE / 2 + (1 - SHARE) * 1),
    "at the same rank": (3, 3, 1 / 3),
    "beyond the limit of the baseline": (5, 4, (1 - SHARE) / 4),
    "beyond the limit of the limbic order": (4, 5, SHARE / 4),
    "beyond both": (6, 6, 0.0),
}


def inverse_rank(rank):
    return 1.0 / rank


@pytest.fixture
def log():
    baseline, limbic, _ = zip(*CASES.values(), strict=True)
    return log_of(
        [
            {
                "gain": [1.0] * len(CASES),
                "baseline_rank": baseline,
                "limbic_rank": limbic,
                "limit": 4,
                "share": SHARE,
            }
        ]
    )


def test_a_propensity_is_that_of_both_orders(log):
    expected = [chance for *_, chance in CASES.values()]
    rows = np.arange(len(CASES))
    assert weights.propensities(log, rows, inverse_rank) == pytest.approx(expected)
    # of some of them, in the order that is asked for
    some = weights.propensities(log, np.array([4, 0]), inverse_rank)
    assert some == pytest.approx([expected[4], expected[0]])
    # which of both orders was served changes nothing
    other = log_of([{"gain": [1.0], "limbic": False, "share": SHARE, "baseline_rank": [2]}])
    assert weights.propensities(other, np.array([0]), inverse_rank) == pytest.approx(
        [SHARE / 2 + (1 - SHARE)]
    )


def test_each_search_has_its_own_share_and_limit():
    log = log_of(
        [
            {"gain": [1.0], "baseline_rank": [3], "limbic_rank": [1], "share": share, "limit": top}
            for share, top in ((0.0, 10), (1.0, 10), (0.5, 10), (0.5, 2))
        ]
    )
    found = weights.propensities(log, np.arange(4), inverse_rank)
    assert found == pytest.approx([1.0, 1 / 3, 0.5 + 0.5 / 3, 0.5])


def test_curves_that_were_drawn_give_a_row_each(log):
    rows = np.arange(len(CASES))

    def drawn(rank):
        return np.stack([1.0 / rank, np.ones(len(rank))])

    found = weights.propensities(log, rows, drawn)
    expected = [chance for *_, chance in CASES.values()]
    # all is looked at: the chance to be shown
    assert found[0] == pytest.approx(expected)
    assert found[1] == pytest.approx([1.0, 1.0, 1.0, 1 - SHARE, SHARE, 0.0])


def flat(rank):
    return np.ones(len(rank))


def test_possible_is_what_was_likely_enough_to_be_looked_at(log):
    """Here the clip lies between a fifth of .3, at the fifth rank of the limbic order alone, and
    1 in 6."""
    chances = {name: chance for name, (*_, chance) in CASES.items()}
    assert chances["beyond the limit of the limbic order"] < weights.CLIP
    assert chances["beyond the limit of the baseline"] > weights.CLIP
    assert weights.possible(log, [inverse_rank]).tolist() == [True, True, True, True, False, False]
    # where all is looked at, whatever is shown is; without any curve nothing is known against it
    assert weights.possible(log, [flat]).tolist() == [True] * 5 + [False]
    assert weights.possible(log, []).all()


@pytest.mark.parametrize("order", [1, -1])
def test_all_curves_have_to_find_it_possible(log, order):
    """A label of one kind may count where one of another does not: both, or it is left out."""
    found = weights.possible(log, [flat, inverse_rank][::order])
    assert found.tolist() == [True, True, True, True, False, False]


@pytest.mark.parametrize(("examined", "expected"), [(0.2, True), (0.2 - 1e-9, False)])
def test_at_the_clip_it_is_possible(examined, expected):
    log = log_of([{"gain": [1.0, 0.0], "limit": 1, "baseline_rank": [2, 1], "share": 0.5}])
    found = weights.possible(log, [lambda rank: np.full(len(rank), examined)])
    assert found.tolist() == [expected] * 2


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        # one order is served hardly ever: what only that one would show is out
        (0.0, [True, False, False]),
        (0.09, [True, False, False]),
        (0.1, [True, True, False]),
        (0.5, [True, True, False]),
        (0.91, [False, True, False]),
        (1.0, [False, True, False]),
    ],
)
def test_an_order_that_is_hardly_ever_served_shows_nothing(share, expected):
    log = log_of(
        [
            {
                "gain": [0.0] * 3,
                "limbic_rank": [1, 2, 3],
                "baseline_rank": [2, 1, 3],
                "limit": 1,
                "share": share,
            }
        ]
    )
    assert weights.possible(log, [flat]).tolist() == expected


def test_no_label_counts_for_more_than_the_clip_allows():
    clip = weights.CLIP
    propensity = np.array([1.0, 0.5, clip, clip / 2, 0.0])
    assert weights.inverse(propensity).tolist() == [1.0, 2.0, 1 / clip, 1 / clip, 1 / clip]
    assert clip == 0.1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0] * 7, 7.0),
        ([0.1] * 7, 7.0),  # only how they compare matters
        ([3.0, 1.0], 16 / 10),
        ([1.0, 0.0, 0.0], 1.0),
        ([0.0, 0.0], 0.0),
        ([], 0.0),
    ],
)
def test_the_effective_sample_size_is_kishs(values, expected):
    assert weights.effective(np.array(values)) == pytest.approx(expected)
