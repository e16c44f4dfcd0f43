"""How much of a hub is read: of each kind a bounded number of rows, and what is counted says so.

A hub is an entity with tens of thousands of relations, partners or accesses. What has no more than
the bound is counted and sorted whole; of what has more, the first rows by an index are read, and
their number stands for at least so many.
"""

from __future__ import annotations

from typing import Literal

COUNTED = 5_000
"""Relations of one way, and partners, of one entity that are counted."""
LOGGED = 10_000
"""Rows of the access log of one entity that are read, the last ones in the order of their times
as text."""

LOOKED_AT = 100_000
"""Relations of one way of an entity that are looked at for those of some types."""

# Those that ranking counts as links come first, and of them those without an end: by the indexes
# of queries/at_size.sql. Parts follow, by the indexes that every memory has.
_LINK = "relation_type not in ('contiene', 'parte_de')"
_RELATIONS = f"""select id, relation_type from (
  select * from (select id, relation_type from relations where {{own}} = {{entity}} and {_LINK}
    order by valid_to, {{other}}, relation_type, id limit {{most}})
  union all
  select * from (select id, relation_type from relations
    where {{own}} = {{entity}} and ({_LINK}) is not true
    order by {{last}} limit {{most}}))"""


def relations(way: Literal["out", "in"], entity: str, most: str) -> str:
    """SQL: ``id`` and ``relation_type`` of relations of an entity in one way, in a fixed order
    that begins with those that rank. All that come before number ``most`` are there; ``entity``
    and ``most`` are SQL."""
    own, other = ("from_entity", "to_entity") if way == "out" else ("to_entity", "from_entity")
    last = "to_entity, relation_type, id" if way == "out" else "id"
    return _RELATIONS.format(own=own, other=other, entity=entity, last=last, most=most)


def first(way: Literal["out", "in"], entity: str = ":id", most: int = COUNTED) -> str:
    """SQL: the first ``most`` relations of an entity in one way, in parentheses: ``id`` and
    ``relation_type``."""
    return f"({relations(way, entity, str(most))} limit {most})"


def first_of(way: Literal["out", "in"], entity: str, wanted: str, most: int) -> str:
    """SQL: the same of those ``wanted``, a condition on ``relation_type``, among the LOOKED_AT."""
    looked_at = first(way, entity, LOOKED_AT)
    return f"(select id, relation_type from {looked_at} where {wanted} limit {most})"


def upto(rows: str, most: int | str = COUNTED) -> str:
    """SQL: how many rows a ``select`` has, counted up to one more than ``most``."""
    return f"(select count(*) from ({rows} limit {most} + 1))"
