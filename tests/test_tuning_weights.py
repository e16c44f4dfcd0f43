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


def test_possible_is_what_some_order_could_have_shown(log):
    assert weights.possible(log).tolist() == [True, True, True, True, True, False]


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        # one order alone is ever served: what only the other would show could not be
        (0.0, [True, False, False]),
        (1.0, [False, True, False]),
        (0.5, [True, True, False]),
    ],
)
def test_an_order_that_is_never_served_shows_nothing(share, expected):
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
    assert weights.possible(log).tolist() == expected


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
