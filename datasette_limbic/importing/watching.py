"""Following memory files: what is appended to them, or written anew, comes in soon after."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from datasette.utils.sqlite import sqlite3

from .. import connection
from ..errors import BadParameter, DatabaseUnusable, LimbicError, UnknownFormat
from .followed import FollowedFile
from .increment import Increment, NeedsWhole, Part, Stopped, held
from .records import Progress
from .round_text import figures
from .summary import FileSummary, ImportSummary
from .unresolved import EntitiesCame, highest_id, new_names, unresolved
from .windows import FileChanged, FileUnreadable
from .writing import Options, import_sources

log = logging.getLogger("datasette_limbic")

Report = Callable[[ImportSummary], object]
Say = Callable[[str], object]

# After the first round a lock is waited for from round to round, so that stopping is prompt.
_PATIENCE_MS = 500


@dataclass
class Watched:
    """What came of it: ``rounds`` in which something changed, what they did together, and a
    sentence on each file whose last line was not taken."""

    rounds: int = 0
    figures: Counter[str] = field(default_factory=Counter)
    left: list[str] = field(default_factory=list)


def watch(
    conn_or_path: sqlite3.Connection | str | Path,
    paths: Iterable[str | Path],
    *,
    options: Options | None = None,
    interval: float = 2.0,
    stop: threading.Event | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
) -> Watched:
    """Import JSON Lines files as they are, then follow them until ``stop`` is set.

    Every ``interval`` seconds each file is looked at: of one that has grown only the new lines
    are read, one that was written anew is imported whole, which is a sync. ``report`` gets the
    summary of each round that changed the memory or met lines that cannot be used; ``say`` gets
    a sentence, once, where a file is missing or the database is locked, which is waited for.
    ``options.restore_removed`` counts for the first round alone.

    Raises UnknownFormat or BadParameter where a file that is there at the beginning is no JSON
    Lines, DatabaseUnusable where the database is gone or full.
    """
    if not interval > 0:
        raise BadParameter(f"interval is {interval}: it is the seconds between two looks")
    stop = stop or threading.Event()
    watcher = Watcher(conn_or_path, paths, options or Options(), stop, report, progress, say)
    while not stop.is_set():
        watcher.round(interval)
        stop.wait(interval)
    return watcher.finish()


class Watcher:
    """The rounds of one ``watch``."""

    def __init__(
        self,
        conn_or_path: sqlite3.Connection | str | Path,
        paths: Iterable[str | Path],
        options: Options,
        stop: threading.Event,
        report: Report | None = None,
        progress: Progress | None = None,
        say: Say | None = None,
    ) -> None:
        is_path = isinstance(conn_or_path, (str, Path))
        self.path = Path(conn_or_path) if is_path else None  # type: ignore[arg-type]
        self.conn = None if is_path else conn_or_path
        self.options = replace(options, only_changes=True)
        self.stop, self.progress = stop, progress
        self.report = report or (lambda summary: None)
        self.say = say or log.warning
        unique = {Path(path).resolve(): Path(path) for path in paths}.values()
        self.files = {path: FollowedFile(path) for path in unique}
        if not self.files:
            raise BadParameter("no file to follow was given")
        self.is_first = True
        self.database: tuple[int, int] | None = None
        self.highest = 0
        self.said: dict[object, str] = {}
        self.watched = Watched()

    def round(self, interval: float) -> None:
        """Look at every file once, and import what is new."""
        self._require_database()
        parts: list[Part] = []
        try:
            for file in self.files.values():
                part = self._look(file, interval)
                if part is not None:
                    parts.append(part)
            if parts:
                self._import(parts)
            self._import_held()
        finally:
            for part in parts:
                part.file.close()
        self.is_first = False

    def finish(self) -> Watched:
        """The totals."""
        self.watched.left = [left for file in self.files.values() if (left := file.left())]
        self.watched.figures["rejected"] = sum(file.rejects for file in self.files.values())
        return self.watched

    def _look(self, file: FollowedFile, interval: float) -> Part | None:
        try:
            part = file.look(interval, self.stop.is_set)
        except FileNotFoundError:
            file.forget()
            return self._say_once(file, f"{file.path} is not there: waiting for it")
        except LimbicError as error:
            if self.is_first:
                raise
            return self._say_once(file, f"{error}. Waiting until that changes")
        except (OSError, FileUnreadable) as error:
            return self._say_once(file, f"{file.path} cannot be read ({_why(error)}): trying again")
        self.said.pop(file, None)
        return part

    def _import(self, parts: list[Part]) -> None:
        summary = self._attempt(parts)
        if summary is None:
            return
        news = []
        for part, told in zip(parts, summary.files, strict=True):
            file = self.files[part.path]
            file.advance(part)
            known = 0 if part.whole else file.rejects
            if told.changed or told.rejects > file.rejects - known:
                news.append(told)
            if part.whole:
                file.waiting, file.too_many_wait = [], False
            file.rejects = known + told.rejects
        self._tell(summary, news)
        self._find_unresolved(parts, summary.files)

    def _import_held(self) -> None:
        """Bring in the lines whose entities have come."""
        due = [file for file in self.files.values() if any(w.due for w in file.waiting)]
        if not due:
            return
        sources = [held(file.path, [w for w in file.waiting if w.due]) for file in due]
        summary = self._attempt(sources)
        if summary is None:
            return
        for file, told in zip(due, summary.files, strict=True):
            file.waiting = [waiting for waiting in file.waiting if not waiting.due]
            file.rejects = max(0, file.rejects - told.lines + told.rejects)
        self._tell(summary, [told for told in summary.files if told.changed])
        self._find_unresolved(sources, summary.files)

    def _find_unresolved(self, sources: Sequence[Increment], told: list[FileSummary]) -> None:
        """See whose entities have come, and which of the lines just read have to wait."""
        try:
            with self._connection() as conn:
                above, self.highest = self.highest, highest_id(conn)
                for file in self.files.values():
                    if file.too_many_wait and self.highest > above:
                        file.forget()
                if any(file.waiting for file in self.files.values()):
                    came = new_names(conn, above)
                    for file in self.files.values():
                        for waiting in file.waiting:
                            waiting.due = waiting.due or not came.isdisjoint(waiting.missing)
                for source, summary in zip(sources, told, strict=True):
                    if summary.relations.dangling or summary.access.dangling:
                        found = unresolved(conn, source, summary)
                        file = self.files[source.path]
                        file.too_many_wait = file.too_many_wait or found is None
                        file.waiting += found or []
        except (EntitiesCame, FileChanged, FileUnreadable, sqlite3.Error, DatabaseUnusable):
            # what was imported stays; reading it once more finds out what is left
            for source in sources:
                self.files[source.path].forget()
        except Stopped:
            return

    def _attempt(self, sources: Sequence[Increment]) -> ImportSummary | None:
        """One import of all of them; None where it is to be tried again in the next round."""
        try:
            summary = self._transaction(sources)
        except NeedsWhole as needs:
            return self.files[needs.args[0]].forget()
        except FileChanged:
            return self._forget_changed(sources)
        except FileUnreadable as error:
            return self._say_once("files", f"a file cannot be read ({_why(error)}): trying again")
        except Stopped:
            return None
        except UnknownFormat:
            if self.is_first:
                raise
            return ImportSummary([_only_rejects(source) for source in sources])
        except (sqlite3.DatabaseError, DatabaseUnusable) as error:
            name = self.path or "the database"
            if not _is_locked(error):
                if self.path is None or isinstance(error, DatabaseUnusable):
                    raise
                raise connection.unusable(self.path, error) from error
            what = f"{name} is locked by another program: trying again until it is free"
            return self._say_once("database", what)
        self.said.pop("database", None)
        self.said.pop("files", None)
        return summary

    def _transaction(self, sources: Sequence[Increment]) -> ImportSummary:
        if self.path is not None and self.database is None:
            # made if missing, and brought up to date
            summary = import_sources(self.path, [*sources], self.options, None, self.progress)
            self.database = _identity(self.path)
        else:
            with self._connection() as conn:
                for source in sources:
                    source.conn = conn
                summary = import_sources(conn, [*sources], self.options, None, self.progress)
        self.options = replace(self.options, restore_removed=False)
        return summary

    def _forget_changed(self, sources: Sequence[Increment]) -> None:
        for source in sources:
            if isinstance(source, Part) and not source.marks.hold(source.file):
                self.files[source.path].forget()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self.path is None:
            assert self.conn is not None
            yield self.conn
            return
        with closing(connection.connect(self.path)) as conn:
            conn.execute(f"pragma busy_timeout={_PATIENCE_MS}")
            yield conn

    def _require_database(self) -> None:
        if self.path is None or self.database is None:
            return
        try:
            is_same = _identity(self.path) == self.database
        except FileNotFoundError:
            raise DatabaseUnusable(
                f"{self.path} was deleted while files were followed into it: start again, and all "
                "of them come in anew"
            ) from None
        if not is_same:
            raise DatabaseUnusable(
                f"{self.path} was replaced by another file while files were followed into it: "
                "start again to import all of them into that one"
            )

    def _tell(self, summary: ImportSummary, news: list[FileSummary]) -> None:
        for told in news:
            if told.changed:
                self.watched.figures.update(figures(told))
        self.watched.rounds += any(told.changed for told in news)
        if news:
            summary.files = news
            self.report(summary)

    def _say_once(self, about: object, text: str) -> None:
        if self.said.get(about) != text:
            self.said[about] = text
            self.say(text)


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _is_locked(error: Exception) -> bool:
    # the sentence of ours names the path, which may hold any word
    text = str(error.__cause__ if isinstance(error, DatabaseUnusable) else error)
    return "locked" in text or "busy" in text


def _why(error: Exception) -> object:
    cause = error.__cause__ if isinstance(error, FileUnreadable) else error
    return getattr(cause, "strerror", None) or cause


def _only_rejects(source: Increment) -> FileSummary:
    """The summary of an import that found nothing it could use."""
    file = FileSummary(source.path.name, source.format, source.unit)
    file.lines, file.blank, file.glued = (
        source.counted.lines,
        source.counted.blank,
        source.counted.glued,
    )
    file.rejected, file.first_rejects = source.rejected, source.first_rejects
    return file
