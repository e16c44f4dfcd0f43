"""Migrations of a memory database: numbered, append-only, idempotent."""

from __future__ import annotations

import time

from datasette.utils.sqlite import sqlite3
from sqlite_utils import Database, Migrations

from .connection import BUSY_TIMEOUT_S
from .errors import SchemaConflict
from .schema import create_triggers, fill_indexes, statements

DEFAULT_SETTINGS = {
    "split_threshold": ("20", "observations at which an entity of any other type counts as large"),
    "split_threshold:Sesion": ("15", "the same, for entities of type Sesion"),
    "split_threshold:Proyecto": ("25", "the same, for entities of type Proyecto"),
    "stale_days": ("90", "days without access after which an entity counts as stale"),
    "stale_max_access": ("2", "an entity accessed more often than this is never stale"),
    "snapshot_max_chars": ("4000", "characters of an entity's text that are embedded"),
}

# What SQLite says where another program runs the same migration.
_RACING = ("locked", "busy", "already exists", "duplicate column")

migrations = Migrations("datasette-limbic")


@migrations()
def m001_memory(db: Database) -> None:
    """All tables, indexes, triggers and views of the first version."""
    _adopt(db)
    for text in statements("tables"):
        db.execute(text)
    for key, (value, help_text) in DEFAULT_SETTINGS.items():
        db.execute(
            "insert or ignore into limbic_settings(key, value, help) values (?, ?, ?)",
            [key, value, help_text],
        )
    create_triggers(db.conn)
    for text in statements("views"):
        db.execute(text)
    fill_indexes(db.conn)


def _adopt(db: Database) -> None:
    """Take over tables of the same names that stand in the file already.

    Missing columns are added; a table that lacks what identifies a row, or the file of
    another memory program, is left alone: SchemaConflict says to import it instead.
    """
    names = set(db.table_names())
    if {"db_metadata", "entity_embeddings"} & names and "entities" in names:
        raise SchemaConflict(
            "this file belongs to an MCP memory server: leave it to that program, and import it "
            "into a file of its own: datasette limbic import THIS_FILE memory.db"
        )
    needed = {
        "entities": {"id", "name"},
        "observations": {"id", "entity_id", "content"},
        "relations": {"id", "from_entity", "to_entity", "relation_type"},
        "entity_access": {"entity_id", "access_count", "last_access"},
        "co_occurrences": {"entity_a_id", "entity_b_id", "co_count", "last_co"},
    }
    for table, columns in needed.items():
        if table not in names:
            continue
        missing = columns - set(db[table].columns_dict)
        if missing:
            raise SchemaConflict(
                f"the table {table} exists with columns of another program (it lacks "
                f"{', '.join(sorted(missing))}): use a file of its own for the memory"
            )
    if "entities" in names:
        db.table("entities").create_index(["name"], unique=True, if_not_exists=True)
        for column, kind in (
            ("entity_type", str),
            ("created_at", str),
            ("updated_at", str),
            ("last_activity_at", str),
            ("archived_at", str),
            ("archived_reason", str),
            ("valid_from", str),
            ("valid_to", str),
        ):
            _add_column(db, "entities", column, kind)
        _add_column(db, "entities", "confidence", float, 1.0)
        # once, from what the file knows; NULL stays unknown
        db.execute(
            "update entities set last_activity_at = updated_at where last_activity_at is null"
        )
    if "observations" in names:
        for column in ("created_at", "kind", "valid_from", "valid_to"):
            _add_column(db, "observations", column, str)
        _add_column(db, "observations", "similarity_flag", int, 0)
        _add_column(db, "observations", "confidence", float, 1.0)
    if "relations" in names:
        for column in ("created_at", "valid_from", "valid_to"):
            _add_column(db, "relations", column, str)


def _add_column(
    db: Database, table: str, column: str, kind: type, default: float | None = None
) -> None:
    if column not in db[table].columns_dict:
        db.table(table).add_column(column, kind, not_null_default=default)


def init(conn: sqlite3.Connection) -> list[str]:
    """Bring the database up to date. Returns the names of the migrations that ran now.

    Waits for another program that is making the same tables at this moment: SQLite does not
    wait by itself where a transaction that has read wants to write.
    """
    patience = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            return _apply(conn)
        except sqlite3.OperationalError as error:
            conn.rollback()
            racing = any(words in str(error) for words in _RACING)
            if not racing or time.monotonic() > patience:
                raise
            time.sleep(0.02)


def _apply(conn: sqlite3.Connection) -> list[str]:
    from llm.embeddings_migrations import embeddings_migrations

    db = Database(conn)
    # llm's own tables first: our triggers watch them
    embeddings_migrations.apply(db)
    before = {m.name for m in migrations.applied(db)}
    migrations.apply(db)
    with db.atomic():
        create_triggers(conn)
    return [m.name for m in migrations.applied(db) if m.name not in before]
