"""Pruning by itself: a server deletes what is older than ``log_retention_days``, now and then.

One bounded transaction at a time goes through Datasette's write queue, after signals were
written, so that whoever writes meanwhile waits for one such piece at most.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import Any

from datasette.database import Database
from datasette.utils.sqlite import sqlite3

from . import compat, connection, pruning, times

log = logging.getLogger("datasette_limbic")

EVERY_S = 3600.0
# Between two pieces: other programs that wait for the file look for it only now and then.
PAUSE_S = 0.02
# A locked file: the same piece is tried so often, with pauses. Then the next use starts it again.
TRIES = 5
LOCKED_PAUSE_S = 1.0


class Retention:
    """What one database keeps of its logs, and what was deleted since the start."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.days: float | None = None
        self.searches = 0
        self.ratings = 0
        self.accesses = 0
        self.last_pruned_at: str | None = None
        self.last_error: str | None = None
        self._done_at: float | None = None
        # what could not be finished: it goes on where it stopped
        self._left: tuple[float, pruning.Pruning] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def state(self) -> dict[str, Any]:
        """Figures since the start of this process; ``days`` is None where nothing is deleted."""
        return {
            "days": self.days,
            "searches": self.searches,
            "ratings": self.ratings,
            "accesses": self.accesses,
            "last_pruned_at": self.last_pruned_at,
            "last_error": self.last_error,
        }

    def start(self) -> None:
        """Prune in the background, where that is wanted and due. Takes no time."""
        if self.days is None or self._stopping:
            return
        if self._done_at is not None and time.monotonic() - self._done_at < EVERY_S:
            return
        if self._running() is None:
            self._task = asyncio.get_running_loop().create_task(self._prune(self.days))

    async def stop(self) -> None:
        """Stop for good after the piece at hand: the next server deletes the rest."""
        self._stopping = True
        await self.wait()

    async def wait(self) -> None:
        """Wait until nothing is being pruned."""
        task = self._running()
        if task is not None:
            await asyncio.wait([task])

    def _running(self) -> asyncio.Task[None] | None:
        # a task of another event loop, which has ended, says nothing
        if self._task is None or self._task.get_loop() is not asyncio.get_running_loop():
            return None
        return None if self._task.done() else self._task

    async def _prune(self, days: float) -> None:
        if self._left is None or self._left[0] != days:
            self._left = days, pruning.Pruning(days)
        job = self._left[1]
        before = replace(job.pruned)
        try:
            while not self._stopping and await self._step(job):
                await asyncio.sleep(PAUSE_S)
        except Exception as error:  # whatever Datasette's queue raises: said, and tried again
            reason = connection.unwritten(self.db.name, error)
            # each use tries it again: a lasting fault makes no flood of lines
            level = logging.DEBUG if reason == self.last_error else logging.WARNING
            self.last_error = reason
            log.log(level, "old logs of %s were not all deleted: %s", self.db.name, reason)
        else:
            if not self._stopping:
                self._left, self._done_at = None, time.monotonic()
                self.last_error, self.last_pruned_at = None, times.now_sql()
        done = job.pruned
        self.searches += done.searches - before.searches
        self.ratings += done.ratings - before.ratings
        self.accesses += done.accesses - before.accesses
        if done != before:
            log.info("%s: %s", self.db.name, done.text())

    async def _step(self, job: pruning.Pruning) -> bool:
        """One piece; where the file is locked once more, a few times."""
        for _ in range(TRIES - 1):
            try:
                return await compat.execute_write(self.db, job.step)
            except sqlite3.OperationalError as error:
                if not connection.is_locked(error):
                    raise
            await asyncio.sleep(LOCKED_PAUSE_S)
            if self._stopping:
                return False
        return await compat.execute_write(self.db, job.step)
