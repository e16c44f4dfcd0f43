"""Texts that hold one or two characters of a script without spaces.

The trigram index finds three and more. One or two characters stand where trigrams begin with
them, which its vocabulary tells without reading a text; or among the last two of a text, where no
trigram begins, which indexes of last characters tell (see ``queries/text_at_size.sql``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import frequency, sql_values, text

TRIGRAM = 3
"""Characters from which the trigram index finds a run."""

MOST_PLACES = 10_000
"""Places that are read, for all runs of a query together: 5 ms."""

_PLACES = """
select doc from _limbic_trigram_vocab where term >= :run and term <= :run || char(1114111)
union all
select doc from _limbic_last_characters where ending >= :run and ending <= :run || char(1114111)
limit :most
"""


MOST_PARTS = 4
MOST_CHARACTERS = 20
"""Of all parts together: SQLite reads a list for each. Of longer ones the beginnings."""


def parts(query: str, unknown: Sequence[text.Term]) -> list[str]:
    """What of a query is looked for within words, the longest first: words that no text holds as
    such, of three characters and more, and runs of scripts without spaces."""
    words = (term.match[1:-1].replace('""', '"') for term in unknown)
    found = dict.fromkeys(
        [
            *(word for word in words if len(word) >= TRIGRAM),
            *(run for run in text.cjk_runs(query) if len(run) >= TRIGRAM),
        ]
    )
    longest = sorted(found, key=len, reverse=True)[:MOST_PARTS]
    return [part[: MOST_CHARACTERS // len(longest)] for part in longest]


def sql_parts(of_terms: frequency.Of) -> Callable[..., str]:
    """``limbic_parts(query)`` on a connection: a MATCH expression for the trigram index."""

    def found(query: Any) -> str:
        said = sql_values.as_text(query, "query")
        terms = text.fts_terms(said or "")
        if said is None or (not terms and not text.cjk_runs(said)):
            return '""'
        counts = of_terms(tuple(term.tokens for term in terms))
        unknown = [term for term, (count, _) in zip(terms, counts, strict=True) if not count]
        quoted = (part.replace('"', '""') for part in parts(said, unknown))
        return " OR ".join(f'"{part}"' for part in quoted) or '""'

    return found


def short_runs(query: str) -> list[str]:
    """The runs of a query that have no trigram."""
    return [run for run in text.cjk_runs(query) if len(run) < TRIGRAM]


def can_be_found(conn: sqlite3.Connection) -> bool:
    """Whether such runs can be looked up: a file of an earlier version has no index for that."""
    found = conn.execute(
        "select count(*) from sqlite_master"
        " where name in ('_limbic_trigram_vocab', '_limbic_last_characters')"
    ).fetchone()
    return bool(found[0] == 2)


def holding(
    conn: sqlite3.Connection, runs: Sequence[str], most: int = MOST_PLACES
) -> dict[str, list[int]]:
    """Numbers of texts (names even, observations odd) that hold each run, each once.

    Of a run in more than its share of ``most`` places, those of the first trigrams; none where
    the file has no index for it.
    """
    if not runs or not can_be_found(conn):
        return {run: [] for run in runs}
    share = max(1, most // len(runs))
    return {
        run: list(dict.fromkeys(r[0] for r in conn.execute(_PLACES, {"run": run, "most": share})))
        for run in runs
    }


def are_in_more(conn: sqlite3.Connection, runs: Sequence[str], most: int) -> bool:
    """Whether one of the runs stands in more places than its share of ``most``."""
    if not runs or not can_be_found(conn):
        return False
    share = max(1, most // len(runs))
    return any(
        conn.execute(
            f"select count(*) from ({_PLACES})", {"run": run, "most": share + 1}
        ).fetchone()[0]
        > share
        for run in runs
    )


def sql_short_runs(conn: sqlite3.Connection) -> Callable[..., str]:
    """``limbic_short_runs(query[, places])`` on this connection: numbers of texts, in JSON."""

    def found(query: Any, most: Any = MOST_PLACES) -> str:
        runs = short_runs("" if query is None else str(query))
        docs = (
            doc
            for found in holding(conn, runs, MOST_PLACES if most is None else int(most)).values()
            for doc in found
        )
        return json.dumps(list(dict.fromkeys(docs)))

    return found
