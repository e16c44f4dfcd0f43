"""``add_observations`` over HTTP: write, compare, make searchable, and say what it is alike to."""

from __future__ import annotations

import asyncio
from functools import partial
from weakref import WeakKeyDictionary

from datasette import Response
from datasette.database import Database
from datasette.utils.sqlite import sqlite3

from .. import adding_answer, compat, permissions
from ..adding import AT_ONCE, CHANGING, TRIES, Adding
from ..adding_similar import Gathered
from ..answers import plain
from ..errors import Busy, NotRecorded
from . import posting, writable
from .common import Page, by_method, checked, json_response
from .working import WORKER

EXAMPLE = '{"observations": [{"entityName": "Atlas", "contents": ["…"]}]}'
BODY = ("observations",)
NOTHING = "nothing was added"
# What the answer is made of, suggested names and similar texts included.
TABLES = ("entities", "observations", "limbic_duplicates")
# Those of a database that are compared again, one at a time.
_TURNS: WeakKeyDictionary[Database, asyncio.Lock] = WeakKeyDictionary()


async def _add(here: Page) -> Response:
    """Add observations; answers once they are written, and searchable where that can be."""
    await writable.require(here, permissions.EDIT, "adding observations", NOTHING)
    posting.require_json(here, EXAMPLE, " and no form")
    given = await posting.body(here, BODY, EXAMPLE)
    adding = Adding(given.get("observations"), settings=here.settings)
    await here.db.execute_fn(adding.read)
    # a model may take seconds: neither the event loop nor a thread of the database waits for it
    await asyncio.to_thread(adding.embed)
    if not await _written(here, adding):
        # what others of this process write would change it each time
        async with _TURNS.setdefault(here.db, asyncio.Lock()):
            for _ in range(TRIES - 1):
                if await _written(here, adding):
                    break
            else:
                raise NotRecorded(CHANGING)
    await asyncio.to_thread(adding.embed_entities)
    await compat.execute_write(here.db, adding.store_entities)
    answer = adding_answer.public(plain(adding.answer))
    if answer["ok"]:
        return json_response(here.datasette, answer)
    # nothing could be added, nor was there already: all that is wrong stands in it
    return json_response(here.datasette, {**answer, "status": 400}, 400)


async def _written(here: Page, adding: Adding) -> bool:
    """Compare beside the threads of the database, and write; False: it is to be done again."""
    for group in await here.db.execute_fn(adding.groups):
        gathered = await here.db.execute_fn(partial(_gather, adding, group))
        if gathered is None:
            continue
        try:
            if gathered.seconds > AT_ONCE:
                await WORKER.run(None, adding.find, gathered)
            else:
                await asyncio.to_thread(adding.find, gathered)
        except Busy as error:
            raise Busy(f"{NOTHING}: {error}") from error
    return await writable.written(here, adding.write, NOTHING)


def _gather(adding: Adding, group: list[int], conn: sqlite3.Connection) -> Gathered | None:
    return adding.gather(conn, group)


observations_view = by_method(
    f"with {EXAMPLE}", POST=checked(_add, TABLES, wants_json=lambda _: True)
)
