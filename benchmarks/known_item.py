"""Whether a search finds the entity that its words were taken from, in a memory of any size.

``python -m benchmarks.known_item FILE [--queries 600]``. The file is opened for reading only. Each
query is three to five words of the first observation of an entity, both drawn by chance, the same
each time. Many texts hold such words too, so the figure tells ways to search apart, and not how
good one is.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from datasette_limbic import connection, embedding, search
from datasette_limbic.config import Settings

from .memory import NOW

QUERIES = 600
LIMIT = 10
MODES = ("hybrid", "text")
_SEED = 7
_WORD = re.compile(r"[^\W\d_]{3,}")
_LEAST = 5
"""Different words of an observation that is taken."""
_TRIES = 50
"""Entities that are looked at for each query, at most."""


class Known(NamedTuple):
    """A query, and the entity that it was taken from."""

    entity: int
    query: str


def known(conn: Any, count: int) -> list[Known]:
    """Up to so many; fewer where few observations have words enough."""
    rng = random.Random(_SEED)
    [last] = conn.execute("select ifnull(max(id), 0) from entities").fetchone()
    found: list[Known] = []
    for _ in range(_TRIES * count if last else 0):
        entity = rng.randint(1, last)
        said = conn.execute(
            "select content from observations where entity_id = ? order by id limit 1", [entity]
        ).fetchone()
        words = list(dict.fromkeys(_WORD.findall(said[0]))) if said else []
        if len(words) < _LEAST:
            continue
        picked = sorted(rng.sample(range(len(words)), rng.choice((3, 4, 5))))
        found.append(Known(entity, " ".join(words[at] for at in picked)))
        if len(found) == count:
            break
    return found


def run(path: Path, count: int = QUERIES, settings: Settings | None = None) -> list[dict[str, Any]]:
    """A row for each mode: shares of queries, mean reciprocal rank, and times. Raises ValueError
    where no observation has words enough."""
    settings = settings or Settings()
    with closing(connection.connect(path, readonly=True, settings=settings)) as conn:
        asked = known(conn, count)
        if not asked:
            raise ValueError(f"no observation of {path} has {_LEAST} words")
        model = settings.model or embedding.collection_model(conn, "entities")
        rows = []
        for mode in MODES if model else ("text",):
            ranks, times = [], []
            for item in asked:
                if model and mode != "text":
                    embedding.embed_query(model, item.query, prefix=settings.query_prefix)
                start = time.perf_counter()
                answer = search.search(
                    conn, item.query, settings=settings, mode=mode, limit=LIMIT, now=NOW
                )
                times.append((time.perf_counter() - start) * 1e3)
                ids = [row["id"] for row in answer["results"]]
                ranks.append(ids.index(item.entity) + 1 if item.entity in ids else 0)
            rows.append(
                {
                    "mode": mode,
                    "queries": len(ranks),
                    f"among {LIMIT}": sum(map(bool, ranks)) / len(ranks),
                    "first": ranks.count(1) / len(ranks),
                    "mean reciprocal rank": sum(1 / r for r in ranks if r) / len(ranks),
                    "p50 ms": statistics.median(times),
                }
            )
        return rows


def main(arguments: Sequence[str] | None = None) -> None:
    from tabulate import tabulate

    parser = argparse.ArgumentParser(prog="python -m benchmarks.known_item", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--queries", type=int, default=QUERIES, help="how many (%(default)s)")
    asked = parser.parse_args(arguments)
    if asked.queries < 1:
        parser.error(f"--queries {asked.queries} is not 1 or more")
    try:
        rows = run(asked.file, asked.queries)
    except ValueError as error:
        parser.error(str(error))
    print(tabulate(rows, headers="keys", floatfmt=".2f", tablefmt="github"))


if __name__ == "__main__":
    main()
