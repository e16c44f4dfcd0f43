"""The log of recorded searches: the whole pool of each, and what became of its results.

Three different events: *surfaced* (a candidate of a logged search, with ``returned`` = 1),
*opened* and *rated* (``limbic_feedback``). Tuning learns from them; being surfaced is never
evidence of use by itself. What somebody known opened without a search of theirs having shown it
stands there too, without a search: it tells that they came back.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from datasette.utils.sqlite import sqlite3

from .errors import UnknownSearch
from .search import BASELINE, LIMBIC, Pool

OPENED, USEFUL, NOT_USEFUL = "opened", "useful", "not_useful"
RATINGS = (USEFUL, NOT_USEFUL)

_FACTORS = (
    "cosine_sim",
    "rrf_score",
    "base",
    "importance",
    "temporal_factor",
    "cooc_boost",
    "limbic_score",
    "final_score",
)
# Logged with the parameters; ``strategy`` is the one asked for, the column has what it came to.
_ASKED = (
    *("strategy", "recency", "fusion", "consolidation", "expansion_factor"),
    *("type", "as_of", "include_archived"),
)
_CANDIDATES = f"""insert into limbic_search_candidates(search_id, entity_id, entity_name, returned,
baseline_rank, treatment_rank, {", ".join(_FACTORS)}) values """
_VALUES = f"({', '.join('?' * (6 + len(_FACTORS)))})"
# Rows of one statement: a thread gives way to others at each, and 999 values are the least that
# any SQLite takes.
_ROWS = 64


@dataclass(frozen=True)
class LoggedSearch:
    """One search as it is logged. ``candidates`` are rows for ``limbic_search_candidates``."""

    uid: str
    query: str
    mode: str
    strategy: str
    limit: int
    now: str
    parameters: str
    parameters_version: int | None
    policy: str
    probability: float
    client: str | None
    actor: str | None
    candidates: tuple[tuple[Any, ...], ...]


def new_uid() -> str:
    """A name for a search that no other has, before it is written anywhere."""
    return secrets.token_hex(8)


def logged(
    pool: Pool,
    *,
    uid: str,
    policy: str,
    probability: float,
    applied: Mapping[str, float],
    client: str | None,
    actor: str | None,
) -> LoggedSearch:
    """What is to be written about a search; ``applied`` are the parameters in force.

    Holds unrounded factors and both ranks of every candidate. The version is that of ``applied``
    where the search really used it, and None where the caller asked for values of its own.
    """
    request = pool.request
    used = request.parameters.as_dict()
    in_force = bool(applied) and all(used[key] == applied[key] for key in ("beta_sal", "gamma"))
    baseline = {row["id"]: rank for rank, row in enumerate(pool.by_base(), 1)}
    candidates = []
    for rank, row in enumerate(pool.rows, 1):
        served_at = baseline[row["id"]] if policy == BASELINE else rank
        candidates.append(
            (
                *(row["id"], row["name"], int(served_at <= request.limit)),
                *(baseline[row["id"]], rank),
                *(row[key] for key in _FACTORS),
            )
        )
    return LoggedSearch(
        uid=uid,
        query=request.query,
        mode=request.mode,
        strategy=pool.strategy,
        limit=request.limit,
        now=request.now,
        parameters=json.dumps(
            {
                **used,
                **{name: getattr(request, name) for name in _ASKED},
                "degraded": bool(pool.degraded),
            },
            ensure_ascii=False,
        ),
        parameters_version=int(applied["version"]) if in_force else None,
        policy=policy,
        probability=probability,
        client=client,
        actor=actor,
        candidates=tuple(candidates),
    )


def unpacked(found: Mapping[str, Any]) -> LoggedSearch:
    """A search that went through ``asdict`` and JSON, which knows no tuples."""
    return LoggedSearch(**{**found, "candidates": tuple(map(tuple, found["candidates"]))})


def add_search(conn: sqlite3.Connection, found: LoggedSearch, moment: str) -> int:
    """Write a search and its candidates within the caller's transaction; returns its row id."""
    search_id = conn.execute(
        """insert into limbic_searches(uid, query, mode, strategy, result_limit, now, parameters,
        parameters_version, policy, treatment, probability, client, actor, created_at)
        values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        [
            *(found.uid, found.query, found.mode, found.strategy, found.limit, found.now),
            *(found.parameters, found.parameters_version, found.policy),
            *(int(found.policy == LIMBIC), found.probability),
            *(found.client, found.actor, moment),
        ],
    ).lastrowid
    for start in range(0, len(found.candidates), _ROWS):
        rows = found.candidates[start : start + _ROWS]
        values = [value for row in rows for value in (search_id, *row)]
        conn.execute(_CANDIDATES + ", ".join([_VALUES] * len(rows)), values)
    return int(search_id)


def add_event(
    conn: sqlite3.Connection,
    uid: str,
    entity_id: int,
    event: str,
    *,
    client: str | None,
    actor: str | None,
    moment: str,
) -> int:
    """Write that a candidate of a search was opened or rated; 1, or 0 where it was no candidate.

    Within the caller's transaction. The name is the one that the search showed.
    """
    written: int = conn.execute(
        """insert into limbic_feedback(search_id, entity_id, entity_name, event, client, actor,
        created_at)
        select s.id, e.id, c.entity_name, ?, ?, ?, ? from limbic_searches s
        join limbic_search_candidates c on c.search_id = s.id
        left join entities e on e.id = c.entity_id
        where s.uid = ? and c.entity_id = ?""",
        [event, client, actor, moment, uid, entity_id],
    ).rowcount
    return written


def add_openings(
    conn: sqlite3.Connection,
    entity_ids: Iterable[int],
    *,
    client: str | None,
    actor: str | None,
    moment: str,
) -> int:
    """Write that entities were opened, but not as results of a search; returns how many.

    Within the caller's transaction. Nothing where nobody knows who opened them: the access log
    counts them all the same.
    """
    ids = list(dict.fromkeys(entity_ids))
    if not ids or not (client or actor):
        return 0
    written: int = conn.execute(
        """insert into limbic_feedback(search_id, entity_id, entity_name, event, client, actor,
        created_at)
        select null, e.id, e.name, :event, :client, :actor, :moment
        from json_each(:ids) given cross join entities e on e.id = given.value
        order by given.key""",
        {
            **{"ids": json.dumps(ids), "event": OPENED},
            **{"client": client, "actor": actor, "moment": moment},
        },
    ).rowcount
    return written


def search_row(conn: sqlite3.Connection, uid: str) -> dict[str, Any]:
    """The logged search of that id. Raises UnknownSearch."""
    cursor = conn.execute("select * from limbic_searches where uid = ?", [uid])
    row = cursor.fetchone()
    if row is None:
        raise UnknownSearch(
            f"no logged search has the id {uid!r:.60}: use the search_id of an answer; "
            "a search that was not recorded has none, and old ones may have been pruned"
        )
    return dict(zip([column[0] for column in cursor.description], row, strict=True))


def is_logged(conn: sqlite3.Connection, uid: str) -> bool:
    """Whether a search of that id is in the log."""
    found = conn.execute("select 1 from limbic_searches where uid = ?", [uid]).fetchone()
    return found is not None


def candidate_ids(conn: sqlite3.Connection, uid: str) -> frozenset[int]:
    """Ids of all candidates of a logged search; none where there is no such search."""
    return frozenset(
        row[0]
        for row in conn.execute(
            """select c.entity_id from limbic_searches s
            join limbic_search_candidates c on c.search_id = s.id where s.uid = ?""",
            [uid],
        )
    )


def candidate(
    conn: sqlite3.Connection, search: Mapping[str, Any], entity: int | str
) -> dict[str, Any]:
    """``id`` and ``name`` of a candidate of a logged search. Raises UnknownSearch."""
    column = "entity_id" if isinstance(entity, int) else "entity_name"
    row = conn.execute(
        f"""select entity_id, entity_name from limbic_search_candidates
        where search_id = ? and {column} = ?""",
        [search["id"], entity],
    ).fetchone()
    if row is None:
        raise UnknownSearch(
            f"{entity!r:.80} was no candidate of the search {search['uid']!r:.60}: rate what "
            "it returned"
        )
    return {"id": row[0], "name": row[1]}


def ratings(conn: sqlite3.Connection, uid: str) -> dict[int, str]:
    """The last rating of each entity in a search, by entity id."""
    return dict(
        conn.execute(
            """select f.entity_id, f.event from limbic_feedback f
            join limbic_searches s on s.id = f.search_id
            where s.uid = ? and f.event in (?, ?) and f.entity_id is not null order by f.id""",
            [uid, *RATINGS],
        )
    )


def rated(conn: sqlite3.Connection, uid: str) -> list[dict[str, Any]]:
    """The last rating of each entity in a search, as ``id, name, rating``, in order of the first.

    The name is the one that the search showed; ``id`` is None where the entity was deleted since.
    """
    found = conn.execute(
        """select f.entity_id, f.entity_name, f.event from limbic_feedback f
        join limbic_searches s on s.id = f.search_id
        where s.uid = ? and f.event in (?, ?) order by f.id""",
        [uid, *RATINGS],
    )
    # names differ within a pool, and a deleted entity has nothing else
    last = {name: {"id": id_, "name": name, "rating": rating} for id_, name, rating in found}
    return list(last.values())
