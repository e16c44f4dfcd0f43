"""Ways in: menus, actions and cells of Datasette's own pages that lead to ours."""

from __future__ import annotations

from typing import Any

from datasette.app import Datasette
from markupsafe import Markup

from .. import compat, plugin
from ..schema import CORE_TABLES, REPORTED_TABLES, SEARCHED_TABLES
from . import split, tabs
from .common import limbic_url
from .display import isolated_name

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
# tab → label, description of the database action that leads to it
ACTIONS = {
    "overview": ("Memory overview", "What this memory holds and whether its vectors are in step"),
    "search": ("Search this memory", "Ranked by similarity, use, recency and co-occurrence"),
    "consolidation": (
        "Memory maintenance",
        "Contradictions, duplicates, what is large or stale: for a person to decide",
    ),
    "health": ("Memory health", "What is broken, what wants a look, what is worth knowing"),
}
# what an entity's row leads to besides: path, label, what that page reads
OF_AN_ENTITY = (
    ("/duplicates/", "Duplicates in this entity", REPORTED_TABLES),
    ("/split/", "How this entity could be split", split.TABLES),
)


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
                "href": limbic_url(datasette, database, tab.path),
                "label": ACTIONS[tab.name][0],
                "description": ACTIONS[tab.name][1],
            }
            for tab in await tabs.shown(datasette, actor, database)
            if tab.name in ACTIONS
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
        found = [(path, label)]
        if table == "entities":
            found += [
                (more, words)
                for more, words, read in OF_AN_ENTITY
                if await compat.may_view(datasette, actor, database, read)
            ]
        return [
            {"href": limbic_url(datasette, database, f"{path}{number}"), "label": label}
            for path, label in found
        ]

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
    return Markup('<a href="{}">{}</a>').format(url, isolated_name(shown, entity, len(shown)))
