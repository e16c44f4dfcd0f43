"""What a retriever is: it turns a query into candidates, and nothing else.

Whoever brings the candidates, ranking is the same SQL statement. Retrievers come from the plugin
hook ``limbic_retrievers`` (``hookspecs``); the built-in ones do too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from datasette.utils.sqlite import sqlite3

if TYPE_CHECKING:
    from ..config import Settings

MAX_K = 4096
"""Candidates that one search may ask for: vec0 takes no more."""


class Candidate(NamedTuple):
    """An entity and its cosine distance to the query, 0 to 2."""

    id: int
    distance: float


class Hit(NamedTuple):
    """A text that matches: ``doc`` is twice the id of an entity for its name, twice that of an
    observation and one for its text; the lower the ``score``, the better, as with bm25()."""

    doc: int
    score: float


@dataclass(frozen=True)
class Wanted:
    """What candidates are wanted for."""

    query: str
    """The text of the query."""
    k: int
    """How many, 1 to MAX_K."""
    vector: bytes = b""
    """The unit vector of the query, little-endian float32; empty where texts are wanted."""
    entity_type: str | None = None
    """Entities of this type alone."""
    include_archived: bool = False


class Retriever:
    """One way to find candidates. Subclass it, and return an object of it from the hook.

    Objects are shared by all threads. Candidates may be as of the last sync and may hold what
    was archived since: the statement looks at the rows themselves again.
    """

    name: str = ""
    """What the setting ``retriever`` calls it: lower case, letters, digits and ``_``."""
    sql: str | None = None
    """The common table ``nearest(x, d)`` in SQL, x the entity and d its cosine distance, where
    SQL alone can say it (see ``queries/nearest.sql``); None: ``nearest()`` is called by the SQL
    function ``limbic_nearest()``."""
    finds_texts: bool = False
    """Whether it brings full-text hits too, in place of the file's own index."""

    def unusable(self, conn: sqlite3.Connection, settings: Settings) -> str | None:
        """Why it cannot serve this memory now, in a sentence; None where it can. Cheap."""
        return None

    def pays(self, conn: sqlite3.Connection) -> bool:
        """Whether ``retriever: auto`` should use it now. Asked once by each search."""
        return True

    def prepare(self, conn: sqlite3.Connection, settings: Settings) -> None:
        """Load what takes long: called before the statement, which is limited in time. Raises
        RetrieverFailed."""

    def meanwhile(
        self, conn: sqlite3.Connection, wanted: Wanted, settings: Settings
    ) -> AbstractContextManager[object]:
        """Around a statement that reads texts before it asks for ``nearest()``: what needs no
        SQLite may be begun in another thread when this is entered. Of ``wanted`` the query and
        its vector are as they will be."""
        return nullcontext()

    def note(self, conn: sqlite3.Connection, settings: Settings) -> str | None:
        """What a user should know of its answers now, such as that a rebuild is due; or None."""
        return None

    def recall(self, conn: sqlite3.Connection) -> float | None:
        """What share of the truly nearest it was measured to find; None where it finds all."""
        return None

    def nearest(
        self, conn: sqlite3.Connection, wanted: Wanted, settings: Settings
    ) -> Sequence[Candidate]:
        """The ``wanted.k`` nearest entities, nearest first. Raises RetrieverFailed."""
        raise NotImplementedError(f"the retriever {self.name!r} has neither sql nor nearest()")

    def texts(self, conn: sqlite3.Connection, wanted: Wanted, settings: Settings) -> Sequence[Hit]:
        """The best ``wanted.k`` texts, best first. Raises RetrieverFailed."""
        raise NotImplementedError(f"the retriever {self.name!r} finds no texts")
