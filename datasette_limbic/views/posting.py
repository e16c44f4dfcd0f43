"""What every POST shares: the body, who may record, and what the answer says of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from .. import connection, recorder, serving
from ..errors import BadParameter, BodyTooLarge, NotAllowed
from ..recording import Recording
from ..text import storable
from .common import Page, whole_number

MAX_BODY = 1024 * 1024
MAX_FIELDS = 50_000
"""Of a form: a split of 5,000 observations has some 5,100."""
AT_ONCE = 64 * 1024
"""Bytes that are taken apart where they came; more would keep all others waiting."""
T = TypeVar("T")
MAX_DEPTH = 10
_OURS = re.compile(r"/[^/]+/-/limbic/(actions/|review/|tuning/)?[^/]+")
# Answers everything but JSON with the sentence that it takes JSON alone.
_JSON_ALONE = re.compile(r"/[^/]+/-/limbic/observations(\.json)?")


def skips_csrf(base_url: str, scope: dict[str, Any]) -> bool:
    """0.65: whether a request needs no CSRF token, being JSON to one of our own addresses, or to
    one that refuses all else itself.

    A page of another site cannot send that type without asking first (CORS), and for what other
    plugins answer it is theirs to say. The path is taken apart as Datasette's router does it.
    """
    path = (scope.get("raw_path") or b"").decode("latin-1") or scope["path"]
    path = path.partition("?")[0]
    if base_url != "/" and path.startswith(base_url):
        path = "/" + path[len(base_url) :]
    if content_type(scope) != "application/json":
        return _JSON_ALONE.fullmatch(path) is not None
    return _OURS.fullmatch(path) is not None


def content_type(scope: dict[str, Any]) -> str:
    """The type of a request's body without its parameters; empty where not exactly one is given."""
    types = [value for name, value in scope.get("headers") or () if name.lower() == b"content-type"]
    return types[0].split(b";")[0].strip().lower().decode("latin-1") if len(types) == 1 else ""


def is_form(request: Any) -> bool:
    """Whether a browser's form sent this, which wants a page and no JSON for an answer."""
    return (
        content_type(request.scope) == "application/x-www-form-urlencoded"
        and "text/html" in request.headers.get("accept", "").lower()
    )


async def body(
    here: Page, allowed: tuple[str, ...], example: str, *, form: bool = False
) -> dict[str, Any]:
    """The request's JSON object, or with ``form`` the fields of a form.

    Text in it can be written as UTF-8. Raises BadParameter, naming what is wrong (empty, too
    long, no JSON, no object, unknown keys), and NotAllowed where another site may have sent it.
    ``example`` is what the sentence about an empty body shows.
    """
    text = await _text(here, example)
    if form:
        given: dict[str, Any] = dict(await apart(len(text), _fields, text))
    else:
        given = await apart(len(text), _json, text, allowed)
    unknown = [str(name)[:40] for name in given if name not in allowed]
    if unknown:
        takes = f"the body takes {', '.join(allowed)}" if allowed else f"send {example}"
        raise BadParameter(f"unknown key {', '.join(unknown[:5])}: {takes}")
    return given


async def fields(here: Page, example: str) -> list[tuple[str, str]]:
    """The fields of a form as they came, those of one name several times. Raises as ``body``."""
    text = await _text(here, example)
    return await apart(len(text), _fields, text)


def _fields(text: str) -> list[tuple[str, str]]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise BadParameter(
            f"the form has more than {MAX_FIELDS:,} fields: send JSON, or less at once"
        ) from error
    return [(name, storable(value)) for name, value in pairs if name != "csrftoken"]


async def apart(length: int, function: Callable[..., T], *args: Any) -> T:
    """``function(*args)``, in a thread of its own where it works on more than ``AT_ONCE``."""
    return function(*args) if length <= AT_ONCE else await asyncio.to_thread(function, *args)


def require_json(
    here: Page, example: str, instead: str = ", or the form of a page of ours"
) -> None:
    """Raise BadParameter unless a body is JSON; ``instead`` says what else is taken.

    Without a type too: on 0.65 only the type keeps pages of other sites from sending a cookie.
    """
    if content_type(here.request.scope) != "application/json":
        raise BadParameter(
            f"this takes JSON{instead}: send {example} with the header "
            "content-type: application/json"
        )


def parsed(text: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    """A JSON object, as ``body`` takes it: without constants that are no JSON, and keys twice."""
    return _json(text, allowed)


async def _text(here: Page, example: str) -> str:
    """The body as text. Raises BadParameter, and NotAllowed where another site may have sent it."""
    if _forgeable(here.request):
        raise NotAllowed(
            "a page of another site may have sent this: send it from a program, or with a token "
            "that signs it in (authorization: Bearer …) and without cookies"
        )
    raw = await _read(here.request)
    if not raw.strip():
        raise BadParameter(f"the body is empty: send {example} by POST")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadParameter(f"the body is no UTF-8: {error}") from error


def _forgeable(request: Any) -> bool:
    """Whether a page of another site may have made a browser send this.

    1.0 refuses most of it, 0.65 what has a cookie and is no JSON; with ``--cors`` a browser
    sends JSON too. Anybody may be allowed to record: a local server must not take that from any
    page that its user has open. Programs send neither header. A token that signs the request in
    is known to the page that sends it; a browser adds none by itself, as it does with cookies
    and with Basic.
    """
    headers: dict[str, str] = request.headers
    bearer = headers.get("authorization", "").lower().startswith("bearer ")
    if bearer and request.actor and not headers.get("cookie"):
        return False
    if "sec-fetch-site" in headers:
        return headers["sec-fetch-site"] not in ("same-origin", "none")
    if "origin" not in headers:
        return False
    sender = headers["origin"].partition("://")[2]
    return sender.lower() != headers.get("host", "").lower()


async def _read(request: Any) -> bytes:
    """The whole body; one that is too long is refused as soon as that is known."""
    too_large = BodyTooLarge(f"the body has more than {MAX_BODY:,} bytes: send less at once")
    if (whole_number(request.headers.get("content-length", "")) or 0) > MAX_BODY:
        raise too_large
    pieces: list[bytes] = []
    length = 0
    while True:
        message = await request.receive()
        if message["type"] != "http.request":
            raise BadParameter("the connection ended before the whole body came")
        pieces.append(message.get("body", b""))
        length += len(pieces[-1])
        if length > MAX_BODY:
            raise too_large
        if not message.get("more_body"):
            return b"".join(pieces)


def _json(text: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is no JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key is given twice")
        return found

    try:
        given = _cleaned(json.loads(text, parse_constant=refuse, object_pairs_hook=once))
    except (ValueError, RecursionError) as error:
        raise BadParameter(
            f"the body is no JSON ({error!s:.100}): send an object with {', '.join(allowed)}"
        ) from error
    if not isinstance(given, dict):
        raise BadParameter(
            f"the body is JSON but no object: {text[:60]!r}. Send one with {', '.join(allowed)}"
        )
    return given


def _cleaned(value: Any, depth: int = 0) -> Any:
    """``value`` with text that UTF-8 can write: JSON may hold half a surrogate pair."""
    if isinstance(value, str):
        return storable(value)
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, list):
        return [_cleaned(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(each, depth + 1) for key, each in value.items()}
    return value


def search_id(value: Any) -> str | None:
    """The id of a recorded search, as an answer gave it; None where there is none."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > 100:
        raise BadParameter(f"search_id is {value!r:.60}: use the search_id of an answer")
    return value


def actor_id(here: Page) -> str | None:
    """Who the request is signed in as, for the log."""
    found = (here.request.actor or {}).get("id")
    return None if found is None else storable(str(found))[: serving.MAX_CLIENT]


async def record(
    here: Page, entry: Recording | None, reason: str | None, wait: bool
) -> dict[str, Any]:
    """Hand a Recording over to be written after the answer; what the answer says of it.

    With ``wait`` the answer waits for it, and says what was really written.
    """
    if reason or entry is None:
        return serving.recorded(None, reason=reason)
    waiting = recorder.recorder_for(here.db, here.settings)
    if not wait:
        refused = waiting.add(entry)
        return serving.failed(refused) if refused else serving.recorded(entry)
    try:
        return serving.recorded(entry, await waiting.write_now(entry))
    except Exception as error:  # the answer is there: what kept it from the log is said in it
        return serving.failed(connection.unwritten(here.db.name, error))
