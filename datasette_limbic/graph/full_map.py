"""Where thousands of entities stand: each community in a circle, in that of the one around it.

Circles are packed, so that nothing overlaps and what is linked is near; inside the innermost,
networkx finds the shape. Seconds for thousands of entities; the same each time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .communities import Part, communities
from .modularity import joined
from .packing import GAP, packed, spiral
from .whole import Whole

MOST = 5_000
"""Entities of a full map."""
STEP = 24.0
"""The side of the square that an entity has, in the picture's units."""
MARGIN = 30.0
SEED = 8


@dataclass(frozen=True, eq=False)
class Circle:
    """A community of the picture: its middle, its radius, and places of its entities."""

    x: float
    y: float
    radius: float
    members: Any


@dataclass(frozen=True, eq=False)
class FullMap:
    """``points`` has the middle of each entity, in the order of the ``Whole``."""

    width: float
    height: float
    points: Any
    circles: tuple[Circle, ...]


def full_map(whole: Whole, first: Sequence[Part]) -> FullMap:
    """The place of every entity; those without relations stand in rows below the others."""
    import numpy

    points = numpy.zeros((len(whole), 2))
    linked, alone = whole.linked, (whole.neighbours == 0).nonzero()[0]
    circles: list[Circle] = []
    wide = high = 0.0
    if len(linked):
        # a graph that one picture holds has communities too
        groups = list(first) or [
            Part(numpy.sort(each)) for each in sorted(communities(whole, linked), key=len)[::-1]
        ]
        points[linked], circles = _placed(whole, linked, groups, outer=True)[::2]
        ends = numpy.array([[c.x, c.y, c.radius] for c in circles]).reshape(-1, 3)
        low = numpy.vstack([points[linked] - STEP, ends[:, :2] - ends[:, 2:]]).min(axis=0)
        size = numpy.vstack([points[linked] + STEP, ends[:, :2] + ends[:, 2:]]).max(axis=0) - low
        wide, high = float(size[0]), float(size[1])
        points[linked] -= low
        circles = [Circle(c.x - low[0], c.y - low[1], c.radius, c.members) for c in circles]
    width = max(wide, STEP * math.ceil(math.sqrt(4 * max(1, len(alone)))))
    shift = (width - wide) / 2
    points[linked, 0] += shift
    across = max(1, int(width // STEP))
    rows = numpy.arange(len(alone))
    top = high + (GAP + STEP if len(linked) and len(alone) else 0)
    points[alone, 0] = (rows % across + 0.5) * STEP
    points[alone, 1] = top + (rows // across + 0.5) * STEP
    height = top + math.ceil(len(alone) / across) * STEP
    return FullMap(
        round(width + 2 * MARGIN, 1),
        round(height + 2 * MARGIN, 1),
        numpy.round(points + MARGIN, 1),
        tuple(
            Circle(
                round(float(each.x) + shift + MARGIN, 1),
                round(float(each.y) + MARGIN, 1),
                round(each.radius, 1),
                each.members,
            )
            for each in circles
        ),
    )


def _centred(points: Any, radii: Any) -> Any:
    """Points about the middle of the least box around their circles."""
    import numpy

    room = numpy.broadcast_to(radii, len(points))[:, None]
    return points - ((points - room).min(axis=0) + (points + room).max(axis=0)) / 2


def _placed(
    whole: Whole, members: Any, children: Sequence[Part], *, outer: bool = False
) -> tuple[Any, float, list[Circle]]:
    """Points of ``members`` about the origin, the radius that holds them, and the circles drawn."""
    import numpy

    if not children:
        points = _centred(_inside(whole, members), STEP / 2)
        reach = float(numpy.hypot(points[:, 0], points[:, 1]).max())
        return points, reach + 0.75 * STEP, []
    inner, radii = [], []
    for part in children:
        points, reach, _ = _placed(whole, part.members, part.parts(whole))
        inner.append(points)
        radii.append(reach)
    labels = whole.numbered([part.members for part in children])
    pairs, counts = joined(len(children), *whole.between(labels))
    middles = _centred(packed(numpy.array(radii), pairs, counts), numpy.array(radii))
    places = numpy.zeros((len(whole), 2))
    for part, points, middle in zip(children, inner, middles, strict=True):
        places[part.members] = points + middle
    radius = float((numpy.hypot(middles[:, 0], middles[:, 1]) + radii).max())
    circles = [
        Circle(float(x), float(y), reach, part.members)
        for part, reach, (x, y) in zip(children, radii, middles, strict=True)
        if len(part) > 1
    ]
    return places[members], radius, circles if outer else []


def _inside(whole: Whole, members: Any) -> Any:
    """Points of a few entities about the origin, apart from each other."""
    import networkx
    import numpy

    count = len(members)
    if count == 1:
        return numpy.zeros((1, 2))
    one, other, _ = whole.among(members)
    graph = networkx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(zip(one.tolist(), other.tolist(), strict=True))
    found = networkx.spring_layout(
        graph, pos=dict(enumerate(spiral(count).tolist())), iterations=60, seed=SEED
    )
    points = numpy.array([found[at] for at in range(count)])
    points -= points.mean(axis=0)
    # a few that stand far out would leave no room for the others
    reach = numpy.hypot(points[:, 0], points[:, 1])
    points *= (numpy.minimum(reach, 2 * numpy.median(reach)) / numpy.maximum(reach, 1e-9))[:, None]
    points *= STEP * math.sqrt(count) / 1.6 / max(1e-9, float(numpy.abs(points).max()))
    return packed(numpy.full(count, STEP / 2), start=points, gap=0.0)
