"""How one entity could be split: the analysis, what would go where, and a form to change that.

Looking changes nothing, and neither does the form: it leads to the diff, on which a person says
yes (``acting``). What a browser sends here comes back as the form, with all that was edited, or as
the diff.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlencode

from datasette import Response
from datasette.utils import tilde_decode
from datasette.utils.sqlite import sqlite3

from ..actions import basis, splitting
from ..actions.acting import MAX_SAID
from ..config import Settings
from ..errors import (
    BadParameter,
    LimbicError,
    NotAllowed,
    NotAMemory,
    StaleProposal,
    UnknownEntity,
)
from ..i18n import gettext as _
from ..i18n import marked
from ..reports.split_proposal import STAYS, proposal
from ..reports.split_subject import Subject, read_subject
from ..topics import MIN_TOPIC_SIZE
from . import acting, posting, split_form
from .common import Page, by_method, checked, page, render, whole_number
from .split_form import Sent
from .working import WORKER
from .writable import may_edit

TEMPLATE = "limbic_split.html"
# What the page reads; the relations it shows are not there yet.
TABLES = ("entities", "observations", "limbic_settings")
TAKES = ("insight", "by_hand")
SHOWN = 200
"""Observations shown of each list; the JSON has them all."""
# verdict → heading, and the colour of its sentence
HEADINGS = {
    "split": (marked("Worth splitting"), "limbic-warn"),
    "approaching": (marked("Near its threshold"), ""),
    "too_few": (marked("Too small to split"), "limbic-good"),
    "one_subject": (marked("One subject"), "limbic-good"),
    "loose": (marked("Topics overlap"), "limbic-good"),
    "identical": (marked("All the same"), "limbic-warn"),
    "no_words": (marked("No words to go by"), ""),
    "empty": (marked("Nothing in it"), ""),
    "archived": (marked("Not in use"), ""),
}


@dataclass(frozen=True)
class _Seen:
    """An entity at one moment, and what a proposal of that moment is told by."""

    subject: Subject
    basis: basis.Basis

    @property
    def ids(self) -> set[int]:
        """Of all of its observations, those that ended among them."""
        return {int(i) for owned in self.basis.members.values() for i in owned}


async def _split_page(here: Page) -> tuple[str, dict[str, Any]]:
    insight = _insight(here)
    seen, data = await _proposal(here, _id(here))
    by_hand = here.given.get("by_hand") == "1"
    await _decorate(here, data, seen, insight=insight, by_hand=by_hand)
    return TEMPLATE, data


async def _edited(here: Page) -> Response:
    """The form with what was edited, or the diff of it."""
    wanted = _id(here)
    if not posting.is_form(here.request):
        raise BadParameter(
            f"this takes the form of its page: send JSON to {here.url('/actions/split')}, with the "
            "arguments and the basis of this address as JSON"
        )
    pairs = await posting.fields(here, "the fields of the form")
    await acting.must(here)
    length = sum(len(value) for _, value in pairs)
    sent = await posting.apart(length, split_form.read, here, wanted, pairs)
    seen, data = await _proposal(here, wanted)
    error: LimbicError | None = None
    if sent.wants_diff:
        try:
            _refuse_stale(sent, seen)
            return await acting.looked(here, split_form.KIND, split_form.wanted(wanted, sent))
        except (NotAMemory, NotAllowed, UnknownEntity):
            raise
        except LimbicError as found:
            error = found
    await _decorate(here, data, seen, insight=sent.asked.insight, by_hand=True, sent=sent)
    data["_error"] = str(error) if error else None
    html = await render(here.datasette, here.request, TEMPLATE, here, data)
    return Response.html(html, status=error.status if error else 200)


def _refuse_stale(sent: Sent, seen: _Seen) -> None:
    """Before the split is looked at, which would name one observation that went and no more.

    Raises StaleProposal, saying what changed.
    """
    if sent.asked.basis is None:
        return
    changed = seen.basis.changes_since(basis.read(sent.asked.basis))
    if changed:
        raise StaleProposal(
            "the entity is not as it was when this page was shown: "
            f"{'; '.join(changed[:MAX_SAID])}. Look at it again"
        )


async def _proposal(here: Page, wanted: int) -> tuple[_Seen, dict[str, Any]]:
    """The proposal, with ``arguments`` and ``basis`` as ``actions/split`` takes them."""
    seen = await here.db.execute_fn(lambda conn: _read(conn, wanted, here.settings))
    key = await asyncio.to_thread(_key, here, seen.subject)
    data = {**await WORKER.run(key, proposal, seen.subject)}
    data["arguments"] = splitting.given(data)
    data["basis"] = seen.basis.token()
    return seen, data


def _read(conn: sqlite3.Connection, wanted: int, settings: Settings) -> _Seen:
    ours = not conn.in_transaction
    if ours:
        conn.execute("begin")
    try:
        subject = read_subject(conn, wanted, settings=settings)
        return _Seen(subject, splitting.seen(conn, subject.id))
    finally:
        if ours:
            conn.rollback()


async def _decorate(
    here: Page,
    data: dict[str, Any],
    seen: _Seen,
    *,
    insight: int | None,
    by_hand: bool,
    sent: Sent | None = None,
) -> None:
    """What the template shows besides: lists to read, or a form for who may edit."""
    heading, data["_tone"] = HEADINGS[data["verdict"]]
    data["_heading"] = _(heading)
    data["_back"] = _back(data["id"], insight, sent)
    data["_insight"] = insight
    data["_post_url"] = here.url(f"/split/{data['id']}")
    data["_error"] = data["_form"] = None
    data["_drafted"] = sent is not None
    ids = seen.ids
    can = data["archived_at"] is None and len(ids) > 1
    data["_by_hand"] = can and not data["children"]
    asked = {"by_hand": 1} if data["_by_hand"] else {}
    asked |= {} if insight is None else {"insight": insight}
    data["_again_url"] = data["_post_url"] + (f"?{urlencode(asked)}" if asked else "")
    wanted = can and (data["children"] or by_hand) and not here.as_json
    if wanted and await may_edit(here.datasette, here.request.actor, here.db):
        children, turned = (sent.children, sent.page) if sent else (None, 1)
        data["_form"] = split_form.shown(data, children, ids, turned)
        return
    data["_children"] = [
        {**child, **_cut(here, child["observations"])} for child in data["children"]
    ]
    data["_stays"] = [
        {"why": _stays_since(code, why), "size": len(rows), **_cut(here, rows)}
        for code, why in STAYS.items()
        if (rows := [row for row in data["stays"] if row["reason"] == code])
    ]


def _stays_since(code: str, why: str) -> str:
    """Why observations stay, as a heading."""
    if code == "small_group":
        found = _("its group is too small: fewer than %(count)s are firmly of its topic")
        found %= {"count": MIN_TOPIC_SIZE}
    else:
        found = _(why)
    return found[:1].upper() + found[1:]


def _back(entity: int, insight: int | None, sent: Sent | None) -> str:
    """Where the diff leads back to, and what was done then too."""
    if sent is not None and sent.asked.back:
        return sent.asked.back
    return f"/entity/{entity}" if insight is None else f"/review/{insight}"


def _id(here: Page) -> int:
    given = here.request.url_vars["entity"]
    wanted = whole_number(given)
    if wanted is None:
        shown = tilde_decode(given)[:60]
        raise UnknownEntity(f"{shown!r} is no entity id: search for the name instead")
    return wanted


def _insight(here: Page) -> int | None:
    """The finding of the review queue that a split would answer."""
    given = here.given.get("insight")
    found = None if given is None else whole_number(given)
    if given is not None and found is None:
        raise BadParameter(f"insight is {given!r:.40}: use the id of a finding")
    return found


def _key(here: Page, subject: Subject) -> tuple[Any, ...]:
    """Equal where a proposal would be: of all that it is made from."""
    found = hashlib.sha256()
    vectors = subject.vectors
    if vectors is not None:
        found.update(vectors.tobytes())
    for field in fields(subject):
        if field.name != "vectors":
            found.update(repr(getattr(subject, field.name)).encode("utf-8", "surrogatepass"))
    return "split", here.db.name, subject.id, found.digest()


def _cut(here: Page, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """As many as are shown, each with the address of its row, and how many more there are."""
    urls = here.datasette.urls
    return {
        "observations": [
            {**row, "url": str(urls.row(here.db.name, "observations", str(row["id"])))}
            for row in rows[:SHOWN]
        ],
        "more": max(0, len(rows) - SHOWN),
    }


split_page = by_method(
    "with the form of the page",
    GET=page(_split_page, TABLES, takes=TAKES),
    POST=checked(_edited, acting.TABLES, wants_json=lambda r: not posting.is_form(r)),
)
