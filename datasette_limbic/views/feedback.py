"""Ratings: was this result useful for this search, from clients in JSON and from pages as a form.

A page's search left no trace, so its form carries the search along: the first rating logs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from datasette import Response
from datasette.utils.sqlite import sqlite3

from .. import compat, connection, permissions, recorder, search_log, serving
from ..answers import plain, public
from ..errors import BadParameter, NotRecorded
from ..schema import RATED_TABLES
from . import posting, rating, writable
from .common import Page, by_method, checked, json_response, whole_number

EXAMPLE = '{"search_id": "…", "name": "…", "rating": "useful"}'
NOTHING = "the rating was not recorded"
BODY = ("search_id", "id", "name", "rating", "client")
# ``search`` is what the page carried along, ``rate`` the button: "46:useful".
FORM = ("search", "rate")


@dataclass(frozen=True)
class _Rating:
    uid: str
    entity: int | str
    rating: Any
    client: Any
    page: rating.Carried | None = None


async def _feedback(here: Page) -> Response:
    """Log a rating; answers once it is written."""
    as_form = posting.is_form(here.request)
    given = await posting.body(here, FORM if as_form else BODY, EXAMPLE, form=as_form)
    await writable.require(here, permissions.RECORD, "rating", NOTHING)
    asked = _of_page(here, given) if as_form else _of_client(given)
    done = await _write(here, asked)
    if asked.page is None:
        return json_response(here.datasette, public(plain(done)))
    query = urlencode({**asked.page.arguments, "search_id": asked.uid})
    return Response.redirect(f"{here.url('/search')}?{query}#entity-{done['id']}", 303)


def _of_client(given: dict[str, Any]) -> _Rating:
    uid = posting.search_id(given.get("search_id"))
    if uid is None:
        raise BadParameter("search_id is missing: use the search_id of a recorded search")
    return _Rating(uid, _entity(given), given.get("rating", ""), given.get("client"))


def _entity(given: dict[str, Any]) -> int | str:
    entity, name = given.get("id"), given.get("name")
    if isinstance(entity, int) and not isinstance(entity, bool) and name is None:
        if -(2**63) <= entity < 2**63:
            return entity
    elif isinstance(name, str) and entity is None:
        return name
    raise BadParameter(
        f"which result is rated is not clear (id {given.get('id')!r:.40}, name {name!r:.40}): "
        "give its id, or its name"
    )


def _of_page(here: Page, given: dict[str, Any]) -> _Rating:
    page = rating.carried(here, given.get("search"))
    entity, _, wanted = given.get("rate", "").partition(":")
    number = whole_number(entity, signed=True)
    if number is None:
        raise BadParameter(f"which result is rated is not clear ({entity!r:.40}): search again")
    return _Rating(page.uid, number, wanted, rating.CLIENT, page)


async def _write(here: Page, asked: _Rating) -> dict[str, Any]:
    waiting = recorder.recorder_for(here.db)
    if waiting.is_waiting(asked.uid):
        failed = waiting.failed
        await waiting.drain()
        if waiting.failed > failed and not await _is_logged(here, asked.uid):
            # trying the rating as well would only take as long once more
            raise NotRecorded(
                f"the search could not be recorded ({waiting.last_error}), so it cannot be rated"
            )
    try:
        done = await compat.execute_write(
            here.db,
            lambda conn: serving.rate(
                conn,
                asked.uid,
                asked.entity,
                asked.rating,
                unlogged=asked.page.search if asked.page else None,
                client=asked.client,
                actor=posting.actor_id(here),
            ),
        )
    except sqlite3.Error as error:
        waiting.count(connection.unwritten(here.db.name, error))
        raise writable.unwritten(here, error, NOTHING) from error
    waiting.count()
    return done


async def _is_logged(here: Page, uid: str) -> bool:
    return bool(await here.db.execute_fn(lambda conn: search_log.is_logged(conn, uid)))


feedback_view = by_method(
    f"with {EXAMPLE}",
    POST=checked(_feedback, RATED_TABLES, wants_json=lambda r: not posting.is_form(r)),
)
