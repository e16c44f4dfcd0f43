"""The log of changes: what was done by whom and when, with every row before and after."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..answers import plain
from ..errors import UnknownChange
from ..exporting.values import RawText, decode, dumps, finite
from ..schema import holds
from . import rows
from .model import Key, Plan, Row, RowChange

COLUMNS = (
    "id", "action", "entity_id", "entity_name", "summary", "actor", "insight_id", "undoes",
    "undone_by", "created_at",
)  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One row of the log. ``row`` has the columns but for the images."""

    row: Row
    images: tuple[RowChange, ...]

    @property
    def id(self) -> int:
        """The number under which it is undone."""
        return int(self.row["id"])


def write(
    conn: sqlite3.Connection, plan: Plan, *, actor: str | None = None, insight: int | None = None
) -> int:
    """Log a plan that was applied; inside its transaction. Returns the change's id.

    ``before`` and ``after`` are {table: {key: {column: value} or null}}; ``after`` has what was
    asked for beside the tables, as ``arguments``.
    """
    before: dict[str, dict[str, Row | None]] = {}
    after: dict[str, dict[str, Row | None]] = {}
    for change in plan.changes:
        key = _text(change.key)
        before.setdefault(change.table, {})[key] = _image(change.before)
        after.setdefault(change.table, {})[key] = _image(change.after)
    name = plan.entity_name
    if isinstance(name, RawText):  # the log is for reading; the images have it as it is
        name = name.decode("utf-8", "replace")
    cursor = conn.execute(
        "insert into limbic_changes(action, entity_id, entity_name, summary, before, after, actor,"
        " insight_id, undoes) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            plan.action, plan.entity_id, name, plan.summary, dumps(before),
            dumps({"arguments": plain(dict(plan.arguments)), **after}), actor, insight,
            plan.undoes,
        ],
    )  # fmt: skip
    number = int(cursor.lastrowid or 0)
    if plan.undoes is not None:
        _turn_round(conn, plan.undoes, number)
    return number


def _turn_round(conn: sqlite3.Connection, undone: int | None, by: int) -> None:
    """Note who undoes whom: what an undone change had itself undone holds again, and what that
    one had undone is undone again, and so on."""
    while undone is not None:
        conn.execute("update limbic_changes set undone_by = ? where id = ?", [by, undone])
        holds_again = _undoes(conn, undone)
        if holds_again is None:
            return
        conn.execute("update limbic_changes set undone_by = null where id = ?", [holds_again])
        undone, by = _undoes(conn, holds_again), holds_again


def _undoes(conn: sqlite3.Connection, number: int) -> int | None:
    """The change that one took back: always an earlier one."""
    row = conn.execute(
        "select undoes from limbic_changes where id = ? and undoes < id", [number]
    ).fetchone()
    return None if row is None else int(row[0])


def read(conn: sqlite3.Connection, number: int) -> Change:
    """One change with its images. Raises UnknownChange."""
    row = conn.execute(
        f"select {', '.join(COLUMNS)}, before, after from limbic_changes where id = ?",
        [number if holds(number) else None],
    ).fetchone()
    if row is None:
        raise UnknownChange(f"there is no change {number}: look at the log of changes")
    return Change(dict(zip(COLUMNS, row, strict=False)), tuple(_images(row[-2], row[-1])))


def touching(
    conn: sqlite3.Connection, since: int, wanted: Collection[tuple[str, Key]]
) -> dict[tuple[str, Key], Row]:
    """For each of these rows the newest change after ``since`` that still stands and touched it;
    a change of then that was undone, and its undoing, are as if neither had been."""
    found: dict[tuple[str, Key], Row] = {}
    cursor = conn.execute(
        f"select {', '.join(COLUMNS)}, before, after from limbic_changes"
        " where id > ?1 and undone_by is null and (undoes is null or undoes <= ?1)"
        " order by id desc",
        [since],
    )
    for row in cursor:
        here = {(image.table, image.key) for image in _images(row[-2], row[-1])}
        for each in here.intersection(wanted):
            found.setdefault(each, dict(zip(COLUMNS, row, strict=False)))
        if len(found) == len(wanted):
            break
    return found


def said(change: Row) -> str:
    """A change for a sentence: ``change 12 (merge of 'Atlas', by ana, 2026-11-30 10:00:00)``."""
    name = change["entity_name"]
    parts = [change["action"] if name is None else f"{change['action']} of {name!r:.80}"]
    if change["actor"]:
        parts.append(f"by {change['actor']}")
    return f"change {change['id']} ({', '.join([*parts, str(change['created_at'])])})"


def _images(before: Any, after: Any) -> Iterator[RowChange]:
    first, last = json.loads(before), json.loads(after)
    for table, images in last.items() if isinstance(last, dict) else ():
        if table not in rows.TABLES:
            continue
        for text, image in images.items():
            yield RowChange(table, _key(text), _row(first[table][text]), _row(image))


def _image(row: Row | None) -> Row | None:
    return None if row is None else {name: finite(value) for name, value in row.items()}


def _row(image: dict[str, Any] | None) -> Row | None:
    return None if image is None else {name: decode(value) for name, value in image.items()}


def _text(key: Key) -> str:
    return ",".join(map(str, key))


def _key(text: str) -> Key:
    return tuple(map(int, text.split(",")))
