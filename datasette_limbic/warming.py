"""Loading a model before SQL that embeds runs, since it takes longer than SQL may.

Datasette interrupts a statement after a second; loading the packaged model takes about as long,
another one more, and so does reading the codes of a large memory. So a request for the stored
query, or for SQL that embeds its query, waits here until they are there, off the event loop.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any

from datasette.app import Datasette
from datasette.utils import tilde_decode

from . import embedding, plugin
from .retrieval import choosing

log = logging.getLogger("datasette_limbic")

# functions of SQL that embed their query
_EMBEDDING = (b"limbic_embed", b"limbic_nearest")
_warmed: set[str] = set()


def wrap(datasette: Datasette, app: Any) -> Callable[..., Any]:
    """ASGI middleware around Datasette."""

    async def inner(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and embeds(scope):
            await warm(datasette, _named(datasette, scope))
        await app(scope, receive, send)

    return inner


def embeds(scope: dict[str, Any]) -> bool:
    """Whether the request is for the stored query, or for SQL that embeds its query."""
    page = str(scope.get("path", "")).rstrip("/").rsplit("/", 1)[-1]
    given = scope.get("query_string", b"")
    return page.split(".")[0] == plugin.STORED_QUERY or any(name in given for name in _EMBEDDING)


def _named(datasette: Datasette, scope: dict[str, Any]) -> str | None:
    """The database in the path of a request; None where there is none of that name."""
    base = datasette.setting("base_url")
    path = str(scope.get("path", "")).removeprefix(base.rstrip("/"))
    name = tilde_decode(path.lstrip("/").split("/", 1)[0].split(".", 1)[0])
    return name if name in datasette.databases else None


async def warm(datasette: Datasette, name: str | None) -> None:
    """Load what a search of a memory needs and is not loaded yet: its model, if that runs on this
    machine, and what the retriever keeps in memory."""
    if name is not None and await plugin.is_memory(datasette.databases[name]):
        settings = plugin.settings_for(datasette, name)
        db = datasette.get_database(name)
        stored = await db.execute_fn(lambda conn: embedding.collection_model(conn, "entities"))
        if stored is not None:
            await db.execute_fn(functools.partial(choosing.prepare, settings=settings))
        model = settings.model or stored
        if model is None or model in _warmed:
            return
        _warmed.add(model)
        await asyncio.get_running_loop().run_in_executor(None, _load, model)


def _load(model: str) -> None:
    """Load by embedding a word; a model that costs money or fails is left to the search itself."""
    try:
        if embedding.is_local(model):
            embedding.embed_query(model, "memory")
    except Exception as error:
        log.warning("the model %s could not be loaded ahead: %s", model, error)
