"""What needs review, in figures: for the overview page and ``datasette limbic status``.

The lists themselves are ``consolidation_report``; nothing is compared or clustered here.
"""

from __future__ import annotations

from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import llm_store, report_settings, schema, times
from . import keeping
from .consolidation import LISTS, REPORT, last_review, unknown_lists
from .known import why_unknown
from .lists import Listing

DUE_DAYS = 31
"""A report not looked through for longer is due: the documents advise once a month."""
_COUNTED = {**LISTS, "orphans": Listing("limbic_orphans", "q.id", kept=False)}


def review(conn: sqlite3.Connection, *, now: Any = None, reviews: bool = True) -> dict[str, Any]:
    """Counts of what deserves attention, how old what is kept is, and when it was looked through.

    Reads only, from what ``sync`` kept. ``counts`` has ``split_candidates``, ``approaching``,
    ``flagged_observations``, ``contradictions``, ``stale_entities``, ``large_entities`` and
    ``orphans``. Those that are not known are None, and ``reason`` says why: a file of an earlier
    version lacks the tables, or observations were not compared yet.
    ``kept`` is that of ``keeping.state``. ``reviewed`` is the last time that the consolidation
    report was marked as looked through ({"at", "by"}, or None), ``days_since_review`` the days
    since then (None: never, or at a time that cannot be read), and ``review_due`` whether those
    are over 31, or never. Without ``reviews`` the table limbic_reviews is not read, and these
    three are None. ``now`` is any time that ``times.parse_time`` reads.
    """
    kept = keeping.state(conn) if schema.has_reports(conn) else None
    unknown = unknown_lists(kept)
    here = report_settings.read(conn)
    moment = times.to_sql(now) or times.now_sql()
    values = {
        "now": moment,
        "stale_days": here.stale_days,
        "stale_max_access": here.stale_max_access,
    }
    last = last_review(conn) if reviews else None
    days = _days(last["at"], moment) if last else None
    return {
        "counts": {
            name: None if name in unknown else listing.count(conn, values)
            for name, listing in _COUNTED.items()
        },
        "stale_days": here.stale_days,
        "kept": kept,
        "reason": why_unknown(kept),
        "reviewed": last,
        "days_since_review": days,
        "review_due": (days is None or days > DUE_DAYS) if reviews else None,
    }


def mark_reviewed(conn: sqlite3.Connection, actor: str | None = None) -> dict[str, Any]:
    """Mark the consolidation report as looked through, now and by ``actor``: a row of
    limbic_reviews.

    Returns ``{"at", "by"}``, which is ``reviewed`` of ``review`` from then on. Raises NotAMemory,
    and sqlite3.Error where it cannot be written.
    """
    schema.require_memory(conn)
    with llm_store.transaction(conn):
        conn.execute("insert into limbic_reviews(report, actor) values (?, ?)", [REPORT, actor])
        marked = last_review(conn)
    assert marked is not None  # just written
    return marked


def _days(since: Any, now: str) -> float | None:
    hours = times.hours_since(since, now)
    return None if hours is None else hours / 24
