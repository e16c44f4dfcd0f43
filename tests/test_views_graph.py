"""The map: small memories whole, large ones by communities, and the full map as SVG."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import threading
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from test_graph_communities import FILL, LINK, cliques, fill, star
from view_helpers import base, get, get_json, links, rows, text_of, write

from datasette_limbic import connection, times
from datasette_limbic.config import Settings
from datasette_limbic.graph import communities, full_map
from datasette_limbic.views import apart, graph, graph_found, graph_full
from datasette_limbic.views.common import Page

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]>&amp;<!--",
    "x" * 10_000,
    "\u202egnirts\u2066",
    "nul\0 bell\x07 \ufffe \ud800".encode("utf-8", "replace").decode(),
    " ",
    "用户身份 caffè",
]


async def test_a_small_memory_is_drawn_whole(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    url = base(demo_db)
    found = await get_json(datasette, url + "/graph.json")
    live = rows(demo_db, "select count(*) from entities where archived_at is null")[0][0]
    assert found["entities"] == len(found["nodes"]) == live
    assert found["relations"] == sum(edge["count"] for edge in found["edges"])
    assert {node["kind"] for node in found["nodes"]} == {"entity"}
    linked = {end for edge in found["edges"] for end in (edge["source"], edge["target"])}
    assert found["unlinked"] == live - len(linked) > 0
    assert found["left_out"] == {"edges": 0, "entities": 0}
    assert found["community"] is None
    assert found["path"] == []
    # communities hold what is linked, each once
    of = {node["id"]: node["community"] for node in found["nodes"]}
    assert {at for at, each in of.items() if each is not None} == linked
    assert sum(each["members"] for each in found["communities"]) == len(linked)
    assert all(of[each["id"]] == each["id"] for each in found["communities"])
    page = (await get(datasette, url + "/graph")).text
    leads = set(links(page))
    assert {f"{url}/entity/{node['id']}" for node in found["nodes"]} <= leads
    assert f"{url}/graph.svg" in leads
    assert f"{url}/health?list=orphans" in leads
    assert f"{found['unlinked']} entities have no relation" in text_of(page)
    assert 'aria-current="page">Map' in page


async def test_communities_open_down_to_the_last_entity(
    empty_db: Path, make_datasette: Any
) -> None:
    # one community too large to be drawn, many others, and some that nothing is linked to
    fill(empty_db, star(400) + [(a + 401, b + 401) for a, b in cliques([9] * 20)], extra=4)
    datasette = make_datasette(empty_db)
    url = base(empty_db) + "/graph"
    top = await get_json(datasette, url + ".json")
    assert top["entities"] == 401 + 180 + 4
    assert top["unlinked"] == 4
    group = next(node for node in top["nodes"] if node["kind"] == "not_linked")
    assert (group["id"], group["members"]) == (None, 4)
    page = (await get(datasette, url)).text
    assert f"{base(empty_db)}/health?list=orphans" in links(page)
    seen: set[int] = set()
    todo = [url]
    opened = 0
    while todo:
        page = (await get(datasette, todo.pop())).text
        nodes = re.findall(r'<a class="limbic-node[^"]*" href="([^"]*)"', page)
        assert 0 < len(nodes) <= communities.MOST
        opened += 1
        for lead in nodes:
            if entity := re.fullmatch(rf"{base(empty_db)}/entity/(\d+)", lead):
                seen.add(int(entity[1]))
            elif "community=" in lead:
                todo.append(lead.replace("&amp;", "&"))
    assert opened > 3
    assert seen == set(range(1, 401 + 180 + 1))


async def test_a_community_keeps_its_address(empty_db: Path, make_datasette: Any) -> None:
    fill(empty_db, cliques([9] * 30))
    datasette = make_datasette(empty_db)
    url = base(empty_db) + "/graph"
    one = await get_json(datasette, url + ".json?community=1")
    assert one["community"]["level"] == 1
    assert 1 in {node["id"] for node in one["nodes"]}
    head = one["community"]["id"]
    assert (await get_json(datasette, f"{url}.json?community={head}"))["nodes"] == one["nodes"]
    page = (await get(datasette, f"{url}?community={head}")).text
    assert url in links(page)
    assert 'aria-current="page"><bdi>n' in page
    # another entity becomes the most important one
    used = max(node["id"] for node in one["nodes"] if node["id"] != head)
    write(empty_db, ("insert into entity_access(entity_id, access_count) values (?, 50)", [used]))
    after = await get_json(datasette, f"{url}.json?community={head}")
    assert after["community"]["id"] == used
    assert {n["id"] for n in after["nodes"]} == {n["id"] for n in one["nodes"]}


WRONG = {
    "community=x": (400, "community is 'x'"),
    "community=-1": (404, "no relation leads to an entity with the id -1"),
    "level=2": (400, "add community"),
    "community=1&level=0": (400, "level is '0'"),
    "community=1&level=101": (400, "level is '101'"),
    "depth=1": (400, "unknown argument depth"),
    "community=999": (404, "no relation leads to an entity with the id 999"),
    "community=9223372036854775807": (404, "no relation leads to"),
}


async def test_wrong_arguments(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    for query, (status, words) in WRONG.items():
        found = await get_json(datasette, f"{base(demo_db)}/graph.json?{query}", status)
        assert words in found["error"], query


@pytest.mark.parametrize("entities", [0, 1, 2, 250])
async def test_without_relations(entities: int, empty_db: Path, make_datasette: Any) -> None:
    write(empty_db, *((FILL, [at, f"n{at}"]) for at in range(1, entities + 1)))
    datasette = make_datasette(empty_db)
    url = base(empty_db) + "/graph"
    found = await get_json(datasette, url + ".json")
    drawn = entities if entities <= communities.MOST else 0
    assert len(found["nodes"]) == drawn
    assert found["left_out"]["entities"] == entities - drawn
    response = await get(datasette, url)
    assert response.status_code == 200
    words = text_of(response.text)
    assert ("There is nothing to draw yet." in words) is (entities == 0)
    assert ("No entity is linked to another." in words) is (entities > 0)
    assert response.text.count('<a class="limbic-node') == drawn
    assert ("graph.svg" in response.text) is False
    svg = await get(datasette, url + ".svg")
    assert svg.status_code == 200
    assert svg.text.count('target="_top"') == entities


async def test_any_write_is_seen(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    url = base(demo_db) + "/graph"
    before = await get_json(datasette, url + ".json")
    svg = (await get(datasette, url + ".svg")).text
    assert await get_json(datasette, url + ".json") == before
    assert (await get(datasette, url + ".svg")).text == svg
    # by another connection, as another process would
    write(demo_db, ("update entities set name = 'Renamed' where id = 1", []))
    assert "Renamed" in {n["name"] for n in (await get_json(datasette, url + ".json"))["nodes"]}
    assert ">Renamed" in (await get(datasette, url + ".svg")).text.replace("\u2068", "")
    # and by Datasette's own
    await datasette.get_database(demo_db.stem).execute_write("delete from entities where id = 1")
    after = await get_json(datasette, url + ".json")
    assert after["entities"] == before["entities"] - 1
    assert "Renamed" not in (await get(datasette, url + ".svg")).text


async def test_communities_are_looked_for_once(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    find = graph_found.atlas.first_parts

    def counted(found: Any) -> Any:
        looked.append(len(found))
        return find(found)

    monkeypatch.setattr(graph_found.atlas, "first_parts", counted)
    datasette = make_datasette(demo_db)
    url = base(demo_db) + "/graph.json"
    # no other test has this memory
    write(demo_db, (FILL, [900, "unheard of"]), (LINK, [900, 1]))
    used = "insert into entity_access(entity_id, access_count) values (900, 2000)"
    for change in (used, "update entity_access set access_count = 3000 where entity_id = 900"):
        write(demo_db, (change, []))
        found = await get_json(datasette, url)
        assert max(found["nodes"], key=lambda node: node["importance"])["id"] == 900
    assert len(looked) == 1
    # nor after an entity that nothing is linked to, though places move
    write(demo_db, (FILL, [-1, "a lonely one"]), (FILL, [901, "another"]))
    found = await get_json(datasette, url)
    assert {"a lonely one", "another"} <= {node["name"] for node in found["nodes"]}
    assert len(looked) == 1
    write(demo_db, ("delete from relations where from_entity = 900", []))
    await get_json(datasette, url)
    assert len(looked) == 2


async def test_the_full_map(demo_db: Path, make_datasette: Any) -> None:
    write(demo_db, *(("insert into entities(name) values (?)", [name]) for name in HOSTILE))
    ids = [row[0] for row in rows(demo_db, "select id from entities order by id desc limit 8")]
    write(demo_db, *((LINK, [at, 1]) for at in ids))
    write(demo_db, ("update entities set entity_type = '<b>\ufffe' where id = ?", [ids[0]]))
    datasette = make_datasette(demo_db, settings={"base_url": "/deep/"})
    response = await get(datasette, f"{base(demo_db)}/graph.svg")
    assert response.status_code == 200
    assert response.headers["content-type"] == "image/svg+xml; charset=utf-8"
    root = ElementTree.fromstring(response.content)  # of XML, which is less lenient than HTML
    assert root.tag == SVG + "svg"
    live = {row[0] for row in rows(demo_db, "select id from entities where archived_at is null")}
    nodes = [each for each in root.iter(SVG + "a") if each.get("target") == "_top"]
    assert {each.get("href") for each in nodes} == {
        f"/deep{base(demo_db)}/entity/{at}" for at in live
    }
    views = {each.get("id") for each in root.iter(SVG + "view")}
    opened = {each.get("href") for each in root.iter(SVG + "a")} - {n.get("href") for n in nodes}
    assert opened == {f"#{view}" for view in views}
    assert len(views) > 3
    # nothing that a strict Content-Security-Policy refuses, nothing from elsewhere, no script
    tags = {each.tag.removeprefix(SVG) for each in root.iter()}
    assert tags <= {"svg", "title", "desc", "view", "a", "rect", "circle", "path", "text", "g"}
    names = {name for each in root.iter() for name in each.attrib}
    assert "style" not in names
    assert not [name for name in names if name.startswith("on")]
    assert "http" not in re.sub(r'xmlns="[^"]*"', "", response.text)
    titles = [each.findtext(SVG + "title") or "" for each in nodes]
    assert any("<script>alert(1)</script>" in title for title in titles)
    assert max(map(len, titles)) < 300
    assert not re.search("[\u202a-\u202e]", response.text)


async def test_hostile_names_on_the_page(empty_db: Path, make_datasette: Any) -> None:
    write(
        empty_db,
        *((FILL, [at, name]) for at, name in enumerate(HOSTILE, 1)),
        *((LINK, [1, at]) for at in range(2, 9)),
        ("update relations set relation_type = '<i onclick=x>' where to_entity = 3", []),
    )
    datasette = make_datasette(empty_db)
    page = (await get(datasette, base(empty_db) + "/graph")).text
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "<i onclick" not in page
    assert len(page) < 60_000
    assert links(page).count(f"{base(empty_db)}/entity/7") >= 1
    assert "unnamed (#7)" in page


async def test_too_many_for_a_full_map(empty_db: Path, make_datasette: Any) -> None:
    write(
        empty_db,
        (
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)"
            " insert into entities(name) select 'n' || i from n",
            [full_map.MOST + 1],
        ),
        (LINK, [1, 2]),
    )
    datasette = make_datasette(empty_db)
    url = base(empty_db) + "/graph"
    response = await get(datasette, url + ".svg")
    assert response.status_code == 400
    words = text_of(response.text)
    assert "his memory has 5,001 entities, and a full map holds 5,000 at most" in words
    page = (await get(datasette, url)).text
    assert url + ".svg" not in links(page)
    assert "holds 5,000 entities at most" in text_of(page)
    write(empty_db, ("delete from entities where id = 3", []))
    assert (await get(datasette, url + ".svg")).status_code == 200
    assert url + ".svg" in links((await get(datasette, url)).text)


@pytest.mark.parametrize("table", ["entities", "observations", "relations", "entity_access"])
async def test_rights(table: str, demo_db: Path, make_datasette: Any) -> None:
    only_root = {"databases": {demo_db.stem: {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = make_datasette(demo_db, metadata=only_root)
    for path in ("/graph", "/graph.svg"):
        assert (await get(datasette, base(demo_db) + path)).status_code == 403
    await get_json(datasette, base(demo_db) + "/graph.json", 403)


async def test_a_map_that_takes_long_is_not_waited_for(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any) -> Any:
        await asyncio.sleep(60)

    datasette = make_datasette(demo_db)
    monkeypatch.setattr(graph_found, "memory", never)
    monkeypatch.setattr(graph, "PATIENCE", 0.05)
    monkeypatch.setattr(graph_full, "PATIENCE", 0.05)
    page = (await get(datasette, base(demo_db) + "/graph?community=1&level=2")).text
    assert "The map is being drawn." in text_of(page)
    assert f"{base(demo_db)}/graph?community=1&level=2" in links(page)
    found = await get_json(datasette, base(demo_db) + "/graph.json", 503)
    assert "ask again" in found["error"]
    assert (await get(datasette, base(demo_db) + "/graph.svg")).status_code == 503


async def test_the_map_of_the_overview(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasette_limbic.plugin import settings_for

    datasette = make_datasette(demo_db)
    await datasette.invoke_startup()
    name = demo_db.stem
    here = Page(datasette, None, datasette.get_database(name), settings_for(datasette, name), False)
    monkeypatch.setattr(graph, "OVERVIEW_PATIENCE", 30)
    # too large to be begun, and not known
    monkeypatch.setattr(graph, "OVERVIEW_MOST", 10)
    assert await graph.overview_map(here) is None
    monkeypatch.setattr(graph, "OVERVIEW_MOST", 2000)
    found = await graph.overview_map(here)
    assert found is not None
    shown = await get_json(datasette, base(demo_db) + "/graph.json")
    assert {n["id"] for n in found["nodes"]} == {n["id"] for n in shown["nodes"]}
    # known now, whatever its size
    monkeypatch.setattr(graph, "OVERVIEW_MOST", 10)
    monkeypatch.setattr(graph, "OVERVIEW_PATIENCE", 0)
    assert await graph.overview_map(here) == found
    # after a write it is not, and is not waited for
    write(demo_db, ("delete from relations where id = 1", []))
    assert await graph.overview_map(here) is None
    # of a small memory it is begun, and there the next time
    monkeypatch.setattr(graph, "OVERVIEW_MOST", 2000)
    assert await graph.overview_map(here) is None
    await _until_done()
    monkeypatch.setattr(graph, "OVERVIEW_MOST", 10)
    assert await graph.overview_map(here) is not None


async def test_a_database_in_memory(make_datasette: Any) -> None:
    from datasette_limbic import schema

    datasette = make_datasette(memory=False)
    await datasette.invoke_startup()
    db = datasette.add_memory_database("limbic_map")
    await db.execute_write_fn(schema.init, **_outside())
    for at in (1, 2):
        await db.execute_write(FILL, [at, f"n{at}"])
    assert (await get_json(datasette, "/limbic_map/-/limbic/graph.json"))["relations"] == 0
    await db.execute_write(LINK, [1, 2])
    found = await get_json(datasette, "/limbic_map/-/limbic/graph.json")
    assert found["relations"] == 1


def _outside() -> dict[str, Any]:
    from datasette_limbic import compat

    return {"transaction": False} if compat.ONE_POINT_ZERO else {}


async def test_relations_begin_and_end(
    empty_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(empty_db, [(1, 2)])
    write(empty_db, ("update relations set valid_to = '2030-01-01 12:00:00'", []))
    datasette = make_datasette(empty_db)
    url = base(empty_db) + "/graph.json"
    write(
        empty_db,
        (LINK, [2, 1]),
        ("update relations set valid_from = '2030-01-01 13:00:00' where from_entity = 2", []),
    )
    for hour, relations in ((0, 1), (11, 1), (12, 0), (13, 1), (23, 1)):
        now = f"2030-01-01 {hour}:00:00" if hour > 9 else f"2030-01-01 0{hour}:00:00"
        monkeypatch.setattr(times, "now_sql", lambda now=now: now)
        assert (await get_json(datasette, url))["relations"] == relations


STATIC = Path(graph.__file__).parent.parent / "static"
OURS = sum(
    (STATIC / name).stat().st_size for name in ("limbic.css", "limbic_graph.css", "limbic_graph.js")
)


async def test_what_a_page_weighs(
    empty_db: Path, tmp_path: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The most that one sheet holds: 200 entities, in an ordinary memory and in the worst."""
    plain, dense = tmp_path / "plain.db", tmp_path / "dense.db"
    for path in (plain, dense):
        shutil.copy(empty_db, path)
    names = [f"Some service or person {at}" for at in range(1, 201)]
    write(plain, *((FILL, [at, name]) for at, name in enumerate(names, 1)))
    write(plain, *((LINK, [at, at % 200 + 1]) for at in range(1, 201)))
    write(plain, *((LINK, [at, (at * 7 + 3) % 200 + 1]) for at in range(1, 201)))
    hard = [chr(0x4E00 + at) * 200 for at in range(1, 201)]
    write(dense, *((FILL, [at, name]) for at, name in enumerate(hard, 1)))
    write(
        dense,
        (
            "update entities set entity_type = replace(hex(zeroblob(30)), '0', '類') || (id % 30)",
            [],
        ),
    )
    every = "insert into relations(from_entity, to_entity, relation_type) select a.id, b.id, ?"
    every += " from entities a join entities b on a.id < b.id and (a.id + b.id) % 4 = 0"
    write(dense, (every, ["關" * 50]), (every, ["&<" * 50]))
    datasette = make_datasette(plain, dense)
    drawn: list[int] = []
    draw = graph.draw
    monkeypatch.setattr(graph, "draw", lambda *a, **k: drawn.append(1) or draw(*a, **k))
    for path, most in ((plain, 150_000 - OURS), (dense, 130_000)):
        for _ in range(2):
            response = await get(datasette, base(path) + "/graph")
            assert len(response.content) < most, path
            assert response.text.count('<a class="limbic-node') == 200
        found = await get_json(datasette, base(path) + "/graph.json")
        assert 0 < len(found["edges"]) <= 120
        shown = sum(edge["count"] for edge in found["edges"])
        assert found["left_out"]["edges"] > 0
        assert shown + found["left_out"]["edges"] <= found["relations"]
        words = text_of(response.text)
        assert f"{found['left_out']['edges']:,} lines between them are not drawn" in words
        assert "The first rows of each table." in words
    assert len(drawn) == 2
    # once more for another language
    assert (await get(datasette, base(plain) + "/graph?_lang=es")).status_code == 200
    assert len(drawn) == 3


async def test_a_sheet_is_of_its_community(
    empty_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(empty_db, star(500))
    drawn: list[int] = []
    sheet = graph_found.atlas.sheet

    def counted(*args: Any, **more: Any) -> Any:
        drawn.append(1)
        return sheet(*args, **more)

    monkeypatch.setattr(graph_found.atlas, "sheet", counted)
    datasette = make_datasette(empty_db)
    url = base(empty_db) + "/graph.json"
    top = await get_json(datasette, url)
    group = next(each for each in top["communities"] if each["members"] > 1)
    one = await get_json(datasette, f"{url}?community={group['id']}")
    assert len(drawn) == 2
    for node in one["nodes"][:4]:
        for level in (1, 50, 51):
            asked = f"{url}?community={node['id']}&level={level}"
            assert await get_json(datasette, asked) == one
    assert len(drawn) == 2


async def test_a_small_memory_is_one_community(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    url = base(demo_db) + "/graph.json"
    assert await get_json(datasette, url + "?community=4") == await get_json(datasette, url)


async def test_an_entity_may_have_any_id(empty_db: Path, make_datasette: Any) -> None:
    fill(empty_db, cliques([9] * 30), extra=2)
    write(empty_db, *((FILL, [at, f"odd {at}"]) for at in (0, -5)), (LINK, [0, -5]))
    datasette = make_datasette(empty_db)
    url = base(empty_db) + "/graph"
    found = await get_json(datasette, f"{url}.json?community=-5")
    assert {node["id"] for node in found["nodes"]} >= {0, -5}
    assert {node["kind"] for node in found["nodes"]} == {"entity"}
    page = (await get(datasette, f"{url}?community=0")).text
    assert f"{base(empty_db)}/entity/0" in links(page)
    top = await get_json(datasette, url + ".json")
    assert [n["members"] for n in top["nodes"] if n["kind"] == "not_linked"] == [2]


async def test_the_full_map_is_made_once(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    picture = graph_full.full_picture

    def counted(*args: Any, **more: Any) -> Any:
        made.append(1)
        return picture(*args, **more)

    monkeypatch.setattr(graph_full, "full_picture", counted)
    datasette = make_datasette(demo_db)
    url = base(demo_db) + "/graph.svg"
    found = await asyncio.gather(*(get(datasette, url) for _ in range(4)))
    assert len({response.text for response in found}) == 1
    assert len(made) == 1
    spanish = await get(datasette, url + "?_lang=es")
    assert "Mapa" in spanish.text
    assert len(made) == 2
    refused = await get(datasette, url + "?depth=1")
    assert refused.status_code == 400
    assert "unknown argument depth" in text_of(refused.text)


def test_who_asks_at_the_end_of_a_reading_gets_the_same(demo_db: Path) -> None:
    """Between the end of it and the moment that it is remembered for all."""
    with closing(connection.connect(demo_db)) as conn:
        asked = (-1, str(demo_db), None)
        found = graph_found._read(conn, Settings(), asked)
        assert graph_found._read(conn, Settings(), asked) is found
        conn.execute("update entities set archived_at = '2026-01-01' where id = 1")
        conn.commit()
        anew = graph_found._read(conn, Settings(), asked)
        assert len(anew.whole) == len(found.whole) - 1


async def test_a_memory_that_is_written_to_all_the_time(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasette = make_datasette(demo_db)
    url = base(demo_db) + "/graph"
    before = await get_json(datasette, url + ".json")
    assert before["as_of"] is None
    read, reads, free = graph_found.whole.read, [], threading.Event()

    def slow(*args: Any) -> Any:
        reads.append(1)
        assert free.wait(30)
        return read(*args)

    monkeypatch.setattr(graph_found.whole, "read", slow)
    monkeypatch.setattr(graph_found, "FRESH", 0.02)
    for at in range(3):
        write(demo_db, (FILL, [900 + at, f"another {at}"]))
        found = await get_json(datasette, url + ".json")
        assert found["nodes"] == before["nodes"]
        assert found["as_of"] < times.now_sql()
        page = text_of((await get(datasette, url)).text)
        assert f"As it was at {found['as_of'][:16]}" in page
    # what was begun goes on, once for all that wait
    assert len(reads) == 1
    free.set()
    await _until_done()
    assert len(reads) <= 3
    after = await get_json(datasette, url + ".json")
    assert after["as_of"] is None
    assert len(after["nodes"]) == len(before["nodes"]) + 3


async def _until_done() -> None:
    while going := set(graph_found._going_on):
        done, _ = await asyncio.wait(going, timeout=20)
        assert done


def test_a_file_is_stamped_with_its_log(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"1")
    seen = [apart.stamped(str(path))]
    log = tmp_path / "a.db-wal"
    for data in (b"", b"1", b"22"):
        log.write_bytes(data)
        seen.append(apart.stamped(str(path)))
    os.utime(log, ns=(1, 1))
    seen.append(apart.stamped(str(path)))
    path.write_bytes(b"22")
    seen.append(apart.stamped(str(path)))
    assert len(set(seen)) == len(seen)


async def test_databases_are_not_mixed_up(
    demo_db: Path, tmp_path: Path, make_datasette: Any
) -> None:
    """Two that are the same to the byte, of which one is private: its rights are its own, and so
    are the addresses of its map."""
    copies = [tmp_path / "open.db", tmp_path / "closed.db"]
    for path in copies:
        shutil.copy(demo_db, path)
        os.utime(path, ns=(10**18, 10**18))
    datasette = make_datasette(*copies)
    await datasette.invoke_startup()
    from datasette_limbic.plugin import settings_for

    pages = [
        Page(datasette, None, db, settings_for(datasette, db.name), True)
        for db in (datasette.get_database(path.stem) for path in copies)
    ]
    marks = [await graph_found.state(here) for here in pages]
    assert marks[0] != marks[1]
    assert marks == [await graph_found.state(here) for here in pages]
    for path in copies:
        page = (await get(datasette, base(path) + "/graph")).text
        assert f"{base(path)}/entity/1" in links(page)
        assert f"{base(path)}/entity/1" in (await get(datasette, base(path) + "/graph.svg")).text
