"""The geometry of the charts: what is drawn says the same as the numbers."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise
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


def test_no_access_no_chart():
    assert charts.week_chart(weeks(*[(0, 0)] * 26)) is None
    assert charts.week_chart([]) is None


def test_bars_are_as_high_as_their_counts_and_stacked():
    chart = charts.week_chart(weeks((4, 2), (0, 0), (0, 3), (8, 0)))
    assert chart is not None
    unit = (chart["floor"] - charts.TOP) / 8
    first, empty, opened, highest = chart["bars"]
    assert [part["kind"] for part in first["parts"]] == ["searched", "opened"]
    below, above = first["parts"]
    assert below["height"] == pytest.approx(4 * unit, abs=0.01)
    assert above["height"] == pytest.approx(2 * unit, abs=0.01)
    assert below["y"] + below["height"] == pytest.approx(chart["floor"])
    assert above["y"] + above["height"] == pytest.approx(below["y"], abs=0.02)
    assert empty["parts"] == []
    assert [part["kind"] for part in opened["parts"]] == ["opened"]
    assert highest["parts"][0]["y"] == pytest.approx(charts.TOP)
    # the lines stand where a bar of their number ends
    assert [line["text"] for line in chart["lines"]] == ["0", "4", "8"]
    assert [line["y"] for line in chart["lines"]] == [
        chart["floor"],
        pytest.approx(below["y"], abs=0.02),
        highest["parts"][0]["y"],
    ]


@pytest.mark.parametrize("count", [1, 2, 26, 53])
@pytest.mark.parametrize("high", [1, 7, 999, 10**9])
def test_all_of_it_is_inside_the_picture_and_nothing_overlaps(count, high):
    chart = charts.week_chart(weeks(*[(high, 1)] * count))
    assert chart is not None
    right = charts.LEFT
    for bar in chart["bars"]:
        assert bar["x"] >= right
        right = bar["x"] + bar["width"]
        for part in bar["parts"]:
            assert part["height"] >= 1  # also one access beside a billion
            assert -1 <= part["y"] <= chart["floor"]
    assert right <= chart["width"]
    labels = [label["x"] for label in chart["labels"]]
    assert all(b - a >= charts.LABEL_ROOM for a, b in pairwise(labels))
    assert all(x + charts.LABEL_ROOM <= chart["width"] for x in labels)


def test_months_are_named_where_they_begin():
    chart = charts.week_chart(weeks(*[(1, 0)] * 26))
    assert chart is not None
    assert [label["text"] for label in chart["labels"]] == ["Jul", "Aug", "Sep", "Oct", "Nov"]
    # the first Monday of July is that of the sixth bar
    sixth = chart["bars"][5]
    assert sixth["title"].startswith("Week of 2026-07-06")
    assert sixth["x"] - 3 < chart["labels"][0]["x"] <= sixth["x"]


def test_words_say_what_the_bars_show():
    chart = charts.week_chart(weeks((1200, 2), (0, 1)))
    assert chart is not None
    assert chart["desc"] == (
        "1,203 accesses in 2 weeks, from 2026-06-01 to the week of 2026-06-08: 1,200 found by a "
        "search, 3 opened by name. The busiest was the week of 2026-06-01 with 1,202."
    )
    assert chart["bars"][1]["title"] == (
        "Week of 2026-06-08: 1 access (0 found by a search, 1 opened by name)"
    )
    assert (chart["searched"], chart["opened"]) == (1200, 3)
    assert [row["week"] for row in chart["rows"]] == ["2026-06-08", "2026-06-01"]


@pytest.mark.parametrize(
    ("outside", "said"),
    [
        ((0, 0, 0), []),
        ((1, 0, 0), ["1 access was before 2026-06-01."]),
        ((1234, 0, 0), ["1,234 accesses were before 2026-06-01."]),
        (
            (0, 2, 1),
            [
                "2 accesses are dated after the last of these weeks.",
                "1 access has a time that cannot be read.",
            ],
        ),
    ],
)
def test_what_is_outside_is_said(outside, said):
    given = dict(zip(("earlier", "later", "unreadable"), outside, strict=True))
    assert charts.outside_words(given, weeks((1, 0))) == said


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
