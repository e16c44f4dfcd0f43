"""Archived entities that held live ones together, and what archiving one more would cut apart.

Relations that hold count, of every type and in either direction. Live entities that hang
together through live ones alone are one *part*. Each part is one node of the graph that is
searched, so what is left of a large memory is a few parts and the archived entities: linear in
entities and relations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from datasette.utils.sqlite import sqlite3

from .sql import current

NAMED = 3
"""Entities that are named of each side."""
SIDES = 5
"""Sides that are told in full, the largest first."""

_ENTITIES = "select id, archived_at is not null from entities"
_LINKS = (
    "select r.from_entity, r.to_entity from relations r"
    f" where r.from_entity <> r.to_entity and {current('r')}"
    # adopted tables may hold anything
    " and typeof(r.from_entity) = 'integer' and typeof(r.to_entity) = 'integer'"
)
# a bridge needs two relations, so most files need not be read further
_ARCHIVED = (
    "select 1 from entities e where e.archived_at is not null and ("
    "exists (select 1 from relations r where r.from_entity = e.id)"
    " or exists (select 1 from relations r where r.to_entity = e.id)) limit 1"
)


class Part(NamedTuple):
    """Live entities that hang together, as one node of the graph; archived ones are their id."""

    number: int


@dataclass(frozen=True)
class Side:
    """Live entities that hang together without the entity in question."""

    entities: int
    """How many."""
    first: tuple[int, ...]
    """Ids of the first few, lowest first."""


@dataclass(frozen=True)
class Bridge:
    """An archived entity on a way between live ones that no live way joins."""

    id: int
    only: bool
    """Whether nothing else joins its sides: an articulation point. Otherwise another archived
    entity would join them as well."""
    entities: int
    """Live entities on all of its sides."""
    sides: tuple[Side, ...]
    """Two or more, the largest first."""


class Parts:
    """The live entities of a memory, and the archived ones between them."""

    def __init__(
        self,
        archived: Iterable[int],
        live: Sequence[int],
        links: Sequence[tuple[int, int]],
    ) -> None:
        import numpy
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        self.live = numpy.sort(numpy.fromiter(live, "i8", len(live)))
        self.archived = frozenset(archived)
        pairs = numpy.array(links, "i8").reshape(-1, 2)
        at, is_live = self._places(pairs)
        inner = at[is_live.all(axis=1)]
        count = len(self.live)
        # one empty node more, since scipy takes no graph without any
        graph = coo_array((numpy.ones(len(inner)), inner.T), (count + 1, count + 1))
        self.part_of = connected_components(graph, directed=False)[1][:count]
        self.sizes = numpy.bincount(self.part_of)
        # ids are sorted, and so is each part: a stable order keeps it
        self.by_part = self.live[numpy.argsort(self.part_of, kind="stable")]
        self.starts = numpy.concatenate([[0], numpy.cumsum(self.sizes)])
        mixed = ~is_live.all(axis=1)
        self.links = [
            (self._node(one, place_one, live_one), self._node(two, place_two, live_two))
            for (one, two), (place_one, place_two), (live_one, live_two) in zip(
                pairs[mixed].tolist(), at[mixed].tolist(), is_live[mixed].tolist(), strict=True
            )
            if (live_one or one in self.archived) and (live_two or two in self.archived)
        ]

    def _places(self, ids: Any) -> tuple[Any, Any]:
        """Where each id stands among the live ones, and whether it is one of them."""
        import numpy

        if not len(self.live):
            return numpy.zeros_like(ids), numpy.zeros(ids.shape, bool)
        at = numpy.minimum(numpy.searchsorted(self.live, ids), len(self.live) - 1)
        return at, self.live[at] == ids

    def _node(self, entity: int, place: int, is_live: bool) -> int | Part:
        return Part(int(self.part_of[place])) if is_live else entity

    def touched(self, entities: Iterable[int]) -> set[Part]:
        """The parts of those entities that are live."""
        import numpy

        ids = numpy.fromiter(entities, "i8")
        at, is_live = self._places(ids)
        return {Part(int(number)) for number in self.part_of[at[is_live]]}

    def side(self, parts: Iterable[Part]) -> Side:
        """Parts as one side."""
        numbers = [part.number for part in parts]
        first = sorted(
            int(entity)
            for number in numbers
            for entity in self.by_part[self.starts[number] : self.starts[number + 1]][:NAMED]
        )
        return Side(int(sum(self.sizes[number] for number in numbers)), tuple(first[:NAMED]))


def bridges(conn: sqlite3.Connection, now: str) -> Bridges:
    """The archived entities whose absence leaves live ones apart. Reads only.

    Among them are all archived articulation points that separate live entities (``only``), and
    those of which several lead from one part to another.
    """
    if conn.execute(_ARCHIVED).fetchone() is None:
        return Bridges(None)
    return Bridges(_read(conn, now))


def _read(conn: sqlite3.Connection, now: str, *, without: int | None = None) -> Parts:
    live: list[int] = []
    archived: list[int] = []
    for entity, is_archived in conn.execute(_ENTITIES):
        if entity != without:
            (archived if is_archived else live).append(entity)
    links = [(row[0], row[1]) for row in conn.execute(_LINKS, {"now": now})]
    return Parts(archived, live, links)


class Bridges:
    """All bridges of one memory, the most important first; sides are worked out when asked for."""

    def __init__(self, parts: Parts | None) -> None:
        self.parts = parts
        self.ids: list[int] = []
        self._only: frozenset[Any] = frozenset()
        self._groups: dict[int, set[Any]] = {}
        if parts is not None:
            self._find(parts)

    def __len__(self) -> int:
        return len(self.ids)

    def _find(self, parts: Parts) -> None:
        import networkx

        graph = networkx.Graph(parts.links)
        ends = [node for node in graph if isinstance(node, Part)]
        # With one more node that is linked to every part, an archived entity lies on a way from
        # a part to another exactly where it shares a block (a biconnected component) with it.
        top = "all parts"
        graph.add_edges_from((top, end) for end in ends)
        kept: set[Any] = set()
        for block in networkx.biconnected_components(graph):
            if top in block and len(block) > 2:
                kept |= block
        kept.discard(top)
        # Each that remains leads to a part on either side, so that whatever an articulation
        # point cuts off holds live entities.
        self.graph = graph.subgraph(kept).copy()
        self._only = frozenset(networkx.articulation_points(self.graph))
        weights = {}
        for group in networkx.connected_components(self.graph):
            joined = sum(int(parts.sizes[n.number]) for n in group if isinstance(n, Part))
            for node in group:
                if not isinstance(node, Part):
                    self._groups[node] = group
                    weights[node] = joined
        self.ids = sorted(weights, key=lambda n: (n not in self._only, -weights[n], n))

    def shown(self, first: int, size: int) -> list[Bridge]:
        """``size`` of them from the one at ``first`` (0 is the most important)."""
        return [self._bridge(node) for node in self.ids[first : first + size]]

    def _bridge(self, node: int) -> Bridge:
        import networkx

        if self.parts is None:
            raise LookupError(node)
        group = self._groups[node]
        if node in self._only:
            rest = self.graph.subgraph(group - {node})
            pieces = [
                [n for n in piece if isinstance(n, Part)]
                for piece in networkx.connected_components(rest)
            ]
        else:
            pieces = [[n] for n in self._touched(node)]
        sides = sorted(map(self.parts.side, pieces), key=lambda s: (-s.entities, s.first))
        return Bridge(node, node in self._only, sum(side.entities for side in sides), tuple(sides))

    def _touched(self, node: int) -> set[Part]:
        """The parts that it reaches through archived entities alone."""
        seen, todo = {node}, [node]
        parts: set[Part] = set()
        while todo:
            for other in self.graph[todo.pop()]:
                if isinstance(other, Part):
                    parts.add(other)
                elif other not in seen:
                    seen.add(other)
                    todo.append(other)
        return parts


def cut_apart(conn: sqlite3.Connection, entity: int, now: str) -> tuple[Side, ...]:
    """The sides into which live entities would fall if this live one were archived.

    Two or more, the largest first; none where nothing would be cut apart. Archived entities join
    nothing. Reads only.
    """
    linked = {
        row[0]
        for row in conn.execute(
            f"select r.to_entity from relations r where r.from_entity = :id and {current('r')}"
            " and typeof(r.to_entity) = 'integer' union select r.from_entity from relations r"
            f" where r.to_entity = :id and {current('r')} and typeof(r.from_entity) = 'integer'",
            {"id": entity, "now": now},
        )
    }
    parts = _read(conn, now, without=entity)
    touched = parts.touched(linked)
    if len(touched) < 2:
        return ()
    sides = [parts.side([part]) for part in touched]
    return tuple(sorted(sides, key=lambda s: (-s.entities, s.first)))
