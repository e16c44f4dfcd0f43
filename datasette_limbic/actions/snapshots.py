"""What the text of each entity would be once a plan is applied: that is what gets embedded first.

Worked out in a memory of its own by the same view that the file has (``entity_snapshots``), so
that no transaction is open while a model works, and so that it can be done on a connection that
only reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..schema import statements
from . import rows
from .model import New, Plan, Row, RowChange

NEIGHBOURS = 100
"""Entities whose text holds the name of one that is archived, restored or merged are embedded with
it, up to so many; sync does the others."""
_TABLES = (
    "create table entities(id integer primary key, name, entity_type, archived_at)",
    "create table observations(id integer primary key, entity_id, content, valid_from, valid_to)",
    "create table relations(id integer primary key, from_entity, to_entity, relation_type,"
    " valid_from, valid_to)",
    "create table limbic_settings(key text primary key, value)",
)
_FIRST_NEW = 1 << 62
"""Rows that are not there yet come after all others, as they will."""


def touched(conn: sqlite3.Connection, plan: Plan) -> tuple[list[Any], int]:
    """Entities whose text the plan may change (ids and New), and how many more are left to sync."""
    found: dict[Any, None] = {}
    renamed: list[int] = []
    for change in plan.of("entities"):
        row = {**(change.before or {}), **(change.after or {})}
        if change.after is not None:
            found[change.key[0]] = None
        if {"name", "archived_at"} & row.keys() and not isinstance(change.key[0], New):
            renamed.append(change.key[0])
    for table, column in (("observations", "entity_id"), ("relations", "from_entity")):
        changes = [c for c in plan.of(table) if not _is_turned(c)]
        images = [image for c in changes for image in (c.before, c.after) if image]
        images += rows.read(conn, table, [c.key for c in changes if not _is_new(c)]).values()
        places = [image[column] for image in images if column in image]
        found.update((place, None) for place in places if isinstance(place, (int, New)))
    gone = {c.key[0] for c in plan.of("entities") if c.after is None}
    around = conn.execute(
        "select distinct from_entity from relations"
        " where to_entity in (select value from json_each(?)) order by 1",
        [json.dumps(renamed)],
    ).fetchall()
    turned = rows.read(conn, "relations", [c.key for c in plan.of("relations") if _is_turned(c)])
    beside = dict.fromkeys([*(row[0] for row in around), *_ends(turned.values())])
    more = [each for each in beside if each not in found and each not in gone]
    found.update(dict.fromkeys(more[:NEIGHBOURS]))
    return [each for each in found if each not in gone], max(0, len(more) - NEIGHBOURS)


def texts(conn: sqlite3.Connection, plan: Plan, entities: Iterable[Any]) -> dict[Any, str]:
    """The text that each of these would have; those that are not there are left out."""
    wanted = list(entities)
    ids = [each for each in wanted if not isinstance(each, New)]
    observations = _after(conn, plan, "observations", "entity_id", ids)
    relations = _after(conn, plan, "relations", "from_entity", ids)
    ends = {row["to_entity"] for row in relations} - set(wanted)
    known = [each for each in (*ids, *ends) if isinstance(each, int)]
    listed = _after(conn, plan, "entities", "id", known)
    settings = conn.execute("select key, value from limbic_settings").fetchall()
    memory = sqlite3.connect(":memory:")
    try:
        numbers: dict[Any, int] = {}

        def number(value: Any) -> Any:
            if isinstance(value, New):
                return numbers.setdefault(value, _FIRST_NEW + len(numbers))
            return value

        for text in (*_TABLES, *statements("views")):
            memory.execute(text)
        memory.executemany("insert into limbic_settings values (?, ?)", settings)
        for table, some in (
            ("entities", listed),
            ("observations", observations),
            ("relations", relations),
        ):
            columns = [row[1] for row in memory.execute(f"pragma table_info({table})")]
            memory.executemany(
                f"insert into {table} values ({', '.join('?' * len(columns))})",
                ([number(row.get(column)) for column in columns] for row in some),
            )
        made = dict(memory.execute("select id, cast(content as blob) from entity_snapshots"))
    finally:
        memory.close()
    return {
        each: (made[number(each)] or b"").decode("utf-8", "replace")
        for each in wanted
        if number(each) in made
    }


def _after(
    conn: sqlite3.Connection, plan: Plan, table: str, column: str, ids: Iterable[int]
) -> list[dict[str, Any]]:
    """Rows as they would be: those whose ``column`` is among ``ids``, and the plan's own."""
    changes = plan.of(table)
    own = rows.read(conn, table, [c.key for c in changes if not _is_new(c)])
    found: dict[Any, Row] = {
        key[0]: {**row, "id": key[0]}
        for key, row in {**rows.of(conn, table, column, ids), **own}.items()
    }
    for change in changes:
        key = change.key[0]
        if change.after is None:
            found.pop(key, None)
        else:
            found[key] = {**found.get(key, {}), **change.after, "id": key}
    return list(found.values())


def _is_turned(change: RowChange) -> bool:
    """Whether a relation leads to another entity, and is the same otherwise."""
    return change.before is not None and change.after is not None and {*change.after} == _END


_END = {"to_entity"}


def _ends(relations: Iterable[Row]) -> list[int]:
    return [row["from_entity"] for row in relations if isinstance(row["from_entity"], int)]


def _is_new(change: RowChange) -> bool:
    return any(isinstance(part, New) for part in change.key)
