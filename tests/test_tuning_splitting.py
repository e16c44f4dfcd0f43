"""Which searches propose and which decide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuning_helpers import DAY, START, log_of

from datasette_limbic.tuning.splitting import split


def at(*moments, queries=None):
    """A log of searches at these days (and parts of them) after START."""
    queries = queries or [f"query {i}" for i in range(len(moments))]
    return log_of(
        [
            {"gain": [1.0], "query": query, "at": START + day * DAY}
            for day, query in zip(moments, queries, strict=True)
        ]
    )


def sides(log, **arguments):
    found = split(log, **arguments)
    names = {(True, False): "train", (False, True): "holdout", (False, False): "-"}
    return [names[a, b] for a, b in zip(found.train.tolist(), found.holdout.tolist(), strict=True)]


moments = st.lists(st.integers(0, 40).map(lambda hours: hours / 4), max_size=30).map(sorted)


@given(moments, st.data())
def test_no_query_is_on_both_sides_and_the_later_searches_decide(days, data):
    names = st.lists(st.sampled_from("abcdef\udc80"), min_size=len(days), max_size=len(days))
    log = at(*days, queries=data.draw(names))
    after = data.draw(st.none() | st.integers(-4, 44).map(lambda hours: START + hours / 4 * DAY))
    found = split(log, after=after)
    assert found.train.dtype == found.holdout.dtype == bool
    assert len(found.train) == len(found.holdout) == len(log)
    assert not (found.train & found.holdout).any()
    queries = np.array(log.query)
    assert not set(queries[found.train]) & set(queries[found.holdout])
    if found.train.any() and found.holdout.any():
        assert log.at[found.train].max() < log.at[found.holdout].min()
    if after is not None:
        assert (log.at[found.holdout] > after).all() or found.cut > after
        assert found.cut >= after or not len(log)
    if len(log) and found.cut != after:
        assert found.cut % DAY == 0
        assert (log.at[found.train] < found.cut).all()
        assert (log.at[found.holdout] >= found.cut).all()
    # what is on neither side was asked on both
    for index in np.flatnonzero(~found.train & ~found.holdout):
        early = log.at <= found.cut if found.cut == after else log.at < found.cut
        same = queries == queries[index]
        assert (same & early).any()
        assert (same & ~early).any()


def test_a_log_is_halved_at_a_change_of_days():
    log = at(0.1, 0.2, 0.9, 1.1, 1.5, 1.6)
    assert split(log).cut == START + DAY
    assert sides(log) == ["train"] * 3 + ["holdout"] * 3
    # never in the middle of a day: a client's day is one
    log = at(0.1, 1.2, 1.3, 1.4, 1.5, 2.1)
    assert sides(log) in (
        ["train"] + ["holdout"] * 5,
        ["train"] * 5 + ["holdout"],
    )
    # the change that leaves the sides more alike, before the middle or after it
    assert sides(at(0.1, 0.2, 1.2, 1.3, 1.4, 2.1)) == ["train"] * 2 + ["holdout"] * 4
    assert sides(at(0.1, 1.1, 1.2, 1.3, 2.1, 2.2)) == ["train"] * 4 + ["holdout"] * 2


def test_a_query_of_both_sides_stands_on_one_of_them():
    names = [f"query {i}" for i in range(200)]
    log = at(*([0.1] * 200), *([3.1] * 200), queries=names * 2)
    found = split(log)
    assert (found.train[:200] ^ found.holdout[200:]).all()
    assert not found.holdout[:200].any()
    assert not found.train[200:].any()
    # by a hash: some half of them on either, and the same ones each time
    assert 70 <= found.train.sum() <= 130
    other = at(*([5.1] * 200), *([9.1] * 200), queries=names * 2)
    assert np.array_equal(split(other).train, found.train)
    # and whatever else there is
    fewer = at(*([0.1] * 100), *([3.1] * 100), queries=names[:100] * 2)
    assert np.array_equal(split(fewer).train[:100], found.train[:100])


def test_what_decided_before_does_not_decide_again():
    log = at(0.1, 1.1, 2.1, 3.1, 4.1, 5.1)
    assert sides(log) == ["train"] * 3 + ["holdout"] * 3
    # the search at that very time was the last that decided
    assert sides(log, after=log.at[4]) == ["train"] * 5 + ["holdout"]
    assert split(log, after=log.at[4]).cut == log.at[4]
    assert sides(log, after=log.at[4] - 1) == ["train"] * 4 + ["holdout"] * 2
    assert sides(log, after=log.at[5]) == ["train"] * 6
    # long ago: nothing changes
    assert sides(log, after=log.at[0]) == sides(log)


@pytest.mark.parametrize("days", [(0.3,), (0.1, 0.5, 0.9), (0.0, 0.0, 0.0)])
def test_one_day_alone_gives_no_two_sides(days):
    found = split(at(*days))
    assert found.train.all() != found.holdout.all()
    assert found.train.any() != found.holdout.any()


def test_an_empty_log():
    found = split(log_of([]), after=5.0)
    assert found.train.shape == found.holdout.shape == (0,)
