"""What a file holds beyond what is read: counted, so that nothing goes missing unsaid."""

from __future__ import annotations

from datasette.utils.sqlite import sqlite3

from ..notes import Notes
from .tables import READ, Layout, quoted
from .vectors import TABLE, count_vectors, stored_vectors

_CALLED = {
    "search_events": "searches",
    "search_results": "search results",
    "implicit_feedback": "implicit feedback",
    "reflections": "reflections",
    "db_metadata": "settings (db_metadata)",
}


def note_left_out(
    conn: sqlite3.Connection, layout: Layout, with_vectors: bool, notes: Notes
) -> None:
    """Count the rows, the values and the vectors that have no place."""
    read = layout.readable()
    for table in layout.tables:
        if table not in read and not layout.is_shadow(table):
            rows = _count(conn, f"count(*) from {quoted(table)}")
            lacks = f", which lacks {', '.join(layout.missing(table))}" if table in READ else ""
            _note(notes, _CALLED.get(table, f"rows of the table {table[:60]}{lacks}"), rows)
    for table in read:
        for column in layout.tables[table]:
            if column not in READ[table]:
                values = _count(conn, f"count({quoted(column)}) from {table}")
                if values:
                    notes.extra_keys[f"{table}.{column}"[:200]] += values
    if layout.unreadable:
        _note(notes, "tables and columns whose names are no text", layout.unreadable)
    _note_vectors(conn, layout, with_vectors, notes)


def _note_vectors(
    conn: sqlite3.Connection, layout: Layout, with_vectors: bool, notes: Notes
) -> None:
    for table, module in layout.modules.items():
        if module != "vec0":
            continue
        number = count_vectors(conn, layout, table)
        if table != TABLE:
            _note(notes, f"vectors in {table[:60]}", number)
            continue
        stored = stored_vectors(layout)
        if with_vectors and stored and not stored.readable:
            _note(notes, f"vectors of {stored.element} (float32 alone is carried)", number)
        elif not (with_vectors and stored):
            _note(notes, "vectors", number)


def _note(notes: Notes, what: str, number: int) -> None:
    if number:
        notes.not_carried[what] += number


def _count(conn: sqlite3.Connection, what: str) -> int:
    return int(conn.execute(f"select {what}").fetchone()[0])
