"""Search: the page and its JSON twin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from datasette import Response

from .. import compat, config, embedding, highlights, permissions, plugin, request, search, serving
from ..answers import plain, public
from ..errors import BadParameter
from ..retrieval import plugins
from ..schema import SEARCHED_TABLES
from . import posting, rating, retrieval_display, search_display, search_form, writable
from .common import Page, by_method, checked, json_response, page


async def _page(here: Page) -> tuple[str, dict[str, Any]]:
    given = {k: v for k, v in here.args.items() if not k.startswith("_") and k != "search_id"}
    asked, _, applied = await _asked(here, given)
    if here.as_json:
        answer = await here.read(
            lambda conn: search.search(
                conn, asked, settings=here.settings, sql_link=_sql_link(here)
            )
        )
        await _add_links(here, asked, answer)
        return "limbic_search.html", answer
    may_rate = await rating.offered(here, asked)

    def read(conn: Any) -> tuple[Any, ...]:
        pool = search.rank(conn, asked, settings=here.settings)
        answer = search.answer(
            conn, pool, settings=here.settings, sql_link=_sql_link(here), whole=False
        )
        ids = [row["id"] for row in answer["results"]]
        found = highlights.highlights(conn, pool, ids, search_display.SHOWN)
        archived = highlights.archived(conn, ids) if asked.include_archived else frozenset()
        # of this very pool: what is rated is what was shown
        form = rating.form(conn, here, pool) if may_rate else None
        types = highlights.entity_types(conn)
        return answer, pool, found, archived, form, types

    answer, pool, found, archived, form, types = await here.read(read)
    await _add_links(here, asked, answer)
    answer["_found_by"] = retrieval_display.found_by(pool.retriever, pool.recall)
    answer["_types"] = types
    answer["_rating"] = form
    varied = search_form.VARIED
    in_force = request.parse(
        {k: v for k, v in given.items() if k not in varied}, here.settings, applied
    )
    # a thread: long texts are looked through for the words
    return "limbic_search.html", await asyncio.to_thread(
        search_display.decorate, answer, here, pool, (asked, in_force), found, archived
    )


BODY = (
    "query",
    *(name for name in request.ARGUMENTS if name != "q"),
    *("client", "wait", "confident_only"),
)
EXAMPLE = '{"query": "…"}'


async def _post(here: Page) -> Response:
    """``search_semantic``: the same answer, and afterwards the returned are recorded."""
    given = await posting.body(here, BODY, EXAMPLE)
    client = serving.client_name(given.pop("client", None))
    wait = config.flag("wait", given.pop("wait", False))
    confident_only = config.flag("confident_only", given.pop("confident_only", False))
    given["q"] = given.pop("query", None)
    asked, chosen, _ = await _asked(here, given)
    reason = await writable.why_not(here, permissions.RECORD)
    answer, entry = await here.db.execute_fn(
        lambda conn: serving.serve_search(
            conn,
            asked,
            settings=here.settings,
            sql_link=_sql_link(here),
            record=reason is None,
            chosen=chosen,
            confident_only=confident_only,
            client=client,
            actor=posting.actor_id(here),
        )
    )
    answer = plain(answer)
    await _add_links(here, asked, answer)
    answer["recorded"] = await posting.record(
        here, entry, reason or (None if entry else serving.unrecorded(answer)), wait
    )
    kept = entry and entry.search and answer["recorded"]["status"] in ("queued", "done")
    answer["search_id"] = entry.search.uid if kept else None
    return json_response(here.datasette, public(answer))


search_page = by_method(
    GET=page(_page), POST=checked(_post, SEARCHED_TABLES, wants_json=lambda _: True)
)


async def _asked(
    here: Page, given: dict[str, Any]
) -> tuple[request.Request, frozenset[str], dict[str, float]]:
    """The request of these arguments, its query embedded ahead; which arguments were given; and
    the applied parameters."""
    applied, model = await here.db.execute_fn(_before)
    await plugin.register_query(here.datasette, here.db.name)
    asked = request.parse(given, here.settings, applied)
    if asked.query and asked.mode != "text" and model is not None:
        await _warm(here, model, asked.query)
    return asked, frozenset(k for k, v in given.items() if v is not None and v != ""), applied


def _sql_link(here: Page) -> Callable[[str], str]:
    database = str(here.datasette.urls.database(here.db.name))
    return lambda query: f"{database}?{query}"


async def _add_links(here: Page, asked: request.Request, answer: dict[str, Any]) -> None:
    database = str(here.datasette.urls.database(here.db.name))
    answer["stored_query_url"] = (
        f"{database}/{plugin.STORED_QUERY}?{search_form.stored_query(asked)}"
        if await _stored_gives_the_same(here, asked, answer)
        else None
    )
    answer["_may_sql"] = await compat.may_execute_sql(
        here.datasette, here.request.actor, here.db.name
    )


def _brings_texts(name: str | None) -> bool:
    """Whether candidates by text are those of a retriever: the stored query takes the file's."""
    return name is not None and plugins.retriever(name).finds_texts


async def _stored_gives_the_same(
    here: Page, asked: request.Request, answer: dict[str, Any]
) -> bool:
    """Whether the stored query, which is one statement for all searches, ranks as this one did."""
    if (
        not asked.query
        or answer["degraded"]
        or _brings_texts(answer["retriever"])
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


def _before(conn: Any) -> tuple[dict[str, float], str | None]:
    from .. import schema

    schema.require_memory(conn)
    return request.applied_parameters(conn), embedding.collection_model(conn, "entities")


async def _warm(here: Page, stored_model: str, query: str) -> None:
    """Embed the query off the event loop and outside any SQL time limit; search reads the cache.

    What goes wrong here goes wrong again in search, which says so in ``degraded``.
    """
    model = here.settings.model or stored_model
    if embedding.is_remembered(model, query, prefix=here.settings.query_prefix):
        return
    loop = asyncio.get_running_loop()

    def embed() -> None:
        embedding.embed_query(model, query, prefix=here.settings.query_prefix)

    try:
        await loop.run_in_executor(None, embed)
    except BadParameter:
        raise
    except Exception as error:
        search.log.warning("embedding the query with %s failed: %s", model, error)
