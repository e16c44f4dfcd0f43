"""What every reader of a memory file has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from .items import Item
from .notes import Notes
from .records import Counted, Progress


@dataclass
class Source(ABC):
    """A file whose format is known.

    ``items`` streams it, as often as it is called; ``counted`` fills up meanwhile, and holds
    the figures of the last run. ``unit`` is what is counted: lines, records, or rows.
    """

    unit: ClassVar[str] = "line"
    #: whether one row says all that there is of an entity, so that what it leaves out is not so
    complete_rows: ClassVar[bool] = False
    #: whether the vectors of the file are asked for, where it has any
    with_vectors: bool = field(default=False, init=False)
    #: whether ``items`` gives all of the file, so that what is missing is gone from it
    whole: bool = field(default=True, init=False)

    #: whether the file may hold vectors that can be taken over
    has_vectors: ClassVar[bool] = False

    path: Path
    format: str
    size: int
    counted: Counted = field(default_factory=Counted)

    @abstractmethod
    def items(self, notes: Notes, progress: Progress | None = None) -> Iterator[Item]:
        """Its rows in order; what is broken comes as a Rejection, what has no place into notes.

        ``progress`` gets the number of bytes read since its last call.
        """
