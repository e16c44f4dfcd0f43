"""The approximate index as tables: builds, what training made, and segments of codes."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from datasette.utils.sqlite import sqlite3

from . import changes
from .codes import SIEVE, WORD, Training
from .overlay import COLLECTION

if TYPE_CHECKING:
    import numpy


FIRST_ID = -(1 << 63)
"""No id of an entity is lower."""


@dataclass(frozen=True)
class Build:
    """One row of limbic_approximate."""

    build: int
    state: str
    model: str | None
    dimension: int
    axes: int
    version: int
    filled_to: int
    vectors: int
    trained_on: int
    changed: int
    measured_vectors: int | None
    measured_changed: int | None
    shortlisted: int | None
    rescored: int | None
    target_recall: float
    recall: float | None
    measured: str | None
    seconds: float
    started_at: str
    built_at: str | None

    @property
    def nbytes(self) -> int:
        """About how many bytes the codes take, on disk and in memory."""
        sieve = SIEVE if self.dimension > SIEVE else 0
        return self.vectors * (8 + self.axes + (sieve + -(-self.dimension // WORD) * WORD) // 8)

    @property
    def figures(self) -> dict[str, Any]:
        """Recall by number of results, and how it was measured; empty before that."""
        try:
            found = json.loads(self.measured or "{}")
        except (ValueError, TypeError):  # 'datasette limbic check' says so
            return {}
        return found if isinstance(found, dict) else {}


_COLUMNS = ", ".join(f.name for f in fields(Build))


def builds(conn: sqlite3.Connection) -> list[Build]:
    """All builds, the newest first; none where the file is of older code."""
    try:
        rows = conn.execute(
            f"select {_COLUMNS} from limbic_approximate where collection = ? order by build desc",
            [COLLECTION],
        ).fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return []
        raise
    return [Build(*row) for row in rows]


def serving(conn: sqlite3.Connection) -> Build | None:
    """The build that searches use: the newest that is ready."""
    return next((b for b in builds(conn) if b.state == "ready"), None)


def unfinished(conn: sqlite3.Connection) -> Build | None:
    """The build that was begun last and is not ready."""
    found = builds(conn)
    return found[0] if found and found[0].state != "ready" else None


def begin(
    conn: sqlite3.Connection,
    training: Training,
    *,
    model: str | None,
    version: int,
    count: int,
    target_recall: float,
) -> Build:
    """Write a new build and what training made. In the caller's transaction."""
    cursor = conn.execute(
        "insert into limbic_approximate(collection, state, model, dimension, axes, version,"
        " trained_on, target_recall, filled_to) values (?, 'filling', ?, ?, ?, ?, ?, ?, ?)",
        [
            COLLECTION,
            model,
            training.dimension,
            training.axes.shape[1],
            version,
            count,
            target_recall,
            FIRST_ID,
        ],
    )
    number = int(cursor.lastrowid or 0)
    conn.executemany(
        "insert into _limbic_ann_parts(build, name, value) values (?, ?, ?)",
        [(number, name, value) for name, value in training.parts().items()],
    )
    return one(conn, number)


def one(conn: sqlite3.Connection, number: int) -> Build:
    """The build of that number. Raises LookupError."""
    found = next((b for b in builds(conn) if b.build == number), None)
    if found is None:
        raise LookupError(f"build {number} of the approximate index is gone")
    return found


def change(conn: sqlite3.Connection, number: int, **values: Any) -> Build:
    """Set columns of a build."""
    names = ", ".join(f"{name} = ?" for name in values)
    conn.execute(
        f"update limbic_approximate set {names} where build = ?", [*values.values(), number]
    )
    return one(conn, number)


def training(conn: sqlite3.Connection, build: Build) -> Training:
    """What codes of the build are made with. Raises ValueError where that is damaged."""
    parts = dict(
        conn.execute("select name, value from _limbic_ann_parts where build = ?", [build.build])
    )
    found = Training.of_parts(parts, build.dimension)
    if found.axes.shape[1] != build.axes:
        raise ValueError("what the approximate index was made with is damaged")
    return found


def add_segment(
    conn: sqlite3.Connection,
    build: int,
    ids: numpy.ndarray,
    signs: numpy.ndarray,
    codes: numpy.ndarray,
) -> None:
    """Append signs and codes of items. In the caller's transaction."""
    if len(ids):
        conn.execute(
            "insert into _limbic_ann_segments(build, items, ids, signs, codes)"
            " values (?, ?, ?, ?, ?)",
            [
                build,
                len(ids),
                ids.astype("<i8").tobytes(),
                signs.astype("<u8").tobytes(),
                codes.tobytes(),
            ],
        )


def add_gone(conn: sqlite3.Connection, build: int, ids: numpy.ndarray) -> None:
    """Append that items are gone. In the caller's transaction."""
    if len(ids):
        conn.execute(
            "insert into _limbic_ann_segments(build, items, gone, ids, signs, codes)"
            " values (?, ?, 1, ?, x'', x'')",
            [build, len(ids), ids.astype("<i8").tobytes()],
        )


class Segments(NamedTuple):
    """All items of a build, each once: ids (int64), signs (uint64, n × words), codes (int8)."""

    ids: numpy.ndarray
    signs: numpy.ndarray
    codes: numpy.ndarray


def segments(conn: sqlite3.Connection, build: Build, words: int) -> Segments:
    """Read a build. Raises ValueError where the lengths in a row do not agree."""
    import numpy

    # One statement, so that lengths and rows are of one moment. Each blob goes straight to its
    # place: two copies of a million codes would not fit into what a process may use.
    rows = conn.execute(
        "select items, gone, ids, signs, codes,"
        " (select sum(length(ids)) from _limbic_ann_segments where build = ?1) / 8,"
        " (select sum(length(ids)) from _limbic_ann_segments where build = ?1 and not gone) / 8"
        " from _limbic_ann_segments where build = ?1 order by id",
        [build.build],
    )
    ids, there = numpy.empty(0, "i8"), numpy.empty(0, bool)
    signs, codes = numpy.empty((0, words), "u8"), numpy.empty((0, build.axes), "i1")
    at = coded = 0
    for count, gone, *blobs, all_items, all_coded in rows:
        wanted = (8 * count, 0, 0) if gone else (8 * count, 8 * words * count, build.axes * count)
        if tuple(len(b) if isinstance(b, bytes) else -1 for b in blobs) != wanted:
            raise ValueError("a row of the approximate index is damaged")
        if not len(ids):
            ids, there = numpy.empty(all_items, "i8"), numpy.empty(all_items, bool)
            signs = numpy.empty((all_coded or 0, words), "u8")
            codes = numpy.empty((all_coded or 0, build.axes), "i1")
        if at + count > len(ids) or coded + count * (not gone) > len(codes):
            raise ValueError("a row of the approximate index is damaged")
        ids[at : at + count] = numpy.frombuffer(blobs[0], "<i8")
        there[at : at + count] = not gone
        at += count
        if not gone:
            signs[coded : coded + count] = numpy.frombuffer(blobs[1], "<u8").reshape(count, words)
            codes[coded : coded + count] = numpy.frombuffer(blobs[2], "i1").reshape(count, -1)
            coded += count
    # of an item that stands in several rows the last one counts
    latest = at - 1 - numpy.unique(ids[:at][::-1], return_index=True)[1]
    latest = numpy.sort(latest[there[latest]])
    if len(latest) == at == coded:
        return Segments(ids, signs, codes)
    of_codes = (numpy.cumsum(there) - 1)[latest]
    if len(of_codes) < coded:
        signs, codes = signs[of_codes], codes[of_codes]
    return Segments(ids[latest], signs, codes)


def count(conn: sqlite3.Connection, build: Build, words: int) -> int:
    """How many items a build has, without reading its codes. Raises ValueError where the lengths
    in a row do not agree."""
    import numpy

    ids, there = [numpy.empty(0, "i8")], [numpy.empty(0, bool)]
    for items, gone, blob, signs, codes in conn.execute(
        "select items, gone, ids, length(signs), length(codes) from _limbic_ann_segments"
        " where build = ? order by id",
        [build.build],
    ):
        wanted = (8 * items, 0, 0) if gone else (8 * items, 8 * words * items, build.axes * items)
        if not isinstance(blob, bytes) or (len(blob), signs, codes) != wanted:
            raise ValueError("a row of the approximate index is damaged")
        ids.append(numpy.frombuffer(blob, "<i8"))
        there.append(numpy.full(items, not gone))
    every, coded = numpy.concatenate(ids), numpy.concatenate(there)
    latest = len(every) - 1 - numpy.unique(every[::-1], return_index=True)[1]
    return int(coded[latest].sum())


def spoil(conn: sqlite3.Connection) -> None:
    """Leave of all builds what was asked for, so that the next sync builds anew. In the caller's
    transaction."""
    conn.execute(
        "update limbic_approximate set state = 'ready'"
        " where coalesce(state, '') not in ('filling', 'measuring', 'ready')"
    )
    newest = conn.execute(
        "select max(build) from limbic_approximate where collection = ? and state = 'ready'",
        [COLLECTION],
    ).fetchone()[0]
    discard(conn, keep=newest)
    # no file knows that version
    conn.execute(
        "update limbic_approximate set version = ?,"
        " target_recall = iif(target_recall between .5 and 1, target_recall, .98)",
        [changes.UNKNOWN.now],
    )
    conn.execute("delete from _limbic_ann_segments")


def discard(conn: sqlite3.Connection, *, keep: int | None = None) -> None:
    """Delete all builds but one. In the caller's transaction."""
    for table in ("_limbic_ann_segments", "_limbic_ann_parts", "limbic_approximate"):
        conn.execute(f"delete from {table} where build is not ?", [keep])
