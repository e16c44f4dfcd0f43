"""What wants attention: the consolidation report as a page, from what is kept."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from .. import compat
from ..config import MAX_DAYS
from ..i18n import gettext as _
from ..i18n import marked
from ..reports.consolidation import CENTRAL_DEGREE, LISTS, consolidation_report
from ..reports.lists import MAX_SIZE, SIZE
from ..reports.queries import views_there
from ..schema import REPORTED_TABLES
from .common import Page, page
from .display import named

ARGUMENTS = ("stale_days", "now", "size", "list", "page")
REVIEWS = ("limbic_reviews",)
# list → title, what it is; on the page in this order
TITLES = {
    "contradictions": (
        marked("Contradictions?"),
        marked(
            "Pairs that say nearly the same but for a number, a date, a name or a negation. One of "
            "the two may be out of date."
        ),
    ),
    "flagged_observations": (
        marked("Flagged observations"),
        marked(
            "Like an earlier observation of the same entity; those of the most used entities first."
        ),
    ),
    "split_candidates": (
        marked("Split candidates"),
        marked("Over the threshold of their type, with topics that stand apart."),
    ),
    "approaching": (
        marked("Approaching"),
        marked(
            "From 80 % of the threshold, with topics that stand apart: a split now costs least."
        ),
    ),
    "stale_entities": (
        marked("Stale entities"),
        marked("Not used for long and seldom at all. First those that nothing is linked to."),
    ),
    "large_entities": (
        marked("Large entities"),
        marked("Over the threshold of their type, whatever the topics."),
    ),
}
NOTHING = {
    "contradictions": marked("No two observations contradict each other."),
    "flagged_observations": marked("No observation is flagged."),
    "split_candidates": marked("No entity wants splitting."),
    "approaching": marked("No entity comes near its threshold."),
    "stale_entities": marked("No entity is stale."),
    "large_entities": marked("No entity is over its threshold."),
}
# Datasette's own table page of each list: the rows of the view that belong to it.
_OF_VIEW: dict[str, dict[str, str]] = {
    "contradictions": {"kind": "contradiction"},
    "split_candidates": {"status": "split"},
    "approaching": {"status": "approaching"},
}
_PAIRS = {"duplicates": "duplicate", "worth_a_look": "look"}
_PAIR_VIEW = "limbic_similar_observations"
# how a stale entity stands, as the report has it
# and by which rule two texts are alike
RULES = (marked("exact"), marked("cosine"), marked("containment"), marked("wording"))
STANDINGS = (marked("central"), marked("linked"), marked("unused"))


async def _consolidation(here: Page) -> tuple[str, dict[str, Any]]:
    given = here.given
    size = here.whole("size", SIZE, MAX_SIZE)
    turned = here.whole("page", 1)
    reviews = await _may_view(here, REVIEWS)
    data = await here.read(
        lambda conn: consolidation_report(
            conn,
            given.get("stale_days"),  # type: ignore[arg-type]
            settings=here.settings,
            now=given.get("now"),
            fresh=False,
            size=size,
            page=turned,
            only=given.get("list"),
            reviews=reviews,
        )
    )
    data["database"] = here.db.name
    if here.as_json:
        return "limbic_consolidation.html", data
    data["_reviews_shown"] = reviews
    views = await _views(here)
    data["_cards"] = [_card(here, data, name, title) for name, (title, _) in TITLES.items()]
    data["_pair_urls"] = {
        name: _table_url(here, _PAIR_VIEW, {"kind": kind}) if _PAIR_VIEW in views else None
        for name, kind in _PAIRS.items()
    }
    data["_sections"] = [
        _section(here, data, name, views) for name in TITLES if name in data and name in LISTS
    ]
    data["_only"] = given.get("list")
    data["_all_url"] = _url(here, list=None, page=None)
    data["_default_url"] = _url(here, stale_days=None, page=None)
    data["_carried"] = [(name, given[name]) for name in ("list", "now", "size") if name in given]
    data["_central"] = CENTRAL_DEGREE
    data["_most_days"] = int(MAX_DAYS)
    data["_asked_days"] = "stale_days" in given
    return "limbic_consolidation.html", data


consolidation_page = page(_consolidation, REPORTED_TABLES, takes=ARGUMENTS)


async def _may_view(here: Page, tables: tuple[str, ...]) -> bool:
    return await compat.may_view(here.datasette, here.request.actor, here.db.name, tables)


async def _views(here: Page) -> set[str]:
    """Those views of the lists that are there and that the visitor may see."""
    found = await here.db.execute_fn(views_there)
    wanted = found & {listing.view for listing in LISTS.values()}
    return {name for name in wanted if await _may_view(here, (name,))}


def _url(here: Page, anchor: str = "", **changed: Any) -> str:
    """This page with other arguments; None leaves one out."""
    kept: dict[str, Any] = {key: here.given[key] for key in ARGUMENTS if key in here.given}
    asked = {key: value for key, value in (kept | changed).items() if value is not None}
    return here.url("/consolidation") + (f"?{urlencode(asked)}" if asked else "") + anchor


def _card(here: Page, data: dict[str, Any], name: str, title: str) -> dict[str, Any]:
    shown = name in data
    return {
        "title": _(title),
        "count": data["summary"][name],
        "url": f"#{name}" if shown else _url(here, f"#{name}", list=None, page=None),
    }


def _table_url(here: Page, view: str, filters: dict[str, Any]) -> str:
    url = str(here.datasette.urls.table(here.db.name, view))
    return url + (f"?{urlencode(filters)}" if filters else "")


def _view_url(here: Page, data: dict[str, Any], name: str, views: set[str]) -> str | None:
    """Datasette's own page of the same rows, where there is one."""
    view = LISTS[name].view
    filters = dict(_OF_VIEW.get(name, {}))
    if view not in views:
        return None
    if name == "stale_entities":
        # the view goes by the clock and by the setting: it has no rows that are less stale
        if "now" in here.given or data["stale_days"] < data["settings"]["stale_days"]:
            return None
        if data["stale_days"] > data["settings"]["stale_days"]:
            filters["stale_for_days__gt"] = f"{data['stale_days']:.15g}"
    return _table_url(here, view, filters)


def _section(here: Page, data: dict[str, Any], name: str, views: set[str]) -> dict[str, Any]:
    """A list with what its part of the template needs."""
    title, about = TITLES[name]
    rows, paging = data[name], data["paging"].get(name)
    for row in rows or ():
        _decorate(here, name, row)
    section = {
        "name": name,
        "title": _(title),
        "about": _(about),
        "rows": rows,
        "reason": data["reasons"].get(name),
        "nothing": _(NOTHING[name]),
        "paging": paging,
        "view_url": _view_url(here, data, name, views),
        "whole_url": None,
        "before": None,
        "after": None,
    }
    if paging is None:
        return section
    if "list" not in here.given:
        if paging["pages"] > 1:
            section["whole_url"] = _url(here, list=name, page=None)
        return section
    before, after = min(paging["page"] - 1, paging["pages"]), paging["page"] + 1
    section["before"] = _url(here, page=before) if before else None
    section["after"] = _url(here, page=after) if after <= paging["pages"] else None
    return section


def _decorate(here: Page, name: str, row: dict[str, Any]) -> None:
    entity = row["entity_id"] if "entity_id" in row else row["id"]
    row["_url"] = here.url(f"/entity/{entity}")
    row["_name"] = named(row["entity"] if "entity" in row else row["name"], entity)
    if name in ("contradictions", "flagged_observations"):
        row["_duplicates_url"] = here.url(f"/duplicates/{entity}")
    else:
        row["_split_url"] = here.url(f"/split/{entity}")
