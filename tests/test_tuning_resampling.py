"""Intervals: they hold the truth as often as they say, where searches come in clusters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuning_helpers import DAY, START, log_of

from datasette_limbic.tuning import resampling
from datasette_limbic.tuning.resampling import (
    difference_interval,
    ratio_interval,
    standard_errors,
)

SEEDS = 300
TRUTH = 0.3


def clustered(seed, clusters, shape=3.0):
    """Values around TRUTH that resemble each other within a cluster, with weights; (above, below,
    cluster). The lower the ``shape``, the more a few clusters outweigh the rest."""
    rng = np.random.default_rng(seed)
    sizes = 1 + rng.poisson(rng.gamma(shape, 8.0 / shape, clusters))
    cluster = np.repeat(np.arange(clusters), sizes)
    value = TRUTH + rng.normal(0, 0.2, clusters)[cluster] + rng.normal(0, 0.3, len(cluster))
    below = rng.uniform(0.5, 3.0, len(cluster))
    shuffled = rng.permutation(len(cluster))
    return (below * value)[shuffled], below[shuffled], cluster[shuffled]


def by_cluster(seed, above, below, cluster):
    return ratio_interval(above, below, [cluster], np.random.default_rng(seed))


def coverage(interval_of, clusters, seeds=SEEDS, **arguments):
    hit = 0
    for seed in range(seeds):
        found = interval_of(seed, *clustered(seed, clusters, **arguments))
        hit += found.low <= TRUTH <= found.high
    return hit / seeds


@pytest.mark.parametrize("clusters", [30, 60])
def test_an_interval_holds_the_truth_19_times_of_20(clusters):
    assert 0.93 <= coverage(by_cluster, clusters) <= 0.98


def test_it_does_not_where_what_belongs_together_is_taken_apart():
    """So the test above can fail: the same data, each search a cluster of its own."""

    def interval(seed, above, below, cluster):
        alone = np.arange(len(above))
        return ratio_interval(above, below, [alone], np.random.default_rng(seed))

    assert coverage(interval, 30, seeds=40) < 0.8


def test_few_clusters_have_wide_intervals(monkeypatch):
    """Percentiles alone hold the truth much more seldom than the widened ones."""
    assert 0.91 <= coverage(by_cluster, 6) <= 0.99
    monkeypatch.setattr(resampling, "_tail", lambda clusters: 0.025)
    assert coverage(by_cluster, 6) < 0.88


def test_a_few_clusters_that_outweigh_the_rest_cost_little():
    assert 0.9 <= coverage(by_cluster, 30, shape=0.7) <= 0.98


def test_standard_errors_are_those_of_the_estimate():
    """(The standard deviation of estimates over logs) and of either clustering the larger."""
    estimates, errors, alone = [], [], []
    for seed in range(SEEDS):
        above, below, cluster = clustered(seed, 40)
        estimates.append(above.sum() / below.sum())
        columns = np.stack([above, 2 * above, 0 * above], axis=1)
        each = standard_errors(columns, below, [np.arange(len(above)), cluster])
        assert each[1] == pytest.approx(2 * each[0])
        assert each[2] == 0.0
        errors.append(each[0])
        alone.append(standard_errors(columns, below, [np.arange(len(above))])[0])
    spread = np.std(estimates)
    assert np.mean(errors) == pytest.approx(spread, rel=0.12)
    assert np.mean(alone) < 0.75 * spread


def test_of_standard_errors_the_largest_counts_wherever_it_stands():
    above, below, cluster = clustered(0, 30)
    alone = np.arange(len(above))
    columns = np.stack([above, 2 * above], axis=1)
    large, small = (standard_errors(columns, below, [each]) for each in (cluster, alone))
    assert (large > 1.5 * small).all()
    for both in ([cluster, alone], [alone, cluster]):
        assert standard_errors(columns, below, both).tolist() == large.tolist()
    # column by column
    mixed = np.stack([above, (below * np.random.default_rng(0).normal(size=len(below)))], axis=1)
    each = np.stack([standard_errors(mixed, below, [one]) for one in (cluster, alone)])
    found = standard_errors(mixed, below, [cluster, alone])
    assert found.tolist() == each.max(axis=0).tolist()


def test_of_both_clusterings_the_wider_interval_counts():
    above, below, cluster = clustered(0, 30)
    alone = np.arange(len(above))

    def width(*clusterings):
        found = ratio_interval(above, below, clusterings, np.random.default_rng(0))
        return found.high - found.low

    assert width(cluster) > 1.5 * width(alone)
    assert width(cluster, alone) >= width(cluster)
    assert width(alone, cluster) == pytest.approx(width(cluster), rel=0.1)
    found = ratio_interval(above, below, [alone, cluster], np.random.default_rng(0))
    assert found.clusters == 30  # the fewest
    assert found.value == pytest.approx(above.sum() / below.sum())
    assert found.low < found.value < found.high


def test_one_cluster_tells_of_no_spread():
    above, below, _ = clustered(0, 30)
    found = ratio_interval(above, below, [np.zeros(len(above), int)], np.random.default_rng(0))
    assert found.clusters == 1
    assert np.isnan([found.low, found.high]).all()
    assert (found.as_dict()["low"], found.as_dict()["high"]) == (None, None)
    # beside another clustering it still tells of nothing
    both = ratio_interval(
        above,
        below,
        [np.zeros(len(above), int), np.arange(len(above))],
        np.random.default_rng(0),
    )
    assert both.clusters == 1
    assert np.isnan([both.low, both.high]).all()


def test_nothing_below_gives_no_estimate():
    for size in (0, 3):
        found = ratio_interval(
            np.zeros(size),
            np.zeros(size),
            [np.zeros(size, int)],
            np.random.default_rng(0),
        )
        assert np.isnan([found.value, found.low, found.high]).all()
        assert found.clusters == 0
        assert not found.low > 0  # so it proposes nothing


def test_all_zero_above_is_zero_for_sure():
    found = ratio_interval(np.zeros(9), np.ones(9), [np.arange(9) % 3], np.random.default_rng(0))
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_draws_without_anything_below_are_left_out():
    """One cluster of two has all the weight: half of the draws of the other say nothing."""
    found = ratio_interval(
        np.array([1.0, 0.0]), np.array([2.0, 0.0]), [np.array([0, 1])], np.random.default_rng(0)
    )
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_uncertain_weights_widen_an_interval():
    above, below, cluster = clustered(1, 60)
    rng = np.random.default_rng(5)
    # in each draw of the weights the values are shifted together
    shift = np.append(0.0, rng.normal(0, 0.1, 200))[:, None]
    several = np.stack([below] * 201)
    sure = ratio_interval(above, below, [cluster], np.random.default_rng(0))
    same = ratio_interval(np.stack([above] * 201), several, [cluster], np.random.default_rng(0))
    unsure = ratio_interval(above + shift * several, several, [cluster], np.random.default_rng(0))
    assert (same.value, same.low, same.high) == pytest.approx((sure.value, sure.low, sure.high))
    assert unsure.value == pytest.approx(sure.value)  # the first of them is the estimate
    half, wide = (sure.high - sure.low) / 2, (unsure.high - unsure.low) / 2
    assert wide == pytest.approx(np.hypot(half, 1.96 * 0.1), rel=0.15)


def test_one_seed_one_interval():
    above, below, cluster = clustered(0, 30)
    one, again, other = (
        ratio_interval(above, below, [cluster], np.random.default_rng(seed)) for seed in (7, 7, 8)
    )
    assert one == again
    assert other.value == one.value
    assert (other.low, other.high) != (one.low, one.high)
    assert other.low == pytest.approx(one.low, abs=0.02)


def test_the_order_of_searches_and_the_numbers_of_clusters_change_nothing_but_chance():
    above, below, cluster = clustered(0, 30)
    order = np.random.default_rng(1).permutation(len(above))
    one = ratio_interval(above, below, [cluster], np.random.default_rng(0))
    other = ratio_interval(above[order], below[order], [cluster[order]], np.random.default_rng(0))
    assert (other.value, other.low, other.high) == pytest.approx((one.value, one.low, one.high))


@pytest.mark.parametrize("number", [1, 7, 2000, 10_000, 1 << 22])
def test_draws_are_made_so_many_at_once_as_memory_allows(number):
    portions = list(resampling._portions(number))
    assert sum(portions) == resampling.DRAWS
    assert max(portions) * number <= max(1 << 21, number)
    # and no fewer than that: a draw at a time would take minutes
    assert len(portions) <= 1 + resampling.DRAWS // max(1, (1 << 21) // number)


def test_many_clusters_are_drawn_in_portions(monkeypatch):
    sizes = []
    counts = resampling._counts

    def counted(number, size, rng):
        sizes.append(number * size)
        return counts(number, size, rng)

    monkeypatch.setattr(resampling, "_counts", counted)
    above = np.random.default_rng(0).normal(1, 1, 10_000)
    found = ratio_interval(above, np.ones(10_000), [np.arange(10_000)], np.random.default_rng(0))
    assert len(sizes) == 10
    assert max(sizes) <= 1 << 21
    assert (found.high - found.low) / 2 == pytest.approx(0.0196, rel=0.1)


def test_percentiles_are_widened_for_few_clusters():
    """Hesterberg's table: 2.5 % becomes .4 % for ten of them, and stays 2.5 % for many."""
    tails = [resampling._tail(n) for n in (2, 5, 10, 100, 100_000)]
    assert (np.diff(tails) > 0).all()
    # Φ(√(n/(n−1))·t(α/2, n−1)) as Hesterberg 2015 has it, section 5.3
    assert tails[1:4] == pytest.approx([0.0010, 0.0086, 0.0231], abs=0.0003)
    assert tails[-1] == pytest.approx(0.025, abs=1e-4)
    assert resampling._tail(1) == 0.0


def difference(seed, arms=(0.5, 0.5), clusters=40, gap=0.2):
    """Values with weights of two arms: (value, one, other, cluster)."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(clusters), rng.integers(5, 30, clusters))
    first = rng.random(len(cluster)) < arms[0]
    value = rng.normal(0, 0.3, clusters)[cluster] + rng.normal(0, 0.3, len(cluster)) + gap * first
    return value, first / arms[0], ~first / arms[1], cluster


def test_a_difference_is_that_of_the_means_and_its_interval_a_brute_force_bootstrap():
    value, one, other, cluster = difference(0)
    found = difference_interval(value, one, other, [cluster], np.random.default_rng(0))
    assert found.value == pytest.approx(value[one > 0].mean() - value[other > 0].mean())
    assert found.clusters == 40
    rng = np.random.default_rng(99)
    members = [np.flatnonzero(cluster == each) for each in range(40)]
    drawn = []
    for _ in range(4000):
        rows = np.concatenate([members[each] for each in rng.integers(0, 40, 40)])
        first = one[rows] > 0
        drawn.append(value[rows][first].mean() - value[rows][~first].mean())
    tail = resampling._tail(40)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    width = high - low
    assert found.low == pytest.approx(low, abs=0.08 * width)
    assert found.high == pytest.approx(high, abs=0.08 * width)


def test_weights_of_a_difference_count():
    value = np.array([1.0, 0.0, 1.0, 0.0])
    found = difference_interval(
        value,
        np.array([3.0, 1.0, 0.0, 0.0]),
        np.array([0.0, 0.0, 1.0, 4.0]),
        [np.arange(4)],
        np.random.default_rng(0),
    )
    assert found.value == pytest.approx(3 / 4 - 1 / 5)
    assert found.low <= found.value <= found.high


def test_the_interval_of_a_difference_holds_the_truth():
    hit = 0
    for seed in range(SEEDS):
        value, one, other, cluster = difference(seed, arms=(0.7, 0.3))
        found = difference_interval(value, one, other, [cluster], np.random.default_rng(seed))
        hit += found.low <= 0.2 <= found.high
    assert 0.93 <= hit / SEEDS <= 0.98


def test_what_belongs_together():
    log = log_of(
        [
            {"gain": [1.0], "client": client, "query": query, "at": START + day * DAY}
            for client, query, day in (
                ("ana", "tea", 0.0),
                ("ana", "tea", 0.999),
                ("ana", "milk", 1.0),
                (None, "tea", 1.5),
                ("bo", "milk", 1.6),
                (None, "bread", 1.7),
            )
        ]
    )
    assert resampling.client_days(log).tolist() == [0, 0, 1, 2, 3, 2]
    assert resampling.queries(log).tolist() == [0, 0, 1, 0, 1, 2]


weight = st.just(0.0) | st.floats(1e-3, 10)


@given(
    st.lists(st.tuples(st.floats(0, 10), weight, st.integers(0, 4)), max_size=30),
    st.integers(0, 5),
)
def test_an_interval_always_holds_its_estimate(rows, seed):
    above = np.array([a for a, _, _ in rows])
    below = np.array([b for _, b, _ in rows])
    _, cluster = np.unique(np.array([c for _, _, c in rows], int), return_inverse=True)
    found = ratio_interval(above, below, [cluster], np.random.default_rng(seed))
    if below.sum() == 0:
        assert np.isnan(found.value)
    elif found.clusters < 2:
        assert np.isnan(found.low)
    else:
        assert found.low <= found.value <= found.high
