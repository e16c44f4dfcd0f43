"""What ``sync --repair`` does before it syncs: put right what can be rebuilt.

One function for each check that names ``sync`` as its repair, each in a transaction of its
own: a repair that was killed is continued by the next one. Facts are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import index_repair, integrity, schema, vectors
from .connection import vec_missing
from .integrity import schema as shape
from .integrity import vectors as vector_checks
from .integrity.context import Context
from .integrity.structure import BEHIND, TREE
from .integrity.vec_parts import broken_parts
from .llm_store import transaction
from .pair_repair import repair_pairs
from .retrieval import builds

# Conditions of the moment, which the caller has to hear of.
_PASSING = ("locked", "busy", "readonly", "full", "interrupted", "disk I/O")
# From here on, filling the whole index is quicker.
_ROW_BY_ROW = 20_000


@dataclass
class Repaired:
    """One thing that was put right, or could not be."""

    name: str
    """The name of the check that found it."""
    title: str
    count: int
    failed: str | None = None
    """What SQLite said, where it could not be done."""

    def text(self) -> str:
        """In one line."""
        if self.failed:
            return f"not repaired: {self.title} ({self.failed})"
        return f"repaired: {self.title}: {self.count:,}"


def repair(conn: sqlite3.Connection, *, settings: Any = None) -> list[Repaired]:
    """Put right what can be rebuilt; what each check found, in the order in which it was done.

    Raises NotAMemory.
    """
    integrity.require(conn)
    done = []
    waiting = Context(conn).pending
    if waiting:
        schema.init(conn)
        done.append(Repaired("schema.migrations", "migrations that had not run", len(waiting)))
    # the schema first: without its tables there is nothing to look at
    for part in (_SCHEMA, [name for name in REPAIRS if name not in _SCHEMA]):
        names = set(part)
        report = integrity.check(conn, settings=settings, only=names.__contains__)
        wrong = {result.name: result for result in report.findings}
        done += [_one(conn, wrong[name]) for name in part if name in wrong]
    done += _unwhole(conn)
    return done


def _one(conn: sqlite3.Connection, result: integrity.Result) -> Repaired:
    one = Repaired(result.name, result.title, result.count)
    lost = _unreadable(conn) if result.name in _BEHIND else []
    try:
        with transaction(conn):
            for table in lost:
                _forget(conn, table)
            REPAIRS[result.name](conn)
    except sqlite3.DatabaseError as error:
        if any(word in str(error) for word in _PASSING):
            raise
        one.failed = str(error)
    return one


def _unwhole(conn: sqlite3.Connection) -> list[Repaired]:
    """Ask FTS5 itself, which an SQLite before 3.44 does for a writer only."""
    done = []
    for index in index_repair.INDEXES:
        one = Repaired("text.structure", "damage to the text index", 1)
        try:
            with transaction(conn):
                if index_repair.is_whole(conn, index):
                    continue
                _rebuild_text(conn, index)
        except sqlite3.DatabaseError as error:
            if any(word in str(error) for word in _PASSING):
                raise
            one.failed = str(error)
        done.append(one)
    return done


# the schema ---------------------------------------------------------------------------------


def _make(kind: str) -> Callable[[sqlite3.Connection], None]:
    def make(conn: sqlite3.Connection) -> None:
        there = Context(conn).objects
        for name, (wanted, sql) in shape.reference().objects.items():
            if wanted == kind and name not in there:
                conn.execute(sql)

    return make


def _tables(conn: sqlite3.Connection) -> None:
    there = Context(conn).objects
    for index in index_repair.INDEXES:
        if any(table not in there for table in (index, *shape.shadows(index))):
            _rebuild_text(conn, index)
    _make("table")(conn)
    _make("index")(conn)
    _make("trigger")(conn)


def _columns(conn: sqlite3.Connection) -> None:
    for table, column in shape.missing_columns(Context(conn)):
        addition = column.addition()
        if addition is not None:
            conn.execute(f"alter table {table} add column {addition}")


def _keys(conn: sqlite3.Connection) -> None:
    for table, key in shape.missing_keys(Context(conn)):
        name = f"idx_{table}_{'_'.join(key)}"
        conn.execute(f"create unique index if not exists {name} on {table}({', '.join(key)})")


def _trigger_texts(conn: sqlite3.Connection) -> None:
    for name in shape.changed_texts(Context(conn), "trigger"):
        conn.execute(f"drop trigger {name}")
    _make("trigger")(conn)


def drop_virtual(conn: sqlite3.Connection, name: str, shadows: tuple[str, ...]) -> None:
    """Drop a virtual table, also one that is too broken to be opened; inside a transaction."""
    conn.execute("savepoint dropping")
    try:
        conn.execute(f"drop table if exists {name}")
    except sqlite3.DatabaseError:
        conn.execute("rollback to dropping")
        _forget(conn, name)
    conn.execute("release dropping")
    for shadow in shadows:
        conn.execute(f"drop table if exists {shadow}")


def _forget(conn: sqlite3.Connection, table: str) -> None:
    """Take a table out of the schema. Its pages stay in the file, unused, until a vacuum."""
    conn.execute("pragma writable_schema = on")
    try:
        conn.execute("delete from sqlite_master where tbl_name = ?", [table])
    finally:
        # reads the schema again, without it
        conn.execute("pragma writable_schema = reset")


def _unreadable(conn: sqlite3.Connection) -> list[str]:
    """Tables behind our virtual ones whose pages are damaged: they cannot even be dropped.

    To be asked outside a transaction: SQLite lets one that met damage write no more.
    """
    found = []
    for table in BEHIND:
        try:
            lines = conn.execute(f"pragma integrity_check('{table}')").fetchall()
        except sqlite3.OperationalError:
            continue  # a virtual one, or not there
        except sqlite3.DatabaseError:
            found.append(table)
        else:
            if any(TREE.match(row[0]) for row in lines):
                found.append(table)
    return found


# text ---------------------------------------------------------------------------------------


def _rebuild_text(conn: sqlite3.Connection, index: str) -> None:
    drop_virtual(conn, index, shape.shadows(index))
    conn.execute(shape.reference().objects[index][1])
    index_repair.fill(conn, index)


def _structure(conn: sqlite3.Connection) -> None:
    for index in index_repair.INDEXES:
        if not index_repair.is_whole(conn, index):
            _rebuild_text(conn, index)


def _text(index: str) -> Callable[[sqlite3.Connection], None]:
    def repair_text(conn: sqlite3.Connection) -> None:
        found = index_repair.find(conn, index, full=True)
        if len(found) < _ROW_BY_ROW and index_repair.is_whole(conn, index):
            conn.execute("savepoint text")
            try:
                index_repair.repair_text_indexes(conn, full=True)
            except sqlite3.DatabaseError:
                conn.execute("rollback to text")
            else:
                conn.execute("release text")
                return
        # words of a text that was changed behind FTS5's back go only with the whole index
        _rebuild_text(conn, index)

    return repair_text


# marks and vectors --------------------------------------------------------------------------


def _stale(conn: sqlite3.Connection) -> None:
    conn.execute(
        "delete from limbic_stale where collection is null or collection not in"
        " ('entities', 'observations') or typeof(item_id) <> 'integer'"
    )


def _rejected(conn: sqlite3.Connection) -> None:
    conn.execute("update limbic_indexes set rejected = '[]' where not json_valid(rejected)")
    conn.execute("update limbic_indexes set rejected = '[]' where rejected is null")
    _rebuild_vectors(conn)


def _delete_vectors(conn: sqlite3.Connection, keys: list[tuple[int, Any]]) -> None:
    conn.executemany("delete from embeddings where collection_id = ? and id is ?", keys)


def _orphans(conn: sqlite3.Connection) -> None:
    found = vector_checks.orphans(Context(conn))
    _delete_vectors(conn, [(number, key) for _, number, key in found])


def _unusable(conn: sqlite3.Connection) -> None:
    found = vector_checks.unusable(Context(conn))
    _delete_vectors(conn, [(number, key) for _, number, key, _ in found])


def _rebuild_vectors(conn: sqlite3.Connection) -> None:
    """Both indexes anew; without sqlite-vec, note that the next sync has to."""
    context = Context(conn)
    for name, table in vectors.TABLES.items():
        missing = vec_missing(conn)
        if missing:
            conn.execute("update limbic_indexes set vectors = 0 where collection = ?", [name])
            if not broken_parts(context, name):
                continue
        # without sqlite-vec too: a sync that has it would stumble over the rest
        shadows = tuple(
            other
            for other, (kind, _, _) in context.objects.items()
            if kind == "table" and other.startswith(f"{table.name}_")
        )
        drop_virtual(conn, table.name, shadows)
        if not missing:
            vectors.rebuild(conn, name)


def _approximate(conn: sqlite3.Connection) -> None:
    """Let the sync that follows build it anew; an unfinished one is begun again."""
    for text in schema.statements("retrieval"):
        conn.execute(text)  # a table that could not be read
    builds.spoil(conn)


def _kept(conn: sqlite3.Connection) -> None:
    """Pairs and topics of what is not there, and pairs of no known sort: found again, if at all."""
    conn.execute("delete from limbic_topics where entity_id not in (select id from entities)")
    conn.execute(
        "delete from limbic_duplicates where entity_id not in (select id from entities)"
        " or earlier_id not in (select id from observations)"
        " or later_id not in (select id from observations)"
        " or coalesce(kind, '') not in ('duplicate', 'contradiction', 'look')"
        " or coalesce(rule, '') not in ('exact', 'cosine', 'containment', 'wording')"
    )


REPAIRS: dict[str, Callable[[sqlite3.Connection], Any]] = {
    "schema.tables": _tables,
    "schema.columns": _columns,
    "schema.indexes": _make("index"),
    "schema.views": _make("view"),
    "schema.triggers": _make("trigger"),
    "schema.trigger_texts": _trigger_texts,
    "sqlite.index": lambda conn: conn.execute("reindex"),
    "marks.guard": lambda conn: conn.execute("delete from _limbic_guard"),
    "marks.stale": _stale,
    "pairs.self": repair_pairs,
    "pairs.order": repair_pairs,
    "pairs.twice": repair_pairs,
    # refused while two rows have one key
    "schema.keys": _keys,
    "gone.limbic_topics.entity_id": _kept,
    "gone.limbic_duplicates.earlier_id": _kept,
    "gone.limbic_duplicates.later_id": _kept,
    "gone.limbic_duplicates.entity_id": _kept,
    "values.limbic_duplicates.kind": _kept,
    "values.limbic_duplicates.rule": _kept,
    "text.structure": _structure,
    "text.words": _text("_limbic_fts"),
    "text.substrings": _text("_limbic_trigram"),
    "json.limbic_indexes.rejected": _rejected,
    "vectors.orphans": _orphans,
    "vectors.unusable": _unusable,
    "vectors.dimension": _rebuild_vectors,
    "vectors.index": _rebuild_vectors,
    "values.limbic_approximate.state": _approximate,
    "approximate.index": _approximate,
}
"""What each check that names ``sync`` is repaired by, in the order in which they run."""
_BEHIND = ("text.structure", "vectors.index", "approximate.index")
_SCHEMA = [name for name in REPAIRS if name.startswith("schema.") and name != "schema.keys"]
