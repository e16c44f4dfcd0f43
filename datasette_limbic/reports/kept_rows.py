"""Writing what is kept: pairs that are alike and text keys, into the file or an overlay of it."""

from __future__ import annotations

from collections.abc import Iterable

from datasette.utils.sqlite import sqlite3

from ..duplicates import Observation, Pair
from .text_keys import text_key

PAIR = "earlier_id, later_id, entity_id, kind, rule, cosine, containment, difference"


def insert_pairs(conn: sqlite3.Connection, pairs: Iterable[Pair], *, into: str = "main") -> None:
    """New rows of ``limbic_duplicates``; in the file its triggers set flags."""
    conn.executemany(
        f"insert into {into}.limbic_duplicates({PAIR}) values (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (p.earlier_id, p.later_id, p.entity_id, p.kind, p.rule, p.cosine, p.containment,
             p.difference)
            for p in pairs
        ],
    )  # fmt: skip


def insert_keys(
    conn: sqlite3.Connection, observations: Iterable[Observation], *, into: str = "main"
) -> None:
    """The text keys of observations, in place of those that they had."""
    conn.executemany(
        f"insert or replace into {into}._limbic_text_keys(observation_id, entity_id, key)"
        " values (?, ?, ?)",
        [
            (row.id, row.entity_id, key)
            for row in observations
            if (key := text_key(row.content)) is not None
        ],
    )
