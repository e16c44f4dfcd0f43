"""Search: the page and its JSON twin."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from datasette import Response
from datasette.utils.sqlite import sqlite3

from .. import (
    compat,
    config,
    embedding,
    highlights,
    permissions,
    plugin,
    request,
    schema,
    search,
    serving,
)
from ..answers import plain, public
from ..config import Settings
from ..errors import BadParameter
from ..retrieval import plugins
from ..schema import SEARCHED_TABLES
from . import posting, rating, retrieval_display, search_display, search_form, writable
from .common import Page, by_method, checked, json_response, page

log = logging.getLogger("datasette_limbic")

T = TypeVar("T")


async def _page(here: Page) -> tuple[str, dict[str, Any]]:
    given = {k: v for k, v in here.args.items() if not k.startswith("_") and k != "search_id"}
    if here.as_json:
        asked, _, answer = await _searched(
            here,
            given,
            lambda conn, asked: plain(
                search.search(conn, asked, settings=here.settings, sql_link=_sql_link(here))
            ),
        )
        await _add_links(here, asked, answer)
        return "limbic_search.html", answer
    may_rate = bool(given.get("q", "").strip()) and await rating.offered(here)

    def read(conn: Any, asked: request.Request) -> tuple[Any, ...]:
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

    asked, applied, found = await _searched(here, given, read)
    answer, pool, found, archived, form, types = plain(found)
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
    chosen = frozenset(k for k, v in given.items() if v is not None and v != "")
    reason = await writable.why_not(here, permissions.RECORD)
    asked, _, (answer, entry) = await _searched(
        here,
        given,
        lambda conn, asked: serving.serve_search(
            conn,
            asked,
            settings=here.settings,
            sql_link=_sql_link(here),
            record=reason is None,
            chosen=chosen,
            confident_only=confident_only,
            client=client,
            actor=posting.actor_id(here),
        ),
    )
    answer = plain(answer)
    await _add_links(here, asked, answer)
    answer["recorded"] = await posting.record(
        here, entry, reason or (None if entry else serving.unrecorded(answer)), wait
    )
    logged = entry.search if entry and answer["recorded"]["status"] in ("queued", "done") else None
    answer["search_id"] = logged.uid if logged else None
    return json_response(here.datasette, public(answer))


search_page = by_method(
    GET=page(_page), POST=checked(_post, SEARCHED_TABLES, wants_json=lambda _: True)
)


async def _searched(
    here: Page,
    given: dict[str, Any],
    function: Callable[[sqlite3.Connection, request.Request], T],
) -> tuple[request.Request, dict[str, float], T]:
    """The request of these arguments, the applied parameters, and what ``function`` reads for it.

    In one thread where the vector of the query is known. Else it is embedded first, off the event
    loop and outside any SQL time limit; what goes wrong there goes wrong again in search, which
    says so in ``degraded``.
    """

    def read(conn: sqlite3.Connection, embed: bool) -> tuple[Any, ...]:
        schema.require_memory(conn)
        applied = request.applied_parameters(conn)
        asked = request.parse(given, here.settings, applied)
        if embed and (model := _to_embed(conn, here.settings, asked)) is not None:
            return asked, applied, model
        return asked, applied, None, function(conn, asked)

    found = await here.db.execute_fn(lambda conn: read(conn, embed=True))
    if (model := found[2]) is not None:
        await _embed(model, found[0].query, here.settings.query_prefix)
        found = await here.db.execute_fn(lambda conn: read(conn, embed=False))
    await plugin.register_query(here.datasette, here.db.name)
    return found[0], found[1], found[3]


def _to_embed(conn: sqlite3.Connection, settings: Settings, asked: request.Request) -> str | None:
    """The model that embeds the query first; None where no vector is needed, or it is known."""
    if not asked.query or asked.mode == "text":
        return None
    stored = embedding.collection_model(conn, "entities")
    if stored is None:
        return None
    model = settings.model or stored
    known = embedding.is_remembered(model, asked.query, prefix=settings.query_prefix)
    return None if known else model


async def _embed(model: str, query: str, prefix: str) -> None:
    try:
        await asyncio.to_thread(embedding.embed_query, model, query, prefix=prefix)
    except BadParameter:
        raise
    except Exception as error:
        log.warning("embedding the query with %s failed: %s", model, error)


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
