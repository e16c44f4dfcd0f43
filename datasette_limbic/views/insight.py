"""One decision of the review queue: why it was raised, and exactly what a yes would change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from datasette import Response
from datasette.utils import tilde_decode

from ..actions import changes
from ..actions.described import described
from ..actions.kinds import KINDS
from ..answers import public
from ..errors import (
    BadParameter,
    LimbicError,
    NotAllowed,
    NotAMemory,
    NotEmbedded,
    StaleProposal,
    UnknownInsight,
)
from ..i18n import gettext as _
from ..insights import queue
from ..insights.approving import Approval, approval
from ..insights.deciding import Decision, as_it_stands
from . import acting, diff_display, judging, posting, review_display, writable
from .common import SCRIPT, Page, by_method, checked, json_response, page, render
from .common import whole_number as whole
from .judging import CHOICES, Judgement
from .tabs import REVIEW_TABLES

TEMPLATE = "limbic_insight.html"
SAYS = ("done", "judged")
"""Of what was done just before: the number of a change, or the id of a finding."""


async def _insight(here: Page) -> tuple[str, dict[str, Any]]:
    chosen = judging.of_fields(here.given)
    return TEMPLATE, await _data(here, _id(here), chosen)


async def _data(here: Page, number: int, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What ``deciding.as_it_stands`` says, with the answer of a dry run of approving it."""
    found = await here.read(lambda conn: queue.found(conn, number))
    decision: Decision | None = None
    refused: LimbicError | None = None
    if found["status"] == "pending":
        decision, refused = await _proposal(here, approval(found, chosen), chosen, number)
    action = decision.action if decision else None
    would = decision.would if decision else None
    data: dict[str, Any] = await here.read(
        lambda conn: as_it_stands(
            conn,
            number,
            would=would,
            answer=action.answer if action else None,
            refused=str(refused) if refused else None,
        )
    )
    if here.as_json:
        return data
    data["_embed"] = decision is None or decision.embeds
    data["_carried"] = _carried(would, data["answer"])
    data["_notes_alone"] = would is not None and would.action is None
    data["_yes"] = _(KINDS[would.action].done) if would and would.action else None
    if action is not None:
        diff, names = await here.read(lambda conn: described(conn, _beside(data["answer"]["diff"])))
        data["_diff"] = diff_display.shown(here, diff, names)
        data["_search"] = diff_display.search_words(action)
    data["_why_not"] = await writable.why_not(here)
    data["_said"] = await said(here)
    await asyncio.to_thread(review_display.decorate, here, data)
    data["_script_url"] = here.datasette.urls.static_plugins("datasette-limbic", SCRIPT)
    return data


async def _proposal(
    here: Page, would: Approval, chosen: Mapping[str, Any], number: int
) -> tuple[Decision, LimbicError | None]:
    """Approving it, as far as it was read; where it is refused, why."""
    for embed in (True, False):
        decision = Judgement("approve", chosen, embed=embed).of(here, number)
        decision.would = would  # what may be chosen is shown where it is refused too
        try:
            await judging.fill(here, decision)
            await here.db.execute_fn(decision.read)
        except NotEmbedded:
            continue  # a person may want it all the same, and sync later
        except NotAMemory:
            raise
        except LimbicError as error:
            decision.action = None
            return decision, error
        return decision, None
    raise AssertionError("without embedding nothing is embedded")


def _beside(diff: dict[str, Any]) -> dict[str, Any]:
    """A diff in which the finding itself is only counted: that it is approved is no news here."""
    return {
        key: [each for each in value if each["table"] != "limbic_insights"]
        if key in ("rows", "left_out")
        else value
        for key, value in diff.items()
    }


def _carried(would: Approval | None, answer: dict[str, Any] | None) -> dict[str, Any]:
    """What the form gives back, so that what is approved is what was shown."""
    if would is None:
        return {}
    carried = dict(would.chosen)
    if "children" in carried and answer is not None:
        carried["children"] = answer["arguments"]["children"]
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
    posting.require_json(here, judging.EXAMPLE)
    given = await posting.body(here, judging.KEYS, judging.EXAMPLE)
    done = await judging.judge(here, number, judging.of_json(given))
    return json_response(here.datasette, public(done))


async def _of_form(here: Page, number: int) -> Response:
    """To the next decision; the page again where it was not done, with the reason."""
    pairs = await posting.fields(here, judging.EXAMPLE)
    await acting.must(here)
    asked = await posting.apart(sum(len(v) for _, v in pairs), judging.of_form, pairs)
    if asked.decision == judging.SHOW or (asked.decision == "approve" and asked.chosen_since):
        return Response.redirect(_url(here, number, asked), 303)
    try:
        done = await judging.judge(here, number, asked)
    except (NotAMemory, NotAllowed, UnknownInsight):
        raise
    except LimbicError as error:
        return await _again(here, number, asked, error)
    answer = done["answer"]
    just = {"judged": number} if answer is None else {"done": answer["change"]}
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
    data["_note"] = asked.note
    # of a POST there is no JSON
    data["_return"] = f"/review/{number}"
    html = await render(here.datasette, here.request, TEMPLATE, here, data)
    return Response.html(html, status=error.status)


insight_view = by_method(
    f"with {judging.EXAMPLE}",
    GET=page(_insight, REVIEW_TABLES, takes=(*CHOICES, *SAYS)),
    POST=checked(_judge, REVIEW_TABLES, wants_json=lambda r: not posting.is_form(r)),
)
