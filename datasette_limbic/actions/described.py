"""The rows of a diff with what a person needs to read them: texts and names in place of ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..answers import plain
from . import rows
from .diff import LABELS

# What tells a person which row of a table it is.
_TELLING = {
    "entities": ("name", "entity_type"),
    "observations": ("content", "entity_id"),
    "relations": ("from_entity", "relation_type", "to_entity"),
    "limbic_insights": ("title",),
}
# Columns that name an entity, and tables whose keys do.
_NAMING = ("entity_id", "from_entity", "to_entity", "entity_a_id", "entity_b_id")
_NAMED_BY_KEY = ("entity_access", "co_occurrences")


def described(
    conn: sqlite3.Connection, found: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A diff (see ``diff.diff``) and ``names``. Reads only.

    Changed and moved rows have in ``shown``, and as ``label``, what tells a person which they are,
    as that is in the memory now: neither a plan nor the log repeats it all. ``names`` are those of
    all entities that the diff names: those that it creates or removes as it has them, the others
    as they are now. Its keys are ids as text, and "new-1" …
    """
    now: dict[tuple[str, Any], dict[str, Any]] = {}
    for table, columns in _TELLING.items():
        keys = [tuple(r["key"]) for r in found["rows"] if r["table"] == table and _stays(r)]
        for key, row in rows.read(conn, table, keys).items() if keys else ():
            now[table, key] = plain({column: row[column] for column in columns})
    answer = {
        **found,
        "rows": [_told(row, now.get((row["table"], tuple(row["key"])))) for row in found["rows"]],
    }
    return answer, _names(conn, answer)


def _told(row: dict[str, Any], told: Mapping[str, Any] | None) -> dict[str, Any]:
    if told is None:
        return row
    label = row["label"]
    if label is None:
        label = next((told[column] for column in LABELS if column in told), None)
    return {**row, "label": label, "shown": {**row.get("shown", {}), **told}}


def _stays(row: Mapping[str, Any]) -> bool:
    return row["before"] is not None and row["after"] is not None


def _names(conn: sqlite3.Connection, found: Mapping[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    wanted: set[int] = set()
    for row in found["rows"]:
        images = [image for image in (row["before"], row["after"], row.get("shown")) if image]
        if row["table"] == "entities":
            name = next((image["name"] for image in images if "name" in image), None)
            known[str(row.get("new") or row["key"][0])] = name
        elif row["table"] in _NAMED_BY_KEY:
            wanted.update(key for key in row["key"] if key is not None)
        wanted.update(
            image[column]
            for image in images
            for column in _NAMING
            if isinstance(image.get(column), int)
        )
    for each in found.get("left_out", ()):
        wanted.update(end for end in (each["from"], each["to"]) if isinstance(end, int))
    there = rows.of(conn, "entities", "id", sorted(wanted))
    now = {str(key[0]): row["name"] for key, row in there.items()}
    result: dict[str, Any] = plain({**now, **known})
    return result
