"""The form in which a person edits a split before they see what it would change.

It holds the draft of all children, and fields for one page of observations: what stands on other
pages stays as the draft has it. Children are numbered as the sentences of ``actions.splitting``
count them, so those that are left out come last.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..actions.kinds import KINDS
from ..actions.split_children import MAX_CHILDREN
from ..errors import BadParameter
from ..i18n import gettext as _
from . import acting_form
from .acting_form import Asked
from .common import Page, whole_number
from .display import short

KIND = KINDS["split"]
ROWS = 500
"""Observations with a field on one page."""
NAMED_OPTIONS = 12
"""Where there are more children, the fields name them by their number alone."""
DIFF = "diff"
_PAGE = "page."
Child = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """What a browser sent for the form."""

    asked: Asked
    children: list[Child] | None
    """All of the draft; None: the proposal, since nothing was drafted."""
    wants_diff: bool
    page: int


def read(here: Page, entity: int, pairs: Sequence[tuple[str, str]]) -> Sent:
    """The draft that the fields hold, and what the button that was pressed asks for.

    Raises BadParameter, naming the field.
    """
    ours = {name: value for name, value in pairs if name in ("show", "page")}
    rest = [(name, value) for name, value in pairs if name not in ours]
    asked = acting_form.of_form(here, KIND, [*rest, ("entity", str(entity))], draft=True)
    show = ours.get("show", "")
    turned = show.removeprefix(_PAGE) if show.startswith(_PAGE) else ours.get("page", "")
    children = asked.arguments.get("children")
    return Sent(asked, children, show == DIFF, max(1, whole_number(turned) or 1))


def wanted(entity: int, sent: Sent) -> Asked:
    """The split that the form asks for, to be looked at. Raises BadParameter: nothing moves."""
    children = [
        {name: value for name, value in child.items() if name != "skip"}
        for child in sent.children or ()
        if not child.get("skip") and not _is_blank(child)
    ]
    if not children:
        raise BadParameter(
            "nothing would move: give at least one new entity a name, and say which observations "
            "go there"
        )
    asked = sent.asked
    return Asked(
        KIND.name,
        {"entity": entity, "children": children},
        dry_run=True,
        insight=asked.insight,
        embed=asked.embed,
        back=asked.back,
    )


def shown(
    data: Mapping[str, Any], drafted: Sequence[Child] | None, known: Collection[int], page: int
) -> dict[str, Any]:
    """The form as the template shows it.

    ``data`` is of ``reports.split_proposal.proposal``, ``drafted`` what a person made of it (None:
    the proposal), ``known`` the ids of all observations of the entity: others went meanwhile.
    """
    children = _tidy(data["arguments"]["children"] if drafted is None else drafted, known)
    rows = sorted(
        [row for child in data["children"] for row in child["observations"]] + data["stays"],
        key=lambda row: int(row["id"]),
    )
    pages = max(1, -(-len(rows) // ROWS))
    page = min(page, pages)
    on_page = rows[(page - 1) * ROWS : page * ROWS]
    places = {i: at for at, child in enumerate(children) for i in child["observations"]}
    fields = [*children, *_blanks(len(children))]
    terms = {child["name"]: child["terms"] for child in data["children"]}
    held = {row["id"] for row in rows}
    stay = [row for row in on_page if row["id"] not in places]
    return {
        "parts": [
            {
                **child,
                "number": at + 1,
                "has_lines": "\n" in child["name"] or "\r" in child["name"],
                "terms": terms.get(child["name"]) or [],
                "size": len(child["observations"]),
                "rows": (part := [row for row in on_page if places.get(row["id"]) == at]),
                "beyond": len(child["observations"]) - len(part),
            }
            for at, child in enumerate(fields)
        ],
        "stay": {
            "size": (size := len(held - places.keys())),
            "rows": stay,
            "beyond": size - len(stay),
        },
        "options": [
            (str(at), _option(at, child, data["name"], len(fields)))
            for at, child in enumerate(fields)
        ],
        "places": {i: str(at) for i, at in places.items()},
        "arguments": json.dumps(
            {"children": [{n: v for n, v in c.items() if n != "skip"} for c in children]},
            ensure_ascii=False,
            separators=(",", ":"),
        ),
        "page": page,
        "pages": pages,
        "before": f"{_PAGE}{page - 1}" if page > 1 else None,
        "after": f"{_PAGE}{page + 1}" if page < pages else None,
        "first": (page - 1) * ROWS + 1,
        "last": (page - 1) * ROWS + len(on_page),
        "total": len(rows),
    }


def _tidy(children: Sequence[Child], known: Collection[int]) -> list[Child]:
    """Children with what is still there, without blank ones; those that are left out last."""
    found: list[Child] = [
        {
            "name": str(child.get("name") or ""),
            "entityType": str(child.get("entityType") or ""),
            "observations": [i for i in child.get("observations") or () if i in known],
            "skip": bool(child.get("skip")),
        }
        for child in children
    ]
    return sorted(
        (child for child in found if not _is_blank(child)), key=lambda child: bool(child["skip"])
    )


def _is_blank(child: Mapping[str, Any]) -> bool:
    return not (child.get("observations") or str(child.get("name") or "").strip())


def _blanks(there: int) -> list[Child]:
    """Further ones for a person to fill in: one, and two where nothing else is proposed."""
    count = min(1 if there else 2, MAX_CHILDREN - there)
    return [{"name": "", "entityType": "", "observations": [], "skip": False}] * max(0, count)


def _option(at: int, child: Mapping[str, Any], parent: str, count: int) -> str:
    """A child in a field of a few words: without what all of them are called."""
    name = " ".join(str(child["name"]).removeprefix(parent).strip(" –-:").split())
    if not name:
        if child["observations"]:
            return _("child %(number)s") % {"number": at + 1}
        return _("child %(number)s (a further one)") % {"number": at + 1}
    if count > NAMED_OPTIONS:
        return _("child %(number)s") % {"number": at + 1}
    return _("child %(number)s: %(name)s") % {"number": at + 1, "name": short(name, 40)}
