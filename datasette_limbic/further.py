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

from . import statement, substrings, text
from .request import Request
from .statement import FURTHER, FURTHER_OF_TYPE, Shape

Rows = Sequence[Mapping[str, Any]]

FEW_OF_A_TYPE = 20_000
"""Entities of a type up to which its texts are told by their numbers: 0.1 s in a million."""


@dataclass(frozen=True)
class Matched:
    """What the words of a query match, and whether that is more than is read."""

    words: int
    parts: int
    looked_at: int
    """How many of them are looked at, the best: the others only where these do not do."""
    phrase: bool
    """Whether the words are a phrase of common ones."""
    newest: int
    """The newest number of an entity or observation."""
    short_runs: bool
    """Whether one or two characters stand in more places than are read."""


def needed(conn: sqlite3.Connection, request: Request, shape: Shape, rows: Rows) -> Shape | None:
    """The shape that reads what the first run of a search left out; None where it left nothing
    out, or filled its pool."""
    if not shape.text or shape.listing or shape.hits or is_full(rows, request):
        return None
    if rows and not _may_be_cut(rows[0]["texts"], request, shape):
        return None
    found = _matched(conn, request, shape)
    # beside vectors what is so common is no evidence
    if not shape.vectors and _left_out(found, shape):
        if request.type is None:
            return replace(shape, cut=False, reading=FURTHER)
        of_it = _of_type(conn, request.type)
        reading = FURTHER_OF_TYPE if of_it <= FEW_OF_A_TYPE else FURTHER
        return replace(shape, cut=False, reading=reading) if of_it else None
    if shape.by_type or found.words + found.parts <= found.looked_at:
        return None
    return replace(shape, cut=False)


def still_left_out(conn: sqlite3.Connection, request: Request, shape: Shape) -> str | None:
    """What a search of this shape did not look at although it matches, in a sentence."""
    return _left_out(_matched(conn, request, shape), shape)


def is_full(rows: Rows, request: Request) -> bool:
    """Whether texts filled the pool."""
    found = sum(row["fts_rank"] is not None for row in rows)
    return found >= request.limit * request.expansion_factor


def _left_out(found: Matched, shape: Shape) -> str | None:
    reading = shape.reading
    said = []
    if found.phrase and found.newest > reading.ids:
        said.append(
            "a phrase of such common words was looked for in the newest "
            f"{reading.ids:,} entities and observations only"
        )
    elif found.words > reading.texts:
        said.append(
            "words this common are in more texts than are read: "
            f"only the newest {reading.texts:,} were looked at"
        )
    if found.parts > reading.parts:
        said.append(
            "this part of a word is in more texts than are read: "
            f"only the newest {reading.parts:,} were looked at"
        )
    if found.short_runs:
        said.append(
            "so few characters are in more places than are read: "
            f"only {reading.places:,} were looked at"
        )
    return "; ".join(said) or None


def _may_be_cut(texts: int, request: Request, shape: Shape) -> bool:
    """Whether so many texts that were found may not be all."""
    least = min(
        statement.CUT_PER_CANDIDATE * request.limit * request.expansion_factor,
        shape.reading.parts,
    )
    phrase = any(len(term.tokens) > 1 for term in text.fts_terms(request.query))
    return texts >= least or (phrase and not shape.vectors)


def _matched(conn: sqlite3.Connection, request: Request, shape: Shape) -> Matched:
    values = request.explained().named()
    words, parts, looked_at, phrase, newest = conn.execute(
        statement.matched(shape), {name: values[name] for name in statement.PARAMETERS}
    ).fetchone()
    runs = substrings.short_runs(request.query) if shape.unspaced else []
    return Matched(
        words=words,
        parts=parts,
        looked_at=looked_at,
        phrase=bool(phrase),
        newest=newest,
        short_runs=substrings.are_in_more(conn, runs, shape.reading.places),
    )


def _of_type(conn: sqlite3.Connection, entity_type: str) -> int:
    """How many entities are of a type; of more than few, one more."""
    [count] = conn.execute(
        "select count(*) from (select 1 from entities where entity_type = ? limit ?)",
        [entity_type, FEW_OF_A_TYPE + 1],
    ).fetchone()
    return int(count)
