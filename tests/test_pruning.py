"""Deleting old logs: what goes, what stays, and in which steps; by hand and by the server."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from datasette.utils.sqlite import sqlite3
from hypothesis import given, settings
from hypothesis import strategies as st

from datasette_limbic import (
    connection,
    pruning,
    recorder,
    recording,
    retention,
    schema,
    serving,
    times,
)
from datasette_limbic.config import Settings
from datasette_limbic.errors import BadParameter, NotAMemory
from datasette_limbic.importing import import_files
from datasette_limbic.pruning import Pruning, prune
from datasette_limbic.recording import Recording, write_all

NOW = "2026-11-29 12:00:00"
LIMIT = "2026-11-19 12:00:00"  # ten days before
OLD, YOUNG = "2026-11-01 00:00:00", "2026-11-28 00:00:00"
LOGS = ("limbic_searches", "limbic_search_candidates", "limbic_feedback", "entity_access_log")


@pytest.fixture
def conn(empty_db):
    conn = connection.connect(empty_db)
    with conn:
        conn.executemany(
            "insert into entities(id, name) values (?, ?)", [(1, "Ana"), (2, "Atlas"), (3, "Bo")]
        )
    yield conn
    conn.close()


def add_search(conn, at, candidates=3, ratings=0, search_id=None):
    """A logged search with so many candidates and ratings; returns its id."""
    search_id = conn.execute(
        """insert into limbic_searches(id, uid, query, mode, strategy, result_limit, now,
        parameters, created_at) values (?, lower(hex(randomblob(8))), 'q', 'hybrid', 'limbic', 10,
        '', '{}', ?)""",
        [search_id, at],
    ).lastrowid
    conn.executemany(
        """insert into limbic_search_candidates(search_id, entity_id, entity_name, baseline_rank,
        treatment_rank) values (?, ?, 'x', 1, 1)""",
        [(search_id, entity) for entity in range(1, candidates + 1)],
    )
    for _ in range(ratings):
        add_rating(conn, search_id, YOUNG)
    return search_id


def add_rating(conn, search_id, at):
    conn.execute(
        "insert into limbic_feedback(search_id, entity_name, event, created_at)"
        " values (?, 'x', 'useful', ?)",
        [search_id, at],
    )


def add_access(conn, at, table="entity_access_log"):
    conn.execute(f"insert into {table}(entity_name, accessed_at) values ('Ana', ?)", [at])


def counts(conn):
    return [conn.execute(f"select count(*) from {table}").fetchone()[0] for table in LOGS]


def orphans(conn):
    """Candidates and ratings of searches that are not there."""
    return conn.execute(
        """select (select count(*) from limbic_search_candidates
          where search_id not in (select id from limbic_searches)),
        (select count(*) from limbic_feedback where search_id is not null
          and search_id not in (select id from limbic_searches))"""
    ).fetchone()


def run(job, conn):
    while job.step(conn):
        assert not conn.in_transaction


def whole(conn):
    """Whether each search has all three of its candidates, and nothing is without a search."""
    broken = conn.execute(
        """select count(*) from limbic_searches s where 3 <>
        (select count(*) from limbic_search_candidates where search_id = s.id)"""
    ).fetchone()[0]
    sound = conn.execute("pragma integrity_check").fetchone()[0]
    return sound == "ok" and broken == 0 and orphans(conn) == (0, 0)


@pytest.mark.parametrize("foreign_keys", ["on", "off"])
def test_what_goes_and_what_stays(conn, foreign_keys):
    conn.execute(f"pragma foreign_keys={foreign_keys}")
    with conn:
        conn.execute("insert into entity_access values (1, 7, ?)", [OLD])
        conn.execute("insert into co_occurrences values (1, 2, 5, ?)", [OLD])
        add_search(conn, OLD, candidates=4, ratings=2)
        kept = add_search(conn, YOUNG, candidates=3, ratings=1)
        add_rating(conn, kept, OLD)  # belongs to a search that stays
        add_rating(conn, None, OLD)
        add_rating(conn, None, YOUNG)
        for at in (OLD, OLD, YOUNG):
            add_access(conn, at)
    pruned = prune(conn, 10, now=NOW)
    assert (pruned.searches, pruned.candidates, pruned.ratings, pruned.accesses) == (1, 4, 3, 2)
    assert pruned.unreadable == 0
    assert pruned.before == LIMIT
    assert counts(conn) == [1, 3, 3, 1]
    assert conn.execute("select * from entity_access").fetchall() == [(1, 7, OLD)]
    assert conn.execute("select * from co_occurrences").fetchall() == [(1, 2, 5, OLD)]
    assert not conn.in_transaction
    again = prune(conn, 10, now=NOW)
    assert (again.searches, again.candidates, again.ratings, again.accesses) == (0, 0, 0, 0)


def test_openings_without_a_search_go_by_their_own_age(conn):
    for at in (OLD, YOUNG):
        entry = Recording((1, 2), at, client="me")
        assert write_all(conn, [entry]).failed == []
    counted = prune(conn, 10, now=NOW, dry_run=True)
    assert (counted.ratings, counted.accesses) == (2, 2)
    assert "2 ratings and openings, 2 rows of the access log" in counted.text()
    pruned = prune(conn, 10, now=NOW)
    assert (pruned.searches, pruned.ratings, pruned.accesses) == (0, 2, 2)
    assert conn.execute("select distinct created_at from limbic_feedback").fetchall() == [(YOUNG,)]


def test_a_rating_of_a_search_that_is_not_there_is_one_without_a_search(conn):
    conn.execute("pragma foreign_keys=off")
    with conn:
        add_rating(conn, 77, OLD)
        add_rating(conn, 78, YOUNG)
    assert prune(conn, 10, now=NOW).ratings == 1
    assert conn.execute("select search_id from limbic_feedback").fetchall() == [(78,)]


@pytest.mark.parametrize(
    ("at", "stays"),
    [
        ("2026-11-19 11:59:59", False),
        ("2026-11-19 11:59:59.999", False),
        ("2026-11-19 12:00:00", True),
        ("2026-11-19 12:00:00.000", True),
        ("2026-11-19 12:00:01", True),
        ("2026-11-19T11:59:59Z", False),
        ("2026-11-19T12:00:00Z", True),
        ("2026-11-19T13:59:59+02:00", False),
        ("2026-11-19T14:00:00+02:00", True),
        ("2026-11-19 07:00:00-0500", True),
        ("2026-11-19 06:59:59 -05:00", False),
        ("2026-11-19", False),
        ("2026-11-20", True),
        (1795089599, False),
        (1795089600, True),
        ("1795089599.5", False),
        (1795089600000, True),
        (1795089599999, False),
        ("300000000000", False),  # milliseconds, in 1979: as text after any date
        ("2100000", False),  # seconds, in 1970
        ("-5", False),
        ("\u2003 2020-01-01", False),
        ("2099-01-01 00:00:00", True),
        ("0001-01-01 00:00:00", False),
    ],
)
@pytest.mark.parametrize("table", ["limbic_searches", "limbic_feedback", "entity_access_log"])
def test_the_limit_is_exact_in_every_spelling(conn, table, at, stays):
    add = {
        "limbic_searches": add_search,
        "limbic_feedback": lambda conn, at: add_rating(conn, None, at),
        "entity_access_log": add_access,
    }[table]
    assert times.parse_time(at) is not None
    with conn:
        add(conn, at)
    pruned = prune(conn, 10, now=NOW)
    assert conn.execute(f"select count(*) from {table}").fetchone()[0] == stays
    assert pruned.searches + pruned.ratings + pruned.accesses == (not stays)
    assert pruned.unreadable == 0


@pytest.mark.parametrize(
    "at",
    [
        *("", " ", "yesterday", "2020-02-31 00:00:00", "0000-01-01 00:00:00", "2020-13-01"),
        *("2020-01-01 25:00:00", "now", "NaN", b"2020-01-01 00:00:00", "99999999999999999"),
    ],
)
def test_a_time_that_cannot_be_read_is_kept_and_counted(conn, at):
    with conn:
        add_search(conn, at, ratings=1)
        add_rating(conn, None, at)
        add_access(conn, at)
    for dry_run in (True, False):
        pruned = prune(conn, 0, now="9999-12-31", dry_run=dry_run)
        assert (pruned.searches, pruned.ratings, pruned.accesses) == (0, 0, 0)
        assert pruned.unreadable_searches == 1
        assert pruned.unreadable_ratings == 1
        assert pruned.unreadable_accesses == 1
        assert "cannot be read: 1 search, 1 rating, 1 row of" in pruned.text()
    assert counts(conn) == [1, 3, 2, 1]


def test_an_adopted_log_may_have_other_types_and_null(conn):
    with conn:
        conn.execute("drop table entity_access_log")
        conn.execute("create table entity_access_log(id text, entity_name, accessed_at)")
        for at in (None, 1795089599, 1795089600, 1795089599.5, OLD, YOUNG):
            add_access(conn, at)
    pruned = prune(conn, 10, now=NOW)
    assert (pruned.accesses, pruned.unreadable_accesses) == (3, 1)
    assert [row[0] for row in conn.execute("select accessed_at from entity_access_log")] == [
        None,
        1795089600,
        YOUNG,
    ]


def test_a_dry_run_says_the_same_and_changes_nothing(conn, empty_db, monkeypatch):
    monkeypatch.setattr(pruning, "MAX_ROWS", 7)
    monkeypatch.setattr(pruning, "PAGE_ROWS", 4)
    with conn:
        for n in range(20):
            add_search(conn, OLD if n % 3 else YOUNG, candidates=n, ratings=n % 2)
            add_access(conn, OLD if n % 4 else "?")
            add_rating(conn, None, OLD if n % 5 else YOUNG)
    before = hashlib.sha256(empty_db.read_bytes()).hexdigest()
    reader = connection.connect(empty_db, readonly=True)
    would = prune(reader, 10, now=NOW, dry_run=True)
    reader.close()
    assert hashlib.sha256(empty_db.read_bytes()).hexdigest() == before
    assert would.dry_run
    assert would.text().startswith("Would delete")
    did = prune(conn, 10, now=NOW)
    assert did.text().startswith("Deleted")
    assert {**would.as_dict(), "dry_run": False} == did.as_dict()
    assert (did.searches, did.accesses, did.unreadable_accesses) == (13, 15, 5)


@pytest.mark.parametrize("days", [-1, 1e7, float("nan"), "ten", None, True])
def test_days_that_are_none(conn, days):
    with pytest.raises(BadParameter, match="older_than_days is"):
        prune(conn, days)


def test_now_and_a_file_that_is_no_memory(conn):
    with pytest.raises(BadParameter, match="now is 'soon'"):
        prune(conn, 1, now="soon")
    other = sqlite3.connect(":memory:")
    with pytest.raises(NotAMemory):
        prune(other, 1)
    other.close()


def test_a_limit_before_the_first_year_makes_nothing_old(conn):
    with conn:
        add_access(conn, "0001-01-01 00:00:00")
    assert prune(conn, 1e6, now=NOW).accesses == 0


# steps -----------------------------------------------------------------------------------------


def test_a_big_log_goes_in_bounded_transactions(conn, monkeypatch):
    """20,000 searches: others write in between, and none waits longer than for one of them."""
    with conn:
        conn.executemany(
            """insert into limbic_searches(id, query, mode, strategy, result_limit, now,
            parameters, created_at) values (?, 'q', 'hybrid', 'limbic', 10, '', '{}', ?)""",
            ((n, OLD if n % 10 else YOUNG) for n in range(1, 20_001)),
        )
        conn.executemany(
            """insert into limbic_search_candidates(search_id, entity_id, entity_name,
            baseline_rank, treatment_rank) values (?, ?, 'x', 1, 1)""",
            ((n, entity) for n in range(1, 20_001) for entity in (1, 2, 3)),
        )
    job = Pruning(10, now=NOW)
    largest, transactions = 0, 0
    while True:
        before = conn.total_changes
        more = job.step(conn)
        assert not conn.in_transaction
        largest = max(largest, conn.total_changes - before)
        transactions += conn.total_changes > before
        if not more:
            break
    assert (job.pruned.searches, job.pruned.candidates) == (18_000, 54_000)
    assert counts(conn)[:2] == [2000, 6000]
    assert largest <= pruning.MAX_ROWS + 4
    assert transactions == pytest.approx(72_000 / pruning.MAX_ROWS, abs=5)
    assert whole(conn)


def test_a_search_larger_than_a_transaction_goes_alone_and_whole(conn, monkeypatch):
    monkeypatch.setattr(pruning, "MAX_ROWS", 10)
    with conn:
        for _ in range(3):
            add_search(conn, OLD, candidates=50)
    job = Pruning(10, now=NOW)
    assert job.step(conn)
    assert counts(conn)[:2] == [2, 100]
    assert orphans(conn) == (0, 0)


def test_others_write_in_between(conn, empty_db, monkeypatch):
    """In each pause, without waiting for anything."""
    with conn:
        for _ in range(3000):
            add_search(conn, OLD)
    other = sqlite3.connect(empty_db, timeout=0)
    pauses = []

    def writing(seconds):
        pauses.append(seconds)
        with other:
            add_access(other, YOUNG)

    monkeypatch.setattr(pruning.time, "sleep", writing)
    assert prune(conn, 10, now=NOW).searches == 3000
    assert len(pauses) >= 12_000 // pruning.MAX_ROWS
    assert counts(conn) == [0, 0, 0, len(pauses)]
    other.close()


def test_a_pause_after_each_transaction_and_none_without(conn, monkeypatch):
    monkeypatch.setattr(pruning, "MAX_ROWS", 8)
    pauses = []
    monkeypatch.setattr(pruning.time, "sleep", pauses.append)
    with conn:
        for _ in range(10):
            add_search(conn, OLD)
        for _ in range(10):
            add_access(conn, YOUNG)
    prune(conn, 10, now=NOW, dry_run=True)
    assert pauses == []
    prune(conn, 10, now=NOW)
    assert len(pauses) == 5  # two searches with three candidates each
    assert all(0 < each <= pruning.MAX_PAUSE_S for each in pauses)


def test_what_is_written_between_two_looks_is_looked_at_again(conn, empty_db, monkeypatch):
    """A row takes the number of one that was deleted meanwhile: it is young, and stays."""
    with conn:
        add_search(conn, OLD)
    read = Pruning._read
    calls = []

    def reading(self, *args):
        found = read(self, *args)
        calls.append(found)
        if len(calls) == 1:
            other = connection.connect(empty_db)
            with other:
                other.execute("delete from limbic_searches")
                add_search(other, YOUNG, search_id=1)
            other.close()
        return found

    monkeypatch.setattr(Pruning, "_read", reading)
    pruned = prune(conn, 10, now=NOW)
    assert calls[:2] == [([1], []), ([], [])]
    assert pruned.searches == 0
    assert counts(conn)[:2] == [1, 3]


def test_a_fault_in_the_middle_leaves_whole_searches(conn, monkeypatch):
    monkeypatch.setattr(pruning, "MAX_ROWS", 20)
    with conn:
        for _ in range(12):
            add_search(conn, OLD)
        conn.execute(
            "create trigger fault before delete on limbic_searches when old.id = 8"
            " begin select raise(abort, 'no room'); end"
        )
    job = Pruning(10, now=NOW)
    with pytest.raises(sqlite3.DatabaseError, match="no room"):
        run(job, conn)
    assert not conn.in_transaction
    assert job.pruned.searches == 5  # the transaction before; the one with the fault is taken back
    assert counts(conn)[:2] == [7, 21]
    assert whole(conn)
    with conn:
        conn.execute("drop trigger fault")
    run(job, conn)
    assert job.pruned.searches == 12
    assert counts(conn)[:2] == [0, 0]


def test_a_killed_program_leaves_whole_searches(conn, empty_db):
    with conn:
        for _ in range(12):
            add_search(conn, OLD, ratings=1)
    code = f"""
        import os, signal
        from datasette_limbic import connection, pruning
        pruning.MAX_ROWS = 20
        conn = connection.connect({str(empty_db)!r})
        conn.execute("pragma cache_size=1")  # what is not committed reaches the file too
        conn.execute("pragma cache_spill=1")
        conn.create_function("die", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
        conn.execute(
            "create temp trigger killed before delete on limbic_searches when old.id = 8"
            " begin select die(); end"
        )
        pruning.prune(conn, 10, now={NOW!r})
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], timeout=60, env={**os.environ}
    )
    assert done.returncode == -signal.SIGKILL
    after = connection.connect(empty_db)
    assert counts(after)[:3] == [8, 24, 8]
    assert whole(after)
    assert prune(after, 10, now=NOW).searches == 8
    after.close()


_MOMENTS = st.integers(-20_000, 20_000)  # seconds around the limit


def _spelled(draw, seconds):
    moment = 1795089600 + seconds
    text = times.to_sql(moment)
    return draw(
        st.sampled_from(
            [
                text,
                text.replace(" ", "T") + "Z",
                times.to_sql(moment + 7200).replace(" ", "T") + "+02:00",
                f"{text}.{draw(st.integers(0, 999)):03d}",
                str(moment),
                str(moment * 1000),
                f" {text} ",
            ]
        )
    )


@st.composite
def _times(draw):
    kind = draw(st.sampled_from(["near", "near", "near", "text", "number"]))
    if kind == "near":
        return _spelled(draw, draw(_MOMENTS))
    if kind == "text":
        return draw(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
    return str(draw(st.integers(-(10**13), 10**13)))


@pytest.fixture(scope="module")
def shared_conn(tmp_path_factory):
    conn = connection.connect(tmp_path_factory.mktemp("prune") / "memory.db", create=True)
    schema.init(conn)
    yield conn
    conn.close()


@settings(max_examples=30, deadline=None)
@given(
    searches=st.lists(_times(), max_size=12),
    ratings=st.lists(_times(), max_size=12),
    accesses=st.lists(_times(), max_size=12),
    page=st.integers(1, 6),
    most=st.integers(1, 6),
)
def test_what_is_left_is_exactly_what_is_not_older(
    shared_conn, searches, ratings, accesses, page, most
):
    conn = shared_conn
    with conn:
        for table in LOGS:
            conn.execute(f"delete from {table}")
        for at in searches:
            add_search(conn, at, candidates=2, ratings=1)
        for at in ratings:
            add_rating(conn, None, at)
        for at in accesses:
            add_access(conn, at)
    limit = times.parse_time(LIMIT)

    def left(given_times):
        return [t for t in given_times if (m := times.parse_time(t)) is None or m >= limit]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruning, "PAGE_ROWS", page)
        patch.setattr(pruning, "MAX_ROWS", most)
        patch.setattr(pruning, "MAX_PAUSE_S", 0)
        would = prune(conn, 10, now=NOW, dry_run=True)
        pruned = prune(conn, 10, now=NOW)

    def texts(sql):
        return [row[0] for row in conn.execute(sql)]

    assert texts("select created_at from limbic_searches order by id") == left(searches)
    assert texts(
        "select created_at from limbic_feedback where search_id is null order by id"
    ) == left(ratings)
    assert texts("select accessed_at from entity_access_log order by id") == left(accesses)
    assert counts(conn)[1] == 2 * len(left(searches))
    assert orphans(conn) == (0, 0)
    gone = len(searches) - len(left(searches))
    assert pruned.searches == gone
    assert pruned.candidates == 2 * gone
    assert pruned.ratings == gone + len(ratings) - len(left(ratings))
    assert pruned.accesses == len(accesses) - len(left(accesses))
    assert pruned.unreadable == sum(
        times.parse_time(t) is None for t in (*searches, *ratings, *accesses)
    )
    assert {**would.as_dict(), "dry_run": False} == pruned.as_dict()


# importing again -------------------------------------------------------------------------------


def test_importing_again_brings_nothing_back_that_was_pruned(conn, tmp_path):
    source = tmp_path / "history.jsonl"
    lines = ['{"type":"entity","name":"Ana","entityType":"Person","observations":["tea"]}']
    lines += [
        f'{{"type":"access","query":"tea","accessedAt":"2026-11-{day:02d} 00:00:00",'
        '"entities":["Ana","Atlas"]}'
        for day in (1, 2, 28)
    ]
    source.write_text("\n".join(lines) + "\n")
    import_files(conn, [source])
    used = conn.execute("select * from entity_access").fetchall()
    pairs = conn.execute("select * from co_occurrences").fetchall()
    assert counts(conn)[3] == 6
    assert prune(conn, 10, now=NOW).accesses == 4
    for more in ("", '{"type":"access","accessedAt":"2026-11-29 00:00:00","entities":["Bo"]}\n'):
        source.write_text(source.read_text() + more)
        import_files(conn, [source])
        log = conn.execute("select accessed_at from entity_access_log order by 1").fetchall()
        assert [row[0][:10] for row in log[:2]] == ["2026-11-28", "2026-11-28"]
        assert len(log) == 2 + bool(more)
        assert conn.execute("select * from entity_access where entity_id < 3").fetchall() == used
        assert conn.execute("select * from co_occurrences").fetchall() == pairs


# the server ------------------------------------------------------------------------------------


def fill_old(path):
    conn = connection.connect(path)
    conn.execute("delete from entity_access_log")
    for _ in range(30):
        add_search(conn, OLD, ratings=1)
    for _ in range(10):
        add_access(conn, OLD)
    conn.commit()
    conn.close()


async def used(datasette, config):
    """One use recorded on the demo memory; its Recorder, once all that follows has ended."""
    await datasette.invoke_startup()
    db = datasette.get_database("demo")
    found = recorder.recorder_for(db, Settings.from_mapping(config))
    await found.write_now(Recording((1, 2), times.now_sql()))
    await found.retention.wait()
    return found


async def test_the_server_prunes_after_it_recorded(demo_db, make_datasette, monkeypatch, caplog):
    monkeypatch.setattr(pruning, "MAX_ROWS", 25)
    monkeypatch.setattr(retention, "PAUSE_S", 0)
    fill_old(demo_db)
    config = {"log_retention_days": 1}
    datasette = make_datasette(demo_db, config=config)
    caplog.set_level(logging.INFO, "datasette_limbic")
    found = await used(datasette, config)
    state = found.state()["pruned"]
    assert (state["searches"], state["ratings"], state["accesses"]) == (30, 30, 10)
    assert state["last_pruned_at"] is not None
    assert state["last_error"] is None
    assert "demo: Deleted what is older" in caplog.text
    conn = connection.connect(demo_db)
    assert counts(conn) == [0, 0, 0, 2]  # what was recorded now
    conn.close()
    # and not again within the hour, though it records again
    fill_old(demo_db)
    again = await used(datasette, config)
    assert again.state()["pruned"] == state
    monkeypatch.setattr(retention, "EVERY_S", 0)
    later = await used(datasette, config)
    assert later.state()["pruned"]["searches"] == 60


async def test_the_server_prunes_nothing_unless_told_to(demo_db, make_datasette):
    fill_old(demo_db)
    found = await used(make_datasette(demo_db), None)
    assert found.state()["pruned"]["days"] is None
    assert found.state()["pruned"]["last_pruned_at"] is None
    conn = connection.connect(demo_db)
    assert counts(conn)[:3] == [30, 90, 30]
    conn.close()


async def test_the_setting_reaches_the_recorder_by_a_request(demo_db, make_datasette):
    fill_old(demo_db)
    datasette = make_datasette(
        demo_db,
        config={"log_retention_days": 1},
    )
    await datasette.invoke_startup()
    if hasattr(datasette, "root_enabled"):
        datasette.root_enabled = True
    cookies = {"ds_actor": datasette.sign({"a": {"id": "root"}}, "actor")}
    response = await datasette.client.post(
        "/demo/-/limbic/search",
        content=b'{"query": "Atlas", "mode": "text", "wait": true}',
        headers={"content-type": "application/json"},
        cookies=cookies,
    )
    assert response.json()["recorded"]["status"] == "done"
    found = recorder.recorder_for(datasette.get_database("demo"))
    await found.retention.wait()
    assert found.state()["pruned"]["searches"] == 30


async def test_others_write_between_the_pieces(demo_db, make_datasette, monkeypatch):
    monkeypatch.setattr(pruning, "MAX_ROWS", 4)
    monkeypatch.setattr(retention, "PAUSE_S", 0)
    fill_old(demo_db)
    order = []
    step, write_all = Pruning.step, recording.write_all
    monkeypatch.setattr(Pruning, "step", lambda *a: (order.append("piece"), step(*a))[1])
    monkeypatch.setattr(recording, "write_all", lambda *a: (order.append("use"), write_all(*a))[1])
    datasette = make_datasette(demo_db)
    await datasette.invoke_startup()
    found = recorder.recorder_for(datasette.get_database("demo"), Settings(log_retention_days=1))
    for _ in range(6):
        await found.write_now(Recording((1, 2), times.now_sql()))
    await found.retention.wait()
    assert found.state()["pruned"]["searches"] == 30
    last_use = len(order) - order[::-1].index("use")
    assert order[0] == "use"
    assert order.count("piece") > 30
    # no use waited for more than the piece at hand and the next
    assert "piece" in order[:last_use]
    assert order[:last_use].count("piece") <= 2 * 5


async def test_stopping_the_server_ends_it_after_a_piece(demo_db, make_datasette, monkeypatch):
    monkeypatch.setattr(pruning, "MAX_ROWS", 4)
    fill_old(demo_db)
    datasette = make_datasette(demo_db)
    await datasette.invoke_startup()
    found = recorder.recorder_for(datasette.get_database("demo"), Settings(log_retention_days=1))
    await found.write_now(Recording((1, 2), times.now_sql()))
    await found.retention.stop()
    found.retention.start()
    await found.retention.wait()
    state = found.state()["pruned"]
    assert state["searches"] < 30
    assert state["last_pruned_at"] is None
    conn = connection.connect(demo_db)
    assert counts(conn)[0] == 30 - state["searches"]
    assert whole(conn)
    conn.close()


class Faults:
    """Stands in for ``Pruning.step``: its first calls raise what is given."""

    def __init__(self, monkeypatch, *errors):
        self.errors = list(errors)
        self.calls = 0
        step = Pruning.step

        def failing(job, conn):
            self.calls += 1
            if self.errors:
                raise self.errors.pop(0)
            return step(job, conn)

        monkeypatch.setattr(Pruning, "step", failing)


LOCKED = sqlite3.OperationalError("database is locked")


@pytest.fixture
def no_pauses(monkeypatch):
    monkeypatch.setattr(retention, "PAUSE_S", 0)
    monkeypatch.setattr(retention, "LOCKED_PAUSE_S", 0.01)


async def test_a_file_that_is_locked_for_a_moment_is_pruned_all_the_same(
    demo_db, make_datasette, monkeypatch, no_pauses, caplog
):
    """Another program holds it during a step, and lets go of it while the server pauses."""
    monkeypatch.setattr(pruning, "MAX_ROWS", 25)
    fill_old(demo_db)
    other = sqlite3.connect(demo_db, isolation_level=None, check_same_thread=False)
    held = []
    step = Pruning.step

    def holding(job, conn):
        conn.execute("pragma busy_timeout = 10")
        if job.pruned.searches and len(held) < 3:
            held.append(job.pruned.searches)
            other.execute("begin immediate")
            try:
                return step(job, conn)
            finally:
                other.execute("rollback")
        return step(job, conn)

    monkeypatch.setattr(Pruning, "step", holding)
    config = {"log_retention_days": 1}
    found = await used(make_datasette(demo_db, config=config), config)
    other.close()
    state = found.state()["pruned"]
    assert len(held) == 3
    assert len(set(held)) == 1  # the same step, three times in vain
    assert (state["searches"], state["ratings"], state["accesses"]) == (30, 30, 10)
    assert state["last_error"] is None
    assert state["last_pruned_at"] is not None
    assert "not all deleted" not in caplog.text


async def test_a_file_that_stays_locked_is_pruned_after_the_next_use(
    demo_db, make_datasette, monkeypatch, no_pauses, caplog
):
    """Not an hour later; and what was said of it is taken back."""
    fill_old(demo_db)
    faults = Faults(monkeypatch, *[LOCKED] * retention.TRIES)
    config = {"log_retention_days": 1}
    datasette = make_datasette(demo_db, config=config)
    found = await used(datasette, config)
    assert faults.calls == retention.TRIES > 2
    state = found.state()["pruned"]
    assert state["last_error"] == "database is locked"
    assert (state["searches"], state["last_pruned_at"]) == (0, None)
    assert "old logs of demo were not all deleted: database is locked" in caplog.text
    state = (await used(datasette, config)).state()["pruned"]
    assert state["last_error"] is None
    assert state["last_pruned_at"] is not None
    assert (state["searches"], state["accesses"]) == (30, 10)
    # done: nothing more within the hour
    calls = faults.calls
    await used(datasette, config)
    assert faults.calls == calls


async def test_what_is_pruned_in_parts_is_counted_once(
    demo_db, make_datasette, monkeypatch, no_pauses
):
    monkeypatch.setattr(pruning, "MAX_ROWS", 25)
    fill_old(demo_db)
    step = Pruning.step
    calls = []

    def failing(job, conn):
        calls.append(1)
        if len(calls) in (2, 4):
            raise sqlite3.OperationalError("disk I/O error")
        return step(job, conn)

    monkeypatch.setattr(Pruning, "step", failing)
    config = {"log_retention_days": 1}
    datasette = make_datasette(demo_db, config=config)
    gone = []
    for _ in range(3):
        gone.append((await used(datasette, config)).state()["pruned"]["searches"])
    assert 0 < gone[0] < gone[1] < gone[2] == 30
    state = (await used(datasette, config)).state()["pruned"]
    assert (state["searches"], state["ratings"], state["accesses"]) == (30, 30, 10)


@pytest.mark.parametrize("error", ["database or disk is full", "no such column: created_at"])
async def test_what_no_pause_helps_is_not_tried_again_at_once(
    demo_db, make_datasette, monkeypatch, no_pauses, caplog, error
):
    fill_old(demo_db)
    faults = Faults(monkeypatch, *[sqlite3.OperationalError(error)] * 3)
    config = {"log_retention_days": 1}
    datasette = make_datasette(demo_db, config=config)
    for calls in (1, 2, 3):
        found = await used(datasette, config)
        assert faults.calls == calls
    assert error in found.state()["pruned"]["last_error"]
    # each use tries again, and the log says it once
    assert caplog.text.count("old logs of demo were not all deleted") == 1


async def test_there_is_a_pause_between_the_tries(demo_db, make_datasette, monkeypatch):
    monkeypatch.setattr(retention, "LOCKED_PAUSE_S", 0.1)
    at = []

    def failing(job, conn):
        at.append(time.monotonic())
        raise LOCKED

    monkeypatch.setattr(Pruning, "step", failing)
    await used(make_datasette(demo_db), {"log_retention_days": 1})
    assert len(at) == retention.TRIES
    assert min(later - sooner for sooner, later in itertools.pairwise(at)) > 0.08


async def test_stopping_the_server_ends_the_tries(demo_db, make_datasette, monkeypatch):
    monkeypatch.setattr(retention, "LOCKED_PAUSE_S", 0.05)
    monkeypatch.setattr(retention, "TRIES", 10_000)
    fill_old(demo_db)
    faults = Faults(monkeypatch, *[LOCKED] * 10_000)
    datasette = make_datasette(demo_db)
    await datasette.invoke_startup()
    found = recorder.recorder_for(datasette.get_database("demo"), Settings(log_retention_days=1))
    await found.write_now(Recording((1, 2), times.now_sql()))
    while not faults.calls:
        await asyncio.sleep(0.01)
    await asyncio.wait_for(found.retention.stop(), 60)
    assert 0 < faults.calls < 1000
    assert found.state()["pruned"]["last_pruned_at"] is None


async def test_what_keeps_the_server_from_pruning_is_said(demo_db, make_datasette, caplog):
    fill_old(demo_db)
    conn = connection.connect(demo_db)
    conn.execute(
        "create trigger fault before delete on limbic_searches"
        " begin select raise(abort, 'no room'); end"
    )
    conn.commit()
    config = {"log_retention_days": 1}
    found = await used(make_datasette(demo_db, config=config), config)
    state = found.state()
    assert state["pruned"]["last_error"] == "no room"
    assert state["pruned"]["last_pruned_at"] is None
    assert "old logs of demo were not all deleted: no room" in caplog.text
    assert (state["written"], state["failed"]) == (1, 0)
    assert counts(conn)[0] == 30
    conn.close()


def test_a_pruned_search_can_be_rated_no_more(demo_db):
    conn = connection.connect(demo_db)
    uid = serving.search_semantic(conn, "Atlas", 2, mode="text")["search_id"]
    time.sleep(0.01)
    assert prune(conn, 0).searches == 1
    with pytest.raises(LookupError, match="may have been pruned"):
        serving.rate(conn, uid, "Atlas", "useful")
    conn.close()
