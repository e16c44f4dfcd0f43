"""What takes seconds to compute: in one thread of its own, one at a time, and not twice.

Datasette has a few threads that read databases, and one that answers: neither may wait for a
comparison of thousands of texts. What is asked for while it is computed is computed once, some of
the latest answers are remembered, and where too many wait, one is told so instead.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from ..errors import Busy

WAITING = 8
"""So many may be computed or wait for it."""
REMEMBERED = 8
"""Answers that are remembered."""
T = TypeVar("T")


class Worker:
    """One thread that computes, and the latest of what it found."""

    def __init__(self, name: str, *, waiting: int = WAITING, remembered: int = REMEMBERED) -> None:
        self._executor = ThreadPoolExecutor(1, name)
        self._lock = Lock()
        self._running: dict[Hashable, Future[Any]] = {}
        self._found: OrderedDict[Hashable, Any] = OrderedDict()
        self._waiting, self._remembered = waiting, remembered

    async def run(self, key: Hashable, function: Callable[..., T], *args: Any) -> T:
        """``function(*args)``, computed, remembered or awaited with others of the same ``key``.

        Nobody may change what is answered, since others get the same. The key ``None`` is of
        nobody else, and not remembered. Raises Busy, and what ``function`` raises.
        """
        found = self._ask(object() if key is None else key, key is not None, function, args)
        # a request that is given up must not take the answer from others who wait for it
        return await asyncio.shield(asyncio.wrap_future(found))

    def _ask(
        self, key: Hashable, remember: bool, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> Future[Any]:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                done: Future[Any] = Future()
                done.set_result(self._found[key])
                return done
            if key in self._running:
                return self._running[key]
            if len(self._running) >= self._waiting:
                raise Busy("too much is being compared just now: try again in some seconds")
            future = self._running[key] = self._executor.submit(function, *args)
        future.add_done_callback(lambda each: self._done(key, remember, each))
        return future

    def _done(self, key: Hashable, remember: bool, future: Future[Any]) -> None:
        with self._lock:
            del self._running[key]
            if remember and not future.cancelled() and future.exception() is None:
                self._found[key] = future.result()
                while len(self._found) > self._remembered:
                    self._found.popitem(last=False)


WORKER = Worker("limbic-compare")
"""Of all pages of this process."""
