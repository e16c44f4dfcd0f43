"""Ratings: was this result useful for this search, from clients in JSON and from pages as a form.

A page's search left no trace, so its form carries the search along: the first rating logs it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from datasette import Response
from datasette.utils.sqlite import sqlite3

from .. import compat, permissions, recorder, request, search, search_log, serving
from ..errors import BadParameter, NotAllowed, NotRecorded, NotWritable
from ..request import applied_parameters
from ..schema import CORE_TABLES
from ..search_log import LoggedSearch
from . import posting
from .common import Page, by_method, checked, json_response, plain, public, whole_number

TABLES = (*CORE_TABLES, "limbic_searches", "limbic_search_candidates", "limbic_feedback")
BODY = ("search_id", "id", "name", "rating", "client")
# A form also carries the search itself: its arguments, and in ``at`` the time it reckoned from.
FORM = (*BODY, *request.ARGUMENTS, "at")
PAGE_CLIENT = "page"


async def _feedback(here: Page) -> Response:
    """Log a rating; answers once it is written."""
    as_form = posting.is_form(here.request)
    given = await posting.body(here, FORM if as_form else BODY, form=as_form)
    await _must(here)
    uid = posting.search_id(given.get("search_id"))
    if uid is None:
        raise BadParameter("search_id is missing: use the search_id of a recorded search")
    entity = _entity(given, as_form)
    unlogged = await _search_of(here, uid, given) if as_form else None
    waiting = recorder.recorder_for(here.db)
    if waiting.is_waiting(uid):
        await waiting.drain()
    try:
        done = await compat.execute_write(
            here.db,
            lambda conn: serving.rate(
                conn,
                uid,
                entity,
                given.get("rating", ""),
                unlogged=unlogged,
                client=PAGE_CLIENT if as_form else given.get("client"),
                actor=posting.actor_id(here),
            ),
        )
    except sqlite3.Error as error:
        raise NotRecorded(f"the rating was not recorded: {error}. Send it again") from error
    if not as_form:
        return json_response(here.datasette, public(plain(done)))
    back = {k: v for k, v in given.items() if k in request.ARGUMENTS and v != ""}
    query = urlencode({**back, "search_id": uid})
    return Response.redirect(f"{here.url('/search')}?{query}#entity-{done['id']}", 303)


async def _must(here: Page) -> None:
    if not await compat.may(here.datasette, here.request.actor, permissions.RECORD, here.db.name):
        raise NotAllowed(f"rating needs the permission {permissions.RECORD}")
    reason = posting.unwritable(here.db)
    if reason:
        raise NotWritable(f"the rating was not recorded: {reason}")


def _entity(given: dict[str, Any], as_form: bool) -> int | str:
    entity, name = given.get("id"), given.get("name")
    if as_form and isinstance(entity, str):
        entity = whole_number(entity, signed=True)
    if isinstance(entity, int) and not isinstance(entity, bool) and name is None:
        if -(2**63) <= entity < 2**63:
            return entity
    elif isinstance(name, str) and entity is None:
        return name
    raise BadParameter(
        f"which result is rated is not clear (id {given.get('id')!r:.40}, name {name!r:.40}): "
        "give its id, or its name"
    )


async def _search_of(here: Page, uid: str, given: dict[str, Any]) -> LoggedSearch | None:
    """The page's search, made again as of the time that it showed; None where it is logged."""

    def again(conn: Any) -> LoggedSearch | None:
        if search_log.is_logged(conn, uid):
            return None
        applied = applied_parameters(conn)
        asked = {k: v for k, v in given.items() if k in request.ARGUMENTS}
        asked["now"] = asked.get("now") or given.get("at")
        pool = search.rank(
            conn, request.parse(asked, here.settings, applied), settings=here.settings
        )
        return search_log.logged(
            pool,
            uid=uid,
            policy=search.LIMBIC,
            probability=1.0,
            applied=applied,
            client=PAGE_CLIENT,
            actor=posting.actor_id(here),
        )

    return await here.db.execute_fn(again)  # type: ignore[no-any-return]


feedback_view = by_method(
    POST=checked(_feedback, TABLES, wants_json=lambda r: not posting.is_form(r))
)
