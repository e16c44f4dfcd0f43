"""What every page shares: the database, permissions, errors, JSON twins, rendering."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from datasette import Forbidden, Response
from datasette.app import Datasette
from datasette.database import Database
from datasette.utils import tilde_decode
from datasette.utils.sqlite import sqlite3

from .. import compat, connection
from ..config import Settings
from ..errors import BadParameter, LimbicError
from ..plugin import settings_for
from ..schema import CORE_TABLES

log = logging.getLogger("datasette_limbic")


@dataclass
class Page:
    """One request to one of our pages."""

    datasette: Datasette
    request: Any
    db: Database
    settings: Settings
    as_json: bool

    @property
    def args(self) -> dict[str, str]:
        """Arguments of the URL, the last one of each name."""
        return {key: self.request.args.getlist(key)[-1] for key in self.request.args}

    def url(self, path: str = "") -> str:
        """URL of another page of ours on the same database."""
        return limbic_url(self.datasette, self.db.name, path)

    def whole(self, name: str, default: int) -> int:
        """A whole number ≥ 1 among the arguments."""
        value = self.args.get(name, "")
        if value == "":
            return default
        if not value.isascii() or not value.isdigit() or not 1 <= int(value[:9]) <= 10_000_000:
            raise BadParameter(f"{name} is {value!r:.40}: use a whole number from 1")
        return int(value)


def limbic_url(datasette: Datasette, database: str, path: str = "") -> str:
    return str(datasette.urls.database(database)) + "/-/limbic" + path


Handler = Callable[[Page], Awaitable[tuple[str, dict[str, Any]]]]


def page(handler: Handler) -> Callable[..., Awaitable[Response]]:
    """Make a view of ``handler``, which answers with a template name and one dict.

    The dict is the JSON twin; the template gets the same. Keys that start with an underscore
    are for the template alone. GET and HEAD only.
    """

    # no functools.wraps: Datasette reads the signature to know what to hand over
    async def view(datasette: Datasette, request: Any) -> Response:
        as_json = bool(request.url_vars.get("format"))
        name = tilde_decode(request.url_vars["database"])
        if request.method not in ("GET", "HEAD"):
            return await failed(
                datasette, request, as_json=True, status=405, name=name,
                message=f"{request.method} is not answered here: use GET",
            )
        db = datasette.databases.get(name)
        if db is None or name == "_internal":
            return await failed(
                datasette, request, as_json, 404, f"there is no database {name!r:.80}"
            )
        try:
            await compat.require_view(datasette, request.actor, name, CORE_TABLES)
        except Forbidden:
            if not as_json:
                raise
            return await failed(
                datasette, request, as_json, 403, "you are not allowed to see this memory", name
            )
        try:
            here = Page(datasette, request, db, settings_for(datasette, name), as_json)
            template, data = await handler(here)
        except LimbicError as error:
            return await failed(datasette, request, as_json, error.status, str(error), name)
        except sqlite3.DatabaseError as error:
            log.exception("reading %s failed", name)
            message = str(connection.unusable(name, error))
            return await failed(datasette, request, as_json, 503, message, name)
        if as_json:
            public = {k: v for k, v in data.items() if not k.startswith("_")}
            return json_response(datasette, {"ok": True, **public})
        return Response.html(await render(datasette, request, template, here, data))

    view.__name__, view.__doc__ = handler.__name__, handler.__doc__
    return view


async def render(
    datasette: Datasette, request: Any, template: str, here: Page, data: dict[str, Any]
) -> str:
    return str(
        await datasette.render_template(
            template,
            {
                **data,
                "database": here.db.name,
                "base": here.url(),
                "css_url": datasette.urls.static_plugins("datasette-limbic", "limbic.css"),
                "json_url": json_url(here),
            },
            request=request,
        )
    )


def json_url(here: Page) -> str:
    path, _, query = here.request.path, "", here.request.query_string
    path = path.rstrip("/") + ".json"
    if hasattr(here.datasette.urls, "path"):
        path = str(here.datasette.urls.path(_without_base(here, path)))
    return path + (f"?{query}" if query else "")


def _without_base(here: Page, path: str) -> str:
    base = here.datasette.setting("base_url")
    return "/" + path[len(base) :] if base != "/" and path.startswith(base) else path


async def failed(
    datasette: Datasette,
    request: Any,
    as_json: bool,
    status: int,
    message: str,
    name: str | None = None,
) -> Response:
    """An error as JSON or as a page that says what to do next."""
    if as_json:
        return json_response(datasette, {"ok": False, "error": message, "status": status}, status)
    html = await datasette.render_template(
        "limbic_error.html",
        {
            "message": message,
            "status": status,
            "database": name,
            "base": limbic_url(datasette, name) if name in datasette.databases else None,
            "css_url": datasette.urls.static_plugins("datasette-limbic", "limbic.css"),
        },
        request=request,
    )
    return Response.html(html, status=status)


def json_response(datasette: Datasette, data: Any, status: int = 200) -> Response:
    """JSON with Datasette's own CORS header where that is switched on."""
    headers = {"access-control-allow-origin": "*"} if getattr(datasette, "cors", False) else {}
    return Response(
        json.dumps(data, ensure_ascii=False, allow_nan=False, default=str),
        status=status,
        headers=headers,
        content_type="application/json; charset=utf-8",
    )
