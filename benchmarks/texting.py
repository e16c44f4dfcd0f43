"""Full text on a large memory: CPU time of the text part, for ordinary and for hostile queries.

``python -m benchmarks.texting FILE``. The file is opened for reading only. Its own most common
words make the worst queries, so that they are worst for any file.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from datasette_limbic import connection, frequency, search, statement, text
from datasette_limbic.config import Settings
from datasette_limbic.request import parse
from datasette_limbic.statement import Shape

RUNS = 3
TARGET_MS = 60.0
NOW = "2026-11-29 12:00:00"
TYPE = "Person"

QUERIES = {
    "ordinary": "how to configure a postgresql replication slot",
    "ordinary, two words": "garbage collector",
    "only stop words": "the of a to and",
    "one stop word": "the",
    "common words": "the system data user",
    "one common word": "file",
    "phrase": "GB/s",
    "phrase of common words": "and/or",
    "phrase of stop words": "of-the",
    "one word thrice": "of-of-of",
    "one letter seven times": "a-a-a-a-a-a-a",
    "contraction": "don't",
    "one letter": "s",
    "a digit": "1",
    "part of words": "tioning",
    "no word at all": "xqzwv",
    "identifier": "getUserName",
    "Han, two characters": "用户",
    "Han, one character": "的",
    "Han, four characters": "用户身份",
    "Hangul": "사용",
    "Han and words": "用户ID system",
}


def queries(conn: sqlite3.Connection) -> dict[str, str]:
    """QUERIES, and those of the file's most common words."""
    common = [
        row[0]
        for row in conn.execute("select term from _limbic_fts_vocab order by doc desc limit 70")
        if row[0].isascii()
    ]
    said = [word for word in common if word not in text.STOP_WORDS]
    return {
        **QUERIES,
        "its most common word": said[0],
        "64 most common words": " ".join(said[:64]),
        "64 phrases of them": " ".join(f"{common[0]}-{word}" for word in common[1:65]),
        "chain of 40 of them": "-".join(common[:40]),
        "chain of hundreds": "-".join(common[:40] * 25)[:2000],
        "chain with a rare one": "-".join([*common[:10], "zebra"]),
    }


def part(shape: Shape) -> str:
    """The statement's text part alone."""
    before, _, _ = statement.build(shape).partition("found as (")
    return before.rstrip().rstrip(",") + " select count(*) from fts"


def cpu_ms(run: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> float:
    """Median CPU time of this thread; the first run, which fills caches, does not count.

    ``before`` is called ahead of each run and not measured.
    """
    run()
    times = []
    for _ in range(RUNS):
        before()
        start = time.thread_time()
        run()
        times.append((time.thread_time() - start) * 1000)
    return statistics.median(times)


def _fetch(conn: sqlite3.Connection, sql: str, values: Mapping[str, Any]) -> list[Any]:
    return conn.execute(sql, values).fetchall()


def _part_ms(conn: sqlite3.Connection, query: str, **arguments: Any) -> float:
    by_type = "type" in arguments
    request = parse({"q": query, "mode": "text", "now": NOW, **arguments}, Settings())
    named = request.explained().named()
    values = {name: named[name] for name in statement.PARAMETERS}
    slowest = 0.0

    def forget() -> None:
        """The frequencies that the connection remembers from the run before."""
        of = frequency.sql_frequency(conn)
        conn.create_function("limbic_frequency", 0, of)
        conn.create_function("limbic_frequency", 1, of)

    for vectors in (True, False):
        for cut in (True, False):
            sql = part(
                Shape(
                    vectors=vectors,
                    cut=cut,
                    by_type=by_type,
                    unspaced=bool(text.cjk_runs(query)),
                )
            )
            slowest = max(slowest, cpu_ms(partial(_fetch, conn, sql, values), forget))
    return slowest


VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "part ms": {},
    "of a type": {"type": TYPE},
    "as of": {"as_of": "2025-06-30"},
    "with archived": {"include_archived": "1"},
}


def run(path: Path) -> list[dict[str, Any]]:
    """A row for each query: the slowest of the part's forms (with vectors and without, first run
    and second), and the whole search in mode text."""
    conn = connection.connect(path, readonly=True)
    rows = []
    for name, query in queries(conn).items():
        row: dict[str, Any] = {"query": name}
        for title, arguments in VARIANTS.items():
            row[title] = _part_ms(conn, query, **arguments)
        row["search, mode text"] = cpu_ms(partial(search.search, conn, query, mode="text", now=NOW))
        row["<= 60"] = max(row[title] for title in VARIANTS) <= TARGET_MS
        rows.append(row)
    conn.close()
    return rows


def main() -> None:
    from tabulate import tabulate

    if len(sys.argv) != 2:
        raise SystemExit("give the path of a memory: python -m benchmarks.texting FILE")
    path = Path(sys.argv[1])
    conn = connection.connect(path, readonly=True)
    entities, observations = conn.execute(
        "select (select count(*) from entities), (select count(*) from observations)"
    ).fetchone()
    conn.close()
    print(f"{entities:,} entities, {observations:,} observations; CPU ms, medians of {RUNS}\n")
    print(tabulate(run(path), headers="keys", floatfmt=".1f", tablefmt="github"))


if __name__ == "__main__":
    main()
