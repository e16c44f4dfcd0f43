"""All live entities and the relations between them, as arrays: a memory of 100,000 fits in 30 MB.

Relations alone make the map. Co-occurrence joins whatever was asked for together, so what is used
most would end up beside what is used most, whatever it is about; near one entity it is drawn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import schema, scoring
from ..health.sql import current

_ENTITIES = """select e.id, e.name, e.entity_type, coalesce(a.access_count, 0)
from entities e left join entity_access a on a.entity_id = e.id
where e.archived_at is null order by e.id"""
# adopted tables may hold anything
_LINKS = (
    "select r.from_entity, r.to_entity from relations r where r.from_entity <> r.to_entity"
    " and typeof(r.from_entity) = 'integer' and typeof(r.to_entity) = 'integer'"
    f" and {current('r')}"
)
_LAST = "select (select max(id) from entities), (select max(id) from relations)"
_TYPES = (
    "select r.from_entity, r.to_entity, r.relation_type, count(*) from relations r"
    " where r.from_entity in (select value from json_each(:ids))"
    " and r.to_entity in (select value from json_each(:ids)) and r.from_entity <> r.to_entity"
    f" and {current('r')} group by 1, 2, 3 order by 1, 2, 4 desc, 3"
)


@dataclass(frozen=True, eq=False)
class Whole:
    """Entities in the order of their ids; a link is two places in it, and how many relations.

    ``importance`` is from 0 to 1. Links have no direction, and each pair is there once.
    """

    ids: Any
    names: tuple[str, ...]
    types: tuple[str, ...]
    importance: Any
    one: Any
    other: Any
    weight: Any

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def neighbours(self) -> Any:
        """How many each entity is linked to."""
        return _degrees(len(self), self.one, self.other)

    @cached_property
    def relations(self) -> int:
        return int(self.weight.sum())

    @cached_property
    def linked(self) -> Any:
        """Places of the entities that are linked to another."""
        return self.neighbours.nonzero()[0]

    @cached_property
    def digest(self) -> str:
        """Another one where an entity or a link is another: what communities depend on."""
        found = blake2b(digest_size=16)
        for each in (self.ids, self.one, self.other, self.weight):
            found.update(each.tobytes() + b"|")
        return found.hexdigest()

    def place(self, entity: int) -> int | None:
        """Where the entity of that id stands; None where there is no such live one."""
        at = int(self.ids.searchsorted(entity))
        return at if at < len(self) and self.ids[at] == entity else None

    def foremost(self, members: Any) -> int:
        """The most important of some, by what it is linked to where that is equal."""
        return int(members[self.order(members)[0]])

    def order(self, members: Any) -> Any:
        """The order that has the most important of ``members`` first."""
        import numpy

        return numpy.lexsort((members, -self.neighbours[members], -self.importance[members]))


def read(conn: sqlite3.Connection, now: str) -> Whole:
    """The live entities, and the relations that hold at ``now``, by two statements.

    Importance is that of the ranking, over its highest value; where nothing has been used yet,
    it is the share of what an entity is linked to. Raises NotAMemory.
    """
    import numpy

    schema.require_memory(conn)
    ids, names, types, used = [], [], [], []
    known: dict[str, str] = {}
    for entity, name, entity_type, count in conn.execute(_ENTITIES):
        ids.append(entity)
        names.append("" if name is None else str(name))
        each = "" if entity_type is None else str(entity_type)
        types.append(known.setdefault(each, each))
        used.append(count if isinstance(count, (int, float)) and count > 0 else 0)
    flat = numpy.fromiter(
        (end for row in conn.execute(_LINKS, {"now": now}) for end in row), "i8"
    ).reshape(-1, 2)
    places = numpy.array(ids, "i8")
    one, other, weight = _links(places, flat)
    importance = _importance(
        numpy.array(used, "f8"), _degrees(len(ids), one, other).astype("f8"), numpy
    )
    return Whole(places, tuple(names), tuple(types), importance, one, other, weight)


def _links(ids: Any, ends: Any) -> tuple[Any, Any, Any]:
    """Each pair of live entities once, as places among ``ids``, and how many relations it has."""
    import numpy

    if not len(ids):
        empty = numpy.zeros(0, "i8")
        return empty, empty, empty
    at = numpy.minimum(numpy.searchsorted(ids, ends), len(ids) - 1)
    at = at[(ids[at] == ends).all(axis=1)]
    pairs = at.min(axis=1) * len(ids) + at.max(axis=1)
    pairs, weight = numpy.unique(pairs, return_counts=True)
    return pairs // len(ids), pairs % len(ids), weight


def _degrees(count: int, one: Any, other: Any) -> Any:
    import numpy

    return numpy.bincount(one, minlength=count) + numpy.bincount(other, minlength=count)


def _importance(used: Any, linked: Any, numpy: Any) -> Any:
    if not len(used):
        return used
    if used.max() <= 0:
        return numpy.log2(1 + linked) / max(1.0, float(numpy.log2(1 + linked.max())))
    most = 1 + scoring.BETA_DEG
    connected = numpy.minimum(linked, scoring.D_MAX) / scoring.D_MAX
    return (
        numpy.log2(1 + used)
        / numpy.log2(1 + used.max())
        * (1 + scoring.BETA_DEG * connected)
        / most
    )


def is_small(conn: sqlite3.Connection, most: int) -> bool:
    """Whether it is plain, without counting, that there are few entities and relations."""
    schema.require_memory(conn)
    entity, relation = conn.execute(_LAST).fetchone()
    return (entity or 0) <= most and (relation or 0) <= 5 * most


def relation_types(
    conn: sqlite3.Connection, ids: Iterable[int], now: str
) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """Of each directed pair among these entities the relation types, most frequent first."""
    found: dict[tuple[int, int], list[tuple[str, int]]] = {}
    asked = {"ids": json.dumps([int(each) for each in ids]), "now": now}
    for source, target, kind, count in conn.execute(_TYPES, asked):
        found.setdefault((source, target), []).append(("" if kind is None else str(kind), count))
    return found
