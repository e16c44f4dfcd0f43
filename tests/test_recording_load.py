"""Many clients on one server while another program writes: no count is lost, nobody is refused.

Real processes, real HTTP. What clients were told is compared with what stands in the file.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from server_helpers import Client, Server

from datasette_limbic import connection, schema

# minutes in all: CI runs these on both lines, and leaves them out on further Pythons
pytestmark = pytest.mark.slow

NOW = "2026-11-29 12:00:00"
COLOURS = "red blue green white black amber azure ivory olive coral".split()
THINGS = "boat house kite lamp chair river".split()
LIMIT = 10
FULL = pytest.mark.load

# Another program: transactions of observations, each of which holds the lock for a while.
WRITER = """
import random, sys, time
from datasette.utils.sqlite import sqlite3
conn = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
print("ready", flush=True)
while True:
    conn.execute("begin immediate")
    for n in range(5):
        conn.execute(
            "insert into observations(entity_id, content) values (?, ?)",
            [random.randint(1, 60), f"seen again, {n}"],
        )
        time.sleep(0.008)
    conn.execute("commit")
    time.sleep(random.random() * 0.03)
"""


@dataclass
class Heard:
    """What the clients were told."""

    answers: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@pytest.fixture
def memory(request, tmp_path):
    """Sixty entities, in rollback-journal mode and in WAL mode."""
    path = tmp_path / "memory.db"
    conn = connection.connect(path, create=True)
    schema.init(conn)
    names = [f"{colour} {thing}" for thing in THINGS for colour in COLOURS]
    with conn:
        conn.executemany(
            "insert into entities(id, name, created_at) values (?, ?, ?)",
            [(i, name, NOW) for i, name in enumerate(names, 1)],
        )
        conn.executemany(
            "insert into observations(entity_id, content, created_at) values (?, ?, ?)",
            [(i, f"the {name} was there", NOW) for i, name in enumerate(names, 1)],
        )
    assert conn.execute(f"pragma journal_mode = {request.param}").fetchone()[0] == request.param
    conn.close()
    return path


@contextlib.contextmanager
def another_writer(path: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        assert process.poll() is None, "the other program fell over"
    finally:
        process.kill()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def searching(server: Server, number: int, times: int, heard: Heard) -> None:
    """One client: so many searches over one connection."""
    try:
        with Client(server) as client:
            for turn in range(times):
                query = (*THINGS, *COLOURS)[(number * 5 + turn) % (len(THINGS) + len(COLOURS))]
                heard.answers.append(client.search(query, limit=LIMIT, client=f"c{number}"))
    except Exception as error:
        heard.errors.append(f"client {number}: {error!r}")


def together(servers: list[Server], clients: int, times: int, heard: Heard) -> list[Any]:
    threads = [
        threading.Thread(target=searching, args=(servers[n % len(servers)], n, times, heard))
        for n in range(clients)
    ]
    for thread in threads:
        thread.start()
    return threads


def figures(path: Path) -> dict[str, Any]:
    conn = sqlite3.connect(path)
    try:
        one = {
            "integrity": "pragma integrity_check",
            "foreign": "select count(*) from pragma_foreign_key_check",
            "access": "select total(access_count) from entity_access",
            "log": "select count(*) from entity_access_log",
            "pairs": "select total(co_count) from co_occurrences",
            "searches": "select count(*) from limbic_searches",
            "uids": "select count(distinct uid) from limbic_searches",
            "candidates": "select count(*) from limbic_search_candidates",
            "returned": "select total(returned) from limbic_search_candidates",
            "seen": "select count(*) from observations where content like 'seen again%'",
        }
        return {name: conn.execute(sql).fetchone()[0] for name, sql in one.items()}
    finally:
        conn.close()


def per_search(path: Path) -> dict[str, tuple[int, int]]:
    """uid → candidates and returned ones."""
    conn = sqlite3.connect(path)
    try:
        return {
            uid: (pool, int(returned))
            for uid, pool, returned in conn.execute(
                """select s.uid, count(c.entity_id), total(c.returned) from limbic_searches s
                left join limbic_search_candidates c on c.search_id = s.id group by s.id"""
            )
        }
    finally:
        conn.close()


def pairs(count: int) -> int:
    return count * (count - 1) // 2


def assert_nothing_is_lost(path: Path, heard: Heard, searches: int) -> None:
    assert heard.errors == []
    assert len(heard.answers) == searches
    shown = [len(answer["results"]) for answer in heard.answers]
    assert min(shown) > 1
    assert {answer["recorded"]["status"] for answer in heard.answers} == {"queued"}
    found = figures(path)
    assert found["integrity"] == "ok"
    assert found["foreign"] == 0
    assert found["searches"] == found["uids"] == searches
    assert found["access"] == found["log"] == found["returned"] == sum(shown)
    assert found["pairs"] == sum(map(pairs, shown))
    pools = {answer["search_id"]: answer["candidates"] for answer in heard.answers}
    assert {uid: pool for uid, (pool, _) in per_search(path).items()} == pools
    # each entity and each pair, not the sums alone
    by_entity, by_pair = counted(heard)
    conn = sqlite3.connect(path)
    assert dict(conn.execute("select entity_id, access_count from entity_access")) == by_entity
    assert {(a, b): n for a, b, n, _ in conn.execute("select * from co_occurrences")} == by_pair
    conn.close()


def counted(heard: Heard) -> tuple[dict[int, int], dict[tuple[int, int], int]]:
    by_entity: dict[int, int] = {}
    by_pair: dict[tuple[int, int], int] = {}
    for answer in heard.answers:
        ids = sorted(row["id"] for row in answer["results"])
        for entity in ids:
            by_entity[entity] = by_entity.get(entity, 0) + 1
        for pair in combinations(ids, 2):
            by_pair[pair] = by_pair.get(pair, 0) + 1
    return by_entity, by_pair


def assert_quiet(server: Server) -> None:
    log = server.log()
    for word in ("locked", "Traceback", "not recorded", "never retrieved", "Exception"):
        assert word not in log, log[-3000:]


def sizes(journal, small, full):
    """A small run in one journal mode; with --load, a full one in both."""
    return [
        pytest.param(journal, *small, id=f"{journal}-small"),
        *(pytest.param(mode, *full, id=f"{mode}-full", marks=FULL) for mode in ("delete", "wal")),
    ]


@pytest.mark.parametrize(
    ("memory", "clients", "times"), sizes("delete", (4, 25), (8, 500)), indirect=["memory"]
)
def test_no_count_is_lost_while_another_program_writes(memory, tmp_path, clients, times):
    heard = Heard()
    with Server(memory, tmp_path) as server, another_writer(memory):
        for thread in together([server], clients, times, heard):
            thread.join()
        server.stop()
    assert_quiet(server)
    assert_nothing_is_lost(memory, heard, clients * times)
    assert figures(memory)["seen"] > 0


@pytest.mark.parametrize(
    ("memory", "clients", "times"), sizes("wal", (4, 25), (8, 500)), indirect=["memory"]
)
def test_two_servers_on_one_file_lose_no_count(memory, tmp_path, clients, times):
    heard = Heard()
    with Server(memory, tmp_path, "one") as one, Server(memory, tmp_path, "two") as two:
        for thread in together([one, two], clients, times, heard):
            thread.join()
        one.stop()
        two.stop()
    assert_quiet(one)
    assert_quiet(two)
    assert_nothing_is_lost(memory, heard, clients * times)


def assert_consistent(path: Path, heard: Heard) -> int:
    """Whole transactions alone stand in the file; how many searches."""
    found, logged = figures(path), per_search(path)
    assert found["integrity"] == "ok"
    assert found["foreign"] == 0
    assert found["access"] == found["log"] == found["returned"]
    assert found["pairs"] == sum(pairs(returned) for _, returned in logged.values())
    for answer in heard.answers:
        if answer["search_id"] in logged:
            expected = (answer["candidates"], len(answer["results"]))
            assert logged[answer["search_id"]] == expected
    return len(logged)


@pytest.mark.parametrize(
    ("memory", "clients", "times", "kills"),
    sizes("wal", (4, 1000, 1), (8, 1000, 6)),
    indirect=["memory"],
)
def test_a_server_killed_under_load_leaves_whole_transactions(
    memory, tmp_path, clients, times, kills
):
    all_heard, last = Heard(), 0
    with another_writer(memory):
        for _ in range(kills):
            heard = Heard()
            with Server(memory, tmp_path) as server:
                threads = together([server], clients, times, heard)
                ends = time.monotonic() + 60
                while figures_soon(memory) < last + 20:
                    assert time.monotonic() < ends, heard.errors
                    time.sleep(0.02)
                server.kill()
                for thread in threads:
                    thread.join()
            # every client was cut off, and none for another reason before
            assert len(heard.errors) == clients
            assert not any("locked" in error or "assert" in error for error in heard.errors)
            all_heard.answers += heard.answers
            now = assert_consistent(memory, all_heard)
            assert last < now <= len(all_heard.answers) + clients * kills
            last = now
        heard = Heard()
        with Server(memory, tmp_path) as server:
            for thread in together([server], clients, 5, heard):
                thread.join()
            server.stop()
    assert heard.errors == []
    all_heard.answers += heard.answers
    assert assert_consistent(memory, all_heard) == last + clients * 5
    assert_quiet(server)


def figures_soon(path: Path) -> int:
    conn = sqlite3.connect(path, timeout=30)
    try:
        return int(conn.execute("select count(*) from limbic_searches").fetchone()[0])
    finally:
        conn.close()
