"""Which tables a full export holds, in which order, and with which columns.

Whoever adds a table puts it into ``EXPORTED`` or ``DERIVED``: a test fails until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from datasette.utils.sqlite import sqlite3

from .. import schema

# The format of the row that restoring an export leaves in limbic_imports. Such rows are not
# exported: how this copy came to be is no part of the memory.
RESTORED = "restored export"


class Exported(NamedTuple):
    """A table of an export: rows in the order ``order``, where ``where`` holds."""

    name: str
    order: str
    where: str = "1"


# Parents before their children. Observations of one entity stand together.
EXPORTED = (
    Exported("limbic_settings", "key"),
    Exported("entities", "id"),
    Exported("observations", "entity_id, id"),
    Exported("relations", "id"),
    Exported("entity_access", "entity_id"),
    Exported("entity_access_log", "id"),
    Exported("co_occurrences", "entity_a_id, entity_b_id"),
    Exported("limbic_insights", "id"),
    Exported("limbic_changes", "id"),
    Exported("limbic_parameters", "version"),
    Exported("limbic_searches", "id"),
    Exported("limbic_search_candidates", "search_id, entity_id"),
    Exported("limbic_feedback", "id"),
    Exported("limbic_topics", "entity_id"),
    Exported("limbic_duplicates", "earlier_id, later_id"),
    Exported("limbic_reviews", "id"),
    Exported("limbic_imports", "id", f"format <> '{RESTORED}'"),
    Exported(
        "limbic_import_rejects",
        "id",
        f"import_id not in (select id from limbic_imports where format = '{RESTORED}')",
    ),
    Exported("_limbic_sources", "id"),
    Exported("_limbic_source_entities", "source_id, key"),
    Exported("_limbic_source_relations", "source_id, from_entity, to_entity, relation_type"),
    Exported("_limbic_source_counts", "source_id, entity_a_id, entity_b_id"),
)
# Columns that later versions added. Where no row has a value they are left out, so that the copy
# of an older file, which has them, gives the same export.
LATER = {
    "relations": {"context": "TEXT"},
    "observations": {"supersedes": "INTEGER"},
    "limbic_searches": {"uid": "TEXT"},
    "limbic_insights": {"judged_before": "TEXT"},
}
# llm's tables: only on demand, since any vector can be computed again.
VECTORS = (Exported("collections", "id"), Exported("embeddings", "collection_id, id"))
# The highest id that an entity ever had, so that none is given twice.
SEQUENCE = "sqlite_sequence"
SEQUENCE_COLUMNS = {"name": "TEXT", "seq": "INTEGER"}

# Made again from the exported tables, or true of this file alone.
DERIVED = (
    "_limbic_ann_parts",
    "_limbic_ann_segments",
    "_limbic_fts",
    "_limbic_fts_vocab",
    "_limbic_trigram",
    "_limbic_trigram_vocab",
    "_limbic_vec_changes",
    "_limbic_vec_entities",
    "_limbic_vec_observations",
    "_limbic_guard",
    "_limbic_text_keys",
    "_llm_migrations",
    "_sqlite_migrations",
    "limbic_approximate",
    "limbic_indexes",
    "limbic_pushes",
    "limbic_report_pending",
    "limbic_reports",
    "limbic_stale",
)


def quoted(name: str) -> str:
    """A table or column name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def present(conn: sqlite3.Connection, *, vectors: bool = False) -> Iterator[Exported]:
    """The tables to export that are in this file: an older one lacks the newest."""
    there = {row[0] for row in conn.execute("select name from sqlite_master where type = 'table'")}
    return (table for table in EXPORTED + (VECTORS if vectors else ()) if table.name in there)


def count(conn: sqlite3.Connection, table: Exported) -> int:
    """How many rows of the table an export holds."""
    sql = f"select count(*) from {quoted(table.name)} where {table.where}"
    return int(conn.execute(sql).fetchone()[0])


def columns(conn: sqlite3.Connection, table: str) -> dict[str, str]:
    """Columns with their types, ours in the order of our schema and then all others by name.

    So the order is the same in a file that was restored, where columns that an adopted table
    had, or that a later migration added, were appended in another order.
    """
    found = {str(row[1]): affinity(row[2]) for row in conn.execute(_info(table))}
    ours = _schema_columns().get(table)
    if ours is None:
        return found
    names = [name for name in ours if name in found] + sorted(found.keys() - set(ours))
    unused = {
        name
        for name, kind in LATER.get(table, {}).items()
        if found.get(name) == kind
        and not conn.execute(
            f"select 1 from {quoted(table)} where {quoted(name)} is not null limit 1"
        ).fetchone()
    }
    return {name: found[name] for name in names if name not in unused}


def is_plain(conn: sqlite3.Connection, table: str) -> bool:
    """Whether a table without rows says nothing: any memory has it, or makes it, just so.

    The settings do, since a new memory has some; so do columns that are not ours.
    """
    if table == "limbic_settings":
        return False
    ours = _schema_columns().get(table)
    return ours is None or columns(conn, table).items() <= ours.items()


def affinity(declared: str) -> str:
    """What SQLite makes of a declared type, by its own rules: how values are stored.

    ``varchar(20)`` and ``TEXT`` store alike, so one word tells all, and can be trusted in SQL.
    """
    kind = declared.upper()
    if "INT" in kind:
        return "INTEGER"
    if any(word in kind for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if not kind or "BLOB" in kind or kind == "ANY":
        return "BLOB"
    if any(word in kind for word in ("REAL", "FLOA", "DOUB")):
        return "REAL"
    return "NUMERIC"


def last_entity_id(conn: sqlite3.Connection) -> int:
    """The highest id that an entity has or had.

    A table that was adopted may have no AUTOINCREMENT, and so no entry in ``sqlite_sequence``.
    """
    highest = conn.execute("select max(id) from entities").fetchone()[0] or 0
    if conn.execute(f"select 1 from sqlite_master where name = '{SEQUENCE}'").fetchone():
        row = conn.execute(f"select max(seq) from {SEQUENCE} where name = 'entities'").fetchone()
        highest = max(highest, row[0] or 0)
    return int(highest)


def others(conn: sqlite3.Connection) -> list[str]:
    """Tables in this file that no memory has, and that an export does not hold."""
    tables = conn.execute(
        "select name, coalesce(sql, '') from sqlite_master where type = 'table'"
        " and name not like 'sqlite^_%' escape '^' order by name"
    ).fetchall()
    known = {table.name for table in EXPORTED + VECTORS} | set(DERIVED)
    virtual = [name for name, sql in tables if sql.lower().startswith("create virtual")]
    return [
        name
        for name, _ in tables
        if name not in known and not any(name.startswith(f"{owner}_") for owner in virtual)
    ]


def _info(table: str) -> str:
    return f"pragma table_info({quoted(table)})"


@cache
def _schema_columns() -> dict[str, dict[str, str]]:
    """The columns of our tables, with their types, as our own schema orders them."""
    conn = sqlite3.connect(":memory:")
    try:
        for text in schema.statements("tables", "sources", "reports"):
            if text.startswith("create table"):
                conn.execute(text)
        return {
            table.name: {
                **{row[1]: affinity(row[2]) for row in conn.execute(_info(table.name))},
                **LATER.get(table.name, {}),
            }
            for table in present(conn)
        }
    finally:
        conn.close()
