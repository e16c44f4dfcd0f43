"""What takes seconds to compute: one at a time, once, and not without bounds."""

from __future__ import annotations

import asyncio
import threading

import pytest

from datasette_limbic.errors import Busy
from datasette_limbic.views.working import Worker


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
