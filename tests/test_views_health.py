"""The health page and its JSON."""

from __future__ import annotations

import json
import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from health_helpers import OVER, change, entity, healthy_memory, many_orphans, relate
from view_helpers import as_actor, base, digest, get, get_json, links, text_of

from datasette_limbic import health

pytestmark = pytest.mark.slow  # the pages are no other on another Python

ROOT = {"id": "root"}


def url(path: Path, rest: str = "") -> str:
    return base(path) + "/health" + rest


async def test_page_and_json_say_the_same_and_the_file_stays(
    demo_db: Path, make_datasette: Any
) -> None:
    before = digest(demo_db)
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, url(demo_db, ".json"))
    assert body["database"] == demo_db.stem
    assert body["healthy"] is False
    assert body["counts"] == {"broken": 0, "attention": 5, "note": 1}
    found = {f["name"]: f for f in body["findings"] if f["count"]}
    assert {name: f["count"] for name, f in found.items()} == {
        "archived_bridges": 1,
        "name_clashes": 1,
        "hub_stubs": 1,
        "empty_entities": 2,
        "orphans": 5,
        "ended_relations": 2,
    }
    assert "_" not in {key[0] for f in body["findings"] for key in f}
    response = await get(datasette, url(demo_db))
    words = unescape(text_of(response.text))
    assert "Nothing is broken, and something wants a look." in words
    for finding in found.values():
        assert f"{finding['title'][:1].upper()}{finding['title'][1:]} {finding['count']}" in words
        assert finding["what_to_do"]["text"] in words
    (bridge,) = found["archived_bridges"]["rows"]
    assert f"{bridge['name']} Proyecto yes 58 2 54: " in words
    assert f"{base(demo_db)}/entity/{bridge['id']}" in links(response.text)
    for side in bridge["sides"]:
        assert f"{base(demo_db)}/entity/{side['names'][0]['id']}" in links(response.text)
    assert f"/{demo_db.stem}/limbic_orphans" in links(response.text)
    assert "Looked for and not found 7" in words
    assert f"datasette limbic check {demo_db.stem}.db makes" in words
    assert digest(demo_db) == before


async def test_every_link_of_the_page_leads_somewhere(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    found = set(links((await get(datasette, url(demo_db))).text))
    ours = {href for href in found if href.startswith(f"/{demo_db.stem}")}
    assert len(ours) > 15
    for href in ours:
        assert (await get(datasette, href)).status_code == 200, href


@pytest.mark.parametrize("kind", ["empty", "well"])
async def test_nothing_found(
    kind: str, empty_db: Path, tmp_path: Path, make_datasette: Any
) -> None:
    path = empty_db if kind == "empty" else healthy_memory(tmp_path / "well.db")
    response = await get(make_datasette(path), url(path))
    words = text_of(response.text)
    assert "All is well. Nothing of what is looked for was found." in words
    assert f"Looked for and not found {len(health.names())}" in words
    assert "<table" not in response.text


async def test_only_notes_is_well_too(tmp_path: Path, make_datasette: Any) -> None:
    path = healthy_memory(tmp_path / "well.db")
    change(path, lambda c: relate(c, 2, 1, "replaced", valid_to=OVER), "delete from limbic_stale")
    words = text_of((await get(make_datasette(path), url(path))).text)
    assert "All is well. There is something worth knowing, and nothing to repair." in words


async def test_what_is_broken_comes_with_its_sql(demo_db: Path, make_datasette: Any) -> None:
    change(demo_db, "update entities set created_at = 'last <week>' where id = 3")
    html = (await get(make_datasette(demo_db), url(demo_db))).text
    words = unescape(text_of(html))
    assert "Something is broken." in words
    assert "id 3, created_at 'last <week>'" in words
    assert "update entities set created_at = null where created_at = 'last <week>';" in words
    assert "<week>" not in html
    assert words.index("Times that cannot be read") < words.index("Archived entities")


async def test_long_lists_page(demo_db: Path, make_datasette: Any) -> None:
    change(demo_db, many_orphans(40))
    datasette = make_datasette(demo_db)
    html = (await get(datasette, url(demo_db))).text
    section = re.search(r'aria-labelledby="limbic-orphans">(.*?)</section>', html, re.S)
    assert section is not None
    assert section[1].count('<tr role="row"') == 1 + 5
    assert url(demo_db, "?list=orphans") in links(html)
    seen: list[int] = []
    href: str | None = url(demo_db, "?list=orphans")
    turned = 0
    while href:
        html = (await get(datasette, href)).text
        seen += [int(n) for n in re.findall(r'<th scope="row".*?/entity/(\d+)"', html)]
        after = re.search(r'href="([^"]*)" rel="next"', html)
        href = unescape(after[1]) if after else None
        turned += 1
    assert turned == 3
    assert len(seen) == len(set(seen)) == 45
    assert "Page 3 of 3" in text_of(html)
    assert 'rel="prev"' in html
    assert url(demo_db) in links(html)
    beyond = text_of((await get(datasette, url(demo_db, "?list=orphans&page=9"))).text)
    assert "No more on this page." in beyond
    assert "Page 9 of 3" in beyond


async def test_one_list_that_has_nothing(demo_db: Path, make_datasette: Any) -> None:
    words = text_of((await get(make_datasette(demo_db), url(demo_db, "?list=dangling_rows"))).text)
    assert "None was found." in words


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("?list=nothing", "nothing"),
        ("?page=2", "say of which list"),
        ("?page=x&list=orphans", "page"),
        ("?size=0", "size"),
        ("?size=5000", "size"),
        ("?now=never", "now is 'never'"),
    ],
)
async def test_bad_arguments(query: str, says: str, demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, url(demo_db, ".json" + query), 400)
    assert says in body["error"]
    assert (await get(datasette, url(demo_db, query))).status_code == 400


async def test_names_are_escaped(demo_db: Path, make_datasette: Any) -> None:
    name = '<script>alert(1)</script> & "quotes"'
    change(demo_db, entity(900, name, "x"), entity(901, name.upper(), "x"))
    html = (await get(make_datasette(demo_db), url(demo_db))).text
    assert "<script>alert" not in html.lower()
    assert "&lt;script&gt;alert(1)" in html


@pytest.mark.parametrize("table", sorted(health.tables()))
async def test_tables_that_may_not_be_viewed(
    table: str, demo_db: Path, make_datasette: Any
) -> None:
    """Those of the graph close the page, any other only what is found in it."""
    marked = "not a time of " + table
    change(
        demo_db,
        "update entities set created_at = 'not a time of entities' where id = 3",
        "insert into limbic_searches(query, mode, strategy, result_limit, now, parameters)"
        " values ('x', 'text', 'x', 1, 'not a time of limbic_searches', '{}')",
        "insert into limbic_feedback(entity_name, event, created_at)"
        " values ('x', 'opened', 'not a time of limbic_feedback')",
        "insert into limbic_imports(source, format, counts, started_at, finished_at)"
        " values ('x', 'x', '{}', 'not a time of limbic_imports', '2026-01-01')",
        "update entity_access_log set accessed_at = 'not a time of entity_access_log'"
        " where id = (select min(id) from entity_access_log)",
    )
    only_root = {"databases": {demo_db.stem: {"tables": {table: {"allow": ROOT}}}}}
    datasette = make_datasette(demo_db, metadata=only_root)
    query = "?list=unreadable_times&size=1000"
    response = await get(datasette, url(demo_db, query))
    if table in health.GRAPH:
        assert response.status_code == 403
        await get_json(datasette, url(demo_db, ".json"), 403)
        return
    assert response.status_code == 200
    assert marked not in unescape(response.text)
    assert "not a time of entities" in response.text
    body = await get_json(datasette, url(demo_db, ".json"))
    assert marked not in json.dumps(body)
    assert "may not view" in json.dumps(body)
    seen = await get(datasette, url(demo_db, query), cookies=as_actor(datasette, ROOT))
    assert (marked in unescape(seen.text)) is (
        table in ("limbic_searches", "limbic_feedback", "limbic_imports", "entity_access_log")
    )


async def test_a_view_that_may_not_be_viewed_is_not_linked(
    demo_db: Path, make_datasette: Any
) -> None:
    only_root = {"databases": {demo_db.stem: {"tables": {"limbic_orphans": {"allow": ROOT}}}}}
    datasette = make_datasette(demo_db, metadata=only_root)
    found = links((await get(datasette, url(demo_db))).text)
    assert f"/{demo_db.stem}/limbic_orphans" not in found
    assert f"/{demo_db.stem}/limbic_empty_entities" in found


async def test_an_immutable_file(demo_db: Path, make_datasette: Any) -> None:
    change(demo_db, "pragma wal_checkpoint(truncate)")
    before = digest(demo_db)
    datasette = make_datasette(immutables=[str(demo_db)])
    body = await get_json(datasette, url(demo_db, ".json"))
    assert body["counts"]["attention"] == 5
    assert (await get(datasette, url(demo_db))).status_code == 200
    assert digest(demo_db) == before


async def test_a_database_name_with_spaces(demo_db: Path, make_datasette: Any) -> None:
    path = Path(shutil.copy(demo_db, demo_db.with_name("my memory.db")))
    change(path, entity(900, "New"))
    datasette = make_datasette(path)
    response = await get(datasette, f"/{quote('my~20memory', safe='~')}/-/limbic/health")
    if response.status_code == 404:  # how 1.0 and 0.65 write a space
        response = await get(datasette, "/my+memory/-/limbic/health")
    assert response.status_code == 200
    assert "datasette limbic sync 'my memory.db'" in unescape(response.text)
