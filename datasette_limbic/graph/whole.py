"""All live entities and the relations between them, as arrays: a memory of 100,000 fits in 30 MB.

Relations alone make the map. Co-occurrence joins whatever was asked for together, so what is used
most would end up beside what is used most, whatever it is about; near one entity it is drawn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import schema
from ..config import Settings
from ..health.sql import current
from .model import text_of

# as in queries/search.sql: an adopted table may hold anything
_USED = "max(0, ifnull(cast({}access_count as integer), 0))"
_ENTITIES = f"""select e.id, e.name, e.entity_type, {_USED.format("a.")}
from entities e left join entity_access a on a.entity_id = e.id
where e.archived_at is null order by e.id"""
_MOST_USED = f"select ifnull(max({_USED.format('')}), 0) from entity_access"
# The second is what the ranking counts, which goes by the end alone.
_LINKS = (
    f"select r.from_entity, r.to_entity, {current('r')},"
    f" ifnull(r.relation_type not in {schema.SPLIT_RELATIONS}, 0)"
    " and ifnull(julianday(r.valid_to) > julianday(:now), 1) from relations r"
    " where typeof(r.from_entity) = 'integer' and typeof(r.to_entity) = 'integer'"
)
_NEXT = """select min(at) from (
select datetime(valid_from) as at from relations where valid_from is not null
union all select datetime(valid_to) from relations where valid_to is not null)
where at > datetime(:now)"""
_FEW = """select (select count(*) from (select 1 from entities limit :most + 1)) <= :most
and (select count(*) from (select 1 from relations limit 5 * :most + 1)) <= 5 * :most"""
_TYPES = (
    "select r.from_entity, r.to_entity, r.relation_type, count(*) from relations r"
    " where r.from_entity in (select value from json_each(:ids))"
    " and r.to_entity in (select value from json_each(:ids)) and r.from_entity <> r.to_entity"
    f" and {current('r')} group by 1, 2, 3 order by 1, 2, 4 desc, 3"
)


@dataclass(frozen=True, eq=False)
class Whole:
    """Entities in the order of their ids; a link is two places in it, and how many relations.

    ``importance`` is from 0 to 1, ``held`` how many relations of each hold, also those with itself
    or with what is archived. Links have no direction, and each pair is there once. ``by_links``
    says that nothing has been used yet, ``until`` when the next relation begins or ends.
    """

    ids: Any
    names: tuple[str, ...]
    types: tuple[str, ...]
    importance: Any
    held: Any
    one: Any
    other: Any
    weight: Any
    by_links: bool = False
    until: str | None = None

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
    def links(self) -> str:
        """Another one where a link or what is linked is another: what communities depend on."""
        return _digest(
            self.ids[self.linked],
            self.linked.searchsorted(self.one),
            self.linked.searchsorted(self.other),
            self.weight,
        )

    @cached_property
    def shape(self) -> str:
        """Another one where an entity or a link is another."""
        return _digest(self.ids, self.one, self.other, self.weight)

    def numbered(self, groups: Sequence[Any]) -> Any:
        """Of each place the number of the group of places that it is in; -1 where in none."""
        import numpy

        labels = numpy.full(len(self), -1, "i8")
        for number, members in enumerate(groups):
            labels[members] = number
        return labels

    def between(self, labels: Any) -> tuple[Any, Any, Any]:
        """Labels of both ends of the links whose ends both have one, and their weights."""
        one, other = labels[self.one], labels[self.other]
        both = (one >= 0) & (other >= 0)
        return one[both], other[both], self.weight[both]

    def among(self, members: Any) -> tuple[Any, Any, Any]:
        """The links between ``members``, as places among these."""
        import numpy

        places = numpy.full(len(self), -1, "i8")
        places[members] = numpy.arange(len(members))
        return self.between(places)

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


def read(conn: sqlite3.Connection, now: str, settings: Settings | None = None) -> Whole:
    """The live entities, and the relations that hold at ``now``, by four statements.

    Importance is that of the ranking, over its highest value; where nothing has been used yet,
    it is the share of what an entity is linked to. Raises NotAMemory.
    """
    import numpy

    schema.require_memory(conn)
    ids, names, types, used = [], [], [], []
    known: dict[str, str] = {}
    for entity, name, entity_type, count in conn.execute(_ENTITIES):
        ids.append(entity)
        names.append(text_of(name))
        each = text_of(entity_type)
        types.append(known.setdefault(each, each))
        used.append(count)
    rows = numpy.fromiter(
        (value for row in conn.execute(_LINKS, {"now": now}) for value in row), "i8"
    ).reshape(-1, 4)
    ends, holds, counts = rows[:, :2], rows[:, 2] > 0, rows[:, 3] > 0
    places = numpy.array(ids, "i8")
    one, other, weight = _links(places, ends[holds])
    most = int(conn.execute(_MOST_USED).fetchone()[0])
    if most:
        degrees = _degrees(len(ids), *_links(places, ends[counts])[:2])
        importance = _importance(numpy.array(used, "f8"), most, degrees, settings or Settings())
    else:
        linked = _degrees(len(ids), one, other)
        importance = numpy.log1p(linked) / numpy.log1p(max(1, linked.max(initial=0)))
    return Whole(
        places,
        tuple(names),
        tuple(types),
        importance,
        _held(places, ends[holds]),
        one,
        other,
        weight,
        by_links=not most,
        until=conn.execute(_NEXT, {"now": now}).fetchone()[0],
    )


def _places(ids: Any, ends: Any) -> tuple[Any, Any]:
    """Where each end stands among ``ids``, and whether it does."""
    import numpy

    if not len(ids):
        return numpy.zeros(ends.shape, "i8"), numpy.zeros(ends.shape, bool)
    at = numpy.minimum(numpy.searchsorted(ids, ends), len(ids) - 1)
    return at, ids[at] == ends


def _links(ids: Any, ends: Any) -> tuple[Any, Any, Any]:
    """Each pair of live entities once, as places among ``ids``, and how many relations it has."""
    import numpy

    at, known = _places(ids, ends)
    at = at[known.all(axis=1) & (ends[:, 0] != ends[:, 1])]
    count = max(1, len(ids))
    pairs = at.min(axis=1) * count + at.max(axis=1)
    pairs, weight = numpy.unique(pairs, return_counts=True)
    return pairs // count, pairs % count, weight


def _held(ids: Any, ends: Any) -> Any:
    """How many relations each has; one with itself counts once."""
    import numpy

    at, known = _places(ids, ends)
    known[:, 1] &= ends[:, 0] != ends[:, 1]
    return numpy.bincount(at[known], minlength=len(ids))


def _degrees(count: int, one: Any, other: Any) -> Any:
    import numpy

    return numpy.bincount(one, minlength=count) + numpy.bincount(other, minlength=count)


def _importance(used: Any, most: int, degrees: Any, settings: Settings) -> Any:
    """``scoring.compute_importance`` of all, over its highest value."""
    import numpy

    p = settings.parameters()
    connected = numpy.minimum(degrees, p.d_max) / p.d_max
    return numpy.log1p(used) / numpy.log1p(most) * (1 + p.beta_deg * connected) / (1 + p.beta_deg)


def _digest(*arrays: Any) -> str:
    found = blake2b(digest_size=16)
    for each in arrays:
        found.update(each.tobytes() + b"|")
    return found.hexdigest()


def is_small(conn: sqlite3.Connection, most: int) -> bool:
    """Whether there are at most so many entities, and five relations to each; counts no more."""
    schema.require_memory(conn)
    return bool(conn.execute(_FEW, {"most": most}).fetchone()[0])


def relation_types(
    conn: sqlite3.Connection, ids: Iterable[int], now: str
) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """Of each directed pair among these entities the relation types, most frequent first."""
    found: dict[tuple[int, int], list[tuple[str, int]]] = {}
    asked = {"ids": json.dumps([int(each) for each in ids]), "now": now}
    for source, target, kind, count in conn.execute(_TYPES, asked):
        found.setdefault((source, target), []).append((text_of(kind), count))
    return found
