"""NDCG, precision, lift and recall of what was served: scikit-learn's, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score
from tuning_helpers import UNKNOWN, log_of

from datasette_limbic.tuning import estimating, metrics

gains = st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0, 100.0])


@st.composite
def rankings(draw):
    size = draw(st.integers(2, 12))
    some = draw(st.lists(gains, min_size=size, max_size=size))
    tied = st.sampled_from([-1.0, 0.0, 0.25, 1.0])
    scores = draw(st.lists(tied | st.floats(-10, 10), min_size=size, max_size=size))
    return some, scores


@given(rankings(), st.integers(1, 20))
def test_ndcg_is_that_of_scikit_learn(ranking, k):
    some, scores = ranking
    assert metrics.ndcg(some, scores, k) == pytest.approx(ndcg_score([some], [scores], k=k))


@pytest.mark.parametrize(
    ("some", "scores", "k", "expected"),
    [
        ([1.0, 0.0], [2.0, 1.0], 10, 1.0),
        ([0.0, 1.0], [2.0, 1.0], 10, 1 / math.log2(3)),
        ([0.0, 1.0], [2.0, 1.0], 1, 0.0),
        # two that tie share the first place and the second
        ([0.0, 1.0], [1.0, 1.0], 10, (1 + 1 / math.log2(3)) / 2),
        ([0.0, 1.0], [1.0, 1.0], 1, 0.5),
        # gains are linear: 2 is worth twice of 1, and not three times
        ([1.0, 2.0], [2.0, 1.0], 10, (1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))),
        ([0.0, 0.0], [2.0, 1.0], 10, 0.0),
        # scikit-learn says nothing of one result alone
        ([0.5], [3.0], 10, 1.0),
        ([0.0], [3.0], 10, 0.0),
        ([], [], 10, 0.0),
    ],
)
def test_ndcg_by_hand(some, scores, k, expected):
    assert metrics.ndcg(some, scores, k) == pytest.approx(expected)


@st.composite
def ranked_logs(draw):
    searches = []
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(2, 12))
        some = draw(st.lists(gains | st.just(UNKNOWN), min_size=size, max_size=size))
        searches.append({"gain": some, "limbic_rank": draw(st.permutations(range(1, size + 1)))})
    return log_of(searches)


@given(ranked_logs(), st.integers(1, 20))
def test_figures_of_a_log_are_those_of_its_searches_one_by_one(log, k):
    found = metrics.figures(log, log.limbic_rank, k)
    for i in range(len(log)):
        rows = slice(log.start[i], log.start[i + 1])
        gain, rank = np.nan_to_num(log.gain[rows]), log.limbic_rank[rows]
        each = [
            getattr(found, name)[i]
            for name in ("ndcg", "precision", "pool_precision", "lift", "recall")
        ]
        relevant = {place for place, value in zip(rank.tolist(), gain, strict=True) if value > 0}
        if not relevant:
            assert np.isnan(each).all()
            continue
        top = len([place for place in relevant if place <= k])
        precision, pool = top / min(k, len(gain)), len(relevant) / len(gain)
        expected = [
            ndcg_score([gain], [-rank], k=k),
            *(precision, pool, precision / pool, top / len(relevant)),
        ]
        assert each == pytest.approx(expected)


def test_figures_by_hand():
    log = log_of(
        [
            # two of five are relevant, one of them among the first two
            {"gain": [1.0, 0.0, 0.0, 2.0, UNKNOWN]},
            {"gain": [0.0, 0.0]},
            {"gain": [1.0]},
        ]
    )
    found = metrics.figures(log, log.limbic_rank, 2)
    assert found.precision == pytest.approx([1 / 2, np.nan, 1.0], nan_ok=True)
    assert found.pool_precision == pytest.approx([2 / 5, np.nan, 1.0], nan_ok=True)
    assert found.lift == pytest.approx([5 / 4, np.nan, 1.0], nan_ok=True)
    assert found.recall == pytest.approx([1 / 2, np.nan, 1.0], nan_ok=True)
    # the ideal has the 2 first
    assert found.ndcg == pytest.approx([1 / (2 + 1 / math.log2(3)), np.nan, 1.0], nan_ok=True)


def test_no_search_has_no_figures():
    log = log_of([])
    found = metrics.figures(log, log.limbic_rank, 10)
    assert found.ndcg.shape == found.lift.shape == found.recall.shape == (0,)


@given(ranked_logs(), st.integers(1, 20))
def test_the_ideal_is_the_best_order(log, k):
    """Served in the order of their gains, a search has NDCG 1."""
    rank = np.empty(len(log.gain), int)
    for i in range(len(log)):
        rows = slice(log.start[i], log.start[i + 1])
        order = np.argsort(-np.nan_to_num(log.gain[rows]), kind="stable")
        rank[rows][order] = np.arange(1, len(order) + 1)
    value = metrics.figures(log, rank, k).ndcg
    known = estimating.ideal(log, np.nan_to_num(log.gain), k) > 0
    assert value[known] == pytest.approx(1.0)
    assert np.isnan(value[~known]).all()
