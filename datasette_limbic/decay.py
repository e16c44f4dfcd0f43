"""What recency is now: a report in place of the rewriting that DDR-007 abolished."""

from __future__ import annotations

from typing import Any

from datasette.utils.sqlite import sqlite3

from . import schema, times
from .errors import BadParameter

BANDS = (
    (0.75, "entities with recency 0.75 or more"),
    (0.50, "entities with recency 0.50 to 0.75"),
    (0.25, "entities with recency 0.25 to 0.50"),
    (0.00, "entities with recency under 0.25"),
)
UNKNOWN = "entities of unknown activity (no recency)"
# The degree of every entity at once, as entity.DEGREE counts that of one.
SCORES = """with links as (
    select from_entity as a, to_entity as b from relations
    where relation_type not in ('contiene', 'parte_de')
      and coalesce(julianday(valid_to) > julianday(:now), 1)
  ),
  degrees as (
    select a as id, count(*) as degree from (
      select a, b from links union select b, a from links
    ) join entities n on n.id = b where a <> b and n.archived_at is null group by a
  )
  select e.id, temporal_score(
    e.last_activity_at, limbic_half_life(e.entity_type), coalesce(degree, 0), :now) as score
  from entities e left join degrees d on d.id = e.id where e.archived_at is null"""


def recency_report(conn: sqlite3.Connection, *, now: Any = None) -> list[tuple[str, int]]:
    """How many live entities stand in each band of ``temporal_score``, most recent first. Reads
    only.

    As search counts recency by activity: with the settings of the connection, and with the
    relations of each entity, which stretch its half-life. ``now`` is any time that
    ``times.parse_time`` reads. Raises NotAMemory and BadParameter.
    """
    schema.require_memory(conn)
    moment = times.now_sql() if now is None else times.to_sql(now)
    if moment is None:
        raise BadParameter(f"now is {now!r:.60}: use a time such as 2026-03-01 12:00")
    counts = {label: 0 for _low, label in BANDS} | {UNKNOWN: 0}
    for _number, score in conn.execute(SCORES, {"now": moment}):
        label = UNKNOWN if score is None else next(label for low, label in BANDS if score >= low)
        counts[label] += 1
    return list(counts.items())
