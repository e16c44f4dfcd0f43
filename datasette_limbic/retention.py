"""Pruning by itself: a server deletes what is older than ``log_retention_days``, now and then.

One bounded transaction at a time goes through Datasette's write queue, after signals were
written, so that whoever writes meanwhile waits for one such piece at most.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from datasette.database import Database

from . import compat, pruning, times

log = logging.getLogger("datasette_limbic")

EVERY_S = 3600.0
# Between two pieces: other programs that wait for the file look for it only now and then.
PAUSE_S = 0.02


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
        self._tried: float | None = None
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
        moment = time.monotonic()
        if self._tried is not None and moment - self._tried < EVERY_S:
            return
        if self._running() is None:
            self._tried = moment
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
        job = pruning.Pruning(days)
        try:
            while not self._stopping and await compat.execute_write(self.db, job.step):
                await asyncio.sleep(PAUSE_S)
        except Exception as error:  # whatever Datasette's queue raises: said, and tried later
            self.last_error = str(error)
            log.warning("old logs of %s were not all deleted: %s", self.db.name, error)
        else:
            if not self._stopping:
                self.last_error, self.last_pruned_at = None, times.now_sql()
        done = job.pruned
        self.searches += done.searches
        self.ratings += done.ratings
        self.accesses += done.accesses
        log.info("%s: %s", self.db.name, done.text())
