"""What recency is now: a report in place of the rewriting that DDR-007 abolished."""

from __future__ import annotations

from datasette.utils.sqlite import sqlite3

from . import schema

BANDS = (
    (0.75, "entities with recency 0.75 or more"),
    (0.50, "entities with recency 0.50 to 0.75"),
    (0.25, "entities with recency 0.25 to 0.50"),
    (0.00, "entities with recency under 0.25"),
)
UNKNOWN = "entities of unknown activity (no recency)"


def recency_report(conn: sqlite3.Connection) -> list[tuple[str, int]]:
    """How many live entities stand in each band of ``temporal_score``. Reads only."""
    schema.require_memory(conn)
    counts = {label: 0 for _low, label in BANDS} | {UNKNOWN: 0}
    for (score,) in conn.execute(
        """select temporal_score(last_activity_at, limbic_half_life(entity_type))
        from entities where archived_at is null"""
    ):
        label = UNKNOWN if score is None else next(label for low, label in BANDS if score >= low)
        counts[label] += 1
    return list(counts.items())
