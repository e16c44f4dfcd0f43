"""What takes seconds to compute: one at a time, once, and not without bounds."""

from __future__ import annotations

import asyncio
import threading

import pytest
from datasette.app import Datasette
from datasette.database import Database
from datasette.utils.sqlite import sqlite3

from datasette_limbic.config import Settings
from datasette_limbic.errors import Busy
from datasette_limbic.views.working import Worker, opened, token


class Work:
    """Something to compute that waits until it may go on, and says how often it ran."""

    def __init__(self):
        self.ran = []
        self.go_on = threading.Event()

    def __call__(self, what):
        self.ran.append((what, threading.current_thread().name))
        assert self.go_on.wait(20)
        if isinstance(what, Exception):
            raise what
        return [what]


@pytest.fixture(name="work")
def made():
    work = Work()
    yield work
    work.go_on.set()


def started(worker, work, *keys):
    return [asyncio.ensure_future(worker.run(key, work, key)) for key in keys]


async def test_what_is_asked_twice_is_computed_once(work):
    worker = Worker("test")
    both = started(worker, work, "a", "a")
    await asyncio.sleep(0)
    work.go_on.set()
    one, other = await asyncio.gather(*both)
    assert one is other
    assert await worker.run("a", work, "a") is one
    assert [what for what, _ in work.ran] == ["a"]
    assert work.ran[0][1].startswith("test")


async def test_only_so_many_wait(work):
    worker = Worker("test", waiting=2)
    two = started(worker, work, "a", "b")
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="try again") as found:
        await worker.run("c", work, "c")
    assert found.value.status == 503
    work.go_on.set()
    assert await asyncio.gather(*two) == [["a"], ["b"]]
    assert await worker.run("c", work, "c") == ["c"]


async def test_only_so_many_are_remembered(work):
    worker = Worker("test", remembered=2)
    work.go_on.set()
    for key in ("a", "b", "a", "c", "a", "b"):
        await worker.run(key, work, key)
    assert [what for what, _ in work.ran] == ["a", "b", "c", "b"]


async def test_without_a_key_nothing_is_shared(work):
    worker = Worker("test")
    work.go_on.set()
    assert await asyncio.gather(*(worker.run(None, work, n) for n in (1, 2))) == [[1], [2]]
    assert await worker.run(None, work, 3) == [3]


async def test_what_fails_is_not_remembered(work):
    worker = Worker("test")
    work.go_on.set()
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await worker.run("a", work, ValueError("no"))
    assert await worker.run("a", work, "a") == ["a"]


async def test_who_gives_up_takes_it_from_nobody(work):
    worker = Worker("test")
    # the one that runs, and one that waits for its turn
    started(worker, work, "first")
    one, other = started(worker, work, "a", "a")
    await asyncio.sleep(0)
    one.cancel()
    await asyncio.sleep(0)
    work.go_on.set()
    assert await asyncio.wait_for(other, 20) == ["a"]
    assert one.cancelled()


async def test_slow_work_leaves_places_to_others(work):
    worker = Worker("test", waiting=4, slow=2)

    def slowly(key):
        return asyncio.ensure_future(worker.run(key, work, key, slow="report"))

    begun = [slowly("a"), slowly("b"), slowly("a")]
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await slowly("c")
    # another kind, and what is quick, have theirs
    begun += [
        asyncio.ensure_future(worker.run("d", work, "d", slow="other")),
        *started(worker, work, "e"),
    ]
    await asyncio.sleep(0)
    work.go_on.set()
    assert await asyncio.gather(*begun) == [["a"], ["b"], ["a"], ["d"], ["e"]]
    assert await slowly("c") == ["c"]


async def test_what_is_done_once_has_places_of_its_own(work):
    """Whoever may only look cannot keep those away who may act."""
    worker = Worker("test", waiting=2, kept=1)
    begun = started(worker, work, "a", "b")
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await worker.run("c", work, "c")
    begun.append(asyncio.ensure_future(worker.run(None, work, "mine")))
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await worker.run(None, work, "too many")
    work.go_on.set()
    assert await asyncio.gather(*begun) == [["a"], ["b"], ["mine"]]


async def test_what_nobody_waits_for_is_dropped(work):
    worker = Worker("test", waiting=2)
    first, one = started(worker, work, "first", "a")
    [other] = started(worker, work, "a")
    await asyncio.sleep(0)
    for each in (one, other):
        with pytest.raises(Busy):
            await worker.run("b", work, "b")
        each.cancel()
        await asyncio.sleep(0)
    # its place is free at once, and what runs goes on
    [last] = started(worker, work, "b")
    await asyncio.sleep(0)
    work.go_on.set()
    assert await asyncio.gather(first, last) == [["first"], ["b"]]
    assert [what for what, _ in work.ran] == ["first", "b"]
    assert await worker.run("a", work, "a") == ["a"]


async def test_what_has_begun_is_remembered_though_nobody_waits(work):
    worker = Worker("test")
    [one] = started(worker, work, "a")
    while not work.ran:
        await asyncio.sleep(0.01)
    one.cancel()
    await asyncio.sleep(0)
    work.go_on.set()
    assert await worker.run("a", work, "a") == ["a"]
    assert len(work.ran) == 1


def test_a_token_is_of_one_database_of_one_datasette():
    datasettes = [Datasette(memory=True) for _ in range(2)]
    dbs = [Database(each, memory_name="same") for each in datasettes for _ in range(2)]
    assert len({token(db) for db in dbs}) == 4
    assert [token(db) for db in dbs] == [token(db) for db in dbs]
    for db in dbs:
        db.close()


@pytest.mark.parametrize("what", ["missing", "a folder", "no database", "damaged"])
def test_a_file_that_cannot_be_opened_is_not_named(what, tmp_path):
    path = tmp_path / "secret.db"
    if what == "a folder":
        path.mkdir()
    elif what == "no database":
        path.write_bytes(b"text " * 1000)
    elif what == "damaged":
        conn = sqlite3.connect(path)
        conn.execute("create table t (a)")
        conn.close()
        data = path.read_bytes()
        path.write_bytes(data[:100] + b"\xff" * (len(data) - 100))
    with pytest.raises(sqlite3.Error) as found, opened(str(path), Settings()):
        pass
    assert "secret" not in str(found.value)


def test_our_own_connection_is_closed(tmp_path):
    path = tmp_path / "m.db"
    sqlite3.connect(path).close()
    with opened(str(path), Settings()) as conn:
        conn.execute("select 1")
    with pytest.raises(sqlite3.ProgrammingError):
        conn.execute("select 1")
