"""The text indexes hold exactly the names and observations: check that, and repair it.

The triggers keep them true. This is for what went past the triggers: a program that dropped
them, a restored table, a writer with ``pragma recursive_triggers`` and REPLACE. See
``schema.fill_indexes`` for how rows are numbered: names even, observations odd.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

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
# ids beyond 2^62 have no number here
_NUMBERED = "id between -(1 << 62) and (1 << 62) - 1"
_MISSING_NAMES = (
    f"select id * 2 from entities e where {_NUMBERED}"
    " and not exists (select 1 from {index}_docsize d where d.id = e.id * 2)"
)
_MISSING_OBSERVATIONS = (
    "select id * 2 + 1 from observations o where {more}"
    f" {_NUMBERED}"
    " and not exists (select 1 from {index}_docsize d where d.id = o.id * 2 + 1)"
)
# A GLOB costs 6 µs for each text; none that is all ASCII can match, and that costs a tenth.
_UNSPACED_ONLY = (
    "(typeof(content) = 'blob' or length(cast(content as blob)) > length(content))"
    f" and content glob {UNSPACED} and"
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
_FILL_ALL = {
    "_limbic_fts": (
        f"insert into _limbic_fts(rowid, name) select id * 2, name from entities"
        f" where {_NUMBERED} order by id",
        f"insert into _limbic_fts(rowid, content) select id * 2 + 1, content from observations"
        f" where {_NUMBERED} order by id",
    ),
    "_limbic_trigram": (
        f"insert into _limbic_trigram(rowid, content) select id * 2, name from entities"
        f" where {_NUMBERED} order by id",
        f"insert into _limbic_trigram(rowid, content) select id * 2 + 1, content"
        f" from observations where {_UNSPACED_ONLY} {_NUMBERED} order by id",
    ),
}
INDEXES = tuple(_FILL)
# Conditions of the moment, which say nothing of an index.
_PASSING = ("locked", "busy", "readonly", "interrupted")


@dataclass
class Differences:
    """Rows of one text index that are not as the tables have it, by their numbers in it."""

    left_over: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.left_over) + len(self.missing) + len(self.changed)


def find(
    conn: sqlite3.Connection, index: str, *, full: bool = False, unspaced: bool = True
) -> Differences:
    """What is wrong with one index; reads plain tables only.

    Anti-joins on row ids alone, unless ``full``, which compares every text too. ``unspaced``
    looks through all observations for those that ``_limbic_trigram`` should hold.
    """
    found = Differences(
        left_over=_ids(conn, _LEFT_OVER, index), missing=_ids(conn, _MISSING_NAMES, index)
    )
    if index == "_limbic_fts":
        found.missing += _ids(conn, _MISSING_OBSERVATIONS, index)
    elif full or unspaced:
        found.missing += _ids(conn, _MISSING_OBSERVATIONS, index, _UNSPACED_ONLY)
    if full:
        found.changed = [i for sql in _OTHER_TEXT[index] for i in _ids(conn, sql, index)]
    return found


def repair_text_indexes(conn: sqlite3.Connection, *, full: bool = False) -> tuple[int, int]:
    """Add rows that lack in ``_limbic_fts`` and ``_limbic_trigram``, remove those left over.

    Counts and anti-joins on row ids alone: 0.2 s for 250k rows. ``full`` compares every text
    too, and looks through all observations for scripts without spaces. Returns how many rows
    were added (or renewed) and removed; (0, 0) writes nothing.
    """
    added = removed = 0
    unindexed = False
    for index in INDEXES:
        # the GLOB over observations is the one slow check: only where there is cause
        found = find(conn, index, full=full, unspaced=unindexed)
        unindexed = unindexed or any(row & 1 for row in found.missing)
        if not found:
            continue
        with transaction(conn):
            out = [(i,) for i in found.left_over + found.changed]
            conn.executemany(f"delete from {index} where rowid = ?", out)
            for row in found.missing + found.changed:
                conn.execute(_FILL[index][row & 1], [row >> 1])
        added += len(found.missing) + len(found.changed)
        removed += len(found.left_over)
    return added, removed


def damage(conn: sqlite3.Connection, index: str) -> Iterator[str]:
    """What a search in an index would stumble over and FTS5's own check passes over; reads only."""
    if (leaves := _unlisted_leaves(conn, index)) > 0:
        yield f"{leaves:,} leaves are not in {index}_idx: no search finds them"
    try:
        conn.execute(f"select rowid from {index} where {index} match 'any' limit 1").fetchall()
    except sqlite3.DatabaseError as error:
        if any(word in str(error) for word in _PASSING):
            raise
        yield f"{index}: {error}"


def _unlisted_leaves(conn: sqlite3.Connection, index: str) -> int:
    """Leaves with words that a look-up of these words would not come to.

    A leaf of FTS5 is the row ``segment << 37 | page`` of ``_data``. Bytes 2 and 3 say where its
    words end and the list of their places begins. Where it has any, ``_idx`` holds a row for
    it whose term is at most the first of them (less, where words were taken away since).
    """
    listed = {
        (segment, page): term
        for segment, term, page in conn.execute(f"select segid, term, pgno >> 1 from {index}_idx")
    }
    unlisted = 0
    for row, leaf in conn.execute(
        f"select id, block from {index}_data where id >= 1 << 37 and id & (1 << 37) - 1 < 1 << 31"
    ):
        if not isinstance(leaf, bytes) or len(leaf) < 4:
            continue  # FTS5 itself says so
        end = int.from_bytes(leaf[2:4], "big")
        if end >= len(leaf):
            continue
        length, start = _varint(leaf, _varint(leaf, end)[0])
        term = listed.get((row >> 37, row & (1 << 31) - 1))
        if not isinstance(term, bytes) or term > leaf[start : start + length]:
            unlisted += 1
    return unlisted


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number as SQLite writes it (of at most 28 bits), and where it ends."""
    value = 0
    for end in range(at, min(at + 4, len(data))):
        value = value << 7 | data[end] & 0x7F
        if data[end] < 0x80:
            return value, end + 1
    return value, len(data)


def is_whole(conn: sqlite3.Connection, index: str) -> bool:
    """What FTS5's own check says of an index and of the text it keeps. Writes nothing lasting.

    The connection must be able to write: FTS5 takes the question as an INSERT.
    """
    try:
        if any(damage(conn, index)):
            return False
        conn.execute(f"insert into {index}({index}) values ('integrity-check')")
    except sqlite3.DatabaseError as error:
        if any(word in str(error) for word in _PASSING):
            raise
        return False
    return True


def fill(conn: sqlite3.Connection, index: str) -> None:
    """Fill an index that is empty; inside the caller's transaction."""
    for sql in _FILL_ALL[index]:
        conn.execute(sql)


def _ids(conn: sqlite3.Connection, sql: str, index: str, more: str = "") -> list[int]:
    sql = sql.replace("{index}", index).replace("{more}", more)
    return [row[0] for row in conn.execute(sql)]
