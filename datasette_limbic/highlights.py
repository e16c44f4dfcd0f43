"""What a page of results reads beside the answer: above all, which observations to show.

Those with the words of the query, and the nearest by meaning.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from datasette.utils.sqlite import sqlite3

from .search import Pool
from .statement import Shape
from .text_statement import query_file, terms
from .unchanged import unchanged

COMPARED = 6_000
"""Observations whose vectors are compared for one page: 30 ms. The first results come first; one
with more observations than are left is passed over."""

_NO_NEAR = "near(id, distance) as (select null, null where 0)"
# A vector is looked up by key: vec0 would go through those of the whole memory.
_NEAR = """query as materialized (select limbic_embed(:q) as vector),
sizes as materialized (
  select entity_id as entity, count(*) as n, row_number() over (order by place) as pos
  from held group by place, entity_id
),
fitting as (
  select 0 as pos, null as entity, 0 as total, 0 as fits
  union all
  select s.pos, s.entity, total + iif(total + n <= :compared, n, 0), total + n <= :compared
  from fitting f cross join sizes s where s.pos = f.pos + 1
),
compared as materialized (select entity as entity_id from fitting where fits),
near as materialized (
  select h.id, vec_distance_cosine(embedding, vector) as distance
  from query cross join compared cross join held h using (entity_id)
  cross join embeddings e on e.id = cast(h.id as text)
    and e.collection_id = (select o.id from collections o join collections n on n.model = o.model
      where o.name = 'observations' and n.name = 'entities')
  where length(embedding) = length(vector)
)"""


@dataclass(frozen=True)
class Observation:
    """One observation to show; ``nearest`` where none of its entity is nearer by meaning."""

    id: int
    content: str
    nearest: bool


@dataclass(frozen=True)
class Highlights:
    """What to show of one result, best first, of ``total`` observations that hold at the time."""

    total: int
    shown: list[Observation]


def highlights(
    conn: sqlite3.Connection, pool: Pool, ids: Sequence[int], most: int
) -> dict[int, Highlights]:
    """At most ``most`` observations of each entity of ``ids`` (best first), in one statement.

    Those with most of the query's words come first, then the oldest; the nearest by meaning is
    always among them. An entity without an observation at that time has no entry. Words that are
    in over 10,000 texts are not looked for, as in a search beside vectors.
    """
    request = pool.request
    sql = query_file("highlights").replace("/*near*/", _NEAR if pool.shape.vectors else _NO_NEAR)
    sql = sql.replace("/*terms*/", terms(Shape(cut=False)))
    rows = conn.execute(
        sql,
        {
            "ids": json.dumps(list(ids)),
            "q": request.query,
            "at": request.as_of or request.now,
            "most": most,
            "compared": COMPARED,
        },
    ).fetchall()
    found: dict[int, Highlights] = {}
    for entity, number, content, total, nearest in rows:
        kept = found.setdefault(entity, Highlights(total, [])).shown
        observation = Observation(number, content, bool(nearest))
        if len(kept) < most:
            kept.append(observation)
        else:  # the nearest has none of the words, or fewer
            kept[-1] = observation
    return found


def archived(conn: sqlite3.Connection, ids: Sequence[int]) -> frozenset[int]:
    """Those of the entities that are archived."""
    return frozenset(
        row[0]
        for row in conn.execute(
            "select e.id from json_each(?) j cross join entities e on e.id = j.value"
            " where archived_at is not null",
            [json.dumps(list(ids))],
        )
    )


def entity_types(conn: sqlite3.Connection) -> list[str]:
    """The memory's entity types for the filter, most frequent first: the first 100, none of more
    than 100 characters."""
    sql = "select entity_type from entities group by 1 having length(entity_type) <= 100"
    sql += " order by count(*) desc, 1 limit 100"
    # all entities are gone through for it, in every search: 45 ms of 100,000
    return unchanged(conn, "entity types", lambda: [row[0] for row in conn.execute(sql)])
