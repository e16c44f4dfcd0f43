"""Duplicates of one entity, compared as the page is read, and of the whole memory, as kept."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from datasette.utils import tilde_decode

from .. import compat
from ..errors import UnknownEntity
from ..reports.similar import LISTS, find_duplicate_observations
from ..reports.similar_graph import find_duplicates
from ..schema import REPORTED_TABLES
from . import duplicates_display as display
from .common import Page, page, whole_number

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
    data = await here.read(
        lambda conn: find_duplicate_observations(
            conn,
            wanted,
            thresholds["threshold"],
            thresholds["containment_threshold"],
            look=thresholds["look"],
            page=turned,
            settings=here.settings,
        )
    )
    if here.as_json:
        return "limbic_duplicates.html", data
    for name, kind in LISTS.items():
        for pair in data[name]:
            display.decorate(pair, kind)
    display.decorate_clusters(data)
    data["_given"] = any(thresholds.values())
    data["_entity_url"] = here.url(f"/entity/{wanted}")
    data["_all_url"] = here.url("/duplicates")
    data["_table_url"] = await _table_url(here, {"entity_id": wanted})
    _turn(here, data, _THRESHOLDS)
    return "limbic_duplicates.html", data


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
    for pair in data["pairs"] or []:
        display.decorate(pair, pair["kind"])
        pair["_kind"] = display.KIND[pair["kind"]]
        pair["_url"] = here.url(f"/duplicates/{pair['entity']['id']}")
    data["_kinds"] = [
        {
            "title": title,
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
    data["_table_url"] = None
    if data["pairs"] is not None:
        data["_table_url"] = await _table_url(here, {"kind": kind} if kind else {})
    _turn(here, data, ("kind",))
    return "limbic_duplicates_all.html", data


entity_duplicates_page = page(_entity, REPORTED_TABLES)
duplicates_page = page(_all, REPORTED_TABLES)


async def _table_url(here: Page, filters: dict[str, Any]) -> str | None:
    """Datasette's own page on the kept pairs, for facets and CSV; None where there is none."""
    if not await here.db.execute_fn(_has_view) or not await compat.may_view(
        here.datasette, here.request.actor, here.db.name, (VIEW,)
    ):
        return None
    url = str(here.datasette.urls.table(here.db.name, VIEW))
    return f"{url}?{urlencode({**filters, '_facet': 'rule'})}"


def _has_view(conn: Any) -> bool:
    found = conn.execute("select 1 from sqlite_master where type = 'view' and name = ?", [VIEW])
    return found.fetchone() is not None


def _turn(here: Page, data: dict[str, Any], names: tuple[str, ...]) -> None:
    """URLs of the pages before and after this one, None where there is none."""
    kept = {name: here.given[name] for name in names if name in here.given}
    before, after = min(data["page"] - 1, data["pages"]), data["page"] + 1
    data["_before"] = "?" + urlencode({**kept, "page": before}) if before else None
    data["_after"] = "?" + urlencode({**kept, "page": after}) if after <= data["pages"] else None
