"""What names entities: relations and accesses. They wait until all entities are known."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..text import fold
from .entities import EntityWriter, earliest
from .rejects import Rejects
from .items import Access, Relation
from .summary import MAX_LISTED, FileSummary, ImportSummary

# Being part of something is no activity: a split must not make its parts look fresh.
STRUCTURAL = ("contiene", "parte_de")
_BATCH = 2000

_LOG = "insert into entity_access_log(entity_id, entity_name, query, accessed_at)"
_COUNT_ACCESS = """
insert into entity_access(entity_id, access_count, last_access) values (?, 1, ?)
on conflict(entity_id) do update set
  access_count = access_count + 1, last_access = max(last_access, excluded.last_access)
"""
_COUNT_PAIR = """
insert into co_occurrences(entity_a_id, entity_b_id, co_count, last_co) values (?, ?, 1, ?)
on conflict(entity_a_id, entity_b_id) do update set
  co_count = co_count + 1, last_co = max(last_co, excluded.last_co)
"""


class LinkWriter:
    """Stages relations and accesses in temporary tables, then settles them in file order."""

    def __init__(self, conn: sqlite3.Connection, entities: EntityWriter, rejects: Rejects) -> None:
        self.conn, self.entities, self.rejects = conn, entities, rejects
        self.relations: list[tuple[Any, ...]] = []
        self.accesses: list[tuple[Any, ...]] = []
        conn.execute(
            "create temp table _limbic_import_relations(seq integer primary key, import_id,"
            " line, source, target, relation_type, created_at, valid_from, valid_to, raw)"
        )
        conn.execute(
            "create temp table _limbic_import_accesses"
            "(seq integer primary key, import_id, line, query, accessed_at, names, raw)"
        )
        conn.execute("create temp table _limbic_import_folds(fold text, id integer)")

    def add(self, link: Relation | Access, import_id: int, line: int, raw: str) -> None:
        """Stage one relation or access."""
        if isinstance(link, Relation):
            self.relations.append((import_id, line, *link, raw))
        else:
            names = json.dumps(link.names)
            self.accesses.append((import_id, line, link.query, link.accessed_at, names, raw))
        if len(self.relations) + len(self.accesses) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Write what waits to the temporary tables."""
        for table, rows in (("relations", self.relations), ("accesses", self.accesses)):
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                self.conn.executemany(
                    f"insert into _limbic_import_{table} select null, {marks}", rows
                )
                rows.clear()

    def make_stubs(self, files: dict[int, FileSummary]) -> None:
        """An entity for each name that a relation has and nobody described."""
        missing = self.conn.execute(
            "select name, import_id, min(place) from ("
            " select source as name, import_id, seq * 2 as place from _limbic_import_relations"
            " union all"
            " select target, import_id, seq * 2 + 1 from _limbic_import_relations)"
            " where name not in (select name from entities) group by name order by 3"
        ).fetchall()
        for name, import_id, _ in missing:
            self.entities.add_stub(name)
            files[import_id].stubs += 1
        self.entities.flush()

    def fold_names(self) -> None:
        """Index all names without case and accents, to find those that only look the same."""
        self.conn.create_function("_limbic_import_fold", 1, fold, deterministic=True)
        self.conn.execute(
            "insert into _limbic_import_folds select _limbic_import_fold(name), id from entities"
        )
        self.conn.execute(
            "create index temp._limbic_import_folds_fold on _limbic_import_folds(fold, id)"
        )

    def report_near_equal(self, summary: ImportSummary) -> None:
        """List the names among which this import added one."""
        groups = self.conn.execute(
            "select fold from _limbic_import_folds where fold <> ''"
            " group by fold having count(*) > 1 and max(id) > ? order by min(id)",
            [self.entities.above],
        ).fetchall()
        summary.near_equal_count = len(groups)
        for (folded,) in groups[:MAX_LISTED]:
            summary.near_equal.append([name for _, name in self._like(folded)])

    def _like(self, folded: str) -> list[tuple[int, str]]:
        rows = self.conn.execute(
            "select e.id, e.name from _limbic_import_folds f join entities e on e.id = f.id"
            " where f.fold = ? order by e.id limit 20",
            [folded],
        )
        return list(rows)

    def settle_relations(self, files: dict[int, FileSummary]) -> None:
        """Create the relations, or merge them with those of the same ends and type."""
        changed: dict[int, tuple[Any, ...]] = {}
        for row in self.conn.execute(
            "select s.import_id, s.line, s.source, s.target, f.id, t.id, s.relation_type,"
            " s.created_at, s.valid_from, s.valid_to, s.raw from _limbic_import_relations s"
            " left join entities f on f.name = s.source left join entities t on t.name = s.target"
            " order by s.seq"
        ):
            import_id, line, source, target, from_id, to_id, kind, *times, raw = row
            counts = files[import_id].relations
            if from_id is None or to_id is None:
                counts.dangling += 1
                gone = [n for n, i in ((source, from_id), (target, to_id)) if i is None]
                reason = "; ".join(self._unknown(name) for name in dict.fromkeys(gone))
                self.rejects.add(import_id, files[import_id], line, reason, raw)
                continue
            found = self._relation(from_id, to_id, kind, times)
            if found is None:
                counts.created += 1
                self.entities.stale.append(("entities", from_id))
            else:
                relation_id, *stored = found
                stored = list(changed.get(relation_id, (None, *stored))[1:])
                merged, reopened = _merge_times(stored, times)
                counts.reopened += reopened
                counts.merged += not reopened
                changed[relation_id] = (from_id, *merged)
                if merged == list(found[1:]):
                    del changed[relation_id]
            if kind not in STRUCTURAL and times[0]:
                self.entities.times.append((from_id, None, times[0]))
                self.entities.times.append((to_id, None, times[0]))
            if len(self.entities.times) + len(self.entities.stale) > _BATCH:
                self.entities.flush()
        for relation_id, (from_id, *times) in changed.items():
            self.conn.execute(
                "update relations set created_at = ?, valid_from = ?, valid_to = ? where id = ?",
                [*times, relation_id],
            )
            self.entities.stale.append(("entities", from_id))

    def _relation(
        self, from_id: int, to_id: int, kind: str, times: list[str | None]
    ) -> tuple[Any, ...] | None:
        """The relation that is there already, or None after inserting it."""
        found = self.conn.execute(
            "select id, created_at, valid_from, valid_to from relations"
            " where from_entity = ? and to_entity = ? and relation_type = ?",
            [from_id, to_id, kind],
        ).fetchone()
        if found is None:
            self.conn.execute(
                "insert into relations(from_entity, to_entity, relation_type,"
                " created_at, valid_from, valid_to) values (?, ?, ?, ?, ?, ?)",
                [from_id, to_id, kind, *times],
            )
            return None
        return tuple(found)

    def _unknown(self, name: str) -> str:
        shown = name if len(name) <= 200 else name[:199] + "…"
        like = self._like(fold(name))
        hint = f" (there is {like[0][1][:200]!r})" if like else ""
        return f"no entity named {shown!r}{hint}"

    def settle_accesses(self, files: dict[int, FileSummary]) -> None:
        """Add the accesses that the log does not hold, and count them and their pairs."""
        for import_id, line, query, accessed_at, names, raw in self.conn.execute(
            "select import_id, line, query, accessed_at, names, raw"
            " from _limbic_import_accesses order by seq"
        ):
            file = files[import_id]
            ids: dict[int, bool] = {}
            for name in json.loads(names):
                row = self.conn.execute("select id from entities where name = ?", [name])
                entity_id = (row.fetchone() or [None])[0]
                if entity_id is None:
                    file.access.dangling += 1
                    self.rejects.add(import_id, file, line, self._unknown(name), raw)
                    continue
                ids[entity_id] = is_new = self._log(entity_id, name, query, accessed_at)
                file.access.added += is_new
                file.access.already_there += not is_new
            # A pair is new when one of its two is: an entity that a first import did not know
            # gets its pairs when it comes, and the others are not counted twice.
            self.conn.executemany(
                _COUNT_PAIR,
                ((a, b, accessed_at) for a, b in combinations(sorted(ids), 2) if ids[a] or ids[b]),
            )

    def _log(self, entity_id: int, name: str, query: str | None, accessed_at: str) -> bool:
        there = self.conn.execute(
            "select 1 from entity_access_log"
            " where entity_id = ? and accessed_at = ? and query is ?",
            [entity_id, accessed_at, query],
        ).fetchone()
        if there:
            return False
        self.conn.execute(f"{_LOG} values (?, ?, ?, ?)", [entity_id, name, query, accessed_at])
        self.conn.execute(_COUNT_ACCESS, [entity_id, accessed_at])
        return True


def _merge_times(
    stored: list[str | None], given: list[str | None]
) -> tuple[list[str | None], bool]:
    """[created_at, valid_from, valid_to] of both, and whether an ended relation is reopened."""
    created = earliest(stored[0], given[0])
    start = stored[1] if stored[1] is not None else given[1]
    reopened = stored[2] is not None and given[2] is None
    end = None if reopened else stored[2] if stored[2] is not None else given[2]
    return [created, start, end], reopened
