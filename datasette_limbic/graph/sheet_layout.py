"""Where the nodes of a sheet stand: communities are packed, entities as near any entity."""

from __future__ import annotations

from .layout import Positions, positions, radii
from .model import Graph
from .packing import packed

WIDTH = 1000
LABEL = 26.0
"""Room around a community for its name."""
STRETCH = 1.5
"""Names are wider than high."""
LARGEST = 1.8
"""A few communities do not take all of the width."""
MARGIN_X, MARGIN_Y = 110.0, 55.0


def sheet_positions(graph: Graph) -> tuple[Positions, tuple[int, int]]:
    """The middle of each node, and the width and height of the picture."""
    if not any(node.kind == "community" for node in graph.nodes) or len(graph.nodes) <= 2:
        size = WIDTH, _height(len(graph.nodes))
        return positions(graph, width=size[0], height=size[1]), size
    return _packed(graph)


def _height(nodes: int) -> int:
    """Few nodes need no high picture."""
    for most, height in ((2, 140), (5, 260), (12, 400), (30, 560), (70, 760), (120, 900)):
        if nodes <= most:
            return height
    return 1100


def _packed(graph: Graph) -> tuple[Positions, tuple[int, int]]:
    import numpy

    sizes = radii(graph)
    at = {node.id: number for number, node in enumerate(graph.nodes)}
    rooms = numpy.array([sizes[node.id] + LABEL for node in graph.nodes])
    pairs = numpy.array([[at[e.source], at[e.target]] for e in graph.edges], "i8").reshape(-1, 2)
    counts = numpy.array([edge.count for edge in graph.edges], "f8")
    points = packed(rooms, pairs, counts, gap=0.0) * [STRETCH, 1.0]
    low, high = points.min(axis=0), points.max(axis=0)
    scale = min(LARGEST, (WIDTH - 2 * MARGIN_X) / max(1.0, float(high[0] - low[0])))
    points = (points - (low + high) / 2) * scale
    height = round(float(high[1] - low[1]) * scale + 2 * MARGIN_Y)
    return {
        node.id: (round(float(x) + WIDTH / 2, 1), round(float(y) + height / 2, 1))
        for node, (x, y) in zip(graph.nodes, points, strict=True)
    }, (WIDTH, height)
