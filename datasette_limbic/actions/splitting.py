"""Split an entity: some of its observations become new entities, which it contains.

Source: "Mantenimiento & Operaciones", "Splitting de Entidades". A split is a matter of order and
no news: nothing gets fresher or more important by it. The parent keeps its times and its row of
accesses, a child is as old as the parent and gets its share of the accesses, and the links between
them (``contiene``, ``parte_de``) count for no degree.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import times
from ..errors import Refused
from ..reports.split_proposal import propose_entity_split
from ..schema import SPLIT_RELATIONS
from ..text import counted, listed
from . import basis, rows, split_checks, split_children
from .model import Key, New, Plan, Row, RowChange, update
from .settling import PAIRS, settled
from .split_children import Child

_SHOWN = ("content", "kind", "created_at", "similarity_flag", "valid_to")


def proposed(
    conn: sqlite3.Connection, arguments: Mapping[str, Any], settings: Any = None
) -> dict[str, Any]:
    """``arguments`` with the children of ``propose_entity_split`` where they are left out.

    May take seconds. Raises Refused, with the reason, where nothing is proposed.
    """
    if arguments.get("children") is not None:
        return dict(arguments)
    row = rows.entity(conn, arguments.get("entity"))
    rows.refuse_archived(row)
    found = propose_entity_split(conn, row["id"], settings=settings)
    if not found["children"]:
        raise Refused(
            f"{rows.named(row)} was not split: {found['reason']} {found['summary']} To split it "
            "all the same, say which observations go where (children)"
        )
    return {**arguments, **given(found)}


def given(found: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that do what ``propose_entity_split`` found."""
    children = [
        {
            "name": child["name"],
            "entityType": child["entityType"] or None,
            "observations": [each["id"] for each in child["observations"]],
        }
        for child in found["children"]
    ]
    return {"entity": found["id"], "children": children}


def seen(conn: sqlite3.Connection, entity: Any) -> basis.Basis:
    """What any split of the entity, by id or name, is worked out from. Raises UnknownEntity."""
    parent = rows.entity(conn, entity)
    return _seen(parent, rows.of(conn, "observations", "entity_id", [parent["id"]]).values())


def _seen(parent: Row, observations: Iterable[Row]) -> basis.Basis:
    return basis.make([parent], {parent["id"]: observations})


def plan(conn: sqlite3.Connection, arguments: Mapping[str, Any], now: str) -> Plan:
    """``{"entity": id or name, "children": [{"name", "entityType", "observations": [ids]}]}``.

    ``entityType`` may be left out for the parent's, ``children`` for the proposal. Observations
    that are in no child stay; those that ended may move too. What moves keeps all it has: time,
    kind, flag, confidence, validity.

    Raises BadParameter, UnknownEntity, UnknownRow, and Refused where the memory as it stands does
    not allow it: an archived parent, a name that is taken, an observation of another entity, or
    one child that would take everything.
    """
    arguments = proposed(conn, arguments)
    parent = rows.entity(conn, arguments.get("entity"))
    rows.refuse_archived(parent)
    children = split_children.read(arguments["children"])
    split_checks.names(conn, parent, children)
    held = rows.of(conn, "observations", "entity_id", [parent["id"]])
    there = {key[0]: row for key, row in held.items()}
    split_checks.observations(conn, parent, children, there)
    moving = sum(len(child.observations) for child in children)
    if len(children) == 1 and moving == len(there):
        raise Refused(
            f"{children[0].shown} would take all {counted(moving, 'observation', 'observations')} "
            f"of {rows.named(parent)}, which is no split: rename the entity instead, or leave "
            "some of them out"
        )
    accesses = rows.read(conn, "entity_access", [(parent["id"],)]).get((parent["id"],))
    demanded = _demanded(conn)
    changes: list[RowChange] = []
    for number, child in enumerate(children, 1):
        moved = [there[observation] for observation in child.observations]
        new = New(f"new-{number}")
        changes.append(_entity(new, child, parent, moved, now, demanded))
        changes += [
            update("observations", (row["id"],), row, _SHOWN, entity_id=new) for row in moved
        ]
        changes += _links(new, parent, now)
        if accesses is not None:
            changes.append(_accesses(conn, new, accesses, len(moved), len(there)))
    changes = settled(conn, changes)
    return Plan(
        "split",
        f"Split {rows.named(parent)}: {listed([child.shown for child in children])} "
        f"{'takes' if len(children) == 1 else 'take'} {moving:,} of its "
        f"{counted(len(there), 'observation', 'observations')}",
        tuple(changes),
        _seen(parent, there.values()),
        parent["id"],
        parent["name"],
        {
            "entity": parent["id"],
            "children": [child.given(parent["entity_type"]) for child in children],
        },
        tuple(_warnings(conn, parent, children, len(there) - moving, changes)),
    )


def _demanded(conn: sqlite3.Connection) -> list[str]:
    """Columns of another program's that a new entity has to have: they are as the parent's."""
    columns = conn.execute("pragma table_xinfo(entities)").fetchall()
    return [
        name
        for _, name, _, needed, default, key, hidden in columns
        if needed and default is None and not key and not hidden
    ]


def _entity(
    new: New,
    child: Child,
    parent: Row,
    moved: Sequence[Row],
    now: str,
    demanded: Sequence[str],
) -> RowChange:
    return RowChange(
        "entities",
        (new,),
        None,
        {
            **{name: parent[name] for name in demanded},
            "name": child.name,
            "entity_type": (
                parent["entity_type"] if child.entity_type is None else child.entity_type
            ),
            "created_at": parent["created_at"],
            "updated_at": now,
            "last_activity_at": _activity(parent, moved),
            "confidence": parent["confidence"],
            "valid_from": parent["valid_from"],
            "valid_to": parent["valid_to"],
        },
    )


def _activity(parent: Row, moved: Sequence[Row]) -> Any:
    """The newest time of what moves, and never later than the parent's; where the parent's is
    unknown, the child's is too."""
    known = [
        (moment, row["created_at"])
        for row in moved
        if (moment := times.parse_time(row["created_at"])) is not None
    ]
    newest = max(known, key=lambda each: each[0], default=None)
    last = times.parse_time(parent["last_activity_at"])
    if last is None:
        return parent["last_activity_at"]
    return newest[1] if newest is not None and newest[0] < last else parent["last_activity_at"]


def _links(new: New, parent: Row, now: str) -> list[RowChange]:
    contains, part_of = SPLIT_RELATIONS
    return [
        RowChange(
            "relations",
            (New(f"{relation_type}-{new}"),),
            None,
            {
                "from_entity": source,
                "to_entity": target,
                "relation_type": relation_type,
                "created_at": now,
            },
        )
        for relation_type, source, target in (
            (contains, parent["id"], new),
            (part_of, new, parent["id"]),
        )
    ]


def _accesses(
    conn: sqlite3.Connection, new: New, parent: Row, moving: int, all_of_them: int
) -> RowChange:
    """The child's share of the parent's accesses, rounded down."""
    count = rows.count_of(conn, parent["access_count"])
    return RowChange(
        "entity_access",
        (new,),
        None,
        {
            "entity_id": new,
            "access_count": count * moving // all_of_them,
            "last_access": parent["last_access"],
        },
    )


def _warnings(
    conn: sqlite3.Connection,
    parent: Row,
    children: Sequence[Child],
    staying: int,
    changes: Sequence[RowChange],
) -> list[str]:
    found = []
    if not staying:
        found.append(
            f"Nothing stays in {rows.named(parent)}: what is general is best left there, so that "
            "it sums up its parts"
        )
    found += split_checks.alike(conn, children)
    parted = [change.key for change in changes if change.table == PAIRS and change.after is None]
    if parted:
        pairs = listed([f"{earlier} and {later}" for earlier, later in parted])
        found.append(
            "Kept pairs of duplicates or contradictions come to stand in different entities, "
            f"where they are no longer compared: observations {pairs}"
        )
    lonely = _lonely(conn, parted, changes)
    if lonely:
        found.append(
            f"{counted(len(lonely), 'observation keeps its', 'observations keep their')} flag of a "
            "duplicate without the one that it was like: observation "
            f"{listed([str(each) for each in lonely])}"
        )
    return found


def _lonely(
    conn: sqlite3.Connection, parted: Iterable[Key], changes: Sequence[RowChange]
) -> list[int]:
    """Flagged observations that lose each pair that the flag stood for: what moves keeps it."""
    gone = set(parted)
    kinds = {change.key: change.value("kind") for change in changes if change.table == PAIRS}
    later = sorted({key[1] for key in gone if kinds[key] == "duplicate"})
    ids = json.dumps(later)
    left = rows.where(
        conn, PAIRS, "kind = 'duplicate' and later_id in (select value from json_each(?))", [ids]
    )
    still = {key[1] for key in left if key not in gone}
    flagged = rows.read(conn, "observations", [(each,) for each in later if each not in still])
    return [key[0] for key, row in flagged.items() if row["similarity_flag"] == 1]
