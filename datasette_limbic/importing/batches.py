"""Inserting many rows, most columns of which are unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datasette.utils.sqlite import sqlite3


class Inserts:
    """Rows that wait for their insert, grouped by which of their optional columns they have.

    Binding None costs as much as the rest of the row together (each goes through the adapters
    of Python's sqlite3), so an absent value is written into the statement as its default.
    ``columns`` come first and are always given; ``optional`` maps a column to the SQL of its
    value where a row has None.
    """

    def __init__(self, table: str, columns: Sequence[str], optional: dict[str, str]) -> None:
        self.table, self.columns, self.optional = table, tuple(columns), optional
        self.rows: dict[int, list[tuple[Any, ...]]] = {}
        self.waiting = 0

    def add(self, row: tuple[Any, ...], *optional: Any) -> None:
        """One row: the values of ``columns``, then those of ``optional`` in their order."""
        mask, bit = 0, 1
        for value in optional:
            if value is not None:
                mask |= bit
                row += (value,)
            bit <<= 1
        self.waiting += 1
        if mask in self.rows:
            self.rows[mask].append(row)
        else:
            self.rows[mask] = [row]

    def plain(self, rows: list[tuple[Any, ...]]) -> None:
        """Rows with none of the optional columns."""
        self.waiting += len(rows)
        if 0 in self.rows:
            self.rows[0] += rows
        else:
            self.rows[0] = rows

    def flush(self, conn: sqlite3.Connection) -> None:
        """Write everything that waits."""
        for mask, rows in self.rows.items():
            conn.executemany(self._statement(mask), rows)
        self.rows.clear()
        self.waiting = 0

    def _statement(self, mask: int) -> str:
        given = [c for i, c in enumerate(self.optional) if mask >> i & 1]
        absent = [c for i, c in enumerate(self.optional) if not mask >> i & 1]
        values = ["?"] * (len(self.columns) + len(given)) + [self.optional[c] for c in absent]
        return (
            f"insert into {self.table}({', '.join([*self.columns, *given, *absent])})"
            f" values ({', '.join(values)})"
        )
