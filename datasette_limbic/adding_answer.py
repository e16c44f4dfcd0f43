"""The answer to adding observations: server-memory's shape, and more beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from datasette.utils.sqlite import sqlite3

from .adding_rows import Placed, Row
from .adding_similar import by_observation
from .duplicates import Pair


def make(conn: sqlite3.Connection, placed: Placed, pairs: Sequence[Pair]) -> dict[str, Any]:
    """``counts``, ``results`` (one for each item that had something to add) and ``rejected``.

    ``addedObservations`` are the texts alone, as server-memory answers.
    """
    ids = [row.id for row in placed.new if row.id is not None]
    similar = by_observation(conn, ids, pairs)
    written = {
        row[0]: (row[1], row[2])
        for row in conn.execute(
            "select id, created_at, similarity_flag from observations"
            " where id in (select value from json_each(?))",
            [json.dumps(ids)],
        )
    }
    results: dict[int, dict[str, Any]] = {}
    for row in placed.rows:
        result = results.setdefault(
            row.item.at,
            {
                "entityName": row.entity_name,
                "entity_id": row.entity_id,
                "addedObservations": [],
                "added": [],
                "skipped": [],
            },
        )
        content = row.new.content
        if row.id is None:
            skipped = {"content": content, "reason": "already there", "id": _there(row)}
            result["skipped"].append(skipped)
            continue
        created_at, flag = written[row.id]
        result["addedObservations"].append(content)
        result["added"].append(
            {
                "id": row.id,
                "content": content,
                "created_at": created_at,
                "similarity_flag": flag,
                "similar": similar[row.id],
            }
        )
    return {
        "counts": {
            "added": len(ids),
            "skipped": len(placed.rows) - len(ids),
            "rejected": len(placed.rejected),
            "flagged": sum(flag for _, flag in written.values()),
        },
        "results": [*results.values()],
        "rejected": placed.rejected,
    }


def public(answer: dict[str, Any]) -> dict[str, Any]:
    """What JSON shows: ``ok``, and where nothing could be added ``error``, a sentence."""
    if answer["results"]:
        return {"ok": True, **answer}
    first, *more = [each["error"] for each in answer["rejected"]]
    rest = f" (and {len(more):,} more in rejected)" if more else ""
    return {"ok": False, "error": f"nothing was added: {first}{rest}", **answer}


def _there(row: Row) -> int | None:
    return row.repeats.id if row.repeats is not None else row.there
