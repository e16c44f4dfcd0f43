"""When what is known of one entity came, and when it was used: counts by week, month or years.

Times that cannot be read, and those before the first bin or after the last one, are counted
apart: none is drawn as if it were today.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import times
from .access_weeks import accesses_of, plain, usual
from .bounds import first

SERIES = (
    "observations",
    "ended_observations",
    "relations_begun",
    "relations_ended",
    "accesses",
)
OF_THE_LOG = ("accesses",)
MOST_BINS = 60
LEAST_BINS = 12
_DAY_S = 86_400
_EPOCH = date(1970, 1, 1).toordinal()

_ENDED = "coalesce(julianday({}) <= julianday(:at), 0)"
_ENDED_OBSERVATION, _ENDED_RELATION = _ENDED.format("valid_to"), _ENDED.format("r.valid_to")
# the first of each way, as far as they are counted; a relation of an entity to itself is one
_OWN = f"""(select {{0}} from {first("out")} f cross join relations l on l.id = f.id
  union all select {{0}} from {first("in")} f cross join relations l on l.id = f.id
    where from_entity <> :id) r"""
_EVENTS = (
    f"""select iif({_ENDED_OBSERVATION}, 'ended_observations', 'observations') as series,
    created_at as moment from observations where entity_id = :id""",
    f"""select 'relations_begun' as series, coalesce(valid_from, created_at) as moment
    from {_OWN.format("valid_from, created_at")}""",
    f"""select 'relations_ended' as series, r.valid_to as moment
    from {_OWN.format("valid_to")} where {_ENDED_RELATION}""",
)
# Those of one day at once: what SQLite and times.parse_time read alike is told by its day, and so
# is what is written as a day that may be none.
_DAY = (
    f"case when {plain('moment')} or {usual('moment')} then substr(moment, 1, 10) else moment end"
)


@dataclass(frozen=True)
class Unit:
    """Bins of a width: weeks (``months`` 0) from Monday, or so many months from January."""

    months: int

    def place(self, day: int) -> int:
        """The number of the bin that holds a day, which is counted from 1970-01-01."""
        ordinal = min(max(day + _EPOCH, 1), date.max.toordinal())
        if not self.months:
            return (ordinal - 1) // 7  # the first of January of the year 1 was a Monday
        there = date.fromordinal(ordinal)
        return (there.year * 12 + there.month - 1) // self.months

    def start(self, place: int) -> date:
        """The first day of a bin."""
        if not self.months:
            return date.fromordinal(1) + timedelta(weeks=place)
        year, month = divmod(place * self.months, 12)
        return date(max(year, 1), month + 1, 1)


WEEK = Unit(0)
UNITS = (WEEK, *map(Unit, (1, 3, 12, 60)))


def timeline(
    conn: sqlite3.Connection,
    entity: int,
    *,
    now: str,
    at: str | None = None,
    access_log: bool = True,
) -> dict[str, Any]:
    """Counts of each of SERIES from the first that is known up to the bin of ``now``. Reads only,
    of a hub's relations and accesses as many as ``bounds`` has.

    ``months`` is the width of a bin, 0 for a week; ``bins`` those in a row, at least LEAST_BINS
    and at most MOST_BINS, each with ``start`` (its first day) and a count of each series, and
    none at all where nothing has a time in them. ``earlier`` counts what is dated before the
    first bin, ``later`` what is after the last one, ``unreadable`` what has no time, of each
    series. Observations are told by when
    they came, apart where they had ended ``at`` that time (``now`` where it is None). Without
    ``access_log`` that table is not read, and ``accesses`` are missing.
    """
    names = SERIES if access_log else tuple(n for n in SERIES if n not in OF_THE_LOG)
    last_day = _day(now) or 0
    by_day: Counter[tuple[str, int]] = Counter()
    unreadable: Counter[str] = Counter()
    read = " union all ".join(
        f"select series, {_DAY}, count(*) from ({each}) group by 1, 2" for each in _EVENTS
    )
    found = conn.execute(read, {"id": entity, "at": at or now}).fetchall()
    if access_log:
        found += [("accesses", day, count) for day, count, _ in accesses_of(conn, entity).days]
    for series, moment, count in found:
        day = _day(moment)
        if day is None:
            unreadable[series] += count
        else:
            by_day[series, day] += count
    unit = _fitting((day for _, day in by_day), last_day)
    last = unit.place(last_day)
    bins: Counter[tuple[str, int]] = Counter()
    earlier: Counter[str] = Counter()
    later: Counter[str] = Counter()
    for (series, day), count in by_day.items():
        place = unit.place(day)
        if place > last:
            later[series] += count
        elif place <= last - MOST_BINS:
            earlier[series] += count
        else:
            bins[series, place] += count
    begin = min((place for _, place in bins), default=None)
    shown = [] if begin is None else range(max(0, min(begin, last - LEAST_BINS + 1)), last + 1)
    return {
        "months": unit.months,
        "bins": [
            {"start": unit.start(place).isoformat(), **{name: bins[name, place] for name in names}}
            for place in shown
        ],
        "earlier": {name: earlier[name] for name in names},
        "later": {name: later[name] for name in names},
        "unreadable": {name: unreadable[name] for name in names},
    }


def _fitting(days: Iterable[int], last_day: int) -> Unit:
    """The narrowest unit in which all up to ``last_day`` fits into MOST_BINS, or the widest."""
    first = min((day for day in days if day <= last_day), default=last_day)
    for unit in UNITS:
        if unit.place(last_day) - unit.place(first) < MOST_BINS:
            return unit
    return UNITS[-1]


def _day(moment: Any) -> int | None:
    """Days since 1970-01-01 of a time, or None where it cannot be read."""
    known = times.parse_time(moment)
    return None if known is None else int(known // _DAY_S)
