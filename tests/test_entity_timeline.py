"""What came when, in bins, and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from datasette_limbic import connection, entity_timeline
from datasette_limbic.entity_timeline import LEAST_BINS, MOST_BINS, SERIES, UNITS, timeline
from datasette_limbic.views.timeline import NAMES, WIDTH, outside, picture

NOW = "2026-11-29 12:00:00"


def made(path: Path, created: Sequence[Any], ended: int = 0, accessed: Sequence[Any] = ()) -> Any:
    """A connection to a memory of one entity with observations of these times."""
    conn = connection.connect(path)
    with conn:
        conn.execute("insert into entities(id, name) values (1, 'One'), (2, 'Two')")
        conn.executemany(
            "insert into observations(entity_id, content, created_at, valid_to)"
            " values (1, ?, ?, ?)",
            [
                (str(number), moment, "2026-01-01" if number < ended else None)
                for number, moment in enumerate(created)
            ],
        )
        conn.executemany(
            "insert into entity_access_log(entity_id, entity_name, accessed_at)"
            " values (1, 'One', ?)",
            [(moment,) for moment in accessed],
        )
    return conn


def total(found: dict[str, Any], series: str) -> int:
    return sum(each[series] for each in found["bins"])


def test_nothing_has_a_time(empty_db: Path) -> None:
    found = timeline(made(empty_db, []), 1, now=NOW)
    assert found["bins"] == []
    assert picture(found, NOW) is None
    assert outside(found) == []


def test_one_moment_is_one_bar_in_the_last_weeks(empty_db: Path) -> None:
    found = timeline(made(empty_db, [NOW]), 1, now=NOW)
    assert found["months"] == 0
    assert len(found["bins"]) == LEAST_BINS
    assert found["bins"][-1] == {
        "start": "2026-11-23",
        **dict.fromkeys(SERIES, 0),
        "observations": 1,
    }
    drawn = picture(found, NOW)
    assert drawn is not None
    assert [bin_["title"] for bin_ in drawn["bins"]] == ["2026-11-23: 1 observation"]
    assert drawn["rows"] == [{"name": "2026-11-23", "counts": [1, 0]}]


@pytest.mark.parametrize(
    ("first", "months"),
    [
        ("2026-11-01", 0),
        ("2025-11-01", 0),
        ("2025-06-01", 1),
        ("2022-01-01", 1),
        ("2015-01-01", 3),
        ("2006-11-29", 12),
        ("1970-01-01", 12),
        ("1900-01-01", 60),
        ("1731-01-01", 60),
    ],
)
def test_any_span_fits_and_every_day_of_it_is_in_one_bin(
    first: str, months: int, empty_db: Path
) -> None:
    conn = made(empty_db, [first, "2026-06-30", NOW])
    found = timeline(conn, 1, now=NOW)
    assert found["months"] == months
    assert LEAST_BINS <= len(found["bins"]) <= MOST_BINS
    assert total(found, "observations") == 3
    starts = [each["start"] for each in found["bins"]]
    assert starts == sorted(set(starts))
    there = [each["start"] for each in found["bins"] if each["observations"]]
    # the bin of a day is the last one that starts no later
    assert there == sorted(
        {max(s for s in starts if s <= day) for day in (first, "2026-06-30", "2026-11-29")}
    )
    drawn = picture(found, NOW)
    assert drawn is not None
    for lane in drawn["lanes"]:
        for bar in lane["bars"]:
            assert 0 <= bar["x"] <= bar["x"] + bar["width"] <= WIDTH
    places = [label["x"] for label in drawn["labels"]]
    assert places, "an axis without a label"
    assert all(b - a >= 40 for a, b in pairwise(places))


@pytest.mark.parametrize("unit", UNITS)
def test_a_bin_starts_where_the_one_before_ends(unit: Any) -> None:
    for day in (date(1, 1, 1), date(1999, 12, 31), date(2024, 2, 29), date(9999, 12, 31)):
        place = unit.place(day.toordinal() - date(1970, 1, 1).toordinal())
        start = unit.start(place)
        assert start <= day
        assert unit.place(start.toordinal() - date(1970, 1, 1).toordinal()) == place
        if start > date(2, 1, 1):
            before = start - timedelta(days=1)
            assert unit.place(before.toordinal() - date(1970, 1, 1).toordinal()) == place - 1


def test_what_is_older_than_the_widest_bins_reach_is_told(empty_db: Path) -> None:
    conn = made(
        empty_db,
        ["0001-01-01", "1729-12-31", "1730-01-01", "1731-01-01", NOW],
        accessed=["1492-10-12"],
    )
    found = timeline(conn, 1, now=NOW)
    assert found["months"] == 60
    assert len(found["bins"]) == MOST_BINS
    assert found["bins"][0] == {
        "start": "1730-01-01",
        **dict.fromkeys(SERIES, 0),
        "observations": 2,
    }
    assert found["earlier"] == {**dict.fromkeys(SERIES, 0), "observations": 2, "accesses": 1}
    assert outside(found) == ["Dated long ago, so not shown here: 2 observations, 1 access."]
    long_after = timeline(conn, 1, now="9999-12-31")
    assert long_after["bins"] == []
    assert long_after["earlier"]["observations"] == 5
    assert picture(long_after, NOW) is None


ODD = [None, "", "soon", "2026-02-31", "x\0y", b"\xff", float("inf")]


def test_what_cannot_be_read_and_what_is_to_come_are_told_and_not_drawn(empty_db: Path) -> None:
    future = ["2027-01-01", "9999-12-31", "2026-12-24T10:00:00Z"]
    conn = made(empty_db, [*ODD, *future, NOW], accessed=["never", "2999-01-01", NOW])
    found = timeline(conn, 1, now=NOW)
    assert total(found, "observations") == 1
    assert found["earlier"] == dict.fromkeys(SERIES, 0)
    assert found["unreadable"] == {**dict.fromkeys(SERIES, 0), "observations": 7, "accesses": 1}
    assert found["later"] == {**dict.fromkeys(SERIES, 0), "observations": 3, "accesses": 1}
    assert outside(found) == [
        "Dated after today, so not shown here: 3 observations, 1 access.",
        "Of no known time, so not shown here: 7 observations, 1 access.",
    ]


@pytest.mark.parametrize(
    ("moment", "start"),
    [
        ("2026-11-22 23:59:59", "2026-11-16"),
        ("2026-11-22T23:00:00-02:00", "2026-11-23"),
        ("2026-11-23T01:00:00+02:00", "2026-11-16"),
        (1795392000, "2026-11-23"),
        ("1795392000000", "2026-11-23"),
        ("2026-11-23 00:00:00.125", "2026-11-23"),
    ],
)
def test_every_spelling_of_a_time_counts_in_its_week(
    moment: Any, start: str, empty_db: Path
) -> None:
    found = timeline(made(empty_db, [moment]), 1, now=NOW)
    assert [each["start"] for each in found["bins"] if each["observations"]] == [start]


def test_ended_ones_relations_and_accesses_have_series_of_their_own(empty_db: Path) -> None:
    conn = made(empty_db, ["2026-03-01"] * 5, ended=2, accessed=["2026-03-02", "2026-10-01"])
    with conn:
        conn.executemany(
            "insert into relations(from_entity, to_entity, relation_type, created_at, valid_from,"
            " valid_to) values (?, ?, ?, ?, ?, ?)",
            [
                (1, 2, "uses", "2026-03-03", None, None),
                (2, 1, "knows", "2026-03-03", "2026-05-01", "2026-06-15"),
                (1, 1, "itself", "2026-03-03", None, "2999-01-01"),
                (2, 2, "other", "2026-03-03", None, None),
            ],
        )
    found = timeline(conn, 1, now=NOW)
    assert {name: total(found, name) for name in SERIES} == {
        "observations": 3,
        "ended_observations": 2,
        "relations_begun": 3,
        "relations_ended": 1,
        "accesses": 2,
    }
    drawn = picture(found, NOW, "2026-05-01 00:00:00")
    assert drawn is not None
    assert [key["text"] for key in drawn["keys"]] == [
        "3 observations",
        "2 observations that have ended",
        "3 relations begun",
        "1 relation ended",
        "2 accesses",
    ]
    assert drawn["columns"] == list(NAMES.values())
    # what is drawn is what the table says
    sums = [sum(row["counts"][i] for row in drawn["rows"]) for i in range(len(SERIES))]
    assert sums == [3, 2, 3, 1, 2]
    titles = [each["title"] for each in drawn["bins"]]
    assert "2026-02-23: 5 observations (2 have ended)" in titles
    assert "2026-03-02: 2 relations begun, 1 access" in titles
    assert "2026-06-15: 1 relation ended" in titles
    assert drawn["mark"] is not None
    assert 34 < drawn["mark"]["x"] < WIDTH
    early = timeline(conn, 1, now=NOW, at="2025-12-31")
    assert total(early, "ended_observations") == 0
    assert picture(found, NOW, "1999-01-01")["mark"] is None  # type: ignore[index]
    without = timeline(conn, 1, now=NOW, access_log=False)
    assert "accesses" not in without["bins"][0]
    assert [lane["title"] for lane in picture(without, NOW)["lanes"]] == [  # type: ignore[index]
        "Observations",
        "Relations",
    ]


def test_bars_of_a_lane_stand_on_each_other(empty_db: Path) -> None:
    found = timeline(made(empty_db, ["2026-11-24"] * 4, ended=1), 1, now=NOW)
    [lane] = picture(found, NOW)["lanes"]  # type: ignore[index]
    [bar] = [bar for bar in lane["bars"] if bar["parts"]]
    below, above = bar["parts"]
    assert below["height"] == pytest.approx(3 * above["height"])
    assert above["y"] + above["height"] == pytest.approx(below["y"])
    assert lane["lines"][1]["y"] == pytest.approx(above["y"])  # 4 is the top of the axis


@pytest.mark.parametrize(
    ("first", "as_of", "start", "share"),
    [
        ("2026-11-01", "2026-11-16", "2026-11-16", 0),
        ("2026-11-01", "2026-11-18 12:00:00", "2026-11-16", 2 / 7),
        ("2026-11-01", "2026-11-22", "2026-11-16", 6 / 7),
        ("2022-01-01", "2026-02-15", "2026-02-01", 14 / 28),
        ("2006-11-29", "2024-07-01", "2024-01-01", 182 / 366),
    ],
)
def test_a_moment_is_marked_where_it_lies_in_its_bin(
    first: str, as_of: str, start: str, share: float, empty_db: Path
) -> None:
    found = timeline(made(empty_db, [first]), 1, now=NOW)
    drawn = picture(found, NOW, as_of)
    assert drawn is not None
    starts = [each["start"] for each in found["bins"]]
    place = (drawn["right"] - drawn["left"]) / len(starts)
    wanted = drawn["left"] + (starts.index(start) + share) * place
    assert drawn["mark"] == {"x": pytest.approx(wanted, abs=0.01), "text": as_of[:10]}


def test_thousands_take_three_statements(empty_db: Path) -> None:
    days = [(date(2006, 1, 1) + timedelta(days=i)).isoformat() for i in range(0, 7000, 2)]
    conn = made(empty_db, days * 2)
    seen: list[str] = []
    conn.set_trace_callback(seen.append)
    found = timeline(conn, 1, now=NOW)
    conn.set_trace_callback(None)
    assert len(seen) == 3  # two of them for the log
    assert total(found, "observations") == len(days) * 2
    assert len(found["bins"]) <= entity_timeline.MOST_BINS
