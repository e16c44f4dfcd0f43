"""Versions of the vectors, and that every search sees every write, whoever made it."""

from __future__ import annotations

import os
import shutil
from contextlib import closing

import pytest
from datasette.utils.sqlite import sqlite3
from retrieval_helpers import (
    add,
    agrees,
    ask,
    asked_with,
    brute,
    elsewhere,
    embed,
    memory,
    opened,
    remove,
    settle,
    uniform,
    with_index,
)

from datasette_limbic import vectors
from datasette_limbic.retrieval import changes
from datasette_limbic.retrieval.changes import UNKNOWN, Version

ROWS = uniform(60, 16)
NEW = uniform(20, 16, seed=3)
# those that keep something
KEEPING = pytest.mark.parametrize("name", ["memory", "approximate"])


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    path = memory(tmp_path_factory.mktemp("changes") / "master.db", ROWS)
    with_index(path)
    return path


@pytest.fixture
def path(master, tmp_path):
    return shutil.copy(master, tmp_path / "memory.db")


def version(conn):
    return changes.version(conn, "entities")


def since(conn, seen):
    return changes.since(conn, "entities", seen)


# the log ----------------------------------------------------------------------------------------


def test_what_changed_since(path):
    with opened(path) as conn:
        first = version(conn).now
        assert since(conn, first) == []
        add(conn, {3: NEW[0], 70: NEW[1]})
        second = version(conn).now
        add(conn, {70: NEW[2]})
        remove(conn, [5])
        third = version(conn).now
        assert first < second < third
        assert since(conn, first) == [3, 5, 70]
        assert since(conn, second) == [5, 70]
        assert since(conn, third) == []
        # of versions that were never here, nothing is known
        for odd in (0, first - 1, second + 1, third + 1, -1):
            assert since(conn, odd) is None


def test_nothing_written_is_no_version(path):
    with opened(path) as conn:
        before = version(conn)
        vectors.upsert(conn, "entities", [])
        vectors.delete(conn, "entities", [])
        assert version(conn) == before


def test_versions_of_a_collection_are_its_own(path):
    with opened(path) as conn:
        before = version(conn)
        conn.execute("insert into observations(id, entity_id, content) values (9, 1, 'x')")
        vectors.upsert(conn, "observations", [(9, NEW[0].tobytes())])
        assert version(conn) == before
        assert changes.version(conn, "observations").now > 0


def test_an_index_made_anew_may_differ_anywhere(path):
    with opened(path) as conn:
        before = version(conn).now
        vectors.rebuild(conn, "entities")
        now = version(conn)
        assert now == Version(now.now, now.now)
        assert now.now > before
        assert since(conn, before) is None
        # and with what changed said, only that may
        vectors.rebuild(conn, "entities", changed=[4])
        assert since(conn, now.now) == [4]


def test_versions_grow_when_the_clock_is_set_back(path, monkeypatch):
    with opened(path) as conn:
        before = version(conn).now
        monkeypatch.setattr(changes.time, "time_ns", lambda: 5_000)
        add(conn, {3: NEW[0]})
        assert before < version(conn).now <= before + (1 << 20)
        assert since(conn, before) == [3]


def test_copies_do_not_count_alike_where_the_clock_is_set_back(path, tmp_path, monkeypatch):
    copy = tmp_path / "copy.db"
    shutil.copyfile(path, copy)
    monkeypatch.setattr(changes.time, "time_ns", lambda: 5_000)
    numbers = set()
    for file in (path, copy):
        with opened(file) as conn:
            add(conn, {3: NEW[0]})
            numbers.add(version(conn).now)
    assert len(numbers) == 2


def test_copies_that_went_different_ways(path, tmp_path):
    """Neither takes the other's version for one of its own."""
    other = shutil.copy(path, tmp_path / "other.db")
    with opened(path) as one, opened(other) as two:
        add(one, {3: NEW[0]})
        add(two, {4: NEW[1]})
        assert since(one, version(two).now) is None
        assert since(two, version(one).now) is None


def test_a_write_that_is_taken_back_was_none(path):
    with opened(path) as conn:
        before = version(conn)
        conn.execute("begin")
        vectors.delete(conn, "entities", [3])
        assert version(conn) != before
        conn.rollback()
        assert version(conn) == before


def test_the_log_is_forgotten(path, monkeypatch):
    monkeypatch.setattr(changes, "KEPT", 3)
    with opened(path) as conn:
        conn.execute("delete from limbic_approximate")
        versions = [version(conn).now]
        for n in range(1, 7):
            add(conn, {n: NEW[n]})
            versions.append(version(conn).now)
        changes.forget(conn, "entities")
        assert conn.execute("select count(*) from _limbic_vec_changes").fetchone()[0] == 3
        assert [since(conn, v) for v in versions] == [None] * 3 + [[4, 5, 6], [5, 6], [6], []]
        changes.forget(conn, "entities")
        assert since(conn, versions[3]) == [4, 5, 6]


@pytest.mark.parametrize("follower", ["limbic_approximate", "limbic_pushes"])
def test_what_a_follower_lacks_is_kept(follower, path, monkeypatch):
    monkeypatch.setattr(changes, "KEPT", 2)
    with opened(path) as conn:
        versions = []
        for n in range(1, 7):
            add(conn, {n: NEW[n]})
            versions.append(version(conn).now)
        has = versions[1]
        conn.execute("update limbic_approximate set version = ?", [versions[-1]])
        conn.execute(
            "insert into limbic_pushes(collection, memory, version) values ('entities', 'm', ?)",
            [versions[-1]],
        )
        conn.execute(f"update {follower} set version = ?", [has])
        changes.forget(conn, "entities")
        assert since(conn, has) == [3, 4, 5, 6]
        assert since(conn, versions[0]) is None


def test_a_file_of_older_code(path):
    with opened(path) as conn:
        for column in ("version", "changes_from"):
            conn.execute(f"alter table limbic_indexes drop column {column}")
        assert version(conn) == UNKNOWN
        assert [since(conn, v) for v in (UNKNOWN.now, 0, 5)] == [None] * 3
    with closing(sqlite3.connect(":memory:")) as conn, pytest.raises(sqlite3.OperationalError):
        version(conn)  # no memory at all


# what is kept follows the file ------------------------------------------------------------------

# in another process; the stock sqlite3 fires the same triggers
UPSERT = """
import sys, numpy
from retrieval_helpers import add, opened, remove
rows = numpy.load(sys.argv[2])
with opened(sys.argv[1]) as conn:
    add(conn, {3: rows[0], 70: rows[1]})
    remove(conn, [5])
"""
DIRECT = """
import sqlite3, sys, time
import numpy
rows = numpy.load(sys.argv[2])
conn = sqlite3.connect(sys.argv[1])
conn.execute("insert into entities(id, name) values (70, 'new')")
conn.executemany(
    "insert or replace into embeddings(collection_id, id, embedding, content_hash, updated)"
    " values ((select id from collections where name = 'entities'), ?, ?, x'00', ?)",
    [(str(n), rows[at].tobytes(), int(time.time())) for at, n in enumerate((3, 70))],
)
conn.execute("delete from entities where id = 5")
conn.commit()
"""


@KEEPING
@pytest.mark.parametrize("code", [UPSERT, DIRECT], ids=["as sync does", "as llm does"])
def test_another_process_writes(code, name, path, tmp_path):
    import numpy

    numpy.save(tmp_path / "new.npy", NEW)
    retriever = asked_with(name)
    with opened(path, readonly=True) as conn:
        # what is changed, what is new, and what goes
        queries = (ROWS[2], NEW[0], NEW[1], ROWS[4])
        for query in queries:
            agrees(ask(retriever, conn, query, 60), brute(conn, query, 60))
        assert ask(retriever, conn, ROWS[4])[0].id == 5
        elsewhere(code, path, tmp_path / "new.npy")
        there = {row[0] for row in conn.execute("select id from entities")}
        for query in queries:
            # the statement leaves out what is gone
            found = [c for c in ask(retriever, conn, query, 61) if c.id in there]
            agrees(found, brute(conn, query, 61))
        assert ask(retriever, conn, NEW[1])[0].id == 70
        assert ask(retriever, conn, NEW[0])[0].id == 3


@KEEPING
def test_vectors_of_other_writers_that_cannot_be_used(name, path):
    retriever = asked_with(name)
    with opened(path) as conn:
        assert ask(retriever, conn, ROWS[2])[0].id == 3
        embed(conn, {3: b"\0" * 64, 4: b"abc", 7: NEW[0].astype("f4")[:8]})
        conn.commit()
        found = [c.id for c in ask(retriever, conn, ROWS[2], 100)]
        assert len(found) == 57
        assert not {3, 4, 7} & set(found)


@KEEPING
def test_an_older_copy_comes_back(name, path, tmp_path):
    """By a file put in its place, and by SQLite's backup into the same file."""
    for again in ("moved", "backed up"):
        retriever = asked_with(name)  # which reads the newer state first
        older = shutil.copy(path, tmp_path / f"{again}.db")
        with opened(path) as conn:
            add(conn, {3: NEW[0]})
            assert ask(retriever, conn, NEW[0])[0].id == 3
            if again == "backed up":
                with closing(sqlite3.connect(older)) as source:
                    source.backup(conn)
                assert ask(retriever, conn, ROWS[2])[0].id == 3
                agrees(ask(retriever, conn, NEW[0]), brute(conn, NEW[0], 10))
        if again == "moved":
            os.replace(older, path)
        with opened(path) as conn:
            assert ask(retriever, conn, ROWS[2])[0].id == 3
            agrees(ask(retriever, conn, NEW[0]), brute(conn, NEW[0], 10))
            add(conn, {8: NEW[0]})
            assert ask(retriever, conn, NEW[0])[0].id == 8
            add(conn, {8: ROWS[7]})


@KEEPING
def test_a_backup_comes_back_where_the_clock_is_behind(name, path, tmp_path):
    """What it is given then is no version that the other one had."""
    with opened(path) as conn:
        conn.execute(
            "update limbic_indexes set version = version + 3600000000,"
            " changes_from = changes_from + 3600000000"
        )
        conn.execute("update limbic_approximate set version = version + 3600000000")
        conn.commit()
        older, retriever = tmp_path / "older.db", asked_with(name)
        with closing(sqlite3.connect(older)) as copy:
            conn.backup(copy)
        add(conn, {1: NEW[0]})
        assert ask(retriever, conn, NEW[0])[0].id == 1
        with closing(sqlite3.connect(older)) as copy:
            copy.backup(conn)
        add(conn, {2: NEW[0]})
        agrees(ask(retriever, conn, NEW[0]), brute(conn, NEW[0], 10))
        assert ask(retriever, conn, ROWS[0])[0].id == 1


@KEEPING
def test_each_connection_sees_its_own_snapshot(name, path):
    retriever = asked_with(name)
    with opened(path) as setup:
        setup.execute("pragma journal_mode = wal").fetchone()
    with opened(path) as old, opened(path) as new:
        old.execute("begin")
        old.execute("select count(*) from entities").fetchone()
        add(new, {3: NEW[0], 70: NEW[1]})
        remove(new, [5])
        for _ in range(2):
            for conn in (new, old, new, new, old):
                for query in (NEW[0], ROWS[2], ROWS[4]):
                    agrees(ask(retriever, conn, query, 70), brute(conn, query, 70))
        old.rollback()
        agrees(ask(retriever, old, NEW[0], 70), brute(new, NEW[0], 70))


@KEEPING
def test_only_the_newest_that_nobody_indexed_are_looked_at(name, path, monkeypatch):
    from datasette_limbic.retrieval import overlay

    monkeypatch.setattr(overlay, "MOST_UNINDEXED", 2)
    retriever = asked_with(name)
    with opened(path) as conn:
        ask(retriever, conn, NEW[0])
        conn.executemany("insert into entities(id, name) values (?, ?)", [(n, n) for n in (71, 72)])
        embed(conn, {71: NEW[0], 72: NEW[1]})
        conn.execute("insert into entities(id, name) values (73, 'no vector')")
        conn.commit()
        assert ask(retriever, conn, NEW[1])[0].id == 72
        assert ask(retriever, conn, NEW[0])[0].id != 71
        # a sync takes them all
        vectors.upsert(conn, "entities", [(71, NEW[0].tobytes()), (72, NEW[1].tobytes())])
        settle(conn)
        conn.commit()
        assert ask(retriever, conn, NEW[0])[0].id == 71
