"""Which retriever serves a search: the one that the setting names, else the fastest there is."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from datasette.utils.sqlite import sqlite3

from .. import statement
from ..config import Settings
from ..errors import BadParameter, RetrieverFailed
from .functions import guarded, sentence
from .model import Retriever
from .plugins import AUTO, retriever, retrievers

log = logging.getLogger("datasette_limbic")

BY_SPEED = ("approximate", "memory", "vec0")
"""The built-in ones in the order in which ``auto`` tries them; the last one always can."""


def choose(conn: sqlite3.Connection, settings: Settings, reasons: list[str]) -> Iterator[Retriever]:
    """The retrievers to try, best first; the next one is asked for where one failed.

    Why the one that the setting names cannot serve is added to ``reasons``.
    """
    named = _named(conn, settings, reasons)
    if named is not None:
        yield named
    for found in _by_speed(conn, settings):
        if found.pays(conn):
            yield found


def choose_for_texts(
    conn: sqlite3.Connection, settings: Settings, reasons: list[str]
) -> Iterator[Retriever]:
    """The same where nothing is searched by meaning: the one that the setting names, if it finds
    texts; else the file's own index it is."""
    if settings.retriever != AUTO and getattr(
        retrievers().get(settings.retriever), "finds_texts", False
    ):
        named = _named(conn, settings, reasons)
        if named is not None:
            yield named


def serves(conn: sqlite3.Connection, settings: Settings, reasons: list[str]) -> str:
    """The name of the one that a server's searches use as the file stands."""
    named = _named(conn, settings, reasons)
    return named.name if named is not None else next(_by_speed(conn, settings)).name


def is_foreign(found: Retriever) -> bool:
    """Whether a plugin of somebody else's brings it."""
    return not type(found).__module__.startswith(f"{__package__}.")


def stored_nearest(conn: sqlite3.Connection, settings: Settings) -> str | None:
    """``nearest(x, d)`` for a statement that is stored: None for vec0's, which runs on any
    connection; that of a faster one where comparing every vector takes longer than SQL may."""
    found = serves(conn, settings, [])
    if found in ("vec0", "memory"):
        return None
    return retriever(found).sql or statement.nearest_by(found)


def prepare(conn: sqlite3.Connection, settings: Settings) -> None:
    """Load what a search will use, where that takes long."""
    for found in choose(conn, settings, []):
        try:
            with guarded(found):
                return found.prepare(conn, settings)
        except RetrieverFailed as error:
            log.warning("%s", error)


def _named(conn: sqlite3.Connection, settings: Settings, reasons: list[str]) -> Retriever | None:
    if settings.retriever == AUTO:
        return None
    try:
        found = retriever(settings.retriever)
        with guarded(found):
            problem = sentence(found, "unusable", found.unusable(conn, settings))
    except (BadParameter, RetrieverFailed) as error:
        problem = str(error)
    if problem is None:
        return found
    reasons.append(f"{problem}; another retriever searched")
    return None


def _by_speed(conn: sqlite3.Connection, settings: Settings) -> Iterator[Retriever]:
    there = retrievers()
    for name in BY_SPEED:
        if name != settings.retriever and there[name].unusable(conn, settings) is None:
            yield there[name]
    if settings.retriever == BY_SPEED[-1]:
        yield there[settings.retriever]
