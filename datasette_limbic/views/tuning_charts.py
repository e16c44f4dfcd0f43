"""Geometry of intervals, of a meter and of the weeks on the tuning page.

As in ``charts``: lengths are units of a ``viewBox``, and the template draws what stands here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from ..i18n import figure, marked, ngettext
from ..i18n import gettext as _
from .display import number

BAR_WIDTH, BAR_HEIGHT = 160, 16
WIDTH, HEIGHT = 640, 220
LEFT, RIGHT, TOP, BOTTOM = 30, 8, 8, 22
LABEL_ROOM = 62
DAYS = 7
ARMS = (marked("limbic"), marked("baseline"))
_PAD = 4


def words(found: Mapping[str, Any] | None, *, signed: bool = False) -> str:
    """An estimate with its interval: ``0.693 (0.661 to 0.724)``; an en dash where none is known."""
    if found is None or found["value"] is None:
        return "–"
    spec = "+.4f" if signed else ".3f"
    value, low, high = (
        "–" if found[name] is None else figure(found[name], spec)
        for name in ("value", "low", "high")
    )
    return _("%(value)s (%(low)s to %(high)s)") % {"value": value, "low": low, "high": high}


def interval_bar(found: Mapping[str, Any] | None, low: float, high: float) -> dict[str, Any] | None:
    """An interval on an axis from ``low`` to ``high``, with 0 where the axis crosses it.

    None where something of it is not known, or the axis has no length.
    """
    if found is None or low >= high or None in (found["value"], found["low"], found["high"]):
        return None

    def x(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return _round(_PAD + (BAR_WIDTH - 2 * _PAD) * share)

    return {
        "width": BAR_WIDTH,
        "height": BAR_HEIGHT,
        "middle": BAR_HEIGHT / 2,
        "left": _PAD,
        "right": BAR_WIDTH - _PAD,
        "from": x(found["low"]),
        "to": x(found["high"]),
        "at": x(found["value"]),
        "zero": x(0.0) if low < 0 < high else None,
    }


def gain_axis(*gains: Mapping[str, Any] | None) -> float:
    """How far an axis goes to both sides of 0 for all of these, with room at both ends."""
    ends = [
        abs(found[name])
        for found in gains
        if found is not None
        for name in ("value", "low", "high")
        if found[name] is not None
    ]
    return 1.15 * max(ends, default=0.0)


def gain_bar(found: Mapping[str, Any] | None, most: float) -> dict[str, Any] | None:
    """The interval of a gain on an axis from -``most`` to ``most``: gains that stand together
    share it, so that lengths can be compared."""
    return interval_bar(found, -most, most)


def meter(reached: Any, bound: Any) -> dict[str, Any] | None:
    """How far a figure is on its way to the bound; None where it is no share of that way."""
    if reached is None or bound is None or not 0 <= reached < bound:
        return None
    return {
        "width": BAR_WIDTH,
        "height": BAR_HEIGHT / 2,
        "full": _round(BAR_WIDTH * reached / bound),
        "percent": percent(reached / bound),
    }


def week_bands(weeks: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """NDCG@K of both orders by week: a line, and a band for its interval.

    ``weeks`` as ``analysing.figures`` gives them. A line ends where a week has no figure, and its
    band where the interval is not known. None where there is no figure at all.
    """
    days = [date.fromisoformat(week["week"]).toordinal() for week in weeks]
    first, last = min(days, default=0), max(days, default=0)
    span = max(last - first, DAYS)
    floor, room = HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP

    def x(day: int) -> float:
        return _round(LEFT + (WIDTH - LEFT - RIGHT) * (day - first) / span)

    def y(value: float) -> float:
        return _round(floor - room * min(max(value, 0.0), 1.0))

    arms = []
    for arm in ARMS:
        points = [
            {
                "day": day,
                "x": x(day),
                "y": y(found["value"]),
                "known": None not in (found["low"], found["high"]),
                "low": None if found["low"] is None else y(found["low"]),
                "high": None if found["high"] is None else y(found["high"]),
                "title": _week_words(week, arm),
            }
            for day, week in zip(days, weeks, strict=True)
            if (found := week[arm]["ndcg"]) is not None and found["value"] is not None
        ]
        if points:
            arms.append({"arm": arm, "points": points, **_lines(points)})
    if not arms:
        return None
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "arms": arms,
        "labels": _labels(weeks, days, x),
        "label_y": HEIGHT - 6,
        "lines": [
            {"y": y(value), "text": figure(value, "g"), "text_x": LEFT - 5}
            for value in (0.0, 0.25, 0.5, 0.75, 1.0)
        ],
        "desc": " ".join(_said(each) for each in arms),
    }


def _lines(points: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Lines through weeks that follow each other, and outlines of the bands of those of them whose
    interval is known: a band that was pinched to a point would say that it is known exactly."""
    known = [point for point in points if point["known"]]
    return {
        "lines": [" ".join(f"{p['x']},{p['y']}" for p in run) for run in _runs(points)],
        "bands": [
            " ".join(
                [f"{p['x']},{p['high']}" for p in run]
                + [f"{p['x']},{p['low']}" for p in reversed(run)]
            )
            for run in _runs(known)
        ],
    }


def _runs(points: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Weeks that follow each other; two at least."""
    runs: list[list[Mapping[str, Any]]] = []
    for point in points:
        if runs and point["day"] - runs[-1][-1]["day"] <= DAYS:
            runs[-1].append(point)
        else:
            runs.append([point])
    return [run for run in runs if len(run) > 1]


def _labels(
    weeks: Sequence[Mapping[str, Any]], days: Sequence[int], x: Any
) -> list[dict[str, Any]]:
    """The weeks that are named on the axis, as far as there is room."""
    labels: list[dict[str, Any]] = []
    for day, week in sorted(zip(days, (w["week"] for w in weeks), strict=True)):
        place = min(x(day), WIDTH - LABEL_ROOM)
        if not labels or place >= labels[-1]["x"] + LABEL_ROOM:
            labels.append({"x": place, "text": week})
    return labels


def _said(arm: Mapping[str, Any]) -> str:
    points = arm["points"]
    said = ngettext(
        "The %(arm)s order in %(n)s week: %(first)s; %(last)s.",
        "The %(arm)s order in %(n)s weeks: %(first)s; %(last)s.",
        len(points),
    )
    return said % {
        "arm": _(arm["arm"]),
        "n": number(len(points)),
        "first": points[0]["title"],
        "last": points[-1]["title"],
    }


def _week_words(week: Mapping[str, Any], arm: str) -> str:
    return _(
        "Week of %(week)s, %(arm)s: %(figure)s, %(labelled)s of %(searches)s searches with a used "
        "result"
    ) % {
        "week": week["week"],
        "arm": _(arm),
        "figure": words(week[arm]["ndcg"]),
        "labelled": number(week[arm]["labelled"]),
        "searches": number(week[arm]["searches"]),
    }


def percent(share: float) -> str:
    """``10 %`` of 0.1."""
    return _("%(number)s %%") % {"number": figure(100 * share, ".0f")}


def _round(value: float) -> float:
    return round(value, 2)
