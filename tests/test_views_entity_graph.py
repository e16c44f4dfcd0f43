"""The page of what is near an entity, its JSON, and the small picture for the entity's page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from view_helpers import base, get, get_json, links, rows, text_of, write

from datasette_limbic import connection, i18n, views
from datasette_limbic.plugin import settings_for
from datasette_limbic.views.common import Page
from datasette_limbic.views.entity_graph import NEAR, entity_picture

STATIC = Path(views.__file__).parents[1] / "static"
NOW = "now=2026-11-29+12:00:00"
ODD = [
    "x" * 10_000,
    "\u202eturned <script>alert(1)</script>",
    "NUL\0 and \x1b control",
    "لغة عربية",
    "'\"><svg onload=alert(2)>",
    "\u200b",
]


def entity_id(path: Path, name: str) -> int:
    found: int = rows(path, "select id from entities where name = ?", name)[0][0]
    return found


def svg_of(html: str) -> ElementTree.Element:
    """The picture, which must be well-formed."""
    [found] = re.findall(r"<svg id=\"limbic-near\".*?</svg>", html, re.S)
    return ElementTree.fromstring(found)


@pytest.fixture
def odd_db(empty_db: Path) -> Path:
    """An entity whose neighbours, types and relations are called what nobody expects."""
    conn = connection.connect(empty_db)
    conn.execute("insert into entities (name) values ('centre'), ('alone')")
    for i, name in enumerate(ODD, 3):
        conn.execute(
            "insert into entities (id, name, entity_type) values (?, ?, ?)", [i, name, name]
        )
        conn.execute(
            "insert into relations (from_entity, to_entity, relation_type) values (1, ?, ?)",
            [i, name],
        )
    conn.commit()
    conn.close()
    return empty_db


async def test_json_and_page_say_the_same(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    number = entity_id(demo_db, "Turia rollout")
    url = f"{base(demo_db)}/entity/{number}/graph"
    body = await get_json(datasette, f"{url}.json?hops=2&{NOW}")
    assert set(body) == {
        "ok", "focus", "hops", "relation", "co_occurrence", "archived", "limit", "nodes", "edges",
        "left_out", "at_least", "edges_left_out", "relation_types",
        "relation_types_at_least",
    }  # fmt: skip
    assert (body["focus"], body["hops"], body["left_out"]) == (number, 2, 0)
    assert {node["distance"] for node in body["nodes"]} == {0, 1, 2}
    assert {edge["kind"] for edge in body["edges"]} == {"relation", "co_occurrence"}
    response = await get(datasette, f"{url}?hops=2&{NOW}")
    assert response.status_code == 200
    assert len(response.text) < 100_000
    svg = svg_of(response.text)
    drawn = svg.findall("a")
    assert {int(a.attrib["data-id"]) for a in drawn} == {node["id"] for node in body["nodes"]}
    # each node leads to its own graph with the same filter, the focus to what it says
    own = f"{base(demo_db)}/entity/"
    for a in drawn:
        node = int(a.attrib["data-id"])
        wanted = f"../{node}/graph?hops=2&now=2026-11-29+12%3A00%3A00"
        assert a.attrib["href"] == (f"{own}{node}" if node == number else wanted)
        assert a.find("title").text  # type: ignore[union-attr]
    assert svg.attrib["role"] == "group"
    ids = {found.attrib.get("id") for found in svg.iter()}
    assert {svg.attrib["aria-labelledby"], svg.attrib["aria-describedby"]} <= ids
    pairs = [tuple(map(int, g.attrib["data-ends"].split())) for g in svg.findall("g/g")]
    assert sorted(pairs) == sorted((e["source"], e["target"]) for e in body["edges"])
    # the table holds them too
    table = response.text.partition('<details class="limbic-options limbic-graph-table"')[2]
    for node in body["nodes"]:
        assert node["name"][:50].replace('"', "&#34;") in table
    assert table.count("<tr>") == len(body["nodes"]) + len(body["edges"]) + 2


async def test_the_filter(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    number = entity_id(demo_db, "Atlas")
    url = f"{base(demo_db)}/entity/{number}/graph"
    every = (await get_json(datasette, f"{url}.json?{NOW}"))["relation_types"]
    first, second = every[0], every[1]
    for asked in (
        f"relation={first['name']}&relation={second['name']}",
        f"relation={first['name']},{second['name']}",
    ):
        body = await get_json(datasette, f"{url}.json?{asked}&co_occurrence=0&{NOW}")
        kinds = {kind for edge in body["edges"] for kind in (*edge["labels"], *edge["back"])}
        assert kinds == {first["name"], second["name"]}
        assert {edge["kind"] for edge in body["edges"]} == {"relation"}
        assert body["relation_types"] == every
    # a form sends nothing for a box without a tick
    body = await get_json(datasette, f"{url}.json?filtered=1&archived=1&hops=1")
    assert (body["co_occurrence"], body["archived"]) == (False, True)
    page = (await get(datasette, f"{url}?filtered=1&relation={first['name']}")).text
    [box] = re.findall(r'<input type="checkbox" name="relation"[^>]* checked>', page)
    assert f'value="{first["name"]}"' in box
    assert 'name="archived" value="1">' in page
    assert f"{url}" in links(page)


@pytest.mark.parametrize(
    ("name", "query", "said"),
    [
        ("alone", "", "Nothing is near it. This entity has no relations"),
        ("centre", "?relation=unheard", "Nothing passes the filter."),
        ("centre", "?archived=0", ""),
    ],
)
async def test_nothing_to_draw(
    name: str, query: str, said: str, odd_db: Path, make_datasette: Any
) -> None:
    number = entity_id(odd_db, name)
    page = (await get(make_datasette(odd_db), f"{base(odd_db)}/entity/{number}/graph{query}")).text
    assert len(svg_of(page).findall("a")) == (1 if said else len(ODD) + 1)
    assert said in text_of(page)
    assert ("Nothing" in text_of(page)) is bool(said)


@pytest.fixture
def heavy_db(empty_db: Path) -> Path:
    """A hub of 120 neighbours, all linked, whose names and types weigh as much as names can."""
    heavy = ("漢字" * 90, "&<" * 90, "'\"" * 90, "👩🏽" * 90)
    conn = connection.connect(empty_db)
    conn.executemany(
        "insert into entities (id, name, entity_type) values (?, ?, ?)",
        [(i, heavy[i % 4] + str(i), heavy[i % 4] + str(i % 9)) for i in range(1, 122)],
    )
    conn.executemany(
        "insert or ignore into relations (from_entity, to_entity, relation_type) values (?, ?, ?)",
        [
            (a, b, f"{b % 50}{kind}" + heavy[(a + b) % 4])
            for a in range(1, 122)
            for b in ((a % 121) + 1, 1, (a % 7) + 1)
            if a != b
            for kind in "abcd"[: 1 + 3 * (b == 1)]
        ],
    )
    conn.executemany(
        "insert into co_occurrences (entity_a_id, entity_b_id, co_count) values (?, ?, 1000000)",
        [(a, a + b) for a in range(1, 100) for b in range(1, 9)],
    )
    conn.execute("insert into entity_access (entity_id, access_count) select id, id from entities")
    conn.commit()
    conn.close()
    return empty_db


async def test_a_page_weighs_little_whatever_the_names(heavy_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(heavy_db)
    url = f"{base(heavy_db)}/entity/1/graph"
    # each link of the picture repeats the filter
    kinds = "&".join("relation=" + quote(f"{i}" + "&漢" * 99) for i in range(5))
    for asked in ("limit=80", "limit=80&hops=2", f"limit=80&{kinds}"):
        response = await get(datasette, f"{url}?{asked}&as_of=2026-11-29{'%20' * 200}")
        assert response.status_code == 200
        ours = set(re.findall(r"/(limbic\w*\.(?:css|js))", response.text))
        assert {"limbic.css", "limbic_graph.js"} <= ours
        sheets = sum((STATIC / name).stat().st_size for name in ours)
        assert len(response.content) + sheets < 150_000, (len(response.content), sheets)
        assert len(svg_of(response.text).findall("a")) == (80 if kinds not in asked else 7)
        # cut tables say so
        assert ("The first rows of each table." in response.text) is (kinds not in asked)


async def test_names_of_all_kinds_are_harmless(odd_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(odd_db)
    response = await get(datasette, f"{base(odd_db)}/entity/1/graph")
    html = response.text
    svg = svg_of(html)
    assert len(svg.findall("a")) == len(ODD) + 1
    words = "".join(svg.itertext())
    # isolated, and nothing in them that turns text or cannot be printed
    assert "\u2068لغة عربية\u2069" in words
    assert "turned <script>" in words
    assert "unnamed (#8)" in words
    assert not re.search("[\0\x1b\u202a-\u202e]", words)
    assert words.count("\u2068") == words.count("\u2069")
    tags = {found.tag for found in svg.iter()}
    assert tags == {"svg", "title", "desc", "g", "a", "path", "circle", "text"}
    assert "<script>alert" not in html
    assert "x" * 500 not in html
    assert " style=" not in html
    assert not re.search(r"<[^>]* on\w+=", html.replace("onload=alert", ""))
    assert (await get(datasette, f"{base(odd_db)}/entity/2/graph")).status_code == 200


@pytest.mark.parametrize(
    ("path", "status", "error"),
    [
        ("999/graph", 404, "no entity with the id 999"),
        ("Atlas/graph", 404, "'Atlas' is no entity id"),
        ("1/graph?hops=3", 400, "hops is '3': use a whole number from 1 to 2"),
        ("1/graph?limit=81", 400, "limit is '81': use a whole number from 1 to 80"),
        ("1/graph?archived=yes", 400, "archived is 'yes': use 1 or 0"),
        ("1/graph?now=soon", 400, "now is 'soon'"),
        ("1/graph?as_of=soon", 400, "as_of is 'soon'"),
        ("1/graph?hop=2", 400, "unknown argument hop"),
        ("1/graph?" + "&".join(f"relation=r{i}" for i in range(31)), 400, "given 31 times"),
        (
            "1/graph?relation=" + "xy," * 67,
            400,
            "xy,xy,xy,x'… of 201 letters: use at most 200",
        ),
        ("1/graph?" + "&".join(f"relation={i}{'r' * 198}" for i in range(6)), 400, "1194 letters"),
    ],
)
async def test_what_is_refused(
    path: str, status: int, error: str, odd_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(odd_db)
    place, _, query = path.partition("?")
    url = f"{base(odd_db)}/entity/{place}"
    body = await get_json(datasette, f"{url}.json?{query}", status)
    assert error in body["error"]
    assert (await get(datasette, f"{url}?{query}")).status_code == status


async def test_a_moment_is_kept_by_links_and_form(odd_db: Path, make_datasette: Any) -> None:
    write(
        odd_db,
        ("update relations set relation_type = 'r', valid_to = '2025-01-01' where id = 1", []),
    )
    datasette = make_datasette(odd_db)
    own = f"{base(odd_db)}/entity/"
    page = (await get(datasette, f"{own}1/graph?as_of=2024-06-30&archived=0")).text
    kept = "as_of=2024-06-30"
    hrefs = [a.attrib["href"] for a in svg_of(page).findall("a")]
    assert f"{own}1?{kept}" in hrefs
    assert len(hrefs) == len(ODD) + 1
    assert all(kept in href for href in hrefs)
    around = [link for link in links(page) if re.match(rf"{own}\d+(/graph)?(\?|$)", link)]
    without = [link for link in around if kept not in link]
    assert set(without) == {f"{own}1/graph?archived=0"}  # back to now
    assert f"{own}1/graph?hops=2&archived=0&{kept}" in around
    assert f"{own}1/graph?{kept}" in around  # all of it
    [form] = re.findall(r'<form class="core limbic-graph-filter".*?</form>', page, re.S)
    assert '<input type="hidden" name="as_of" value="2024-06-30">' in form
    assert "As it was at the start of 2024-06-30 (00:00 UTC). Back to now" in text_of(page)
    ended = {
        as_of: [edge["ended"] for edge in (await get_json(datasette, url))["edges"]].count(True)
        for as_of in ("2024-06-30", "2025-06-30")
        if (url := f"{own}1/graph.json?as_of={as_of}&now=2030-01-01")
    }
    assert ended == {"2024-06-30": 0, "2025-06-30": 1}


async def test_the_rights_of_the_entity_are_asked_for(odd_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(odd_db, metadata={"databases": {odd_db.stem: {"allow": False}}})
    datasette.config = {"databases": {odd_db.stem: {"allow": False}}}
    url = f"{base(odd_db)}/entity/1/graph"
    assert (await get(datasette, url)).status_code == 403
    await get_json(datasette, f"{url}.json", 403)


async def test_the_small_picture(demo_db: Path, make_datasette: Any) -> None:
    write(
        demo_db,
        *(("insert into entities (name) values (?)", [f"leaf {i}"]) for i in range(60)),
        (
            "insert into relations (from_entity, to_entity, relation_type)"
            " select e.id, l.id, 'has' from entities e, entities l"
            " where e.name = 'Atlas' and l.name like 'leaf %'",
            [],
        ),
    )
    datasette = make_datasette(demo_db)
    await datasette.invoke_startup()
    db = datasette.get_database(demo_db.stem)
    here = Page(datasette, None, db, settings_for(datasette, db.name), False)
    number = entity_id(demo_db, "Atlas")
    with i18n.spoken("en"):
        drawn = await entity_picture(here, number, "2026-11-29 12:00:00")
    assert len(drawn["nodes"]) == NEAR
    assert drawn["left_out"] > 50
    assert drawn["more_url"] == f"{base(demo_db)}/entity/{number}/graph"
    assert {node["url"] for node in drawn["nodes"]} == {
        f"{base(demo_db)}/entity/{node['id']}" for node in drawn["nodes"]
    }
    assert (drawn["focus"], drawn["nodes"][-1]["id"]) == (number, number)
