"""Texts that stand in several entities."""

from __future__ import annotations

from typing import Any

from datasette.utils.sqlite import sqlite3

from ..text import normalise
from .entities import PAGE, pages, rows
from .queries import current

SHOWN = 20
"""Observations of one text that are listed; all of them are counted."""

_LIVE = f"""
shared as materialized (
  select key from _limbic_text_keys group by key having min(entity_id) <> max(entity_id)
), live as materialized (
  select k.key as key, o.id as id, o.entity_id as entity_id
  from shared s
  join _limbic_text_keys k on k.key = s.key
  join observations o on o.id = k.observation_id
  join entities e on e.id = o.entity_id
  where e.archived_at is null and {current("o")}
)
"""
_GROUPS = f"""
with {_LIVE}, grouped as materialized (
  select key, count(*) as observations, count(distinct entity_id) as entities, min(id) as first
  from live group by key having count(distinct entity_id) > 1
)
select *, (select count(*) from grouped) as total from grouped
order by entities desc, observations desc, first limit :size offset :skip
"""
_MEMBERS = f"""
select o.id as id, o.content as content, o.created_at as created_at, o.entity_id as entity_id,
  e.name as entity, e.entity_type as entityType
from _limbic_text_keys k
join observations o on o.id = k.observation_id
join entities e on e.id = o.entity_id
where k.key = :key and e.archived_at is null and {current("o")}
order by o.id limit :shown
"""


def across_entities(conn: sqlite3.Connection, *, page: int = 1, size: int = PAGE) -> dict[str, Any]:
    """Texts of three words or more that stand in several entities, in most of them first.

    ``count`` of such texts, and ``groups``: ``content``, how many ``entities`` and
    ``observations`` have it, and up to 20 ``members`` (id, entity_id, entity, entityType,
    created_at). Only entities that are not archived and observations that hold. Texts are found
    by a hash, and those that are listed are compared.
    """
    args = {"size": size, "skip": (page - 1) * size}
    found = rows(conn, _GROUPS, args)
    count = found[0]["total"] if found else _count(conn) if page > 1 else 0
    groups = []
    for row in found:
        group = _group(conn, row)
        if group is None:
            count -= 1
        else:
            groups.append(group)
    return {"count": count, "pages": pages(size, count), "groups": groups}


def _count(conn: sqlite3.Connection) -> int:
    first = rows(conn, _GROUPS, {"size": 1, "skip": 0})
    return first[0]["total"] if first else 0


def _group(conn: sqlite3.Connection, row: dict[str, Any]) -> dict[str, Any] | None:
    """One text with its members; None where the hash alone was the same."""
    members = rows(conn, _MEMBERS, {"key": row["key"], "shown": SHOWN})
    if not members:
        return None
    text = normalise(str(members[0]["content"]))
    same = [m for m in members if normalise(str(m["content"])) == text]
    wrong = len(members) - len(same)
    if len({m["entity_id"] for m in same}) < 2 and wrong:
        return None
    content = members[0]["content"]
    return {
        "content": content,
        "entities": row["entities"]
        - len({m["entity_id"] for m in members} - {m["entity_id"] for m in same}),
        "observations": row["observations"] - wrong,
        "members": [{k: v for k, v in m.items() if k != "content"} for m in same],
    }
