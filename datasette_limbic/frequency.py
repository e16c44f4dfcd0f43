"""In how many texts a word stands, without reading where the word is everywhere.

FTS5's own vocabulary reads a word's whole list of places to count them: 20 ms for *the* in 2
million texts, and that for each such word of a query. So the texts are counted up to MOST_COUNTED.
Of words in more of them the length of the list tells about how many: ``_idx`` holds the first word
of each leaf page of a segment, and the pages between two of those are all one word's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import text

MOST_COUNTED = 10_000
"""Texts that are counted, 0.4 ms: beyond that pruning begins, and all else is about weights."""

TEXTS_PER_PAGE = 700
"""What a page of 4,050 bytes holds of a list, about: 5 to 6 bytes for each text."""

MOST_TOKENS = 16
"""Tokens of one word that are asked for: a chain of hundreds is as rare as the rarest of those,
or rarer."""

_COUNTED = (
    "select count(*) from (select 1 from _limbic_fts where _limbic_fts match ?"
    f" limit {MOST_COUNTED + 1})"
)
# FTS5 puts '0' before the words of its main index. A page is a number of 31 bits in the key of
# _data, below the number of its segment; _idx doubles it, for a flag of its own.
_PAGES = """
with segments(segment) as (
  select min(segid) from _limbic_fts_idx
  union all
  select (select min(segid) from _limbic_fts_idx where segid > segment) from segments
  where segment is not null
)
select sum(
  ifnull(
    (select pgno >> 1 from _limbic_fts_idx where segid = segment and term > :word
      order by term limit 1),
    (select max(id) & (1 << 31) - 1 from _limbic_fts_data where id < (segment << 37) + (1 << 31)))
  - (select pgno >> 1 from _limbic_fts_idx where segid = segment and term <= :word
      order by term desc limit 1))
from segments
"""


def frequency(conn: sqlite3.Connection, token: str) -> int:
    """In how many texts a token of ``text.fts_tokens`` stands: counted up to MOST_COUNTED, and
    over that an estimate, mostly within a third."""
    word = text.storable(token)
    counted = int(conn.execute(_COUNTED, [f'"{word}"']).fetchone()[0])
    if counted <= MOST_COUNTED:
        return counted
    pages = conn.execute(_PAGES, {"word": b"0" + word.encode("utf-8")}).fetchone()[0] or 0
    return max(counted, int(pages) * TEXTS_PER_PAGE)


def sql_frequency(conn: sqlite3.Connection) -> Callable[[Any], int | None]:
    """``limbic_frequency(word)`` on this connection: of a word of several tokens the least."""

    def of(word: Any) -> int | None:
        if word is None:
            return None
        tokens = list(dict.fromkeys(text.fts_tokens(str(word))))[:MOST_TOKENS]
        return min((frequency(conn, token) for token in tokens), default=0)

    return of
