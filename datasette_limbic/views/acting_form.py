"""What a form asks of an action: one field of JSON that a page of ours made, and fields that a
person filled in on top of it. ``templates/limbic_actions.html`` says how those are named."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..actions.kinds import Kind
from ..actions.split_children import MAX_CHILDREN
from ..errors import BadParameter
from . import posting
from .common import Page, whole_number

YES = "1"
"""Of the field ``approve``: do it."""
CONTROL = ("arguments", "basis", "insight", "embed", "approve", "return")
_ONE = frozenset(("entity", "observation", "relation", "keep", "change"))
_LISTS = frozenset(("observations", "others"))
_CHILD = re.compile(r"children\.(\d{1,2})\.(name|entityType|skip)", re.ASCII)
_CLUSTER = re.compile(r"clusters\.(\d{1,6})\.(keep|remove|skip)", re.ASCII)
_PLACE = re.compile(r"place\.(-?\d{1,19})", re.ASCII)
# Below /{database}/-/limbic: no dots, which a browser takes for steps upwards.
_BACK = re.compile(r"(?:/[\w~-]+)*/?(?:\?[!-\"$-\[\]-~]*)?(?:#[\w-]*)?", re.ASCII)
MAX_BACK = 2000


@dataclass(frozen=True)
class Asked:
    """One request for an action, from JSON or from a form."""

    name: str
    arguments: dict[str, Any]
    dry_run: bool
    basis: str | None = None
    insight: int | None = None
    embed: bool = True
    back: str = ""
    """Path below /{database}/-/limbic of the page that it came from."""


def of_form(
    here: Page, kind: Kind, pairs: Iterable[tuple[str, str]], *, draft: bool = False
) -> Asked:
    """What the fields of a form ask for. Raises BadParameter, naming the field.

    With ``draft`` the children of a split are all there, as the form has them: those that are left
    out with ``skip``, and those without observations.
    """
    given = list(pairs)
    control = {name: value for name, value in given if name in CONTROL}
    arguments = posting.parsed(control.get("arguments") or "{}", kind.takes)
    friendly = [(name, value) for name, value in given if name not in CONTROL]
    if kind.name == "delete" and not arguments and not friendly:
        raise BadParameter("nothing would be deleted: tick at least one observation")
    _set(kind, arguments, [pair for pair in friendly if pair[0] in kind.takes])
    _inside(kind, arguments, [pair for pair in friendly if pair[0] not in kind.takes], draft)
    return Asked(
        kind.name,
        arguments,
        dry_run=control.get("approve") != YES,
        basis=control.get("basis") or None,
        insight=_insight(control.get("insight", "")),
        embed=control.get("embed") != "0",
        back=back(here, control.get("return", "")),
    )


def back(here: Page, asked: str) -> str:
    """A path below ours to go back to; that of the overview where it is none."""
    path = asked.removeprefix(here.url()) if asked.startswith(here.url()) else asked
    return path if len(path) <= MAX_BACK and _BACK.fullmatch(path) else ""


def _insight(text: str) -> int | None:
    found = whole_number(text)
    if text and found is None:
        raise BadParameter(f"insight is {text!r:.40}: use the id of a finding in the review queue")
    return found


def _set(kind: Kind, arguments: dict[str, Any], fields: list[tuple[str, str]]) -> None:
    listed: dict[str, list[int | str]] = {}
    for name, value in fields:
        if name in _LISTS:
            listed.setdefault(name, []).append(_id(value))
        elif name in _ONE:
            arguments[name] = _id(value)
        elif name == "confidence":
            try:
                arguments[name] = float(value)
            except ValueError as error:
                raise BadParameter(f"confidence is {value!r:.40}: use 0 to 1") from error
        elif name == "at":
            arguments[name] = value.strip() or None
        elif name == "reason":
            arguments[name] = value
        else:
            raise BadParameter(f"{name} of {kind.name} is given in arguments, as JSON")
    arguments.update(listed)
    others = arguments.get("others")
    if any(name == "keep" for name, _ in fields) and isinstance(others, list):
        # all of those that a form offers, the one that was chosen among them
        arguments["others"] = [each for each in others if each != arguments["keep"]]


def _id(text: str) -> int | str:
    """An id; a name where it is no number."""
    found = whole_number(text, signed=True)
    return text if found is None else found


def _inside(
    kind: Kind, arguments: dict[str, Any], fields: list[tuple[str, str]], draft: bool
) -> None:
    """Fields of a split's children and a merge's clusters.

    There may be thousands, so that each is looked at once, and each list gone through once.
    """
    if kind.name == "split":
        _split(kind, arguments, fields, draft)
    elif kind.name == "merge":
        _merge(kind, arguments, fields)
    elif fields:
        raise _unknown(kind, fields[0][0])


def _split(
    kind: Kind, arguments: dict[str, Any], fields: list[tuple[str, str]], draft: bool
) -> None:
    filled: dict[tuple[int, str], str] = {}
    places: dict[int, str] = {}
    for name, value in fields:
        if match := _CHILD.fullmatch(name):
            filled[int(match[1]), match[2]] = value
        elif match := _PLACE.fullmatch(name):
            places[int(match[1])] = value
        else:
            raise _unknown(kind, name)
    if not fields and not (draft and arguments.get("children") is not None):
        return  # what the planner says of it, or the proposal
    children = _list(arguments, "children")
    if len(children) > MAX_CHILDREN:
        raise BadParameter(f"children has {len(children):,} entries: use at most {MAX_CHILDREN}")
    for (index, what), value in filled.items():
        _fill(_child(children, index), what, value)
    if draft:
        for child in children:
            _ids("observations of a child", child.setdefault("observations", []))
    if places:
        _place(children, places)
    if not draft and (places or any(what == "skip" for _, what in filled)):
        arguments["children"] = _left(children, bool(places))


def _merge(kind: Kind, arguments: dict[str, Any], fields: list[tuple[str, str]]) -> None:
    kept: dict[int, str] = {}
    removed: dict[int, list[str]] = {}
    skipped: set[int] = set()
    for name, value in fields:
        match = _CLUSTER.fullmatch(name)
        if match is None:
            raise _unknown(kind, name)
        index = int(match[1])
        if match[2] == "keep":
            kept[index] = value
        elif match[2] == "remove":
            removed.setdefault(index, []).append(value)
        elif value:
            skipped.add(index)
    if not fields:
        return
    clusters = _list(arguments, "clusters")
    for index, value in kept.items():
        _keep(clusters, index, value)
    for index, values in removed.items():
        _remove(clusters, index, values)
    if skipped:
        arguments["clusters"] = [each for i, each in enumerate(clusters) if i not in skipped]


def _unknown(kind: Kind, name: str) -> BadParameter:
    return BadParameter(f"unknown field {name[:40]}: {kind.name} takes {_taken(kind)}")


def _taken(kind: Kind) -> str:
    more = {"split": ("children.0.name", "place.ID"), "merge": ("clusters.0.keep",)}
    return ", ".join((*kind.takes, *more.get(kind.name, ()), *CONTROL))


def _list(arguments: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = arguments.setdefault(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BadParameter(f"{name} is {found!r:.60}: use a list of objects")
    return found


def _child(children: list[dict[str, Any]], index: int) -> dict[str, Any]:
    while len(children) <= index:
        children.append({"name": "", "observations": []})
    return children[index]


def _fill(child: dict[str, Any], what: str, value: str) -> None:
    if what == "skip":
        child["skip"] = bool(value)
    elif what == "entityType" and not value.strip():
        child.pop("entityType", None)  # that of the parent
    else:
        # a browser sends the lines of a text as CR LF
        child[what] = value.replace("\r\n", "\n")


def _left(children: list[dict[str, Any]], placed: bool) -> list[dict[str, Any]]:
    """Without those that are skipped; whoever takes everything out of one does not want it."""
    return [
        {name: value for name, value in child.items() if name != "skip"}
        for child in children
        if not child.get("skip") and (child.get("observations") or not placed)
    ]


def _place(children: list[dict[str, Any]], places: dict[int, str]) -> None:
    """Observations into children, by their number from 0, or out of all where that is empty."""
    goes: dict[int, list[int]] = {}
    for observation, value in places.items():
        index = whole_number(value) if value else None
        if value and (index is None or index >= MAX_CHILDREN):
            raise BadParameter(f"place.{observation} is {value!r:.40}: use the number of a child")
        if index is not None:
            _child(children, index)
            goes.setdefault(index, []).append(observation)
    for index, child in enumerate(children):
        held = _ids("observations of a child", child.get("observations"))
        here = dict.fromkeys(goes.get(index, ()))
        stay = [each for each in held if each in here or each not in places]
        there = set(stay)
        child["observations"] = [*stay, *(each for each in here if each not in there)]


def _cluster(clusters: list[dict[str, Any]], index: int, what: str) -> tuple[Any, list[int]]:
    """What stays of a cluster and what goes. Raises BadParameter."""
    if index >= len(clusters):
        raise BadParameter(f"clusters.{index}.{what}: there are {len(clusters):,} clusters")
    cluster = clusters[index]
    return cluster.get("keep"), _ids("remove of a cluster", cluster.get("remove"))


def _keep(clusters: list[dict[str, Any]], index: int, value: str) -> None:
    """Another one of a cluster stays."""
    kept, removed = _cluster(clusters, index, "keep")
    wanted = whole_number(value, signed=True)
    every = [kept, *removed]
    if wanted not in every:
        raise BadParameter(f"clusters.{index}.keep is {value!r:.40}: use one of {every!s:.80}")
    clusters[index].update(keep=wanted, remove=[each for each in every if each != wanted])


def _remove(clusters: list[dict[str, Any]], index: int, values: list[str]) -> None:
    """Those of a cluster that go, but for the one that stays; empty values say nothing."""
    kept, removed = _cluster(clusters, index, "remove")
    chosen = dict.fromkeys(_id(value) for value in values if value)
    known = set(removed)
    strange = [each for each in chosen if each != kept and each not in known]
    if strange:
        what = f"clusters.{index}.remove is {strange[0]!r:.40}"
        raise BadParameter(f"{what}: use one of {removed!s:.80}")
    clusters[index]["remove"] = [each for each in removed if each in chosen]
    if not clusters[index]["remove"]:
        raise BadParameter("none would go: tick at least one besides the one that stays")


def _ids(what: str, held: Any) -> list[int]:
    """What a page of ours wrote into its arguments. Raises BadParameter."""
    if not isinstance(held, list) or not all(type(each) is int for each in held):
        raise BadParameter(f"{what} is {held!r:.60}: use a list of ids")
    return held
