"""Entries of Datasette 1.0's jump menu: each memory, and entities by name as one types.

Datasette would run SQL of ours on the memory itself, in the same statement as nothing else; but
where that fails or takes too long, its whole menu fails. So the names are read here, within a
bound for the whole menu, and handed over as values.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from datasette.app import Datasette
from datasette.utils import sqlite_timelimit
from datasette.utils.sqlite import sqlite3

from .. import compat, plugin
from ..graph.labels import ISOLATED
from ..named import named
from ..schema import SEARCHED_TABLES
from .common import limbic_url

log = logging.getLogger("datasette_limbic")

LIMIT_MS = 400
"""So long may looking for a name take in all memories; the menu goes without the rest then."""
# Datasette keeps what has each word of the search in ``search_text``: what was found without
# accents carries the search itself along.
_ITEMS = """select json_extract(value, '$.type') as type, json_extract(value, '$.label') as label,
  json_extract(value, '$.description') as description, json_extract(value, '$.url') as url,
  json_extract(value, '$.search_text') as search_text, null as display_name
from json_each(:limbic_items)"""


def jump_items_sql(datasette: Datasette, actor: Any, request: Any) -> Any:
    async def inner() -> Any:
        try:
            items = await _items(datasette, actor, (request.args.get("q") or "").strip())
        except Exception as error:  # the menu is Datasette's, and stands without
            log.warning("the jump menu has nothing of ours: %s", error, exc_info=True)
            return None
        return compat.jump_sql(_ITEMS, {"limbic_items": json.dumps(items)}) if items else None

    return inner


async def _items(datasette: Datasette, actor: Any, typed: str) -> list[dict[str, Any]]:
    names = [
        name
        for name in await plugin.memories(datasette)
        if await compat.may_view(datasette, actor, name, SEARCHED_TABLES)
    ]
    items = [
        {
            "type": "memory",
            "label": f"Memory: {ISOLATED.format(name)}",
            "description": None,
            "url": limbic_url(datasette, name),
            "search_text": f"memory {name}",
        }
        for name in names
    ]
    end = time.monotonic() + LIMIT_MS / 1000
    for done, name in enumerate(names):
        # a fair share of what is left: one that is slow leaves time to those after it
        share = (end - time.monotonic()) / (len(names) - done)
        items += await _entities(datasette, name, typed, round(share * 1000))
    return items


async def _entities(
    datasette: Datasette, name: str, typed: str, limit_ms: int
) -> list[dict[str, Any]]:
    """Those of one memory; none where looking for them takes longer, or no time is left."""
    if limit_ms < 1:
        return []

    def read(conn: sqlite3.Connection) -> list[dict[str, Any]]:
        with sqlite_timelimit(conn, limit_ms):
            return named(conn, typed)

    try:
        found = await datasette.get_database(name).execute_fn(read)
    except sqlite3.DatabaseError as error:
        log.warning("the jump menu has no entities of %s: %s", name, error)
        return []
    return [
        {
            "type": "entity",
            "label": str(each["name"]),
            "description": " · ".join(map(ISOLATED.format, (each["entityType"], name))),
            "url": limbic_url(datasette, name, f"/entity/{each['id']}"),
            "search_text": f"{typed} {each['name']}",
        }
        for each in found
    ]
