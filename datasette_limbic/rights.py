"""Which tables an actor may view on Datasette 1.0: asked for a whole database at once.

There each question about one table is a statement of its own, for which every plugin is asked
for its rules; our pages need the answers for some twenty tables, and our own rules (what is made
of other tables is seen by whoever may view those, ``derived``) need them too. So the tables that
an actor may view are listed in one statement, and the list is kept for the length of a request,
as long as Datasette keeps its own answers.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from datasette.app import Datasette
from datasette.utils.sqlite import sqlite3

from . import connection, derived

log = logging.getLogger("datasette_limbic")

_MOST = 1000  # of one list, by Datasette
_Kept = dict[tuple[int, str, str], "Tables"]
_kept: ContextVar[_Kept | None] = ContextVar("limbic_rights", default=None)
_asking: ContextVar[bool] = ContextVar("limbic_asking", default=False)


def wrap(app: Any) -> Callable[..., Any]:
    """ASGI middleware: what is found out about rights is kept until the request ends."""

    async def inner(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        token = _kept.set({})
        try:
            await app(scope, receive, send)
        finally:
            _kept.reset(token)

    return inner


@dataclass
class Tables:
    """The tables of one database that one actor may view."""

    datasette: Datasette
    actor: Any
    database: str
    listed: frozenset[str]
    """By the rules of others, in lower case. Not all: a table that was just made is in no list."""
    known: dict[str, bool] = field(default_factory=dict)

    async def may_view(self, table: str) -> bool:
        """Whether table may be viewed by all rules: all that it is made of, and itself."""
        name = table.lower()
        if name not in self.known:
            self.known[name] = await self._may_view(name)
        return self.known[name]

    async def _may_view(self, name: str) -> bool:
        for needed in derived.made_of(name):
            if not await self.may_view(needed):
                return False
        if name in self.listed:
            return True
        asked = _allowed(self.datasette, self.actor, self.database, name)
        return bool(await _by_others(self.database, asked, failed=False))

    async def denied(self) -> list[str]:
        """What is made of a table that may not be viewed."""
        found = []
        for layer in derived.layers():
            for name, needed in layer.items():
                if not all([await self.may_view(table) for table in needed]):
                    found.append(name)
        return found


def kept(datasette: Datasette, actor: Any, database: str) -> Tables | None:
    """What this request found out already.

    Nothing where Datasette checks no permissions, as it then asks no plugin for its rules.
    """
    return (_kept.get() or {}).get(_key(datasette, actor, database))


def asking() -> bool:
    """Whether the rules of others are wanted, so that ours must not ask in turn."""
    return _asking.get()


async def tables(datasette: Datasette, actor: Any, database: str) -> Tables:
    """What an actor may view. For our rules alone: it takes for granted that rights are checked."""
    if found := kept(datasette, actor, database):
        return found
    listed = await _by_others(database, _list(datasette, actor, database), failed=frozenset())
    found = Tables(datasette, actor, database, listed)
    if (store := _kept.get()) is not None:
        store[_key(datasette, actor, database)] = found
    return found


def _key(datasette: Datasette, actor: Any, database: str) -> tuple[int, str, str]:
    return id(datasette), json.dumps(actor, sort_keys=True, default=repr), database


async def _by_others(database: str, answer: Awaitable[Any], *, failed: Any) -> Any:
    """An answer by the rules of others; ``failed`` where a file cannot be read.

    In a task, which has a copy of the context: Datasette keeps what it answers for the rest of
    the request, and this is not all that there is to say. A copy, as the rules of others may
    depend on what they set for the request.
    """
    from . import compat  # which imports this module

    async def ask() -> Any:
        _asking.set(True)
        compat.forget_permissions()
        return await answer

    try:
        return await asyncio.create_task(ask())
    except sqlite3.DatabaseError as error:
        log.warning("%s", connection.unusable(database, error))
        return failed


async def _list(datasette: Datasette, actor: Any, database: str) -> frozenset[str]:
    found = await datasette.allowed_resources("view-table", actor, parent=database, limit=_MOST)
    return frozenset(resource.child.lower() for resource in found.resources)


async def _allowed(datasette: Datasette, actor: Any, database: str, table: str) -> bool:
    from datasette.resources import TableResource

    resource = TableResource(database, table)
    return bool(await datasette.allowed(action="view-table", resource=resource, actor=actor))
