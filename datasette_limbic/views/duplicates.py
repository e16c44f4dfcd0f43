"""Duplicates of one entity, kept or compared as the page is read, and of the whole memory."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

from datasette.utils import tilde_decode

from .. import compat
from ..answers import plain
from ..errors import UnknownEntity
from ..i18n import gettext as _
from ..reports.queries import views_there
from ..reports.similar import LISTS, Alike, Asked, answer, compare, read_alike
from ..reports.similar_graph import find_duplicates
from ..schema import REPORTED_TABLES
from . import duplicates_display as display
from . import merge_form as merging
from .common import Page, page, whole_number
from .display import named
from .working import WORKER

FEW = 200
"""Observations that are compared within a tenth of a second."""
VIEW = "limbic_similar_observations"
_THRESHOLDS = ("threshold", "containment_threshold", "look")


async def _entity(here: Page) -> tuple[str, dict[str, Any]]:
    given = here.request.url_vars["entity"]
    wanted = whole_number(given)
    if wanted is None:
        shown = tilde_decode(given)[:60]
        raise UnknownEntity(f"{shown!r} is no entity id: search for the name instead")
    turned = here.whole("page", 1)
    thresholds = {name: here.given.get(name) for name in _THRESHOLDS}
    asked = await here.db.execute_fn(
        lambda conn: read_alike(conn, wanted, **thresholds, fresh=False, settings=here.settings)
    )
    alike = await _compared(here, asked)
    data = plain(answer(asked, alike, turned))
    if here.as_json:
        return "limbic_duplicates.html", data
    shown = [(pair, kind) for name, kind in LISTS.items() for pair in data[name]]
    await asyncio.to_thread(display.decorate, shown)
    display.decorate_clusters(data)
    data["_given"] = any(thresholds.values())
    # by other thresholds than those of the memory none would be merged
    if not data["_given"] and data["entity"]["archived_at"] is None:
        await asyncio.to_thread(merging.decorate, data, asked, alike)
    data["_entity_url"] = here.url(f"/entity/{wanted}")
    data["_form_url"] = here.url(f"/duplicates/{wanted}")
    data["_all_url"] = here.url("/duplicates")
    data["_table_url"] = await _table_url(here, {"entity_id": wanted})
    _turn(here, data, _THRESHOLDS)
    return "limbic_duplicates.html", data


async def _compared(here: Page, asked: Asked) -> Alike:
    """The pairs: at once where they are kept or few texts are to be compared, else in turn."""
    if asked.kept is not None or asked.count <= FEW:
        return await asyncio.to_thread(compare, asked)
    digest = await asyncio.to_thread(lambda: asked.digest)
    key = ("duplicates", here.db.name, asked.entity["id"], digest)
    return await WORKER.run(key, compare, asked)


async def _all(here: Page) -> tuple[str, dict[str, Any]]:
    turned = here.whole("page", 1)
    kind = here.given.get("kind")
    data = await here.read(
        lambda conn: find_duplicates(
            conn, kind=kind, fresh=False, page=turned, settings=here.settings
        )
    )
    if here.as_json:
        return "limbic_duplicates_all.html", data
    pairs = data["pairs"] or []
    await asyncio.to_thread(display.decorate, [(pair, pair["kind"]) for pair in pairs])
    for pair in pairs:
        pair["_kind"] = _(display.KIND[pair["kind"]])
        pair["_url"] = here.url(f"/duplicates/{pair['entity']['id']}")
    data["_kinds"] = [
        {
            "title": _(title),
            "count": None if data["counts"] is None else data["counts"][key],
            "url": here.url("/duplicates?") + urlencode({"kind": key}),
            "current": key == kind,
        }
        for key, title in display.KINDS.items()
    ]
    data["_unfiltered_url"] = here.url("/duplicates")
    for group in (data["across_entities"] or {"groups": []})["groups"]:
        group["_text"] = display.cut(group["content"])
        group["_more"] = group["observations"] - len(group["members"])
    for group in data["name_clashes"]["groups"]:
        group["_more"] = group["entities"] - len(group["members"])
        group["_live"] = [m for m in group["members"] if m["archived_at"] is None]
        group["_hint"] = named(group["members"][0]["name"], group["members"][0]["id"], 60)
    data["_table_url"] = None
    if data["pairs"] is not None:
        data["_table_url"] = await _table_url(here, {"kind": kind} if kind else {})
    _turn(here, data, ("kind",))
    return "limbic_duplicates_all.html", data


entity_duplicates_page = page(_entity, REPORTED_TABLES, takes=(*_THRESHOLDS, "page"))
duplicates_page = page(_all, REPORTED_TABLES, takes=("kind", "page"))


async def _table_url(here: Page, filters: dict[str, Any]) -> str | None:
    """Datasette's own page on the kept pairs, for facets and CSV; None where there is none."""
    if VIEW not in await here.db.execute_fn(views_there) or not await compat.may_view(
        here.datasette, here.request.actor, here.db.name, (VIEW,)
    ):
        return None
    url = str(here.datasette.urls.table(here.db.name, VIEW))
    return f"{url}?{urlencode({**filters, '_facet': 'rule'})}"


def _turn(here: Page, data: dict[str, Any], names: tuple[str, ...]) -> None:
    """URLs of the pages before and after this one, None where there is none."""
    kept = {name: here.given[name] for name in names if name in here.given}
    before, after = min(data["page"] - 1, data["pages"]), data["page"] + 1
    data["_before"] = "?" + urlencode({**kept, "page": before}) if before else None
    data["_after"] = "?" + urlencode({**kept, "page": after}) if after <= data["pages"] else None
