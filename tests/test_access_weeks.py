"""Accesses by week, from logs that any program may have written."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import pytest

from datasette_limbic import connection, schema, times
from datasette_limbic.access_weeks import accesses_by_week, accesses_of
from datasette_limbic.bounds import LOGGED

NOW = "2026-11-29 12:00:00"  # a Sunday
THIS = "2026-11-23"


@pytest.fixture
def conn(empty_db):
    conn = connection.connect(empty_db)
    conn.executemany("insert into entities(id, name) values (?, ?)", [(1, "Atlas"), (2, "Nao")])
    conn.commit()
    yield conn
    conn.close()


def log(conn: Any, *moments: Any, entity: int | None = 1, query: str | None = "q") -> None:
    conn.executemany(
        "insert into entity_access_log(entity_id, entity_name, query, accessed_at)"
        " values (?, 'x', ?, ?)",
        [(entity, query, moment) for moment in moments],
    )


def counted(found: dict[str, Any]) -> dict[str, int]:
    return {w["week"]: w["accesses"] for w in found["weeks"] if w["accesses"]}


def test_every_week_is_there_also_the_empty_ones(conn):
    found = accesses_by_week(accesses_of(conn, 1), now=NOW)
    days = [date.fromisoformat(week["week"]) for week in found["weeks"]]
    assert len(days) == 26
    assert days[-1].isoformat() == THIS
    assert {day.weekday() for day in days} == {0}
    assert {b - a for a, b in pairwise(days)} == {timedelta(days=7)}
    assert {(w["accesses"], w["searched"], w["opened"]) for w in found["weeks"]} == {(0, 0, 0)}
    assert found["outside_weeks"] == {"earlier": 0, "later": 0, "unreadable": 0}


def test_searched_and_opened_are_told_apart_and_others_left_out(conn):
    log(conn, "2026-11-24 10:00:00", "2026-11-25 10:00:00")
    log(conn, "2026-11-25 10:00:00", query=None)
    log(conn, "2026-11-25 10:00:00", entity=2)
    log(conn, "2026-11-25 10:00:00", entity=None)
    assert accesses_by_week(accesses_of(conn, 1), now=NOW)["weeks"][-1] == {
        "week": THIS,
        "accesses": 3,
        "searched": 2,
        "opened": 1,
    }


# what the log holds → the Monday of its week, or what outside of the weeks it counts as
MOMENTS = {
    "2026-11-23 00:00:00": THIS,
    "2026-11-29 23:59:59": THIS,
    "2026-11-22 23:59:59": "2026-11-16",
    "2026-11-22 23:59:59.999": "2026-11-16",
    "2026-11-23 00:00:00.001": THIS,
    "2026-11-23T00:00:00Z": THIS,
    "2026-11-22T23:59:59.5Z": "2026-11-16",
    "2026-11-23T01:00:00+02:00": "2026-11-16",
    "2026-11-22T23:00:00-02:00": THIS,
    "2026-11-23 01:00:00 +0200": "2026-11-16",
    "2026-11-22 23:00:00-02": THIS,
    "2026-11-23T00:00": THIS,
    "2026-11-23": THIS,
    " 2026-11-23 ": THIS,
    "2026-11-23 10:00 UTC": THIS,
    "1795392000": THIS,
    "1795391999": "2026-11-16",
    "1795392000000": THIS,
    "1795391999999.5": "2026-11-16",
    "2026-06-01 00:00:00": "2026-06-01",
    "2026-05-31 23:59:59": "earlier",
    "2026-06-01T00:30:00+01:00": "earlier",
    "2026-11-23T24:00:00+02:00": "unreadable",
    "1970-01-01": "earlier",
    "-5": "earlier",
    "2026-11-30 00:00:00": "later",
    "2026-11-29T23:30:00-01:00": "later",
    "9999-12-31 23:59:59": "later",
    "2026-11-31 10:00:00": "unreadable",
    "2026-11-23 24:00:00": "unreadable",
    "2026-11-23 10:00:60": "unreadable",
    "2026-11-31T10:00:00+02:00": "unreadable",
    "now": "unreadable",
    "soon": "unreadable",
    "": "unreadable",
    "2026-11-23T10:00:00.25+00:00": THIS,
    "2026-11-23 10:00:00   Z": "unreadable",
    "2026-11-23 10:00:00\x00": "unreadable",
    "2026-11-23T10:00:00\x00+02:00": "unreadable",
    "0000-06-01 10:00:00": "unreadable",
    "0000-06-01T10:00:00+02:00": "unreadable",
    b"\xff\x00": "unreadable",
    b"2026-11-23 10:00:00": "unreadable",
    b"2026-12-24 10:00:00": "unreadable",
    b"2026-11-23T10:00:00+02:00": "unreadable",
    "🚀": "unreadable",
}


@pytest.mark.parametrize(("moment", "expected"), MOMENTS.items(), ids=map(repr, MOMENTS))
def test_times_of_all_spellings(conn, moment, expected):
    log(conn, moment)
    assert (times.parse_time(moment) is None) == (expected == "unreadable")
    found = accesses_by_week(accesses_of(conn, 1), now=NOW, weeks=26)
    assert sum(counted(found).values()) + sum(found["outside_weeks"].values()) == 1
    if expected in found["outside_weeks"]:
        assert found["outside_weeks"][expected] == 1
    else:
        assert counted(found) == {expected: 1}


def test_now_moves_the_weeks(conn):
    log(conn, "2026-11-24 10:00:00", "2025-01-02 10:00:00")
    found = accesses_by_week(accesses_of(conn, 1), now="2025-01-05T23:59:59Z")
    assert counted(found) == {"2024-12-30": 1}
    assert found["outside_weeks"] == {"earlier": 0, "later": 1, "unreadable": 0}
    for edge in ("0001-01-01 00:00:00", "9999-12-31 23:59:59"):
        assert len(accesses_by_week(accesses_of(conn, 1), now=edge)["weeks"]) == 26


def test_many_times_of_every_kind_agree_with_the_parser(conn):
    """Against the simplest reckoning: each row parsed for itself."""
    rng = random.Random(11)
    spellings = [
        lambda t: times.to_sql(t),
        lambda t: times.to_sql(t).replace(" ", "T") + "Z",
        lambda t: times.to_sql(t).replace(" ", "T") + rng.choice(["+05:30", "-03:00", "+14:00"]),
        lambda t: str(t),
        lambda t: str(int(t * 1000)),
        lambda t: f"about {t}",
    ]
    moments = [
        rng.choice(spellings)(1795392000 - rng.choice([1, 60, 9000]) * rng.randrange(-2000, 4000))
        for _ in range(3000)
    ]
    log(conn, *moments)
    expected: Counter[str] = Counter()
    for moment in moments:
        seconds = times.parse_time(moment)
        if seconds is None:
            expected["unreadable"] += 1
            continue
        day = date.fromisoformat(times.to_sql(seconds)[:10])
        expected[(day - timedelta(days=day.weekday())).isoformat()] += 1
    found = accesses_by_week(accesses_of(conn, 1), now=NOW)
    first = found["weeks"][0]["week"]
    assert counted(found) == {
        k: n for k, n in expected.items() if k != "unreadable" and first <= k <= THIS
    }
    assert found["outside_weeks"] == {
        "earlier": sum(n for k, n in expected.items() if k < first),
        "later": sum(n for k, n in expected.items() if THIS < k < "u"),
        "unreadable": expected["unreadable"],
    }
    assert min(found["outside_weeks"].values()) > 0


@pytest.mark.parametrize("more", [0, 1])
# Unix seconds of 2026 sort before all of ISO 8601
@pytest.mark.parametrize("before", ["2020-01-01 10:00:00", "1795514400"])
def test_the_last_are_counted_and_since_when_is_said(conn, before, more):
    old = [before] * more
    log(conn, *old, "2025-11-24 10:00:00", *["2026-11-24 10:00:00.123"] * (LOGGED - 1))
    log(conn, "2026-11-25 10:00:00", entity=2)
    found = accesses_of(conn, 1)
    assert (found.count, found.more) == (LOGGED, bool(more))
    assert found.since == ("2025-11-24 10:00:00" if more else None)
    weeks = accesses_by_week(found, now=NOW)
    assert counted(weeks) == {THIS: LOGGED - 1}
    assert weeks["outside_weeks"] == {"earlier": 1, "later": 0, "unreadable": 0}


@pytest.mark.parametrize("more", [False, True])
def test_the_last_may_have_no_time(tmp_path, more):
    with closing(connection.connect(tmp_path / "adopted.db", create=True)) as conn:
        conn.execute(
            "create table entity_access_log (id integer primary key, entity_id, entity_name, query,"
            " accessed_at)"
        )
        schema.init(conn)
        log(conn, "2026-11-24 10:00:00", *[None] * (LOGGED - 1 + more))
        found = accesses_of(conn, 1)
    assert (found.count, found.more, found.since) == (LOGGED, more, None)


def test_the_log_is_read_by_its_index_alone_up_to_the_bound(conn):
    asked: list[str] = []
    conn.set_trace_callback(asked.append)
    accesses_of(conn, 1)
    conn.set_trace_callback(None)
    for sql in asked:
        plan = [row[3] for row in conn.execute(f"explain query plan {sql}")]
        assert any("entity_access_log_entity (entity_id=?)" in step for step in plan), plan
        assert not any("USE TEMP B-TREE FOR ORDER BY" in step for step in plan), plan
        assert f"limit {LOGGED}" in sql or f"offset {LOGGED - 1}" in sql
