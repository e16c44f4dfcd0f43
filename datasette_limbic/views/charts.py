"""Geometry of the charts: templates draw what stands here and reckon nothing.

Lengths are units of a ``viewBox``; the picture scales to the width that there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..i18n import counting
from .display import number

BAR_WIDTH, BAR_HEIGHT = 120, 8
_UNITS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def weeks_words(weeks: Sequence[dict[str, Any]]) -> str | None:
    """Accesses by week as a sentence; ``weeks`` as ``accesses_by_week`` gives them.

    None where there was no access in any of them.
    """
    if not any(week["accesses"] for week in weeks):
        return None
    searched = sum(week["searched"] for week in weeks)
    opened = sum(week["opened"] for week in weeks)
    peak = max(weeks, key=lambda week: week["accesses"])
    return counting(
        "%(n)s access in %(weeks)s weeks, from %(first)s to the week of %(last)s: "
        "%(searched)s found by a search, %(opened)s opened by name. "
        "The busiest was the week of %(peak)s with %(most)s.",
        "%(n)s accesses in %(weeks)s weeks, from %(first)s to the week of %(last)s: "
        "%(searched)s found by a search, %(opened)s opened by name. "
        "The busiest was the week of %(peak)s with %(most)s.",
        searched + opened,
        weeks=len(weeks),
        first=weeks[0]["week"],
        last=weeks[-1]["week"],
        searched=number(searched),
        opened=number(opened),
        peak=peak["week"],
        most=number(peak["accesses"]),
    )


def partner_bars(partners: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The partners, each with a bar: ``full`` is how often, ``now`` what time has left of it.

    The longest is that of the highest count.
    """
    counts = [whole(partner["co_count"]) for partner in partners]
    most = max(counts, default=0) or 1
    return [
        {
            **partner,
            "full": _length(count, most, BAR_WIDTH),
            "now": _length(count * partner["decay"], most, BAR_WIDTH),
            "width": BAR_WIDTH,
            "height": BAR_HEIGHT,
        }
        for partner, count in zip(partners, counts, strict=True)
    ]


def whole(value: Any) -> int:
    """A count as other programs may have written it; 0 where it is none."""
    return max(0, value) if isinstance(value, int) else 0


def ceiling(most: int) -> int:
    """The top of an axis that holds ``most``: 2, 4, 6, 8 or 10 times a power of ten."""
    power = 1
    while True:
        for step in (2, 4, 6, 8, 10):
            if most <= step * power:
                return step * power
        power *= 10


def brief(value: int) -> str:
    """A number in the room of an axis: 1,500,000 is 1.5M."""
    for size, unit in _UNITS:
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return str(value)


def _length(value: float, most: float, room: float) -> float:
    """The share of ``room`` that ``value`` takes; what is there at all can be seen."""
    return _round(max(1.0, room * value / most)) if value > 0 else 0.0


def _round(value: float) -> float:
    return round(value, 2)
