"""The retriever ``approximate``: compares codes of all vectors, then the best few exactly.

Its tables are in the memory's own file. A process reads the codes once, up to 352 bytes for a
vector of 512 values; what changed since is compared exactly (``overlay``).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from datasette.utils.sqlite import sqlite3

from ..config import Settings
from ..errors import RetrieverFailed
from . import builds, changes
from .ahead import Ahead
from .base import MOST_BEHIND, Base, best, within_transaction
from .builds import Build
from .codes import WORD, Training
from .held import Held, file_key
from .model import Candidate, Retriever, Wanted
from .overlay import COLLECTION, similarities
from .signs import Signs, about_the_least, least

if TYPE_CHECKING:
    import numpy

MEASURED_FOR = 30
"""Results that ``shortlisted`` and ``rescored`` of a build are measured for: a search of ten."""
GROWN = 2.0
"""The vectors may become so many times those that training saw, or fewer by as much."""
AHEAD_FROM = 65_536
"""Vectors from which another thread compares them meanwhile: of fewer it takes no longer than to
ask one."""
_BLOCK = 8192
"""Codes that are made numbers at a time: those take four times the memory of the codes."""
REBUILD = "run 'datasette limbic index FILE"
"""A command whose options, and the closing quote, come behind it."""


class Codes(Base):
    """The codes of one build in memory."""

    def __init__(self, build: Build, training: Training, found: builds.Segments) -> None:
        super().__init__(build.version, build.dimension, found.ids)
        self.build, self.training, self.codes = build, training, found.codes
        self.signs = Signs(found.signs, training.first)

    def follows(self, conn: sqlite3.Connection, build: Build) -> bool:
        """Whether ``build``, as the file has it now, is this one and little more."""
        mine, now = [(b.build, b.shortlisted, b.rescored) for b in (self.build, build)]
        return mine == now and self.is_current(conn)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self.codes.nbytes + self.signs.nbytes + self.ids.nbytes + self.overlay_bytes)

    def differences(self, query: numpy.ndarray) -> numpy.ndarray:
        """In how many bits, of those that are compared first, each vector differs from the query:
        uint8 or uint16, n."""
        return self.signs.differences(self._bits(query))

    def further(
        self, query: numpy.ndarray, differences: numpy.ndarray, places: numpy.ndarray
    ) -> numpy.ndarray:
        """The same of all bits, at these places: uint16."""
        return self.signs.further(self._bits(query), differences, places)

    def shortlist(
        self, query: numpy.ndarray, differences: numpy.ndarray, count: int
    ) -> numpy.ndarray:
        """Places of the ``count`` vectors that differ least, and of ties with the last."""
        first, most = WORD * len(self.signs.first), WORD * self.training.words
        if not self.signs.rest.size:
            return least(differences, count, first)
        places = about_the_least(differences, self.signs.left(count), first)
        found: numpy.ndarray = places[least(self.further(query, differences, places), count, most)]
        return found

    def _bits(self, query: numpy.ndarray) -> numpy.ndarray:
        found: numpy.ndarray = self.training.signs(query[None])[0]
        return found

    def along(self, query: numpy.ndarray, places: numpy.ndarray) -> numpy.ndarray:
        """How similar the codes at these places are to the query, but for a scale: float32."""
        import numpy

        along = query @ self.training.axes
        similar = numpy.empty(len(places), "f4")
        for at in range(0, len(places), _BLOCK):
            there = slice(at, at + _BLOCK)
            # not by BLAS: for so few rows its threads wait for each other longer than they work
            rows = self.codes[places[there]].astype("f4")
            numpy.einsum("ij,j->i", rows, along, out=similar[there])
        return similar

    def nearest(
        self,
        conn: sqlite3.Connection,
        wanted: Wanted,
        shortlisted: int | None = None,
        rescored: int | None = None,
        *,
        ahead: Ahead | None = None,
    ) -> list[Candidate]:
        """The nearest entities of those that were compared exactly. The comparison of all may have
        been begun ``ahead``."""
        import numpy

        query = numpy.frombuffer(wanted.vector, "<f4")
        seen = self.seen(conn)
        shortlisted, rescored = self.effort(wanted.k, shortlisted, rescored)
        differences = ahead.taken(self, wanted.vector) if ahead else None
        if differences is None:
            differences = self.differences(query)
        keep = self.allowed(conn, seen, wanted.entity_type, wanted.include_archived)
        if keep is not None:
            differences[~keep] = self.signs.void
        places = self.shortlist(query, differences, shortlisted)
        if len(places) > rescored:
            similar = self.along(query, places)
            places = places[numpy.argpartition(-similar, rescored)[:rescored]]
        found = similarities(conn, self.ids[places].tolist(), query)
        more = seen.over.scores(query, wanted.entity_type, wanted.include_archived)
        return best(
            numpy.concatenate([found[0], more[0]]),
            numpy.concatenate([found[1], more[1]]),
            wanted.k,
        )

    def effort(
        self, count: int, shortlisted: int | None = None, rescored: int | None = None
    ) -> tuple[int, int]:
        """Codes and vectors to compare for ``count`` results: as measured, and more of both where
        more results are wanted."""
        shortlisted = shortlisted or self.build.shortlisted or 200 * MEASURED_FOR
        rescored = rescored or self.build.rescored or 10 * MEASURED_FOR
        times = max(1.0, count / MEASURED_FOR)
        rescored = max(count, int(rescored * times**0.8))
        return max(rescored, int(shortlisted * times**0.85)), rescored


def read(conn: sqlite3.Connection, build: Build) -> Codes:
    """Read a build. Raises ValueError where it is damaged."""
    training = builds.training(conn, build)
    return Codes(build, training, builds.segments(conn, build, training.words))


class Approximate(Retriever):
    """Approximate search, where ``datasette limbic index`` has built an index for it."""

    name = "approximate"

    def __init__(self, held: Held[Any] | None = None) -> None:
        """``held`` is where it keeps what it read, with others: their bound is one."""
        self.held: Held[Codes] = held or Held()
        self.ahead = Ahead()

    def unusable(self, conn: sqlite3.Connection, settings: Settings) -> str | None:
        if within := within_transaction(conn):
            return within
        key = file_key(conn)
        if key is None:
            return "this database is no file, so it has no approximate index"
        build = builds.serving(conn)
        if build is None:
            return f"there is no approximate index: {REBUILD} --kind approximate'"
        needed = build.nbytes
        if needed > settings.vectors_in_memory_mb << 20:
            return (
                f"the approximate index takes {needed >> 20:,} MB of memory and the setting "
                f"vectors_in_memory_mb allows {settings.vectors_in_memory_mb:,}"
            )
        if settings.retriever != self.name and not self.held.has_room(
            (self.name, key), needed, settings.vectors_in_memory_mb << 20
        ):
            return "what this process keeps of other files leaves no room for this index"
        return self._out_of_step(conn, build)

    def note(self, conn: sqlite3.Connection, settings: Settings) -> str | None:
        build = builds.serving(conn)
        return None if build is None else due(conn, build)

    def recall(self, conn: sqlite3.Connection) -> float | None:
        build = builds.serving(conn)
        return None if build is None else build.recall

    def prepare(self, conn: sqlite3.Connection, settings: Settings) -> None:
        self._codes(conn, settings).seen(conn)

    def meanwhile(
        self, conn: sqlite3.Connection, wanted: Wanted, settings: Settings
    ) -> AbstractContextManager[object]:
        codes = self._codes(conn, settings)
        if len(codes.ids) < AHEAD_FROM:
            return nullcontext()
        return self.ahead.begun(codes, wanted.vector)

    def nearest(
        self, conn: sqlite3.Connection, wanted: Wanted, settings: Settings
    ) -> Sequence[Candidate]:
        return self._codes(conn, settings).nearest(conn, wanted, ahead=self.ahead)

    def _codes(self, conn: sqlite3.Connection, settings: Settings, again: bool = True) -> Codes:
        build = builds.serving(conn)
        if build is None:
            raise RetrieverFailed(f"there is no approximate index: {REBUILD} --kind approximate'")
        try:
            return self.held.get(
                (self.name, file_key(conn)),
                # what a sync appended since is compared exactly, up to MOST_CHANGED vectors: a
                # million codes take half a second to read, and everybody waits for that
                lambda codes: codes.build == build or codes.follows(conn, build),
                lambda: read(conn, build),
                settings.vectors_in_memory_mb << 20,
            )
        except ValueError as error:
            if again and builds.serving(conn) != build:
                # another program put a new one in its place while it was read
                return self._codes(conn, settings, again=False)
            raise RetrieverFailed(f"{error}: {REBUILD}'") from error
        except sqlite3.OperationalError:
            raise  # locked, or broken off for its time
        except sqlite3.DatabaseError as error:
            raise RetrieverFailed(
                f"the approximate index cannot be read ({error}): run "
                "'datasette limbic sync FILE --repair'"
            ) from error

    @staticmethod
    def _out_of_step(conn: sqlite3.Connection, build: Build) -> str | None:
        row = conn.execute(
            "select model, dimension from limbic_indexes where collection = ?", [COLLECTION]
        ).fetchone()
        if row is None or tuple(row) != (build.model, build.dimension):
            return f"the approximate index is of another model: {REBUILD}'"
        behind = changes.count_since(conn, COLLECTION, build.version, MOST_BEHIND)
        if behind is None or behind > MOST_BEHIND:
            return "the approximate index is out of step: run datasette limbic sync"
        return None


def due(conn: sqlite3.Connection, build: Build) -> str | None:
    """Why the index should be built anew, in a sentence; None where it is well."""
    if build.recall is not None and build.recall < build.target_recall - 0.005:
        return (
            f"the approximate index finds {build.recall:.1%} of the nearest, short of the "
            f"{build.target_recall:.1%} that were asked for: {REBUILD} "
            "--target-recall' with less, or --kind exact"
        )
    times = build.vectors / max(1, build.trained_on)
    if not 1 / GROWN <= times <= GROWN and max(build.vectors, build.trained_on) > 5_000:
        return (
            f"the approximate index was made for {build.trained_on:,} vectors and there are "
            f"{build.vectors:,}: {REBUILD}'"
        )
    if build.changed > max(5_000, build.trained_on):
        return (
            f"{build.changed:,} vectors changed since the approximate index was made for "
            f"{build.trained_on:,}: {REBUILD}'"
        )
    return None
