"""How the review queue stands: what waits, and how old that is which it was raised from."""

from __future__ import annotations

from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import schema
from ..reports import keeping
from ..reports.entities import PAGE
from ..reports.known import why_unknown
from .queue import insights

_RAISED = "select max(updated_at), count(*) from limbic_insights"
_WAITING = "select count(*) from limbic_insights where status = 'pending'"
_TABLE = "select 1 from sqlite_master where type = 'table' and name = 'limbic_insights'"


def standing(
    conn: sqlite3.Connection,
    *,
    status: str | None = "pending",
    kind: str | None = None,
    entity: int | str | None = None,
    page: Any = 1,
    size: Any = PAGE,
) -> dict[str, Any]:
    """The queue as ``queue.insights`` lists it, and how it stands. Reads only.

    Besides: ``first``, the id of the first of what was asked for that waits for a decision, or
    None; ``pending`` and ``judged``, how many there are in the whole queue; ``changed_at``, when
    the queue itself last changed (the newest ``updated_at``, or None); ``kept``, that of
    ``keeping.state``, or None in a file of an earlier version, and ``reason``, why contradictions,
    duplicates and splits cannot be told yet, or None where they can. Raises as ``insights`` does.
    """
    found = insights(conn, status=status, kind=kind, entity=entity, page=page, size=size)
    kept = keeping.state(conn) if schema.has_reports(conn) else None
    changed_at, every = conn.execute(_RAISED).fetchone()
    pending = conn.execute(_WAITING).fetchone()[0]
    return {
        **found,
        "first": _first(conn, kind, entity),
        "pending": pending,
        "judged": every - pending,
        "changed_at": changed_at,
        "kept": kept,
        "reason": why_unknown(kept),
    }


def waiting(conn: sqlite3.Connection) -> int:
    """How many insights wait for a decision; 0 too where there is no table of them."""
    if conn.execute(_TABLE).fetchone() is None:
        return 0
    return int(conn.execute(_WAITING).fetchone()[0])


def _first(conn: sqlite3.Connection, kind: str | None, entity: int | str | None) -> int | None:
    listed = insights(conn, kind=kind, entity=entity, size=1)["insights"]
    return listed[0]["id"] if listed else None
