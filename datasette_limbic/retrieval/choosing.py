"""Which retriever serves a search: the one that the setting names, else the fastest there is."""

from __future__ import annotations

from collections.abc import Iterator

from datasette.utils.sqlite import sqlite3

from ..config import Settings
from ..errors import BadParameter
from .model import Retriever
from .plugins import AUTO, retriever, retrievers

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


def serves(conn: sqlite3.Connection, settings: Settings, reasons: list[str]) -> str:
    """The name of the one that a server's searches use as the file stands."""
    named = _named(conn, settings, reasons)
    return named.name if named is not None else next(_by_speed(conn, settings)).name


def _named(conn: sqlite3.Connection, settings: Settings, reasons: list[str]) -> Retriever | None:
    if settings.retriever == AUTO:
        return None
    try:
        found = retriever(settings.retriever)
        problem = found.unusable(conn, settings)
    except BadParameter as error:
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
