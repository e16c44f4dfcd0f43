"""The functions of SQL that call a retriever: whatever they are given, and whatever it answers."""

from __future__ import annotations

import json
import math
import random

import pytest
from datasette.utils.sqlite import sqlite3
from embedding_helpers import fill_and_sync
from retrieval_helpers import brute, forget_what_is_held, opened, with_index

from datasette_limbic.errors import RetrieverFailed
from datasette_limbic.retrieval import functions
from datasette_limbic.retrieval.functions import checked


@pytest.fixture
def memory(models, conn, path):
    fill_and_sync(conn, 12, 1)
    with_index(path)
    forget_what_is_held()
    return conn


def call(conn, *arguments, function="limbic_nearest"):
    marks = ", ".join("?" * len(arguments))
    return json.loads(conn.execute(f"select {function}({marks})", arguments).fetchone()[0])


@pytest.mark.parametrize("name", ["memory", "approximate"])
def test_candidates(name, memory):
    import numpy

    from datasette_limbic import embedding

    query = numpy.frombuffer(embedding.embed_query("bag", "number 7"), "<f4")
    found = call(memory, name, "number 7", 5)
    assert found[0][0] == 7
    expected = [c.distance for c in brute(memory, query, 5)]
    assert [distance for _, distance in found] == pytest.approx(expected, abs=1e-6)
    assert call(memory, name, "number 7", 5, None, 0) == found
    assert call(memory, name, "number 7", 5, "", "1") == found
    assert call(memory, name, "number 7", 5, "Thing", 0) == found
    assert call(memory, name, "number 7", 5, "Nothing", 0) == []


@pytest.mark.parametrize(
    ("k", "count"),
    [
        (None, 0),
        ("", 0),
        (0, 0),
        (-1, 0),
        (-1e300, 0),
        ("abc", 0),
        (b"\xff", 0),
        ("nan", 0),
        ("inf", 0),
        (math.inf, 0),
        (1, 1),
        ("2", 2),
        (2.9, 2),
        (1e99, 12),
        (1 << 62, 12),
    ],
)
def test_numbers_of_candidates(k, count, memory):
    assert len(call(memory, "memory", "number 7", k)) == count


@pytest.mark.parametrize("query", [None, "", "  ", "\0", b"", b"\xff", "'; drop table entities", 7])
@pytest.mark.parametrize("name", ["memory", "approximate"])
def test_queries(query, name, memory):
    found = call(memory, name, query, 3)
    assert found == [] or len(found) == 3
    if query in (None, "", "  "):
        assert found == []


@pytest.mark.parametrize(
    "given",
    [5, 5.5, b"Thing", "Th\0ing", "x" * 100_000, "' or 1", "Thing "],
    ids=lambda v: str(v)[:9],
)
def test_types(given, memory):
    assert call(memory, "memory", "number 7", 3, given, 0) == []
    assert call(memory, "approximate", "number 7", 3, given, 0) == []


@pytest.mark.parametrize("archived", [None, "", 0, "0", "yes", b"1", 2])
def test_what_includes_archived_entities(archived, memory):
    memory.execute("update entities set archived_at = datetime('now') where id = 7")
    memory.commit()
    ids = [item for item, _ in call(memory, "memory", "number 7", 12, None, archived)]
    assert 7 not in ids
    assert 7 in [item for item, _ in call(memory, "memory", "number 7", 12, None, 1)]


@pytest.mark.parametrize("name", [None, "", "nobody", "auto", "VEC0", "a\0b", b"memory", 7, "vec0"])
@pytest.mark.parametrize("function", ["limbic_nearest", "limbic_hits"])
def test_names(name, function, memory, caplog):
    with pytest.raises(sqlite3.OperationalError):
        call(memory, name, "number 7", 3, function=function)
    said = functions.failure()
    assert isinstance(said, RetrieverFailed)
    # a wrong word in somebody's SQL is no failure of ours: no traceback
    assert {record.exc_info for record in caplog.records} <= {None}
    if name == "vec0":
        assert str(said) == "the retriever vec0 is SQL of its own, and no function calls it"
    else:
        assert "there is no retriever" in str(said)
        assert "memory" in str(said)
    assert functions.failure() is None


def test_a_model_of_another_dimension(models, memory, path):
    """As where the setting names another model than the memory's."""
    from datasette_limbic.config import Settings

    for name in ("memory", "approximate"):
        with opened(path, settings=Settings(model="bag16")) as conn:
            conn.execute("select 1")
            from datasette_limbic import embedding

            embedding.embed_query("bag16", "number 7")
            with pytest.raises(sqlite3.OperationalError):
                call(conn, name, "number 7", 3)
            assert name in str(functions.failure())


def test_any_arguments(memory):
    """Nothing but an answer or an error of SQLite's."""
    rng = random.Random(3)
    values = [None, "", "memory", "number 7", "\0", b"\0", -1, 0, 3, 1e99, math.inf, "x" * 5000]
    failed = 0
    for _ in range(300):
        given = [rng.choice(values) for _ in range(rng.choice((3, 5)))]
        try:
            assert len(call(memory, *given)) <= 12
        except sqlite3.OperationalError:
            failed += 1
            assert "there is no retriever" in str(functions.failure())
    assert 0 < failed < 300


@pytest.mark.parametrize(
    ("answer", "rows"),
    [
        ([], []),
        ([(1, 0.5), (1, 0.1), (2, 0.7)], [[1, 0.5], [2, 0.7]]),
        ([(n, 0.1) for n in range(100)], [[n, 0.1] for n in range(10)]),
        ((pair for pair in [("7", "0.5")]), [[7, 0.5]]),
    ],
)
def test_what_is_taken_of_an_answer(answer, rows):
    assert checked("x", answer, 10) == rows


@pytest.mark.parametrize("distance", [math.nan, math.inf, -math.inf])
def test_distances_that_are_none(distance):
    with pytest.raises(RetrieverFailed, match=r"the retriever x answered -?(nan|inf) for entity 2"):
        checked("x", [(1, 0.5), (2, distance)], 10)


@pytest.mark.parametrize("distance", [-0.1, -1e-9, 2.0001, 1e9])
def test_distances_that_no_cosine_has(distance):
    with pytest.raises(RetrieverFailed, match=r"answered \S+ for entity 2"):
        checked("x", [(1, 0.5), (2, distance)], 10, within=2.0)
    # a score of full text may be any number
    assert checked("x", [(2, distance)], 10) == [[2, distance]]


@pytest.mark.parametrize("name", ["memory", "approximate"])
def test_sql_obeys_the_memory_allowed(name, memory, path):
    from datasette_limbic.config import Settings

    settings = Settings(vectors_in_memory_mb=0)
    with opened(path, settings=settings) as conn:
        with pytest.raises(sqlite3.OperationalError):
            call(conn, name, "number 7", 3)
        assert "vectors_in_memory_mb allows 0" in str(functions.failure())
        conn.execute("begin")
        conn.execute("update entities set archived_at = datetime('now') where id = 7")
    # nor does it read for everybody what may be rolled back
    memory.execute("begin")
    with pytest.raises(sqlite3.OperationalError):
        call(memory, name, "number 7", 3)
    assert "within a transaction" in str(functions.failure())
    memory.rollback()
    assert call(memory, name, "number 7", 1)[0][0] == 7


def test_stale_rows_raise_the_number_of_candidates_by_500_at_most(memory):
    """A large sync that is under way must not make each search fetch thousands."""
    from datasette_limbic import statement

    asked = []
    memory.create_function("limbic_nearest", 5, lambda *given: asked.append(given[2]) or "[]")
    nearest = statement.nearest_by("memory")
    sql = (
        "with p as (select 30 as k, 0 as invalid, null as typ, 0 as archived),"
        f" {nearest} select * from nearest"
    )
    for stale in (0, 7, 2000):
        memory.executemany(
            "insert or ignore into limbic_stale(collection, item_id) values ('entities', ?)",
            [(n,) for n in range(1, stale + 1)],
        )
        memory.execute(sql, {"q": "x"}).fetchall()
    assert asked == [30, 37, 530]
