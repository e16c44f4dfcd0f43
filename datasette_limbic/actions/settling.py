"""What follows from changed observations: kept pairs, flags, and what pointed to them.

The triggers do the same for any writer. A plan says it beforehand, so that a person sees it and
undoing brings it back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import rows
from .model import Key, Row, RowChange

PAIRS = "limbic_duplicates"
TEXT = frozenset(("content", "valid_from", "valid_to"))
"""With another one of these, what a pair says of two texts is no longer known."""


def settled(
    conn: sqlite3.Connection, changes: Sequence[RowChange], restored: Iterable[Row] = ()
) -> list[RowChange]:
    """``changes`` with what follows from those of observations among them.

    A kept pair goes with either of its texts, and with it the flag that stood for it alone; where
    both go to one entity, it goes along. What moves keeps its flag, with or without its pair.
    ``restored`` are pairs that come back, where both texts are together again.
    """
    ours = {c.key[0]: c for c in changes if c.table == "observations"}
    touched = {
        number: change
        for number, change in ours.items()
        if change.before is None
        or change.after is None
        or (TEXT | {"entity_id"}).intersection(change.after)
    }
    now = _pairs(conn, touched)
    pairs, lost = _new_pairs(conn, now, touched, restored)
    found: dict[tuple[str, Key], RowChange] = {}
    for more in (*changes, *pairs, *_flags(conn, lost, ours), *_superseded(conn, ours)):
        first = found.get((more.table, more.key))
        found[more.table, more.key] = more if first is None else _both(first, more)
    return list(found.values())


def _both(change: RowChange, more: RowChange) -> RowChange:
    """One change of a row that is changed twice; the first says what it says."""
    if change.before is None or change.after is None or not more.after:
        return change
    before, after = {**(more.before or {}), **change.before}, {**more.after, **change.after}
    return RowChange(change.table, change.key, before, after, {**more.shown, **change.shown})


def _pairs(conn: sqlite3.Connection, touched: Iterable[int]) -> dict[Key, Row]:
    ids = json.dumps(list(touched))
    return rows.where(
        conn,
        PAIRS,
        "earlier_id in (select value from json_each(?1))"
        " or later_id in (select value from json_each(?1))",
        [ids],
    )


def _new_pairs(
    conn: sqlite3.Connection,
    now: dict[Key, Row],
    touched: dict[int, RowChange],
    restored: Iterable[Row],
) -> tuple[list[RowChange], list[Row]]:
    """What happens to the pairs, and those that are lost with a text."""
    back = {(row["earlier_id"], row["later_id"]): row for row in restored}
    ends = {number for key in (*now, *back) for number in key}
    places = dict(
        conn.execute(
            "select id, entity_id from observations where id in (select value from json_each(?))",
            [json.dumps(sorted(ends))],
        ).fetchall()
    )

    def place(number: int) -> Any:
        change = touched.get(number)
        if change is None:
            return places.get(number)
        if change.after is None:
            return None
        return change.after.get("entity_id", places.get(number))

    def is_same_text(number: int) -> bool:
        change = touched.get(number)
        if change is None:
            return True
        return change.after is not None and not TEXT.intersection(change.after)

    found, lost = [], []
    for key, row in now.items():
        if key in back:
            continue
        entity = place(key[0])
        if entity is not None and entity == place(key[1]) and all(map(is_same_text, key)):
            found.append(RowChange(PAIRS, key, row, {**row, "entity_id": entity}))
            continue
        found.append(RowChange(PAIRS, key, row, None))
        if not all(map(is_same_text, key)):
            lost.append(row)
    for key, row in back.items():
        entity = place(key[0])
        if entity is not None and entity == place(key[1]):
            found.append(RowChange(PAIRS, key, now.get(key), {**row, "entity_id": entity}))
    return found, lost


def _flags(
    conn: sqlite3.Connection, lost: Iterable[Row], ours: dict[int, RowChange]
) -> list[RowChange]:
    """Flags that stood for lost pairs alone."""
    gone = {(r["earlier_id"], r["later_id"]) for r in lost if r["kind"] == "duplicate"}
    later = sorted({key[1] for key in gone})
    left = rows.where(
        conn,
        PAIRS,
        "kind = 'duplicate' and later_id in (select value from json_each(?))",
        [json.dumps(later)],
    )
    still = {key[1] for key in left if key not in gone}
    cleared = [number for number in later if number not in still]
    found = []
    for (number,), row in rows.read(conn, "observations", [(n,) for n in cleared]).items():
        change = ours.get(number)
        if row["similarity_flag"] == 1 and (change is None or change.after is not None):
            shown = {"content": row["content"], "entity_id": row["entity_id"]}
            found.append(
                RowChange(
                    "observations", (number,), {"similarity_flag": 1}, {"similarity_flag": 0}, shown
                )
            )
    return found


def _superseded(conn: sqlite3.Connection, ours: dict[int, RowChange]) -> list[RowChange]:
    """What replaced a removed observation stays, and names it no longer."""
    removed = [number for number, change in ours.items() if change.after is None]
    found = rows.of(conn, "observations", "supersedes", removed) if removed else {}
    return [
        RowChange(
            "observations",
            key,
            {"supersedes": row["supersedes"]},
            {"supersedes": None},
            {"content": row["content"], "entity_id": row["entity_id"]},
        )
        for key, row in found.items()
    ]
