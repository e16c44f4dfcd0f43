"""Kept pairs that an undo brings back: only those that are still true of the texts.

One text of a pair may have stayed, and have been written anew by another program meanwhile. The
change keeps no copy of it, so the pair is held against what it says of itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from datasette.utils.sqlite import sqlite3

from ..duplicates.stated import LOOKED_AT
from ..text import normalise, text_containment
from . import rows
from .changes import Change
from .model import Row, RowChange
from .settling import PAIRS


def still_true(conn: sqlite3.Connection, change: Change) -> list[Row]:
    """The pairs that ``change`` took away and whose texts are as they were. What is left out is
    found anew by the next sync, since the entity is marked."""
    taken = [i.before for i in change.images if i.table == PAIRS and i.before is not None]
    back = {
        i.key[0]: _text((i.before or {}).get("content"))
        for i in change.images
        if i.table == "observations" and i.after is None
    }
    texts = {**_texts(conn, {n for row in taken for n in _ends(row)} - back.keys()), **back}
    return [row for row in taken if _is_true(row, texts)]


def without_lost_flags(
    conn: sqlite3.Connection, found: Sequence[RowChange], change: Change, back: Iterable[Row]
) -> list[RowChange]:
    """``found``, an undo of ``change``, without the flags that stood for pairs which do not come
    back with it: neither is there a text that it would be like. ``back`` are those that do."""
    taken = [i.before for i in change.images if i.table == PAIRS and i.before is not None]
    lost = {row["later_id"] for row in taken if row["kind"] == "duplicate"} - {
        row["later_id"] for row in back if row["kind"] == "duplicate"
    }
    lost -= _paired(conn, found, lost)
    return [honest for each in found if (honest := _unflagged(each, lost)) is not None]


def _paired(conn: sqlite3.Connection, found: Iterable[RowChange], ids: Iterable[int]) -> set[int]:
    """Those of ``ids`` that are the later one of another pair of duplicates."""
    there = rows.where(
        conn,
        PAIRS,
        "kind = 'duplicate' and later_id in (select value from json_each(?))",
        [json.dumps(sorted(ids))],
    )
    after = {**there, **{each.key: each.after for each in found if each.table == PAIRS}}
    return {key[1] for key, row in after.items() if row and row["kind"] == "duplicate"}


def _unflagged(change: RowChange, lost: Collection[int]) -> RowChange | None:
    after = change.after
    if (
        change.table != "observations"
        or change.key[0] not in lost
        or after is None
        or after.get("similarity_flag") != 1
    ):
        return change
    if change.before is None:
        return replace(change, after={**after, "similarity_flag": 0})
    before = {n: value for n, value in change.before.items() if n != "similarity_flag"}
    left = {n: value for n, value in after.items() if n != "similarity_flag"}
    return replace(change, before=before, after=left) if left else None


def _is_true(row: Row, texts: Mapping[int, str]) -> bool:
    one, two = (texts.get(number) for number in _ends(row))
    if one is None or two is None:
        return False
    if (row["rule"] == "exact") != (normalise(one) == normalise(two)):
        return False
    if row["rule"] == "exact":
        return True
    return bool(text_containment(one[:LOOKED_AT], two[:LOOKED_AT]) == row["containment"])


def _ends(row: Row) -> tuple[int, int]:
    return row["earlier_id"], row["later_id"]


def _texts(conn: sqlite3.Connection, ids: Iterable[int]) -> dict[int, str]:
    found = conn.execute(
        "select id, cast(content as blob) from observations"
        " where id in (select value from json_each(?))",
        [json.dumps(sorted(ids))],
    )
    return {number: _text(content) for number, content in found}


def _text(content: object) -> str:
    if isinstance(content, bytes):
        return content.decode("utf-8", "replace")
    return "" if content is None else str(content)
