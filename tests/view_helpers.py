"""What the tests of pages share."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from datasette import hookspecs

ONE_POINT_ZERO = hasattr(hookspecs, "register_actions")
AGENT = {"id": "agent"}


def base(path: Path) -> str:
    return f"/{path.stem}/-/limbic"


async def get(datasette: Any, url: str, **kwargs: Any) -> Any:
    """A GET, through all of Datasette's routing."""
    await datasette.invoke_startup()
    return await datasette.client.get(url, **kwargs)


async def get_json(datasette: Any, url: str, status: int = 200, **kwargs: Any) -> dict[str, Any]:
    """The body of a JSON page; fails unless the status and the ``ok`` in it are right."""
    response = await get(datasette, url, **kwargs)
    assert response.status_code == status, response.text[:500]
    assert response.headers["content-type"].startswith("application/json")
    body: dict[str, Any] = response.json()
    assert body["ok"] is (status == 200)
    if status != 200:
        assert body["status"] == status
        assert body["error"]
    return body


def text_of(html: str) -> str:
    """The words of a page, without tags, for reading what a person would."""
    without = re.sub(r"<script.*?</script>|<style.*?</style>", " ", html, flags=re.S)
    without = re.sub(r"</?bdi>", "", without)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", without))


def digest(*paths: Path) -> dict[str, str]:
    """SHA-256 of each file, by name."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}


def as_actor(datasette: Any, actor: dict[str, Any]) -> dict[str, str]:
    """Cookies that sign a request in."""
    return {"ds_actor": datasette.sign({"a": actor}, "actor")}


def links(html: str) -> list[str]:
    """Every href of a page, as written."""
    from html import unescape

    return [unescape(found) for found in re.findall(r'<a[^>]*\shref="([^"]*)"', html)]


def recording_datasette(
    make_datasette: Any, *paths: Path, allow: Any = AGENT, config: Any = None, **kwargs: Any
) -> Any:
    """Datasette on ``paths``, where ``allow`` may record; ``config`` is the plugin's."""
    granted = {"permissions": {"limbic-record": allow}}
    name = "config" if ONE_POINT_ZERO else "metadata"
    extra = kwargs.pop("more", {})
    if config is not None:
        granted["plugins"] = {"datasette-limbic": config}
    if not ONE_POINT_ZERO:
        return make_datasette(*paths, **{name: {**granted, **extra}}, **kwargs)
    made = make_datasette(*paths, **kwargs)
    # ``config`` of the fixture is the plugin's alone
    made.config = {**(made.config or {}), **granted, **extra}
    return made


async def post(
    datasette: Any,
    url: str,
    body: Any,
    *,
    actor: dict[str, Any] | None = AGENT,
    kind: str | None = "application/json",
    headers: dict[str, str] | None = None,
) -> Any:
    """A POST through all of Datasette; ``body`` is bytes, text, or what is sent as JSON."""
    await datasette.invoke_startup()
    if not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    content = body.encode() if isinstance(body, str) else body
    sent = {**({"content-type": kind} if kind else {}), **(headers or {})}
    cookies = as_actor(datasette, actor) if actor else {}
    return await datasette.client.post(url, content=content, headers=sent, cookies=cookies)


async def post_json(
    datasette: Any, url: str, body: Any, status: int = 200, **kwargs: Any
) -> dict[str, Any]:
    """The JSON answer of a POST; fails unless the status and the ``ok`` in it are right."""
    response = await post(datasette, url, body, **kwargs)
    assert response.status_code == status, response.text[:500]
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    found: dict[str, Any] = response.json()
    assert found["ok"] is (status == 200)
    if status != 200:
        assert found["status"] == status
        assert found["error"]
    return found


def rows(path: Path, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """What a reader of its own finds in the file."""
    from datasette_limbic import connection

    conn = connection.connect(path, readonly=True)
    try:
        return [tuple(row) for row in conn.execute(sql, values)]
    finally:
        conn.close()


SIGNALS = (
    "entity_access",
    "entity_access_log",
    "co_occurrences",
    "limbic_searches",
    "limbic_search_candidates",
    "limbic_feedback",
)


def signals(path: Path) -> dict[str, int]:
    """Number of rows in each table of signals; accesses and pairs as the sums of their counts."""
    counted = {"entity_access": "sum(access_count)", "co_occurrences": "sum(co_count)"}
    return {
        name: rows(path, f"select coalesce({counted.get(name, 'count(*)')}, 0) from {name}")[0][0]
        for name in SIGNALS
    }


def added(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What came in between, without what stayed the same."""
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


def write(path: Path, *statements: tuple[str, list[Any]]) -> None:
    """Change the file from outside of Datasette."""
    from datasette_limbic import connection

    conn = connection.connect(path)
    for sql, values in statements:
        conn.execute(sql, values)
    conn.commit()
    conn.close()
