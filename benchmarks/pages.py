"""How long the pages take, and what they weigh: on the sample memory, and on a large one.

A real ``datasette serve`` answers on one keep-alive connection. *First* is the first request for
the page after a start, with the file in the system's cache; the others follow, searches each with
another text. A page of Datasette's own (one row of SQL) is measured in the same run: what a page
costs at least. Weight is that of the page with the sheets and scripts of ours that it links.

``python -m benchmarks.pages FILE`` measures a memory that is there already.
"""

from __future__ import annotations

import itertools
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import quote, quote_plus

from datasette_limbic import compat, connection, schema
from datasette_limbic.importing import import_files
from datasette_limbic.sync import sync

from . import big_memory
from .server import Connected, server

SMALL_MS, LARGE_MS, LARGE_FROM = 150, 500, 10_000
"""Bounds of the median; the second one for memories of so many entities."""
MOST_KB = 150
OVERVIEW, MAP, PLAIN = "overview", "map", "Datasette: select 1"
BOUND = ("overview", "search", "entity", "entity, the largest")
"""The pages that the bounds are for; others are measured beside them."""
TEXTS = 12
_LINKED = re.compile(rb'(?:href|src)="([^"]*/-/static-plugins/datasette[-_]limbic/[^"]+)"')


@dataclass
class Page:
    """A page, and the addresses that its requests take in turn."""

    name: str
    urls: list[str]


def run(folder: Path, entities: int, repeats: int) -> list[dict[str, Any]]:
    """Rows of the table, for the sample memory and one of so many entities."""
    table = []
    for name, make in (("sample", demo), ("large", lambda path: big_memory.build(path, entities))):
        path = folder / f"pages-{name}.db"
        make(path)
        table += measured(path, folder, repeats)
        for file in folder.glob(f"{path.name}*"):
            file.unlink()
    return table


def demo(path: Path) -> None:
    """The sample memory that comes with the package, imported and synced."""
    packaged = Path(str(resources.files("datasette_limbic") / "demo"))
    with closing(connection.connect(path, create=True)) as conn:
        schema.init(conn)
        import_files(conn, [packaged / "memory.jsonl", packaged / "history.jsonl"])
        sync(conn)


def measured(path: Path, folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Rows of the table for one memory."""
    with closing(connection.connect(path, readonly=True)) as conn:
        size = conn.execute("select count(*) from entities").fetchone()[0]
        pages = list(pages_of(conn, path.stem))
    bound = LARGE_MS if size >= LARGE_FROM else SMALL_MS
    table = []
    with server(path, folder) as running, Connected(running.port, timeout=300) as client:
        for page in pages:
            body, first = client.get(page.urls[0])
            urls = itertools.cycle(page.urls[1:] or page.urls)
            times = sorted(client.get(next(urls))[1] for _ in range(repeats))
            p50, p95 = median(times), quantiles(times, n=20, method="inclusive")[-1]
            weight = (len(body) + _linked(client, body)) / 1000
            table.append(
                {
                    "entities": size,
                    "page": page.name,
                    "first ms": first,
                    "p50 ms": p50,
                    "p95 ms": p95,
                    "bound ms": bound if page.name in BOUND else None,
                    "met": p50 <= bound if page.name in BOUND else None,
                    "KB": weight,
                    f"<= {MOST_KB}": None if page.name == PLAIN else weight <= MOST_KB,
                }
            )
    return table


def pages_of(conn: Any, database: str) -> Iterator[Page]:
    """The pages to measure; of entities an ordinary one, and that with the most observations."""
    root, base = f"/{quote(database)}", f"/{quote(database)}/-/limbic"
    many = [
        row[0]
        for row in conn.execute(
            "select entity_id from observations group by entity_id order by count(*) desc, 1"
        )
    ]
    ordinary = many[len(many) // 2 :][:TEXTS]
    query = f"{root}/-/query" if compat.ONE_POINT_ZERO else root
    yield Page(PLAIN, [f"{query}?sql=select+1"])
    yield Page(OVERVIEW, [base])
    yield Page("search", [f"{base}/search?q={quote_plus(text)}" for text in texts(conn)])
    yield Page("entity", [f"{base}/entity/{entity}" for entity in ordinary])
    yield Page("entity, the largest", [f"{base}/entity/{many[0]}"])
    yield Page("its graph", [f"{base}/entity/{many[0]}/graph"])
    yield Page("its graph, two hops", [f"{base}/entity/{many[0]}/graph?hops=2"])
    yield Page(MAP, [f"{base}/graph"])


def texts(conn: Any) -> list[str]:
    """Some words of observations here and there, as a person would look for."""
    last = conn.execute("select max(id) from observations").fetchone()[0]
    found = []
    for number in range(1, TEXTS + 1):
        text = conn.execute(
            "select content from observations where id >= ? order by id limit 1",
            [last * number // (TEXTS + 1)],
        ).fetchone()[0]
        found.append(" ".join(sorted(re.findall(r"\w+", text), key=len)[-4:]))
    return found


def _linked(client: Connected, body: bytes) -> int:
    """Bytes of our own sheets and scripts that a page links."""
    urls = {found.decode() for found in _LINKED.findall(body)}
    return sum(len(client.get(url)[0]) for url in urls)


if __name__ == "__main__":
    import tempfile

    from tabulate import tabulate

    with tempfile.TemporaryDirectory() as name:
        copied = Path(shutil.copy(sys.argv[1], name))
        rows = measured(copied, Path(name), int((sys.argv[2:] or ["20"])[0]))
    print(tabulate(rows, headers="keys", floatfmt=".1f", tablefmt="github"))
