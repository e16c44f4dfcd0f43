"""Parts of words, and scripts without spaces: by the file's own index of substrings.

A server's full text knows words. What stands inside of one is found here, as a search without a
server finds it: by trigrams, and single characters and pairs by a scan.
"""

from __future__ import annotations

from collections.abc import Sequence

from datasette.utils.sqlite import sqlite3

from ... import text
from ..model import Hit
from .terms import Worth

LONG = 3
"""Characters from which a run of such a script, or a word that no text holds, has a trigram."""

_LONG = (
    "select rowid, bm25(_limbic_trigram) from _limbic_trigram where _limbic_trigram match ?"
    " order by 2, 1 limit ?"
)
_SHORT = "select rowid from _limbic_trigram where instr(content, ?) order by rowid limit ?"


def substrings(conn: sqlite3.Connection, query: str, worth: Sequence[Worth], k: int) -> list[Hit]:
    """The texts that hold a run of a script without spaces, or a word that none holds as such."""
    runs = text.cjk_runs(query)
    wanted = [f'"{run}"' for run in runs if len(run) >= LONG]
    wanted += [
        one.term.match
        for one in worth
        if not one.frequency and len(one.term.match) >= LONG + len('""')
    ]
    hits: list[Hit] = []
    if wanted:
        rows = conn.execute(_LONG, [" OR ".join(dict.fromkeys(wanted)), k])
        hits += [Hit(*row) for row in rows]
    best = -max((one.idf for one in worth), default=1.0)
    for run in runs:
        if len(run) < LONG:
            hits += [Hit(row[0], best) for row in conn.execute(_SHORT, [run, k])]
    return hits
