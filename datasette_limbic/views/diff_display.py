"""A diff as pages show it: in groups with headings, each row with what it was and will be."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from ..actions.acting import Action
from ..actions.rows import words
from ..text import counted
from .common import Page
from .display import short

SHOWN = 200
"""Rows shown of each group; the JSON has them all."""
SHOWN_IN_ALL = 2000
MAX_TEXT = 1000
MAX_VALUE = 300
_ADJECTIVES = {"created": "new", "moved": "moved", "changed": "changed", "removed": "removed"}
SIGNS = {"created": "+", "moved": "→", "changed": "~", "removed": "−"}
_COLUMNS = {
    "entity_type": "type",
    "archived_at": "archived",
    "archived_reason": "reason",
    "valid_from": "holds from",
    "valid_to": "holds until",
    "similarity_flag": "marked as similar",
    "supersedes": "replaces observation",
    "last_activity_at": "last activity",
    "access_count": "accesses",
    "last_access": "last access",
    "co_count": "times together",
    "last_co": "last together",
    "from_entity": "from",
    "to_entity": "to",
    "relation_type": "type",
    "entity_id": "entity",
}
_ENTITIES = frozenset(("entity_id", "from_entity", "to_entity", "entity_a_id", "entity_b_id"))
# What a new or a removed row says in its heading or its text, or that is of no interest there.
_SAID = frozenset((
    "id", "name", "content", "entity_id", "from_entity", "to_entity", "entity_a_id", "entity_b_id",
    "relation_type", "title", "similarity_flag", "updated_at", "key", "body", "evidence",
    "evidence_digest", "judged_before",
))  # fmt: skip


def shown(here: Page, diff: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """``counts``, a sentence for each table; ``groups``, each with ``heading``, ``sign``, ``size``,
    ``rows`` and how many ``more`` there are; ``beside``, what is only counted, in words."""
    entities = _Entities(here, names)
    found = []
    room = SHOWN_IN_ALL
    # moves stand together by where to, the others by table
    for (table, what, _), some in groupby(diff["rows"], key=lambda row: _group(row)):
        rows = list(some)
        cut = rows[: min(SHOWN, room)]
        room -= len(cut)
        found.append(
            {
                "what": what,
                "sign": SIGNS[what],
                "heading": _heading(table, what, len(rows)),
                "size": len(rows),
                "path": _path(rows[0], entities) if (table, what) == MOVED else None,
                "rows": [_row(here, row, entities) for row in cut],
                "more": len(rows) - len(cut),
            }
        )
    listed = {row["table"] for row in diff["rows"]}
    return {
        "counts": [_counts(table, counts) for table, counts in diff["counts"].items()],
        "groups": found,
        "beside": [_counts(t, counts) for t, counts in diff["counts"].items() if t not in listed],
    }


MOVED = ("observations", "moved")


def search_words(action: Action) -> str:
    """What happens to search, in a sentence."""
    reason = next(iter(action.embedded.reasons.values()), None)
    if reason is not None:
        return f"Search by words follows at once, search by meaning with the next sync: {reason}."
    count = sum(len(set(texts)) for texts in action.embedded.texts.values())
    if not count:
        return "Search follows at once; nothing has to be embedded."
    return (
        f"{counted(count, 'text is', 'texts are')} embedded first, which may take a moment; then "
        "search follows at once. If that fails, nothing is changed."
    )


class _Entities:
    """Entities by the id that a diff has for them."""

    def __init__(self, here: Page, names: dict[str, Any]) -> None:
        self.here, self.names = here, names

    def __call__(self, number: Any) -> dict[str, Any]:
        name = self.names.get(str(number))
        return {
            "name": f"entity {number}" if name is None else str(name),
            "id": number,
            "url": self.here.url(f"/entity/{number}") if isinstance(number, int) else None,
            "new": isinstance(number, str),
        }


def _group(row: dict[str, Any]) -> tuple[str, str, Any]:
    if (row["table"], row["what"]) != MOVED:
        return row["table"], row["what"], None
    return *MOVED, (str(row["before"]["entity_id"]), str(row["after"]["entity_id"]))


def _heading(table: str, what: str, size: int) -> str:
    """``Moved observations``."""
    return f"{_ADJECTIVES[what].capitalize()} {_named(table, size)}"


def _named(table: str, size: int) -> str:
    one, many = words(table)
    return one if size == 1 else many


def _counts(table: str, counts: dict[str, int]) -> str:
    """``2 new entities``, and ``3 observations: 2 moved, 1 removed``."""
    said = [(count, _ADJECTIVES[what]) for what, count in counts.items() if count]
    total = sum(counts.values())
    if len(said) == 1:
        return f"{total:,} {said[0][1]} {_named(table, total)}"
    each = ", ".join(f"{count:,} {what}" for count, what in said)
    return f"{total:,} {_named(table, total)}: {each}"


def _path(row: dict[str, Any], entities: _Entities) -> dict[str, Any]:
    """Where the observations of a group come from and go to."""
    return {
        "from": entities(row["before"]["entity_id"]),
        "to": entities(row["after"]["entity_id"]),
    }


def _row(here: Page, row: dict[str, Any], entities: _Entities) -> dict[str, Any]:
    """One row for the page: ``text`` or ``relation`` says which it is, ``facts`` what happens."""
    before, after = row["before"] or {}, row["after"] or {}
    every = {**(row.get("shown") or {}), **before, **after}
    number = row["key"][0]
    found = {
        "text": None,
        "id": number if len(row["key"]) == 1 else None,
        "relation": None,
        "of": None,
        "entity": None,
        "facts": _facts(row, before, after, entities),
    }
    table = row["table"]
    if table == "entities":
        found["entity"] = entities(row.get("new") or number)
    elif table == "relations":
        # as it was, where it is another one afterwards: what it becomes stands beside it
        was = {**every, **before}
        found["relation"] = {
            "from": entities(was.get("from_entity")),
            "type": _text(was.get("relation_type", "unknown")),
            "to": entities(was.get("to_entity")),
        }
    elif table == "entity_access":
        found["entity"] = entities(number if number is not None else every.get("entity_id"))
    elif table == "co_occurrences":
        found["relation"] = {
            "from": entities(every.get("entity_a_id", row["key"][0])),
            "type": "with",
            "to": entities(every.get("entity_b_id", row["key"][-1])),
        }
    else:
        label = row["label"]
        found["text"] = f"number {number}" if label is None else _text(label, MAX_TEXT)
        if table == "observations" and row["what"] != "moved" and "entity_id" in every:
            found["of"] = entities(every["entity_id"])
    return found


def _facts(
    row: dict[str, Any], before: dict[str, Any], after: dict[str, Any], entities: _Entities
) -> list[dict[str, Any]]:
    """Columns: ``before`` and ``after`` of a change, ``value`` of a whole row."""
    if row["what"] in ("created", "removed"):
        whole = after or before
        return [
            {"label": _label(name), "value": _value(name, value, entities)}
            for name, value in whole.items()
            if name not in _SAID and value is not None and (name, value) != ("confidence", 1.0)
        ]
    moved = (row["table"], row["what"]) == MOVED
    return [
        {
            "label": _label(name),
            "before": _value(name, before.get(name), entities),
            "after": _value(name, value, entities),
        }
        for name, value in after.items()
        if not (moved and name == "entity_id")
    ]


def _label(column: str) -> str:
    return _COLUMNS.get(column, column.replace("_", " "))


def _value(column: str, value: Any, entities: _Entities) -> str:
    if value is None:
        return "–"
    if column in _ENTITIES:
        return short(entities(value)["name"], MAX_VALUE)
    if column == "similarity_flag":
        return "yes" if value else "no"
    return _text(value)


def _text(value: Any, most: int = MAX_VALUE) -> str:
    return short(value, most)
