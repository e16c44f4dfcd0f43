"""Merge entities: what is known of several comes to one, and the others are archived.

Nothing is deleted. What the one kept says already stays with the archived ones, and so do their
co-occurrences and rows of accesses: whom they came up with, and how often, is a record of
searches for them. The count of accesses is added to that of the one kept, which undoing takes
away again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import times
from ..errors import BadParameter
from ..reports.queries import current
from ..text import counted, listed
from . import basis, rows
from .model import Plan, Row, RowChange, update
from .repointing import Repointing, with_ids
from .settling import settled

MAX_OTHERS = 100
_TEXT = ("content", "kind", "created_at", "similarity_flag", "valid_to")


def plan(conn: sqlite3.Connection, arguments: Mapping[str, Any], now: str) -> Plan:
    """``{"keep": id or name, "others": [ids or names]}``.

    All observations and relations of the others move to the one kept, but for texts that both
    hold now, character by character, and for relations that would lead to itself or say again
    what one of its own says. Where its own one has ended and theirs holds, its own holds again.
    It is as old as the oldest of them and was last active when the latest was; name, type,
    confidence and validity stay.

    Raises BadParameter, UnknownEntity, and Refused where one of them is archived.
    """
    keep, others = _entities(conn, arguments)
    ids = {row["id"] for row in others}
    held: dict[int, list[Row]] = {number: [] for number in (keep["id"], *ids)}
    for row in rows.of(conn, "observations", "entity_id", held).values():
        held[row["entity_id"]].append(row)
    links = _relations(conn, held)
    moving, staying = _observations(conn, keep, others, held)
    changes = [_kept(keep, others), *(_archived(row, keep, now) for row in others)]
    changes += [
        update("observations", (row["id"],), row, _TEXT, entity_id=keep["id"]) for row in moving
    ]
    repointed = Repointing(conn, keep["id"], ids, links)
    changes += repointed.changes
    changes += _accesses(conn, keep["id"], ids)
    names = [rows.named(row) for row in others]
    return Plan(
        "merge_entities",
        f"Merge {listed(names)} into {rows.named(keep)}: "
        f"{counted(len(moving), 'observation', 'observations')} and "
        f"{counted(len(repointed.moved), 'relation', 'relations')} move",
        tuple(settled(conn, changes)),
        basis.make(
            [keep, *others],
            held,
            {"relation": links.values()},
        ),
        keep["id"],
        keep["name"],
        {"keep": keep["id"], "others": [row["id"] for row in others]},
        (*_types(keep, others), *_texts_stay(staying), *repointed.warnings),
    )


def _entities(conn: sqlite3.Connection, arguments: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    """The one kept and the others. Raises BadParameter, UnknownEntity and Refused."""
    asked = arguments.get("others")
    if not isinstance(asked, (list, tuple)):
        raise BadParameter(f"others is {asked!r:.60}: give a list of ids or names")
    if not asked:
        raise BadParameter("others is empty: give at least one entity to merge into the one kept")
    if len(asked) > MAX_OTHERS:
        raise BadParameter(
            f"others has {len(asked):,} entities: merge at most {MAX_OTHERS} at a time"
        )
    keep = rows.entity(conn, arguments.get("keep"))
    found: dict[int, Row] = {}
    for each in asked:
        row = rows.entity(conn, each)
        if row["id"] == keep["id"]:
            raise BadParameter(
                f"{rows.named(row)} (entity {row['id']}) is the one to keep and among the others "
                "too: take it out of others"
            )
        if row["id"] in found:
            raise BadParameter(
                f"{rows.named(row)} (entity {row['id']}) is twice among the others: give it once"
            )
        found[row["id"]] = row
    for row in (keep, *found.values()):
        rows.refuse_archived(row, ", or merge without it")
    return keep, list(found.values())


def _relations(conn: sqlite3.Connection, ids: Mapping[int, Any]) -> dict[int, Row]:
    either = " or ".join(
        f"{end} in (select value from json_each(?1))" for end in ("from_entity", "to_entity")
    )
    found = rows.where(conn, "relations", either, [json.dumps(list(ids))])
    return {key[0]: row for key, row in found.items()}


def _observations(
    conn: sqlite3.Connection, keep: Row, others: Sequence[Row], held: Mapping[int, Sequence[Row]]
) -> tuple[list[Row], list[Row]]:
    """Those that move, and those whose text is there already; both hold."""
    true_now = {
        row[0]
        for row in conn.execute(
            "select o.id from observations o"
            f" where o.entity_id in (select value from json_each(?)) and {current('o')}",
            [json.dumps(list(held))],
        )
    }
    said = {row["content"] for row in held[keep["id"]] if row["id"] in true_now}
    moving, staying = [], []
    for other in others:
        for row in held[other["id"]]:
            if row["id"] in true_now and row["content"] in said:
                staying.append(row)
                continue
            moving.append(row)
            if row["id"] in true_now:
                said.add(row["content"])
    return moving, staying


def _kept(keep: Row, others: Sequence[Row]) -> RowChange:
    """The times of the one kept: known since the earliest, active until the latest."""
    every = [keep, *others]
    return update(
        "entities",
        (keep["id"],),
        keep,
        ("name",),
        created_at=times.earliest([row["created_at"] for row in every]),
        last_activity_at=times.latest([row["last_activity_at"] for row in every]),
    )


def _archived(row: Row, keep: Row, now: str) -> RowChange:
    return update(
        "entities",
        (row["id"],),
        row,
        ("name",),
        archived_at=now,
        archived_reason=f"merged into {rows.named(keep)}",
    )


def _accesses(conn: sqlite3.Connection, keep: int, others: set[int]) -> list[RowChange]:
    """The sum of all counts and the latest time, for the one kept."""
    found = rows.of(conn, "entity_access", "entity_id", [keep, *others])
    theirs = [row for key, row in found.items() if key[0] != keep]
    if not theirs:
        return []
    mine = found.get((keep,))
    every = [mine, *theirs] if mine else theirs
    after = {
        "access_count": sum(rows.count_of(conn, row["access_count"]) for row in every),
        "last_access": times.latest([row["last_access"] for row in every]),
    }
    if mine is None:
        return [RowChange("entity_access", (keep,), None, {"entity_id": keep, **after})]
    return [update("entity_access", (keep,), mine, **after)]


def _types(keep: Row, others: Sequence[Row]) -> list[str]:
    differing = [
        f"{rows.named(row)} is {row['entity_type']!r:.60}"
        for row in others
        if row["entity_type"] != keep["entity_type"]
    ]
    if not differing:
        return []
    return [
        f"The types differ: {listed(differing)}, and {rows.named(keep)} stays "
        f"{keep['entity_type']!r:.60}"
    ]


def _texts_stay(staying: Sequence[Row]) -> list[str]:
    if not staying:
        return []
    return [
        f"{with_ids([row['id'] for row in staying], 'observation')} with a text that is there "
        "already, character by character, will stay with the archived ones"
    ]
