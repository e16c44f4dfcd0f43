"""Exact answers: in memory, by vec0 and by numpy they are the same."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy
import pytest
from embedding_helpers import blob
from retrieval_helpers import (
    SETTINGS,
    add,
    agrees,
    ask,
    asked_with,
    brute,
    clustered,
    embed,
    memory,
    opened,
    remove,
    stock,
    uniform,
    with_index,
)

from datasette_limbic.errors import RetrieverFailed
from datasette_limbic.retrieval import base, in_memory
from datasette_limbic.retrieval.in_memory import Memory, read

EXACT = ("memory", "vec0", "approximate")

ROWS = {
    "one": uniform(1, 8),
    "three": uniform(3, 8),
    "many": clustered(700, 24),
    "all equal": numpy.repeat(uniform(1, 8), 60, axis=0),
    "some equal": numpy.repeat(uniform(40, 8), 5, axis=0),
    "not of length 1": uniform(50, 8) * numpy.linspace(0.1, 90, 50, dtype="f4")[:, None],
    "odd": [
        *uniform(30, 4),
        blob(0, 0, 0, 0),
        blob(math.nan, 1, 1, 1),
        blob(math.inf, 1, 1, 1),
        blob(1, 2, 3),
        b"abc",
        "text",
        None,
        blob(1e30, 1e30, 0, 0),
        blob(0, 1e-30, 1e-30, 0),
        blob(1e-20, 0, 0, 1e-20),
    ],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A memory of each kind, with an index where one can be built."""
    folder = tmp_path_factory.mktemp("exact")
    found = {}
    for name, rows in ROWS.items():
        path = memory(
            folder / f"{name}.db",
            rows,
            types=("Person", "Place", "Place", "Rare") if len(rows) > 5 else ("Person",),
            archived=range(2, len(rows), 5),
        )
        if len(rows) > 1:
            with_index(path)
        found[name] = path
    return found


@pytest.mark.parametrize("kind", ROWS)
def test_the_exact_answer(kind, files):
    # there is no index of one vector
    there = [asked_with(name) for name in EXACT if (kind, name) != ("one", "approximate")]
    with opened(files[kind], readonly=True) as conn:
        some = numpy.frombuffer(
            conn.execute("select embedding from embeddings limit 1").fetchone()[0], "<f4"
        )
        for query in (some, uniform(1, len(some), seed=7)[0]):
            for entity_type, archived in itertools.product((None, "Place", "Rare"), (False, True)):
                expected = brute(conn, query, 4096, entity_type, archived)
                for retriever, k in itertools.product(there, (1, 10, 4096)):
                    found = ask(retriever, conn, query, k, entity_type, archived)
                    agrees(found, expected[:k])


def test_rejected_vectors_never_come_back(files):
    with opened(files["odd"], readonly=True) as conn:
        for name in EXACT:
            found = ask(asked_with(name), conn, numpy.ones(4), 4096, include_archived=True)
            assert {c.id for c in found} == {*range(1, 31), 38, 39, 40}, name
            # told exactly, however long they are
            near = {c.id: c.distance for c in found}
            assert near[38] == pytest.approx(1 - math.sqrt(0.5), abs=1e-6)
            assert near[38] == pytest.approx(near[39], abs=1e-6)
            assert near[38] == pytest.approx(near[40], abs=1e-6)


@pytest.mark.parametrize("name", ["memory", "approximate"])
def test_no_such_type(name, files):
    with opened(files["many"], readonly=True) as conn:
        for entity_type in ("Nothing", "", "place"):
            assert ask(asked_with(name), conn, uniform(1, 24)[0], 5, entity_type) == []


@pytest.mark.parametrize("name", ["memory", "approximate"])
def test_a_query_of_another_dimension(name, files):
    """Never an answer: the function of SQL makes a sentence of it."""
    with opened(files["many"], readonly=True) as conn, pytest.raises((ValueError, RetrieverFailed)):
        ask(asked_with(name), conn, uniform(1, 8)[0])


def test_a_matrix_is_read_once_until_much_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "MOST_CHANGED", 6)
    path = memory(tmp_path / "m.db", uniform(40, 8))
    reads = []
    monkeypatch.setattr(in_memory, "read", lambda conn: reads.append(1) or read(conn))
    retriever, more = Memory(), uniform(20, 8, seed=5)
    with opened(path) as conn:
        for n, row in enumerate(more, 1):
            agrees(ask(retriever, conn, row, 60), brute(conn, row, 60))
            if n % 3:
                add(conn, {100 + n: row})
            else:
                remove(conn, [n])
            found = ask(retriever, conn, row, 60)
            agrees(found, brute(conn, row, 60))
            assert (found[0].id == 100 + n) == bool(n % 3)
            assert n not in [c.id for c in found] or n % 3
    assert 2 <= len(reads) <= 4


def test_what_was_archived_and_brought_back_is_found(tmp_path):
    """No sync between: the filters are read while it is archived."""
    path = memory(tmp_path / "m.db", uniform(10, 8))
    retriever = Memory()
    with opened(path) as conn:
        query = uniform(10, 8)[4]
        conn.execute("update embeddings set updated = 5")  # long before the sync
        conn.commit()
        stock(path, "update entities set archived_at = datetime('now') where id in (5, 6)")
        ask(retriever, conn, query)
        stock(path, "update entities set archived_at = null where id = 5")
        assert ask(retriever, conn, query)[0].id == 5


def test_too_large_for_the_memory_allowed(files):
    with opened(files["many"], readonly=True) as conn:
        said = Memory().unusable(conn, replace(SETTINGS, vectors_in_memory_mb=0))
        assert "vectors_in_memory_mb allows 0" in said
        assert Memory().unusable(conn, SETTINGS) is None
        assert "searched as fast without it" in Memory().unusable(
            conn, replace(SETTINGS, retriever="auto")
        )


def test_more_rows_than_were_counted(tmp_path, monkeypatch):
    """A writer came between counting and reading: what is new is found all the same."""
    path = memory(tmp_path / "m.db", uniform(10, 8))
    real = in_memory.embedding.collection_info
    new = uniform(1, 8, seed=9)[0]

    def counted(conn, name):
        info = real(conn, name)
        with opened(path) as other:
            add(other, {77: new})
        return info

    with opened(path) as conn:
        monkeypatch.setattr(in_memory.embedding, "collection_info", counted)
        matrix = read(conn)
        monkeypatch.undo()
        assert len(matrix.ids) == 10
        retriever = Memory()
        retriever.held.get(("x", 1, 1), lambda _: True, lambda: matrix, 1 << 30)
        over = matrix.seen(conn).over
        assert over.ids.tolist() == [77]


def test_nothing_is_embedded(empty_db):
    with opened(empty_db) as conn:
        assert Memory().unusable(conn, SETTINGS) == "no vectors are indexed yet"
        with pytest.raises(RetrieverFailed, match="sync"):
            ask(Memory(), conn, uniform(1, 8)[0])
        conn.execute("insert into entities(id, name) values (1, 'Ana')")
        embed(conn, {1: uniform(1, 8)[0]})
        conn.commit()
        assert Memory().unusable(conn, SETTINGS) == "no vectors are indexed yet"


def test_a_database_in_memory_is_no_file():
    from datasette.utils.sqlite import sqlite3

    from datasette_limbic import schema

    conn = sqlite3.connect(":memory:")
    try:
        schema.init(conn)
        assert "no file" in Memory().unusable(conn, SETTINGS)
    finally:
        conn.close()
