"""Which vectors changed since when, for whatever is made of them and follows.

Each write of a collection's vectors is one version of them, and a log holds the items that it
changed. The matrix in memory, the approximate index and a server remember the version that they
have, ask here what changed since, and take over that alone.

A version is the moment of the write in microseconds, or where a clock stands back a number that is
larger than the one before by chance. So two copies of a file that went different ways do not count
alike, and a version of which this file knows nothing, as after a restore from a backup, is told
from one that it has.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import NamedTuple

from datasette.utils.sqlite import sqlite3

_CHANCE = 1 << 20
KEPT = 20_000
"""Rows of the log that stay although no follower in the file needs them: those in memory may."""


class Version(NamedTuple):
    """The version of a collection's vectors, and the one from which changes are known."""

    now: int
    changes_from: int


UNKNOWN = Version(-1, -1)
"""Of a file that keeps no versions: it was not brought up to date yet."""


def version(conn: sqlite3.Connection, collection: str) -> Version:
    """The version of a collection's vectors; (0, 0) where none was indexed, or by old code, and
    UNKNOWN in a file of older code."""
    try:
        row = conn.execute(
            "select version, changes_from from limbic_indexes where collection = ?", [collection]
        ).fetchone()
    except sqlite3.OperationalError as error:
        if "no such column" not in str(error):
            raise
        return UNKNOWN
    return Version(*row) if row else Version(0, 0)


def note(conn: sqlite3.Connection, collection: str, items: Iterable[int]) -> None:
    """Note that ``items`` were written or deleted. In the caller's transaction."""
    items = sorted(set(items))
    if not items:
        return
    new = _next(conn, collection)
    conn.executemany(
        "insert into _limbic_vec_changes(collection, version, item_id) values (?, ?, ?)",
        ((collection, new, item) for item in items),
    )
    conn.execute("update limbic_indexes set version = ? where collection = ?", [new, collection])


def start_anew(conn: sqlite3.Connection, collection: str) -> None:
    """Note that anything may have changed. In the caller's transaction."""
    new = _next(conn, collection)
    conn.execute("delete from _limbic_vec_changes where collection = ?", [collection])
    conn.execute(
        "update limbic_indexes set version = ?1, changes_from = ?1 where collection = ?2",
        [new, collection],
    )


def since(conn: sqlite3.Connection, collection: str, seen: int) -> list[int] | None:
    """Items that changed after version ``seen``, by id; None where this file cannot tell."""
    if not _knows(conn, collection, seen):
        return None
    rows = conn.execute(
        "select distinct item_id from _limbic_vec_changes where collection = ? and version > ?"
        " order by item_id",
        [collection, seen],
    )
    return [row[0] for row in rows]


def count_since(conn: sqlite3.Connection, collection: str, seen: int, most: int) -> int | None:
    """How many rows of the log are newer than version ``seen``, counted up to ``most`` + 1; None
    where this file cannot tell. Cheap, however long the log is."""
    if not _knows(conn, collection, seen):
        return None
    return int(
        conn.execute(
            "select count(*) from (select 1 from _limbic_vec_changes where collection = ?"
            " and version > ? limit ?)",
            [collection, seen, most + 1],
        ).fetchone()[0]
    )


def _knows(conn: sqlite3.Connection, collection: str, seen: int) -> bool:
    """Whether this file had the version ``seen``, and its log goes back to that."""
    found = version(conn, collection)
    if found == UNKNOWN:
        return False
    return seen in (found.now, found.changes_from) or (
        found.changes_from < seen < found.now
        and conn.execute(
            "select 1 from _limbic_vec_changes where collection = ? and version = ? limit 1",
            [collection, seen],
        ).fetchone()
        is not None
    )


def forget(conn: sqlite3.Connection, collection: str) -> None:
    """Forget what every follower in the file has, but for the newest KEPT rows of the log.

    A follower that does not follow any more, such as a server that is no longer used, does not
    make the log grow for ever: with more rows than twice the items it has to begin anew.
    """
    row = conn.execute(
        "select version from _limbic_vec_changes where collection = ? order by version desc"
        " limit 1 offset ?",
        [collection, KEPT],
    ).fetchone()
    if row is None:
        return
    followed, logged, items = conn.execute(
        "select (select min(version) from ("
        "  select version from limbic_approximate where collection = ?1"
        "  union all select version from limbic_pushes where collection = ?1)),"
        " (select count(*) from _limbic_vec_changes where collection = ?1),"
        " (select vectors from limbic_indexes where collection = ?1)",
        [collection],
    ).fetchone()
    waits = followed is not None and logged <= 2 * (items or 0) + KEPT
    until = min(row[0], followed) if waits else row[0]
    conn.execute(
        "delete from _limbic_vec_changes where collection = ? and version <= ?",
        [collection, until],
    )
    conn.execute(
        "update limbic_indexes set changes_from = max(changes_from, ?) where collection = ?",
        [until, collection],
    )


def _next(conn: sqlite3.Connection, collection: str) -> int:
    before = version(conn, collection).now
    return max(before + 1 + random.randrange(_CHANCE), time.time_ns() // 1000)
