"""The page of one entity and its JSON."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from view_helpers import as_actor, base, get, get_json, links, text_of, write

from datasette_limbic import connection, scoring, serving, signals
from datasette_limbic.reports import keeping

pytestmark = pytest.mark.slow  # the pages are no other on another Python


def entity_id(path: Path, name: str) -> int:
    conn = connection.connect(path, readonly=True)
    found: int = conn.execute("select id from entities where name = ?", [name]).fetchone()[0]
    conn.close()
    return found


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
    # the page turns in smaller steps than its JSON, so a link between them names no step
    second = (await get(datasette, f"{base(demo_db)}/entity/2?page=2&now=2026-11-29")).text
    assert f"{base(demo_db)}/entity/2.json?now=2026-11-29" in links(second)
    beyond = (await get(datasette, f"{base(demo_db)}/entity/2?page=99")).text
    assert "No more on this page." in beyond
    assert 'href="?page=6" rel="prev"' in beyond


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
    assert words.count("Nothing recorded.") == 1
    assert "No access was logged." in words


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

    monkeypatch.setattr("datasette_limbic.views.search.search.rank", failing)
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, f"{base(demo_db)}/search.json?q=invoices", status=503)
    assert "holds a value that ranking cannot use" in body["error"]
    assert "Datasette's log names it" in body["error"]
    response = await get(datasette, f"{base(demo_db)}/search?q=invoices")
    assert response.status_code == 503
    assert "This memory cannot be read now" in response.text
    await get_json(datasette, f"{base(demo_db)}/entity/3.json")


NOW = "2026-11-29 12:00:00"


def used(path: Path) -> None:
    """Accesses of entity 3 in three weeks, and of times that only some programs write."""
    conn = connection.connect(path)
    with conn:
        conn.execute("delete from entity_access_log")
        conn.execute("delete from co_occurrences")
    for moment, query in (
        ("2026-11-24", "vans"),
        ("2026-11-24T10:00:00+02:00", None),
        ("2026-11-10", "vans"),
        ("2025-01-01", "vans"),
        ("2026-12-24", "vans"),
    ):
        signals.record_access(conn, [3], query, now=moment)
    with conn:
        for moment in ("1795392000", "1795392000000", "soon"):
            conn.execute(
                "insert into entity_access_log(entity_id, entity_name, accessed_at)"
                " values (3, 'x', ?)",
                [moment],
            )
    for other, moment in ((4, "2026-11-29"), (4, "2026-11-29"), (5, "2025-11-29"), (10, "x")):
        signals.record_co_occurrences(conn, [3, other], now="2026-01-01")
        with conn:
            conn.execute(
                "update co_occurrences set last_co = ? where entity_b_id = ?", [moment, other]
            )
    conn.close()


async def test_signals_over_time_in_json_and_in_words(demo_db: Path, make_datasette: Any) -> None:
    used(demo_db)
    datasette = make_datasette(demo_db)
    url = f"{base(demo_db)}/entity/3"
    found = (await get_json(datasette, f"{url}.json?now={NOW}"))["signals"]
    assert len(found["weeks"]) == 26
    assert [week for week in found["weeks"] if week["accesses"]] == [
        {"week": "2026-11-09", "accesses": 1, "searched": 1, "opened": 0},
        {"week": "2026-11-23", "accesses": 4, "searched": 1, "opened": 3},
    ]
    assert found["outside_weeks"] == {"earlier": 1, "later": 1, "unreadable": 1}
    page = (await get(datasette, f"{url}?now={NOW}")).text
    words = text_of(page)
    assert (
        "5 accesses in 26 weeks, from 2026-06-01 to the week of 2026-11-23: 2 found by a search,"
        " 3 opened by name. The busiest was the week of 2026-11-23 with 4."
    ) in words
    # drawn once, in the picture of all that happened to it
    assert page.count("<svg class=") - page.count('class="limbic-swatch"') == 1
    [picture] = re.findall(r'<svg class="limbic-timeline".*?</svg>', page, re.S)
    assert picture.count('class="limbic-in-accesses"') == 2  # by month: 2025 too
    assert "Dated after today, so not shown here: 1 access." in words
    assert re.search(r"Of no known time, so not shown here: [^.]*1 access\.", words)
    early = await get_json(datasette, f"{url}.json?now=2025-01-03")
    assert [week["accesses"] for week in early["signals"]["weeks"]][-1] == 1
    assert early["signals"]["outside_weeks"] == {"earlier": 0, "later": 6, "unreadable": 1}


async def test_no_weeks_where_all_accesses_are_old(demo_db: Path, make_datasette: Any) -> None:
    used(demo_db)
    page = (await get(make_datasette(demo_db), f"{base(demo_db)}/entity/3?now=2036-01-01")).text
    assert "None in the last 26 weeks." in text_of(page)
    assert "accesses in 26 weeks" not in text_of(page)


async def test_partners_fade_as_they_do_in_ranking(demo_db: Path, make_datasette: Any) -> None:
    used(demo_db)
    datasette = make_datasette(demo_db, config={"lambda_hourly": 0.0003})
    url = f"{base(demo_db)}/entity/3"
    partners = (await get_json(datasette, f"{url}.json?now={NOW}"))["signals"]["co_occurrences"]
    assert [(p["id"], p["co_count"]) for p in partners] == [(4, 2), (10, 1), (5, 1)]
    decays = {p["id"]: p["decay"] for p in partners}
    assert decays[10] == scoring.UNKNOWN_TEMPORAL
    # half a day, and a year and half a day: that is below the floor
    assert decays[4] == pytest.approx(2.718281828459045 ** (-0.0003 * 12))
    assert decays[5] == scoring.COOC_TEMPORAL_FLOOR
    hours = {4: 12, 10: None, 5: 366 * 24}
    for p in partners:
        assert p["boost"] == pytest.approx(
            scoring.cooc_term(p["co_count"], hours[p["id"]], lambda_hourly=0.0003)
        )
    page = (await get(datasette, f"{url}?now={NOW}")).text
    part = page.split('class="limbic-partners"')[1].split("</ol>")[0]
    assert links(part) == [f"{base(demo_db)}/entity/{p['id']}" for p in partners]
    assert [float(w) for w in re.findall(r'limbic-full" width="([\d.]+)"', part)] == [120, 60, 60]
    assert [float(w) for w in re.findall(r'limbic-now" width="([\d.]+)"', part)] == pytest.approx(
        [120 * decays[4], 30, 6], abs=0.01
    )
    assert "2 times, last 2026-11-29" in text_of(part)
    assert text_of(part).count("archived") == 1  # Kafka trial


async def test_ratings_are_shown_to_whom_may_see_them_alone(
    demo_db: Path, make_datasette: Any
) -> None:
    conn = connection.connect(demo_db)
    for ratings in (["not_useful", "useful"], ["useful"], ["not_useful"]):
        answer = serving.search_semantic(conn, "who fixed the geocoder")
        number = answer["results"][0]["id"]
        for rating in ratings:
            serving.rate(conn, answer["search_id"], number, rating)
    for _ in range(2):
        serving.open_nodes(conn, ids=[number], search_id=answer["search_id"])
    serving.open_nodes(conn, ids=[number], client="somebody")  # by name
    conn.close()
    only_root = {"tables": {"limbic_feedback": {"allow": {"id": "root"}}}}
    datasette = make_datasette(demo_db, metadata={"databases": {demo_db.stem: only_root}})
    url = f"{base(demo_db)}/entity/{number}"
    hidden = await get_json(datasette, url + ".json")
    assert hidden["signals"]["events"] is None
    assert "rated useful" not in text_of((await get(datasette, url)).text)
    root = {"cookies": as_actor(datasette, {"id": "root"})}
    shown = await get_json(datasette, url + ".json", **root)
    # the last rating of each search counts, every opening does
    assert shown["signals"]["events"] == {"opened": 2, "useful": 2, "not_useful": 1}
    words = text_of((await get(datasette, url, **root)).text)
    assert "After a search: opened 2 · rated useful 2, not useful 1" in words


@pytest.mark.parametrize("table", ["entity_access_log", "co_occurrences", "limbic_feedback"])
async def test_signals_with_strange_values_break_no_page(
    table: str, demo_db: Path, make_datasette: Any
) -> None:
    used(demo_db)
    column = {"entity_access_log": "accessed_at", "co_occurrences": "last_co"}.get(
        table, "created_at"
    )
    datasette = make_datasette(demo_db)
    for value in ("x'ff00'", "'now'", "9e999", "-1", "''", "'2026-11-31'", "1795392000", "'🚀'"):
        write(demo_db, (f"update {table} set {column} = {value}", []))
        for suffix in ("", ".json"):
            response = await get(datasette, f"{base(demo_db)}/entity/3{suffix}?now={NOW}")
            assert response.status_code == 200, (value, response.text[-500:])


# -- maintenance --------------------------------------------------------------------------------


def kept(path: Path) -> None:
    """The same as the last step of ``datasette limbic sync``."""
    conn = connection.connect(path)
    keeping.keep(conn)
    conn.close()


async def test_how_an_entity_stands_in_the_reports(demo_db: Path, make_datasette: Any) -> None:
    kept(demo_db)
    datasette = make_datasette(demo_db)
    large = f"{base(demo_db)}/entity/{entity_id(demo_db, 'Turia rollout')}"
    found = (await get_json(datasette, large + ".json"))["maintenance"]
    report = await get_json(datasette, base(demo_db) + "/consolidation.json")
    [candidate] = [row for row in report["split_candidates"] if row["name"] == "Turia rollout"]
    assert found == {
        "observations": 34,
        "threshold": 25,
        "size": "large",
        "pairs": {"duplicate": 0, "contradiction": 0, "look": 0},
        "split": {"status": "split", "split_score": candidate["split_score"]},
        "changed_since": False,
        "topics": [{key: topic[key] for key in ("label", "size")} for topic in candidate["topics"]],
        "waiting": {"count": 0, "insights": []},
    }
    page = (await get(datasette, large)).text
    assert "large: 34 observations, threshold 25" in text_of(page)
    for path in ("/split/", "/duplicates/"):
        assert large.replace("/entity/", path) in links(page)
    near = f"{base(demo_db)}/entity/{entity_id(demo_db, 'Home Assistant')}"
    assert "approaching: 18 observations, threshold 20" in text_of(
        (await get(datasette, near)).text
    )
    small = f"{base(demo_db)}/entity/{entity_id(demo_db, 'Facturas')}"
    found = (await get_json(datasette, small + ".json"))["maintenance"]
    assert (found["size"], found["split"]) == (None, None)
    pairs = await get_json(datasette, small.replace("/entity/", "/duplicates/") + ".json")
    assert found["pairs"] == {
        "duplicate": pairs["counts"]["pairs"],
        "contradiction": pairs["counts"]["contradictions"],
        "look": pairs["counts"]["worth_a_look"],
    }
    page = (await get(datasette, small)).text
    assert "Duplicates 1 duplicate pair, 1 contradiction " in text_of(page)
    assert small.replace("/entity/", "/split/") not in links(page)


async def test_what_changed_since_it_was_compared_is_said(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    url = f"{base(demo_db)}/entity/1"
    write(demo_db, ("delete from limbic_reports", []))
    assert (await get_json(datasette, url + ".json"))["maintenance"]["pairs"] is None
    assert "Duplicates not compared yet" in text_of((await get(datasette, url)).text)
    kept(demo_db)
    assert "Duplicates none found " in text_of((await get(datasette, url)).text)
    write(demo_db, ("insert into observations(entity_id, content) values (1, 'new')", []))
    assert (await get_json(datasette, url + ".json"))["maintenance"]["changed_since"] is True
    words = text_of((await get(datasette, url)).text)
    assert "none found; changed since it was last compared" in words
    other = await get_json(datasette, f"{base(demo_db)}/entity/2.json")
    assert other["maintenance"]["changed_since"] is False


async def test_a_flag_says_what_the_observation_is_like(demo_db: Path, make_datasette: Any) -> None:
    kept(demo_db)
    number = entity_id(demo_db, "Facturas")
    text = '<b>"quoted"</b> & the monthly closing ' + "runs " * 100
    write(
        demo_db,
        *[
            ("insert into observations(id, entity_id, content) values (?, ?, ?)", [i, number, text])
            for i in (9001, 9002)
        ],
        (
            "insert into observations(id, entity_id, content, similarity_flag)"
            " values (9003, ?, ?, 1)",
            [number, "Flagged by an import"],
        ),
    )
    kept(demo_db)
    datasette = make_datasette(demo_db)
    url = f"{base(demo_db)}/entity/{number}"
    body = await get_json(datasette, url + ".json")
    by_id = {row["id"]: row for row in body["observations"]}
    like = by_id[9002]["similar_to"]
    assert (like["id"], like["rule"], like["content"]) == (9001, "exact", text)
    assert by_id[9001]["similar_to"] is by_id[9003]["similar_to"] is None
    assert not [key for row in body["observations"] for key in row if key.startswith("_")]
    page = (await get(datasette, url)).text
    [title] = re.findall(r'href="#observation-9001" title="([^"]*)">duplicate of #9001<', page)
    assert html.unescape(title) == text[:99] + "…"
    assert ">duplicate of #9002<" in page.split('id="observation-9001"')[1].split("</li>")[0]
    # a flag alone, where no pair is kept that says which one it is like
    marked = page.split('id="observation-9003"')[1].split("</li>")[0]
    assert "Marked as like an earlier observation" in marked
    assert page.count(">similar<") == marked.count(">similar<") == 1
    # each pair once a side
    assert page.count(">duplicate of #9001<") == page.count(">duplicate of #9002<") == 1


async def test_what_it_is_like_may_be_on_another_page(empty_db: Path, make_datasette: Any) -> None:
    write(
        empty_db,
        ("insert into entities(id, name) values (1, 'Long')", []),
        *[
            ("insert into observations(entity_id, content) values (1, ?)", [content])
            for content in ["The same words", *(f"number {i} of {i * 7}" for i in range(105))]
        ],
        ("insert into observations(id, entity_id, content) values (900, 1, 'The same words')", []),
    )
    kept(empty_db)
    page = (await get(make_datasette(empty_db), f"{base(empty_db)}/entity/1?page=3")).text
    marked = page.split('id="observation-900"')[1].split("</li>")[0]
    assert links(marked) == [f"{base(empty_db)}/duplicates/1"]
    assert "duplicate of #1<" in marked


async def test_maintenance_is_shown_to_whom_may_see_it_alone(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(demo_db)
    only_root = {"tables": {"limbic_duplicates": {"allow": {"id": "root"}}}}
    datasette = make_datasette(demo_db, metadata={"databases": {demo_db.stem: only_root}})
    url = f"{base(demo_db)}/entity/{entity_id(demo_db, 'Facturas')}"
    body = await get_json(datasette, url + ".json")
    assert body["maintenance"] is None
    assert not [row for row in body["observations"] if row["similar_to"]]
    page = (await get(datasette, url)).text
    assert not [link for link in links(page) if "/duplicates" in link or "/split" in link]
    assert ">similar<" in page  # the flag is the observation's own
    root = {"cookies": as_actor(datasette, {"id": "root"})}
    body = await get_json(datasette, url + ".json", **root)
    assert body["maintenance"]["pairs"]["duplicate"] == 1
    assert [row for row in body["observations"] if row["similar_to"]]
    monkeypatch.setattr("datasette_limbic.schema.has_reports", lambda _conn: False)
    body = await get_json(datasette, url + ".json", **root)
    assert body["maintenance"] is None
    assert (await get(datasette, url, **root)).status_code == 200


async def test_an_archived_entity_wants_no_splitting(demo_db: Path, make_datasette: Any) -> None:
    kept(demo_db)
    number = entity_id(demo_db, "Turia rollout")
    write(demo_db, ("update entities set archived_at = '2026-01-01' where id = ?", [number]))
    url = f"{base(demo_db)}/entity/{number}"
    found = (await get_json(make_datasette(demo_db), url + ".json"))["maintenance"]
    assert (found["observations"], found["size"], found["split"]) == (34, None, None)


def test_one_entity_has_changed_where_the_list_of_all_has_it(demo_db: Path) -> None:
    kept(demo_db)
    write(
        demo_db,
        ("update limbic_reports set computed_at = '2020-01-01'", []),
        ("delete from limbic_report_pending", []),
        ("update observations set valid_to = '2021-01-01' where entity_id = 2", []),
        ("update observations set valid_from = '2021-01-01' where entity_id = 3", []),
        ("update observations set valid_to = '2019-01-01' where entity_id = 4", []),
        ("update observations set valid_to = '2999-01-01' where entity_id = 5", []),
        ("delete from limbic_report_pending where entity_id <> 6", []),
        ("insert into observations(entity_id, content) values (6, 'new')", []),
    )
    conn = connection.connect(demo_db, readonly=True)
    every = [row[0] for row in conn.execute("select id from entities")]
    found = {number for number in every if keeping.has_changed(conn, number)}
    assert found == keeping.changed(conn)
    assert found & {2, 3, 4, 5, 6} == {2, 3, 6}
    conn.close()
