"""What every POST shares: the body, who may record, and what the answer says of it."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import parse_qsl

from .. import compat, permissions, recorder, serving
from ..errors import BadParameter, BodyTooLarge
from ..recording import Recording
from .common import Page

MAX_BODY = 1024 * 1024


def is_json(scope: dict[str, Any]) -> bool:
    """Whether a request holds JSON: no form of another site can send that type.

    0.65 asks this before it looks for a CSRF token; 1.0 looks at where a request comes from.
    """
    types = [value for name, value in scope.get("headers") or () if name == b"content-type"]
    return types != [] and types[-1].split(b";")[0].strip().lower() == b"application/json"


async def body(here: Page, allowed: tuple[str, ...], *, form: bool = False) -> dict[str, Any]:
    """The request's JSON object, or with ``form`` the fields of a form.

    Raises BadParameter, naming what is wrong: too long, no JSON, no object, unknown keys.
    """
    raw = await _read(here.request)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadParameter(f"the body is no UTF-8: {error}") from error
    if form and not text.lstrip().startswith("{"):
        given: Any = dict(parse_qsl(text, keep_blank_values=True))
        given.pop("csrftoken", None)
    else:
        given = _json(text, allowed)
    unknown = [str(name)[:40] for name in given if name not in allowed]
    if unknown:
        raise BadParameter(
            f"unknown key {', '.join(unknown[:5])}: the body takes {', '.join(allowed)}"
        )
    return given  # type: ignore[no-any-return]


def is_form(request: Any) -> bool:
    """Whether a browser's form sent this, which wants a page and no JSON for an answer."""
    found = request.headers.get("content-type", "")
    accepts = request.headers.get("accept", "")
    return "form" in found and "text/html" in accepts


async def _read(request: Any) -> bytes:
    pieces: list[bytes] = []
    length = 0
    while True:
        message = await request.receive()
        if message["type"] != "http.request":
            raise BadParameter("the connection ended before the whole body came")
        pieces.append(message.get("body", b""))
        length += len(pieces[-1])
        if length > MAX_BODY:
            raise BodyTooLarge(f"the body has more than {MAX_BODY:,} bytes: send less at once")
        if not message.get("more_body"):
            return b"".join(pieces)


def _json(text: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is no JSON")

    try:
        given = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise BadParameter(
            f"the body is no JSON ({error!s:.100}): send an object with {', '.join(allowed)}"
        ) from error
    if not isinstance(given, dict):
        raise BadParameter(
            f"the body is JSON but no object: {text[:60]!r}. Send one with {', '.join(allowed)}"
        )
    return given


def clean(text: str) -> str:
    """``text`` as UTF-8 can write it: JSON may hold half a surrogate pair."""
    return text.encode("utf-8", "replace").decode("utf-8")


def search_id(value: Any) -> str | None:
    """The id of a recorded search, as an answer gave it; None where there is none."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > 100:
        raise BadParameter(f"search_id is {value!r:.60}: use the search_id of an answer")
    return clean(value)


async def why_not(here: Page) -> str | None:
    """Why this request can record nothing, in a sentence; None where it can."""
    if not await compat.may(here.datasette, here.request.actor, permissions.RECORD, here.db.name):
        return f"this needs the permission {permissions.RECORD}"
    return unwritable(here.db)


def unwritable(db: Any) -> str | None:
    """Why nothing can be written to a database, in a sentence; None where it can."""
    if not db.is_mutable:
        return "the database was opened as immutable"
    if db.path and not os.access(db.path, os.W_OK):
        return "the database file is read-only"
    return None


def actor_id(here: Page) -> str | None:
    """Who the request is signed in as, for the log."""
    found = (here.request.actor or {}).get("id")
    return None if found is None else str(found)[: serving.MAX_CLIENT]


async def record(
    here: Page, entry: Recording | None, reason: str | None, wait: bool
) -> dict[str, Any]:
    """Hand a Recording over to be written after the answer; what the answer says of it.

    With ``wait`` the answer waits for it, and says what was really written.
    """
    if reason or entry is None:
        return serving.recorded(None, reason=reason)
    waiting = recorder.recorder_for(here.db)
    if not wait:
        return serving.recorded(entry, reason=waiting.add(entry))
    try:
        return serving.recorded(entry, await waiting.write_now(entry))
    except Exception as error:  # the answer is there: what kept it from the log is said in it
        return serving.failed(str(error))
