"""``open_nodes`` over HTTP: entities whole, by name or id, recorded as opened."""

from __future__ import annotations

from typing import Any

from datasette import Response
from datasette.utils.sqlite import sqlite3

from .. import compat, config, connection, permissions, recorder, schema, search_log, serving
from ..answers import plain, public
from ..errors import BadParameter, UnknownSearch
from . import posting, writable
from .common import Page, by_method, checked, json_response

EXAMPLE = '{"names": ["…"]}'
BODY = ("names", "ids", "search_id", "client", "wait")


async def _open(here: Page) -> Response:
    """The named entities whole, each as its own page has it, and what is not there by name."""
    given = await posting.body(here, BODY, EXAMPLE)
    names = _list("names", given.get("names"), str)
    ids = _list("ids", given.get("ids"), int)
    client = serving.client_name(given.get("client"))
    wait = config.flag("wait", given.get("wait", False))
    search_id = posting.search_id(given.get("search_id"))
    reason = await writable.why_not(here, permissions.RECORD)
    access_log = await compat.may_view(
        here.datasette, here.request.actor, here.db.name, (schema.ACCESS_LOG,)
    )
    waiting = recorder.recorder_for(here.db).candidates(search_id) if search_id else None
    missing = None
    if search_id and waiting is None and reason is None:
        missing = await _missing(here, search_id)
    logged = search_id if reason is None and missing is None else None
    answer, entry = await here.db.execute_fn(
        lambda conn: serving.serve_open(
            conn,
            names,
            ids=ids,
            settings=here.settings,
            search_id=logged,
            candidates=waiting,
            client=client,
            actor=posting.actor_id(here),
            access_log=access_log,
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
    except sqlite3.Error as error:  # the answer needs no log: a file from before it has none
        return connection.unwritten(here.db.name, error)
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


open_view = by_method(
    f"with {EXAMPLE}", POST=checked(_open, schema.SEARCHED_TABLES, wants_json=lambda _: True)
)
