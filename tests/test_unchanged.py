"""What is kept is given for as long as nobody writes, and not a moment longer."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3

from datasette_limbic import unchanged as module
from datasette_limbic.unchanged import unchanged


class Reader:
    """Counts the entities, and how often it was asked to."""

    def __init__(self, path: Path, uri: str = "") -> None:
        self.conn = sqlite3.connect(f"file:{path}{uri}", uri=True)
        self.reads = 0

    def read(self) -> dict[str, int]:
        self.reads += 1
        return {"n": self.conn.execute("select count(*) from t").fetchone()[0]}

    def __call__(self, key: Any = "count") -> int:
        return unchanged(self.conn, key, self.read)["n"]


@pytest.fixture(params=["delete", "wal"])
def path(request: Any, tmp_path: Path) -> Path:
    path = tmp_path / "a b.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.execute(f"pragma journal_mode = {request.param}")
        conn.execute("create table t(a)")
        conn.execute("insert into t values (1)")
        conn.commit()
    return path


WRITES = {
    "a row": "insert into t values (2)",
    "all rows gone": "delete from t",
    "an update": "update t set a = 3",
    "the table": "drop table t; create table t(a)",
    "nothing": "",
}


@pytest.mark.parametrize("uri", ["", "?mode=ro"])
@pytest.mark.parametrize("what", WRITES)
def test_a_commit_of_another_connection_ends_it(path: Path, what: str, uri: str) -> None:
    with closing(sqlite3.connect(path)) as other:
        reader = Reader(path, uri)
        assert [reader(), reader()] == [1, 1]
        assert reader.reads == 1
        other.executescript(WRITES[what])
        assert reader() == other.execute("select count(*) from t").fetchone()[0]
        assert reader.reads == (2 if WRITES[what] else 1)
        # what is written and not committed is not there, and once it is, it counts
        other.execute("insert into t values (9)")
        before = reader()
        other.commit()
        assert reader() == before + 1
        reader.conn.close()


@pytest.mark.parametrize("what", WRITES)
def test_what_the_connection_writes_itself_ends_it(path: Path, what: str) -> None:
    reader = Reader(path)
    reader()
    reader.conn.executescript(WRITES[what])
    assert reader() == reader.conn.execute("select count(*) from t").fetchone()[0]
    assert reader.reads == (2 if WRITES[what] else 1)
    reader.conn.close()


def test_a_commit_while_it_is_read_is_seen_by_the_next(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        reader = Reader(path)
        plain = reader.read

        def read() -> dict[str, int]:
            found = plain()
            other.execute("insert into t values (2)")
            other.commit()
            return found

        reader.read = read  # type: ignore[method-assign]
        assert reader() == 1
        reader.read = plain  # type: ignore[method-assign]
        assert reader() == 2
        reader.conn.close()


def test_each_key_and_each_connection_has_its_own(path: Path, tmp_path: Path) -> None:
    one, two = Reader(path), Reader(path)
    assert [one("a"), one("b"), one("a"), two("a")] == [1, 1, 1, 1]
    assert (one.reads, two.reads) == (2, 1)
    one.conn.close()
    for place in range(5):  # ids and addresses of connections are used again
        later = Reader(path)
        with closing(sqlite3.connect(path)) as other:
            other.execute("insert into t values (5)")
            other.commit()
        assert later("a") == place + 2
        later.conn.close()
    two.conn.close()


def test_callers_may_change_what_they_get(path: Path) -> None:
    reader = Reader(path)
    unchanged(reader.conn, "x", reader.read)["n"] = 99
    unchanged(reader.conn, "x", reader.read)["n"] = 98
    assert unchanged(reader.conn, "x", reader.read) == {"n": 1}
    assert reader.reads == 1
    reader.conn.close()


def test_it_is_bounded(path: Path) -> None:
    reader = Reader(path)
    for key in range(3 * module.FIGURES):
        reader(key)
    [number] = reader.conn.execute("pragma temp.user_version").fetchone()
    assert len(module._kept[number][1]) == module.FIGURES
    for _ in range(module.CONNECTIONS + 3):
        with closing(Reader(path).conn) as conn:
            unchanged(conn, "x", lambda: 1)
    assert len(module._kept) == module.CONNECTIONS
    assert number not in module._kept
    assert reader() == 1
    reader.conn.close()


def test_without_the_pragmas_nothing_is_kept(path: Path) -> None:
    reader = Reader(path)
    reader.conn.set_authorizer(
        lambda action, *_: (
            sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_PRAGMA else sqlite3.SQLITE_OK
        )
    )
    assert [reader(), reader()] == [1, 1]
    assert reader.reads == 2
    reader.conn.close()


@pytest.mark.parametrize("known", [True, False], ids=["asked before", "new"])
@pytest.mark.parametrize("end", ["rollback", "commit"])
def test_nothing_of_a_transaction_is_kept(path: Path, end: str, known: bool) -> None:
    """What is read there may never come to be, and a rollback shows in no pragma."""
    reader = Reader(path)
    if known:
        assert reader() == 1
    reader.conn.execute("begin")
    reader.conn.execute("insert into t values (2)")
    assert [reader(), reader()] == [2, 2]
    reader.conn.execute("insert into t values (3)")
    assert reader() == 3
    reader.conn.execute(end)
    assert reader() == (1 if end == "rollback" else 3)
    reader.conn.close()
