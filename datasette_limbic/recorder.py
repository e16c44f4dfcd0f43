"""Writing signals behind Datasette's answers: queued, many in one transaction, never in the way.

One Recorder per database. An answer leaves its Recording here and goes out; a moment later all
that came in meanwhile is written by one function in Datasette's own write queue. A failed write
reaches nobody's answer: it is counted, and the overview says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from datasette.app import Datasette
from datasette.database import Database
from datasette.utils.sqlite import sqlite3

from . import compat, recording, times
from .recording import Outcome, Recorded, Recording

log = logging.getLogger("datasette_limbic")

# Long enough that many searches share a transaction, short enough that nobody waits to see it.
LINGER_S = 0.25
MAX_BATCH = 200
# A locked database is tried again; each try waits for SQLite's own timeout (5 s in Datasette).
TRIES = 3
# Rows that may wait: where nothing can be written, memory must not grow for ever.
MAX_WAITING = 100_000
SHUTDOWN_S = 10.0


@dataclass
class _Waiting:
    recording: Recording
    done: asyncio.Future[Recorded | Exception] | None = None
    tries: int = 0


class Recorder:
    """What waits to be recorded in one database, and what became of the rest since the start."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.written = 0
        self.failed = 0
        self.last_error: str | None = None
        self.last_failed_at: str | None = None
        self._waiting: deque[_Waiting] = deque()
        self._weight = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Recordings that are not written yet."""
        return len(self._waiting)

    def state(self) -> dict[str, Any]:
        """Figures since the start of this process, for the overview."""
        return {
            "written": self.written,
            "waiting": self.waiting,
            "failed": self.failed,
            "last_error": self.last_error,
            "last_failed_at": self.last_failed_at,
        }

    def is_waiting(self, uid: str) -> bool:
        """Whether the search of that id is still to be written."""
        return any(w.recording.search and w.recording.search.uid == uid for w in self._waiting)

    def add(self, entry: Recording) -> str | None:
        """Queue one; returns why not, or None. Takes no time."""
        return self._add(_Waiting(entry))

    async def write_now(self, entry: Recording) -> Recorded:
        """Queue one and wait until it is written. Raises what kept it from being written."""
        done: asyncio.Future[Recorded | Exception] = asyncio.get_running_loop().create_future()
        refused = self._add(_Waiting(entry, done))
        if refused:
            raise RuntimeError(refused)
        await self.drain()
        result = await done
        if isinstance(result, Exception):
            raise result
        return result

    def _add(self, entry: _Waiting) -> str | None:
        if self._weight + entry.recording.weight > MAX_WAITING:
            reason = f"{len(self._waiting):,} uses wait to be written already"
            self._failed(1, reason)
            return reason
        self._waiting.append(entry)
        self._weight += entry.recording.weight
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # another event loop than before (each test of a program has its own)
            self._loop, self._timer, self._task = loop, None, None
        if len(self._waiting) >= MAX_BATCH:
            self._start()
        elif self._timer is None and self._task is None:
            self._timer = loop.call_later(LINGER_S, self._start)
        return None

    def _start(self) -> None:
        self._stop_timer()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write())
            self._task.add_done_callback(self._ended)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._task is task:
            self._task = None
            if self._waiting and self._timer is None:
                self._timer = task.get_loop().call_later(LINGER_S, self._start)

    async def drain(self) -> None:
        """Write all that waits, now."""
        if self._loop is not asyncio.get_running_loop():
            self._loop, self._timer, self._task = asyncio.get_running_loop(), None, None
        while self._waiting or self._task is not None:
            self._start()
            task = self._task
            if task is not None:
                # whoever waits here may be cancelled, the writing goes on
                await asyncio.shield(task)
                self._ended(task)

    async def _write(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]
            self._weight -= sum(each.recording.weight for each in batch)
            recordings = [each.recording for each in batch]
            try:
                outcome = await compat.execute_write(self.db, _writer(recordings))
            except sqlite3.Error as error:
                self._again(batch, error)
            except Exception as error:  # whatever Datasette's queue raises: counted, never lost
                self._give_up(batch, error)
            else:
                self._settle(batch, outcome)

    def _settle(self, batch: list[_Waiting], outcome: Outcome) -> None:
        failed = outcome.failed
        self.written += len(batch) - len(failed)
        if failed:
            self._failed(len(failed), str(failed[-1]))
        for each, result in zip(batch, outcome.written, strict=True):
            _tell(each, result)

    def _again(self, batch: list[_Waiting], error: sqlite3.Error) -> None:
        """Put back what a locked database kept out, and give up what was tried often enough."""
        retried: list[_Waiting] = []
        given_up: list[_Waiting] = []
        for each in batch:
            each.tries += 1
            again = "locked" in str(error) and each.tries < TRIES
            (retried if again else given_up).append(each)
        self._waiting.extendleft(reversed(retried))
        self._weight += sum(each.recording.weight for each in retried)
        if given_up:
            self._give_up(given_up, error)

    def _give_up(self, batch: list[_Waiting], error: Exception) -> None:
        self._failed(len(batch), str(error))
        for each in batch:
            _tell(each, error)

    def _failed(self, number: int, error: str) -> None:
        if "no such column" in error or "has no column" in error:
            error += ": run datasette limbic init on the file"
        self.failed += number
        self.last_error, self.last_failed_at = error, times.now_sql()
        log.warning("%d uses of %s were not recorded: %s", number, self.db.name, error)


def _writer(recordings: list[Recording]) -> Callable[[Any], Outcome]:
    return lambda conn: recording.write_all(conn, recordings)


def _tell(each: _Waiting, result: Recorded | Exception) -> None:
    if each.done is not None and not each.done.done() and not each.done.get_loop().is_closed():
        each.done.set_result(result)


_recorders: WeakKeyDictionary[Database, Recorder] = WeakKeyDictionary()


def recorder_for(db: Database) -> Recorder:
    """The one Recorder of a database."""
    found = _recorders.get(db)
    if found is None:
        found = _recorders[db] = Recorder(db)
    return found


async def drain(datasette: Datasette) -> None:
    """Write all that waits, in every database of this Datasette."""
    for db in datasette.databases.values():
        if db in _recorders:
            await _recorders[db].drain()


def wrap(datasette: Datasette, app: Any) -> Callable[..., Any]:
    """ASGI middleware: write what waits before the server stops."""

    async def inner(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return

        async def listening() -> Any:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                try:
                    await asyncio.wait_for(drain(datasette), SHUTDOWN_S)
                except asyncio.TimeoutError:
                    log.warning("some uses could not be recorded before the server stopped")
            return message

        await app(scope, listening, send)

    return inner
