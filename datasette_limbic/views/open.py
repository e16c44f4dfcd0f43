"""``open_nodes`` over HTTP: entities whole, by name or id, recorded as opened."""

from __future__ import annotations

from typing import Any

from datasette import Response

from .. import config, recorder, search_log, serving
from ..errors import BadParameter, UnknownSearch
from ..schema import CORE_TABLES
from . import posting
from .common import Page, by_method, checked, json_response, plain, public

BODY = ("names", "ids", "search_id", "client", "wait")


async def _open(here: Page) -> Response:
    """The named entities whole, each as its own page has it, and what is not there by name."""
    given = await posting.body(here, BODY)
    names = _list("names", given.get("names"), str)
    ids = _list("ids", given.get("ids"), int)
    client = serving.client_name(given.get("client"))
    wait = config.flag("wait", given.get("wait", False))
    search_id = posting.search_id(given.get("search_id"))
    reason = await posting.why_not(here)
    waiting = recorder.recorder_for(here.db).candidates(search_id) if search_id else None
    missing = None
    if search_id and waiting is None and reason is None:
        missing = await _missing(here, search_id)
    answer, entry = await here.db.execute_fn(
        lambda conn: serving.serve_open(
            conn,
            names,
            ids=ids,
            settings=here.settings,
            search_id=None if missing else search_id,
            candidates=waiting,
            client=client,
            actor=posting.actor_id(here),
        )
    )
    answer["recorded"] = await posting.record(here, entry, reason, wait)
    answer["recorded"]["reason"] = answer["recorded"]["reason"] or missing
    return json_response(here.datasette, public(plain(answer)))


async def _missing(here: Page, search_id: str) -> str | None:
    """Why nothing can be logged as opened from that search."""
    try:
        await here.db.execute_fn(lambda conn: search_log.search_row(conn, search_id))
    except UnknownSearch as error:
        return str(error)
    return None


def _list(name: str, value: Any, kind: type) -> list[Any]:
    if value is None:
        return []
    wanted = "texts" if kind is str else "whole numbers"
    if not isinstance(value, list):
        raise BadParameter(f"{name} is {value!r:.60}: use a list of {wanted}")
    for each in value:
        if not isinstance(each, kind) or isinstance(each, bool):
            raise BadParameter(f"{name} holds {each!r:.60}: use a list of {wanted}")
        if isinstance(each, int) and not -(2**63) <= each < 2**63:
            raise BadParameter(f"{name} holds {each!s:.60}, which is no id: it is too large")
    return value


open_view = by_method(POST=checked(_open, CORE_TABLES, wants_json=lambda _: True))
