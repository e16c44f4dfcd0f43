"""The graph as JSON Lines, as the official MCP memory server reads and writes them.

It allows exactly these keys, wants a list of strings for the observations of each entity, and
fails on every call where one line breaks the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from datasette.utils.sqlite import sqlite3

from ..times import now_sql
from .summary import ExportSummary
from .transaction import reading
from .values import dumps

Progress = Callable[[int], object]
# Rows between two calls of a progress function.
STEP = 1000


def _ended(alias: str) -> str:
    """SQL: whether a row is not valid now. An unreadable time ends nothing, as in search."""
    return (
        f"(julianday({alias}.valid_to) <= julianday(:now)"
        f" or julianday({alias}.valid_from) > julianday(:now))"
    )


# `why` says why a row is left out. A type that is missing is Generic, as in `init`.
_ENTITIES = f"""select e.id, cast(e.name as text),
  cast(coalesce(e.entity_type, 'Generic') as text),
  case when e.name is null then 'unusable'
    when not :archived and e.archived_at is not null then 'archived'
    when not :ended and {_ended("e")} then 'ended' end as why
  from entities e order by e.id"""
_OBSERVATIONS = f"""select cast(o.content as text),
  case when o.content is null then 'unusable' when not :ended and {_ended("o")} then 'ended' end
  from observations o where o.entity_id = :id order by o.id"""
_RELATIONS = f"""select cast(f.name as text), cast(t.name as text), cast(r.relation_type as text),
  case when f.id is null or t.id is null then 'dangling'
    when f.name is null or t.name is null or r.relation_type is null then 'unusable'
    when not :archived and (f.archived_at is not null or t.archived_at is not null) then 'archived'
    when not :ended and ({_ended("r")} or {_ended("f")} or {_ended("t")}) then 'ended' end
  from relations r left join entities f on f.id = r.from_entity
    left join entities t on t.id = r.to_entity
  order by r.id"""


def export_mcp(
    conn: sqlite3.Connection,
    out: TextIO,
    *,
    include_archived: bool = False,
    include_ended: bool = False,
    now: str | None = None,
    progress: Progress | None = None,
) -> ExportSummary:
    """Write the live graph to ``out`` as MCP memory servers read it; say what was left out.

    Archived entities are left out with all that hangs on them, and what is not valid ``now``,
    unless asked for. Rows whose entity is gone are never written. The text is one state of the
    memory, whoever writes meanwhile. ``progress`` is called with the number of rows read since
    the last call. Raises NotAMemory.
    """
    with reading(conn, bytes):  # decoded here, one by one, so that broken text stops nothing
        args = {"archived": include_archived, "ended": include_ended, "now": now or now_sql()}
        writer = _Writer(conn, out, args, progress)
        writer.entities()
        writer.relations()
        writer.step(0, last=True)
    return writer.summary


class _Writer:
    def __init__(
        self,
        conn: sqlite3.Connection,
        out: TextIO,
        args: dict[str, object],
        progress: Progress | None,
    ) -> None:
        self.conn, self.args, self.progress = conn, args, progress
        self.write = out.write
        self.summary = ExportSummary("mcp")
        self.unreported = 0

    def entities(self) -> None:
        seen = 0
        for number, name, kind, why in self.conn.execute(_ENTITIES, self.args):
            if why is None:
                seen += self._entity(number, name, kind)
            else:
                seen += self._skip(number, why.decode())
            self.step(1)
        (there,) = self.conn.execute("select count(*) from observations").fetchone()
        self.summary.leave_out("dangling", "observations", there - seen)
        self.step(there - seen)

    def _entity(self, number: int, name: bytes, kind: bytes) -> int:
        """Write one entity, its observations as they come: it may have a million."""
        write, text = self.write, self._json
        write(f'{{"type":"entity","name":{text(name)},"entityType":{text(kind)},"observations":[')
        seen = written = 0
        for content, why in self.conn.execute(_OBSERVATIONS, {**self.args, "id": number}):
            seen += 1
            if why is not None:
                self.summary.leave_out(why.decode(), "observations")
            elif written:
                write("," + text(content))
                written += 1
            else:
                write(text(content))
                written = 1
            if not seen % STEP:
                self.step(STEP)
        write("]}\n")
        self.step(seen % STEP)
        self.summary.written["entities"] += 1
        self.summary.written["observations"] += written
        return seen

    def _skip(self, number: int, why: str) -> int:
        """Count what hangs on an entity that is left out."""
        sql = "select count(*) from observations where entity_id = ?"
        seen = int(self.conn.execute(sql, [number]).fetchone()[0])
        self.summary.leave_out(why, "entities")
        self.summary.leave_out(why, "observations", seen)
        self.step(seen)
        return seen

    def relations(self) -> None:
        text = self._json
        for source, target, kind, why in self.conn.execute(_RELATIONS, self.args):
            if why is None:
                self.write(
                    f'{{"type":"relation","from":{text(source)},"to":{text(target)},'
                    f'"relationType":{text(kind)}}}\n'
                )
                self.summary.written["relations"] += 1
            else:
                self.summary.leave_out(why.decode(), "relations")
            self.step(1)

    def _json(self, raw: bytes) -> str:
        """Text of SQLite's as a JSON string: any program may have written bytes that are none."""
        try:
            return dumps(raw.decode("utf-8"))
        except UnicodeDecodeError:
            self.summary.replaced += 1
            return dumps(raw.decode("utf-8", "replace"))

    def step(self, rows: int, last: bool = False) -> None:
        self.unreported += rows
        if self.progress and self.unreported and (last or self.unreported >= STEP):
            self.progress(self.unreported)
            self.unreported = 0
