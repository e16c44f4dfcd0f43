"""One entity, whole: what it says, what it is linked to, how it is used, what it scores now."""

from __future__ import annotations

from typing import Any

from datasette.utils.sqlite import sqlite3

from . import schema, text, times
from .bounds import COUNTED, upto
from .config import Settings
from .entity_relations import linked
from .entity_signals import factors, rows, signals
from .errors import UnknownEntity
from .validity import ended, valid

PAGE = 100
LONGEST_NAME = 500

OBSERVATIONS = f"""select o.id, o.content, o.kind, o.created_at, o.similarity_flag, o.confidence,
  o.valid_from, o.valid_to, o.supersedes, {ended("o")} as ended, {valid("o")} as valid
  from observations o where o.entity_id = :id
  order by {{first}}o.id limit :page offset :skip"""
# A pair of an entity with itself, which only another program writes, counts once.
COUNTS = f"""select
  (select count(*) from observations where entity_id = :id) as observations,
  (select count(*) from observations o where o.entity_id = :id and {valid("o")})
    as valid_observations,
  {upto("select 1 from co_occurrences where entity_a_id = :id")} as partners_after,
  {upto("select 1 from co_occurrences where entity_b_id = :id and entity_a_id <> :id")}
    as partners_before"""


def entity_detail(
    conn: sqlite3.Connection,
    entity: int | str,
    *,
    settings: Settings | None = None,
    now: str | None = None,
    as_of: str | None = None,
    page: int = 1,
    size: int = PAGE,
    relations_page: int | None = None,
    relations_size: int | None = None,
    access_log: bool = True,
) -> dict[str, Any]:
    """Everything about one entity, by id or by name.

    Observations come ``size`` at a time, of which ``page`` is asked for; relations, each way,
    ``relations_size`` (``size`` where it is None) and ``relations_page`` (``page`` where it is
    None). ``pages`` of the answer counts those of the longest list, so that who goes through
    them all sees all. ``counts.relations`` counts one of an entity to itself once. ``valid`` of
    each says whether it holds at ``as_of``, which is ``now`` where it is None, in the terms of a
    search's; with ``as_of`` what holds comes first. Both times as ``times.to_sql`` writes them.
    Without ``access_log`` that table is not read, and what would come from it is None. Raises
    UnknownEntity and NotAMemory.
    """
    settings = settings or Settings()
    schema.require_memory(conn)
    column = "id" if isinstance(entity, int) else "name"
    asked: dict[str, Any] = {"entity": entity if schema.holds(entity) else None}
    now = now or times.now_sql()
    asked["at"] = as_of or now
    found = rows(
        conn, f"select e.*, {valid('e')} as valid from entities e where {column} = :entity", asked
    )
    if not found:
        raise UnknownEntity(
            f"this memory has no entity with the {column} {entity!r:.80}: search for it by name"
        )
    row = found[0]
    several, relations_page = relations_size or size, relations_page or page
    args = {
        "id": row["id"],
        "page": size,
        "skip": (page - 1) * size,
        "now": now,
        "at": asked["at"],
    }
    found_counts = rows(conn, COUNTS, args)[0]
    sides = [found_counts.pop(f"partners_{side}") for side in ("after", "before")]
    relations, at_least, listed = linked(
        conn, row["id"], asked["at"], page=relations_page, size=several
    )
    counts = {**found_counts, **relations, "partners": sum(min(n, COUNTED) for n in sides)}
    # where not all were counted, there is one page more
    relations_pages = pages_of(
        max(counts[way] + (way in at_least) for way in ("relations_out", "relations_in")), several
    )
    if max(sides) > COUNTED:
        at_least.append("partners")
    used, latest = signals(conn, args, settings, access_log)
    counts["log"] = latest.count if latest else None
    if latest and latest.more:
        at_least.append("log")
    limbic, is_hub = factors(conn, row, args, settings)
    if is_hub:
        at_least.append("degree")
    first = "valid desc, " if as_of else ""
    return {
        **{key: row[key] for key in ("id", "name")},
        "entityType": row["entity_type"],
        **{k: v for k, v in row.items() if k not in ("id", "name", "entity_type")},
        "counts": counts,
        "at_least": at_least,
        "page": page,
        "pages": max(pages_of(counts["observations"], size), relations_pages),
        "relations_page": relations_page,
        "relations_pages": relations_pages,
        "observations": rows(conn, OBSERVATIONS.format(first=first), args),
        **listed,
        "signals": used,
        "limbic": limbic,
        "now": now,
        "as_of": as_of,
    }


def alike(conn: sqlite3.Connection, name: str) -> list[str]:
    """Names of up to 3 entities that are ``name`` but for case, accents, points and spaces."""
    tokens = text.fts_tokens(name)
    if not tokens or len(name) > LONGEST_NAME:
        return []
    found = conn.execute(
        """select e.name from _limbic_fts f join entities e on e.id = f.rowid / 2
        where _limbic_fts match ? and f.rowid % 2 = 0 order by e.id limit 100""",
        [f'name : "{" ".join(tokens)}"'],
    )
    return [row[0] for row in found if text.fts_tokens(str(row[0])) == tokens][:3]


def pages_of(count: int, size: int) -> int:
    """Pages that a list takes; an empty one takes one."""
    return max(1, -(-count // size))
