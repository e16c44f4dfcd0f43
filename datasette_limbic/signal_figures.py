"""What use of a memory has left in it, in figures: for ``status``, the overview, an entity."""

from __future__ import annotations

from typing import Any

from datasette.utils.sqlite import sqlite3

from . import times
from .config import Settings
from .search_log import OPENED, RATINGS

CALLERS = 10
EVENTS = (OPENED, *RATINGS)

# Opened counts every time; of ratings, the last one of each result of a search counts.
_EVENTS = """select event, count(*) from (
  select event from limbic_feedback where event = 'opened'{where}
  union all
  select event from (select event, max(id) from limbic_feedback where event <> 'opened'{where}
    group by coalesce(search_id, -id), entity_name)
) group by 1"""
_USUAL_TIME = "last_access glob '[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9] [0-2][0-9]:*'"
MAX_ODD_TIMES = 10_000


def signal_figures(conn: sqlite3.Connection, settings: Settings) -> dict[str, Any]:
    """Searches logged and by whom, openings and ratings, the last access, what is kept.

    ``searches`` {count, first, last}; ``by`` the most frequent callers [{client, actor, searches,
    last}], at most CALLERS; ``events`` {opened, useful, not_useful}. Times are UTC text, or None
    where nothing was recorded. Reads only.
    """
    count, first, last = conn.execute(
        "select count(*), min(created_at), max(created_at) from limbic_searches"
    ).fetchone()
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
    cursor = conn.execute(
        f"""select client, actor, count(*) as searches, max(created_at) as last
        from limbic_searches group by client, actor order by 3 desc, 4 desc limit {CALLERS}"""
    )
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def events(conn: sqlite3.Connection, entity_id: int | None = None) -> dict[str, int]:
    """How many results were opened and rated, of one entity or of all of them."""
    where = "" if entity_id is None else " and entity_id = :id"
    found = dict(conn.execute(_EVENTS.format(where=where), {"id": entity_id}))
    return {event: found.get(event, 0) for event in EVENTS}


def last_access(conn: sqlite3.Connection) -> str | None:
    """The newest time in ``entity_access`` that can be read, as UTC text; None where none can."""
    usual = conn.execute(f"select max(last_access) from entity_access where {_USUAL_TIME}")
    odd = conn.execute(
        f"""select distinct last_access from entity_access where not ({_USUAL_TIME})
        limit {MAX_ODD_TIMES}"""
    )
    found = [times.parse_time(row[0]) for row in (*usual, *odd)]
    return times.to_sql(max((moment for moment in found if moment is not None), default=None))
