"""A plan or a logged change as people read it: one row each, in the order of what matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .model import New, Row, RowChange

WHAT = ("created", "moved", "changed", "removed")
# Kept pairs and the like follow from the rest: they are counted, and left out of the rows.
_COUNTED = ("limbic_duplicates", "limbic_topics", "entity_access_log", "limbic_feedback")
_ORDER = ("entities", "observations", "relations")
LABELS = ("content", "name", "relation_type", "title")
"""Columns whose text tells a person which row it is."""
MOST = 10_000
"""Rows of an answer: more are read by nobody, and take as long as the action itself."""


class Kind(NamedTuple):
    """What rows of a diff have in common. Of observations the ids of the entities that they come
    from and go to are part of it ("new-1" … for one that is not there yet); else these are None."""

    table: str
    what: str
    source: Any = None
    target: Any = None


@dataclass
class Group:
    """Rows of one kind: those that a diff has, and how many more it counts."""

    kind: Kind
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: int = 0

    @property
    def size(self) -> int:
        """How many there are in all."""
        return len(self.rows) + self.left_out


def diff(changes: Iterable[RowChange], most: int | None = None) -> dict[str, Any]:
    """``counts`` ({table: {created, moved, changed, removed}}) and ``rows``, each with ``what``,
    ``table``, ``key`` (its values, None for those that are not there yet), ``label`` (the text
    that tells a person which row it is), ``before`` and ``after`` (columns, or None). Two stand
    there only where they say something: ``shown``, columns that stay as they are and that the plan
    has for a person to see, such as the text of an observation that moves; and ``new``, by which
    other rows name one that is not there yet ("new-1" …). Rows are at most ``most``, None has them
    all; where there are more, ``left_out`` counts the others, those of each kind: ``table``,
    ``what``, ``from`` and ``to`` (as of ``Kind``), ``count``."""
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
    left_out = Counter(
        _kind(c.table, c.what, c.before, c.after, c.shown) for c in found[len(shown) :]
    )
    return {
        "counts": counts,
        "rows": [_row(change) for change in shown],
        **({"left_out": [_counted(*each) for each in left_out.items()]} if left_out else {}),
    }


def groups(found: Mapping[str, Any], by: Callable[[Kind], Kind] = lambda kind: kind) -> list[Group]:
    """All rows of a diff by their kind, or by what ``by`` makes of it, in the order of the diff:
    those that are left out of it count where they belong, alone if need be."""
    made: dict[Kind, Group] = {}

    def group(kind: Kind) -> Group:
        return made.setdefault(by(kind), Group(by(kind)))

    for row in found["rows"]:
        kind = _kind(row["table"], row["what"], row["before"], row["after"], row.get("shown"))
        group(kind).rows.append(row)
    for each in found.get("left_out", ()):
        kind = Kind(each["table"], each["what"], each["from"], each["to"])
        group(kind).left_out += each["count"]
    return list(made.values())


def _kind(
    table: str, what: str, before: Row | None, after: Row | None, shown: Mapping[str, Any] | None
) -> Kind:
    if table != "observations":
        return Kind(table, what)
    stays = (shown or {}).get("entity_id")
    was = None if before is None else before.get("entity_id", stays)
    becomes = None if after is None else after.get("entity_id", was)
    return Kind(table, what, was, becomes)


def _counted(kind: Kind, count: int) -> dict[str, Any]:
    table, what, source, target = kind
    return {"table": table, "what": what, "from": source, "to": target, "count": count}


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
