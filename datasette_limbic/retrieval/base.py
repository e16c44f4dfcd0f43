"""What the two retrievers in memory share: ids of one version, kept true to the file."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

from datasette.utils.sqlite import sqlite3

from .. import unchanged
from ..errors import RetrieverFailed
from . import changes
from .model import Candidate
from .overlay import COLLECTION, Overlay, Waiting, overlay, unindexed, waiting

if TYPE_CHECKING:
    import numpy

MOST_CHANGED = 2_000
"""Changes after which what is kept is read anew: each is compared exactly by every search."""
MOST_BEHIND = 10_000
"""Changes that an index may lack, as in the middle of a large sync, and still serve."""
_FILTERS = 16
_VOIDS = 8


class Seen(NamedTuple):
    """What a connection sees beyond the base."""

    over: Overlay
    waiting: Waiting


class Base:
    """Vectors as of one version, and what changed since, for whoever asks.

    What is kept here is shared by all connections, so nothing is put here that was read within a
    transaction, which may be rolled back: retrievers serve none (``within_transaction``).
    """

    def __init__(self, version: int, dimension: int, ids: Any) -> None:
        self.version, self.dimension, self.ids = version, dimension, ids
        self._seen: OrderedDict[Hashable, Seen] = OrderedDict()
        self._filters: OrderedDict[Hashable, numpy.ndarray | None] = OrderedDict()
        self._places: OrderedDict[bytes, numpy.ndarray] = OrderedDict()
        self._guard = threading.Lock()
        self._current_as_of: changes.Version | None = None
        self._logged: tuple[changes.Version, Overlay] | None = None

    def is_current(self, conn: sqlite3.Connection) -> bool:
        """Whether what changed since is known, and is little."""
        now = changes.version(conn, COLLECTION)
        if self._current_as_of != now:
            count = changes.count_since(conn, COLLECTION, self.version, MOST_CHANGED)
            if count is None or count > MOST_CHANGED:
                return False
            # not asked again until somebody writes vectors, or forgets what was written
            self._current_as_of = now
        return True

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self.ids.nbytes + self.overlay_bytes)

    @property
    def needed(self) -> int:
        """Those of them that it cannot do without."""
        return self.nbytes

    def shrink(self) -> None:
        """Give back the others."""

    @property
    def overlay_bytes(self) -> int:
        """Bytes of memory of what changed since."""
        logged = self._logged
        return logged[1].nbytes if logged else 0

    def seen(self, conn: sqlite3.Connection) -> Seen:
        """What changed since, as this connection sees it. Raises RetrieverFailed where the file
        cannot tell."""
        now = unchanged.state(conn)
        with self._guard:
            found = self._seen.get(now) if now is not None else None
        if found is None:
            logged = self._of_log(conn)
            wait = waiting(conn)
            if len(wait.ids):
                logged = logged.and_(overlay(conn, unindexed(conn), self.dimension))
            found = Seen(logged, wait)
            with self._guard:
                if now is not None:
                    # one for each connection: its state begins with its number
                    for key in [k for k in self._seen if k[0] == now[0]]:  # type: ignore[index]
                        del self._seen[key]
                    self._seen[now] = found
                while len(self._seen) > unchanged.CONNECTIONS:
                    self._seen.popitem(last=False)
        return found

    def _of_log(self, conn: sqlite3.Connection) -> Overlay:
        """What the log of changes names, shared by all connections that see the same version."""
        now = changes.version(conn, COLLECTION)
        with self._guard:
            logged = self._logged
        if logged is not None and logged[0] == now:
            return logged[1]
        changed = changes.since(conn, COLLECTION, self.version)
        if changed is None:
            raise RetrieverFailed(
                "what changed since the vectors were read is not known: run datasette limbic sync"
            )
        found = overlay(conn, changed, self.dimension)
        with self._guard:
            self._logged = now, found
        return found

    def places(self, ids: numpy.ndarray) -> numpy.ndarray:
        """Where ``ids`` stand in ``self.ids``: int64, of those that do.

        Looked for once, and not by each search: 40 ms among a million.
        """
        import numpy

        key = ids.tobytes()
        with self._guard:
            found = self._places.get(key)
        if found is None:
            found = numpy.flatnonzero(numpy.isin(self.ids, ids))
            with self._guard:
                self._places[key] = found
                while len(self._places) > _VOIDS:
                    self._places.popitem(last=False)
        return found

    def allowed(
        self,
        conn: sqlite3.Connection,
        seen: Seen,
        entity_type: str | None,
        include_archived: bool,
    ) -> numpy.ndarray | None:
        """Which of ``ids`` a search may find, as bool; None: all of them. What stands in the
        overlay, it may not: that is compared apart."""
        keep = self._filter(conn, entity_type, include_archived)
        wait, over = seen.waiting, seen.over
        if not len(over.changed) and (keep is None or not len(wait.ids)):
            return keep
        import numpy

        keep = numpy.ones(len(self.ids), bool) if keep is None else keep.copy()
        if len(wait.ids):
            # as they are now: the filter is of an earlier moment
            fit = wait.fit(entity_type, include_archived)
            keep[self.places(wait.ids[fit])] = True
            keep[self.places(wait.ids[~fit])] = False
        if len(over.changed):
            keep[self.places(over.changed)] = False
        return keep

    def _filter(
        self, conn: sqlite3.Connection, entity_type: str | None, include_archived: bool
    ) -> numpy.ndarray | None:
        """The same as of the first search that asked so: what changed since waits for a sync, and
        is in the overlay after that."""
        import numpy

        key = (entity_type, include_archived)
        with self._guard:
            if key in self._filters:
                return self._filters[key]
        keep: numpy.ndarray | None = None
        if entity_type is not None:
            rows = conn.execute(
                "select id from entities where entity_type = ?"
                + ("" if include_archived else " and archived_at is null"),
                [entity_type],
            )
            keep = numpy.isin(self.ids, numpy.fromiter((row[0] for row in rows), "i8"))
        elif not include_archived:
            rows = conn.execute("select id from entities where archived_at is not null")
            gone = numpy.fromiter((row[0] for row in rows), "i8")
            if len(gone):
                keep = ~numpy.isin(self.ids, gone)
        with self._guard:
            self._filters[key] = keep
            while len(self._filters) > _FILTERS:
                self._filters.popitem(last=False)
        return keep


def within_transaction(conn: sqlite3.Connection) -> str | None:
    """That the connection is within a transaction, in a sentence: what it sees may be rolled back,
    and what is kept in memory is everybody's."""
    if conn.in_transaction:
        return "this connection is within a transaction, and what is kept in memory is shared"
    return None


def best(ids: numpy.ndarray, similarities: numpy.ndarray, count: int) -> list[Candidate]:
    """The ``count`` most similar, nearest first, ties by id."""
    import numpy

    if len(ids) > count:
        # one more than wanted: whoever ties with the last is ordered by id below
        cut = numpy.partition(similarities, len(ids) - count)[len(ids) - count]
        keep = similarities >= cut
        ids, similarities = ids[keep], similarities[keep]
    order = numpy.lexsort((ids, -similarities))[:count]
    return [
        Candidate(item, distance)
        for item, distance in zip(
            ids[order].tolist(),
            (1.0 - similarities[order].astype("f8")).clip(0.0, 2.0).tolist(),
            strict=True,
        )
    ]
