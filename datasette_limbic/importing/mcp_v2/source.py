"""A file of an MCP Memory v2 server as a source of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar

from datasette.utils.sqlite import sqlite3

from ... import connection
from ...errors import DatabaseUnusable, UnknownFormat
from ..foreign import describe_broken
from ..items import Item
from ..notes import Notes
from ..records import Counted, Progress
from ..source import Source
from ..sqlite_file import reading
from .entities import EntityReader
from .left_out import note_left_out
from .links import LinkReader
from .tables import Layout, look, quoted, what_else
from .vectors import TABLE, VectorReader, stored_vectors

FORMAT = "MCP Memory v2 SQLite"
# Bytes between two reports of progress.
_STEP = 1 << 16


@dataclass
class McpV2Source(Source):
    """The memory of an MCP Memory v2 server, also while the server is running.

    ``counted.lines`` is the number of items: one for each row of the tables of entities,
    relations, access counts, access log and co-occurrences, for each observation that is
    rejected (no entity, or NULL), and, ``with_vectors``, for each vector of an entity. All other
    observations are inside their entity's item. ``blank`` and ``glued`` stay 0.
    """

    unit: ClassVar[str] = "row"
    complete_rows: ClassVar[bool] = True
    has_vectors: ClassVar[bool] = True

    def items(self, notes: Notes, progress: Progress | None = None) -> Iterator[Item]:
        """Entities by id, relations, access counts, access log, pairs, vectors.

        All is read in one transaction. Raises DatabaseUnusable where the file is locked,
        damaged, or written to in a way that makes what was read worthless.
        """
        self.counted = Counted()
        try:
            with reading(self.path, notes.remarks) as conn:
                layout = look(conn)
                other = what_else(conn, layout, self.path)
                if other:
                    raise UnknownFormat(f"{self.path} is {other}")
                for item in self._items(conn, layout, notes, progress):
                    self.counted.lines += 1
                    yield item
        except sqlite3.Error as error:
            raise connection.unusable(self.path, error) from error

    def _items(
        self,
        conn: sqlite3.Connection,
        layout: Layout,
        notes: Notes,
        progress: Progress | None,
    ) -> Iterator[Item]:
        note_left_out(conn, layout, self.with_vectors, notes)
        readers: list[EntityReader | LinkReader | VectorReader]
        readers = [EntityReader(conn, layout, notes), LinkReader(conn, layout, notes)]
        tables = layout.readable()
        stored = stored_vectors(layout) if self.with_vectors else None
        if stored and stored.readable:
            readers.append(VectorReader(conn, stored, notes))
            tables.append(f"{TABLE}_rowids")
        total = sum(_rows(conn, table) for table in tables)
        told = 0
        for item in chain.from_iterable(reader.items() for reader in readers):
            if progress:
                passed = sum(reader.passed for reader in readers)
                share = self.size * passed // max(total, 1)
                if share - told >= _STEP:
                    progress(share - told)
                    told = share
            yield item
        if sum(reader.passed for reader in readers) != total:
            # rows are read by an index and counted without
            raise DatabaseUnusable(
                f"{self.path} is damaged: an index leaves rows of it out. Run 'sqlite3 "
                f"{self.path} reindex' on a copy, and import that"
            )
        if progress and self.size > told:
            progress(self.size - told)


def sqlite_source(path: str | Path) -> McpV2Source:
    """The reader of a SQLite file, whose first bytes have been seen to be SQLite's.

    Raises UnknownFormat, saying what the file is, unless it is the memory of an MCP Memory v2
    server, and DatabaseUnusable where it cannot be looked into now: locked, or the changes
    beside it cannot be read.
    """
    path = Path(path)
    try:
        with reading(path) as conn:
            other = what_else(conn, look(conn), path)
    except sqlite3.OperationalError as error:
        raise connection.unusable(path, error) from error
    except sqlite3.Error as error:
        other = describe_broken(error)
    if other:
        raise UnknownFormat(f"{path} is {other}")
    return McpV2Source(path, FORMAT, path.stat().st_size)


def _rows(conn: sqlite3.Connection, table: str) -> int:
    sql = f"select count(*) from {quoted(table)} not indexed"
    return int(conn.execute(sql).fetchone()[0])
