"""Comparing codes beside the statement: the same answers, and nothing left behind."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import contextmanager

import numpy
import pytest
from datasette.utils.sqlite import sqlite3
from embedding_helpers import fill_and_sync
from retrieval_helpers import forget_what_is_held, opened, with_index

from datasette_limbic import embedding, search
from datasette_limbic.config import Settings
from datasette_limbic.retrieval import ahead as module
from datasette_limbic.retrieval import approximate
from datasette_limbic.retrieval.ahead import Ahead
from datasette_limbic.retrieval.plugins import retriever

VECTOR, OTHER = (numpy.full(4, value, "<f4").tobytes() for value in (1, 2))


class Compared:
    """Answers in its own time, and remembers which threads asked."""

    def __init__(self, fails=None):
        self.threads, self.fails = [], fails
        self.may_go, self.has_begun = threading.Event(), threading.Event()
        self.may_go.set()

    def differences(self, query):
        self.threads.append(threading.current_thread().name)
        self.has_begun.set()
        assert self.may_go.wait(30)
        if self.fails:
            raise self.fails
        return query.astype("u2")


@pytest.fixture
def ahead():
    found = Ahead(workers=1)
    yield found
    found._pool.shutdown()


def test_it_is_worked_out_by_another_thread_and_taken_once(ahead):
    compared = Compared()
    with ahead.begun(compared, VECTOR):
        assert compared.has_begun.wait(30)
        assert ahead.taken(compared, VECTOR).tolist() == [1, 1, 1, 1]
        assert ahead.taken(compared, VECTOR) is None
    assert [name[:12] for name in compared.threads] == ["limbic-ahead"]
    with ahead.begun(compared, OTHER):
        assert compared.has_begun.wait(30)
    assert ahead.taken(compared, OTHER) is None  # the statement is over


@pytest.mark.parametrize("what", ["another vector", "another index", "another thread"])
def test_nobody_takes_what_is_not_theirs(ahead, what):
    compared, found = Compared(), []
    with ahead.begun(compared, VECTOR):
        assert compared.has_begun.wait(30)
        if what == "another thread":
            thread = threading.Thread(target=lambda: found.append(ahead.taken(compared, VECTOR)))
            thread.start()
            thread.join()
        elif what == "another index":
            found.append(ahead.taken(Compared(), VECTOR))
        else:
            found.append(ahead.taken(compared, OTHER))
    assert found == [None]


def test_who_finds_no_worker_free_does_not_wait(ahead):
    slow, mine = Compared(), Compared()
    slow.may_go.clear()
    with ahead.begun(slow, VECTOR):
        assert slow.has_begun.wait(30)

        def beside():
            with ahead.begun(mine, VECTOR):
                found.append(ahead.taken(mine, VECTOR))

        found = []
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join(10)
        assert found == [None]
        slow.may_go.set()
        assert ahead.taken(slow, VECTOR) is not None
    assert mine.threads == []


def test_without_another_core_nothing_is_begun():
    compared, alone = Compared(), Ahead(workers=0)
    with alone.begun(compared, VECTOR):
        assert alone.taken(compared, VECTOR) is None
    assert compared.threads == []


def test_an_error_is_that_of_who_takes_it(ahead):
    compared = Compared(MemoryError("no room"))
    with ahead.begun(compared, VECTOR):
        assert compared.has_begun.wait(30)
        with pytest.raises(MemoryError, match="no room"):
            ahead.taken(compared, VECTOR)
    with ahead.begun(compared, VECTOR):  # and of nobody who does not
        assert compared.has_begun.wait(30)


def test_nothing_is_kept(ahead):
    compared = Compared()
    with ahead.begun(compared, VECTOR):
        assert compared.has_begun.wait(30)
    ahead._pool.submit(lambda: None).result()  # the worker has put it down
    gone = weakref.ref(compared)
    del compared
    gc.collect()
    assert gone() is None


@pytest.fixture
def indexed(models, conn, path, monkeypatch):
    """A memory whose index counts as large, and who compared its codes."""
    fill_and_sync(conn, 40, 1)
    with_index(path)
    forget_what_is_held()
    monkeypatch.setattr(approximate, "AHEAD_FROM", 8)
    found = Ahead(workers=1)
    monkeypatch.setattr(retriever("approximate"), "ahead", found)
    by, compare = [], approximate.Codes.differences

    def differences(self, query):
        by.append(threading.current_thread().name[:12])
        return compare(self, query)

    monkeypatch.setattr(approximate.Codes, "differences", differences)
    yield path, by
    found._pool.shutdown()


def asked(path, mode, query="number 7", settings=None, **arguments):
    settings = settings or Settings(retriever="approximate")
    with opened(path, readonly=True, settings=settings) as conn:
        return search.search(
            conn, query, mode=mode, settings=settings, now="2026-01-01", **arguments
        )


@pytest.mark.parametrize(
    "arguments", [{}, {"limit": 3}, {"type": "Thing"}, {"include_archived": "1"}, {"explain": "1"}]
)
def test_answers_are_the_same(indexed, monkeypatch, arguments):
    path, by = indexed

    @contextmanager
    def late(self, of, vector):
        yield

    # nothing stands in the way of the worker: a search waits for it until it has begun
    begun, start = Ahead.begun, threading.Event()

    @contextmanager
    def early(self, of, vector):
        with begun(self, of, vector):
            self._pool.submit(start.set) and start.wait(30)
            yield

    monkeypatch.setattr(module.Ahead, "begun", early)
    before = asked(path, "hybrid", **arguments)
    assert by == ["limbic-ahead"]
    monkeypatch.setattr(module.Ahead, "begun", late)
    assert asked(path, "hybrid", **arguments) == before
    assert by[1:] == [threading.current_thread().name[:12]]
    assert (before["retriever"], before["degraded"]) == ("approximate", None)


@pytest.mark.parametrize("mode", ["semantic", "text"])
def test_where_there_is_nothing_beside_it_nothing_is_begun(indexed, mode):
    path, by = indexed
    assert asked(path, mode)["results"]
    assert "limbic-ahead" not in by


def test_texts_are_read_before_candidates_are_asked_for(indexed):
    path, _ = indexed
    settings = Settings(retriever="approximate")
    with opened(path, readonly=True, settings=settings) as conn:
        told = []
        for name, count in (("limbic_nearest", 5), ("limbic_frequencies", 1)):
            answer = "[]" if name == "limbic_nearest" else '[["\\"7\\"", 1, 1.0, 0, 1, null]]'
            conn.create_function(name, count, lambda *_, n=name, a=answer: told.append(n) or a)
        search.search(conn, "number 7", settings=settings)
    assert told == ["limbic_frequencies", "limbic_nearest"]


def test_one_that_cannot_begin_gives_way_to_the_next(indexed, monkeypatch):
    path, _ = indexed
    monkeypatch.setattr(retriever("approximate"), "meanwhile", lambda *_: 1 / 0, raising=False)
    answer = asked(path, "hybrid")
    assert answer["results"][0]["id"] == 7
    assert answer["retriever"] in ("memory", "vec0")
    assert "approximate failed (division by zero)" in answer["degraded"]


def test_a_vector_that_was_forgotten_meanwhile_is_no_failure(indexed, monkeypatch):
    path, by = indexed
    monkeypatch.setattr(embedding, "is_remembered", lambda *_, **__: False)
    assert asked(path, "hybrid")["retriever"] == "approximate"
    assert "limbic-ahead" not in by


def test_a_statement_that_is_broken_off_leaves_nothing_begun(indexed):
    path, _ = indexed
    found = retriever("approximate").ahead
    settings = Settings(retriever="approximate")
    with opened(path, readonly=True, settings=settings) as conn:

        def fails(*_):
            raise sqlite3.OperationalError("interrupted")

        conn.create_function("limbic_frequencies", 1, fails)
        with pytest.raises(sqlite3.OperationalError):
            search.search(conn, "number 7", settings=settings)
    assert found._mine.begun is None
