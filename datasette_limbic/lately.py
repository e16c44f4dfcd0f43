"""Figures of a large memory that may be a minute old, where reading them anew would take long.

``unchanged`` keeps figures until somebody writes; a memory that is written to all the time would
be counted again at every look. What took longer than SLOW_S to read is shown for PATIENCE_S more,
and whoever shows it says when it was read. What is quick is always of this moment.
"""

from __future__ import annotations

import copy
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from datasette.utils.sqlite import sqlite3

from . import times
from .unchanged import unchanged

SLOW_S = 0.1
PATIENCE_S = 60.0
KEPT = 128
"""Figures that are kept of all databases of the process."""
T = TypeVar("T")


@dataclass(frozen=True)
class _Read:
    answer: Any
    at: str
    until: float


_kept: OrderedDict[tuple[Hashable, Hashable], _Read] = OrderedDict()
_lock = Lock()


def lately(conn: sqlite3.Connection, key: Hashable, read: Callable[[], T]) -> tuple[T, str | None]:
    """``read()`` as it is now, or as it was a short while ago and the UTC time of that.

    The time is None where the answer is of the database as it is. ``key`` as in ``unchanged``;
    each caller gets a copy of its own. Raises what ``read`` raises.
    """
    database = _database(conn)
    was_read: list[_Read] = []

    def remembered() -> tuple[T, str | None]:
        if database is not None:
            with _lock:
                found = _kept.get((database, key))
            if found is not None and time.monotonic() < found.until:
                was_read.append(found)
                raise _StillGood
        begun = time.thread_time()  # of work: a wait for others says nothing of the memory
        at = times.now_sql()
        answer = read()
        if database is not None:
            _keep((database, key), answer, at, time.thread_time() - begun)
        return answer, None

    try:
        return unchanged(conn, key, remembered)
    except _StillGood:
        return copy.deepcopy(was_read[0].answer), was_read[0].at


def forget(conn: sqlite3.Connection) -> None:
    """Read all figures of this database anew at the next look."""
    database = _database(conn)
    with _lock:
        for key in [key for key in _kept if key[0] == database]:
            del _kept[key]


class _StillGood(Exception):
    """There is an answer, which must not be kept as that of the database as it is now."""


def _keep(key: tuple[Hashable, Hashable], answer: Any, at: str, took: float) -> None:
    with _lock:
        if took < SLOW_S:
            _kept.pop(key, None)
            return
        _kept[key] = _Read(copy.deepcopy(answer), at, time.monotonic() + PATIENCE_S)
        _kept.move_to_end(key)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)


def _database(conn: sqlite3.Connection) -> Hashable:
    """The file behind a connection; None where it has none, or one that is gone."""
    try:
        path = next(row[2] for row in conn.execute("pragma database_list") if row[1] == "main")
        found = os.stat(path) if path else None
    except (OSError, StopIteration, sqlite3.DatabaseError):
        return None
    # the path too: the number of a file that is gone may be given to the next
    return None if found is None else (path, found.st_dev, found.st_ino)
