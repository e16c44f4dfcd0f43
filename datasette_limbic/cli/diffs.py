"""The rows of an action on a terminal: every one that is created, moved, changed or removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..actions.diff import Group, Kind, groups
from ..actions.model import MOVES
from ..actions.rows import words
from ..text import counted
from .printing import line, quoted

MOST = 50
"""Rows of a group that are shown; the rest are counted."""
Names = Mapping[str, Any]
_OBSERVATIONS = {"created": " in {0}", "removed": " of {0}", "changed": " of {0}"}


def lines(found: Mapping[str, Any], names: Names) -> Iterator[str]:
    """A diff with ``names``, as of ``described``, for people: in groups, counted."""
    made = groups(found)
    for group in made:
        table, what = group.kind.table, group.kind.what
        said = counted(group.size, *words(table))
        yield f"\n{what.capitalize()}: {said}{_where(group.kind, names)}"
        yield from (_row(row, names) for row in group.rows[:MOST])
        yield from _more(group)
    shown = {group.kind.table for group in made}
    besides = [
        f"{counted(number, *words(table))} {what}"
        for table, counts in found["counts"].items()
        if table not in shown
        for what, number in counts.items()
        if number
    ]
    if besides:
        yield f"\nWhat follows from it: {', '.join(besides)}"
    if not made and not besides:
        yield "\nNo row changes."


def _more(group: Group) -> Iterator[str]:
    """How many are not shown, and how many of these the JSON has."""
    listed = len(group.rows[MOST:])
    has = "them all" if not group.left_out else f"{listed:,} of them" if listed else "none of them"
    if listed or group.left_out:
        yield f"  … and {listed + group.left_out:,} more: --json has {has}"


def _where(kind: Kind, names: Names) -> str:
    """Of which entity, for a group of observations."""
    if kind.table != "observations":
        return ""
    was, becomes = _named(names, kind.source), _named(names, kind.target)
    if kind.what == "moved":
        return f" from {was} to {becomes}"
    return _OBSERVATIONS[kind.what].format(was if kind.what == "removed" else becomes)


def _was(row: Mapping[str, Any]) -> dict[str, Any]:
    """All that is known of a row before the action; empty for a created one."""
    return {} if row["before"] is None else {**row.get("shown", {}), **row["before"]}


def _becomes(row: Mapping[str, Any]) -> dict[str, Any]:
    """All that is known of a row after the action; empty for a removed one."""
    return {} if row["after"] is None else {**_was(row), **row["after"]}


def _entity(names: Names, row: Mapping[str, Any], column: str = "entity_id") -> str:
    return _named(names, row.get(column))


def _named(names: Names, number: Any) -> str:
    name = names.get(str(number))
    if name is not None:
        return quoted(name)
    return "no entity" if number is None else f"entity {number}"


def _row(row: Mapping[str, Any], names: Names) -> str:
    before, after = _was(row), _becomes(row)
    number = row["key"][0]
    id_ = "" if number is None or row["table"] not in _BY_ID else f"#{number} "
    if row["table"] == "relations" and row["what"] == "moved":
        text = f"{_relation(names, before)}, now {_relation(names, after)}"
    else:
        text = _TEXTS.get(row["table"], _other)(names, row, after or before)
    # what was written with a new row, or went with a removed one, stands in the text
    changed = _changed(row) if row["before"] and row["after"] else ""
    return f"  {id_}{text}{changed}"


def _changed(row: Mapping[str, Any]) -> str:
    said = [
        f"{name} {_value(row['before'].get(name))} → {_value(value)}"
        for name, value in row["after"].items()
        if name not in MOVES
    ]
    return f"  [{'; '.join(said)}]" if said else ""


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return quoted(value, 60) if isinstance(value, str) else str(value)


def _named_entity(names: Names, row: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    return f"{quoted(values.get('name', row['label']))} ({line(values.get('entity_type'), 40)})"


def _observation(names: Names, row: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    text = line(values.get("content", row["label"]))
    if "kept" not in row.get("shown", {}):
        return text
    kept = row["shown"]
    return f"{text}\n    said by #{kept['kept']} {line(kept.get('kept_content'))}"


def _relation(names: Names, values: Mapping[str, Any]) -> str:
    ends = (_entity(names, values, column) for column in ("from_entity", "to_entity"))
    return f" → {line(values.get('relation_type'), 60)} → ".join(ends)


def _access(names: Names, row: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    owner = {"entity_id": row.get("new") or row["key"][0]}
    changes = row["before"] and row["after"]
    count = "" if changes else f": {values.get('access_count')}"
    return f"{_entity(names, {**owner, **values})}{count}"


def _together(names: Names, row: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    ends = dict(zip(("entity_a_id", "entity_b_id"), row["key"], strict=True))
    return " with ".join(_entity(names, {**ends, **values}, column) for column in ends)


def _other(names: Names, row: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    return ", ".join("new" if value is None else str(value) for value in row["key"])


_BY_ID = frozenset(("entities", "observations", "relations", "limbic_insights"))
_TEXTS: dict[str, Callable[[Names, Mapping[str, Any], Mapping[str, Any]], str]] = {
    "entities": _named_entity,
    "observations": _observation,
    "relations": lambda names, row, values: _relation(names, values),
    "entity_access": _access,
    "co_occurrences": _together,
    "limbic_insights": lambda names, row, values: line(row["label"]),
}
