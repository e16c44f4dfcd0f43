"""A plan or a logged change as people read it: one row each, in the order of what matters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .model import New, RowChange

WHAT = ("created", "moved", "changed", "removed")
# Kept pairs and the like follow from the rest: they are counted, and left out of the rows.
_COUNTED = ("limbic_duplicates", "limbic_topics", "entity_access_log", "limbic_feedback")
_ORDER = ("entities", "observations", "relations")
LABELS = ("content", "name", "relation_type", "title")
"""Columns whose text tells a person which row it is."""


def diff(changes: Iterable[RowChange]) -> dict[str, Any]:
    """``counts`` ({table: {created, moved, changed, removed}}) and ``rows``, each with ``what``,
    ``table``, ``key`` (its values, None for those that are not there yet), ``label`` (the text
    that tells a person which row it is), ``before`` and ``after`` (columns, or None). Two stand
    there only where they say something: ``shown``, columns that stay as they are and that the plan
    has for a person to see, such as the text of an observation that moves; and ``new``, by which
    other rows name one that is not there yet ("new-1" …)."""
    counts: dict[str, dict[str, int]] = {}
    found = []
    for change in changes:
        if change.before == change.after:
            continue
        table = counts.setdefault(change.table, dict.fromkeys(WHAT, 0))
        table[change.what] += 1
        if change.table not in _COUNTED:
            found.append(change)
    found.sort(key=_rank)
    return {"counts": counts, "rows": [_row(change) for change in found]}


def _rank(change: RowChange) -> tuple[int, int]:
    table = _ORDER.index(change.table) if change.table in _ORDER else len(_ORDER)
    return table, WHAT.index(change.what)


def _row(change: RowChange) -> dict[str, Any]:
    label = next((v for c in LABELS if (v := change.value(c)) is not None), None)
    return {
        "what": change.what,
        "table": change.table,
        "key": [value if isinstance(value, int) else None for value in change.key],
        "label": label,
        "before": change.before,
        "after": change.after,
        **({"shown": dict(change.shown)} if change.shown else {}),
        **({"new": str(change.key[0])} if isinstance(change.key[0], New) else {}),
    }
