"""The database into which followed files are imported, over many rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from datasette.utils.sqlite import sqlite3

from ... import connection
from ...errors import DatabaseUnusable
from ..import_job import Options
from ..records import Progress
from ..summary import ImportSummary
from ..writing import import_sources
from .increment import Increment

# After the first import a lock is waited for from round to round, so that stopping is prompt.
_PATIENCE_MS = 500


class Locked(Exception):
    """Another program is writing; nothing was done."""


class Target:
    """A path, made if missing and opened for each round anew, or a connection of the caller's."""

    def __init__(
        self,
        conn_or_path: sqlite3.Connection | str | Path,
        options: Options,
        progress: Progress | None,
    ) -> None:
        self.conn: sqlite3.Connection | None = None
        self.path: Path | None = None
        if isinstance(conn_or_path, (str, Path)):
            self.path = Path(conn_or_path)
        else:
            self.conn = conn_or_path
        self.name = str(self.path or "the database")
        self.options = replace(options, only_changes=True)
        self.progress = progress
        self.identity: tuple[int, int] | None = None

    def require(self) -> None:
        """Raise DatabaseUnusable where the file is not the one of the first import any more.

        What was read of the files is in that one; another would get the rest alone.
        """
        if self.path is None or self.identity is None:
            return
        try:
            is_same = _identity(self.path) == self.identity
        except FileNotFoundError:
            is_same = False
        if not is_same:
            raise self._lost()

    def _lost(self) -> DatabaseUnusable:
        what = "replaced by another file" if self.path and self.path.exists() else "deleted"
        return DatabaseUnusable(
            f"{self.path} was {what} while files were followed into it: start again to import "
            "all of them anew"
        )

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """A connection. Raises Locked for whatever meets a lock inside the block."""
        try:
            if self.conn is not None:
                yield self.conn
                return
            assert self.path is not None
            with closing(connection.connect(self.path)) as conn:
                conn.execute(f"pragma busy_timeout={_PATIENCE_MS}")
                yield conn
        except (sqlite3.DatabaseError, DatabaseUnusable) as error:
            if _is_locked(error):
                raise Locked from error
            self.require()  # SQLite has many words for a file that went in the middle of a round
            if self.path is None or isinstance(error, DatabaseUnusable):
                raise
            raise connection.unusable(self.path, error) from error

    def take(self, sources: Sequence[Increment]) -> ImportSummary:
        """One import of all of them. Raises what ``import_sources`` does, and Locked."""
        if self.path is not None and self.identity is None:
            try:
                summary = import_sources(self.path, [*sources], self.options, None, self.progress)
            except DatabaseUnusable as error:
                if _is_locked(error):
                    raise Locked from error
                if not self.path.exists():  # SQLite says "disk I/O error"
                    raise self._lost() from error
                raise
            try:
                self.identity = _identity(self.path)
            except FileNotFoundError as error:
                raise self._lost() from error
        else:
            with self.opened() as conn:
                for source in sources:
                    source.conn = conn
                summary = import_sources(conn, [*sources], self.options, None, self.progress)
        # what is removed here from now on stays so
        self.options = replace(self.options, restore_removed=False)
        return summary


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _is_locked(error: Exception) -> bool:
    # the sentence of ours names the path, which may hold any word
    text = str(error.__cause__ if isinstance(error, DatabaseUnusable) else error)
    return "locked" in text or "busy" in text
