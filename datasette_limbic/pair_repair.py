"""Pairs of entities that came up together: each once, the smaller id first."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from datasette.utils.sqlite import sqlite3

from .times import parse_time


def repair_pairs(conn: sqlite3.Connection) -> None:
    """Swap pairs, add up those that are there more than once, remove those of one entity.

    The latest time stays. Part of the caller's transaction.
    """
    conn.execute("delete from co_occurrences where entity_a_id = entity_b_id")
    cursor = conn.execute(
        "select c.*, min(entity_a_id, entity_b_id) as low, max(entity_a_id, entity_b_id) as high"
        " from co_occurrences c where entity_a_id > entity_b_id"
        " or exists (select 1 from co_occurrences o where o.entity_a_id = c.entity_b_id"
        "  and o.entity_b_id = c.entity_a_id)"
        " or (select count(*) from co_occurrences o where o.entity_a_id = c.entity_a_id"
        "  and o.entity_b_id = c.entity_b_id) > 1"
        " order by low, high, entity_a_id"
    )
    names = [column[0] for column in cursor.description][:-2]
    rows = [(tuple(row[-2:]), dict(zip(names, row, strict=False))) for row in cursor.fetchall()]
    for (low, high), group in groupby(rows, key=lambda row: row[0]):
        found = [row for _, row in group]
        counts = [r["co_count"] for r in found if isinstance(r["co_count"], (int, float))]
        kept = {
            **found[0],
            "entity_a_id": low,
            "entity_b_id": high,
            "co_count": sum(counts) if counts else found[0]["co_count"],
            "last_co": max((r["last_co"] for r in found), key=_moment),
        }
        conn.execute(
            "delete from co_occurrences where (entity_a_id = ?1 and entity_b_id = ?2)"
            " or (entity_a_id = ?2 and entity_b_id = ?1)",
            [low, high],
        )
        marks = ", ".join("?" * len(kept))
        conn.execute(
            f"insert into co_occurrences({', '.join(kept)}) values ({marks})", list(kept.values())
        )


def _moment(value: Any) -> float:
    known = parse_time(value)
    return float("-inf") if known is None else known
