"""Actions on large entities: how long each takes without its model, and what its log row weighs.

An entity of 5,000 observations with all their vectors, one twin of it to be merged with, and a hub
that 20,000 others name. The target is for doing it (the plan, rows, vectors, index and log; not
the model). Undoing is given beside it.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy

from datasette_limbic import connection, embedding, schema
from datasette_limbic.actions.acting import act
from datasette_limbic.sync import sync

from . import memory

TARGET = 2.0
BIG, TWIN, HUB = 1, 2, 3


def run(folder: Path, *, quick: bool = False) -> list[dict[str, Any]]:
    """Rows of the table: one for each action."""
    size, around = (500, 2_000) if quick else (5_000, 20_000)
    path = folder / "acting.db"
    with any_text_embedded(), closing(connection.connect(path, create=True)) as conn:
        build(conn, size, around)
        table = [
            measured(conn, what, size, name, arguments)
            for what, name, arguments in actions(conn, size, around)
        ]
    path.unlink()
    return table


class _Vectors(dict[str, list[float]]):
    """A vector for any text, the same one each time."""

    def __missing__(self, text: str) -> list[float]:
        found: list[float] = numpy.random.default_rng(zlib.crc32(text.encode())).normal(
            size=memory.DIMENSION
        ).tolist()  # fmt: skip
        return found


@contextmanager
def any_text_embedded() -> Iterator[None]:
    """The model of the benchmarks knows every text inside the block."""
    known, memory.BenchmarkModel.known = memory.BenchmarkModel.known, _Vectors()
    try:
        yield
    finally:
        memory.BenchmarkModel.known = known


def build(conn: Any, size: int, around: int) -> None:
    """The two entities and the hub, synced; every tenth observation repeats the one before."""
    memory.register_model()
    schema.init(conn)
    texts = memory.sentences(numpy.random.default_rng(7), size)
    texts[1::10] = [f"{text}." for text in texts[0::10]]
    names = [(BIG, "big"), (TWIN, "twin"), (HUB, "hub")]
    with conn:
        conn.executemany(
            "insert into entities(id, name) values (?, ?)",
            names + [(n, f"neighbour {n}") for n in range(100, 100 + around)],
        )
        conn.executemany(
            "insert into observations(id, entity_id, content) values (?, ?, ?)",
            [(i, BIG, text) for i, text in enumerate(texts, 1)]
            + [(i, TWIN, f"{text} too") for i, text in enumerate(texts, size + 1)],
        )
        conn.executemany(
            "insert into relations(from_entity, to_entity, relation_type) values (?, ?, 'near')",
            [(n, HUB) for n in range(100, 100 + around)],
        )
    sync(conn, model=memory.MODEL)


def actions(conn: Any, size: int, around: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What it is called, the action, its arguments."""
    every = list(range(1, size + 1))
    for parts in (2, 100):
        children = [{"name": f"part {k}", "observations": every[k::parts]} for k in range(parts)]
        yield f"split into {parts}", "split", {"entity": BIG, "children": children}
    clusters = [{"keep": i, "remove": [i + 1]} for i in every[0::10]]
    yield f"merge {len(clusters):,} pairs", "merge", {"entity": BIG, "clusters": clusters}
    yield "delete all", "delete", {"observations": every}
    yield "archive", "archive", {"entity": BIG, "reason": "done"}
    yield "end one", "end", {"observation": 1}
    yield "merge two entities", "merge_entities", {"keep": TWIN, "others": [BIG]}
    yield f"archive a hub of {around:,}", "archive", {"entity": HUB, "reason": "done"}
    yield f"merge a hub of {around:,}", "merge_entities", {"keep": TWIN, "others": [HUB]}


def measured(
    conn: Any, what: str, size: int, name: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """One action, undone again, so that the next one finds the memory as it was."""
    with without_model() as model:
        started = time.perf_counter()
        done = act(conn, name, arguments)
        seconds = time.perf_counter() - started - model[0]
    with without_model() as model:
        started = time.perf_counter()
        act(conn, "undo", {"change": done["change"]})
        undone = time.perf_counter() - started - model[0]
    weight = conn.execute(
        "select length(before) + length(after) from limbic_changes where id = ?", [done["change"]]
    ).fetchone()[0]
    return {
        "action": what,
        "observations": size,
        f"done s (target {TARGET:.0f})": seconds,
        "undone s": undone,
        "log row KB": weight / 1000,
        "met": seconds < TARGET,
    }


@contextmanager
def without_model() -> Iterator[list[float]]:
    """The seconds that models took inside the block."""
    took, run_model = [0.0], embedding.run_model

    def timed(*args: Any) -> Any:
        started = time.perf_counter()
        try:
            return run_model(*args)
        finally:
            took[0] += time.perf_counter() - started

    embedding.run_model = timed
    try:
        yield took
    finally:
        embedding.run_model = run_model
