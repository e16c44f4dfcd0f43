"""Entries of Datasette 1.0's jump menu: each memory, and entities by name as one types.

Datasette would run SQL of ours on the memory itself, in the same statement as nothing else; but
where that fails or takes too long, its whole menu fails. So the names are read here, within a
bound, and handed over as values.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from datasette.app import Datasette
from datasette.utils import sqlite_timelimit
from datasette.utils.sqlite import sqlite3

from .. import compat, plugin
from ..named import named
from ..schema import SEARCHED_TABLES
from .common import limbic_url

log = logging.getLogger("datasette_limbic")

LIMIT_MS = 400
"""So long may looking for a name take in one memory; the menu goes without it then."""
# Datasette keeps what has each word of the search in ``search_text``: what was found without
# accents carries the search itself along.
_ITEMS = """select json_extract(value, '$.type') as type, json_extract(value, '$.label') as label,
  json_extract(value, '$.description') as description, json_extract(value, '$.url') as url,
  json_extract(value, '$.search_text') as search_text, null as display_name
from json_each(:limbic_items)"""


def jump_items_sql(datasette: Datasette, actor: Any, request: Any) -> Any:
    async def inner() -> Any:
        typed = (request.args.get("q") or "").strip()
        items = []
        for name in await plugin.memories(datasette):
            if not await compat.may_view(datasette, actor, name, SEARCHED_TABLES):
                continue
            items += [
                {
                    "type": "memory",
                    "label": f"Memory: {name}",
                    "description": None,
                    "url": limbic_url(datasette, name),
                    "search_text": f"memory {name}",
                }
            ]
            items += await _entities(datasette, name, typed)
        return compat.jump_sql(_ITEMS, {"limbic_items": json.dumps(items)}) if items else None

    return inner


async def _entities(datasette: Datasette, name: str, typed: str) -> list[dict[str, Any]]:
    def read(conn: sqlite3.Connection) -> list[dict[str, Any]]:
        with sqlite_timelimit(conn, LIMIT_MS):
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
            "description": f"{each['entityType']} · {name}",
            "url": limbic_url(datasette, name, f"/entity/{each['id']}"),
            "search_text": f"{typed} {each['name']}",
        }
        for each in found
    ]
