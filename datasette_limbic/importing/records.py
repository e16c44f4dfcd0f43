"""What the readers hand on: one record of a file, read or broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

# A longer line (or element of a list) is rejected unread, so that a file without line ends
# cannot fill the memory.
MAX_RECORD = 64 * 1024 * 1024
# Of what is rejected for its length, this much is kept to recognise it by.
KEPT_OF_TOO_LONG = 10_000

# The section of what stands beside the lists of a document.
WRAPPER = "document"

Progress = Callable[[int], object]


class Record(NamedTuple):
    """One JSON value of a file and where it stands.

    ``error`` says why the text is not JSON (``value`` is then None); ``section`` is the list of
    ``{"entities": [...], "relations": [...]}`` that holds it, where there is one.
    """

    line: int
    raw: str
    value: object = None
    error: str | None = None
    section: str | None = None

    @property
    def wrapper(self) -> bool:
        """Whether this is what stands beside the lists of a document: keys, but no record."""
        return self.section == WRAPPER


@dataclass
class Counted:
    """How many lines a reader saw, counted by the reader itself and by nobody else.

    ``glued`` counts records beyond the first of a line. In a document (a list, or one object)
    lines mean nothing, so ``lines`` is the number of its records there. ``beside`` counts what is
    understood and holds nothing of a memory: an envelope, the vectors of another program.
    """

    lines: int = 0
    blank: int = 0
    glued: int = 0
    beside: int = 0


def why_unread(error: Exception) -> str:
    """Why JSON that is well formed was not decoded."""
    if isinstance(error, RecursionError):
        return "JSON that cannot be read: nested too deeply"
    return f"JSON that cannot be read: {error}"
