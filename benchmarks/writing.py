"""How fast vectors are indexed, and a sync that finds nothing to do."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy

from datasette_limbic import connection, schema, vectors
from datasette_limbic.sync import sync

from . import memory


def run(folder: Path, *, quick: bool = False) -> list[dict[str, Any]]:
    """Rows of the table: what was measured, the value, the target."""
    return [
        index_speed(folder, 5_000 if quick else 50_000),
        idle_sync(folder, 5_000 if quick else 50_000),
    ]


def index_speed(folder: Path, count: int) -> dict[str, Any]:
    """``vectors.rebuild`` over what llm stored, file writes included."""
    path = folder / "index.db"
    conn = connection.connect(path, create=True)
    schema.init(conn)
    rng = numpy.random.default_rng(1)
    with conn:
        conn.executemany(
            "insert into entities(id, name) values (?, ?)",
            ((i, f"entity {i}") for i in range(1, count + 1)),
        )
        memory.write_vectors(conn, "entities", memory.clustered(rng, count, memory.DIMENSION))
    start = time.perf_counter()
    vectors.rebuild(conn, "entities")
    seconds = time.perf_counter() - start
    conn.close()
    path.unlink()
    return {
        "what": f"index {count:,} vectors of {memory.DIMENSION} dimensions",
        "value": f"{count / seconds:,.0f} vectors/s",
        "target": ">= 15,000 vectors/s",
        "met": count / seconds >= 15_000,
    }


def idle_sync(folder: Path, entities: int) -> dict[str, Any]:
    """A sync with nothing changed: entities and observations all have their vectors."""
    path = folder / "sync.db"
    memory.build(path, entities, dimension=64, observation_vectors=True)
    conn = connection.connect(path)
    observations = conn.execute("select count(*) from observations").fetchone()[0]
    sync(conn)  # the first one writes down when
    times = []
    for _ in range(3):
        start = time.perf_counter()
        summary = sync(conn)
        times.append(time.perf_counter() - start)
        assert not summary.changed, summary.text()
    conn.close()
    path.unlink()
    return {
        "what": f"sync with nothing changed, {entities:,} entities, {observations:,} observations",
        "value": f"{median(times):.2f} s",
        "target": "< 1 s",
        "met": median(times) < 1,
    }
