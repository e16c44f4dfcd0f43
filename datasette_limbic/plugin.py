"""What the hooks of Datasette do that is no page: connections, start-up, hidden tables."""

from __future__ import annotations

import logging
from typing import Any

from datasette.app import Datasette
from datasette.database import Database

from . import compat, connection, schema, statement
from .config import Settings
from .errors import BadParameter
from .statement import Shape

log = logging.getLogger("datasette_limbic")

NAME = "datasette-limbic"
STORED_QUERY = "limbic_search"
STORED_QUERY_TITLE = "Limbic search: the ranking as one SQL statement"
STORED_QUERY_DESCRIPTION = (
    "The statement behind the search page. Empty parameters mean the defaults; "
    "explain=1 lists the whole pool."
)


def settings_for(datasette: Datasette, database: str) -> Settings:
    """The plugin's settings for one database."""
    return Settings.from_mapping(datasette.plugin_config(NAME, database=database))


def prepare(conn: Any, database: str, datasette: Datasette) -> None:
    """Make a connection of Datasette's ready; never stops Datasette from starting."""
    try:
        settings = settings_for(datasette, database)
    except BadParameter as error:
        log.error("%s. The defaults are used.", error)
        settings = Settings()
    connection.prepare(conn, settings)


async def memories(datasette: Datasette) -> list[str]:
    """Names of the databases that hold a memory."""
    found = []
    for name, db in datasette.databases.items():
        if name != "_internal" and await is_memory(db):
            found.append(name)
    return found


async def is_memory(db: Database) -> bool:
    return bool(await db.execute_fn(schema.is_memory))


def start(datasette: Datasette) -> Any:
    """At start: check the configuration, register the stored query for each memory."""
    for name in datasette.databases:
        settings_for(datasette, name)

    async def inner() -> None:
        if not compat.ONE_POINT_ZERO:
            return
        for name in await memories(datasette):
            await compat.add_stored_query(
                datasette,
                name,
                STORED_QUERY,
                await _stored_sql(datasette, name),
                title=STORED_QUERY_TITLE,
                description=STORED_QUERY_DESCRIPTION,
                parameters=statement.PARAMETERS,
            )

    return inner


def canned_queries(datasette: Datasette, database: str) -> Any:
    """The stored query, as Datasette 0.65 wants it."""

    async def inner() -> dict[str, Any]:
        db = datasette.databases.get(database)
        if db is None or not await is_memory(db):
            return {}
        return {
            STORED_QUERY: {
                "sql": await _stored_sql(datasette, database),
                "title": STORED_QUERY_TITLE,
                "description": STORED_QUERY_DESCRIPTION,
                "params": list(statement.PARAMETERS),
            }
        }

    return inner


async def _stored_sql(datasette: Datasette, database: str) -> str:
    """The hybrid statement, or the one for text where there are no vectors."""

    def has_vectors(conn: Any) -> bool:
        return connection.vec_missing(conn) is None and bool(
            conn.execute(
                "select count(*) from sqlite_master where name = '_limbic_vec_entities'"
            ).fetchone()[0]
        )

    vectors = await datasette.get_database(database).execute_fn(has_vectors)
    settings = settings_for(datasette, database)
    return statement.build(Shape(vectors=vectors, fusion=settings.fusion, form=True))


def hidden_tables(datasette: Datasette) -> dict[str, Any]:
    """Metadata that hides our index tables on 0.65; 1.0 hides names with an underscore."""
    if compat.ONE_POINT_ZERO:
        return {}
    hidden = {schema.INDEX_PREFIX: {"hidden": True}, "_sqlite_migrations": {"hidden": True}}
    return {"databases": {name: {"tables": dict(hidden)} for name in datasette.databases}}
