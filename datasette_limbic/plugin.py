"""What the hooks of Datasette do that is no page: connections, start-up, hidden tables."""

from __future__ import annotations

import logging
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from datasette.app import Datasette
from datasette.database import Database
from datasette.utils.sqlite import sqlite3

from . import compat, connection, derived, permissions, rights, schema, statement
from .config import NAME, Settings
from .errors import BadParameter
from .retrieval import choosing
from .statement import Shape

log = logging.getLogger("datasette_limbic")

STORED_QUERY = "limbic_search"
STORED_QUERY_TITLE = "Limbic search: the ranking as one SQL statement"
STORED_QUERY_DESCRIPTION = (
    "The statement behind the search page. Empty parameters mean the defaults; "
    "explain=1 lists the whole pool."
)

_known: WeakSet[Database] = WeakSet()
_registered: WeakKeyDictionary[Database, str] = WeakKeyDictionary()


def settings_for(datasette: Datasette, database: str) -> Settings:
    """The plugin's settings for one database: its own, else those for all."""
    given = datasette.plugin_config(NAME, database=database)
    if given is None:
        # Datasette itself forgets those for all: 1.0a41 where anything is configured for the
        # database (who may view it), 0.65 where another plugin is
        given = datasette.plugin_config(NAME)
    return Settings.from_mapping(given)


def prepare(conn: Any, database: str, datasette: Datasette) -> None:
    """Make a connection of Datasette's ready; never stops Datasette from starting."""
    try:
        settings = settings_for(datasette, database)
    except BadParameter as error:
        log.error("%s. The defaults are used.", error)
        settings = Settings()
    if connection.prepare(conn, settings) is not None:
        stand_in(conn)


def stand_in(conn: Any) -> None:
    """Temporary tables in place of the vector tables, where sqlite-vec is not to be had.

    Datasette looks at the columns of every table when it starts, which fails without the module
    ("no such module: vec0"). A temporary table of the same name comes first; the file stays as
    it is.
    """
    try:
        names = [
            row[0]
            for row in conn.execute(
                "select name from main.sqlite_master where type = 'table'"
                " and name like '_limbic_vec%' and sql like 'create virtual table%using vec0%'"
            )
        ]
        for name in names:
            conn.execute(f'create temp table "{name}" (reason text)')
    except sqlite3.DatabaseError as error:
        log.warning("the vector tables have no stand-in: %s", error)


async def memories(datasette: Datasette) -> list[str]:
    """Names of the databases that hold a memory."""
    found = []
    for name, db in datasette.databases.items():
        if name != "_internal" and await is_memory(db):
            found.append(name)
    return found


async def is_memory(db: Database) -> bool:
    """Whether a database holds a memory. A memory stays one, so yes is remembered.

    Every page of Datasette asks this for its menu: a file that cannot be read counts as none.
    """
    if db in _known:
        return True
    try:
        found = bool(await db.execute_fn(schema.is_memory))
    except sqlite3.DatabaseError as error:
        log.warning("%s", connection.unusable(db.name, error))
        return False
    if found:
        _known.add(db)
    return found


def start(datasette: Datasette) -> Any:
    """At start: check the configuration, register the stored query for each memory."""
    for name in datasette.databases:
        try:
            settings_for(datasette, name)
        except BadParameter as error:
            text = str(error) if NAME in str(error) else f"{NAME}: {error}"
            raise compat.StartFailed(f"in the plugin configuration, {text}") from error

    async def inner() -> None:
        for name in await memories(datasette):
            try:
                await register_query(datasette, name)
            except sqlite3.DatabaseError as error:
                log.warning("%s", connection.unusable(name, error))

    return inner


async def register_query(datasette: Datasette, database: str) -> None:
    """Register the stored query on 1.0, again where another statement serves by now.

    That is so after the first sync, or where the memory was made while Datasette ran. On 0.65
    ``canned_queries`` answers afresh each time.
    """
    if not compat.ONE_POINT_ZERO:
        return
    db = datasette.get_database(database)
    sql = await _stored_sql(datasette, database)
    if _registered.get(db) == sql:
        return
    await compat.add_stored_query(
        datasette,
        database,
        STORED_QUERY,
        sql,
        title=STORED_QUERY_TITLE,
        description=STORED_QUERY_DESCRIPTION,
        parameters=statement.PARAMETERS,
    )
    _registered[db] = sql


def canned_queries(datasette: Datasette, database: str) -> Any:
    """The stored query, as Datasette 0.65 wants it."""

    async def inner() -> dict[str, Any]:
        db = datasette.databases.get(database)
        if database == "_internal" or db is None or not await is_memory(db):
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

    settings = settings_for(datasette, database)

    def shape(conn: Any) -> Shape:
        vectors = connection.vec_missing(conn) is None and bool(
            conn.execute(
                "select count(*) from sqlite_master where name = '_limbic_vec_entities'"
            ).fetchone()[0]
        )
        nearest = choosing.stored_nearest(conn, settings) if vectors else None
        return Shape(vectors=vectors, fusion=settings.fusion, form=True, cut=False, nearest=nearest)

    found = await datasette.get_database(database).execute_fn(shape)
    return statement.build(found, readable=True)


def permission_allowed(datasette: Datasette, actor: Any, action: str, resource: Any) -> Any:
    """0.65: our own permissions; what is made of tables needs the right to see those."""
    if action in permissions.DESCRIBED:
        return compat.granted(datasette, actor, action, resource)
    if action not in ("view-query", "view-table") or not resource:
        return None
    database, name = resource
    needed: tuple[str, ...] = ()
    if action == "view-table":
        needed = derived.made_of(name)
    elif name == STORED_QUERY:
        needed = schema.SEARCHED_TABLES
    if not needed:
        return None

    async def inner() -> bool | None:
        db = datasette.databases.get(database)
        if database == "_internal" or db is None or not await is_memory(db):
            return None
        # asks here again for each of them, which is made of less
        return None if await compat.may_view(datasette, actor, database, needed) else False

    return inner


def permission_resources_sql(datasette: Datasette, actor: Any, action: str) -> Any:
    """The same for 1.0, where a view and a trusted query ask for no rights of what they read."""
    if action == "view-query":
        return _deny_queries(datasette, actor)
    return _deny_tables(datasette, actor) if action == "view-table" else None


async def _deny_queries(datasette: Datasette, actor: Any) -> Any:
    denied = [
        (name, STORED_QUERY)
        for name in await memories(datasette)
        if not await compat.may_view(datasette, actor, name, schema.SEARCHED_TABLES)
    ]
    return compat.deny(denied)


async def _deny_tables(datasette: Datasette, actor: Any) -> Any:
    """What is made of tables that the actor may not view."""
    if rights.asking():
        return None
    denied = []
    for database in await memories(datasette):
        if await compat.may_view(datasette, actor, database, ()):
            names = await (await rights.tables(datasette, actor, database)).denied()
        else:
            names = [name for layer in derived.layers() for name in layer]
        denied += [(database, name) for name in names]
    return compat.deny(denied)


def hidden_tables(datasette: Datasette) -> dict[str, Any]:
    """Metadata that hides our index tables on 0.65; 1.0 hides names with an underscore."""
    if compat.ONE_POINT_ZERO:
        return {}
    hidden = {
        name: {"hidden": True}
        for name in (schema.INDEX_PREFIX, "_sqlite_migrations", "sqlite_sequence")
    }
    return {"databases": {name: {"tables": dict(hidden)} for name in datasette.databases}}
