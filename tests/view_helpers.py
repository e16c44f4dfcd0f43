"""What the tests of pages share."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from datasette import hookspecs

ONE_POINT_ZERO = hasattr(hookspecs, "register_actions")


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
