"""One entity, whole: what it says, what it is linked to, how it is used, what it scores now."""

from __future__ import annotations

from typing import Any

from datasette.utils.sqlite import sqlite3

from . import schema, text, times
from .config import Settings
from .entity_signals import factors, rows, signals
from .errors import UnknownEntity

PAGE = 100
LONGEST_NAME = 500


def _valid(alias: str) -> str:
    """SQL: whether a row holds at ``:at``, in the terms of a search's ``as_of``: 0 or 1."""
    return (
        f"coalesce(julianday({alias}.valid_to) > julianday(:at), 1)"
        f" and coalesce(julianday({alias}.valid_from) <= julianday(:at), 1)"
    )


def _ended(alias: str) -> str:
    """SQL: whether a row was over at ``:at``; one of an end that cannot be read is not."""
    return f"coalesce(julianday({alias}.valid_to) <= julianday(:at), 0)"


OBSERVATIONS = f"""select o.id, o.content, o.kind, o.created_at, o.similarity_flag, o.confidence,
  o.valid_from, o.valid_to, o.supersedes, {_ended("o")} as ended, {_valid("o")} as valid
  from observations o where o.entity_id = :id
  order by {{first}}o.id limit :page offset :skip"""
OUT = f"""select r.id, r.relation_type, r.context, r.created_at, r.valid_from, r.valid_to,
  {_ended("r")} as ended, {_valid("r")} as valid,
  t.id as entity_id, t.name as entity_name, t.entity_type, t.archived_at
  from relations r join entities t on t.id = r.to_entity where r.from_entity = :id
  order by {_valid("r")} desc, r.relation_type, t.name, r.id
  limit :relations_page offset :relations_skip"""
IN = OUT.replace("t.id = r.to_entity where r.from_entity", "t.id = r.from_entity where r.to_entity")
# What leads either way is counted each way by an index, which an OR of the two would not be; a
# relation or a pair of an entity with itself, which only another program writes, counts once.
COUNTS = f"""select
  (select count(*) from observations where entity_id = :id) as observations,
  (select count(*) from observations o where o.entity_id = :id and {_valid("o")})
    as valid_observations,
  (select count(*) from relations where from_entity = :id) as relations_out,
  (select count(*) from relations where to_entity = :id) as relations_in,
  (select count(*) from relations where from_entity = :id)
    + (select count(*) from relations where to_entity = :id)
    - (select count(*) from relations where from_entity = :id and to_entity = :id) as relations,
  (select count(*) from relations r where r.from_entity = :id and {_valid("r")})
    + (select count(*) from relations r
      where r.to_entity = :id and r.from_entity <> :id and {_valid("r")}) as valid_relations,
  (select count(*) from co_occurrences where entity_a_id = :id)
    + (select count(*) from co_occurrences where entity_b_id = :id)
    - (select count(*) from co_occurrences where entity_a_id = :id and entity_b_id = :id)
    as partners"""
LOGGED = "select count(*) from entity_access_log where entity_id = :id"
TYPES = f"""select 'out' as way, r.relation_type, count(*) as count from relations r
  where r.from_entity = :id and {_valid("r")} group by 2
  union all
  select 'in', r.relation_type, count(*) from relations r
  where r.to_entity = :id and {_valid("r")} group by 2
  order by 3 desc, 2"""


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
        conn, f"select e.*, {_valid('e')} as valid from entities e where {column} = :entity", asked
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
        "relations_page": several,
        "relations_skip": (relations_page - 1) * several,
        "now": now,
        "at": asked["at"],
    }
    counts = rows(conn, COUNTS, args)[0]
    counts["log"] = conn.execute(LOGGED, args).fetchone()[0] if access_log else None
    relations_pages = pages_of(max(counts["relations_out"], counts["relations_in"]), several)
    first = "valid desc, " if as_of else ""
    return {
        **{key: row[key] for key in ("id", "name")},
        "entityType": row["entity_type"],
        **{k: v for k, v in row.items() if k not in ("id", "name", "entity_type")},
        "counts": counts,
        "page": page,
        "pages": max(pages_of(counts["observations"], size), relations_pages),
        "relations_page": relations_page,
        "relations_pages": relations_pages,
        "observations": rows(conn, OBSERVATIONS.format(first=first), args),
        "relations_out": rows(conn, OUT, args),
        "relations_in": rows(conn, IN, args),
        "signals": signals(conn, args, settings, access_log),
        "limbic": factors(conn, row, args, settings),
        "now": now,
        "as_of": as_of,
    }


def relation_types(conn: sqlite3.Connection, entity: int, at: str) -> dict[str, list[Any]]:
    """How many relations of each type hold at ``at``, the most frequent first, each way.

    ``out`` and ``in``: lists of ``relation_type`` and ``count``.
    """
    found: dict[str, list[Any]] = {"out": [], "in": []}
    for row in rows(conn, TYPES, {"id": entity, "at": at}):
        found[row.pop("way")].append(row)
    return found


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
