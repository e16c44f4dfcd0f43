"""Whether a memory is whole: one table of checks, for the command line and for pages.

Reads only, and never loads a model. ``Report.as_dict()`` is what ``--json`` prints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..errors import NotAMemory
from ..schema import require_memory
from . import approximate, encoding, rows, search_log, structure, text, times, values, vectors
from . import schema as schema_checks
from .context import Check, Context, NotLookedAt, is_passing, showing
from .report import SHOWN, Repair, Report, Result

__all__ = ["Check", "Progress", "Repair", "Report", "Result", "check", "checks", "require"]

Progress = Callable[[int, int, str], None]
"""Called with (done, total, title of the check that comes next)."""

# What is made again whatever stands there: an error in these is no case for a person.
_DERIVED = ("text.", "vectors.", "approximate.")


@cache
def checks() -> tuple[Check, ...]:
    """Every check, in the order in which they run."""
    return (
        *schema_checks.CHECKS,
        *structure.CHECKS,
        *rows.checks(),
        *values.VALUES,
        *values.JSON,
        *search_log.checks(),
        *times.checks(),
        *encoding.checks(),
        *text.CHECKS,
        *vectors.CHECKS,
        *approximate.CHECKS,
    )


def require(conn: sqlite3.Connection, name: str = "this database") -> None:
    """Raise NotAMemory unless this is one, be it one that lost a table of ours since."""
    names = {row[0] for row in conn.execute("select name from sqlite_master")}
    if "entities" not in names or "_sqlite_migrations" not in names:
        require_memory(conn, name)
        raise NotAMemory(f"{name} lacks the notes of what init made: run 'datasette limbic init'")
    ours = conn.execute(
        "select 1 from _sqlite_migrations where migration_set = 'datasette-limbic'"
    ).fetchone()
    if ours is None:
        require_memory(conn, name)


def check(
    conn: sqlite3.Connection,
    *,
    settings: Any = None,
    progress: Progress | None = None,
    only: Callable[[str], bool] | None = None,
    examples: int = SHOWN,
) -> Report:
    """Make every check (or those that ``only`` picks by name) on an open memory. Reads only.

    Each keeps the first ``examples`` of the rows that it found.

    Each check reads in a transaction of its own, so that a writer neither waits for all of
    them nor makes one of them see two states. Raises NotAMemory.
    """
    require(conn)
    started = time.monotonic()
    context, report = Context(conn, settings), Report()
    todo = [c for c in checks() if only is None or only(c.name)]
    with _any_text(conn), showing(examples):
        for done, one in enumerate(todo):
            if progress:
                progress(done, len(todo), one.title)
            with _reading(conn):
                report.results.append(_make(context, one))
        with _reading(conn):
            _blame_the_file(context, report)
    if progress and todo:
        progress(len(todo), len(todo), "done")
    report.seconds = round(time.monotonic() - started, 3)
    return report


def _make(context: Context, one: Check) -> Result:
    try:
        missing = context.missing(one.needs)
        if missing:
            raise NotLookedAt(schema_checks.PENDING if context.pending else f"{missing} is missing")
        found = one.find(context)
    except NotLookedAt as why:
        return Result(one.name, one.title, None, note=str(why))
    except sqlite3.DatabaseError as error:
        if is_passing(error):
            raise
        return _unreadable(context, one, error)
    return Result(
        one.name,
        one.title,
        found.count == 0,
        found.count,
        tuple(found.examples),
        (found.repair or one.repair) if found.count else None,
        found.note,
    )


def _unreadable(context: Context, one: Check, error: Exception) -> Result:
    """A check that SQLite broke off: only of what is derived is it clear what to do."""
    text = f"SQLite could not read it: {error}"
    if "no such" in str(error) and context.pending:
        return Result(one.name, one.title, None, note=schema_checks.PENDING)
    if one.name.startswith(_DERIVED) and not structure.lines(context)["file"]:
        return Result(one.name, one.title, False, 1, ({"text": text},), Repair("sync"))
    context.unread.setdefault(str(error), one.title)
    return Result(one.name, one.title, None, note=text)


def _blame_the_file(context: Context, report: Report) -> None:
    """What broke checks off is one finding, also where integrity_check saw nothing."""
    name = structure.CHECKS[0].name
    for at, result in enumerate(report.results):
        if result.name == name and result.ok is not False and context.unread:
            texts = tuple({"text": f"{t}: {error}"} for error, t in context.unread.items())
            repair = structure.CHECKS[0].repair
            report.results[at] = replace(
                result, ok=False, count=len(texts), examples=texts[:SHOWN], repair=repair, note=None
            )


@contextmanager
def _reading(conn: sqlite3.Connection) -> Iterator[None]:
    if conn.in_transaction:
        yield
        return
    conn.execute("begin")
    try:
        yield
    finally:
        conn.rollback()


@contextmanager
def _any_text(conn: sqlite3.Connection) -> Iterator[None]:
    """Rows may hold text that is no UTF-8: show it rather than fail; and rows as tuples."""
    before = conn.text_factory, conn.row_factory
    conn.text_factory = lambda data: data.decode("utf-8", "replace")
    conn.row_factory = None
    try:
        yield
    finally:
        conn.text_factory, conn.row_factory = before
