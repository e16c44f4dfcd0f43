"""The vec0 tables: unit vectors of all items, built from the vectors that ``llm`` stored.

Squared L2 distance of unit vectors is twice the cosine distance, so the order is that of the
cosine, and the query is faster. Both tables are derived: dropping them loses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from datasette.utils.sqlite import sqlite3

from .embedding import collection_info
from .index_state import IndexState, differences, index_state, is_bloated
from .llm_store import transaction
from .retrieval import changes
from .vec_tables import TABLES, count_rows, require_vec, table_dimension

__all__ = [
    "TABLES",
    "IndexState",
    "Progress",
    "delete",
    "differences",
    "drop",
    "index_state",
    "is_bloated",
    "rebuild",
    "require_vec",
    "table_dimension",
    "unit",
    "units",
    "upsert",
]

BATCH = 2000

Progress = Callable[[int, int, str], None]
"""Called with (done, total, collection)."""


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
        untrue = _is_untrue(conn, collection)
        if dimension:
            conn.executemany(
                f"delete from {table.name} where {table.key} = ?", [(i,) for i in latest]
            )
            conn.executemany(table.insert, good)
        _note(conn, collection, dimension, forget=latest, rejected=bad, untrue=untrue)
    return bad


def _is_untrue(conn: sqlite3.Connection, collection: str) -> bool:
    """Whether a sync without sqlite-vec left a table that is not as what is stored: it says 0
    vectors then, and writing some of them must not take that back. A rebuild does."""
    row = conn.execute(
        "select vectors from limbic_indexes where collection = ?", [collection]
    ).fetchone()
    return bool(
        row
        and not row[0]
        and table_dimension(conn, collection) is not None
        and count_rows(conn, f"{TABLES[collection].name}_rowids")
    )


def delete(conn: sqlite3.Connection, collection: str, ids: Iterable[int]) -> None:
    """Take items out of the index. Raises VectorsUnavailable."""
    require_vec(conn)
    table, ids = TABLES[collection], set(ids)
    if not ids:
        return
    with transaction(conn):
        dimension = table_dimension(conn, collection)
        untrue = _is_untrue(conn, collection)
        if dimension is not None:
            conn.executemany(f"delete from {table.name} where {table.key} = ?", [(i,) for i in ids])
        _note(conn, collection, dimension or 0, forget=ids, rejected=[], untrue=untrue)


def drop(conn: sqlite3.Connection, collection: str) -> None:
    """Remove the vec0 table; ``rebuild`` makes it again. Raises VectorsUnavailable."""
    require_vec(conn)
    conn.execute(f"drop table if exists {TABLES[collection].name}")


def rebuild(
    conn: sqlite3.Connection,
    collection: str,
    progress: Progress | None = None,
    *,
    changed: Iterable[int] | None = None,
) -> list[dict[str, Any]]:
    """Make the vec0 table anew from llm's blobs, in one transaction.

    The dimension is what most vectors have; nothing stored, no table. ``changed`` are the items
    that are not as they were in the table before; None: not known, so that whatever follows the
    vectors begins anew. Returns what was rejected, [{"id", "reason"}]. Raises VectorsUnavailable.
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
        _note(
            conn,
            collection,
            info.dimension if info else 0,
            built=True,
            rejected=rejected,
            changed=changed,
        )
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
    changed: Iterable[int] | None = None,
    untrue: bool = False,
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
            "vectors": count_rows(conn, f"{TABLES[collection].name}_rowids")
            if there and not untrue
            else 0,
            "rejected": json.dumps(rejected),
            "built": built,
        },
    )
    if built and changed is None:
        changes.start_anew(conn, collection)
    else:
        changes.note(conn, collection, forget if changed is None else changed)
