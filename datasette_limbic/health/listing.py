"""A page of the rows of one select, and how many it has in all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..reports.lists import with_type
from .model import Ask, Found
from .sql import Query


def read(ask: Ask, query: Query, values: Mapping[str, Any] | None = None) -> Found:
    """Count and read in one go: what is sorted is worked out once."""
    bound = {"now": ask.now, "size": ask.size, "first": ask.first, **(values or {})}
    cursor = ask.conn.execute(
        f"select q.*, count(*) over () from ({query.text}) q order by {query.order}"
        " limit :size offset :first",
        bound,
    )
    names = [column[0] for column in cursor.description][:-1]
    rows = cursor.fetchall()
    count = rows[0][len(names)] if rows else 0
    if not rows and ask.first:
        # past the last page
        count = ask.conn.execute(f"select count(*) from ({query.text})", bound).fetchone()[0]
    found = [with_type(dict(zip(names, tuple(row)[:-1], strict=True))) for row in rows]
    return Found(count, found)
