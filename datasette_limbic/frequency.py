"""In how many texts a word stands, without reading where the word is everywhere.

FTS5's own vocabulary reads a word's whole list of places to count them: 20 ms for *the* in 2
million texts, and that for each such word of a query. So words are counted up to COUNTED only,
which tells common ones from others. How common those are the index of pages says at once, about:
``_idx`` holds the first word of each leaf page of a segment, and the pages between two of those
are all one word's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from datasette.utils.sqlite import sqlite3

from . import scoring, sql_values, text

Terms: TypeAlias = tuple[tuple[str, ...], ...]
"""The tokens of each term of a query."""
Of: TypeAlias = Callable[[Terms], list[tuple[int, str]]]
"""What ``frequencies`` gives for them."""

COUNTED = 10_000
"""Texts up to which frequencies are exact: 0.6 ms for a word of more. Pruning begins there."""

COUNTED_IN_ALL = 40_000
"""Texts that are counted for all words of a query together, those of the shortest lists first."""

LEAST_COUNTED = 200
"""Texts up to which a word is counted all the same: its list may only seem long (see `_PAGES`)."""

MOST_PLACES = 3_000
"""Places where parts of phrases are looked up: each part in all texts of the rarest one. 25 ms,
twice, since bm25() does it again."""

PASSED_OVER = 1_400
"""Texts that are passed over in the time in which one is looked up: no part of a phrase is looked
up in more than one in so many of all texts."""

TEXTS_PER_PAGE = 700
"""What a page of 4,050 bytes holds of a list, about: 5 to 6 bytes for each text."""

MOST_REMEMBERED = 512
"""Queries whose frequencies a connection keeps."""

# Where a word is in more texts, this is quicker than to count so far.
_MORE = "select 1 from _limbic_fts where _limbic_fts match ? limit 1 offset ?"
_COUNT = "select count(*) from (select 1 from _limbic_fts where _limbic_fts match ? limit ?)"
# FTS5 puts '0' before the words of its main index. A page is a number of 31 bits in the key of
# _data, below the number of its segment; _idx doubles it, for a flag of its own. Words are bound as
# bytes: SQLite would make them of the file's encoding, and those in _idx are UTF-8.
_PAGES = """
with segments(segment) as (
  select min(segid) from _limbic_fts_idx
  union all
  select (select min(segid) from _limbic_fts_idx where segid > segment) from segments
  where segment is not null
),
words(word, of) as materialized (values {words})
select of, sum(
  ifnull(
    (select pgno >> 1 from _limbic_fts_idx where segid = segment and term > word
      order by term limit 1),
    (select max(id) & (1 << 31) - 1 from _limbic_fts_data where id < (segment << 37) + (1 << 31)))
  - (select pgno >> 1 from _limbic_fts_idx where segid = segment and term <= word
      order by term desc limit 1))
from words cross join segments group by of
"""


def frequencies(
    conn: sqlite3.Connection,
    terms: Sequence[Sequence[str]],
    known: dict[str, int] | None = None,
) -> list[tuple[int, str]]:
    """In how many texts each term stands, given as its ``text.fts_tokens``, and by which token:
    the rarest counts.

    Exact up to COUNTED, while all together are in no more than COUNTED_IN_ALL; over that an
    estimate, mostly within a third, and too high where a still more common word follows in the
    alphabet. ``known`` keeps what was counted of each token.
    """
    parts = [[text.storable(token) for token in tokens] for tokens in terms]
    holders: dict[str, list[int]] = {}
    for at, words in enumerate(parts):
        for word in dict.fromkeys(words):
            holders.setdefault(word, []).append(at)
    known = {} if known is None else known
    pages = _pages(conn, list(holders))
    least = [(COUNTED + 1 if words else 0, "") for words in parts]
    left = COUNTED_IN_ALL
    for word in sorted(holders, key=lambda word: (pages[word], word)):
        # no word is counted further than the rarest part so far
        wanted = max(least[at][0] for at in holders[word])
        if not wanted:
            continue
        most = min(wanted, max(left, LEAST_COUNTED))
        counted = _counted(conn, word, most, pages[word], known)
        left -= counted
        if counted == most < wanted:
            counted = max(most, pages[word] * TEXTS_PER_PAGE)
        for at in holders[word]:
            # of common words the one of the shortest list, which comes first
            if counted < least[at][0] or not least[at][1]:
                least[at] = min(counted, least[at][0]), word
    return [
        (count if count <= COUNTED else max(count, pages[word] * TEXTS_PER_PAGE), word)
        for count, word in least
    ]


def _counted(
    conn: sqlite3.Connection, word: str, most: int, pages: int, known: dict[str, int]
) -> int:
    """In how many texts a word stands, of more than ``most`` that."""
    if word in known:
        return min(known[word], most)
    match = f'"{word}"'
    likely = pages * TEXTS_PER_PAGE > most
    if likely and conn.execute(_MORE, [match, most - 1]).fetchone():
        count = most
    else:
        [count] = conn.execute(_COUNT, [match, most]).fetchone()
    if count < most or most > COUNTED:
        known[word] = count
    return int(count)


def _pages(conn: sqlite3.Connection, words: Sequence[str]) -> dict[str, int]:
    """How many pages each word's list spans, of all segments: 0 for most words."""
    if not words:
        return {}
    sql = _PAGES.replace("{words}", ", ".join(["(?, ?)"] * len(words)))
    given = [value for word in words for value in (f"0{word}".encode(), word)]
    found = dict(conn.execute(sql, given).fetchall())
    return {word: int(found.get(word) or 0) for word in words}


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


def sql_frequency(conn: sqlite3.Connection, of_terms: Of) -> Callable[..., int | None]:
    """``limbic_frequency([word])`` on this connection: of a word of several tokens the least,
    without a word the number of texts."""

    def of(*words: Any) -> int | None:
        if not words:
            return texts(conn)
        if words[0] is None:
            return None
        [(count, _)] = of_terms((tuple(text.fts_tokens(str(words[0]))),))
        return count

    return of


def sql_frequencies(conn: sqlite3.Connection, of_terms: Of) -> Callable[..., str | None]:
    """``limbic_frequencies(query)`` on this connection: of each of its terms the match, the
    frequency, its idf, the places where it is looked up, the number of its tokens, and of a phrase
    that is too common to be looked up in all texts its rarest token; in JSON."""

    def of(query: Any) -> str | None:
        said = sql_values.as_text(query, "query")
        if said is None:
            return None
        terms = text.fts_terms(said)
        counts = of_terms(tuple(term.tokens for term in terms))
        whole = texts(conn)
        found = []
        for term, (count, rarest) in zip(terms, counts, strict=True):
            tokens = len(term.tokens)
            places = min(count, whole // PASSED_OVER) * tokens if tokens > 1 else 0
            common = tokens > 1 and (count > COUNTED or places > MOST_PLACES)
            idf = scoring.idf(count, whole)
            found.append([term.match, count, idf, places, tokens, rarest if common else None])
        return json.dumps(found)

    return of


def remembering(conn: sqlite3.Connection) -> Of:
    """``frequencies`` on this connection; what was found is remembered until the file changes."""
    remembered: dict[Terms, list[tuple[int, str]]] = {}
    known: dict[str, int] = {}
    seen: list[Any] = [None]
    # how much this connection had changed when no transaction was open
    settled = [conn.total_changes]

    def of(terms: Terms) -> list[tuple[int, str]]:
        now = conn.execute("pragma data_version").fetchone()[0], conn.total_changes
        if not conn.in_transaction:
            settled[0] = conn.total_changes
        # what a transaction wrote may be taken back, and total_changes does not say so
        unsettled = conn.total_changes != settled[0]
        if now != seen[0] or unsettled or len(remembered) >= MOST_REMEMBERED:
            remembered.clear()
            known.clear()
            seen[0] = None if unsettled else now
        if terms not in remembered:
            remembered[terms] = frequencies(conn, terms, known)
        return remembered[terms]

    return of
