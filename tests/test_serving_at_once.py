"""Many threads, connections and programs at once on one file: each answer is as if alone."""

from __future__ import annotations

import os
import shutil
import sqlite3 as stock_sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy
import pytest
from retrieval_helpers import (
    SETTINGS,
    add,
    agrees,
    ask,
    asked_with,
    brute,
    clustered,
    forget_what_is_held,
    memory,
    opened,
    with_index,
)
from view_helpers import post, recording_datasette

from benchmarks import serving
from datasette_limbic import connection, search
from datasette_limbic.config import Settings
from datasette_limbic.retrieval import approximate, base, builds, held, in_memory

CLIENTS = 8
ROWS = clustered(600)
QUESTIONS = clustered(16, seed=7)
LOADERS = {"approximate": approximate, "memory": in_memory}


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = memory(tmp_path_factory.mktemp("at-once") / "memory.db", ROWS)
    with_index(made)
    return made


@pytest.fixture(params=["delete", "wal"])
def path(request: pytest.FixtureRequest, master: Path, tmp_path: Path) -> Path:
    """A memory with an approximate index, in both journal modes."""
    made = Path(shutil.copy(master, tmp_path / "memory.db"))
    journal(made, request.param)
    return made


def journal(path: Path, mode: str) -> None:
    with closing(stock_sqlite3.connect(path)) as conn:
        assert conn.execute(f"pragma journal_mode={mode}").fetchone() == (mode,)


def use(conn: Any, count: int) -> None:
    """Note a use, as recording does."""
    conn.execute(
        "insert into entity_access(entity_id, access_count, last_access)"
        " values (1, ?1, datetime('now')) on conflict do update set access_count = ?1",
        [1 + count],
    )
    conn.commit()


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """What eight threads answer that begin at the same moment."""
    ready = threading.Barrier(CLIENTS)

    def one(number: int) -> Any:
        ready.wait(30)
        return work(number)

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(one, range(CLIENTS)))


@pytest.mark.parametrize("name", sorted(LOADERS))
def test_eight_threads_load_once_and_answer_as_one_alone(
    name: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retriever, loads = asked_with(name), []
    read = LOADERS[name].read  # type: ignore[attr-defined]

    def counted(*given: Any) -> Any:
        loads.append(given)
        return read(*given)

    monkeypatch.setattr(LOADERS[name], "read", counted)

    def work(number: int) -> list[Any]:
        with opened(path, readonly=True) as conn:
            order = numpy.roll(numpy.arange(len(QUESTIONS)), number)
            found = {int(n): ask(retriever, conn, QUESTIONS[n]) for n in order}
            return [found[n] for n in range(len(QUESTIONS))]

    answers = at_once(work)
    assert len(loads) == 1
    for answer in answers:
        for found, wanted in zip(answer, answers[0], strict=True):
            agrees(found, wanted)  # but for the last digit: numpy adds up in more than one order
    with opened(path) as conn:
        for question, found in zip(QUESTIONS, answers[0], strict=True):
            agrees(found, brute(conn, question, 10))


@pytest.mark.parametrize("name", sorted(LOADERS))
def test_a_writer_meanwhile(name: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread syncs new rows and notes uses: whoever asks afterwards finds what is there by
    then, and nothing is loaded again for a few of them."""
    retriever, writes, loads = asked_with(name), 12, []
    read = LOADERS[name].read  # type: ignore[attr-defined]
    monkeypatch.setattr(LOADERS[name], "read", lambda *given: loads.append(1) or read(*given))
    written = threading.Semaphore(0)
    done: list[int] = []

    def write() -> None:
        with opened(path) as conn:
            for n in range(writes):
                add(conn, {1000 + n: QUESTIONS[n]})
                use(conn, n)
                done.append(n)
                written.release(CLIENTS)

    def work(number: int) -> int:
        if number == 0:
            write()
            return 0
        with opened(path, readonly=True) as conn:
            for _ in range(writes):
                assert written.acquire(timeout=30)
                newest = done[-1]
                found = ask(retriever, conn, QUESTIONS[newest], 3)
                assert found[0].id == 1000 + newest
                assert found[0].distance < 1e-5
        return 1

    assert sum(at_once(work)) == CLIENTS - 1
    assert len(loads) == 1


def test_uses_that_are_recorded_read_no_vector_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections share what changed since the index was made, until vectors change again."""
    reads: list[Any] = []
    overlay = base.overlay
    monkeypatch.setattr(base, "overlay", lambda *given: reads.append(given) or overlay(*given))
    retriever = asked_with("approximate")
    with opened(path) as writer, opened(path) as one, opened(path) as two:
        add(writer, {2000: QUESTIONS[0]})
        for turn in range(3):
            for conn in (one, two):
                assert ask(retriever, conn, QUESTIONS[0], 1)[0].id == 2000
            use(writer, turn)
        assert len(reads) == 1
        add(writer, {2001: QUESTIONS[1]})
        for conn in (one, two):
            assert ask(retriever, conn, QUESTIONS[1], 1)[0].id == 2001
        assert len(reads) == 2
        # what waits for a sync may change again unseen by the log: then each looks for itself
        writer.execute("update entities set archived_at = datetime('now') where id = 2001")
        writer.commit()
        for conn in (one, two):
            assert ask(retriever, conn, QUESTIONS[1], 1)[0].id != 2001
        assert len(reads) == 4


def test_what_a_sync_appends_is_not_loaded_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes that are kept serve on, with what was appended compared exactly; up to a bound."""
    from datasette_limbic.retrieval.building import FOLD_FROM, keep_in_step

    retriever = asked_with("approximate")
    new = clustered(FOLD_FROM, seed=9)
    # so that recall is not measured again, which changes how many vectors pass each sieve
    monkeypatch.setattr("datasette_limbic.retrieval.building.MEASURE_AGAIN", 100)
    with opened(path) as conn:
        first = retriever._codes(conn, SETTINGS)
        add(conn, {3000 + n: row for n, row in enumerate(new)})
        after = keep_in_step(conn)
        assert after is not None
        assert after.vectors == len(ROWS) + len(new)
        assert retriever._codes(conn, SETTINGS) is first
        for question in QUESTIONS:
            agrees(ask(retriever, conn, question), brute(conn, question, 10))
        monkeypatch.setattr(base, "MOST_CHANGED", FOLD_FROM - 1)
        add(conn, {5000: QUESTIONS[0]})
        assert retriever._codes(conn, SETTINGS) is not first
        assert len(retriever._codes(conn, SETTINGS).ids) == len(ROWS) + len(new)
        builds.change(conn, after.build, rescored=(after.rescored or 0) + 1)
        conn.commit()
        assert retriever._codes(conn, SETTINGS).build.rescored == (after.rescored or 0) + 1


def test_a_file_put_in_the_place_of_another(path: Path, models: Any) -> None:
    """A connection reads on in the file that it opened, and the answer says so."""
    journal(path, "delete")
    other = memory(path.with_name("other.db"), ROWS[:50])
    settings = Settings(retriever="memory")
    forget_what_is_held()
    with opened(path, readonly=True) as old:
        before = search.search(old, "entity 400", settings=settings, mode="text")
        assert before["degraded"] is None
        assert held.replaced(old) is None
        key = held.file_key(old)
        os.replace(other, path)
        with opened(path, readonly=True) as new:
            assert held.file_key(old) == key != held.file_key(new)
            for _ in range(2):  # in turn: neither is given what was loaded for the other
                assert len(in_memory_ids(old)) == len(ROWS)
                assert len(in_memory_ids(new)) == 50
            after = search.search(old, "entity 400", settings=settings, mode="text")
            assert after["results"][0]["name"] == "entity 400"
            assert "the old one was searched" in after["degraded"]
            found = search.search(new, "entity 400", settings=settings, mode="text")
            assert found["degraded"] is None
            assert all(row["name"] != "entity 400" for row in found["results"])
        path.unlink()
        assert "replaced or deleted" in (held.replaced(old) or "")


async def test_nothing_is_recorded_in_a_file_that_was_replaced(
    path: Path, make_datasette: Callable[..., Any]
) -> None:
    """With a WAL the new file would get pages of the old one."""
    datasette = recording_datasette(make_datasette, path)
    await datasette.invoke_startup()
    address = f"/{path.stem}/-/limbic/search"
    body = {"query": "entity", "mode": "text", "wait": True}
    answer = (await post(datasette, address, body)).json()
    assert answer["recorded"]["status"] == "done", answer
    other = path.with_name("other.db")
    copy_of(path, other)
    before = other.read_bytes()
    os.replace(other, path)
    answer = (await post(datasette, address, body)).json()
    assert answer["recorded"]["status"] == "failed"
    assert "replaced or deleted" in answer["recorded"]["reason"]
    assert len(answer["results"]) == 10
    assert path.read_bytes() == before


KEPT = asked_with("memory")


def in_memory_ids(conn: Any) -> Any:
    return KEPT._matrix(conn, SETTINGS).ids


@pytest.mark.parametrize("name", sorted(LOADERS))
def test_an_immutable_file(name: str, path: Path) -> None:
    """Opened as ``datasette -i`` does: the same answers, and blind to a WAL beside it."""
    retriever = asked_with(name)
    uri = f"file:{path}?immutable=1"
    is_wal = journal_of(path) == "wal"
    # a connection stays open: the last one that closes takes the WAL into the file
    with opened(path) as writer:
        expected = [brute(writer, question, 10) for question in QUESTIONS]
        if is_wal:
            add(writer, {4000: QUESTIONS[0]})
            assert path.with_name(path.name + "-wal").stat().st_size
        with closing(connection.sqlite3.connect(uri, uri=True)) as conn:
            connection.prepare(conn)
            assert retriever.unusable(conn, SETTINGS) is None
            for question, wanted in zip(QUESTIONS, expected, strict=True):
                agrees(ask(retriever, conn, question), wanted)


def journal_of(path: Path) -> str:
    with closing(stock_sqlite3.connect(path)) as conn:
        return str(conn.execute("pragma journal_mode").fetchone()[0])


def test_a_copy_made_while_it_is_searched_and_taken_over_in_place(path: Path) -> None:
    """SQLite's backup, out of a memory in use and into one: no connection is opened anew."""
    retriever, copy = asked_with("approximate"), path.with_name("copy.db")

    def work(number: int) -> None:
        if number == 0:
            copy_of(path, copy)
            return
        with opened(path, readonly=True) as conn:
            for question in QUESTIONS:
                agrees(ask(retriever, conn, question), brute(conn, question, 10))

    at_once(work)
    with opened(copy) as conn:
        assert approximate.Approximate().unusable(conn, SETTINGS) is None
        for question in QUESTIONS[:4]:
            agrees(ask(retriever, conn, question), brute(conn, question, 10))
    with opened(path, readonly=True) as reader:
        ask(retriever, reader, QUESTIONS[0])
        with opened(copy) as conn:
            add(conn, {4000: QUESTIONS[0]})
        copy_of(copy, path)
        assert ask(retriever, reader, QUESTIONS[0], 1)[0].id == 4000
        assert held.replaced(reader) is None


def copy_of(source: Path, target: Path) -> None:
    with (
        closing(stock_sqlite3.connect(source, timeout=30)) as one,
        closing(stock_sqlite3.connect(target, timeout=30)) as two,
    ):
        one.backup(two)


def test_a_connection_keeps_little_of_the_file_in_memory(path: Path) -> None:
    """The cache is each SQL thread's own; what is written stays in it until it is committed."""
    with opened(path) as conn:
        cache = -conn.execute("pragma cache_size").fetchone()[0]
        spill = conn.execute("pragma cache_spill").fetchone()[0] * 4096
        assert CLIENTS * cache <= 128 << 10
        assert spill > 50 << 20


@pytest.mark.load
@pytest.mark.parametrize("name", ["approximate", "memory", "vec0"])
def test_eight_clients_at_a_server(name: str, path: Path, tmp_path: Path) -> None:
    """A real server, eight clients that record, and another program that writes meanwhile."""
    with opened(path) as conn:  # the packaged model's vectors have 512 values
        before = conn.execute("select count(*) from limbic_searches").fetchone()[0]
    rows = clustered(3000, 512)
    large = memory(tmp_path / "large.db", rows, model="limbic-multilingual")
    with_index(large)
    journal(large, journal_of(path))
    texts = [f"entity {n}" for n in range(1, 400)]
    # what is asked here is whether all is answered, not how fast on a busy machine
    settings = {"retriever": name, "knn_time_limit_ms": 60_000}
    with (
        serving.serve(large, tmp_path, settings=settings, record=True) as running,
        ExitStack() as open_ones,
    ):
        clients = [
            open_ones.enter_context(
                serving.Client(running.port, "large", texts[n::CLIENTS], record=True)
            )
            for n in range(CLIENTS)
        ]
        stop = threading.Event()

        def write() -> None:
            with closing(stock_sqlite3.connect(large, timeout=30)) as conn:
                while not stop.wait(0.2):
                    conn.execute("insert into observations(entity_id, content) values (1, 'seen')")
                    conn.commit()

        writer = threading.Thread(target=write)
        writer.start()
        heard, _ = serving.searching(clients, 20, 400)
        stop.set()
        writer.join(30)
    assert heard.errors == []
    assert heard.degraded == []
    assert heard.retrievers == {name}
    with opened(large) as conn:
        logged = conn.execute("select count(*) from limbic_searches").fetchone()[0]
    assert logged - before == len(heard.ms)
