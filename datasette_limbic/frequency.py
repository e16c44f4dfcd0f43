"""In how many texts a word stands, without reading where the word is everywhere.

FTS5's own vocabulary reads a word's whole list of places to count them: 20 ms for *the* in 2
million texts, and that for each such word of a query. So words are counted up to COUNTED only,
which tells common ones from others. How common those are the index of pages says at once, about:
``_idx`` holds the first word of each leaf page of a segment, and the pages between two of those
are all one word's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import text

COUNTED = 10_000
"""Texts up to which frequencies are exact: 0.6 ms for a word of more. Pruning begins there."""

TEXTS_PER_PAGE = 700
"""What a page of 4,050 bytes holds of a list, about: 5 to 6 bytes for each text."""

MOST_REMEMBERED = 512
"""Words whose frequencies a connection keeps."""

# Where a word is in more texts, this is quicker than to count so far.
_MORE = f"select 1 from _limbic_fts where _limbic_fts match ? limit 1 offset {COUNTED}"
_COUNT = "select count(*) from (select 1 from _limbic_fts where _limbic_fts match ? limit ?)"
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


def frequency(
    conn: sqlite3.Connection, tokens: Iterable[str], known: dict[str, int] | None = None
) -> int:
    """In how many texts a word of ``text.fts_tokens`` stands, of several tokens the rarest.

    Exact up to COUNTED; over that an estimate, mostly within a third, and too high where a still
    more common word follows in the alphabet. ``known`` keeps what was counted of each token.
    """
    words = [text.storable(token) for token in dict.fromkeys(tokens)]
    if not words:
        return 0
    known = {} if known is None else known
    least = COUNTED + 1
    # those that are known first: no other is counted further than the rarest so far
    for word in sorted(words, key=lambda word: known.get(word, least)):
        counted = known.get(word)
        if counted is None:
            counted = _counted(conn, word, least)
            if counted < least or least > COUNTED:
                known[word] = counted
        least = min(least, counted)
        if not least:
            return 0
    if least <= COUNTED:
        return least
    return max(least, min(_pages(conn, word) for word in words) * TEXTS_PER_PAGE)


def _counted(conn: sqlite3.Connection, word: str, most: int) -> int:
    """In how many texts a word stands, of more than ``most`` that."""
    match = f'"{word}"'
    likely = most > COUNTED and _pages(conn, word) * TEXTS_PER_PAGE > COUNTED
    if likely and conn.execute(_MORE, [match]).fetchone():
        return most
    [count] = conn.execute(_COUNT, [match, most]).fetchone()
    return int(count)


def _pages(conn: sqlite3.Connection, word: str) -> int:
    found = conn.execute(_PAGES, {"word": b"0" + word.encode("utf-8")}).fetchone()
    return int(found[0] or 0)


def texts(conn: sqlite3.Connection) -> int:
    """How many names and observations the index of words has, as bm25() takes it."""
    row = conn.execute("select block from _limbic_fts_data where id = 1").fetchone()
    total = 0
    # the first of the numbers that FTS5 keeps there, seven bits in each byte
    for byte in row[0] if row else b"":
        total = total << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return total


def sql_frequency(conn: sqlite3.Connection) -> Callable[..., int | None]:
    """``limbic_frequency([word])`` on this connection: of a word of several tokens the least,
    without a word the number of texts. What was found is remembered until the file changes."""
    remembered: dict[str, int] = {}
    known: dict[str, int] = {}
    seen: list[Any] = [None]
    # how much this connection had changed when no transaction was open
    settled = [conn.total_changes]

    def of(*words: Any) -> int | None:
        if not words:
            return texts(conn)
        if words[0] is None:
            return None
        word = str(words[0])
        now = conn.execute("pragma data_version").fetchone()[0], conn.total_changes
        if not conn.in_transaction:
            settled[0] = conn.total_changes
        # what a transaction wrote may be taken back, and total_changes does not say so
        unsettled = conn.total_changes != settled[0]
        if now != seen[0] or unsettled or len(remembered) >= MOST_REMEMBERED:
            remembered.clear()
            known.clear()
            seen[0] = None if unsettled else now
        if word not in remembered:
            remembered[word] = frequency(conn, text.fts_tokens(word), known)
        return remembered[word]

    return of
