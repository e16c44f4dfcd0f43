"""A small memory in which there is one thing of each kind to decide, and what it is asked."""

from __future__ import annotations

import sqlite3 as stock_sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import split_helpers
from duplicates_helpers import made
from health_helpers import entity, relate

from datasette_limbic import connection
from datasette_limbic.insights import deciding, queue
from datasette_limbic.insights.reflecting import reflect

LARGE = 40
"""The entity that is to be split: observations 101 to 124, of two topics in turn."""
KEYS = {
    "contradiction:3:4",
    "duplicate:1:1",
    "name_clash:10",
    "bridge:20",
    f"split:{LARGE}",
    "archive_candidate:30",
}


def memory(path: Path) -> Path:
    """No vectors: words alone are compared."""
    made(path)
    with closing(connection.connect(path)) as conn:
        entity(10, "Café")(conn)
        entity(11, "cafe", "Opens at nine.")(conn)
        entity(21, "left")(conn)
        entity(22, "right")(conn)
        entity(
            20, "Bridge", to=(21, 22), archived_at="2026-03-01 00:00:00", archived_reason="over"
        )(conn)
        entity(30, "Old", created_at="2020-01-01 00:00:00")(conn)
        entity(LARGE, "Large")(conn)
        conn.executemany(
            "insert into observations(id, entity_id, content) values (?, ?, ?)",
            [(101 + i, LARGE, text) for i, text in enumerate(split_helpers.texts(24, 2))],
        )
        for other in (1, 2, 10, 11, LARGE):
            relate(conn, 21, other)
        # not this second: what an action sets to "now" would be no change if it came at once
        conn.execute(
            "update entities set updated_at = '2026-01-03 00:00:00',"
            " last_activity_at = '2026-01-03 00:00:00'"
        )
        conn.commit()
    return path


def reflected(path: Path, **options: Any) -> dict[str, Any]:
    """What one run on a connection of its own did."""
    with closing(connection.connect(path)) as conn:
        return reflect(conn, **options)


def on(path: Path, function: Any, *args: Any, **options: Any) -> Any:
    """``function`` of the queue on a connection of its own."""
    with closing(connection.connect(path)) as conn:
        return function(conn, *args, **options)


def id_of(path: Path, key: str) -> int:
    (row,) = table(path, "select id from limbic_insights where key = ?", key)
    return int(row["id"])


def one(path: Path, key: str) -> dict[str, Any]:
    """The insight of that key, as the queue gives it."""
    found: dict[str, Any] = on(path, queue.insight, id_of(path, key))
    return found


def table(
    path: Path, sql: str = "select * from limbic_insights order by id", *args: Any
) -> list[dict[str, Any]]:
    """Rows of the file, as dicts."""
    with closing(stock_sqlite3.connect(path)) as conn:
        conn.row_factory = stock_sqlite3.Row
        return [dict(row) for row in conn.execute(sql, args)]


def judge_all(path: Path, status: str = "dismissed") -> None:
    """Everything that waits, decided by ana."""
    with closing(connection.connect(path)) as conn:
        for row in queue.insights(conn, size=1000)["insights"]:
            deciding.judge(conn, row["id"], status, actor="ana", now="2026-11-01 12:00:00")


def counts(found: dict[str, Any]) -> dict[str, int]:
    """The sums that are not 0."""
    return {name: count for name, count in found["total"].items() if count}
