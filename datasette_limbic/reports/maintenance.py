"""Where one entity stands in the reports: its size, its kept pairs, whether it wants splitting."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import report_settings, schema
from . import keeping
from .lists import Listing
from .queries import current
from .split_subject import approaching_from

KINDS = ("duplicate", "contradiction", "look")
_PAIRS = Listing("limbic_similar_observations", "q.kind", "q.entity_id = :id")
_SPLIT = Listing("limbic_split_candidates", "q.id", "q.id = :id")
_LIKE = Listing(
    "limbic_flagged_observations", "q.id", "q.id in (select value from json_each(:ids))"
)
_OBSERVATIONS = f"select count(*) from observations o where o.entity_id = ? and {current('o')}"
# No date of a query of ours is read by these: they take the clock.
_VALUES = {"now": "now", "stale_days": 0, "stale_max_access": 0}


def maintenance(
    conn: sqlite3.Connection, entity: int, entity_type: Any, *, archived: bool = False
) -> dict[str, Any] | None:
    """What the reports keep of one entity; None in a file of an earlier version. Reads only.

    ``observations`` (those that hold now) against the ``threshold`` of its type, and ``size``:
    'large' above it, 'approaching' from 80 % of it, None below and where it is archived.
    ``pairs`` counts the kept ones of kind ``duplicate``, ``contradiction`` and ``look``; None
    before the first ``sync`` that keeps any. ``split`` has ``status`` and ``split_score`` where
    its topics stand apart, else None. ``changed_since`` says that it is not as it was when
    ``sync`` last looked.
    """
    if not schema.has_reports(conn):
        return None
    threshold = report_settings.read(conn).threshold(
        # any program may have put bytes into a text column
        entity_type if isinstance(entity_type, str) else None
    )
    observations = int(conn.execute(_OBSERVATIONS, [entity]).fetchone()[0])
    values = {**_VALUES, "id": entity}
    looked = conn.execute(
        "select 1 from limbic_reports where report = ? and computed_at is not null", [keeping.NAME]
    ).fetchone()
    found = _PAIRS.counts_by(conn, "q.kind", values)
    split = _SPLIT.rows(conn, values, 1, 1)
    return {
        "observations": observations,
        "threshold": threshold,
        "size": None if archived else _size(observations, threshold),
        "pairs": {kind: found.get(kind, 0) for kind in KINDS} if looked or found else None,
        "split": {key: split[0][key] for key in ("status", "split_score")} if split else None,
        "changed_since": keeping.has_changed(conn, entity),
    }


def _size(observations: int, threshold: int) -> str | None:
    if observations > threshold:
        return "large"
    return "approaching" if observations >= approaching_from(threshold) else None


def likest(conn: sqlite3.Connection, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """By id of a flagged observation, the observation that it is most like. Reads only.

    Each has ``id``, ``content``, ``rule``, ``cosine`` and ``containment``. Those whose flag did
    not come from a comparison here are left out, and all of them in a file of an earlier version.
    """
    listed = list(ids)
    if not listed or not schema.has_reports(conn):
        return {}
    rows = _LIKE.rows(conn, {**_VALUES, "ids": json.dumps(listed)}, 1, len(listed))
    return {
        row["id"]: {
            "id": row["similar_to"],
            "content": row["similar_content"],
            **{key: row[key] for key in ("rule", "cosine", "containment")},
        }
        for row in rows
        if row["similar_to"] is not None
    }
