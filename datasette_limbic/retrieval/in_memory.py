"""The retriever ``memory``: exact, over a matrix of all vectors that the process keeps.

A part of each vector is compared first (``heads``), where that tells enough.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import embedding, llm_store, vectors
from ..config import Settings
from ..errors import RetrieverFailed
from . import changes, heads
from .base import Base, best, within_transaction
from .held import Held, file_key
from .model import Candidate, Retriever, Wanted
from .overlay import COLLECTION

FROM = 2_000
"""Vectors from which a matrix pays: below, vec0 answers in a millisecond."""
_BATCH = 5_000


class Matrix(Base):
    """All unit vectors of the entities, a row each."""

    def __init__(self, version: int, dimension: int, ids: Any, rows: Any) -> None:
        super().__init__(version, dimension, ids)
        self.rows = rows
        self.heads: heads.Heads | None = None
        self._alone = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        short = self.heads  # another thread may give it back
        return self.needed + (short.nbytes if short else 0)

    @property
    def needed(self) -> int:
        """The same without what only makes it faster."""
        return int(self.rows.nbytes + self.ids.nbytes + self.overlay_bytes)

    def shrink(self) -> None:
        """Give back what only makes it faster."""
        self.heads = None

    def nearest(self, conn: sqlite3.Connection, wanted: Wanted) -> list[Candidate]:
        """The exact answer."""
        import numpy

        query = numpy.frombuffer(wanted.vector, "<f4")
        seen = self.seen(conn)
        keep = self.allowed(conn, seen, wanted.entity_type, wanted.include_archived)
        places = self._remaining(query, wanted.k, keep)
        if places is None:
            ids, similar = self.ids, self._product(query, self.rows.T)
            if keep is not None:
                ids, similar = ids[keep], similar[keep]
        else:
            ids, similar = self.ids[places], heads.products(self.rows, places, query)
        found = seen.over.scores(query, wanted.entity_type, wanted.include_archived)
        return best(
            numpy.concatenate([ids, found[0]]), numpy.concatenate([similar, found[1]]), wanted.k
        )

    def _remaining(self, query: Any, count: int, keep: Any) -> Any:
        short = self.heads
        if short is None:
            return None
        return short.remaining(self.rows, query, count, keep, self._product)

    def _product(self, vector: Any, matrix: Any) -> Any:
        """One search at a time uses all cores. BLAS's threads would wait for those of other
        searches: eight clients at once used ten times as much of the processor."""
        import numpy

        if not self._alone.acquire(blocking=False):
            return numpy.einsum("i,ij->j", vector, matrix)
        try:
            return vector @ matrix
        finally:
            self._alone.release()


class Memory(Retriever):
    """Exact search in memory, where the vectors fit into what a process may keep."""

    name = "memory"

    def __init__(self, held: Held[Any] | None = None) -> None:
        """``held`` is where it keeps what it read, with others: their bound is one."""
        self.held: Held[Matrix] = held or Held()
        self._asked: OrderedDict[Hashable, int] = OrderedDict()
        self._guard = threading.Lock()

    def unusable(self, conn: sqlite3.Connection, settings: Settings) -> str | None:
        """Too large for the memory allowed, too small to pay, or no file."""
        if within := within_transaction(conn):
            return within
        key = file_key(conn)
        if key is None:
            return "this database is no file, so its vectors are not kept in memory"
        count, dimension = _size(conn)
        if not count:
            return "no vectors are indexed yet"
        if changes.version(conn, COLLECTION) == changes.UNKNOWN:
            return (
                "this memory was made by an older version, which does not tell what changed: run "
                "'datasette limbic init FILE'"
            )
        needed = count * (dimension * 4 + 8)
        if needed > settings.vectors_in_memory_mb << 20:
            return (
                f"the vectors take {needed >> 20:,} MB of memory and the setting "
                f"vectors_in_memory_mb allows {settings.vectors_in_memory_mb:,}"
            )
        if settings.retriever == self.name:
            return None
        if not self.held.has_room((self.name, key), needed, settings.vectors_in_memory_mb << 20):
            return "what this process keeps of other files leaves no room for these vectors"
        if count < FROM:
            return f"{count:,} vectors are searched as fast without it"
        return None

    def pays(self, conn: sqlite3.Connection) -> bool:
        """From a process's second search of a file on: reading all vectors takes longer than
        comparing them once."""
        key = file_key(conn)
        with self._guard:
            self._asked[key] = self._asked.pop(key, 0) + 1
            while len(self._asked) > 100:
                self._asked.popitem(last=False)
            return self._asked[key] > 1

    def prepare(self, conn: sqlite3.Connection, settings: Settings) -> None:
        self._matrix(conn, settings).seen(conn)

    def nearest(
        self, conn: sqlite3.Connection, wanted: Wanted, settings: Settings
    ) -> Sequence[Candidate]:
        return self._matrix(conn, settings).nearest(conn, wanted)

    def _matrix(self, conn: sqlite3.Connection, settings: Settings) -> Matrix:
        key, limit = (self.name, file_key(conn)), settings.vectors_in_memory_mb << 20

        def load() -> Matrix:
            matrix = read(conn)
            matrix.heads = heads.of(
                matrix.rows,
                lambda more: self.held.has_room(key, matrix.nbytes + more, limit, idle=True),
            )
            return matrix

        return self.held.get(key, lambda matrix: matrix.is_current(conn), load, limit)


def read(conn: sqlite3.Connection) -> Matrix:
    """Read all vectors of the entities from ``llm``'s table. Raises RetrieverFailed."""
    import numpy

    version = changes.version(conn, COLLECTION).now
    collection = llm_store.collection(conn, COLLECTION)
    info = embedding.collection_info(conn, COLLECTION)
    if collection is None or info is None or not info.dimension:
        raise RetrieverFailed("there are no vectors to keep in memory: run datasette limbic sync")
    ids = numpy.empty(info.count, "i8")
    rows = numpy.empty((info.count, info.dimension), "f4")
    at = 0
    cursor = conn.execute(
        "select cast(id as integer), embedding from embeddings where collection_id = ?"
        " and id = cast(cast(id as integer) as text)",
        [collection[0]],
    )
    while batch := cursor.fetchmany(_BATCH):
        units = vectors.units([row[1] for row in batch], info.dimension)
        good = [(row[0], u) for row, u in zip(batch, units, strict=True) if isinstance(u, bytes)]
        good = good[: info.count - at]
        ids[at : at + len(good)] = [item for item, _ in good]
        joined = numpy.frombuffer(b"".join(unit for _, unit in good), "<f4")
        rows[at : at + len(good)] = joined.reshape(len(good), info.dimension)
        at += len(good)
    return Matrix(version, info.dimension, ids[:at], rows[:at])


def _size(conn: sqlite3.Connection) -> tuple[int, int]:
    """Vectors of the entities, and their dimension."""
    row = conn.execute(
        "select vectors, dimension from limbic_indexes where collection = ?", [COLLECTION]
    ).fetchone()
    return (row[0], row[1]) if row else (0, 0)
