"""What happens inside the transaction of an import."""

from __future__ import annotations

import json
from dataclasses import dataclass

from datasette.utils.sqlite import sqlite3

from .. import schema
from ..errors import UnknownFormat
from ..exporting.tables import RESTORED
from ..times import now_sql
from .baseline import Baseline, storable
from .entities import EntityWriter
from .full import FullSource
from .insights import settle_insights
from .items import (
    Access,
    AccessCount,
    Entity,
    Insight,
    Link,
    LogEntry,
    Observations,
    PairCount,
    Rejection,
    Relation,
    Vector,
)
from .links import Staging
from .moved import Moved
from .reading import WE_READ
from .records import Progress
from .rejects import Rejects
from .relations import gone as relations_gone
from .relations import settle_relations
from .restoring import is_empty, log_restore, restore
from .source import Source
from .summary import FileSummary, ImportSummary
from .taken_vectors import settle_vectors
from .usage import settle_uses

_GROUPS = {
    Relation: "relations",
    Access: "access",
    AccessCount: "access_counts",
    LogEntry: "access_log",
    PairCount: "co_occurrences",
    Insight: "insights",
    Vector: "vectors",
}


@dataclass(frozen=True)
class Options:
    """What a person may ask of an import; see ``import_files``."""

    create_missing: bool = False
    restore_removed: bool = False
    with_vectors: bool = False
    vectors_model: str | None = None
    vectors_length: int = 0  # bytes of a vector of that model
    only_changes: bool = False


class Import:
    """One import, inside its transaction and with the guard set."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        sources: list[Source],
        rejects: Rejects,
        options: Options,
    ) -> None:
        self.conn, self.sources, self.rejects, self.options = conn, sources, rejects, options
        self.summary = ImportSummary()
        self.files: dict[int, FileSummary] = {}
        self.baselines: dict[int, Baseline] = {}
        self.started = now_sql()

    def run(self, progress: Progress | None) -> ImportSummary:
        """Read all files, then settle what names entities of any of them."""
        # Filling the text index once at the end is several times as fast as the triggers.
        schema.drop_triggers(self.conn)
        sources = self.sources
        if isinstance(sources[0], FullSource) and is_empty(self.conn):
            self._restore(sources[0], progress)
            sources = sources[1:]
        self.moved = Moved(self.conn)
        self.entities = EntityWriter(self.conn, self.started, self.moved)
        self.staging = Staging(self.conn, self.entities, self.rejects)
        for source in sources:
            self._read(source, progress)
        if not any(file.accepted or file.beside for file in self.summary.files):
            raise UnknownFormat(_nothing_read(self.summary))
        self._settle()
        self.staging.drop()
        schema.create_triggers(self.conn)
        return self.summary

    @property
    def changed(self) -> bool:
        """Whether the memory, or what is known of the sources, is another than before."""
        return any(file.changed for file in self.summary.files) or any(
            base.changed for base in self.baselines.values()
        )

    def _restore(self, source: FullSource, progress: Progress | None) -> None:
        """An empty memory becomes the exported one, with all its ids and logs."""
        name = storable(source.path.name)
        import_id = log_restore(self.conn, name, self.started)
        file = FileSummary(name, RESTORED)
        self.files[import_id] = file
        self.summary.files.append(file)
        restored = restore(self.conn, source.path, file, import_id, self.rejects, progress)
        file.restored, file.missing = restored.rows, restored.missing
        file.beside, file.observation_lines = restored.lines, file.observations.in_file
        schema.fill_indexes(self.conn)
        schema.mark_for_reports(self.conn)

    def _begin(self, source: Source) -> tuple[int, FileSummary]:
        """The row of the log; its counts follow at the end."""
        name = storable(source.path.name)
        # also above the ids of imports that were taken out of the log: no two may be one
        import_id = self.conn.execute(
            "select 1 + max((select coalesce(max(id), 0) from limbic_imports),"
            " (select coalesce(max(import_id), 0) from _limbic_sources))"
        ).fetchone()[0]
        self.conn.execute(
            "insert into limbic_imports(id, source, format, counts, started_at, finished_at)"
            " values (?, ?, ?, '{}', ?, ?)",
            [import_id, name, source.format, self.started, self.started],
        )
        file = FileSummary(name, source.format, source.unit)
        self.files[import_id] = file
        self.summary.files.append(file)
        self.baselines[import_id] = Baseline(
            self.conn, source, import_id, self.moved, self.options.restore_removed
        )
        return import_id, file

    def _read(self, source: Source, progress: Progress | None) -> None:
        """Stream one file: entities are written at once, what names them is staged."""
        import_id, file = self._begin(source)
        if self.options.with_vectors and not source.has_vectors:
            file.notes.remarks.append(
                "Only the files of MCP Memory v2 hold vectors that can be taken over; "
                "'datasette limbic sync' makes those of all others."
            )
        self.entities.begin(self.baselines[import_id])
        last = 0
        for line, raw, row in source.items(file.notes, progress):
            if isinstance(row, Entity):
                self.entities.add(row, line, file)
            elif isinstance(row, Rejection):
                file.rejected += 1
                self.rejects.add(import_id, file, line, row.reason, raw)
            elif isinstance(row, Observations):
                file.observation_lines += len(row.observations)
                self.entities.add_observations(row, file)
            else:
                self.staging.add(row, import_id, line, raw)
                _count(row, file, shared=line == last)
            last = line
        self.entities.end()
        self.staging.flush()
        counted = source.counted
        file.lines, file.blank, file.glued = counted.lines, counted.blank, counted.glued
        file.beside = counted.beside

    def _settle(self) -> None:
        if self.options.create_missing:
            self.staging.make_stubs(self.files)
        settle_relations(self.staging, self.files, self.baselines)
        settle_uses(self.staging, self.files, self.baselines)
        settle_insights(self.staging, self.files, self.baselines, self.started)
        self.staging.report_near_equal(self.summary)
        self.entities.flush()
        self.entities.activity.settle()
        settle_vectors(
            self.staging, self.files, self.options.vectors_model, self.options.vectors_length
        )
        self.rejects.flush()
        schema.fill_indexes(self.conn, self.entities.above, self.entities.observations.above)
        if self.changed:
            schema.mark_for_reports(self.conn)
        for source, (import_id, file) in zip(self.sources, self.files.items(), strict=True):
            if source.whole and import_id in self.baselines:
                file.entities.gone, file.observations.gone = self.baselines[import_id].gone()
                file.relations.gone = relations_gone(self.baselines[import_id])
            counts = file.as_dict()
            counts["warnings"]["near_equal_names"] = self.summary.near_equal
            self.conn.execute(
                "update limbic_imports set counts = ?, finished_at = ? where id = ?",
                [json.dumps(counts, ensure_ascii=False), now_sql(), import_id],
            )


def _count(row: Link, file: FileSummary, *, shared: bool) -> None:
    if isinstance(row, Access):
        file.access.names += len(row.names)
    getattr(file, _GROUPS[type(row)]).lines += 1
    file.shared += shared and isinstance(row, Insight)


def _nothing_read(summary: ImportSummary) -> str:
    said = []
    for file in summary.files:
        first = file.first_rejects[0] if file.first_rejects else None
        why = f" Line {first['line']}: {first['reason']}." if first else ""
        said.append(f"{file.name} holds no entity and no relation that could be read.{why}")
    return "\n".join([*said, WE_READ])
