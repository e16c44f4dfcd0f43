"""What every page shares: the database, permissions, errors, JSON twins, rendering."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from datasette import Forbidden, Response
from datasette.app import Datasette
from datasette.database import Database
from datasette.utils import add_cors_headers, tilde_decode
from datasette.utils.sqlite import sqlite3

from .. import compat, connection, i18n, varying
from ..answers import plain, public
from ..config import LANGUAGES, Settings
from ..errors import BadParameter, LimbicError, NotAMemory
from ..insights.standing import waiting
from ..plugin import settings_for
from ..schema import SEARCHED_TABLES
from . import tabs
from .writable import may_edit

log = logging.getLogger("datasette_limbic")

MAX_PAGE = 10_000_000
SCRIPT = "limbic_review.js"
"""Keys for pages with a decision or an undo."""
T = TypeVar("T")


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

    @property
    def given(self) -> dict[str, str]:
        """Those that hold something: a form sends its empty fields too."""
        return {key: value for key, value in self.args.items() if value != ""}

    async def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """What ``function`` reads from the database, fit for JSON and templates."""
        return plain(await self.db.execute_fn(function))  # type: ignore[no-any-return]

    def url(self, path: str = "") -> str:
        """URL of another page of ours on the same database."""
        return limbic_url(self.datasette, self.db.name, path)

    def whole(self, name: str, default: int, most: int = MAX_PAGE) -> int:
        """A whole number from 1 to ``most`` among the arguments."""
        value = self.args.get(name, "")
        if value == "":
            return default
        found = whole_number(value)
        if found is None or not 1 <= found <= most:
            raise BadParameter(f"{name} is {value[:40]!r}: use a whole number from 1 to {most}")
        return found


def whole_number(text: str, *, signed: bool = False) -> int | None:
    """ASCII digits as a number that SQLite can hold, else None. ``signed`` takes a minus too."""
    digits = text.removeprefix("-") if signed else text
    if not digits.isascii() or not digits.isdigit() or len(text) > 4000:
        return None
    return found if -(2**63) <= (found := int(text)) < 2**63 else None


def limbic_url(datasette: Datasette, database: str, path: str = "") -> str:
    return str(datasette.urls.database(database)) + "/-/limbic" + path


Handler = Callable[[Page], Awaitable[tuple[str, dict[str, Any]]]]
View = Callable[..., Awaitable[Response]]


def page(
    handler: Handler,
    tables: tuple[str, ...] = SEARCHED_TABLES,
    *,
    takes: tuple[str, ...] | None = None,
    told: str | None = None,
) -> View:
    """Make a view of ``handler``, which answers with a template name and one dict.

    The dict is the JSON twin; the template gets the same. Keys that start with an underscore
    are for the template alone. Whoever may not view each of ``tables`` gets 403. GET and HEAD
    only. An argument of the URL that is not among ``takes`` is a 400, where that is given:
    ``stale_day=30`` must not answer for 90 days. ``told`` is one that our own redirects add for
    a notice: the page alone takes it.
    """

    async def answer(here: Page) -> Response:
        if takes is not None:
            refuse_unknown(here, takes, None if here.as_json else told)
        template, data = await handler(here)
        if here.as_json:
            return json_response(here.datasette, public(data))
        return Response.html(await render(here.datasette, here.request, template, here, data))

    view = by_method(GET=checked(answer, tables))
    view.__name__, view.__doc__ = handler.__name__, handler.__doc__
    return view


def refuse_unknown(here: Page, takes: tuple[str, ...], told: str | None = None) -> None:
    """Raises BadParameter where an argument of the URL is neither among ``takes`` nor ``told``."""
    # those with an underscore are Datasette's own
    unknown = [
        n for n in here.request.args if n not in takes and n != told and not n.startswith("_")
    ]
    if unknown:
        raise BadParameter(
            f"unknown argument {', '.join(name[:40] for name in sorted(unknown)[:5])}: "
            f"this page takes {', '.join(takes) or 'none'}"
        )


def has_json_path(request: Any) -> bool:
    return bool(request.url_vars.get("format"))


def by_method(hint: str = "", **views: View) -> View:
    """One view of several, by HTTP method; GET answers HEAD too, any other method is a 405.

    ``hint`` is what the 405 says besides: what to send.
    """
    answered = {"GET": ["GET", "HEAD"]}
    allowed = [name for method in views for name in answered.get(method, [method])]

    # no functools.wraps: Datasette reads the signature to know what to hand over
    async def view(datasette: Datasette, request: Any) -> Response:
        if request.method == "OPTIONS" and datasette.cors:
            return json_response(datasette, {"ok": True})
        method = "GET" if request.method == "HEAD" else request.method
        if method in views:
            return await views[method](datasette, request)
        message = f"{request.method} is not answered here: use {' or '.join(views)}"
        message += f", {hint}" if hint else ""
        # a person who opens the address of a form; programs that send to it name no such type
        accept = request.headers.get("accept", "").lower()
        is_page = method == "GET" and "text/html" in accept and not has_json_path(request)
        if is_page:
            message += (
                ". This is where the forms of other pages lead: go back to the one you were on"
            )
        shown = await _shown(datasette, request) if is_page else None
        response = await failed(datasette, request, not is_page, 405, message, shown)
        response.headers["allow"] = ", ".join(allowed)
        return response

    return view


async def _shown(datasette: Datasette, request: Any) -> str | None:
    """The database of a request, where the visitor may know of it."""
    name = tilde_decode(request.url_vars["database"])
    may = name in datasette.databases and await compat.may_view(datasette, request.actor, name, ())
    return name if may else None


def checked(
    answer: Callable[[Page], Awaitable[Response]],
    tables: tuple[str, ...],
    *,
    wants_json: Callable[[Any], bool] = has_json_path,
) -> View:
    """A view that has found the database and the rights, and turns what goes wrong into an answer.

    ``wants_json`` says of a request whether errors are answered in JSON or as a page.
    """

    async def view(datasette: Datasette, request: Any) -> Response:
        json_wanted = wants_json(request)
        name = tilde_decode(request.url_vars["database"])
        db = datasette.databases.get(name)
        if db is None or name == "_internal":
            return await failed(
                datasette, request, json_wanted, 404, f"there is no database {name!r:.80}"
            )
        try:
            await compat.require_view(datasette, request.actor, name, tables)
            settings = settings_for(datasette, name)
            with i18n.spoken(_language(request, settings, json_wanted)):
                return await answer(Page(datasette, request, db, settings, json_wanted))
        except Forbidden as error:
            if not json_wanted:
                raise
            return await failed(datasette, request, True, 403, str(error), name)
        except LimbicError as error:
            known = None if isinstance(error, NotAMemory) else name
            return await failed(datasette, request, json_wanted, error.status, str(error), known)
        except sqlite3.DatabaseError as error:
            log.warning("reading %s failed: %s", name, error)
            return await failed(
                datasette,
                request,
                json_wanted,
                503,
                connection.unreadable(name, error, "Datasette's log names it"),
                name,
            )

    return view


def _language(request: Any, settings: Settings, as_json: bool) -> str:
    """The language to answer in: programs get English."""
    return i18n.SOURCE if as_json else page_language(request, settings)


def page_language(request: Any, settings: Settings | None) -> str:
    """The language of a page; ``_lang`` in the URL has the last word. ``settings`` are None where
    there is no memory, or they cannot be read."""
    asked = request.args.get("_lang")
    if asked in LANGUAGES:
        found = str(asked)
    elif settings is not None and settings.language != "auto":
        found = settings.language
    else:
        found = i18n.preferred(varying.header(request, "accept-language"))
    return found if i18n.speaks(found) else i18n.SOURCE


async def html_of(
    datasette: Datasette, request: Any, template: str, context: dict[str, Any]
) -> str:
    """A template of ours as HTML, in the language of the page."""
    env = i18n.overlay(compat.environment(datasette, request))
    return str(
        await datasette.render_template(env.get_template(template), context, request=request)
    )


async def render(
    datasette: Datasette, request: Any, template: str, here: Page, data: dict[str, Any]
) -> str:
    return printable(
        await html_of(
            datasette,
            request,
            template,
            {
                **data,
                "database": here.db.name,
                "base": here.url(),
                "css_url": datasette.urls.static_plugins("datasette-limbic", "limbic.css"),
                "_static": lambda name: datasette.urls.static_plugins("datasette-limbic", name),
                "_language": i18n.language(),
                # a page that answers a form has its twin elsewhere
                "json_url": data.get("_json_url") or json_url(here),
                # no link to pages that would answer 403: some ask for more rights than others
                "_tabs": (found := await tabs.shown(datasette, request.actor, here.db.name)),
                "_tab_names": (names := {tab.name for tab in found}),
                # an entity's page reads what search does
                "_entities_shown": "search" in names,
                # how many decisions wait, for whoever may see which
                "_waiting": await here.db.execute_fn(waiting) if "review" in names else 0,
                # whether buttons are shown (what they lead to reads what the queue does), and
                # where that goes back to
                "_may_edit": "review" in names
                and await may_edit(datasette, request.actor, here.db),
                "_return": data.get("_return", below(here)),
            },
        )
    )


def below(here: Page) -> str:
    """The path and query of this request below /{database}/-/limbic."""
    path = str(here.request.path).partition("/-/limbic")[2]
    return f"{path}?{here.request.query_string}" if here.request.query_string else path


def json_url(here: Page) -> str:
    """URL of this page's JSON twin."""
    path = _without_base(here, here.request.path.rstrip("/")) + ".json"
    query = urlencode(here.given)
    return str(here.datasette.urls.path(path)) + (f"?{query}" if query else "")


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
    """An error as JSON or as a page that says what to do next.

    ``name`` is the memory that the page belongs to, None where there is none.
    """
    if as_json:
        return json_response(datasette, {"ok": False, "error": message, "status": status}, status)
    with i18n.spoken(_language_of_error(datasette, request, name)):
        html = await html_of(
            datasette,
            request,
            "limbic_error.html",
            {
                "message": message,
                "status": status,
                "database": name,
                "base": limbic_url(datasette, name)
                if name and name in datasette.databases
                else None,
                "query": (request.args.get("q") or "")[:200],
                "css_url": datasette.urls.static_plugins("datasette-limbic", "limbic.css"),
                "_language": i18n.language(),
            },
        )
    return Response.html(printable(html), status=status)


def _language_of_error(datasette: Datasette, request: Any, name: str | None) -> str:
    """As ``page_language``, also where the configuration is what is wrong."""
    if name is None:
        return page_language(request, None)
    try:
        return page_language(request, settings_for(datasette, name))
    except BadParameter:
        return page_language(request, None)


def printable(html: str) -> str:
    """A page without U+0000, which no HTML may hold: texts of other programs may have it."""
    return html.replace("\0", "\ufffd")


def json_response(datasette: Datasette, data: Any, status: int = 200) -> Response:
    """JSON with the CORS headers of Datasette 1.0 where that is switched on."""
    headers: dict[str, str] = {}
    if datasette.cors:
        add_cors_headers(headers)
        # 0.65 lets no page send JSON, which is what a POST of ours takes
        headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type"
    return Response(
        json.dumps(data, ensure_ascii=False, allow_nan=False, default=str),
        status=status,
        headers=headers,
        content_type="application/json; charset=utf-8",
    )
