"""What recording costs: POST against GET on one server, over keep-alive HTTP, and file growth.

A real ``datasette serve`` answers. The vector of the query is in its cache, as for a query that
was asked before. POST is compared twice: *in turn* with GET, where both meet the writing that
goes on behind the answers, and in *blocks* of one kind, where POST alone meets it.
"""

from __future__ import annotations

import itertools
import json
import sqlite3 as stock_sqlite3
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlencode

from datasette.app import Datasette

from datasette_limbic import connection, serving, write_behind

from . import memory
from .server import Connected, at_once, server

SECRET = "benchmark"
AS_ROOT = ("--root", "--secret", SECRET)
LIMIT = 10
CLIENTS = 8
MOST_SEARCHES = 200_000
"""Of all clients at once, however fast they are answered."""
TARGET = 1.10
PAUSE_S = write_behind.LINGER_S + 0.6  # what was recorded is written by then
PLUGIN = """import json, pathlib
from benchmarks import memory
memory.BenchmarkModel.known.update(json.loads(pathlib.Path({known!r}).read_text()))
memory.register_model()
"""
# tables that a recorded search writes to, and their indexes
WRITTEN = (
    "entity_access",
    "entity_access_log",
    "co_occurrences",
    "limbic_searches",
    "limbic_search_candidates",
)


class Client(Connected):
    """A connection, signed in as root."""

    def __init__(self, port: int, path: str) -> None:
        super().__init__(port)
        self.path = path
        actor = Datasette(secret=SECRET).sign({"a": {"id": "root"}}, "actor")
        self.cookie = {"cookie": f"ds_actor={actor}"}

    def search(self, query: str) -> None:
        """By GET."""
        url = f"{self.path}.json?{urlencode({'q': query, 'limit': LIMIT})}"
        _checked(*self.ask(url, headers=self.cookie))

    def post(self, query: str) -> None:
        answer = _checked(*self.ask(self.path, {"query": query, "limit": LIMIT}, self.cookie))
        assert answer["recorded"]["status"] == "queued", answer["recorded"]

    def post_without_permission(self, query: str) -> None:
        answer = _checked(*self.ask(self.path, {"query": query, "limit": LIMIT}))
        assert answer["recorded"]["status"] == "nothing", answer["recorded"]


def _checked(status: int, body: bytes, _: float) -> Any:
    assert status == 200, body[:500]
    answer = json.loads(body)
    assert len(answer["results"]) == LIMIT, answer["reason"]
    assert answer["degraded"] is None, answer["degraded"]
    return answer


def run(folder: Path, sizes: tuple[int, ...], quick: bool = False) -> list[dict[str, Any]]:
    """Rows of the table: one for each number of entities and journal mode."""
    table = []
    for size in sizes:
        path = folder / f"recording-{size}.db"
        queries = memory.build(path, size)
        plugins = folder / f"plugins-{size}"
        plugins.mkdir()
        known = plugins / "known.json"
        known.write_text(json.dumps({q.text: memory.BenchmarkModel.known[q.text] for q in queries}))
        (plugins / "benchmark_model.py").write_text(PLUGIN.format(known=str(known)))
        for journal in ("delete", "wal"):
            with closing(connection.connect(path)) as conn:
                conn.execute(f"pragma journal_mode={journal}")
                before = _searches(conn)
            with server(path, folder, *AS_ROOT, "--plugins-dir", str(plugins)) as running:
                row, posted = _measure(running.port, path.stem, [q.text for q in queries], quick)
            with closing(connection.connect(path)) as conn:
                logged = _searches(conn) - before
            assert logged == posted, f"{posted} searches were posted and {logged} recorded"
            table.append({"entities": size, "journal": journal, **row})
        path.unlink()
    return table


def _searches(conn: Any) -> int:
    return int(conn.execute("select count(*) from limbic_searches").fetchone()[0])


def _measure(port: int, name: str, queries: list[str], quick: bool) -> tuple[dict[str, Any], int]:
    """One row, all but the first figure being POST / GET; and how many POSTs were recorded."""
    client = Client(port, f"/{name}/-/limbic/search")
    ways = [client.search, client.post, client.post_without_permission]
    for query in queries:
        for way in ways:
            way(query)
    posted = len(queries)

    times: dict[Any, list[float]] = defaultdict(list)
    for number in range(2 if quick else 20):
        for query in queries:
            for way in ways[number % 3 :] + ways[: number % 3]:
                times[way].append(_timed(way, query))
    get, post, without = (times[way] for way in ways)
    posted += len(post)

    blocks: dict[Any, list[float]] = defaultdict(list)
    for _ in range(1 if quick else 5):
        for way in (client.search, client.post):
            time.sleep(PAUSE_S)
            blocks[way] += [_timed(way, query) for query in queries * 5]
    posted += len(blocks[client.post])
    time.sleep(PAUSE_S)

    seconds = 1.0 if quick else 6.0
    got, _ = _throughput(port, name, queries, Client.search, seconds)
    per_second, sent = _throughput(port, name, queries, Client.post, seconds)
    row = {
        "GET p50 ms": 1000 * median(get),
        "in turn, p50": median(post) / median(get),
        "target": f"<= {TARGET:.2f}",
        "in turn, p95": _p95(post) / _p95(get),
        "without permission, p50": median(without) / median(get),
        "in blocks, p50": median(blocks[client.post]) / median(blocks[client.search]),
        "in blocks, p95": _p95(blocks[client.post]) / _p95(blocks[client.search]),
        f"searches/s of {CLIENTS} clients": per_second / got,
    }
    return row, posted + sent


def _p95(times: list[float]) -> float:
    return quantiles(times, n=20)[-1]


def _timed(way: Callable[[str], None], query: str) -> float:
    start = time.perf_counter()
    way(query)
    return time.perf_counter() - start


def _throughput(
    port: int, name: str, queries: list[str], way: Callable[[Client, str], None], seconds: float
) -> tuple[float, int]:
    """Answers per second to CLIENTS clients at once, and how many there were."""

    def work(number: int) -> Callable[[], None]:
        client = Client(port, f"/{name}/-/limbic/search")
        turn = itertools.cycle(queries[number:] + queries[:number])
        return lambda: way(client, next(turn))

    done = at_once([work(number) for number in range(CLIENTS)], seconds, MOST_SEARCHES)
    assert not done.raised, done.raised
    return done.times / done.seconds, done.times


def growth(folder: Path, searches: int) -> list[dict[str, Any]]:
    """Rows of the table: bytes that one recorded search adds to the file, by table.

    Different queries, so that nearly every pair of results is a new row; and the same ones again.
    """
    path = folder / "growth.db"
    queries = memory.build(path, 10_000, queries=searches)
    candidates: dict[str, Any] = {"table": "(candidates in the pool)"}
    table: list[dict[str, Any]] = [{"table": name} for name in (*WRITTEN, "file")]
    for what in ("each query for the first time", "the same queries again"):
        before = _sizes(path)
        pool = 0
        with closing(connection.connect(path)) as conn:
            for query in queries:
                pool += serving.search_semantic(conn, query.text, LIMIT)["candidates"]
        after = _sizes(path)
        for row in table:
            row[what] = (after[row["table"]] - before[row["table"]]) / searches
        candidates[what] = pool / searches
    path.unlink()
    return [*table, candidates]


def _sizes(path: Path) -> dict[str, float]:
    """Bytes of the file and of each table with its indexes (nan where SQLite cannot tell)."""
    sizes = dict.fromkeys(WRITTEN, float("nan"))
    with closing(stock_sqlite3.connect(path)) as conn:
        [pages] = conn.execute("pragma page_count").fetchone()
        [free] = conn.execute("pragma freelist_count").fetchone()
        [bytes_of_page] = conn.execute("pragma page_size").fetchone()
        try:
            rows = conn.execute(
                """select s.tbl_name, sum(d.pgsize) from dbstat d
                join sqlite_master s on s.name = d.name group by 1"""
            ).fetchall()
        except stock_sqlite3.OperationalError:  # built without dbstat
            rows = []
    sizes.update((name, size) for name, size in rows if name in sizes)
    return {**sizes, "file": (pages - free) * bytes_of_page}
