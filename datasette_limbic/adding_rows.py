"""Where each new observation goes, as the memory stands, and what is there already."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from datasette.utils.sqlite import sqlite3

from .adding_input import Asked, Item, New
from .entity import alike
from .reports.queries import current

_THERE = f"""
select cast(o.content as text), min(o.id) from observations o
where o.entity_id = ? and o.content in (select value from json_each(?)) and {current("o")}
group by 1
"""
_INSERT = """
insert into observations(entity_id, content, kind, confidence, valid_from, valid_to)
values (?, ?, ?, ?, ?, ?)
"""


@dataclass
class Row:
    """One observation on its way."""

    number: int
    """Its place among all that were sent and can be read, the same each time."""
    item: Item
    new: New
    entity_id: int
    entity_name: str
    there: int | None = None
    """The observation that says the same already."""
    repeats: Row | None = None
    """The one of this call that says the same."""
    id: int | None = None
    """Once it is written."""

    @property
    def is_new(self) -> bool:
        """Whether it is to be written."""
        return self.there is None and self.repeats is None

    def holds(self, now: str) -> bool:
        """Whether it is valid now: what is not yet or no longer true is compared to nothing."""
        begins, ends = self.new.valid_from, self.new.valid_to
        return (begins is None or begins <= now) and (ends is None or ends > now)

    def insert(self, conn: sqlite3.Connection) -> None:
        """Write it; inside the transaction that found its place."""
        new = self.new
        values = [
            self.entity_id, new.content, new.kind, new.confidence, new.valid_from, new.valid_to,
        ]  # fmt: skip
        self.id = int(conn.execute(_INSERT, values).lastrowid or 0)


@dataclass
class Placed:
    """What can be added, and why the rest cannot."""

    rows: list[Row] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)

    @property
    def new(self) -> list[Row]:
        """Those that are to be written."""
        return [row for row in self.rows if row.is_new]


def place(conn: sqlite3.Connection, asked: Asked) -> Placed:
    """Find the entity of each item, and the texts that hold there already. Reads only."""
    placed = Placed(rejected=[*asked.rejected])
    number = 0
    for item in asked.items:
        entity_id, found = _entity(conn, item)
        if entity_id is None:
            placed.rejected.append(item.rejected(found))
        else:
            placed.rows += [
                Row(number + i, item, new, entity_id, found) for i, new in enumerate(item.new)
            ]
        number += len(item.new)
    _mark_repeated(conn, placed.rows)
    placed.rejected.sort(key=lambda each: int(each["item"]))
    return placed


def _entity(conn: sqlite3.Connection, item: Item) -> tuple[int | None, str]:
    """Id and name of the item's entity; or None and what is wrong."""
    column, value = ("id", item.id) if item.id is not None else ("name", item.name)
    row = conn.execute(
        f"select id, name, archived_at, archived_reason from entities where {column} = ?", [value]
    ).fetchone()
    if row is None:
        near = alike(conn, item.name) if item.name is not None else []
        hint = f": perhaps {' or '.join(map(repr, near))}" if near else ": search for it first"
        return None, f"this memory has no entity with the {column} {value!r:.80}{hint}"
    entity_id, name = row[0], str(row[1])
    if item.name is not None and item.name != name:
        return None, (
            f"the entity with the id {item.id} is called {name!r:.80}, not {item.name!r:.80}: "
            "give one of the two"
        )
    if row[2] is not None:
        why = f" ({row[3]!s:.80})" if row[3] else ""
        return None, (
            f"{name!r:.80} was archived at {row[2]!s:.30}{why}: restore it first, or add this to "
            "another entity"
        )
    return entity_id, name


def _mark_repeated(conn: sqlite3.Connection, rows: Sequence[Row]) -> None:
    by_entity: dict[int, list[Row]] = {}
    for row in rows:
        by_entity.setdefault(row.entity_id, []).append(row)
    for entity_id, group in by_entity.items():
        texts = json.dumps(list({row.new.content for row in group}))
        there = dict(conn.execute(_THERE, [entity_id, texts]).fetchall())
        first: dict[str, Row] = {}
        for row in group:
            row.there = there.get(row.new.content)
            if row.there is None:
                earlier = first.setdefault(row.new.content, row)
                row.repeats = None if earlier is row else earlier
