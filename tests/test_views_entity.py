"""The page of one entity and its JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from view_helpers import base, get, get_json, links, text_of

from datasette_limbic import connection


def entity_id(path: Path, name: str) -> int:
    conn = connection.connect(path, readonly=True)
    found: int = conn.execute("select id from entities where name = ?", [name]).fetchone()[0]
    conn.close()
    return found


def write(path: Path, *statements: tuple[str, list[Any]]) -> None:
    conn = connection.connect(path)
    for sql, values in statements:
        conn.execute(sql, values)
    conn.commit()
    conn.close()


async def test_json_and_page_hold_the_whole_entity(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    number = entity_id(demo_db, "Turia rollout")
    body = await get_json(datasette, f"{base(demo_db)}/entity/{number}.json")
    assert (body["name"], body["entityType"]) == ("Turia rollout", "Proyecto")
    assert len(body["observations"]) == body["counts"]["observations"] == 34
    assert len(body["relations_out"]) == body["counts"]["relations_out"]
    assert 0 < body["limbic"]["temporal_score"] <= 1
    response = await get(datasette, f"{base(demo_db)}/entity/{number}")
    words = text_of(response.text)
    for row in body["observations"]:
        assert row["content"].split(";")[0].split('"')[0].split("'")[0][:30] in words
    for row in body["relations_out"] + body["relations_in"]:
        assert f'{base(demo_db)}/entity/{row["entity_id"]}"' in response.text
    assert f"/{demo_db.stem}/entities/{number}" in links(response.text)
    assert f"{base(demo_db)}/entity/{number}.json" in links(response.text)
    assert "<title>Turia rollout" in response.text


async def test_relations_are_seen_from_both_ends(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    number = entity_id(demo_db, "Turia rollout")
    body = await get_json(datasette, f"{base(demo_db)}/entity/{number}.json")
    there = body["relations_out"][0]
    other = await get_json(datasette, f"{base(demo_db)}/entity/{there['entity_id']}.json")
    assert (number, there["relation_type"]) in [
        (r["entity_id"], r["relation_type"]) for r in other["relations_in"]
    ]


async def test_archived_entity_says_when_and_why(demo_db: Path, make_datasette: Any) -> None:
    number = entity_id(demo_db, "Kafka trial")
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, f"{base(demo_db)}/entity/{number}.json")
    words = text_of((await get(datasette, f"{base(demo_db)}/entity/{number}")).text)
    assert f"Archived {body['archived_at'][:10]} . {body['archived_reason']}" in words


async def test_ended_and_flagged_observations_are_marked(
    demo_db: Path, make_datasette: Any
) -> None:
    write(
        demo_db,
        (
            "insert into observations(entity_id, content, valid_to, similarity_flag)"
            " values (1, ?, ?, 1)",
            ["It was blue", "2025-02-03 10:00:00"],
        ),
        (
            "insert into observations(entity_id, content, valid_to) values (1, ?, ?)",
            ["It will end", "2999-01-01"],
        ),
    )
    datasette = make_datasette(demo_db)
    words = text_of((await get(datasette, f"{base(demo_db)}/entity/1")).text)
    assert "similar" in words.split("It was blue")[1][:60]
    assert "ended 2025-02-03" in words.split("It was blue")[1][:100]
    assert "until 2999-01-01" in words.split("It will end")[1][:60]


async def test_long_lists_are_paged(demo_db: Path, make_datasette: Any) -> None:
    write(
        demo_db,
        *[
            ("insert into observations(entity_id, content) values (2, ?)", [f"number {i}"])
            for i in range(250)
        ],
    )
    datasette = make_datasette(demo_db)
    seen: list[int] = []
    for page in (1, 2, 3):
        body = await get_json(datasette, f"{base(demo_db)}/entity/2.json?page={page}")
        assert (body["page"], body["pages"]) == (page, 3)
        seen += [o["id"] for o in body["observations"]]
    assert len(seen) == len(set(seen)) == body["counts"]["observations"]
    first = (await get(datasette, f"{base(demo_db)}/entity/2")).text
    assert 'href="?page=2" rel="next"' in first
    assert 'rel="prev"' not in first
    beyond = (await get(datasette, f"{base(demo_db)}/entity/2?page=99")).text
    assert "No more on this page." in beyond
    assert 'href="?page=3" rel="prev"' in beyond


async def test_now_moves_the_recency(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    early = await get_json(datasette, f"{base(demo_db)}/entity/3.json?now=2026-11-29")
    late = await get_json(datasette, f"{base(demo_db)}/entity/3.json?now=2036-11-29")
    assert late["limbic"]["temporal_score"] < early["limbic"]["temporal_score"]


async def test_an_entity_about_which_nothing_is_known(empty_db: Path, make_datasette: Any) -> None:
    write(empty_db, ("insert into entities(id, name, created_at) values (1, 'Bare', null)", []))
    words = text_of((await get(make_datasette(empty_db), f"{base(empty_db)}/entity/1")).text)
    assert "created unknown" in words
    assert "This entity has no observations." in words
    assert "never accessed" in words
    assert words.count("Nothing recorded.") == 2


ODD_ROWS = [
    ("a number that is no number", "update entities set confidence = 'high' where id = 1"),
    ("infinity", "update entities set confidence = 9e999 where id = 1"),
    ("a name of bytes", "update entities set name = X'00ff41' where id = 1"),
    ("an observation of bytes", "update observations set content = X'fffe' where entity_id = 1"),
    ("unreadable times", "update entities set created_at = 'x', last_activity_at = 'y'"),
    ("a time in Unix seconds", "update entities set created_at = 1700000000 where id = 1"),
    ("a negative count", "update entity_access set access_count = -5"),
    ("a type of bytes", "update entities set entity_type = X'ff00' where id = 1"),
    ("an unreadable end", "update observations set valid_to = 'soon' where entity_id = 1"),
]


@pytest.mark.parametrize("sql", [s for _, s in ODD_ROWS], ids=[name for name, _ in ODD_ROWS])
async def test_what_other_programs_wrote_is_shown_all_the_same(
    sql: str, demo_db: Path, make_datasette: Any
) -> None:
    write(demo_db, (sql, []))
    datasette = make_datasette(demo_db)
    for page in ("", "/entity/1", "/search?q=rutas+paella&explain=1", "/search"):
        path, _, query = page.partition("?")
        for suffix in ("", ".json"):
            response = await get(datasette, f"{base(demo_db)}{path}{suffix}?{query}")
            assert response.status_code == 200, (page, suffix, response.text[-800:])


@pytest.mark.parametrize("value", ["'many'", "x'ff'", "''", "-3", "9e999"])
@pytest.mark.parametrize("column", ["entity_access.access_count", "co_occurrences.co_count"])
async def test_counts_that_are_no_numbers_stop_no_page(
    column: str, value: str, demo_db: Path, make_datasette: Any
) -> None:
    table, name = column.split(".")
    write(demo_db, (f"update {table} set {name} = {value}", []))
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, f"{base(demo_db)}/search.json?q=rutas+invoices&explain=1")
    assert body["degraded"] is None
    assert len(body["results"]) == 10
    for row in body["results"] + body["losers"]:
        assert 0 <= row["final_score"] < 100, row
    await get_json(datasette, f"{base(demo_db)}/entity/3.json")


async def test_what_ranking_cannot_use_ends_in_a_sentence(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_args: Any, **_more: Any) -> None:
        raise sqlite3.OperationalError("user-defined function raised exception")

    monkeypatch.setattr("datasette_limbic.views.search.search.search", failing)
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, f"{base(demo_db)}/search.json?q=invoices", status=503)
    assert "holds a value that ranking cannot use" in body["error"]
    assert "Datasette's log names it" in body["error"]
    response = await get(datasette, f"{base(demo_db)}/search?q=invoices")
    assert response.status_code == 503
    assert "This memory cannot be read now" in response.text
    await get_json(datasette, f"{base(demo_db)}/entity/3.json")
