"""Stored vectors and the vec0 tables: nothing of rows that are gone, nothing that cannot be used.

What a sync has yet to do is no fault: rows that are marked in ``limbic_stale`` are left out,
and counted in a note.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..embedding import collection_info
from ..index_state import differences
from ..llm_store import stored
from ..schema import COLLECTIONS
from ..vec_tables import TABLES, table_dimension
from ..vectors import BATCH, units
from .context import Check, Context, Found, NotLookedAt
from .report import Repair
from .structure import lines
from .vec_parts import broken_parts, other_rows

SYNC = Repair("sync")
_UNMARKED = (
    "not exists (select 1 from limbic_stale s where s.collection = '{0}'"
    " and s.item_id = cast(m.id as integer))"
)
_ORPHANS = (
    "select m.id from embeddings m where m.collection_id = ? and ("
    " m.id <> cast(cast(m.id as integer) as text)"
    " or not exists (select 1 from {0} t where t.id = cast(m.id as integer))) and " + _UNMARKED
)
_STORED = ("entities.id", "observations.id", "limbic_stale.item_id", "collections.name")
NEEDS = (*_STORED, "embeddings.embedding", "limbic_indexes.rejected")
# Columns of vec0 that search filters by, against the rows they were copied from. CROSS JOIN, so
# that vec0 is read once from end to end: a look-up in it costs far more than one in a table.
_COPIED = {
    "entities": (
        "select v.entity_id from _limbic_vec_entities v cross join entities t"
        " where t.id = v.entity_id and (v.archived <> (t.archived_at is not null)"
        " or v.entity_type <> cast(coalesce(t.entity_type, '') as text))"
    ),
    "observations": (
        "select v.observation_id from _limbic_vec_observations v cross join observations t"
        " where t.id = v.observation_id"
        " and v.entity_id <> cast(coalesce(t.entity_id, 0) as integer)"
    ),
}

# Of float32, on another machine.
_ROUNDING = 1e-4


def collection_ids(context: Context) -> list[tuple[str, int]]:
    """Our collections that are in the file."""
    rows = context.conn.execute("select name, id from collections order by id").fetchall()
    return [(name, number) for name, number in rows if name in COLLECTIONS]


def orphans(context: Context) -> Iterator[tuple[str, int, str]]:
    """Collection, its id, and key of vectors of nothing that the next sync does not know of."""
    for name, number in collection_ids(context):
        for (key,) in context.conn.execute(_ORPHANS.format(name), [number]):
            yield name, number, key


def _orphans(context: Context) -> Found:
    found = Found()
    for name, _, key in orphans(context):
        found.add({"collection": name, "id": key})
    return found


def unusable(context: Context) -> Iterator[tuple[str, int, str, str]]:
    """Collection, its id, key and reason of vectors that cannot be indexed."""
    for name, number in collection_ids(context):
        info = collection_info(context.conn, name)
        cursor = context.conn.execute(
            "select id, embedding from embeddings where collection_id = ?", [number]
        )
        while batch := cursor.fetchmany(BATCH):
            answers = units([row[1] for row in batch], info.dimension if info else 0)
            for (key, _), answer in zip(batch, answers, strict=True):
                if isinstance(answer, str):
                    yield name, number, key, answer


def _unusable(context: Context) -> Found:
    """A zero vector that a sync has met is the model's word on that text, and no fault."""
    found = Found()
    known = {name: _rejected(context, name) for name in COLLECTIONS}
    without = 0
    for name, _, key, reason in unusable(context):
        if known[name].get(key) == reason and reason in ("zero vector", "not finite"):
            without += 1
        else:
            found.add({"collection": name, "id": key, "text": reason})
    if without:
        found.note = (
            f"the model gave no usable vector for {without:,} texts, which text search alone "
            "finds; 'sync --reembed' asks it again"
        )
    return found


def _rejected(context: Context, name: str) -> dict[str, str]:
    row = context.conn.execute(
        "select rejected from limbic_indexes where collection = ?", [name]
    ).fetchone()
    try:
        return {str(r["id"]): r["reason"] for r in json.loads(row[0])} if row else {}
    except (ValueError, TypeError, KeyError):
        raise NotLookedAt("limbic_indexes.rejected cannot be read") from None


def marked(context: Context, name: str) -> set[int]:
    """Items of a collection that wait for a sync."""
    rows = context.conn.execute("select item_id from limbic_stale where collection = ?", [name])
    return {row[0] for row in rows}


def _built(context: Context, name: str) -> bool:
    """Whether a sync with sqlite-vec has built the index: until then it owes nothing."""
    row = context.conn.execute(
        "select vectors from limbic_indexes where collection = ?", [name]
    ).fetchone()
    return bool(row and row[0])


def _dimension(context: Context) -> Found:
    found = Found()
    for name in COLLECTIONS:
        info = collection_info(context.conn, name)
        made = table_dimension(context.conn, name)
        if made and info and info.dimension and made != info.dimension:
            found.add({"table": TABLES[name].name, "has": made, "vectors": info.dimension})
    return found


def out_of_step(context: Context, name: str) -> Iterator[dict[str, Any]]:
    """Where the vec0 table of a collection differs from what it is derived from."""
    _rejected(context, name)
    table, waits = TABLES[name].name, marked(context, name)
    made = table_dimension(context.conn, name) is not None
    if broken := broken_parts(context, name):
        yield from ({"table": table, "text": text} for text in broken)
        return
    if not _built(context, name):
        return
    if not made:
        yield {"table": table, "text": "is missing"}
        return
    for text in other_rows(context, name):
        yield {"table": table, "text": text}
    absent, left_over = differences(context.conn, name)
    # those of rows that are gone are orphans
    there = context.conn.execute(
        f"select id from {name} where id in (select value from json_each(?))", [json.dumps(absent)]
    )
    absent = [row[0] for row in there.fetchall()]
    for item, what in (
        *((item, "not in the index") for item in absent),
        *((item, "in the index, without a stored vector") for item in left_over),
    ):
        if item not in waits:
            yield {"collection": name, "id": item, "text": what}
    if context.vec_missing is None:
        for (item,) in context.conn.execute(_COPIED[name]):
            if item not in waits:
                yield {"collection": name, "id": item, "text": "with columns of another state"}
        for item in _other_vectors(context, name):
            if item not in waits:
                yield {"collection": name, "id": item, "text": "with another vector"}


def _other_vectors(context: Context, name: str) -> Iterator[int]:
    """Items whose indexed vector is not the stored one at length 1."""
    import numpy  # not needed by any page, so not at the top

    dimension = table_dimension(context.conn, name)
    info = collection_info(context.conn, name)
    number = dict(collection_ids(context)).get(name)
    if not dimension or number is None or info is None or info.dimension != dimension:
        return  # another finding
    table = TABLES[name]
    cursor = context.conn.execute(f"select {table.key}, embedding from {table.name}")
    while batch := cursor.fetchmany(BATCH):
        indexed = dict(batch)
        have = stored(context.conn, number, list(indexed))
        wanted = units([have[i][1] for i in have], dimension)
        pairs = [
            (item, vector)
            for item, vector in zip(have, wanted, strict=True)
            if isinstance(vector, bytes)
        ]
        one = numpy.frombuffer(b"".join(vector for _, vector in pairs), "<f4")
        other = numpy.frombuffer(b"".join(indexed[item] for item, _ in pairs), "<f4")
        differs = (abs(one - other) > _ROUNDING).reshape(len(pairs), dimension).any(axis=1)
        yield from (item for (item, _), is_other in zip(pairs, differs, strict=True) if is_other)


def _index(context: Context) -> Found:
    found = Found()
    for line in lines(context)["vec"]:
        found.add({"text": line})
    if found.count:
        return found
    for name in COLLECTIONS:
        for example in out_of_step(context, name):
            found.add(example)
    if context.vec_missing is not None:
        found.note = f"only its list of rows could be looked at: {context.vec_missing}"
    return found


def _pending(context: Context) -> Found:
    """Never a finding: what the next sync will do."""
    says = []
    for name, number in [*collection_ids(context)] or [(name, 0) for name in COLLECTIONS]:
        counts = context.conn.execute(
            f"select (select count(*) from {name}), (select count(*) from {name} t where not"
            " exists (select 1 from embeddings m where m.collection_id = ?1 and"
            " m.id = cast(t.id as text))), (select count(*) from limbic_stale where"
            " collection = ?2)",
            [number, name],
        ).fetchone()
        items, without, marked = counts
        if items and without == items:
            says.append(f"no vectors of {name} yet")
        elif without or marked:
            says.append(f"{max(without, marked):,} of {items:,} {name} wait for a sync")
        elif items and number and not _built(context, name):
            says.append(f"the vectors of {name} are not indexed yet")
    return Found(note="; ".join(says) + ": run 'datasette limbic sync'" if says else None)


CHECKS = (
    Check("vectors.orphans", "vectors of rows that are gone", _orphans, SYNC, NEEDS),
    Check("vectors.unusable", "vectors that cannot be indexed", _unusable, SYNC, NEEDS),
    Check("vectors.dimension", "vector indexes of another dimension", _dimension, SYNC, NEEDS),
    Check("vectors.index", "vector indexes that are not in step", _index, SYNC, NEEDS),
    Check("vectors.pending", "what the next sync will do", _pending, None, NEEDS),
)
