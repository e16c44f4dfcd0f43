"""A memory of real short texts, of any size up to a million: WordNet, then documentation.

    python -m benchmarks.wordnet FOLDER --size 1000000

The first 117,659 entities are WordNet's synsets, with their definitions and examples as
observations and a real graph of relations; those beyond are sentences of Debian's documentation
packages, one entity with one observation each. Vectors are those of the packaged model, of the
collection ``entities`` alone. Who used what is made up, the same each time.

Queries are texts of the same sources that the memory does not hold (``heldout`` in ``corpus``),
and some of their words. What was downloaded and embedded stays in FOLDER: a run that was stopped
goes on where it was, and all sizes share it. The documentation's text depends on the version of
Debian.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy

from datasette_limbic import connection, llm_store, schema, vectors

from . import corpus, vector_cache
from .memory import NOW, Query
from .progress import counted, say
from .stopping import stoppable, whole

FOLDER = Path("bench-data")
SIZES = (corpus.WORDNET, 500_000, corpus.LARGEST)
SHORT_QUERIES = 100
PAIRS = 10
"""Co-occurrences of one accessed entity, about."""
YEARS = 2
_SEED = 42
_COMPARED = 300


def build(
    folder: Path = FOLDER,
    size: int = corpus.WORDNET,
    *,
    processes: int = 1,
    with_vectors: bool = True,
) -> Path:
    """The memory of the first ``size`` entities, built unless the folder holds it.

    Without vectors it is built in minutes and serves to measure the text search alone.
    """
    path = folder / (f"wordnet-{size}.db" if with_vectors else f"wordnet-{size}-text.db")
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    say("reading WordNet")
    made = corpus.first(folder, size)
    texts = corpus.snapshots(made.rows, made.relations)
    if with_vectors:
        with counted("embedding") as show:
            vector_cache.fill(texts, folder / "vectors", progress=show, processes=processes)
    with whole(path) as unfinished, closing(connection.connect(unfinished, create=True)) as conn:
        schema.init(conn)
        conn.execute("pragma synchronous=off")
        conn.execute("begin immediate")
        schema.drop_triggers(conn)
        say("writing rows")
        _write_rows(conn, made)
        _write_signals(conn, size)
        _compare(conn, texts)
        if with_vectors:
            say("writing vectors")
            _write_vectors(conn, texts, folder / "vectors")
        say("filling the text index")
        schema.fill_indexes(conn)
        conn.execute("delete from limbic_stale")
        schema.create_triggers(conn)
        conn.commit()
        if with_vectors:
            with counted("indexing") as show:
                vectors.rebuild(conn, "entities", show)
            conn.execute("update limbic_indexes set synced_at = ?", [NOW])
            conn.commit()
        say("analysing")
        conn.execute("analyze")
    say(f"{path}: {size:,} entities")
    return path


def queries(folder: Path = FOLDER, size: int = corpus.LARGEST) -> list[Query]:
    """What was held out, and short queries of its words, with their unit vectors (float32).

    They are the same for all sizes from WORDNET on. For less than that they are of WordNet alone:
    the documentation takes long to download and to read.
    """
    held = corpus.wordnet().heldout
    if size >= corpus.WORDNET:
        held = held + corpus.documentation(folder).heldout
    texts = held + corpus.short_queries(held, SHORT_QUERIES)
    with counted("embedding queries") as show:
        vector_cache.fill(texts, folder / "vectors", progress=show)
    (rows,) = vector_cache.stored(texts, folder / "vectors")
    return [Query(text, row.tobytes()) for text, row in zip(texts, rows, strict=True)]


def _write_rows(conn: Any, made: corpus.Corpus) -> None:
    """Entities in the order of the corpus, made over YEARS, the first ones long ago."""
    count = len(made.rows)
    rng = numpy.random.default_rng(_SEED)
    ages = (numpy.linspace(1, 0, count) * YEARS * 365 * 86_400).astype("i8").tolist()
    lately = (rng.random(count) ** 2).tolist()
    conn.executemany(
        "insert into entities(id, name, entity_type, created_at, updated_at, last_activity_at)"
        " values (?1, ?2, ?3, datetime(?4, -?5 || ' seconds'), datetime(?4, -?5 || ' seconds'),"
        " datetime(?4, -?6 || ' seconds'))",
        (
            (i, row.name, row.kind, NOW, age, int(age * part))
            for i, (row, age, part) in enumerate(zip(made.rows, ages, lately, strict=True), 1)
        ),
    )
    conn.executemany(
        "insert into observations(entity_id, content, created_at)"
        " values (?1, ?2, datetime(?3, -?4 || ' seconds'))",
        (
            (i, text, NOW, age)
            for i, (row, age) in enumerate(zip(made.rows, ages, strict=True), 1)
            for text in row.observations
        ),
    )
    conn.executemany(
        "insert into relations(from_entity, to_entity, relation_type, created_at)"
        " values (?, ?, ?, ?)",
        ((source + 1, target + 1, kind, NOW) for source, target, kind in made.relations),
    )


def _write_signals(conn: Any, size: int) -> None:
    """A third was accessed. Half of its pairs are of neighbours; some entities pair with very
    many, as in use."""
    rng = numpy.random.default_rng(_SEED)
    accessed = numpy.flatnonzero(rng.random(size) < 1 / 3) + 1
    count = len(accessed)
    times = rng.zipf(1.6, count).clip(1, 500).tolist()
    days = rng.exponential(90, count).astype("i8").clip(0, YEARS * 365).tolist()
    conn.executemany(
        "insert into entity_access(entity_id, access_count, last_access)"
        " values (?, ?, datetime(?, -? || ' days'))",
        zip(accessed.tolist(), times, [NOW] * count, days, strict=True),
    )
    first = numpy.repeat(numpy.arange(count), PAIRS // 2)  # a pair is one of both its ends
    near = (first + rng.integers(1, 50, len(first))) % count
    weight = numpy.cumsum(1 / (rng.permutation(count) + 10.0))
    popular = numpy.searchsorted(weight, rng.random(len(first)) * weight[-1]).clip(0, count - 1)
    second = numpy.where(rng.random(len(first)) < 0.5, near, popular)
    low, high = numpy.minimum(first, second), numpy.maximum(first, second)
    keys = numpy.unique(low.astype("i8") * count + high)
    low, high = accessed[keys // count], accessed[keys % count]
    times = rng.zipf(2.0, len(keys)).clip(1, 200).tolist()
    days = rng.exponential(90, len(keys)).astype("i8").clip(0, YEARS * 365).tolist()
    conn.executemany(
        "insert into co_occurrences(entity_a_id, entity_b_id, co_count, last_co)"
        " values (?, ?, ?, datetime(?, -? || ' days'))",
        (
            (a, b, together, NOW, age)
            for a, b, together, age in zip(low.tolist(), high.tolist(), times, days, strict=True)
            if a != b
        ),
    )


def _write_vectors(conn: Any, texts: list[str], folder: Path) -> None:
    """Store the vectors with the hash of their texts, so that a sync finds nothing to do."""
    collection = conn.execute(
        "insert into collections(name, model) values ('entities', ?)", [vector_cache.MODEL]
    ).lastrowid
    at = 0
    for rows in vector_cache.stored(texts, folder):
        items = enumerate(zip(texts[at : at + len(rows)], rows, strict=True), at + 1)
        llm_store.write(
            conn, collection, ((item, text, row.tobytes()) for item, (text, row) in items)
        )
        at += len(rows)


def _compare(conn: Any, texts: list[str]) -> None:
    """Raise RuntimeError where the database says something else of an entity than was embedded."""
    ids = random.Random(_SEED).sample(range(1, len(texts) + 1), min(_COMPARED, len(texts)))
    for i, text in llm_store.texts(conn, "entities", ids).items():
        if text != texts[i - 1]:
            raise RuntimeError(f"entity {i} is {text!r} in the database, embedded {texts[i - 1]!r}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wordnet", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--size", type=int, default=corpus.WORDNET, help="entities (%(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="that embed at once")
    parser.add_argument("--text-alone", action="store_true", help="without vectors")
    parser.add_argument("--queries", type=Path, help="write the queries to FILE.json and FILE.npy")
    asked = parser.parse_args(arguments)
    if not 0 < asked.size <= SIZES[-1]:
        parser.error(f"--size {asked.size:,} is not between 1 and {SIZES[-1]:,}")
    with stoppable(asked.folder):
        if asked.queries:
            write_queries(queries(asked.folder), asked.queries)
        build(
            asked.folder,
            asked.size,
            processes=asked.processes,
            with_vectors=not asked.text_alone,
        )


def write_queries(found: list[Query], path: Path) -> None:
    """The texts as a JSON list, their vectors as one array of float32, in the same order.

    Both are whole, and the array goes first and comes last: where it stands, the texts are its own.
    """
    texts = [query.text for query in found]
    rows = numpy.frombuffer(b"".join(query.vector for query in found), "<f4")
    vectors_path = path.with_suffix(".npy")
    with whole(vectors_path) as last, whole(path.with_suffix(".json")) as first:
        vectors_path.unlink(missing_ok=True)
        first.write_text(json.dumps(texts, ensure_ascii=False, indent=0), "utf-8")
        with last.open("wb") as file:  # to a name numpy.save would add a suffix
            numpy.save(file, rows.reshape(len(found), -1))


if __name__ == "__main__":
    main()
