"""Circles packed so that none overlaps another, what is linked near each other."""

from __future__ import annotations

import math
from typing import Any

GAP = 10.0
"""Between circles."""
ROUNDS = 300
"""Steps of packing: most come to rest before."""
QUIET = 0.6
"""The share of them in which circles are also drawn together; then they only make room."""


def spiral(count: int) -> Any:
    """Points that fill a circle evenly, from the middle outwards."""
    import numpy

    at = numpy.arange(count)
    turn, out = at * math.pi * (3 - math.sqrt(5)), numpy.sqrt((at + 0.5) / count)
    return numpy.column_stack([out * numpy.cos(turn), out * numpy.sin(turn)])


def packed(
    radii: Any,
    pairs: Any = None,
    weights: Any = None,
    *,
    start: Any = None,
    gap: float = GAP,
) -> Any:
    """Middles of circles that do not overlap, near the origin, those that pairs join near another.

    They begin on a spiral, or where ``start`` has them, and stay as they were as far as they can.
    """
    import numpy

    wanted = radii + gap / 2
    spread = math.sqrt(float((wanted**2).sum()))
    points = spiral(len(radii)) * spread if start is None else numpy.array(start)
    mass = wanted**2
    for step in range(ROUNDS if len(radii) > 1 else 0):
        cooling = 1 - step / ROUNDS
        if start is None and step < ROUNDS * QUIET:
            points *= 1 - 0.03 * cooling
            if pairs is not None and len(pairs):
                points += _pull(points, pairs, weights, wanted) * cooling
        points, rest = _pushed(points, wanted, mass)
        if rest and (start is not None or step >= ROUNDS * QUIET):
            break
    return _cleared(points, wanted)


def _pull(points: Any, pairs: Any, weights: Any, radii: Any) -> Any:
    """How far what is linked moves towards each other, at most until it touches."""
    import numpy

    one, other = pairs[:, 0], pairs[:, 1]
    between = points[other] - points[one]
    length = numpy.maximum(numpy.hypot(between[:, 0], between[:, 1]), 1e-9)
    room = numpy.maximum(0, length - radii[one] - radii[other])
    share = 0.08 * numpy.sqrt(weights / weights.max())
    move = between / length[:, None] * (room * share)[:, None]
    moved, pulls = numpy.zeros_like(points), numpy.ones(len(points))
    for side, sign in ((one, 1), (other, -1)):
        numpy.add.at(moved, side, sign * move)
        numpy.add.at(pulls, side, share)
    return moved / pulls[:, None]


def _pushed(points: Any, radii: Any, mass: Any) -> tuple[Any, bool]:
    """Circles that overlap moved apart by half, the lighter one further; whether any did."""
    import numpy
    from scipy.spatial import cKDTree

    near = cKDTree(points).query_pairs(2 * float(radii.max()), output_type="ndarray")
    near = near[numpy.lexsort((near[:, 1], near[:, 0]))]
    one, other = near[:, 0], near[:, 1]
    between = points[other] - points[one]
    length = numpy.hypot(between[:, 0], between[:, 1])
    over = radii[one] + radii[other] - length
    meet = over > 1e-3 * radii.max()
    if not meet.any():
        return points, True
    one, other, between, length, over = (
        one[meet],
        other[meet],
        between[meet],
        length[meet],
        over[meet],
    )
    # two at the same place part sideways
    between[length == 0] = (1.0, 0.0)
    length = numpy.where(length == 0, 1.0, length)
    push = between / length[:, None] * (over * 0.6)[:, None]
    share = (mass[other] / (mass[one] + mass[other]))[:, None]
    moved = numpy.zeros_like(points)
    numpy.add.at(moved, one, -push * share)
    numpy.add.at(moved, other, push * (1 - share))
    return points + moved, False


def _cleared(points: Any, radii: Any) -> Any:
    """The same arrangement, so much larger that nothing overlaps any more."""
    import numpy
    from scipy.spatial import cKDTree

    near = cKDTree(points).query_pairs(2 * float(radii.max()), output_type="ndarray")
    if not len(near):
        return points
    one, other = near[:, 0], near[:, 1]
    length = numpy.hypot(*(points[other] - points[one]).T)
    needed = (radii[one] + radii[other]) / numpy.maximum(length, 0.25 * (radii[one] + radii[other]))
    return points * max(1.0, float(needed.max()))
