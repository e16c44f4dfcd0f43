"""The log of changes for people: what was done when and by whom, and whether it can be undone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..answers import plain
from ..errors import LimbicError
from ..reports.entities import PAGE, pages, paging
from ..schema import COLLECTIONS, holds, require_memory
from . import changes, rows, undoing
from .diff import diff
from .kinds import KINDS
from .model import RowChange

_MATCHING = (
    "(:entity is null or c.entity_id = :id or c.entity_name = :entity)"
    " and (:action is null or c.action = :action) and (:actor is null or c.actor = :actor)"
)
_LISTED = f"""select {", ".join(f"c.{name}" for name in changes.COLUMNS)},
 e.id is not null as is_there, u.actor as undone_actor, u.created_at as undone_at
 from limbic_changes c left join entities e on e.id = c.entity_id
 left join limbic_changes u on u.id = c.undone_by"""
# Columns that name an entity, by which a diff is read with names.
_NAMING = ("entity_id", "from_entity", "to_entity", "entity_a_id", "entity_b_id")
_SHOWN = {
    "entities": ("name", "entity_type"),
    "observations": ("content", "entity_id"),
    "relations": ("from_entity", "relation_type", "to_entity"),
    "limbic_insights": ("title",),
}


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

    ``entity`` is what a change is mostly about, by id or by the name that it had then (text of
    digits alone is taken as either); ``action`` one of ``kinds.KINDS``, ``actor`` who did it.

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
        "entity": None if entity is None else str(entity),
        "id": _as_id(entity),
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
        "entity": asked["entity"],
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
        found = diff(_with_texts(conn, change.images))
        reason = _why_not_undone(conn, number)
        answer: dict[str, Any] = plain(
            {
                "change": _listed(row),
                "diff": found,
                "names": names(conn, found),
                "undo": {"possible": reason is None, "reason": reason},
                "waiting": _waiting(conn, change.images),
            }
        )
    finally:
        if ours:
            conn.rollback()
    return answer


def names(conn: sqlite3.Connection, found: Mapping[str, Any]) -> dict[str, Any]:
    """The names of all entities that a diff (see ``diff.diff``) names: those that it creates or
    removes as it has them, the others as they are now. Keys are ids as text, and "new-1" …"""
    known: dict[str, Any] = {}
    wanted: set[int] = set()
    for row in found["rows"]:
        images = [image for image in (row["before"], row["after"], row.get("shown")) if image]
        if row["table"] == "entities":
            name = next((image["name"] for image in images if "name" in image), None)
            known[str(row.get("new") or row["key"][0])] = name
        elif row["table"] in ("entity_access", "co_occurrences"):
            wanted.update(key for key in row["key"] if key is not None)
        wanted.update(
            image[column]
            for image in images
            for column in _NAMING
            if isinstance(image.get(column), int)
        )
    there = rows.of(conn, "entities", "id", sorted(wanted))
    now = {str(key[0]): row["name"] for key, row in there.items()}
    result: dict[str, Any] = plain({**now, **known})
    return result


def _with_texts(conn: sqlite3.Connection, images: Iterable[RowChange]) -> list[RowChange]:
    """Changed rows with what tells a person which they are, as that is now."""
    every = list(images)
    found = {
        table: rows.read(
            conn, table, [i.key for i in every if i.table == table and i.before and i.after]
        )
        for table in _SHOWN
    }
    return [
        RowChange(
            image.table,
            image.key,
            image.before,
            image.after,
            {column: row[column] for column in _SHOWN[image.table]},
        )
        if (row := found.get(image.table, {}).get(image.key)) is not None
        else image
        for image in every
    ]


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


def _as_id(entity: int | str | None) -> int | None:
    if isinstance(entity, str):
        entity = int(entity) if entity.isascii() and entity.isdigit() and len(entity) < 20 else None
    return entity if holds(entity) else None


def _counted(conn: sqlite3.Connection, column: str) -> list[dict[str, Any]]:
    """How often each value of a column stands in the log."""
    counts = conn.execute(
        f"select {column}, count(*) from limbic_changes where {column} is not null"
        " group by 1 order by 2 desc, 1 limit 200"
    )
    return [{column: plain(value), "count": count} for value, count in counts.fetchall()]
