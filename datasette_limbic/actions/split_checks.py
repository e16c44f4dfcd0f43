"""The parts of a split against the memory: whose names and observations they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from datasette.utils.sqlite import sqlite3

from ..errors import Refused
from ..reports.name_clashes import folded
from ..text import listed
from . import rows
from .model import Row
from .split_children import Child


def names(conn: sqlite3.Connection, parent: Row, children: Sequence[Child]) -> None:
    """Raises Refused for a name that an entity has, whether archived or the one that is split."""
    with rows.exactly(conn):
        found = conn.execute(
            "select id, name, archived_at from entities"
            " where name in (select value from json_each(?)) order by id",
            [json.dumps([child.name for child in children])],
        ).fetchall()
    for number, name, archived_at in found:
        shown = rows.named({"name": name})
        if number == parent["id"]:
            raise Refused(f"{shown} is the name of the entity that is split: give another one")
        archived = f", archived at {archived_at}" if archived_at is not None else ""
        raise Refused(
            f"the name {shown} is taken by entity {number}{archived}: give the child another one"
        )


def observations(
    conn: sqlite3.Connection,
    parent: Row,
    children: Sequence[Child],
    there: Mapping[int, Row],
) -> None:
    """Raises for observations that are not the parent's: UnknownRow, UnknownEntity and
    Refused, naming whose it is."""
    asked = [number for child in children for number in child.observations]
    strange = [number for number in asked if number not in there]
    if not strange:
        return
    found = rows.observations(conn, strange)
    first = found[strange[0]]
    owner = rows.owners(conn, [first])[0]
    raise Refused(
        f"observation {first['id']} belongs to {rows.named(owner)} (entity {owner['id']}), not to "
        f"{rows.named(parent)}: take it out"
    )


def alike(conn: sqlite3.Connection, children: Sequence[Child]) -> list[str]:
    """Names that differ from others in case, accents or punctuation alone."""
    mine: dict[str, list[str]] = {}
    for child in children:
        mine.setdefault(folded(child.name), []).append(child.shown)
    found = [
        f"{listed(names)} differ in case, accents or punctuation alone"
        for names in mine.values()
        if len(names) > 1
    ]
    with rows.exactly(conn):
        for number, name in conn.execute("select id, name from entities order by id"):
            if isinstance(name, str) and (names := mine.get(folded(name))):
                found.append(
                    f"{names[0]} differs from {rows.named({'name': name})} (entity {number}) in "
                    "case, accents or punctuation alone"
                )
    return found
