"""What the two vec0 tables look like, and whether they can be used here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from datasette.utils.sqlite import sqlite3

from .connection import vec_missing
from .errors import VectorsUnavailable

# vec0 fills chunks of 1,024 rows and seldom takes up the room of deleted ones.
CHUNK = 1024


@dataclass(frozen=True)
class VecTable:
    """One vec0 table and the statement that fills a row of it (?1 id, ?2 unit vector)."""

    name: str
    key: str
    columns: str
    insert: str


TABLES = {
    "entities": VecTable(
        "_limbic_vec_entities",
        "entity_id",
        "archived integer, entity_type text",
        # vec0 takes no NULL and no other type in a metadata column
        "insert into _limbic_vec_entities(entity_id, embedding, archived, entity_type)"
        " select id, ?2, archived_at is not null, cast(coalesce(entity_type, '') as text)"
        " from entities where id = ?1",
    ),
    "observations": VecTable(
        "_limbic_vec_observations",
        "observation_id",
        "entity_id integer",
        "insert into _limbic_vec_observations(observation_id, embedding, entity_id)"
        " select id, ?2, cast(coalesce(entity_id, 0) as integer) from observations where id = ?1",
    ),
}


def require_vec(conn: sqlite3.Connection) -> None:
    """Raise VectorsUnavailable unless sqlite-vec is on this connection."""
    reason = vec_missing(conn)
    if reason:
        raise VectorsUnavailable(f"{reason}: pip install sqlite-vec")


def table_dimension(conn: sqlite3.Connection, collection: str) -> int | None:
    """Dimension that the vec0 table was made with, or None where there is no table."""
    row = conn.execute(
        "select sql from sqlite_master where name = ?", [TABLES[collection].name]
    ).fetchone()
    found = re.search(r"float\[(\d+)\]", row[0]) if row else None
    return int(found[1]) if found else None


def count_rows(conn: sqlite3.Connection, table: str) -> int:
    """Rows of a table, by its name."""
    return int(conn.execute(f"select count(*) from {table}").fetchone()[0])
