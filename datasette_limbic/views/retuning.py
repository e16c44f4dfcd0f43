"""Changing the parameters over HTTP: apply what was proposed, set by hand, roll back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

from datasette import Response
from datasette.utils.sqlite import sqlite3

from .. import permissions
from ..answers import plain, public
from ..config import Settings, number
from ..errors import BadParameter, Busy, LimbicError, NotAllowed, NotAMemory
from ..tuning import versions
from ..tuning.ranges import HIGHEST
from ..tuning.version_rows import InForce
from . import posting, tuning, writable
from .apart import apart
from .common import Page, View, by_method, checked, json_response, render, whole_number
from .tabs import TUNING_TABLES
from .tuning_display import ASKED

VALUES = ("beta_sal", "gamma")
BODIES: dict[str, tuple[str, ...]] = {
    "apply": (*VALUES, "version", "until", *ASKED),
    "set": (*VALUES, "version"),
    "rollback": ("to", "version"),
}
"""Keys of each body."""
EXAMPLES = {
    "apply": '{"beta_sal": 1.5, "gamma": 0.1, "version": 0}',
    "set": '{"gamma": 0.05}',
    "rollback": "{}",
}
_MOST = (1 << 63) - 1
Doing = Callable[[Page, dict[str, Any]], Awaitable[InForce]]


async def _apply(here: Page, given: dict[str, Any]) -> InForce:
    """Work it out again, which takes seconds, apart; then write it where nothing came between."""
    lacking = [name for name in (*VALUES, "version") if given.get(name) is None]
    if lacking:
        raise BadParameter(
            f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not given: send the "
            "target that was proposed (beta_sal, gamma) and the version that was in force then"
        )
    beta_sal, gamma = (_value(given, name) for name in VALUES)
    options = await tuning.options(given, _whole(given, "until"))
    agreed = await apart(here, None, _agree, (options, (beta_sal, gamma), _whole(given, "version")))
    return await writable.written(
        here,
        lambda conn: applying().write_agreed(
            conn, agreed, settings=here.settings, actor=posting.actor_id(here)
        ),
    )


def _agree(conn: sqlite3.Connection, settings: Settings, asked: Any) -> Any:
    options, target, version = asked
    agreed, _ = applying().agree(
        conn, settings=settings, options=options, target=target, expected_version=version
    )
    return agreed


async def _set(here: Page, given: dict[str, Any]) -> InForce:
    beta_sal, gamma = (_value(given, name) for name in VALUES)
    version = _whole(given, "version")
    return await writable.written(
        here,
        lambda conn: versions.set_manual(
            conn,
            beta_sal,
            gamma,
            actor=posting.actor_id(here),
            settings=here.settings,
            expected_version=version,
        ),
    )


async def _rollback(here: Page, given: dict[str, Any]) -> InForce:
    to, version = _whole(given, "to"), _whole(given, "version")
    return await writable.written(
        here,
        lambda conn: versions.rollback(
            conn,
            to,
            actor=posting.actor_id(here),
            settings=here.settings,
            expected_version=version,
        ),
    )


DOING: dict[str, Doing] = {"apply": _apply, "set": _set, "rollback": _rollback}


def retuning_view(name: str) -> View:
    """The view of ``POST …/tuning/{name}``, with JSON or a form of the page."""

    async def change(here: Page) -> Response:
        await writable.require(here, permissions.EDIT, "changing the parameters")
        if posting.is_form(here.request):
            return await _of_form(here, name)
        posting.require_json(here, EXAMPLES[name])
        given = await posting.body(here, BODIES[name], EXAMPLES[name])
        now = await DOING[name](here, given)
        return json_response(here.datasette, public(await _told(here, now)))

    return by_method(
        f"with {EXAMPLES[name]}",
        POST=checked(change, TUNING_TABLES, wants_json=lambda r: not posting.is_form(r)),
    )


async def _told(here: Page, now: InForce) -> dict[str, Any]:
    """What is in force now, and what was before."""
    history = await here.read(versions.history)
    before = next((row["from"] for row in history if row["version"] == now.version), None)
    return plain({"in_force": vars(now), "from": before})  # type: ignore[no-any-return]


async def _of_form(here: Page, name: str) -> Response:
    """Back to the page; where it was not done, the page as it is now with the reason."""
    given = await posting.body(here, (*dict.fromkeys((*BODIES[name], *ASKED)),), "{}", form=True)
    # a form sends its empty fields too
    given = {key: value for key, value in given.items() if value != ""}
    kept = {key: given[key] for key in ASKED if key in given}
    try:
        # where the page could not be shown after it, nothing is written either
        options = await tuning.options(kept)
        now = await DOING[name](here, given)
    except (NotAMemory, NotAllowed):
        raise
    except LimbicError as error:
        return await _again(here, kept, error)
    if ({*options.beta_sal}, {*options.gamma}) == ({now.beta_sal}, {now.gamma}):
        kept = {}  # what was compared with is in force by now, and alone there
    query = urlencode({**kept, "done": now.version})
    return Response.redirect(f"{here.url('/tuning')}?{query}", 303)


async def _again(here: Page, kept: dict[str, Any], error: LimbicError) -> Response:
    try:
        data = await tuning.data(here, kept)
    except BadParameter:
        data = await tuning.data(here, {})
    except Busy:
        raise error from None
    data["_error"] = str(error)
    data["_return"] = "/tuning"
    html = await render(here.datasette, here.request, tuning.TEMPLATE, here, data)
    return Response.html(html, status=error.status)


def _value(given: dict[str, Any], name: str) -> float | None:
    if given.get(name) is None:
        return None
    return number(name, given[name], 0, HIGHEST) + 0.0


def _whole(given: dict[str, Any], name: str) -> int | None:
    """Exactly: a float has no room for the largest, and a form sends text."""
    value = given.get(name)
    if value is None:
        return None
    found = whole_number(value.strip()) if isinstance(value, str) else value
    if type(found) is float:
        found = int(number(name, found, 0, _MOST, whole=True))
    if type(found) is not int or not 0 <= found <= _MOST:
        raise BadParameter(f"{name} is {value!r:.40}: use a whole number from 0")
    return found


def applying() -> Any:
    """The module that works a proposal out; it loads numpy, which a start does without."""
    from ..tuning import applying

    return applying
