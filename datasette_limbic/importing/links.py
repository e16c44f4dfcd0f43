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

# What any source calls by a name, where that is no name here any more.
_ELSEWHERE = (
    "from _limbic_sources o cross join _limbic_source_entities s"
    " left join entities e on e.id = s.entity_id where s.source_id = o.id and s.key ="
)

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
        self.has_folds = False
        # now: SQLite refuses it while a statement is being read
        conn.create_function("_limbic_import_fold", 1, fold, deterministic=True)

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

    def find_elsewhere(self) -> None:
        """Of names that relations have and nobody here: which entities other sources, or earlier
        imports, brought by them. They were renamed here, or deleted: then NULL."""
        self.conn.execute(
            "insert or ignore into temp._limbic_import_keys select import_id, name, ("
            f" select e.id {_ELSEWHERE} n.name order by e.id is null limit 1) as found from ("
            " select import_id, source as name from temp._limbic_import_relations"
            " union select import_id, target from temp._limbic_import_relations) n"
            " where not exists (select 1 from entities where entities.name = n.name)"
            f" and exists (select 1 {_ELSEWHERE} n.name) and (found is not null or not ?)",
            [self._restores()],
        )

    def _restores(self) -> bool:
        base = self.entities.baseline
        return base is not None and base.restore

    def make_stubs(self, files: dict[int, FileSummary]) -> None:
        """An entity for each name that a relation has and nobody described."""
        self.find_elsewhere()
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
            entity_id = self.entities.add_stub(name)
            files[import_id].stubs += 1
            # so that it is not made again when it is deleted here, or renamed
            self.conn.execute(
                "insert into _limbic_source_entities"
                " (source_id, key, entity_id, import_id, observations)"
                " select id, ?, ?, import_id, x'' from _limbic_sources where import_id = ?"
                " on conflict(source_id, key) do update set entity_id = excluded.entity_id",
                [name, entity_id, import_id],
            )
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
        if row is not None:
            return int(row[0])
        row = self.conn.execute(
            f"select e.id {_ELSEWHERE} ? order by e.id is null limit 1", [key]
        ).fetchone()
        if row is None or (row[0] is None and self._restores()):
            return None
        return REMOVED if row[0] is None else int(row[0])

    def unknown(self, name: str) -> str:
        """Why a row that names nobody cannot be used, and who may be meant."""
        shown = name if len(name) <= 200 else name[:199] + "…"
        like = self._like(fold(name))
        hint = f" (there is {like[0][1][:200]!r})" if like else ""
        return f"no entity named {shown!r}{hint}"

    def _fold_names(self) -> None:
        """Index all names without case and accents, to find those that only look the same.

        Only where there is need: on a large memory this takes longer than a small import.
        """
        if self.has_folds:
            return
        self.has_folds = True
        self.conn.execute("create temp table _limbic_import_folds(fold text, id integer)")
        self.conn.execute(
            "insert into temp._limbic_import_folds"
            " select _limbic_import_fold(name), id from entities"
        )
        self.conn.execute(
            "create index temp._limbic_import_folds_fold on _limbic_import_folds(fold, id)"
        )

    def report_near_equal(self, summary: ImportSummary) -> None:
        """List the names among which this import added one."""
        if self.entities.next_id == self.entities.above + 1:
            return
        self._fold_names()
        groups = self.conn.execute(
            "select fold from temp._limbic_import_folds where fold <> ''"
            " group by fold having count(*) > 1 and max(id) > ? order by min(id)",
            [self.entities.above],
        ).fetchall()
        summary.near_equal_count = len(groups)
        for (folded,) in groups[:MAX_LISTED]:
            summary.near_equal.append([name for _, name in self._like(folded)])

    def _like(self, folded: str) -> list[tuple[int, str]]:
        self._fold_names()
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
