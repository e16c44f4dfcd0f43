"""Search: the page and its JSON twin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from datasette import Response

from .. import compat, config, embedding, plugin, request, search, search_log, serving
from ..errors import BadParameter
from ..schema import CORE_TABLES
from . import display, posting
from .common import Page, by_method, checked, json_response, page, plain, public


async def _page(here: Page) -> tuple[str, dict[str, Any]]:
    given = {k: v for k, v in here.args.items() if not k.startswith("_") and k != "search_id"}
    asked, _ = await _asked(here, given)
    answer = await here.read(
        lambda conn: search.search(conn, asked, settings=here.settings, sql_link=_sql_link(here))
    )
    await _add_links(here, asked, answer)
    if here.as_json:
        return "limbic_search.html", answer
    answer["_types"] = await here.read(display.entity_types)
    answer["_rating"] = await _rating(here, asked, answer["now"])
    return "limbic_search.html", display.decorate(answer, here, asked)


async def _rating(here: Page, asked: request.Request, now: str) -> dict[str, Any] | None:
    """What the forms that rate a result send and show; None for whoever may rate nothing.

    The search gets its id now, and is logged by the first rating: looking leaves no trace.
    """
    if not asked.query or await posting.why_not(here) is not None:
        return None
    uid = posting.search_id(here.given.get("search_id"))

    def before(conn: Any) -> dict[int, str] | None:
        known = uid is not None and search_log.is_logged(conn, uid)
        if uid is None or not known or search_log.search_row(conn, uid)["query"] != asked.query:
            return None
        return search_log.ratings(conn, uid)

    rated = await here.read(before)
    fields = [(k, v) for k, v in here.given.items() if k in request.ARGUMENTS and k != "explain"]
    return {
        "search_id": uid if rated is not None else search_log.new_uid(),
        "rated": rated or {},
        "fields": [*fields, ("at", now)],
        "url": here.url("/feedback"),
    }


BODY = ("query", *request.ARGUMENTS[1:], "client", "wait")


async def _post(here: Page) -> Response:
    """``search_semantic``: the same answer, and afterwards the returned are recorded."""
    given = await posting.body(here, BODY)
    client = serving.client_name(given.pop("client", None))
    wait = config.flag("wait", given.pop("wait", False))
    given["q"] = given.pop("query", None)
    asked, chosen = await _asked(here, given)
    reason = await posting.why_not(here)
    answer, entry = await here.db.execute_fn(
        lambda conn: serving.serve_search(
            conn,
            asked,
            settings=here.settings,
            sql_link=_sql_link(here),
            record=reason is None,
            chosen=chosen,
            client=client,
            actor=posting.actor_id(here),
        )
    )
    answer = plain(answer)
    await _add_links(here, asked, answer)
    answer["recorded"] = await posting.record(
        here, entry, reason or (None if asked.query else serving.NOTHING_ASKED), wait
    )
    kept = entry and entry.search and answer["recorded"]["status"] in ("queued", "done")
    answer["search_id"] = entry.search.uid if kept else None
    return json_response(here.datasette, public(answer))


search_page = by_method(
    GET=page(_page), POST=checked(_post, CORE_TABLES, wants_json=lambda _: True)
)


async def _asked(here: Page, given: dict[str, Any]) -> tuple[request.Request, frozenset[str]]:
    """The request of these arguments, its query embedded ahead; and which arguments were given."""
    applied, info = await here.db.execute_fn(_before)
    await plugin.register_query(here.datasette, here.db.name)
    asked = request.parse(given, here.settings, applied)
    if asked.query and asked.mode != "text" and info is not None:
        await _warm(here, info.model_id, asked.query)
    return asked, frozenset(k for k, v in given.items() if v is not None and v != "")


def _sql_link(here: Page) -> Callable[[str], str]:
    database = str(here.datasette.urls.database(here.db.name))
    return lambda query: f"{database}?{query}"


async def _add_links(here: Page, asked: request.Request, answer: dict[str, Any]) -> None:
    database = str(here.datasette.urls.database(here.db.name))
    answer["stored_query_url"] = (
        f"{database}/{plugin.STORED_QUERY}?{display.stored_query(asked)}"
        if await _stored_gives_the_same(here, asked, answer["degraded"])
        else None
    )
    answer["_may_sql"] = await compat.may_execute_sql(
        here.datasette, here.request.actor, here.db.name
    )


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
