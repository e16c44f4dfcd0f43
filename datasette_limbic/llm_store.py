"""The tables ``collections`` and ``embeddings`` exactly as ``llm`` writes them.

``llm similar`` and ``llm embed-multi`` work on what is written here, and what they wrote is
read here. The hash is MD5 over the text that was embedded, prefix included.
"""

from __future__ import annotations

import hashlib
import json
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from datasette.utils.sqlite import sqlite3

# As blobs: a row may hold bytes that are no UTF-8, or NUL, and all of it counts.
_TEXTS = {
    "entities": "select id, cast(content as blob) from entity_snapshots",
    "observations": "select id, cast(content as blob) from observations",
}


@contextmanager
def transaction(conn: sqlite3.Connection) -> Iterator[None]:
    """One write transaction, taken at once; inside another one, a part of that."""
    if conn.in_transaction:
        yield
        return
    try:
        conn.execute("begin immediate")
        yield
        # a commit that fails (busy, disk full) may leave the transaction open
        conn.commit()
    except BaseException:
        conn.rollback()
        raise


def content_hash(text: str) -> bytes:
    """MD5 of the text, 16 bytes, as ``llm`` stores it."""
    return hashlib.md5(text.encode("utf-8"), usedforsecurity=False).digest()


def encode(vector: Sequence[float]) -> bytes:
    """Little-endian float32, as ``llm.encode`` does it (without importing llm)."""
    return struct.pack(f"<{len(vector)}f", *vector)


def collection(conn: sqlite3.Connection, name: str) -> tuple[int, str] | None:
    """Id and model of a collection, or None."""
    row = conn.execute("select id, model from collections where name = ?", [name]).fetchone()
    return None if row is None else (row[0], row[1])


def texts(conn: sqlite3.Connection, name: str, ids: Sequence[int]) -> dict[int, str]:
    """The current text of those items that exist."""
    rows = conn.execute(
        f"{_TEXTS[name]} where id in (select value from json_each(?))", [json.dumps(list(ids))]
    )
    return {row[0]: (row[1] or b"").decode("utf-8", "replace") for row in rows}


def stored(
    conn: sqlite3.Connection, collection_id: int, ids: Sequence[int]
) -> dict[int, tuple[bytes | None, bytes]]:
    """Hash and blob of those items that have a vector."""
    rows = conn.execute(
        "select cast(id as integer), content_hash, embedding from embeddings where"
        " collection_id = ? and id in (select cast(value as text) from json_each(?))",
        [collection_id, json.dumps(list(ids))],
    )
    return {row[0]: (row[1], row[2]) for row in rows}


def missing(conn: sqlite3.Connection, name: str, collection_id: int | None) -> list[int]:
    """Items without a vector, in order of id."""
    rows = conn.execute(
        f"select t.id from {name} t where not exists (select 1 from embeddings m"
        " where m.collection_id = ? and m.id = cast(t.id as text)) order by t.id",
        [collection_id],
    )
    return [row[0] for row in rows]


def gone(conn: sqlite3.Connection, name: str, collection_id: int | None) -> list[str]:
    """Keys of vectors whose item does not exist (any more)."""
    rows = conn.execute(
        "select m.id from embeddings m where m.collection_id = ? and ("
        " m.id <> cast(cast(m.id as integer) as text)"
        f" or not exists (select 1 from {name} t where t.id = cast(m.id as integer)))",
        [collection_id],
    )
    return [row[0] for row in rows]


def write(
    conn: sqlite3.Connection, collection_id: int, items: Iterable[tuple[int, str, bytes]]
) -> None:
    """Store vectors: (id, the text that was embedded, blob), new or in place of the old.

    Content stays NULL, as without ``--store``; where it was stored before, it is renewed.
    """
    now = int(time.time())
    # REPLACE, as llm does it
    conn.executemany(
        "insert or replace into embeddings(collection_id, id, embedding, content, content_blob,"
        " content_hash, metadata, updated) values (?1, ?2, ?3, (select iif(content is null, null,"
        " ?6) from embeddings where collection_id = ?1 and id = ?2), null, ?4, null, ?5)",
        [
            (collection_id, str(item), blob, content_hash(text), now, text)
            for item, text, blob in items
        ],
    )


def delete(conn: sqlite3.Connection, collection_id: int, keys: Iterable[str]) -> None:
    """Remove the vectors of these keys."""
    conn.executemany(
        "delete from embeddings where collection_id = ? and id = ?",
        [(collection_id, key) for key in keys],
    )
