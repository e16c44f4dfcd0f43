"""What one process keeps in memory of files' vectors, within a bound, true to the file.

Kept for the file, not for a connection: the threads of a server share it.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, Protocol, TypeVar

from datasette.utils.sqlite import sqlite3

from .. import unchanged

FileKey = tuple[str, int, int]


class Sized(Protocol):
    """What can be kept: it says how large it is."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""

    @property
    def needed(self) -> int:
        """Those of them that it cannot do without."""

    def shrink(self) -> None:
        """Give back the others."""


T = TypeVar("T", bound=Sized)


CONNECTIONS = 1000
"""Connections of which it is remembered which file they opened; the oldest one gives way."""

_opened: OrderedDict[int, FileKey] = OrderedDict()
_opened_guard = Lock()


def opened(conn: sqlite3.Connection) -> None:
    """Remember which file a connection reads, as soon as it is opened: a file that takes the
    place of that one later is not what it reads."""
    known, key = unchanged.state(conn), _at_path(conn)
    if known is not None and key is not None:
        with _opened_guard:
            _opened[known[0]] = key
            while len(_opened) > CONNECTIONS:
                _opened.popitem(last=False)


def file_key(conn: sqlite3.Connection) -> FileKey | None:
    """Which file a connection reads, by path and inode; None for a database in memory, and for a
    file that was deleted while it was open.

    A file that was put in the place of another one is another file.
    """
    now = _at_path(conn)
    return None if now is None else _when_opened(conn) or now


def replaced(conn: sqlite3.Connection) -> str | None:
    """That another file stands where the one was that this connection reads, in a sentence; None
    where it is still there. SQLite reads on in the old one."""
    before = _when_opened(conn)
    if before is None or _at_path(conn) == before:
        return None
    return "the file was replaced or deleted after it was opened: restart what has it open"


def _at_path(conn: sqlite3.Connection) -> FileKey | None:
    path = next((row[2] for row in conn.execute("pragma database_list") if row[1] == "main"), "")
    if not path:
        return None
    try:
        status = os.stat(path)
    except FileNotFoundError:  # deleted while it was open
        return None
    return path, status.st_dev, status.st_ino


def _when_opened(conn: sqlite3.Connection) -> FileKey | None:
    try:
        number = conn.execute("pragma temp.user_version").fetchone()[0]
    except (sqlite3.DatabaseError, TypeError):  # an authorizer may hide it
        return None
    with _opened_guard:
        return _opened.get(number)


IN_USE_S = 300.0
"""Seconds for which what was used is not put aside for another file."""


class Held(Generic[T]):
    """Objects by key, the one used longest ago gives way."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._locks: dict[Hashable, Lock] = {}
        self._used: dict[Hashable, float] = {}
        self._guard = Lock()

    def has_room(self, key: Hashable, nbytes: int, limit: int, *, idle: bool = False) -> bool:
        """Whether so many bytes more fit under ``key`` beside what others need that were used a
        moment ago, or beside all others (``idle``): else two files that fit one by one would be
        read anew by each search."""
        now = time.monotonic()
        with self._guard:
            others = sum(
                found.needed
                for other, found in self._kept.items()
                if other != key and (idle or now - self._used.get(other, now) < IN_USE_S)
            )
        return others + nbytes <= limit

    def peek(self, key: Hashable) -> T | None:
        """What is kept under the key, if anything."""
        with self._guard:
            return self._kept.get(key)

    def get(
        self, key: Hashable, current: Callable[[T], bool], load: Callable[[], T], limit: int
    ) -> T:
        """What is kept under ``key`` where it is ``current``, else what ``load`` makes, once for
        all threads that ask meanwhile. All that is kept stays within ``limit`` bytes, but for
        what was loaded last."""
        found = self._found(key)
        if found is not None and current(found):
            return found
        with self._guard:
            lock = self._locks.setdefault(key, Lock())
        with lock:
            found = self._found(key)
            if found is not None and current(found):
                return found
            self.drop(key)  # first: both at once would not fit
            found = load()
            with self._guard:
                self._kept[key] = found
                self._used[key] = time.monotonic()
                for other in [*self._kept.values()][:-1]:
                    if self._takes() > limit:
                        other.shrink()
                while len(self._kept) > 1 and self._takes() > limit:
                    self._kept.popitem(last=False)
            return found

    def drop(self, key: Hashable) -> None:
        """Keep nothing under the key."""
        with self._guard:
            self._kept.pop(key, None)

    def clear(self) -> None:
        """Keep nothing."""
        with self._guard:
            self._kept.clear()

    def _takes(self) -> int:
        return sum(found.nbytes for found in self._kept.values())

    def _found(self, key: Hashable) -> T | None:
        with self._guard:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                self._used[key] = time.monotonic()
            return found
