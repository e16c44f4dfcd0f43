"""Correct a confidence: how far a fact is believed, said anew by somebody who knows better.

Source: DDR-007. ``confidence`` is belief in the fact; nothing but an explicit correction changes
it, and nothing decays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..errors import BadParameter, Refused
from ..text import short
from . import basis, rows
from .model import Plan, update


def plan(conn: sqlite3.Connection, arguments: Mapping[str, Any], now: str) -> Plan:
    """``{"entity": id or name, "confidence": 0..1}``, or ``"observation": id`` in its place.

    It is activity of the entity. Raises BadParameter, UnknownEntity, UnknownRow, and Refused where
    the confidence is that already.
    """
    which = [name for name in ("entity", "observation") if arguments.get(name) is not None]
    if len(which) != 1:
        given = "both are given" if which else "neither is given"
        raise BadParameter(
            f"{given}: say which entity (id or name) or which observation (id) is meant"
        )
    confidence = _confidence(arguments.get("confidence"))
    if which[0] == "entity":
        row = rows.entity(conn, arguments["entity"])
        _refuse_same(rows.named(row), row["confidence"], confidence)
        return Plan(
            "correct",
            f"Correct the confidence of {rows.named(row)} from {_said(row['confidence'])} to "
            f"{confidence:g}",
            (
                update(
                    "entities",
                    (row["id"],),
                    row,
                    ("name",),
                    confidence=confidence,
                    updated_at=now,
                    last_activity_at=now,
                ),
            ),
            basis.make([row]),
            row["id"],
            row["name"],
            {"entity": row["id"], "confidence": confidence},
        )
    number = rows.whole_id("observation", arguments["observation"])
    row = rows.observations(conn, [number])[number]
    owner = rows.owners(conn, [row])[0]
    _refuse_same(f"observation {number}", row["confidence"], confidence)
    return Plan(
        "correct",
        f"Correct the confidence of observation {number} of {rows.named(owner)} from "
        f"{_said(row['confidence'])} to {confidence:g}: “{short(row['content'])}”",
        (
            update("observations", (number,), row, ("content", "entity_id"), confidence=confidence),
            update(
                "entities", (owner["id"],), owner, ("name",), updated_at=now, last_activity_at=now
            ),
        ),
        basis.make([owner], rows={"observation": [row]}),
        owner["id"],
        owner["name"],
        {"observation": number, "confidence": confidence},
    )


def _confidence(asked: Any) -> float:
    # True would be 1
    if isinstance(asked, bool) or not isinstance(asked, (int, float)):
        raise BadParameter(f"confidence is {asked!r:.60}: use a number from 0 to 1")
    if not 0 <= asked <= 1:  # NaN is not either
        raise BadParameter(f"confidence is {asked!r:.60}: use a number from 0 to 1")
    return abs(float(asked))  # no -0.0


def _refuse_same(what: str, there: Any, asked: float) -> None:
    if isinstance(there, (int, float)) and there == asked:
        raise Refused(f"nothing was changed: the confidence of {what} is {asked:g} already")


def _said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else "unknown"
