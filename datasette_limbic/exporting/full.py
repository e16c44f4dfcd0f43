"""Everything that a memory holds, as JSON Lines that restore to the same memory."""

from __future__ import annotations

from typing import TextIO

from datasette.utils.sqlite import sqlite3

from .envelope import Envelope, TableHead
from .mcp import STEP, Progress
from .summary import ExportSummary
from .tables import (
    SEQUENCE,
    SEQUENCE_COLUMNS,
    VECTORS,
    Exported,
    columns,
    count,
    is_plain,
    last_entity_id,
    others,
    present,
    quoted,
)
from .transaction import reading
from .values import dumps, encode_row, read_text


def export_full(
    conn: sqlite3.Connection,
    out: TextIO,
    *,
    vectors: bool = False,
    progress: Progress | None = None,
) -> ExportSummary:
    """Write every row of every table that is not derived to ``out``, with all its columns.

    ``vectors`` adds the embeddings, which ``sync`` makes again otherwise. The text is one state
    of the memory, whoever writes meanwhile, and the same memory gives the same text. ``progress``
    is called with the number of rows written since the last call. Raises NotAMemory.
    """
    summary = ExportSummary("full")
    with reading(conn, read_text):
        tables, envelope = [], Envelope()
        for table in present(conn, vectors=vectors):
            rows = count(conn, table)
            if rows or not is_plain(conn, table.name):
                envelope.tables[table.name] = TableHead(rows, columns(conn, table.name))
                tables.append(table)
        last = last_entity_id(conn)
        if last > 0:
            envelope.tables[SEQUENCE] = TableHead(1, SEQUENCE_COLUMNS)
        out.write(envelope.line())
        for table in tables:
            names = list(envelope.tables[table.name].columns)
            summary.written[table.name] = _write(conn, out, table, names, progress)
        if last > 0:
            out.write(_line(SEQUENCE, encode_row(list(SEQUENCE_COLUMNS), ["entities", last])))
            summary.written[SEQUENCE] = 1
        if not vectors:
            stored = [t for t in present(conn, vectors=True) if t in VECTORS[1:]]
            summary.vectors = sum(count(conn, table) for table in stored)
        summary.others = others(conn)
    return summary


def _line(table: str, row: str) -> str:
    return f'{{"table": {dumps(table)}, "row": {row}}}\n'


def _write(
    conn: sqlite3.Connection,
    out: TextIO,
    table: Exported,
    names: list[str],
    progress: Progress | None,
) -> int:
    start = f'{{"table": {dumps(table.name)}, "row": '
    sql = (
        f"select {', '.join(map(quoted, names))} from {quoted(table.name)}"
        f" where {table.where} order by {table.order}"
    )
    written = 0
    for row in conn.execute(sql):
        out.write(start + encode_row(names, row) + "}\n")
        written += 1
        if progress and not written % STEP:
            progress(STEP)
    if progress and written % STEP:
        progress(written % STEP)
    return written
