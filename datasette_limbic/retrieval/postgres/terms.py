"""The words of a query, what each is worth, and how a text that holds some of them is rated.

Frequencies are those of the file's own text index, so that the server and the file agree on
what is rare. The rating is bm25()'s, of SQLite's FTS5; the server chooses by the same one for
texts that hold a word once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from datasette.utils.sqlite import sqlite3

from ... import scoring, text
from ..model import Hit
from .rows import word_bytes

MOST_TEXTS = 10_000
"""Texts that the terms of a query may have together, counted by their frequencies."""

K1, B = 1.2, 0.75
NAME_WEIGHT = 4.0

SHORT = 1000
"""Characters of a text whose words are remembered."""

_FREQUENCIES = (
    "select j.value, ifnull(v.doc, 0) from json_each(?) j"
    " left join _limbic_fts_vocab v on v.term = j.value"
)
_CONTENTS = (
    "select j.value, cast(iif(j.value & 1, o.content, e.name) as blob) from json_each(?) j"
    " left join entities e on not j.value & 1 and e.id = j.value >> 1"
    " left join observations o on j.value & 1 and o.id = j.value >> 1"
    " where coalesce(e.id, o.id) is not null"
)
# +: FTS5 would look for each of them anew
_HERE = (
    "select rowid, bm25(_limbic_fts, ?, 1.0) from _limbic_fts where _limbic_fts match ?"
    " and +rowid in (select value from json_each(?))"
)
# FTS5 keeps there how many rows it has, and how many tokens each column
_SIZE = "select block from _limbic_fts_data where id = 1"


class Size(NamedTuple):
    """The file's text index: how many texts, and how many words one has on average."""

    texts: int
    average: float


class Worth(NamedTuple):
    """A term of a query: its tokens (a phrase where there are several), frequency and idf."""

    term: text.Term
    frequency: int
    idf: float


def size_of(conn: sqlite3.Connection) -> Size:
    """How large the file's text index is, as bm25() takes it."""
    row = conn.execute(_SIZE).fetchone()
    numbers = list(_varints(row[0])) if row and row[0] else []
    texts, words_ = (numbers[0], sum(numbers[1:])) if numbers else (0, 0)
    return Size(texts, max(1.0, words_ / texts) if texts else 1.0)


def _varints(block: bytes) -> Iterator[int]:
    value = 0
    for byte in block:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            yield value
            value = 0


def terms(conn: sqlite3.Connection, query: str, size: Size) -> list[Worth]:
    """The terms of a query, rarest first, while their frequencies add up to MOST_TEXTS; at
    least one."""
    found = text.fts_terms(query)
    tokens = sorted({token for term in found for token in term.tokens})
    frequency = dict(conn.execute(_FREQUENCIES, [json.dumps(tokens)]).fetchall())
    worth = []
    for term in found:
        rarest = min(frequency.get(token, 0) for token in term.tokens)
        worth.append(Worth(term, rarest, scoring.idf(rarest, size.texts)))
    worth.sort(key=lambda one: one.frequency)
    total = 0
    kept: list[Worth] = []
    for one in worth:
        total += one.frequency
        if kept and total > MOST_TEXTS:
            break
        kept.append(one)
    return kept


def rated(
    conn: sqlite3.Connection, docs: Iterable[int], worth: Sequence[Worth], size: Size
) -> list[Hit]:
    """Those of the texts that hold a term, with their ratings: bm25()'s, the lower the better."""
    hits = []
    for doc, raw in _contents(conn, sorted(docs)):
        cut = _cut(raw)
        weight = 1.0 if doc & 1 else NAME_WEIGHT
        norm = K1 * (1 - B + B * len(cut) / size.average)
        total = 0.0
        for one in worth:
            if times := weight * count(cut, one.term.tokens):
                total += one.idf * times * (K1 + 1) / (times + norm)
        if total:
            hits.append(Hit(doc, -total))
    return hits


def here(conn: sqlite3.Connection, docs: Sequence[int], worth: Sequence[Worth]) -> list[Hit]:
    """Those of the texts that hold a term, by the file's own index: no text has to be read."""
    if not docs:
        return []
    matching = " OR ".join(one.term.match for one in worth)
    rows = conn.execute(_HERE, [NAME_WEIGHT, matching, json.dumps(list(docs))])
    return [Hit(*row) for row in rows]


def count(found: Sequence[str], tokens: tuple[str, ...]) -> int:
    """How often a text, cut into tokens, holds a token, or several one after the other."""
    times = found.count(tokens[0])
    if not times or len(tokens) == 1:
        return times
    rest = list(tokens[1:])
    return sum(
        token == tokens[0] and list(found[at : at + len(rest)]) == rest
        for at, token in enumerate(found, 1)
    )


def tsquery(tokens: tuple[str, ...]) -> str:
    """The term as PostgreSQL's ``tsquery`` is written."""
    return " <-> ".join(_quoted(token) for token in tokens)


def _contents(conn: sqlite3.Connection, docs: Sequence[int]) -> list[tuple[int, bytes]]:
    """Those of the texts that there are."""
    rows = conn.execute(_CONTENTS, [json.dumps(list(docs))])
    return [(row[0], row[1] or b"") for row in rows]


def _cut(raw: bytes) -> list[str]:
    """The words of a text; those of short ones are remembered for the next search."""
    content = raw.decode("utf-8", "replace")
    return _cut_short(content) if len(content) <= SHORT else text.fts_tokens(content)


@lru_cache(maxsize=8192)
def _cut_short(content: str) -> list[str]:
    return text.fts_tokens(content)


def _quoted(token: str) -> str:
    word = word_bytes(token).decode("utf-8")
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"
