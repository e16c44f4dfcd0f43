"""Signals of use: what was accessed, and what came up together.

Only what a person or an agent was really shown is recorded, never the pool. Two writers at once
lose no counts: every row is an UPSERT with ``+ 1``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from datasette.utils.sqlite import sqlite3

from . import times
from .errors import BadParameter


def record_access(
    conn: sqlite3.Connection,
    entity_ids: Iterable[int],
    query: str | None = None,
    *,
    now: object = None,
) -> int:
    """Count one access of each entity and log it with the query; returns how many were recorded.

    ``query`` is None where entities were opened by name. Ids that are not in the memory are left
    out. ``now`` is any time that ``times.parse_time`` reads, by default the clock; an earlier
    time never moves ``last_access`` back. One transaction of its own.
    """
    moment = _moment(now)
    recorded = 0
    with conn:
        for entity_id in dict.fromkeys(entity_ids):
            recorded += conn.execute(
                """insert into entity_access_log(entity_id, entity_name, query, accessed_at)
                select id, name, ?, ? from entities where id = ?""",
                [query, moment, entity_id],
            ).rowcount
            conn.execute(
                """insert into entity_access(entity_id, access_count, last_access)
                select id, 1, ? from entities where id = ?
                on conflict(entity_id) do update set access_count = access_count + 1,
                  last_access = max(last_access, excluded.last_access)""",
                [moment, entity_id],
            )
    return recorded


def record_co_occurrences(
    conn: sqlite3.Connection, entity_ids: Iterable[int], *, now: object = None
) -> int:
    """Count that these entities came up together, once for each pair; returns the pairs.

    Pairs are kept in canonical order (the smaller id first). Otherwise as ``record_access``.
    """
    moment = _moment(now)
    recorded = 0
    with conn:
        for a, b in combinations(sorted(set(entity_ids)), 2):
            recorded += conn.execute(
                """insert into co_occurrences(entity_a_id, entity_b_id, co_count, last_co)
                select a.id, b.id, 1, ? from entities a, entities b where a.id = ? and b.id = ?
                on conflict(entity_a_id, entity_b_id) do update set co_count = co_count + 1,
                  last_co = max(last_co, excluded.last_co)""",
                [moment, a, b],
            ).rowcount
    return recorded


def _moment(now: object) -> str:
    text = times.now_sql() if now is None else times.to_sql(now)
    if text is None:
        raise BadParameter(f"now is {now!r:.60}: use a time such as 2026-11-29 12:00:00 (UTC)")
    return text
