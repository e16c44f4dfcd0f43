"""Rows of the tables that actions change: how they are told apart, read, and what hangs on them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..errors import BadParameter, Refused, UnknownEntity, UnknownRow
from ..exporting.tables import quoted
from ..exporting.values import read_text
from ..i18n import marked as _
from ..reports.entities import find_entity
from ..schema import holds
from ..text import cut, listed
from .model import Key, Row


@dataclass(frozen=True)
class Table:
    """One table that actions change."""

    name: str
    one: str
    """What a row of it is called."""
    many: str
    key: tuple[str, ...]
    references: tuple[tuple[str, str], ...] = ()
    """(column, table whose new rows it may name)."""
    derived: bool = False
    """What is counted or kept beside the facts: it moves by itself, so undoing is not refused
    because it did."""


_OF_ENTITY = (("entity_id", "entities"),)
# Parents before their children: rows are created in this order, and removed in the other one.
TABLES = {
    table.name: table
    for table in (
        Table("entities", _("entity"), _("entities"), ("id",)),
        Table("observations", _("observation"), _("observations"), ("id",), _OF_ENTITY),
        Table(
            "relations",
            _("relation"),
            _("relations"),
            ("id",),
            (("from_entity", "entities"), ("to_entity", "entities")),
        ),
        Table(
            "entity_access",
            _("count of accesses"),
            _("counts of accesses"),
            ("entity_id",),
            _OF_ENTITY,
            derived=True,
        ),
        Table(
            "co_occurrences",
            _("co-occurrence"),
            _("co-occurrences"),
            ("entity_a_id", "entity_b_id"),
            (("entity_a_id", "entities"), ("entity_b_id", "entities")),
            derived=True,
        ),
        Table(
            "entity_access_log",
            _("logged access"),
            _("logged accesses"),
            ("id",),
            _OF_ENTITY,
            derived=True,
        ),
        Table("limbic_feedback", _("rating"), _("ratings"), ("id",), _OF_ENTITY, derived=True),
        Table(
            "limbic_insights",
            _("finding of the review queue"),
            _("findings of the review queue"),
            ("id",),
            _OF_ENTITY,
            derived=True,
        ),
        Table(
            "limbic_topics",
            _("kept list of topics"),
            _("kept lists of topics"),
            ("entity_id",),
            _OF_ENTITY,
            derived=True,
        ),
        Table(
            "limbic_duplicates",
            _("kept pair of alike texts"),
            _("kept pairs of alike texts"),
            ("earlier_id", "later_id"),
            _OF_ENTITY,
            derived=True,
        ),
    )
}


def words(table: str) -> tuple[str, str]:
    """What one row of a table is called, and several, for a sentence."""
    known = TABLES.get(table)
    return (known.one, known.many) if known else (f"row of {table}", f"rows of {table}")


@contextmanager
def exactly(conn: sqlite3.Connection) -> Iterator[None]:
    """Text that is no UTF-8 is read as it is, so that it can be written back."""
    before, rows = conn.text_factory, conn.row_factory
    conn.text_factory, conn.row_factory = read_text, None
    try:
        yield
    finally:
        conn.text_factory, conn.row_factory = before, rows


def where(
    conn: sqlite3.Connection, table: str, condition: str, args: Sequence[Any] = ()
) -> dict[Key, Row]:
    """Whole rows by their key, in order of it."""
    key = TABLES[table].key
    order = ", ".join(map(quoted, key))
    with exactly(conn):
        cursor = conn.execute(
            f"select * from {quoted(table)} where {condition} order by {order}", args
        )
        names = [column[0] for column in cursor.description]
        found = [dict(zip(names, row, strict=True)) for row in cursor]
    return {tuple(row[name] for name in key): row for row in found}


def read(conn: sqlite3.Connection, table: str, keys: Iterable[Key]) -> dict[Key, Row]:
    """Those of the rows with these keys that are there."""
    names = TABLES[table].key
    matched = ", ".join(f"json_extract(value, '$[{i}]')" for i in range(len(names)))
    left = ", ".join(map(quoted, names))
    return where(
        conn,
        table,
        f"({left}) in (select {matched} from json_each(?))",
        [json.dumps([list(key) for key in keys])],
    )


def of(conn: sqlite3.Connection, table: str, column: str, ids: Iterable[int]) -> dict[Key, Row]:
    """Rows whose ``column`` is among ``ids``."""
    return where(
        conn,
        table,
        f"{quoted(column)} in (select value from json_each(?))",
        [json.dumps(list(ids))],
    )


def kept_columns(conn: sqlite3.Connection, table: str) -> frozenset[str]:
    """Columns of a table that hold what was written, not those that SQLite computes."""
    found = conn.execute(f"pragma table_xinfo({quoted(table)})").fetchall()
    return frozenset(row[1] for row in found if row[6] == 0)


def entity(conn: sqlite3.Connection, asked: Any) -> Row:
    """The whole row of an entity, by id (a number) or exact name.

    Raises UnknownEntity, naming near names, and BadParameter.
    """
    number = find_entity(conn, asked)["id"]
    return read(conn, "entities", [(number,)])[(number,)]


def named(row: Row) -> str:
    """An entity's name for a sentence, which cannot hold all of a very long one."""
    name = row["name"]
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    return repr(cut(text, 80))


def refuse_archived(row: Row, instead: str = "") -> None:
    """Raises Refused, saying since when, where an entity is archived; ``instead`` is what else
    than restoring it could be done."""
    if row["archived_at"] is not None:
        raise Refused(
            f"{named(row)} was archived at {row['archived_at']}: restore it first{instead}"
        )


def count_of(conn: sqlite3.Connection, value: Any) -> int:
    """A count of accesses as ranking reads it, whatever a program wrote."""
    found = conn.execute("select max(0, ifnull(cast(? as integer), 0))", [value]).fetchone()
    return int(found[0])


def whole_ids(what: str, asked: Any, *, most: int) -> list[int]:
    """A list of different ids, at least one, as a caller gave it. Raises BadParameter, naming
    what is wrong with it."""
    if not isinstance(asked, (list, tuple)):
        raise BadParameter(f"{what} is {asked!r:.60}: give a list of ids")
    if not 1 <= len(asked) <= most:
        raise BadParameter(f"{what} has {len(asked):,} ids: give 1 to {most:,}")
    counts = Counter(whole_id(what, each) for each in asked)
    twice = sorted(each for each, count in counts.items() if count > 1)
    if twice:
        raise BadParameter(f"{what} has the same id twice: {listed([str(each) for each in twice])}")
    return list(asked)


def whole_id(what: str, asked: Any) -> int:
    """One id as a caller gave it. Raises BadParameter."""
    if isinstance(asked, bool) or not isinstance(asked, int) or not holds(asked):
        raise BadParameter(f"{what} is {asked!r:.60}: use an id, a whole number")
    return asked


def observations(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, Row]:
    """Whole rows of observations by id, in the order asked. Raises UnknownRow, naming those that
    are not there."""
    found = read(conn, "observations", [(each,) for each in ids])
    missing = [str(each) for each in ids if (each,) not in found]
    if missing:
        raise UnknownRow(
            f"there is no observation {listed(missing)}: it may have been deleted meanwhile, so "
            "look at the entity again"
        )
    return {each: found[(each,)] for each in ids}


def relation(conn: sqlite3.Connection, asked: Any) -> Row:
    """The whole row of a relation. Raises UnknownRow, and BadParameter where that is no id."""
    number = whole_id("relation", asked)
    found = read(conn, "relations", [(number,)])
    if not found:
        raise UnknownRow(f"there is no relation {number}: look at the entity again")
    return found[(number,)]


def owners(conn: sqlite3.Connection, some: Iterable[Row]) -> list[Row]:
    """The entities of observations, each once, in order of id. Raises UnknownEntity where one of
    them belongs to none."""
    ids = {row["entity_id"]: row["id"] for row in some}
    found = of(conn, "entities", "id", [i for i in ids if isinstance(i, int)])
    lost = [number for entity_id, number in ids.items() if (entity_id,) not in found]
    if lost:
        raise UnknownEntity(
            f"observation {lost[0]} belongs to no entity that is there: 'datasette limbic check' "
            "says what to do"
        )
    return list(found.values())
