"""Every difference between Datasette 0.65 and the 1.0 alphas, one function each."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar
from typing import Any, TypeVar

import click
from datasette import Forbidden, hookspecs
from datasette.app import Datasette
from datasette.database import Database
from datasette.utils import StartupError, actor_matches_allow
from datasette.utils.sqlite import sqlite3

from . import permissions, rights
from .retrieval import held

log = logging.getLogger("datasette_limbic")

ONE_POINT_ZERO = hasattr(hookspecs, "register_actions")
T = TypeVar("T")
_OF_A_DATABASE = ("view-database", "execute-sql", permissions.RECORD, permissions.EDIT)


class StartFailed(StartupError, click.ClickException):  # type: ignore[misc]
    """Stops the start with one sentence: 0.65 shows a traceback of a plain StartupError."""


async def require_view(
    datasette: Datasette, actor: dict[str, Any] | None, database: str, tables: Iterable[str]
) -> None:
    """Raise Forbidden, naming what is missing, unless ``actor`` may view database and tables."""
    with _named(f"view-database on {database}"):
        await _require_database(datasette, actor, database)
    if ONE_POINT_ZERO:
        for table in tables:
            await _require_named(datasette, actor, database, table)
        return
    asked = [_require_named(datasette, actor, database, table) for table in tables]
    # 0.65 looks each table up in a thread, whose answers are waited for together
    for found in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found


async def _require_named(
    datasette: Datasette, actor: dict[str, Any] | None, database: str, table: str
) -> None:
    with _named(f"view-table on {database}/{table}"):
        await _require_table(datasette, actor, database, table)


@contextmanager
def _named(right: str) -> Iterator[None]:
    try:
        yield
    except Forbidden as error:
        raise Forbidden(f"you are not allowed to see this: it needs {right}") from error


async def _require_database(
    datasette: Datasette, actor: dict[str, Any] | None, database: str
) -> None:
    if ONE_POINT_ZERO:
        from datasette.resources import DatabaseResource

        # one query for all that the request asks of the database; the answers are kept for it
        await datasette.allowed_many(
            actions=_OF_A_DATABASE, resource=DatabaseResource(database), actor=actor
        )
        await datasette.ensure_permission(
            action="view-database", resource=DatabaseResource(database), actor=actor
        )
    else:
        await datasette.ensure_permissions(actor, [("view-database", database), "view-instance"])


async def _require_table(
    datasette: Datasette, actor: dict[str, Any] | None, database: str, table: str
) -> None:
    """Of a database that ``actor`` may view."""
    if ONE_POINT_ZERO:
        from datasette.resources import TableResource

        known = rights.kept(datasette, actor, database)
        if known is None or not await known.may_view(table):
            # the first question of a request, or a refusal, which Datasette notes for its log
            await datasette.ensure_permission(
                action="view-table", resource=TableResource(database, table), actor=actor
            )
    else:
        # table, then database, then instance: the first that has an opinion decides, as on
        # Datasette's own table page; database and instance have said yes already
        allowed = await datasette.permission_allowed(
            actor, "view-table", resource=(database, table), default=None
        )
        if allowed is not None and not allowed:
            raise Forbidden("view-table")


def forget_permissions() -> None:
    """1.0: in this context, forget what Datasette keeps of permissions for the request.

    That is its answers, and whether it is to check at all. Their names are private and differ
    between versions, so all that its module keeps so goes back to where it is without a request.
    """
    from datasette import permissions as own

    for kept in vars(own).values():
        if isinstance(kept, ContextVar):
            with suppress(LookupError):  # without a default, which is not set where it is not used
                kept.set(Context().run(kept.get))


def environment(datasette: Datasette, request: Any) -> Any:
    """The Jinja environment for a request, in which Datasette finds its templates."""
    if ONE_POINT_ZERO:
        return datasette.get_jinja_environment(request)
    return datasette.jinja_env


async def may_execute_sql(
    datasette: Datasette, actor: dict[str, Any] | None, database: str
) -> bool:
    """Whether ``actor`` may write SQL of their own on this database."""
    if ONE_POINT_ZERO:
        from datasette.resources import DatabaseResource

        return bool(
            await datasette.allowed(
                action="execute-sql", resource=DatabaseResource(database), actor=actor
            )
        )
    return bool(
        await datasette.permission_allowed(actor, "execute-sql", resource=database, default=True)
    )


async def may(
    datasette: Datasette, actor: dict[str, Any] | None, action: str, database: str
) -> bool:
    """Whether ``actor`` has one of our own permissions on the database. The default is no."""
    if ONE_POINT_ZERO:
        from datasette.resources import DatabaseResource

        return bool(
            await datasette.allowed(action=action, resource=DatabaseResource(database), actor=actor)
        )
    return bool(await datasette.permission_allowed(actor, action, resource=database, default=False))


def actions(described: dict[str, tuple[str, str]]) -> list[Any]:
    """Our permissions as 1.0 registers them: name → (abbreviation, description)."""
    from datasette.permissions import Action
    from datasette.resources import DatabaseResource

    return [
        Action(
            name=name,
            abbr=abbr,
            description=description,
            resource_class=DatabaseResource,
            also_requires="view-database",
        )
        for name, (abbr, description) in described.items()
    ]


def granted(datasette: Datasette, actor: dict[str, Any] | None, action: str, database: str) -> Any:
    """0.65: what a ``permissions`` block of the metadata says, that of the database first.

    Blocks read as in 1.0: one that does not name an actor denies it, root too. Where there is
    none, root may, and None leaves everybody else to the default.
    """
    for block in (
        datasette.metadata("permissions", database=database, fallback=False),
        datasette.metadata("permissions"),
    ):
        allow = block.get(action) if isinstance(block, dict) else None
        if allow is None:
            continue
        if isinstance(allow, int):  # true and false, or 1 and 0 as the command line gives them
            return bool(allow)
        if not isinstance(allow, dict):
            log.error("permissions: %s is %r, which allows nobody: use a mapping", action, allow)
            return False
        return actor_matches_allow(actor, allow)
    return True if actor and actor.get("id") == "root" else None


async def execute_write(db: Database, function: Callable[[Any], T]) -> T:
    """Run ``function`` on the write connection, which opens its transaction itself.

    What it raises is raised here, without 0.65 printing it as well; and OperationalError where
    another file stands in the place of the one that is open: with a WAL, SQLite would mix the two.
    """

    def caught(conn: Any) -> T | Exception:
        try:
            if reason := held.replaced(conn):
                raise sqlite3.OperationalError(reason)
            return function(conn)
        except Exception as error:
            return error

    options = {"transaction": False} if ONE_POINT_ZERO else {}
    result = await db.execute_write_fn(caught, **options)
    if isinstance(result, Exception):
        raise result
    return result  # type: ignore[no-any-return]


async def may_view(
    datasette: Datasette, actor: dict[str, Any] | None, database: str, tables: Iterable[str]
) -> bool:
    """Whether ``actor`` may see our pages of this database: for links in menus."""
    try:
        await require_view(datasette, actor, database, tables)
    except (Forbidden, sqlite3.DatabaseError):
        return False
    return True


def deny(denied: list[tuple[str, str]]) -> Any:
    """A rule of 1.0 that denies each (database, table or query); None where there is none."""
    if not denied:
        return None
    from datasette.permissions import PermissionSQL

    return PermissionSQL(
        sql="select json_extract(value, '$[0]') as parent, json_extract(value, '$[1]') as child,"
        " 0 as allow, 'made of tables that are not visible' as reason"
        " from json_each(:limbic_denied)",
        params={"limbic_denied": json.dumps(denied)},
    )


async def add_stored_query(
    datasette: Datasette,
    database: str,
    name: str,
    sql: str,
    *,
    title: str,
    description: str,
    parameters: tuple[str, ...],
) -> None:
    """Register a trusted stored query (1.0; on 0.65 the canned_queries hook answers)."""
    if not ONE_POINT_ZERO:
        return
    await datasette.add_query(
        database,
        name,
        sql,
        title=title,
        description=description,
        parameters=parameters,
        is_trusted=True,
        hide_sql=False,
        source="datasette-limbic",
    )


def jump_sql(sql: str, params: dict[str, Any]) -> Any:
    """Entries of the jump menu, which is there on 1.0 alone; Datasette's own database runs it."""
    from datasette.jump import JumpSQL

    return JumpSQL(sql=sql, params=params)
