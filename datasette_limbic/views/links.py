"""Ways in: menus, actions and cells of Datasette's own pages that lead to ours."""

from __future__ import annotations

from typing import Any

from datasette.app import Datasette
from markupsafe import Markup

from .. import compat, plugin
from ..schema import CORE_TABLES, SEARCHED_TABLES
from .common import limbic_url

# The column of each of our tables that holds the id of the entity a row is about.
ENTITY_COLUMN = {
    "entities": "id",
    "observations": "entity_id",
    "relations": "from_entity",
    "entity_access": "entity_id",
    "entity_access_log": "entity_id",
    "co_occurrences": "entity_a_id",
}
# And of the import.
IMPORT_COLUMN = {"limbic_imports": "id", "limbic_import_rejects": "import_id"}
IMPORT_TABLES = tuple(IMPORT_COLUMN)


async def _visible(
    datasette: Datasette, actor: Any, database: str, tables: tuple[str, ...] = SEARCHED_TABLES
) -> bool:
    db = datasette.databases.get(database)
    return (
        db is not None
        and database != "_internal"
        and await plugin.is_memory(db)
        and await compat.may_view(datasette, actor, database, tables)
    )


def database_actions(datasette: Datasette, actor: Any, database: str) -> Any:
    async def inner() -> list[dict[str, str]]:
        if not await _visible(datasette, actor, database):
            return []
        return [
            {
                "href": limbic_url(datasette, database),
                "label": "Memory overview",
                "description": "What this memory holds and whether its vectors are in step",
            },
            {
                "href": limbic_url(datasette, database, "/search"),
                "label": "Search this memory",
                "description": "Ranked by similarity, use, recency and co-occurrence",
            },
        ]

    return inner


def table_actions(datasette: Datasette, actor: Any, database: str, table: str) -> Any:
    async def inner() -> list[dict[str, str]]:
        if table in IMPORT_TABLES:
            if not await _visible(datasette, actor, database, IMPORT_TABLES):
                return []
            href = limbic_url(datasette, database, "/imports")
            return [{"href": href, "label": "The log of imports"}]
        if table not in CORE_TABLES or not await _visible(datasette, actor, database):
            return []
        return [
            {"href": limbic_url(datasette, database, "/search"), "label": "Search this memory"},
            {"href": limbic_url(datasette, database), "label": "Memory overview"},
        ]

    return inner


def row_actions(datasette: Datasette, actor: Any, database: str, table: str, row: Any) -> Any:
    async def inner() -> list[dict[str, str]]:
        if table in IMPORT_TABLES:
            tables, column, path = IMPORT_TABLES, IMPORT_COLUMN[table], "/imports/"
            label = "What this import did"
        elif table in ENTITY_COLUMN:
            tables, column, path = SEARCHED_TABLES, ENTITY_COLUMN[table], "/entity/"
            label = "See this entity in its memory"
        else:
            return []
        if not await _visible(datasette, actor, database, tables):
            return []
        try:
            number = row[column]
        except (KeyError, IndexError):
            return []
        if number is None:
            return []
        return [{"href": limbic_url(datasette, database, f"{path}{number}"), "label": label}]

    return inner


def menu_links(datasette: Datasette, actor: Any) -> Any:
    async def inner() -> list[dict[str, str]]:
        return [
            {"href": limbic_url(datasette, name), "label": f"Memory: {name}"}
            for name in await plugin.memories(datasette)
            if await compat.may_view(datasette, actor, name, SEARCHED_TABLES)
        ]

    return inner


def render_cell(
    row: Any, value: Any, column: str, table: str, database: str, datasette: Datasette
) -> Any:
    """On Datasette's own page of entities the name leads to our page of the entity.

    Worked out from the row alone, since this runs for every cell of every table. Long names
    are cut as Datasette cuts long cells; our page has the whole.
    """
    if table != "entities" or column != "name" or not isinstance(value, str) or not value:
        return None
    try:
        entity = row["id"]
        row["last_activity_at"]  # a table of another program has no such column
    except (KeyError, IndexError):
        return None
    url = limbic_url(datasette, database, f"/entity/{entity}")
    most = datasette.setting("truncate_cells_html")
    shown = value[:most] + "…" if most and len(value) > most else value
    return Markup('<a href="{}">{}</a>').format(url, shown)
