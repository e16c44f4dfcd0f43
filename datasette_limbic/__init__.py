"""A Datasette plugin for the memory of AI agents: see it, search it, look after it.

Hooks only, a line or two each; what they do stands in the modules they import. Nothing heavy
is imported here: Datasette and llm load this at every start. The Python API is
``datasette_limbic.api``.
"""

from __future__ import annotations

from typing import Any

import pluggy

hookimpl = pluggy.HookimplMarker("datasette")


@hookimpl
def prepare_connection(conn: Any, database: str, datasette: Any) -> None:
    from . import plugin

    plugin.prepare(conn, database, datasette)


@hookimpl
def startup(datasette: Any) -> Any:
    from . import plugin

    return plugin.start(datasette)


@hookimpl
def asgi_wrapper(datasette: Any) -> Any:
    from . import recorder, rights, varying, warming

    return lambda app: varying.wrap(
        rights.wrap(recorder.wrap(datasette, warming.wrap(datasette, app)))
    )


@hookimpl
def canned_queries(datasette: Any, database: str) -> Any:
    from . import plugin

    return plugin.canned_queries(datasette, database)


@hookimpl
def register_actions(datasette: Any) -> Any:
    from . import compat, permissions

    return compat.actions(permissions.DESCRIBED)


@hookimpl
def skip_csrf(datasette: Any, scope: dict[str, Any]) -> bool:
    from .views import posting

    return posting.skips_csrf(datasette.setting("base_url"), scope)


# first, so that a plugin that restricts what a token may do has the last word
@hookimpl(tryfirst=True)
def permission_allowed(datasette: Any, actor: Any, action: str, resource: Any) -> Any:
    from . import plugin

    return plugin.permission_allowed(datasette, actor, action, resource)


@hookimpl
def permission_resources_sql(datasette: Any, actor: Any, action: str) -> Any:
    from . import plugin

    return plugin.permission_resources_sql(datasette, actor, action)


@hookimpl
def get_metadata(datasette: Any) -> dict[str, Any]:
    from . import plugin

    return plugin.hidden_tables(datasette)


@hookimpl
def register_routes() -> list[tuple[str, Any]]:
    from .views import ROUTES

    return ROUTES


@hookimpl
def prepare_jinja2_environment(env: Any) -> None:
    from .views.display import FILTERS

    env.filters.update(FILTERS)


@hookimpl
def database_actions(datasette: Any, actor: Any, database: str) -> Any:
    from .views import links

    return links.database_actions(datasette, actor, database)


@hookimpl
def table_actions(datasette: Any, actor: Any, database: str, table: str) -> Any:
    from .views import links

    return links.table_actions(datasette, actor, database, table)


@hookimpl
def row_actions(datasette: Any, actor: Any, database: str, table: str, row: Any) -> Any:
    from .views import links

    return links.row_actions(datasette, actor, database, table, row)


@hookimpl
def menu_links(datasette: Any, actor: Any) -> Any:
    from .views import links

    return links.menu_links(datasette, actor)


# the next three are hooks of 1.0 alone
@hookimpl
def jump_items_sql(datasette: Any, actor: Any, request: Any) -> Any:
    from .views import jump

    return jump.jump_items_sql(datasette, actor, request)


@hookimpl
def top_database(datasette: Any, request: Any, database: str) -> Any:
    from .views import panel

    return panel.top_database(datasette, request, database)


@hookimpl
def top_homepage(datasette: Any, request: Any) -> Any:
    from .views import panel

    return panel.top_homepage(datasette, request)


@hookimpl
def render_cell(
    row: Any, value: Any, column: str, table: str, database: str, datasette: Any
) -> Any:
    from .views import links

    return links.render_cell(row, value, column, table, database, datasette)


@hookimpl
def limbic_retrievers() -> Any:
    from .retrieval import builtin

    return builtin.RETRIEVERS


@hookimpl
def register_commands(cli: Any) -> None:
    from .cli import limbic

    cli.add_command(limbic)
