"""Memories that have what health looks for, one thing at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from datasette_limbic import connection, schema
from datasette_limbic.sync import sync

OVER = "2026-01-01 00:00:00"


def healthy_memory(path: Path) -> Path:
    """Two entities that say something, are linked, and have vectors: nothing to find."""
    with closing(connection.connect(path, create=True)) as conn:
        schema.init(conn)
        conn.executemany(
            "insert into entities(id, name) values (?, ?)", [(1, "Atlas"), (2, "Geocoder")]
        )
        conn.executemany(
            "insert into observations(id, entity_id, content) values (?, ?, ?)",
            [(1, 1, "Plans the routes of the vans."), (2, 2, "Finds the place of an address.")],
        )
        relate(conn, 1, 2)
        conn.commit()
        sync(conn)
    return path


def change(path: Path, *statements: Any) -> None:
    """Write to the file: SQL, SQL with its values, or a function of the connection."""
    with closing(connection.connect(path)) as conn:
        conn.execute("pragma foreign_keys = off")
        for one in statements:
            if callable(one):
                one(conn)
            elif isinstance(one, str):
                conn.execute(one)
            else:
                conn.execute(*one)
        conn.commit()


def relate(conn: Any, one: int, other: int, kind: str = "uses", **columns: Any) -> None:
    """One relation."""
    names = ["from_entity", "to_entity", "relation_type", *columns]
    conn.execute(
        f"insert into relations({', '.join(names)}) values ({', '.join('?' * len(names))})",
        [one, other, kind, *columns.values()],
    )


def entity(number: int, name: str, *said: str, to: tuple[int, ...] = (), **columns: Any) -> Any:
    """An entity with observations, linked to others."""

    def add(conn: Any) -> None:
        names = ["id", "name", *columns]
        conn.execute(
            f"insert into entities({', '.join(names)}) values ({', '.join('?' * len(names))})",
            [number, name, *columns.values()],
        )
        for content in said:
            conn.execute(
                "insert into observations(entity_id, content) values (?, ?)", [number, content]
            )
        for other in to:
            relate(conn, number, other)

    return add


def synced(conn: Any) -> None:
    conn.commit()
    sync(conn)


def many_orphans(count: int) -> Callable[[Any], None]:
    def add(conn: Any) -> None:
        for i in range(count):
            entity(100 + i, f"Lonely {i}", "says something")(conn)

    return add
