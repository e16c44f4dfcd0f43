"""The searches of a memory's own file, behind the interface of ``benchmarks.peers``.

The retrievers are asked through SQL, as the ranking statement asks them, so that its price is in
the figures. Queries are embedded once before, as those that were asked before.
"""

from __future__ import annotations

import sqlite3 as stock_sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy

from datasette_limbic import connection, embedding, schema, vectors
from datasette_limbic.config import Settings
from datasette_limbic.retrieval import building, builds

from .peers import Asked, Effort, Found, Peer
from .vector_cache import MODEL

FOUND = (
    "select json_extract(value, '$[0]'), json_extract(value, '$[1]')"
    " from json_each(limbic_nearest(?, ?, ?))"
)
KNN = (
    "select entity_id, distance * distance / 2 from _limbic_vec_entities"
    " where embedding match limbic_embed(?) and archived <= 0 and k = ?"
)
LARGE = 200_000
"""Rows from which exact search by SQLite is asked a few queries alone."""
FEW, FEWEST = 20, 3


def settings(retriever: str) -> Settings:
    """Settings with a retriever, without bounds that a busy machine could meet."""
    return Settings(retriever=retriever, vectors_in_memory_mb=100_000, knn_time_limit_ms=600_000)


class Memory(Peer):
    """A retriever of the memory's own file."""

    conn: Any = None

    def ready(self, queries: Iterable[Asked]) -> None:
        for query in queries:
            embedding.embed_query(MODEL, query.text)

    def open(self, effort: Effort) -> None:
        self.conn = connection.connect(self.memory, readonly=True, settings=settings(self.name))

    def search(self, asked: Asked, k: int) -> Found:
        found: Found = self.conn.execute(FOUND, [self.name, asked.text, k]).fetchall()
        return found

    def close(self) -> None:
        if self.conn is not None:
            self.conn.close()

    def nbytes(self) -> float:
        return _stored(self.memory, self.tables)

    tables: tuple[str, ...] = ()
    """Names that its tables begin with."""


class InMemory(Memory):
    """Exact, over a matrix that the process keeps; it reads ``llm``'s own table, and stores
    nothing."""

    name = "memory"

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        """Nothing is built."""


class Vec0(Memory):
    """Exact, by sqlite-vec; built with the memory, and so at each sync."""

    name = "vec0"
    tables = ("_limbic_vec_entities",)

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        with closing(connection.connect(self.memory)) as conn:
            vectors.rebuild(conn, "entities")
            conn.commit()

    def search(self, asked: Asked, k: int) -> Found:
        found: Found = self.conn.execute(KNN, [asked.text, k]).fetchall()
        return found

    def at_most(self, size: int) -> int | None:
        return FEW if size > LARGE else None


class Approximate(Memory):
    """What ``datasette limbic index`` builds; its search is set by its own measure of recall."""

    name = "approximate"
    tables = ("_limbic_ann_", "limbic_approximate")
    target = building.TARGET

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        with closing(connection.connect(self.memory)) as conn:
            schema.init(conn)
            building.build(conn, target_recall=self.target, anew=True)

    def open(self, effort: Effort) -> None:
        super().open(effort)
        build = builds.serving(self.conn)
        if build is None:
            raise RuntimeError(f"{self.memory} has no approximate index")
        self.said = (
            f"target {build.target_recall:g}: {build.shortlisted:,} codes, {build.rescored:,}"
            " vectors"
        )

    def says(self, effort: Effort) -> str:
        return self.said


class ApproximateMore(Approximate):
    """The same built for more, where the usual target did not do on other queries."""

    target = 0.99


class Similar(Memory):
    """``llm similar``: reads and compares every vector in Python."""

    name = "llm"

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        """Nothing is built."""

    def ready(self, queries: Iterable[Asked]) -> None:
        """It is asked with the vector."""

    def open(self, effort: Effort) -> None:
        import llm
        import sqlite_utils

        db = sqlite_utils.Database(self.memory)
        self.conn = db.conn
        self.collection: Any = llm.Collection("entities", db, create=False)

    def search(self, asked: Asked, k: int) -> Found:
        found = self.collection.similar_by_vector(asked.vector.tolist(), number=k)
        return [(int(entry.id), 1 - entry.score) for entry in found]

    def at_most(self, size: int) -> int | None:
        return FEWEST


PEERS: tuple[type[Memory], ...] = (Vec0, InMemory, Approximate, Similar)


def _stored(path: Path, prefixes: tuple[str, ...]) -> float:
    """Bytes of the tables and their indexes in a file; nan where SQLite cannot tell."""
    total = 0.0
    with closing(stock_sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as conn:
        names = [
            name
            for name, table in conn.execute(
                "select name, tbl_name from sqlite_master where rootpage > 0"
            )
            if table.startswith(prefixes)
        ]
        for name in names if prefixes else ():
            try:
                row = conn.execute("select sum(pgsize) from dbstat where name = ?", [name])
            except stock_sqlite3.OperationalError:  # built without dbstat
                return float("nan")
            total += row.fetchone()[0]
    return total
