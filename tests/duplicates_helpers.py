"""A small memory with duplicates, and what the tests of them ask of it."""

from __future__ import annotations

import sqlite3 as stock_sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from empty_memory import empty_memory

from datasette_limbic import connection
from datasette_limbic.reports.keeping import Kept, keep

SAME = "The deploy runs early in the morning"
OTHER = "Oranges grow in the valley behind the house"
LONGER = SAME + ", after the backup was copied to the second machine and somebody has looked at it"


def made(path: Path) -> Path:
    """Entity 1 with a duplicate (1, 2) and a contradiction (3, 4); entity 2 with observation 5."""
    with closing(connection.connect(empty_memory(path))) as conn:
        conn.executemany(
            "insert into entities(id, name, entity_type) values (?, ?, 'Thing')",
            [(1, "one"), (2, "two")],
        )
        conn.executemany(
            "insert into observations(id, entity_id, content, created_at) values (?, ?, ?, ?)",
            [
                (1, 1, SAME, "2026-01-01 00:00:00"),
                (2, 1, SAME.upper() + ".", "2026-01-02 00:00:00"),
                (3, 1, "Status: open", "2026-01-01 00:00:00"),
                (4, 1, "Status: closed", "2026-01-02 00:00:00"),
                (5, 2, OTHER, "2026-01-01 00:00:00"),
            ],
        )
        conn.commit()
    return path


def kept(path: Path, **options: Any) -> Kept:
    """What one run on a connection of its own did."""
    with closing(connection.connect(path)) as conn:
        return keep(conn, **options)


def written(path: Path, *statements: str, foreign_keys: bool = False) -> None:
    """Change the file as any program may: stock SQLite without functions of ours."""
    with closing(stock_sqlite3.connect(path)) as conn:
        conn.execute(f"pragma foreign_keys = {int(foreign_keys)}")
        for text in statements:
            conn.execute(text)
        conn.commit()


def asked(path: Path, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """Rows of the file."""
    with closing(stock_sqlite3.connect(path)) as conn:
        return conn.execute(sql, values).fetchall()


def flags(path: Path) -> set[int]:
    """Ids of the observations that are flagged."""
    return {i for (i,) in asked(path, "select id from observations where similarity_flag = 1")}


def pairs(path: Path) -> set[tuple[int, int, str]]:
    """(earlier, later, kind) of the pairs that are kept."""
    return set(asked(path, "select earlier_id, later_id, kind from limbic_duplicates"))


def marked(path: Path) -> set[int]:
    """Entities that are marked as changed."""
    return {i for (i,) in asked(path, "select entity_id from limbic_report_pending")}
