"""Vectors that are missing, out of date, unusable or not searched, from plain tables alone."""

from __future__ import annotations

from typing import Any

from datasette.utils.sqlite import sqlite3

from ..connection import vec_missing
from ..embedding import collection_info
from ..index_state import IndexState, index_state
from ..llm_store import collection
from . import listing
from .model import Ask, Found, NotLookedAt
from .sql import own

COLUMNS = ("entity", "text", "collection")
READS = ("collections", "embeddings", "limbic_stale", "limbic_indexes")


def find(ask: Ask) -> Found:
    """Item by item; then, where no item explains it, what is wrong with a whole index."""
    values: dict[str, Any] = {}
    states = _states(ask.conn)
    for name, state in states.items():
        here = collection(ask.conn, name)
        info = collection_info(ask.conn, name)
        values[f"{name}_id"] = None if here is None else here[0]
        values[f"{name}_dimension"] = info.dimension if info else 0
        # all that are indexed have one length, and reading that of each takes long
        values[f"{name}_odd"] = not state["in_step"]
    found = listing.read(ask, own()["vectors"], values)
    for name, state in states.items():
        # what is counted item by item is the reason already
        if state["in_step"] or state["pending"] or state["stored"] < state["items"]:
            continue
        if ask.first <= found.count < ask.first + ask.size:
            text = f"the index is not in step: {state['reason']}"
            found.rows.append({"collection": name, "entity": None, "text": text})
        found.count += 1
    missing = vec_missing(ask.conn)
    if missing is not None:
        found.note = f"whether the indexes hold them could not be looked at: {missing}"
    return found


def _states(conn: sqlite3.Connection) -> dict[str, IndexState]:
    try:
        return index_state(conn)
    except (ValueError, TypeError):
        raise NotLookedAt(
            "limbic_indexes.rejected cannot be read: 'datasette limbic sync' makes it anew"
        ) from None
