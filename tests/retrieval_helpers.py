"""Memories with given vectors, the exact answer by numpy, and retrievers asked alone."""

from __future__ import annotations

import math
import sqlite3 as stock_sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy
from empty_memory import empty_memory

from datasette_limbic import connection, vectors
from datasette_limbic.config import Settings
from datasette_limbic.retrieval import building
from datasette_limbic.retrieval.approximate import Approximate
from datasette_limbic.retrieval.in_memory import Memory
from datasette_limbic.retrieval.model import Candidate, Wanted
from datasette_limbic.retrieval.plugins import retrievers
from datasette_limbic.retrieval.vec0 import Vec0

SETTINGS = Settings(retriever="memory")
CLOSE = 1e-6


def uniform(count: int, dimension: int = 48, seed: int = 1) -> numpy.ndarray:
    """Unit vectors in all directions alike: nothing to tell them apart by."""
    rows = numpy.random.default_rng(seed).normal(size=(count, dimension)).astype("f4")
    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


def clustered(count: int, dimension: int = 48, seed: int = 1, clusters: int = 40) -> numpy.ndarray:
    """Unit vectors in clusters, away from the origin, as those of texts are."""
    rng = numpy.random.default_rng(seed)
    centres = rng.normal(size=(clusters, dimension)) + 1
    rows = centres[rng.integers(clusters, size=count)] + rng.normal(size=(count, dimension)) * 0.4
    rows = rows.astype("f4")
    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


def memory(
    path: Path,
    rows: Any,
    *,
    types: Sequence[str] = ("Thing",),
    archived: Sequence[int] = (),
    model: str = "bag",
) -> Path:
    """A synced memory at ``path``: entities 1…n with these vectors (arrays, or what llm's column
    holds), types by turns."""
    empty_memory(path)
    with closing(connection.connect(path)) as conn:
        conn.execute("begin")
        conn.executemany(
            "insert into entities(id, name, entity_type) values (?, ?, ?)",
            [(n, f"entity {n}", types[n % len(types)]) for n in range(1, len(rows) + 1)],
        )
        conn.executemany(
            "update entities set archived_at = datetime('now') where id = ?",
            [(n,) for n in archived],
        )
        embed(conn, dict(enumerate(rows, 1)), model=model)
        vectors.rebuild(conn, "entities")
        settle(conn)
        conn.commit()
    return path


def embed(conn: Any, rows: dict[int, Any], model: str = "bag", updated: int | None = None) -> None:
    """Write vectors as ``llm embed-multi`` does, and nothing else."""
    conn.execute("insert or ignore into collections(name, model) values ('entities', ?)", [model])
    conn.executemany(
        "insert or replace into embeddings(collection_id, id, embedding, content_hash, updated)"
        " values ((select id from collections where name = 'entities'), ?, ?, x'00', ?)",
        [
            (str(n), as_stored(row), int(time.time()) if updated is None else updated)
            for n, row in rows.items()
        ],
    )


def as_stored(row: Any) -> Any:
    """An array as llm's blob; anything else as it is."""
    return row.astype("<f4").tobytes() if isinstance(row, numpy.ndarray) else row


def settle(conn: Any) -> None:
    """Nothing waits for a sync, as at the end of one."""
    conn.execute("delete from limbic_stale")
    conn.execute("update limbic_indexes set synced_at = datetime('now')")


def add(conn: Any, rows: dict[int, Any], entity_type: str = "Thing") -> None:
    """Entities with vectors, indexed as a sync does it."""
    conn.executemany(
        "insert or ignore into entities(id, name, entity_type) values (?, ?, ?)",
        [(n, f"entity {n}", entity_type) for n in rows],
    )
    embed(conn, rows)
    vectors.upsert(conn, "entities", [(n, as_stored(row)) for n, row in rows.items()])
    settle(conn)
    conn.commit()


def remove(conn: Any, ids: Sequence[int]) -> None:
    """Take entities away, and their vectors, as a sync does it."""
    for n in ids:
        conn.execute("delete from entities where id = ?", [n])
        conn.execute("delete from embeddings where id = ?", [str(n)])
    vectors.delete(conn, "entities", ids)
    settle(conn)
    conn.commit()


def brute(
    conn: Any,
    query: numpy.ndarray,
    k: int,
    entity_type: str | None = None,
    include_archived: bool = False,
) -> list[Candidate]:
    """The exact answer, in float64, over what llm's table holds now."""
    rows = conn.execute(
        "select e.id, m.embedding from entities e join collections c on c.name = 'entities'"
        " join embeddings m on m.collection_id = c.id and m.id = cast(e.id as text)"
        " where (?1 is null or e.entity_type = ?1) and (?2 or e.archived_at is null)",
        [entity_type, include_archived],
    ).fetchall()
    asked = query.astype("f8") / numpy.linalg.norm(query.astype("f8"))
    rows = [row for row in rows if isinstance(row[1], bytes) and len(row[1]) == 4 * len(query)]
    matrix = numpy.frombuffer(b"".join(row[1] for row in rows), "<f4").astype("f8")
    matrix = matrix.reshape(-1, len(query))
    with numpy.errstate(all="ignore"):
        distances = 1 - matrix @ asked / numpy.linalg.norm(matrix, axis=1)
    found = [
        Candidate(row[0], distance)
        for row, distance in zip(rows, distances.tolist(), strict=True)
        if math.isfinite(distance)
    ]
    return sorted(found, key=lambda c: (c.distance, c.id))[:k]


class AsVec0(Vec0):
    """vec0's own SQL, asked alone."""

    def nearest(self, conn: Any, wanted: Wanted, settings: Any) -> list[Candidate]:
        by_type = "and entity_type = :typ" if wanted.entity_type is not None else ""
        sql = (self.sql or "").replace("limbic_embed(:q)", ":vector").replace("/*type*/", by_type)
        rows = conn.execute(
            f"with p as (select :k as k, 0 as invalid), {sql}"
            " select x, d from nearest order by d, x limit :k",
            {
                "k": wanted.k,
                "vector": wanted.vector,
                "typ": wanted.entity_type,
                "include_archived": "1" if wanted.include_archived else "",
            },
        )
        return [Candidate(*row) for row in rows]


class Exhaustive(Approximate):
    """The approximate index told to look at everything: its answer is exact."""

    def nearest(self, conn: Any, wanted: Wanted, settings: Any) -> list[Candidate]:
        return self._codes(conn, settings).nearest(conn, wanted, 1 << 30, 1 << 30)


def asked_with(name: str) -> Any:
    """A retriever of one's own, which holds nothing yet."""
    return {"memory": Memory, "approximate": Exhaustive, "vec0": AsVec0}[name]()


def ask(
    retriever: Any,
    conn: Any,
    query: numpy.ndarray,
    k: int = 10,
    entity_type: str | None = None,
    include_archived: bool = False,
    settings: Settings = SETTINGS,
) -> list[Candidate]:
    """What a retriever answers."""
    unit = (query / numpy.linalg.norm(query)).astype("<f4").tobytes()
    wanted = Wanted("a query", k, unit, entity_type, include_archived)
    return list(retriever.nearest(conn, wanted, settings))


def agrees(found: list[Candidate], expected: list[Candidate]) -> None:
    """The same entities in the same order; those that are equally near in any."""
    assert len({c.id for c in found}) == len(found)
    assert [c.distance for c in found] == sorted(c.distance for c in found)
    ours, theirs = [numpy.array([c.distance for c in some]) for some in (found, expected)]
    assert len(ours) == len(theirs)
    assert numpy.abs(ours - theirs).max(initial=0) < CLOSE
    for one, other in zip(found, expected, strict=True):
        if one.id != other.id:  # only where a tie stands in that place
            tied = [c.id for c in expected if abs(c.distance - one.distance) < 2 * CLOSE]
            last = abs(expected[-1].distance - one.distance) < 2 * CLOSE
            assert one.id in tied or last, (one, other)


def with_index(path: Path, target: float = 0.98) -> Any:
    """Build the approximate index of a memory."""
    with closing(connection.connect(path)) as conn:
        return building.build(conn, target_recall=target)


def elsewhere(code: str, *arguments: Any, timeout: float = 60) -> str:
    """Run Python in another process, which has ``sys.argv[1:]``; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        check=True,
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=Path(__file__).parent,
    )
    return done.stdout


def stock(path: Path, *statements: str) -> None:
    """Statements by the sqlite3 of Python itself."""
    with closing(stock_sqlite3.connect(path)) as conn:
        for statement in statements:
            conn.execute(statement)
        conn.commit()


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[Any]:
    with closing(connection.connect(path, **options)) as conn:
        yield conn


def forget_what_is_held() -> None:
    """The built-in retrievers hold nothing, as in a new process."""
    for found in retrievers().values():
        held = getattr(found, "held", None)
        if held is not None:
            held.clear()
