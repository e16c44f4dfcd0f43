"""Whether everything of ours is in the file: tables, columns, keys, indexes, views, triggers.

Compared with a memory that ``init`` makes now, so that a later migration needs nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from datasette.utils.sqlite import sqlite3

from .. import schema
from .context import Check, Context, Found, NotLookedAt
from .report import Repair

SYNC = Repair("sync")
PENDING = "migrations that have not run come first"
# Not ours to compare: SQLite's own, notes of migrations, and how llm indexes its tables.
_OTHERS = ("sqlite_", "_sqlite_migrations", "_llm_migrations", "idx_")
# What a row is told apart by. Adopted tables may lack it; init gives it to these.
KEYS: dict[str, tuple[str, ...]] = {
    "entities": ("name",),
    "entity_access": ("entity_id",),
    "co_occurrences": ("entity_a_id", "entity_b_id"),
    "limbic_searches": ("uid",),
}
# The key of searches is an index of its own: where that is missing, schema.indexes says so.
SEARCH_UID = "limbic_searches_uid"


@dataclass(frozen=True)
class Column:
    """A column as ``init`` makes it."""

    name: str
    type: str
    required: bool
    default: str | None
    key: bool

    def addition(self) -> str | None:
        """Its definition for ALTER TABLE ADD COLUMN, or None where SQLite cannot add it."""
        if self.key:
            return None
        # a default that is computed is refused there: those columns may be empty anyway
        constant = self.default is not None and "(" not in self.default
        if self.required and not constant:
            return f"{self.name} {self.type}"
        rest = f" default {self.default}" if constant else ""
        return f"{self.name} {self.type}{' not null' if self.required else ''}{rest}"


@dataclass(frozen=True)
class Link:
    """A column that holds the key of a row elsewhere."""

    table: str
    column: str
    target: str
    key: str
    on_delete: str
    required: bool


@dataclass(frozen=True)
class Reference:
    """The schema of a memory that was made just now."""

    objects: dict[str, tuple[str, str]]
    """Type and text by name, in the order in which they are made."""
    columns: dict[str, dict[str, Column]]
    links: tuple[Link, ...]


@cache
def reference() -> Reference:
    """The schema as it should be; made once per process, in memory."""
    conn = sqlite3.connect(":memory:")
    try:
        schema.init(conn)
        return _read(conn)
    finally:
        conn.close()


def _read(conn: sqlite3.Connection) -> Reference:
    rows = conn.execute(
        "select name, type, sql from sqlite_master where sql is not null order by rowid"
    ).fetchall()
    virtual = [r[0] for r in rows if is_virtual(r[2])]
    objects = {
        name: (kind, sql)
        for name, kind, sql in rows
        if not name.startswith(_OTHERS)
        and (name in virtual or not any(name.startswith(f"{v}_") for v in virtual))
    }
    columns: dict[str, dict[str, Column]] = {}
    links = []
    for table, (kind, sql) in objects.items():
        if kind != "table" or is_virtual(sql):
            continue
        columns[table] = {
            row[1]: Column(row[1], row[2], bool(row[3]), row[4], bool(row[5]))
            for row in conn.execute(f"pragma table_info({table})")
        }
        for row in conn.execute(f"pragma foreign_key_list({table})").fetchall():
            required = columns[table][row[3]].required or columns[table][row[3]].key
            links.append(Link(table, row[3], row[2], row[4] or "id", row[6], required))
    return Reference(objects, columns, tuple(links))


def is_virtual(sql: str | None) -> bool:
    """Whether the text makes a virtual table."""
    return (sql or "").lower().startswith("create virtual")


def same_text(one: str | None, other: str | None) -> bool:
    """Whether two statements differ in white space and in how CREATE … is written only."""

    def normal(text: str | None) -> str:
        words = re.sub(r"\s+", " ", text or "").strip().rstrip(";")
        return re.sub(r"^create (\w+)( if not exists)?", lambda m: m[0].lower(), words, flags=re.I)

    return normal(one).replace(" if not exists", "", 1) == normal(other).replace(
        " if not exists", "", 1
    )


def _absent(kind: str) -> Callable[[Context], Found]:
    def find(context: Context) -> Found:
        found = Found()
        for name, (wanted, _) in reference().objects.items():
            there = context.objects.get(name, ("", "", None))[0]
            if wanted == kind and there != kind:
                found.add({kind: name, **({"is a": there} if there else {})})
        return found

    return find


def shadows(name: str) -> tuple[str, ...]:
    """The tables in which an FTS5 table keeps its rows."""
    return tuple(f"{name}_{part}" for part in ("data", "idx", "content", "docsize", "config"))


def _tables(context: Context) -> Found:
    found = _absent("table")(context)
    for name in ("_limbic_fts", "_limbic_trigram"):
        if name in context.objects:
            for table in shadows(name):
                if table not in context.objects:
                    found.add({"table": table})
    return found


def missing_columns(context: Context) -> list[tuple[str, Column]]:
    """Columns that tables of ours lack."""
    return [
        (table, column)
        for table, columns in reference().columns.items()
        if context.objects.get(table, ("",))[0] == "table"
        for name, column in columns.items()
        if name not in context.columns(table)
    ]


def _columns(context: Context) -> Found:
    found = Found()
    lacking = missing_columns(context)
    for table, column in lacking:
        found.add({"column": f"{table}.{column.name}"})
    hopeless = [f"{t}.{c.name}" for t, c in lacking if c.addition() is None]
    if hopeless:
        found.repair = Repair(
            "person", text=f"restore a copy: {', '.join(hopeless)} cannot be added"
        )
    return found


def changed_texts(context: Context, kind: str) -> list[str]:
    """Triggers (or indexes) of ours whose text is another one than ``init`` gives them now."""
    return [
        name
        for name, (wanted, sql) in reference().objects.items()
        if wanted == kind
        and context.objects.get(name, ("", "", None))[0] == kind
        and not same_text(sql, context.objects[name][2])
    ]


def _trigger_texts(context: Context) -> Found:
    found = Found()
    for name in changed_texts(context, "trigger"):
        found.add({"trigger": name, "on": context.objects[name][1]})
    if found.count:
        found.note = "made by another version of this package, or changed by hand"
    return found


def missing_keys(context: Context) -> list[tuple[str, tuple[str, ...]]]:
    """Tables that would take two rows of one key."""
    found = []
    for table, key in KEYS.items():
        if table == "limbic_searches" and SEARCH_UID not in context.objects:
            continue
        if context.missing([f"{table}.{column}" for column in key]) is None and not _is_key(
            context.conn, table, key
        ):
            found.append((table, key))
    return found


def _is_key(conn: sqlite3.Connection, table: str, key: tuple[str, ...]) -> bool:
    primary = {r[1] for r in conn.execute(f"pragma table_info({table})") if r[5]}
    if primary == set(key):
        return True
    for row in conn.execute(f"pragma index_list({table})").fetchall():
        name, unique, partial = row[1], row[2], row[4]
        columns = {r[2] for r in conn.execute("select * from pragma_index_info(?)", [name])}
        if unique and columns == set(key) and (not partial or _leaves_out_null(conn, name, key)):
            return True
    return False


def _leaves_out_null(conn: sqlite3.Connection, index: str, key: tuple[str, ...]) -> bool:
    """Whether a partial index has every row with a key: SQLite tells rows without one apart."""
    text = conn.execute("select sql from sqlite_master where name = ?", [index]).fetchone()[0]
    return len(key) == 1 and re.search(rf"where {key[0]} is not null$", text, re.I) is not None


def _keys(context: Context) -> Found:
    found = Found()
    for table, key in missing_keys(context):
        found.add({"table": table, "unique": ", ".join(key)})
    return found


def _migrations(context: Context) -> Found:
    found = Found()
    for name in context.pending:
        found.add({"migration": name})
    return found


def _after_migrations(find: Callable[[Context], Found]) -> Callable[[Context], Found]:
    """What ``init`` makes anyway is not missing besides."""

    def later(context: Context) -> Found:
        if context.pending:
            raise NotLookedAt(PENDING)
        return find(context)

    return later


CHECKS = (
    Check("schema.migrations", "migrations that have not run", _migrations, Repair("init")),
    Check("schema.tables", "tables that are missing", _after_migrations(_tables), SYNC),
    Check("schema.columns", "columns that are missing", _after_migrations(_columns), SYNC),
    Check(
        "schema.keys", "tables that would take two rows of one key", _after_migrations(_keys), SYNC
    ),
    Check("schema.indexes", "indexes that are missing", _after_migrations(_absent("index")), SYNC),
    Check("schema.views", "views that are missing", _after_migrations(_absent("view")), SYNC),
    Check(
        "schema.triggers", "triggers that are missing", _after_migrations(_absent("trigger")), SYNC
    ),
    Check(
        "schema.trigger_texts", "triggers of another text", _after_migrations(_trigger_texts), SYNC
    ),
)
