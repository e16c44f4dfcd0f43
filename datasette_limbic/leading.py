"""Entities to begin with: the best connected, the newest, the most used."""

from __future__ import annotations

from typing import Any

from datasette.utils.sqlite import sqlite3

from .reports.queries import current

LISTED = 8
_CANDIDATES = 64

# Relations in both directions that hold. All of them are counted by way of the indexes, and those
# few taken off again that have ended or lead to themselves. More than are listed, since archived
# entities and those that are gone fall out.
_ENDED = f"(r.valid_to is not null or r.valid_from is not null) and not {current('r')}"
HUBS = f"""with counted as (
  select from_entity as id, count(*) as relations from relations group by from_entity
  union all select to_entity, count(*) from relations group by to_entity
  union all select r.from_entity, -1 from relations r where {_ENDED}
  union all select r.to_entity, -1 from relations r where {_ENDED}
  union all select r.from_entity, -2 from relations r
    where r.from_entity = r.to_entity and {current("r")}
), most as (
  select id, sum(relations) as relations from counted
  group by id having sum(relations) > 0 order by 2 desc, id limit {_CANDIDATES}
)
select e.id, e.name, e.entity_type, m.relations from most m join entities e on e.id = m.id
where e.archived_at is null order by m.relations desc, e.name limit {LISTED}"""
# By the day that stands there: what is dated in the future is no newer than all others, and what
# has no readable date comes last, the highest id first.
NEWEST = f"""select id, name, entity_type, created_at from entities
where archived_at is null
order by
  coalesce(created_at glob '????-??-??*' and created_at < date('now', '+2 days'), 0) desc,
  case when created_at glob '????-??-??*' then created_at end desc, id desc limit {LISTED}"""
MOST_USED = f"""with most as (
  select entity_id, access_count, last_access from entity_access
  where typeof(access_count) = 'integer' and access_count > 0
  order by access_count desc, entity_id limit {_CANDIDATES}
)
select e.id, e.name, e.entity_type, m.access_count, m.last_access
from most m join entities e on e.id = m.entity_id
where e.archived_at is null order by m.access_count desc, e.name limit {LISTED}"""


def hubs(conn: sqlite3.Connection) -> list[dict[str, Any]]:
    """Live entities with most relations that hold: {id, name, entityType, relations}."""
    return _listed(conn, HUBS, "relations")


def newest(conn: sqlite3.Connection) -> list[dict[str, Any]]:
    """Live entities that came last: {id, name, entityType, created_at}."""
    return _listed(conn, NEWEST, "created_at")


def most_used(conn: sqlite3.Connection) -> list[dict[str, Any]]:
    """Live entities accessed most often: {id, name, entityType, access_count, last_access}."""
    return _listed(conn, MOST_USED, "access_count", "last_access")


def _listed(conn: sqlite3.Connection, sql: str, *more: str) -> list[dict[str, Any]]:
    keys = ("id", "name", "entityType", *more)
    return [dict(zip(keys, row, strict=True)) for row in conn.execute(sql)]
