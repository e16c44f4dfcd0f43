"""Overview: how big the memory is, what is in it, what needs attention, the way into search."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

from .. import compat, glance, permissions, recorder
from ..health import tables as health_tables
from ..schema import ACCESS_LOG, REPORTED_TABLES
from ..text import cut
from . import writable
from .common import Page, page
from .graph import overview_map
from .overview_display import decorate

log = logging.getLogger("datasette_limbic")

REVIEWS = ("limbic_reviews",)

# table → what comes from it, and is None for whoever may not view it
PRIVATE: dict[str, tuple[tuple[str, ...], ...]] = {
    ACCESS_LOG: (("counts", "accesses"), ("signals", "since_start", "pruned", "accesses")),
    "limbic_searches": (
        ("signals", "searches"),
        ("signals", "by"),
        ("signals", "since_start", "pruned", "searches"),
    ),
    "limbic_imports": (("counts", "imports"),),
    "limbic_parameters": (("parameters",), ("parameters_version",), ("parameter_warning",)),
    "limbic_settings": (("settings",),),
    "limbic_feedback": (("signals", "events"), ("signals", "since_start", "pruned", "ratings")),
}


@cache
def _read() -> tuple[str, ...]:
    """What parts of the overview read besides, and are made without where it may not be viewed.

    Not at the start: what health reads is known to the migrations, which import llm.
    """
    return tuple(sorted({*PRIVATE, *REPORTED_TABLES, *REVIEWS, *health_tables()}))


async def _overview(here: Page) -> tuple[str, dict[str, Any]]:
    hidden = [table for table in _read() if not await _may_view(here, table)]
    reports = not set(hidden).intersection(REPORTED_TABLES)
    reviews = reports and not set(hidden).intersection(REVIEWS)
    data = await here.read(
        lambda conn: glance.glance(
            conn, settings=here.settings, reports=reports, reviews=reviews, hidden=hidden
        )
    )
    data["database"] = here.db.name
    await _add_recording(here, data)
    _hide_private(hidden, data)
    if not here.as_json:
        data["_reviews_shown"] = reviews
        data["_hidden"] = hidden
        data["_map"] = await _map(here, data["errors"])
        decorate(here, data)
    return "limbic_overview.html", data


async def _add_recording(here: Page, data: dict[str, Any]) -> None:
    """Whether this visitor's use is recorded, and how writing went since the start."""
    if data["signals"] is None:
        return
    reason = await writable.why_not(here, permissions.RECORD)
    data["signals"].update(
        recording=reason is None,
        reason=reason,
        since_start=recorder.recorder_for(here.db, here.settings).state(),
    )


def _hide_private(hidden: list[str], data: dict[str, Any]) -> None:
    """Take out what the visitor may not view: logs hold queries and who asked, settings rules."""
    for table, paths in PRIVATE.items():
        if table not in hidden:
            continue
        for *above, last in paths:
            place = data
            for key in above:
                place = place.get(key) or {}  # a part that could not be read has none
            place[last] = None


async def _map(here: Page, errors: dict[str, str]) -> dict[str, Any] | None:
    """The drawn map of communities; None where there is none to draw."""
    try:
        return await overview_map(here)
    except Exception as error:  # the picture is the least of the page
        log.warning("the map of %s cannot be drawn: %s", here.db.name, error, exc_info=True)
        errors["map"] = cut(str(error) or type(error).__name__, 400)
        return None


async def _may_view(here: Page, table: str) -> bool:
    return await compat.may_view(here.datasette, here.request.actor, here.db.name, (table,))


overview_page = page(_overview, takes=())
