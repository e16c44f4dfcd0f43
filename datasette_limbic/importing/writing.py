"""One import: all files in one transaction, which either happens whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from datasette.utils.sqlite import sqlite3

from .. import connection, schema
from ..errors import BadParameter, DatabaseUnusable, LimbicError, UnknownFormat
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
from .reading import WE_READ, sniff
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
    only_changes: bool = False


class NothingChanged(Exception):
    """Raised to undo an import that would only have written its own log."""

    def __init__(self, summary: ImportSummary) -> None:
        super().__init__()
        self.summary = summary


def import_files(
    conn_or_path: sqlite3.Connection | str | Path,
    paths: Iterable[str | Path],
    *,
    create_missing: bool = False,
    rejects_path: str | Path | None = None,
    restore_removed: bool = False,
    with_vectors: bool = False,
    vectors_model: str | None = None,
    progress: Progress | None = None,
) -> ImportSummary:
    """Import memory files into a memory database, and say what became of every line.

    A path is opened, made if missing and brought up to date; a connection must hold a memory
    already and be outside a transaction. Entities of one name are merged, observations united,
    so that importing a file again adds and updates only what changed in it: what was removed,
    corrected or judged here since stays so, unless ``restore_removed`` is set. A line that cannot
    be used is a reject in the summary, in ``limbic_import_rejects`` and, as JSON Lines, in
    ``rejects_path``. ``create_missing`` makes an entity for each name that only relations mention.
    ``with_vectors`` takes over the vectors of an MCP Memory v2 file: into the collection
    ``entities`` where ``vectors_model`` names the model that made them, else into one of their
    own. ``progress`` is called with the number of bytes read since the last call.

    Raises UnknownFormat when nothing could be read from any file; the database is as before.
    """
    if vectors_model is not None and not with_vectors:
        raise BadParameter(
            f"--vectors-model {vectors_model} says which model made the vectors: give "
            "--with-vectors too, which takes them over"
        )
    options = Options(create_missing, restore_removed, with_vectors, vectors_model)
    sources, refused = _sniff_all(paths)
    summary = import_sources(conn_or_path, sources, options, rejects_path, progress)
    summary.files += refused
    return summary


def import_sources(
    conn_or_path: sqlite3.Connection | str | Path,
    sources: list[Source],
    options: Options,
    rejects_path: str | Path | None = None,
    progress: Progress | None = None,
) -> ImportSummary:
    """The same for files whose format is known. Raises UnknownFormat, BadParameter."""
    rejects = Path(rejects_path) if rejects_path is not None else None
    for source in sources:
        if rejects and rejects.exists() and rejects.samefile(source.path):
            raise BadParameter(f"{rejects} is one of the files to import: name another for rejects")
        source.with_vectors = options.with_vectors
    if rejects and not rejects.parent.is_dir():
        raise BadParameter(f"the folder {rejects.parent} does not exist: create it first")
    if not isinstance(conn_or_path, (str, Path)):
        schema.require_memory(conn_or_path)
        return _transaction(conn_or_path, sources, options, rejects, progress)
    path = Path(conn_or_path)
    is_new = not path.exists()
    try:
        conn = open_memory(path)
        try:
            return _transaction(conn, sources, options, rejects, progress)
        finally:
            conn.close()
    except BaseException as error:
        if is_new:
            _remove_empty(path)
        if isinstance(error, sqlite3.DatabaseError):
            raise connection.unusable(path, error) from error
        raise


def open_memory(path: Path) -> sqlite3.Connection:
    """Open the database at ``path``, made if missing, with all tables of ours."""
    conn = connection.connect(path, create=True)
    try:
        schema.init(conn)
    except BaseException:
        conn.close()
        raise
    return conn


def _sniff_all(paths: Iterable[str | Path]) -> tuple[list[Source], list[FileSummary]]:
    sources: list[Source] = []
    refused: list[FileSummary] = []
    errors: list[LimbicError] = []
    for path in paths:
        try:
            sources.append(sniff(path))
        except (UnknownFormat, DatabaseUnusable) as error:
            errors.append(error)
            refused.append(FileSummary(storable(Path(path).name), refused=str(error)))
    if not sources:
        if len(errors) == 1:
            raise errors[0]
        raise UnknownFormat("\n".join(map(str, errors)) or "no file to import was given")
    return sources, refused


def _transaction(
    conn: sqlite3.Connection,
    sources: list[Source],
    options: Options,
    rejects_path: Path | None,
    progress: Progress | None,
) -> ImportSummary:
    with Rejects(conn, rejects_path) as rejects, _without_map(conn):
        # at once: a lock that is asked for only at the first write cannot be waited for
        conn.execute("begin immediate")
        try:
            with schema.guarded(conn, "import"):
                work = Import(conn, sources, rejects, options)
                summary = work.run(progress)
                if not summary.lines_add_up():
                    raise RuntimeError(
                        f"lines do not add up, so nothing was imported: {summary.as_dict()}"
                    )
                if options.only_changes and not work.changed:
                    raise NothingChanged(summary)
            conn.commit()
        except NothingChanged as unchanged:
            conn.rollback()
            return unchanged.summary
        except BaseException:
            conn.rollback()
            raise
        rejects.publish()
    return summary


@contextmanager
def _without_map(conn: sqlite3.Connection) -> Iterator[None]:
    """Writing gains nothing from a mapped file, and its pages would count as our memory."""
    mapped = (conn.execute("pragma mmap_size").fetchone() or [0])[0]
    conn.execute("pragma mmap_size=0").close()
    try:
        yield
    finally:
        conn.execute(f"pragma mmap_size={int(mapped)}").close()


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
        self.entities = EntityWriter(self.conn, self.started)
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
            self.conn, source, import_id, self.options.restore_removed
        )
        return import_id, file

    def _read(self, source: Source, progress: Progress | None) -> None:
        """Stream one file: entities are written at once, what names them is staged."""
        import_id, file = self._begin(source)
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
        self.entities.settle_activity()
        settle_vectors(self.staging, self.files, self.options.vectors_model)
        self.rejects.flush()
        schema.fill_indexes(self.conn, self.entities.above, self.entities.observations.above)
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


def _remove_empty(path: Path) -> None:
    """Take away the file that a failed import made, unless somebody else has written to it."""
    try:
        conn = sqlite3.connect(path, timeout=0)
        try:
            conn.execute("begin exclusive")
            tables = {row[0] for row in conn.execute("select name from sqlite_master")}
            used = any(
                table in tables and conn.execute(f"select 1 from {table} limit 1").fetchone()
                for table in ("entities", "limbic_imports")
            )
            conn.rollback()
        finally:
            conn.close()
    except (sqlite3.Error, OSError):
        return
    if not used:
        for suffix in ("", "-journal", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
