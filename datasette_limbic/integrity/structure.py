"""What SQLite says of the file itself: pages, b-trees, indexes, constraints, FTS5's own check."""

from __future__ import annotations

import re
from collections.abc import Callable

from datasette.utils.sqlite import sqlite3

from ..index_repair import INDEXES, damage
from ..schema import COLLECTIONS
from .context import Check, Context, Found, is_passing
from .report import Repair
from .schema import is_virtual, reference, shadows
from .vec_parts import every_part

LIMIT = 200
"""Lines of ``pragma integrity_check`` that are read."""

# The first SQLite whose integrity_check asks virtual tables too.
_ASKS_FTS = (3, 44, 0)
_FTS = re.compile(r"\bfts5\b|inverted index", re.I)
_INDEX = re.compile(r"missing from index|wrong # of entries in index", re.I)
# A b-tree, by its root page.
TREE = re.compile(r"Tree (\d+) ")
_UNUSED = re.compile(r"Page \d+(?::| is) never used")
BEHIND = {
    **{part: "fts" for index in INDEXES for part in shadows(index)},
    **{part: "vec" for name in COLLECTIONS for part in every_part(name)},
    **dict.fromkeys(("_limbic_ann_parts", "_limbic_ann_segments"), "approximate"),
}
"""Tables that can be made again whatever has become of them."""
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
        try:
            context.memo["integrity"] = _ask(context, str(LIMIT))
        except sqlite3.DatabaseError as error:
            if is_passing(error):
                raise
            context.memo["integrity"] = _table_by_table(context, error)
    found: dict[str, list[str]] = context.memo["integrity"]
    return found


def _no_lines() -> dict[str, list[str]]:
    return {"file": [], "index": [], "constraint": [], "fts": [], "vec": [], "approximate": []}


def _ask(context: Context, about: str) -> dict[str, list[str]]:
    kinds = _no_lines()
    for (text,) in context.conn.execute(f"pragma integrity_check({about})").fetchall():
        for line in str(text).splitlines():
            kind = _kind(context, line)
            if kind:
                kinds[kind].append(line)
    if any(TREE.match(line) for said in kinds.values() for line in said):
        # what hung from the damaged page
        kinds["file"] = [line for line in kinds["file"] if not _UNUSED.match(line)]
    return kinds


def _table_by_table(context: Context, error: Exception) -> dict[str, list[str]]:
    """One table that cannot be opened ends the whole question: ask for each alone."""
    kinds = _no_lines()
    for name, (kind, _, sql) in context.objects.items():
        if kind != "table" or (is_virtual(sql) and name not in INDEXES):
            continue
        try:
            quoted = name.replace('"', '""')
            for about, found in _ask(context, f'"{quoted}"').items():
                kinds[about] += found
        except sqlite3.DatabaseError as reason:
            if is_passing(reason):
                raise
            kinds["fts" if name in INDEXES else BEHIND.get(name, "file")].append(
                f"{name}: {reason}"
            )
    if not any(kinds.values()) and not any(context.missing(shadows(index)) for index in INDEXES):
        kinds["file"].append(str(error))
    return kinds


def _kind(context: Context, line: str) -> str | None:
    if line == "ok" or line.startswith("*** in database"):
        return None
    tree = TREE.match(line)
    if tree:
        return BEHIND.get(context.roots.get(int(tree[1]), ""), "file")
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
        said = lines(context)[kind]
        for line in said:
            found.add({"text": line})
        if said and all(_UNUSED.match(line) for line in said):
            found.repair = Repair(
                "person", ("vacuum;",), "nothing is lost: this frees pages that nothing uses"
            )
        if kind == "fts":
            for index in INDEXES:
                known = any(index in line for line in said)
                if not known and context.missing((index, *shadows(index))) is None:
                    for text in damage(context.conn, index):
                        found.add({"text": text})
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
