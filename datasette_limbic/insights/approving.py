"""What a yes to an insight does: which action, with which arguments, and what of them one chooses.

Whoever shows an insight and whoever carries it out take it from here, pages and command line alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..actions.archiving import MAX_REASON
from ..answers import plain
from ..errors import BadParameter, Refused
from ..reports.entities import rows
from ..schema import holds
from .model import short

CHOSEN = {
    "contradiction": ("observation", "at"),
    "duplicate": ("keep",),
    "name_clash": ("keep",),
    "archive_candidate": ("reason",),
    "split": ("children",),
}
"""By kind what a person may choose; all else stands as it was raised."""
NAMES = ("observation", "at", "keep", "reason", "children")
"""All of those."""
_CARRIED_OUT = """
select id, action, summary, actor, created_at, undone_by from limbic_changes
where insight_id = ? and undoes is null order by id desc limit 1
"""


@dataclass(frozen=True)
class Approval:
    """What approving does. ``action`` None: it is noted, and nothing else changes."""

    action: str | None
    arguments: dict[str, Any] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)
    """The values that a person may choose, as they are; ``children`` None is the proposal."""
    options: dict[str, list[int]] = field(default_factory=dict)
    """The ids that one of them may be, the suggested one first."""


def approval(found: Mapping[str, Any], chosen: Mapping[str, Any] | None = None) -> Approval:
    """Of an insight as ``queue.insight`` gives it, with what a person chose instead.

    A contradiction ends ``observation``, one of the two, ``at`` a time (None: now). Of duplicates
    and of names alike ``keep`` stays. An entity is archived with ``reason``. ``children`` are
    those of a split. What an import brought is noted, since its ids may be those of another
    memory; only ``archive_candidate`` with an entity of this one archives that.

    Raises BadParameter, naming what may be chosen, and Refused where another program wrote an
    insight that cannot be read.
    """
    given = dict(chosen or {})
    kind = found["kind"] if found["ours"] or _may_archive(found) else None
    takes = CHOSEN.get(kind or "", ())
    unknown = [str(name)[:40] for name in given if name not in takes]
    if unknown:
        what = f"choose {', '.join(takes)}" if takes else "there is nothing to choose"
        raise BadParameter(f"unknown argument {', '.join(unknown[:5])}: {what} here")
    if kind is None:
        return Approval(None)
    if not found["ours"]:
        reason = short(found["body"] or found["title"], MAX_REASON)
        return _archive({"entity": found["entity"]["id"], "reason": reason}, given)
    try:
        return _OURS[kind](dict(found["arguments"]), given, found)
    except (KeyError, TypeError, IndexError) as error:
        raise Refused(
            f"what insight {found['id']} would do cannot be read, since another program wrote it"
        ) from error


def other_than(found: Mapping[str, Any], action: str, arguments: Mapping[str, Any]) -> str | None:
    """What approving ``found`` does, in words, where it is not this action with these arguments,
    in full as a plan has them; None where it is, whatever of it was chosen. Raises Refused."""
    proposed = approval(found)
    if proposed.action is None:
        return "it came with an import, and approving it only notes that it was seen"
    if proposed.action == action:
        try:
            would = approval(found, _chosen(found["kind"], arguments))
        except BadParameter:
            would = None  # other ids than it offers
        if would is not None and _in_order(would.arguments) == _in_order(arguments):
            return None
    chosen = CHOSEN.get(found["kind"], ())
    said = {name: value for name, value in proposed.arguments.items() if name != "children"}
    free = f", where {' and '.join(chosen)} may be chosen" if chosen else ""
    return f"{proposed.action} {json.dumps(said, ensure_ascii=False):.400}{free}"


def carried_out(conn: sqlite3.Connection, insight: int) -> dict[str, Any] | None:
    """The last change that approving this insight made (``id``, ``action``, ``summary``, ``actor``,
    ``created_at``, ``undone_by``), or None. Reads only."""
    found = rows(conn, _CARRIED_OUT, [insight if holds(insight) else None])
    answer: dict[str, Any] | None = plain(found[0]) if found else None
    return answer


def _may_archive(found: Mapping[str, Any]) -> bool:
    return found["kind"] == "archive_candidate" and found["entity"] is not None


def _end(arguments: dict[str, Any], given: dict[str, Any], found: Mapping[str, Any]) -> Approval:
    sides = [found["facts"][side]["id"] for side in ("earlier", "later")]
    options = [arguments["observation"], *(i for i in sides if i != arguments["observation"])]
    one = _one_of("observation", given.get("observation"), options)
    at = given.get("at", arguments.get("at"))
    if not (at is None or isinstance(at, str)):
        raise BadParameter(f"at is {at!r:.40}: use a time such as 2026-03-01, or null for now")
    chosen = {"observation": one, "at": at or None}
    return Approval("end", dict(chosen), chosen, {"observation": options})


def _merge(arguments: dict[str, Any], given: dict[str, Any], _: Mapping[str, Any]) -> Approval:
    cluster = arguments["clusters"][0]
    every = [cluster["keep"], *cluster["remove"]]
    keep = _one_of("keep", given.get("keep"), every)
    clusters = [{"keep": keep, "remove": [i for i in every if i != keep]}]
    return Approval("merge", {**arguments, "clusters": clusters}, {"keep": keep}, {"keep": every})


def _merge_entities(
    arguments: dict[str, Any], given: dict[str, Any], _: Mapping[str, Any]
) -> Approval:
    every = [arguments["keep"], *arguments["others"]]
    keep = _one_of("keep", given.get("keep"), every)
    others = [i for i in every if i != keep]
    return Approval(
        "merge_entities", {"keep": keep, "others": others}, {"keep": keep}, {"keep": every}
    )


def _archive(
    arguments: dict[str, Any], given: dict[str, Any], _: Mapping[str, Any] | None = None
) -> Approval:
    reason = given.get("reason", arguments["reason"])
    if not isinstance(reason, str) or not reason.strip():
        raise BadParameter("reason is missing: say in a few words why it is archived")
    if len(reason) > MAX_REASON:
        raise BadParameter(f"reason has {len(reason):,} characters: use at most {MAX_REASON:,}")
    return Approval("archive", {**arguments, "reason": reason}, {"reason": reason})


def _split(arguments: dict[str, Any], given: dict[str, Any], _: Mapping[str, Any]) -> Approval:
    children = given.get("children")
    more = {} if children is None else {"children": children}
    return Approval("split", {"entity": arguments["entity"], **more}, {"children": children})


def _restore(arguments: dict[str, Any], _: dict[str, Any], __: Mapping[str, Any]) -> Approval:
    return Approval("restore", {"entity": arguments["entity"]})


_OURS = {
    "contradiction": _end,
    "duplicate": _merge,
    "name_clash": _merge_entities,
    "archive_candidate": _archive,
    "split": _split,
    "bridge": _restore,
}


def _chosen(kind: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What was chosen, from the arguments of a plan."""
    if kind == "duplicate":
        return {"keep": arguments["clusters"][0]["keep"]}
    return {name: arguments[name] for name in CHOSEN.get(kind, ()) if name in arguments}


def _in_order(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments in which lists of ids that go are sorted: their order means nothing."""
    found = dict(arguments)
    if "others" in found:
        found["others"] = sorted(found["others"], key=repr)
    if "clusters" in found:
        found["clusters"] = [
            {**each, "remove": sorted(each["remove"], key=repr)} for each in found["clusters"]
        ]
    return found


def _one_of(name: str, value: Any, options: list[int]) -> int:
    """The value, the first of ``options`` where none is given. Raises BadParameter."""
    if value is None:
        return options[0]
    if type(value) is not int or value not in options:
        shown = ", ".join(map(str, options[:20])) + (" …" if len(options) > 20 else "")
        raise BadParameter(f"{name} is {value!r:.40}: use one of {shown}")
    return value
