"""A synthetic memory of any size, the same each time: what search has to cope with in real ones.

Vectors come in clusters, words follow Zipf's law, a third of the entities has been accessed, and
one entity is related to, and co-occurs with, nearly all others. Vectors are stored as ``llm``
stores them and indexed by ``vectors.rebuild``.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import llm
import numpy
from llm.plugins import pm

from datasette_limbic import connection, embedding, schema, vectors

DIMENSION = 384
MODEL = "limbic-benchmark"
NOW = "2026-11-29 12:00:00"
TYPES = ("Person", "Project", "Session", "Decision", "Tool", "Domain")
CLUSTER = 50
SIGNAL_PAIRS = 18
STOP_WORDS = 30
SYLLABLES = [c + v for c in "bcdfglmnprstvz" for v in "aeiou"]


class BenchmarkModel(llm.EmbeddingModel):
    """Gives the vector that was set for a text: no query pays for an encoder."""

    model_id = MODEL
    known: dict[str, list[float]] = {}

    def embed_batch(self, items, *, key=None):
        yield from (self.known[item] for item in items)


class _Plugin:
    @staticmethod
    @llm.hookimpl
    def register_embedding_models(register):
        register(BenchmarkModel())


def register_model() -> None:
    """Make the model known to llm; may be called again."""
    if not pm.has_plugin(MODEL):
        pm.register(_Plugin, name=MODEL)


@dataclass
class Query:
    """A text of a few words of the memory, and a vector near the entity that has them."""

    text: str
    vector: bytes


@cache
def words(count: int = 30_000) -> list[str]:
    """Invented words, the short ones first."""
    found: dict[str, None] = {}
    rng = random.Random(7)
    while len(found) < count:
        found["".join(rng.choices(SYLLABLES, k=min(5, 2 + len(found) // 3000)))] = None
    return list(found)


def sentences(rng: numpy.random.Generator, count: int) -> list[str]:
    """Texts of 8 to 19 words by Zipf's law."""
    vocabulary = words()
    weight = 1 / numpy.arange(1, len(vocabulary) + 1)
    lengths = rng.integers(8, 20, count)
    picked = numpy.searchsorted(
        numpy.cumsum(weight / weight.sum()), rng.random(int(lengths.sum()))
    ).clip(0, len(vocabulary) - 1)
    out, at = [], 0
    for length in lengths.tolist():
        out.append(" ".join([vocabulary[i] for i in picked[at : at + length].tolist()]))
        at += length
    return out


def clustered(rng: numpy.random.Generator, count: int, dimension: int, spread: float = 0.8) -> Any:
    """Unit vectors in clusters of neighbouring ids; ``spread`` is noise in lengths of a centre."""
    centres = rng.standard_normal((count // CLUSTER + 1, dimension), dtype="f4")
    rows = centres[numpy.arange(count) // CLUSTER]
    rows += spread * rng.standard_normal((count, dimension), dtype="f4")
    rows /= numpy.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def build(
    path: Path,
    entities: int,
    *,
    dimension: int = DIMENSION,
    observation_vectors: bool = False,
    archived: int = 20,
    queries: int = 12,
) -> list[Query]:
    """Write the memory, and index it. Returns so many queries for it."""
    register_model()
    rng = numpy.random.default_rng(42)
    conn = connection.connect(path, create=True)
    schema.init(conn)
    conn.execute("pragma synchronous=off")
    conn.execute("begin immediate")
    schema.drop_triggers(conn)
    owners = _write_rows(conn, rng, entities, archived)
    _write_signals(conn, rng, entities)
    rows = clustered(rng, entities, dimension)
    write_vectors(conn, "entities", rows)
    if observation_vectors:
        write_vectors(conn, "observations", clustered(rng, len(owners), dimension))
    schema.fill_indexes(conn)
    conn.execute("delete from limbic_stale")
    schema.create_triggers(conn)
    conn.commit()
    vectors.rebuild(conn, "entities")
    if observation_vectors:
        vectors.rebuild(conn, "observations")
    conn.execute("update limbic_indexes set synced_at = ?", [NOW])
    conn.commit()
    conn.execute("analyze")
    found = _queries(conn, rng, rows, queries)
    conn.close()
    return found


def write_vectors(conn: Any, collection: str, rows: Any, model: str = MODEL) -> None:
    """Store the vectors under the ids 1, 2, … as llm would."""
    cursor = conn.execute("insert into collections(name, model) values (?, ?)", [collection, model])
    conn.executemany(
        "insert into embeddings(collection_id, id, embedding, content_hash, updated)"
        " values (?, ?, ?, ?, 0)",
        (
            (cursor.lastrowid, str(i), row.astype("<f4").tobytes(), hashlib.md5(b"%d" % i).digest())
            for i, row in enumerate(rows, 1)
        ),
    )


def _write_rows(conn: Any, rng: numpy.random.Generator, entities: int, archived: int) -> list[int]:
    vocabulary = words()
    name_words = rng.integers(0, len(vocabulary), (entities, 2)).tolist()
    created = rng.integers(0, 700, entities).tolist()
    conn.executemany(
        "insert into entities(id, name, entity_type, created_at, last_activity_at)"
        " values (?, ?, ?, datetime(?4, -?5 || ' days'), datetime(?4, -(?5 / 2) || ' days'))",
        (
            (i, f"{vocabulary[a]} {vocabulary[b]} {i}", TYPES[i % len(TYPES)], NOW, days)
            for i, ((a, b), days) in enumerate(zip(name_words, created, strict=True), 1)
        ),
    )
    if archived:
        conn.execute(
            "update entities set archived_at = ? where id % ? = 7", [NOW, entities // archived]
        )
    counts = rng.integers(1, 8, entities).tolist()
    owners = [i for i, count in enumerate(counts, 1) for _ in range(count)]
    conn.executemany(
        "insert into observations(entity_id, content, created_at) values (?, ?, ?)",
        ((i, text, NOW) for i, text in zip(owners, sentences(rng, len(owners)), strict=True)),
    )
    return owners


def _write_signals(conn: Any, rng: numpy.random.Generator, entities: int) -> None:
    """Relations and co-occurrences, with entity 1 as the hub, and accesses for a third."""
    others = numpy.arange(2, entities + 1)
    hub = others[rng.random(len(others)) < 0.98].tolist()
    near = (
        numpy.repeat(numpy.arange(1, entities + 1), 3) + rng.integers(1, 60, 3 * entities)
    ) % entities + 1
    conn.executemany(
        "insert or ignore into relations(from_entity, to_entity, relation_type, created_at)"
        " values (?, ?, ?, ?)",
        [(i, 1, "part_of", NOW) for i in hub]
        + [(i // 3 + 1, other, "uses", NOW) for i, other in enumerate(near.tolist())],
    )
    days = rng.integers(0, 400, entities).tolist()
    conn.executemany(
        "insert into entity_access(entity_id, access_count, last_access)"
        " values (?, ?, datetime(?, -? || ' days'))",
        (
            (i, int(count), NOW, days[i - 1])
            for i, count in enumerate(rng.zipf(1.6, entities).clip(0, 500), 1)
            if i % 3 == 0
        ),
    )
    # half with entities of the same cluster, half with any
    first = numpy.repeat(numpy.arange(1, entities + 1), SIGNAL_PAIRS - 1)
    step = numpy.where(
        rng.random(len(first)) < 0.5,
        rng.integers(1, CLUSTER, len(first)),
        rng.integers(1, entities, len(first)),
    )
    second = (first - 1 + step) % entities + 1
    low, high = numpy.minimum(first, second), numpy.maximum(first, second)
    keys = numpy.unique(low.astype("i8") * (entities + 1) + high)
    conn.executemany(
        "insert or ignore into co_occurrences(entity_a_id, entity_b_id, co_count, last_co)"
        " values (?, ?, ?, datetime(?, -? || ' days'))",
        (
            (key // (entities + 1), key % (entities + 1), 1 + key % 5, NOW, key % 300)
            for key in sorted({*keys.tolist(), *(entities + 1 + i for i in hub)})
            if key // (entities + 1) != key % (entities + 1)
        ),
    )


def _queries(conn: Any, rng: numpy.random.Generator, rows: Any, count: int) -> list[Query]:
    """Three to six words of an observation, and its entity's vector with noise.

    The most common words of the memory stand for stop words, which no query searches for.
    """
    stop = set(words()[:STOP_WORDS])
    found = []
    for i in rng.integers(10, len(rows), count).tolist():
        text = conn.execute(
            "select content from observations where entity_id = ? limit 1", [i]
        ).fetchone()[0]
        said = [word for word in text.split() if word not in stop] or text.split()
        picked = said[: int(rng.integers(3, 7))]
        vector = rows[i - 1] + 0.03 * rng.standard_normal(rows.shape[1])
        query = " ".join(picked)
        BenchmarkModel.known[query] = vector.tolist()
        found.append(Query(query, embedding.embed_query(MODEL, query)))
    return found
