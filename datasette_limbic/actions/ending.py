"""End an observation or a relation: it held until then, and stays as history.

The way out of a contradiction: what was true is not deleted, it gets ``valid_to``. An observation
that ends is news of its entity (DDR-007: "new or changed observation"), a relation that ends is
none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import times
from ..errors import BadParameter, Refused
from ..reports.queries import current
from ..schema import SPLIT_RELATIONS
from ..text import short
from . import basis, rows
from .model import Plan, Row, update
from .settling import settled


def plan(conn: sqlite3.Connection, arguments: Mapping[str, Any], now: str) -> Plan:
    """``{"observation": id}`` or ``{"relation": id}``, with ``"at"``: any time that
    ``times.parse_time`` reads, UTC where it says no zone; left out: now.

    A time to come is taken too: until then it holds, and a warning says so. One that is to end
    later can be given another end. Raises BadParameter, UnknownRow, and Refused: it has ended
    already, or it began later than that.
    """
    which = [name for name in ("observation", "relation") if arguments.get(name) is not None]
    if len(which) != 1:
        given = "both are given" if which else "neither is given"
        raise BadParameter(f"{given}: say which observation or which relation ends, by its id")
    at = _time(arguments.get("at"), now)
    if which[0] == "observation":
        return _observation(conn, arguments["observation"], at, now)
    return _relation(conn, arguments["relation"], at, now)


def _observation(conn: sqlite3.Connection, asked: Any, at: str, now: str) -> Plan:
    number = rows.whole_id("observation", asked)
    row = rows.observations(conn, [number])[number]
    owner = rows.owners(conn, [row])[0]
    _refuse(conn, f"observation {number}", row, at, now)
    changes = [
        update("observations", (number,), row, ("content", "entity_id"), valid_to=at),
        update("entities", (owner["id"],), owner, ("name",), updated_at=now, last_activity_at=now),
    ]
    warnings = _later("observation", at, now)
    if not warnings and not _others_hold(conn, owner["id"], number):
        warnings.append(f"{rows.named(owner)} is left without observations that hold")
    return Plan(
        "end",
        f"End observation {number} of {rows.named(owner)} at {at}: “{short(row['content'])}”",
        tuple(settled(conn, changes)),
        basis.make([owner], rows={"observation": [row]}),
        owner["id"],
        owner["name"],
        {"observation": number, "at": at},
        tuple(warnings),
    )


def _relation(conn: sqlite3.Connection, asked: Any, at: str, now: str) -> Plan:
    row = rows.relation(conn, asked)
    ends = {key[0]: each for key, each in _ends(conn, row).items()}
    _refuse(conn, f"relation {row['id']}", row, at, now)
    first, last = (_named(ends, row[column]) for column in ("from_entity", "to_entity"))
    change = update(
        "relations",
        (row["id"],),
        row,
        ("from_entity", "to_entity", "relation_type"),
        valid_to=at,
    )
    owner = ends.get(row["from_entity"])
    return Plan(
        "end",
        f"End relation {row['id']} at {at}: {first} → {short(row['relation_type'])} → {last}",
        (change,),
        basis.make(ends.values(), rows={"relation": [row]}),
        owner["id"] if owner else None,
        owner["name"] if owner else None,
        {"relation": row["id"], "at": at},
        (*_later("relation", at, now), *_other_way(conn, row, now)),
    )


def _time(asked: Any, now: str) -> str:
    if asked is None:
        return now
    found = times.to_sql(asked)
    if found is None:
        raise BadParameter(
            f"at is {asked!r:.60}: use a time such as 2026-03-01 or 2026-03-01 14:30:00 (UTC), or "
            "leave it out for now"
        )
    return found


def _refuse(conn: sqlite3.Connection, what: str, row: Row, at: str, now: str) -> None:
    """As search and the reports read the two times: what they cannot read never ends or begins."""
    ended, begins, same = conn.execute(
        "select datetime(:end) <= datetime(:now), datetime(:start) > datetime(:at),"
        " datetime(:end) = datetime(:at)",
        {"end": row["valid_to"], "start": row["valid_from"], "now": now, "at": at},
    ).fetchone()
    if ended:
        raise Refused(f"nothing was changed: {what} has ended already, at {row['valid_to']}")
    if same:
        raise Refused(f"nothing was changed: {what} ends at {row['valid_to']} already")
    if begins:
        raise Refused(
            f"nothing was changed: {what} begins at {row['valid_from']}, so it cannot end at {at}: "
            "give a later time"
        )


def _later(what: str, at: str, now: str) -> list[str]:
    until, present = times.parse_time(at), times.parse_time(now)
    if until is None or present is None or until <= present:
        return []
    return [f"{at} is still to come: until then the {what} holds, and from then on it does not"]


def _others_hold(conn: sqlite3.Connection, entity_id: int, number: int) -> bool:
    found = conn.execute(
        f"select 1 from observations o where o.entity_id = ? and o.id <> ? and {current('o')}"
        " limit 1",
        [entity_id, number],
    )
    return found.fetchone() is not None


def _ends(conn: sqlite3.Connection, row: Row) -> dict[Any, Row]:
    """Both ends, where they are there: adopted tables may hold anything."""
    ids = [row[c] for c in ("from_entity", "to_entity") if isinstance(row[c], int)]
    return rows.of(conn, "entities", "id", ids)


def _named(ends: Mapping[Any, Row], number: Any) -> str:
    found = ends.get(number)
    return rows.named(found) if found is not None else f"entity {number}"


def _other_way(conn: sqlite3.Connection, row: Row, now: str) -> list[str]:
    """A split links its parts both ways."""
    if row["relation_type"] not in SPLIT_RELATIONS:
        return []
    found = conn.execute(
        "select r.id, r.relation_type from relations r where r.from_entity = ? and r.to_entity = ?"
        " and r.relation_type in (select value from json_each(?)) and r.relation_type <> ?"
        f" and {current('r')}",
        [row["to_entity"], row["from_entity"], json.dumps(SPLIT_RELATIONS), row["relation_type"]],
    ).fetchall()
    return [f"the other way round '{kind}' still holds (relation {i})" for i, kind in found]
