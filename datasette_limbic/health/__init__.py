"""What is wrong with a memory, what wants a look, what is worth knowing; with evidence.

Reads only, never loads a model, and is quick enough for a page. ``integrity`` is the whole check
of the file, of which this makes the quick part.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import integrity, schema
from ..answers import plain
from ..config import Settings, choice, number
from ..errors import BadParameter
from ..reports import lists
from . import checks
from .bridges import Side, cut_apart
from .looks import GRAPH, looks
from .model import SEVERITIES, Ask, Found, Look, NotLookedAt

__all__ = ["GRAPH", "Progress", "Side", "cut_apart", "health_report", "names", "tables"]

Progress = Callable[[int, int, str], None]
"""Called with (done, total, title of what is looked for next)."""


def names() -> tuple[str, ...]:
    """What ``only`` may be."""
    return tuple(look.name for look in looks())


def tables() -> frozenset[str]:
    """Every table that a health report reads."""
    read = {table for look in looks() for table in look.reads}
    made = checks.checks((*checks.TIMES, *checks.GONE, *checks.VECTORS, *checks.REST))
    return frozenset(GRAPH).union(read, *(one.tables for one in made))


def health_report(
    conn: sqlite3.Connection,
    *,
    settings: Settings | None = None,
    now: Any = None,
    only: str | None = None,
    page: int = 1,
    size: int = lists.SIZE,
    progress: Progress | None = None,
    file: str = "FILE",
    hidden: Collection[str] = (),
) -> dict[str, Any]:
    """All that health looks for, with the first ``size`` rows (1 to 1000) of each. Reads only.

    ``only`` names one of ``names()``, of which ``page`` (from 1) is given. ``now`` is any time
    that ``times.parse_time`` reads. ``file`` is how commands name the database. Tables in
    ``hidden`` are not read: what needs them is not looked at.

    ``findings`` are all of them, what deserves attention first: found ones by severity
    (``broken``, ``attention``, ``note``), then what could not be looked at (``count`` is None and
    ``note`` says why), then what was looked for and not found. Each has ``name``, ``title``,
    ``severity``, ``count``, ``rows``, ``columns`` (those of a row to show), ``what_to_do``
    (``text``, ``command``, ``sql``), ``links`` (column that names an entity → column with its
    id), ``view`` (a view of the file with the same rows, or None), ``note``, ``page``, ``pages``.
    ``healthy`` is False where something broken or worth attention was found; ``counts`` has the
    findings by severity. ``integrity`` says how many quick checks of ``integrity`` were among
    these, and how many are left to its command. Raises BadParameter and NotAMemory.
    """
    schema.require_memory(conn)
    if only is not None:
        choice("list", only, names())
    size = int(number("size", size, 1, lists.MAX_SIZE, whole=True))
    page = int(number("page", page, 1, lists.MAX_PAGE, whole=True))
    if only is None and page != 1:
        raise BadParameter(f"page is {page}: say of which list, one of {', '.join(names())}")
    moment = lists.moment(now)
    ask = Ask(conn, settings or Settings(), moment, (page - 1) * size, size, frozenset(hidden))
    wanted = [look for look in looks() if only in (None, look.name)]
    findings = []
    for done, look in enumerate(wanted):
        if progress:
            progress(done, len(wanted), look.title)
        findings.append(_finding(look, ask, page, file))
    if progress:
        progress(len(wanted), len(wanted), "done")
    findings.sort(key=_urgency)
    found = [finding for finding in findings if finding["count"]]
    counts = {s: sum(f["severity"] == s for f in found) for s in SEVERITIES}
    return plain(  # type: ignore[no-any-return]
        {
            "healthy": not counts["broken"] and not counts["attention"],
            "counts": counts,
            "findings": findings,
            "integrity": _integrity(file),
            "now": moment,
            "only": only,
            "page": page,
            "size": size,
        }
    )


def _finding(look: Look, ask: Ask, page: int, file: str) -> dict[str, Any]:
    hidden = sorted(ask.hidden.intersection(look.reads))
    try:
        if hidden:
            raise NotLookedAt(f"it reads {', '.join(hidden)}, which you may not view")
        found = look.find(ask)
        count: int | None = found.count
    except NotLookedAt as why:
        found, count = Found(note=str(why)), None
    return {
        "name": look.name,
        "title": look.title,
        "severity": look.severity,
        "count": count,
        "rows": found.rows,
        "columns": list(look.columns),
        "what_to_do": (found.advice or look.advice).as_dict(file),
        "links": dict(look.links),
        "view": look.view,
        "note": found.note,
        "page": page,
        "pages": lists.pages(found.count, ask.size),
    }


def _urgency(finding: dict[str, Any]) -> tuple[int, int]:
    """Found ones first; Python's sort keeps the order of ``looks()`` among equals."""
    severity = SEVERITIES.index(finding["severity"])
    if finding["count"] is None:
        return 1, severity
    return (0 if finding["count"] else 2), severity


def _integrity(file: str) -> dict[str, Any]:
    left = checks.left_out()
    return {
        "made": len(integrity.checks()) - len(left),
        "left_out": [one.title for one in left],
        "command": checks.COMMAND.replace("FILE", shlex.quote(file)),
    }
