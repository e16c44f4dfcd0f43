"""Search: the page and its JSON twin."""

from __future__ import annotations

import asyncio
from typing import Any

from .. import compat, embedding, plugin, request, search
from ..errors import BadParameter
from . import display
from .common import Page, page


@page
async def search_page(here: Page) -> tuple[str, dict[str, Any]]:
    applied, info = await here.db.execute_fn(_before)
    await plugin.register_query(here.datasette, here.db.name)
    asked = request.parse(
        {k: v for k, v in here.args.items() if not k.startswith("_")}, here.settings, applied
    )
    if asked.query and asked.mode != "text" and info is not None:
        await _warm(here, info.model_id, asked.query)
    database = str(here.datasette.urls.database(here.db.name))
    may_sql = await compat.may_execute_sql(here.datasette, here.request.actor, here.db.name)
    answer = await here.read(
        lambda conn: search.search(
            conn,
            asked,
            settings=here.settings,
            sql_link=lambda query: f"{database}?{query}",
        )
    )
    answer["stored_query_url"] = (
        f"{database}/{plugin.STORED_QUERY}?{display.stored_query(asked)}"
        if await _stored_gives_the_same(here, asked, answer["degraded"])
        else None
    )
    answer["_may_sql"] = may_sql
    if here.as_json:
        return "limbic_search.html", answer
    answer["_types"] = await here.read(display.entity_types)
    return "limbic_search.html", display.decorate(answer, here, asked)


async def _stored_gives_the_same(here: Page, asked: request.Request, degraded: str | None) -> bool:
    """Whether the stored query, which is one statement for all searches, ranks as this one did."""
    if (
        not asked.query
        or degraded
        or (asked.mode, asked.fusion) != ("hybrid", here.settings.fusion)
    ):
        return False
    if asked.type is None:
        return True
    # it looks for a type among the nearest of all types, and vec0 gives no more than these
    return await here.read(
        lambda conn: bool(
            conn.execute("select count(*) <= ? from entities", [search.MAX_K]).fetchone()[0]
        )
    )


def _before(conn: Any) -> tuple[dict[str, float], embedding.CollectionInfo | None]:
    from .. import schema

    schema.require_memory(conn)
    return request.applied_parameters(conn), embedding.collection_info(conn, "entities")


async def _warm(here: Page, stored_model: str, query: str) -> None:
    """Embed the query off the event loop and outside any SQL time limit; search reads the cache.

    What goes wrong here goes wrong again in search, which says so in ``degraded``.
    """
    model = here.settings.model or stored_model
    loop = asyncio.get_running_loop()

    def embed() -> None:
        embedding.embed_query(model, query, prefix=here.settings.query_prefix)

    try:
        await loop.run_in_executor(None, embed)
    except BadParameter:
        raise
    except Exception as error:
        search.log.warning("embedding the query with %s failed: %s", model, error)
