"""What names entities: it waits in temporary tables until all entities are known."""

from __future__ import annotations

import json
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..text import fold
from .entities import EntityWriter
from .items import Link, Relation, Vector
from .rejects import Rejects
from .summary import MAX_LISTED, FileSummary, ImportSummary

_BATCH = 2000

#: A name that this source brought before and that was deleted here since.
REMOVED = -1

TABLES = ("relations", "uses", "vectors", "folds", "keys", "times")


class Staging:
    """Holds what names entities, in the order of the files, and finds whom it names."""

    def __init__(self, conn: sqlite3.Connection, entities: EntityWriter, rejects: Rejects) -> None:
        self.conn, self.entities, self.rejects = conn, entities, rejects
        self.waiting: dict[str, list[tuple[Any, ...]]] = {
            "relations": [],
            "uses": [],
            "vectors": [],
        }
        conn.execute(
            "create temp table _limbic_import_relations(seq integer primary key, import_id, line,"
            " source, target, relation_type, created_at, valid_from, valid_to, context, raw)"
        )
        # accesses, counts, log entries, insights: few next to the rest, so JSON will do
        conn.execute(
            "create temp table _limbic_import_uses"
            "(seq integer primary key, import_id, line, kind, row, raw)"
        )
        conn.execute(
            "create temp table _limbic_import_vectors(seq integer primary key, import_id, line,"
            " entity, vector)"
        )
        conn.execute("create temp table _limbic_import_folds(fold text, id integer)")

    def add(self, link: Link, import_id: int, line: int, raw: str) -> None:
        """Stage one row."""
        if isinstance(link, Relation):
            waiting = self.waiting["relations"]
            waiting.append((import_id, line, *link, raw))
        elif isinstance(link, Vector):
            waiting = self.waiting["vectors"]
            waiting.append((import_id, line, *link))
        else:
            waiting = self.waiting["uses"]
            waiting.append((import_id, line, type(link).__name__, json.dumps(link), raw))
        if len(waiting) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Write what waits to the temporary tables."""
        for table, rows in self.waiting.items():
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                self.conn.executemany(
                    f"insert into temp._limbic_import_{table} select null, {marks}", rows
                )
                rows.clear()

    def make_stubs(self, files: dict[int, FileSummary]) -> None:
        """An entity for each name that a relation has and nobody described."""
        missing = self.conn.execute(
            "select name, import_id, min(place) from ("
            " select source as name, import_id, seq * 2 as place from temp._limbic_import_relations"
            " union all"
            " select target, import_id, seq * 2 + 1 from temp._limbic_import_relations) n"
            " where name not in (select name from entities) and not exists"
            " (select 1 from temp._limbic_import_keys k"
            "  where k.import_id = n.import_id and k.key = n.name)"
            " group by name order by 3"
        ).fetchall()
        for name, import_id, _ in missing:
            self.entities.add_stub(name)
            files[import_id].stubs += 1
        self.entities.flush()

    def resolve(self, import_id: int, key: str) -> int | None:
        """The id of the entity that a source calls ``key``; REMOVED, or None where unknown."""
        row = self.conn.execute(
            "select entity_id from temp._limbic_import_keys where import_id = ? and key = ?",
            [import_id, key],
        ).fetchone()
        if row is not None:
            return REMOVED if row[0] is None else int(row[0])
        row = self.conn.execute("select id from entities where name = ?", [key]).fetchone()
        return None if row is None else int(row[0])

    def unknown(self, name: str) -> str:
        """Why a row that names nobody cannot be used, and who may be meant."""
        shown = name if len(name) <= 200 else name[:199] + "…"
        like = self._like(fold(name))
        hint = f" (there is {like[0][1][:200]!r})" if like else ""
        return f"no entity named {shown!r}{hint}"

    def fold_names(self) -> None:
        """Index all names without case and accents, to find those that only look the same."""
        self.conn.create_function("_limbic_import_fold", 1, fold, deterministic=True)
        self.conn.execute(
            "insert into temp._limbic_import_folds"
            " select _limbic_import_fold(name), id from entities"
        )
        self.conn.execute(
            "create index temp._limbic_import_folds_fold on _limbic_import_folds(fold, id)"
        )

    def report_near_equal(self, summary: ImportSummary) -> None:
        """List the names among which this import added one."""
        groups = self.conn.execute(
            "select fold from temp._limbic_import_folds where fold <> ''"
            " group by fold having count(*) > 1 and max(id) > ? order by min(id)",
            [self.entities.above],
        ).fetchall()
        summary.near_equal_count = len(groups)
        for (folded,) in groups[:MAX_LISTED]:
            summary.near_equal.append([name for _, name in self._like(folded)])

    def _like(self, folded: str) -> list[tuple[int, str]]:
        rows = self.conn.execute(
            "select e.id, e.name from temp._limbic_import_folds f join entities e on e.id = f.id"
            " where f.fold = ? order by e.id limit 20",
            [folded],
        )
        return list(rows)

    def drop(self) -> None:
        """Take the temporary tables away."""
        for table in (*TABLES, "asserted"):
            self.conn.execute(f"drop table if exists temp._limbic_import_{table}")
