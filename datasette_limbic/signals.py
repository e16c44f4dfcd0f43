"""Signals of use: what was accessed, and what came up together.

Only what a person or an agent was really shown is recorded, never the pool. Two writers at once
lose no counts: every row is an UPSERT with ``+ 1``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from datasette.utils.sqlite import sqlite3

from . import times
from .errors import BadParameter

# Whether a column holds a time as ``times.to_sql`` writes it. SQLite gives a time in that form
# back as it was, and any other form, text, number or blob differently.
OURS = """case length({0}) when 19 then datetime({0})
else strftime('%Y-%m-%d %H:%M:%f', {0}) end is {0}"""


def later(column: str) -> str:
    """SQL of an upsert: keep the later time; the old one counts only where it is in our form."""
    # as text, 'soon' or a Unix time would stand after every date for ever
    return f"""{column} = case when {OURS.format(column)} and {column} > excluded.{column}
  then {column} else excluded.{column} end"""


# NULL and what is below 0 count as nothing, as in ranking: tables that were taken over hold them.
# One statement each, so that SQLite does all the work of a call and other threads run meanwhile.
_LOG = """insert into entity_access_log(entity_id, entity_name, query, accessed_at)
select e.id, e.name, :query, :moment
from json_each(:ids) given cross join entities e on e.id = given.value order by given.key"""
_ACCESS = f"""insert into entity_access(entity_id, access_count, last_access)
select e.id, 1, :moment from json_each(:ids) given cross join entities e on e.id = given.value
where true
on conflict(entity_id) do update set access_count = max(0, coalesce(access_count, 0)) + 1,
  {later("last_access")}"""
_PAIRS = f"""insert into co_occurrences(entity_a_id, entity_b_id, co_count, last_co)
select a.id, b.id, 1, :moment
from json_each(:ids) x cross join entities a on a.id = x.value
cross join json_each(:ids) y cross join entities b on b.id = y.value
where y.value > x.value
on conflict(entity_a_id, entity_b_id) do update set co_count = max(0, coalesce(co_count, 0)) + 1,
  {later("last_co")}"""


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
    with conn:
        return add_access(conn, entity_ids, query, moment)


def record_co_occurrences(
    conn: sqlite3.Connection, entity_ids: Iterable[int], *, now: object = None
) -> int:
    """Count that these entities came up together, once for each pair; returns the pairs.

    Pairs are kept in canonical order (the smaller id first). Otherwise as ``record_access``.
    """
    moment = _moment(now)
    with conn:
        return add_co_occurrences(conn, entity_ids, moment)


def add_access(
    conn: sqlite3.Connection, entity_ids: Iterable[int], query: str | None, moment: str
) -> int:
    """``record_access`` within the caller's transaction, at ``moment`` (UTC text)."""
    ids = json.dumps(list(dict.fromkeys(entity_ids)))
    given = {"ids": ids, "query": query, "moment": moment}
    logged: int = conn.execute(_LOG, given).rowcount
    del given["query"]
    conn.execute(_ACCESS, given)
    return logged


def add_co_occurrences(conn: sqlite3.Connection, entity_ids: Iterable[int], moment: str) -> int:
    """``record_co_occurrences`` within the caller's transaction, at ``moment`` (UTC text)."""
    ids = sorted(set(entity_ids))
    if len(ids) < 2:
        return 0
    recorded: int = conn.execute(_PAIRS, {"ids": json.dumps(ids), "moment": moment}).rowcount
    return recorded


def _moment(now: object) -> str:
    text = times.now_sql() if now is None else times.to_sql(now)
    if text is None:
        raise BadParameter(f"now is {now!r:.60}: use a time such as 2026-11-29 12:00:00 (UTC)")
    return text
