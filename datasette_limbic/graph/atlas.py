"""One sheet of the map: all of a small memory, or its communities, or what is in one of these.

A community is called by any of its entities and how deep it lies: level 1 are the communities of
the whole, level 2 those within one of them. So an address stays right when others change, also
where another entity has become the most important one of its community.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..errors import UnknownEntity
from .communities import MOST, Part, communities, joined, parts
from .model import Edge, Graph, Node
from .whole import Whole, relation_types

NOT_LINKED = 0
"""Id of the node that stands for all entities without a relation; no entity has it."""
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
    lines_left_out: int = 0
    entities_left_out: int = 0
    community_of: dict[int, int] = field(default_factory=dict)
    """The community, by id, of each entity that is drawn, where communities were looked for."""


def first_parts(whole: Whole) -> list[Part]:
    """The communities of the whole: what takes long, and does not depend on what is opened."""
    return parts(whole, whole.linked)


def sheet(
    conn: sqlite3.Connection,
    whole: Whole,
    first: Sequence[Part],
    *,
    now: str,
    entity: int | None = None,
    level: int = 1,
) -> Sheet:
    """The whole, or the community of ``entity`` at ``level``: the innermost where that is deeper.

    One statement, where entities are drawn. Raises UnknownEntity where no relation leads to the
    entity, or there is none.
    """
    path, opened, children = _opened(whole, first, entity, level)
    around = tuple(
        _described(whole, part, depth, openable=True) for depth, part in enumerate(path, 1)
    )
    unlinked = len(whole) - len(whole.linked) if entity is None else 0
    if children:
        return _of_communities(whole, children, around, opened, unlinked, len(path) + 1)
    return _of_entities(conn, whole, opened, around, unlinked, now)


def _opened(
    whole: Whole, first: Sequence[Part], entity: int | None, level: int
) -> tuple[list[Part], Any, Sequence[Part]]:
    """Parts around an entity from the outermost, members of the last, and the parts in these."""
    if entity is None:
        return [], whole.linked, first
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
        children = parts(whole, members)
    return path, members, children


def _with(children: Iterable[Part], place: int) -> Part:
    for part in children:
        at = int(part.members.searchsorted(place))
        if at < len(part) and part.members[at] == place:
            return part
    raise LookupError(place)


def _described(whole: Whole, part: Part, level: int, *, openable: bool) -> Community:
    return _community(whole, part, level if openable else None, 0, 0)


def _community(
    whole: Whole, part: Part, level: int | None, relations: int, leaving: int
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


def _numbered(whole: Whole, children: Sequence[Any]) -> Any:
    """Of each entity the number of the group that it is in, counted from 0; -1 where in none."""
    import numpy

    labels = numpy.full(len(whole), -1, "i8")
    for number, members in enumerate(children):
        labels[members] = number
    return labels


def _counted(whole: Whole, labels: Any, groups: int) -> tuple[Any, Any, Any]:
    """Relations within each group, and pairs of groups with the relations between them."""
    import numpy

    one, other = labels[whole.one], labels[whole.other]
    both = (one >= 0) & (other >= 0)
    inner = both & (one == other)
    within = numpy.bincount(one[inner], weights=whole.weight[inner], minlength=groups)
    pairs, counts = joined(labels, groups, whole.one[both], whole.other[both], whole.weight[both])
    return within.astype("i8"), pairs, counts


def _of_communities(
    whole: Whole,
    children: Sequence[Part],
    path: tuple[Community, ...],
    opened: Any,
    unlinked: int,
    level: int,
) -> Sheet:
    import numpy

    labels = _numbered(whole, [part.members for part in children])
    within, pairs, counts = _counted(whole, labels, len(children))
    leaving = numpy.zeros(len(children), "i8")
    for side in (0, 1):
        numpy.add.at(leaving, pairs[:, side], counts)
    found = [
        _community(whole, part, level, int(within[at]), int(leaving[at]))
        for at, part in enumerate(children)
    ]
    strongest = _strongest(pairs, counts, len(children))
    nodes = [_node(whole, each) for each in found]
    if unlinked:
        nodes.append(_not_linked(whole))
    edges = [
        Edge(found[a].id, found[b].id, count=int(counts[at]), directed=False)
        for at, (a, b) in ((at, pairs[at].tolist()) for at in strongest)
    ]
    return Sheet(
        graph=Graph(nodes, edges),
        communities=tuple(found),
        path=path,
        entities=len(opened) + unlinked,
        relations=int(within.sum() + counts.sum()),
        unlinked=unlinked,
        lines_left_out=len(pairs) - len(edges),
    )


def _strongest(pairs: Any, counts: Any, groups: int) -> list[int]:
    """Of the pairs those that are among the strongest of one of the two, strongest first."""
    import numpy

    left = [LINES] * groups
    found = []
    for at in numpy.lexsort((pairs[:, 1], pairs[:, 0], -counts)).tolist():
        a, b = pairs[at].tolist()
        if left[a] > 0 or left[b] > 0:
            found.append(at)
            left[a] -= 1
            left[b] -= 1
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
        relations=int(whole.neighbours[at]),
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
    labels = _numbered(whole, groups)
    within, pairs, counts = _counted(whole, labels, len(groups))
    found, community_of = [], {}
    for number, group in enumerate(groups):
        leaving = int(counts[(pairs == number).any(axis=1)].sum())
        each = _community(whole, Part(numpy.sort(group)), None, int(within[number]), leaving)
        community_of.update(dict.fromkeys(whole.ids[group].tolist(), each.id))
        found.append(each)
    found.sort(key=lambda each: (-each.members, each.id))
    return Sheet(
        graph=Graph(nodes, _edges(conn, whole.ids[members].tolist(), now)),
        communities=tuple(found),
        path=path,
        entities=len(members) + unlinked,
        relations=int(within.sum() + counts.sum()),
        unlinked=unlinked,
        entities_left_out=0 if one_by_one else unlinked,
        community_of=community_of,
    )


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
