"""One import: all files in one transaction, which either happens whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from datasette.utils.sqlite import sqlite3

from .. import connection, schema
from ..errors import BadParameter, UnknownFormat
from ..times import now_sql
from .entities import EntityWriter
from .links import LinkWriter
from .items import Access, Entity, Rejection, Relation
from .reading import WE_READ, sniff
from .records import Progress
from .rejects import Rejects
from .source import Source
from .summary import FileSummary, ImportSummary

_TEMPORARY = ("relations", "accesses", "folds", "times")


def import_files(
    conn_or_path: sqlite3.Connection | str | Path,
    paths: Iterable[str | Path],
    *,
    create_missing: bool = False,
    rejects_path: str | Path | None = None,
    progress: Progress | None = None,
) -> ImportSummary:
    """Import memory files into a memory database, and say what became of every line.

    A path is opened, made if missing and brought up to date; a connection must hold a memory
    already and be outside a transaction. Entities of one name are merged, observations united,
    so that importing a file again changes nothing. A line that cannot be used is a reject in
    the summary, in ``limbic_import_rejects`` and, as JSON Lines, in ``rejects_path``.
    ``create_missing`` makes an entity for each name that only relations mention. ``progress``
    is called with the number of bytes read since the last call.

    Raises UnknownFormat when nothing could be read from any file; the database is as before.
    """
    sources, refused = _sniff_all(paths)
    rejects = Path(rejects_path) if rejects_path is not None else None
    for source in sources:
        if rejects and rejects.exists() and rejects.samefile(source.path):
            raise BadParameter(f"{rejects} is one of the files to import: name another for rejects")
    if rejects and not rejects.parent.is_dir():
        raise BadParameter(f"the folder {rejects.parent} does not exist: create it first")
    if isinstance(conn_or_path, (str, Path)):
        path = Path(conn_or_path)
        is_new = not path.exists()
        try:
            conn = open_memory(path)
            try:
                return _transaction(conn, sources, refused, create_missing, rejects, progress)
            finally:
                conn.close()
        except BaseException as error:
            if is_new:
                _remove_empty(path)
            if isinstance(error, sqlite3.DatabaseError):
                raise connection.unusable(path, error) from error
            raise
    schema.require_memory(conn_or_path)
    return _transaction(conn_or_path, sources, refused, create_missing, rejects, progress)


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
    sources, refused = [], []
    for path in paths:
        try:
            sources.append(sniff(path))
        except UnknownFormat as error:
            refused.append(FileSummary(Path(path).name, refused=str(error)))
    if not sources:
        reasons = [str(file.refused) for file in refused]
        raise UnknownFormat("\n".join(reasons) or "no file to import was given")
    return sources, refused


def _transaction(
    conn: sqlite3.Connection,
    sources: list[Source],
    refused: list[FileSummary],
    create_missing: bool,
    rejects_path: Path | None,
    progress: Progress | None,
) -> ImportSummary:
    with Rejects(conn, rejects_path) as rejects, _without_map(conn):
        # at once: a lock that is asked for only at the first write cannot be waited for
        conn.execute("begin immediate")
        try:
            with schema.guarded(conn, "import"):
                summary = _import(conn, sources, rejects, create_missing, progress)
                if not summary.lines_add_up():
                    raise RuntimeError(
                        f"lines do not add up, so nothing was imported: {summary.as_dict()}"
                    )
            conn.commit()
        except BaseException:
            conn.rollback()
            raise
        rejects.publish()
    summary.files += refused
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


def _import(
    conn: sqlite3.Connection,
    sources: list[Source],
    rejects: Rejects,
    create_missing: bool,
    progress: Progress | None,
) -> ImportSummary:
    # Filling the text index once at the end takes 2.5 times a plain insert of the rows, the
    # triggers 6 to 11 times.
    schema.drop_triggers(conn)
    entities = EntityWriter(conn)
    links = LinkWriter(conn, entities, rejects)
    summary = ImportSummary()
    files: dict[int, FileSummary] = {}
    started = now_sql()
    for source in sources:
        import_id = conn.execute(
            "insert into limbic_imports(source, format, counts, started_at, finished_at)"
            " values (?, ?, '{}', ?, ?)",
            [_storable(source.path.name), source.format, started, started],
        ).lastrowid
        file = FileSummary(_storable(source.path.name), source.format)
        files[import_id] = file
        summary.files.append(file)
        _read(source, import_id, file, entities, links, rejects, progress)
    entities.flush()
    links.flush()
    if not any(file.accepted for file in summary.files):
        raise UnknownFormat(_nothing_read(summary))
    if create_missing:
        links.make_stubs(files)
    links.fold_names()
    links.settle_relations(files)
    links.settle_accesses(files)
    links.report_near_equal(summary)
    entities.settle_activity()
    rejects.flush()
    schema.fill_indexes(conn, entities.above, entities.observations.above)
    for import_id, file in files.items():
        conn.execute(
            "update limbic_imports set counts = ?, finished_at = ? where id = ?",
            [json.dumps(file.as_dict(), ensure_ascii=False), now_sql(), import_id],
        )
    for table in _TEMPORARY:
        conn.execute(f"drop table temp._limbic_import_{table}")
    schema.create_triggers(conn)
    return summary


def _read(
    source: Source,
    import_id: int,
    file: FileSummary,
    entities: EntityWriter,
    links: LinkWriter,
    rejects: Rejects,
    progress: Progress | None,
) -> None:
    """Stream one file: entities are written at once, what names them is staged."""
    for line, raw, row in source.items(file.notes, progress):
        if isinstance(row, Entity):
            entities.add(row, line, file)
        elif isinstance(row, Rejection):
            file.rejected += 1
            rejects.add(import_id, file, line, row.reason, raw)
        else:
            links.add(row, import_id, line, raw)
            if isinstance(row, Relation):
                file.relations.lines += 1
            elif isinstance(row, Access):
                file.access.lines += 1
                file.access.names += len(row.names)
    counted = source.counted
    file.lines, file.blank, file.glued = counted.lines, counted.blank, counted.glued


def _storable(name: str) -> str:
    """A file name may hold bytes that are no text."""
    return name.encode("utf-8", "replace").decode("utf-8")


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
