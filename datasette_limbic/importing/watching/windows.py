"""Reading a stretch of a file that somebody else may be writing to."""

from __future__ import annotations

import io
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

_MARK = 4096
_BLOCK = 1 << 16


class FileChanged(Exception):
    """What was to be read is not there any more; nothing of it may be used."""


class FileUnreadable(Exception):
    """The file system failed while the file was read. The cause says how."""


def open_raw(path: str | Path) -> io.FileIO:
    """The file without a buffer: what is read is what is there now."""
    return io.FileIO(str(path), "rb")


def bytes_at(file: io.FileIO, start: int, length: int) -> bytes:
    """Fewer bytes than asked for only where the file ends."""
    found = b""
    try:
        file.seek(start)
        while len(found) < length and (more := file.read(length - len(found))):
            found += more
    except OSError as error:
        raise FileUnreadable from error
    return found


class Marks(NamedTuple):
    """Digests of the head of a stretch from 0 to ``end`` and of its last bytes.

    A file whose marks are as they were has grown at most; one that was written anew differs in
    one of them, unless only its middle was overwritten in place.
    """

    end: int
    head: bytes
    tail: bytes

    @classmethod
    def of(cls, file: io.FileIO, end: int) -> Marks:
        length = min(_MARK, end)
        return cls(
            end,
            blake2b(bytes_at(file, 0, length)).digest(),
            blake2b(bytes_at(file, end - length, length)).digest(),
        )

    def hold(self, file: io.FileIO) -> bool:
        """Whether the file still has them."""
        return Marks.of(file, self.end) == self


class Window(io.RawIOBase):
    """The bytes of a file from ``start`` to ``end``, whatever is appended meanwhile.

    Raises FileChanged where the file turns out to be shorter.
    """

    def __init__(self, file: io.FileIO, start: int, end: int) -> None:
        self.file, self.at, self.end = file, start, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)[: self.end - self.at]
        if not view:
            return 0
        try:
            self.file.seek(self.at)
            count = self.file.readinto(view) or 0
        except OSError as error:
            raise FileUnreadable from error
        if not count:
            raise FileChanged
        self.at += count
        return count


def after_last_newline(file: io.FileIO, low: int, high: int) -> int | None:
    r"""Where the line after the last ``\n`` begins, or None where there is no ``\n``."""
    while high > low:
        at = max(low, high - _BLOCK)
        found = bytes_at(file, at, high - at).rfind(b"\n")
        if found >= 0:
            return at + found + 1
        high = at
    return None
