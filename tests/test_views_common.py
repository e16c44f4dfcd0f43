"""What holds for every page: errors, formats, permissions, CORS, methods, a base URL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from view_helpers import ONE_POINT_ZERO, as_actor, base, digest, get, get_json, links, text_of

from datasette_limbic.answers import plain
from datasette_limbic.views.common import whole_number

PAGES = ("", "/search", "/search?q=paella", "/search?q=paella&explain=1", "/entity/1")


def with_json(page: str) -> str:
    path, mark, query = page.partition("?")
    return f"{path}.json{mark}{query}"


async def test_each_page_has_a_title_a_heading_and_a_json_twin(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    for page in PAGES:
        response = await get(datasette, base(demo_db) + page)
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        assert re.search(r"<title>[^<]+</title>", response.text)
        assert response.text.count("<h1") == 1
        assert base(demo_db) + with_json(page) in links(response.text)
        await get_json(datasette, base(demo_db) + with_json(page))


async def test_the_style_sheet_is_served(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    page = (await get(datasette, base(demo_db))).text
    url = re.search(r'href="([^"]+limbic\.css[^"]*)"', page)
    assert url is not None
    assert (await get(datasette, url.group(1))).status_code == 200


async def test_head_answers_like_get(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    await datasette.invoke_startup()
    for page in (*PAGES, *map(with_json, PAGES)):
        assert (await datasette.client.head(base(demo_db) + page)).status_code == 200
    assert (await datasette.client.head(base(demo_db) + "/entity/0")).status_code == 404


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options"])
async def test_other_methods_are_405_as_json(
    method: str, demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    await datasette.invoke_startup()
    before = digest(demo_db)
    for page in ("", "/search", "/entity/1", ".json", "/search.json"):
        searches = page.startswith("/search")
        if searches and method == "post":
            continue
        response = await getattr(datasette.client, method)(base(demo_db) + page)
        assert response.status_code == 405
        assert response.headers["allow"] == "GET, HEAD" + ", POST" * searches
        assert response.json() == {
            "ok": False,
            "error": f"{method.upper()} is not answered here: use GET" + " or POST" * searches,
            "status": 405,
        }
    assert digest(demo_db) == before


async def test_cors_headers_as_datasette_gives_them(demo_db: Path, make_datasette: Any) -> None:
    open_, closed = make_datasette(demo_db, cors=True), make_datasette(demo_db)
    for page, status in ((".json", 200), ("/search.json?q=x", 200), ("/entity/0.json", 404)):
        response = await get(open_, base(demo_db) + page)
        assert response.status_code == status
        assert response.headers["access-control-allow-origin"] == "*"
        assert "Authorization" in response.headers["access-control-allow-headers"]
        response = await get(closed, base(demo_db) + page)
        assert "access-control-allow-origin" not in response.headers
    response = await open_.client.options(base(demo_db) + "/search.json")
    assert response.status_code == 200
    assert "Authorization" in response.headers["access-control-allow-headers"]


async def test_unknown_database(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    names = ("nope", "_internal", "a~2Fb", "~00", "~ED~A0~80", "<script>", "x" * 2000)
    for name, page in [(name, page) for name in names for page in ("", "/search", "/entity/1")]:
        body = await get_json(datasette, f"/{name}/-/limbic{page}.json", status=404)
        assert "there is no database" in body["error"]
        response = await get(datasette, f"/{name}/-/limbic{page}")
        assert response.status_code == 404
        assert "There is no database" in text_of(response.text)
        assert "<script>'" not in response.text
        assert "Traceback" not in response.text


async def test_an_error_page_says_what_to_do_next(demo_db: Path, make_datasette: Any) -> None:
    response = await get(make_datasette(demo_db), base(demo_db) + "/search?q=two+words&limit=0")
    assert response.status_code == 400
    assert "Limit is '0': use a whole number from 1 to 100." in text_of(
        response.text.replace("&#39;", "'")
    )
    assert f"{base(demo_db)}/search?q=two%20words" in links(response.text)
    assert base(demo_db) in links(response.text)


# -- permissions ------------------------------------------------------------------------------

DENIALS = {
    "database": {"allow": {"id": "root"}},
    "one table": {"tables": {"observations": {"allow": {"id": "root"}}}},
    "signals": {"tables": {"entity_access": {"allow": {"id": "root"}}}},
}


@pytest.mark.parametrize("denial", DENIALS.values(), ids=DENIALS)
async def test_who_may_not_see_a_table_sees_no_page_of_it(
    denial: dict[str, Any], demo_db: Path, make_datasette: Any
) -> None:
    metadata = {"databases": {demo_db.stem: denial}}
    datasette = make_datasette(demo_db, metadata=metadata)
    root = as_actor(datasette, {"id": "root"})
    for page in PAGES:
        body = await get_json(datasette, base(demo_db) + with_json(page), status=403)
        assert "not allowed" in body["error"]
        response = await get(datasette, base(demo_db) + page)
        assert response.status_code == 403
        assert "paella" not in text_of(response.text).lower()
        assert (await get(datasette, base(demo_db) + page, cookies=root)).status_code == 200
        await get_json(datasette, base(demo_db) + with_json(page), cookies=root)


@pytest.mark.parametrize("denial", DENIALS.values(), ids=DENIALS)
async def test_the_stored_query_leaks_nothing_to_them(
    denial: dict[str, Any], demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db, metadata={"databases": {demo_db.stem: denial}})
    root = as_actor(datasette, {"id": "root"})
    url = f"/{demo_db.stem}/limbic_search.json?q=paella&_shape=array"
    assert (await get(datasette, url)).status_code == 403
    response = await get(datasette, url, cookies=root)
    assert response.status_code == 200
    assert response.json()
    # and not to them afterwards either
    assert (await get(datasette, url)).status_code == 403
    assert "Limbic search:" not in (await get(datasette, f"/{demo_db.stem}")).text


async def test_other_peoples_queries_are_none_of_our_business(
    demo_db: Path, make_datasette: Any
) -> None:
    extra = {
        "databases": {
            demo_db.stem: {
                "queries": {"mine": {"sql": "select 1 as one"}},
                "tables": {"observations": {"allow": {"id": "root"}}},
            }
        }
    }
    name = "config" if ONE_POINT_ZERO else "metadata"
    from datasette.app import Datasette

    datasette = Datasette([str(demo_db)], **{name: extra})
    try:
        response = await get(datasette, f"/{demo_db.stem}/mine.json?_shape=array")
        assert response.json() == [{"one": 1}]
        url = f"/{demo_db.stem}/limbic_search.json?q=paella&_shape=array"
        root = as_actor(datasette, {"id": "root"})
        assert (await get(datasette, url, cookies=root)).status_code == 200
        assert (await get(datasette, url)).status_code == 403
    finally:
        for db in datasette.databases.values():
            db.close()


async def test_the_overview_leaves_out_what_may_not_be_viewed(
    demo_db: Path, make_datasette: Any
) -> None:
    metadata = {"databases": {demo_db.stem: {"tables": {"limbic_settings": {"allow": False}}}}}
    datasette = make_datasette(demo_db, metadata=metadata)
    assert (await get_json(datasette, base(demo_db) + ".json"))["settings"] is None
    await get_json(datasette, base(demo_db) + "/search.json?q=x")


# -- a base URL -------------------------------------------------------------------------------


async def test_every_link_holds_the_base_url(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db, settings={"base_url": "/memory/"})
    await datasette.invoke_startup()
    for page in (*PAGES, "/search?q=paella&limit=0", "/search?q=x&type=Nope", "/entity/0"):
        for prefix in ("", "/memory"):
            response = await datasette.client.get(prefix + base(demo_db) + page)
            if response.status_code == 404 and not response.text.count("limbic"):
                continue
            hrefs = [u for u in links(response.text) if u.startswith("/")]
            assert hrefs
            assert [u for u in hrefs if not u.startswith("/memory/")] == []
            assert [u for u in hrefs if u.startswith("/memory/memory")] == []
            for action in re.findall(r'<form[^>]* action="([^"]+)"', response.text):
                assert action.startswith("/memory/")
    body = (await datasette.client.get(base(demo_db) + "/search.json?q=paella")).json()
    assert body["sql_url"].startswith(f"/memory/{demo_db.stem}?sql=")
    assert body["stored_query_url"].startswith(f"/memory/{demo_db.stem}/limbic_search?")


# -- small functions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("1" + "0" * 30, None),
        ("0" * 25 + "9" * 30, None),
        ("9" * 5000, None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("²", None),
        ("٣", None),
        (" 1", None),
    ],
)
def test_whole_number(text: str, number: int | None) -> None:
    assert whole_number(text) == number


def test_plain_takes_out_what_json_cannot_hold() -> None:
    found = plain({"a": [b"\x00\xffA", float("inf"), float("nan"), 1.5, None, (1, "x")]})
    assert found == {"a": ["\x00\ufffdA", None, None, 1.5, None, [1, "x"]]}
