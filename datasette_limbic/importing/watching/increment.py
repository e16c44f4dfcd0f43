"""A part of a followed file as a source of its own: new lines, or lines that have waited.

An import compares what a source says now with what it said before. The new lines of a file are
not all that it says: what its earlier lines said of the same entity still holds, as if they had
been read just before.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..baseline import location_of
from ..items import GENERIC, Access, Entity, Item, Rejection, Relation, Row
from ..notes import Notes
from ..reading import JSON_LINES, JsonSource, read_lines
from ..records import Progress, Record
from .windows import FileChanged, Marks, Window

_CHECKED_EVERY = 256
_SHOWN = 20
_BEFORE = """
select entity_id, entity_type, archived_at, valid_from, valid_to from _limbic_source_entities
where source_id = ? and key = ? and import_id <> ?
"""


class Stopped(Exception):
    """The person wants to stop: what was begun is undone."""


class NeedsWhole(Exception):
    """A line takes back what an earlier one said: only the order of all lines can tell.

    Its argument is the path of the file.
    """


@dataclass
class Increment(JsonSource):
    """Lines of a file that are not all of it. ``conn`` is the connection of the import."""

    conn: sqlite3.Connection | None = field(default=None, init=False)
    rejected: int = field(default=0, init=False)
    first_rejects: list[dict[str, object]] = field(default_factory=list, init=False)

    def items(self, notes: Notes, progress: Progress | None = None) -> Iterator[Item]:
        """Its rows in order, with what earlier lines said of the same entities."""
        self.rejected, self.first_rejects = 0, []
        earlier = None
        for item in super().items(notes, progress):
            if isinstance(item.row, Rejection):
                self.rejected += 1
                if len(self.first_rejects) < _SHOWN:
                    shown = {"line": item.line, "reason": item.row.reason, "raw": item.raw[:200]}
                    self.first_rejects.append(shown)
            elif not self.whole and self.conn is not None:
                earlier = earlier or _Earlier(self.conn, self.path)
                item = item._replace(row=earlier.complete(item, notes))
            yield item


@dataclass(kw_only=True)
class Part(Increment):
    """The lines of a file from ``start`` to ``end``; all of it where ``whole`` is set.

    ``tail`` is where its last line begins when that has no end, else the same as ``end``.
    """

    file: io.FileIO
    start: int
    end: int
    tail: int
    above: int
    marks: Marks
    stopping: Callable[[], bool]

    def records(self, progress: Progress | None = None) -> Iterator[Record]:
        """Raises FileChanged, for all of them, where the file was written anew meanwhile."""
        window = io.BufferedReader(Window(self.file, self.start, self.end), 1 << 16)
        lines = read_lines(window, self.counted, progress, self.above)
        for number, record in enumerate(lines):
            if number % _CHECKED_EVERY == _CHECKED_EVERY - 1 and self.stopping():
                raise Stopped
            yield record
        if not self.marks.hold(self.file):
            raise FileChanged


@dataclass
class Waiting:
    """A line that names entities which are not here yet."""

    line: int
    raw: str
    missing: set[str]
    due: bool = False


@dataclass(kw_only=True)
class Held(Increment):
    """Lines that have waited for the entities that they name."""

    lines: list[Waiting]

    def records(self, progress: Progress | None = None) -> Iterator[Record]:
        """Each as a line of its own."""
        for waiting in self.lines:
            self.counted.lines += 1
            yield Record(waiting.line, waiting.raw, json.loads(waiting.raw, strict=False))


def held(path: Path, lines: list[Waiting]) -> Held:
    """A source of lines that have waited."""
    source = Held(path, JSON_LINES, 0, lines=lines)
    source.whole = False
    return source


def names_in(row: Row) -> list[str]:
    """The entities that a row of a JSON Lines file refers to."""
    if isinstance(row, Relation):
        return [row.source, row.target]
    return list(row.names) if isinstance(row, Access) else []


class _Earlier:
    """What the lines before said. To be made when the import of the source has begun."""

    def __init__(self, conn: sqlite3.Connection, path: Path) -> None:
        self.conn, self.path = conn, path
        self.import_id = conn.execute("select max(id) from limbic_imports").fetchone()[0]
        self.source_id = conn.execute(
            "select id from _limbic_sources where location = ?", [location_of(path)]
        ).fetchone()[0]
        # elsewhere, the id of a deleted entity may be another's by now
        sql = conn.execute("select sql from sqlite_master where name = 'entities'").fetchone()[0]
        self.never_reused = "autoincrement" in sql.lower()

    def complete(self, item: Item, notes: Notes) -> Row:
        """The row with what earlier lines said first, and with the names of today."""
        row = item.row
        if isinstance(row, Entity):
            return self._entity(row, item.line, notes)
        if isinstance(row, Relation):
            row = row._replace(source=self._now(row.source), target=self._now(row.target))
            self._require_same_end(row)
        elif isinstance(row, Access):
            row = row._replace(names=list(dict.fromkeys(map(self._now, row.names))))
        return row

    def _entity(self, entity: Entity, line: int, notes: Notes) -> Entity:
        found = self._before(entity.name)
        if found is None:
            return entity
        _, kind, archived_at, valid_from, valid_to = found
        if kind is not None:
            given = entity.entity_type
            if given not in (None, GENERIC, kind) and len(notes.remarks) < _SHOWN:
                notes.remarks.append(f"line {line}: {entity.name} stays {kind}, not {given}")
            entity.entity_type = kind
        if archived_at is not None:
            entity.archived_at = archived_at
        if valid_from is not None:
            entity.valid_from = valid_from
        if valid_to is not None:
            entity.valid_to = valid_to
        return entity

    def _before(self, name: str) -> tuple[Any, ...] | None:
        row = self.conn.execute(_BEFORE, [self.source_id, name, self.import_id]).fetchone()
        return None if row is None else tuple(row)

    def _now(self, name: str) -> str:
        """The name of today of an entity that was renamed here."""
        found = self._before(name) if self.never_reused else None
        if found is None:
            return name
        row = self.conn.execute("select name from entities where id = ?", [found[0]]).fetchone()
        return name if row is None else str(row[0])

    def _require_same_end(self, relation: Relation) -> None:
        row = self.conn.execute(
            "select ended from _limbic_source_relations where source_id = ? and relation_type = ?"
            " and from_entity = (select id from entities where name = ?)"
            " and to_entity = (select id from entities where name = ?)",
            [self.source_id, relation.relation_type, relation.source, relation.target],
        ).fetchone()
        if row is not None and row[0] != (relation.valid_to is not None):
            raise NeedsWhole(self.path)
