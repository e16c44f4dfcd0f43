"""What ``benchmarks.scale`` measures in processes of their own: building, memory, requests."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import quote_plus

import numpy

from datasette_limbic import compat, connection, search

from . import pages
from .peers import Asked, Effort, Peer
from .server import Connected, server

REPEATS = 20
ADDED_MS = 5.0
"""What a JSON request may take more than Datasette's own trivial one."""


class Taken(NamedTuple):
    """What a process takes, in bytes; pages of mapped files are apart (RssAnon)."""

    memory: int
    """What it took more once it had searched; other processes of the peer's with it."""
    process: int
    """All of it: Python, libraries, and the model where it embeds."""
    disk: float
    """On disk."""


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
        query = "/sample/-/query.json" if compat.ONE_POINT_ZERO else "/sample.json"
        urls = [f"/sample/-/limbic/search.json?limit=10&q={quote_plus(t)}" for t in texts]
        with server(path, folder) as running, Connected(running.port) as client:
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


def _ms(client: Connected, url: str) -> float:
    """Milliseconds of a request. Raises RuntimeError where it is no answer."""
    body, ms = client.get(url)
    answer = json.loads(body)
    if not (answer.get("results") or answer.get("rows")):
        raise RuntimeError(f"{url} answers {body[:200]!r}")
    return ms
