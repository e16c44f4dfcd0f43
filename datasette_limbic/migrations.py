"""Migrations of a memory database: numbered, append-only, idempotent."""

from __future__ import annotations

import time

from datasette.utils.sqlite import sqlite3
from sqlite_utils import Database, Migrations

from . import adoption
from .connection import BUSY_TIMEOUT_S
from .reports.queries import create_views
from .retrieval import changes
from .schema import create_triggers, fill_indexes, is_memory, statements

DEFAULT_SETTINGS = {
    "split_threshold": ("20", "observations at which an entity of any other type counts as large"),
    "split_threshold:Sesion": ("15", "the same, for entities of type Sesion"),
    "split_threshold:Proyecto": ("25", "the same, for entities of type Proyecto"),
    "stale_days": ("90", "days without access after which an entity counts as stale"),
    "stale_max_access": ("2", "an entity accessed more often than this is never stale"),
    "snapshot_max_chars": ("4000", "characters of an entity's text that are embedded"),
}

REPORT_SETTINGS = {
    "duplicate_threshold": (
        None,
        "cosine at which two observations count as duplicates; empty: what suits the model"
        " (a row duplicate_threshold:MODEL sets it for one model)",
    ),
    "look_threshold": (
        None,
        "cosine from which two observations are worth a look; empty: what suits the model",
    ),
    "containment_threshold": (
        "0.7",
        "share of a text's words that another, at least twice as long, holds, for a duplicate",
    ),
    "topic_min_silhouette": ("0.1", "silhouette from which a topic stands apart, -1 to 1"),
}

# What SQLite says where another program runs the same migration.
_RACING = ("locked", "busy", "already exists", "duplicate column", "_sqlite_migrations")

migrations = Migrations("datasette-limbic")


@migrations()
def m001_memory(db: Database) -> None:
    """All tables, indexes, triggers and views of the first version."""
    adoption.adopt(db)
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


@migrations()
def m002_sources(db: Database) -> None:
    """What an import brought, so that the next one is a sync; two columns of other memories."""
    for table, column, kind in (("relations", "context", str), ("observations", "supersedes", int)):
        if column not in db[table].columns_dict:
            db.table(table).add_column(column, kind)
    for text in statements("sources"):
        db.execute(text)
    db.execute("drop view if exists entity_snapshots")
    for text in statements("views"):
        db.execute(text)
    create_triggers(db.conn)


@migrations()
def m003_signals(db: Database) -> None:
    """Searches get a name that answers can tell; indexes for reading their log."""
    log = db.table("limbic_searches")
    adoption.check_search_log(db)
    if "uid" not in log.columns_dict:
        log.add_column("uid", str)
    for text in statements("signals"):
        adoption.replace_index(db, text)


@migrations()
def m004_reports(db: Database) -> None:
    """What reports keep, and views of what SQL alone can say."""
    adoption.check_reports(db)
    for text in statements("reports"):
        db.execute(text)
    for key, (value, help_text) in REPORT_SETTINGS.items():
        db.execute(
            "insert or ignore into limbic_settings(key, value, help) values (?, ?, ?)",
            [key, value, help_text],
        )
    create_views(db.conn)
    create_triggers(db.conn)
    # what was there before has not been looked at
    db.execute(
        "insert or ignore into limbic_report_pending(entity_id)"
        " select distinct entity_id from observations where typeof(entity_id) = 'integer'"
    )


@migrations()
def m005_actions(db: Database) -> None:
    """How a finding was judged before it was raised again; indexes for reading the log of
    changes."""
    if "judged_before" not in db["limbic_insights"].columns_dict:
        db.table("limbic_insights").add_column("judged_before", str)
    for text in statements("actions"):
        db.execute(text)


@migrations()
def m006_retrieval(db: Database) -> None:
    """Versions of the vectors, and what follows them: the approximate index, a server."""
    for column in ("version", "changes_from"):
        if column not in db["limbic_indexes"].columns_dict:
            db.table("limbic_indexes").add_column(column, int, not_null_default=0)
    for text in statements("retrieval", "text_at_size", "at_size"):
        db.execute(text)
    # a version of its own for each file that comes from before
    for (collection,) in db.execute("select collection from limbic_indexes where version = 0"):
        changes.start_anew(db.conn, collection)


def init(conn: sqlite3.Connection) -> list[str]:
    """Bring the database up to date. Returns the names of the migrations that ran now.

    Waits for another program that is making the same tables at this moment: SQLite does not
    wait by itself where a transaction that has read wants to write.
    """
    patience = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            return _apply(conn)
        except (sqlite3.OperationalError, sqlite3.IntegrityError) as error:
            conn.rollback()
            racing = any(words in str(error) for words in _RACING)
            if not racing or time.monotonic() > patience:
                raise
            time.sleep(0.02)


def _apply(conn: sqlite3.Connection) -> list[str]:
    from llm.embeddings_migrations import embeddings_migrations

    db = Database(conn)
    # before anything is written
    pending = {m.name for m in migrations.pending(db)}
    if pending and not is_memory(conn):
        adoption.check(db)
    if "m004_reports" in pending:
        adoption.check_reports(db)
    # llm's own tables first: our triggers watch them
    embeddings_migrations.apply(db)
    before = {m.name for m in migrations.applied(db)}
    migrations.apply(db)
    with db.atomic():
        create_triggers(conn)
    return [m.name for m in migrations.applied(db) if m.name not in before]
