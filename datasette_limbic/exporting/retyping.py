"""Giving the columns of a table the types that a file says, so that values keep theirs.

An adopted table may have ``created_at datetime``: SQLite stores the text ``'1700000000'`` there
as a number, and a number in a column of ours as text. Only a table without rows is made anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from .tables import SEQUENCE, affinity, quoted

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
      | (?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])
      | (?P<text>'(?:[^']|'')*') | (?P<word>[\w$]+) | .""",
    re.VERBOSE | re.DOTALL,
)
# What ends the type of a column, or begins a line that is no column.
_CONSTRAINTS = frozenset(
    [
        "CONSTRAINT",
        "PRIMARY",
        "NOT",
        "NULL",
        "UNIQUE",
        "CHECK",
        "DEFAULT",
        "COLLATE",
        "REFERENCES",
        "GENERATED",
        "AS",
        "FOREIGN",
        "DEFERRABLE",
        "ON",
    ]
)


def retype(conn: sqlite3.Connection, table: str, kinds: Mapping[str, str]) -> list[str]:
    """Make ``table`` anew with these types (affinities); returns columns that stay as they were.

    Indexes and triggers of the table come back with it. The numbered ids of rows stay INTEGER,
    since indexes and other tables go by them.
    """
    info = _info(conn, table)
    wanted = {name.lower(): kind for name, kind in kinds.items()}
    other = {
        row[1]: wanted[row[1].lower()]
        for row in info
        if wanted.get(row[1].lower(), affinity(row[2])) != affinity(row[2])
    }
    changed = {name: kind for name, kind in other.items() if name.lower() != "id"}
    if not changed or not _make_anew(conn, table, changed):
        return list(other)
    return [name for name in other if name not in changed]


def _make_anew(conn: sqlite3.Connection, table: str, kinds: Mapping[str, str]) -> bool:
    """False, with all as it was, where there are rows, or SQLite or the table does not let us."""
    if conn.execute(f"select 1 from {quoted(table)} limit 1").fetchone():
        return False
    parts = conn.execute(
        "select sql from sqlite_master where tbl_name = ? and sql is not null"
        " order by type = 'table' desc, rowid",
        [table],
    ).fetchall()
    before = _info(conn, table)
    conn.execute("savepoint limbic_retype")
    try:
        # dropping the table forgets the last id too
        last = _sequence(conn, table)
        conn.execute(f"drop table {quoted(table)}")
        conn.execute(retyped(parts[0][0], kinds))
        for (sql,) in parts[1:]:
            conn.execute(sql)
        if last is not None:
            conn.execute(f"insert into {SEQUENCE}(name, seq) values (?, ?)", [table, last])
        expected = [(*row[:2], kinds.get(row[1], affinity(row[2])), *row[3:]) for row in before]
        found = [(*row[:2], affinity(row[2]), *row[3:]) for row in _info(conn, table)]
        done = found == expected
    except sqlite3.Error:
        done = False
    if not done:
        conn.execute("rollback to limbic_retype")
    conn.execute("release limbic_retype")
    return done


def retyped(sql: str, kinds: Mapping[str, str]) -> str:
    """The text of ``create table`` with other types for the columns ``kinds``."""
    found, cut = [], 0
    for start, end, kind in _types(sql, {name.lower(): kind for name, kind in kinds.items()}):
        found += [sql[cut:start], f" {kind} "]
        cut = end
    return "".join([*found, sql[cut:]])


def _types(sql: str, kinds: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    """Where the types of these columns begin and end."""
    depth, at_start = 0, False
    kind, begin = None, 0
    for token in _TOKEN.finditer(sql):
        text = token.group()
        if token["space"]:
            continue
        keyword = bool(token["word"]) and text.upper() in _CONSTRAINTS
        if kind is not None and depth == 1 and (keyword or text in ",)"):
            yield begin, token.start(), kind
            kind = None
        if depth == 1 and at_start and not keyword:
            kind, begin = kinds.get(_name(text).lower()), token.end()
        at_start = False
        if text == "(":
            depth += 1
            at_start = depth == 1
        elif text == ")":
            depth -= 1
        elif text == ",":
            at_start = depth == 1


def _name(token: str) -> str:
    """A name without its quotation marks."""
    first = token[:1]
    if first == "[":
        return token[1:-1]
    return token[1:-1].replace(first * 2, first) if first in "\"`'" else token


def _info(conn: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in conn.execute(f"pragma table_info({quoted(table)})")]


def _sequence(conn: sqlite3.Connection, table: str) -> int | None:
    if not conn.execute(f"select 1 from sqlite_master where name = '{SEQUENCE}'").fetchone():
        return None
    row = conn.execute(f"select seq from {SEQUENCE} where name = ?", [table]).fetchone()
    return None if row is None else int(row[0])
