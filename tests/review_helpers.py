"""A memory with one finding of each kind in its review queue, and a browser's forms on it."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import insights_helpers
import pytest
from test_views_feedback import FORM, token
from view_helpers import AGENT, ONE_POINT_ZERO, as_actor, base, text_of

from datasette_limbic import connection
from datasette_limbic.insights import queue

ORDER = ("contradiction", "duplicate", "name_clash", "bridge", "split", "archive_candidate")
NAME = "<script>alert(1)</script>‮\n'\"Old"
"""What entity 30 is called, which may be archived."""


@pytest.fixture(scope="session", name="queued_master")
def queued_master_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The memory of ``insights_helpers``, its reports and its review queue, once."""
    path = insights_helpers.memory(tmp_path_factory.mktemp("queued") / "memory.db")
    with closing(connection.connect(path)) as conn:
        conn.execute("update entities set name = ? where id = 30", [NAME])
        conn.commit()
    insights_helpers.reflected(path)
    with closing(connection.connect(path)) as conn:
        # as an import brings them: one with an entity of this memory, one without
        conn.executemany(
            "insert into limbic_insights(key, kind, entity_id, title, body, evidence,"
            " evidence_digest) values (?, ?, ?, ?, ?, ?, 'x')",
            [
                ("engrama:1", "archive_candidate", 11, "cafe is old", "Nobody asks for it", "{}"),
                ("engrama:2", "<b>hub</b>", None, "A <i>hub</i>", "It has links", '{"n": [1]}'),
            ],
        )
        conn.commit()
    return path


@pytest.fixture(name="queued")
def queued_fixture(queued_master: Path, tmp_path: Path) -> Path:
    """A copy of it to decide on."""
    return Path(shutil.copy(queued_master, tmp_path / "memory.db"))


def ids(path: Path) -> dict[str, int]:
    """The id of the finding of each kind; of those that came with an import by ``key``."""
    with closing(connection.connect(path, readonly=True)) as conn:
        found = queue.insights(conn, status=None)["insights"]
    return {row["kind"] if row["ours"] else row["key"]: row["id"] for row in found}


def review(path: Path, number: int | str = "") -> str:
    return f"{base(path)}/review" + (f"/{number}" if number != "" else "")


def cookies(datasette: Any, actor: dict[str, Any] | None = AGENT) -> dict[str, str]:
    found = as_actor(datasette, actor) if actor else {}
    return found if ONE_POINT_ZERO else {**found, "ds_csrftoken": token(datasette)}


async def look(datasette: Any, url: str, *, actor: Any = AGENT, status: int = 200) -> str:
    """The HTML of a page."""
    await datasette.invoke_startup()
    response = await datasette.client.get(url, cookies=cookies(datasette, actor))
    assert response.status_code == status, response.text[:800]
    return str(response.text)


async def send(
    datasette: Any, url: str, fields: dict[str, Any], *, actor: Any = AGENT, headers: Any = None
) -> Any:
    """What a browser sends for a form."""
    await datasette.invoke_startup()
    sent = cookies(datasette, actor)
    pairs = {"csrftoken": "" if ONE_POINT_ZERO else sent["ds_csrftoken"], **fields}
    given = {"content-type": FORM, "accept": "text/html,*/*", **(headers or {})}
    given.setdefault("sec-fetch-site", "same-origin")
    return await datasette.client.post(
        url, content=urlencode(pairs).encode(), headers=given, cookies=sent
    )


def form(html: str, path: str) -> dict[str, str]:
    """The fields of the form that posts to ``path``, as a browser would send them back."""
    [markup] = re.findall(rf'<form[^>]*action="{re.escape(path)}".*?</form>', html, re.S)
    fields = {}
    for tag in re.findall(r"<input[^>]*>", markup):
        found = {key: unescape(value) for key, value in re.findall(r'([\w-]+)="([^"]*)"', tag)}
        if found.get("type") == "radio" and not re.search(r"\schecked\b", tag):
            continue
        fields[found["name"]] = found.get("value", "")
    assert fields.pop("csrftoken") or ONE_POINT_ZERO
    for name in re.findall(r'<textarea name="(\w+)"', markup):
        fields[name] = ""
    return fields


def words(html: str) -> str:
    """What a person reads below the heading."""
    return unescape(text_of(html.split("<h1", 1)[1]))


def buttons(html: str) -> list[str]:
    """What the buttons of our page say."""
    part = html.split("<h1", 1)[1]
    found = re.findall(r"<button[^>]*>(.*?)</button>", part, re.S)
    return [unescape(re.sub(r"<[^>]+>", "", each)) for each in found]


def carried(fields: dict[str, str]) -> Any:
    return json.loads(fields["arguments"])
