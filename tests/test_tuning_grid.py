"""The grid, and the cell that the training searches speak for."""

from __future__ import annotations

import numpy as np
import pytest

from datasette_limbic.errors import BadParameter
from datasette_limbic.tuning.estimating import Sums
from datasette_limbic.tuning.grid import Grid, choose

NOW = (0.5, 0.01)
BETAS, GAMMAS = [0.25, 1.0], [0.005, 0.02]


def near(grid, *arguments):
    return {tuple(cell) for cell in grid.cells[grid.near(*arguments)].tolist()}


def test_what_is_in_force_is_a_cell_of_every_grid():
    grid = Grid.of([1.5, 0.1], [0.1, 0.001], NOW)
    assert grid.beta_sal.tolist() == [0.1, 0.5, 1.5]
    assert grid.gamma.tolist() == [0.001, 0.01, 0.1]
    assert grid.cells[:4].tolist() == [[0.1, 0.001], [0.1, 0.01], [0.1, 0.1], [0.5, 0.001]]
    assert grid.cells[grid.current].tolist() == list(NOW)
    # where it is one of the range already, and where it lies outside
    assert len(Grid.of([0.5, 1.5], [0.01], NOW).cells) == 2
    outside = Grid.of([0.1, 0.2], [0.1], (9.0, 0.0))
    assert outside.beta_sal.tolist() == [0.1, 0.2, 9.0]
    assert outside.gamma.tolist() == [0.0, 0.1]
    assert outside.cells[outside.current].tolist() == [9.0, 0.0]
    assert Grid.of([0.1, 0.1], [0.1], NOW).beta_sal.tolist() == [0.1, 0.5]


@pytest.mark.parametrize(
    ("now", "betas", "gammas"),
    [(NOW, [0.5], [0.01]), ((0.0, 0.0), [0.0], [0.0, 0.0]), (NOW, [], []), (NOW, [0.5], [])],
)
def test_one_cell_has_nothing_to_be_compared_with(now, betas, gammas):
    with pytest.raises(BadParameter) as caught:
        Grid.of(betas, gammas, now)
    assert f"beta_sal {now[0]:g} and gamma {now[1]:g} alone" in str(caught.value)
    assert str(caught.value).endswith("Give other values")
    # one other value of either is enough
    assert len(Grid.of([*betas, 1.0], gammas, now).cells) == 2
    assert len(Grid.of(betas, [*gammas, 1.0], now).cells) == 2


@pytest.mark.parametrize(
    ("now", "betas", "gammas", "expected_betas", "expected_gammas"),
    [
        # a factor of two is within, what is a little more is not
        (NOW, [0.25, 0.249, 1.0, 1.001], [0.02, 0.021], {0.25, 0.5, 1.0}, {0.01, 0.02}),
        # 0 has no factor: up to the next value
        ((0.0, 0.01), [0.1, 0.2], [0.05], {0.0, 0.1}, {0.01}),
        ((0.5, 0.0), [2.0], [0.1, 0.001], {0.5}, {0.0, 0.001}),
        ((0.0, 0.0), [0.1], [0.001, 0.002], {0.0, 0.1}, {0.0, 0.001}),
        # and 0 is never near to what is above it
        (NOW, [0.0, 0.6], [0.0], {0.5, 0.6}, {0.01}),
        # nothing else is near, or there is
        ((0.0, 0.0), [0.0], [0.0, 0.1], {0.0}, {0.0, 0.1}),
        ((9.0, 5.0), [0.1, 1.5], [0.1], {9.0}, {5.0}),
    ],
)
def test_how_far_a_biased_estimate_may_go(now, betas, gammas, expected_betas, expected_gammas):
    found = near(Grid.of(betas, gammas, now))
    assert found == {(b, g) for b in expected_betas for g in expected_gammas}
    assert now in found


def test_rounding_takes_no_cell_from_what_is_near():
    for now in (0.1, 0.3, 0.7, 1.1, 0.013):
        assert (now * 2, 0.01) in near(Grid.of([now * 2, now / 2], [0.01], (now, 0.01)))
        assert (now / 2, 0.01) in near(Grid.of([now * 2, now / 2], [0.01], (now, 0.01)))


def sums_of(grid, values, noise=0.0, count=40, seed=0):
    """Searches, each a cluster, whose mean under each cell is just as given, and which differ by
    ``noise`` between any two cells."""
    rng = np.random.default_rng(seed)
    each = rng.normal(0, noise, (count, len(grid.cells))) if noise else 0.0
    above = np.zeros((count, len(grid.cells)))
    above += each - (each.mean(axis=0) if noise else 0.0)
    for cell, value in values.items():
        above[:, np.flatnonzero((grid.cells == np.array(cell)).all(axis=1))[0]] += value
    return Sums(grid.cells, above, np.ones(count))


def chosen(values, noise=0.0, allowed=None, now=NOW, betas=BETAS, gammas=GAMMAS):
    grid = Grid.of(betas, gammas, now)
    sums = sums_of(grid, values, noise)
    count = len(sums.below)
    found = choose(
        grid,
        sums,
        np.ones(count, bool),
        np.ones(len(grid.cells), bool) if allowed is None else allowed(grid),
        [np.arange(count)],
    )
    return tuple(grid.cells[found.cell].tolist()), found, grid


def test_the_best_cell_without_any_doubt():
    cell, found, _ = chosen({(1.0, 0.02): 0.3, (1.0, 0.01): 0.2, (0.5, 0.02): 0.1})
    assert cell == (1.0, 0.02)
    assert found.gain == pytest.approx(0.3)
    assert found.error == pytest.approx(0.0)
    assert found.ties.tolist() == [found.cell]


# noise of 1 in 40 searches: a difference of two cells has a standard error of some .22
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({(1.0, 0.02): 0.1}, NOW),  # within one error: nothing moves
        ({(1.0, 0.02): 1.0, (1.0, 0.01): 0.95}, (1.0, 0.01)),  # gamma earns nothing more
        ({(1.0, 0.02): 1.0, (0.5, 0.02): 0.95}, (0.5, 0.02)),  # beta_sal earns nothing more
        ({(1.0, 0.02): 1.0, (0.5, 0.02): 0.1}, (1.0, 0.02)),  # both are needed
        # of those where one moves alone, the better one
        ({(1.0, 0.02): 1.0, (1.0, 0.01): 0.94, (0.5, 0.02): 0.95}, (0.5, 0.02)),
        ({(0.25, 0.01): 1.0}, (0.25, 0.01)),
    ],
)
def test_what_earns_nothing_stays_where_it_is(values, expected):
    cell, found, _ = chosen(values, noise=1.0)
    assert cell == expected
    assert found.gain == pytest.approx(values.get(cell, 0.0))
    assert found.error == pytest.approx(0.0 if cell == NOW else 0.22, abs=0.06)


def test_one_standard_error_is_the_bound():
    """The best is one error above what is in force, and a little more or less."""
    grid = Grid.of([1.0], [0.01], NOW)
    rng = np.random.default_rng(3)
    each = rng.normal(0, 1, 50)
    each -= each.mean()
    error = np.sqrt((each**2).sum()) / 50
    for gain, expected in ((0.99 * error, grid.current), (1.01 * error, 1)):
        above = np.stack([np.zeros(50), each + gain], axis=1)
        found = choose(
            grid,
            Sums(grid.cells, above, np.ones(50)),
            np.ones(50, bool),
            np.ones(2, bool),
            [np.arange(50)],
        )
        assert grid.current == 0
        assert found.cell == expected


def test_clusters_count_and_not_searches():
    """Ten searches that say the same are one: what 100 searches show, 10 clusters do not."""
    grid = Grid.of([1.0], [0.01], NOW)
    rng = np.random.default_rng(0)
    of = np.repeat(np.arange(10), 10)
    each = rng.normal(0, 1, 10)
    each += 0.2 - each.mean()
    above = np.stack([np.zeros(100), each[of]], axis=1)
    sums = Sums(grid.cells, above, np.ones(100))
    everywhere = np.ones(2, bool)
    every = choose(grid, sums, np.ones(100, bool), everywhere, [np.arange(100)])
    clustered = choose(grid, sums, np.ones(100, bool), everywhere, [np.arange(100), of])
    assert every.cell == 1
    assert clustered.cell == grid.current


def test_only_training_searches_and_allowed_cells_speak():
    grid = Grid.of(BETAS, GAMMAS, NOW)
    best = int(np.flatnonzero((grid.cells == (1.0, 0.02)).all(axis=1))[0])
    second = int(np.flatnonzero((grid.cells == (0.25, 0.01)).all(axis=1))[0])
    above = np.zeros((20, len(grid.cells)))
    above[:10, second] = 0.1
    above[10:, best] = 0.9
    train = np.arange(20) < 10
    sums = Sums(grid.cells, above, np.ones(20))
    everywhere = np.ones(len(grid.cells), bool)
    of = [np.arange(10)]
    assert choose(grid, sums, train, everywhere, of).cell == second
    assert choose(grid, sums, ~train, everywhere, of).cell == best
    but = everywhere.copy()
    but[best] = False
    assert choose(grid, sums, ~train, but, of).cell == grid.current


def test_ties_are_all_that_is_as_good():
    cell, found, grid = chosen({(1.0, 0.01): 0.2, (0.25, 0.01): 0.2, (1.0, 0.02): 0.2 - 1e-6})
    assert cell in {(1.0, 0.01), (0.25, 0.01)}
    assert {tuple(each) for each in grid.cells[found.ties].tolist()} == {(1.0, 0.01), (0.25, 0.01)}
    # what is not allowed does not tie
    _, found, _ = chosen(
        {(1.0, 0.01): 0.2, (0.25, 0.01): 0.2},
        allowed=lambda grid: grid.cells[:, 0] >= 0.5,
    )
    assert len(found.ties) == 1
