"""Search from the query's text to the answer, against vec0 alone, numpy and ``llm similar``.

The vector of the query is in the cache, as for a query that was asked before: the encoder is the
user's choice and no part of this. All times are of one process and one connection, taken in turn;
the ratio is the median of the ratios of neighbouring measurements.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import llm
import numpy
import sqlite_utils

from datasette_limbic import connection, search

from . import memory

KNN = "select entity_id, distance from _limbic_vec_entities where embedding match ? and k = ?"
EXPANSION = 3
TARGET = 1.3


def timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def run(folder: Path, sizes: tuple[int, ...], repeats: int) -> list[dict[str, Any]]:
    """Rows of the table: one for each number of entities and limit."""
    table = []
    for size in sizes:
        path = folder / f"search-{size}.db"
        queries = memory.build(path, size)
        conn = connection.connect(path, readonly=True)
        brute = _numpy_search(conn)
        similar = _llm_similar(path)
        for limit in (10, 100):
            table.append(_measure(conn, size, limit, queries, repeats, brute, similar))
        conn.close()
        path.unlink()
    return table


def _measure(
    conn: Any,
    size: int,
    limit: int,
    queries: list[memory.Query],
    repeats: int,
    brute: Callable[[bytes, int], Any],
    similar: Callable[[bytes, int], Any],
) -> dict[str, Any]:
    def bare(query: memory.Query) -> Any:
        return conn.execute(KNN, [query.vector, limit * EXPANSION]).fetchall()

    def whole(query: memory.Query) -> Any:
        answer = search.search(conn, query.text, limit=limit, now=memory.NOW)
        assert len(answer["results"]) == limit, answer["reason"]
        assert answer["degraded"] is None, answer["degraded"]

    for query in queries:
        bare(query), whole(query), brute(query.vector, limit)
    pairs = [
        (timed(lambda q=q: bare(q)), timed(lambda q=q: whole(q)))
        for _ in range(repeats)
        for q in queries
    ]
    ratio = median(b / a for a, b in pairs)
    return {
        "entities": size,
        "limit": limit,
        "vec0 KNN ms": 1000 * median(a for a, _ in pairs),
        "search ms": 1000 * median(b for _, b in pairs),
        "search / KNN": ratio,
        "target": f"<= {TARGET}" if (size, limit) == (100_000, 10) else "",
        "numpy ms": 1000 * median(timed(lambda q=q: brute(q.vector, limit)) for q in queries),
        "llm similar ms": 1000
        * median(timed(lambda q=q: similar(q.vector, limit)) for q in queries[:2]),
    }


def _numpy_search(conn: Any) -> Callable[[bytes, int], Any]:
    """Brute force over a matrix that is in memory already."""
    rows = conn.execute("select embedding from _limbic_vec_entities").fetchall()
    matrix = numpy.frombuffer(b"".join(row[0] for row in rows), dtype="<f4").reshape(len(rows), -1)

    def find(vector: bytes, limit: int) -> Any:
        scores = matrix @ numpy.frombuffer(vector, dtype="<f4")
        best = numpy.argpartition(-scores, limit)[:limit]
        return best[numpy.argsort(-scores[best])]

    return find


def _llm_similar(path: Path) -> Callable[[bytes, int], Any]:
    collection = llm.Collection("entities", sqlite_utils.Database(path), create=False)

    def find(vector: bytes, limit: int) -> Any:
        return collection.similar_by_vector(list(llm.decode(vector)), number=limit)

    return find
