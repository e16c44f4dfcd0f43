"""The tables of ``benchmarks.scale``: what was measured, and what it is held against."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy

from . import corpus, peers_sqlite

if TYPE_CHECKING:
    from .scale_measuring import Measured

SMALL = f"approximate, {corpus.WORDNET:,}"
SMALL_SEARCH = f"search, approximate, {corpus.WORDNET:,}"
MB = 1e6
EXPANSION = 3
"""Candidates for each result of a search."""
RECALL = 0.98
BUILD_S = 600
PRIVATE_MB = 1500
_OURS = tuple(peer.name for peer in peers_sqlite.PEERS if peer.name != "llm")


def tables(found: Measured) -> dict[str, list[dict[str, Any]]]:
    """Rows by title."""
    size = f"{found.size:,} entities"
    by_title = {
        f"Retrieval of {found.limit * EXPANSION}, {size}": retrieval(found),
        f"Search of {found.limit}, {size}": searches(found),
        f"What it must reach, {size}": list(targets(found)),
    }
    return {title: rows for title, rows in by_title.items() if rows}


def retrieval(found: Measured) -> list[dict[str, Any]]:
    """Rows of the table of peers."""
    table = []
    for name, opened in found.peers.items():
        taken = opened.taken
        table.append(
            {
                "by": f"limbic: {name}" if name in _OURS else name,
                "effort": opened.peer.says(opened.effort),
                **_quantiles(found, name),
                "/ numpy": found.p50(name) / found.p50("numpy"),
                **{f"recall@{depth}": share for depth, share in opened.recall.items()},
                "build s": opened.build_s,
                "disk MB": taken.disk / MB if taken else None,
                "memory MB": taken.memory / MB if taken else None,
                "process MB": taken.process / MB if taken else None,
            }
        )
    return [{k: _known(v) for k, v in row.items()} for row in table]


def searches(found: Measured) -> list[dict[str, Any]]:
    """Rows of whole searches, and of a smaller memory in the same turns."""
    return [
        {"what": name, **_quantiles(found, name)} for name in found.times if name not in found.peers
    ]


def targets(found: Measured) -> Iterator[dict[str, Any]]:
    """Rows of what has a bound and was measured."""
    p50 = found.p50
    numpy_ms, exact, near = p50("numpy"), p50("memory"), p50("approximate")
    whole = p50("search, approximate")
    if found.size <= peers_sqlite.LARGE:
        yield from _most("exact retrieval / numpy", exact / numpy_ms, 1.2)
        yield from _most("exact search / numpy", p50("search, memory") / numpy_ms, 1.5)
        yield from _most("approximate retrieval / pgvector", near / p50("pgvector"), 1)
        yield from _most("approximate retrieval / chromadb", near / p50("chromadb"), 2)
        both = near + p50("full text alone")
        yield from _most("approximate search / (its retrieval + full text)", whole / both, 1.2)
    else:
        yield from _most("approximate search / numpy", whole / numpy_ms, 1 / 3)
        opened = found.peers.get("approximate")
        if opened is not None:
            yield from _most("build, seconds", opened.build_s, BUILD_S)
            if opened.taken is not None:
                size = opened.taken.process / MB
                yield from _most("private memory, MB, with the model", size, PRIVATE_MB)
        yield from _most(
            f"approximate retrieval / that of {corpus.WORDNET:,}", near / p50(SMALL), 4
        )
        yield from _most(
            f"approximate search / that of {corpus.WORDNET:,}", whole / p50(SMALL_SEARCH), 4
        )
    opened = found.peers.get("approximate")
    if opened is not None:
        depth = max(opened.recall)
        if found.short is not None:
            yield _row(f"recall@{depth}, built for .98", found.short, ">=", RECALL)
        share = opened.recall[depth]
        yield _row(f"recall@{depth} of what is measured here", share, ">=", RECALL)


def _most(what: str, value: float, bound: float) -> Iterator[dict[str, Any]]:
    """A row, where both sides were measured."""
    if not math.isnan(value):
        yield _row(what, value, "<=", bound)


def _row(what: str, value: float, how: str, bound: float) -> dict[str, Any]:
    met = value <= bound if how == "<=" else value >= bound
    return {"what": what, "value": value, "target": f"{how} {bound:.3g}", "met": met}


def _quantiles(found: Measured, way: str) -> dict[str, float]:
    times = found.times[way][~numpy.isnan(found.times[way])]
    return {"p50 ms": float(numpy.median(times)), "p95 ms": float(numpy.quantile(times, 0.95))}


def _known(value: Any) -> Any:
    """None, an empty cell, for what is not known."""
    return None if isinstance(value, float) and math.isnan(value) else value
