"""What the overview's template shows besides the figures: words, links and where bars end."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from .. import i18n
from ..i18n import counting, gettext, marked
from ..i18n import gettext as _
from ..text import shows
from . import overview_charts as charts
from . import retrieval_display
from .common import Page

EXAMPLES = 4
EXAMPLE_LENGTH = 40

# The documents' tables of what raising each constant does.
RAISING = {
    "beta_sal": marked("how often and how widely something is used counts more"),
    "beta_deg": marked("well connected entities count more within importance"),
    "d_max": marked("relations beyond this many still count"),
    "lambda_hourly": marked("what is not used is forgotten faster"),
    "gamma": marked("what comes up together counts more; raise beta_sal with it"),
    "rrf_k": marked("the exact rank in each list counts less"),
    "temporal_floor": marked("old entities keep more of their score"),
    "cooc_temporal_floor": marked("old co-occurrences keep more of their weight"),
    "cooc_cap": marked("co-occurrence may add more before it is cut off"),
    "unknown_temporal": marked("entities of unknown age rank higher"),
}

# count of what needs review → title, and the page that lists it
REVIEWED = {
    "contradictions": (marked("Contradictions?"), "/consolidation#contradictions"),
    "flagged_observations": (marked("Flagged observations"), "/consolidation#flagged_observations"),
    "split_candidates": (marked("Split candidates"), "/consolidation#split_candidates"),
    "approaching": (marked("Approaching"), "/consolidation#approaching"),
    "stale_entities": (marked("Stale entities"), "/consolidation#stale_entities"),
    "large_entities": (marked("Large entities"), "/consolidation#large_entities"),
    "orphans": (marked("Orphans"), "/health?list=orphans"),
}

SEVERITIES = {
    "broken": marked("Broken"),
    "attention": marked("Wants a look"),
    "note": marked("Worth knowing"),
}

# part → what it is called where it cannot be read
PARTS = {
    "counts": marked("Counts"),
    "unreadable_validity": marked("Times that cannot be read"),
    "review": marked("What needs review"),
    "signals": marked("Signals"),
    "types": marked("Types"),
    "vectors": marked("Vectors"),
    "parameters": marked("Parameters in force"),
    "settings": marked("Settings"),
    "growth": marked("Growth"),
    "activity": marked("Activity"),
    "hubs": marked("Best connected"),
    "newest": marked("Newest"),
    "most_used": marked("Most used"),
    "health": marked("Health"),
    "map": marked("Map"),
}


def decorate(here: Page, data: dict[str, Any]) -> None:
    """Add what the template shows besides, under keys that begin with ``_``."""
    data["_failed"] = [
        {"title": gettext(PARTS.get(name, name)), "reason": reason}
        for name, reason in data["errors"].items()
    ]
    data["_read_at"] = min(data["read_at"].values(), default=None)
    data["_examples"] = _examples(here, data)
    data["_growth"] = charts.growth_charts(data["growth"]) if data["growth"] else []
    data["_growth_rows"] = charts.growth_rows(data["growth"]) if data["_growth"] else []
    data["_activity"] = charts.activity_charts(data["activity"]) if data["activity"] else []
    data["_activity_rows"] = charts.activity_rows(data["activity"]) if data["_activity"] else []
    data["_types"] = [
        {**each, "url": here.url("/search?") + urlencode({"type": each["entityType"]})}
        for each in charts.type_bars(data["types"] or [])
    ]
    data["_lists"] = _lists(here, data)
    data["_health"] = _health(here, data["health"]) if data["health"] else None
    data["_parameters"] = [
        {
            "name": name,
            "value": _("none") if value is None else i18n.figure(value, "g"),
            "help": gettext(RAISING[name]),
        }
        for name, value in (data["parameters"] or {}).items()
    ]
    if data["vectors"]:
        data["_retrieval"] = retrieval_display.overview(data["vectors"]["retrieval"])
    if data["signals"]:
        data["_deleted"] = _deleted(data["signals"]["since_start"]["pruned"])
    if data["review"]:
        data["_review"] = [
            {
                "title": gettext(title),
                "count": data["review"]["counts"][name],
                "url": here.url(path),
            }
            for name, (title, path) in REVIEWED.items()
        ]


def _deleted(pruned: dict[str, Any]) -> list[str]:
    """What was pruned, of what the visitor may know."""
    said = []
    if pruned["searches"] is not None:
        said.append(counting("%(n)s old search", "%(n)s old searches", pruned["searches"]))
    if pruned["ratings"] is not None:
        said.append(
            counting(
                "%(n)s opening or rating of a result",
                "%(n)s openings and ratings of results",
                pruned["ratings"],
            )
        )
    if pruned["accesses"] is not None:
        said.append(
            counting(
                "%(n)s row of the access log",
                "%(n)s rows of the access log",
                pruned["accesses"],
            )
        )
    return said


def _examples(here: Page, data: dict[str, Any]) -> list[dict[str, str]]:
    """Searches to begin with, of what the memory holds: names that fit in a line, and a type."""
    found: dict[str, dict[str, str]] = {}
    for place in range(3):
        for name in ("most_used", "hubs", "newest"):
            for each in (data[name] or [])[place : place + 1]:
                query = str(each["name"])
                if len(query) <= EXAMPLE_LENGTH and query.isprintable() and shows(query):
                    found.setdefault(
                        query,
                        {"text": query, "url": here.url("/search?") + urlencode({"q": query})},
                    )
    return list(found.values())[:EXAMPLES]


def _lists(here: Page, data: dict[str, Any]) -> list[dict[str, Any]]:
    """The short lists: each entity with its link, its type and the figure that it is here for."""
    titles = (
        ("hubs", _("Best connected"), "relations"),
        ("most_used", _("Most used"), "access_count"),
        ("newest", _("Newest"), "created_at"),
    )
    return [
        {
            "name": name,
            "title": title,
            "day": key == "created_at",
            "rows": [
                {**each, "url": here.url(f"/entity/{each['id']}"), "figure": _figure(each, key)}
                for each in data[name]
            ],
        }
        for name, title, key in titles
        if data[name]
    ]


def capital(text: str) -> str:
    """A title as it stands by itself."""
    return text[:1].upper() + text[1:]


def _figure(each: dict[str, Any], key: str) -> Any:
    if key == "relations":
        return counting("%(n)s relation", "%(n)s relations", each[key])
    if key == "access_count":
        return counting("%(n)s access", "%(n)s accesses", each[key])
    return each[key]


def _health(here: Page, found: dict[str, Any]) -> dict[str, Any]:
    url = here.url("/health")
    return {
        "cards": [
            {"title": gettext(title), "severity": severity, "count": found["counts"][severity]}
            for severity, title in SEVERITIES.items()
        ],
        "findings": [
            {
                "title": capital(gettext(each["title"])),
                "count": each["count"],
                "severity": gettext(SEVERITIES[each["severity"]]),
                "url": f"{url}?" + urlencode({"list": each["name"]}),
            }
            for each in found["findings"]
        ],
        "url": url,
        "whole": found["whole"],
    }
