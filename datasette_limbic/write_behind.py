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

from datasette.database import Database
from datasette.utils.sqlite import sqlite3

from . import compat, connection, recording, times
from .recording import Outcome, Recorded, Recording
from .retention import Retention
from .text import counted

log = logging.getLogger("datasette_limbic")

# Long enough that many searches share a transaction: after each one SQLite lets go of what every
# reader had mapped, which a search of 100,000 vectors pays with half of its time again.
LINGER_S = 1.0
# One transaction: it keeps other programs from writing for some .2 s at most.
MAX_BATCH = 200
BATCH_ROWS = 20_000
# A locked database is tried again; each try waits for SQLite's own timeout (5 s in Datasette).
TRIES = 3
# What may wait, as Recording.weight counts it: where nothing can be written, memory must not grow
# for ever. Some 60 MB.
MAX_WAITING = 100_000
TOO_MANY = (
    "too many uses wait to be written already: send it again in a moment. The overview says what "
    "keeps them from being written"
)
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
        # the error that was said last: a flood of uses makes no flood of lines
        self._said: str | None = None
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

    def count(self, error: str | None = None) -> None:
        """Count one write that went past the queue: written, or what kept it from that."""
        if error is None:
            self._succeeded(1)
        else:
            self._failed(1, error)

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
            self._failed(1, TOO_MANY)
            return TOO_MANY
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
        failed = outcome.failed
        self._succeeded(len(batch) - len(failed))
        if failed:
            self._failed(len(failed), self._sentence(failed[-1]))
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
            again = connection.is_locked(error) and each.tries < TRIES
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
            self._failed(len(lost), self._sentence(error))
        for each in lost:
            _tell(each, error)

    def _cut_off(self, batch: list[_Waiting]) -> None:
        if batch and self._writing is batch:
            self._give_up(batch, RuntimeError(CUT_OFF))

    def _sentence(self, error: Exception) -> str:
        return connection.unwritten(self.db.name, error)

    def _succeeded(self, number: int) -> None:
        self.written += number
        if number:
            self._said = None

    def _failed(self, number: int, error: str) -> None:
        self.failed += number
        self.last_error, self.last_failed_at = error, times.now_sql()
        level = logging.DEBUG if error == self._said else logging.WARNING
        self._said = error
        name = self.db.name
        uses = counted(number, f"use of {name} was", f"uses of {name} were")
        log.log(level, "%s not recorded: %s", uses, error)


def _writer(recordings: list[Recording]) -> Callable[[Any], Outcome]:
    return lambda conn: recording.write_all(conn, recordings)


def _tell(each: _Waiting, result: Recorded | Exception) -> None:
    if each.done is not None and not each.done.done() and not each.done.get_loop().is_closed():
        each.done.set_result(result)
