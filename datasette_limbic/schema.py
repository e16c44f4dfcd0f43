"""Names, triggers and text index of a memory database; ``migrations`` makes its tables.

Triggers use stock SQLite only, so any program may write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib import resources

from datasette.utils.sqlite import sqlite3

from .errors import NotAMemory

COLLECTIONS = ("entities", "observations")
# What search reads. The access log is none of it: whoever may not see what others asked for may
# still search.
SEARCHED_TABLES = ("entities", "observations", "relations", "entity_access", "co_occurrences")
ACCESS_LOG = "entity_access_log"
CORE_TABLES = (*SEARCHED_TABLES, ACCESS_LOG)
# The log of searches, and what is read to rate a result of one.
SEARCH_LOG = ("limbic_searches", "limbic_search_candidates", "limbic_feedback")
RATED_TABLES = (*SEARCHED_TABLES, *SEARCH_LOG)
# What reports read: settings, and what of them is kept.
REPORTED_TABLES = (
    *SEARCHED_TABLES,
    "limbic_settings",
    "limbic_duplicates",
    "limbic_topics",
    "limbic_reports",
    "limbic_report_pending",
)
INDEX_PREFIX = "_limbic_"
# What a split leaves between the parts: no sign of use, so it counts for no degree or activity.
SPLIT_RELATIONS = ("contiene", "parte_de")

# Scripts that put no space between words: Thai to Khmer, kana, Han, Hangul is spaced but
# agglutinates, so substrings serve it too. As a GLOB class, since stock SQLite has no regexp.
UNSPACED = (
    "'*[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]*'"
)


def statements(*names: str) -> tuple[str, ...]:
    """The statements of each ``queries/{name}.sql``, one by one.

    One by one, because ``executescript`` would commit the transaction that it runs in.
    """
    return tuple(text for name in names for text in _statements(name))


@cache
def _statements(name: str) -> tuple[str, ...]:
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
    return tuple(text.split()[2] for text in statements("triggers", "report_triggers"))


def create_triggers(conn: sqlite3.Connection) -> None:
    """Make those of our triggers that are missing."""
    there = {row[0] for row in conn.execute("select name from sqlite_master where type='trigger'")}
    # SQLite alters no table of a file in which a trigger names a table that is not there yet
    reports = ("report_triggers",) if has_reports(conn) else ()
    for text in statements("triggers", *reports):
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
    within = conn.in_transaction
    try:
        yield
    finally:
        # where SQLite rolled all of it back (disk full), this would begin another transaction
        if conn.in_transaction or not within:
            conn.execute("delete from _limbic_guard where name = ?", [name])


def has_reports(conn: sqlite3.Connection) -> bool:
    """Whether the tables of the reports are there: a file of an earlier version has none.

    A table of that name with other columns is another program's (``adoption.check_reports``).
    """
    found = conn.execute(
        "select count(*) from pragma_table_info('limbic_report_pending', 'main')"
        " where name in ('entity_id', 'changes', 'marked_at')"
    ).fetchone()
    return bool(found[0] == 3)


def has_versions(conn: sqlite3.Connection) -> bool:
    """Whether the vectors' versions and their log are there: a file of an earlier version has
    none."""
    found = conn.execute(
        "select (select count(*) from pragma_table_info('limbic_indexes', 'main')"
        " where name in ('version', 'changes_from')),"
        " (select count(*) from main.sqlite_master where name = '_limbic_vec_changes')"
    ).fetchone()
    return tuple(found) == (2, 1)


def has_changes(conn: sqlite3.Connection) -> bool:
    """Whether actions can be logged: a file of an earlier version lacks a column."""
    found = conn.execute(
        "select count(*) from pragma_table_info('limbic_insights', 'main')"
        " where name = 'judged_before'"
    ).fetchone()
    return bool(found[0])


def mark_for_reports(conn: sqlite3.Connection) -> None:
    """Note that reports have to look again at every entity with an observation marked as stale.

    For writers that took the triggers away; after ``fill_indexes``, which marks what is new.
    """
    conn.execute(
        "insert into limbic_report_pending(entity_id)"
        " select distinct o.entity_id from limbic_stale s join observations o on o.id = s.item_id"
        " where s.collection = 'observations' and typeof(o.entity_id) = 'integer'"
        " on conflict(entity_id) do update set changes = changes + 1, marked_at = datetime('now')"
    )


_LOWEST = -(1 << 62)


def fill_indexes(
    conn: sqlite3.Connection, above_entity: int = _LOWEST, above_observation: int = _LOWEST
) -> None:
    """Put rows with ids above those given into FTS and mark their vectors as stale.

    One ``insert … select`` each, with room for many words before FTS5 writes them out: about
    as long as a plain insert of the rows takes, against 6 to 11 times that with the triggers
    firing row by row.
    """
    low = {"entity": above_entity, "observation": above_observation}
    # SQLite's GLOB with ranges takes as long as all of the text index
    conn.create_function("_limbic_unspaced", 1, _is_unspaced, deterministic=True)
    many = conn.execute(
        "select count(*) from (select 1 from observations where id > :observation limit 10000)", low
    ).fetchone()[0]
    with _roomy(conn) if many == 10_000 else nullcontext():
        for text in _FILL:
            conn.execute(text, low)


_FILL = (
    "insert into _limbic_fts(rowid, name)"
    " select id * 2, name from entities where id > :entity order by id",
    "insert into _limbic_fts(rowid, content)"
    " select id * 2 + 1, content from observations where id > :observation order by id",
    "insert into _limbic_trigram(rowid, content)"
    " select id * 2, name from entities where id > :entity order by id",
    "insert into _limbic_trigram(rowid, content)"
    " select id * 2 + 1, content from observations where id > :observation"
    " and length(cast(content as blob)) > length(content)"
    " and _limbic_unspaced(cast(content as blob)) order by id",
    "insert or ignore into limbic_stale(collection, item_id)"
    " select 'entities', id from entities where id > :entity",
    "insert or ignore into limbic_stale(collection, item_id)"
    " select 'observations', id from observations where id > :observation",
    "insert or ignore into limbic_stale(collection, item_id)"
    " select distinct 'entities', entity_id from observations where id > :observation",
)
_UNSPACED_PATTERN = re.compile(UNSPACED[2:-2])


def _is_unspaced(content: object) -> bool:
    """The same as ``content glob UNSPACED``."""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else str(content)
    return _UNSPACED_PATTERN.search(text) is not None


@contextmanager
def _roomy(conn: sqlite3.Connection) -> Iterator[None]:
    """Let FTS5 collect more before it writes: fewer pieces to merge afterwards."""
    conn.execute("insert into _limbic_fts(_limbic_fts, rank) values ('hashsize', ?)", [_ROOM])
    yield
    conn.execute("insert into _limbic_fts(_limbic_fts, rank) values ('hashsize', ?)", [_FTS5_ROOM])


_ROOM = 8 * 1024 * 1024
_FTS5_ROOM = 1024 * 1024  # FTS5's own default


def init(conn: sqlite3.Connection) -> list[str]:
    """Bring the database up to date. Returns the names of the migrations that ran now."""
    from . import migrations  # sqlite-utils imports numpy: not at every start of Datasette

    return migrations.init(conn)


def holds(entity: object) -> bool:
    """Whether SQLite can be asked for it: a whole number beyond 64 bits raises OverflowError."""
    return not isinstance(entity, int) or -(1 << 63) <= entity < 1 << 63


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
