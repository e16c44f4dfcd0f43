"""All that the overview shows of a memory: its status, how it grew, what is in it, its health.

Each part stands alone: one that cannot be read is None, and ``errors`` says why. What takes long
in a large memory is kept until somebody writes to it, and a minute more (``lately``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import leading, over_time, status, times
from .config import Settings
from .health import GRAPH, health_report
from .health.model import SEVERITIES
from .lately import lately
from .schema import ACCESS_LOG
from .text import cut
from .unchanged import unchanged

log = logging.getLogger("datasette_limbic")

SMALL = 50_000
"""Rows of a memory that is looked through whole for its health; of a larger one QUICK alone."""
QUICK = ("hub_stubs", "empty_entities")
SEARCH_LOG = "limbic_searches"
# Some figures change with time alone, such as what is stale: those are read again after so long.
_AGE_S = 300


def glance(
    conn: sqlite3.Connection,
    *,
    settings: Settings | None = None,
    reports: bool = True,
    reviews: bool = True,
    hidden: Collection[str] = (),
    now: Any = None,
) -> dict[str, Any]:
    """``status`` and what the overview shows besides. Reads only. Raises NotAMemory.

    ``growth`` and ``activity`` are those of ``over_time``; ``hubs``, ``newest`` and ``most_used``
    those of ``leading``. ``health`` {counts, whole, looked_for, findings}: how many findings there
    are of each severity, and [{name, title, severity, count}] of those; in a memory of more than
    SMALL rows only QUICK is looked for, and ``whole`` is False. ``errors`` has a sentence for each
    part that could not be read and is None; ``read_at`` has the UTC time of each part that was read
    some moments ago, and may not know of what was written since. Tables in ``hidden`` are not read
    for health and activity.
    """
    settings = settings or Settings()
    errors: dict[str, str] = {}
    read_at: dict[str, str] = {}
    moment = times.to_sql(now) or times.now_sql()
    unseen = frozenset(hidden)
    age = int((times.parse_time(moment) or 0.0) // _AGE_S)
    depends = (age, repr(settings), reports, reviews, unseen)

    rows = 0

    def part(name: str, read: Callable[[], Any], *, slow: bool = False) -> Any:
        nonlocal rows
        try:
            if not slow:
                return read()
            if name == "counts" or rows <= SMALL:  # of a small memory all is of this moment
                answer = unchanged(conn, (name, *depends), read)
                if name == "counts":
                    rows = _rows(answer)
                return answer
            answer, at = lately(conn, (name, *depends), read)
            if at is not None:
                read_at[name] = at
            return answer
        except Exception as error:
            # whatever is wrong with one table: the other parts are still of use
            log.warning("the overview lacks %s: %s", name, error, exc_info=True)
            errors[name] = cut(str(error) or type(error).__name__, 400)
            return None

    data = status.in_parts(conn, part, settings=settings, reports=reports, reviews=reviews)
    counts = data["counts"] = data["counts"] or _counts_one_by_one(conn)
    rows = _rows(counts)
    seen = {
        "accesses": ACCESS_LOG not in unseen,
        "searches": SEARCH_LOG not in unseen,
    }
    graph = not unseen.intersection(GRAPH)
    data.update(
        growth=part("growth", lambda: over_time.growth(conn, now=moment), slow=True),
        activity=part("activity", lambda: over_time.activity(conn, now=moment, **seen), slow=True)
        if any(seen.values())
        else None,
        hubs=part("hubs", lambda: leading.hubs(conn), slow=True),
        newest=part("newest", lambda: leading.newest(conn), slow=True),
        most_used=part("most_used", lambda: leading.most_used(conn), slow=True),
        health=part("health", lambda: _health(conn, settings, moment, unseen, rows), slow=True)
        if graph
        else None,
    )
    data["errors"] = errors
    data["read_at"] = read_at
    return data


def _rows(counts: dict[str, int | None]) -> int:
    return sum(value or 0 for value in counts.values())


def _counts_one_by_one(conn: sqlite3.Connection) -> dict[str, int | None]:
    """Each count, None where its table cannot be read; raises where that is the entities'."""
    found: dict[str, int | None] = {}
    for name, rows in status.COUNTED.items():
        try:
            found[name] = conn.execute(f"select count(*) from {rows}").fetchone()[0]
        except sqlite3.DatabaseError:  # why stands in the errors already
            if name == "entities":
                raise
            found[name] = None
    return found


def _health(
    conn: sqlite3.Connection, settings: Settings, now: str, hidden: frozenset[str], rows: int
) -> dict[str, Any]:
    whole = rows <= SMALL
    found = []
    for name in (None,) if whole else QUICK:
        report = health_report(
            conn, settings=settings, now=now, only=name, size=1, hidden=sorted(hidden)
        )
        found += [
            {key: finding[key] for key in ("name", "title", "severity", "count")}
            for finding in report["findings"]
        ]
    findings = [each for each in found if each["count"]]
    findings.sort(key=lambda each: SEVERITIES.index(each["severity"]))
    return {
        "counts": {s: sum(each["severity"] == s for each in findings) for s in SEVERITIES},
        "whole": whole,
        "looked_for": sum(each["count"] is not None for each in found),
        "findings": findings,
    }
