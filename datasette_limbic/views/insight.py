"""One decision of the review queue: why it was raised, and exactly what a yes would change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from datasette import Response
from datasette.utils import tilde_decode

from ..actions import changes
from ..actions.acting import Action
from ..actions.kinds import KINDS
from ..actions.naming import completed
from ..answers import plain, public
from ..errors import (
    BadParameter,
    LimbicError,
    NotAllowed,
    NotAMemory,
    NotEmbedded,
    StaleProposal,
    UnknownInsight,
)
from ..insights import queue
from ..insights.approving import Approval, approval, carried_out
from . import acting, diff_display, judging, posting, review_display
from .common import Page, by_method, checked, json_response, page, render
from .common import whole_number as whole
from .judging import CHOICES, Judgement
from .tabs import REVIEW_TABLES

TEMPLATE = "limbic_insight.html"
SAYS = ("done", "judged")
"""Of what was done just before: the number of a change, or the id of a finding."""
SCRIPT = "limbic_review.js"


async def _insight(here: Page) -> tuple[str, dict[str, Any]]:
    chosen = judging.of_fields(here.given)
    return TEMPLATE, await _data(here, _id(here), chosen)


async def _data(here: Page, number: int, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """``insight`` as ``queue.insight`` gives it; ``proposal``, the answer of a dry run, or None;
    ``refused``, why there is none; ``chosen`` and ``options``, what may be chosen; ``change``,
    what approving it made."""
    found, change = await here.read(
        lambda conn: (queue.insight(conn, number), carried_out(conn, number))
    )
    action: Action | None = None
    refused: LimbicError | None = None
    would: Approval | None = None
    embed = True
    if found["status"] == "pending":
        would = approval(found, chosen)
        if would.action is not None:
            action, refused, embed = await _proposal(here, would, number)
    data: dict[str, Any] = {
        "insight": found,
        "proposal": plain(action.answer) if action else None,
        "refused": str(refused) if refused else None,
        "chosen": dict(would.chosen) if would else {},
        "options": dict(would.options) if would else {},
        "change": change,
    }
    if here.as_json:
        return data
    data["_embed"] = embed
    data["_carried"] = _carried(would, data["proposal"])
    data["_notes_alone"] = would is not None and would.action is None
    data["_yes"] = KINDS[would.action].done if would and would.action else None
    if action is not None:
        diff, names = await here.read(
            lambda conn: completed(conn, _beside(data["proposal"]["diff"]))
        )
        data["_diff"] = diff_display.shown(here, diff, names)
        data["_search"] = diff_display.search_words(action)
    data["_why_not"] = await acting.why_not(here)
    data["_said"] = await said(here)
    await asyncio.to_thread(review_display.decorate, here, data)
    data["_script_url"] = here.datasette.urls.static_plugins("datasette-limbic", SCRIPT)
    return data


async def _proposal(
    here: Page, would: Approval, number: int
) -> tuple[Action | None, LimbicError | None, bool]:
    """A dry run of it; where it is refused, why. Then whether it can be embedded."""
    embed = True
    for _ in range(2):
        asked = judging.act(
            would.action or "", would.arguments, number, Judgement("approve", embed=embed),
            dry_run=True,
        )  # fmt: skip
        try:
            return await acting.done(here, asked), None, embed
        except NotEmbedded:
            embed = False  # a person may want it all the same, and sync later
        except NotAMemory:
            raise
        except LimbicError as error:
            return None, error, embed
    raise AssertionError("without embedding nothing is embedded")


def _beside(diff: dict[str, Any]) -> dict[str, Any]:
    """A diff in which the finding itself is only counted: that it is approved is no news here."""
    return {**diff, "rows": [row for row in diff["rows"] if row["table"] != "limbic_insights"]}


def _carried(would: Approval | None, proposal: dict[str, Any] | None) -> dict[str, Any]:
    """What the form gives back, so that what is approved is what was shown."""
    if would is None:
        return {}
    carried = dict(would.chosen)
    if "children" in carried and proposal is not None:
        carried["children"] = proposal["arguments"]["children"]
    return carried


async def said(here: Page) -> dict[str, Any] | None:
    """What was done just before, read from what was written: a URL says only where."""
    change, judged = (whole(here.given.get(name, "")) for name in SAYS)
    try:
        if change is not None:
            row = await here.read(lambda conn: changes.read(conn, change).row)
            return {"change": row, "url": here.url(f"/changes/{change}")}
        if judged is not None:
            return {"insight": await here.read(lambda conn: queue.insight(conn, judged))}
    except LimbicError:
        return None  # it is there no more, and the page is about another one
    return None


def _id(here: Page) -> int:
    given = here.request.url_vars["id"]
    found = whole(given)
    if found is None:
        shown = tilde_decode(given)[:60]
        raise UnknownInsight(f"{shown!r} is no id of a finding: see {here.url('/review')}")
    return found


# what a POST does ---------------------------------------------------------------------------


async def _judge(here: Page) -> Response:
    number = _id(here)
    if posting.is_form(here.request):
        return await _of_form(here, number)
    judging.require_json(here, judging.EXAMPLE)
    given = await posting.body(here, judging.KEYS, judging.EXAMPLE)
    done = await judging.judge(here, number, judging.of_json(given))
    return json_response(here.datasette, public(done))


async def _of_form(here: Page, number: int) -> Response:
    """To the next decision; the page again where it was not done, with the reason."""
    pairs = await posting.fields(here, judging.EXAMPLE)
    asked = judging.of_form(pairs)
    if asked.decision == judging.SHOW or (asked.decision == "approve" and asked.chosen_since):
        await acting.must(here)
        return Response.redirect(_url(here, number, asked), 303)
    try:
        done = await judging.judge(here, number, asked)
    except (NotAMemory, NotAllowed, UnknownInsight):
        raise
    except LimbicError as error:
        return await _again(here, number, asked, error)
    just = {"done": done["change"]} if done["change"] is not None else {"judged": number}
    following = number if asked.decision == "reopen" else done["next"]
    path = "/review" if following is None else f"/review/{following}"
    return Response.redirect(f"{here.url(path)}?{urlencode(just)}", 303)


def _url(here: Page, number: int, asked: Judgement) -> str:
    """The page with what was chosen, which shows what that would change."""
    kept = {n: v for n, v in asked.arguments.items() if n in CHOICES and v is not None}
    return here.url(f"/review/{number}?{urlencode(kept)}#limbic-would")


async def _again(here: Page, number: int, asked: Judgement, error: LimbicError) -> Response:
    """The page as it is now, and why that which was asked for was not done."""
    chosen = {name: value for name, value in asked.arguments.items() if name != "children"}
    if not isinstance(error, StaleProposal):
        chosen = dict(asked.arguments)
    try:
        data = await _data(here, number, chosen)
    except BadParameter:
        data = await _data(here, number, {})
    data["_error"] = str(error)
    # of a POST there is no JSON
    data["_return"] = f"/review/{number}"
    html = await render(here.datasette, here.request, TEMPLATE, here, data)
    return Response.html(html, status=error.status)


insight_view = by_method(
    f"with {judging.EXAMPLE}",
    GET=page(_insight, REVIEW_TABLES, takes=(*CHOICES, *SAYS)),
    POST=checked(_judge, REVIEW_TABLES, wants_json=lambda r: not posting.is_form(r)),
)
