"""Who stands under which key: findings whose ids changed, and those of another memory.

Keys hold ids, and actions take some of them away: of three duplicates that were judged, the first
one is deleted, or all move to another entity. What is found then would be new, and ask again what
was answered. So it takes over the row of the one that it is made of.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..reports.entities import rows
from .model import imported_key, is_ours, material_of, read_evidence

SHARE = {"duplicate": 0.5, "name_clash": 0.5, "contradiction": 1.0}
"""By kind the share of what is found now that a finding must have been about to be the same."""
_PARTS = {"name_clash": "names"}

_IN_THE_WAY = """
select i.id, i.key, i.kind, i.evidence, i.evidence_digest, e.name as entity
from temp.limbic_raised r join limbic_insights i on i.key = r.key
left join entities e on e.id = i.entity_id
where i.evidence_digest is not r.evidence_digest order by i.id
"""
_NEW = """
select r.seq, r.key, r.evidence from temp.limbic_raised r
where r.kind = ? and not exists (select 1 from limbic_insights i where i.key = r.key)
order by r.seq
"""
_OLD = """
select i.id, i.key, i.kind, i.status, i.evidence, i.evidence_digest, i.judged_before
from limbic_insights i where i.kind = ? and not exists (
  select 1 from temp.limbic_raised r where r.key = i.key
) order by i.id
"""
_RENAME = "update limbic_insights set key = ? where id = ?"


def make_way(conn: sqlite3.Connection) -> None:
    """Move what an import put under a key that a report of this memory raises now."""
    for row in rows(conn, _IN_THE_WAY):
        if not is_ours(
            row["key"], row["kind"], row["evidence_digest"], read_evidence(row["evidence"])
        ):
            rename_imported(conn, row["id"], row["key"], row["entity"])


def rename_imported(conn: sqlite3.Connection, insight: int, key: str, entity: Any) -> str:
    """Give an imported finding a key that none of ours has; ``entity`` is a name. Returns it."""
    new = imported_key(key, entity if isinstance(entity, str) else None)
    taken = conn.execute("select 1 from limbic_insights where key = ?", [new]).fetchone()
    if taken is not None:
        new = f"{new}#{insight}"
    conn.execute(_RENAME, [new, insight])
    return new


def take_over(conn: sqlite3.Connection, kinds: Iterable[str]) -> None:
    """Give the rows of findings that are raised under no key any more to those that follow them.

    One that is judged before one that waits, then that which shares most, then the oldest.
    """
    for kind in kinds:
        if kind in SHARE:
            _take_over(conn, kind)


def _take_over(conn: sqlite3.Connection, kind: str) -> None:
    new = [
        (row["key"], _ids(kind, read_evidence(row["evidence"]))) for row in rows(conn, _NEW, [kind])
    ]
    if not new:
        return
    standing: dict[int, tuple[Any, ...]] = {}
    by_id: dict[str, list[int]] = defaultdict(list)
    for row in rows(conn, _OLD, [kind]):
        evidence = read_evidence(row["evidence"])
        if is_ours(row["key"], kind, row["evidence_digest"], evidence):
            waits = row["status"] == "pending"
            standing[row["id"]] = (waits and row["judged_before"] is None, waits)
            for each in _ids(kind, evidence):
                by_id[each].append(row["id"])
    for key, ids in new:
        shared = Counter(old for each in ids for old in by_id[each] if old in standing)
        able = [old for old, count in shared.items() if count >= SHARE[kind] * len(ids)]
        if able:
            best = min(able, key=lambda old: (standing[old], -shared[old], old))
            conn.execute(_RENAME, [key, best])
            del standing[best]


def _ids(kind: str, evidence: Any) -> set[str]:
    """Ids of the observations, or entities, that a finding is about."""
    material: Mapping[str, Any] = material_of(evidence) or {}
    found = material.get(_PARTS.get(kind, "observations"))
    return set(found) if isinstance(found, dict) else set()
