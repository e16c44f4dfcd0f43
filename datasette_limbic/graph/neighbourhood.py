"""What is near an entity: its relations, what those lead to, and what comes up with it.

A fixed number of statements (queries/graph.sql), however much there is; of a hub with a hundred
thousand neighbours the most important are shown and the others counted.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import schema, scoring, times
from ..bounds import COUNTED, LOOKED_AT, first, first_of, upto
from ..config import Settings
from ..errors import BadParameter, UnknownEntity
from ..reports.queries import current
from .model import Edge, Graph, Node, text_of

LIMIT = 60
MOST = 80
"""Nodes of a picture: with more the page would grow heavy, and nothing could be made out."""
# Of the nodes: how many may be there for nothing but co-occurrence, and how many are kept for
# the second hop where it is asked for.
PARTNERS = 6
SECOND_HOP = 0.4
# Of each first neighbour, so many relations either way are followed.
FOLLOWED = 40
RELATIONS = 4000
"""Rows read between the entities of a picture."""
MOST_EDGES = 80
"""Edges drawn: with more, nothing can be made out, and the page grows heavy."""
PAIRS_PER_NODE = 0.3
"""Dashed lines drawn, for each node: the strongest."""
_PART = re.compile(r"^-- (\w+): ", re.M)
_FILLED = re.compile(
    r"\{(begun|current|first_out|first_in|asked_out|asked_in|more|more_looked_at):([:\w.]+)\}"
)
_ASKED = "relation_type in (select value from json_each(:types))"


@dataclass(frozen=True)
class RelationType:
    """A type of the relations of an entity that can be asked for, and how many it has."""

    name: str
    count: int


@dataclass(frozen=True)
class Neighbourhood:
    """The picture, and what its filter offers: types of the relations of its focus; of these at
    least so many, and perhaps others, where ``types_at_least`` says that not all were counted."""

    graph: Graph
    relation_types: tuple[RelationType, ...]
    types_at_least: bool
    name: str
    archived: bool


def neighbourhood(
    conn: sqlite3.Connection,
    entity_id: int,
    *,
    hops: int = 1,
    relation_types: Sequence[str] | None = None,
    co_occurrence: bool = True,
    archived: bool = True,
    limit: int = LIMIT,
    now: str | None = None,
    settings: Settings | None = None,
) -> Neighbourhood:
    """What is within ``hops`` (1 or 2) of an entity, at most ``limit`` nodes with itself.

    ``relation_types`` are the only ones followed, None follows all. Importance is the ranking's,
    measured against the whole memory, from 0 to 1. Raises UnknownEntity, BadParameter, NotAMemory.
    """
    if hops not in (1, 2):
        raise BadParameter(f"hops is {hops!r:.40}: use 1 or 2")
    if not 1 <= limit <= MOST:
        raise BadParameter(f"limit is {limit!r:.40}: use a whole number from 1 to {MOST}")
    schema.require_memory(conn)
    settings = settings or Settings()
    args: dict[str, Any] = {
        "focus": entity_id,
        "types": json.dumps(list(relation_types)) if relation_types else None,
        "archived": int(archived),
        "now": now or times.now_sql(),
        "d_max": max(1, int(settings.d_max)),
    }
    room = limit - 1
    partners = _partners(conn, args, min(PARTNERS, room)) if co_occurrence else []
    near_it, total, kinds, cut, types_at_least = _first(conn, args, room)
    # what only comes up with it has its place beside the relations, not instead of all of them
    others = [one for one in partners if one not in near_it]
    kept = room if hops == 1 else max(1, round(room * (1 - SECOND_HOP)))
    near = [*near_it[: max(0, kept - len(others))], *others][:room]
    far: list[int] = []
    seen = 0
    if hops == 2 and near:
        far, seen, more = _further(conn, args, near, room - len(near))
        cut = cut or more
        # the room that the second hop does not fill
        rest = [one for one in near_it if one not in near and one not in far]
        near += rest[: max(0, room - len(near) - len(far))]
    missing = [one for one in near_it if one not in near]
    left_out = total - len(near_it) + len(missing)
    if hops == 2:
        # a neighbour without room may be among those of the second hop, shown or not
        left_out = max(seen - len(far), left_out - sum(one in far for one in missing))
        cut = cut or total > len(near_it) or bool(missing)
    distance = {entity_id: 0, **dict.fromkeys(far, 2), **dict.fromkeys(near, 1)}
    nodes = _nodes(conn, args, distance, settings)
    found = next((node for node in nodes if node.id == entity_id), None)
    if found is None:
        raise UnknownEntity(
            f"this memory has no entity with the id {entity_id}: search for it by name"
        )
    shown = json.dumps([node.id for node in nodes])
    edges, unseen = _drawn(
        _relations(conn, {**args, "shown": shown, "limit": RELATIONS}), entity_id, nodes
    )
    if co_occurrence:
        most = max(PARTNERS, round(len(nodes) * PAIRS_PER_NODE))
        edges += _pairs(conn, {"shown": shown, "limit": most})
    by_links = all(node.importance == 0 for node in nodes) and not _most(conn)
    graph = Graph(
        _sized_by_links(nodes) if by_links else nodes,
        edges,
        focus=entity_id,
        left_out=left_out,
        at_least=cut,
        edges_left_out=unseen,
        by_links=by_links,
    )
    return Neighbourhood(graph, kinds, types_at_least, found.name, found.archived)


@cache
def statement(part: str) -> str:
    """One of the statements of queries/graph.sql."""
    text = (resources.files("datasette_limbic") / "queries" / "graph.sql").read_text("utf-8")
    pieces = _PART.split(_FILLED.sub(_fill, text))
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))[part].partition("\n")[2]


def _fill(match: re.Match[str]) -> str:
    """Of a relation, whether it holds at ``:now``, as the reports have it, or has begun by then. Of
    an entity, its first relations of one way, or the first of the types that are asked for, and
    whether it has more than those of either."""
    kind, name = match.groups()
    if kind == "begun":
        begins = f"{name}.valid_from"
        return f"({begins} is null or coalesce(datetime({begins}) <= datetime(:now), 1))"
    return {
        "current": lambda: current(name, ":now"),
        "first_out": lambda: first("out", name),
        "first_in": lambda: first("in", name),
        # one more tells that there are others
        "asked_out": lambda: first_of("out", name, _ASKED, COUNTED + 1),
        "asked_in": lambda: first_of("in", name, _ASKED, COUNTED + 1),
        "more": lambda: _has_more(name, COUNTED),
        "more_looked_at": lambda: _has_more(name, LOOKED_AT),
    }[kind]()


def _has_more(entity: str, most: int) -> str:
    """SQL: whether an entity has more relations than ``most`` of either way."""
    ends = ("from_entity", "to_entity")
    counts = (upto(f"select 1 from relations where {end} = {entity}", most) for end in ends)
    return f"max({', '.join(counts)}) > {most}"


def _first(
    conn: sqlite3.Connection, args: Mapping[str, Any], limit: int
) -> tuple[list[int], int, tuple[RelationType, ...], bool, bool]:
    """The most accessed neighbours, how many there are, the types of the relations, and whether
    there are more neighbours and more relations than were looked at."""
    nodes, total, kinds = [], 0, []
    more: dict[str, bool] = {}
    asked = {**args, "limit": limit, "counted": COUNTED}
    for part, node, kind, n in conn.execute(statement("near"), asked):
        if part == "neighbour":
            nodes.append(node)
            total = n
        elif part != "type":
            more[part] = bool(n)
        elif "\ufffd" not in kind:  # what is no UTF-8 could not be asked for
            kinds.append(RelationType(kind, n))
    if not limit:
        # no row, no count: that of a picture of one node is asked for with one more
        total = _first(conn, args, 1)[1]
    cut = more["more asked"] if args["types"] else more["more"]
    return nodes, total, tuple(kinds), cut, more["more"]


def _partners(conn: sqlite3.Connection, args: Mapping[str, Any], limit: int) -> list[int]:
    asked = {**args, "limit": limit, "counted": COUNTED}
    often = [row[0] for row in conn.execute(statement("often"), asked)]
    if len(often) < limit:
        others = conn.execute(statement("partners"), asked)
        often += [row[0] for row in others if row[0] not in often]
    return often[:limit]


def _further(
    conn: sqlite3.Connection, args: Mapping[str, Any], near: Sequence[int], limit: int
) -> tuple[list[int], int, bool]:
    """The most accessed of the second hop, how many were seen, and whether there are more."""
    asked = {**args, "shown": json.dumps(list(near)), "limit": max(1, limit), "each": FOLLOWED}
    rows = conn.execute(statement("further"), asked).fetchall()
    shown = [row[0] for row in rows][: max(0, limit)]
    total, cut = (rows[0][1], bool(rows[0][2])) if rows else (0, False)
    return shown, total, cut


def _nodes(
    conn: sqlite3.Connection,
    args: Mapping[str, Any],
    distance: Mapping[int, int],
    settings: Settings,
) -> list[Node]:
    most = _most(conn)
    p = settings.parameters()
    rows = conn.execute(statement("nodes"), {**args, "shown": json.dumps(list(distance))})
    nodes = []
    for number, name, kind, archived_at, accesses, relations, at_least, degree in rows:
        importance = scoring.compute_importance(
            accesses, most, degree, beta_deg=p.beta_deg, d_max=p.d_max
        )
        nodes.append(
            Node(
                number,
                text_of(name),
                text_of(kind),
                importance=min(1.0, importance / (1 + p.beta_deg)),
                archived=archived_at is not None,
                distance=distance[number],
                relations=relations,
                at_least=bool(at_least),
            )
        )
    return nodes


def _most(conn: sqlite3.Connection) -> int:
    """The highest access count of the memory."""
    return int(conn.execute(statement("most")).fetchone()[0])


def _sized_by_links(nodes: Sequence[Node]) -> list[Node]:
    most = math.log1p(max((node.relations for node in nodes), default=0)) or 1.0
    return [replace(node, importance=math.log1p(node.relations) / most) for node in nodes]


def _drawn(edges: list[Edge], focus: int, nodes: Sequence[Node]) -> tuple[list[Edge], int]:
    """The edges to draw, and how many are left out: those of the focus stay, then what links
    the most important."""
    if len(edges) <= MOST_EDGES:
        return edges, 0
    weight = {node.id: node.importance + (10 if node.id == focus else 0) for node in nodes}
    order = sorted(edges, key=lambda e: (-weight[e.source] - weight[e.target], e.source, e.target))
    return order[:MOST_EDGES], len(edges) - MOST_EDGES


def _relations(conn: sqlite3.Connection, args: Mapping[str, Any]) -> list[Edge]:
    """One edge for all relations of a pair; its arrow is that of the direction with more."""
    pairs: dict[tuple[int, int], list[tuple[int, str, bool]]] = defaultdict(list)
    for source, target, kind, ended in conn.execute(statement("relations"), args):
        pair = min(source, target), max(source, target)
        pairs[pair].append((source, text_of(kind), bool(ended)))
    return [_edge(a, b, rows) for (a, b), rows in sorted(pairs.items())]


def _edge(a: int, b: int, rows: Iterable[tuple[int, str, bool]]) -> Edge:
    rows = list(rows)
    # what holds is drawn; what has ended only where nothing else links the two
    live = [row for row in rows if not row[2]]
    drawn = live or rows
    ahead = Counter(kind for source, kind, _ in drawn if source == a)
    back = Counter(kind for source, kind, _ in drawn if source == b)
    if back.total() > ahead.total():
        a, b, ahead, back = b, a, back, ahead
    return Edge(a, b, _frequent(ahead), count=len(drawn), ended=not live, back=_frequent(back))


def _frequent(kinds: Counter[str]) -> tuple[str, ...]:
    """Each type once, the most frequent first."""
    return tuple(sorted(kinds, key=lambda kind: (-kinds[kind], kind)))


def _pairs(conn: sqlite3.Connection, args: Mapping[str, Any]) -> list[Edge]:
    return [
        Edge(a, b, kind="co_occurrence", count=n, directed=False)
        for a, b, n in conn.execute(statement("pairs"), args)
    ]
