"""Entities that may have had their day.

Among those that nobody asked for in a long time (``limbic_stale_entities``) only what is worth a
person's time, and nothing that one yes makes of another:

- None of a type that does not age: an old domain is no stale one.
- None that 3 or more are linked to: old, but needed. Archived ones count, so that archiving one
  neighbour after another lowers nobody's standing.
- None that holds others together: archived it would be a bridge, to be restored.
- None that is part of an entity (``contiene`` and ``parte_de``, as a split leaves them) which is
  none itself, unless it was asked for by itself since.

Its confidence is how little would be missed, 1 / (1 + neighbours + accesses): 1 where nobody ever
asked for it and nothing leads there.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..health import bridges
from ..health.sql import current
from ..reports.consolidation import CENTRAL_DEGREE
from ..reports.entities import rows
from ..reports.queries import queries
from ..schema import SPLIT_RELATIONS
from ..text import counted
from .entities import day
from .model import Looking, Raised, Raising, entity_fact, key_of, named

_STALE = "select q.* from ({view}) q order by q.id"
_LIVE = "select id from entities where archived_at is null"
_LINKS = f"""
select r.from_entity, r.to_entity from relations r
join entities f on f.id = r.from_entity join entities t on t.id = r.to_entity
where r.from_entity <> r.to_entity and {current("r")}
"""
# both ways, the parent live, and the part not asked for later than the parent
_PARTS = f"""
select p.to_entity, p.from_entity from relations p
join relations c on c.from_entity = p.to_entity and c.to_entity = p.from_entity
join entities e on e.id = p.from_entity
left join entity_access own on own.entity_id = p.to_entity
left join entity_access its on its.entity_id = p.from_entity
where p.to_entity in (select value from json_each(:ids)) and p.to_entity <> p.from_entity
and p.relation_type = '{SPLIT_RELATIONS[0]}' and c.relation_type = '{SPLIT_RELATIONS[1]}'
and {current("p")} and {current("c")} and e.archived_at is null
and (own.last_access is null or own.last_access <= its.last_access)
"""


def archive_candidates(conn: sqlite3.Connection, look: Looking) -> Raising:
    """One of each, by id."""
    stale = {row["id"]: row for row in _stale(conn, look)}
    neighbours = _neighbours(conn, look.now) if stale else {}
    live = {row[0] for row in conn.execute(_LIVE)} if stale else set()
    for number in sorted(_worth_a_look(conn, look.now, stale, neighbours, live)):
        beside = neighbours.get(number, set())
        yield _candidate(stale[number], len(beside & live), len(beside))


def _stale(conn: sqlite3.Connection, look: Looking) -> Iterable[dict[str, Any]]:
    view = queries(parametrised=True)["limbic_stale_entities"]
    for row in rows(conn, _STALE.format(view=view), look.values()):
        kind = row["entity_type"]
        if look.settings.half_life_days(kind if isinstance(kind, str) else None) is not None:
            yield row


def _neighbours(conn: sqlite3.Connection, now: str) -> dict[int, set[int]]:
    """Who is linked with whom, archived or not."""
    found: dict[int, set[int]] = defaultdict(set)
    for one, other in conn.execute(_LINKS, {"now": now}):
        found[one].add(other)
        found[other].add(one)
    return found


def _worth_a_look(
    conn: sqlite3.Connection,
    now: str,
    stale: Iterable[int],
    neighbours: Mapping[int, set[int]],
    live: set[int],
) -> set[int]:
    few = {i for i in stale if len(neighbours.get(i, ())) < CENTRAL_DEGREE}
    if not few:
        return few
    few -= _between(conn, now, few, neighbours, live)
    return _without_parts(conn, now, few)


def _between(
    conn: sqlite3.Connection,
    now: str,
    few: Iterable[int],
    neighbours: Mapping[int, set[int]],
    live: set[int],
) -> set[int]:
    """Those of ``few`` that hold others together, now or if what is archived were not."""
    import networkx  # not needed to start Datasette

    whole = networkx.Graph(
        (one, other) for one, others in neighbours.items() for other in others if one < other
    )
    found = set(networkx.articulation_points(whole))
    found.update(networkx.articulation_points(whole.subgraph(live & set(whole)).copy()))
    archived = set(bridges.bridges(conn, now).ids)
    for number in few if archived else ():
        beside = neighbours.get(number, set())
        # between what is left of its part and what the bridge leads on to
        if beside & archived and (beside & live or len(beside & archived) > 1):
            found.add(number)
    return found


def _without_parts(conn: sqlite3.Connection, now: str, few: set[int]) -> set[int]:
    """Parts go where what they are part of is no candidate, and so on down to parts of those."""
    parents: dict[int, set[int]] = defaultdict(set)
    for part, parent in conn.execute(_PARTS, {"ids": json.dumps(sorted(few)), "now": now}):
        parents[part].add(parent)
    left = set(few)
    while gone := {part for part in left if not parents.get(part, set()) <= left}:
        left -= gone
    return left


def _candidate(row: Mapping[str, Any], degree: int, links: int) -> Raised:
    number, count = row["id"], row["access_count"]
    if count:
        last, often = day(row["last_access"]), counted(count, "time", "times")
        reason = f"not accessed since {last}, and {often} in all before"
        said = f"It was last accessed on {last}, {often} in all."
    else:
        reason = f"made on {day(row['created_at'])} and never accessed"
        said = f"It was {reason}."
    return Raised(
        key=key_of("archive_candidate", number),
        kind="archive_candidate",
        entity_id=number,
        title=f"{named(row['name'])} may have had its day",
        body=f"{said} {_linked(degree, links)} Archived, it is out of search until it is"
        " restored; nothing is deleted.",
        material={
            "entity": number,
            "access_count": count,
            "last_access": row["last_access"],
            "last_activity_at": row["last_activity_at"],
        },
        facts={
            "entity": entity_fact(number, row["name"], row["entity_type"]),
            "access_count": count,
            "last_access": row["last_access"],
            "created_at": row["created_at"],
            "last_activity_at": row["last_activity_at"],
            "observations": row["observations"],
            "degree": degree,
            "links": links,
        },
        action="archive",
        arguments={"entity": number, "reason": reason},
        confidence=1 / (1 + links + max(0, count)),
    )


def _linked(degree: int, links: int) -> str:
    if not links:
        return "No entity is linked with it."
    archived = links - degree
    some = f", {archived:,} of them archived" if archived else ""
    return f"{counted(links, 'entity is', 'entities are')} linked with it{some}."
