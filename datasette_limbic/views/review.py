"""The review queue: what the reports propose, for a person to decide one after another."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from ..errors import UnknownEntity
from ..i18n import counting, marked
from ..i18n import gettext as _
from ..insights.queue import STATUSES
from ..insights.standing import standing
from ..reports.entities import typed
from . import insight, review_display, writable
from .common import SCRIPT, Page, page
from .tabs import REVIEW_TABLES

ALL = marked("all")
FILTERS = ("kind", "status", "entity")
_LOOKED = re.compile(r"\d{1,9}(?:\.\d{1,9}){3}", re.ASCII)
LOOKED = ("added", "raised_again", "refreshed", "withdrawn")
"""What looking again did, in the order of the argument ``looked``."""


async def _review(here: Page) -> tuple[str, dict[str, Any]]:
    turned = here.whole("page", 1)
    status = here.given.get("status", STATUSES[0])
    kind, entity = here.given.get("kind"), here.given.get("entity")
    asked: dict[str, Any] = {"status": None if status == ALL else status, "kind": kind}
    data: dict[str, Any]
    missing = None
    try:
        data = await here.read(
            lambda conn: standing(conn, **asked, entity=entity and typed(conn, entity), page=turned)
        )
    except UnknownEntity as error:
        if here.as_json:
            raise
        # the filter stays on the page, to be put right
        missing = str(error)
        data = await here.read(lambda conn: standing(conn, **asked, page=turned))
        data.update(insights=[], count=0, pages=1, first=None)
    if here.as_json:
        return "limbic_review.html", data
    for row in data["insights"]:
        row["_url"] = here.url(f"/review/{row['id']}")
        row["_kind"] = review_display.title(row["kind"])
        about = row["entity"]
        row["_entity_url"] = here.url(f"/entity/{about['id']}") if about else None
    data["_missing"] = missing
    data["_asked"] = {"kind": kind or "", "status": status, "entity": entity or ""}
    data["_filtered"] = any(name in here.given for name in FILTERS)
    data["_kinds"] = _kinds(data, kind)
    data["_statuses"] = (*STATUSES, ALL)
    data["_first_url"] = None if data["first"] is None else here.url(f"/review/{data['first']}")
    data["_looked"] = _looked(here.given.get("looked", ""))
    data["_said"] = await insight.said(here)
    data["_why_not"] = await writable.why_not(here)
    data["_return"] = "/review"
    kept = {name: here.given[name] for name in FILTERS if name in here.given}
    before, after = min(turned - 1, data["pages"]), turned + 1
    data["_before"] = "?" + urlencode({**kept, "page": before}) if before else None
    data["_after"] = "?" + urlencode({**kept, "page": after}) if after <= data["pages"] else None
    data["_script_url"] = here.datasette.urls.static_plugins("datasette-limbic", SCRIPT)
    return "limbic_review.html", data


def _kinds(data: dict[str, Any], kind: str | None) -> list[dict[str, Any]]:
    """Those of the queue with their counts, in its order; that which was asked for among them."""
    counts = dict(data["counts"])
    if kind is not None:
        counts.setdefault(kind, dict.fromkeys(STATUSES, 0))
    return [
        {
            "kind": name,
            "title": review_display.title(name),
            "url": "?" + urlencode({"kind": name}),
            "current": name == kind,
            **of,
        }
        for name, of in counts.items()
    ]


def _looked(text: str) -> str | None:
    """What looking again did, in words; None where the argument says nothing of it."""
    if not _LOOKED.fullmatch(text):
        return None
    new, again, refreshed, withdrawn = map(int, text.split("."))
    counts = (
        new and counting("%(n)s new", "%(n)s new", new),
        again and counting("%(n)s raised again", "%(n)s raised again", again),
        refreshed and counting("%(n)s refreshed", "%(n)s refreshed", refreshed),
        withdrawn and counting("%(n)s withdrawn", "%(n)s withdrawn", withdrawn),
    )
    return ", ".join(each for each in counts if each) or _("nothing is new")


review_page = page(_review, REVIEW_TABLES, takes=(*FILTERS, "page", "looked", *insight.SAYS))
