"""Coming back by name: what counts once, and how often it happens by chance."""

from __future__ import annotations

import numpy as np
import pytest
from tuning_helpers import DAY, START, log_of

from datasette_limbic.tuning.reaccess import Openings, reaccesses

HOUR = 3600.0


def openings(*rows):
    """As (client, entity, seconds after START)."""
    client, entity, at = zip(*rows, strict=True) if rows else ((), (), ())
    return Openings(np.array(client, int), np.array(entity, int), START + np.array(at, float))


def as_rows(found):
    columns = found.client.tolist(), found.entity.tolist(), (found.at - START).tolist()
    return sorted(zip(*columns, strict=True))


BURST = [(0, 7, second) for second in (0, 60, 90, 200, 300)]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([], []),
        (BURST, [(0, 7, 0)]),
        # whatever the order in which it is told
        (BURST[::-1], [(0, 7, 0)]),
        ([*BURST, (1, 7, 60)], [(0, 7, 0), (1, 7, 60)]),
        ([*BURST, (0, 8, 60)], [(0, 7, 0), (0, 8, 60)]),
        ([*BURST, (0, 7, HOUR)], [(0, 7, 0)]),
        ([*BURST, (0, 7, HOUR + 1)], [(0, 7, 0), (0, 7, HOUR + 1)]),
        # from the first of a group, not from the one before
        ([(0, 7, 2000 * i) for i in range(5)], [(0, 7, 0), (0, 7, 4000), (0, 7, 8000)]),
        ([(0, 7, 5), (0, 7, 5)], [(0, 7, 5)]),
        # another between them ends no group
        ([(0, 7, 0), (0, 8, 10), (0, 7, 20)], [(0, 7, 0), (0, 8, 10)]),
    ],
)
def test_what_is_opened_again_shortly_after_counts_once(given, kept):
    assert as_rows(openings(*given).once(HOUR)) == sorted(kept)


def test_without_a_window_only_the_same_moment_is_one():
    given = [*BURST, BURST[0]]
    assert as_rows(openings(*given).once(0.0)) == sorted(BURST)


# Of two clients the first is shown the entities 1 and 2 at 0.
SHOWN = {"gain": [0.0, 0.0], "entity": [1, 2], "at": START}
BEFORE = [
    *((0, 1, -DAY * i) for i in (1, 2)),
    *((0, 2, -DAY * i) for i in (1, 2, 3)),
    (1, 1, -DAY),
    *((1, 2, -DAY * i) for i in (1, 2, 3, 4)),
]


def found(searches, clients, given):
    log = log_of(searches)
    return reaccesses(log, np.array(clients), openings(*given), log.at + HOUR)


def test_the_chance_by_hand():
    """Ten openings while entity 1 was not just shown, three of it: .3 of all clients. Of its own
    five two, so (2 + 10 · .3) / (5 + 10) = 1 in 3, in each of its two openings after the search."""
    came, chance = found([SHOWN], [0], [*BEFORE, (0, 1, 60), (0, 9, 90)])
    assert came.tolist() == [True, False]
    # entity 2: seven of ten of all, three of five of its own
    assert chance == pytest.approx([1 - (2 / 3) ** 2, 1 - (1 - (3 + 7) / 15) ** 2])
    # what another client opens then changes nothing but what all do
    came, chance = found([SHOWN], [0], [*BEFORE, (0, 1, 60), (0, 9, 90), (1, 9, 60)])
    assert came.tolist() == [True, False]
    assert chance[0] == pytest.approx(1 - (1 - (2 + 10 * 3 / 11) / 15) ** 2)
    # who opens nothing afterwards had no chance to
    came, chance = found([SHOWN], [0], BEFORE)
    assert came.tolist() == [False, False]
    assert chance.tolist() == [0.0, 0.0]


def test_what_nobody_opened_at_another_time_has_no_chance():
    came, chance = found([SHOWN], [0], [*BEFORE[2:5], (0, 1, 60)])
    assert came.tolist() == [True, False]
    assert chance[0] == 0.0
    assert chance[1] == pytest.approx(1.0)


def test_the_same_entity_shown_again_ends_its_time():
    """An opening belongs to the last search that had shown it, and to its chance."""
    again = {**SHOWN, "at": START + 600}
    came, chance = found([SHOWN, again], [0, 0], [*BEFORE, (0, 1, 700), (0, 9, 800)])
    assert came.reshape(2, 2).tolist() == [[False, False], [True, False]]
    assert (chance[:2] == 0).all()
    assert chance[2] == pytest.approx(1 - (2 / 3) ** 2)
    # shown to another client it goes on
    came, _ = found([SHOWN, again], [0, 1], [*BEFORE, (0, 1, 700), (0, 9, 800)])
    assert came.reshape(2, 2).tolist() == [[True, False], [False, False]]


# --- chance alone: what is opened has nothing to do with any search

ENTITIES, CLIENTS, DAYS = 30, 10, 20
POPULAR, RARE = 3, 10
SEEDS = 16


def by_chance(seed, a_day):
    """A log, its clients, and so many openings a day of each client: by the popularity of entities,
    each of them one to five times within five minutes."""
    rng = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, ENTITIES + 1)
    at = np.sort(rng.uniform(0, DAYS * DAY, 1000))
    log = log_of(
        [
            {
                "gain": [0.0] * 5,
                "at": START + each,
                "entity": np.sort(rng.choice(ENTITIES, 5, replace=False) + 1),
            }
            for each in at
        ]
    )
    count = CLIENTS * DAYS * a_day
    times = rng.integers(1, 6, count)
    moment = np.repeat(rng.uniform(0, DAYS * DAY, count), times)
    opened = Openings(
        np.repeat(rng.integers(0, CLIENTS, count), times),
        np.repeat(rng.choice(ENTITIES, count, p=popularity / popularity.sum()) + 1, times),
        START + moment + rng.uniform(0, 300, len(moment)),
    )
    return log, rng.integers(0, CLIENTS, len(log)), opened


@pytest.mark.parametrize(
    ("a_day", "rounding"),
    [
        (4, 0.0),
        # what is opened all the time cannot be opened twice an hour: a tenth at most is missed
        (30, 0.12),
    ],
)
def test_by_chance_results_are_come_back_to_as_often_as_expected(a_day, rounding):
    away, expected, several = [], [], []
    for seed in range(SEEDS):
        log, client, opened = by_chance(seed, a_day)
        parts = (log.entity <= POPULAR, log.entity > RARE)
        for kept, into in ((opened.once(HOUR), away), (opened, several)):
            came, chance = reaccesses(log, client, kept, log.at + HOUR)
            into.append([came[part].mean() - chance[part].mean() for part in parts])
            if into is away:
                expected.append([chance[part].mean() for part in parts])
    chance = np.mean(expected, axis=0)
    assert chance[0] > 5 * chance[1] > 0
    mean, error = mean_and_error(away)
    assert (np.abs(mean) < 3 * error + rounding * chance).all()
    # taken for several chances, what comes in bursts would seem to be avoided
    mean, error = mean_and_error(several)
    assert (mean < -6 * error).all()
    assert (mean < -0.8 * chance).all()


def mean_and_error(values):
    values = np.array(values)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
