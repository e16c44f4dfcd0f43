"""Following memory files: what is appended to them, or written anew, comes in soon after."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from datasette.utils.sqlite import sqlite3

from ...errors import BadParameter, LimbicError, UnknownFormat
from ..import_job import Options
from ..records import Progress
from ..summary import FileSummary, ImportSummary
from .followed import FollowedFile
from .increment import Increment, NeedsWhole, Part, Stopped, held
from .round_text import figures
from .target import Locked, Target
from .unresolved import EntitiesCame, highest_id, new_names, unresolved
from .windows import FileChanged, FileUnreadable

log = logging.getLogger("datasette_limbic")

Report = Callable[[ImportSummary], object]
Say = Callable[[str], object]


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
    target = Target(conn_or_path, options or Options(), progress)
    watcher = Watcher(target, paths, stop.is_set, report, say)
    while not stop.is_set():
        watcher.round(interval)
        stop.wait(interval)
    return watcher.finish()


class Watcher:
    """The rounds of one ``watch``."""

    def __init__(
        self,
        target: Target,
        paths: Iterable[str | Path],
        stopping: Callable[[], bool] = lambda: False,
        report: Report | None = None,
        say: Say | None = None,
    ) -> None:
        self.target, self.stopping = target, stopping
        self.report, self.say = report, say or log.warning
        unique = {Path(path).resolve(): Path(path) for path in paths}.values()
        self.files = {path: FollowedFile(path) for path in unique}
        if not self.files:
            raise BadParameter("no file to follow was given")
        self.is_first = True
        self.highest = 0
        self.said: dict[object, str] = {}
        self.watched = Watched()

    def round(self, interval: float) -> None:
        """Look at every file once, and import what is new."""
        self.target.require()
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
        files = self.files.values()
        self.watched.left = [left for file in files if (left := file.left())]
        for what in ("rejected", "dangling"):
            self.watched.figures.pop(what, None)
        self.watched.figures["rejected"] = sum(file.rejects for file in files)
        return self.watched

    def _look(self, file: FollowedFile, interval: float) -> Part | None:
        try:
            part = file.look(interval, self.stopping)
        except FileNotFoundError:
            file.forget()
            self._say_once(file, f"{file.path} is not there: waiting for it")
        except LimbicError as error:
            if self.is_first:
                raise
            self._say_once(file, f"{error}. Waiting until that changes")
        except (OSError, FileUnreadable) as error:
            self._say_once(file, f"{file.path} cannot be read ({_why(error)}): trying again")
        else:
            self.said.pop(file, None)
            return part
        return None

    def _import(self, parts: list[Part]) -> None:
        summary = self._attempt(parts)
        if summary is None:
            return
        news = []
        for part, told in zip(parts, summary.files, strict=True):
            file = self.files[part.path]
            file.advance(part)
            earlier = 0 if part.whole else file.rejects
            if told.changed or told.rejects > file.rejects - earlier:
                news.append(told)
            if part.whole:
                file.waiting, file.too_many_wait = [], False
            file.rejects = earlier + told.rejects
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

    def _attempt(self, sources: Sequence[Increment]) -> ImportSummary | None:
        """One import of all of them; None where it is to be tried again in the next round."""
        try:
            summary = self.target.take(sources)
        except NeedsWhole as needs:
            self.files[needs.args[0]].forget()
        except FileChanged:
            for source in sources:
                if isinstance(source, Part) and not source.marks.hold(source.file):
                    self.files[source.path].forget()
        except FileUnreadable as error:
            self._say_once("files", f"a file cannot be read ({_why(error)}): trying again")
        except Stopped:
            pass
        except UnknownFormat:
            if self.is_first:
                raise
            return ImportSummary([_only_rejects(source) for source in sources])
        except Locked:
            what = f"{self.target.name} is locked by another program: trying again until it is free"
            self._say_once("database", what)
        else:
            self.said.pop("database", None)
            self.said.pop("files", None)
            return summary
        return None

    def _find_unresolved(self, sources: Sequence[Increment], told: list[FileSummary]) -> None:
        """See whose entities have come, and which of the lines just read have to wait."""
        files = self.files.values()
        try:
            with self.target.opened() as conn:
                above, self.highest = self.highest, highest_id(conn)
                if self.highest > above and any(f.waiting or f.too_many_wait for f in files):
                    came = new_names(conn, above)
                    for file in files:
                        file.note_new(came)
                for source, summary in zip(sources, told, strict=True):
                    if summary.relations.dangling or summary.access.dangling:
                        found = unresolved(conn, source, summary)
                        self.files[source.path].wait_for(found)
        except (EntitiesCame, FileChanged, FileUnreadable, Locked):
            # what was imported stays; reading it once more finds out what is left
            for source in sources:
                self.files[source.path].forget()
        except Stopped:
            return

    def _tell(self, summary: ImportSummary, news: list[FileSummary]) -> None:
        changed = [told for told in news if told.changed]
        for told in changed:
            self.watched.figures.update(figures(told))
        self.watched.rounds += bool(changed)
        if news and self.report:
            self.report(ImportSummary(news, summary.near_equal, summary.near_equal_count))

    def _say_once(self, about: object, text: str) -> None:
        if self.said.get(about) != text:
            self.said[about] = text
            self.say(text)


def _why(error: Exception) -> object:
    cause = error.__cause__ if isinstance(error, FileUnreadable) else error
    return getattr(cause, "strerror", None) or cause


def _only_rejects(source: Increment) -> FileSummary:
    """The summary of an import that found nothing it could use."""
    file = FileSummary(source.path.name, source.format, source.unit)
    counted = source.counted
    file.lines, file.blank, file.glued = counted.lines, counted.blank, counted.glued
    file.rejected, file.first_rejects = source.rejected, source.first_rejects
    return file
