"""``add_observations`` over HTTP: write, compare, make searchable, and say what it is alike to."""

from __future__ import annotations

import asyncio

from datasette import Response
from datasette.utils.sqlite import sqlite3

from .. import adding_answer, compat, connection, permissions
from ..adding import Adding
from ..answers import plain
from ..errors import BadParameter, NotAllowed, NotRecorded, NotWritable
from . import posting
from .common import Page, by_method, checked, json_response

EXAMPLE = '{"observations": [{"entityName": "Atlas", "contents": ["…"]}]}'
BODY = ("observations",)
# What the answer is made of, suggested names and similar texts included.
TABLES = ("entities", "observations", "limbic_duplicates")
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")


async def _add(here: Page) -> Response:
    """Add observations; answers once they are written, and searchable where that can be."""
    await _must(here)
    if posting.content_type(here.request.scope) in _FORMS:
        raise BadParameter(
            f"this takes JSON and no form: send {EXAMPLE} with the header "
            "content-type: application/json"
        )
    given = await posting.body(here, BODY, EXAMPLE)
    adding = Adding(given.get("observations"), settings=here.settings)
    await here.db.execute_fn(adding.read)
    # a model may take seconds: neither the event loop nor a thread of the database waits for it
    await asyncio.to_thread(adding.embed)
    await here.db.execute_fn(adding.compare)
    try:
        await compat.execute_write(here.db, adding.write)
    except sqlite3.Error as error:
        why = connection.unwritten(here.db.name, error)
        again = ". Send it again" if connection.is_locked(error) else ""
        raise NotRecorded(f"nothing was added: {why}{again}") from error
    await asyncio.to_thread(adding.embed_entities)
    await compat.execute_write(here.db, adding.store_entities)
    answer = adding_answer.public(plain(adding.answer))
    if answer["ok"]:
        return json_response(here.datasette, answer)
    # nothing could be added, nor was there already: all that is wrong stands in it
    return json_response(here.datasette, {**answer, "status": 400}, 400)


async def _must(here: Page) -> None:
    if not await compat.may(here.datasette, here.request.actor, permissions.EDIT, here.db.name):
        raise NotAllowed(f"adding observations needs the permission {permissions.EDIT}")
    reason = posting.unwritable(here.db)
    if reason:
        raise NotWritable(f"nothing was added: {reason}")


observations_view = by_method(
    f"with {EXAMPLE}", POST=checked(_add, TABLES, wants_json=lambda _: True)
)
