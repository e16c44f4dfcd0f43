"""What SQLite says of the file itself: pages, b-trees, indexes, constraints, FTS5's own check."""

from __future__ import annotations

import re
from collections.abc import Callable

from datasette.utils.sqlite import sqlite3

from .context import Check, Context, Found
from .report import Repair
from .schema import reference

LIMIT = 200
"""Lines of ``pragma integrity_check`` that are read."""

# The first SQLite whose integrity_check asks virtual tables too.
_ASKS_FTS = (3, 44, 0)
_FTS = re.compile(r"\bfts5\b|inverted index", re.I)
_INDEX = re.compile(r"missing from index|wrong # of entries in index", re.I)
_CONSTRAINT = re.compile(
    r"(?:CHECK constraint failed in|NULL value in|(?:TEXT|NUMERIC|REAL|INTEGER) value in"
    r"|non-unique entry in index) (\w+)",
    re.I,
)
# Constraints of these tables have checks of their own, which also hold where none is declared.
_COVERED = (
    "entities",
    "observations",
    "relations",
    "entity_access",
    "entity_access_log",
    "co_occurrences",
)


def lines(context: Context) -> dict[str, list[str]]:
    """What ``pragma integrity_check`` says, by kind; asked once."""
    if "integrity" not in context.memo:
        kinds: dict[str, list[str]] = {"file": [], "index": [], "constraint": [], "fts": []}
        for (text,) in context.conn.execute(f"pragma integrity_check({LIMIT})"):
            for line in str(text).splitlines():
                kind = _kind(context, line)
                if kind:
                    kinds[kind].append(line)
        context.memo["integrity"] = kinds
    found: dict[str, list[str]] = context.memo["integrity"]
    return found


def _kind(context: Context, line: str) -> str | None:
    if line == "ok" or line.startswith("*** in database"):
        return None
    if _FTS.search(line):
        return "fts"
    if _INDEX.search(line):
        return "index"
    constraint = _CONSTRAINT.search(line)
    if constraint is None:
        return "file"
    table = context.objects.get(constraint[1], ("", constraint[1]))[1]
    # a read-only connection does not know CHECK constraints at all: ours have checks of their own
    covered = reference().columns if line.upper().startswith("CHECK") else _COVERED
    return None if table in covered else "constraint"


def _find(kind: str) -> Callable[[Context], Found]:
    def find(context: Context) -> Found:
        found = Found()
        for line in lines(context)[kind]:
            found.add({"text": line})
        if kind == "fts" and sqlite3.sqlite_version_info < _ASKS_FTS:
            found.note = (
                f"SQLite {sqlite3.sqlite_version} cannot ask the text index whether it is whole "
                "without writing: 'sync --repair' does"
            )
        return found

    return find


CHECKS = (
    Check(
        "sqlite.file",
        "damage to the file that SQLite reports",
        _find("file"),
        Repair("person", text="restore a copy, or try: sqlite3 FILE .recover"),
    ),
    Check("sqlite.index", "indexes that lack rows", _find("index"), Repair("sync")),
    Check(
        "sqlite.constraint",
        "rows that break a constraint of their table",
        _find("constraint"),
        Repair("person", text="change or delete those rows"),
    ),
    Check("text.structure", "damage to the text index", _find("fts"), Repair("sync")),
)
