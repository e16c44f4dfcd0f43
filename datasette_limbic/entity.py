"""One entity, whole: what it says, what it is linked to, how it is used, what it scores now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import schema, scoring, text, times
from .access_weeks import accesses_by_week
from .config import Settings
from .errors import UnknownEntity

PAGE = 100
PARTNERS = 20
LOG = 20
LONGEST_NAME = 500

OUT = """select r.id, r.relation_type, r.context, r.created_at, r.valid_from, r.valid_to,
  t.id as entity_id, t.name as entity_name, t.entity_type, t.archived_at
  from relations r join entities t on t.id = r.to_entity where r.from_entity = :id
  order by r.valid_to is not null, r.relation_type, t.name limit :page offset :skip"""
IN = OUT.replace("t.id = r.to_entity where r.from_entity", "t.id = r.from_entity where r.to_entity")

LOGGED = "select count(*) from entity_access_log where entity_id = :id"

# Distinct live neighbours, as queries/search.sql counts them; a test holds the two together.
DEGREE = """select count(distinct n.id) from (
    select to_entity as id, relation_type, valid_to from relations where from_entity = :id
    union all
    select from_entity, relation_type, valid_to from relations where to_entity = :id
  ) r join entities n on n.id = r.id
  where r.id <> :id and n.archived_at is null and r.relation_type not in ('contiene', 'parte_de')
    and coalesce(julianday(r.valid_to) > julianday(:now), 1)"""


def entity_detail(
    conn: sqlite3.Connection,
    entity: int | str,
    *,
    settings: Settings | None = None,
    now: str | None = None,
    page: int = 1,
    size: int = PAGE,
    access_log: bool = True,
) -> dict[str, Any]:
    """Everything about one entity, by id or by name.

    Lists longer than ``size`` come a ``page`` at a time. Without ``access_log`` that table is not
    read, and what would come from it is None. Raises UnknownEntity and NotAMemory.
    """
    settings = settings or Settings()
    schema.require_memory(conn)
    column = "id" if isinstance(entity, int) else "name"
    asked = {"entity": entity if schema.holds(entity) else None}
    found = _rows(conn, f"select * from entities where {column} = :entity", asked)
    if not found:
        raise UnknownEntity(
            f"this memory has no entity with the {column} {entity!r:.80}: search for it by name"
        )
    row = found[0]
    now = now or times.now_sql()
    args = {"id": row["id"], "page": size, "skip": (page - 1) * size, "now": now}
    counts = _rows(
        conn,
        """select
        (select count(*) from observations where entity_id = :id) as observations,
        (select count(*) from relations where from_entity = :id) as relations_out,
        (select count(*) from relations where to_entity = :id) as relations_in,
        (select count(*) from co_occurrences
          where entity_a_id = :id or entity_b_id = :id) as partners""",
        args,
    )[0]
    counts["log"] = conn.execute(LOGGED, args).fetchone()[0] if access_log else None
    return {
        **{key: row[key] for key in ("id", "name")},
        "entityType": row["entity_type"],
        **{k: v for k, v in row.items() if k not in ("id", "name", "entity_type")},
        "counts": counts,
        "page": page,
        "pages": max(
            1, -(-max(counts[k] for k in ("observations", "relations_out", "relations_in")) // size)
        ),
        "observations": _rows(
            conn,
            """select id, content, kind, created_at, similarity_flag, confidence, valid_from,
            valid_to, supersedes, coalesce(julianday(valid_to) <= julianday(:now), 0) as ended
            from observations where entity_id = :id
            order by id limit :page offset :skip""",
            args,
        ),
        "relations_out": _rows(conn, OUT, args),
        "relations_in": _rows(conn, IN, args),
        "signals": _signals(conn, args, settings, access_log),
        "limbic": _factors(conn, row, args, settings),
        "now": now,
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


def _rows(conn: sqlite3.Connection, sql: str, args: Mapping[str, Any]) -> list[dict[str, Any]]:
    cursor = conn.execute(sql, args)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _signals(
    conn: sqlite3.Connection, args: Mapping[str, Any], settings: Settings, access_log: bool
) -> dict[str, Any]:
    access = _rows(
        conn, "select access_count, last_access from entity_access where entity_id = :id", args
    )
    return {
        "access_count": access[0]["access_count"] if access else 0,
        "last_access": access[0]["last_access"] if access else None,
        **(_logged(conn, args) if access_log else dict.fromkeys(("log", "weeks", "outside_weeks"))),
        "co_occurrences": _partners(conn, args, settings),
    }


def _logged(conn: sqlite3.Connection, args: Mapping[str, Any]) -> dict[str, Any]:
    """What the access log has on the entity: the last rows, and how many a week."""
    return {
        "log": _rows(
            conn,
            f"""select query, accessed_at from entity_access_log where entity_id = :id
            order by accessed_at desc, id desc limit {LOG}""",
            args,
        ),
        **accesses_by_week(conn, args["id"], now=args["now"]),
    }


def _partners(
    conn: sqlite3.Connection, args: Mapping[str, Any], settings: Settings
) -> list[dict[str, Any]]:
    """What comes up together with the entity most often, and what each pair weighs in ranking.

    ``decay`` is what time has left of it (0 to 1), ``boost`` what it adds to ``cooc_boost``.
    """
    partners = _rows(
        conn,
        f"""select e.id, e.name, e.archived_at, c.co_count, c.last_co,
        max(0, cast(c.co_count as integer)) as n from (
          select entity_b_id as id, co_count, last_co from co_occurrences
            where entity_a_id = :id
          union all
          select entity_a_id, co_count, last_co from co_occurrences where entity_b_id = :id
        ) c join entities e on e.id = c.id
        order by n desc, c.last_co desc, e.id limit {PARTNERS}""",
        args,
    )
    p = settings.parameters()
    for partner in partners:
        hours = times.hours_since(partner["last_co"], args["now"])
        # log2(1 + 1) is 1: the term of a single time together is its decay
        partner["decay"], partner["boost"] = (
            scoring.cooc_term(
                count,
                hours,
                lambda_hourly=p.lambda_hourly,
                floor=p.cooc_temporal_floor,
                unknown=p.unknown_temporal,
            )
            for count in (1, partner.pop("n"))
        )
    return partners


def _factors(
    conn: sqlite3.Connection, row: Mapping[str, Any], args: Mapping[str, Any], settings: Settings
) -> dict[str, Any]:
    """The limbic factors as they are now; importance is measured against the whole memory."""
    degree = conn.execute(DEGREE, args).fetchone()[0]
    access = conn.execute(
        """select coalesce(max(case when entity_id = :id then n end), 0), coalesce(max(n), 0)
        from (select entity_id, max(0, cast(access_count as integer)) as n from entity_access)""",
        args,
    ).fetchone()
    last = conn.execute(
        "select last_access from entity_access where entity_id = :id", args
    ).fetchone()
    last_access = last[0] if last else None
    p = settings.parameters()
    now = args["now"]
    entity_type = row["entity_type"]
    # any program may have put bytes into a text column
    half_life = settings.half_life_days(entity_type if isinstance(entity_type, str) else None)
    hours = times.hours_since(last_access, now)
    return {
        "degree": degree,
        "importance": scoring.compute_importance(
            access[0], access[1], degree, beta_deg=p.beta_deg, d_max=p.d_max
        ),
        "temporal_factor": scoring.compute_temporal_factor(
            last_access,
            row["created_at"],
            now=now,
            lambda_hourly=p.lambda_hourly,
            floor=p.temporal_floor,
        ),
        "temporal_score": scoring.temporal_score(
            row["last_activity_at"], half_life, degree, now=now
        ),
        "half_life_days": half_life,
        "consolidation_importance": scoring.consolidation_importance(
            access[0], None if hours is None else hours / 24
        ),
    }
