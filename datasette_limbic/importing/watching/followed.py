"""A file that grows: how far it has been read, and what of it can be read now.

Nothing of this is kept beyond the process: a file is first read whole, which changes nothing
where all of it is there already.
"""

from __future__ import annotations

import io
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...errors import BadParameter
from ..items import Rejection
from ..notes import Notes
from ..reading import JSON_LINES, read_lines, sniff
from ..records import MAX_RECORD, Counted
from ..rows import parse_row
from .increment import Part, Waiting
from .windows import Marks, after_last_newline, bytes_at, open_raw

# A write within the same tick of the file system's clock leaves the time as it is.
_COARSEST_CLOCK_S = 2.0
_HEAD = 1 << 16
_BLANK = b" \t\r\n\xef\xbb\xbf"


class Stamp(NamedTuple):
    """By what it is seen, without reading, that a file is not as it was."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        """The stamp of a file that was looked at."""
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def age(self) -> float:
        """Seconds since the last write; negative where the clocks disagree."""
        return time.time() - self.modified / 1e9


@dataclass
class Place:
    """How far a file has been read: ``lines`` lines, which end at ``offset``.

    The marks end later where a last line without an end was taken: it begins at ``offset``, and
    is read again when it grows.
    """

    identity: tuple[int, int]
    offset: int
    lines: int
    marks: Marks


class FollowedFile:
    """One file, looked at once in each round.

    A part that ``look`` returns has been read only when it is given to ``advance``; until then
    the next look returns it again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        #: lines that name entities which are not here yet; with too many, only that there are
        self.waiting: list[Waiting] = []
        self.too_many_wait = False
        #: how many lines of it cannot be used, as far as it was read
        self.rejects = 0
        self.forget()

    def forget(self) -> None:
        """Begin anew: the file is read whole the next time."""
        self.place: Place | None = None
        self.last: Stamp | None = None
        self.settled: Stamp | None = None
        self.suspected = False
        # as far as here, there is no further line end
        self.endless: Marks | None = None
        # where a last line begins that has no end and was not taken
        self.unfinished: int | None = None

    def look(self, interval: float, stopping: Callable[[], bool]) -> Part | None:
        """What can be read now, with its file open, or None.

        Raises OSError, FileUnreadable, and UnknownFormat or BadParameter for what is no JSON
        Lines.
        """
        found = os.stat(self.path)
        if not stat.S_ISREG(found.st_mode):
            sniff(self.path)  # says what it is
        if Stamp.of(found) == self.settled:
            return None
        file = open_raw(self.path)
        part = None
        try:
            part = self._plan(file, interval, stopping)
        finally:
            if part is None:
                file.close()
        return part

    def _plan(self, file: io.FileIO, interval: float, stopping: Callable[[], bool]) -> Part | None:
        before, now = self.last, Stamp.of(os.fstat(file.fileno()))
        self.last = now
        if self.place:
            if self._suspects(before, now):
                return None
            if self._was_rewritten(file, before, now):
                self.place, self.unfinished = None, None
        still = now == before or now.age >= interval
        if not self._has_news(file, now):
            self._settle(now, still)
            return None
        start, above = self._start(file)
        tail = self._last_line(file, start, now.size)
        is_unended = tail < now.size
        is_taken = is_unended and still and _is_complete(file, tail, now.size)
        self.unfinished = tail if is_unended and not is_taken else None
        end = now.size if is_taken else tail
        if end > start:
            part = Part(
                self.path,
                JSON_LINES,
                end - start,
                file=file,
                start=start,
                end=end,
                tail=tail,
                above=above,
                marks=Marks.of(file, end),
                stopping=stopping,
            )
            part.whole = self.place is None
            return part
        if self.place and start > self.place.offset:  # what was taken has got its line end
            self.place = Place(self.place.identity, start, above, Marks.of(file, start))
        self._settle(now, still)
        return None

    def advance(self, part: Part) -> None:
        """The part has been imported."""
        found = Stamp.of(os.fstat(part.file.fileno()))
        lines = part.above + part.counted.lines - (part.tail < part.end)
        self.place = Place((found.device, found.inode), part.tail, lines, part.marks)

    def left(self) -> str | None:
        """A sentence on what cannot be read since its line has no end."""
        if self.unfinished is None:
            return None
        offset, lines = (self.place.offset, self.place.lines) if self.place else (0, 0)
        which = f"line {lines + 1:,}" if offset == self.unfinished else "the last line"
        return f"{which} of {self.path} has no end yet and was not taken"

    def wait_for(self, lines: list[Waiting] | None) -> None:
        """Lines that name entities which are not here yet; None: too many to keep."""
        self.waiting += lines or []
        self.too_many_wait = self.too_many_wait or lines is None

    def note_new(self, names: set[str]) -> None:
        """Entities have come: lines that wait for one of them are due."""
        if self.too_many_wait:
            self.forget()
        for waiting in self.waiting:
            waiting.due = waiting.due or not names.isdisjoint(waiting.missing)

    def _suspects(self, before: Stamp | None, now: Stamp) -> bool:
        """Whether to wait: a write that left the size as it was is either about to let the file
        grow, or has changed something in its middle. One more look tells."""
        if before is None or now[:3] != before[:3]:
            self.suspected = False
        elif self.suspected:
            self.place, self.suspected = None, False
        else:
            self.suspected = now != before
        return self.suspected

    def _was_rewritten(self, file: io.FileIO, before: Stamp | None, now: Stamp) -> bool:
        place = self.place
        return place is not None and (
            place.identity != now[:2]
            or now.size < max(place.marks.end, before.size if before else 0)
            or not place.marks.hold(file)
        )

    def _has_news(self, file: io.FileIO, now: Stamp) -> bool:
        if self.place:
            return now.size > self.place.marks.end
        if not bytes_at(file, 0, _HEAD).strip(_BLANK):
            return False  # made, and not written to yet
        source = sniff(self.path)
        if source.format != JSON_LINES:
            raise BadParameter(
                f"{self.path} is in the format {source.format}, and only JSON Lines can be "
                "followed: import it once instead"
            )
        return True

    def _start(self, file: io.FileIO) -> tuple[int, int]:
        """Where to read on, and how many lines are before that."""
        place = self.place
        if place is None:
            return 0, 0
        if place.marks.end > place.offset:
            after = bytes_at(file, place.marks.end, 2)
            for ending in (b"\n", b"\r\n"):
                if after.startswith(ending):
                    return place.marks.end + len(ending), place.lines + 1
        return place.offset, place.lines

    def _last_line(self, file: io.FileIO, start: int, size: int) -> int:
        """Where the line begins that has no end; ``size`` where all have one."""
        low = start
        if self.endless and self.endless.end > low and self.endless.hold(file):
            low = self.endless.end
        found = after_last_newline(file, low, size)
        # a line may grow for long in small pieces
        self.endless = Marks.of(file, size) if found is None else None
        return start if found is None else found

    def _settle(self, now: Stamp, still: bool) -> None:
        """There is nothing to be read until the stamp changes."""
        if still and now.age >= _COARSEST_CLOCK_S:
            self.settled = now


def _is_complete(file: io.FileIO, start: int, end: int) -> bool:
    """Whether the line is one that would be taken as it stands, so that it may be all of it."""
    if end - start > MAX_RECORD:
        return False
    records = list(read_lines(io.BytesIO(bytes_at(file, start, end - start)), Counted()))
    return bool(records) and not any(
        record.error or isinstance(parse_row(record.value, None, Notes()), Rejection)
        for record in records
    )
