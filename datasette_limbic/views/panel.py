"""The way in at the top of Datasette's own pages (1.0): what a memory holds, and a search box."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from datasette.app import Datasette
from datasette.utils.sqlite import sqlite3
from markupsafe import Markup

from .. import compat, i18n, plugin, status
from ..schema import SEARCHED_TABLES
from .common import html_of, limbic_url, page_language

log = logging.getLogger("datasette_limbic")

MOST = 5
"""Memories with a search box on the homepage; the menu leads to all of them."""


def top_database(datasette: Datasette, request: Any, database: str) -> Any:
    async def inner() -> Markup | None:
        return await _panel(datasette, request, [database], heading=False)

    return _or_nothing(inner)


def top_homepage(datasette: Datasette, request: Any) -> Any:
    async def inner() -> Markup | None:
        names = await plugin.memories(datasette)
        return await _panel(datasette, request, names, heading=True)

    return _or_nothing(inner)


def _or_nothing(make: Callable[[], Awaitable[Markup | None]]) -> Callable[[], Awaitable[Any]]:
    """The panel, or none where it cannot be made: the page is Datasette's, and stands without."""

    async def inner() -> Markup | None:
        try:
            return await make()
        except Exception as error:
            log.warning("the panel cannot be shown: %s", error, exc_info=True)
            return None

    return inner


async def _panel(
    datasette: Datasette, request: Any, names: list[str], *, heading: bool
) -> Markup | None:
    """What those of the databases that are a memory, and that the visitor may look into, hold."""
    found: list[dict[str, Any]] = []
    for name in names:
        db = datasette.databases.get(name)
        if len(found) == MOST or db is None or not await plugin.is_memory(db):
            continue
        if not await compat.may_view(datasette, request.actor, name, SEARCHED_TABLES):
            continue
        try:
            counts = await db.execute_fn(status.size)
        except sqlite3.DatabaseError as error:
            log.warning("%s cannot be counted: %s", name, error)
            continue
        found.append({"name": name, "url": limbic_url(datasette, name), **counts})
    if not found:
        return None
    language = page_language(request, plugin.settings_for(datasette, found[0]["name"]))
    with i18n.spoken(language):
        html = await html_of(
            datasette,
            request,
            "limbic_panel.html",
            {"memories": found, "heading": heading, "_language": language},
        )
    return Markup(html)
