"""One sheet of the map: all of a small memory, or its communities, or what is in one of these.

A community is called by any of its entities and how deep it lies: level 1 are the communities of
the whole, level 2 those within one of them. So an address stays right when others change, also
where another entity has become the most important one of its community.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..errors import UnknownEntity
from .communities import MOST, Part, communities, parts
from .model import Edge, Graph, Node
from .modularity import joined
from .whole import Whole, relation_types

NOT_LINKED = -(2**63)
"""Id of the node that stands for all entities without a relation: SQLite gives it to no entity."""
MOST_EDGES = 120
"""Lines drawn between entities: with more, nothing can be made out, and the page grows heavy."""
WHOLE = 0, None
"""The ``key`` of the whole."""
LINES = 2
"""Lines that are always drawn of each community, its strongest: more would hide each other."""
TYPES = 3
"""Entity types that are named of a community."""


@dataclass(frozen=True)
class Community:
    """What is said of one: ``id`` and ``name`` are those of its most important entity.

    ``level`` opens it, and is None where it cannot be opened: all is drawn, or it is one entity.
    ``communities`` is how many share the place, ``relations`` how many are within, ``leaving``
    how many lead out of it, to what is on the same sheet.
    """

    id: int
    name: str
    members: int
    level: int | None
    communities: int
    relations: int
    leaving: int
    types: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Sheet:
    """What one page of the map shows.

    ``path`` are the communities around it, the outermost first, the last is the one that is
    opened; none is the whole. ``unlinked`` entities have no relation: beside communities they are
    node NOT_LINKED, beside entities they are drawn one by one where there is room for all.
    """

    graph: Graph
    communities: tuple[Community, ...]
    path: tuple[Community, ...]
    entities: int
    relations: int
    unlinked: int
    entities_left_out: int = 0
    community_of: dict[int, int] = field(default_factory=dict)
    """The community, by id, of each entity that is drawn, where communities were looked for."""


def first_parts(whole: Whole) -> list[Part]:
    """The communities of the whole: what takes long, and does not depend on what is opened."""
    return parts(whole, whole.linked)


@dataclass(frozen=True, eq=False)
class Opened:
    """What is shown: the parts around it from the outermost, its ``members``, and the parts of
    these; none where entities are drawn."""

    path: tuple[Part, ...]
    members: Any
    children: Sequence[Part]

    @property
    def key(self) -> Hashable:
        """The same for whatever entity of it was asked for."""
        return len(self.path), int(self.members[0]) if self.path else None


def opened(
    whole: Whole, first: Sequence[Part], entity: int | None = None, level: int = 1
) -> Opened:
    """The whole, or the community of ``entity`` at ``level``: the innermost where that is deeper.

    A memory that is drawn whole is one community. Raises UnknownEntity where no relation leads to
    the entity, or there is none.
    """
    if entity is None:
        return Opened((), whole.linked, first)
    place = whole.place(entity)
    if place is None or not whole.neighbours[place]:
        raise UnknownEntity(
            f"no relation leads to an entity with the id {entity}, so that it is in no community: "
            "open the whole map"
        )
    path: list[Part] = []
    members, children = whole.linked, first
    while children and len(path) < level:
        path.append(_with(children, place))
        members = path[-1].members
        children = path[-1].parts(whole)
    return Opened(tuple(path), members, children)


def sheet(conn: sqlite3.Connection, whole: Whole, shown: Opened, *, now: str) -> Sheet:
    """What is opened, drawn. One statement, where entities are."""
    path = tuple(_community(whole, part, depth) for depth, part in enumerate(shown.path, 1))
    unlinked = 0 if path else len(whole) - len(whole.linked)
    if shown.children:
        return _of_communities(whole, shown, path, unlinked)
    return _of_entities(conn, whole, shown.members, path, unlinked, now)


def _with(children: Iterable[Part], place: int) -> Part:
    for part in children:
        at = int(part.members.searchsorted(place))
        if at < len(part) and part.members[at] == place:
            return part
    raise LookupError(place)


def _community(
    whole: Whole, part: Part, level: int | None, relations: int = 0, leaving: int = 0
) -> Community:
    head = whole.foremost(part.members)
    return Community(
        id=int(whole.ids[head]),
        name=whole.names[head],
        members=len(part),
        level=level if len(part) > 1 else None,
        communities=part.communities,
        relations=relations,
        leaving=leaving,
        types=_main_types(whole, part.members),
    )


def _counted(whole: Whole, groups: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Relations within each group, and pairs of groups with the relations between them."""
    import numpy

    one, other, weight = whole.between(whole.numbered(groups))
    inner = one == other
    within = numpy.bincount(one[inner], weights=weight[inner], minlength=len(groups))
    return within.astype("i8"), *joined(len(groups), one, other, weight)


def _of_communities(
    whole: Whole, shown: Opened, path: tuple[Community, ...], unlinked: int
) -> Sheet:
    import numpy

    children = shown.children
    within, pairs, counts = _counted(whole, [part.members for part in children])
    leaving = numpy.zeros(len(children), "i8")
    for side in (0, 1):
        numpy.add.at(leaving, pairs[:, side], counts)
    found = [
        _community(whole, part, len(path) + 1, int(within[at]), int(leaving[at]))
        for at, part in enumerate(children)
    ]
    nodes = [_node(whole, each) for each in found]
    if unlinked:
        nodes.append(_not_linked(whole))
    order = numpy.lexsort((pairs[:, 1], pairs[:, 0], -counts))
    edges = [
        Edge(found[a].id, found[b].id, count=n, directed=False)
        for a, b, n in zip(*pairs[order].T.tolist(), counts[order].tolist(), strict=True)
    ]
    drawn = _strongest(edges, LINES)
    return Sheet(
        graph=Graph(nodes, drawn, edges_left_out=len(edges) - len(drawn)),
        communities=tuple(found),
        path=path,
        entities=len(shown.members) + unlinked,
        relations=int(within.sum() + counts.sum()),
        unlinked=unlinked,
    )


def _strongest(edges: Iterable[Edge], each: int) -> list[Edge]:
    """Of edges, strongest first, those among the first of one of their ends."""
    drawn: Counter[int] = Counter()
    found = []
    for edge in edges:
        if min(drawn[edge.source], drawn[edge.target]) < each:
            found.append(edge)
            drawn.update((edge.source, edge.target))
    return found


def _node(whole: Whole, community: Community) -> Node:
    """A community as a node; one of a single entity is that entity."""
    at = whole.place(community.id)
    if community.members == 1 and at is not None:
        return entity_node(whole, at)
    return Node(
        community.id,
        community.name,
        community.types[0][0],
        importance=1.0,
        kind="community",
        members=community.members,
        relations=community.relations,
    )


def entity_node(whole: Whole, at: int) -> Node:
    """The entity at a place of the whole."""
    return Node(
        int(whole.ids[at]),
        whole.names[at],
        whole.types[at],
        importance=float(whole.importance[at]),
        relations=int(whole.held[at]),
    )


def _not_linked(whole: Whole) -> Node:
    alone = (whole.neighbours == 0).nonzero()[0]
    kind = _main_types(whole, alone)[0][0]
    return Node(NOT_LINKED, "not linked", kind, kind="community", members=len(alone))


def _main_types(whole: Whole, members: Any) -> tuple[tuple[str, int], ...]:
    """The most frequent types of some entities, with how many there are."""
    types = Counter(whole.types[at] for at in members.tolist())
    return tuple(sorted(types.items(), key=lambda each: (-each[1], each[0]))[:TYPES])


def _of_entities(
    conn: sqlite3.Connection,
    whole: Whole,
    members: Any,
    path: tuple[Community, ...],
    unlinked: int,
    now: str,
) -> Sheet:
    """``members``, at most MOST, and the entities without relations where there is room."""
    import numpy

    alone = numpy.flatnonzero(whole.neighbours == 0) if unlinked else members[:0]
    one_by_one = len(members) + len(alone) <= MOST
    shown = numpy.concatenate([members, alone]) if one_by_one else members
    nodes = [entity_node(whole, at) for at in shown.tolist()]
    groups = communities(whole, members) if len(members) else []
    within, pairs, counts = _counted(whole, groups)
    found, community_of = [], {}
    for number, group in enumerate(groups):
        leaving = int(counts[(pairs == number).any(axis=1)].sum())
        each = _community(whole, Part(numpy.sort(group)), None, int(within[number]), leaving)
        community_of.update(dict.fromkeys(whole.ids[group].tolist(), each.id))
        found.append(each)
    found.sort(key=lambda each: (-each.members, each.id))
    edges = _edges(conn, whole.ids[members].tolist(), now)
    drawn = _drawn(edges, {node.id: node.importance for node in nodes})
    return Sheet(
        graph=Graph(nodes, drawn, edges_left_out=len(edges) - len(drawn), by_links=whole.by_links),
        communities=tuple(found),
        path=path,
        entities=len(members) + unlinked,
        relations=int(within.sum() + counts.sum()),
        unlinked=unlinked,
        entities_left_out=0 if one_by_one else unlinked,
        community_of=community_of,
    )


def _drawn(edges: list[Edge], importance: dict[int, float]) -> list[Edge]:
    """At most MOST_EDGES: first the strongest of each entity, so that few stand alone."""
    order = sorted(
        edges,
        key=lambda e: (-e.count, -importance[e.source] - importance[e.target], e.source, e.target),
    )
    first = _strongest(order, 1)
    kept = {(edge.source, edge.target) for edge in first}
    rest = (edge for edge in order if (edge.source, edge.target) not in kept)
    return sorted([*first, *rest][:MOST_EDGES], key=lambda edge: (edge.source, edge.target))


def _edges(conn: sqlite3.Connection, ids: list[int], now: str) -> list[Edge]:
    """One for each pair of entities; its arrow is that of the direction with more relations."""
    if not ids:
        return []
    found = relation_types(conn, ids, now)
    edges = []
    for a, b in sorted({(min(pair), max(pair)) for pair in found}):
        ahead, back = found.get((a, b), []), found.get((b, a), [])
        if sum(n for _, n in back) > sum(n for _, n in ahead):
            a, b, ahead, back = b, a, back, ahead
        edges.append(
            Edge(
                a,
                b,
                tuple(kind for kind, _ in ahead),
                count=sum(n for _, n in ahead + back),
                back=tuple(kind for kind, _ in back),
            )
        )
    return edges
