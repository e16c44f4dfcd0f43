"""The picture of one entity over time: observations, relations, accesses, each in a lane.

Lengths are units of the ``viewBox``; the picture scales to the width that there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from ..i18n import counting, gettext, marked
from ..i18n import gettext as _
from .charts import brief, ceiling

WIDTH = 480
LEFT, RIGHT, TOP, BOTTOM = 34, 6, 20, 18
GAP = 0.2  # of the place of a bin
LABEL_ROOM = 60
BETWEEN = 24  # lanes; the title of the lower one stands there
YEAR = 12
SHORT = 24
"""Months in a picture in which they are named, not the years alone."""
# title, height, series from the bottom of a bar to its top
LANES: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    (marked("Observations"), 62, ("observations", "ended_observations")),
    (marked("Relations"), 30, ("relations_begun", "relations_ended")),
    (marked("Accesses"), 44, ("accesses",)),
)
# what is counted, as the head of a column
NAMES = {
    "observations": marked("Observations"),
    "ended_observations": marked("Ended since"),
    "relations_begun": marked("Relations begun"),
    "relations_ended": marked("Relations ended"),
    "accesses": marked("Accesses"),
}


def picture(found: dict[str, Any], now: str, as_of: str | None = None) -> dict[str, Any] | None:
    """What the template draws of a ``timeline``; None where nothing has a known time.

    A lane is left out where it would be empty, but that of the observations. ``as_of``, if it is
    within the picture, becomes a line.
    """
    bins = found["bins"]
    if not bins:
        return None
    starts = [date.fromisoformat(each["start"]) for each in bins]
    place = (WIDTH - LEFT - RIGHT) / len(bins)
    totals = {name: sum(each[name] for each in bins) for name in bins[0] if name != "start"}
    lanes, y = [], 0.0
    for title, height, series in LANES:
        shown = [name for name in series if name in totals]
        if not shown or (y and not any(totals[name] for name in shown)):
            continue
        y += TOP if not y else BETWEEN
        lanes.append(_lane(bins, shown, gettext(title), y, height, place))
        y += height
    names = [_name(start, found["months"]) for start in starts]
    return {
        "width": WIDTH,
        "height": y + BOTTOM,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "top": TOP,
        "floor": y,
        "label_y": y + 14,
        "lanes": lanes,
        "bins": _bins(bins, names, lanes, place),
        "labels": _labels(starts, found["months"], place),
        "mark": _mark(starts, now, as_of, place),
        "keys": [
            {"kind": name, "text": _key(name, totals[name])}
            for lane in lanes
            for name in lane["series"]
            if totals[name]
        ],
        "columns": [gettext(NAMES[name]) for lane in lanes for name in lane["series"]],
        "rows": [
            {
                "name": name,
                "counts": [each[series] for lane in lanes for series in lane["series"]],
            }
            for name, each in zip(reversed(names), reversed(bins), strict=True)
            if any(each[name] for name in totals)
        ],
        "desc": _description(names, totals, found["months"]),
    }


def outside(found: dict[str, Any]) -> list[str]:
    """Sentences about what the picture does not show."""
    said = []
    for name in ("earlier", "later", "unreadable"):
        counts = found[name]
        observations = counts["observations"] + counts["ended_observations"]
        relations = counts["relations_begun"] + counts["relations_ended"]
        accesses = counts.get("accesses", 0)
        parts = [
            *([_observations(observations)] if observations else []),
            *([_relations(relations)] if relations else []),
            *([_accesses(accesses)] if accesses else []),
        ]
        if not parts:
            continue
        what = ", ".join(parts)
        if name == "earlier":
            said.append(_("Dated long ago, so not shown here: %(what)s.") % {"what": what})
        elif name == "later":
            said.append(_("Dated after today, so not shown here: %(what)s.") % {"what": what})
        else:
            said.append(_("Of no known time, so not shown here: %(what)s.") % {"what": what})
    return said


def _lane(
    bins: Sequence[dict[str, Any]],
    series: list[str],
    title: str,
    y: float,
    height: int,
    place: float,
) -> dict[str, Any]:
    most = max(sum(each[name] for name in series) for each in bins)
    top = ceiling(max(most, 1))
    bars = []
    for index, each in enumerate(bins):
        floor = y + height
        parts = []
        for name in series:
            if not each[name]:
                continue
            # what is there at all can be seen
            length = max(1.0, height * each[name] / top)
            floor -= length
            parts.append({"kind": name, "y": _round(floor), "height": _round(length)})
        bars.append(
            {
                "x": _round(LEFT + (index + GAP / 2) * place),
                "width": _round(place * (1 - GAP)),
                "parts": parts,
            }
        )
    return {
        "title": title,
        "title_y": _round(y - 6),
        "series": series,
        "bars": bars,
        "lines": [
            {"y": _round(y + height - height * value / top), "text": brief(value)}
            for value in ((0, top) if top > 1 else (0, 1))
        ],
    }


def _bins(
    bins: Sequence[dict[str, Any]],
    names: Sequence[str],
    lanes: Sequence[dict[str, Any]],
    place: float,
) -> list[dict[str, Any]]:
    """The bars of one bin in all lanes, with what they are in words; empty bins are left out."""
    return [
        {
            "title": f"{name}: {_words(each)}",
            "bars": [lane["bars"][index] for lane in lanes if lane["bars"][index]["parts"]],
        }
        for index, (name, each) in enumerate(zip(names, bins, strict=True))
        if any(lane["bars"][index]["parts"] for lane in lanes)
    ]


def _words(counts: dict[str, Any]) -> str:
    """The counts of one bin, without those of nothing."""
    held, ended = counts["observations"], counts["ended_observations"]
    parts = []
    if held + ended:
        said = _observations(held + ended)
        if ended:
            said += counting(" (%(n)s has ended)", " (%(n)s have ended)", ended)
        parts.append(said)
    if begun := counts["relations_begun"]:
        parts.append(counting("%(n)s relation begun", "%(n)s relations begun", begun))
    if over := counts["relations_ended"]:
        parts.append(counting("%(n)s relation ended", "%(n)s relations ended", over))
    if used := counts.get("accesses", 0):
        parts.append(_accesses(used))
    return ", ".join(parts)


def _description(names: Sequence[str], totals: dict[str, int], months: int) -> str:
    held, ended = totals["observations"], totals["ended_observations"]
    summed = {name: totals.get(name, 0) for name in NAMES}
    said = _words(summed) if any(summed.values()) else _observations(held + ended)
    return _("From %(first)s to %(last)s, %(width)s: %(counts)s.") % {
        "first": names[0],
        "last": names[-1],
        "width": _width(months),
        "counts": said,
    }


def _width(months: int) -> str:
    if not months:
        return _("week by week")
    if months == 1:
        return _("month by month")
    if months < YEAR:
        return _("quarter by quarter")
    return counting("year by year", "by %(n)s years", months // YEAR)


def _name(start: date, months: int) -> str:
    """A bin as people call it: the Monday of a week, a month, a quarter's first and last, years."""
    if not months:
        return start.isoformat()
    first, year = f"{start.year:04}-{start.month:02}", f"{start.year:04}"
    if months == 1:
        return first
    if months < YEAR:
        return f"{first} – {year}-{start.month + months - 1:02}"
    if months == YEAR:
        return year
    return f"{year} – {start.year + months // YEAR - 1:04}"


def _labels(starts: Sequence[date], months: int, place: float) -> list[dict[str, Any]]:
    """The years, in a short picture the months, where each begins and as far as there is room."""
    by_month = not months or (months < YEAR and len(starts) * months <= SHORT)
    labels: list[dict[str, Any]] = []
    free_from, before = 0.0, ""
    for index, start in enumerate(starts):
        text = start.isoformat()[: 7 if by_month else 4]
        x = LEFT + index * place
        # the first bin begins where it does, in the middle of a month or a year
        whole = start.month == 1 or months >= YEAR if not by_month else start.day == 1
        starts_here = text != before and (index > 0 or whole)
        before = text
        if starts_here and free_from <= x <= WIDTH - LABEL_ROOM:
            labels.append({"x": _round(x), "text": text})
            free_from = x + LABEL_ROOM
    return labels


def _mark(
    starts: Sequence[date], now: str, as_of: str | None, place: float
) -> dict[str, Any] | None:
    """Where the date that is asked for lies."""
    if as_of is None:
        return None
    asked = date.fromisoformat(as_of[:10])
    if not starts[0] <= asked <= max(date.fromisoformat(now[:10]), starts[-1]):
        return None
    index = max(i for i, start in enumerate(starts) if start <= asked)
    following = starts[index + 1] if index + 1 < len(starts) else None
    days = (following - starts[index]).days if following else None
    share = (asked - starts[index]).days / days if days else 0.5
    return {"x": _round(LEFT + (index + share) * place), "text": as_of[:10]}


def _key(series: str, count: int) -> str:
    """What the colour of a series means, and how many there are in the picture."""
    if series == "observations":
        return _observations(count)
    if series == "ended_observations":
        return counting(
            "%(n)s observation that has ended", "%(n)s observations that have ended", count
        )
    if series == "relations_begun":
        return counting("%(n)s relation begun", "%(n)s relations begun", count)
    if series == "relations_ended":
        return counting("%(n)s relation ended", "%(n)s relations ended", count)
    return _accesses(count)


def _observations(count: int) -> str:
    return counting("%(n)s observation", "%(n)s observations", count)


def _relations(count: int) -> str:
    return counting("%(n)s relation", "%(n)s relations", count)


def _accesses(count: int) -> str:
    return counting("%(n)s access", "%(n)s accesses", count)


def _round(value: float) -> float:
    return round(value, 2)
