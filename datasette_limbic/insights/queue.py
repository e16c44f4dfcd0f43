"""The review queue: what waits for a decision, and in which order. ``deciding`` decides it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import schema
from ..answers import plain
from ..config import choice
from ..errors import UnknownInsight
from ..reports.entities import PAGE, find_entity, pages, paging, rows
from . import history, notes
from .model import KINDS, is_ours, read_evidence

STATUSES = ("pending", "approved", "dismissed")
_NO_HISTORY = "null as judged_before"
_RANK = "case i.kind {} else {} end".format(
    " ".join(f"when '{kind}' then {at}" for at, kind in enumerate(KINDS)), len(KINDS)
)
# any program may have put a text there, or nothing
_SURE = "coalesce(cast(i.confidence as real), 0.0)"
_ORDER = f"{_RANK}, -{_SURE}, i.id"
_PLACE = f"({_RANK}, -{_SURE}, i.id)"
_PREVIOUS = f"""
select i.id from limbic_insights i where i.status = 'pending' and {_PLACE} < (:rank, :sure, :id)
order by {_RANK} desc, {_SURE}, i.id desc limit 1
"""
_NEXT = f"""
select i.id from limbic_insights i where i.status = 'pending' and {_PLACE} > (:rank, :sure, :id)
order by {_ORDER} limit 1
"""
_POSITION = f"""
select count(*), coalesce(sum({_PLACE} <= (:rank, :sure, :id)), 0)
from limbic_insights i where i.status = 'pending'
"""
_COLUMNS = f"""
i.id, i.key, i.kind, i.entity_id, i.title, i.body, i.evidence, i.evidence_digest, i.confidence,
i.status, i.judged_by, i.judged_at, i.created_at, i.updated_at,
e.name as entity, e.entity_type, e.archived_at, {_RANK} as rank, {_SURE} as sure
"""
_FROM = "from limbic_insights i left join entities e on e.id = i.entity_id"
_WHERE = """
(:status is null or i.status = :status) and (:kind is null or i.kind = :kind)
and (:entity is null or i.entity_id = :entity)
"""


def insights(
    conn: sqlite3.Connection,
    *,
    status: str | None = "pending",
    kind: str | None = None,
    entity: int | str | None = None,
    page: Any = 1,
    size: Any = PAGE,
) -> dict[str, Any]:
    """The queue, a page at a time. Reads only.

    ``status`` is pending, approved or dismissed (None: all), ``kind`` one of those of
    ``model.KINDS`` or of an import, ``entity`` an id or an exact name. First what may be false
    (contradictions), then duplicates, name clashes, archived bridges, splits, what may be
    archived, and what imports brought; the surest of each kind first.

    ``insights`` are rows as ``insight`` gives them, but for the former judgements, of which there
    is the number ``judgements``; ``counts`` by kind and status of the whole queue, or of the
    entity; ``count`` of what was asked for; ``page``, ``pages`` and ``size``.

    Raises NotAMemory, BadParameter and UnknownEntity.
    """
    schema.require_memory(conn)
    page, size = paging(page, size)
    if status is not None:
        choice("status", status, STATUSES)
    about = None if entity is None else find_entity(conn, entity)
    values = {"status": status, "kind": kind, "entity": about and about["id"]}
    counts: dict[str, dict[str, int]] = {}
    for of, state, count in conn.execute(
        "select i.kind, i.status, count(*) from limbic_insights i"
        " where :entity is null or i.entity_id = :entity group by 1, 2",
        values,
    ):
        counts.setdefault(str(of), dict.fromkeys(STATUSES, 0))[state] = count
    listed = sum(
        count
        for of, states in counts.items()
        for state, count in states.items()
        if kind in (None, of) and status in (None, state)
    )
    found = rows(
        conn,
        f"select {_COLUMNS}, {_judged_before(conn)} {_FROM} where {_WHERE}"
        f" order by {_ORDER} limit :size offset :skip",
        {**values, "size": size, "skip": (page - 1) * size},
    )
    return {
        "status": status,
        "kind": kind,
        "entity": about,
        "counts": dict(sorted(counts.items(), key=lambda item: _rank(item[0]))),
        "count": listed,
        "page": page,
        "pages": pages(size, listed),
        "size": size,
        "insights": [_shown(row) for row in found],
    }


def insight(conn: sqlite3.Connection, id: int) -> dict[str, Any]:
    """One insight, with where it stands in the queue. Reads only.

    ``id``, ``key``, ``kind``, ``status``, ``title``, ``body``, ``confidence`` (0 to 1), ``entity``
    (id, name, entityType, archived_at) or None, ``facts``, ``action`` and ``arguments``, ``note``,
    ``digest`` (of what it rests on: give it back to ``decide``), ``judged_by``, ``judged_at``,
    ``created_at``, ``updated_at``, ``judged_before`` (the oldest first: ``status``,
    ``judged_by``, ``judged_at``, ``title``, ``body``, ``confidence``, ``evidence_digest``,
    ``note``, ``raised_again_at`` and ``what_changed``, a sentence). ``ours`` is False where an
    import brought it: then there is no ``action``, since its ids may be those of another memory,
    and ``facts`` is what it came with.

    ``previous`` and ``next`` are ids of pending insights before and after it in the order of the
    queue, or None; ``pending`` how many there are, ``position`` its own place among them from 1,
    None where it is judged.

    Raises UnknownInsight and NotAMemory.
    """
    schema.require_memory(conn)
    found = read(conn, id)
    place = {"rank": found["rank"], "sure": -found["sure"], "id": id}
    pending, position = conn.execute(_POSITION, place).fetchone()
    return {
        **_shown(found),
        "judged_before": [_former(each) for each in history.read(found["judged_before"])],
        "previous": _one(conn, _PREVIOUS, place),
        "next": _one(conn, _NEXT, place),
        "pending": pending,
        "position": position if found["status"] == "pending" else None,
    }


def found(conn: sqlite3.Connection, id: int) -> dict[str, Any]:
    """One insight as ``insight`` has it, but for its place and its former judgements. Raises
    UnknownInsight."""
    return _shown(read(conn, id))


def read(conn: sqlite3.Connection, id: int) -> dict[str, Any]:
    """The columns of one insight as they stand. Raises UnknownInsight."""
    # True would be the id 1
    usable = isinstance(id, int) and not isinstance(id, bool) and schema.holds(id)
    found = rows(
        conn,
        f"select {_COLUMNS}, {_judged_before(conn)} {_FROM} where i.id = ?",
        [id if usable else None],
    )
    if not found:
        raise UnknownInsight(
            f"the review queue has no insight {id!r:.40}: it may have been withdrawn, since no "
            "report raises it any more"
        )
    return found[0]


def _judged_before(conn: sqlite3.Connection) -> str:
    """The column, which a file of an earlier version lacks."""
    return "i.judged_before" if schema.has_changes(conn) else _NO_HISTORY


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    evidence = read_evidence(row["evidence"])
    ours = is_ours(row["key"], row["kind"], row["evidence_digest"], notes.unnoted(evidence))
    about = None
    if row["entity_id"] is not None:
        about = {
            "id": row["entity_id"],
            "name": row["entity"],
            "entityType": row["entity_type"],
            "archived_at": row["archived_at"],
        }
    shown: dict[str, Any] = plain(
        {
            "id": row["id"],
            "key": row["key"],
            "kind": row["kind"],
            "status": row["status"],
            "title": row["title"],
            "body": row["body"],
            "confidence": row["sure"],
            "entity": about,
            "ours": ours,
            "facts": evidence["facts"] if ours else notes.unnoted(evidence),
            "action": evidence["action"] if ours else None,
            "arguments": evidence["arguments"] if ours else None,
            "note": notes.note_of(evidence),
            "digest": row["evidence_digest"],
            "judged_by": row["judged_by"],
            "judged_at": row["judged_at"],
            "created_at": row["created_at"],
            "updated_at": row["updated_at"],
            "judgements": len(history.read(row["judged_before"])),
        }
    )
    return shown


def _former(judged: Mapping[str, Any]) -> dict[str, Any]:
    """A former judgement as it is shown."""
    evidence = judged["evidence"]
    shown = {key: value for key, value in judged.items() if key != "evidence"}
    return {**shown, "note": notes.note_of(evidence)}


def _one(conn: sqlite3.Connection, sql: str, args: Mapping[str, Any]) -> Any:
    row = conn.execute(sql, args).fetchone()
    return None if row is None else row[0]


def _rank(kind: str) -> tuple[int, str]:
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), kind)
