"""Archive an entity, out of search until it is restored; and restore it.

Source: DDR-007, point 7: only ever because somebody said so, with the reason, and neither
``updated_at`` nor ``last_activity_at`` is touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..errors import BadParameter, Refused
from ..health.bridges import Side, cut_apart
from ..text import counted, short, storable
from . import basis, rows
from .model import Plan, Row, update

MAX_REASON = 1000
_SIDES = 3


def archive(conn: sqlite3.Connection, arguments: Mapping[str, Any], now: str) -> Plan:
    """``{"entity": id or name, "reason": text}``. Warns where the entity alone joins live ones.

    Raises UnknownEntity, Refused (archived already) and BadParameter (no reason).
    """
    row = rows.entity(conn, arguments.get("entity"))
    reason = arguments.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise BadParameter("reason is missing: say in a few words why it is archived")
    if len(reason) > MAX_REASON:
        raise BadParameter(f"reason has {len(reason):,} characters: use at most {MAX_REASON:,}")
    if row["archived_at"] is not None:
        raise Refused(
            f"nothing was changed: {rows.named(row)} was archived already, at {row['archived_at']}"
        )
    reason = storable(reason.strip())
    change = update(
        "entities", (row["id"],), row, ("name",), archived_at=now, archived_reason=reason
    )
    return Plan(
        "archive",
        f"Archive {rows.named(row)}: {reason}",
        (change,),
        _basis(conn, row),
        row["id"],
        row["name"],
        {"entity": row["id"], "reason": reason},
        tuple(_warnings(conn, cut_apart(conn, row["id"], now))),
    )


def restore(conn: sqlite3.Connection, arguments: Mapping[str, Any], now: str) -> Plan:
    """``{"entity": id or name}``. Raises UnknownEntity and Refused (not archived)."""
    row = rows.entity(conn, arguments.get("entity"))
    if row["archived_at"] is None:
        raise Refused(f"nothing was changed: {rows.named(row)} is not archived")
    change = update(
        "entities", (row["id"],), row, ("name",), archived_at=None, archived_reason=None
    )
    return Plan(
        "restore",
        f"Restore {rows.named(row)}, archived at {row['archived_at']}{_why(row)}",
        (change,),
        _basis(conn, row),
        row["id"],
        row["name"],
        {"entity": row["id"]},
    )


def _basis(conn: sqlite3.Connection, row: Row) -> basis.Basis:
    """All that a reason may speak of: what is known of the entity, whether anybody asks for it,
    and whom it joins. Its relations are one digest, since a hub has thousands."""
    number = row["id"]
    links = {
        **rows.of(conn, "relations", "from_entity", [number]),
        **rows.of(conn, "relations", "to_entity", [number]),
    }
    return basis.make(
        [row],
        {number: rows.of(conn, "observations", "entity_id", [number]).values()},
        together={
            f"the accesses of entity {number}": [
                basis.facts(each) for each in rows.read(conn, "entity_access", [(number,)]).values()
            ],
            f"the relations of entity {number}": [basis.facts(links[key]) for key in sorted(links)],
        },
    )


def _why(row: Row) -> str:
    """Why it was archived: that it was merged into another one is worth to know."""
    reason = row["archived_reason"]
    return f" ({short(reason)})" if reason else ""


def _warnings(conn: sqlite3.Connection, sides: tuple[Side, ...]) -> list[str]:
    """How large each side is that is cut off, and who is on it."""
    if not sides:
        return []
    shown = sides[:_SIDES]
    names = _names(conn, [number for side in shown for number in side.first])
    said = []
    for side in shown:
        first = [names[number] for number in side.first if number in names]
        more = side.entities - len(first)
        rest = f" and {more:,} more" if more > 0 else ""
        said.append(f"{counted(side.entities, 'entity', 'entities')} ({', '.join(first)}{rest})")
    left = f"; and {len(sides) - _SIDES:,} more sides" if len(sides) > _SIDES else ""
    return [
        f"It is a bridge: without it {len(sides):,} sides would no longer be linked to each other: "
        f"{'; '.join(said)}{left}"
    ]


def _names(conn: sqlite3.Connection, ids: list[int]) -> dict[int, str]:
    return {key[0]: rows.named(row) for key, row in rows.of(conn, "entities", "id", ids).items()}
