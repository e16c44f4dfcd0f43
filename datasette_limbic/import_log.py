"""The log of imports: what came with each file, and how much was left out.

``limbic_imports.counts`` grows from version to version and any program may write it, so
figures are taken as they are found: an unknown one is shown, and a row without any is a row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import import_rejects, schema, times
from .errors import UnknownImport

PAGE = 50
MAX_SOURCES = 200
_MAX_DEPTH = 8
_MAX_FIGURES = 1000

Figures = dict[str, Any]

ROWS = """select id, source, format, started_at, finished_at,
  (select count(*) from limbic_import_rejects r where r.import_id = i.id) as rejects_kept
  from limbic_imports i where {} order by id desc limit :page offset :skip"""

# Numbers alone, at the top and one level down: the lists beside them may be megabytes long.
FIGURES = """with whole as (
  select id, case when json_valid(cast(counts as text)) then cast(counts as text) end as counts
  from limbic_imports i where {}
), top as (
  select whole.id, e.key, e.type, e.value
  from whole, json_each(case json_type(whole.counts) when 'object' then whole.counts end) e
)
select id, null as part, key, value from top where type in ('integer', 'real')
union all
select top.id, top.key, e.key, e.value
from top, json_each(case top.type when 'object' then top.value end) e
where e.type in ('integer', 'real')"""

# One absurd figure shall not swallow the sum of the others.
_ABSURD = 1e15
TOTALS = f"""select part, key, total(value) from ({FIGURES})
where value between -1e15 and 1e15 group by 1, 2 limit {_MAX_FIGURES}"""

# Those that say how much was left out, in any group.
LEFT_OUT = f"""select id, part, key, value from ({FIGURES})
where key in ('rejects', 'rejected', 'dangling', 'skipped')"""

_ALL = "1"
_OF_SOURCE = "cast(source as text) = :source"
_OF_IDS = "i.id in (select value from json_each(:ids))"


def import_list(
    conn: sqlite3.Connection, *, page: int = 1, source: str | None = None
) -> dict[str, Any]:
    """Imports, newest first, 50 a page, and the sum of their figures; of one file name if given.

    Reads only. Raises NotAMemory.
    """
    schema.require_memory(conn)
    where = _ALL if source is None else _OF_SOURCE
    args = {"source": source, "page": PAGE, "skip": (page - 1) * PAGE}
    count = conn.execute(f"select count(*) from limbic_imports i where {where}", args).fetchone()[0]
    totals: Figures = {}
    for part, key, value in conn.execute(TOTALS.format(where), args):
        _put(totals, part, key, value)
    return {
        "imports": _imports(conn, where, args),
        "source": source,
        "count": count,
        "count_all": conn.execute("select count(*) from limbic_imports").fetchone()[0],
        "page": page,
        "pages": max(1, -(-count // PAGE)),
        "totals": totals,
        "left_out": _left_out(conn, where, args),
    }


def sources(conn: sqlite3.Connection) -> list[str]:
    """File names that have been imported, for the filter."""
    return [
        row[0]
        for row in conn.execute(
            "select distinct cast(source as text) from limbic_imports"
            f" where length(source) between 1 and 200 order by 1 limit {MAX_SOURCES}"
        )
    ]


def import_detail(
    conn: sqlite3.Connection, import_id: int, *, page: int = 1, reason: str | None = None
) -> dict[str, Any]:
    """One import: its counts as they were stored, and its rejects, 100 a page, by line.

    ``reason`` leaves those whose reason is of the same kind. Raises UnknownImport, NotAMemory.
    """
    schema.require_memory(conn)
    args = {"ids": json.dumps([import_id]), "page": 1, "skip": 0}
    found = _imports(conn, _OF_IDS, args)
    if not found:
        raise UnknownImport(f"this memory has no import {import_id}: its log lists them all")
    counts = conn.execute("select counts from limbic_imports where id = ?", [import_id]).fetchone()
    return {
        "import": {**found[0], "counts": _counts(counts[0])},
        **import_rejects.rejects(conn, import_id, page=page, reason=reason),
    }


def left_out(figures: Mapping[str, Any], kept: int = 0) -> float:
    """How much of a file did not come in: lines, relations and accesses, observations.

    ``kept`` are the rejects in the log, for where the figures say nothing of them.
    """
    groups = [group for group in figures.values() if isinstance(group, dict)]
    rejects: float = _number(figures, "rejects") or (
        _number(figures, "rejected") + sum(_number(group, "dangling") for group in groups)
    )
    return max(rejects, kept) + sum(_number(group, "skipped") for group in groups)


def _number(group: Mapping[str, Any], key: str) -> float:
    value = group.get(key)
    return value if isinstance(value, (int, float)) else 0


def _left_out(conn: sqlite3.Connection, where: str, args: Mapping[str, Any]) -> float:
    """The sum of what each import left out, by the rule that each of them has by itself."""
    figures: dict[int, Figures] = {}
    for import_id, part, key, value in conn.execute(LEFT_OUT.format(where), args):
        _put(figures.setdefault(import_id, {}), part, key, value)
    kept = dict(
        conn.execute(
            "select import_id, count(*) from limbic_import_rejects where import_id in"
            f" (select id from limbic_imports i where {where}) group by 1",
            args,
        ).fetchall()
    )
    each = (left_out(figures.get(one, {}), kept.get(one, 0)) for one in figures.keys() | kept)
    total = sum(number for number in each if abs(number) <= _ABSURD)
    return int(total) if total == int(total) else total


def _imports(conn: sqlite3.Connection, where: str, args: Mapping[str, Any]) -> list[dict[str, Any]]:
    cursor = conn.execute(ROWS.format(where), args)
    names = [column[0] for column in cursor.description]
    rows = [dict(zip(names, row, strict=True)) for row in cursor]
    figures: dict[int, Figures] = {row["id"]: {} for row in rows}
    for import_id, part, key, value in conn.execute(
        FIGURES.format(_OF_IDS), {"ids": json.dumps(list(figures))}
    ):
        _put(figures[import_id], part, key, value)
    for row in rows:
        row["seconds"] = _seconds(row["started_at"], row["finished_at"])
        row["figures"] = figures[row["id"]]
        row["left_out"] = left_out(row["figures"], row["rejects_kept"])
    return rows


def _put(figures: Figures, part: str | None, key: str, value: Any) -> None:
    """Put one figure in its place; what is no finite number is left out."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return
    if part is None:
        group = {} if isinstance(figures.get(key), dict) else figures
    else:
        if not isinstance(figures.get(part), dict):  # a group counts more than a figure
            figures[part] = {}
        group = figures[part]
    if len(group) < _MAX_FIGURES:
        group[key] = int(value) if value == int(value) else value


def _seconds(started: Any, finished: Any) -> float | None:
    first, last = times.parse_time(started), times.parse_time(finished)
    if first is None or last is None or last < first:
        return None
    return round(last - first, 3)


def _counts(stored: Any) -> dict[str, Any] | None:
    """The counts as they were stored, None where they are not the JSON of an object."""
    try:
        found = json.loads(stored)
    except (ValueError, TypeError, RecursionError):
        return None
    return _fit(found) if isinstance(found, dict) else None


def _fit(value: Any, depth: int = 0) -> Any:
    """``value`` without lone surrogates, which no answer can hold, and without endless nesting."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if depth >= _MAX_DEPTH:
        return None if isinstance(value, (dict, list)) else value
    if isinstance(value, dict):
        return {_fit(key): _fit(item, depth + 1) for key, item in value.items()}
    return [_fit(item, depth + 1) for item in value] if isinstance(value, list) else value
