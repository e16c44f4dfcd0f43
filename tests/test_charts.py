"""The geometry of the charts: what is drawn says the same as the numbers."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from datasette_limbic.views import charts


def weeks(*counts: tuple[int, int], first: str = "2026-06-01") -> list[dict[str, Any]]:
    start = date.fromisoformat(first)
    return [
        {
            "week": (start + timedelta(weeks=i)).isoformat(),
            "accesses": searched + opened,
            "searched": searched,
            "opened": opened,
        }
        for i, (searched, opened) in enumerate(counts)
    ]


def test_weeks_without_an_access_say_nothing():
    assert charts.weeks_words(weeks(*[(0, 0)] * 26)) is None
    assert charts.weeks_words([]) is None


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (
            [(1200, 2), (0, 1)],
            "1,203 accesses in 2 weeks, from 2026-06-01 to the week of 2026-06-08: 1,200 found by "
            "a search, 3 opened by name. The busiest was the week of 2026-06-01 with 1,202.",
        ),
        (
            [(0, 0), (0, 1), (0, 0)],
            "1 access in 3 weeks, from 2026-06-01 to the week of 2026-06-15: 0 found by a search, "
            "1 opened by name. The busiest was the week of 2026-06-08 with 1.",
        ),
    ],
)
def test_weeks_in_words(counts, said):
    assert charts.weeks_words(weeks(*counts)) == said


@pytest.mark.parametrize(
    ("most", "top"),
    [(1, 2), (2, 2), (3, 4), (5, 6), (9, 10), (11, 20), (21, 40), (100, 100), (101, 200)],
)
def test_the_axis_ends_at_a_round_number_that_can_be_halved(most, top):
    assert charts.ceiling(most) == top
    assert top % 2 == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (1000, "1k"), (1500, "1.5k"), (2_000_000, "2M"), (3 * 10**9, "3G")],
)
def test_numbers_of_the_axis_are_short(value, text):
    assert charts.brief(value) == text


def test_partners_are_measured_against_the_first_and_fade():
    partners = [
        {"name": "a", "co_count": 40, "decay": 1.0},
        {"name": "b", "co_count": 10, "decay": 0.5},
        {"name": "c", "co_count": 1, "decay": 0.1},
    ]
    rows = charts.partner_bars(partners)
    assert [(row["full"], row["now"]) for row in rows] == [(120, 120), (30, 15), (3, 1)]
    assert [row["name"] for row in rows] == ["a", "b", "c"]


@pytest.mark.parametrize("count", [0, -3, None, "many", b"x", 1.5])
def test_a_count_that_is_none_has_no_bar(count):
    [row] = charts.partner_bars([{"co_count": count, "decay": 1.0}])
    assert (row["full"], row["now"]) == (0, 0)
    assert charts.partner_bars([]) == []
