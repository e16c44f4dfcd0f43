"""A plugin of the tests' servers: our pages under a strict Content-Security-Policy."""

from __future__ import annotations

from typing import Any

from datasette import hookimpl

POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    b" form-action 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@hookimpl
def asgi_wrapper(datasette: Any) -> Any:
    def wrap(app: Any) -> Any:
        async def strict(scope: dict[str, Any], receive: Any, send: Any) -> None:
            async def add(event: dict[str, Any]) -> None:
                if event["type"] == "http.response.start":
                    headers = [*event["headers"], (b"content-security-policy", POLICY)]
                    event = {**event, "headers": headers}
                await send(event)

            ours = "/-/limbic" in scope.get("path", "")
            await app(scope, receive, add if ours else send)

        return strict

    return wrap
