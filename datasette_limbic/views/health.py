"""Health: what is wrong, what wants a look, what is worth knowing, each with its rows."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from .. import compat, health
from ..i18n import figure, marked
from ..i18n import gettext as _
from ..reports.lists import MAX_SIZE, SIZE
from .common import Page, page
from .display import day, english, named, number, short
from .writable import may_edit

FIRST = 5
"""Rows of each finding where all of them are shown."""
LABELS = {
    "name": marked("Entity"),
    "entity": marked("Entity"),
    "entityType": marked("Type"),
    "from_name": marked("From"),
    "to_name": marked("To"),
    "relation_type": marked("Relation"),
    "access_count": marked("Accesses"),
    "ended_observations": marked("Ended"),
    "degree": marked("Neighbours"),
    "only_link": marked("Only link"),
    "joins": marked("Live entities"),
    "parts": marked("Sides"),
    "sides": marked("What it joins"),
    "share_left_out": marked("Left out"),
    "what": marked("What"),
    "row": marked("Row"),
    "text": marked("What"),
    "content": marked("Begins"),
    "entities": marked("Entities"),
    "observations": marked("Observations"),
    "characters": marked("Characters"),
    "names": marked("Names"),
    "check": marked("Check"),
    "state": marked("State"),
    "reason": marked("Reason"),
    "collection": marked("Collection"),
    "created_at": marked("Created at"),
    "last_access": marked("Last access"),
    "valid_from": marked("Valid from"),
    "valid_to": marked("Valid to"),
}
CARDS = {
    "broken": (marked("Broken"), marked("wrong in the file")),
    "attention": (marked("Wants a look"), marked("for a person to decide")),
    "note": (marked("Worth knowing"), marked("nothing to repair")),
}
# finding → what can be done about each of its rows
ACTIONS = {
    "archived_bridges": "restore",
    "name_clashes": "merge",
    "empty_entities": "archive",
    "orphans": "archive",
    "cut_snapshots": "split",
}
_TIMES = ("created_at", "last_access", "valid_from", "valid_to")


async def _health(here: Page) -> tuple[str, dict[str, Any]]:
    tables = health.tables() - set(health.GRAPH)
    hidden = [table for table in sorted(tables) if not await _may_view(here, table)]
    only, turned = here.given.get("list"), here.whole("page", 1)
    size = here.whole("size", SIZE if only else FIRST, MAX_SIZE)
    data = await here.read(
        lambda conn: health.health_report(
            conn,
            settings=here.settings,
            now=here.given.get("now"),
            only=only,
            page=turned,
            size=size,
            file=f"{here.db.name}.db",
            hidden=hidden,
        )
    )
    data["database"] = here.db.name
    if not here.as_json:
        await _decorate(here, data)
    return "limbic_health.html", data


async def _may_view(here: Page, table: str) -> bool:
    return await compat.may_view(here.datasette, here.request.actor, here.db.name, (table,))


async def _decorate(here: Page, data: dict[str, Any]) -> None:
    """What the template shows besides."""
    findings = data["findings"]
    # one list that was asked for is shown with its rows also where it has none
    data["_shown"] = [f for f in findings if f["count"] or (data["only"] and f["count"] == 0)]
    data["_unseen"] = [f for f in findings if f["count"] is None]
    data["_nothing"] = [f for f in findings if f["count"] == 0]
    data["_cards"] = [
        {
            "title": _(title),
            "help": _(words),
            "count": data["counts"][severity],
            "severity": severity,
        }
        for severity, (title, words) in CARDS.items()
    ]
    for finding in findings:
        finding["_title"] = _title(finding)
        finding["_advice"] = _said_or_english(finding["what_to_do"]["text"])
    data["_all_url"] = here.url("/health")
    edits = await may_edit(here.datasette, here.request.actor, here.db)
    for finding in data["_shown"]:
        await _decorate_one(here, finding)
        finding["_acts"] = _acts(here, finding) if edits else None


def _said_or_english(text: str) -> str:
    """Advice of a fixed list translated; that which names what was found in English."""
    said = _(text)
    return str(said) if said != text else english(text)


def _title(finding: dict[str, Any]) -> str:
    """As a heading."""
    found = _(finding["title"])
    return found[:1].upper() + found[1:]


async def _decorate_one(here: Page, finding: dict[str, Any]) -> None:
    finding["_severity"] = _(CARDS[finding["severity"]][0]).lower()
    finding["_labels"] = [
        (_(LABELS.get(name) or name.replace("_", " ").capitalize()), is_figure(finding, name))
        for name in finding["columns"]
    ]
    finding["_cells"] = [
        [_cell(here, finding, row, name, label) for name, (label, _) in _titled(finding)]
        for row in finding["rows"]
    ]
    finding["_more"] = finding["pages"] > 1 or finding["page"] > 1
    finding["_url"] = _list_url(here, finding["name"])
    finding["_before"] = finding["page"] > 1 and _list_url(
        here, finding["name"], min(finding["page"] - 1, finding["pages"])
    )
    finding["_after"] = finding["page"] < finding["pages"] and _list_url(
        here, finding["name"], finding["page"] + 1
    )
    if finding["view"] and await _may_view(here, finding["view"]):
        finding["_view_url"] = str(here.datasette.urls.table(here.db.name, finding["view"]))


def _acts(here: Page, finding: dict[str, Any]) -> list[dict[str, Any]] | None:
    """What can be done about each row; None where that is no action on an entity."""
    what = ACTIONS.get(finding["name"])
    if what is None:
        return None
    if what == "merge":
        return [
            {
                "what": what,
                "members": [each for each in row["names"] if not each["archived"]],
                "hint": named(row["names"][0]["name"], row["names"][0]["id"], 60),
            }
            for row in finding["rows"]
        ]
    return [
        {
            "what": what,
            "id": row["id"],
            "url": here.url(f"/split/{row['id']}"),
            "hint": named(row["name"], row["id"], 60),
        }
        for row in finding["rows"]
    ]


def _titled(finding: dict[str, Any]) -> list[tuple[str, tuple[str, bool]]]:
    return list(zip(finding["columns"], finding["_labels"], strict=True))


def is_figure(finding: dict[str, Any], name: str) -> bool:
    """Whether a column holds numbers."""
    values = [row[name] for row in finding["rows"] if row[name] is not None]
    return bool(values) and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in values
    )


def _list_url(here: Page, name: str, turned: int = 1) -> str:
    asked = {"list": name, **({"page": turned} if turned > 1 else {})}
    return here.url("/health?") + urlencode(asked)


def _cell(
    here: Page, finding: dict[str, Any], row: dict[str, Any], name: str, label: str
) -> dict[str, Any]:
    """One cell: ``pieces`` of text with a URL each, or None, in one or more ``lines``."""
    value = row[name]
    lines: list[list[tuple[Any, str | None]]]
    if name == "names":
        lines = [
            [(named(each["name"], each["id"], 120), _entity_url(here, each["id"]))]
            + [(f" ({_('archived')})", None)] * each["archived"]
            for each in value
        ]
    elif name == "sides":
        lines = [_side(here, side) for side in value]
        if row["parts"] > len(value):
            lines.append(
                [(_("and %(count)s more") % {"count": number(row["parts"] - len(value))}, None)]
            )
    elif name in finding["links"]:
        entity = row.get(finding["links"][name])
        shown = "–" if value is None else named(value, entity, 120)
        lines = [[(shown, None if value is None else _entity_url(here, entity))]]
    elif isinstance(value, bool):
        lines = [[(_("yes") if value else _("no"), None)]]
    elif name == "share_left_out":
        lines = [[(figure(value, ".0%"), None)]]
    elif name in _TIMES:
        lines = [[(day(value) if value else "–", None)]]
    elif isinstance(value, str):
        lines = [[(short(value, 300), None)]]
    else:
        lines = [[(number(value), None)]]
    return {"label": label, "lines": lines, "figure": is_figure(finding, name)}


def _side(here: Page, side: dict[str, Any]) -> list[tuple[Any, str | None]]:
    pieces: list[tuple[Any, str | None]] = [(f"{number(side['entities'])}: ", None)]
    for at, each in enumerate(side["names"]):
        pieces.append((", " if at else "", None))
        pieces.append((named(each["name"], each["id"], 60), _entity_url(here, each["id"])))
    if side["entities"] > len(side["names"]):
        pieces.append((" …", None))
    return pieces


def _entity_url(here: Page, entity: Any) -> str:
    return here.url(f"/entity/{entity}")


health_page = page(_health, health.GRAPH, takes=("list", "page", "size", "now"))
