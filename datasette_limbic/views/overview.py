"""Overview: how big the memory is, whether its vectors are in step, the way into search."""

from __future__ import annotations

from typing import Any

from .. import compat, permissions, recorder, status
from ..schema import ACCESS_LOG, REPORTED_TABLES
from . import writable
from .common import Page, page

# The documents' tables of what raising each constant does.
RAISING = {
    "beta_sal": "how often and how widely something is used counts more",
    "beta_deg": "well connected entities count more within importance",
    "d_max": "relations beyond this many still count",
    "lambda_hourly": "what is not used is forgotten faster",
    "gamma": "what comes up together counts more; raise beta_sal with it",
    "rrf_k": "the exact rank in each list counts less",
    "temporal_floor": "old entities keep more of their score",
    "cooc_temporal_floor": "old co-occurrences keep more of their weight",
    "cooc_cap": "co-occurrence may add more before it is cut off",
    "unknown_temporal": "entities of unknown age rank higher",
}

REVIEWS = ("limbic_reviews",)
# count of what needs review → title, and the page that lists it
REVIEWED = {
    "contradictions": ("Contradictions?", "/consolidation#contradictions"),
    "flagged_observations": ("Flagged observations", "/consolidation#flagged_observations"),
    "split_candidates": ("Split candidates", "/consolidation#split_candidates"),
    "approaching": ("Approaching", "/consolidation#approaching"),
    "stale_entities": ("Stale entities", "/consolidation#stale_entities"),
    "large_entities": ("Large entities", "/consolidation#large_entities"),
    "orphans": ("Orphans", "/health?list=orphans"),
}

# what was pruned, as the page says it
DELETED = {
    "searches": "old searches",
    "ratings": "openings and ratings of results",
    "accesses": "rows of the access log",
}

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


async def _overview(here: Page) -> tuple[str, dict[str, Any]]:
    reports = await _may_view(here, REPORTED_TABLES)
    reviews = reports and await _may_view(here, REVIEWS)
    data = await here.read(
        lambda conn: status.status(conn, settings=here.settings, reports=reports, reviews=reviews)
    )
    data["database"] = here.db.name
    await _add_recording(here, data["signals"])
    await _hide_private(here, data)
    pruned = data["signals"]["since_start"]["pruned"]
    data["_deleted"] = [
        f"{pruned[name]:,} {what}" for name, what in DELETED.items() if pruned[name] is not None
    ]
    data["_parameters"] = [
        {"name": name, "value": "none" if value is None else f"{value:g}", "help": RAISING[name]}
        for name, value in (data["parameters"] or {}).items()
    ]
    if data["review"] is not None:
        data["_review"] = [
            {"title": title, "count": data["review"]["counts"][name], "url": here.url(path)}
            for name, (title, path) in REVIEWED.items()
        ]
        data["_reviews_shown"] = reviews
    return "limbic_overview.html", data


async def _add_recording(here: Page, signals: dict[str, Any]) -> None:
    """Whether this visitor's use is recorded, and how writing went since the start."""
    reason = await writable.why_not(here, permissions.RECORD)
    signals.update(
        recording=reason is None,
        reason=reason,
        since_start=recorder.recorder_for(here.db, here.settings).state(),
    )


async def _hide_private(here: Page, data: dict[str, Any]) -> None:
    """Take out what the visitor may not view: logs hold queries and who asked, settings rules."""
    for table, paths in PRIVATE.items():
        if await _may_view(here, (table,)):
            continue
        for *above, last in paths:
            place = data
            for key in above:
                place = place[key]
            place[last] = None


async def _may_view(here: Page, tables: tuple[str, ...]) -> bool:
    return await compat.may_view(here.datasette, here.request.actor, here.db.name, tables)


overview_page = page(_overview)
