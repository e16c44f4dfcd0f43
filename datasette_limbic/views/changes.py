"""The log of changes, and one change of it with the way to undo it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from datasette.utils import tilde_decode

from ..actions import log
from ..actions.kinds import KINDS
from ..errors import UnknownChange
from ..reports.entities import typed
from . import acting_form, diff_display
from .common import SCRIPT, Page, page, whole_number
from .tabs import CHANGES_TABLES

FILTERS = ("entity", "action", "actor")


async def _changes(here: Page) -> tuple[str, dict[str, Any]]:
    turned = here.whole("page", 1)
    entity, action, actor = (here.given.get(name) for name in FILTERS)
    data = await here.read(
        lambda conn: log.changes_log(
            conn,
            entity=entity and typed(conn, entity),
            action=action,
            actor=actor,
            page=turned,
        )
    )
    if here.as_json:
        return "limbic_changes.html", data
    for change in data["changes"]:
        change["_url"] = here.url(f"/changes/{change['id']}")
        _decorate(here, change)
    kept = {name: here.given[name] for name in FILTERS if name in here.given}
    data["_filtered"] = bool(kept)
    data["_actions"] = [
        {"value": row["action"], "title": _title(row["action"]), "count": row["count"]}
        for row in data["actions"]
    ]
    before, after = min(turned - 1, data["pages"]), turned + 1
    data["_before"] = "?" + urlencode({**kept, "page": before}) if before else None
    data["_after"] = "?" + urlencode({**kept, "page": after}) if after <= data["pages"] else None
    return "limbic_changes.html", data


async def _change(here: Page) -> tuple[str, dict[str, Any]]:
    given = here.request.url_vars["id"]
    wanted = whole_number(given)
    if wanted is None:
        shown = tilde_decode(given)[:60]
        raise UnknownChange(f"{shown!r} is no number of a change: see {here.url('/changes')}")
    data = await here.read(lambda conn: log.change_detail(conn, wanted))
    if here.as_json:
        return "limbic_change.html", data
    change = data["change"]
    _decorate(here, change)
    data["_diff"] = diff_display.shown(here, data["diff"], data["names"])
    data["_script_url"] = here.datasette.urls.static_plugins("datasette-limbic", SCRIPT)
    data["_done"] = here.given.get("done") == "1"
    asked = here.args.get("return")
    data["_back"] = None if asked is None else acting_form.back(here, asked)
    data["_return"] = f"/changes/{change['id']}"
    return "limbic_change.html", data


def _decorate(here: Page, change: dict[str, Any]) -> None:
    entity = change["entity"]
    entity["_url"] = here.url(f"/entity/{entity['id']}") if entity["is_there"] else None
    change["_named"] = entity["name"] is not None
    for name in ("undoes", "undone_by"):
        number = change[name]
        change[f"_{name}_url"] = None if number is None else here.url(f"/changes/{number}")


def _title(action: str) -> str:
    kind = KINDS.get(action)
    return kind.title if kind else action


changes_page = page(_changes, CHANGES_TABLES, takes=(*FILTERS, "page"))
change_page = page(_change, CHANGES_TABLES, takes=("done", "return"))
