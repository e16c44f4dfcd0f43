"""What takes seconds to compute: in one thread of its own, one at a time, and not twice.

Datasette has a few threads that read databases, and one that answers: neither may wait for a
comparison of thousands of texts. What is asked for while it is computed is computed once, some of
the latest answers are remembered, and where too many wait, one is told so instead. What anybody
may look at never takes all places: some are kept for what is done once, which is a person's who
may do it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from threading import RLock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from datasette.database import Database
from datasette.utils.sqlite import sqlite3

from .. import connection
from ..config import Settings
from ..errors import Busy, DatabaseUnusable

WAITING = 8
"""So many that have a key may be computed or wait for it."""
KEPT = 4
"""So many more that have none."""
SLOW = 2
"""So many of one ``slow`` kind."""
REMEMBERED = 8
"""Answers that are remembered."""
T = TypeVar("T")


@dataclass(eq=False)
class _Job:
    """What is computed or waits for it; ``wanted`` by so many requests."""

    future: Future[Any]
    slow: str | None = None
    wanted: int = 0


class Worker:
    """One thread that computes, and the latest of what it found."""

    def __init__(
        self,
        name: str,
        *,
        waiting: int = WAITING,
        kept: int = KEPT,
        slow: int = SLOW,
        remembered: int = REMEMBERED,
    ) -> None:
        self._executor = ThreadPoolExecutor(1, name)
        # a future that is cancelled calls back in the thread that holds it
        self._lock = RLock()
        self._running: dict[Hashable, _Job] = {}
        self._found: OrderedDict[Hashable, Any] = OrderedDict()
        self._waiting, self._kept, self._slow = waiting, kept, slow
        self._remembered = remembered

    async def run(
        self, key: Hashable, function: Callable[..., T], *args: Any, slow: str | None = None
    ) -> T:
        """``function(*args)``, computed, remembered or awaited with others of the same ``key``.

        Nobody may change what is answered, since others get the same. The key ``None`` is of
        nobody else, not remembered, and has places of its own. ``slow`` names a kind of work of
        which a few at a time are enough. What has not begun when nobody waits for it any more is
        dropped. Raises Busy, and what ``function`` raises.
        """
        job = self._ask(key, function, args, slow)
        try:
            # a request that is given up must not take the answer from others who wait for it
            return await asyncio.shield(asyncio.wrap_future(job.future))
        finally:
            self._leave(job)

    def found(self, key: Hashable) -> Any:
        """What is remembered under ``key``; None where that is nothing. Computes nothing."""
        with self._lock:
            return None if key is None else self._found.get(key)

    def _ask(
        self,
        key: Hashable,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        slow: str | None,
    ) -> _Job:
        with self._lock:
            if key is not None and key in self._found:
                self._found.move_to_end(key)
                done: Future[Any] = Future()
                done.set_result(self._found[key])
                return _Job(done)
            job = None if key is None else self._running.get(key)
            if job is None:
                self._require_place(key, slow)
                name = object() if key is None else key
                job = self._running[name] = _Job(self._executor.submit(function, *args), slow)
                job.future.add_done_callback(lambda each: self._done(name, key is not None, each))
            job.wanted += 1
            return job

    def _require_place(self, key: Hashable, slow: str | None) -> None:
        most = self._waiting + (self._kept if key is None else 0)
        alike = sum(job.slow == slow for job in self._running.values())
        if len(self._running) >= most or (slow is not None and alike >= self._slow):
            raise Busy("too much is being compared just now: try again in some seconds")

    def _leave(self, job: _Job) -> None:
        with self._lock:
            job.wanted -= 1
            if job.wanted == 0:
                job.future.cancel()  # does nothing to what has begun

    def _done(self, key: Hashable, remember: bool, future: Future[Any]) -> None:
        with self._lock:
            del self._running[key]
            if remember and not future.cancelled() and future.exception() is None:
                self._found[key] = future.result()
                while len(self._found) > self._remembered:
                    self._found.popitem(last=False)


WORKER = Worker("limbic-compare")
"""Of all pages of this process."""

_numbers = count(1)
_tokens: WeakKeyDictionary[Database, int] = WeakKeyDictionary()


def token(db: Database) -> int:
    """A number of this database of this Datasette alone, for keys: names and paths come again."""
    found = _tokens.get(db)
    return _tokens.setdefault(db, next(_numbers)) if found is None else found


@contextmanager
def opened(
    path: str, settings: Settings, *, readonly: bool = True, recover: bool = True
) -> Iterator[sqlite3.Connection]:
    """A connection of our own to a database's file, so that no thread of the database waits.

    Where it cannot be opened, sqlite3's own error is raised: pages turn that into a sentence with
    the name of the database. Where its file lies on the server is not for visitors.
    """
    try:
        conn = connection.connect(path, readonly=readonly, recover=recover, settings=settings)
    except DatabaseUnusable as error:
        if isinstance(error.__cause__, sqlite3.Error):
            raise error.__cause__ from None
        raise sqlite3.OperationalError("unable to open database file") from None
    try:
        yield conn
    finally:
        conn.close()
