"""Recording accesses and co-occurrences, and what they do to the ranking."""

from __future__ import annotations

import threading

import pytest
from datasette.utils.sqlite import sqlite3

from datasette_limbic import connection, schema, search, signals
from datasette_limbic.errors import BadParameter
from datasette_limbic.importing import import_files

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


OLD_TIMES = [
    # what another program left, and whether it stays where NOW is recorded
    (None, False),
    ("", False),
    ("soon", False),
    ("2026-11-29 11:59:59", False),
    ("2026-11-29T00:00:00Z", False),  # the same day: as text after NOW
    ("2026-11-29T23:00:00", False),
    ("2026-11-29 13:00:00+05:00", False),
    ("2026-11-29 13:00", False),
    ("2026-11-30", False),
    ("2026-11-30T00:00:00Z", False),
    ("2999-01-01T00:00:00Z", False),
    (" 2999-01-01 00:00:00", False),
    ("2999-01-01 00:00:00 ", False),
    ("2999-01-01 00:00:00\x00", False),
    ("2999-01-01 00:00:00.5", False),
    ("2999-02-30 00:00:00", False),
    ("2999-01-01 25:00:00", False),
    ("3795089600", False),
    (3795089600, False),
    (3795089600000, False),
    (3795089600.5, False),
    (-1, False),
    (b"2999-01-01 00:00:00", False),
    (b"\xff\xfe", False),
    (float("inf"), False),
    (NOW + ".001", True),
    ("2026-11-29 12:00:01", True),
    ("2026-11-29 12:00:00.999", True),
    ("2999-01-01 00:00:00", True),
    ("9999-12-31 23:59:59.999", True),
]


def taken_over(path, *olds, kind=""):
    """A memory made of another program's tables: n entities with four uses each, the last at its
    time of ``olds``, and as many pairs of n and 100 + n with six."""
    taken = sqlite3.connect(path)
    taken.executescript(
        f"""create table entity_access(entity_id integer primary key, access_count,
          last_access {kind});
        create table co_occurrences(entity_a_id int, entity_b_id int, co_count, last_co {kind},
          primary key(entity_a_id, entity_b_id));"""
    )
    for number, old in enumerate(olds, 1):
        taken.execute("insert into entity_access values (?, 4, ?)", [number, old])
        taken.execute("insert into co_occurrences values (?, ?, 6, ?)", [number, 100 + number, old])
    taken.commit()
    taken.close()
    conn = connection.connect(path)
    schema.init(conn)
    with conn:
        for number in range(1, len(olds) + 1):
            conn.execute(
                "insert into entities(id, name) values (?1, 'Ana ' || ?1), (?1 + 100, 'Bo ' || ?1)",
                [number],
            )
    return conn


@pytest.mark.parametrize("kind", ["text", "", "datetime"])
def test_only_a_later_time_in_our_form_stays(tmp_path, kind):
    """What another program wrote must not pass for the last use for ever."""
    olds = [old for old, _ in OLD_TIMES]
    conn = taken_over(tmp_path / "taken.db", *olds, kind=kind)
    for number in range(1, len(olds) + 1):
        signals.record_access(conn, [number], now=NOW)
        signals.record_co_occurrences(conn, [number, 100 + number], now=NOW)
    uses = conn.execute("select * from entity_access order by entity_id").fetchall()
    pairs = conn.execute("select * from co_occurrences order by entity_a_id").fetchall()
    conn.close()
    assert len(uses) == len(pairs) == len(OLD_TIMES)
    for number, (old, stays) in enumerate(OLD_TIMES, 1):
        expected = old if stays else NOW
        assert uses[number - 1] == (number, 5, expected), old
        assert pairs[number - 1] == (number, 100 + number, 7, expected), old


@pytest.mark.parametrize("old", [None, "soon", 3795089600, "2999-01-01"])
def test_an_import_moves_on_what_another_program_left(tmp_path, old):
    conn = taken_over(tmp_path / "taken.db", old)
    source = tmp_path / "uses.jsonl"
    source.write_text(
        f'{{"type":"access","query":"tea","accessedAt":"{NOW}","entities":["Ana 1","Bo 1"]}}\n'
    )
    import_files(conn, [source])
    assert conn.execute("select * from entity_access where entity_id = 1").fetchall() == [
        (1, 5, NOW)
    ]
    assert conn.execute("select * from co_occurrences").fetchall() == [(1, 101, 7, NOW)]
    conn.close()


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
