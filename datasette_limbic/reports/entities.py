"""One entity by its id or name, and rows as dicts: what reports share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..config import number
from ..entity import alike
from ..errors import BadParameter, UnknownEntity
from ..schema import holds, require_memory
from ..text import storable

PAGE = 50
"""Rows of each list on a page."""
MAX_PAGE_SIZE = 1000
MAX_PAGE = 10_000_000
_DIGITS = re.compile(r"-?[0-9]{1,19}")


def rows(
    conn: sqlite3.Connection, sql: str, args: Mapping[str, Any] | Sequence[Any] = ()
) -> list[dict[str, Any]]:
    """The rows of a query as dicts."""
    cursor = conn.execute(sql, args)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def find_entity(conn: sqlite3.Connection, entity: int | str) -> dict[str, Any]:
    """``id``, ``name``, ``entityType`` and ``archived_at``, by id (a number) or exact name.

    Raises UnknownEntity, naming entities of almost that name, and BadParameter for what is
    neither a number nor a text.
    """
    # True would be the id 1
    if isinstance(entity, bool) or not isinstance(entity, (int, str)):
        raise BadParameter(f"entity is {entity!r:.80}: use an id, a whole number, or a name")
    column = "id" if isinstance(entity, int) else "name"
    found = rows(
        conn,
        f"select id, name, entity_type as entityType, archived_at from entities where {column} = ?",
        [entity if holds(entity) else None],
    )
    if not found:
        near = alike(conn, entity) if isinstance(entity, str) else []
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "search for it by name"
        raise UnknownEntity(f"this memory has no entity with the {column} {entity!r:.80}: {hint}")
    return found[0]


def typed(conn: sqlite3.Connection, text: str) -> int | str:
    """An entity as a person types it, in a command, a form or an address: digits are the id
    where there is one, else a name where there is one, since a name may be digits too.

    What comes back is for ``find_entity``, which says what is missing. Programs need none of this:
    they give an id as a number and a name as text. Raises NotAMemory.
    """
    require_memory(conn)
    text = storable(text)
    if not _DIGITS.fullmatch(text) or not holds(number := int(text)):
        return text
    there = "select 1 from entities where {} = ?"
    if conn.execute(there.format("id"), [number]).fetchone() is None and (
        conn.execute(there.format("name"), [text]).fetchone() is not None
    ):
        return text
    return number


def paging(page: Any, size: Any) -> tuple[int, int]:
    """Both as whole numbers. Raises BadParameter, naming the value."""
    return (
        int(number("page", page, 1, MAX_PAGE, whole=True)),
        int(number("size", size, 1, MAX_PAGE_SIZE, whole=True)),
    )


def pages(size: int, *counts: int) -> int:
    """How many pages the longest of the lists needs, at least 1."""
    return max(1, -(-max(counts, default=0) // size))
