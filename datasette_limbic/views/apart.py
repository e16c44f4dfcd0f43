"""What takes seconds on a connection of its own, and how to tell that a file was written since."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from ..config import Settings
from .common import Page
from .working import WORKER, Worker, opened

T = TypeVar("T")


def stamped(path: str) -> tuple[Any, ...]:
    """Another one after any program has written to the file of a database."""
    found: list[Any] = []
    for each in (path, f"{path}-wal"):
        try:
            status = os.stat(each)
        except FileNotFoundError:  # most files have no log beside them
            found.append(None)
        else:
            found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)


async def apart(
    here: Page,
    key: Hashable,
    function: Callable[[Any, Settings, Any], T],
    argument: Any,
    slow: str | None = None,
    worker: Worker | None = None,
) -> T:
    """``function(connection, settings, argument)`` in the thread for what takes seconds.

    On a connection of its own, so that no thread of the database waits for it. A database that
    is no file, or that Datasette was told nobody writes to, can be opened by Datasette alone.
    ``worker`` is another thread than that of all pages. Nobody may change what is answered.
    """
    path, settings = here.db.path, here.settings
    worker = worker or WORKER
    if path is not None and here.db.is_mutable:
        return await worker.run(key, _on_own, path, function, settings, argument, slow=slow)
    loop = asyncio.get_running_loop()

    def through_datasette() -> T:
        found = here.db.execute_fn(lambda conn: function(conn, settings, argument))
        done: T = asyncio.run_coroutine_threadsafe(found, loop).result()
        return done

    return await worker.run(key, through_datasette, slow=slow)


def _on_own(
    path: str, function: Callable[[Any, Settings, Any], T], settings: Settings, argument: Any
) -> T:
    with opened(path, settings, recover=False) as conn:
        return function(conn, settings, argument)
