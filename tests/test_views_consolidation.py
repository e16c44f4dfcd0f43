"""The consolidation page and its JSON."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from test_consolidation import KEPT_LISTS, made_older
from view_helpers import as_actor, base, get, get_json, links, text_of, write

from datasette_limbic.connection import connect
from datasette_limbic.reports.consolidation import LISTS, consolidation_report
from datasette_limbic.reports.queries import queries
from datasette_limbic.schema import REPORTED_TABLES
from datasette_limbic.views.consolidation import NOTHING, TITLES

pytestmark = pytest.mark.slow  # the pages are no other on another Python

NOW = "2026-11-29 12:00:00"


def page(path: Path, query: str = "", json: bool = False) -> str:
    return f"{base(path)}/consolidation{'.json' if json else ''}{query}"


def test_every_list_has_its_words():
    assert set(TITLES) == set(NOTHING) == set(LISTS)


async def test_json_is_the_report_from_what_is_kept(demo_db, make_datasette):
    body = await get_json(make_datasette(demo_db), page(demo_db, f"?now={NOW}", json=True))
    with closing(connect(demo_db, readonly=True)) as conn:
        expected = consolidation_report(conn, now=NOW, fresh=False)
    assert body.pop("ok") is True
    assert body.pop("database") == demo_db.stem
    assert body == expected


async def test_the_page_shows_counts_lists_and_where_they_lead(demo_db, make_datasette):
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, page(demo_db, json=True))
    response = await get(datasette, page(demo_db))
    assert response.status_code == 200
    words, found = text_of(response.text), links(response.text)
    for name, (title, _) in TITLES.items():
        count = body["summary"][name]
        assert f"{title} {count}" in words
        assert f"#{name}" in found
        assert f'id="{name}"' in response.text
    assert f"Duplicates {body['summary']['duplicates']} pairs" in words
    own = f"{base(demo_db)}"
    for row in body["contradictions"] + body["flagged_observations"]:
        assert f"{own}/entity/{row['entity_id']}" in found
        assert f"{own}/duplicates/{row['entity_id']}" in found
        assert row["entity"] in words
    for row in body["split_candidates"] + body["approaching"] + body["large_entities"]:
        assert f"{own}/split/{row['id']}" in found
    for row in body["split_candidates"]:
        assert f"{row['observations']} {row['threshold']} {row['diversity']:.3f}" in words
        for topic in row["topics"]:
            assert f"{topic['label']} ({topic['size']})" in words
    stale = body["stale_entities"][0]
    assert f"{stale['entityType']} {stale['standing']} {stale['stale_for_days']:.0f} days" in words
    assert f"/{demo_db.stem}/limbic_stale_entities" in found
    assert f"/{demo_db.stem}/limbic_similar_observations?kind=contradiction" in found
    assert f"/{demo_db.stem}/limbic_similar_observations?kind=duplicate" in found
    assert f"/{demo_db.stem}/limbic_split_candidates?status=approaching" in found
    for link in found:
        if link.startswith(f"/{demo_db.stem}/limbic_"):
            assert (await get(datasette, link)).status_code == 200, link
    assert "Nothing changed since." in words
    assert "Duplicates, contradictions and topics as of" in words


async def test_the_rows_that_datasette_shows_are_those_of_the_list(demo_db, make_datasette):
    """Each link to a table page leads to as many rows as the list has."""
    datasette = make_datasette(demo_db)
    for query in ("", "?stale_days=300"):
        body = await get_json(datasette, page(demo_db, query, json=True))
        found = links((await get(datasette, page(demo_db, query))).text)
        for name, listing in LISTS.items():
            urls = [u for u in found if u.startswith(f"/{demo_db.stem}/{listing.view}")]
            if listing.view == "limbic_similar_observations":
                urls = [u for u in urls if "kind=contradiction" in u]
            if name in ("split_candidates", "approaching"):
                urls = [u for u in urls if ("=split" in u) is (name == "split_candidates")]
            [url] = urls
            path, _, filters = url.partition("?")
            answer = await get(datasette, f"{path}.json?{filters}&_size=max&_shape=array")
            assert len(answer.json()) == body["paging"][name]["count"] > 0, name


@pytest.mark.parametrize(
    ("query", "linked"),
    [("", True), ("?stale_days=300", True), ("?stale_days=30", False), (f"?now={NOW}", False)],
)
async def test_no_link_to_a_view_that_has_other_rows(query, linked, demo_db, make_datasette):
    found = links((await get(make_datasette(demo_db), page(demo_db, query))).text)
    assert any("limbic_stale_entities" in each for each in found) is linked
    assert any("limbic_large_entities" in each for each in found)


async def test_one_list_page_by_page(demo_db, make_datasette):
    datasette = make_datasette(demo_db)
    whole = (await get_json(datasette, page(demo_db, json=True)))["stale_entities"]
    query = "?list=stale_entities&size=5&page=2"
    body = await get_json(datasette, page(demo_db, query, json=True))
    assert [r["id"] for r in body["stale_entities"]] == [r["id"] for r in whole[5:10]]
    assert "large_entities" not in body
    html = (await get(datasette, page(demo_db, query))).text
    words, found = text_of(html), links(html)
    assert "Page 2 of 4" in words
    assert whole[5]["name"] in words
    assert whole[4]["name"] not in words
    assert page(demo_db, "?size=5&list=stale_entities&page=1") in found
    assert page(demo_db, "?size=5&list=stale_entities&page=3") in found
    assert page(demo_db, "?size=5") in found  # all lists
    assert page(demo_db, "?size=5#large_entities") in found  # the other cards still lead on
    assert '<input type="hidden" name="list" value="stale_entities">' in html
    beyond = text_of((await get(datasette, page(demo_db, "?list=stale_entities&page=9"))).text)
    assert "No more on this page." in beyond
    assert "Page 9 of 1" in beyond


async def test_long_lists_lead_to_the_whole(demo_db, make_datasette):
    datasette = make_datasette(demo_db)
    html = (await get(datasette, page(demo_db, "?size=3&stale_days=100"))).text
    url = page(demo_db, "?stale_days=100&size=3&list=stale_entities")
    assert url in links(html)
    assert (await get(datasette, url)).status_code == 200
    assert "list=large_entities" not in html


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?stale_days=-1", "stale_days is '-1': use a number from 0 to 1,000,000"),
        ("?stale_days=soon", "stale_days is 'soon'"),
        ("?stale_days=nan", "stale_days is 'nan'"),
        ("?stale_days=inf", "stale_days is 'inf'"),
        ("?list=nothing", "list is 'nothing': use one of split_candidates"),
        ("?page=2", "page is 2: say of which list"),
        ("?page=0", "page is '0'"),
        ("?size=1001", "size is '1001': use a whole number from 1 to 1000"),
        ("?now=soon", "now is 'soon'"),
    ],
)
async def test_bad_arguments_are_named(query, said, demo_db, make_datasette):
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, page(demo_db, query, json=True), status=400)
    assert said in body["error"]
    response = await get(datasette, page(demo_db, query))
    assert response.status_code == 400
    assert "text/html" in response.headers["content-type"]


async def test_an_empty_field_of_the_form_is_no_argument(demo_db, make_datasette):
    body = await get_json(make_datasette(demo_db), page(demo_db, "?stale_days=&list=", json=True))
    assert body["stale_days"] == 90
    assert set(LISTS) <= set(body)


async def test_empty_states_differ(demo_db, empty_db, path, make_datasette):
    words = text_of((await get(make_datasette(empty_db), page(empty_db))).text)
    assert "There is nothing to look after yet." in words
    assert f"datasette limbic import memory.jsonl {empty_db.stem}.db" in words
    # filtered to nothing
    html = (await get(make_datasette(demo_db), page(demo_db, "?stale_days=9999"))).text
    assert "No entity has been stale for more than 9999 days." in text_of(html)
    assert page(demo_db) in links(html)
    # looked at, and nothing to do
    with closing(connect(path)) as conn:
        conn.execute("insert into entities(name) values ('one')")
        conn.execute("insert into observations(entity_id, content) values (1, 'one single note')")
        conn.commit()
    datasette = make_datasette(path)
    words = text_of((await get(datasette, page(path))).text)
    assert "Observations have not been compared yet" in words
    assert f"Run datasette limbic sync {path.stem}.db" in words
    assert words.count("Not looked at yet: run &#39;datasette limbic sync&#39;.") == 3
    assert "No observation is flagged." in words
    assert "Contradictions? – Flagged observations 0 Split candidates – Approaching –" in words
    assert "Duplicates – pairs Worth a look – pairs" in words
    only = text_of((await get(datasette, page(path, "?list=contradictions"))).text)
    assert "Not looked at yet" in only
    assert NOTHING["stale_entities"] in words
    with closing(connect(path)) as conn:
        from datasette_limbic.reports import keeping

        keeping.keep(conn)
    words = text_of((await get(datasette, page(path))).text)
    for nothing in NOTHING.values():
        assert nothing in words
    assert "Not looked at yet" not in words
    assert "Similarity was not computed for 1 of 1 observations" in words


@pytest.mark.parametrize(("count", "said"), [(1, "1 entity changed since:"), (2, "2 entities")])
async def test_what_changed_since(count, said, demo_db, make_datasette):
    statement = "insert into observations(entity_id, content) values (?, 'something new here')"
    write(demo_db, *[(statement, [number]) for number in range(1, count + 1)])
    words = text_of((await get(make_datasette(demo_db), page(demo_db))).text)
    assert said in words
    assert f"run datasette limbic sync {demo_db.stem}.db" in words
    assert "Nothing changed since." not in words


async def test_settings_that_changed_and_settings_that_cannot_be_used(demo_db, make_datasette):
    update = "update limbic_settings set value = ? where key = ?"
    write(
        demo_db,
        (update, ["0.3", "topic_min_silhouette"]),
        (update, ["<b>", "stale_days"]),
    )
    html = (await get(make_datasette(demo_db), page(demo_db))).text
    assert "The settings or the model changed since:" in html
    assert "limbic_settings: stale_days is &#39;&lt;b&gt;&#39;" in html


async def test_texts_of_the_memory_are_escaped(demo_db, make_datasette):
    script = "<script>alert(1)</script> " * 3
    write(
        demo_db,
        ("update entities set name = ? where id = 4", [script]),
        ("update observations set content = ? || content where similarity_flag = 1", [script]),
    )
    html = (await get(make_datasette(demo_db), page(demo_db))).text
    assert "<script>alert" not in html
    assert html.count("&lt;script&gt;alert") > 3


@pytest.mark.parametrize("table", REPORTED_TABLES)
async def test_who_may_not_view_a_table_sees_nothing(table, demo_db, make_datasette):
    only_root = {"databases": {demo_db.stem: {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = make_datasette(demo_db, metadata=only_root)
    body = await get_json(datasette, page(demo_db, json=True), status=403)
    assert table in body["error"]
    assert (await get(datasette, page(demo_db))).status_code == 403
    cookies = as_actor(datasette, {"id": "root"})
    assert (await get(datasette, page(demo_db), cookies=cookies)).status_code == 200


async def test_reviews_are_for_whom_may_view_them(demo_db, make_datasette):
    datasette = make_datasette(demo_db)
    assert "Not marked as looked through yet" in text_of((await get(datasette, page(demo_db))).text)
    insert = "insert into limbic_reviews(report, actor, reviewed_at) values (?, ?, ?)"
    write(demo_db, (insert, ["consolidation", "ana", "2026-11-02 10:00:00"]))
    words = text_of((await get(datasette, page(demo_db))).text)
    assert "Last looked through 2026-11-02 10:00:00 UTC by ana." in words
    only_root = {
        "databases": {demo_db.stem: {"tables": {"limbic_reviews": {"allow": {"id": "root"}}}}}
    }
    datasette = make_datasette(demo_db, metadata=only_root)
    html = (await get(datasette, page(demo_db))).text
    assert "looked through" not in html
    assert "ana" not in text_of(html).split()
    body = await get_json(datasette, page(demo_db, json=True))
    assert body["reviewed"] is None
    cookies = as_actor(datasette, {"id": "root"})
    body = await get_json(datasette, page(demo_db, json=True), cookies=cookies)
    assert body["reviewed"]["by"] == "ana"


async def test_views_that_may_not_be_viewed_are_not_linked(demo_db, make_datasette):
    view = "limbic_large_entities"
    only_root = {"databases": {demo_db.stem: {"tables": {view: {"allow": {"id": "root"}}}}}}
    datasette = make_datasette(demo_db, metadata=only_root)
    found = links((await get(datasette, page(demo_db))).text)
    assert not any(view in each for each in found)
    assert any("limbic_stale_entities" in each for each in found)


async def test_without_the_views(demo_db, make_datasette):
    datasette = make_datasette(demo_db)
    url = page(demo_db, f"?now={NOW}", json=True)
    before = await get_json(datasette, url)
    write(demo_db, *[(f"drop view {name}", []) for name in queries()])
    assert await get_json(datasette, url) == before
    response = await get(datasette, page(demo_db))
    assert response.status_code == 200
    assert not [each for each in links(response.text) if f"/{demo_db.stem}/limbic_" in each]


async def test_immutable(demo_db, make_datasette):
    url = page(demo_db, f"?now={NOW}", json=True)
    before = await get_json(make_datasette(demo_db), url)
    datasette = make_datasette(immutables=[str(demo_db)])
    assert await get_json(datasette, url) == before
    assert (await get(datasette, page(demo_db))).status_code == 200


@pytest.mark.parametrize("immutable", [False, True])
async def test_a_file_of_an_earlier_version(immutable, demo_db, make_datasette):
    made_older(demo_db)
    given = [] if immutable else [demo_db]
    datasette = make_datasette(*given, immutables=[str(demo_db)] if immutable else [])
    body = await get_json(datasette, page(demo_db, json=True))
    assert {name for name in LISTS if body[name] is None} == KEPT_LISTS == set(body["reasons"])
    assert body["stale_entities"]
    response = await get(datasette, page(demo_db))
    words = text_of(response.text)
    assert "made by an earlier version and keeps no reports: run" in words
    # once on top, once for each list
    assert words.count("This file was made by an earlier version") == len(KEPT_LISTS) + 1
    assert body["stale_entities"][0]["name"] in words
    for name in KEPT_LISTS:
        only = await get(datasette, page(demo_db, f"?list={name}"))
        assert only.status_code == 200


async def test_no_memory(tmp_path, make_datasette):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("create table t(x)")
    body: dict[str, Any] = await get_json(make_datasette(path), page(path, json=True), status=404)
    assert "datasette limbic init" in body["error"]
