"""How a memory grew and how it was used, by week or month: for the overview.

Any program may have written the times: ``times.parse_time`` says what those mean that do not
begin with a date.
"""

from __future__ import annotations

from calendar import monthrange
from collections import Counter
from datetime import date, timedelta
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import times

WEEKS = 26
"""Weeks of activity, up to the current one."""
PERIODS = 36
"""The most weeks or months of growth; what was added before them is one number."""
BY_WEEK_DAYS = 7 * 30
"""A memory that grew for longer is shown by month."""
_DAY_S = 86_400
_DATED = "glob '????-??-??*'"
# The number of the day of 1970-01-01 in ``_DAY``.
_EPOCH_DAY = 2_440_588
_FIRST, _LAST = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, in days since 1970-01-01

# A day as SQLite counts them, which groups faster than a text does; NULL where there is no such
# time. A value that does not begin with a date is left as it is, to be read one by one.
_DAY = (
    "case when {0} {1} and length({0}) < 60 then cast(julianday({0}) + 0.5 as integer)"
    " else cast({0} as text) end"
)
_ADDED = "select {day} from {table}"
# Only what may lie in the weeks: a time of an offset is a day off at most.
_LATELY = """select {day}, {kind} from {table}
where {column} >= :since or typeof({column}) <> 'text' or {column} not {dated}"""


def growth(conn: sqlite3.Connection, *, now: Any = None) -> dict[str, Any]:
    """Entities and observations added by week or month, as the memory stands now. Reads only.

    ``step`` is ``week`` or ``month``; ``periods`` [{from, entities, observations, entities_total,
    observations_total}], oldest first and without a gap, up to that of ``now``, at most PERIODS;
    ``from`` is the first day (a Monday, or the first of a month). Totals are of what was there at
    the period's end, with ``before`` {entities, observations}: what was added earlier, or at a
    time that cannot be read. ``later`` is dated after the last period: clocks may be wrong.
    ``unreadable`` is how many of ``before`` have no readable time. About 0.5 s for a million rows.
    """
    today = _day_of(now)
    days = {name: _days(conn, name) for name in ("entities", "observations")}
    known = [day for found in days.values() for day in found if day is not None and day <= today]
    first = min(known, default=today)
    step = "week" if today - first < BY_WEEK_DAYS else "month"
    starts = _starts(step, first, today)
    after = _next(step, starts[-1])
    unread = {name: found.pop(None, 0) for name, found in days.items()}
    before = dict(unread)
    added = {name: [0] * len(starts) for name in days}
    later = dict.fromkeys(days, 0)
    for name, found in days.items():
        for day, count in found.items():
            assert day is not None  # taken out above
            if day < starts[0]:
                before[name] += count
            elif day >= after:
                later[name] += count
            else:
                added[name][_place(starts, step, day)] += count
    total = dict(before)
    periods = []
    for place, start in enumerate(starts):
        for name in total:
            total[name] += added[name][place]
        periods.append(
            {
                "from": _iso(start),
                **{name: added[name][place] for name in days},
                **{f"{name}_total": total[name] for name in days},
            }
        )
    return {
        "step": step,
        "periods": periods,
        "before": before,
        "later": later,
        "unreadable": unread,
    }


def activity(
    conn: sqlite3.Connection, *, now: Any = None, accesses: bool = True, searches: bool = True
) -> dict[str, Any]:
    """Accesses and logged searches of each of the last WEEKS weeks, oldest first. Reads only.

    ``weeks`` [{week, accesses, searched, opened, searches}]: ``week`` is its Monday (UTC), of the
    ``accesses`` some were ``searched`` (found by a search) and the others ``opened`` by name;
    ``searches`` are those in the log. Without ``accesses`` or ``searches`` that log is not read,
    and its figures are None.
    """
    monday = _monday(_day_of(now))
    starts = [monday - 7 * (WEEKS - 1 - place) for place in range(WEEKS)]
    by_search, opened, asked = ([0] * WEEKS for _ in range(3))
    if accesses:
        for (day, is_search), count in _lately(
            conn, "entity_access_log", "accessed_at", "query is not null", starts[0]
        ).items():
            _add(by_search if is_search else opened, starts, day, count)
    if searches:
        for (day, _), count in _lately(
            conn, "limbic_searches", "created_at", "1", starts[0]
        ).items():
            _add(asked, starts, day, count)
    return {
        "weeks": [
            {
                "week": _iso(start),
                "accesses": by_search[place] + opened[place] if accesses else None,
                "searched": by_search[place] if accesses else None,
                "opened": opened[place] if accesses else None,
                "searches": asked[place] if searches else None,
            }
            for place, start in enumerate(starts)
        ]
    }


def this_day(now: Any = None) -> str:
    """The day of ``now``, on which both depend."""
    return _iso(_day_of(now))


def _days(conn: sqlite3.Connection, table: str) -> Counter[int | None]:
    """How many rows were made on each day since 1970-01-01; None where that is not known."""
    sql = _ADDED.format(day=_DAY.format("created_at", _DATED), table=table)
    found: Counter[int | None] = Counter()
    for (value,), count in Counter(_rows(conn, sql)).items():
        found[_read(value)] += count
    return found


def _lately(
    conn: sqlite3.Connection, table: str, column: str, kind: str, since: int
) -> Counter[tuple[int | None, int]]:
    """How many rows of each kind there are of each day, from about ``since`` on."""
    sql = _LATELY.format(
        day=_DAY.format(column, _DATED), kind=kind, table=table, column=column, dated=_DATED
    )
    found: Counter[tuple[int | None, int]] = Counter()
    for (value, which), count in Counter(_rows(conn, sql, {"since": _iso(since - 1)})).items():
        found[_read(value), which] += count
    return found


def _rows(conn: sqlite3.Connection, sql: str, values: dict[str, Any] | None = None) -> Any:
    """The rows as plain tuples, of which a million are counted in a fraction of a second."""
    cursor = conn.cursor()
    cursor.row_factory = None
    return cursor.execute(sql, values or {})


def _read(value: Any) -> int | None:
    """The day of a value of ``_DAY``, in days since 1970-01-01."""
    if isinstance(value, int):
        return value - _EPOCH_DAY
    moment = times.parse_time(value)
    return None if moment is None else int(moment // _DAY_S)


def _add(counts: list[int], starts: list[int], day: int | None, count: int) -> None:
    if day is not None and starts[0] <= day < starts[-1] + 7:
        counts[(day - starts[0]) // 7] += count


def _day_of(now: Any) -> int:
    moment = times.parse_time(now)
    if moment is None:
        moment = times.parse_time(times.now_sql()) or 0.0
    return int(moment // _DAY_S)


def _starts(step: str, first: int, last: int) -> list[int]:
    """The first days of the periods that reach from ``first`` to ``last``, at most PERIODS."""
    start = _begin(step, last)
    starts = [start]
    while starts[0] > first and len(starts) < PERIODS and start > _FIRST:
        start = _begin(step, starts[0] - 1)
        starts.insert(0, start)
    return starts


def _place(starts: list[int], step: str, day: int) -> int:
    if step == "week":
        return (day - starts[0]) // 7
    one, other = _date(starts[0]), _date(day)
    return (other.year - one.year) * 12 + other.month - one.month


def _begin(step: str, day: int) -> int:
    if step == "week":
        return _monday(day)
    return day - _date(day).day + 1


def _next(step: str, start: int) -> int:
    """The day after the period that begins with ``start``."""
    if step == "week":
        return start + 7
    first = _date(start)
    return start + monthrange(first.year, first.month)[1]


def _monday(day: int) -> int:
    return day - (day + 3) % 7  # 1970-01-01 was a Thursday


def _date(day: int) -> date:
    # a week may begin before the year 1 or end after 9999, where dates end
    return date(1970, 1, 1) + timedelta(days=min(max(day, _FIRST), _LAST))


def _iso(day: int) -> str:
    return _date(day).isoformat()
