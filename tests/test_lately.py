"""What is slow to read may be a minute old, and says so; what is quick never is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3

from datasette_limbic import connection, glance
from datasette_limbic import lately as module
from datasette_limbic.lately import forget, lately


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript("create table t(a); insert into t values (1)")
    return path


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Now, and how long the next reading takes."""
    now = [1000.0, 0.0]
    worked = [0.0]

    def work() -> float:
        worked[0] += now[1] / 2  # asked before and after
        return worked[0] * 2

    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module.time, "thread_time", work)
    yield now
    module._kept.clear()


def count(conn: Any, key: str = "count") -> tuple[int, str | None]:
    found, at = lately(
        conn, key, lambda: {"n": conn.execute("select count(*) from t").fetchone()[0]}
    )
    found["n"] += 0
    number = found["n"]
    found["n"] = 99  # a copy: nobody else sees it
    return number, at


def test_slow_figures_stay_for_a_minute_on_every_connection(path: Path, clock: list[float]) -> None:
    with closing(sqlite3.connect(path)) as conn, closing(sqlite3.connect(path)) as other:
        clock[1] = 0.5
        assert count(conn) == (1, None)
        other.execute("insert into t values (2)")
        other.commit()
        number, at = count(conn)
        assert number == 1
        assert at is not None
        assert count(other) == (1, at)
        assert count(conn, "another key") == (2, None)
        clock[0] += module.PATIENCE_S + 1
        assert count(conn) == (2, None)
        assert count(conn) == (2, None)  # as it is now: kept by ``unchanged``


def test_forgotten_they_are_read_anew(path: Path, tmp_path: Path, clock: list[float]) -> None:
    clock[1] = 0.5
    with closing(sqlite3.connect(path)) as conn, closing(sqlite3.connect(path)) as other:
        assert count(conn) == (1, None)
        other.execute("insert into t values (2)")
        other.commit()
        with closing(sqlite3.connect(tmp_path / "b.db")) as elsewhere:
            forget(elsewhere)
        assert count(conn)[0] == 1
        forget(other)
        assert count(conn) == (2, None)


def test_quick_figures_are_of_this_moment(path: Path, clock: list[float]) -> None:
    with closing(sqlite3.connect(path)) as conn, closing(sqlite3.connect(path)) as other:
        clock[1] = module.SLOW_S / 2
        assert count(conn) == (1, None)
        other.execute("insert into t values (2)")
        other.commit()
        assert count(conn) == (2, None)


def test_another_file_of_the_same_path_is_another(path: Path, clock: list[float]) -> None:
    clock[1] = 0.5
    with closing(sqlite3.connect(path)) as conn:
        assert count(conn) == (1, None)
        path.rename(path.with_name("moved.db"))  # so that its inode is not given out again
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("create table t(a)")
        assert count(conn) == (0, None)


def test_a_database_without_a_file_and_errors(clock: list[float]) -> None:
    clock[1] = 0.5
    with closing(sqlite3.connect(":memory:")) as conn:
        conn.execute("create table t(a)")
        assert count(conn) == (0, None)
        conn.execute("insert into t values (1)")
        assert count(conn) == (1, None)
        conn.execute("drop table t")
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            count(conn)


def test_the_overview_of_a_large_memory_says_of_when_it_is(
    demo_db: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock[1] = 0.5

    def hubs() -> Any:
        with closing(connection.connect(demo_db, readonly=True)) as conn:
            return glance.glance(conn)

    before = hubs()
    write = "delete from relations where id in (select id from relations limit 20)"
    with closing(connection.connect(demo_db)) as conn:
        conn.execute(write)
        conn.commit()
        small = hubs()
        assert small["read_at"] == {}
        assert small["hubs"] != before["hubs"]
        monkeypatch.setattr(glance, "SMALL", 10)
        large = hubs()
        conn.execute(write)
        conn.commit()
        later = hubs()
        assert later["hubs"] == large["hubs"]
        assert set(later["read_at"]) >= {"hubs", "growth", "review"}
        # how many there are is always of this moment
        assert later["counts"]["relations"] == large["counts"]["relations"] - 20
