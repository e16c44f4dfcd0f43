"""The actions that there are: what each takes, what it is called, and what works out its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..errors import BadParameter
from ..i18n import marked as _
from .model import Plan

Planner = Callable[[sqlite3.Connection, Mapping[str, Any], str], Plan]
Filler = Callable[[sqlite3.Connection, Mapping[str, Any], Any], dict[str, Any]]


@dataclass(frozen=True)
class Kind:
    """One action. ``takes`` are its arguments, in Python, in JSON and in the log alike."""

    name: str
    title: str
    """As a heading: "Split an entity"."""
    done: str
    """As a button: "Split"."""
    takes: tuple[str, ...]
    module: str
    function: str
    example: str
    """A JSON body."""
    filler: str | None = None
    """What puts in what may be left out and takes long to find; called once, before the plan."""

    @property
    def planner(self) -> Planner:
        """Imported when it is used: some need numpy or networkx."""
        found: Planner = getattr(import_module(f"{__package__}.{self.module}"), self.function)
        return found

    def filled(
        self, conn: sqlite3.Connection, arguments: Mapping[str, Any], settings: Any
    ) -> dict[str, Any]:
        """The arguments in full. Raises what the planner raises."""
        if self.filler is None:
            return dict(arguments)
        fill: Filler = getattr(import_module(f"{__package__}.{self.module}"), self.filler)
        return fill(conn, arguments, settings)


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "split", _("Split an entity"), _("Split"), ("entity", "children"), "splitting", "plan",
            '{"entity": "Atlas", "children": [{"name": "Atlas: maps", "observations": [4, 7]}]}',
            "proposed",
        ),
        Kind(
            "merge", _("Merge duplicate observations"), _("Merge"),
            ("entity", "clusters"), "merging",
            "plan", '{"entity": "Atlas", "clusters": [{"keep": 4, "remove": [9]}]}', "proposed",
        ),
        Kind(
            "delete", _("Delete observations"), _("Delete"), ("observations",), "deleting", "plan",
            '{"observations": [9]}',
        ),
        Kind(
            "archive", _("Archive an entity"), _("Archive"),
            ("entity", "reason"), "archiving",
            "archive", '{"entity": "Atlas", "reason": "finished in 2024"}',
        ),
        Kind(
            "restore", _("Restore an entity"), _("Restore"), ("entity",), "archiving", "restore",
            '{"entity": "Atlas"}',
        ),
        Kind(
            "end", _("End an observation or a relation"), _("End"),
            ("observation", "relation", "at"),
            "ending", "plan", '{"observation": 9, "at": "2026-03-01"}',
        ),
        Kind(
            "correct", _("Correct a confidence"), _("Correct"),
            ("entity", "observation", "confidence"),
            "correcting", "plan", '{"observation": 9, "confidence": 0.5}',
        ),
        Kind(
            "merge_entities", _("Merge entities"), _("Merge"),
            ("keep", "others"), "merging_entities",
            "plan", '{"keep": "Atlas", "others": ["ATLAS"]}',
        ),
        Kind(
            "undo", _("Undo a change"), _("Undo"), ("change",), "undoing", "plan",
            '{"change": 12}',
        ),
    )
}  # fmt: skip


def kind(name: str, arguments: Mapping[str, Any]) -> Kind:
    """The action of that name. Raises BadParameter where there is none, or for an argument that
    it does not take."""
    found = KINDS.get(name)
    if found is None:
        raise BadParameter(f"action is {name!r:.40}: use one of {', '.join(KINDS)}")
    unknown = [str(each)[:40] for each in arguments if each not in found.takes]
    if unknown:
        raise BadParameter(
            f"unknown argument {', '.join(unknown[:5])}: {name} takes {', '.join(found.takes)}"
        )
    return found
