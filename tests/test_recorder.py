"""The queue behind Datasette's answers: when it writes, what it does where it cannot."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import re
import shutil
import threading
import time
import weakref
from dataclasses import replace

import pytest
from datasette.database import Database
from datasette.utils.sqlite import sqlite3
from server_helpers import Server
from signal_log_helpers import old_memory
from test_recording import searched
from view_helpers import ONE_POINT_ZERO, as_actor, base

from datasette_limbic import (
    compat,
    connection,
    pruning,
    recorder,
    recording,
    schema,
    write_behind,
)
from datasette_limbic.config import Settings
from datasette_limbic.recorder import recorder_for
from datasette_limbic.recording import Recorded, Recording

NOW = "2026-11-29 12:00:00"


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    path = tmp_path_factory.mktemp("recorder") / "memory.db"
    conn = connection.connect(path, create=True)
    schema.init(conn)
    with conn:
        conn.executemany(
            "insert into entities(id, name, created_at) values (?, ?, ?)",
            [(i, f"e{i} boat", NOW) for i in range(1, 9)],
        )
    conn.close()
    return path


@pytest.fixture
def path(master, tmp_path):
    return shutil.copy(master, tmp_path / "memory.db")


@pytest.fixture
def datasette(path, make_datasette):
    return make_datasette(path)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Short times: the order of things is what is tested."""
    monkeypatch.setattr(write_behind, "LINGER_S", 0.05)


@pytest.fixture(autouse=True)
def _nothing_beside_the_point(capfd, recwarn, caplog):
    """No line on stderr, where 0.65 prints what a write raises, and no task left alone."""
    yield
    gc.collect()
    assert "never retrieved" not in caplog.text
    assert "was destroyed" not in caplog.text
    assert capfd.readouterr().err == ""
    assert [str(each.message) for each in recwarn if "await" in str(each.message)] == []


@pytest.fixture
def batches(monkeypatch):
    """Sizes of the transactions, as they are written."""
    found: list[int] = []
    write_all = recording.write_all

    def counting(conn, recordings):
        found.append(len(recordings))
        return write_all(conn, recordings)

    monkeypatch.setattr(recording, "write_all", counting)
    return found


@pytest.fixture
def gate(monkeypatch):
    """Writing waits until it is set; the writing thread never for ever."""
    opened = threading.Event()
    write_all = recording.write_all

    def waiting(conn, recordings):
        assert opened.wait(60)
        return write_all(conn, recordings)

    monkeypatch.setattr(recording, "write_all", waiting)
    yield opened
    opened.set()


@contextlib.contextmanager
def locked(path):
    """Another program that holds the file."""
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("begin immediate")
    try:
        yield conn
    finally:
        if conn.in_transaction:
            conn.execute("rollback")
        conn.close()


async def impatient(db, milliseconds=20):
    """Make the write connection give up on a lock soon."""
    await compat.execute_write(db, lambda c: c.execute(f"pragma busy_timeout = {milliseconds}"))


def count(path, table="entity_access_log"):
    conn = sqlite3.connect(path)
    try:
        return conn.execute(f"select count(*) from {table}").fetchone()[0]
    finally:
        conn.close()


async def until(condition, seconds=60):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not come to pass"
        await asyncio.sleep(0.005)


def use(*ids):
    return Recording(ids, NOW)


def memory(datasette):
    return recorder_for(datasette.get_database("memory"))


# Writing


async def test_it_lingers_and_writes_all_that_came_in_one_transaction(datasette, path, batches):
    found = memory(datasette)
    for _ in range(5):
        assert found.add(use(1, 2)) is None
    assert (found.waiting, found.written, batches) == (5, 0, [])
    await until(lambda: found.written == 5)
    assert (found.waiting, batches) == (0, [5])
    assert count(path) == 10


async def test_what_comes_while_it_writes_lingers_too(datasette, batches, gate):
    found = memory(datasette)
    found.add(use(1))
    await until(lambda: found._writing)
    for _ in range(3):
        found.add(use(2))
        await asyncio.sleep(0.01)
    assert found.waiting == 4
    gate.set()
    await until(lambda: found.written == 4)
    assert batches == [1, 3]


async def test_many_do_not_linger(datasette, batches, monkeypatch):
    monkeypatch.setattr(write_behind, "LINGER_S", 60)
    monkeypatch.setattr(write_behind, "MAX_BATCH", 10)
    found = memory(datasette)
    for _ in range(25):
        found.add(use(1))
    await until(lambda: found.written == 20)
    assert (batches, found.waiting) == ([10, 10], 5)
    await found.drain()
    assert (batches, found.waiting) == ([10, 10, 5], 0)


async def test_a_transaction_has_a_bound_of_rows(datasette, batches, monkeypatch):
    monkeypatch.setattr(write_behind, "BATCH_ROWS", 100)
    found = memory(datasette)
    # 1 + 8 + 28 pairs = 37 rows each
    for _ in range(5):
        found.add(use(*range(1, 9)))
    await found.drain()
    assert batches == [2, 2, 1]
    monkeypatch.setattr(write_behind, "BATCH_ROWS", 1)
    found.add(use(1, 2, 3))
    await found.drain()
    assert batches[-1] == 1


async def test_write_now_waits_for_its_own_alone(datasette, path, batches, monkeypatch):
    monkeypatch.setattr(write_behind, "LINGER_S", 60)
    found = memory(datasette)
    found.add(use(1))
    assert await found.write_now(searched("aa", (1, 2, 3))) == Recorded(3, 3, 0)
    assert batches == [2]
    assert count(path) == 4


async def test_drain_ends_while_more_keeps_coming(datasette, monkeypatch):
    """Whoever rates a result under load waits for what was there before."""
    monkeypatch.setattr(write_behind, "MAX_BATCH", 4)
    found = memory(datasette)
    stop = False

    async def busy():
        while not stop:
            while found.waiting < 40:
                found.add(use(1, 2))
            await asyncio.sleep(0.001)

    client = asyncio.create_task(busy())
    await until(lambda: found.waiting > 20)
    there = found._added
    await asyncio.wait_for(found.drain(), 20)
    assert found.written >= there
    stop = True
    await client
    await found.drain()
    assert found.waiting == 0


async def test_drain_of_nothing(datasette):
    await memory(datasette).drain()
    await recorder.drain(datasette)


async def test_a_search_is_waiting_until_its_transaction_has_ended(datasette, path, monkeypatch):
    found = memory(datasette)
    seen: list[bool] = []
    write_all = recording.write_all

    def looking(conn, recordings):
        seen.append(found.is_waiting("aa"))
        done = write_all(conn, recordings)
        seen.append(found.is_waiting("aa"))
        return done

    monkeypatch.setattr(recording, "write_all", looking)
    assert not found.is_waiting("aa")
    found.add(searched("aa", (1, 2)))
    found.add(use(1))
    assert found.is_waiting("aa")
    assert not found.is_waiting("bb")
    await found.drain()
    assert seen == [True, True]
    assert not found.is_waiting("aa")


async def test_opened_while_its_search_is_being_written(path, make_datasette, gate):
    """Neither waiting in line nor in the file: it is found all the same."""
    datasette = make_datasette(path)
    if ONE_POINT_ZERO:
        datasette.root_enabled = True
    await datasette.invoke_startup()
    cookies = as_actor(datasette, {"id": "root"})

    async def post(page, body):
        response = await datasette.client.post(
            f"{base(path)}/{page}",
            content=json.dumps(body),
            headers={"content-type": "application/json"},
            cookies=cookies,
        )
        assert response.status_code == 200, response.text
        return response.json()

    found = memory(datasette)
    search = await post("search", {"query": "boat", "mode": "text", "limit": 3})
    await until(lambda: found._writing)
    opened = await post("open", {"ids": [1], "search_id": search["search_id"]})
    assert opened["recorded"]["opened"] == 1
    assert opened["recorded"]["reason"] is None
    assert found._writing
    gate.set()
    rated = await post("feedback", {"search_id": search["search_id"], "id": 1, "rating": "useful"})
    assert rated["rating"] == "useful"
    await found.drain()
    assert count(path, "limbic_feedback") == 2


# What it cannot write


async def test_a_locked_file_is_tried_again(datasette, path, batches, caplog, monkeypatch):
    monkeypatch.setattr(write_behind, "TRIES", 100_000)  # however slow the machine is
    found = memory(datasette)
    await impatient(found.db)
    with locked(path):
        found.add(searched("aa", (1, 2)))
        await until(lambda: len(batches) == 1)
        await until(lambda: not found._writing)
        assert (found.failed, found.waiting) == (0, 1)
        assert found.is_waiting("aa")
    await until(lambda: found.written == 1)
    assert (found.failed, found.waiting, found._weight) == (0, 0, 0)
    assert caplog.text == ""
    assert count(path) == 2


async def test_a_file_locked_for_long_is_given_up_and_counted(datasette, path, batches, caplog):
    found = memory(datasette)
    await impatient(found.db)
    with locked(path):
        found.add(use(1, 2))
        found.add(use(3))
        await until(lambda: found.failed == 2)
    assert batches == [2] * write_behind.TRIES == [2, 2, 2]
    state = found.state()
    assert (state["written"], state["waiting"], state["failed"]) == (0, 0, 2)
    assert "locked" in state["last_error"]
    assert state["last_failed_at"]
    assert "2 uses of memory were not recorded: database is locked" in caplog.text
    # and goes on
    assert await found.write_now(use(1)) == Recorded(1, 0, 0)
    assert found.written == 1


async def test_the_order_stays_when_tried_again(datasette, path, monkeypatch):
    found = memory(datasette)
    monkeypatch.setattr(write_behind, "MAX_BATCH", 2)
    monkeypatch.setattr(write_behind, "TRIES", 100_000)
    await impatient(found.db)
    with locked(path):
        for i in range(1, 6):
            found.add(use(i))
        await until(lambda: found._waiting and found._waiting[0].tries)
        found.add(use(6))
    await found.drain()
    conn = sqlite3.connect(path)
    assert conn.execute("select entity_id from entity_access_log order by id").fetchall() == [
        (i,) for i in range(1, 7)
    ]
    conn.close()


async def test_whoever_waits_is_told_what_kept_it_out(datasette, path):
    found = memory(datasette)
    await impatient(found.db)
    with locked(path), pytest.raises(sqlite3.OperationalError, match="locked"):
        await found.write_now(use(1))
    assert found.failed == 1


async def test_one_that_fails_is_counted_alone(datasette, path, caplog):
    found = memory(datasette)
    found.add(searched("aa", (1, 2)))
    found.add(searched("aa", (1, 2)))
    with pytest.raises(sqlite3.IntegrityError, match="uid"):
        await found.write_now(searched("aa", (1,)))
    assert (found.written, found.failed) == (1, 2)
    assert "2 uses of memory were not recorded: UNIQUE" in caplog.text
    assert count(path) == 2


async def test_what_waits_is_bounded(datasette, monkeypatch, caplog):
    monkeypatch.setattr(write_behind, "MAX_WAITING", 10)
    monkeypatch.setattr(write_behind, "LINGER_S", 60)
    found = memory(datasette)
    for _ in range(3):
        assert found.add(use(1, 2)) is None  # 3 rows each
    assert found.add(use(1, 2)) == write_behind.TOO_MANY
    with pytest.raises(RuntimeError, match="send it again in a moment"):
        await found.write_now(use(1, 2))
    assert (found.waiting, found.failed) == (3, 2)
    # a flood of searches makes no flood of lines
    assert caplog.text.count("1 use of memory was not recorded: too many uses wait") == 1
    await found.drain()
    assert found.add(use(1, 2)) is None
    await found.drain()
    assert (found.written, found._weight) == (4, 0)
    # and is said once more after it went well
    for _ in range(5):
        found.add(use(1, 2))
    assert caplog.text.count("1 use of memory was not recorded: too many uses wait") == 2
    await found.drain()


async def test_long_texts_count_for_the_bound(datasette, monkeypatch):
    """A few searches of a megabyte each fill the memory as many small ones do."""
    monkeypatch.setattr(write_behind, "LINGER_S", 60)
    found = memory(datasette)
    taken = 0
    while found.add(long_search(taken)) is None:
        taken += 1
        assert taken < 1000
    assert taken * 1_000_000 <= write_behind.MAX_WAITING * recording.CHARACTERS
    assert taken > 10
    assert found.add(use(1)) is None  # a small one finds room
    await found.drain()
    assert (found._weight, found.written) == (0, taken + 1)


def long_search(number):
    entry = searched(f"s{number}", (1, 2))
    assert entry.search is not None
    return replace(entry, search=replace(entry.search, parameters="x" * 1_000_000))


async def test_what_went_past_the_queue_is_counted(datasette, caplog):
    found = memory(datasette)
    found.count()
    assert (found.written, found.failed, found.last_error) == (1, 0, None)
    found.count("database is locked")
    found.count("database is locked")
    state = found.state()
    assert (state["written"], state["failed"]) == (1, 2)
    assert state["last_error"] == "database is locked"
    assert state["last_failed_at"]
    assert caplog.text.count("1 use of memory was not recorded: database is locked") == 1
    found.count()
    found.count("database is locked")
    assert caplog.text.count("1 use of memory was not recorded: database is locked") == 2


async def test_what_is_being_written_counts_for_the_bound(datasette, monkeypatch):
    monkeypatch.setattr(write_behind, "MAX_WAITING", 10)
    found = memory(datasette)
    seen: list[int] = []
    write_all = recording.write_all

    def looking(conn, recordings):
        seen.append(found._weight)
        return write_all(conn, recordings)

    monkeypatch.setattr(recording, "write_all", looking)
    await found.write_now(use(1, 2))
    assert (seen, found._weight) == ([3], 0)


async def test_an_old_file_says_what_to_run(path, make_datasette, caplog):
    conn = sqlite3.connect(path)
    conn.execute("drop index limbic_searches_uid")
    conn.execute("alter table limbic_searches drop column uid")
    conn.commit()
    conn.close()
    found = memory(make_datasette(path))
    with pytest.raises(sqlite3.OperationalError):
        await found.write_now(searched("aa", (1,)))
    assert "memory lacks part of a memory (" in found.last_error
    assert "run 'datasette limbic init' on its file" in found.last_error
    # an access needs no uid
    assert await found.write_now(use(1)) == Recorded(1, 0, 0)


@pytest.mark.parametrize("wait", [True, False])
async def test_a_file_from_before_the_log_answers_and_says_what_to_run(
    tmp_path, make_datasette, wait
):
    """The same sentence wherever it is told, and the answer is there in each case."""
    path = old_memory(tmp_path / "old.db")
    datasette = make_datasette(path)
    if ONE_POINT_ZERO:
        datasette.root_enabled = True
    await datasette.invoke_startup()
    found = recorder_for(datasette.get_database("old"))

    async def post(page, actor="root", **body):
        response = await datasette.client.post(
            f"{base(path)}/{page}",
            content=json.dumps(body),
            headers={"content-type": "application/json"},
            cookies=as_actor(datasette, {"id": actor}),
        )
        assert response.status_code == 200, response.text
        return response.json()

    lacks = re.compile(
        r"old lacks part of a memory \(.*uid.*\): run 'datasette limbic init' on its"
    )
    answer = await post("search", query="Ana", mode="text", wait=wait)
    assert [row["name"] for row in answer["results"]] == ["Ana"]
    await found.drain()
    assert (found.written, found.failed) == (0, 1)
    assert lacks.match(found.last_error)
    if wait:
        assert answer["recorded"]["status"] == "failed"
        assert answer["recorded"]["reason"] == found.last_error
    opened = await post("open", names=["Ana"], search_id="0123", wait=wait)
    assert [each["name"] for each in opened["entities"]] == ["Ana"]
    assert opened["recorded"]["status"] == ("done" if wait else "queued")
    assert (opened["recorded"]["accesses"], opened["recorded"]["opened"]) == (1, 0)
    assert lacks.match(opened["recorded"]["reason"])
    await found.drain()
    assert (found.written, found.failed, count(path)) == (1, 1, 1)
    # nor does the log of searches keep from answering whoever may not record
    other = await post("open", actor="somebody", names=["Ana"], search_id="0123", wait=wait)
    assert [each["name"] for each in other["entities"]] == ["Ana"]
    assert "limbic-record" in other["recorded"]["reason"]


ERRORS = [
    (sqlite3.OperationalError("database is locked"), 3),
    (sqlite3.OperationalError("database table is locked: entities"), 3),
    (sqlite3.OperationalError("database or disk is full"), 1),
    (sqlite3.OperationalError("disk I/O error"), 1),
    (sqlite3.OperationalError("table limbic_searches has no column named uid"), 1),
    (sqlite3.OperationalError("attempt to write a readonly database"), 1),
    (sqlite3.DatabaseError("database disk image is malformed"), 1),
    (sqlite3.IntegrityError("the trigger says: locked"), 1),
    (RuntimeError("the cupboard is locked"), 1),
]


@pytest.mark.parametrize(("error", "tries"), ERRORS, ids=[str(each) for each, _ in ERRORS])
async def test_only_what_another_program_locks_is_tried_again(datasette, monkeypatch, error, tries):
    made = []

    def failing(conn, recordings):
        made.append(len(recordings))
        raise error

    monkeypatch.setattr(recording, "write_all", failing)
    found = memory(datasette)
    found.add(use(2))
    with pytest.raises(type(error)):
        await found.write_now(use(1))
    assert made == [2] * tries
    assert (found.failed, found.waiting, found._weight) == (2, 0, 0)


async def test_there_is_a_pause_between_tries(datasette, monkeypatch):
    """A database that says at once that it is locked must not use up all tries at once."""
    monkeypatch.setattr(write_behind, "LINGER_S", 0.2)
    at = []

    def failing(conn, recordings):
        at.append(time.monotonic())
        raise sqlite3.OperationalError("database table is locked")

    monkeypatch.setattr(recording, "write_all", failing)
    with pytest.raises(sqlite3.OperationalError):
        await memory(datasette).write_now(use(1))
    assert len(at) == 3
    assert min(later - sooner for sooner, later in itertools.pairwise(at)) > 0.15


async def test_a_database_closed_while_something_waits(datasette):
    """Datasette 1.0 refuses what comes after closing; 0.65 has a connection that is closed."""
    found = memory(datasette)
    await found.write_now(use(1))
    found.add(use(1))
    found.db.close()
    await found.drain()
    assert (found.waiting, found.written, found.failed) == (0, 1, 1)
    assert "closed" in found.last_error


async def test_a_database_removed_while_something_waits(datasette, path):
    found = memory(datasette)
    found.add(use(1))
    datasette.remove_database("memory")
    await recorder.drain(datasette)
    assert found.waiting == 0
    assert found.written + found.failed == 1
    assert found.failed == (1 if ONE_POINT_ZERO else 0)


async def test_a_database_added_while_draining(datasette, path, tmp_path):
    """The list of databases may change while it waits."""
    memory(datasette).add(use(1))
    draining = asyncio.create_task(recorder.drain(datasette))
    await asyncio.sleep(0)
    second = shutil.copy(path, tmp_path / "second.db")
    db = datasette.add_database(Database(datasette, path=str(second)))
    await draining
    assert memory(datasette).written == 1
    db.close()


async def test_one_locked_database_keeps_no_other_from_draining(path, tmp_path, make_datasette):
    second = shutil.copy(path, tmp_path / "second.db")
    datasette = make_datasette(path, second)
    first, other = (recorder_for(datasette.get_database(n)) for n in ("memory", "second"))
    await impatient(first.db, 60_000)
    with locked(path):
        first.add(use(1))
        other.add(use(1))
        draining = asyncio.create_task(recorder.drain(datasette))
        await until(lambda: other.written == 1)
        assert first.waiting == 1
    await draining
    assert first.written == 1


# Loops, cancelling, life and death


async def test_a_waiter_that_is_cancelled_stops_no_writing(datasette, path):
    found = memory(datasette)
    await impatient(found.db, 60_000)
    with locked(path):
        now = asyncio.create_task(found.write_now(use(1)))
        drain = asyncio.create_task(found.drain())
        await until(lambda: found._writing)
        for task in (now, drain):
            task.cancel()
        results = await asyncio.gather(now, drain, return_exceptions=True)
        assert [type(each) for each in results] == [asyncio.CancelledError] * 2
        assert found.waiting == 1
    await until(lambda: found.written == 1)
    assert (found.failed, count(path)) == (0, 1)


def test_two_event_loops_one_after_the_other(path, make_datasette):
    datasette = make_datasette(path)
    found = memory(datasette)

    async def add_and_leave():
        found.add(use(1, 2))

    async def add_and_drain():
        found.add(use(1))
        await found.drain()

    for _ in range(2):
        asyncio.run(add_and_leave())
    assert (found.waiting, found.written) == (2, 0)
    asyncio.run(add_and_drain())
    assert (found.waiting, found.written, found._weight) == (0, 3, 0)
    asyncio.run(found.drain())
    asyncio.run(add_and_drain())
    assert (found.written, found.failed) == (4, 0)


def test_a_loop_that_ends_amid_a_transaction(path, make_datasette):
    """Whether that was written is not known, so it is said and not tried again."""
    datasette = make_datasette(path)
    found = memory(datasette)

    async def leave():
        await impatient(found.db, 1000)
        found.add(use(1))
        await until(lambda: found._writing)

    with locked(path):
        asyncio.run(leave())
    assert (found.failed, found.waiting, found._weight) == (1, 0, 0)
    assert found.last_error == write_behind.CUT_OFF

    async def go_on():
        return await asyncio.wait_for(found.write_now(use(1, 2)), 10)

    assert asyncio.run(go_on()) == Recorded(2, 1, 0)
    assert found.written == 1


def test_a_loop_that_is_closed_and_not_ended(path, make_datasette, gate):
    datasette = make_datasette(path)
    found = memory(datasette)
    loop = asyncio.new_event_loop()

    async def leave():
        found.add(use(1))
        await until(lambda: found._writing)

    loop.run_until_complete(leave())
    unfinished = asyncio.all_tasks(loop)
    gate.set()
    # another loop meanwhile, until the writing thread is done with it and has said so
    asyncio.run(until(lambda: count(path) == 1))
    asyncio.run(asyncio.sleep(0.2))
    for task in unfinished:
        task._log_destroy_pending = False  # what the loop's owner did wrong is not ours
    loop.close()
    assert asyncio.run(found.write_now(use(2))) == Recorded(1, 0, 0)
    assert (found.written, found.failed, found.waiting, found._weight) == (1, 1, 0, 0)


async def test_a_database_that_is_gone_takes_its_recorder_along(datasette, path, tmp_path):
    """Each of the two holds the other; nothing else may hold one of them."""
    second = shutil.copy(path, tmp_path / "second.db")
    db = datasette.add_database(Database(datasette, path=str(second)))
    found = recorder_for(db)
    assert recorder_for(db) is found
    if ONE_POINT_ZERO:  # 0.65 has a thread for writes that never ends and holds its database
        await found.write_now(use(1))
        await asyncio.sleep(0.01)  # its task ends a moment later
    datasette.remove_database("second")
    gone = weakref.ref(found), weakref.ref(db)
    del found, db
    gc.collect()
    assert [each() for each in gone] == [None, None]


async def test_without_threads(path, make_datasette, batches):
    datasette = make_datasette(path, settings={"num_sql_threads": 0})
    found = memory(datasette)
    found.add(use(1, 2))
    assert await found.write_now(use(1)) == Recorded(1, 0, 0)
    assert batches == [2]
    found.add(use(3))
    await until(lambda: found.written == 3)
    await impatient(found.db)
    with locked(path):
        found.add(use(4))
        await until(lambda: found.failed == 1)
    assert count(path) == 4


async def test_shutting_down_writes_what_waits(datasette, path, monkeypatch):
    monkeypatch.setattr(write_behind, "LINGER_S", 60)
    found = memory(datasette)
    found.add(use(1, 2))
    said: list[str] = []
    messages = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive():
        return {"type": next(messages)}

    async def send(message):
        said.append(message["type"])
        if message["type"] == "lifespan.startup.complete":
            assert count(path) == 0

    await datasette.app()({"type": "lifespan"}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert found.written == 1
    assert count(path) == 2


async def test_shutting_down_waits_for_a_locked_file_only_so_long(
    datasette, path, monkeypatch, caplog
):
    monkeypatch.setattr(recorder, "SHUTDOWN_S", 0.2)
    found = memory(datasette)
    await impatient(found.db, 60_000)
    with locked(path):
        found.add(use(1))
        await shut_down(datasette)
        assert found.waiting == 1  # it is still being tried
    assert "1 use was not recorded before the server stopped" in caplog.text
    await found.drain()
    assert found.written == 1


async def shut_down(datasette):
    async def app(scope, receive, send):
        assert (await receive())["type"] == "lifespan.shutdown"

    async def receive():
        return {"type": "lifespan.shutdown"}

    await recorder.wrap(datasette, app)({"type": "lifespan"}, receive, None)


async def test_shutting_down_ends_what_is_pruned(datasette, path, monkeypatch, caplog):
    """Endless work, of which one piece is finished."""
    pieces = []

    def step(self, conn):
        pieces.append(count(path))
        return True

    monkeypatch.setattr(pruning.Pruning, "step", step)
    found = recorder_for(datasette.get_database("memory"), Settings(log_retention_days=1))
    await found.write_now(use(1))
    await until(lambda: len(pieces) > 2)
    await shut_down(datasette)
    made = len(pieces)
    found.retention.start()
    await asyncio.sleep(0.2)
    assert len(pieces) == made
    assert found.retention._running() is None
    assert caplog.text == ""


async def test_other_messages_pass_untouched(datasette):
    seen = []

    async def app(scope, receive, send):
        seen.append((scope["type"], receive, send))

    await recorder.wrap(datasette, app)({"type": "http"}, "receive", "send")
    assert seen == [("http", "receive", "send")]


def test_a_server_that_is_told_to_stop_writes_what_waits(path, tmp_path):
    with Server(path, tmp_path) as server:
        answers = [server.search("boat", limit=3) for _ in range(4)]
        server.stop()
    assert {each["recorded"]["status"] for each in answers} == {"queued"}
    assert count(path) == 12
    assert count(path, "limbic_searches") == 4
    assert "Traceback" not in server.log()
