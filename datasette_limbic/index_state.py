"""Whether the vec0 tables tell the same as the vectors that ``llm`` stored.

Reads plain tables only (vec0's shadow tables among them): works without sqlite-vec.
"""

from __future__ import annotations

import json
from typing import Any, TypedDict

from datasette.utils.sqlite import sqlite3

from .embedding import collection_info
from .vec_tables import CHUNK, TABLES, count_rows, table_dimension


class IndexState(TypedDict):
    """Whether one vec0 table tells the same as the tables it is derived from."""

    model: str | None
    dimension: int
    items: int  # entities or observations
    stored: int  # vectors that llm's table holds
    indexed: int  # vectors in the vec0 table
    pending: int  # items marked as changed since the last sync
    rejected: list[dict[str, Any]]  # {"id", "reason"} of vectors that cannot be indexed
    built_at: str | None
    synced_at: str | None
    in_step: bool
    reason: str | None  # why it is not in step


def index_state(conn: sqlite3.Connection) -> dict[str, IndexState]:
    """The state of both indexes by collection. Reads plain tables only: works without vec0."""
    return {name: _state(conn, name) for name in TABLES}


def _state(conn: sqlite3.Connection, name: str) -> IndexState:
    info = collection_info(conn, name)
    table = TABLES[name]
    made = table_dimension(conn, name)
    row = conn.execute(
        "select model, rejected, built_at, synced_at, vectors from limbic_indexes"
        " where collection = ?",
        [name],
    ).fetchone() or (None, "[]", None, None, 0)
    rejected = json.loads(row[1])
    items = count_rows(conn, name)
    indexed = count_rows(conn, f"{table.name}_rowids") if made else 0
    pending = conn.execute(
        "select count(*) from limbic_stale where collection = ?", [name]
    ).fetchone()[0]
    stored = info.count if info else 0
    reason = None
    if pending:
        reason = f"{pending} changed since the last sync"
    elif stored < items:
        reason = f"{items - stored} without a vector"
    elif info and stored and row[0] != info.model_id:
        reason = "not built from this model's vectors"
    elif made and info and stored and made != info.dimension:
        reason = f"built for {made} dimensions, the vectors have {info.dimension}"
    elif indexed != stored - len(rejected) or row[4] != indexed:
        reason = f"{indexed} of {stored - len(rejected)} vectors indexed"
    return {
        "model": info.model_id if info else None,
        "dimension": made or (info.dimension if info else 0),
        "items": items,
        "stored": stored,
        "indexed": indexed,
        "pending": pending,
        "rejected": rejected,
        "built_at": row[2] or None,
        "synced_at": row[3] or None,
        "in_step": reason is None,
        "reason": reason,
    }


def differences(conn: sqlite3.Connection, collection: str) -> tuple[list[int], list[int]]:
    """Items stored but neither indexed nor rejected, and items indexed but not stored."""
    if table_dimension(conn, collection) is None:
        rowids = "(select null as rowid where 0)"
    else:
        rowids = f"{TABLES[collection].name}_rowids"
    absent = conn.execute(
        "select cast(m.id as integer) from embeddings m"
        " join collections c on c.id = m.collection_id and c.name = ?1"
        f" where not exists (select 1 from {rowids} r where r.rowid = cast(m.id as integer))"
        " and cast(m.id as integer) not in (select json_extract(j.value, '$.id')"
        "  from limbic_indexes i, json_each(i.rejected) j where i.collection = ?1)",
        [collection],
    )
    left_over = conn.execute(
        f"select r.rowid from {rowids} r where not exists (select 1 from embeddings m"
        " join collections c on c.id = m.collection_id and c.name = ?1"
        " where m.id = cast(r.rowid as text))",
        [collection],
    )
    return [row[0] for row in absent], [row[0] for row in left_over]


def is_bloated(conn: sqlite3.Connection, collection: str) -> bool:
    """Whether most of the vec0 table is room of deleted rows, so that a rebuild pays."""
    if table_dimension(conn, collection) is None:
        return False
    name = TABLES[collection].name
    return (
        count_rows(conn, f"{name}_chunks") * CHUNK
        > 2 * count_rows(conn, f"{name}_rowids") + 4 * CHUNK
    )
