"""Which tables and columns a file has: each release of the server added some."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from datasette.utils.sqlite import sqlite3

from ..foreign import describe_database

# Without these there is no memory to read.
MANDATORY = {
    "entities": ("id", "name"),
    "observations": ("id", "entity_id", "content"),
    "relations": ("id", "from_entity", "to_entity", "relation_type"),
}
# Tables that came later, with the columns without which their rows mean nothing.
LATER = {
    "entity_access": ("entity_id", "access_count"),
    "entity_access_log": ("entity_id", "access_date"),
    "co_occurrences": ("entity_a_id", "entity_b_id", "co_count"),
}
# All columns that are read; any other one is reported.
READ = {
    "entities": ("id", "name", "entity_type", "created_at", "updated_at", "status"),
    "observations": (
        *("id", "entity_id", "content", "created_at"),
        *("similarity_flag", "kind", "supersedes", "superseded_at"),
    ),
    "relations": (
        *("id", "from_entity", "to_entity", "relation_type", "created_at"),
        *("context", "active", "ended_at"),
    ),
    "entity_access": ("entity_id", "access_count", "last_access"),
    "entity_access_log": ("entity_id", "access_date", "access_count"),
    "co_occurrences": ("entity_a_id", "entity_b_id", "co_count", "last_co"),
}
_VIRTUAL = re.compile(r"\s*create\s+virtual\s+table\b.*?\busing\s+(\w+)", re.I | re.S)
# Where FTS, vec0 and R-trees keep what they index.
_SHADOW = re.compile(
    r"_(?:data|idx|content|docsize|config|segments|segdir|stat|info|chunks|rowids|auxiliary"
    r"|vector_chunks\d+|metadatachunks\d+|metadatatext\d+|node|rowid|parent|index)$"
)

Cells = dict[str, Any]


class Found(NamedTuple):
    """A row: its number, its own cells by column, and what was joined to it."""

    line: int
    cells: Cells
    joined: tuple[Any, ...]


@dataclass
class Layout:
    """Ordinary tables with their columns, virtual ones with their statement; names in lower case.

    ``unreadable`` counts tables and columns whose names are no text, which SQL cannot name.
    """

    tables: dict[str, list[str]] = field(default_factory=dict)
    virtual: dict[str, str] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    numbered: set[str] = field(default_factory=set)
    unreadable: int = 0

    def missing(self, table: str) -> list[str]:
        """Columns that the table must have and has not."""
        needed = {**MANDATORY, **LATER}[table]
        return [column for column in needed if column not in self.tables[table]]

    def readable(self) -> list[str]:
        """The tables whose rows are read."""
        later = [table for table in LATER if table in self.tables and not self.missing(table)]
        return [*MANDATORY, *later]

    def is_shadow(self, table: str) -> bool:
        """Whether it belongs to a virtual table."""
        match = _SHADOW.search(table)
        return bool(match) and table[: match.start()] in self.virtual if match else False

    def select(self, table: str, joined: str = "", joins: str = "", order: str = "") -> str:
        """The statement for all rows of a table, called ``t`` in the other arguments."""
        number = "t.rowid" if table in self.numbered else "null"
        wanted = ", ".join([number, *(f"t.{quoted(column)}" for column in self.tables[table])])
        return f"select {wanted}{joined} from {quoted(table)} t {joins} {order}"

    def rows(self, table: str, found: Iterable[tuple[Any, ...]]) -> Iterator[Found]:
        """What such a statement found."""
        columns = self.tables[table]
        width = len(columns) + 1
        for count, row in enumerate(found, 1):
            line = row[0] if isinstance(row[0], int) else count
            yield Found(line, dict(zip(columns, row[1:width], strict=True)), row[width:])


def look(conn: sqlite3.Connection) -> Layout:
    """Read the schema. No virtual table is touched: that raises where its module is missing."""
    layout = Layout()
    for name, sql in conn.execute(
        "select name, sql from sqlite_master where type = 'table' and name not like 'sqlite~_%'"
        " escape '~' order by rowid"
    ).fetchall():
        virtual = _VIRTUAL.match(sql or "")
        if not plain(name):
            layout.unreadable += 1
        elif virtual:
            layout.virtual[name.lower()] = sql
            layout.modules[name.lower()] = virtual[1].lower()
        else:
            columns = [row[1] for row in conn.execute(f"pragma table_info({quoted(name)})")]
            layout.tables[name.lower()] = [column.lower() for column in columns if plain(column)]
            layout.unreadable += sum(not plain(column) for column in columns)
            if _has_rowid(conn, name):
                layout.numbered.add(name.lower())
    return layout


def what_else(conn: sqlite3.Connection, layout: Layout, path: object) -> str | None:
    """None for a memory of the server, else what the file is, to complete "FILE is …"."""
    names = [*layout.tables, *layout.virtual]
    if "limbic_stale" in names or not set(MANDATORY) <= set(layout.tables):
        shown = [name for name in names if not layout.is_shadow(name)]
        return describe_database(shown, path)
    for table in MANDATORY:
        missing = layout.missing(table)
        if missing:
            has = ", ".join(column[:40] for column in layout.tables[table][:8]) or "none"
            return (
                f"a SQLite database of another program: its table {table} has no column "
                f"{' and no '.join(missing)} (it has {has})"
            )
        if not _is_numbered_by_id(conn, table):
            return (
                f"a SQLite database in which the id of the table {table} is no INTEGER PRIMARY "
                "KEY, as it is in the file of an MCP Memory v2 server"
            )
    return None


def quoted(name: str) -> str:
    """An identifier as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def plain(name: str) -> bool:
    """Whether SQL can hold the name: bytes that are no UTF-8 come as lone surrogates."""
    try:
        return b"\x00" not in name.encode("utf-8")
    except UnicodeEncodeError:
        return False


def _has_rowid(conn: sqlite3.Connection, table: str) -> bool:
    try:
        conn.execute(f"select rowid from {quoted(table)} limit 0").close()
    except sqlite3.OperationalError:
        return False
    return True


def _is_numbered_by_id(conn: sqlite3.Connection, table: str) -> bool:
    keys = [
        (str(row[1]).lower(), str(row[2]).upper())
        for row in conn.execute(f"pragma table_info({quoted(table)})")
        if row[5]
    ]
    return keys == [("id", "INTEGER")] and _has_rowid(conn, table)
