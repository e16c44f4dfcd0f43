"""A plan or a logged change as people read it: one row each, in the order of what matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .model import New, RowChange

WHAT = ("created", "moved", "changed", "removed")
# Kept pairs and the like follow from the rest: they are counted, and left out of the rows.
_COUNTED = ("limbic_duplicates", "limbic_topics", "entity_access_log", "limbic_feedback")
_ORDER = ("entities", "observations", "relations")
LABELS = ("content", "name", "relation_type", "title")
"""Columns whose text tells a person which row it is."""


MOST = 10_000
"""Rows of an answer: more are read by nobody, and take as long as the action itself."""


def diff(changes: Iterable[RowChange], most: int | None = None) -> dict[str, Any]:
    """``counts`` ({table: {created, moved, changed, removed}}) and ``rows``, each with ``what``,
    ``table``, ``key`` (its values, None for those that are not there yet), ``label`` (the text
    that tells a person which row it is), ``before`` and ``after`` (columns, or None). Two stand
    there only where they say something: ``shown``, columns that stay as they are and that the plan
    has for a person to see, such as the text of an observation that moves; and ``new``, by which
    other rows name one that is not there yet ("new-1" …). Rows are at most ``most``;
    where there are more, ``left_out`` says how many. None has them all."""
    counts: dict[str, dict[str, int]] = {}
    ranked: dict[tuple[int, int], list[RowChange]] = {}
    for change in changes:
        if change.before == change.after:
            continue
        what = change.what
        counts.setdefault(change.table, dict.fromkeys(WHAT, 0))[what] += 1
        if change.table not in _COUNTED:
            ranked.setdefault(_rank(change.table, what), []).append(change)
    found = [change for rank in sorted(ranked) for change in ranked[rank]]
    shown = found[:most]
    left_out = len(found) - len(shown)
    return {
        "counts": counts,
        "rows": [_row(change) for change in shown],
        **({"left_out": left_out} if left_out else {}),
    }


def missing(found: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """By table and what happens to it, how many rows are left out of a diff that has others of
    them."""
    if "left_out" not in found:
        return {}
    listed = Counter((row["table"], row["what"]) for row in found["rows"])
    return {key: found["counts"][key[0]][key[1]] - count for key, count in listed.items()}


def _rank(table: str, what: str) -> tuple[int, int]:
    return _ORDER.index(table) if table in _ORDER else len(_ORDER), WHAT.index(what)


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
