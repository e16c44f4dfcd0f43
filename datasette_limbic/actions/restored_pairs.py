"""Kept pairs that an undo brings back: only those that are still true of the texts.

One text of a pair may have stayed, and have been written anew by another program meanwhile. The
change keeps no copy of it, so the pair is held against what it says of itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from datasette.utils.sqlite import sqlite3

from ..duplicates.stated import LOOKED_AT
from ..text import normalise, text_containment
from .changes import Change
from .model import Row
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
