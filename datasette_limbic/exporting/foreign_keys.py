"""Rows that point at rows which are not there, and the lines of the file they came from.

While a file is restored, foreign keys wait: a row may point further down. At the commit SQLite
would only say that one of them failed, and undo everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from datasette.utils.sqlite import sqlite3

from .tables import quoted

# llm's collections of a memory bear the names of tables.
COLLECTIONS = {"entities": "entity", "observations": "observation"}


class Link(NamedTuple):
    """A foreign key: columns of a table, and the table and columns they point at."""

    parent: str
    columns: tuple[str, ...]
    targets: tuple[str, ...]


class Dangling:
    """The rows of ``tables`` that point nowhere, found by SQL: also where foreign keys are off.

    ``vectors`` says that entities or observations were left out before, so that vectors of what
    is not here are left out too. A memory may hold such vectors until its next sync.
    """

    def __init__(self, conn: sqlite3.Connection, tables: list[str], *, vectors: bool) -> None:
        self.conn, self.vectors = conn, vectors
        self.keys = {table: self._key(table) for table in tables}
        self.links = {table: list(self._links(table)) for table in tables}
        # by table: the key of the row, and why
        self.found: dict[str, dict[tuple[Any, ...], str]] = {}

    def take_out(self, path: Path) -> Iterator[tuple[str, int, bytes, str]]:
        """Delete these rows. Yields table, line number, line and reason of each."""
        self._find()
        if not self.found:
            return
        for table, rows in self.found.items():
            where = " and ".join(f"{quoted(column)} is ?" for column in self.keys[table])
            self.conn.executemany(f"delete from {quoted(table)} where {where}", list(rows))
        with path.open("rb") as handle:  # lines end at \n alone
            for number, line in enumerate(handle, 1):
                table, key = self._read(line)
                reason = self.found.get(table, {}).pop(key, None)
                if reason:
                    yield table, number, line, reason
        for table, rows in self.found.items():
            for key, reason in rows.items():  # SQLite stores the key otherwise than the file says
                yield table, 0, json.dumps({"table": table, "row": list(key)}).encode(), reason

    def _find(self) -> None:
        self.conn.execute(
            "create temp table _limbic_restore_bad(name text, id, primary key (name, id))"
            " without rowid"
        )
        grown = True
        while grown:  # what points at a row that goes, goes too
            grown = False
            for table, links in self.links.items():
                for link in links:
                    grown = self._find_by(table, link) or grown
        if "embeddings" in self.keys and (self.vectors or COLLECTIONS.keys() & self.found.keys()):
            for table, what in COLLECTIONS.items():
                self._find_vectors(table, what)
        self.conn.execute("drop table temp._limbic_restore_bad")

    def _find_by(self, table: str, link: Link) -> bool:
        key, known = self.keys[table], self.found.get(table, {})
        there = " and ".join(
            f"p.{quoted(target)} = c.{quoted(column)}"
            for column, target in zip(link.columns, link.targets, strict=True)
        )
        rows = self.conn.execute(
            f"select {_list(key)}, {_list(link.columns)} from {quoted(table)} c"
            f" where {' and '.join(f'c.{quoted(c)} is not null' for c in link.columns)}"
            f" and not exists (select 1 from {quoted(link.parent)} p where {there}"
            f" and not exists (select 1 from temp._limbic_restore_bad b"
            f" where b.name = ? and b.id = p.{quoted(link.targets[0])}))",
            [link.parent],
        )
        new = {}
        for row in rows:
            at = tuple(row[: len(key)])
            if at not in known:
                what = ", ".join(f"{value!r:.40}" for value in row[len(key) :])
                new[at] = f"{', '.join(link.columns)} {what} is no row of {link.parent}"
        if new:
            self.found.setdefault(table, {}).update(new)
            self.conn.executemany(
                "insert or ignore into temp._limbic_restore_bad values (?, ?)",
                [(table, at[0]) for at in new if len(key) == 1],
            )
        return bool(new)

    def _find_vectors(self, table: str, what: str) -> None:
        """Vectors whose row is not here; llm's table has no foreign key that would say so."""
        key = self.keys["embeddings"]
        rows = self.conn.execute(
            f"select {_list(key)}, c.id from embeddings c where c.collection_id in"
            " (select id from collections where name = ?) and not exists"
            f" (select 1 from {quoted(table)} p where p.id = cast(c.id as integer)"
            " and cast(p.id as text) = cast(c.id as text)"
            " and not exists (select 1 from temp._limbic_restore_bad b"
            " where b.name = ? and b.id = p.id))",
            [table, table],
        )
        for *at, item in rows:
            reason = f"the vector of {what} {item!r:.40}, which is not here"
            self.found.setdefault("embeddings", {})[tuple(at)] = reason

    def _key(self, table: str) -> tuple[str, ...]:
        info = self.conn.execute(f"pragma table_info({quoted(table)})").fetchall()
        keys = sorted((row[5], row[1]) for row in info if row[5])
        return tuple(name for _, name in keys) or ("rowid",)

    def _links(self, table: str) -> Iterator[Link]:
        rows = self.conn.execute(f"pragma foreign_key_list({quoted(table)})").fetchall()
        for number in sorted({row[0] for row in rows}):
            parts = sorted((row[1], row[2], row[3], row[4]) for row in rows if row[0] == number)
            parent = parts[0][1]
            targets = tuple(part[3] for part in parts)
            if None in targets:
                targets = self._key(parent)
            yield Link(parent, tuple(part[2] for part in parts), targets)

    def _read(self, line: bytes) -> tuple[str, tuple[Any, ...]]:
        """Table and key of a line, or what no row has."""
        try:
            value = json.loads(line)
            table, row = value["table"], value["row"]
            if table not in self.found:
                return "", ()
            key = tuple(row.get(column) for column in self.keys[table])
            hash(key)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return "", ()
        return table, key


def _list(columns: tuple[str, ...]) -> str:
    return ", ".join(f"c.{quoted(column)}" for column in columns)
