"""``POST /reflect``: turn what is kept of the reports into the review queue, now."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from datasette import Response
from datasette.utils.sqlite import sqlite3

from ..answers import plain, public
from ..config import Settings
from ..errors import BadParameter
from ..insights.reflecting import reflect
from . import acting, posting
from .common import Page, by_method, checked, json_response
from .review import LOOKED
from .tabs import REVIEW_TABLES
from .working import WORKER, opened
from .writable import unwritten, written

EXAMPLE = "{}"
WAITS_MS = 5000
"""For another program that writes: as long as Datasette's own connections wait."""


async def _reflect(here: Page) -> Response:
    """What was kept is taken as it is, so that this is quick: ``sync`` looks at what changed."""
    await acting.must(here)
    kinds: Any = None
    as_form = posting.is_form(here.request)
    if as_form:
        await posting.fields(here, EXAMPLE)
    else:
        posting.require_json(here, EXAMPLE)
        kinds = _kinds((await posting.body(here, ("kinds",), EXAMPLE)).get("kinds"))
    found = await _looked(here, kinds)
    if not as_form:
        return json_response(here.datasette, public(plain(found)))
    looked = ".".join(str(found["total"][name]) for name in LOOKED)
    return Response.redirect(f"{here.url('/review')}?{urlencode({'looked': looked})}", 303)


async def _looked(here: Page, kinds: list[str] | None) -> dict[str, Any]:
    """With a connection of its own: a large memory takes seconds, of which only the last part
    keeps others from writing. Raises NotRecorded, and Busy where too much waits already."""
    if here.db.path is None:
        return await written(here, lambda conn: _reflected(conn, kinds, here.settings))
    try:
        return await WORKER.run(None, _apart, here.db.path, kinds, here.settings)
    except sqlite3.Error as error:
        raise unwritten(here, error) from error


def _apart(path: str, kinds: list[str] | None, settings: Settings) -> dict[str, Any]:
    with opened(path, settings, readonly=False) as conn:
        conn.execute(f"pragma busy_timeout = {WAITS_MS}")
        return _reflected(conn, kinds, settings)


def _reflected(
    conn: sqlite3.Connection, kinds: list[str] | None, settings: Settings
) -> dict[str, Any]:
    return reflect(conn, settings=settings, kinds=kinds, keep=False)


def _kinds(asked: Any) -> list[str] | None:
    if asked is None:
        return None
    if not isinstance(asked, list) or not asked or not all(isinstance(k, str) for k in asked):
        raise BadParameter(f"kinds is {asked!r:.60}: use a list of kinds, or leave it out for all")
    return asked


reflect_view = by_method(
    f"with {EXAMPLE}",
    POST=checked(_reflect, REVIEW_TABLES, wants_json=lambda r: not posting.is_form(r)),
)
