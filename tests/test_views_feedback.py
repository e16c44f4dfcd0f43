"""POST /feedback: ratings from clients in JSON, and from the search page as a form."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from conftest import NOW
from view_helpers import (
    AGENT,
    ONE_POINT_ZERO,
    added,
    as_actor,
    base,
    digest,
    post_json,
    recording_datasette,
    rows,
    signals,
)

from datasette_limbic import recorder, search_log
from datasette_limbic.connection import connect

Q = "who fixed the geocoder"
FORM = "application/x-www-form-urlencoded"
EVENTS = """select f.event, f.entity_id, f.entity_name, f.client, f.actor, s.uid
from limbic_feedback f join limbic_searches s on s.id = f.search_id order by f.id"""


async def searched(datasette: Any, path: Path, **body: Any) -> dict[str, Any]:
    given = {"query": Q, "limit": 3, "wait": True, **body}
    found: dict[str, Any] = await post_json(datasette, f"{base(path)}/search", given)
    return found


# -- JSON ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".json"])
@pytest.mark.parametrize("wait", [True, False])
async def test_a_rating_in_json(
    wait: bool, suffix: str, demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    # also of a search that is still to be written
    search = await searched(datasette, demo_db, wait=wait)
    first, second = search["results"][:2]
    uid = search["search_id"]
    url = f"{base(demo_db)}/feedback{suffix}"
    body = {"search_id": uid, "id": first["id"], "rating": "useful", "client": "c"}
    assert await post_json(datasette, url, body) == {
        "ok": True,
        "search_id": uid,
        "query": Q,
        "id": first["id"],
        "name": first["name"],
        "rating": "useful",
    }
    by_name = {"search_id": uid, "name": second["name"], "rating": "not_useful"}
    assert (await post_json(datasette, url, by_name))["id"] == second["id"]
    assert rows(demo_db, EVENTS) == [
        ("useful", first["id"], first["name"], "c", "agent", uid),
        ("not_useful", second["id"], second["name"], None, "agent", uid),
    ]
    await post_json(datasette, url, {**body, "rating": "not_useful"})
    conn = connect(demo_db, readonly=True)
    assert search_log.ratings(conn, uid) == {first["id"]: "not_useful", second["id"]: "not_useful"}
    conn.close()


async def test_a_rating_is_no_access(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    search = await searched(datasette, demo_db)
    before = signals(demo_db)
    body = {"search_id": search["search_id"], "id": search["results"][0]["id"], "rating": "useful"}
    await post_json(datasette, f"{base(demo_db)}/feedback", body)
    assert added(before, signals(demo_db)) == {"limbic_feedback": 1}


async def test_a_loser_of_the_pool_can_be_rated_too(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    search = await searched(datasette, demo_db, limit=1, explain=True)
    body = {"search_id": search["search_id"], "id": search["losers"][-1]["id"], "rating": "useful"}
    await post_json(datasette, f"{base(demo_db)}/feedback", body)
    assert rows(demo_db, "select count(*) from limbic_feedback") == [(1,)]


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"search_id": "nope"}, 404, "no logged search has the id 'nope'"),
        ({"search_id": None}, 400, "search_id is missing"),
        ({"search_id": ""}, 400, "search_id is missing"),
        ({"search_id": 5}, 400, "search_id is 5"),
        ({"search_id": "x" * 101}, 400, "search_id is 'xxx"),
        ({"id": 10**6}, 404, "1000000 was no candidate"),
        ({"id": -1}, 404, "-1 was no candidate"),
        ({"id": 2**63}, 400, "which result is rated"),
        ({"id": -(2**63) - 1}, 400, "which result is rated"),
        ({"id": 10**4000}, 400, "which result is rated"),
        ({"id": True}, 400, "which result is rated"),
        ({"id": 1.0}, 400, "which result is rated"),
        ({"id": "1"}, 400, "which result is rated"),
        ({"id": None}, 400, "which result is rated"),
        ({"id": []}, 400, "which result is rated"),
        ({"name": "Atlas"}, 400, "which result is rated"),
        ({"id": None, "name": "Nobody"}, 404, "'Nobody' was no candidate"),
        ({"id": None, "name": "\ud800\x00"}, 404, "was no candidate"),
        ({"id": None, "name": 5}, 400, "which result is rated"),
        ({"rating": None}, 400, "rating is None"),
        ({"rating": "good"}, 400, "rating is 'good': use one of useful, not_useful"),
        ({"rating": "opened"}, 400, "rating is 'opened'"),
        ({"rating": ["useful"]}, 400, "rating is ['useful']"),
        ({"rating": True}, 400, "rating is True"),
        ({"client": 5}, 400, "client is 5"),
        ({"client": "x" * 201}, 400, "client is 'xxx"),
        ({"at": NOW}, 400, "unknown key at"),
        ({"q": Q}, 400, "unknown key q"),
    ],
)
async def test_what_cannot_be_rated(
    change: dict[str, Any], status: int, words: str, demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    search = await searched(datasette, demo_db)
    before = digest(demo_db)
    body = {"search_id": search["search_id"], "id": search["results"][0]["id"], "rating": "useful"}
    found = await post_json(datasette, f"{base(demo_db)}/feedback", {**body, **change}, status)
    assert words in found["error"]
    assert len(found["error"]) < 500
    assert digest(demo_db) == before


async def test_refusals_as_json(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    search = await searched(datasette, demo_db)
    body = {"search_id": search["search_id"], "id": search["results"][0]["id"], "rating": "useful"}
    url = f"{base(demo_db)}/feedback"
    before = digest(demo_db)
    found = await post_json(datasette, url, body, 403, actor={"id": "other"})
    assert found["error"] == "rating needs the permission limbic-record"
    immutable = recording_datasette(make_datasette, immutables=[str(demo_db)])
    found = await post_json(immutable, url, body, 409)
    assert found["error"] == "the rating was not recorded: the database was opened as immutable"
    assert digest(demo_db) == before


# -- the form -----------------------------------------------------------------------------------


async def page_of(datasette: Any, path: Path, query: str) -> tuple[Any, dict[str, str]]:
    """The search page, and the cookies that a browser has then."""
    await datasette.invoke_startup()
    cookies = as_actor(datasette, AGENT)
    page = await datasette.client.get(f"{base(path)}/search?{query}", cookies=cookies)
    assert page.status_code == 200, page.text[:500]
    return page, {**cookies, **dict(page.cookies)}


async def form(
    datasette: Any, path: Path, fields: Any, cookies: dict[str, str], headers: Any = None
) -> Any:
    sent = {"content-type": FORM, "accept": "text/html,application/xhtml+xml", **(headers or {})}
    if ONE_POINT_ZERO:
        sent.setdefault("sec-fetch-site", "same-origin")
    content = urlencode(fields).encode()
    return await datasette.client.post(
        f"{base(path)}/feedback", content=content, headers=sent, cookies=cookies
    )


async def shown(
    datasette: Any, path: Path, query: str = urlencode({"q": Q, "limit": "3"})
) -> tuple[dict[str, str], dict[str, str], list[int]]:
    """Fields of the first rating form of a search page, the browser's cookies, and the ids.

    Fields of the page's own search come from its markup, so that both are held together.
    """
    page, cookies = await page_of(datasette, path, query)
    [markup, *_] = re.findall(r'<form[^>]*action="[^"]*/feedback".*?</form>', page.text, re.S)
    fields = {
        unescape(re.search(r'name="([^"]*)"', tag)[1]): unescape(  # type: ignore[index]
            re.search(r'value="([^"]*)"', tag)[1]  # type: ignore[index]
        )
        for tag in re.findall(r"<input[^>]*>", markup)
    }
    ids = [int(found) for found in re.findall(r'id="entity-(\d+)"', page.text)]
    return fields, cookies, ids


async def test_the_first_rating_logs_the_search(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    before, unchanged = signals(demo_db), digest(demo_db)
    query = urlencode({"q": Q, "limit": "3", "strategy": "limbic_heavy", "explain": "1"})
    fields, cookies, ids = await shown(datasette, demo_db, query)
    assert digest(demo_db) == unchanged
    uid = fields["search_id"]
    response = await form(datasette, demo_db, {**fields, "id": ids[0], "rating": "useful"}, cookies)
    assert response.status_code == 303
    target = urlsplit(response.headers["location"])
    assert (target.scheme, target.netloc) == ("", "")
    assert target.path == f"{base(demo_db)}/search"
    assert target.fragment == f"entity-{ids[0]}"
    given = {k: v[0] for k, v in parse_qs(target.query).items()}
    assert given["q"] == Q
    assert given["search_id"] == uid
    assert (given["limit"], given["strategy"]) == ("3", "limbic_heavy")
    logged = rows(
        demo_db,
        "select uid, query, result_limit, strategy, policy, treatment, probability, client, actor"
        " from limbic_searches",
    )
    assert logged == [(uid, Q, 3, "limbic_heavy", "limbic", 1, 1.0, "page", "agent")]
    after = added(before, signals(demo_db))
    # a search and a rating, and no access of anything
    assert set(after) == {"limbic_searches", "limbic_search_candidates", "limbic_feedback"}
    # the log knows what the page showed, in its order
    returned = rows(
        demo_db,
        "select entity_id from limbic_search_candidates where returned order by treatment_rank",
    )
    assert [row[0] for row in returned] == ids[:3]
    assert rows(demo_db, "select event, client, actor from limbic_feedback") == [
        ("useful", "page", "agent")
    ]
    # going there shows the rating; the next one does not log the search again
    again, cookies, _ = await shown(datasette, demo_db, target.query)
    assert again["search_id"] == uid
    response = await form(
        datasette, demo_db, {**again, "id": ids[1], "rating": "not_useful"}, cookies
    )
    assert response.status_code == 303
    assert added(before, signals(demo_db)) == {**after, "limbic_feedback": 2}


async def test_a_double_click_logs_one_search(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    fields, cookies, ids = await shown(datasette, demo_db)
    answers = await asyncio.gather(
        *(
            form(datasette, demo_db, {**fields, "id": number, "rating": "useful"}, cookies)
            for number in (ids[0], ids[0], ids[1], ids[0])
        )
    )
    assert [a.status_code for a in answers] == [303] * 4
    assert rows(demo_db, "select count(*) from limbic_searches") == [(1,)]
    assert rows(demo_db, "select count(*) from limbic_feedback") == [(4,)]


async def test_the_log_of_a_page_is_of_the_time_that_it_showed(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    fields, cookies, ids = await shown(datasette, demo_db)
    at = fields["at"]
    await form(datasette, demo_db, {**fields, "id": ids[0], "rating": "useful"}, cookies)
    assert rows(demo_db, "select now from limbic_searches") == [(at,)]
    # a time that the address asked for comes before it
    query = urlencode({"q": Q, "now": NOW})
    fields, cookies, ids = await shown(datasette, demo_db, query)
    response = await form(datasette, demo_db, {**fields, "id": ids[0], "rating": "useful"}, cookies)
    assert rows(demo_db, "select now from limbic_searches order by id desc limit 1") == [(NOW,)]
    assert parse_qs(urlsplit(response.headers["location"]).query)["now"] == [NOW]


HOSTILE: list[tuple[dict[str, Any], int]] = [
    ({"q": "//evil.example", "type": "https://evil.example"}, 404),
    ({"q": 'x"\r\nSet-Cookie: a=b\r\n\r\n<script>'}, 404),
    ({"id": "entity-1"}, 400),
    ({"id": "1 or 1=1"}, 400),
    ({"id": "9" * 5000}, 400),
    ({"id": ""}, 400),
    ({"rating": "<script>alert(1)</script>"}, 400),
    ({"limit": "0"}, 400),
    ({"at": "never"}, 400),
    ({"search_id": "<b>" * 40}, 400),
    ({"nope": "1"}, 400),
    ({"next": "https://evil.example"}, 400),
    ({"q": "x" * 3000}, 400),
]


@pytest.mark.parametrize(("change", "status"), HOSTILE, ids=[str(h)[:40] for h, _ in HOSTILE])
async def test_hostile_fields(
    change: dict[str, Any], status: int, demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    fields, cookies, ids = await shown(datasette, demo_db)
    before = digest(demo_db)
    sent = {**fields, "id": ids[0], "rating": "useful", **change}
    response = await form(datasette, demo_db, sent, cookies)
    # the rated entity may be in the pool of the changed search as well
    if response.status_code == 303:
        assert status == 404
        location = response.headers["location"]
        assert location.startswith(f"{base(demo_db)}/search?")
        assert not {"\r", "\n"} & set(location)
        assert "set-cookie" not in response.headers or "a=b" not in response.headers["set-cookie"]
        return
    assert response.status_code == status
    assert response.headers["content-type"].startswith("text/html")
    assert 'role="alert"' in response.text
    assert "<script>alert" not in response.text
    assert "<b><b>" not in response.text
    assert digest(demo_db) == before


async def test_refusals_as_a_page(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasette_limbic import plugin

    prepare = plugin.prepare

    def hasty(conn: Any, database: str, datasette: Any) -> None:
        prepare(conn, database, datasette)
        conn.execute("pragma busy_timeout = 20").fetchone()

    monkeypatch.setattr(plugin, "prepare", hasty)
    datasette = recording_datasette(make_datasette, demo_db)
    fields, cookies, ids = await shown(datasette, demo_db)
    sent = {**fields, "id": ids[0], "rating": "useful"}
    before = digest(demo_db)

    def is_page(response: Any, status: int, words: str) -> None:
        assert response.status_code == status
        assert response.headers["content-type"].startswith("text/html")
        assert re.search(rf'role="alert"[^>]*>[^<]*{words}', response.text)
        assert f'href="{base(demo_db)}/search' in response.text

    await datasette.get_database("demo").execute_write_fn(lambda conn: None)
    other = connect(demo_db)
    other.execute("begin immediate")
    try:
        is_page(await form(datasette, demo_db, sent, cookies), 503, "locked")
    finally:
        other.rollback()
        other.close()
    # rights that were taken while the page was open
    with monkeypatch.context() as patched:
        patched.setattr("datasette_limbic.views.posting.os.access", lambda *_: False)
        is_page(await form(datasette, demo_db, sent, cookies), 409, "read-only")
    none = {**cookies, **as_actor(datasette, {"id": "other"})}
    is_page(await form(datasette, demo_db, sent, none), 403, "limbic-record")
    is_page(await form(datasette, demo_db, {**sent, "id": 10**7}, cookies), 404, "no candidate")
    assert digest(demo_db) == before
    # then it works again
    assert (await form(datasette, demo_db, sent, cookies)).status_code == 303


async def test_pages_of_other_sites_cannot_rate(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db, allow=True)
    fields, cookies, ids = await shown(datasette, demo_db)
    sent = {**fields, "id": ids[0], "rating": "useful"}
    before = digest(demo_db)
    without_token = {k: v for k, v in sent.items() if k != "csrftoken"}
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site", "content-type": f"{FORM}; charset=application/json"},
    ):
        for given in (cookies, {}):
            response = await form(datasette, demo_db, without_token, given, headers)
            assert response.status_code == 403, headers
    if not ONE_POINT_ZERO:
        for wrong in (without_token, {**sent, "csrftoken": "wrong"}):
            assert (await form(datasette, demo_db, wrong, cookies)).status_code == 403
    assert digest(demo_db) == before
    assert (await form(datasette, demo_db, sent, cookies)).status_code == 303


async def test_a_program_that_sends_a_form_like_body_gets_json(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db, allow=True)
    search = await searched(datasette, demo_db)
    body = {"search_id": search["search_id"], "id": search["results"][0]["id"], "rating": "useful"}
    # what curl --data sends
    headers = {"accept": "*/*"}
    found = await post_json(
        datasette, f"{base(demo_db)}/feedback", body, kind=FORM, actor=None, headers=headers
    )
    assert found["rating"] == "useful"


async def test_looking_at_the_page_without_permission_offers_no_form(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    await datasette.invoke_startup()
    response = await datasette.client.get(f"{base(demo_db)}/search?{urlencode({'q': Q})}")
    assert "/feedback" not in response.text
    await recorder.drain(datasette)
