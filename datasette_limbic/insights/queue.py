"""The review queue: what waits for a decision, in which order, and deciding it.

Approving is an action (it changes the graph); ``judge`` notes it inside that transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import schema
from ..answers import plain
from ..config import choice
from ..errors import BadParameter, Refused, UnknownInsight
from ..llm_store import transaction
from ..reports.entities import PAGE, find_entity, pages, paging, rows
from ..reports.lists import moment
from ..text import storable
from . import history
from .model import KINDS, is_ours, read_evidence

STATUSES = ("pending", "approved", "dismissed")
MAX_NOTE = 1000
"""Characters of a note."""
_NOTE, _WRAPPED = "review_note", "judged_evidence"
"""Where a note stands in the evidence, and the evidence itself where that is no object."""
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
    ``digest`` (of what it rests on: give it back to ``dismiss``), ``judged_by``, ``judged_at``,
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
    found = _read(conn, id)
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


def dismiss(
    conn: sqlite3.Connection,
    id: int,
    *,
    actor: str | None = None,
    note: str | None = None,
    digest: str | None = None,
    now: Any = None,
) -> dict[str, Any]:
    """Decide that nothing is to be done; returns the insight as it stands then.

    It is not raised again unless what it rests on changes. ``note`` says why. ``digest`` is that
    of the insight as it was shown: where it is another by now, nothing is decided.

    Raises UnknownInsight, Refused (judged already, by whom and when; or its evidence is another
    than was shown), BadParameter and NotAMemory.
    """
    return judge(conn, id, "dismissed", actor=actor, note=note, digest=digest, now=now)


def judge(
    conn: sqlite3.Connection,
    id: int,
    status: str,
    *,
    actor: str | None = None,
    note: str | None = None,
    digest: str | None = None,
    now: Any = None,
) -> dict[str, Any]:
    """Note what a person decided (``approved`` or ``dismissed``), as ``dismiss`` has it.

    In a transaction of the caller's, a part of that: so that an action and its approval are
    written together or not at all.
    """
    schema.require_memory(conn)
    choice("status", status, STATUSES[1:])
    at = moment(now)
    note = _note(note)
    with transaction(conn):
        found = _read(conn, id)
        if found["status"] != "pending":
            raise Refused(f"{_called(found)} was {_judged(found)} already: open it again first")
        if digest is not None and digest != found["evidence_digest"]:
            raise Refused(
                f"{_called(found)} is not what was shown: its evidence changed at "
                f"{found['updated_at']}, so look at it again"
            )
        conn.execute(
            "update limbic_insights set status = ?, judged_by = ?, judged_at = ? where id = ?",
            [status, actor, at, id],
        )
        if note is not None:
            conn.execute(
                "update limbic_insights set evidence = ? where id = ?",
                [noted(found["evidence"], note), id],
            )
        return insight(conn, id)


def reopen(
    conn: sqlite3.Connection, id: int, *, actor: str | None = None, now: Any = None
) -> dict[str, Any]:
    """Take a judgement back: the insight waits for a decision again. Returns it as it is then.

    Who judged it stays in ``judged_before``. Raises UnknownInsight, Refused (it waits already, or
    what was approved is in effect: that is to be undone) and NotAMemory.
    """
    schema.require_memory(conn)
    at = moment(now)
    with transaction(conn):
        found = _read(conn, id)
        if found["status"] == "pending":
            raise Refused(f"{_called(found)} waits for a decision already{_since(found)}")
        if found["status"] == "approved":
            _not_in_effect(conn, found)
        judged = history.entry(
            found, at, f"opened again by {_by(actor)}", reopened=True, reopened_by=actor
        )
        conn.execute(
            "update limbic_insights set status = 'pending', judged_by = null, judged_at = null,"
            " evidence = ?, judged_before = ?, updated_at = ? where id = ?",
            [
                _as_raised(found["evidence"]),
                history.written([*history.read(found["judged_before"]), judged]),
                at,
                id,
            ],
        )
        return insight(conn, id)


def _read(conn: sqlite3.Connection, id: int) -> dict[str, Any]:
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
    ours = is_ours(row["key"], row["kind"], row["evidence_digest"], _unnoted(evidence))
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
            "facts": evidence["facts"] if ours else _unnoted(evidence),
            "action": evidence["action"] if ours else None,
            "arguments": evidence["arguments"] if ours else None,
            "note": note_of(evidence),
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
    return {**shown, "note": note_of(evidence)}


def _one(conn: sqlite3.Connection, sql: str, args: Mapping[str, Any]) -> Any:
    row = conn.execute(sql, args).fetchone()
    return None if row is None else row[0]


def _note(note: str | None) -> str | None:
    if note is None or not note.strip():
        return None
    if len(note) > MAX_NOTE:
        raise BadParameter(f"the note has {len(note):,} characters: use at most {MAX_NOTE:,}")
    return storable(note.strip())


def note_of(evidence: Any) -> Any:
    """The note that somebody left in parsed evidence, or None."""
    return evidence.get(_NOTE) if isinstance(evidence, dict) else None


def noted(evidence: Any, note: str) -> str:
    """The evidence with a note beside it; of another form than an object, as its ``evidence``."""
    found = read_evidence(evidence)
    whole = found if isinstance(found, dict) else {_WRAPPED: found}
    return json.dumps({**whole, _NOTE: note}, ensure_ascii=False)


def _unnoted(evidence: Any) -> Any:
    """Parsed evidence as it was before somebody judged it."""
    if not isinstance(evidence, dict) or _NOTE not in evidence:
        return evidence
    found = {key: value for key, value in evidence.items() if key != _NOTE}
    return found[_WRAPPED] if found.keys() == {_WRAPPED} else found


def _as_raised(evidence: Any) -> Any:
    """The column without a note; as it stands where there is none."""
    found = read_evidence(evidence)
    plainly = _unnoted(found)
    return evidence if plainly is found else json.dumps(plainly, ensure_ascii=False)


def _not_in_effect(conn: sqlite3.Connection, found: Mapping[str, Any]) -> None:
    """Raise Refused where what was approved has been carried out and not undone."""
    row = conn.execute(
        "select id from limbic_changes where insight_id = ? and undone_by is null"
        " and undoes is null order by id desc limit 1",
        [found["id"]],
    ).fetchone()
    if row is not None:
        raise Refused(
            f"{_called(found)} was {_judged(found)} and carried out as change {row[0]}: undo that "
            "first"
        )


def _called(found: Mapping[str, Any]) -> str:
    return f"insight {found['id']} ({found['title']!s:.100})"


def _judged(found: Mapping[str, Any]) -> str:
    return f"{found['status']} by {_by(found['judged_by'])} at {found['judged_at']}"


def _since(found: Mapping[str, Any]) -> str:
    judged = history.read(found["judged_before"])
    if not judged:
        return ""
    last = judged[-1]
    return f": {last.get('what_changed')}, at {last.get('raised_again_at')}"


def _by(actor: Any) -> str:
    return "somebody unnamed" if actor is None else str(actor)


def _rank(kind: str) -> tuple[int, str]:
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), kind)
