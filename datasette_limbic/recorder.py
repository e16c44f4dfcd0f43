"""The Recorder of each database: where it is found, drained, and stopped with the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from datasette.app import Datasette
from datasette.database import Database

from .config import Settings
from .text import counted
from .write_behind import Recorder

log = logging.getLogger("datasette_limbic")

SHUTDOWN_S = 10.0

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
                    if left:  # else it was pruning that was cut off
                        uses = counted(left, "use was", "uses were")
                        log.warning("%s not recorded before the server stopped", uses)
            return message

        await app(scope, listening, send)

    return inner
