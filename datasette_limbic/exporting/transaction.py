"""One state of the database for the length of an export."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import schema


@contextmanager
def reading(conn: sqlite3.Connection, text_factory: Callable[[bytes], Any]) -> Iterator[None]:
    """Read one state of the memory, whoever writes meanwhile, with text as ``text_factory`` has it.

    A transaction of the caller's is used and left open. Raises NotAMemory.
    """
    schema.require_memory(conn)
    before, rows = conn.text_factory, conn.row_factory
    conn.row_factory = None
    mapped = (conn.execute("pragma mmap_size").fetchone() or [0])[0]
    # the pages of a mapped file would count as our memory, and each is read once
    conn.execute("pragma mmap_size=0").close()
    ours = not conn.in_transaction
    if ours:
        conn.execute("begin")
    conn.text_factory = text_factory
    try:
        yield
    finally:
        conn.text_factory, conn.row_factory = before, rows
        if ours:
            conn.rollback()
        conn.execute(f"pragma mmap_size={int(mapped)}").close()
