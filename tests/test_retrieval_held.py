"""What a process keeps of several files: within a bound, loaded once, told apart."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from dataclasses import dataclass

import pytest
from datasette.utils.sqlite import sqlite3
from retrieval_helpers import SETTINGS, ask, asked_with, memory, opened, uniform

from datasette_limbic.config import Settings
from datasette_limbic.retrieval import held as module
from datasette_limbic.retrieval import in_memory
from datasette_limbic.retrieval.held import Held, file_key


@dataclass
class Thing:
    nbytes: int
    fresh: bool = True
    spare: int = 0

    @property
    def needed(self):
        return self.nbytes - self.spare

    def shrink(self):
        self.nbytes, self.spare = self.needed, 0


def get(held, key, size, limit=100):
    return held.get(key, lambda t: t.fresh, lambda: Thing(size), limit)


def kept(held, *keys):
    return [key for key in keys if held.peek(key) is not None]


def test_the_one_used_longest_ago_gives_way():
    held = Held()
    for key in "abc":
        get(held, key, 30)
    get(held, "a", 30)  # used again
    get(held, "d", 30)
    assert kept(held, *"abcd") == ["a", "c", "d"]
    get(held, "e", 90)
    assert kept(held, *"abcde") == ["e"]


def test_what_can_be_spared_goes_first():
    held = Held()
    things = [held.get(key, lambda t: t.fresh, lambda: Thing(40, spare=20), 100) for key in "ab"]
    assert held.has_room("c", 60, 100)
    assert not held.has_room("c", 61, 100)
    get(held, "c", 35)
    assert kept(held, *"abc") == ["a", "b", "c"]
    assert [thing.nbytes for thing in things] == [20, 40]
    get(held, "d", 80)
    assert kept(held, *"abcd") == ["d"]


def test_room_beside_all_is_less_than_beside_what_is_in_use(monkeypatch):
    held = Held()
    get(held, "a", 60)
    monkeypatch.setattr(module, "IN_USE_S", -1.0)
    assert held.has_room("b", 50, 100)
    assert not held.has_room("b", 50, 100, idle=True)


def test_one_alone_may_be_larger():
    held = Held()
    assert get(held, "a", 500).nbytes == 500
    assert kept(held, "a") == ["a"]


def test_what_is_not_current_is_loaded_again():
    held = Held()
    first = get(held, "a", 30)
    assert get(held, "a", 40) is first
    first.fresh = False
    assert get(held, "a", 40).nbytes == 40
    held.drop("a")
    held.drop("a")
    assert held.peek("a") is None
    get(held, "a", 1)
    held.clear()
    assert held.peek("a") is None


def test_what_could_not_be_loaded_is_tried_again():
    held = Held()

    def fails():
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        held.get("a", lambda t: True, fails, 100)
    assert get(held, "a", 5).nbytes == 5


def test_threads_load_once():
    held, loaded = Held(), []

    def load():
        loaded.append(1)
        time.sleep(0.05)
        return Thing(10)

    found = []
    threads = [
        threading.Thread(target=lambda: found.append(held.get("a", lambda t: True, load, 100)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(loaded) == 1
    assert len({id(thing) for thing in found}) == 1
    assert len(found) == 8


def test_files_are_told_apart(tmp_path):
    one, two = memory(tmp_path / "one.db", uniform(2, 4)), tmp_path / "two.db"
    memory(two, uniform(2, 4))
    with opened(one) as first, opened(one) as again, opened(two) as other:
        assert file_key(first) == file_key(again) != file_key(other)
        os.replace(two, one)
        with opened(one) as moved:
            # the same path, and another file than the one that stood there before
            assert file_key(moved)[0] == file_key(first)[0]
            assert file_key(moved) != file_key(first)
        os.unlink(one)
        assert file_key(first) is None
    with closing(sqlite3.connect(":memory:")) as nothing:
        assert file_key(nothing) is None


def test_matrices_of_several_files_stay_within_the_bound(tmp_path):
    """As large as one matrix and a half: each file's answers are its own all the same."""
    from dataclasses import replace

    rows = [uniform(1200, 256, seed=n) for n in range(3)]
    paths = [memory(tmp_path / f"{n}.db", rows[n]) for n in range(3)]
    settings = replace(SETTINGS, vectors_in_memory_mb=2)
    retriever = asked_with("memory")
    for at in (0, 1, 2, 0, 2):
        with opened(paths[at], readonly=True) as conn:
            assert retriever.unusable(conn, settings) is None
            found = ask(retriever, conn, rows[at][7], 3, settings=settings)
            assert found[0].id == 8
            assert found[0].distance < 1e-5
            assert sum(m.nbytes for m in retriever.held._kept.values()) <= 2 << 20


def test_two_files_that_do_not_fit_together_do_not_evict_each_other(tmp_path, monkeypatch):
    """The second one is searched by another retriever, for as long as the first is in use."""
    monkeypatch.setattr(in_memory, "FROM", 10)
    reads = []
    real = in_memory.read
    monkeypatch.setattr(in_memory, "read", lambda conn: reads.append(1) or real(conn))
    rows = [uniform(1200, 256, seed=n) for n in range(2)]
    paths = [memory(tmp_path / f"{n}.db", rows[n]) for n in range(2)]
    settings, retriever = Settings(vectors_in_memory_mb=2), asked_with("memory")
    with opened(paths[0]) as one, opened(paths[1]) as two:
        for _ in range(3):
            assert retriever.unusable(one, settings) is None
            assert ask(retriever, one, rows[0][7], 1, settings=settings)[0].id == 8
            assert "other files leaves no room" in retriever.unusable(two, settings)
        assert reads == [1]
        # what nobody used for long gives way
        monkeypatch.setattr(module, "IN_USE_S", 0)
        assert retriever.unusable(two, settings) is None
        assert ask(retriever, two, rows[1][7], 1, settings=settings)[0].id == 8
        assert len(retriever.held._kept) == 1
