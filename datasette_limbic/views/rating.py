"""Rating on the search page: what the page carries along for it, and what it shows of it.

Looking leaves no trace, and afterwards nobody can rank as the page did, since use goes on. So a
page carries its search itself, signed, and the first rating logs exactly what was shown.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode

from datasette.utils.sqlite import sqlite3
from itsdangerous import BadData

from .. import compat, permissions, request, search, search_log
from ..answers import plain
from ..errors import BadParameter
from ..schema import RATED_TABLES
from ..search import Pool
from ..search_log import LoggedSearch
from . import posting, writable
from .common import Page

CLIENT = "page"
# What is signed is read by the version that wrote it: whoever changes it counts this up.
_NAMESPACE = "limbic-rate-1"
# Characters that a page carries along at most, so that all of it stays below 150 kB: less for each
# result beside it. What is longer cannot be rated: a pool of many hundred candidates, or of very
# long names; a usual one takes some 4,000.
MAX_SIGNED = 60_000
_LESS_FOR_EACH = 400
# A signed pool is compressed: one that is far too long is not even tried.
_MAX_NAMES = 2_000_000
# The address of the page, which becomes that of the way back, in a header.
_MAX_ADDRESS = 40_000
STALE = (
    "this page is too old, or was changed on its way here (the server may have been started "
    "again since): search again, then rate"
)


@dataclass(frozen=True)
class Carried:
    """What a page carries along: its search, None where it is logged already, and its address."""

    database: str
    uid: str
    arguments: dict[str, str]
    search: LoggedSearch | None


async def offered(here: Page) -> bool:
    """Whether the visitor may rate results here, and see what was rated."""
    return await writable.why_not(here, permissions.RECORD) is None and await compat.may_view(
        here.datasette, here.request.actor, here.db.name, RATED_TABLES
    )


def form(conn: sqlite3.Connection, here: Page, pool: Pool) -> dict[str, Any] | None:
    """What the search page shows of rating, for whoever may; None where it is too long to carry.

    A page that is asked for with the id of a logged search of the same words goes on rating that
    one, and then only its candidates: ``rateable``. ``rated`` is what was rated in it.
    """
    uid = posting.search_id(here.given.get("search_id"))
    rateable = {row["id"] for row in pool.rows}
    rated: list[dict[str, Any]] = []
    found = None
    if uid is not None and _is_of(conn, uid, pool.request.query):
        rateable &= search_log.candidate_ids(conn, uid)
        rated = search_log.rated(conn, uid)
    else:
        uid = search_log.new_uid()
        found = search_log.logged(
            pool,
            uid=uid,
            policy=search.LIMBIC,
            probability=1.0,
            applied=request.applied_parameters(conn),
            client=CLIENT,
            actor=posting.actor_id(here),
        )
    arguments = {k: v for k, v in here.given.items() if k in request.ARGUMENTS}
    room = MAX_SIGNED - _LESS_FOR_EACH * min(pool.request.limit, len(pool.rows))
    signed = _signed(here, Carried(here.db.name, uid, arguments, found), room)
    if signed is None:
        return None
    return {
        "url": here.url("/feedback"),
        "signed": signed,
        "rateable": rateable,
        "rated": rated,
        "pressed": {row["id"]: row["rating"] for row in rated},
    }


def _is_of(conn: sqlite3.Connection, uid: str, query: str) -> bool:
    return search_log.is_logged(conn, uid) and search_log.search_row(conn, uid)["query"] == query


def _signed(here: Page, page: Carried, room: int) -> str | None:
    if len(urlencode(page.arguments)) > _MAX_ADDRESS:
        return None
    if page.search and sum(len(row[1]) for row in page.search.candidates) > _MAX_NAMES:
        return None
    signed: str = here.datasette.sign(plain(asdict(page)), _NAMESPACE)
    return signed if len(signed) <= room else None


def carried(here: Page, signed: Any) -> Carried:
    """What a page of this memory carried along. Raises BadParameter where it is none of ours."""
    try:
        page = here.datasette.unsign(signed or "", _NAMESPACE)
    except BadData as error:
        raise BadParameter(STALE) from error
    if page["database"] != here.db.name:
        raise BadParameter(f"this page belongs to another memory than {here.db.name!r:.80}")
    found = page.pop("search")
    return Carried(**page, search=search_log.unpacked(found) if found else None)
