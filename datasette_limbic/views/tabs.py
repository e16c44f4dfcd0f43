"""The pages of one memory that lead to each other, each for whoever may view what it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from datasette.app import Datasette

from .. import compat, health
from ..i18n import marked as _
from ..schema import REPORTED_TABLES, SEARCHED_TABLES

# The log of changes holds words of all that was changed, findings among it.
CHANGES_TABLES = ("limbic_changes", "limbic_insights", *SEARCHED_TABLES)
# The review queue shows what reports found, and what would change.
REVIEW_TABLES = (*REPORTED_TABLES, "limbic_insights", "limbic_changes")
# Tuning shows queries, who asked, and what was used of what they found.
TUNING_TABLES = (
    "limbic_searches",
    "limbic_search_candidates",
    "limbic_feedback",
    "limbic_parameters",
    "entities",
)
IMPORT_TABLES = ("limbic_imports", "limbic_import_rejects")


@dataclass(frozen=True)
class Tab:
    """One page in the row of tabs; ``name`` is what its template calls itself."""

    name: str
    title: str
    path: str
    tables: tuple[str, ...]
    """Whoever may not view one of these gets 403 there."""


TABS = (
    Tab("overview", _("Overview"), "", SEARCHED_TABLES),
    Tab("search", _("Search"), "/search", SEARCHED_TABLES),
    Tab("graph", _("Map"), "/graph", SEARCHED_TABLES),
    Tab("review", _("Review"), "/review", REVIEW_TABLES),
    Tab("consolidation", _("Maintenance"), "/consolidation", REPORTED_TABLES),
    Tab("duplicates", _("Duplicates"), "/duplicates", REPORTED_TABLES),
    Tab("health", _("Health"), "/health", health.GRAPH),
    Tab("changes", _("Changes"), "/changes", CHANGES_TABLES),
    Tab("tuning", _("Tuning"), "/tuning", TUNING_TABLES),
    Tab("imports", _("Imports"), "/imports", IMPORT_TABLES),
)


async def shown(datasette: Datasette, actor: dict[str, Any] | None, database: str) -> list[Tab]:
    """Those tabs that do not answer 403. No table is asked for twice, none after a refusal."""
    known: dict[str, bool] = {}
    found = []
    for tab in TABS:
        for table in tab.tables:
            if table not in known:
                known[table] = await compat.may_view(datasette, actor, database, (table,))
            if not known[table]:
                break
        else:
            found.append(tab)
    return found
