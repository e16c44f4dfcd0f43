"""Tables, indexes, triggers and views of a memory database, and their migrations.

Migrations are numbered, append-only and idempotent (``sqlite_utils.Migrations``); ``init``
may run any number of times. Triggers use stock SQLite only, so any program may write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources

from datasette.utils.sqlite import sqlite3
from sqlite_utils import Database, Migrations

from .errors import NotAMemory, SchemaConflict

COLLECTIONS = ("entities", "observations")
CORE_TABLES = (
    "entities",
    "observations",
    "relations",
    "entity_access",
    "entity_access_log",
    "co_occurrences",
)
INDEX_PREFIX = "_limbic_"

# Scripts that put no space between words: Thai to Khmer, kana, Han, Hangul is spaced but
# agglutinates, so substrings serve it too. As a GLOB class, since stock SQLite has no regexp.
UNSPACED = (
    "'*[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]*'"
)

DEFAULT_SETTINGS = {
    "split_threshold": ("20", "observations at which an entity of any other type counts as large"),
    "split_threshold:Sesion": ("15", "the same, for entities of type Sesion"),
    "split_threshold:Proyecto": ("25", "the same, for entities of type Proyecto"),
    "stale_days": ("90", "days without access after which an entity counts as stale"),
    "stale_max_access": ("2", "an entity accessed more often than this is never stale"),
    "snapshot_max_chars": ("4000", "characters of an entity's text that are embedded"),
}

migrations = Migrations("datasette-limbic")


@cache
def statements(name: str) -> tuple[str, ...]:
    """The statements of ``queries/{name}.sql``, one by one.

    One by one, because ``executescript`` would commit the transaction that it runs in.
    """
    text = (resources.files("datasette_limbic") / "queries" / f"{name}.sql").read_text("utf-8")
    found, pending = [], ""
    for line in text.replace("{unspaced}", UNSPACED).splitlines(keepends=True):
        if not pending and (not line.strip() or line.lstrip().startswith("--")):
            continue
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending.strip())
            pending = ""
    if pending.strip():
        raise ValueError(f"queries/{name}.sql ends in an unfinished statement: {pending[:80]!r}")
    return tuple(found)


def trigger_names() -> tuple[str, ...]:
    """Names of all our triggers, in the order in which they are made."""
    return tuple(text.split()[2] for text in statements("triggers"))


def create_triggers(conn: sqlite3.Connection) -> None:
    """Make those of our triggers that are missing."""
    there = {row[0] for row in conn.execute("select name from sqlite_master where type='trigger'")}
    for text in statements("triggers"):
        if text.split()[2] not in there:
            conn.execute(text)


def drop_triggers(conn: sqlite3.Connection) -> None:
    """Take all our triggers away; call inside the transaction that makes them again."""
    for name in trigger_names():
        conn.execute(f"drop trigger if exists {name}")


@contextmanager
def guarded(conn: sqlite3.Connection, name: str) -> Iterator[None]:
    """Inside this block the triggers leave last_activity_at and updated_at to the caller.

    Used within one transaction by trusted writers (import, actions, undo), which set them.
    """
    conn.execute("insert or replace into _limbic_guard(name) values (?)", [name])
    try:
        yield
    finally:
        conn.execute("delete from _limbic_guard where name = ?", [name])


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


def fill_indexes(
    conn: sqlite3.Connection, above_entity: int = 0, above_observation: int = 0
) -> None:
    """Put rows with ids above those given into FTS and mark their vectors as stale.

    One ``insert … select`` each: 2.5 times a plain insert of the rows, against 6 to 11 times
    with the triggers firing row by row.
    """
    low = {"entity": above_entity, "observation": above_observation}
    for text in (
        "insert into _limbic_fts(rowid, name)"
        " select id * 2, name from entities where id > :entity order by id",
        "insert into _limbic_fts(rowid, content)"
        " select id * 2 + 1, content from observations where id > :observation order by id",
        "insert into _limbic_trigram(rowid, content)"
        " select id * 2, name from entities where id > :entity order by id",
        "insert into _limbic_trigram(rowid, content)"
        " select id * 2 + 1, content from observations"
        f" where id > :observation and content glob {UNSPACED} order by id",
        "insert or ignore into limbic_stale(collection, item_id)"
        " select 'entities', id from entities where id > :entity",
        "insert or ignore into limbic_stale(collection, item_id)"
        " select 'observations', id from observations where id > :observation",
        "insert or ignore into limbic_stale(collection, item_id)"
        " select distinct 'entities', entity_id from observations where id > :observation",
    ):
        conn.execute(text, low)


def init(conn: sqlite3.Connection) -> list[str]:
    """Bring the database up to date. Returns the names of the migrations that ran now."""
    from llm.embeddings_migrations import embeddings_migrations

    db = Database(conn)
    # llm's own tables first: our triggers watch them
    embeddings_migrations.apply(db)
    before = {m.name for m in migrations.applied(db)}
    migrations.apply(db)
    with db.atomic():
        create_triggers(conn)
    return [m.name for m in migrations.applied(db) if m.name not in before]


def is_memory(conn: sqlite3.Connection) -> bool:
    """Whether ``init`` has run on this database."""
    found = conn.execute(
        "select count(*) from sqlite_master where name in ('entities', 'limbic_stale')"
    ).fetchone()
    return bool(found[0] == 2)


def require_memory(conn: sqlite3.Connection, name: str = "this database") -> None:
    """Raise NotAMemory, saying how to make one, unless ``init`` has run."""
    if not is_memory(conn):
        raise NotAMemory(
            f"{name} holds no memory yet: run 'datasette limbic init FILE' or "
            "'datasette limbic import memory.jsonl FILE'"
        )
