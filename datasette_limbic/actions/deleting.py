"""Delete observations: they stay in the log of changes, from where they can come back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..text import counted
from . import basis, rows
from .model import Plan, RowChange
from .settling import settled

MAX_OBSERVATIONS = 10_000


def plan(conn: sqlite3.Connection, arguments: Mapping[str, Any], now: str) -> Plan:
    """``{"observations": [ids]}``, of one entity or of several.

    Warns where an entity is left with none. Raises BadParameter, UnknownRow and UnknownEntity.
    """
    ids = rows.whole_ids("observations", arguments.get("observations"), most=MAX_OBSERVATIONS)
    found = rows.observations(conn, ids)
    owners = rows.owners(conn, found.values())
    changes = [RowChange("observations", (number,), row, None) for number, row in found.items()]
    names = [rows.named(row) for row in owners]
    return Plan(
        "delete",
        f"Delete {counted(len(ids), 'observation', 'observations')} of {rows.listed(names)}",
        tuple(settled(conn, changes)),
        basis.make(owners, rows={"observations": found.values()}),
        owners[0]["id"] if len(owners) == 1 else None,
        owners[0]["name"] if len(owners) == 1 else None,
        {"observations": ids},
        tuple(
            f"{rows.named(row)} is left without observations"
            for row in owners
            if _left(conn, row["id"], ids) == 0
        ),
    )


def _left(conn: sqlite3.Connection, entity: int, ids: list[int]) -> int:
    held = rows.of(conn, "observations", "entity_id", [entity])
    return len({key[0] for key in held}.difference(ids))
