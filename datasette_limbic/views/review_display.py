"""Findings of the review queue in words: kinds, what speaks for each, what was judged before."""

from __future__ import annotations

import json
from typing import Any

from ..i18n import counting, marked
from ..i18n import gettext as _
from ..insights.words import words
from . import duplicates_display
from .common import Page
from .display import day, number, short

MAX_RAW = 20_000
# of a finding; pages show them translated
STATUSES = (marked("pending"), marked("approved"), marked("dismissed"))


def title(kind: Any) -> str:
    """A kind as a badge; that of an import as it came."""
    known = words(kind)
    return short(kind, 60) if known is None else _(known.title)


def decorate(here: Page, data: dict[str, Any]) -> None:
    """What the template of one finding needs beside it. May take some hundredths of a second."""
    found = data["insight"]
    found["_kind"] = title(found["kind"])
    known = words(found["kind"])
    found["_no"] = _("Dismiss") if known is None else _("Dismiss: %(no)s") % {"no": _(known.no)}
    found["_entity_url"] = here.url(f"/entity/{found['entity']['id']}") if found["entity"] else None
    found["_split_url"] = None
    if found["kind"] == "split" and found["ours"] and found["entity"]:
        found["_split_url"] = here.url(f"/split/{found['entity']['id']}?insight={found['id']}")
    found["_queue_url"] = here.url("/review")
    for name in ("previous", "next"):
        beside = found[name]
        found[f"_{name}_url"] = None if beside is None else here.url(f"/review/{beside}")
    found["_facts"] = facts(here, data)
    if data["change"] is not None:
        data["change"]["_url"] = here.url(f"/changes/{data['change']['id']}")


def facts(here: Page, data: dict[str, Any]) -> dict[str, Any]:
    """What speaks for it: ``figures`` ([label, value, below]), ``items`` to choose from or to read,
    ``notes``, ``raw``, the text of what only another program can read, and ``says_all`` where
    the body would only say it again."""
    found = data["insight"]
    shown: dict[str, Any] = {
        "figures": [], "items": [], "more": 0, "notes": [], "raw": None, "choice": None,
        "sides": False, "says_all": False,
    }  # fmt: skip
    reads = _FACTS.get(found["kind"]) if found["ours"] else None
    try:
        if reads is not None:
            return {**shown, **reads(here, data, found["facts"])}
    except (KeyError, TypeError, ValueError, AttributeError):
        # another program wrote it under a key of ours: it is shown as it is
        return {**shown, "raw": _raw(found["facts"])}
    return {**shown, "raw": _raw(found["facts"])}


def _contradiction(here: Page, data: dict[str, Any], of: dict[str, Any]) -> dict[str, Any]:
    sides = [of["earlier"], of["later"]]
    texts = duplicates_display.marked(str(sides[0]["content"]), str(sides[1]["content"]))
    items = [
        _observation(here, data, side, text=text, which=which, choose=choose)
        for side, text, (which, choose) in zip(
            sides,
            texts,
            (
                (_("Earlier"), _("End the earlier one")),
                (_("Later"), _("End the later one")),
            ),
            strict=True,
        )
    ]
    rule = _(duplicates_display.RULES.get(of["rule"], ""))
    alike = [f"{rule}."] if rule else []
    notes = [_("They differ in %(what)s.") % {"what": of["difference"]}] if of["difference"] else []
    scores = duplicates_display.scores({"cosine": of["cosine"], "containment": of["containment"]})
    return {
        "items": items,
        "sides": True,
        "choice": _("Which of the two ends?"),
        "name": "observation",
        "notes": [
            *notes,
            " ".join([*alike, "; ".join(scores) + "."]),
            _("If only one of the two is true now, the other one ends: it stays as history."),
        ],
        "says_all": True,
    }


def _duplicate(here: Page, data: dict[str, Any], of: dict[str, Any]) -> dict[str, Any]:
    items = [
        _observation(
            here, data, each, text=duplicates_display.cut(each["content"]),
            choose=_("Keep this one"),
            badge=_("suggested") if each["id"] == of["keep"] else None,
        )
        for each in of["observations"]
    ]  # fmt: skip
    more = of["count"] - len(items)
    rules = [_(duplicates_display.RULES.get(rule, str(rule))) for rule in of["rules"]]
    return {
        "items": items,
        "more": max(0, more),
        "choice": _("Which one stays?"),
        "name": "keep",
        "notes": [
            *(f"{rule}." for rule in rules),
            _("Suggested is %(why)s.") % {"why": _(str(of["why"]))},
        ],
        "says_all": True,
    }


def _name_clash(here: Page, data: dict[str, Any], of: dict[str, Any]) -> dict[str, Any]:
    keep = of["keep"]
    listed = list(of["entities"])
    if keep["id"] not in [each["id"] for each in listed]:
        listed.append(keep)
    items = [
        {
            "id": each["id"],
            "entity": each["name"],
            "url": here.url(f"/entity/{each['id']}"),
            "beside": ", ".join(
                [
                    short(each["entityType"], 60),
                    *_observations(each.get("observations")),
                ]
            ),
            "choose": _("Keep this one"),
            "badge": _("suggested") if each["id"] == keep["id"] else None,
            "checked": each["id"] == data["chosen"].get("keep"),
        }
        for each in listed
    ]
    return {
        "items": items,
        "more": max(0, of["count"] - len(items)),
        "choice": _("Which one stays?"),
        "name": "keep",
    }


def _bridge(here: Page, data: dict[str, Any], of: dict[str, Any]) -> dict[str, Any]:
    joined = []
    for side in of["sides"]:
        names = ", ".join(short(each["name"], 80) for each in side["names"])
        joined.append(
            counting(
                "%(n)s live entity, by way of %(names)s",
                "%(n)s live entities, by way of %(names)s",
                side["entities"],
                names=names,
            )
        )
    reason = short(of["archived_reason"] or _("no reason given"), 200)
    only = _("the only link") if of["only_link"] else _("not the only link")
    return {
        "figures": [
            [_("Archived"), day(of["archived_at"]), reason],
            [_("Live neighbours"), number(of["neighbours"]), ""],
            [_("Sides"), number(len(joined)), only],
        ],
        "notes": [_("Joins %(side)s") % {"side": each} for each in joined],
    }


def _split(here: Page, data: dict[str, Any], of: dict[str, Any]) -> dict[str, Any]:
    topics = [f"{short(topic['label'], 200)}: {_size(topic['size'])}" for topic in of["topics"]]
    return {
        "figures": [
            [
                _("Observations"),
                number(of["observations"]),
                _("threshold %(value)s") % {"value": number(of["threshold"])},
            ],
            [_("Split score"), number(of["split_score"], 2), _("above 1 is worth a split")],
            [_("Diversity"), number(of["diversity"], 2), _("from 1 to 2")],
        ],
        "notes": topics,
    }


def _archive(here: Page, data: dict[str, Any], of: dict[str, Any]) -> dict[str, Any]:
    last = day(of["last_access"]) if of["last_access"] else _("never")
    return {
        "figures": [
            [_("Accesses"), number(of["access_count"]), ""],
            [_("Last access"), last, ""],
            [_("Last activity"), day(of["last_activity_at"]), ""],
            [_("Made"), day(of["created_at"]), ""],
            [_("Observations"), number(of["observations"]), ""],
            [_("Links"), number(of["degree"]), _("with live entities")],
        ]
    }


_FACTS = {
    "contradiction": _contradiction,
    "duplicate": _duplicate,
    "name_clash": _name_clash,
    "bridge": _bridge,
    "split": _split,
    "archive_candidate": _archive,
}


def _observation(
    here: Page, data: dict[str, Any], of: dict[str, Any], *, text: Any, choose: str,
    which: str = "", badge: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    entity = data["insight"]["entity"]["id"]
    return {
        "id": of["id"],
        "text": text,
        "which": which,
        "url": here.url(f"/entity/{entity}#observation-{of['id']}"),
        "day": of["created_at"],
        "choose": choose,
        "badge": badge,
        "checked": of["id"] in (data["chosen"].get("keep"), data["chosen"].get("observation")),
    }


def _observations(count: Any) -> list[str]:
    return [] if count is None else [_size(count)]


def _size(count: int) -> str:
    return counting("%(n)s observation", "%(n)s observations", count)


def _raw(value: Any) -> str | None:
    if value is None or value == {} or value == "":
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return short(text, MAX_RAW)
