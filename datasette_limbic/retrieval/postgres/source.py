"""What the file has to push: rows of a collection, as the server is to have them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from datasette.utils.sqlite import sqlite3

from ... import llm_store, vectors
from .rows import Words, digest, plain, words

LEAST, MOST = -(1 << 63), (1 << 63) - 1
# Beyond that an id has no number in the text index.
_NUMBERED = 1 << 62

# As blobs: a row may hold bytes that are no UTF-8.
_ROWS = {
    "entities": (
        "select e.id, cast(e.name as blob), cast(coalesce(e.entity_type, '') as text),"
        " e.archived_at is not null, m.embedding from {ids} entities e left join embeddings m"
        " on m.collection_id = :collection and m.id = cast(e.id as text)"
    ),
    "observations": (
        "select e.id, cast(e.content as blob), null, null, null from {ids} observations e"
    ),
}
_NEXT = " where e.id > :after order by e.id limit :count"
_THESE = " on e.id = j.value"


class Entity(NamedTuple):
    """An entity that has a vector."""

    entity_type: str
    archived: bool
    unit: bytes
    digest: int


class Text(NamedTuple):
    """A name or an observation, by its words."""

    words: Words
    digest: int


class Batch(NamedTuple):
    """Rows by id; entities of observations are none."""

    ids: list[int]
    entities: dict[int, Entity]
    texts: dict[int, Text]
    """By the number in the text index."""


def after(
    conn: sqlite3.Connection, collection: str, last: int, count: int, dimension: int
) -> Batch:
    """The next rows in order of id."""
    sql = _ROWS[collection].format(ids="") + _NEXT
    return _batch(conn, collection, sql, {"after": last, "count": count}, dimension)


def these(conn: sqlite3.Connection, collection: str, ids: Sequence[int], dimension: int) -> Batch:
    """Those of the rows that there still are."""
    # the list first: SQLite would scan the table and search the list
    sql = _ROWS[collection].replace(
        "{ids} " + collection + " e", "json_each(:ids) j cross join " + collection + " e" + _THESE
    )
    return _batch(conn, collection, sql, {"ids": json.dumps(list(ids))}, dimension)


def docs(collection: str, ids: Sequence[int]) -> list[int]:
    """The numbers of items in the text index."""
    odd = collection == "observations"
    return [i * 2 + odd for i in ids if -_NUMBERED <= i < _NUMBERED]


def doc_range(after_id: int, to: int) -> tuple[int, int]:
    """The numbers (exclusive, inclusive) in the text index of the items (after_id, to]."""
    low = LEAST if after_id < -_NUMBERED else min(after_id * 2 + 1, MOST)
    return low, (MOST if to >= _NUMBERED else to * 2 + 1)


def _batch(
    conn: sqlite3.Connection,
    collection: str,
    sql: str,
    params: dict[str, object],
    dimension: int,
) -> Batch:
    found = llm_store.collection(conn, collection)
    rows = conn.execute(sql, {**params, "collection": found[0] if found else None}).fetchall()
    batch = Batch([row[0] for row in rows], {}, {})
    for item, raw, *_ in rows:
        numbers = docs(collection, [item])
        if numbers:
            cut = words((raw or b"").decode("utf-8", "replace"))
            flat = " ".join(f"{word} {places}" for word, places in cut.places.items())
            batch.texts[numbers[0]] = Text(cut, digest(flat.encode("utf-8", "replace")))
    if collection == "entities":
        embedded = [row for row in rows if row[4] is not None]
        checked = vectors.units([row[4] for row in embedded], dimension) if embedded else []
        for (item, _, kind, archived, _), unit in zip(embedded, checked, strict=True):
            if isinstance(unit, bytes):
                kind, archived = plain(kind), bool(archived)
                batch.entities[item] = Entity(
                    kind, archived, unit, digest(unit, kind.encode(), bytes([archived]))
                )
    return batch
