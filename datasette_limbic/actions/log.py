"""The log of changes for people: what was done when and by whom, and whether it can be undone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..answers import plain
from ..errors import LimbicError
from ..reports.entities import PAGE, pages, paging
from ..schema import COLLECTIONS, holds, require_memory
from . import changes, undoing
from .described import described
from .diff import diff
from .kinds import KINDS
from .model import RowChange

_MATCHING = (
    "(:any or c.entity_id = :id or c.entity_name = :name)"
    " and (:action is null or c.action = :action) and (:actor is null or c.actor = :actor)"
)
_LISTED = f"""select {", ".join(f"c.{name}" for name in changes.COLUMNS)},
 e.id is not null as is_there, u.actor as undone_actor, u.created_at as undone_at
 from limbic_changes c left join entities e on e.id = c.entity_id
 left join limbic_changes u on u.id = c.undone_by"""


def changes_log(
    conn: sqlite3.Connection,
    *,
    entity: int | str | None = None,
    action: str | None = None,
    actor: str | None = None,
    page: int = 1,
    size: int = PAGE,
) -> dict[str, Any]:
    """The log of changes, newest first, ``size`` a page. Reads only.

    ``entity`` is what a change is mostly about, by id (a number) or by the name that it had then;
    ``action`` one of ``kinds.KINDS``, ``actor`` who did it.

    The answer: ``changes``, each with ``id``, ``action``, ``title`` (the action in words),
    ``entity`` (``id``, ``name``, ``is_there``: whether there is one of that id now), ``summary``,
    ``actor``, ``insight``, ``undoes`` and ``undone_by`` (ids of changes), ``undone_actor``,
    ``undone_at``, ``created_at``; ``count`` of those that match, ``count_all``, ``page``,
    ``pages``, ``size``, and what it was asked for. ``actions`` and ``actors`` count the whole log,
    most frequent first. Raises NotAMemory and BadParameter.
    """
    require_memory(conn)
    page, size = paging(page, size)
    asked = {
        "any": entity is None,
        "id": entity if holds(entity) else None,
        "name": entity if isinstance(entity, str) else None,
        "action": action,
        "actor": actor,
    }
    count = conn.execute(
        f"select count(*) from limbic_changes c where {_MATCHING}", asked
    ).fetchone()[0]
    cursor = conn.execute(
        f"{_LISTED} where {_MATCHING} order by c.id desc limit :size offset :skip",
        {**asked, "size": size, "skip": (page - 1) * size},
    )
    return {
        "changes": [_listed(row) for row in cursor.fetchall()],
        "count": count,
        "count_all": conn.execute("select count(*) from limbic_changes").fetchone()[0],
        "page": page,
        "pages": pages(size, count),
        "size": size,
        "entity": None if entity is None else str(entity),
        "action": action,
        "actor": actor,
        "actions": _counted(conn, "action"),
        "actors": _counted(conn, "actor"),
    }


def change_detail(conn: sqlite3.Connection, number: int) -> dict[str, Any]:
    """One change with all that it did. Reads only.

    ``change`` as ``changes_log`` lists it; ``diff`` as that of ``acting.act``, where ``shown`` are
    texts and names as they are now, which the log itself does not repeat; ``names``, {id: name} of
    the entities that the diff names, those that are there no more by the name that they had;
    ``undo``: ``possible``, and the ``reason`` why not; ``waiting``, how many of the rows it touched
    are left to the next sync. Raises UnknownChange and NotAMemory.
    """
    require_memory(conn)
    ours = not conn.in_transaction
    if ours:
        conn.execute("begin")  # one moment for all of it
    try:
        change = changes.read(conn, number)
        row = conn.execute(f"{_LISTED} where c.id = ?", [number]).fetchone()
        found, names = described(conn, diff(change.images))
        reason = _why_not_undone(conn, number)
        answer: dict[str, Any] = plain(
            {
                "change": _listed(row),
                "diff": found,
                "names": names,
                "undo": {"possible": reason is None, "reason": reason},
                "waiting": _waiting(conn, change.images),
            }
        )
    finally:
        if ours:
            conn.rollback()
    return answer


def _why_not_undone(conn: sqlite3.Connection, number: int) -> str | None:
    """Why a change cannot be undone now, in a sentence; None where it can."""
    try:
        undoing.plan(conn, {"change": number}, "")
    except LimbicError as error:
        return str(error)
    return None


def _waiting(conn: sqlite3.Connection, images: Iterable[RowChange]) -> int:
    """How many of the touched rows the index does not have as they are."""
    count = 0
    every = list(images)
    for name in COLLECTIONS:
        ids = [image.key[0] for image in every if image.table == name]
        count += conn.execute(
            "select count(*) from limbic_stale where collection = ?"
            " and item_id in (select value from json_each(?))",
            [name, json.dumps(ids)],
        ).fetchone()[0]
    return count


def _listed(row: Iterable[Any]) -> dict[str, Any]:
    found = dict(zip((*changes.COLUMNS, "is_there", "undone_actor", "undone_at"), row, strict=True))
    kind = KINDS.get(found["action"])
    answer: dict[str, Any] = plain(
        {
            "id": found["id"],
            "action": found["action"],
            "title": kind.title if kind else found["action"],
            "entity": {
                "id": found["entity_id"],
                "name": found["entity_name"],
                "is_there": bool(found["is_there"]),
            },
            "summary": found["summary"],
            "actor": found["actor"],
            "insight": found["insight_id"],
            "undoes": found["undoes"],
            "undone_by": found["undone_by"],
            "undone_actor": found["undone_actor"],
            "undone_at": found["undone_at"],
            "created_at": found["created_at"],
        }
    )
    return answer


def _counted(conn: sqlite3.Connection, column: str) -> list[dict[str, Any]]:
    """How often each value of a column stands in the log."""
    counts = conn.execute(
        f"select {column}, count(*) from limbic_changes where {column} is not null"
        " group by 1 order by 2 desc, 1 limit 200"
    )
    return [{column: plain(value), "count": count} for value, count in counts.fetchall()]
