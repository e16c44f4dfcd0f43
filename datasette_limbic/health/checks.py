"""Findings of ``integrity`` as findings of health: one set of queries for both.

A page runs those that take milliseconds on a hundred thousand observations. What reads every
page of the file, every word of the text index or every vector is left to
``datasette limbic check``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import integrity
from ..integrity import Check, Result
from ..integrity.report import shown
from .model import Advice, Ask, Found, NotLookedAt

TIMES = ("times.",)
GONE = ("gone.",)
VECTORS = ("vectors.orphans", "vectors.dimension")
REST = ("schema.", "several.", "pairs.", "marks.", "values.", "json.")
# over 100 ms for 100,000 observations each
_SLOW = (".utf8",)
COLUMNS = ("what", "row")
COMMAND = "datasette limbic check FILE"


def checks(prefixes: tuple[str, ...]) -> list[Check]:
    """The quick checks whose names begin with one of these."""
    return [
        one
        for one in integrity.checks()
        if one.name.startswith(prefixes) and not one.name.endswith(_SLOW)
    ]


def left_out() -> list[Check]:
    """The checks that health does not make."""
    made = {one.name for one in checks((*TIMES, *GONE, *VECTORS, *REST))}
    return [one for one in integrity.checks() if one.name not in made]


def finder(prefixes: tuple[str, ...]) -> Callable[[Ask], Found]:
    """What looks for all that these checks find, row by row."""

    def find(ask: Ask) -> Found:
        allowed = [one for one in checks(prefixes) if not one.tables & ask.hidden]
        if not allowed:
            raise NotLookedAt("it reads tables that you may not view")
        names = {one.name for one in allowed}
        report = integrity.check(
            ask.conn,
            settings=ask.settings,
            only=names.__contains__,
            examples=ask.first + ask.size,
        )
        rows = [row for result in report.findings for row in _rows(result)]
        found = Found(
            sum(result.count for result in report.findings),
            _page(report.findings, rows, ask),
            _advice(report.findings),
        )
        hidden = len(checks(prefixes)) - len(allowed)
        unseen = [result for result in report.results if result.ok is None]
        if unseen and len(unseen) == len(report.results):
            raise NotLookedAt(unseen[0].note or unseen[0].title)
        notes = []
        if hidden:
            notes.append(f"{hidden} checks read tables that you may not view and were not made")
        if unseen:
            notes.append(f"{len(unseen)} checks could not be made: {unseen[0].note}")
        found.note = "; ".join(notes) or None
        return found

    return find


def _rows(result: Result) -> list[dict[str, Any]]:
    return [
        {"check": result.name, "what": result.title, "row": shown(example)}
        for example in result.examples
    ]


def _page(findings: Iterable[Result], rows: list[dict[str, Any]], ask: Ask) -> list[dict[str, Any]]:
    """The rows wanted: each check kept as many as any page up to this one may need."""
    out: list[dict[str, Any]] = []
    first, last = ask.first, ask.first + ask.size
    at = 0
    for result in findings:
        kept = [row for row in rows if row["check"] == result.name]
        # those that were counted and not kept lie past the end of the page
        out += [row for place, row in enumerate(kept, at) if first <= place < last]
        at += result.count
    return out


def _advice(findings: list[Result]) -> Advice | None:
    """What the checks themselves say repairs it."""
    if not findings:
        return None
    repairs = [result.repair for result in findings if result.repair is not None]
    commands = dict.fromkeys(
        command for repair in repairs if (command := repair.command("FILE")) is not None
    )
    sql = dict.fromkeys(statement for repair in repairs for statement in repair.sql)
    texts = dict.fromkeys(repair.text for repair in repairs if repair.text)
    says = "; ".join(texts)
    if sql:
        says = "Only a person can decide: look at the rows, then run what fits." + (
            f" {says[0].upper()}{says[1:]}." if says else ""
        )
    elif says:
        says = f"{says[0].upper()}{says[1:]}."
    elif commands:
        says = "One command puts it right."
    return Advice(says, " && ".join(commands) or None, tuple(sql))
