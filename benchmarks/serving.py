"""Many clients at once on one ``datasette serve``: searches a second, waiting, memory.

    python -m benchmarks.serving memory.db --clients 8 --seconds 20

A real server on 127.0.0.1 answers the JSON search, for each number of Datasette's SQL threads.
Every client keeps its connection and asks for texts of its own, a few words out of the memory's
observations: no vector of a query is in the cache, unless ``--repeat``. The file is only read,
but for ``--record``, where each search is a POST that is recorded.

*CPU* is what the server used for a search, which a busy machine changes less than the time it
took. *Private* is the memory that belongs to the process alone (``RssAnon``); pages of the file
that are mapped (``RssFile``) are shared by all processes and given back when others want memory.
Linux alone: figures come from ``/proc``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import quote, urlencode

from tabulate import tabulate

from datasette_limbic import connection

from .server import STARTS_WITHIN_S, Connected, Running, at_once, server

THREADS = (1, 2, 3, 4, 8)
LIMIT = 10
WORDS = 6
SPREAD = 7919
"""A prime: steps through the texts that come back to none before all were taken."""
MOST_TEXTS = 20_000
MOST_SEARCHES = 200_000
"""Of one run, whatever ``--seconds`` says."""
WARM_UP = 3
"""Searches of each client that are not counted: threads open their connections."""


@dataclass
class Heard:
    """What the clients were told in one run."""

    ms: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    retrievers: set[str] = field(default_factory=set)


def serve(
    path: Path,
    folder: Path,
    *,
    threads: int | None = None,
    immutable: bool = False,
    settings: dict[str, Any] | None = None,
    record: bool = False,
) -> AbstractContextManager[Running]:
    """A server of the file with these settings of the plugin."""
    config: dict[str, Any] = {"plugins": {"datasette-limbic": settings or {}}}
    if record:
        config["permissions"] = {"limbic-record": True}
    own = () if threads is None else ("--setting", "num_sql_threads", str(threads))
    return server(path, folder, *own, immutable=immutable, config=config)


class Client(Connected):
    """A connection, and the texts it asks for."""

    def __init__(self, port: int, database: str, texts: list[str], *, record: bool = False) -> None:
        super().__init__(port)
        self.base = f"/{quote(database)}/-/limbic/search"
        self.texts, self.asked, self.record = texts, 0, record

    def search(self, heard: Heard) -> None:
        """Ask for the next text, and note what came back and how long it took."""
        text = self.texts[self.asked % len(self.texts)]
        self.asked += 1
        if self.record:
            status, body, ms = self.ask(self.base, {"query": text, "limit": LIMIT})
        else:
            status, body, ms = self.ask(
                f"{self.base}.json?{urlencode({'q': text, 'limit': LIMIT})}"
            )
        heard.ms.append(ms)
        if status != 200:
            heard.errors.append(f"{status}: {body[:200]!r}")
            return
        answer = json.loads(body)
        if answer["degraded"]:
            heard.degraded.append(answer["degraded"])
        if answer["retriever"]:
            heard.retrievers.add(answer["retriever"])
        if self.record and answer["recorded"]["status"] != "queued":
            heard.errors.append(f"not recorded: {answer['recorded']}")


def texts_of(path: Path, most: int = MOST_TEXTS) -> list[str]:
    """Some words of as many observations, taken from all over the memory, each text once."""
    with closing(connection.connect(path, readonly=True)) as conn:
        last = conn.execute("select max(id) from observations").fetchone()[0] or 0
        found: dict[str, None] = {}
        for turn in range(min(most, last)):
            row = conn.execute(
                "select content from observations where id >= ? order by id limit 1",
                [1 + turn * SPREAD % last],
            ).fetchone()
            words = str(row[0]).split() if row else []
            if len(words) >= 2:
                found[" ".join(words[: WORDS - turn % 3])] = None
    if not found:
        raise SystemExit(f"{path} has no observations to make texts of")
    return list(found)


def searching(clients: list[Client], seconds: float, most: int) -> tuple[Heard, float]:
    """All clients at once for so long, or for so many searches; and how long it took."""
    heard = Heard()  # threads append to it, which is whole in itself
    done = at_once([partial(client.search, heard) for client in clients], seconds, most)
    heard.errors += [repr(error) for error in done.raised]
    return heard, done.seconds


def measured(
    path: Path, texts: list[str], folder: Path, threads: int, options: argparse.Namespace
) -> dict[str, Any]:
    """One row of the table: a server with so many SQL threads."""
    settings = {"retriever": options.retriever} if options.retriever else {}
    with ExitStack() as open_ones:
        running = open_ones.enter_context(
            serve(
                path,
                folder,
                threads=threads,
                immutable=options.immutable,
                settings=settings,
                record=options.record,
            )
        )

        def client(its: list[str]) -> Client:
            made = Client(running.port, path.stem, its, record=options.record)
            return open_ones.enter_context(made)

        before, _ = running.memory()
        first = Heard()
        client(texts[:1]).search(first)
        ready = time.perf_counter() - running.started_at
        after_first, _ = running.memory()
        share = max(1, len(texts) // options.clients)
        clients = [
            client(texts[:share] if options.repeat else texts[n * share : (n + 1) * share])
            for n in range(options.clients)
        ]
        warm, _ = searching(clients, STARTS_WITHIN_S, WARM_UP * options.clients)
        cpu = running.cpu()
        heard, took = searching(clients, options.seconds, MOST_SEARCHES)
        cpu = running.cpu() - cpu
        private, mapped = running.memory()
    errors = first.errors + warm.errors + heard.errors
    for sentence in sorted({*errors, *first.degraded, *warm.degraded, *heard.degraded}):
        print(f"  {threads} threads: {sentence}", file=sys.stderr)
    ms = sorted(heard.ms) or [0.0]
    return {
        "SQL threads": threads,
        "retriever": ", ".join(sorted(heard.retrievers)),
        "searches/s": len(heard.ms) / took,
        "p50 ms": median(ms),
        "p95 ms": quantiles(ms, n=20)[-1] if len(ms) > 1 else ms[0],
        "max ms": ms[-1],
        "CPU ms": 1000 * cpu / max(1, len(heard.ms)),
        "errors": len(errors),
        "degraded": len(heard.degraded) + len(first.degraded) + len(warm.degraded),
        "first answer s": ready,
        "private MB: start": before,
        "first": after_first,
        "end": private,
        "mapped MB": mapped,
    }


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--clients", type=int, default=8, help="at once (%(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="of each run (%(default)s)")
    parser.add_argument(
        "--threads", type=int, nargs="+", default=THREADS, help="num_sql_threads (%(default)s)"
    )
    parser.add_argument("--retriever", help="the setting retriever")
    parser.add_argument("--immutable", action="store_true", help="serve it with -i")
    parser.add_argument("--repeat", action="store_true", help="all clients ask the same texts")
    parser.add_argument(
        "--record", action="store_true", help="record each search: the file is WRITTEN to"
    )
    options = parser.parse_args(arguments)
    if options.clients < 1 or options.seconds <= 0 or min(options.threads) < 1:
        parser.error("clients, seconds and threads are positive")
    if not options.file.is_file():
        parser.error(f"{options.file} does not exist")
    if options.record and options.immutable:
        parser.error("nothing is recorded in an immutable file: give one of the two")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 where an answer was an error or degraded."""
    options = parsed(arguments)
    texts = texts_of(options.file)
    with tempfile.TemporaryDirectory() as folder:
        table = [
            measured(options.file, texts, Path(folder), threads, options)
            for threads in options.threads
        ]
    print(f"\n{options.file.name}, {options.clients} clients at once, {options.seconds:g} s each\n")
    print(tabulate(table, headers="keys", floatfmt=".1f", tablefmt="github"))
    return int(any(row["errors"] or row["degraded"] for row in table))


if __name__ == "__main__":
    sys.exit(main())
