"""Full text on a large memory: CPU time of searches by text, for ordinary and for hostile queries.

``python -m benchmarks.texting FILE``. The file is opened for reading only. Its own most common
words make the worst queries, so that they are worst for any file.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from datasette_limbic import connection, frequency, further, search, statement, substrings, text
from datasette_limbic.config import Settings
from datasette_limbic.request import parse
from datasette_limbic.statement import Shape

RUNS = 3
TARGET_MS = 60.0
NOW = "2026-11-29 12:00:00"
LONGEST = 2000
"""Characters of a query."""

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
    "unknown parts of words": "tionment ationing mentness inglyness edlyness ableness",
    "unknown words, 64": " ".join(f"{a}{b}q{b}" for a in "aeioutns" for b in "tnrsleio"),
    "a part without end": "tion" * 500,
    "a word of 2,000": "a" * LONGEST,
    "no word at all": "xqzwv",
    "as typed by somebody": "th* content:the NEAR(the of) NOT the AND (a OR b)",
    "identifier": "getUserName",
    "Han, two characters": "用户",
    "Han, one character": "的",
    "Han, four characters": "用户身份",
    "Hangul": "사용",
    "Han and words": "用户ID system",
}


class Lacks(Exception):
    """What a memory lacks to be measured, in a sentence."""


def queries(conn: sqlite3.Connection) -> dict[str, str]:
    """QUERIES, and those of the file's own words, of the most common ones above all; without those
    for which it has too few. Raises Lacks."""
    words = [
        row
        for row in conn.execute(
            "select term, doc from _limbic_fts_vocab order by doc desc limit 9000"
        )
        if row[0].isascii()
    ]
    common = [word for word, _ in words]
    said = [word for word in common if word not in text.STOP_WORDS]
    if not said:
        raise Lacks("no text of this memory holds an ASCII word that is no stop word: import more")
    rare = [word for word, texts in words if texts <= frequency.COUNTED]
    seldom = [word for word, texts in words if texts <= frequency.COUNTED / 64]
    found = {
        "its most common word": said[0],
        "64 most common words": " ".join(said[:64]),
        "64 words kept": " ".join(seldom[:64]),
        "64 phrases of them": " ".join(f"{common[0]}-{word}" for word in common[1:65]),
        "64 phrases with a rare one": " ".join(f"{common[0]}-{word}" for word in seldom[:64]),
        "long phrases with a rare one": " ".join("-".join([*common[:7], w]) for w in seldom[:64]),
        "chains of 8": " ".join("-".join(common[i : i + 8]) for i in range(0, 512, 8)),
        "chains of 8 rare ones": " ".join("-".join(rare[i : i + 8]) for i in range(0, 512, 8)),
        "chain of 40 of them": "-".join(common[:40]),
        "chain of hundreds": "-".join(common[:40] * 25),
        "chain with a rare one": "-".join([*common[:10], "zebra"]),
    }
    own = {name: query[:LONGEST] for name, query in found.items() if query.strip()}
    return {**QUERIES, **own}


def types(conn: sqlite3.Connection) -> tuple[str, str]:
    """A type whose texts are told by their numbers, the largest such, and the largest of all.
    Raises Lacks."""
    counts = conn.execute(
        "select entity_type, count(*) from entities group by 1 order by 2"
    ).fetchall()
    if not counts:
        raise Lacks("this memory has no entities: import some first")
    few = [name for name, count in counts if count <= further.FEW_OF_A_TYPE]
    return few[-1] if few else counts[0][0], counts[-1][0]


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


def _forgetting(conn: sqlite3.Connection) -> Callable[[], None]:
    """What makes the connection forget the frequencies that it remembers from the run before;
    its functions stay, since to replace one prepares all statements anew."""
    kept = [frequency.remembering(conn)]

    def of_terms(terms: frequency.Terms) -> list[tuple[int, str]]:
        return kept[0](terms)

    def forget() -> None:
        kept[0] = frequency.remembering(conn)

    conn.create_function("limbic_frequencies", 1, frequency.sql_frequencies(conn, of_terms))
    conn.create_function("limbic_parts", 1, substrings.sql_parts(of_terms))
    return forget


def _part_ms(conn: sqlite3.Connection, query: str, forget: Callable[[], None]) -> float:
    """The slowest form of the statement's text part."""
    request = parse({"q": query, "mode": "text", "now": NOW}, Settings())
    named = request.explained().named()
    values = {name: named[name] for name in statement.PARAMETERS}
    unspaced = bool(text.cjk_runs(query))
    return max(
        cpu_ms(
            partial(_fetch, conn, part(Shape(vectors=vectors, cut=cut, unspaced=unspaced)), values),
            forget,
        )
        for vectors in (True, False)
        for cut in (True, False)
    )


def run(path: Path, names: Collection[str] = ()) -> list[dict[str, Any]]:
    """A row for each query, or for those named: the slowest of the text part's forms (with vectors
    and without, cut and not), and whole searches in mode text, which may run twice.
    Raises Lacks."""
    with closing(connection.connect(path, readonly=True)) as conn:
        forget = _forgetting(conn)
        few, many = types(conn)
        searches: Mapping[str, Mapping[str, Any]] = {
            "search": {},
            "of a small type": {"type": few},
            "of a large type": {"type": many},
        }
        rows = []
        for name, query in queries(conn).items():
            if names and name not in names:
                continue
            row: dict[str, Any] = {"query": name, "text part": _part_ms(conn, query, forget)}
            for title, arguments in searches.items():
                found = partial(search.search, conn, query, mode="text", now=NOW, **arguments)
                row[title] = cpu_ms(found, forget)
            row["<= 60"] = max(list(row.values())[1:]) <= TARGET_MS
            rows.append(row)
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
    try:
        rows = run(path)
    except Lacks as error:
        raise SystemExit(str(error)) from None
    print(tabulate(rows, headers="keys", floatfmt=".1f", tablefmt="github"))


if __name__ == "__main__":
    main()
