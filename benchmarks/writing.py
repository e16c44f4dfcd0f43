"""How fast vectors are indexed, files imported, and a sync that finds nothing to do."""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy
import sqlite_utils

from datasette_limbic import connection, schema, vectors
from datasette_limbic.importing import import_files
from datasette_limbic.sync import sync

from . import memory


def run(folder: Path, *, quick: bool = False) -> list[dict[str, Any]]:
    """Rows of the table: what was measured, the value, the target."""
    return [
        index_speed(folder, 5_000 if quick else 50_000),
        import_ratio(folder, 10_000 if quick else 100_000, repeats=1 if quick else 3),
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


def import_ratio(folder: Path, observations: int, repeats: int) -> dict[str, Any]:
    """``import_files`` of a JSONL file, text index included, against ``insert_all``.

    Both read and parse the file, make a new database and leave the same entities and
    observations in it; insert_all makes no text index, no triggers and no checks.
    """
    source = folder / "memory.jsonl"
    texts = memory.sentences(numpy.random.default_rng(2), observations)
    with source.open("w", encoding="utf-8") as file:
        for i in range(observations // 10):
            row = {
                "type": "entity",
                "name": f"entity {i}",
                "entityType": memory.TYPES[i % len(memory.TYPES)],
                "observations": texts[i * 10 : i * 10 + 10],
            }
            file.write(json.dumps(row) + "\n")
    pairs = []
    for number in range(repeats):
        times = []
        for name, function in (("plain", _insert_all), ("ours", _import)):
            path = folder / f"{name}-{number}.db"
            start = time.perf_counter()
            function(path, source)
            times.append(time.perf_counter() - start)
            with sqlite_utils.Database(path) as db:
                assert db["observations"].count == observations
            path.unlink()
        pairs.append(times)
    source.unlink()
    ratio = median(ours / plain for plain, ours in pairs)
    ours = median(ours for _, ours in pairs)
    return {
        "what": f"import {observations:,} observations / sqlite-utils insert_all",
        "value": f"{ratio:.2f} ({ours:.1f} s, {observations / ours:,.0f} observations/s)",
        "target": "<= 3",
        "met": ratio <= 3,
    }


def _import(path: Path, source: Path) -> None:
    import_files(path, [source])


def _insert_all(path: Path, source: Path) -> None:
    with sqlite_utils.Database(path) as db, source.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
        db["entities"].insert_all(
            (
                {"id": i, "name": row["name"], "entity_type": row["entityType"]}
                for i, row in enumerate(rows, 1)
            ),
            pk="id",
        )
        db["observations"].insert_all(
            (
                {"id": None, "entity_id": i, "content": text}
                for i, row in enumerate(rows, 1)
                for text in row["observations"]
            ),
            pk="id",
            columns={"id": int, "entity_id": int, "content": str},
        )


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
