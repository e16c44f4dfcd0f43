"""The lines of a picture: from circle to circle, with the heads of arrows."""

from __future__ import annotations

import math
from typing import Any

from .layout import Positions
from .model import Edge

ARROW = 7.0
RING = 3.0
"""The gap between a circle and what is around it."""
BEND = 14.0


def line_of(
    edge: Edge, positions: Positions, sizes: dict[int, float], bent: bool
) -> dict[str, Any]:
    """The path of an edge from circle to circle, its arrow heads, and the point for its label.

    Where two nodes have both kinds of edge, that of co-occurrence is bent beside the other.
    """
    (x1, y1), (x2, y2) = positions[edge.source], positions[edge.target]
    apart = math.hypot(x2 - x1, y2 - y1) or 1.0
    bend = BEND if bent and edge.kind == "co_occurrence" else 0.0
    # the middle of a quadratic curve is half as far out as its control point
    cx = (x1 + x2) / 2 - (y2 - y1) / apart * bend * 2
    cy = (y1 + y2) / 2 + (x2 - x1) / apart * bend * 2
    arrows = edge.kind == "relation" and edge.directed
    start = _towards((x1, y1), (cx, cy), sizes[edge.source] + RING)
    end = _towards((x2, y2), (cx, cy), sizes[edge.target] + RING)
    # one path: a straight line has no inside that the filling of the heads could show, and after
    # the head at its beginning the pen is there again
    first = _head(start, (cx, cy)) if arrows and edge.back else ""
    last = _head(end, (cx, cy)) if arrows and (edge.labels or not edge.back) else ""
    curve = f"Q{tidy(cx)} {tidy(cy)} " if bend else "L"
    return {
        "path": f"M{tidy(start[0])} {tidy(start[1])}{first}{curve}{tidy(end[0])} {tidy(end[1])}"
        + (f"m0 0{last}" if last else ""),
        "middle": (
            (start[0] + end[0]) / 4 + cx / 2,
            (start[1] + end[1]) / 4 + cy / 2,
        ),
    }


def _towards(
    point: tuple[float, float], other: tuple[float, float], step: float
) -> tuple[float, float]:
    length = math.hypot(other[0] - point[0], other[1] - point[1])
    # circles that touch leave no room: a line of no length in the middle
    share = min(1.0, step / length) if length else 0.0
    return point[0] + (other[0] - point[0]) * share, point[1] + (other[1] - point[1]) * share


def _head(tip: tuple[float, float], tail: tuple[float, float]) -> str:
    """An arrow head from its point at ``tip``, where the pen is, and back to it."""
    length = math.hypot(tail[0] - tip[0], tail[1] - tip[1])
    if not length:
        return ""
    bx, by = (tail[0] - tip[0]) / length * ARROW, (tail[1] - tip[1]) / length * ARROW
    side_x, side_y = by * 0.42, bx * 0.42
    return f"l{tidy(bx - side_x)} {tidy(by + side_y)} {tidy(side_x * 2)} {tidy(-side_y * 2)}z"


def tidy(value: float) -> float | int:
    """A coordinate to a tenth, without a needless ``.0``."""
    found = round(float(value), 1)
    return int(found) if found == int(found) else found
