"""POST /feedback: ratings from clients in JSON, and from the search page as a form."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from string import ascii_letters
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
    post,
    post_json,
    recording_datasette,
    rows,
    signals,
    write,
)

from datasette_limbic import recorder, search_log
from datasette_limbic.connection import connect
from datasette_limbic.schema import RATED_TABLES, SEARCH_LOG

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


UNRATED: list[tuple[dict[str, Any], int, str]] = [
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
]


async def test_what_cannot_be_rated(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    search = await searched(datasette, demo_db)
    before = digest(demo_db)
    body = {"search_id": search["search_id"], "id": search["results"][0]["id"], "rating": "useful"}
    for change, status, words in UNRATED:
        given = {**body, **change}
        response = await post(datasette, f"{base(demo_db)}/feedback", given)
        case = str(change)[:100]
        assert response.status_code == status, (case, response.text[:500])
        found = response.json()
        assert (found["ok"], found["status"]) == (False, status), case
        assert words in found["error"], (case, found["error"])
        assert len(found["error"]) < 500, case
        assert digest(demo_db) == before, case
    # nothing else was amiss
    await post_json(datasette, f"{base(demo_db)}/feedback", body)


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
    """Hidden fields of a search page's rating form, the browser's cookies, and the results' ids."""
    page, cookies = await page_of(datasette, path, query)
    [markup] = re.findall(r'<form[^>]*action="[^"]*/feedback".*?</form>', page.text, re.S)
    fields = {
        unescape(re.search(r'name="([^"]*)"', tag)[1]): unescape(  # type: ignore[index]
            re.search(r'value="([^"]*)"', tag)[1]  # type: ignore[index]
        )
        for tag in re.findall(r"<input[^>]*>", markup)
    }
    assert set(fields) == {"csrftoken", "search"}
    ids = [
        int(found)
        for found in re.findall(r'<li class="limbic-card[^"]*" id="entity-(\d+)"', page.text)
    ]
    return fields, cookies, ids


def carried(datasette: Any, fields: dict[str, str]) -> dict[str, Any]:
    """What the page carries along, signed."""
    found: dict[str, Any] = datasette.unsign(fields["search"], "limbic-rate-1")
    return found


def way_back(response: Any) -> dict[str, str]:
    assert response.status_code == 303, response.text[:500]
    query = urlsplit(response.headers["location"]).query
    return {k: v[0] for k, v in parse_qs(query).items()}


def said(page: str) -> str:
    """What the page says was rated in this search; '' where it says nothing."""
    found = re.search(r'role="status"><strong>Rated in this search:</strong> (.*?)\.</p>', page)
    return unescape(re.sub("</?bdi>", "", found[1])) if found else ""


LOGGED = """select s.uid, s.query, s.mode, s.strategy, s.result_limit, s.now, s.parameters,
s.parameters_version, s.policy, s.probability, c.entity_id, c.entity_name, c.returned,
c.baseline_rank, c.treatment_rank, c.cosine_sim, c.rrf_score, c.base, c.importance,
c.temporal_factor, c.cooc_boost, c.limbic_score, c.final_score
from limbic_searches s join limbic_search_candidates c on c.search_id = s.id
order by s.id, c.treatment_rank"""


async def test_the_first_rating_logs_the_search(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    before, unchanged = signals(demo_db), digest(demo_db)
    query = urlencode({"q": Q, "limit": "3", "strategy": "limbic_heavy", "explain": "1"})
    fields, cookies, ids = await shown(datasette, demo_db, query)
    assert digest(demo_db) == unchanged
    uid = carried(datasette, fields)["uid"]
    response = await form(datasette, demo_db, {**fields, "rate": f"{ids[0]}:useful"}, cookies)
    target = urlsplit(response.headers["location"])
    assert (target.scheme, target.netloc) == ("", "")
    assert target.path == f"{base(demo_db)}/search"
    assert target.fragment == f"entity-{ids[0]}"
    # back to the page with the rest, if it was one
    assert way_back(response) == {
        **{"q": Q, "limit": "3", "strategy": "limbic_heavy", "explain": "1"},
        "search_id": uid,
    }
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
    assert [row[0] for row in returned] == ids
    assert rows(demo_db, "select event, client, actor from limbic_feedback") == [
        ("useful", "page", "agent")
    ]
    # going there shows the rating; the next one does not log the search again
    again, cookies, _ = await shown(datasette, demo_db, target.query)
    assert carried(datasette, again)["uid"] == uid
    response = await form(datasette, demo_db, {**again, "rate": f"{ids[1]}:not_useful"}, cookies)
    assert way_back(response)["search_id"] == uid
    assert added(before, signals(demo_db)) == {**after, "limbic_feedback": 2}


async def test_a_page_logs_what_a_recorded_search_would(demo_db: Path, make_datasette: Any) -> None:
    """Every figure of the log, after a way through the page's markup."""
    write(
        demo_db,
        ("update entities set name = ? where name = 'geocoder'", ['Ünïcode ☃ "quoted" & <b>']),
    )
    datasette = recording_datasette(make_datasette, demo_db)
    query = urlencode({"q": Q, "limit": "3", "now": NOW})
    fields, cookies, ids = await shown(datasette, demo_db, query)
    await searched(datasette, demo_db, now=NOW)
    [*api] = rows(demo_db, LOGGED)
    response = await form(datasette, demo_db, {**fields, "rate": f"{ids[0]}:useful"}, cookies)
    assert response.status_code == 303
    page = rows(demo_db, LOGGED)[len(api) :]
    assert len({row[0] for row in page}) == 1
    assert [row[1:] for row in page] == [row[1:] for row in api]


@pytest.mark.parametrize("limit", [1, 3])
async def test_what_is_logged_is_what_was_shown(
    limit: int, demo_db: Path, make_datasette: Any
) -> None:
    """However much the memory is used, and changed, between looking and rating."""
    datasette = recording_datasette(make_datasette, demo_db)
    query = urlencode({"q": Q, "limit": str(limit), "strategy": "limbic"})
    fields, cookies, ids = await shown(datasette, demo_db, query)
    seen = rows(demo_db, "select id, name from entities")
    everybody = [row[0] for row in seen]
    others = [number for number in everybody if number not in ids]
    for _ in range(3):
        await post_json(datasette, f"{base(demo_db)}/open", {"ids": others, "wait": True})
    write(demo_db, ("update entities set name = name || ' (new)'", []))
    _, _, now = await shown(datasette, demo_db, query)
    assert now != ids  # else this would prove nothing
    await form(datasette, demo_db, {**fields, "rate": f"{ids[0]}:useful"}, cookies)
    logged = rows(
        demo_db,
        "select entity_id, entity_name from limbic_search_candidates where returned"
        " order by treatment_rank",
    )
    assert logged == [(number, dict(seen)[number]) for number in ids]
    rated = "select entity_name from limbic_feedback where search_id is not null"
    assert rows(demo_db, rated) == [(dict(seen)[ids[0]],)]


async def test_a_double_click_logs_one_search(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    fields, cookies, ids = await shown(datasette, demo_db)
    answers = await asyncio.gather(
        *(
            form(datasette, demo_db, {**fields, "rate": f"{number}:useful"}, cookies)
            for number in (ids[0], ids[0], ids[1], ids[0])
        )
    )
    assert [a.status_code for a in answers] == [303] * 4
    assert rows(demo_db, "select count(*) from limbic_searches") == [(1,)]
    assert rows(demo_db, "select count(*) from limbic_feedback") == [(4,)]


async def test_a_rated_search_is_shown_again(demo_db: Path, make_datasette: Any) -> None:
    """With what was rated in it, and buttons for what that search knew alone."""
    datasette = recording_datasette(make_datasette, demo_db)
    args = {"q": Q, "limit": "3", "strategy": "limbic"}
    fields, cookies, ids = await shown(datasette, demo_db, urlencode(args))
    first, second, third = ids
    names = dict(rows(demo_db, "select id, name from entities"))
    rates = [(first, "useful"), (second, "useful"), (first, "not_useful"), (third, "useful")]
    for number, rating in rates:
        response = await form(datasette, demo_db, {**fields, "rate": f"{number}:{rating}"}, cookies)
    back = way_back(response)

    async def page(**more: str) -> str:
        found, _ = await page_of(datasette, demo_db, urlencode({**back, **more}))
        text: str = found.text
        return text

    words = f"{names[first]} not useful, {names[second]} useful, {names[third]} useful"
    assert said(await page()) == words
    assert said(await page(search_id="")) == ""
    # of the same words, so that another search says nothing of these ratings
    assert said(await page(q=Q + "?!")) == ""
    # both links that show and hide the rest stay in this search
    for more in ({}, {"explain": "1"}):
        [link] = re.findall(
            r'href="([^"]*)">(?:Hide the rest|Why not another\?)<', await page(**more)
        )
        assert parse_qs(urlsplit(unescape(link)).query)["search_id"] == [back["search_id"]]
    # gone from the results, gone altogether: what was said of them stays
    write(
        demo_db,
        ("update entities set archived_at = ? where id = ?", [NOW, first]),
        ("pragma foreign_keys = on", []),
        ("delete from entities where id in (?, ?)", [second, third]),
        (
            "insert into entities(name, entity_type, created_at) values (?, 'Tool', ?)",
            ["the geocoder that somebody fixed", NOW],
        ),
    )
    after = await page(limit="100", mode="text")
    assert f'id="entity-{first}"' not in after
    assert f'id="entity-{second}"' not in after
    assert said(after) == words
    [new] = rows(demo_db, "select max(id) from entities")
    assert f'id="entity-{new[0]}"' in after
    cards = {int(n) for n in re.findall(r'<li class="limbic-card[^"]*" id="entity-(\d+)"', after)}
    buttons = {int(n) for n in re.findall(r'name="rate" value="(\d+):', after)}
    pool = {row[0] for row in rows(demo_db, "select entity_id from limbic_search_candidates")}
    assert buttons == cards & pool
    assert new[0] in cards - buttons
    # and it cannot be rated into that search by hand either
    fields, cookies, _ = await shown(datasette, demo_db, urlencode(back))
    response = await form(datasette, demo_db, {**fields, "rate": f"{new[0]}:useful"}, cookies)
    assert response.status_code == 404


async def test_an_id_in_the_address_never_reaches_the_log(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    seen: set[str] = set()
    for uid in ("nope", "x" * 100, "a\x00b", "ab12' or 1=1"):
        query = urlencode({"q": Q, "search_id": uid})
        fields, cookies, ids = await shown(datasette, demo_db, query)
        response = await form(datasette, demo_db, {**fields, "rate": f"{ids[0]}:useful"}, cookies)
        [new] = {row[0] for row in rows(demo_db, "select uid from limbic_searches")} - seen
        assert re.fullmatch("[0-9a-f]{16}", new), uid
        assert way_back(response)["search_id"] == new, uid
        seen.add(new)
    assert rows(demo_db, "select count(*) from limbic_searches") == [(4,)]


async def test_a_time_of_the_address_comes_back(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    fields, cookies, ids = await shown(datasette, demo_db, urlencode({"q": Q, "now": NOW}))
    response = await form(datasette, demo_db, {**fields, "rate": f"{ids[0]}:useful"}, cookies)
    assert rows(demo_db, "select now from limbic_searches") == [(NOW,)]
    assert way_back(response)["now"] == NOW


async def test_the_way_back_is_the_page_and_no_other(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    nasty = 'x"\r\nSet-Cookie: a=b\r\n\r\n<script> //evil.example'
    query = urlencode({"q": f"{Q} {nasty}", "_trace": "1", "search_id": "nope"})
    fields, cookies, ids = await shown(datasette, demo_db, query)
    response = await form(datasette, demo_db, {**fields, "rate": f"{ids[0]}:useful"}, cookies)
    assert set(way_back(response)) == {"q", "search_id"}
    location = response.headers["location"]
    assert location.startswith(f"{base(demo_db)}/search?")
    assert not {"\r", "\n"} & set(location)
    assert "a=b" not in response.headers.get("set-cookie", "")


@pytest.mark.parametrize(("length", "offered"), [(1_500, True), (5_000, False)])
async def test_no_rating_where_the_way_back_is_too_long(
    length: int, offered: bool, demo_db: Path, make_datasette: Any
) -> None:
    """It is sent in a header, where three bytes of UTF-8 are nine characters."""
    write(demo_db, ("update entities set entity_type = ? where id = 4", ["☃" * length]))
    datasette = recording_datasette(make_datasette, demo_db)
    query = urlencode({"q": Q, "type": "☃" * length})
    page, _ = await page_of(datasette, demo_db, query)
    assert page.text.count('class="limbic-card"') == 1
    assert ("/feedback" in page.text) is ('name="rate"' in page.text) is offered


LONG_NAMES: dict[str, tuple[Callable[[random.Random], str], bool]] = {
    "10,000 characters that compress well": (
        lambda draw: "".join(draw.choices(ascii_letters, k=100)) * 100,
        True,
    ),
    "10,000 characters that do not": (
        lambda draw: "".join(draw.choices(ascii_letters, k=10_000)),
        False,
    ),
    "so many that compressing takes long": (lambda _: "a" * 60_000, False),
}


@pytest.mark.parametrize("kind", LONG_NAMES)
async def test_no_rating_where_the_search_is_too_long_to_carry(
    kind: str, demo_db: Path, make_datasette: Any
) -> None:
    name, offered = LONG_NAMES[kind]
    draw = random.Random(1)
    numbers = [row[0] for row in rows(demo_db, "select id from entities")]
    change = "update entities set name = ? where id = ?"
    write(demo_db, *((change, [f"{n} geocoder {name(draw)}", n]) for n in numbers))
    datasette = recording_datasette(make_datasette, demo_db)
    query = urlencode({"q": "geocoder", "limit": "10"})
    page, _ = await page_of(datasette, demo_db, query)
    assert page.text.count('class="limbic-card"') == 10
    assert ("/feedback" in page.text) is ('name="rate"' in page.text) is offered
    assert len(page.text) < 300_000
    if offered:
        fields, cookies, ids = await shown(datasette, demo_db, query)
        response = await form(datasette, demo_db, {**fields, "rate": f"{ids[0]}:useful"}, cookies)
        assert response.status_code == 303


async def test_a_name_that_is_no_text_is_logged_as_it_was_shown(
    demo_db: Path, make_datasette: Any
) -> None:
    """SQLite lets any program put bytes into a text column, and JSON has none."""
    write(demo_db, ("update entities set name = x'67656fff' where name = 'geocoder'", []))
    datasette = recording_datasette(make_datasette, demo_db)
    fields, cookies, ids = await shown(datasette, demo_db)
    response = await form(datasette, demo_db, {**fields, "rate": f"{ids[0]}:useful"}, cookies)
    assert response.status_code == 303
    [odd] = rows(demo_db, "select id from entities where typeof(name) = 'blob'")
    logged = dict(rows(demo_db, "select entity_id, entity_name from limbic_search_candidates"))
    assert logged[odd[0]] == "geo\ufffd"


@pytest.mark.parametrize("table", RATED_TABLES)
async def test_whoever_may_not_view_the_log_is_offered_nothing(
    table: str, demo_db: Path, make_datasette: Any
) -> None:
    """Neither buttons that would answer 403 nor the ratings of others."""
    hidden = {"databases": {"demo": {"tables": {table: {"allow": {"id": "root"}}}}}}
    everybody = recording_datasette(make_datasette, demo_db)
    fields, cookies, ids = await shown(everybody, demo_db)
    response = await form(everybody, demo_db, {**fields, "rate": f"{ids[0]}:useful"}, cookies)
    back = urlencode(way_back(response))
    datasette = recording_datasette(make_datasette, demo_db, more=hidden)
    if table in SEARCH_LOG:
        page, cookies = await page_of(datasette, demo_db, back)
        assert 'class="limbic-card"' in page.text
        assert "/feedback" not in page.text
        assert 'name="rate"' not in page.text
        assert said(page.text) == ""
    else:
        await datasette.invoke_startup()
        cookies = as_actor(datasette, AGENT)
    signed = datasette.sign(carried(everybody, fields), "limbic-rate-1")
    sent = {"search": signed, "rate": f"{ids[0]}:useful"}
    if not ONE_POINT_ZERO:
        sent["csrftoken"] = cookies["ds_csrftoken"] = token(datasette)
    assert (await form(datasette, demo_db, sent, cookies)).status_code == 403
    assert rows(demo_db, "select count(*) from limbic_feedback") == [(1,)]


def token(datasette: Any) -> str:
    """A CSRF token of 0.65, as a cookie and as a field."""
    from itsdangerous.url_safe import URLSafeSerializer

    found: str = URLSafeSerializer(datasette._secret, "csrftoken").dumps("any")
    return found


HOSTILE: list[tuple[dict[str, Any], int, str]] = [
    ({"rate": "entity-1:useful"}, 400, "which result is rated"),
    ({"rate": "1 or 1=1:useful"}, 400, "which result is rated"),
    ({"rate": "9" * 5000 + ":useful"}, 400, "which result is rated"),
    ({"rate": ""}, 400, "which result is rated"),
    ({"rate": None}, 400, "which result is rated"),
    ({"rate": ":useful"}, 400, "which result is rated"),
    ({"rate": "1"}, 400, "rating is"),
    ({"rate": "1:<script>alert(1)</script>"}, 400, "rating is"),
    ({"rate": "1:opened"}, 400, "rating is"),
    ({"rate": "-1:useful"}, 404, "no candidate"),
    ({"rate": "10000000:useful"}, 404, "no candidate"),
    ({"search": None}, 400, "too old"),
    ({"search": ""}, 400, "too old"),
    ({"search": "<b>" * 40}, 400, "too old"),
    ({"search": "a\x00b.ünïcode☃"}, 400, "too old"),
    ({"search": "." * 900_000}, 400, "too old"),
    ({"nope": "1"}, 400, "unknown key nope"),
    ({"next": "https://evil.example"}, 400, "unknown key next"),
    ({"search_id": "ab12"}, 400, "unknown key search_id"),
    ({"q": "//evil.example"}, 400, "unknown key q"),
    ({"type": "t" * 900_000}, 400, "unknown key type"),
]


@pytest.mark.parametrize("logged", [False, True])
async def test_hostile_fields(logged: bool, demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    fields, cookies, ids = await shown(datasette, demo_db)
    good = {**fields, "rate": f"{ids[0]}:useful"}
    if logged:
        assert (await form(datasette, demo_db, good, cookies)).status_code == 303
    before = digest(demo_db)
    for change, status, words in HOSTILE:
        case = str(change)[:100]
        sent = {k: v for k, v in {**good, **change}.items() if v is not None}
        response = await form(datasette, demo_db, sent, cookies)
        assert response.status_code == status, case
        assert response.headers["content-type"].startswith("text/html"), case
        assert re.search(rf'role="alert"[^>]*>[^<]*{words}', response.text, re.I), case
        assert ("<h1>That did not work</h1>" in response.text) is (status == 400), case
        assert len(response.text) < 10_000, case
        assert "location" not in response.headers, case
        assert "<script>alert" not in response.text, case
        assert "<b><b>" not in response.text, case
        assert digest(demo_db) == before, case
    # nothing else was amiss
    assert (await form(datasette, demo_db, good, cookies)).status_code == 303


async def test_what_a_page_carries_cannot_be_made_up(
    demo_db: Path, empty_db: Path, make_datasette: Any
) -> None:
    """Neither changed by a letter, nor of another memory, another purpose or another start."""
    datasette = recording_datasette(make_datasette, demo_db, empty_db)
    fields, cookies, ids = await shown(datasette, demo_db)
    page, rate = carried(datasette, fields), {"rate": f"{ids[0]}:useful"}
    signed = fields["search"]
    middle = len(signed) // 2
    other = recording_datasette(make_datasette, demo_db)
    before = digest(demo_db, empty_db)
    for wrong in (
        # not the last one, of which base64 reads four bits alone
        signed[:-2] + ("A" if signed[-2] != "A" else "B") + signed[-1],
        signed[:middle] + ("A" if signed[middle] != "A" else "B") + signed[middle + 1 :],
        signed[: signed.rindex(".")],
        datasette.sign(page, "actor"),
        other.sign(page, "limbic-rate-1"),
    ):
        response = await form(datasette, demo_db, {**fields, **rate, "search": wrong}, cookies)
        assert response.status_code == 400
        assert "search again" in response.text
    response = await form(datasette, empty_db, {**fields, **rate}, cookies)
    assert response.status_code == 400
    assert "another memory" in response.text
    assert digest(demo_db, empty_db) == before
    assert (await form(datasette, demo_db, {**fields, **rate}, cookies)).status_code == 303


async def test_ratings_are_counted(demo_db: Path, make_datasette: Any) -> None:
    """What was written and what failed, of pages and of programs; what was refused is neither."""
    datasette = recording_datasette(make_datasette, demo_db)
    search = await searched(datasette, demo_db)
    fields, cookies, ids = await shown(datasette, demo_db)
    counts = recorder.recorder_for(datasette.get_database("demo"))

    def state() -> tuple[int, int]:
        return counts.written, counts.failed

    written = counts.written
    url = f"{base(demo_db)}/feedback"
    body = {"search_id": search["search_id"], "id": search["results"][0]["id"], "rating": "useful"}
    await post_json(datasette, url, body)
    await form(datasette, demo_db, {**fields, "rate": f"{ids[0]}:useful"}, cookies)
    assert state() == (written + 2, 0)
    await post_json(datasette, url, {**body, "rating": "good"}, 400)
    await post_json(datasette, url, {**body, "id": 10**6}, 404)
    assert state() == (written + 2, 0)
    write(
        demo_db,
        (
            "create trigger refuse before insert on limbic_feedback"
            " begin select raise(abort, 'not today'); end",
            [],
        ),
    )
    failed = await post_json(datasette, url, body, 503)
    assert failed["error"] == "the rating was not recorded: not today"
    response = await form(datasette, demo_db, {**fields, "rate": f"{ids[0]}:useful"}, cookies)
    assert response.status_code == 503
    assert "not today" in response.text
    assert "Send it again" not in response.text
    assert state() == (written + 2, 2)
    assert "not today" in (counts.last_error or "")


async def test_a_file_of_an_older_version(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    fields, cookies, ids = await shown(datasette, demo_db)
    write(
        demo_db,
        ("drop index if exists limbic_searches_uid", []),
        ("alter table limbic_searches drop column uid", []),
    )
    response = await form(datasette, demo_db, {**fields, "rate": f"{ids[0]}:useful"}, cookies)
    assert response.status_code == 503
    assert "datasette limbic init" in response.text
    assert "Send it again" not in response.text
    body = {"search_id": "ab12", "id": ids[0], "rating": "useful"}
    found = await post_json(datasette, f"{base(demo_db)}/feedback", body, 503)
    assert "datasette limbic init" in found["error"]
    assert recorder.recorder_for(datasette.get_database("demo")).failed == 2


@pytest.mark.usefixtures("impatient_connections")
async def test_a_rating_of_a_search_that_could_not_be_recorded(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said once its search is given up, not after waiting for the lock once more."""
    from datasette_limbic import write_behind

    monkeypatch.setattr(write_behind, "LINGER_S", 0.01)
    datasette = recording_datasette(make_datasette, demo_db)
    await datasette.invoke_startup()
    before = digest(demo_db)
    other = connect(demo_db)
    other.execute("begin immediate")
    try:
        search = await searched(datasette, demo_db, wait=False)
        body = {"search_id": search["search_id"], "rating": "useful"}
        body["id"] = search["results"][0]["id"]
        found = await post_json(datasette, f"{base(demo_db)}/feedback", body, 503)
    finally:
        other.rollback()
        other.close()
    assert "the search could not be recorded" in found["error"]
    assert "locked" in found["error"]
    assert digest(demo_db) == before


@pytest.mark.usefixtures("impatient_connections")
async def test_refusals_as_a_page(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    fields, cookies, ids = await shown(datasette, demo_db)
    sent = {**fields, "rate": f"{ids[0]}:useful"}
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
        is_page(await form(datasette, demo_db, sent, cookies), 503, "locked. Send it again")
    finally:
        other.rollback()
        other.close()
    # rights that were taken while the page was open
    with monkeypatch.context() as patched:
        patched.setattr("datasette_limbic.views.writable.os.access", lambda *_: False)
        is_page(await form(datasette, demo_db, sent, cookies), 409, "read-only")
    none = {**cookies, **as_actor(datasette, {"id": "other"})}
    is_page(await form(datasette, demo_db, sent, none), 403, "limbic-record")
    is_page(
        await form(datasette, demo_db, {**sent, "rate": "10000000:useful"}, cookies),
        404,
        "no candidate",
    )
    assert digest(demo_db) == before
    # then it works again
    assert (await form(datasette, demo_db, sent, cookies)).status_code == 303


@pytest.mark.usefixtures("menus_for_all")
async def test_pages_of_other_sites_cannot_rate(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db, allow=True)
    fields, cookies, ids = await shown(datasette, demo_db)
    sent = {**fields, "rate": f"{ids[0]}:useful"}
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
