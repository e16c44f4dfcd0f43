"""What reports keep of the observations of one entity, for its page: nothing is compared here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from datasette.utils.sqlite import sqlite3

from .entity_signals import rows
from .reports.queries import queries

PAIRS = 3
"""Pairs that are told of one observation; the rest is counted."""
INSIGHTS = 5
SHOWN = 300
"""Characters of the other observation of a pair."""
_VALUES = {"now": "now", "stale_days": 0, "stale_max_access": 0}
_OF_BOTH = """
select s.earlier_id as mine, s.later_id as other, s.later as content, s.kind, s.rule, s.cosine,
  s.containment, s.difference
from kept s where s.earlier_id in (select value from json_each(:ids))
union all
select s.later_id, s.earlier_id, s.earlier, s.kind, s.rule, s.cosine, s.containment, s.difference
from kept s where s.later_id in (select value from json_each(:ids))
"""
_PAIRS = f"""
select mine, other as id, substr(content, 1, {SHOWN + 1}) as content, kind, rule, cosine,
  containment, difference, pairs
from (
  select *, count(*) over (partition by mine) as pairs, row_number() over (
    partition by mine
    order by kind = 'contradiction' desc, kind = 'duplicate' desc, rule = 'exact' desc,
      cosine desc, other) as place
  from ({_OF_BOTH})
) where place <= {PAIRS} order by mine, place
"""
_TOPICS = "select topics from limbic_topics where entity_id = ?"
_WAITING = f"""select id, kind, title, count(*) over () as waiting from limbic_insights
where status = 'pending' and entity_id = :id order by kind <> 'split', id limit {INSIGHTS}"""


def pairs_of(
    conn: sqlite3.Connection, observations: Iterable[int]
) -> dict[int, list[dict[str, Any]]]:
    """By id of an observation, the kept pairs that it is in, of either side. Reads only.

    Contradictions first, then duplicates, then what is worth a look: at most PAIRS, each with
    ``id`` and ``content`` (its beginning) of the other one, ``kind``, ``rule``, ``cosine``,
    ``containment``, ``difference`` (a text, or None) and ``pairs``, how many there are. One
    statement. Needs the tables of migration 4.
    """
    ids = json.dumps(list(observations))
    kept = queries(parametrised=True)["limbic_similar_observations"]
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows(conn, f"with kept as ({kept}) {_PAIRS}", {**_VALUES, "ids": ids}):
        found.setdefault(row.pop("mine"), []).append(row)
    return found


def kept_topics(conn: sqlite3.Connection, entity: int) -> list[dict[str, Any]]:
    """``label`` and ``size`` of the topics that are kept of an entity, the largest first.

    Empty where none are, or where another program wrote something else there. Reads only.
    """
    row = conn.execute(_TOPICS, [entity]).fetchone()
    try:
        found = json.loads(row[0]) if row else []
    except (TypeError, ValueError):  # ValueError: no JSON, or bytes that are no UTF-8
        return []
    topics = [
        {"label": str(topic.get("label") or ""), "size": topic.get("size")}
        for topic in (found if isinstance(found, list) else [])
        if isinstance(topic, dict)
    ]
    known = [topic for topic in topics if isinstance(topic["size"], int)]
    return sorted(known, key=lambda topic: -int(topic["size"]))


def pending_insights(conn: sqlite3.Connection, entity: int) -> dict[str, Any]:
    """What the review queue holds of an entity: ``count``, and ``insights``, at most INSIGHTS,
    that about a split first, each with ``id``, ``kind`` and ``title``. Reads only."""
    found = rows(conn, _WAITING, {"id": entity})
    count = found[0]["waiting"] if found else 0
    return {
        "count": count,
        "insights": [{key: row[key] for key in ("id", "kind", "title")} for row in found],
    }
