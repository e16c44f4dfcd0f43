"""Recording accesses and co-occurrences, and what they do to the ranking."""

from __future__ import annotations

import threading

import pytest

from datasette_limbic import connection, search, signals
from datasette_limbic.errors import BadParameter

NOW = "2026-11-29 12:00:00"
BEFORE = "2026-01-01 00:00:00"


@pytest.fixture
def conn(empty_db):
    conn = connection.connect(empty_db)
    with conn:
        conn.executemany(
            "insert into entities(id, name, created_at) values (?, ?, ?)",
            [(1, "red boat", NOW), (2, "blue boat", NOW), (3, "green boat", NOW)],
        )
    yield conn
    conn.close()


def test_an_access_is_counted_and_logged(conn):
    assert signals.record_access(conn, [1, 2, 2, 99], "boat", now=BEFORE) == 2
    assert signals.record_access(conn, [1], now=NOW) == 1
    assert conn.execute("select * from entity_access order by 1").fetchall() == [
        (1, 2, NOW),
        (2, 1, BEFORE),
    ]
    log = conn.execute("select entity_id, entity_name, query, accessed_at from entity_access_log")
    assert log.fetchall() == [
        (1, "red boat", "boat", BEFORE),
        (2, "blue boat", "boat", BEFORE),
        (1, "red boat", None, NOW),
    ]


def test_an_earlier_access_does_not_move_the_last_one_back(conn):
    signals.record_access(conn, [1], now=NOW)
    signals.record_access(conn, [1], now=BEFORE)
    assert conn.execute("select access_count, last_access from entity_access").fetchone() == (
        2,
        NOW,
    )


def test_every_pair_is_counted_in_canonical_order(conn):
    assert signals.record_co_occurrences(conn, [3, 1, 2], now=BEFORE) == 3
    assert signals.record_co_occurrences(conn, [2, 1, 77], now=NOW) == 1
    assert conn.execute("select * from co_occurrences").fetchall() == [
        (1, 2, 2, NOW),
        (1, 3, 1, BEFORE),
        (2, 3, 1, BEFORE),
    ]
    assert signals.record_co_occurrences(conn, [1], now=NOW) == 0


def test_recording_is_no_activity(conn):
    before = conn.execute("select last_activity_at, updated_at from entities").fetchall()
    signals.record_access(conn, [1, 2, 3])
    signals.record_co_occurrences(conn, [1, 2, 3])
    assert conn.execute("select last_activity_at, updated_at from entities").fetchall() == before


def test_use_turns_the_order_around(conn):
    plain = [r["id"] for r in search.search(conn, "boat", mode="text", now=NOW)["results"]]
    assert plain == [1, 2, 3]
    for _ in range(3):
        signals.record_access(conn, [3], "boat", now=NOW)
    used = search.search(conn, "boat", mode="text", now=NOW)["results"]
    assert used[0]["id"] == 3
    assert used[0]["scoring"]["importance"] == 1.0


def test_an_unreadable_time_is_named(conn):
    with pytest.raises(BadParameter, match="someday"):
        signals.record_access(conn, [1], now="someday")


def test_two_writers_lose_no_counts(empty_db, conn):
    def write():
        own = connection.connect(empty_db)
        for _ in range(25):
            signals.record_access(own, [1, 2])
            signals.record_co_occurrences(own, [1, 2])
        own.close()

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert conn.execute("select access_count from entity_access").fetchall() == [(75,), (75,)]
    assert conn.execute("select co_count from co_occurrences").fetchone() == (75,)
