"""Duplicates of a whole memory: within entities, across them, and of their names."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import report_settings, times
from ..errors import BadParameter
from ..schema import has_reports, require_memory
from . import fresh as overlay
from . import keeping
from .across import across_entities
from .entities import PAGE, pages, paging, rows
from .keeping import Progress
from .known import why_unknown
from .name_clashes import name_clashes
from .queries import queries

KINDS = ("duplicate", "contradiction", "look")
_COUNTS = """
select kind, rule, count(*) as pairs, count(distinct entity_id) as entities from ({view})
group by kind, rule
"""
_PAIRS = """
select q.*, o.created_at as earlier_created_at, o.similarity_flag as earlier_flag,
  l.created_at as later_created_at
from (
  select * from ({view}) where :kind is null or kind = :kind
  order by rule = 'exact' desc, cosine is null, cosine desc, containment desc, earlier_id, later_id
  limit :size offset :skip
) q
join observations o on o.id = q.earlier_id
join observations l on l.id = q.later_id
order by q.rule = 'exact' desc, q.cosine is null, q.cosine desc, q.containment desc,
  q.earlier_id, q.later_id
"""


def find_duplicates(
    conn: sqlite3.Connection,
    *,
    kind: str | None = None,
    fresh: bool = True,
    page: int = 1,
    size: int = PAGE,
    settings: Any = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """What is alike in a whole memory. Reads only.

    ``kind`` (duplicate, contradiction, look) narrows ``pairs``. ``fresh`` first looks at every
    entity that changed since ``sync`` did; otherwise the answer is what is kept, and
    ``kept`` says of when and how many entities changed since.

    ``pairs``, the strongest first: as of ``find_duplicate_observations``, with ``kind`` and
    ``entity`` (id, name, entityType); None with a ``reason`` where the file keeps none, or no
    observations were compared yet: then ``counts``, ``rules`` and ``across_entities`` are too.
    ``counts`` by kind, ``rules`` by kind and rule. ``across_entities``: equal texts of several
    entities. ``name_clashes``: names the same but for case, accents and punctuation. Each list
    holds ``size`` at most; ``page`` turns them all.

    Raises BadParameter and NotAMemory.
    """
    require_memory(conn)
    page, size = paging(page, size)
    if kind is not None and kind not in KINDS:
        raise BadParameter(f"kind is {kind!r:.60}: use {', '.join(KINDS)}, or leave it out")
    clashes = name_clashes(conn, page=page, size=size)
    data: dict[str, Any] = {
        "kind": kind,
        "page": page,
        "size": size,
        "reason": None,
        "warnings": list(report_settings.read(conn).warnings),
    }
    kept = _kept(conn) if not fresh and has_reports(conn) else None
    if not fresh and (reason := why_unknown(kept)):
        nothing = dict.fromkeys(("counts", "rules", "pairs", "across_entities"))
        data |= {"kept": kept, **nothing, "reason": reason, "pages": clashes["pages"]}
        return data | {"name_clashes": clashes}
    looked_at = _now(conn) if fresh else kept
    now = overlay.fresh(conn, settings=settings, progress=progress) if fresh else nullcontext()
    with now:
        counted = rows(conn, _COUNTS.format(view=queries()["limbic_similar_observations"]))
        counts = {k: sum(c["pairs"] for c in counted if c["kind"] == k) for k in KINDS}
        pairs = rows(
            conn,
            _PAIRS.format(view=queries()["limbic_similar_observations"]),
            {"kind": kind, "size": size, "skip": (page - 1) * size},
        )
        across = across_entities(conn, page=page, size=size)
    listed = counts[kind] if kind else sum(counts.values())
    return data | {
        "kept": looked_at,
        "counts": counts,
        "rules": {k: {c["rule"]: c["pairs"] for c in counted if c["kind"] == k} for k in KINDS},
        "pages": max(pages(size, listed), across["pages"], clashes["pages"]),
        "pairs": [_pair(row) for row in pairs],
        "across_entities": across,
        "name_clashes": clashes,
    }


def _kept(conn: sqlite3.Connection) -> dict[str, Any]:
    return {"fresh": False, **keeping.state(conn)}


def _now(conn: sqlite3.Connection) -> dict[str, Any]:
    rules = keeping.rules(conn)
    thresholds = rules.thresholds
    return {
        "fresh": True,
        "computed_at": times.now_sql(),
        "model": rules.info.model_id if rules.info and rules.info.count else None,
        "thresholds": {
            "cosine": thresholds.cosine,
            "look": thresholds.look,
            "containment": thresholds.containment,
        },
        "changed_since": 0,
        "settings_changed": False,
    }


def _pair(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **{key: row[key] for key in ("kind", "rule", "cosine", "containment", "difference")},
        "entity": {
            "id": row["entity_id"],
            "name": row["entity"],
            "entityType": row["entity_type"],
        },
        "earlier": {
            "id": row["earlier_id"],
            "content": row["earlier"],
            "created_at": row["earlier_created_at"],
            "similarity_flag": row["earlier_flag"],
        },
        "later": {
            "id": row["later_id"],
            "content": row["later"],
            "created_at": row["later_created_at"],
            "similarity_flag": row["similarity_flag"],
        },
        "found_at": row["found_at"],
    }
