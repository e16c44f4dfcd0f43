"""Where the nodes of a picture stand: networkx finds the shape, then nodes are moved apart.

Made for a few hundred nodes: all of them are compared with each other.

The same graph gives the same picture in every process, whatever the order of its rows.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from .labels import LONGEST, NAME_SIZE, short_line, width_of
from .model import Graph, Node

Positions = dict[int, tuple[float, float]]

SEED = 7
KEPT = 256
MARGIN = 14.0
TARGET = 12.0
"""The least half width of a node with its surroundings: what can be pressed is 24 px."""
SMALLEST, LARGEST = 5.5, 17.0
FOCUS_SMALLEST = 13.0
COMMUNITY_SMALLEST, COMMUNITY_LARGEST = 9.0, 26.0
ROUNDS, LAST_ROUNDS = 90, 300
SOFT = 0.52
"""The share of an overlap that each of two nodes gives way in a round."""
TOUCH = 0.05

# id, half width, height above the middle, height below it, where the label stands
Body = tuple[int, float, float, float]


def radii(graph: Graph) -> dict[int, float]:
    """The radius of each node: it grows with importance, a community's area with its members."""
    largest = max((node.members for node in graph.nodes), default=1)
    crowd = min(1.0, max(0.4, 9 / math.sqrt(max(1, len(graph.nodes)))))
    return {node.id: _radius(node, graph.focus, largest, crowd) for node in graph.nodes}


def _radius(node: Node, focus: int | None, largest: int, crowd: float) -> float:
    if node.kind == "community":
        share = math.sqrt(node.members / max(1, largest))
        found = COMMUNITY_SMALLEST + (COMMUNITY_LARGEST - COMMUNITY_SMALLEST) * share
    else:
        # importance is a logarithm: as a length it tells apart what as an area it would not
        share = min(1.0, max(0.0, node.importance))
        found = SMALLEST + (LARGEST - SMALLEST) * share
    found *= crowd
    return round(max(found, FOCUS_SMALLEST) if node.id == focus else found, 1)


def positions(graph: Graph, *, width: float, height: float) -> Positions:
    """The middle of each node in a box of ``width`` by ``height``, the focus in its middle.

    Nodes never overlap, as long as the box has room for them. Pictures that were laid out before
    are remembered. Takes networkx and numpy: call it off the event loop.
    """
    sizes = radii(graph)
    nodes = sorted(graph.nodes, key=lambda node: node.id)
    bodies = tuple(_body(node, sizes[node.id]) for node in nodes)
    known = set(sizes)
    links: dict[tuple[int, int], float] = {}
    for edge in graph.edges:
        if edge.source in known and edge.target in known and edge.source != edge.target:
            pair = (min(edge.source, edge.target), max(edge.source, edge.target))
            pull = 0.4 if edge.kind == "co_occurrence" else 1 + 0.25 * math.log2(max(1, edge.count))
            links[pair] = links.get(pair, 0.0) + pull
    shape = tuple((a, b, round(pull, 2)) for (a, b), pull in sorted(links.items()))
    focus = graph.focus if graph.focus in known else None
    return dict(_laid_out(bodies, shape, focus, float(width), float(height)))


def label_above(graph: Graph, place: tuple[float, float], height: float) -> bool:
    """Whether the name of the node at ``place`` stands above it: away from the focus."""
    return graph.focus is not None and place[1] < height / 2 - 1


def _body(node: Node, radius: float) -> Body:
    """The room that a node wants, with its label below it."""
    label = width_of(short_line(node.name, LONGEST)) / 2
    # in steps, so that a name with a letter more leaves the picture as it was
    half = max(TARGET, radius + 3, min(60.0, math.ceil(label / 8) * 8.0))
    return node.id, half, max(TARGET, radius + 3), max(TARGET, radius + 5 + NAME_SIZE)


@lru_cache(maxsize=KEPT)
def _laid_out(
    bodies: tuple[Body, ...],
    links: tuple[tuple[int, int, float], ...],
    focus: int | None,
    width: float,
    height: float,
) -> tuple[tuple[int, tuple[float, float]], ...]:
    ids = [body[0] for body in bodies]
    if not ids:
        return ()
    if len(ids) == 1:
        return ((ids[0], (round(width / 2, 1), round(height / 2, 1))),)
    import numpy  # not at Datasette's start

    if len(ids) == 2:
        order = ids if focus in (None, ids[0]) else ids[::-1]
        apart = min(width / 2 - 70, 130.0)
        return tuple(
            (one, (round(width / 2 + side * apart, 1), round(height / 2, 1)))
            for one, side in zip(order, (-1, 1), strict=True)
        )
    points = _fitted(_sprung(ids, links, focus), ids, focus, width, height)
    rooms = numpy.array([body[1:] for body in bodies])
    if focus is not None:
        # names stand away from the focus, out of the way of what leads to it
        upper = points[:, 1] < height / 2 - 1
        rooms[upper] = rooms[upper][:, [0, 2, 1]]
    fixed = ids.index(focus) if focus is not None else None
    points = _apart(points, rooms, fixed, width, height)
    return tuple(
        (one, (round(float(x), 1), round(float(y), 1)))
        for one, (x, y) in zip(ids, points, strict=True)
    )


def _sprung(ids: list[int], links: tuple[tuple[int, int, float], ...], focus: int | None) -> Any:
    """Points of a force-directed layout about the origin, one row for each of ``ids``.

    A node of our own in the middle, which pulls every other a little, keeps parts together that
    nothing links.
    """
    import networkx
    import numpy

    middle = focus if focus is not None else "middle"
    graph = networkx.Graph()
    graph.add_nodes_from(ids)
    graph.add_weighted_edges_from(links)
    for one in ids:
        if one != middle and not graph.has_edge(one, middle):
            graph.add_edge(one, middle, weight=0.12)
    # a circle to begin with, neighbours beside each other: a random start leaves more crossings
    order = _round_order(ids, links, middle)
    start: dict[Any, tuple[float, float]] = {
        one: (math.cos(2 * math.pi * i / len(order)), math.sin(2 * math.pi * i / len(order)))
        for i, one in enumerate(order)
    }
    start[middle] = (0.0, 0.0)
    found = networkx.spring_layout(
        graph,
        pos=start,
        fixed=[middle],
        k=1.6 / math.sqrt(len(ids)),
        iterations=80,
        seed=SEED,
    )
    return numpy.array([found[one] for one in ids], dtype=float)


def _round_order(
    ids: list[int], links: tuple[tuple[int, int, float], ...], middle: Any
) -> list[int]:
    """The nodes but the middle one, each after one that it is linked to where there is such."""
    near: dict[int, list[int]] = {one: [] for one in ids}
    for a, b, _ in links:
        if middle not in (a, b):
            near[a].append(b)
            near[b].append(a)
    seen: set[int] = set()
    order: list[int] = []
    for first in sorted(ids, key=lambda one: (-len(near[one]), one)):
        stack = [first]
        while stack:
            one = stack.pop()
            if one in seen or one == middle:
                continue
            seen.add(one)
            order.append(one)
            stack.extend(sorted(near[one], reverse=True))
    return order


def _fitted(points: Any, ids: list[int], focus: int | None, width: float, height: float) -> Any:
    """Points scaled to the box; few of them do not take all of it."""
    import numpy

    if focus is None:
        centre = (points.min(axis=0) + points.max(axis=0)) / 2
    else:
        centre = points[ids.index(focus)]
    points = points - centre
    reach = numpy.abs(points).max(axis=0)
    reach[reach == 0] = 1.0
    room = 60 + 75 * math.sqrt(len(ids))
    half = numpy.array(
        [min(width / 2 - MARGIN - 45, room), min(height / 2 - MARGIN - 20, room * 0.75)]
    )
    return points / reach * half + numpy.array([width / 2, height / 2])


def _apart(points: Any, rooms: Any, fixed: int | None, width: float, height: float) -> Any:
    """Points moved until no two rooms meet, or, where the box is too small for all, no two nodes.

    ``rooms`` are half width, height above and below. Each pass asks for less room about the nodes
    where the one before found no rest.
    """
    import numpy

    bare = rooms.min(axis=1) * (1.0 if len(points) <= 150 else 0.7)
    least = numpy.column_stack([bare, bare, bare])
    for share, rounds in ((1.0, ROUNDS), (0.5, ROUNDS), (0.0, LAST_ROUNDS)):
        wanted = least + (rooms - least) * share
        points, at_rest = _pushed(points, wanted, fixed, width, height, rounds)
        if at_rest:
            break
    return points


def _pushed(
    points: Any, rooms: Any, fixed: int | None, width: float, height: float, rounds: int
) -> tuple[Any, bool]:
    """One pass of pushing, and whether nothing meets any more."""
    import numpy

    half, above, below = rooms.T
    low = numpy.column_stack([half + 2, above + 2])
    high = numpy.column_stack([width - half - 2, height - below - 2])
    # a box narrower than a room holds it in its middle
    low, high = numpy.minimum(low, (low + high) / 2), numpy.maximum(high, (low + high) / 2)
    if fixed is not None:
        low[fixed] = high[fixed] = points[fixed]
    every = numpy.triu_indices(len(points), 1)
    points = numpy.clip(points, low, high)
    for _ in range(rounds):
        first, second = every
        delta = points[second] - points[first]
        over_x = half[first] + half[second] - numpy.abs(delta[:, 0])
        meet = numpy.flatnonzero(over_x > TOUCH)
        first, second, delta, over_x = first[meet], second[meet], delta[meet], over_x[meet]
        # rooms may reach further down than up
        down = delta[:, 1] >= 0
        reach = numpy.where(down, below[first] + above[second], above[first] + below[second])
        over_y = reach - numpy.abs(delta[:, 1])
        meet = numpy.flatnonzero(over_y > TOUCH)
        if not len(meet):
            return points, True
        first, second, delta = first[meet], second[meet], delta[meet]
        over_x, over_y = over_x[meet], over_y[meet]
        along_x = over_x <= over_y
        # of two at the same place, the one that comes first goes left and up
        push_x = numpy.where(along_x, over_x * numpy.where(delta[:, 0] >= 0, 1, -1), 0.0) * SOFT
        push_y = numpy.where(along_x, 0.0, over_y * numpy.where(delta[:, 1] >= 0, 1, -1)) * SOFT
        count = len(points)
        for axis, push in enumerate((push_x, push_y)):
            points[:, axis] += numpy.bincount(second, push, count)
            points[:, axis] -= numpy.bincount(first, push, count)
        points = numpy.clip(points, low, high)
    return points, False
