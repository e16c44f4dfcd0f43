"""One entity."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from datasette.utils import tilde_decode
from datasette.utils.sqlite import sqlite3

from .. import (
    compat,
    entity,
    entity_relations,
    entity_reports,
    entity_timeline,
    schema,
    signal_figures,
)
from ..errors import BadParameter, UnknownEntity
from ..reports.maintenance import likest, maintenance
from . import entity_display as display
from . import tabs
from .common import Page, page, whole_number
from .entity_graph import entity_picture
from .entity_moment import as_asked, moment

TEMPLATE = "limbic_entity.html"
TAKES = ("as_of", "now", "page", "relations_page", "change")
RATINGS_TABLE = ("limbic_feedback",)
_CHANGED = re.compile(r"(observation|relation)-[0-9]{1,19}")


@dataclass(frozen=True)
class Asked:
    """What of an entity is asked for, and what of it the visitor may see besides its own tables."""

    id: int
    now: str | None
    as_of: str | None
    page: int
    relations_page: int | None
    as_json: bool
    log: bool
    ratings: bool
    reports: bool
    insights: bool


async def _entity(here: Page) -> tuple[str, dict[str, Any]]:
    change = here.given.get("change")
    if change is not None and not _CHANGED.fullmatch(change):
        raise BadParameter(f"change is {change[:40]!r}: use observation-ID or relation-ID")
    asked = await _asked(here)
    data = await here.read(lambda conn: read(conn, asked, here.settings))
    if not here.as_json:
        data["_graph"] = await entity_picture(
            here, asked.id, data["as_of"] or data["now"], as_asked(here, "as_of")
        )
        display.decorate(here, data, change)
    return TEMPLATE, data


entity_page = page(_entity, takes=TAKES)


async def _asked(here: Page) -> Asked:
    given = here.request.url_vars["entity"]
    wanted = whole_number(given)
    if wanted is None:
        shown = tilde_decode(given)[:60]
        raise UnknownEntity(f"{shown!r} is no entity id: search for the name instead")

    async def may(tables: tuple[str, ...]) -> bool:
        return await compat.may_view(here.datasette, here.request.actor, here.db.name, tables)

    reports = await may(schema.REPORTED_TABLES)
    return Asked(
        id=wanted,
        now=moment(here, "now"),
        as_of=moment(here, "as_of"),
        page=here.whole("page", 1),
        relations_page=_relations_page(here),
        as_json=here.as_json,
        log=await may((schema.ACCESS_LOG,)),
        ratings=await may(RATINGS_TABLE),
        reports=reports,
        insights=reports and await may(tabs.REVIEW_TABLES),
    )


def _relations_page(here: Page) -> int | None:
    """None is that of the observations: in JSON, ``page`` turns both."""
    if here.as_json and "relations_page" not in here.given:
        return None
    return here.whole("relations_page", 1)


def read(conn: sqlite3.Connection, asked: Asked, settings: Any) -> dict[str, Any]:
    """All that the page shows, in a number of statements that does not hang on what there is."""
    data = entity.entity_detail(
        conn,
        asked.id,
        settings=settings,
        now=asked.now,
        as_of=asked.as_of,
        page=asked.page,
        size=entity.PAGE if asked.as_json else display.OBSERVATIONS,
        relations_page=asked.relations_page,
        relations_size=entity.PAGE if asked.as_json else display.RELATIONS,
        access_log=asked.log,
    )
    at = data["as_of"] or data["now"]
    data["relation_types"] = entity_relations.relation_types(conn, asked.id, at)
    data["timeline"] = entity_timeline.timeline(
        conn, asked.id, now=data["now"], at=at, access_log=asked.log
    )
    data["signals"]["events"] = signal_figures.events(conn, asked.id) if asked.ratings else None
    if asked.ratings and signal_figures.has_more_events(conn, asked.id):
        data["at_least"].append("events")
    _add_reports(conn, data, asked)
    return data


def _add_reports(conn: sqlite3.Connection, data: dict[str, Any], asked: Asked) -> None:
    """How it stands in the reports, what each observation is like, and what waits for a decision.

    None, or nothing, for who may not see that.
    """
    data["maintenance"] = found = (
        maintenance(conn, asked.id, data["entityType"], archived=data["archived_at"] is not None)
        if asked.reports
        else None
    )
    ids = [row["id"] for row in data["observations"]]
    flagged = [row["id"] for row in data["observations"] if row["similarity_flag"]]
    alike: dict[int, dict[str, Any]] = {}
    pairs: dict[int, list[dict[str, Any]]] = {}
    if found is not None:
        # the page says it by the pairs
        alike = likest(conn, flagged) if asked.as_json else {}
        pairs = entity_reports.pairs_of(conn, ids)
        found["topics"] = entity_reports.kept_topics(conn, asked.id) if found["split"] else []
        found["waiting"] = (
            entity_reports.pending_insights(conn, asked.id) if asked.insights else None
        )
    for row in data["observations"]:
        row["similar_to"] = alike.get(row["id"])
        row["pairs"] = pairs.get(row["id"], [])
