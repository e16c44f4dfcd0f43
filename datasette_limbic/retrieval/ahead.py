"""Comparing codes beside SQLite: in another thread, while the statement reads texts in its own.

What takes longest of an approximate search needs the query's vector and no connection, and numpy
and SQLite both let other threads run. Where all workers are busy, as on a server with as many
searches as cores, nothing is begun here, and the search does it itself as before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy

WORKERS = (os.cpu_count() or 1) - 1
"""The statement has the other core."""


class Compared(Protocol):
    """What can be compared with a vector."""

    def differences(self, query: numpy.ndarray) -> numpy.ndarray: ...


class Begun(NamedTuple):
    """What a thread has begun for the statement that it runs."""

    of: Compared
    vector: bytes
    found: Future[numpy.ndarray]


class Ahead:
    """What the threads of a process have begun, each for its own statement."""

    def __init__(self, workers: int = WORKERS) -> None:
        # its threads start with the first that is asked for
        self._pool = ThreadPoolExecutor(workers, "limbic-ahead") if workers > 0 else None
        self._mine = threading.local()

    @contextmanager
    def begun(self, of: Compared, vector: bytes) -> Iterator[None]:
        """Around a statement: the differences from the vector (little-endian float32) are begun."""
        import numpy

        if self._pool is None:
            yield
            return
        found = self._pool.submit(of.differences, numpy.frombuffer(vector, "<f4"))
        self._mine.begun = Begun(of, vector, found)
        try:
            yield
        finally:
            self._mine.begun = None
            found.cancel()

    def taken(self, of: Compared, vector: bytes) -> numpy.ndarray | None:
        """The differences that this thread has begun, once; None where it has begun none of these,
        or no worker was free yet. Raises what comparing raised."""
        begun: Begun | None = getattr(self._mine, "begun", None)
        self._mine.begun = None
        if begun is None or begun.of is not of or begun.vector != vector or begun.found.cancel():
            return None
        return begun.found.result()
