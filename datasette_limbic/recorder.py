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
from weakref import WeakSet

from datasette.app import Datasette
from datasette.database import Database
from datasette.utils.sqlite import sqlite3

from . import compat, recording, times
from .config import Settings
from .recording import Outcome, Recorded, Recording
from .retention import Retention

log = logging.getLogger("datasette_limbic")

# Long enough that many searches share a transaction: after each one SQLite lets go of what every
# reader had mapped, which a search of 100,000 vectors pays with half of its time again.
LINGER_S = 1.0
# One transaction: it keeps other programs from writing for some .2 s at most.
MAX_BATCH = 200
BATCH_ROWS = 20_000
# A locked database is tried again; each try waits for SQLite's own timeout (5 s in Datasette).
TRIES = 3
# Rows that may wait: where nothing can be written, memory must not grow for ever.
MAX_WAITING = 100_000
SHUTDOWN_S = 10.0
CUT_OFF = "the event loop ended while they were being written: whether they were is not known"


@dataclass
class _Waiting:
    recording: Recording
    done: asyncio.Future[Recorded | Exception] | None = None
    tries: int = 0


class Recorder:
    """What waits to be recorded in one database, and what became of the rest since the start.

    Lives on one event loop at a time; nothing here is for other threads.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self.retention = Retention(db)
        self.written = 0
        self.failed = 0
        self.last_error: str | None = None
        self.last_failed_at: str | None = None
        self._waiting: deque[_Waiting] = deque()
        # the batch whose transaction is under way: no longer waiting in line, not yet written
        self._writing: list[_Waiting] = []
        self._weight = 0
        self._full = False
        # How many ever came, and up to which of them writing must not linger. They are written
        # in the order in which they came.
        self._added = 0
        self._urgent = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Recordings that are not written yet, those being written among them."""
        return len(self._waiting) + len(self._writing)

    def state(self) -> dict[str, Any]:
        """Figures since the start of this process, for the overview."""
        return {
            "written": self.written,
            "waiting": self.waiting,
            "failed": self.failed,
            "last_error": self.last_error,
            "last_failed_at": self.last_failed_at,
            "pruned": self.retention.state(),
        }

    def is_waiting(self, uid: str) -> bool:
        """Whether the search of that id is still to be written.

        True until its transaction has ended, so that whoever is told no finds it in the file.
        """
        return self.candidates(uid) is not None

    def candidates(self, uid: str) -> frozenset[int] | None:
        """Ids of the candidates of a search that is still to be written, else None."""
        for part in (self._writing, self._waiting):
            for each in part:
                search = each.recording.search
                if search is not None and search.uid == uid:
                    return frozenset(row[0] for row in search.candidates)
        return None

    def add(self, entry: Recording) -> str | None:
        """Queue one; returns why not, or None. Takes no time."""
        return self._add(_Waiting(entry))

    async def write_now(self, entry: Recording) -> Recorded:
        """Queue one and wait until it is written. Raises what kept it from being written."""
        done: asyncio.Future[Recorded | Exception] = asyncio.get_running_loop().create_future()
        refused = self._add(_Waiting(entry, done))
        if refused:
            raise RuntimeError(refused)
        self._hurry()
        result = await done
        if isinstance(result, Exception):
            raise result
        return result

    async def drain(self) -> None:
        """Write all that waits by now. What comes meanwhile is not waited for."""
        self._here()
        up_to = self._added
        self._hurry()
        while self._added - self.waiting < up_to:
            self._schedule()
            task = self._task
            assert task is not None
            # whoever waits here may be cancelled, the writing goes on
            await asyncio.shield(task)
            self._ended(task)

    def _add(self, entry: _Waiting) -> str | None:
        self._here()
        if self._weight + entry.recording.weight > MAX_WAITING:
            reason = f"{self.waiting:,} uses wait to be written already"
            self._failed(1, reason, said=self._full)
            self._full = True
            return reason
        self._waiting.append(entry)
        self._weight += entry.recording.weight
        self._added += 1
        self._schedule()
        return None

    def _here(self) -> None:
        """Move to the running event loop (each test of a program has one of its own)."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._stop_timer()
            self._cut_off(self._writing)
            self._loop, self._task = loop, None

    def _hurry(self) -> None:
        self._urgent = self._added
        self._schedule()

    def _pressing(self) -> bool:
        return len(self._waiting) >= MAX_BATCH or self._added - self.waiting < self._urgent

    def _schedule(self) -> None:
        """See to it that what waits is written: at once where that is wanted, or in a moment."""
        if not self._waiting or self._task is not None:
            return
        if self._pressing():
            self._start()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._start)

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
            if not task.get_loop().is_closed() and not task.cancelled():
                self._schedule()

    async def _write(self) -> None:
        """Write one batch. A task for each, so that a drain ends while more keeps coming."""
        batch = self._writing = self._next_batch()
        try:
            outcome = await compat.execute_write(
                self.db, _writer([each.recording for each in batch])
            )
        except sqlite3.Error as error:
            if self._again(batch, error):
                # a shared memory database says at once that it is locked
                await asyncio.sleep(LINGER_S)
        except Exception as error:  # whatever Datasette's queue raises: counted, never lost
            self._give_up(batch, error)
        except BaseException:  # the loop ends, or was closed with this unfinished
            self._cut_off(batch)
            raise
        else:
            self._settle(batch, outcome)

    def _next_batch(self) -> list[_Waiting]:
        batch = [self._waiting.popleft()]
        rows = batch[0].recording.rows
        while self._waiting and len(batch) < MAX_BATCH:
            rows += self._waiting[0].recording.rows
            if rows > BATCH_ROWS:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _finish(self, batch: list[_Waiting]) -> None:
        """The batch is under way no longer."""
        if self._writing is batch:
            self._writing = []
            self._weight -= sum(each.recording.weight for each in batch)

    def _settle(self, batch: list[_Waiting], outcome: Outcome) -> None:
        self._finish(batch)
        self._full = False
        failed = outcome.failed
        self.written += len(batch) - len(failed)
        if failed:
            self._failed(len(failed), str(failed[-1]))
        for each, result in zip(batch, outcome.written, strict=True):
            _tell(each, result)
        self.retention.start()

    def _again(self, batch: list[_Waiting], error: sqlite3.Error) -> bool:
        """Put back what a locked database kept out, and give up what was tried often enough.

        Whether anything was put back.
        """
        retried: list[_Waiting] = []
        given_up: list[_Waiting] = []
        for each in batch:
            each.tries += 1
            again = "locked" in str(error) and each.tries < TRIES
            (retried if again else given_up).append(each)
        self._give_up(batch, error, given_up)
        self._waiting.extendleft(reversed(retried))
        self._weight += sum(each.recording.weight for each in retried)
        return bool(retried)

    def _give_up(
        self, batch: list[_Waiting], error: Exception, lost: list[_Waiting] | None = None
    ) -> None:
        self._finish(batch)
        lost = batch if lost is None else lost
        if lost:
            self._failed(len(lost), str(error))
        for each in lost:
            _tell(each, error)

    def _cut_off(self, batch: list[_Waiting]) -> None:
        if batch and self._writing is batch:
            self._give_up(batch, RuntimeError(CUT_OFF))

    def _failed(self, number: int, error: str, *, said: bool = False) -> None:
        if "no such column" in error or "has no column" in error:
            error += ": run datasette limbic init on the file"
        self.failed += number
        self.last_error, self.last_failed_at = error, times.now_sql()
        level = logging.DEBUG if said else logging.WARNING
        log.log(level, "%d uses of %s were not recorded: %s", number, self.db.name, error)


def _writer(recordings: list[Recording]) -> Callable[[Any], Outcome]:
    return lambda conn: recording.write_all(conn, recordings)


def _tell(each: _Waiting, result: Recorded | Exception) -> None:
    if each.done is not None and not each.done.done() and not each.done.get_loop().is_closed():
        each.done.set_result(result)


# Kept on the database itself, so that both go together: a Recorder holds its database, and a
# WeakKeyDictionary whose values hold the keys lets go of none.
_ATTRIBUTE = "_limbic_recorder"
_recorders: WeakSet[Recorder] = WeakSet()


def recorder_for(db: Database, settings: Settings | None = None) -> Recorder:
    """The one Recorder of a database; ``settings`` say how long its logs are kept."""
    found: Recorder | None = getattr(db, _ATTRIBUTE, None)
    if found is None:
        found = Recorder(db)
        setattr(db, _ATTRIBUTE, found)
        _recorders.add(found)
    if settings is not None:
        found.retention.days = settings.log_retention_days
    return found


async def drain(datasette: Datasette) -> None:
    """Write all that waits, in every database that this Datasette has or had."""
    await asyncio.gather(*(each.drain() for each in _of(datasette)))


async def _stop(datasette: Datasette) -> None:
    await drain(datasette)
    # afterwards, since writing is what starts it
    await asyncio.gather(*(each.retention.stop() for each in _of(datasette)))


def _of(datasette: Datasette) -> list[Recorder]:
    return [each for each in _recorders if each.db.ds is datasette]


def wrap(datasette: Datasette, app: Any) -> Callable[..., Any]:
    """ASGI middleware: write what waits before the server stops, and end what is pruned."""

    async def inner(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return

        async def listening() -> Any:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                try:
                    await asyncio.wait_for(_stop(datasette), SHUTDOWN_S)
                except asyncio.TimeoutError:
                    left = sum(each.waiting for each in _of(datasette))
                    log.warning("%d uses were not recorded before the server stopped", left)
            return message

        await app(scope, listening, send)

    return inner
