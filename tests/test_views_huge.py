"""The largest bodies that are taken, of every shape: answered soon, while others are answered."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from actions_helpers import (
    ATLAS,
    LIKE,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
)
from review_helpers import cookies
from test_views_feedback import FORM
from test_views_observations import editing_datasette
from view_helpers import AGENT, ONE_POINT_ZERO, base, digest, post_json

from datasette_limbic.views import posting

pytestmark = pytest.mark.slow  # the pages are no other on another Python

SECONDS = 10.0  # what grows with the square takes minutes
# what a form carries of its own, about half of a body
ONE_CLUSTER = {"entity": LIKE, "clusters": [{"keep": 1, "remove": list(range(2, 50_000))}]}
CLUSTERS = {"entity": LIKE, "clusters": [{"keep": i, "remove": [i + 1]} for i in range(6_000)]}
CHILDREN = {"entity": ATLAS, "children": [{"name": "x"}] * 12_000}
FULL = {
    "entity": ATLAS,
    "children": [{"name": f"x{i}", "observations": list(range(i * 900, i * 900 + 400))}
                 for i in range(100)],
}  # fmt: skip
# action, what its page wrote, and the field of each number
FORMS: dict[str, tuple[str, Any, Callable[[int], tuple[str, str]]]] = {
    "observations": ("delete", {}, lambda i: ("observations", str(i))),
    "others": ("merge_entities", {"keep": 1}, lambda i: ("others", str(i))),
    "kept": ("merge_entities", {"others": [*range(50_000)]}, lambda i: ("keep", str(i))),
    "removed": ("merge", ONE_CLUSTER, lambda i: ("clusters.0.remove", str(i))),
    "one kept often": ("merge", ONE_CLUSTER, lambda i: ("clusters.0.keep", str(i % 40_000 + 1))),
    "one of each kept": ("merge", CLUSTERS, lambda i: (f"clusters.{i % 6000}.keep", str(i % 6000))),
    "skipped": ("merge", CLUSTERS, lambda i: (f"clusters.{i % 5000}.skip", "1")),
    "places": ("split", FULL, lambda i: (f"place.{i}", str(i % 99))),
    "child names": ("split", FULL, lambda i: (f"children.{i % 100}.name", f"y{i}")),
    "children": ("split", CHILDREN, lambda i: (f"children.{i % 100}.name", "y")),
    "unknown": ("archive", {}, lambda i: (f"f{i}", "1")),
}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "observations": ("delete", {"observations": [*range(140_000)]}),
    "one observation": ("delete", {"observations": [5] * 300_000}),
    "one cluster": (
        "merge",
        {"entity": LIKE, "clusters": [{"keep": 1, "remove": [*range(2, 150_000)]}]},
    ),
    "clusters": ("merge", {"entity": LIKE, "clusters": CLUSTERS["clusters"] * 4}),
    "empty clusters": ("merge", {"entity": LIKE, "clusters": [{}] * 200_000}),
    "a child": (
        "split",
        {"entity": ATLAS, "children": [{"name": "A", "observations": [*range(99_000)]}]},
    ),
    "children": ("split", {"entity": ATLAS, "children": [{"name": "A"}] * 60_000}),
    "full children": ("split", FULL),
    "others": ("merge_entities", {"keep": 1, "others": [*range(140_000)]}),
    "names": ("merge_entities", {"keep": 1, "others": [f"a{i}" for i in range(90_000)]}),
    "a reason": ("archive", {"entity": ATLAS, "reason": "x" * 1_000_000}),
    "a name": ("archive", {"entity": "x" * 1_000_000, "reason": "x"}),
    "a basis": ("archive", {"entity": ATLAS, "reason": "x", "basis": "x" * 1_000_000}),
    "keys": ("archive", {f"k{i}": 1 for i in range(80_000)}),
}  # fmt: skip


def encoded(case: str, *more: tuple[str, str]) -> bytes:
    """As many of the fields as a body may have."""
    _, arguments, field = FORMS[case]
    pairs = [("arguments", json.dumps(arguments, separators=(",", ":"))), *more]
    length = len(urlencode(pairs))
    for number in range(posting.MAX_FIELDS - 5):
        pair = field(number)
        length += len(pair[0]) + len(pair[1]) + 2
        if length > posting.MAX_BODY - 1000:
            break
        pairs.append(pair)
    found = urlencode(pairs).encode()
    assert 400_000 < len(found) < posting.MAX_BODY
    return found


async def timed(asked: Any) -> tuple[Any, float]:
    begun = time.perf_counter()
    found = await asyncio.wait_for(asked, 60)
    return found, time.perf_counter() - begun


async def send(datasette: Any, url: str, content: bytes) -> Any:
    sent = cookies(datasette, AGENT)
    if not ONE_POINT_ZERO:
        content += b"&csrftoken=" + sent["ds_csrftoken"].encode()
    headers = {"content-type": FORM, "accept": "text/html", "sec-fetch-site": "same-origin"}
    return await datasette.client.post(url, content=content, headers=headers, cookies=sent)


@pytest.mark.parametrize("case", FORMS)
async def test_forms(case: str, acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, acted)
    before = digest(acted)
    await datasette.client.get(base(acted))
    for approve in ("0", "1"):
        content = encoded(case, ("approve", approve))
        url = f"{base(acted)}/actions/{FORMS[case][0]}"
        answer, seconds = await timed(send(datasette, url, content))
        assert answer.status_code in (400, 404), answer.text[-500:]
        assert 'role="alert"' in answer.text
        assert seconds < SECONDS, seconds
    assert digest(acted) == before


@pytest.mark.parametrize(
    ("case", "status"), [("places", 200), ("child names", 200), ("children", 400)]
)
async def test_the_form_of_a_split(
    case: str, status: int, acted: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, acted)
    url = f"{base(acted)}/split/{ATLAS}"
    await send(datasette, url, b"show=")  # imports what compares
    answer, seconds = await timed(send(datasette, url, encoded(case)))
    assert answer.status_code == status
    assert seconds < SECONDS, seconds


@pytest.mark.parametrize("case", BODIES)
async def test_json(case: str, acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, acted)
    before = digest(acted)
    name, arguments = BODIES[case]
    await datasette.client.get(base(acted))
    for dry_run in (True, False):
        body = json.dumps({**arguments, "dry_run": dry_run}, separators=(",", ":"))
        assert len(body) <= posting.MAX_BODY
        url = f"{base(acted)}/actions/{name}"
        status = 404 if case in ("a child", "full children", "a name") else 400
        _, seconds = await timed(post_json(datasette, url, body, status))
        assert seconds < SECONDS, seconds
    assert digest(acted) == before


async def test_others_are_answered_meanwhile(
    acted: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large body is taken apart beside the loop: one second of it keeps nobody waiting."""
    for name in ("_json", "_fields"):
        parse = getattr(posting, name)

        def slowly(*args: Any, parse: Any = parse) -> Any:
            time.sleep(0.5)
            return parse(*args)

        monkeypatch.setattr(posting, name, slowly)
    datasette = editing_datasette(make_datasette, acted)
    await datasette.client.get(base(acted))
    form = encoded("observations")
    url = f"{base(acted)}/actions/delete"
    body = json.dumps({"observations": [*range(140_000)]})
    for asked in (send(datasette, url, form), post_json(datasette, url, body, 400)):
        task = asyncio.create_task(asked)
        held = 0.0
        while not task.done():
            begun = time.perf_counter()
            await asyncio.sleep(0.005)
            held = max(held, time.perf_counter() - begun)
        await task
        assert held < 0.4


async def test_too_many_fields(acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, acted)
    await datasette.client.get(base(acted))
    content = b"&".join([b"observations=3"] * (posting.MAX_FIELDS + 1))
    answer = await send(datasette, f"{base(acted)}/actions/delete", content)
    assert answer.status_code == 400
    assert "more than 50,000 fields" in answer.text


async def test_who_may_not_is_told_before_the_fields_are_read(
    acted: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasette_limbic.views import acting_form

    read: list[bool] = []
    of_form = acting_form.of_form

    def noted(*args: Any, **kwargs: Any) -> Any:
        read.append(True)
        return of_form(*args, **kwargs)

    monkeypatch.setattr(acting_form, "of_form", noted)
    datasette = editing_datasette(make_datasette, acted, allow={"id": "somebody"})
    await datasette.invoke_startup()
    url = f"{base(acted)}/actions/delete"
    answer = await send(datasette, url, b"observations=3&approve=1")
    assert (answer.status_code, read) == (403, [])
    answer = await send(datasette, url, b"observations=3")
    assert (answer.status_code, read) == (200, [True])
