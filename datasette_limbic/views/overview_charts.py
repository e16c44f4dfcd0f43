"""Geometry of the overview's charts: how the memory grew, how it was used, bars of its types.

Lengths are units of a ``viewBox``; the picture scales to the width that there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..i18n import counting, figure
from ..i18n import gettext as _
from .charts import brief, ceiling, whole

WIDTH, HEIGHT = 380, 150
LEFT, TOP, BOTTOM = 34, 8, 20
RIGHT, RIGHT_OF_LINE = 4, 38
GAP = 0.22  # of the place of a bar
LABEL_ROOM = 46
BAR_WIDTH, BAR_HEIGHT = 160, 10


def growth_charts(found: dict[str, Any]) -> list[dict[str, Any]]:
    """What ``over_time.growth`` tells: bars of what was added, a line of what was there then."""
    periods, step = found["periods"], found["step"]
    charts = []
    for name, title in (("entities", _("Entities")), ("observations", _("Observations"))):
        added = [each[name] for each in periods]
        totals = [each[f"{name}_total"] for each in periods]
        if not totals[-1]:
            continue
        frame = _frame([each["from"] for each in periods], step, added, RIGHT_OF_LINE)
        titles = [
            _("%(period)s: %(added)s added, %(total)s by then")
            % {
                "period": _period(each["from"], step),
                "added": figure(each[name]),
                "total": figure(each[f"{name}_total"]),
            }
            for each in periods
        ]
        charts.append(
            {
                **frame,
                "name": name,
                "title": title,
                "bars": _bars(frame, [[("added", count)] for count in added], titles),
                "line": _line(frame, totals),
                "right_ticks": [
                    {"y": y, "text": brief(value), "text_x": WIDTH - RIGHT_OF_LINE + 5}
                    for y, value in _ticks(frame, ceiling(max(totals)))
                ],
                "desc": _growth_words(found, name),
            }
        )
    return charts


def growth_rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The same as a table, the latest first."""
    return [
        {**each, "period": _period(each["from"], found["step"])}
        for each in reversed(found["periods"])
    ]


def activity_charts(found: dict[str, Any]) -> list[dict[str, Any]]:
    """What ``over_time.activity`` tells: accesses by what found them, and logged searches."""
    weeks = found["weeks"]
    shown: list[tuple[str, str, tuple[str, ...]]] = [
        ("accesses", _("Accesses"), ("searched", "opened")),
        ("searches", _("Searches"), ("searches",)),
    ]
    charts = []
    for name, title, series in shown:
        counts = [each[name] for each in weeks]
        if counts[0] is None or not any(counts):
            continue
        frame = _frame([each["week"] for each in weeks], "week", counts, RIGHT)
        titles = [_week_words(each, name) for each in weeks]
        parts = [[(kind, each[kind]) for kind in series] for each in weeks]
        charts.append(
            {
                **frame,
                "name": name,
                "title": title,
                "bars": _bars(frame, parts, titles),
                "line": None,
                "right_ticks": [],
                "desc": _activity_words(weeks, name),
                "key": [
                    {"kind": kind, "text": words, "count": sum(each[kind] for each in weeks)}
                    for kind, words in (
                        ("searched", _("found by a search")),
                        ("opened", _("opened by name")),
                    )
                    if kind in series
                ],
            }
        )
    return charts


def activity_rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The weeks in which there was anything, the latest first."""
    return [each for each in reversed(found["weeks"]) if each["accesses"] or each["searches"]]


def type_bars(types: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The types, each with the length of its bar; the most frequent has the longest."""
    most = max((each["count"] for each in types), default=0) or 1
    return [
        {
            **each,
            "length": round(max(1.0, BAR_WIDTH * each["count"] / most), 1),
            "width": BAR_WIDTH,
            "height": BAR_HEIGHT,
        }
        for each in types
    ]


def _frame(starts: list[str], step: str, counts: list[int], right: float) -> dict[str, Any]:
    """Axes for bars of these heights, one a period."""
    top, floor = ceiling(max(1, *counts)), HEIGHT - BOTTOM
    place = (WIDTH - LEFT - right) / len(starts)
    frame: dict[str, Any] = {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - right,
        "floor": floor,
        "top": top,
        "place": place,
        "label_y": HEIGHT - 5,
        "labels": _labels(starts, step, place, WIDTH - right),
    }
    frame["ticks"] = [
        {"y": y, "text": brief(value), "text_x": LEFT - 5} for y, value in _ticks(frame, top)
    ]
    return frame


def _ticks(frame: dict[str, Any], top: int) -> list[tuple[float, int]]:
    room = frame["floor"] - TOP
    return [(round(frame["floor"] - room * value / top, 2), value) for value in (0, top // 2, top)]


def _labels(starts: list[str], step: str, place: float, right: float) -> list[dict[str, Any]]:
    """Where a month begins (or a year, in a chart of months), as far as there is room."""
    length = 7 if step == "week" else 4
    labels: list[dict[str, Any]] = []
    free_from, before = 0.0, ""
    for index, start in enumerate(starts):
        x = LEFT + index * place
        if start[:length] != before and x >= free_from and x <= right - LABEL_ROOM + 6:
            # the first period may begin in the middle of a year
            text = start[:7] if step == "week" or not start.endswith("-01-01") else start[:4]
            labels.append({"x": round(x, 2), "text": text})
            free_from = x + LABEL_ROOM
        before = start[:length]
    return labels


def _bars(
    frame: dict[str, Any], parts: list[list[tuple[str, int]]], titles: list[str]
) -> list[dict[str, Any]]:
    room, bars = frame["floor"] - TOP, []
    for index, series in enumerate(parts):
        y, drawn = frame["floor"], []
        for kind, value in series:
            count = whole(value)
            if count:
                height = max(1.0, room * count / frame["top"])  # what is there can be seen
                y -= height
                drawn.append({"kind": kind, "y": round(y, 2), "height": round(height, 2)})
        if drawn:
            bars.append(
                {
                    "x": round(frame["left"] + (index + GAP / 2) * frame["place"], 2),
                    "width": round(frame["place"] * (1 - GAP), 2),
                    "title": titles[index],
                    "parts": drawn,
                }
            )
    return bars


def _line(frame: dict[str, Any], totals: list[int]) -> str:
    """The points of a polyline through the totals, each in the middle of its period."""
    room, top = frame["floor"] - TOP, ceiling(max(totals))
    return " ".join(
        f"{frame['left'] + (index + 0.5) * frame['place']:.2f},"
        f"{frame['floor'] - room * total / top:.2f}"
        for index, total in enumerate(totals)
    )


def _period(start: str, step: str) -> str:
    return _("week of %(day)s") % {"day": start} if step == "week" else start[:7]


def _growth_words(found: dict[str, Any], name: str) -> str:
    periods, step = found["periods"], found["step"]
    busiest = max(periods, key=lambda each: each[name])
    first, last = periods[0], periods[-1]
    values = {
        "first": _period(first["from"], step),
        "last": _period(last["from"], step),
        "before": figure(found["before"][name]),
        "total": figure(last[f"{name}_total"]),
        "busiest": _period(busiest["from"], step),
        "most": figure(busiest[name]),
    }
    if name == "entities":
        text = _(
            "Entities from %(first)s to %(last)s: from %(before)s to %(total)s. "
            "Most were added in %(busiest)s: %(most)s."
        )
    else:
        text = _(
            "Observations from %(first)s to %(last)s: from %(before)s to %(total)s. "
            "Most were added in %(busiest)s: %(most)s."
        )
    return text % values


def _week_words(week: dict[str, Any], name: str) -> str:
    if name == "searches":
        return counting(
            "week of %(day)s: %(n)s search",
            "week of %(day)s: %(n)s searches",
            week["searches"],
            day=week["week"],
        )
    return counting(
        "week of %(day)s: %(n)s access, %(searched)s found by a search, %(opened)s opened by name",
        "week of %(day)s: %(n)s accesses, %(searched)s found by a search, "
        "%(opened)s opened by name",
        week["accesses"],
        day=week["week"],
        searched=figure(week["searched"]),
        opened=figure(week["opened"]),
    )


def _activity_words(weeks: list[dict[str, Any]], name: str) -> str:
    busiest = max(weeks, key=lambda each: each[name])
    total = sum(each[name] for each in weeks)
    values = {
        "weeks": figure(len(weeks)),
        "busiest": busiest["week"],
        "most": figure(busiest[name]),
    }
    if name == "searches":
        return counting(
            "%(n)s search in %(weeks)s weeks. The busiest was the week of %(busiest)s: %(most)s.",
            "%(n)s searches in %(weeks)s weeks. The busiest was the week of %(busiest)s: %(most)s.",
            total,
            **values,
        )
    return counting(
        "%(n)s access in %(weeks)s weeks. The busiest was the week of %(busiest)s: %(most)s.",
        "%(n)s accesses in %(weeks)s weeks. The busiest was the week of %(busiest)s: %(most)s.",
        total,
        **values,
    )
