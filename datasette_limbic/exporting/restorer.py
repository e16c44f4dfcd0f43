"""Putting the lines of a full export into the tables, with a reason for each that does not fit."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from datasette.utils.sqlite import sqlite3

from .envelope import Envelope
from .foreign_keys import COLLECTIONS, Dangling
from .retyping import retype
from .tables import EXPORTED, SEQUENCE, VECTORS, affinity, present, quoted
from .values import NESTED, RawText, decode

if TYPE_CHECKING:
    from ..importing.summary import FileSummary

# A longer line is rejected unread. An observation may be long, but a file without line ends
# must not fill the memory.
MAX_LINE = 1 << 28
_KEPT = 10_000
_ROWS, _BYTES = 1000, 4 << 20
# The text index numbers its rows id * 2 and id * 2 + 1.
_MAX_ID = 1 << 62
# How a line of an export begins, also where its end is damaged.
_TABLE = re.compile(rb'\s*\{"table": ?"(\w+)"')
_TABLES = {table.name for table in EXPORTED + VECTORS}
# What SQLite or its module says of one row; errors of the file itself are none of these.
_REFUSED = (
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    OverflowError,
    UnicodeEncodeError,
)


@dataclass
class Restored:
    """Rows by table, but entities, observations and relations, which ``FileSummary`` counts.

    ``missing`` are the rows that the first line of the file promises and for which there is no
    line, not even a damaged one.
    """

    rows: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)

    @property
    def lines(self) -> int:
        """Lines that stand for other rows than the graph's, and the first line of the file."""
        return 1 + sum(self.rows.values())


class _Bad(Exception):
    """Why a line is a reject."""


@dataclass
class _Batch:
    """Rows of one table and the same columns, with the lines they came from."""

    table: str
    names: tuple[str, ...]
    sql: str
    key: int | None  # where the number stands that is the row's id
    values: list[tuple[Any, ...]] = field(default_factory=list)
    lines: list[tuple[int, bytes]] = field(default_factory=list)
    size: int = 0


class Restorer:
    """Works inside the caller's transaction; ``file`` is where lines are counted."""

    def __init__(self, conn: sqlite3.Connection, envelope: Envelope, file: FileSummary) -> None:
        self.conn, self.envelope, self.file = conn, envelope, file
        self.seen: Counter[str] = Counter()
        self.bad: Counter[str] = Counter()
        # lines that do not say of which table they are, by the table of the line before
        self.unplaced: Counter[str] = Counter()
        self.last = ""
        self.rows: Counter[str] = Counter()
        self.batch: _Batch | None = None
        # Rows may point at rows further down; what points nowhere is found at the end.
        conn.execute("pragma defer_foreign_keys=on").close()
        conn.execute("create temp table _limbic_restore_rejects(line, reason, raw)")
        for table in present(conn):
            self._retype(table.name)
        there = {table.name for table in present(conn, vectors=True)}
        self.columns = {name: self._columns(name) for name in sorted(there)}
        if "limbic_settings" in envelope.tables:
            # a default that was deleted there must not come back
            conn.execute("delete from limbic_settings")

    def _retype(self, table: str) -> None:
        """Columns get the types that they have in the file: else numbers would become text."""
        head = self.envelope.tables.get(table)
        stay = retype(self.conn, table, head.columns) if head else []
        if not stay or head is None:
            return
        info = self.conn.execute(f"pragma table_info({quoted(table)})").fetchall()
        for name, kind in ((row[1], affinity(row[2])) for row in info if row[1] in stay):
            given = next(k for column, k in head.columns.items() if column.lower() == name.lower())
            self.file.notes.remarks.append(
                f"{table}.{name} is {kind} here and {given} in the file: "
                "SQLite may store its numbers and texts as the other"
            )

    def _columns(self, table: str) -> dict[str, tuple[str, bool]]:
        """Columns by their lower-case names: the name here, and whether it is a numbered key."""
        info = self.conn.execute(f"pragma table_info({quoted(table)})").fetchall()
        keys = [row[1] for row in info if row[5]]
        numbered = len(keys) == 1 and any(row[5] and "INT" in row[2].upper() for row in info)
        found = {row[1].lower(): (row[1], numbered and row[5] > 0) for row in info}
        head = self.envelope.tables.get(table)
        for name, kind in head.columns.items() if head else ():
            if name.lower() not in found:
                self.conn.execute(f"alter table {quoted(table)} add column {quoted(name)} {kind}")
                found[name.lower()] = (name, False)
        return found

    def read(self, handle: BinaryIO, progress: Callable[[int], object] | None) -> None:
        """All lines but the first. They end at ``\\n`` alone."""
        parse = json.JSONDecoder(strict=False, parse_constant=_no_constant).raw_decode
        unreported = 0
        for number, line in self._lines(handle):
            unreported += len(line)
            if progress and unreported >= 1 << 16:
                progress(unreported)
                unreported = 0
            if number == 1:
                continue
            table = None
            try:
                text = line.decode("utf-8").strip("\r\n")
                value, end = parse(text)
                if end != len(text) and text[end:].strip():
                    raise _Bad("more than one value on the line")
                try:
                    table, row = value["table"], value["row"]
                    names = tuple(row)
                    values = tuple(row.values())
                except (TypeError, KeyError, AttributeError):
                    raise _Bad("not a row of an export: no table or no row") from None
                if '"$' in text:
                    values = tuple(map(decode, values))
                self._add(table, names, values, number, line)
                self.last = table
            except _Bad as error:
                self._reject(number, line, str(error), table)
            except UnicodeDecodeError as error:
                self._reject(number, line, f"not UTF-8: byte {error.start + 1} of the line", None)
            except json.JSONDecodeError as error:
                reason = f"not JSON: {error.msg} (character {error.pos + 1})"
                self._reject(number, line, reason, None)
            except (ValueError, RecursionError) as error:
                self._reject(number, line, f"cannot be read: {error}", table)
        self._flush()
        if progress and unreported:
            progress(unreported)

    def _lines(self, handle: BinaryIO) -> Iterator[tuple[int, bytes]]:
        file = self.file
        while line := handle.readline(MAX_LINE + 1):
            file.lines += 1
            if len(line) > MAX_LINE and not line.endswith(b"\n"):
                while rest := handle.readline(1 << 20):
                    if rest.endswith(b"\n"):
                        break
                reason = f"the line is longer than {MAX_LINE:,} bytes"
                self._reject(file.lines, line[:_KEPT], reason, None)
            elif line.isspace():
                file.blank += 1
            else:
                yield file.lines, line

    def _add(
        self, table: Any, names: tuple[str, ...], values: tuple[Any, ...], number: int, line: bytes
    ) -> None:
        batch = self.batch
        raw = any(type(value) is RawText for value in values)
        if batch is None or batch.table != table or batch.names != names or raw:
            self._flush()
            if table == SEQUENCE:
                self._set_sequence(names, values)
                return
            batch = self.batch = self._start(table, names, values)
        if batch.key is not None:
            key = values[batch.key]
            if type(key) is not int or not -_MAX_ID < key < _MAX_ID:
                raise _Bad(f"{names[batch.key]} is {key!r:.40}, no whole number under 2^62")
        batch.values.append(values)
        batch.lines.append((number, line))
        batch.size += len(line)
        if raw or len(batch.values) >= _ROWS or batch.size >= _BYTES:
            self._flush()

    def _start(self, table: Any, names: tuple[str, ...], values: tuple[Any, ...]) -> _Batch:
        if not isinstance(table, str) or table not in self.columns:
            known = isinstance(table, str) and table in _TABLES
            raise _Bad(f"the table {table!r:.60} is {'not here' if known else 'unknown'}")
        columns = self.columns[table]
        if not names:
            raise _Bad(f"a row of {table} without columns")
        unknown = [name for name in names if name.lower() not in columns]
        if unknown:
            raise _Bad(f"{table} has no column {', '.join(map(repr, unknown)):.200}")
        found = [columns[name.lower()] for name in names]
        key = next((at for at, (_, numbered) in enumerate(found) if numbered), None)
        if key is None and any(numbered for _, numbered in columns.values()):
            raise _Bad(f"a row of {table} without its id")
        marks = ("cast(? as text)" if type(value) is RawText else "?" for value in values)
        sql = (
            f"insert into {quoted(table)}({', '.join(quoted(name) for name, _ in found)})"
            f" values ({', '.join(marks)})"
        )
        return _Batch(table, names, sql, key)

    def _set_sequence(self, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        row = dict(zip(names, values, strict=True))
        last = row.get("seq")
        if row.get("name") != "entities" or type(last) is not int or not 0 <= last < _MAX_ID:
            raise _Bad("not the last id of entities")
        self.seen[SEQUENCE] += 1
        self.rows[SEQUENCE] += 1
        if not self.conn.execute(
            "select 1 from sqlite_master where name = 'entities' and sql like '%autoincrement%'"
        ).fetchone():
            return  # adopted: it gives the ids as it always did
        self.conn.execute(
            f"insert into {SEQUENCE}(name, seq) select 'entities', 0 where not exists"
            f" (select 1 from {SEQUENCE} where name = 'entities')"
        )
        self.conn.execute(
            f"update {SEQUENCE} set seq = max(seq, ?) where name = 'entities'", [last]
        )

    def _flush(self) -> None:
        """Insert what is pending; a row that SQLite refuses is a reject, and the rest goes on."""
        batch, self.batch = self.batch, None
        if batch is None:
            return
        rows, bad = iter(batch.values), 0
        while True:
            try:
                self.conn.executemany(batch.sql, rows)
                break
            except _REFUSED as error:
                # the rows before it are in, and the iterator stands behind it
                at = len(batch.values) - length_hint(rows) - 1
                nested = any(isinstance(value, (dict, list)) for value in batch.values[at])
                reason = NESTED if nested else str(error)
                self._reject(*batch.lines[at], reason, batch.table)
                bad += 1
        self.seen[batch.table] += len(batch.values) - bad
        self.rows[batch.table] += len(batch.values) - bad

    def _reject(self, number: int, line: bytes, reason: str, table: Any) -> None:
        self.file.rejected += 1
        if table is None and (found := _TABLE.match(line)):
            table = found[1].decode()
        if isinstance(table, str) and table in self.envelope.tables:
            self.seen[table] += 1
            self.bad[table] += 1
        else:
            self.unplaced[self.last] += 1
        self.conn.execute(
            "insert into temp._limbic_restore_rejects values (?, ?, ?)",
            [number, reason, line.decode("utf-8", "replace").strip("\r\n")],
        )

    def finish(self, path: Path) -> Restored:
        """Take out what points at rows that are not there, and count."""
        missing = self._missing()
        left_out = self.unplaced or any(self.bad[name] or name in missing for name in COLLECTIONS)
        tables = [name for name in self.columns if self.rows[name]]
        dangling = Dangling(self.conn, tables, vectors=bool(left_out))
        for table, number, line, reason in dangling.take_out(path):
            self.rows[table] -= 1
            self.seen[table] -= 1
            self._reject(number, line, reason, table)
        file, rows = self.file, self.rows
        file.entities.lines = file.entities.created = rows.pop("entities", 0)
        file.observations.in_file = file.observations.added = rows.pop("observations", 0)
        file.relations.lines = file.relations.created = rows.pop("relations", 0)
        return Restored({name: number for name, number in rows.items() if number}, missing)

    def _missing(self) -> dict[str, int]:
        """Rows that the first line promises and for which there is no line, by table.

        A line of no table stands for a row of the table before it, or else of the next one that
        lacks some: an export has its tables in the order of the first line.
        """
        names = list(self.envelope.tables)
        lacking = {
            name: max(0, head.rows - self.seen[name]) for name, head in self.envelope.tables.items()
        }
        for last, number in self.unplaced.items():
            begin = names.index(last) if last in lacking else 0
            for name in names[begin:] + names[:begin]:
                found = min(number, lacking[name])
                lacking[name] -= found
                number -= found
        return {name: number for name, number in lacking.items() if number}

    def rejected(self) -> Iterator[tuple[int, str, str]]:
        """What was left out: line, reason, raw; in the order of the file."""
        yield from self.conn.execute(
            "select line, reason, raw from temp._limbic_restore_rejects order by line, rowid"
        )
        self.conn.execute("drop table temp._limbic_restore_rejects")


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
