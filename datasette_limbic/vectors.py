"""The vec0 tables: unit vectors of all items, built from the vectors that ``llm`` stored.

Squared L2 distance of unit vectors is twice the cosine distance, so the order is that of the
cosine, and the query is faster. Both tables are derived: dropping them loses nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from datasette.utils.sqlite import sqlite3

from .connection import vec_missing
from .embedding import collection_info
from .errors import VectorsUnavailable
from .llm_store import transaction

BATCH = 2000
# vec0 fills chunks of 1,024 rows and seldom takes up the room of deleted ones.
CHUNK = 1024

Progress = Callable[[int, int, str], None]


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
        " select id, ?2, entity_id from observations where id = ?1",
    ),
}


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
    items = _count(conn, name)
    indexed = _count(conn, f"{table.name}_rowids") if made else 0
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


def _count(conn: sqlite3.Connection, table: str) -> int:
    return int(conn.execute(f"select count(*) from {table}").fetchone()[0])


def unit(blob: Any, dimension: int) -> bytes | str:
    """The vector at length 1 (little-endian float32), or why it cannot be indexed."""
    return units([blob], dimension)[0]


def units(blobs: Sequence[Any], dimension: int) -> list[bytes | str]:
    """``unit`` for many vectors at once; the same order."""
    import numpy  # not needed by any page, so not at the top

    out: list[bytes | str] = []
    for blob in blobs:
        if not isinstance(blob, bytes) or len(blob) % 4:
            out.append("not a vector of float32")
        elif len(blob) != dimension * 4:
            out.append(f"{len(blob) // 4} values instead of {dimension}")
        else:
            out.append(blob)
    good = [i for i, blob in enumerate(out) if isinstance(blob, bytes)]
    data = numpy.frombuffer(b"".join(blobs[i] for i in good), dtype="<f4")
    # float64: squares of float32 overflow from 1e19 on
    rows = data.reshape(len(good), dimension).astype("f8")
    finite = numpy.isfinite(rows).all(axis=1)
    norms = numpy.sqrt(numpy.einsum("ij,ij->i", rows, rows))
    scaled = (rows / numpy.where(finite & (norms > 0), norms, 1.0)[:, None]).astype("<f4")
    for row, i in enumerate(good):
        if not finite[row]:
            out[i] = "not finite"
        elif norms[row] == 0:
            out[i] = "zero vector"
        else:
            out[i] = scaled[row].tobytes()
    return out


def upsert(
    conn: sqlite3.Connection, collection: str, rows: Iterable[tuple[int, bytes]]
) -> list[dict[str, Any]]:
    """Index the vectors (item id, llm's blob), in place of those that were there.

    Delete, then insert: INSERT OR REPLACE is broken on vec0. Part of the caller's transaction
    where there is one. Returns what was rejected, [{"id", "reason"}]. Raises VectorsUnavailable.
    """
    require_vec(conn)
    table, latest = TABLES[collection], dict(rows)
    if not latest:
        return []
    with transaction(conn):
        dimension = table_dimension(conn, collection)
        if dimension is None:
            info = collection_info(conn, collection)
            dimension = (info.dimension if info else 0) or len(next(iter(latest.values()))) // 4
            if dimension:
                _create(conn, collection, dimension)
        checked = units(list(latest.values()), dimension)
        good = [(i, u) for i, u in zip(latest, checked, strict=True) if isinstance(u, bytes)]
        bad = [
            {"id": i, "reason": u}
            for i, u in zip(latest, checked, strict=True)
            if isinstance(u, str)
        ]
        if dimension:
            conn.executemany(
                f"delete from {table.name} where {table.key} = ?", [(i,) for i in latest]
            )
            conn.executemany(table.insert, good)
        _note(conn, collection, dimension, forget=latest, rejected=bad)
    return bad


def delete(conn: sqlite3.Connection, collection: str, ids: Iterable[int]) -> None:
    """Take items out of the index. Raises VectorsUnavailable."""
    require_vec(conn)
    table, ids = TABLES[collection], set(ids)
    if not ids:
        return
    with transaction(conn):
        dimension = table_dimension(conn, collection)
        if dimension is not None:
            conn.executemany(f"delete from {table.name} where {table.key} = ?", [(i,) for i in ids])
        _note(conn, collection, dimension or 0, forget=ids, rejected=[])


def drop(conn: sqlite3.Connection, collection: str) -> None:
    """Remove the vec0 table; ``rebuild`` makes it again. Raises VectorsUnavailable."""
    require_vec(conn)
    conn.execute(f"drop table if exists {TABLES[collection].name}")


def rebuild(
    conn: sqlite3.Connection, collection: str, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Make the vec0 table anew from llm's blobs, in one transaction.

    The dimension is what most vectors have; nothing stored, no table. Returns what was
    rejected, [{"id", "reason"}]. Raises VectorsUnavailable.
    """
    require_vec(conn)
    table = TABLES[collection]
    rejected: list[dict[str, Any]] = []
    with transaction(conn):
        drop(conn, collection)
        info = collection_info(conn, collection)
        done = 0
        if info and info.dimension:
            _create(conn, collection, info.dimension)
            cursor = conn.execute(
                "select cast(m.id as integer), m.embedding from embeddings m"
                " join collections c on c.id = m.collection_id"
                " where c.name = ? and m.id = cast(cast(m.id as integer) as text)",
                [collection],
            )
            while batch := cursor.fetchmany(BATCH):
                checked = units([row[1] for row in batch], info.dimension)
                good = []
                for (item, _), found in zip(batch, checked, strict=True):
                    if isinstance(found, bytes):
                        good.append((item, found))
                    else:
                        rejected.append({"id": item, "reason": found})
                conn.executemany(table.insert, good)
                done += len(batch)
                if progress:
                    progress(done, info.count, collection)
        _note(conn, collection, info.dimension if info else 0, built=True, rejected=rejected)
    return rejected


def _create(conn: sqlite3.Connection, collection: str, dimension: int) -> None:
    table = TABLES[collection]
    conn.execute(
        f"create virtual table {table.name} using vec0("
        f"{table.key} integer primary key, embedding float[{dimension}], {table.columns})"
    )


def _note(
    conn: sqlite3.Connection,
    collection: str,
    dimension: int,
    *,
    rejected: list[dict[str, Any]],
    forget: Iterable[int] = (),
    built: bool = False,
) -> None:
    """Write the row of limbic_indexes: counts, and the rejected less those seen again."""
    row = conn.execute(
        "select rejected from limbic_indexes where collection = ?", [collection]
    ).fetchone()
    if row and not built:
        again = set(forget)
        rejected = [r for r in json.loads(row[0]) if r["id"] not in again] + rejected
    there = table_dimension(conn, collection) is not None
    conn.execute(
        "insert into limbic_indexes(collection, model, dimension, vectors, rejected, built_at,"
        " synced_at) values (:c, (select model from collections where name = :c), :dimension,"
        " :vectors, :rejected, datetime('now'), '')"
        " on conflict(collection) do update set model = excluded.model,"
        " dimension = excluded.dimension, vectors = excluded.vectors,"
        " rejected = excluded.rejected,"
        " built_at = iif(:built, excluded.built_at, built_at)",
        {
            "c": collection,
            "dimension": dimension,
            "vectors": _count(conn, f"{TABLES[collection].name}_rowids") if there else 0,
            "rejected": json.dumps(rejected),
            "built": built,
        },
    )


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
    return _count(conn, f"{name}_chunks") * CHUNK > 2 * _count(conn, f"{name}_rowids") + 4 * CHUNK
