"""Warnings of imports, and any other list among their counts, as tables."""

from __future__ import annotations

from typing import Any

from ..i18n import gettext as _
from ..i18n import marked
from .display import number
from .import_display import cell, title, words

SHOWN_ROWS = 20
MAX_TABLES = 24

# Heading, what became of it, and the figure that counts all of it.
WARNINGS = {
    "type_conflicts": (
        marked("Entities given two types"),
        marked("The first type stays."),
        "type_conflict_count",
    ),
    "skipped_observations": (marked("Observations skipped"), marked("They hold no text."), None),
    "unreadable": (
        marked("Values that could not be read"),
        marked("They are stored as unknown."),
        "unreadable_count",
    ),
    "extra_keys": (
        marked("Keys without a place here"),
        marked("Their values are not stored."),
        None,
    ),
    "near_equal_names": (
        marked("Names that differ in case or accents only"),
        marked("They are kept apart."),
        "near_equal_count",
    ),
    "not_carried": (marked("Not carried over"), marked("This memory has no place for them."), None),
    "replaced_texts": (
        marked("Texts with broken characters"),
        marked("U+FFFD stands in for each."),
        None,
    ),
}


def tables(counts: dict[str, Any], figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Every list among the counts as a table, warnings first, whatever a version calls them."""
    warnings = counts.get("warnings")
    found: list[tuple[str, str, Any]] = []
    if isinstance(warnings, dict):
        found += [(key, title(key), value) for key, value in warnings.items()]
    for key, value in counts.items():
        if isinstance(value, list) and key != "first_rejects":
            found.append((key, title(key), value))
        elif isinstance(value, dict) and key != "warnings":
            found += [
                (f"{key}.{name}", f"{title(key)}: {words(name)}", item)
                for name, item in value.items()
                if isinstance(item, (dict, list))
            ]
    return [table for one in found if (table := _table(*one, counts, figures))][:MAX_TABLES]


def _table(
    key: str, name: str, value: Any, counts: dict[str, Any], figures: dict[str, Any]
) -> dict[str, Any] | None:
    known = WARNINGS.get(key)
    heading, hint, counted = known or (name, "", None)
    heading, hint = _(heading), _(hint)
    if not isinstance(value, (dict, list)):
        if known is None or not isinstance(value, (int, float)) or not value:
            return None
        return {"title": heading, "hint": hint, "count": number(value), "head": [], "rows": []}
    if not value:
        return None
    if isinstance(value, dict):
        head, rows = ["key", "count"], [[k, v] for k, v in value.items()]
    elif isinstance(value[0], dict):
        head = list(value[0])[:8]
        rows = [[row.get(k) for k in head] if isinstance(row, dict) else [row] for row in value]
    else:
        head, rows = ["value"], [[row] for row in value]
    warnings = counts.get("warnings")
    total = warnings.get(counted) if isinstance(warnings, dict) and counted else None
    total = total if total is not None else counts.get(counted) if counted else None
    if key == "skipped_observations" and isinstance(figures.get("observations"), dict):
        total = figures["observations"].get("skipped")
    if not isinstance(total, (int, float)) or isinstance(total, bool):
        total = len(rows)
    return {
        "title": heading,
        "hint": hint,
        "count": number(total),
        "head": [(title(one), one in ("line", "count")) for one in head],
        "rows": [[cell(one) for one in row] for row in rows[:SHOWN_ROWS]],
        "more": number(len(rows) - SHOWN_ROWS) if len(rows) > SHOWN_ROWS else None,
    }
