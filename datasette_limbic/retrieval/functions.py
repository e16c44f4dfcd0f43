"""The SQL functions that call a retriever: what makes its candidates a table of the statement."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import unchanged
from ..config import Settings
from ..errors import RetrieverFailed
from .model import MAX_K, Retriever, Wanted
from .plugins import retriever

log = logging.getLogger("datasette_limbic")

_last = threading.local()


def failure() -> RetrieverFailed | None:
    """What a retriever last failed with in a statement of this thread; asked for once.

    SQLite keeps nothing of an exception but that there was one.
    """
    found: RetrieverFailed | None = getattr(_last, "failure", None)
    _last.failure = None
    return found


def sql_nearest(
    conn: sqlite3.Connection, settings: Settings, embed: Callable[..., bytes | None]
) -> Callable[..., str]:
    """``limbic_nearest(retriever, q, k[, type, include_archived])`` on this connection."""
    # now: what it numbers the connection by cannot be written while a statement runs
    unchanged.state(conn)

    def nearest(
        name: Any, query: Any, k: Any, entity_type: Any = None, include_archived: Any = 0
    ) -> str:
        count = _count(k)
        text = "" if query is None else str(query)
        vector = embed(text) if count and text.strip() else None
        if not vector:
            return "[]"
        wanted = Wanted(text, count, vector, entity_type or None, _is_set(include_archived))
        return _called(str(name), lambda found: found.nearest(conn, wanted, settings))

    return nearest


def sql_hits(conn: sqlite3.Connection, settings: Settings) -> Callable[..., str]:
    """``limbic_hits(retriever, q, k)`` on this connection."""

    def hits(name: Any, query: Any, k: Any) -> str:
        count = _count(k)
        text = "" if query is None else str(query)
        if not count or not text.strip():
            return "[]"
        wanted = Wanted(text, count)
        return _called(str(name), lambda found: found.texts(conn, wanted, settings))

    return hits


def _called(name: str, ask: Callable[[Retriever], Any]) -> str:
    _last.failure = None
    try:
        return json.dumps([[int(item), float(value)] for item, value in ask(retriever(name))])
    except RetrieverFailed as error:
        _last.failure = error
        raise
    except Exception as error:
        # a plugin's code: its failure must not end the search
        log.exception("the retriever %s failed", name)
        _last.failure = RetrieverFailed(
            f"the retriever {name} failed ({error or type(error).__name__!s:.200})"
        )
        raise


def _count(value: Any) -> int:
    try:
        return max(0, min(MAX_K, int(float(value))))
    except (TypeError, ValueError, OverflowError):
        return 0


def _is_set(value: Any) -> bool:
    return str(value) == "1"
