"""In how many texts a word stands, without reading where the word is everywhere.

FTS5 counts by reading a word's whole list of places: 20 ms for *the* in 2 million texts, for each
such word of a query. What pruning wants to know of those is only that they are very common. So
the length of the list is asked first, which the index of pages tells at once: ``_idx`` holds the
first word of each leaf page of a segment, and the pages up to the next word are all one word's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import text

COUNTED_PAGES = 15
"""Pages of a word's list, up to which its texts are counted: 0.4 ms."""

TEXTS_PER_PAGE = 700
"""What a page of 4,050 bytes holds of a list, about: 5 to 6 bytes for each text. Pages over
COUNTED_PAGES are so over 10,000 texts, which is where pruning begins."""

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
_COUNTED = "select doc from _limbic_fts_vocab where term = ?"


def frequency(conn: sqlite3.Connection, token: str) -> int:
    """In how many texts a token of ``text.fts_tokens`` stands: counted up to about 10,000, an
    estimate over that (mostly within a third)."""
    word = text.storable(token)
    pages = conn.execute(_PAGES, {"word": b"0" + word.encode("utf-8")}).fetchone()[0] or 0
    if pages > COUNTED_PAGES:
        return int(pages) * TEXTS_PER_PAGE
    row = conn.execute(_COUNTED, [word]).fetchone()
    return int(row[0]) if row else 0


def sql_frequency(conn: sqlite3.Connection) -> Callable[[Any], int | None]:
    """``limbic_frequency(word)`` on this connection: of a word of several tokens the least."""

    def of(word: Any) -> int | None:
        if word is None:
            return None
        tokens = dict.fromkeys(text.fts_tokens(str(word)))
        return min((frequency(conn, token) for token in list(tokens)[:MOST_TOKENS]), default=0)

    return of


MOST_TOKENS = 16
"""Tokens of one word that are asked for: a chain of hundreds is as rare as the rarest of those,
or rarer."""
