"""A plan becomes rows: inside the caller's transaction, and checked afterwards row by row."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..errors import Refused
from ..exporting.tables import quoted
from ..exporting.values import RawText
from ..schema import guarded
from . import rows
from .model import Key, New, Plan, Row, RowChange, same

GUARD = "action"
PAIRS = "limbic_duplicates"


class Mismatch(RuntimeError):
    """A row is not what the plan has after it was applied: nothing may be committed."""


def apply(conn: sqlite3.Connection, plan: Plan) -> Plan:
    """Write every change of ``plan``; returns it with the ids that new rows got, and with all of
    their columns: undoing must see what became of those that the plan left to the file.

    The triggers keep text index and marks, and leave the times of activity to the plan. Flags
    come last: they follow the kept pairs by triggers, and a plan says what they are. Raises
    sqlite3.Error and Mismatch, after which the caller has to roll back.
    """
    # a row may name one that comes back after it: foreign keys are looked at by the commit
    conn.execute("pragma defer_foreign_keys = on")
    flags = _flags(conn, plan)
    ids: dict[New, int] = {}
    with guarded(conn, GUARD):
        for table in rows.TABLES.values():
            changes = plan.of(table.name)
            if table.name == PAIRS:
                continue
            _update(conn, table, [c for c in changes if c.before is not None], ids)
            for change in changes:
                if change.before is None:
                    _insert(conn, table, change, ids)
        for table in reversed(rows.TABLES.values()):
            if table.name != PAIRS:
                _delete(conn, table, [c.key for c in plan.of(table.name) if c.after is None])
        _pairs(conn, plan.of(PAIRS), ids)
        conn.executemany(
            "update observations set similarity_flag = ?1"
            " where id = ?2 and similarity_flag is not ?1",
            [(flag, number) for number, flag in flags.items()],
        )
    return _checked(conn, _resolved(plan, ids))


def refuse_unfit(conn: sqlite3.Connection, plan: Plan) -> None:
    """Raises Refused where the file demands columns that the plan's rows would not have: tables
    that were adopted are another program's too. Reads only."""
    for name in rows.TABLES:
        demanded = None
        for change in plan.of(name):
            if change.after is None:
                continue
            if demanded is None:
                demanded = _demanded(conn, name)
            for column, has_default in demanded.items():
                is_given = column in change.after
                if (is_given and change.after[column] is None) or (
                    not is_given and change.before is None and not has_default
                ):
                    raise Refused(
                        f"nothing was changed: in this file {name}.{column} may not be empty, and "
                        f"{'a new row' if change.before is None else 'this'} would leave it so. "
                        "Give the column a default, or let it be null"
                    )


def _demanded(conn: sqlite3.Connection, table: str) -> dict[str, bool]:
    """Columns that may not be null, but for keys and those that SQLite computes; and whether each
    has a default."""
    found = conn.execute(f"pragma table_xinfo({quoted(table)})").fetchall()
    return {
        name: default is not None
        for _, name, _, needed, default, key, hidden in found
        if needed and not key and not hidden
    }


def _flags(conn: sqlite3.Connection, plan: Plan) -> dict[int, Any]:
    """The flag that each observation has at the end: as the plan says, else as it is now."""
    ends = {number for change in plan.of(PAIRS) for number in change.key}
    ours = {change.key[0]: change for change in plan.of("observations")}
    wanted = dict(
        conn.execute(
            "select id, similarity_flag from observations"
            " where id in (select value from json_each(?))",
            [json.dumps(sorted(ends.union(ours)))],
        ).fetchall()
    )
    for number, change in ours.items():
        if change.after is None:
            wanted.pop(number, None)
        elif "similarity_flag" in change.after:
            wanted[number] = change.after["similarity_flag"]
    return wanted


def _update(
    conn: sqlite3.Connection,
    table: rows.Table,
    changes: Iterable[RowChange],
    ids: dict[New, int],
) -> None:
    """Those of the same columns at once: thousands of rows may move."""
    bound: dict[str, list[list[Any]]] = {}
    for change in changes:
        after = _mapped(change.after or {}, ids)
        if after:
            sets = ", ".join(f"{quoted(name)} = {_bound(value)}" for name, value in after.items())
            bound.setdefault(sets, []).append([*after.values(), *change.key])
    for sets, values in bound.items():
        conn.executemany(f"update {table.name} set {sets} where {_matched(table)}", values)


def _insert(
    conn: sqlite3.Connection, table: rows.Table, change: RowChange, ids: dict[New, int]
) -> None:
    row = _mapped(change.after or {}, ids)
    key = change.key[0]
    if isinstance(key, New) and len(table.key) == 1:
        row = {name: value for name, value in row.items() if name not in table.key or value != key}
    names = ", ".join(map(quoted, row))
    cursor = conn.execute(
        f"insert into {table.name}({names}) values ({', '.join(map(_bound, row.values()))})",
        [*row.values()],
    )
    if isinstance(key, New) and key not in ids:
        ids[key] = int(cursor.lastrowid or 0)


def _delete(conn: sqlite3.Connection, table: rows.Table, keys: Iterable[Key]) -> None:
    conn.executemany(f"delete from {table.name} where {_matched(table)}", keys)


def _pairs(conn: sqlite3.Connection, changes: Iterable[RowChange], ids: dict[New, int]) -> None:
    """Kept pairs: the triggers took away those whose observations were touched."""
    table = rows.TABLES[PAIRS]
    for change in changes:
        _delete(conn, table, [change.key])
        if change.after is not None:  # a whole row: the one that was there may be gone already
            _insert(conn, table, change, ids)


def _matched(table: rows.Table) -> str:
    return " and ".join(f"{quoted(name)} = ?" for name in table.key)


def _mapped(row: Row, ids: dict[New, int]) -> Row:
    return {
        name: ids.get(value, value) if isinstance(value, New) else value
        for name, value in row.items()
    }


def _bound(value: Any) -> str:
    """How a value is bound: text that is no UTF-8 was read as bytes, and stays text."""
    return "cast(? as text)" if isinstance(value, RawText) else "?"


def _resolved(plan: Plan, ids: dict[New, int]) -> Plan:
    """The plan with real ids, as the log keeps it."""

    def number(value: Any) -> Any:
        return ids.get(value, value) if isinstance(value, New) else value

    changes = []
    for change in plan.changes:
        key = tuple(map(number, change.key))
        after = None if change.after is None else _mapped(change.after, ids)
        if after is not None and change.before is None:
            after = {**dict(zip(rows.TABLES[change.table].key, key, strict=True)), **after}
        changes.append(replace(change, key=key, after=after))
    return replace(plan, changes=tuple(changes), entity_id=number(plan.entity_id))


def _checked(conn: sqlite3.Connection, plan: Plan) -> Plan:
    """Every row is as the plan has it: a trigger of another program may have its own ideas.

    Returns the plan with created rows whole, but for columns that SQLite computes.
    """
    whole: dict[tuple[str, Key], RowChange] = {}
    for name in rows.TABLES:
        changes = plan.of(name)
        if not changes:
            continue
        there = rows.read(conn, name, [change.key for change in changes])
        kept = rows.kept_columns(conn, name)
        for change in changes:
            row = there.get(change.key)
            if change.after is None:
                if row is not None:
                    raise Mismatch(f"{name} {change.key} is still there")
                continue
            if row is None:
                raise Mismatch(f"{name} {change.key} is not there")
            wrong = [
                column for column, value in change.after.items() if not same(row[column], value)
            ]
            if wrong:
                raise Mismatch(f"{name} {change.key} has another {', '.join(wrong)}")
            if change.before is None:
                after = {column: value for column, value in row.items() if column in kept}
                whole[name, change.key] = replace(change, after=after)
    changes = [whole.get((change.table, change.key), change) for change in plan.changes]
    return replace(plan, changes=tuple(changes))
