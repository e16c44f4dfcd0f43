"""What tuning depends on, told apart without reading all of it; and which entities are there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import schema

_LOG = """select
(select json_array(count(*), max(id)) from limbic_searches),
(select max(search_id) from limbic_search_candidates),
(select json_array(count(*), max(id)) from limbic_feedback),
(select json_array(count(*), max(version)) from limbic_parameters)"""


def mark(conn: sqlite3.Connection) -> tuple[Any, ...]:
    """Something else after each row that a search, a rating or a version adds. Reads only.

    Rows that another program changes in place it does not see. Raises NotAMemory.
    """
    schema.require_memory(conn)
    return tuple(conn.execute(_LOG).fetchone())


def entities_there(conn: sqlite3.Connection, ids: Iterable[int]) -> set[int]:
    """Those of these ids that entities have now: a log names deleted ones too. Reads only."""
    return {
        row[0]
        for row in conn.execute(
            "select id from entities where id in (select value from json_each(?))",
            [json.dumps(sorted(set(ids)))],
        )
    }
