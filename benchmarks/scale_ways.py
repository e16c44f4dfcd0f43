"""What ``benchmarks.scale`` asks in turn: retrieval by each peer, and whole searches."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from datasette_limbic import connection, search

from . import peers_sqlite
from .memory import NOW
from .peers import Asked, Peer
from .scale_measuring import Way
from .scale_targets import EXPANSION, SMALL, SMALL_SEARCH


def retrieving(peer: Peer, limit: int) -> Way:
    """Candidates for so many results."""
    return lambda asked: peer.search(asked, limit * EXPANSION)


def searching(stack: ExitStack, memory: Path, opened: Iterable[str], limit: int) -> dict[str, Way]:
    """The whole search, by each retriever that is measured, and full text alone."""
    ways = {}
    for name in ("memory", "approximate"):
        if name in opened:
            ways[f"search, {name}"] = _whole(stack, memory, name, limit)
    if ways:
        ways["full text alone"] = _whole(stack, memory, "vec0", limit, mode="text")
    return ways


def of_small(stack: ExitStack, memory: Path, limit: int) -> dict[str, Way]:
    """Retrieval and search of a smaller memory that has its index, to tell how they grow."""
    peer = peers_sqlite.Approximate(memory.parent, memory)
    peer.open(())
    stack.callback(peer.close)
    return {
        SMALL: retrieving(peer, limit),
        SMALL_SEARCH: _whole(stack, memory, "approximate", limit),
    }


def _whole(stack: ExitStack, memory: Path, retriever: str, limit: int, mode: str = "hybrid") -> Way:
    settings = peers_sqlite.settings(retriever)
    conn = connection.connect(memory, readonly=True, settings=settings)
    stack.callback(conn.close)

    def way(asked: Asked) -> Any:
        answer = search.search(conn, asked.text, settings=settings, limit=limit, mode=mode, now=NOW)
        # nobody may win by answering with less
        if mode != "text" and answer["retriever"] != retriever:
            raise RuntimeError(f"{retriever} did not search {asked.text!r}: {answer['degraded']}")
        return answer

    return way
