"""What the text of each entity would be once a plan is applied: that is what gets embedded first.

Worked out in a memory of its own by the same view that the file has (``entity_snapshots``), so
that no transaction is open while a model works, and so that it can be done on a connection that
only reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..schema import statements
from . import rows
from .model import New, Plan, RowChange

NEIGHBOURS = 100
"""Entities whose text holds the name of one that is archived or restored are embedded with it, up
to so many; sync does the others."""
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
    for change in plan.changes:
        row = {**(change.before or {}), **(change.after or {})}
        if change.table == "entities":
            if change.after is not None:
                found[change.key[0]] = None
            if {"name", "archived_at"} & row.keys() and not isinstance(change.key[0], New):
                renamed.append(change.key[0])
        elif change.table in ("observations", "relations"):
            column = "entity_id" if change.table == "observations" else "from_entity"
            for image in (change.before, change.after, change.shown):
                if image and image.get(column) is not None:
                    found[image[column]] = None
    gone = {c.key[0] for c in plan.of("entities") if c.after is None}
    around = conn.execute(
        "select distinct from_entity from relations"
        " where to_entity in (select value from json_each(?)) order by 1",
        [json.dumps(renamed)],
    ).fetchall()
    more = [row[0] for row in around if row[0] not in found and row[0] not in gone]
    found.update(dict.fromkeys(more[:NEIGHBOURS]))
    return [each for each in found if each not in gone], max(0, len(more) - NEIGHBOURS)


def texts(conn: sqlite3.Connection, plan: Plan, entities: Iterable[Any]) -> dict[Any, str]:
    """The text that each of these would have; those that are not there are left out."""
    wanted = list(entities)
    ids = [each for each in wanted if not isinstance(each, New)]
    observations = _after(plan, "observations", rows.of(conn, "observations", "entity_id", ids))
    relations = _after(plan, "relations", rows.of(conn, "relations", "from_entity", ids))
    ends = {row["to_entity"] for row in relations} - set(wanted)
    known = [each for each in (*ids, *ends) if not isinstance(each, New)]
    listed = _after(plan, "entities", rows.of(conn, "entities", "id", known))
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


def _after(plan: Plan, table: str, there: Mapping[tuple[Any, ...], Any]) -> list[dict[str, Any]]:
    """Rows as they would be; rows of elsewhere that come in are among the plan's own."""
    found = {key[0]: {**row, "id": key[0]} for key, row in there.items()}
    for change in plan.of(table):
        key = change.key[0]
        if change.after is None:
            found.pop(key, None)
        elif key in found or change.before is None or _whole(change):
            found[key] = {**change.shown, **found.get(key, {}), **change.after, "id": key}
    return list(found.values())


def _whole(change: RowChange) -> bool:
    return {"content", "relation_type", "name"} & {*change.shown, *(change.after or {})} != set()
