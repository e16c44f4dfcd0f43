"""What a check has at hand, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..connection import vec_missing
from .report import SHOWN, Repair, plain

# Conditions of the moment, which the caller has to hear of.
_PASSING = ("locked", "busy", "interrupted")
_shown: ContextVar[int] = ContextVar("shown", default=SHOWN)


@contextmanager
def showing(most: int) -> Iterator[None]:
    """Inside this block each check keeps so many examples."""
    before = _shown.set(most)
    try:
        yield
    finally:
        _shown.reset(before)


def is_passing(error: Exception) -> bool:
    """Whether an error of SQLite's is about another program, not about the file."""
    return any(word in str(error) for word in _PASSING)


class NotLookedAt(Exception):
    """A check cannot be made here; the text says why."""


@dataclass
class Found:
    """What a check found: how many, the first few, and what it learned about repairing them."""

    count: int = 0
    examples: list[Mapping[str, Any]] = field(default_factory=list)
    repair: Repair | None = None
    """In place of the check's own repair."""
    note: str | None = None

    def add(self, example: Mapping[str, Any]) -> None:
        """Count one more, and keep it where it is one of the first."""
        self.count += 1
        if len(self.examples) < _shown.get():
            self.examples.append({key: plain(value) for key, value in example.items()})


@dataclass(frozen=True)
class Check:
    """One thing that is looked for."""

    name: str
    title: str
    find: Callable[[Context], Found]
    repair: Repair | None = None
    """None for a check that only ever has notes."""
    needs: tuple[str, ...] = ()
    """Tables, and columns as ``table.column``, without which it cannot be made."""

    @property
    def tables(self) -> frozenset[str]:
        """The tables whose rows it reads; none for a check of the schema or the file."""
        return frozenset(need.partition(".")[0] for need in self.needs)


class Context:
    """A connection, and what several checks want to know of it, asked once."""

    def __init__(self, conn: sqlite3.Connection, settings: Any = None) -> None:
        self.conn, self.settings = conn, settings
        self.memo: dict[str, Any] = {}
        self.unread: dict[str, str] = {}
        """What SQLite said when it broke a check off, with the title of the first of these."""

    @cached_property
    def objects(self) -> dict[str, tuple[str, str, str | None]]:
        """Type, table and text of everything in the schema, by name."""
        rows = self.conn.execute("select name, type, tbl_name, sql from sqlite_master")
        return {row[0]: (row[1], row[2], row[3]) for row in rows}

    @cached_property
    def roots(self) -> dict[int, str]:
        """Tables by the first page of their rows or of one of their indexes."""
        rows = self.conn.execute("select rootpage, tbl_name from sqlite_master where rootpage > 0")
        return dict(rows.fetchall())

    @cached_property
    def vec_missing(self) -> str | None:
        """Why sqlite-vec cannot be used here, or None."""
        return vec_missing(self.conn)

    @cached_property
    def pending(self) -> list[str]:
        """Names of our migrations that have not run on this file."""
        from sqlite_utils import Database  # imports numpy

        from ..migrations import migrations

        # no pragma of its own: the connection is the caller's
        db = Database(self.conn, recursive_triggers=False, execute_plugins=False)
        return [migration.name for migration in migrations.pending(db)]

    def columns(self, table: str) -> set[str]:
        """Columns of a table; none where it is not there or cannot be opened."""
        if self.objects.get(table, ("", "", ""))[0] not in ("table", "view"):
            return set()
        key = f"columns:{table}"
        if key not in self.memo:
            rows = self.conn.execute("select name from pragma_table_info(?)", [table])
            self.memo[key] = {row[0] for row in rows}
        found: set[str] = self.memo[key]
        return found

    def missing(self, needs: Iterable[str]) -> str | None:
        """The first table or column of ``needs`` that is not there."""
        for need in needs:
            table, _, column = need.partition(".")
            if table not in self.objects or (column and column not in self.columns(table)):
                return need
        return None


def scan(rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> Found:
    """Count all rows and keep the first few."""
    found = Found()
    for row in rows:
        found.add(dict(zip(columns, row, strict=True)))
    return found
