"""What ``benchmarks.scale`` measures in processes of their own: building, memory, requests."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote_plus

import numpy

from datasette_limbic import compat, connection, search

from . import pages, recording
from .peers import Asked, Effort, Peer

T = TypeVar("T")
REPEATS = 20
ADDED_MS = 5.0
"""What a JSON request may take more than Datasette's own trivial one."""


class Failed(Exception):
    """What a process of its own raised, in a sentence."""


class Taken(NamedTuple):
    """What a process takes, in bytes; pages of mapped files are apart (RssAnon)."""

    memory: int
    """What it took more once it had searched; other processes of the peer's with it."""
    process: int
    """All of it: Python, libraries, and the model where it embeds."""
    disk: float
    """On disk."""


def call(function: Callable[..., T], *arguments: Any) -> T:
    """The result of a function, called in a process of its own. Raises Failed."""
    # spawned, not forked: what the parent loaded must not count
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool as error:
            raise Failed("its process was killed, by the system for want of memory?") from error
        except Exception as error:  # foreign code: one peer's failure must not end the run
            raise Failed(f"{type(error).__name__}: {error}") from error


def build(cls: type[Peer], own: Path, memory: Path, scratch: Path) -> float:
    """Build, and give the seconds it took; the rows are those saved in ``scratch``, if any."""
    rows = ids = numpy.empty(0)
    if (scratch / "rows.npy").exists():
        # mapped: who does not read them should not pay for them
        rows = numpy.load(scratch / "rows.npy", mmap_mode="r")
        ids = numpy.load(scratch / "ids.npy")
    peer = cls(own, memory)
    started = time.perf_counter()
    peer.build(rows, ids)
    return time.perf_counter() - started


def memory(
    cls: type[Peer], own: Path, memory: Path, effort: Effort, asked: Sequence[Asked]
) -> Taken:
    """Open what was built, search a few times, and see what that takes."""
    peer = cls(own, memory)
    peer.ready(asked)
    before = private(["self"])
    peer.open(effort)
    for query in asked:
        peer.search(query, 30)
    after, others = private(["self"]), private(peer.processes())
    disk = peer.nbytes()
    peer.close()
    return Taken(after - before + others, after + others, disk)


def private(processes: Sequence[int | str]) -> int:
    """Bytes of processes that no file backs; what they share counts once. 0 where the system does
    not tell."""
    own, shared = 0, 0
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):  # ended meanwhile; not Linux
            continue
        found = dict(line.split(":", 1) for line in lines)
        own += int(found["RssAnon"].split()[0]) << 10
        shared = max(shared, int(found["RssShmem"].split()[0]) << 10)
    return own + shared


def requests(repeats: int = REPEATS) -> list[dict[str, Any]]:
    """Rows of the table: what a search by JSON takes more than ``select 1``, asked in turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "sample.db"
        pages.demo(path)
        conn = connection.connect(path, readonly=True)
        texts = pages.texts(conn)
        plugins = folder / "no-plugins"
        plugins.mkdir()
        query = "/sample/-/query.json" if compat.ONE_POINT_ZERO else "/sample.json"
        urls = [f"/sample/-/limbic/search.json?limit=10&q={quote_plus(t)}" for t in texts]
        with recording.server(path, plugins) as port:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            times: dict[str, list[float]] = {"own": [], "search": [], "alone": []}
            for number in range(repeats + 1):
                for text, url in zip(texts, urls, strict=True):
                    took = {
                        "own": _ms(client, f"{query}?sql=select+1"),
                        "search": _ms(client, url),
                        "alone": _alone(conn, text),
                    }
                    for name, ms in took.items() if number else ():  # the first round embeds
                        times[name].append(ms)
        conn.close()
    added = median(times["search"]) - median(times["own"])
    return [
        {
            "what": "search.json, 10 results",
            "p50 ms": median(times["search"]),
            "Datasette's select 1, p50 ms": median(times["own"]),
            "the search without a server, p50 ms": median(times["alone"]),
            "added ms": added,
            "target": f"<= {ADDED_MS:g} ms",
            "met": added <= ADDED_MS,
        }
    ]


def _alone(conn: Any, text: str) -> float:
    """Milliseconds of the same search in this process."""
    started = time.perf_counter()
    search.search(conn, text, limit=10)
    return (time.perf_counter() - started) * 1000


def _ms(client: http.client.HTTPConnection, url: str) -> float:
    """Milliseconds of a request. Raises RuntimeError where it is no answer."""
    started = time.perf_counter()
    client.request("GET", url)
    response = client.getresponse()
    body = response.read()
    took = (time.perf_counter() - started) * 1000
    answer = json.loads(body)
    if response.status != 200 or not (answer.get("results") or answer.get("rows")):
        raise RuntimeError(f"{url} answers {response.status}: {body[:200]!r}")
    return took
