"""The rows of a diff with what a person needs to read them: texts and names in place of ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..answers import plain
from . import log, rows

_LOOKED_UP = ("entities", "observations", "relations")


def completed(
    conn: sqlite3.Connection, found: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A diff (see ``diff.diff``) whose changed and moved rows have all of the row in ``shown``, as
    it is in the memory now; and the names of ``log.names``. Reads only."""
    now: dict[tuple[str, Any], Any] = {}
    for table in _LOOKED_UP:
        ids = [r["key"][0] for r in found["rows"] if r["table"] == table and _stays(r)]
        there = rows.read(conn, table, [(number,) for number in ids])
        now |= {(table, key[0]): plain(row) for key, row in there.items()}
    every = []
    for row in found["rows"]:
        whole = now.get((row["table"], row["key"][0]))
        every.append(row if whole is None else {**row, "shown": {**row.get("shown", {}), **whole}})
    answer = {**found, "rows": every}
    return answer, log.names(conn, answer)


def _stays(row: Mapping[str, Any]) -> bool:
    return row["before"] is not None and row["after"] is not None
