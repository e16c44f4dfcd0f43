"""One import: all files in one transaction, which either happens whole or not at all."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from datasette.utils.sqlite import sqlite3

from .. import connection, schema
from ..errors import BadParameter, DatabaseUnusable, LimbicError, UnknownFormat
from .baseline import storable
from .import_job import Import, Options
from .reading import sniff
from .records import Progress
from .rejects import Rejects, check_rejects_path
from .source import Source
from .summary import FileSummary, ImportSummary
from .taken_vectors import with_model


class NothingChanged(Exception):
    """Raised to undo an import that would only have written its own log."""

    def __init__(self, summary: ImportSummary) -> None:
        super().__init__()
        self.summary = summary


log = logging.getLogger("datasette_limbic")

_TRIES = 3


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
    corrected or judged here since stays so. ``restore_removed`` brings back what is missing here.
    A line that cannot be used is a reject in the summary, in ``limbic_import_rejects`` and, as
    JSON Lines, in ``rejects_path``. ``create_missing`` makes an entity for each name that only
    relations mention.
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
    for source in sources:
        source.with_vectors = options.with_vectors
    path = Path(conn_or_path) if isinstance(conn_or_path, (str, Path)) else None
    rejects = None
    if rejects_path is not None:
        others = [*(source.path for source in sources), path or _path_of(conn_or_path)]
        rejects = check_rejects_path(Path(rejects_path), filter(None, others))
    if options.vectors_model and any(source.has_vectors for source in sources):
        options = with_model(options)
    if path is None:
        schema.require_memory(conn_or_path)
        return _transaction(conn_or_path, sources, options, rejects, progress)
    is_new = not path.exists()
    try:
        for _ in range(_TRIES):
            conn = open_memory(path)
            try:
                return _transaction(conn, sources, options, rejects, progress, _Place(path))
            except _Vanished:
                continue  # another import had made the file, failed, and took it away
            finally:
                conn.close()
        raise DatabaseUnusable(f"{path} was taken away by another program: try again")
    except BaseException as error:
        if is_new:
            _remove_empty(path)
        if isinstance(error, sqlite3.DatabaseError):
            raise connection.unusable(path, error) from error
        raise


class _Vanished(Exception):
    """The file that was opened does not stand under its name any more."""


class _Place:
    """Which file stands under a name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.was = self._now()

    def _now(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def check(self) -> None:
        """Raise _Vanished unless it is still the same."""
        if self._now() != self.was or self.was is None:
            raise _Vanished


def _path_of(conn: sqlite3.Connection) -> Path | None:
    row = conn.execute("select file from pragma_database_list where name = 'main'").fetchone()
    return Path(row[0]) if row and row[0] else None


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
    place: _Place | None = None,
) -> ImportSummary:
    with Rejects(conn, rejects_path) as rejects, _without_map(conn):
        # at once: a lock that is asked for only at the first write cannot be waited for
        conn.execute("begin immediate")
        try:
            if place:
                place.check()
            with schema.guarded(conn, "import"):
                work = Import(conn, sources, rejects, options)
                summary = work.run(progress)
                if not summary.lines_add_up():
                    raise RuntimeError(
                        f"lines do not add up, so nothing was imported: {summary.as_dict()}"
                    )
                if options.only_changes and not work.changed:
                    raise NothingChanged(summary)
            rejects.finish()
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
            if not used:
                # while nobody else can write: an import that waits looks whether it is still there
                for suffix in ("", "-journal", "-wal", "-shm"):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)
            conn.rollback()
        finally:
            conn.close()
    except (sqlite3.Error, OSError) as error:
        log.info("%s, which this import made, stays: %s", path, error)
