"""Entities that want something done: to be split, restored, or made one with others.

What ``confidence`` means, by kind:

- ``split``: how clearly its topics stand apart, their mean silhouette (0 to 1).
- ``bridge``: 1 where it alone joins its sides, 0.5 where another archived entity would as well.
- ``name_clash``: the share of the entities that have the type of the one that is kept.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import times
from ..health import bridges
from ..reports.entities import rows
from ..reports.name_clashes import folded
from ..reports.queries import current, queries
from ..text import counted
from .model import (
    SHOWN,
    Looking,
    Raised,
    Raising,
    between_0_and_1,
    entity_fact,
    key_of,
    named,
    text_digest,
    text_of,
)

_SPLIT = "select q.* from ({view}) q where q.status = 'split' and q.split_score > 1 order by q.id"
_TEXTS = f"""
select o.entity_id, o.id, cast(o.content as blob) from observations o
where o.entity_id in (select value from json_each(:ids)) and {current("o", ":now")}
order by o.entity_id, o.id
"""
_LIVE = "select id, name, entity_type from entities where archived_at is null order by id"
_SIZES = f"""
select o.entity_id, count(*) from observations o
where o.entity_id in (select value from json_each(:ids)) and {current("o", ":now")} group by 1
"""
_ARCHIVED = """
select id, name, entity_type, archived_at, archived_reason from entities
where id in (select value from json_each(?)) order by id
"""
_ENDS = f"""
with ends(bridge, other) as (
  select r.from_entity, r.to_entity from relations r
  where r.from_entity in (select value from json_each(:ids)) and {current("r", ":now")}
  union select r.to_entity, r.from_entity from relations r
  where r.to_entity in (select value from json_each(:ids)) and {current("r", ":now")}
)
select ends.bridge, e.id, e.name, e.archived_at is not null
from ends join entities e on e.id = ends.other where ends.other <> ends.bridge order by 1, 2
"""


def splits(conn: sqlite3.Connection, look: Looking) -> Raising:
    """Entities over their threshold with topics that stand apart, by id.

    How it would be split is worked out when it is shown: the arguments name the entity alone.
    """
    view = queries(parametrised=True)["limbic_split_candidates"]
    found = {row["id"]: row for row in rows(conn, _SPLIT.format(view=view), look.values())}
    texts = conn.execute(_TEXTS, {"ids": json.dumps(list(found)), "now": look.now})
    for number, group in groupby(texts, key=lambda text: text[0]):
        row = found[number]
        topics = [topic for topic in json.loads(row["topics"]) if topic["stands_apart"]]
        labels = "; ".join(f"{topic['label']} ({topic['size']:,})" for topic in topics)
        yield Raised(
            key=key_of("split", number),
            kind="split",
            entity_id=number,
            title=f"{named(row['name'])} has {row['observations']:,} observations about"
            f" {len(topics):,} things",
            body=f"The threshold of its type is {row['threshold']:,}, and these topics stand apart:"
            f" {labels}. Each would become an entity of its own, linked with this one.",
            material={
                "entity": number,
                "observations": {str(i): text_digest(text_of(text)) for _, i, text in group},
                "topics": [[topic["terms"], topic["size"]] for topic in topics],
            },
            facts={
                "entity": entity_fact(number, row["name"], row["entity_type"]),
                "observations": row["observations"],
                "threshold": row["threshold"],
                "split_score": row["split_score"],
                "diversity": row["diversity"],
                "topics": topics,
            },
            action="split",
            arguments={"entity": number},
            confidence=between_0_and_1(row["diversity"] - 1),
        )


def name_clashes(conn: sqlite3.Connection, look: Looking) -> Raising:
    """Live entities whose names are the same but for case, accents and punctuation.

    That with the most observations is kept, of equals the oldest row.
    """
    by_form: dict[str, list[tuple[int, str, Any]]] = defaultdict(list)
    for number, name, kind in conn.execute(_LIVE):
        by_form[folded(text_of(name))].append((number, text_of(name), kind))
    groups = [members for members in by_form.values() if len(members) > 1]
    ids = json.dumps([member[0] for members in groups for member in members])
    sizes = dict(conn.execute(_SIZES, {"ids": ids, "now": look.now}).fetchall())
    for members in groups:
        keep = max(members, key=lambda member: (sizes.get(member[0], 0), -member[0]))
        others = [member[0] for member in members if member is not keep]
        first = members[0][0]
        called = " and ".join(named(name) for _, name, _ in members[:2])
        more = f" and {len(members) - 2:,} more" if len(members) > 2 else ""
        yield Raised(
            key=key_of("name_clash", first),
            kind="name_clash",
            entity_id=first,
            title=f"{called}{more} may be the same",
            body="Their names differ in nothing but case, accents or punctuation."
            f" {named(keep[1])} would be kept, with"
            f" {counted(sizes.get(keep[0], 0), 'observation', 'observations')} of its own; what is"
            " said of the others and links them moves there, and they are archived.",
            material={"names": {str(number): name for number, name, _ in members}},
            facts={
                "entities": [
                    {**entity_fact(*member), "observations": sizes.get(member[0], 0)}
                    for member in members[:SHOWN]
                ],
                "count": len(members),
                "keep": entity_fact(*keep),
            },
            action="merge_entities",
            arguments={"keep": keep[0], "others": others},
            confidence=sum(kind == keep[2] for _, _, kind in members) / len(members),
        )


def archived_bridges(conn: sqlite3.Connection, look: Looking) -> Raising:
    """Archived entities that still stand between live ones, by id (DDR-007, point 7)."""
    found = bridges.bridges(conn, look.now)
    if found.parts is None or not found.ids:
        return
    import networkx  # not needed to start Datasette

    cut_points = set(networkx.articulation_points(found.graph))
    ids = json.dumps(found.ids)
    entities = {row["id"]: row for row in rows(conn, _ARCHIVED, [ids])}
    ends = conn.execute(_ENDS, {"ids": ids, "now": look.now})
    for number, group in groupby(ends, key=lambda end: end[0]):
        row = entities[number]
        live = {i: text_of(name) for _, i, name, archived in group if not archived}
        through = sorted(node for node in found.graph[number] if isinstance(node, int))
        only = number in cut_points
        sides = _sides(found.parts, live)
        joined = ", ".join(named(name) for name in list(live.values())[:3])
        more = f" and {len(live) - 3:,} more" if len(live) > 3 else ""
        yield Raised(
            key=key_of("bridge", number),
            kind="bridge",
            entity_id=number,
            title=f"{named(row['name'])} is archived, and still joins live entities",
            body=f"It was archived on {day(row['archived_at'])}."
            f" {_stands(joined + more, through, entities)}"
            f" {_ONLY if only else _NOT_ONLY} Restored, it is in search again.",
            material={
                "entity": number,
                "archived_at": row["archived_at"],
                "neighbours": sorted(live),
                "through": through,
            },
            facts={
                "entity": entity_fact(number, row["name"], row["entity_type"]),
                "archived_at": row["archived_at"],
                "archived_reason": row["archived_reason"],
                "only_link": only,
                "neighbours": len(live),
                "sides": sides,
                "through": [
                    {"id": i, "name": text_of(entities[i]["name"])} for i in through[:SHOWN]
                ],
            },
            action="restore",
            arguments={"entity": number},
            confidence=1.0 if only else 0.5,
        )


_ONLY = "Nothing else joins them."
_NOT_ONLY = "Nothing live joins them, though another archived entity would as well."


def _stands(joined: str, through: list[int], entities: Mapping[int, Mapping[str, Any]]) -> str:
    others = ", ".join(named(entities[i]["name"]) for i in through[:3])
    if not through:
        return f"It stands between {joined}."
    if not joined:
        return f"It stands between {others}, archived too, which lead on to live ones."
    return f"It leads from {joined} to others by way of {others}, archived too."


def _sides(parts: bridges.Parts, live: Mapping[int, str]) -> list[dict[str, Any]]:
    """Live neighbours by what hangs together without it, the largest side first."""
    by_part: dict[bridges.Part, list[int]] = defaultdict(list)
    for number in live:
        for part in parts.touched([number]):
            by_part[part].append(number)
    sizes = {part: int(parts.sizes[part.number]) for part in by_part}
    first = sorted(by_part, key=lambda part: (-sizes[part], by_part[part][0]))[: bridges.SIDES]
    return [
        {
            "entities": sizes[part],
            "names": [{"id": i, "name": live[i]} for i in by_part[part][: bridges.NAMED]],
        }
        for part in first
    ]


def day(value: Any) -> str:
    """The day of a time, in a sentence."""
    moment = times.to_sql(value)
    return "an unknown day" if moment is None else moment[:10]
