"""How one entity is used, and what that weighs in ranking now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import scoring, times
from .access_weeks import Accesses, accesses_by_week, accesses_of
from .bounds import COUNTED, upto
from .config import Settings

PARTNERS = 20
SELDOM = 3
"""Times together up to which no index has the partners of an entity in order."""
LOG = 20

# Distinct live neighbours, as queries/search.sql counts them; a test holds the two together. Of a
# hub the first of each way, as the index has them: those without an end.
_LINKS = """select {other} as id, valid_to from relations
  where {own} = :id and relation_type not in ('contiene', 'parte_de')"""
_WAYS = tuple(
    _LINKS.format(own=own, other=other)
    for own, other in (("from_entity", "to_entity"), ("to_entity", "from_entity"))
)
_FIRST = " union all ".join(f"select * from ({w} order by valid_to limit {COUNTED})" for w in _WAYS)
DEGREE = f"""select count(distinct n.id), max({", ".join(map(upto, _WAYS))}) > {COUNTED}
  from ({_FIRST}) r
  left join entities n on n.id = r.id and n.id <> :id and n.archived_at is null
    and coalesce(julianday(r.valid_to) > julianday(:at), 1)"""

# One side of the pairs of an entity, those that come up most often first: by an index of
# queries/at_size.sql, which ends where enough were read. An adopted table may hold texts there:
# they sort after all numbers, and count as what they begin with.
_OFTEN = f"""select * from (select {{other}} as id, co_count, last_co from co_occurrences
    where {{own}} = :id and co_count > {SELDOM} and co_count < ''
      and exists (select 1 from entities e where e.id = {{other}})
    order by co_count desc, last_co desc, {{other}} limit {PARTNERS})"""
_TEXTS = f"""select * from (select {{other}} as id, co_count, last_co from co_occurrences
    where {{own}} = :id and co_count > {SELDOM} and co_count >= '' limit {COUNTED})"""
# The others, as far as they are counted.
_ANY = f"""select * from (select {{other}} as id, co_count, last_co from co_occurrences
    where {{own}} = :id limit {COUNTED})"""


def _most_often(least: int, *parts: str) -> str:
    """SQL: the partners of both sides, of those that come up ``least`` times, the first ones."""
    ends = (("entity_a_id", "entity_b_id"), ("entity_b_id", "entity_a_id"))
    pairs = " union ".join(part.format(own=a, other=b) for a, b in ends for part in parts)
    return f"""select e.id, e.name, e.archived_at, c.co_count, c.last_co,
      max(0, cast(c.co_count as integer)) as n
      from ({pairs}) c join entities e on e.id = c.id
      where n >= {least} order by n desc, c.last_co desc, e.id limit {PARTNERS}"""


OFTEN = _most_often(SELDOM + 1, _OFTEN, _TEXTS)
ALL_PARTNERS = _most_often(0, _OFTEN, _TEXTS, _ANY)
# The highest count of the memory, by the ends of an index. An adopted table may hold texts there,
# which sort after all numbers and count as what they begin with.
MOST_ACCESSED = """select max(0, ifnull(cast((
    select max(access_count) from entity_access where access_count < '') as integer), 0),
  ifnull((
    select max(cast(access_count as integer)) from entity_access where access_count >= ''), 0))"""


def rows(conn: sqlite3.Connection, sql: str, args: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a query as dicts."""
    cursor = conn.execute(sql, args)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def signals(
    conn: sqlite3.Connection, args: Mapping[str, Any], settings: Settings, access_log: bool
) -> tuple[dict[str, Any], Accesses | None]:
    """Its accesses and what comes up together with it; ``args`` has ``id`` and ``now``.

    Without ``access_log`` what comes from that table is None, and so are the accesses that were
    read.
    """
    accesses = accesses_of(conn, args["id"]) if access_log else None
    access = rows(
        conn, "select access_count, last_access from entity_access where entity_id = :id", args
    )
    found = {
        "access_count": access[0]["access_count"] if access else 0,
        "last_access": access[0]["last_access"] if access else None,
        **(dict.fromkeys(_OF_LOG) if accesses is None else _logged(conn, args, accesses)),
        "co_occurrences": _partners(conn, args, settings),
    }
    return found, accesses


_OF_LOG = ("log", "weeks", "outside_weeks", "counted_from")


def _logged(
    conn: sqlite3.Connection, args: Mapping[str, Any], accesses: Accesses
) -> dict[str, Any]:
    """What the access log has on the entity: the last rows, how many a week, and since when
    they are counted, None where all are."""
    return {
        "log": rows(
            conn,
            f"""select query, accessed_at from entity_access_log where entity_id = :id
            order by accessed_at desc, id desc limit {LOG}""",
            args,
        ),
        **accesses_by_week(accesses, now=args["now"]),
        "counted_from": accesses.since,
    }


def _partners(
    conn: sqlite3.Connection, args: Mapping[str, Any], settings: Settings
) -> list[dict[str, Any]]:
    """What comes up together with the entity most often, and what each pair weighs in ranking.

    ``decay`` is what time has left of it (0 to 1), ``boost`` what it adds to ``cooc_boost``.
    """
    partners = rows(conn, OFTEN, args)
    if len(partners) < PARTNERS:
        partners = rows(conn, ALL_PARTNERS, args)
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


def factors(
    conn: sqlite3.Connection, row: Mapping[str, Any], args: Mapping[str, Any], settings: Settings
) -> tuple[dict[str, Any], bool]:
    """The limbic factors as they are now; importance is measured against the whole memory.

    Neighbours count as they were at ``at``, as ranking has it. Also whether the degree is that of
    a hub, and so one of at least so many.
    """
    degree, is_hub = conn.execute(DEGREE, args).fetchone()
    most = conn.execute(MOST_ACCESSED).fetchone()[0]
    access = conn.execute(
        "select max(0, ifnull(cast(access_count as integer), 0)), last_access"
        " from entity_access where entity_id = :id",
        args,
    ).fetchone()
    count, last_access = access or (0, None)
    p = settings.parameters()
    now = args["now"]
    entity_type = row["entity_type"]
    # any program may have put bytes into a text column
    half_life = settings.half_life_days(entity_type if isinstance(entity_type, str) else None)
    hours = times.hours_since(last_access, now)
    found = {
        "degree": degree,
        "importance": scoring.compute_importance(
            count, most, degree, beta_deg=p.beta_deg, d_max=p.d_max
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
            count, None if hours is None else hours / 24
        ),
    }
    return found, bool(is_hub)
