"""Reading further where the newest texts do not fill a pool of candidates.

Of a word that is everywhere a search reads the newest texts alone. They may be of another type,
archived, or have held at another time, while older ones match. So the search runs once more, over
more texts and only those that count; and where that was not all of them either, it says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import statement, substrings, text, text_statement
from .request import Request
from .statement import Shape
from .text_statement import FURTHER, FURTHER_OF_TYPE, NEWEST, OF_TYPE, Reading

Rows = Sequence[Mapping[str, Any]]

FEW_OF_A_TYPE = 15_000
"""Texts of a type, names and observations, up to which they are told by their numbers: 5 ms."""


@dataclass(frozen=True)
class Further:
    """What a search reads in its second run."""

    shape: Shape | None
    """None: nothing more is read, it is only said that there is more."""
    left_out: str | None
    """What is not looked at there either although it matches, in a sentence."""
    most: int
    """Texts that are taken at most."""

    def said(self, rows: Rows) -> str | None:
        """The same once ``rows`` were found, which do not fill the pool."""
        if self.left_out is None and rows and (rows[0].get("texts") or 0) >= self.most:
            return f"so many texts match that only the newest {self.most:,} were looked at"
        return self.left_out


@dataclass(frozen=True)
class Matched:
    """What the words of a query match, and whether that is more than is read."""

    words: int
    """Texts that hold them, but for a phrase of common ones and for words that do not lead."""
    parts: int
    """Texts that hold a part of a word, of more than are read one more than that."""
    looked_at: int
    """How many of those that hold the words are looked at, the best: the others only where these
    do not do."""
    phrase: bool
    """Whether a phrase of common words was looked for in the newest texts alone."""
    short_runs: bool
    """Whether one or two characters stand in more places than are read."""


def needed(conn: sqlite3.Connection, request: Request, shape: Shape, rows: Rows) -> Further | None:
    """What reads that which the first run of a search left out, or says that it did; None where it
    left nothing out, or filled its pool."""
    if not shape.text or shape.listing or shape.hits or is_full(rows, request):
        return None
    if rows and not _may_be_cut(rows[0]["texts"], request, shape):
        return None
    found = _matched(conn, request, shape)
    left_out = _left_out(
        shape.reading,
        words=found.words > shape.reading.texts,
        phrase=found.phrase,
        parts=found.parts > shape.reading.parts,
        short_runs=found.short_runs,
    )
    most = NEWEST.parts if found.parts > NEWEST.parts else FURTHER.texts
    cut = text_statement.is_cut(shape) and found.words > found.looked_at
    # Of a type it is quicker, but parts are not rated there. Beside vectors what is so common is no
    # evidence.
    if not shape.vectors and (left_out or (shape.by_type and cut and not found.parts)):
        return _further(conn, request, shape, most)
    if cut:
        return Further(replace(shape, cut=False), left_out, most)
    return Further(None, left_out, most) if left_out else None


def is_full(rows: Rows, request: Request) -> bool:
    """Whether texts filled the pool."""
    found = sum(row["fts_rank"] is not None for row in rows)
    return found >= request.limit * request.expansion_factor


def _further(conn: sqlite3.Connection, request: Request, shape: Shape, most: int) -> Further | None:
    """The second run: more texts, and only those that count."""
    reading = FURTHER
    if request.type is not None:
        of_it = _of_type(conn, request.type)
        if not of_it:
            return None
        reading = FURTHER_OF_TYPE if of_it <= FEW_OF_A_TYPE else FURTHER
    shape = replace(shape, cut=False, reading=reading)
    words, phrase, parts = conn.execute(oldest_read(shape), _values(request)).fetchone()
    left_out = _left_out(
        reading,
        words=words is not None,
        phrase=phrase is not None,
        parts=parts is not None,
        short_runs=_short_runs(conn, request, shape),
    )
    reading = replace(reading, since=(words or 0, parts or 0))
    return Further(replace(shape, reading=reading), left_out, most)


def _left_out(
    reading: Reading, *, words: bool, phrase: bool, parts: bool, short_runs: bool
) -> str | None:
    said = []
    if phrase:
        said.append(
            "a phrase of such common words was looked for in the newest texts only, "
            f"{reading.places:,} places of its words"
        )
    if words:
        said.append(
            "words this common are in more texts than are read: "
            f"only the newest {reading.texts:,} were looked at"
        )
    if parts:
        said.append(
            "this part of a word is in more texts than are read: "
            f"only the newest {reading.parts:,} were looked at"
        )
    if short_runs:
        said.append(
            "so few characters are in more places than are read: "
            f"only {reading.short_runs:,} were looked at"
        )
    return "; ".join(said) or None


def _may_be_cut(texts: int, request: Request, shape: Shape) -> bool:
    """Whether so many texts that were found may not be all."""
    least = min(
        text_statement.per_candidate(shape) * request.limit * request.expansion_factor,
        shape.reading.parts,
    )
    if texts >= least or (shape.unspaced and substrings.short_runs(request.query)):
        return True  # short runs: many places may be few texts
    return not shape.vectors and any(len(term.tokens) > 1 for term in text.fts_terms(request.query))


def _matched(conn: sqlite3.Connection, request: Request, shape: Shape) -> Matched:
    words, parts, looked_at, phrase = conn.execute(_matched_in(shape), _values(request)).fetchone()
    return Matched(words, parts, looked_at, bool(phrase), _short_runs(conn, request, shape))


def _matched_in(shape: Shape) -> str:
    """What a search by text matches, in one row: how many texts hold its words, a phrase of common
    ones left out; how many a part of a word or a run (one more than are read, at most); how many
    texts are looked at without reading further; whether a phrase of common words was looked for in
    the newest texts alone."""
    return statement.compact(
        f"""{_before_hits(shape)}, found as (
  select count(*) as parts from (select 1 from _limbic_trigram
    where _limbic_trigram match limbic_parts(:q) limit {shape.reading.parts + 1}))
select (select ifnull(sum(iif(leads, df, 0)), 0) from kept {text_statement.SINGLE}), parts,
  {text_statement.looked_at(shape)}, {text_statement.phrase_from(shape)} is not null
from found, p"""
    )


def oldest_read(shape: Shape) -> str:
    """In one row, the oldest text that is read of those that hold the words, of those that hold a
    phrase of common ones, and of those that hold a part of a word; null where all are read."""
    return statement.compact(
        f"""{_before_hits(shape)}
select (select rowid from _limbic_fts where _limbic_fts match (
    select ifnull(group_concat(term, ' OR '), '""') from kept {text_statement.SINGLE})
  order by rowid desc limit 1 offset {shape.reading.texts}),
  {text_statement.phrase_from(shape)},
  (select rowid from _limbic_trigram where _limbic_trigram match limbic_parts(:q)
  order by rowid desc limit 1 offset {shape.reading.parts})"""
    )


def _before_hits(shape: Shape) -> str:
    before, _, _ = statement.build(shape).partition("hits as materialized")
    return before.rstrip().rstrip(",")


def _short_runs(conn: sqlite3.Connection, request: Request, shape: Shape) -> bool:
    runs = substrings.short_runs(request.query) if shape.unspaced else []
    return substrings.are_in_more(conn, runs, shape.reading.short_runs)


def _values(request: Request) -> dict[str, Any]:
    return statement.values(Shape(), request.explained().named())


def _of_type(conn: sqlite3.Connection, entity_type: str) -> int:
    """How many texts are of a type; of more than few, one more."""
    [count] = conn.execute(
        f"with p(typ) as (select ?) select count(*) from (select 1 from ({OF_TYPE}) limit ?)",
        [entity_type, FEW_OF_A_TYPE + 1],
    ).fetchone()
    return int(count)
