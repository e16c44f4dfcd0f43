"""Tables of a memory's names that stand in a file before ``init``: taken over, or refused."""

from __future__ import annotations

import re
from contextlib import closing

from datasette.utils.sqlite import sqlite3
from sqlite_utils import Database

from .errors import SchemaConflict
from .reports.queries import create_views
from .schema import statements

# Columns without which a table of that name is not ours to take over.
_NEEDED = {
    "entities": ["id", "name"],
    "observations": ["id", "entity_id", "content"],
    "relations": ["id", "from_entity", "to_entity", "relation_type"],
    "entity_access": ["entity_id", "access_count", "last_access"],
    "co_occurrences": ["entity_a_id", "entity_b_id", "co_count", "last_co"],
}
_ADDED: dict[str, list[tuple[str, type, float | None]]] = {
    "entities": [
        ("entity_type", str, None),
        ("created_at", str, None),
        ("updated_at", str, None),
        ("last_activity_at", str, None),
        ("archived_at", str, None),
        ("archived_reason", str, None),
        ("valid_from", str, None),
        ("valid_to", str, None),
        ("confidence", float, 1.0),
    ],
    "observations": [
        ("created_at", str, None),
        ("kind", str, None),
        ("valid_from", str, None),
        ("valid_to", str, None),
        ("similarity_flag", int, 0),
        ("confidence", float, 1.0),
    ],
    "relations": [("created_at", str, None), ("valid_from", str, None), ("valid_to", str, None)],
}
# The text index keeps rows by number, the import finds them by these.
_NUMBERED = ("entities", "observations", "relations")
_KEYS = {
    "entities": ["name"],
    "entity_access": ["entity_id"],
    "co_occurrences": ["entity_a_id", "entity_b_id"],
}
_SHOWN = 3
_INDEX = re.compile(r"create (?:unique )?index if not exists (\w+) on (\w+)\(")


def check(db: Database) -> None:
    """Raise SchemaConflict, naming the first rows, where tables here cannot become a memory's.

    A table that lacks what identifies a row, or the file of another memory program, is left
    alone. Reads only.
    """
    names, views = set(db.table_names()), {name.lower() for name in db.view_names()}
    if {"db_metadata", "entity_embeddings"} & names and "entities" in names:
        raise SchemaConflict(
            "this file belongs to an MCP memory server: leave it to that program, and import it "
            "into a file of its own: datasette limbic import THIS_FILE memory.db"
        )
    for table, columns in _NEEDED.items():
        if table in views:
            raise SchemaConflict(
                f"{table} is a view in this file, where a memory has a table of that name: "
                "rename the view, or use a file of its own for the memory"
            )
        _check_case("table", {table}, names, "")
        if table not in names:
            continue
        there = set(db[table].columns_dict)
        known = {*columns, *(column for column, _, _ in _ADDED.get(table, ()))}
        _check_case("column", known, there, f" of the table {table}")
        missing = set(columns) - there
        if missing:
            raise SchemaConflict(
                f"the table {table} exists with columns of another program (it lacks "
                f"{', '.join(sorted(missing))}): use a file of its own for the memory"
            )
        if table in _NUMBERED:
            _check_ids(db, table)
        if table in _KEYS:
            _check_key(db, table, _KEYS[table])


def adopt(db: Database) -> None:
    """Take over tables of the same names that stand in the file already: add what they lack."""
    check(db)
    names = set(db.table_names())
    for table, key in _KEYS.items():
        if table in names and not _is_key(db, table, key):
            db.table(table).create_index(key, unique=True, if_not_exists=True)
    for table, columns in _ADDED.items():
        for column, kind, default in columns if table in names else ():
            if column not in db[table].columns_dict:
                db.table(table).add_column(column, kind, not_null_default=default)
    if "entities" in names:
        db.execute("update entities set entity_type = 'Generic' where entity_type is null")
        # once, from what the file knows; NULL stays unknown
        db.execute(
            "update entities set last_activity_at = updated_at where last_activity_at is null"
        )


def check_search_log(db: Database) -> None:
    """Raise SchemaConflict where the log of searches has a ``uid`` that cannot name a search."""
    there = set(db["limbic_searches"].columns_dict)
    _check_case("column", {"uid"}, there, " of the table limbic_searches")
    if "uid" not in there:
        return
    rows = db.execute(
        "select uid, group_concat(id, ' and ') from limbic_searches where uid is not null"
        f" group by uid having count(*) > 1 order by uid limit {_SHOWN}"
    ).fetchall()
    if rows:
        which = "; ".join(f"{uid!r:.60} (id {ids:.60})" for uid, ids in rows)
        raise SchemaConflict(
            f"the table limbic_searches has several rows of one uid: {which}: "
            "set uid to null in all but one of them, then run this again"
        )


def check_reports(db: Database) -> None:
    """Raise SchemaConflict where a name of the fourth migration stands for something else here.

    Reads only. ``create … if not exists`` would leave it where it is, and each report would fail.
    """
    there = {
        name.lower(): (name, kind, table)
        for name, kind, table in db.execute("select name, type, tbl_name from sqlite_master")
    }
    for name, (kind, table, columns) in _of_reports().items():
        if name not in there:
            continue
        found, other, of = there[name]
        if kind == "index" and (other, of.lower()) != (kind, table):
            where = f" of the table {of}" if other == kind else ""
            raise SchemaConflict(
                f"{found} is the name of another {other}{where} in this file, where a memory has "
                f"an index of the table {table}: rename or drop it, then run this again"
            )
        if other != kind:
            raise SchemaConflict(
                f"{found} is {_A[other]} {other} in this file, where a memory has a {kind} of that "
                f"name: rename or drop it, then run this again"
            )
        missing = columns - {column.lower() for column in db[found].columns_dict} if columns else ()
        if missing:
            raise SchemaConflict(
                f"the {kind} {found} exists with columns of another program (it lacks "
                f"{', '.join(sorted(missing))}): rename or drop it, then run this again"
            )


_A = {"table": "a", "view": "a", "index": "an", "trigger": "a"}


def _of_reports() -> dict[str, tuple[str, str, frozenset[str]]]:
    """Kind, table and columns by name of all that the fourth migration makes, but triggers."""
    with closing(sqlite3.connect(":memory:")) as conn:
        db = Database(conn)
        for text in statements("tables"):
            db.execute(text)
        before = {name for (name,) in db.execute("select name from sqlite_master")}
        for text in statements("reports"):
            db.execute(text)
        create_views(conn)
        made = db.execute("select name, type, tbl_name from sqlite_master where sql is not null")
        return {
            name: (kind, table, frozenset(() if kind == "index" else db[name].columns_dict))
            for name, kind, table in made.fetchall()
            if name not in before
        }


def replace_index(db: Database, text: str) -> None:
    """Run ``create … index if not exists``, in place of another index of its name and table.

    One that is not as ``text`` says would be left where it stands, unique or not. Raises
    SchemaConflict where the name is taken elsewhere.
    """
    found = _INDEX.match(text)
    if found is None:
        raise ValueError(f"no create index if not exists: {text!r:.80}")
    name, table = found.groups()
    for kind, owner in db.execute(
        "select type, tbl_name from sqlite_master where lower(name) = lower(?)", [name]
    ).fetchall():
        if (kind, owner.lower()) != ("index", table):
            where = f" of the table {owner}" if kind == "index" else ""
            raise SchemaConflict(
                f"{name} is the name of another {kind}{where} in this file, where a memory has "
                f"an index of the table {table}: rename or drop it, then run this again"
            )
        db.execute(f"drop index {name}")
    db.execute(text)


def _check_case(what: str, ours: set[str], there: set[str], where: str) -> None:
    """SQLite tells no case apart in names, Datasette and readers of rows do."""
    for name in sorted(there - ours):
        if name.lower() in ours:
            raise SchemaConflict(
                f"the {what} {name}{where} differs in case from a memory's: rename it to "
                f"{name.lower()}, then run this again"
            )


def _check_ids(db: Database, table: str) -> None:
    """Raise unless id is INTEGER PRIMARY KEY, for which no other column can stand in."""
    columns = db[table].columns
    keys = [c.name for c in columns if c.is_pk]
    kind = next(c.type for c in columns if c.name == "id")
    if keys == ["id"] and kind.upper() == "INTEGER":
        # the text index numbers its rows id * 2 and id * 2 + 1
        rows = db.execute(
            f"select id from {table} where id >= 1 << 62 or id < -(1 << 62) limit {_SHOWN}"
        ).fetchall()
        if rows:
            raise SchemaConflict(
                f"ids of the table {table} are too large ({_values(rows)}): "
                "give those rows ids under 2^62, then run this again"
            )
        return
    declared = f"{kind or 'untyped'}{' primary key' if 'id' in keys else ''}"
    rows = db.execute(f"select id from {table} limit {_SHOWN}").fetchall()
    such = f", with ids such as {_values(rows)}" if rows else ""
    raise SchemaConflict(
        f"the column id of the table {table} is {declared} where a memory has INTEGER PRIMARY "
        f"KEY{such}: rename the table, run this again, and copy its rows into the new table "
        "with ids that are whole numbers"
    )


def _check_key(db: Database, table: str, key: list[str]) -> None:
    """Raise where two rows have one key, or a row has none."""
    columns = ", ".join(key)
    where = " or ".join(f"{column} is null" for column in key)
    shown = db.table(table).pks[0]
    rows = db.execute(f"select {shown} from {table} where {where} limit {_SHOWN}").fetchall()
    if rows:
        raise SchemaConflict(
            f"the table {table} has rows without {columns} ({shown} {_values(rows)}): "
            "fill it in or delete those rows, then run this again"
        )
    rows = db.execute(
        f"select {columns}, group_concat({shown}, ' and ') from {table} group by {columns}"
        f" having count(*) > 1 order by {columns} limit {_SHOWN}"
    ).fetchall()
    if rows:
        which = "; ".join(f"{_values([row[:-1]])} ({shown} {row[-1]:.60})" for row in rows)
        raise SchemaConflict(
            f"the table {table} has several rows of one {columns}: {which}: rename or merge "
            "them, then run this again"
        )


def _is_key(db: Database, table: str, key: list[str]) -> bool:
    """Whether the table refuses two rows of one ``key`` already."""
    return set(db.table(table).pks) == set(key) or any(
        index.unique and not index.partial and set(index.columns) == set(key)
        for index in db.table(table).indexes
    )


def _values(rows: list[tuple[object, ...]]) -> str:
    """Rows for a sentence: ``'u1', 'u2'``."""
    return ", ".join(" + ".join(f"{value!r:.60}" for value in row) for row in rows)
