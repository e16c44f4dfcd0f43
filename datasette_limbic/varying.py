"""``Vary``: what else than its URL an answer depends on, for caches between us and a reader.

Said by whoever looks at a header of the request while the answer is made, for the answer to that
request: a page of ours, an error, or a page of Datasette's with something of ours on it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

# one set for a whole request, whichever task adds to it
_headers: ContextVar[set[str] | None] = ContextVar("limbic_varying", default=None)


def header(request: Any, name: str) -> str:
    """A header of a request, empty where there is none; ``Vary`` names it from now on."""
    if (found := _headers.get()) is not None:
        found.add(name)
    return str(request.headers.get(name) or "")


def wrap(app: Any) -> Callable[..., Any]:
    """ASGI middleware: an answer names the headers that it depends on."""

    async def inner(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        looked_at: set[str] = set()

        async def named(event: dict[str, Any]) -> None:
            if event["type"] == "http.response.start" and looked_at:
                # a field of its own: what others name stands beside it (RFC 9110, 5.3)
                vary = (b"vary", ", ".join(sorted(looked_at)).encode("latin-1"))
                event = {**event, "headers": [*event.get("headers", []), vary]}
            await send(event)

        token = _headers.set(looked_at)
        try:
            await app(scope, receive, named)
        finally:
            _headers.reset(token)

    return inner
