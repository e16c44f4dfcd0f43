"""Which entities are to be split: over the threshold of their type, with topics that stand apart.

``find_split_candidates`` → ``analyze_entity_split`` → ``propose_entity_split``, each of which only
reads. Source: "Mantenimiento & Operaciones", "Splitting de Entidades".
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import report_settings, schema
from ..answers import plain
from ..config import number
from . import keeping
from .fresh import fresh as looked_at_now
from .known import why_unknown
from .queries import queries
from .split_analysis import analyze_entity_split
from .split_proposal import propose_entity_split

__all__ = ["analyze_entity_split", "find_split_candidates", "propose_entity_split"]

MAX_ROWS = 1_000_000_000


def find_split_candidates(
    conn: sqlite3.Connection,
    *,
    settings: Any = None,
    approaching: bool = True,
    fresh: bool = True,
    limit: int | None = None,
    offset: int = 0,
    progress: keeping.Progress | None = None,
) -> dict[str, Any]:
    """Entities to be split, and with ``approaching`` those that come near it. Reads only.

    ``candidates``, by split_score from the highest: ``id``, ``name``, ``entityType``, ``status``
    ('split' or 'approaching': at least 80 % of its threshold), ``needs_split``, ``observations``,
    ``threshold``, ``diversity``, ``split_score``, ``topics`` as ``analyze_entity_split`` has them,
    ``access_count``, ``last_access``, ``last_activity_at``. Archived entities are none. ``split``
    and ``approaching`` count all there are, ``total`` those listed on all pages together.

    ``fresh`` looks at everything that changed since ``sync`` last did, in temporary tables: not
    for a connection that others use meanwhile. Otherwise the answer is what is kept, and
    ``kept`` says of when it is and what changed since; a file that keeps none gives ``candidates``
    None and a ``reason``. ``limit`` and ``offset`` cut the list. Raises NotAMemory, BadParameter.
    """
    schema.require_memory(conn)
    if limit is not None:
        limit = int(number("limit", limit, 1, MAX_ROWS, whole=True))
    offset = int(number("offset", offset, 0, MAX_ROWS, whole=True))
    warnings = list(report_settings.read(conn).warnings)
    kept = keeping.state(conn) if not fresh and schema.has_reports(conn) else None
    if not fresh and (reason := why_unknown(kept)):
        counts = dict.fromkeys(("candidates", "total", "split", "approaching"))
        return {**counts, "kept": kept, "reason": reason, "warnings": warnings}
    with looked_at_now(conn, settings=settings, progress=progress) if fresh else nullcontext():
        cursor = conn.execute(_query(), {"now": "now"})
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    listed = [row for row in rows if approaching or row["needs_split"]]
    end = None if limit is None else offset + limit
    found: dict[str, Any] = plain(
        {
            "candidates": [_candidate(row) for row in listed[offset:end]],
            "total": len(listed),
            "split": sum(row["needs_split"] for row in rows),
            "approaching": sum(not row["needs_split"] for row in rows),
            "kept": kept,
            "reason": None,
            "warnings": warnings,
        }
    )
    return found


def _query() -> str:
    return (
        "select q.*, q.observations > q.threshold and q.split_score > 1 as needs_split"
        f" from ({queries(parametrised=True)['limbic_split_candidates']}) q"
        # with a bar below 0 the topics of a large entity may overlap so much that it needs none
        " where needs_split or q.observations <= q.threshold"
        " order by q.split_score desc, q.id"
    )


def _candidate(row: dict[str, Any]) -> dict[str, Any]:
    needs = bool(row["needs_split"])
    found = {"id": row["id"], "name": row["name"], "entityType": row["entity_type"]}
    more = {key: value for key, value in row.items() if key not in ("id", "name", "entity_type")}
    return {
        **found,
        **more,
        "status": "split" if needs else "approaching",
        "needs_split": needs,
        "topics": json.loads(row["topics"]),
        "changed_since": bool(row["changed_since"]),
    }
