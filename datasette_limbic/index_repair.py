"""The text indexes hold exactly the names and observations: check that, and repair it.

The triggers keep them true. This is for what went past the triggers: a program that dropped
them, a restored table, a writer with ``pragma recursive_triggers`` and REPLACE. See
``schema.fill_indexes`` for how rows are numbered: names even, observations odd.
"""

from __future__ import annotations

from datasette.utils.sqlite import sqlite3

from .llm_store import transaction
from .schema import UNSPACED

# Against the docsize tables, plain b-trees of one small row for each row of the index. ``>>``
# and ``&`` rather than ``/`` and ``%``, which round negative ids the other way.
_LEFT_OVER = (
    "select d.id from {index}_docsize d where"
    " (d.id & 1 = 0 and not exists (select 1 from entities e where e.id = d.id >> 1)) or"
    " (d.id & 1 = 1 and not exists (select 1 from observations o where o.id = d.id >> 1))"
)
_MISSING_NAMES = (
    "select id * 2 from entities e"
    " where not exists (select 1 from {index}_docsize d where d.id = e.id * 2)"
)
_MISSING_OBSERVATIONS = (
    "select id * 2 + 1 from observations o"
    " where not exists (select 1 from {index}_docsize d where d.id = o.id * 2 + 1)"
)
_OTHER_TEXT = {
    "_limbic_fts": (
        "select c.id from _limbic_fts_content c join entities e on c.id = e.id * 2"
        " where c.c0 is not e.name",
        "select c.id from _limbic_fts_content c join observations o on c.id = o.id * 2 + 1"
        " where c.c1 is not o.content",
    ),
    "_limbic_trigram": (
        "select c.id from _limbic_trigram_content c join entities e on c.id = e.id * 2"
        " where c.c0 is not e.name",
        "select c.id from _limbic_trigram_content c join observations o on c.id = o.id * 2 + 1"
        " where c.c0 is not o.content",
    ),
}
_FILL = {
    "_limbic_fts": (
        "insert into _limbic_fts(rowid, name) select id * 2, name from entities where id = ?",
        "insert into _limbic_fts(rowid, content)"
        " select id * 2 + 1, content from observations where id = ?",
    ),
    "_limbic_trigram": (
        "insert into _limbic_trigram(rowid, content)"
        " select id * 2, name from entities where id = ?",
        "insert into _limbic_trigram(rowid, content)"
        " select id * 2 + 1, content from observations where id = ?",
    ),
}


def repair_text_indexes(conn: sqlite3.Connection, *, full: bool = False) -> tuple[int, int]:
    """Add rows that lack in ``_limbic_fts`` and ``_limbic_trigram``, remove those left over.

    Counts and anti-joins on row ids alone: 0.2 s for 250k rows. ``full`` compares every text
    too, and looks through all observations for scripts without spaces. Returns how many rows
    were added (or renewed) and removed; (0, 0) writes nothing.
    """
    added = removed = 0
    unindexed: list[int] = []
    for index in _FILL:
        surplus = _ids(conn, _LEFT_OVER, index)
        absent = _ids(conn, _MISSING_NAMES, index)
        if index == "_limbic_fts":
            unindexed = _ids(conn, _MISSING_OBSERVATIONS, index)
            absent += unindexed
        elif full or unindexed:
            # a GLOB over every observation is the one slow check: only where there is cause
            absent += _ids(conn, f"{_MISSING_OBSERVATIONS} and content glob {UNSPACED}", index)
        changed = [i for sql in _OTHER_TEXT[index] if full for i in _ids(conn, sql, index)]
        if not (surplus or absent or changed):
            continue
        with transaction(conn):
            out = [(i,) for i in surplus + changed]
            conn.executemany(f"delete from {index} where rowid = ?", out)
            for row in absent + changed:
                conn.execute(_FILL[index][row & 1], [row >> 1])
        added += len(absent) + len(changed)
        removed += len(surplus)
    return added, removed


def _ids(conn: sqlite3.Connection, sql: str, index: str) -> list[int]:
    return [row[0] for row in conn.execute(sql.replace("{index}", index))]
