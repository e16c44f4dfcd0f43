"""How often one entity was accessed, week by week, from the access log.

Any program may have written the log: times in every spelling that ``times.parse_time`` reads
count in their week, and what it cannot read is counted apart. Where there are more than LOGGED,
the last ones in the order of their texts are read, by an index: of a log in one spelling the
latest, of one in several those whose spelling sorts last (ISO 8601 after Unix seconds).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import times
from .bounds import LOGGED

WEEKS = 26
_DAY_S = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _begins_with(column: str, local: str) -> str:
    """SQL: whether a text begins with the date and time, in full, that SQLite reads ``local`` as.

    0, 1, or NULL where that is none.
    """
    # the modifier makes SQLite reckon: alone, datetime() gives hour 24 back as it is
    return f"datetime({local}, '+0 days') = replace(substr({column}, 1, 19), 'T', ' ')"


def _tail(column: str) -> str:
    """SQL: what follows the seconds and their fraction."""
    return f"ltrim(substr({column}, 20), '.0123456789')"


def _text(column: str) -> str:
    """SQL: whether a value is text, of a year from 1, and without NUL, where SQLite stops reading.

    In all of that ``times.parse_time`` is of another mind than SQLite.
    """
    return f"typeof({column}) = 'text' and {column} >= '0001' and instr({column}, char(0)) = 0"


def usual(column: str) -> str:
    """SQL: whether a time begins with itself in UTC, so that its text sorts to the right day.

    True of what this package writes, and of ISO 8601 with a T, a fraction, a Z: SQLite and
    ``times.parse_time`` both read these, and alike. Not of an offset, a Unix time, the 31st of
    February: ``parse_time`` has to look at those one by one. Always 0 or 1.
    """
    return (
        f"coalesce({_text(column)} and {_tail(column)} in ('', 'Z', 'z', '+00:00') "
        f"and {_begins_with(column, column)}, 0)"
    )


def plain(column: str) -> str:
    """SQL: ``usual``, but for whether there is such a day, which may be asked once for all of it.

    Four times as quick: an entity may have been accessed a million times.
    """
    day = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][ T]"
    written = (
        f"{column} glob '{day}{hour}:[0-5][0-9]:[0-5][0-9]*'" for hour in ("[01][0-9]", "2[0-3]")
    )
    # in bytes: what stands after a NUL counts too
    return (
        f"({' or '.join(written)}) and (length(cast({column} as blob)) = 19"
        f" or {_tail(column)} in ('', 'Z', 'z', '+00:00') and {_text(column)})"
    )


# What begins with its own day is told by that day, and what has an offset by its day in UTC, so
# that many of a day are parsed once.
_DAY = f"""case when {plain("accessed_at")} then substr(accessed_at, 1, 10)
  when {_text("accessed_at")}
    and {_begins_with("accessed_at", "substr(accessed_at, 1, 19)")}
    and {_tail("accessed_at")} glob '[-+][0-9][0-9]:[0-9][0-9]'
  then coalesce(date(accessed_at), accessed_at) else accessed_at end"""
_LATEST = f"""select {_DAY}, count(*), count(query) from (
  select accessed_at, query from entity_access_log where entity_id = :id
  order by accessed_at desc limit {LOGGED}) group by 1"""
# the oldest that is read, where one more is there
_SINCE = f"""select accessed_at from entity_access_log where entity_id = :id
  order by accessed_at desc limit 2 offset {LOGGED - 1}"""


@dataclass(frozen=True)
class Accesses:
    """The last LOGGED accesses of one entity, in the order of their times as texts.

    ``days``: a day, which may be none of the calendar, or a time of another spelling; how many
    there are of it, and how many of these a search found. ``more`` says that the log has others
    before them; then ``since`` is the first time of those that were read, as it is written there:
    None also where that one has none.
    """

    days: tuple[tuple[Any, int, int], ...]
    more: bool
    since: Any

    @property
    def count(self) -> int:
        """How many were read."""
        return sum(count for _, count, _ in self.days)


def accesses_of(conn: sqlite3.Connection, entity_id: int) -> Accesses:
    """The accesses of one entity by day. Reads only, at most LOGGED rows: some 15 ms."""
    args = {"id": entity_id}
    days = tuple(conn.execute(_LATEST, args).fetchall())
    ends = conn.execute(_SINCE, args).fetchall()
    more = len(ends) > 1
    return Accesses(days, more, ends[0][0] if more else None)


def accesses_by_week(accesses: Accesses, *, now: str, weeks: int = WEEKS) -> dict[str, Any]:
    """``weeks`` up to that of ``now``, oldest first, and how many accesses lie outside of them.

    A week starts on Monday, 00:00 UTC, and is named by that day. ``searched`` were found by a
    search, ``opened`` by name, ``accesses`` is both. ``outside_weeks`` counts the accesses that
    are ``earlier``, ``later`` (after the week of ``now``) and ``unreadable`` (of no known time).
    """
    last = _week(times.parse_time(now) or 0.0)
    first = last - 7 * (weeks - 1)
    found = {day: [0, 0] for day in range(first, last + 1, 7)}
    outside = {"earlier": 0, "later": 0, "unreadable": 0}
    for value, count, searched in accesses.days:
        moment = times.parse_time(value)
        week = None if moment is None else _week(moment)
        if week is None:
            outside["unreadable"] += count
        elif week not in found:
            outside["earlier" if week < first else "later"] += count
        else:
            found[week][0] += count
            found[week][1] += searched
    return {
        "weeks": [
            {"week": _name(day), "accesses": n, "searched": searched, "opened": n - searched}
            for day, (n, searched) in found.items()
        ],
        "outside_weeks": outside,
    }


def _week(moment: float) -> int:
    """The Monday of a moment, in days since 1970-01-01, which was a Thursday."""
    day = int(moment // _DAY_S)
    return day - (day + 3) % 7


def _name(day: int) -> str:
    # a week may begin before the year 1 or end after 9999, where dates end
    return (_EPOCH + timedelta(days=min(max(day, -719_162), 2_932_896))).date().isoformat()
