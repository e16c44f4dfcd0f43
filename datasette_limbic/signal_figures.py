"""What use of a memory has left in it, in figures: for ``status``, the overview, an entity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import times
from .access_weeks import usual
from .bounds import LOGGED, upto
from .config import Settings
from .search_log import OPENED, RATINGS

CALLERS = 10
EVENTS = (OPENED, *RATINGS)

# Opened counts every time, but what no search had shown; of ratings, the last one of each result
# of a search counts.
_EVENTS = """select event, count(*) from (
  select event from {rows} where event = 'opened' and search_id is not null
  union all
  select event from (select event, max(id) from {rows} where event <> 'opened'
    group by coalesce(search_id, -id), entity_name)
) group by 1"""
# of a hub the latest, as of its accesses
_OF_ENTITY = f"""(select * from limbic_feedback where entity_id = :id
  order by id desc limit {LOGGED})"""
# Of times in unusual spellings, which are read one by one, at most so many different ones count.
_MOST_ODD = 10_000


def _moment(column: str) -> str:
    """SQL: a time in the one form whose text sorts as the moments do, NULL where unusual."""
    return f"case when {usual(column)} then strftime('%Y-%m-%d %H:%M:%f', {column}) end"


def signal_figures(conn: sqlite3.Connection, settings: Settings) -> dict[str, Any]:
    """Searches logged and by whom, openings and ratings, the last access, what is kept.

    ``searches`` {count, first, last}; ``by`` the most frequent callers [{client, actor, searches,
    last}], at most CALLERS; ``events`` {opened, useful, not_useful}. Times are UTC text: of those
    that can be read the first or the last, or None where there is none. Reads only.
    """
    count = conn.execute("select count(*) from limbic_searches").fetchone()[0]
    first, last = _span(conn, "limbic_searches", "created_at")
    return {
        "searches": {"count": count, "first": first, "last": last},
        "by": callers(conn),
        "events": events(conn),
        "last_access": last_access(conn),
        "baseline_share": settings.baseline_share,
        "log_retention_days": settings.log_retention_days,
    }


def callers(conn: sqlite3.Connection) -> list[dict[str, Any]]:
    """Who searched most often: as the client names itself, and as Datasette knows the actor."""
    found = conn.execute(
        f"""select client, actor, count(*), max(moment), count(moment)
        from (select client, actor, {_moment("created_at")} as moment from limbic_searches limit -1)
        group by client, actor order by 3 desc, 4 desc limit {CALLERS}"""
    ).fetchall()
    moments: dict[tuple[Any, Any], list[Any]] = {(row[0], row[1]): [row[3]] for row in found}
    if any(usually < count for _, _, count, _, usually in found):
        odd = f"""select distinct client, actor, created_at from limbic_searches
          where not {usual("created_at")} limit {_MOST_ODD}"""
        for client, actor, value in conn.execute(odd):
            moments.get((client, actor), []).append(value)
    return [
        {
            "client": client,
            "actor": actor,
            "searches": count,
            "last": _ends(moments[client, actor])[1],
        }
        for client, actor, count, *_ in found
    ]


def events(conn: sqlite3.Connection, entity_id: int | None = None) -> dict[str, int]:
    """How many results of searches were opened and rated, of all of them, or of the latest LOGGED
    events of one entity."""
    rows = "limbic_feedback" if entity_id is None else _OF_ENTITY
    found = dict(conn.execute(_EVENTS.format(rows=rows), {"id": entity_id}))
    return {event: found.get(event, 0) for event in EVENTS}


def has_more_events(conn: sqlite3.Connection, entity_id: int) -> bool:
    """Whether an entity has more of them than ``events`` counts."""
    rows = "select 1 from limbic_feedback where entity_id = ?"
    return bool(conn.execute(f"select {upto(rows, LOGGED)} > {LOGGED}", [entity_id]).fetchone()[0])


def last_access(conn: sqlite3.Connection) -> str | None:
    """The newest time in ``entity_access`` that can be read, as UTC text; None where none can."""
    return _span(conn, "entity_access", "last_access")[1]


def _span(conn: sqlite3.Connection, table: str, column: str) -> tuple[str | None, str | None]:
    """The first and the last time of a column that can be read, as UTC text."""
    # the limit keeps SQLite from reckoning each moment once for each of the four
    first, last, usually, count = conn.execute(
        f"""select min(moment), max(moment), count(moment), count(*)
        from (select {_moment(column)} as moment from {table} limit -1)"""
    ).fetchone()
    found = [first, last]
    if usually < count:
        odd = f"select distinct {column} from {table} where not {usual(column)} limit {_MOST_ODD}"
        found += (row[0] for row in conn.execute(odd))
    return _ends(found)


def _ends(values: Iterable[Any]) -> tuple[str | None, str | None]:
    """The first and the last of these times, as UTC text; None, None where none can be read."""
    found = [moment for value in values if (moment := times.parse_time(value)) is not None]
    return (times.to_sql(min(found)), times.to_sql(max(found))) if found else (None, None)
