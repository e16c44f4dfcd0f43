"""What one entity is linked to: a page of its relations, how many there are, of which types.

Relations of one way stand in blocks, which are one for nearly every entity, and each block is in
order: what holds comes first, then by type and name. So no page of a hub sorts all. A block is as
many whole pages as hold COUNTED: one page where that is larger.
"""

from __future__ import annotations

from typing import Any, Literal

from datasette.utils.sqlite import sqlite3

from .bounds import COUNTED, first, relations, upto
from .entity_signals import rows
from .validity import ended, valid

_OTHER: dict[Literal["out", "in"], str] = {"out": "to_entity", "in": "from_entity"}
_PAGE = f"""select r.id, r.relation_type, r.context, r.created_at, r.valid_from, r.valid_to,
  {ended("r")} as ended, {valid("r")} as valid,
  t.id as entity_id, t.name as entity_name, t.entity_type, t.archived_at
  from ({{block}} limit :block offset :start) b
  cross join relations r on r.id = b.id cross join entities t on t.id = r.{{other}}
  order by {valid("r")} desc, r.relation_type, t.name, r.id
  limit :several offset :skip"""
_PAGES = {
    way: _PAGE.format(block=relations(way, ":id", "(:start + :block)"), other=other)
    for way, other in _OTHER.items()
}
# Each way by an index, which an OR of the two would not be. A relation of an entity to itself,
# which only another program writes, counts once: so many are counted as of a way, since with more
# what is told of both together is still no more than there is.
_COUNTS = f"""select
  {upto("select 1 from relations where from_entity = :id", "(:start + :block)")} as relations_out,
  {upto("select 1 from relations where to_entity = :id", "(:start + :block)")} as relations_in,
  {
    upto("select 1 from relations where from_entity = :id and to_entity = :id", "(:start + :block)")
} as loops,
  (select count(*) from {first("out")} f cross join relations r on r.id = f.id where {valid("r")})
    + (select count(*) from {first("in")} f cross join relations r on r.id = f.id
      where r.from_entity <> :id and {valid("r")}) as valid_relations"""
_TYPES = " union all ".join(
    f"""select '{way}' as way, r.relation_type, count(*) as count
    from {first(way)} f cross join relations r on r.id = f.id where {valid("r")} group by 2"""
    for way in _OTHER
)


def block_of(page: int, size: int) -> tuple[int, int]:
    """How many relations of a way come before the block of a page, and how many a block holds."""
    block = -(-COUNTED // size) * size
    return (page - 1) * size // block * block, block


def linked(
    conn: sqlite3.Connection, entity: int, at: str, *, page: int, size: int
) -> tuple[dict[str, int], list[str], dict[str, list[dict[str, Any]]]]:
    """A page of the relations of each way, and how many there are.

    ``relations_out``, ``relations_in``, ``relations`` and ``valid_relations``; which of these are
    at least so many, since no more were counted; and the rows of ``relations_out`` and
    ``relations_in``, each at most ``size``. All up to the end of the block of this page are
    counted, but for those that hold, which are of the first COUNTED of each way.
    """
    start, block = block_of(page, size)
    skip = (page - 1) * size
    args = {"id": entity, "at": at, "block": block, "start": start}
    found = rows(conn, _COUNTS, args)[0]
    each = {way: found[f"relations_{way}"] for way in _OTHER}
    counts = {f"relations_{way}": min(count, start + block) for way, count in each.items()}
    both = sum(counts.values()) - min(found["loops"], start + block)
    counts["relations"] = max(both, found["valid_relations"])
    counts["valid_relations"] = found["valid_relations"]
    at_least = [f"relations_{way}" for way, count in each.items() if count > start + block]
    if at_least:
        at_least.append("relations")
    if max(each.values()) > COUNTED:
        at_least.append("valid_relations")
    asked = {**args, "several": size, "skip": skip - start}
    listed = {f"relations_{way}": rows(conn, sql, asked) for way, sql in _PAGES.items()}
    return counts, at_least, listed


def relation_types(conn: sqlite3.Connection, entity: int, at: str) -> dict[str, list[Any]]:
    """How many relations of each type hold at ``at``, the most frequent first, each way.

    ``out`` and ``in``: lists of ``relation_type`` and ``count``, of the first COUNTED of each way.
    """
    found: dict[str, list[Any]] = {"out": [], "in": []}
    for row in rows(conn, f"{_TYPES} order by 3 desc, 2", {"id": entity, "at": at}):
        found[row.pop("way")].append(row)
    return found
