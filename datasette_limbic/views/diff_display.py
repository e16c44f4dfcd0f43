"""A diff as pages show it: in groups with headings, each row with what it was and will be."""

from __future__ import annotations

from typing import Any

from ..actions.acting import Action
from ..actions.diff import Kind, groups
from ..actions.rows import words
from ..i18n import counting, figure, marked, ngettext, npgettext
from ..i18n import gettext as _
from .common import Page
from .display import short

SHOWN = 200
"""Rows shown of each group; the JSON has more."""
SHOWN_IN_ALL = 2000
MAX_TEXT = 1000
MAX_VALUE = 300
SIGNS = {"created": "+", "moved": "→", "changed": "~", "removed": "−"}
_COLUMNS = {
    "entity_type": marked("type"),
    "archived_at": marked("archived"),
    "archived_reason": marked("reason"),
    "valid_from": marked("holds from"),
    "valid_to": marked("holds until"),
    "similarity_flag": marked("marked as similar"),
    "supersedes": marked("replaces observation"),
    "last_activity_at": marked("last activity"),
    "access_count": marked("accesses"),
    "last_access": marked("last access"),
    "co_count": marked("times together"),
    "last_co": marked("last together"),
    "from_entity": marked("from"),
    "to_entity": marked("to"),
    "relation_type": marked("type"),
    "entity_id": marked("entity"),
}
# those that are called as they are written
_OTHERS = (
    marked("confidence"), marked("content"), marked("name"), marked("title"), marked("source"),
    marked("kind"), marked("status"), marked("created at"), marked("updated at"),
    marked("decay"), marked("rating"), marked("accessed at"), marked("note"),
)  # fmt: skip
_ENTITIES = frozenset(("entity_id", "from_entity", "to_entity", "entity_a_id", "entity_b_id"))
# What a new or a removed row says in its heading or its text, or that is of no interest there.
_SAID = frozenset((
    "id", "name", "content", "entity_id", "from_entity", "to_entity", "entity_a_id", "entity_b_id",
    "relation_type", "title", "similarity_flag", "updated_at", "key", "body", "evidence",
    "evidence_digest", "judged_before",
))  # fmt: skip


def shown(here: Page, diff: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """``counts``, a sentence for each table; ``groups``, each with ``heading``, ``sign``, ``size``,
    ``rows``, how many ``more`` there are, and how many of these the JSON has (``listed``);
    ``beside``, what is only counted, in words."""
    entities = _Entities(here, names)
    found = []
    room = SHOWN_IN_ALL
    made = groups(diff, _together)
    for group in made:
        cut = group.rows[: min(SHOWN, room)]
        room -= len(cut)
        found.append(
            {
                "what": group.kind.what,
                "sign": SIGNS[group.kind.what],
                "heading": _heading(group.kind, group.size),
                "size": group.size,
                "path": _path(group.kind, entities) if _moves(group.kind) else None,
                "rows": [_row(here, row, entities) for row in cut],
                "more": group.size - len(cut),
                "listed": len(group.rows) - len(cut),
            }
        )
    listed = {group.kind.table for group in made}
    return {
        "counts": [_counts(table, counts) for table, counts in diff["counts"].items()],
        "groups": found,
        "beside": [_counts(t, counts) for t, counts in diff["counts"].items() if t not in listed],
    }


def search_words(action: Action) -> str:
    """What happens to search, in a sentence."""
    reason = next(iter(action.embedded.reasons.values()), None)
    if reason is not None:
        return _(
            "Search by words follows at once, search by meaning with the next sync: %(reason)s."
        ) % {"reason": reason}
    count = sum(len(set(texts)) for texts in action.embedded.texts.values())
    if not count:
        return _("Search follows at once; nothing has to be embedded.")
    return counting(
        "%(n)s text is embedded first, which may take a moment; then search follows at once. "
        "If that fails, nothing is changed.",
        "%(n)s texts are embedded first, which may take a moment; then search follows at once. "
        "If that fails, nothing is changed.",
        count,
    )


class _Entities:
    """Entities by the id that a diff has for them."""

    def __init__(self, here: Page, names: dict[str, Any]) -> None:
        self.here, self.names = here, names

    def __call__(self, number: Any) -> dict[str, Any]:
        name = self.names.get(str(number))
        return {
            "name": _("entity %(id)s") % {"id": number} if name is None else str(name),
            "id": number,
            "url": self.here.url(f"/entity/{number}") if isinstance(number, int) else None,
            "new": isinstance(number, str),
        }


def _moves(kind: Kind) -> bool:
    return (kind.table, kind.what) == ("observations", "moved")


def _together(kind: Kind) -> Kind:
    """What stands under one heading: moves by where from and where to, the others by table."""
    return kind if _moves(kind) else Kind(kind.table, kind.what)


def _heading(kind: Kind, size: int) -> str:
    """``Moved observations``."""
    heads = {
        "created": ngettext("New %(rows)s", "New %(rows)s", size),
        "moved": ngettext("Moved %(rows)s", "Moved %(rows)s", size),
        "changed": ngettext("Changed %(rows)s", "Changed %(rows)s", size),
        "removed": ngettext("Removed %(rows)s", "Removed %(rows)s", size),
    }
    return heads[kind.what] % {"rows": _named(kind.table, size)}


def _named(table: str, size: int) -> str:
    one, many = words(table)
    return _(one) if size == 1 else _(many)


def _counts(table: str, counts: dict[str, int]) -> str:
    """``2 new entities``, and ``3 observations: 2 moved, 1 removed``."""
    said = [(count, what) for what, count in counts.items() if count]
    total = sum(counts.values())
    rows = _named(table, total)
    if len(said) == 1:
        return _alone(said[0][1], total, rows)
    each = ", ".join(_among(what, count) for count, what in said)
    return _("%(n)s %(rows)s: %(each)s") % {"n": figure(total), "rows": rows, "each": each}


def _alone(what: str, count: int, rows: str) -> str:
    """``2 new entities``."""
    said = {
        "created": counting("%(n)s new %(rows)s", "%(n)s new %(rows)s", count, rows=rows),
        "moved": counting("%(n)s moved %(rows)s", "%(n)s moved %(rows)s", count, rows=rows),
        "changed": counting("%(n)s changed %(rows)s", "%(n)s changed %(rows)s", count, rows=rows),
        "removed": counting("%(n)s removed %(rows)s", "%(n)s removed %(rows)s", count, rows=rows),
    }
    return said[what]


def _among(what: str, count: int) -> str:
    """``2 moved``, of rows that were named before."""
    said = {
        "created": npgettext("rows", "%(n)s new", "%(n)s new", count) % {"n": figure(count)},
        "moved": counting("%(n)s moved", "%(n)s moved", count),
        "changed": counting("%(n)s changed", "%(n)s changed", count),
        "removed": counting("%(n)s removed", "%(n)s removed", count),
    }
    return said[what]


def _path(kind: Kind, entities: _Entities) -> dict[str, Any]:
    """Where the observations of a group come from and go to."""
    return {"from": entities(kind.source), "to": entities(kind.target)}


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
            "type": _text(was.get("relation_type", _("unknown"))),
            "to": entities(was.get("to_entity")),
        }
    elif table == "entity_access":
        found["entity"] = entities(number if number is not None else every.get("entity_id"))
    elif table == "co_occurrences":
        found["relation"] = {
            "from": entities(every.get("entity_a_id", row["key"][0])),
            "type": _("with"),
            "to": entities(every.get("entity_b_id", row["key"][-1])),
        }
    else:
        label = row["label"]
        found["text"] = (
            _("number %(id)s") % {"id": number} if label is None else _text(label, MAX_TEXT)
        )
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
    moves = _moves(Kind(row["table"], row["what"]))
    return [
        {
            "label": _label(name),
            "before": _value(name, before.get(name), entities),
            "after": _value(name, value, entities),
        }
        for name, value in after.items()
        if not (moves and name == "entity_id")
    ]


def _label(column: str) -> str:
    return _(_COLUMNS.get(column, column.replace("_", " ")))


def _value(column: str, value: Any, entities: _Entities) -> str:
    if value is None:
        return "–"
    if column in _ENTITIES:
        return short(entities(value)["name"], MAX_VALUE)
    if column == "similarity_flag":
        return _("yes") if value else _("no")
    return _text(value)


def _text(value: Any, most: int = MAX_VALUE) -> str:
    return short(value, most)
