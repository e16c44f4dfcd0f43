"""What the two retrievers in memory share: ids of one version, kept true to the file."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from datasette.utils.sqlite import sqlite3

from .. import unchanged
from . import changes
from .model import Candidate
from .overlay import COLLECTION, Overlay, overlay, unindexed, waits

if TYPE_CHECKING:
    import numpy

MOST_CHANGED = 2_000
"""Changes after which what is kept is read anew: each is compared exactly by every search."""
_FILTERS = 16
_VOIDS = 4


class Base:
    """Vectors as of one version, and what changed since, for whoever asks."""

    def __init__(self, version: int, dimension: int, ids: Any) -> None:
        self.version, self.dimension, self.ids = version, dimension, ids
        self._overlays: OrderedDict[Hashable, Overlay] = OrderedDict()
        self._filters: OrderedDict[Hashable, numpy.ndarray | None] = OrderedDict()
        self._voids: OrderedDict[bytes, numpy.ndarray] = OrderedDict()
        self._guard = threading.Lock()
        self._current_as_of: changes.Version | None = None
        self._settled: tuple[changes.Version, Overlay] | None = None

    def is_current(self, conn: sqlite3.Connection) -> bool:
        """Whether what changed since is known, and is little."""
        now = changes.version(conn, COLLECTION)
        if self._current_as_of != now:
            changed = changes.since(conn, COLLECTION, self.version)
            if changed is None or len(changed) > MOST_CHANGED:
                return False
            # not asked again until somebody writes vectors, or forgets what was written
            self._current_as_of = now
        return True

    def overlay(self, conn: sqlite3.Connection) -> Overlay:
        """What changed since, as this connection sees it."""
        now = unchanged.state(conn)
        with self._guard:
            found = self._overlays.get(now) if now is not None else None
        if found is None:
            found = self._read(conn)
            with self._guard:
                if now is not None:
                    # one for each connection: its state begins with its number
                    for key in [k for k in self._overlays if k[0] == now[0]]:  # type: ignore[index]
                        del self._overlays[key]
                    self._overlays[now] = found
                while len(self._overlays) > unchanged.CONNECTIONS:
                    self._overlays.popitem(last=False)
        return found

    def _read(self, conn: sqlite3.Connection) -> Overlay:
        """The overlay as the file stands. Where nothing waits for a sync, it depends on what was
        written of vectors alone: recording uses changes nothing, and connections share it."""
        settled = None if waits(conn) else changes.version(conn, COLLECTION)
        with self._guard:
            if self._settled is not None and self._settled[0] == settled:
                return self._settled[1]
        changed = changes.since(conn, COLLECTION, self.version) or []
        found = overlay(conn, [*changed, *unindexed(conn)], self.dimension)
        if settled is not None:
            with self._guard:
                self._settled = settled, found
        return found

    def void(self, over: Overlay) -> numpy.ndarray:
        """Places in ``ids`` of what changed since: int64.

        Looked for once for each overlay, and not by each search: 40 ms among a million.
        """
        import numpy

        key = over.changed.tobytes()
        with self._guard:
            found = self._voids.get(key)
        if found is None:
            found = numpy.flatnonzero(numpy.isin(self.ids, over.changed))
            with self._guard:
                self._voids[key] = found
                while len(self._voids) > _VOIDS:
                    self._voids.popitem(last=False)
        return found

    def allowed(
        self, conn: sqlite3.Connection, entity_type: str | None, include_archived: bool
    ) -> numpy.ndarray | None:
        """Which of ``ids`` a search may find, as bool; None: all of them.

        Read once: what changed since is in the overlay from the next sync on, and the statement
        looks at the rows themselves. What waits for a sync stays in: it may be brought back before.
        """
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
        if keep is not None:
            rows = conn.execute(
                "select item_id from limbic_stale where collection = ?", [COLLECTION]
            )
            keep |= numpy.isin(self.ids, numpy.fromiter((row[0] for row in rows), "i8"))
        with self._guard:
            self._filters[key] = keep
            while len(self._filters) > _FILTERS:
                self._filters.popitem(last=False)
        return keep


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
            ids[order].tolist(), (1.0 - similarities[order].astype("f8")).tolist(), strict=True
        )
    ]
