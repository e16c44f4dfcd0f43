"""Geometry of the charts: templates draw what stands here and reckon nothing.

Lengths are units of a ``viewBox``; the picture scales to the width that there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..i18n import counting, gettext
from ..i18n import marked as _
from .display import number

WIDTH, HEIGHT = 360, 150
LEFT, RIGHT, TOP, BOTTOM = 34, 2, 8, 20
GAP = 0.22  # of a week's place
LABEL_ROOM = 34
BAR_WIDTH, BAR_HEIGHT = 120, 8
MONTHS = (
    *(_("Jan"), _("Feb"), _("Mar"), _("Apr"), _("May"), _("Jun")),
    *(_("Jul"), _("Aug"), _("Sep"), _("Oct"), _("Nov"), _("Dec")),
)
_UNITS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def week_chart(weeks: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Bars of accesses by week, found by a search below and opened by name on top of it.

    ``weeks`` as ``accesses_by_week`` gives them. None where there was no access in any of them.
    """
    most = max((week["accesses"] for week in weeks), default=0)
    if most <= 0:
        return None
    top = ceiling(most)
    floor, room = HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP
    place = (WIDTH - LEFT - RIGHT) / len(weeks)
    bars, labels = [], []
    free_from, month = 0.0, ""
    for index, week in enumerate(weeks):
        x = LEFT + index * place
        searched, opened = (_length(week[k], top, room) for k in ("searched", "opened"))
        bars.append(
            {
                "x": _round(x + place * GAP / 2),
                "width": _round(place * (1 - GAP)),
                "title": week_words(week),
                "parts": [
                    {"kind": kind, "y": _round(y), "height": height}
                    for kind, y, height in (
                        ("searched", floor - searched, searched),
                        ("opened", floor - searched - opened, opened),
                    )
                    if height > 0
                ],
            }
        )
        # a month is named where its first whole week begins, as far as there is room
        if week["week"][:7] != month:
            month = week["week"][:7]
            if index and free_from <= x <= WIDTH - LABEL_ROOM:
                labels.append({"x": _round(x), "text": gettext(MONTHS[int(month[5:]) - 1])})
                free_from = x + LABEL_ROOM
    searched = sum(week["searched"] for week in weeks)
    opened = sum(week["opened"] for week in weeks)
    peak = max(weeks, key=lambda week: week["accesses"])
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "floor": floor,
        "bars": bars,
        "labels": labels,
        "label_y": HEIGHT - 5,
        "lines": [
            {"y": _round(floor - room * value / top), "text": brief(value), "text_x": LEFT - 5}
            for value in (0, top // 2, top)
        ],
        "searched": searched,
        "opened": opened,
        "desc": counting(
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
        ),
        "rows": [week for week in reversed(weeks) if week["accesses"]],
    }


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


def week_words(week: dict[str, Any]) -> str:
    """A week in words, for whoever points at its bar."""
    return counting(
        "Week of %(week)s: %(n)s access"
        " (%(searched)s found by a search, %(opened)s opened by name)",
        "Week of %(week)s: %(n)s accesses"
        " (%(searched)s found by a search, %(opened)s opened by name)",
        week["accesses"],
        week=week["week"],
        searched=number(week["searched"]),
        opened=number(week["opened"]),
    )


def outside_words(outside: dict[str, int], weeks: Sequence[dict[str, Any]]) -> list[str]:
    """Sentences about the accesses that are in none of the weeks."""
    said = []
    if earlier := outside["earlier"]:
        said.append(
            counting(
                "%(n)s access was before %(week)s.",
                "%(n)s accesses were before %(week)s.",
                earlier,
                week=weeks[0]["week"],
            )
        )
    if later := outside["later"]:
        said.append(
            counting(
                "%(n)s access is dated after the last of these weeks.",
                "%(n)s accesses are dated after the last of these weeks.",
                later,
            )
        )
    if unreadable := outside["unreadable"]:
        said.append(
            counting(
                "%(n)s access has a time that cannot be read.",
                "%(n)s accesses have a time that cannot be read.",
                unreadable,
            )
        )
    return said


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
