"""Observations of many entities with their vectors, in batches that fit into memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..duplicates import Observation
from ..embedding import CollectionInfo, collection_info
from ..llm_store import content_hash
from .queries import current

BATCH = 5_000
"""Observations that are looked at together; one entity with more is a batch of its own."""

# A vector that was marked counts where it is of this very text: llm may have come before sync.
_READ = f"""
select o.id, o.entity_id, cast(o.content as blob), o.created_at, m.embedding, m.content_hash,
  exists (select 1 from limbic_stale s where s.collection = 'observations' and s.item_id = o.id)
from observations o
left join collections c on c.name = 'observations'
left join embeddings m on m.collection_id = c.id and m.id = cast(o.id as text)
where o.entity_id in (select value from json_each(?)) and {current("o")}
order by o.entity_id, o.id
"""
_SIZES = """
select w.value, (select count(*) from observations o where o.entity_id = w.value)
from json_each(?) w
"""


@dataclass(frozen=True)
class Batch:
    """Observations that hold, those of one entity together, entities in order of id."""

    entity_ids: tuple[int, ...]
    """Also those without observations."""
    observations: list[Observation]
    vectors: Any
    """numpy (n, d), float32, rows of length 1, of NaN where there is no vector; or None."""
    without_vector: int

    def entities(self) -> Iterator[tuple[int, slice]]:
        """Each entity that has observations, and where they are."""
        start = 0
        for at, row in enumerate(self.observations, 1):
            last = at == len(self.observations)
            if last or self.observations[at].entity_id != row.entity_id:
                yield row.entity_id, slice(start, at)
                start = at


def batches(conn: sqlite3.Connection, entity_ids: Sequence[int]) -> Iterator[list[int]]:
    """The ids in groups of at most ``BATCH`` observations together."""
    group: list[int] = []
    held = 0
    for entity_id, size in conn.execute(_SIZES, [json.dumps(list(entity_ids))]).fetchall():
        if group and held + size > BATCH:
            yield group
            group, held = [], 0
        group.append(entity_id)
        held += size
    if group:
        yield group


def read(
    conn: sqlite3.Connection,
    entity_ids: Sequence[int],
    *,
    info: CollectionInfo | None = None,
    prefix: str = "",
) -> Batch:
    """The observations of these entities that hold now, with vectors of their present text.

    ``info`` is that of the collection of observations, looked up where it is not given;
    ``prefix`` what was put before a text that was embedded.
    """
    info = info or collection_info(conn, "observations")
    ids = json.dumps(list(entity_ids))
    observations: list[Observation] = []
    blobs: list[Any] = []
    # all at once: a cursor that an error leaves open would keep tables from being dropped
    rows = conn.execute(_READ, [ids]).fetchall()
    for row_id, entity_id, content, created, blob, digest, marked in rows:
        text = (content or b"").decode("utf-8", "replace")
        observations.append(Observation(row_id, entity_id, text, created))
        if marked and digest != content_hash(prefix + text):
            blob = None
        blobs.append(blob)
    vectors, without = None, len(blobs)
    if info is not None and info.dimension and any(blob is not None for blob in blobs):
        vectors, without = _array(blobs, info.dimension)
    return Batch(tuple(entity_ids), observations, vectors, without)


def _array(blobs: list[Any], dimension: int) -> tuple[Any, int]:
    import numpy  # not needed to start Datasette

    from ..vectors import units

    empty = numpy.full(dimension, numpy.nan, "<f4").tobytes()
    found = units(blobs, dimension)
    missing = sum(isinstance(each, str) for each in found)
    joined = b"".join(empty if isinstance(each, str) else each for each in found)
    return numpy.frombuffer(joined, "<f4").reshape(len(found), dimension), missing
