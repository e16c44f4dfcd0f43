"""Growth and activity by week and month, against a plain count in Python."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from view_helpers import write

from datasette_limbic import connection, over_time, times

NOW = "2026-11-29 12:00:00"  # a Sunday: the last day of its week


def read(path: Path, function: Any, **options: Any) -> dict[str, Any]:
    conn = connection.connect(path, readonly=True)
    try:
        return function(conn, now=options.pop("now", NOW), **options)  # type: ignore[no-any-return]
    finally:
        conn.close()


def made(path: Path, *stamps: Any, observations: tuple[Any, ...] = ()) -> None:
    entity = "insert into entities(name, created_at) values ('e' || ?, ?)"
    observation = "insert into observations(entity_id, content, created_at) values (1, 'x', ?)"
    write(
        path,
        *((entity, [place, stamp]) for place, stamp in enumerate(stamps)),
        *((observation, [stamp]) for stamp in observations),
    )


def test_weeks_of_a_young_memory(empty_db: Path) -> None:
    made(
        empty_db,
        "2026-11-09 00:00:00",
        "2026-11-15 23:59:59",
        "2026-11-16 00:00:00",
        "2026-11-29 23:00:00",
        observations=("2026-11-23", "2026-11-22T23:30:00-01:00"),
    )
    found = read(empty_db, over_time.growth)
    assert found["step"] == "week"
    assert [(p["from"], p["entities"], p["entities_total"]) for p in found["periods"]] == [
        ("2026-11-09", 2, 2),
        ("2026-11-16", 1, 3),
        ("2026-11-23", 1, 4),
    ]
    # half past eleven in the Azores is the next day in UTC
    assert [p["observations"] for p in found["periods"]] == [0, 0, 2]
    assert found["before"] == found["later"] == {"entities": 0, "observations": 0}


def test_months_of_an_old_one_and_what_came_before_them(empty_db: Path) -> None:
    made(empty_db, "2019-05-05", "2023-12-31 23:59:59", "2024-02-29", "2026-11-01", "2026-11-30")
    found = read(empty_db, over_time.growth)
    assert found["step"] == "month"
    assert len(found["periods"]) == over_time.PERIODS
    assert (found["periods"][0]["from"], found["periods"][-1]["from"]) == (
        "2023-12-01",
        "2026-11-01",
    )
    added = {p["from"]: p["entities"] for p in found["periods"] if p["entities"]}
    # the last is of tomorrow, within the month
    assert added == {"2023-12-01": 1, "2024-02-01": 1, "2026-11-01": 2}
    assert found["before"]["entities"] == 1
    assert found["periods"][-1]["entities_total"] == 5


ODD = {
    None: None,
    "": None,
    "soon": None,
    b"\xff\xfe": None,
    "2026-13-40": None,
    "1795478400": "2026-11-23",
    1795478400: "2026-11-23",
    1795478400.5: "2026-11-23",
    "1795478400000": "2026-11-23",
    "2026-11-23": "2026-11-23",
    "2026-11-23T00:00:00Z": "2026-11-23",
    "2026-11-23T00:00:00.000+00:00": "2026-11-23",
    "2026-11-24 00:30:00+01:00": "2026-11-23",
    "2026-11-29 23:59:59.999": "2026-11-23",
    "2026-11-30": "later",
    "9999-12-31": "later",
    "x" * 5000: None,
}


@pytest.mark.parametrize("value", ODD, ids=lambda v: repr(v)[:30])
def test_every_spelling_of_a_time(value: Any, empty_db: Path) -> None:
    made(empty_db, "2026-11-23", value)
    found = read(empty_db, over_time.growth)
    [week] = found["periods"]
    expected = ODD[value]
    assert week["entities"] == 1 + (expected == "2026-11-23")
    assert found["later"]["entities"] == (expected == "later")
    assert found["unreadable"]["entities"] == found["before"]["entities"] == (expected is None)
    # as the rest of the package reads it
    assert (times.parse_time(value) is None) is (expected is None)


def test_the_first_and_the_last_day_that_there_is(empty_db: Path) -> None:
    made(empty_db, "0001-01-01", "9999-12-31")
    found = read(empty_db, over_time.growth)
    assert (found["before"]["entities"], found["later"]["entities"]) == (1, 1)
    assert read(empty_db, over_time.growth, now="0001-01-01")["periods"][-1]["entities"] == 1
    assert read(empty_db, over_time.growth, now="9999-12-31")["periods"][-1]["entities"] == 1
    for now in ("0001-01-02", "9999-12-31"):
        assert len(read(empty_db, over_time.activity, now=now)["weeks"]) == over_time.WEEKS


def test_an_empty_memory_has_one_empty_week(empty_db: Path) -> None:
    [week] = read(empty_db, over_time.growth)["periods"]
    assert week == {
        "from": "2026-11-23",
        "entities": 0,
        "observations": 0,
        "entities_total": 0,
        "observations_total": 0,
    }


def test_growth_of_the_sample_adds_up(demo_db: Path) -> None:
    found = read(demo_db, over_time.growth)
    conn = connection.connect(demo_db, readonly=True)
    for name in ("entities", "observations"):
        counted: dict[str, int] = {}
        for (stamp,) in conn.execute(f"select created_at from {name}"):
            month = (times.to_sql(stamp) or "unknown")[:7]
            counted[month] = counted.get(month, 0) + 1
        assert found["unreadable"][name] == counted.pop("unknown", 0)
        assert {p["from"][:7]: p[name] for p in found["periods"] if p[name]} == counted
        rows = conn.execute(f"select count(*) from {name}").fetchone()[0]
        assert found["periods"][-1][f"{name}_total"] == rows
    conn.close()


SEARCH = """insert into limbic_searches(query, mode, strategy, result_limit, now, parameters,
  created_at) values ('q', 'text', 'auto', 1, '2026-01-01', '{}', ?)"""
ACCESS = "insert into entity_access_log(entity_name, query, accessed_at) values ('a', ?, ?)"


def test_activity_of_the_last_weeks(empty_db: Path) -> None:
    first = date(2026, 11, 23) - timedelta(weeks=over_time.WEEKS - 1)
    write(
        empty_db,
        (ACCESS, ["q", f"{first} 00:00:00"]),
        (ACCESS, [None, f"{first - timedelta(days=1)} 23:59:59"]),  # before
        # before by its text, and within by its moment
        (ACCESS, [None, f"{first - timedelta(days=1)}T23:30:00-01:00"]),
        (ACCESS, ["q", "2026-11-29 23:59:59"]),
        (ACCESS, [None, "2026-11-23"]),
        (ACCESS, [None, "1795478400"]),
        (ACCESS, [None, "2026-11-30"]),  # later
        (ACCESS, [None, "never"]),
        (SEARCH, ["2026-11-22 10:00:00"]),
        (SEARCH, ["2026-11-23T10:00:00Z"]),
        (SEARCH, ["2020-11-23"]),
    )
    weeks = read(empty_db, over_time.activity)["weeks"]
    assert (weeks[0]["week"], weeks[-1]["week"]) == (str(first), "2026-11-23")
    keys = ("accesses", "searched", "opened", "searches")
    assert tuple(weeks[0][key] for key in keys) == (2, 1, 1, 0)
    assert tuple(weeks[-1][key] for key in keys) == (3, 1, 2, 1)
    assert tuple(weeks[-2][key] for key in keys) == (0, 0, 0, 1)
    assert sum(week["accesses"] for week in weeks) == 5


@pytest.mark.parametrize("left_out", ["accesses", "searches"])
def test_a_log_that_must_not_be_read_is_not(left_out: str, empty_db: Path) -> None:
    table = {"accesses": "entity_access_log", "searches": "limbic_searches"}[left_out]
    write(empty_db, (f"alter table {table} rename to gone", []))
    weeks = read(empty_db, over_time.activity, **{left_out: False})["weeks"]
    assert all((week["accesses"] is None) is (left_out == "accesses") for week in weeks)
    assert all((week["searches"] is None) is (left_out == "searches") for week in weeks)
