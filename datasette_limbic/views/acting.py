"""Actions over HTTP: what one would do, as JSON or as a page to say yes on, and doing it.

``POST /{database}/-/limbic/actions/{name}`` with JSON: the arguments of the action, and
``dry_run``, ``basis``, ``insight``, ``embed`` as ``actions.acting.act`` takes them; it answers with
the dict of that, and ``ok``. A form sends the fields that ``acting_form`` reads: without
``approve=1`` the answer is the page with the diff.

Looking at what would happen needs the rights to view ``TABLES`` and nothing more, so that who may
not edit sees proposals without buttons. Doing it needs ``limbic-edit`` and a database that can be
written.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Protocol
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from datasette import Response
from datasette.database import Database
from datasette.utils.sqlite import sqlite3

from .. import connection, permissions, schema
from ..actions.acting import CHANGING, TRIES, Action
from ..actions.described import described
from ..actions.kinds import KINDS, Kind
from ..answers import plain, public
from ..config import Settings
from ..errors import (
    BadParameter,
    Busy,
    LimbicError,
    NotAllowed,
    NotAMemory,
    NotEmbedded,
    NotRecorded,
    StaleProposal,
    UnknownPage,
)
from ..i18n import gettext as _
from ..reports.entities import typed
from ..schema import SEARCHED_TABLES
from . import acting_form, diff_display, posting, writable
from .acting_form import Asked
from .common import Page, by_method, checked, json_response, render, whole_number
from .working import WORKER, opened

# What actions read, the log in which they stand included.
TABLES = (
    *SEARCHED_TABLES,
    "limbic_settings",
    "limbic_duplicates",
    "limbic_insights",
    "limbic_changes",
)
MAX_TYPED = 1000
"""Different entities in the fields of a form that are looked up."""
LATER = (NotRecorded, Busy)
"""What the same yes may do in a moment, when nobody else is at it."""
OPTIONS = ("dry_run", "basis", "insight", "embed")
# Those of a database that are done again, one at a time.
_TURNS: WeakKeyDictionary[Database, asyncio.Lock] = WeakKeyDictionary()


class Steps(Protocol):
    """An ``Action``, or a ``deciding.Decision``, which is one with a judgement."""

    def read(self, conn: sqlite3.Connection) -> None: ...
    def embed(self) -> None: ...
    def write(self, conn: sqlite3.Connection) -> bool: ...


async def _act(here: Page) -> Response:
    name = here.request.url_vars["name"]
    kind = KINDS.get(name)
    if kind is None:
        raise UnknownPage(f"there is no action {name!r:.60}: use one of {', '.join(KINDS)}")
    if posting.is_form(here.request):
        pairs = await posting.fields(here, kind.example)
        return await _of_form(here, kind, pairs)
    posting.require_json(here, kind.example)
    given = await posting.body(here, (*kind.takes, *OPTIONS), kind.example)
    action = await done(here, _of_json(kind, given))
    return json_response(here.datasette, public(plain(action.answer)))


def _of_json(kind: Kind, given: dict[str, Any]) -> Asked:
    basis, insight = given.get("basis"), given.get("insight")
    if not (basis is None or isinstance(basis, str)):
        raise BadParameter(f"basis is {basis!r:.40}: use the basis of a proposal, unchanged")
    if not (insight is None or type(insight) is int):
        raise BadParameter(f"insight is {insight!r:.40}: use the id of a finding")
    for name in ("dry_run", "embed"):
        if not isinstance(given.get(name, False), bool):
            raise BadParameter(f"{name} is {given[name]!r:.40}: use true or false")
    return Asked(
        kind.name,
        {name: given[name] for name in kind.takes if name in given},
        dry_run=given.get("dry_run", False),
        basis=basis,
        insight=insight,
        embed=given.get("embed", True),
    )


async def done(here: Page, asked: Asked) -> Action:
    """Look, or do it; the action has the answer."""
    if not asked.dry_run:
        await must(here)
    action = Action(
        asked.name,
        await in_full(here, asked),
        basis=asked.basis,
        actor=posting.actor_id(here),
        insight=asked.insight,
        embed=asked.embed,
        settings=here.settings,
    )
    if asked.dry_run:
        await here.db.execute_fn(action.read)
        return action
    await carried_out(here, action)
    return action


async def carried_out(here: Page, steps: Steps) -> None:
    """Do it. Raises NotRecorded where others write each time, and what the steps raise."""
    if await _written(here, steps):
        return
    # what others of this process write would change it each time
    async with _TURNS.setdefault(here.db, asyncio.Lock()):
        for _ in range(TRIES - 1):
            if await _written(here, steps):
                return
    raise NotRecorded(CHANGING)


async def must(here: Page) -> None:
    """Raise NotAllowed or NotWritable unless the visitor may change this memory."""
    await writable.require(here, permissions.EDIT, "changing a memory")


async def in_full(here: Page, asked: Asked) -> dict[str, Any]:
    """The arguments with what is left to us: a proposal, which may take seconds to work out.

    That is done with a connection of its own, so that no thread of the database waits for it.
    """
    kind, arguments = KINDS[asked.name], asked.arguments
    if kind.filler is None or all(arguments.get(name) is not None for name in kind.takes):
        return arguments
    if here.db.path is None:
        found: dict[str, Any] = await here.db.execute_fn(
            lambda conn: _filled(conn, kind, asked, here.settings)
        )
        return found
    return await WORKER.run(None, _filled_apart, here.db.path, kind, asked, here.settings)


def _filled_apart(path: str, kind: Kind, asked: Asked, settings: Settings) -> dict[str, Any]:
    with opened(path, settings) as conn:
        return _filled(conn, kind, asked, settings)


def _filled(
    conn: sqlite3.Connection, kind: Kind, asked: Asked, settings: Settings
) -> dict[str, Any]:
    schema.require_memory(conn)
    return kind.filled(conn, asked.arguments, settings)


async def _written(here: Page, steps: Steps) -> bool:
    """Read, embed and write; False where others wrote meanwhile and it is to be done again."""
    await here.db.execute_fn(steps.read)
    # a model may take seconds: neither the event loop nor a thread of the database waits for it
    await asyncio.to_thread(steps.embed)
    return await writable.written(here, steps.write)


# the page -----------------------------------------------------------------------------------


async def _of_form(here: Page, kind: Kind, pairs: list[tuple[str, str]]) -> Response:
    """The page with the diff; with a yes the way to what was done."""
    given = dict(pairs)
    asked = Asked(kind.name, {}, dry_run=True, back=acting_form.back(here, given.get("return", "")))
    length = sum(len(value) for _, value in pairs)
    try:
        if given.get("approve") == acting_form.YES:
            await must(here)  # before thousands of fields are gone through
        asked = await posting.apart(length, acting_form.of_form, here, kind, pairs)
        asked = await _with_entities(here, asked, pairs)
        if asked.dry_run:
            return await looked(here, kind, asked)
        action = await done(here, asked)
    except (NotAMemory, NotAllowed):
        raise
    except (StaleProposal, NotEmbedded, *LATER) as error:
        return await _again(here, kind, asked, error)
    except LimbicError as error:
        return await _page(here, kind, asked, None, error)
    query = urlencode({"done": 1, "return": asked.back})
    return Response.redirect(here.url(f"/changes/{action.answer['change']}?{query}"), 303)


async def _with_entities(here: Page, asked: Asked, pairs: list[tuple[str, str]]) -> Asked:
    """With the entities that were typed into fields: digits may be a name (``typed``)."""
    fields = {name for name, _ in pairs if name in ("entity", "keep", "others")}
    texts = {value for name, value in pairs if name in fields and whole_number(value) is not None}
    if not 0 < len(texts) <= MAX_TYPED:  # the action says itself how many it takes
        return asked
    found = await here.read(lambda conn: {int(text): typed(conn, text) for text in texts})

    def meant(value: Any) -> Any:
        return [*map(meant, value)] if isinstance(value, list) else found.get(value, value)

    arguments = {n: meant(v) if n in fields else v for n, v in asked.arguments.items()}
    return replace(asked, arguments=arguments)


async def looked(here: Page, kind: Kind, asked: Asked) -> Response:
    """The page with the diff of what a form asks for. Raises LimbicError where it cannot be done,
    but for want of embedding, which the page says."""
    try:
        return await _page(here, kind, asked, await done(here, asked))
    except (NotEmbedded, *LATER) as error:
        return await _again(here, kind, asked, error)


async def _again(here: Page, kind: Kind, asked: Asked, error: LimbicError) -> Response:
    """The diff as it is now, and why that which was approved was not done."""
    embed = asked.embed and not isinstance(error, NotEmbedded)
    now = Asked(asked.name, asked.arguments, True, None, asked.insight, embed, asked.back)
    try:
        action = await done(here, now)
    except LimbicError as other:
        return await _page(here, kind, now, None, other)
    except sqlite3.OperationalError as other:
        if not connection.is_locked(other):
            raise
        # a writer that keeps readers out as well: all that was asked for is on the page
        return await _page(here, kind, now, None, error)
    return await _page(here, kind, now, action, error)


async def _page(
    here: Page, kind: Kind, asked: Asked, action: Action | None, error: LimbicError | None = None
) -> Response:
    data: dict[str, Any] = {
        "title": _(kind.title),
        "_yes": _(kind.done),
        "_action": kind.name,
        "_error": str(error) if error else None,
        "_again": action is not None and error is not None,
        "_later": isinstance(error, LATER),
        "_return": asked.back,
        "_insight": asked.insight,
        "_embed": asked.embed,
        "answer": None,
        **_editor(here, asked, action),
    }
    if action is not None:
        answer = data["answer"] = plain(action.answer)
        diff, names = await here.read(lambda conn: described(conn, answer["diff"]))
        data["_diff"] = diff_display.shown(here, diff, names)
        data["_search"] = diff_display.search_words(action)
        data["_why_not"] = await writable.why_not(here)
    html = await render(here.datasette, here.request, "limbic_action.html", here, data)
    return Response.html(html, status=error.status if error else 200)


def _editor(here: Page, asked: Asked, action: Action | None) -> dict[str, Any]:
    """Where what is asked for can be edited, and what of it: a split has a page for that."""
    arguments = asked.arguments if action is None else plain(action.answer)["arguments"]
    entity = arguments.get("entity")
    url = here.url(f"/split/{entity}") if asked.name == "split" and type(entity) is int else None
    return {"_edit_url": url, "_edited": arguments}


acting_view = by_method(
    "with the arguments of the action as JSON",
    POST=checked(_act, TABLES, wants_json=lambda request: not posting.is_form(request)),
)
