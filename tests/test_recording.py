"""Writing many Recordings in one transaction: what is written, and what one that fails spoils."""

from __future__ import annotations

import collections
import itertools
import shutil
from dataclasses import replace
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_limbic import connection, recording, schema
from datasette_limbic.recording import Recorded, Recording, write_all
from datasette_limbic.search_log import LoggedSearch

NOW = "2026-11-29 12:00:00"
LATER = "2026-11-29 13:00:00"
ENTITIES = 8


@pytest.fixture(scope="module")
def eight_master(tmp_path_factory):
    """A memory with the entities e1 to e8."""
    path = tmp_path_factory.mktemp("recording") / "eight.db"
    conn = connection.connect(path, create=True)
    schema.init(conn)
    add(conn, range(1, ENTITIES + 1))
    conn.close()
    return path


@pytest.fixture
def conn(eight_master, tmp_path):
    conn = connection.connect(shutil.copy(eight_master, tmp_path / "eight.db"))
    yield conn
    conn.close()


def add(conn: Any, ids: Any) -> None:
    with conn:
        conn.executemany(
            "insert into entities(id, name, created_at) values (?, ?, ?)",
            [(i, f"e{i}", NOW) for i in ids],
        )


def logged(uid: str, returned: Any, others: Any = ()) -> LoggedSearch:
    shown = [*returned, *others]
    rows = [
        (i, f"e{i}", int(i in returned), rank, rank, *(rank / 8,) * 8)
        for rank, i in enumerate(shown, 1)
    ]
    return LoggedSearch(
        uid=uid,
        query="boats",
        mode="text",
        strategy="hybrid_balanced",
        limit=max(len(returned), 1),
        now=NOW,
        parameters="{}",
        parameters_version=None,
        policy="limbic",
        probability=1.0,
        client="me",
        actor="root",
        candidates=tuple(rows),
    )


def searched(uid: str, returned: Any, others: Any = (), moment: str = NOW) -> Recording:
    return Recording(
        tuple(returned), moment, query="boats", search=logged(uid, returned, others), client="me"
    )


def rows(conn: Any, sql: str) -> list[Any]:
    return conn.execute(sql).fetchall()


def everything(conn: Any) -> dict[str, list[Any]]:
    """All that recordings write."""
    return {
        table: rows(conn, f"select * from {table}")
        for table in (
            "entity_access",
            "entity_access_log",
            "co_occurrences",
            "limbic_searches",
            "limbic_search_candidates",
            "limbic_feedback",
        )
    }


def test_exactly_these_rows(conn):
    outcome = write_all(
        conn,
        [
            searched("aa", (3, 1), (5, 4)),
            Recording((1, 3), LATER, opened_from="aa", client="me", actor="root"),
            Recording((2,), LATER),
        ],
    )
    assert outcome.written == [Recorded(2, 1, 0), Recorded(2, 1, 2), Recorded(1, 0, 0)]
    assert outcome.failed == []
    found = everything(conn)
    assert found["entity_access"] == [(1, 2, LATER), (2, 1, LATER), (3, 2, LATER)]
    assert found["co_occurrences"] == [(1, 3, 2, LATER)]
    assert [row[1:] for row in found["entity_access_log"]] == [
        (3, "e3", "boats", NOW),
        (1, "e1", "boats", NOW),
        (1, "e1", None, LATER),
        (3, "e3", None, LATER),
        (2, "e2", None, LATER),
    ]
    columns = "uid, query, mode, strategy, result_limit, now, policy, treatment, probability"
    assert rows(conn, f"select {columns}, client, actor, created_at from limbic_searches") == [
        ("aa", "boats", "text", "hybrid_balanced", 2, NOW, "limbic", 1, 1.0, "me", "root", NOW)
    ]
    assert rows(
        conn, "select entity_id, returned, baseline_rank from limbic_search_candidates order by 3"
    ) == [(3, 1, 1), (1, 1, 2), (5, 0, 3), (4, 0, 4)]
    assert [row[1:] for row in found["limbic_feedback"]] == [
        (1, 1, "e1", "opened", "me", "root", LATER),
        (1, 3, "e3", "opened", "me", "root", LATER),
    ]


def test_the_pool_leaves_no_signal(conn):
    write_all(conn, [searched("aa", (1, 2), (3, 4, 5))])
    assert rows(conn, "select entity_id from entity_access") == [(1,), (2,)]
    assert rows(conn, "select entity_a_id, entity_b_id from co_occurrences") == [(1, 2)]


def test_all_of_them_are_one_transaction(conn):
    said: list[str] = []
    conn.set_trace_callback(said.append)
    write_all(conn, [searched(f"s{i}", (1, 2, 3)) for i in range(5)])
    conn.set_trace_callback(None)
    words = [text.split()[0].lower() for text in said]
    assert words.count("begin") == words.count("commit") == 1
    assert words.count("savepoint") == words.count("release") == 5


@pytest.mark.parametrize("size", [1, 2, 10, 100])
def test_every_pair_of_k(conn, size):
    add(conn, range(ENTITIES + 1, 101))
    [done] = write_all(conn, [searched("aa", range(1, size + 1))]).written
    pairs = size * (size - 1) // 2
    assert done == Recorded(size, pairs, 0) == recording.planned(searched("aa", range(size)))
    assert rows(conn, "select count(*), total(co_count) from co_occurrences") == [(pairs, pairs)]
    assert rows(conn, "select min(entity_b_id - entity_a_id) > 0 from co_occurrences") == (
        [(1,)] if pairs else [(None,)]
    )


def test_given_twice_is_counted_once(conn):
    assert write_all(conn, [Recording((2, 1, 2, 1), NOW)]).written == [Recorded(2, 1, 0)]
    assert rows(conn, "select access_count from entity_access") == [(1,), (1,)]


def test_an_entity_deleted_since_the_answer_is_left_out(conn):
    entry = searched("aa", (1, 2, 3))
    with conn:
        conn.execute("delete from entities where id = 2")
    assert write_all(conn, [entry]).written == [Recorded(2, 1, 0)]
    assert rows(conn, "select entity_id from entity_access") == [(1,), (3,)]
    # the log of the search still says what was shown
    assert rows(conn, "select entity_name from limbic_search_candidates") == [
        ("e1",),
        ("e2",),
        ("e3",),
    ]
    opened = Recording((1, 2), NOW, opened_from="aa")
    assert write_all(conn, [opened]).written == [Recorded(1, 0, 2)]
    assert rows(conn, "select entity_id, entity_name from limbic_feedback") == [
        (1, "e1"),
        (None, "e2"),
    ]


def test_archived_entities_count_as_others(conn):
    with conn:
        conn.execute("update entities set archived_at = ? where id = 1", [NOW])
    assert write_all(conn, [Recording((1, 2), NOW)]).written == [Recorded(2, 1, 0)]


def test_opened_without_being_a_candidate_is_an_access_alone(conn):
    write_all(conn, [searched("aa", (1, 2))])
    outcome = write_all(
        conn,
        [Recording((3, 1), NOW, opened_from="aa"), Recording((1,), NOW, opened_from="nowhere")],
    )
    assert outcome.written == [Recorded(2, 1, 1), Recorded(1, 0, 0)]
    # of somebody whom nobody knows, it would tell nothing
    assert rows(conn, "select search_id, entity_id from limbic_feedback") == [(1, 1)]


@pytest.mark.parametrize(
    ("client", "actor", "kept"),
    [("me", None, True), (None, "root", True), ("me", "root", True), (None, None, False)],
)
@pytest.mark.parametrize(
    ("opened_from", "alone", "results"),
    [(None, (3, 1), 0), ("nowhere", (3, 1), 0), ("aa", (3,), 1)],
)
def test_who_opened_what_no_search_had_shown(
    opened_from, alone, results, client, actor, kept, conn
):
    write_all(conn, [searched("aa", (1, 2))])
    entry = Recording((3, 1), LATER, opened_from=opened_from, client=client, actor=actor)
    assert write_all(conn, [entry]).written == [Recorded(2, 1, results)]
    found = "select entity_id, entity_name, event, client, actor, created_at from limbic_feedback"
    assert rows(conn, f"{found} where search_id is null order by id") == [
        (i, f"e{i}", "opened", client, actor, LATER) for i in alone if kept
    ]
    assert rows(conn, "select search_id, entity_id from limbic_feedback where search_id") == (
        [(1, 1)] * results
    )


def test_openings_of_what_is_not_there_or_was_given_twice(conn):
    with conn:
        conn.execute("delete from entities where id = 2")
    entry = Recording((2, 1, 1, 99), NOW, client="me")
    assert write_all(conn, [entry]).failed == []
    assert rows(conn, "select entity_id from limbic_feedback") == [(1,)]


def test_what_a_search_shows_is_no_opening(conn):
    write_all(conn, [searched("aa", (1, 2)), Recording((1,), NOW, query="q", client="me")])
    assert rows(conn, "select * from limbic_feedback") == []


@pytest.mark.parametrize(
    ("low", "high"),
    [(2**53, 2**53 + 1), (2**62 - 2, 2**62 - 1), (-(2**62), -(2**62) + 1), (-1, 0)],
)
def test_ids_at_the_edges_of_numbers(conn, low, high):
    add(conn, (low, high))
    assert write_all(conn, [searched("aa", (high, low))]).written == [Recorded(2, 1, 0)]
    assert rows(conn, "select entity_id from entity_access order by 1") == [(low,), (high,)]
    assert rows(conn, "select entity_a_id, entity_b_id from co_occurrences") == [(low, high)]
    assert rows(conn, "select entity_id from limbic_search_candidates order by 1") == [
        (low,),
        (high,),
    ]


@pytest.mark.parametrize("name", ["a\nb\x00c", "名前 ☃", b"\xff\xfebytes", "", "x" * 10_000])
def test_a_name_is_logged_as_it_is(conn, name):
    with conn:
        conn.execute("update entities set name = ? where id = 1", [name])
    write_all(conn, [Recording((1,), NOW)])
    same = "select log.entity_name is e.name from entity_access_log log join entities e"
    assert rows(conn, f"{same} on e.id = log.entity_id") == [(1,)]


@pytest.mark.parametrize(("there", "after"), [("7", 8), ("many", 1), (b"x", 1), (2.0, 3), (-5, 1)])
def test_a_count_of_another_kind_goes_on(conn, there, after):
    """SQLite holds any value in any column, and other programs write here too."""
    with conn:
        conn.execute("insert into entity_access values (1, ?, ?)", [there, NOW])
    assert write_all(conn, [Recording((1,), NOW)]).failed == []
    assert rows(conn, "select access_count from entity_access") == [(after,)]


def test_null_in_a_table_that_was_taken_over_counts_as_nothing(tmp_path):
    path = tmp_path / "taken.db"
    with sqlite3.connect(path) as other:
        other.executescript(
            """create table entity_access(entity_id integer primary key, access_count, last_access);
            create table co_occurrences(entity_a_id int, entity_b_id int, co_count, last_co,
              primary key(entity_a_id, entity_b_id));
            insert into entity_access values (1, null, null);
            insert into co_occurrences values (1, 2, null, null);"""
        )
    other.close()
    conn = connection.connect(path)
    schema.init(conn)
    add(conn, (1, 2))
    assert write_all(conn, [Recording((1, 2), NOW)]).failed == []
    assert rows(conn, "select * from entity_access") == [(1, 1, NOW), (2, 1, NOW)]
    assert rows(conn, "select * from co_occurrences") == [(1, 2, 1, NOW)]
    conn.close()


def refuse_e3(conn: Any) -> None:
    """A trigger of another program's that will not have one name."""
    conn.execute(
        """create trigger refuse before insert on entity_access_log when new.entity_name = 'e3'
        begin select raise(abort, 'e3 is not to be logged'); end"""
    )


def test_one_that_fails_leaves_the_rest(conn):
    refuse_e3(conn)
    entries = [searched("aa", (1, 2)), searched("bb", (2, 3)), searched("cc", (1, 2))]
    first, second, third = write_all(conn, entries).written
    assert (first, third) == (Recorded(2, 1, 0), Recorded(2, 1, 0))
    assert isinstance(second, sqlite3.IntegrityError)
    assert "e3 is not to be logged" in str(second)
    assert rows(conn, "select * from entity_access") == [(1, 2, NOW), (2, 2, NOW)]
    assert rows(conn, "select uid from limbic_searches") == [("aa",), ("cc",)]
    assert not conn.in_transaction


def test_what_failed_late_is_taken_back_whole(conn):
    """The second of an id fails at the search, after its accesses were written."""
    outcome = write_all(conn, [searched("aa", (1, 2)), searched("aa", (1, 2, 3))])
    assert [str(error) for error in outcome.failed] == [
        "UNIQUE constraint failed: limbic_searches.uid"
    ]
    assert rows(conn, "select access_count from entity_access") == [(1,), (1,)]
    assert rows(conn, "select count(*) from limbic_search_candidates") == [(2,)]


@pytest.mark.parametrize(
    "bad",
    [
        Recording((1,), NOW, query="half \ud800 a pair"),
        Recording((1, 2**63), NOW, opened_from="aa"),
        Recording((1,), NOW, query=object()),  # type: ignore[arg-type]
    ],
    ids=["half a letter", "too large", "no value of SQLite's"],
)
def test_one_that_python_cannot_hand_over_leaves_the_rest(conn, bad):
    entries = [Recording((2,), NOW), bad, Recording((3,), NOW)]
    first, error, third = write_all(conn, entries).written
    assert first == third == Recorded(1, 0, 0)
    assert isinstance(error, Exception)
    assert rows(conn, "select entity_id from entity_access") == [(2,), (3,)]


def test_a_full_disk_leaves_nothing(conn):
    before = everything(conn)
    pages = conn.execute("pragma page_count").fetchone()[0]
    conn.execute(f"pragma max_page_count = {pages + 2}")
    entries = [searched(f"s{i}", range(1, 9)) for i in range(500)]
    with pytest.raises(sqlite3.OperationalError, match="full"):
        write_all(conn, entries)
    assert not conn.in_transaction
    assert everything(conn) == before
    conn.execute("pragma max_page_count = 1000000")
    assert write_all(conn, entries).failed == []
    assert rows(conn, "select count(*) from limbic_searches") == [(500,)]


def test_a_transaction_taken_back_by_a_trigger_leaves_nothing(conn):
    """``raise(rollback)`` ends the whole transaction, savepoints and all."""
    conn.execute(
        """create trigger no_e3 before insert on entity_access_log when new.entity_name = 'e3'
        begin select raise(rollback, 'all of it'); end"""
    )
    before = everything(conn)
    with pytest.raises(sqlite3.IntegrityError, match="all of it"):
        write_all(conn, [searched("aa", (1,)), searched("bb", (3,)), searched("cc", (1,))])
    assert everything(conn) == before
    assert not conn.in_transaction


def test_a_locked_file_leaves_nothing_and_no_transaction(conn, tmp_path):
    other = sqlite3.connect(tmp_path / "eight.db", isolation_level=None)
    other.execute("begin immediate")
    conn.execute("pragma busy_timeout = 20")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        write_all(conn, [searched("aa", (1,))])
    assert not conn.in_transaction
    other.execute("rollback")
    assert write_all(conn, [searched("aa", (1,))]).failed == []
    other.close()


def test_a_commit_that_a_reader_keeps_out_leaves_nothing(conn, tmp_path):
    """In rollback-journal mode it is the commit that waits for readers."""
    reader = sqlite3.connect(tmp_path / "eight.db", isolation_level=None)
    reader.execute("begin")
    reader.execute("select * from entities").fetchone()
    conn.execute("pragma busy_timeout = 20")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        write_all(conn, [searched("aa", (1,))])
    assert not conn.in_transaction
    reader.execute("rollback")
    assert rows(conn, "select count(*) from limbic_searches") == [(0,)]
    reader.close()


def test_nothing_to_write_is_written(conn):
    assert write_all(conn, []).written == []
    assert write_all(conn, [Recording((), NOW)]).written == [Recorded()]


def test_bounds_count_what_is_held_and_what_is_written():
    entry = searched("aa", range(10), range(10, 30))
    assert entry.weight == 1 + 10 + 30
    assert entry.rows == entry.weight + 45


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("query", "x" * 400),
        ("client", "x" * 400),
        ("actor", "x" * 400),
        ("parameters", "x" * 400),
        ("parameters", "名" * 400),
        ("name", "x" * 400),
        ("name", b"x" * 400),
    ],
)
def test_the_weight_follows_the_size_of_what_is_held(where, text):
    small = searched("aa", range(10), range(10, 30))
    assert small.search is not None
    if where == "parameters":
        large = replace(small, search=replace(small.search, parameters=text))
    elif where == "name":
        named = ((1, text, *row[2:]) for row in small.search.candidates)
        large = replace(small, search=replace(small.search, candidates=tuple(named)))
    else:
        large = replace(small, **{where: text})
    more = 2 * (30 if where == "name" else 1)
    assert more <= large.weight - small.weight <= more + 1
    assert large.rows - small.rows == large.weight - small.weight


@pytest.mark.parametrize(
    ("error", "whole"),
    [
        (sqlite3.OperationalError("database or disk is full"), True),
        (sqlite3.OperationalError("disk I/O error"), True),
        (sqlite3.OperationalError("database is locked"), True),
        (sqlite3.OperationalError("no such column: uid"), False),
        (sqlite3.IntegrityError("the disk is full, says a trigger"), False),
        (OverflowError("too large"), False),
    ],
    ids=repr,
)
def test_what_is_of_the_file_fails_for_all_of_them(conn, monkeypatch, error, whole):
    add_access = recording.signals.add_access

    def failing(conn, ids, query, moment):
        if ids == (2,):
            raise error
        return add_access(conn, ids, query, moment)

    monkeypatch.setattr(recording.signals, "add_access", failing)
    entries = [Recording((n,), NOW) for n in (1, 2, 3)]
    if whole:
        with pytest.raises(type(error), match=str(error)):
            write_all(conn, entries)
        assert rows(conn, "select * from entity_access") == []
    else:
        assert write_all(conn, entries).failed == [error]
        assert rows(conn, "select entity_id from entity_access") == [(1,), (3,)]
    assert not conn.in_transaction


IDS = st.lists(st.integers(1, ENTITIES + 2), max_size=6).map(tuple)
USES = st.lists(
    st.tuples(IDS, IDS, st.booleans(), st.sampled_from([NOW, LATER])), min_size=1, max_size=12
)


def model(uses: Any) -> tuple[Any, Any, Any]:
    """Sums that any order of the same uses must come to."""
    access: collections.Counter[int] = collections.Counter()
    pairs: collections.Counter[tuple[int, int]] = collections.Counter()
    last: dict[Any, str] = {}
    for ids, _, _, moment in uses:
        there = sorted({i for i in ids if i <= ENTITIES})
        access.update(there)
        pairs.update(itertools.combinations(there, 2))
        for key in (*there, *itertools.combinations(there, 2)):
            last[key] = max(last.get(key, ""), moment)
    return access, pairs, last


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(uses=USES, order=st.randoms(use_true_random=False), cut=st.integers(1, 5))
def test_any_sequence_comes_to_the_sums(eight_master, tmp_path_factory, uses, order, cut):
    """Whatever the order and however they are batched."""
    entries = [
        searched(f"s{n}", dict.fromkeys(ids), [i for i in dict.fromkeys(others) if i not in ids])
        if is_search
        else Recording(ids, moment)
        for n, (ids, others, is_search, moment) in enumerate(uses)
    ]
    entries = [
        Recording(e.entity_ids, moment, query=e.query, search=e.search)
        for e, (_, _, _, moment) in zip(entries, uses, strict=True)
    ]
    order.shuffle(entries)
    path = tmp_path_factory.mktemp("sums") / "sums.db"
    conn = connection.connect(shutil.copy(eight_master, path))
    try:
        for start in range(0, len(entries), cut):
            assert write_all(conn, entries[start : start + cut]).failed == []
        access, pairs, last = model(uses)
        assert rows(conn, "select * from entity_access") == [
            (i, access[i], last[i]) for i in sorted(access)
        ]
        assert rows(conn, "select * from co_occurrences") == [
            (*pair, pairs[pair], last[pair]) for pair in sorted(pairs)
        ]
        assert rows(conn, "select count(*) from entity_access_log") == [(sum(access.values()),)]
        assert rows(conn, "select count(*) from limbic_searches") == [
            (sum(is_search for _, _, is_search, _ in uses),)
        ]
        assert rows(conn, "select count(*) from limbic_search_candidates") == [
            (sum(len({*ids, *others}) for ids, others, search, _ in uses if search),)
        ]
    finally:
        conn.close()
