"""The SQL functions that call a retriever: what makes its candidates a table of the statement."""

from __future__ import annotations

import json
import logging
import math
import numbers
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import unchanged
from ..config import Settings
from ..errors import BadParameter, LimbicError, RetrieverFailed
from .model import MAX_K, Retriever, Wanted
from .plugins import retriever

log = logging.getLogger("datasette_limbic")

LOCAL = ("approximate", "memory", "vec0")
"""Retrievers that read the memory's own file and nothing else."""
_last = threading.local()


def failure() -> RetrieverFailed | None:
    """What a retriever last failed with in a statement of this thread; asked for once.

    SQLite keeps nothing of an exception but that there was one.
    """
    found: RetrieverFailed | None = getattr(_last, "failure", None)
    _last.failure = None
    return found


def broken_off() -> sqlite3.OperationalError | None:
    """SQLite's own error, such as that the time is over, in a statement that a retriever ran
    within a statement of this thread; asked for once. The outer one says but that a function
    failed."""
    found: sqlite3.OperationalError | None = getattr(_last, "broken_off", None)
    _last.broken_off = None
    return found


def _forget() -> None:
    # somebody's own SQL may have failed in this thread, and nobody asked why
    _last.failure = _last.broken_off = None


@contextmanager
def guarded(found: Retriever) -> Iterator[None]:
    """Whatever a plugin raises in this block is a RetrieverFailed. Errors of SQLite's pass."""
    _forget()
    try:
        yield
    except (LimbicError, sqlite3.Error):
        raise
    except Exception as error:
        log.exception("the retriever %s failed", found.name)
        raise RetrieverFailed(said(found.name, error)) from error


@contextmanager
def meanwhile(
    found: Retriever, conn: sqlite3.Connection, wanted: Wanted, settings: Settings
) -> Iterator[None]:
    """Around a statement: what the retriever does meanwhile. Raises RetrieverFailed where that
    cannot begin; what fails when it is left is logged, since there is an answer by then."""
    with guarded(found):
        block = found.meanwhile(conn, wanted, settings)
        block.__enter__()
    try:
        yield
    finally:
        try:
            block.__exit__(None, None, None)
        except Exception:
            log.exception("the retriever %s failed", found.name)


def said(name: str, error: Exception) -> str:
    """That a retriever failed, and how, in a sentence."""
    return f"the retriever {name} failed ({str(error) or type(error).__name__:.200})"


def sentence(found: Retriever, what: str, text: object) -> str | None:
    """What a plugin says, if anything. Raises RetrieverFailed where that is no text."""
    if text is None or isinstance(text, str):
        return text
    raise RetrieverFailed(
        f"the retriever {found.name} failed ({what}() answered {text!r:.100}, which is no text)"
    )


def share(found: Retriever, value: object) -> float | None:
    """The recall that a plugin says, 0 to 1, if any. Raises RetrieverFailed for anything else."""
    if value is None:
        return None
    # numbers of numpy are no int and no float
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = float(value)
        if 0 <= number <= 1:  # NaN is not
            return number
    raise RetrieverFailed(
        f"the retriever {found.name} failed (recall() answered {value!r:.100}, which is no number "
        "from 0 to 1)"
    )


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
        return _called(
            conn,
            settings,
            str(name),
            count,
            lambda found: found.nearest(conn, wanted, settings),
            within=2.0,
        )

    return nearest


def sql_hits(conn: sqlite3.Connection, settings: Settings) -> Callable[..., str]:
    """``limbic_hits(retriever, q, k)`` on this connection."""

    def hits(name: Any, query: Any, k: Any) -> str:
        count = _count(k)
        text = "" if query is None else str(query)
        if not count or not text.strip():
            return "[]"
        wanted = Wanted(text, count)
        return _called(
            conn, settings, str(name), count, lambda found: found.texts(conn, wanted, settings)
        )

    return hits


def checked(
    name: str, found: Iterable[tuple[Any, Any]], most: int, within: float | None = None
) -> list[list[float]]:
    """What a retriever answered, each item once and no more than was asked for: a plugin may
    answer anything. Raises RetrieverFailed where a number is none, or not from 0 to ``within``."""
    rows: dict[int, float] = {}
    for item, value in found:
        number = float(value)
        if not math.isfinite(number) or (within is not None and not 0 <= number <= within):
            raise RetrieverFailed(f"the retriever {name} answered {number} for entity {item}")
        rows.setdefault(int(item), number)
        if len(rows) == most:
            break
    return [[item, value] for item, value in rows.items()]


def _called(
    conn: sqlite3.Connection,
    settings: Settings,
    name: str,
    most: int,
    ask: Callable[[Retriever], Any],
    within: float | None = None,
) -> str:
    _forget()
    try:
        found = _allowed(conn, settings, name)
        return json.dumps(checked(name, ask(found), most, within))
    except RetrieverFailed as error:
        _last.failure = error
        raise
    except sqlite3.Error as error:
        if isinstance(error, sqlite3.OperationalError):
            # locked, or broken off for its time: not the retriever's doing
            _last.broken_off = error
        else:
            _last.failure = RetrieverFailed(said(name, error))
        raise
    except BadParameter as error:
        # a name that somebody typed into SQL
        _last.failure = RetrieverFailed(str(error))
        raise
    except Exception as error:
        # a plugin's code: its failure must not end the search
        log.exception("the retriever %s failed", name)
        _last.failure = RetrieverFailed(said(name, error))
        raise


@contextmanager
def serving(found: Retriever) -> Iterator[None]:
    """A search's own statement, in this thread: it was asked already whether it can serve."""
    _last.serves = found.name
    _forget()
    try:
        yield
    finally:
        _last.serves = None


def _allowed(conn: sqlite3.Connection, settings: Settings, name: str) -> Retriever:
    """The retriever of that name, if SQL may use it here and it can serve.

    Anybody who may write SQL writes the name: what may call a server, or costs what the settings
    do not allow, is not for them. Raises RetrieverFailed and BadParameter.
    """
    found = retriever(name)
    if getattr(_last, "serves", None) == name:
        return found
    if name not in LOCAL and name != settings.retriever:
        raise RetrieverFailed(
            f"SQL may use the retriever {name} where the setting retriever names it"
        )
    with guarded(found):
        problem = sentence(
            found, "unusable", found.unusable(conn, replace(settings, retriever=name))
        )
    if problem is not None:
        raise RetrieverFailed(problem)
    if found.sql is not None:
        raise RetrieverFailed(f"the retriever {name} is SQL of its own, and no function calls it")
    return found


def _count(value: Any) -> int:
    try:
        return max(0, min(MAX_K, int(float(value))))
    except (TypeError, ValueError, OverflowError):
        return 0


def _is_set(value: Any) -> bool:
    return str(value) == "1"
