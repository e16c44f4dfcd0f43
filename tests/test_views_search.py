"""The search page and its JSON."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from view_helpers import (
    AGENT,
    ONE_POINT_ZERO,
    as_actor,
    base,
    get,
    get_json,
    links,
    post_json,
    recording_datasette,
    text_of,
    write,
)

from datasette_limbic import connection
from datasette_limbic.request import ARGUMENTS
from datasette_limbic.search import search

pytestmark = pytest.mark.slow  # the pages are no other on another Python

NOW = "2026-11-29 12:00:00"


def url(path: Path, suffix: str = "", **arguments: Any) -> str:
    return f"{base(path)}/search{suffix}?" + urlencode(arguments)


async def test_json_is_what_the_library_answers(demo_db: Path, make_datasette: Any) -> None:
    body = await get_json(
        make_datasette(demo_db), url(demo_db, ".json", q="who fixed the geocoder", now=NOW)
    )
    conn = connection.connect(demo_db, readonly=True)
    expected = search(conn, "who fixed the geocoder", now=NOW)
    conn.close()
    for key in ("results", "candidates", "confident", "parameters", "strategy", "now", "query"):
        assert body[key] == expected[key], key
    assert set(body["results"][0]["scoring"]) >= {
        "base",
        "cosine_sim",
        "importance",
        "temporal_factor",
        "cooc_boost",
        "limbic_norm",
    }
    assert not [key for row in body["results"] for key in row if key.startswith("_")]


async def test_page_shows_the_results_in_the_order_of_the_json(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    asked = {"q": "invoices", "now": NOW, "limit": 7}
    body = await get_json(datasette, url(demo_db, ".json", **asked))
    response = await get(datasette, url(demo_db, **asked))
    shown = [
        int(i) for i in re.findall(r'<li class="limbic-card[^"]*" id="entity-(\d+)"', response.text)
    ]
    assert shown == [row["id"] for row in body["results"]]
    assert f"7 of {body['candidates']} candidates" in text_of(response.text)
    assert "<mark>invoice" in response.text or "<mark>invoices" in response.text


async def test_explain_lists_the_whole_pool_once(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    asked = {"q": "paella", "now": NOW, "limit": 3, "explain": 1}
    body = await get_json(datasette, url(demo_db, ".json", **asked))
    assert len(body["results"]) == 3
    assert len(body["losers"]) == body["candidates"] - 3
    response = await get(datasette, url(demo_db, **asked))
    ids = [int(i) for i in re.findall(r'id="entity-(\d+)"', response.text)]
    assert ids == [row["id"] for row in body["results"] + body["losers"]]
    assert "Candidates that did not make it" in response.text
    assert "explain" not in "".join(u for u in links(response.text) if "Hide the rest" in u)
    plain = await get_json(datasette, url(demo_db, ".json", q="paella", now=NOW, limit=3))
    assert "losers" not in plain


async def test_explain_where_every_candidate_is_a_result(
    demo_db: Path, make_datasette: Any
) -> None:
    response = await get(
        make_datasette(demo_db), url(demo_db, q="paella", mode="text", limit=100, explain=1)
    )
    assert "Every candidate is listed above." in response.text


async def test_an_empty_query_lists_the_memory(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, url(demo_db, ".json"))
    assert len(body["results"]) == 10
    assert body["confident"] is True
    assert "Most used, last used and newest" in (await get(datasette, url(demo_db))).text


async def test_no_confident_match_is_said(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, url(demo_db, ".json", q="quantum chromodynamics lattice"))
    assert body["confident"] is False
    page = text_of((await get(datasette, url(demo_db, q="quantum chromodynamics lattice"))).text)
    assert "No confident match." in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"q": "paella", "type": "Nope"}, "No entity has the type"),
        ({"q": "paella", "type": "Tool", "mode": "text"}, "Nothing in this memory matches"),
        ({"q": "xyzzyplugh", "mode": "text"}, "Nothing in this memory matches"),
    ],
)
async def test_filtered_to_nothing_says_why(
    arguments: dict[str, str], said: str, demo_db: Path, make_datasette: Any
) -> None:
    response = await get(make_datasette(demo_db), url(demo_db, **arguments))
    words = text_of(response.text)
    assert response.status_code == 200
    assert f"No results. {said}" in words
    assert ("Search without filters" in words) is ("type" in arguments)
    if "type" in arguments:
        back = next(u for u in links(response.text) if "/search?" in u and "type" not in u)
        assert parse_qs(urlsplit(back).query)["q"] == ["paella"]


async def test_empty_memory(empty_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(empty_db)
    body = await get_json(datasette, url(empty_db, ".json", q="anything"))
    assert body["results"] == []
    assert "empty" in body["reason"]
    assert "This memory is empty" in text_of((await get(datasette, url(empty_db, q="x"))).text)


async def test_without_vectors_the_page_says_that_only_text_was_searched(
    demo_db: Path, make_datasette: Any
) -> None:
    conn = connection.connect(demo_db)
    conn.execute("update limbic_indexes set vectors = 0")
    conn.commit()
    conn.close()
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, url(demo_db, ".json", q="paella"))
    assert "only text was searched" in body["degraded"]
    assert body["results"]
    words = text_of((await get(datasette, url(demo_db, q="paella"))).text)
    assert "There are no vectors yet, so only text was searched" in words


async def test_archived_entities_stay_out_unless_asked_for(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    without = await get_json(datasette, url(demo_db, ".json", q="Kafka trial"))
    assert 10 not in [row["id"] for row in without["results"]]
    asked = {"q": "Kafka trial", "include_archived": 1}
    with_them = await get_json(datasette, url(demo_db, ".json", **asked))
    assert 10 in [row["id"] for row in with_them["results"]]
    page = (await get(datasette, url(demo_db, **asked))).text
    assert re.search(r'name="include_archived" value="1" checked', page)


async def test_the_form_keeps_what_was_given_and_pins_nothing_else(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    page = (await get(datasette, url(demo_db, q='say "hi" & <go>'))).text
    assert 'value="say &#34;hi&#34; &amp; &lt;go&gt;"' in page
    assert '<details class="limbic-options">' in page
    # every field empty: what a form sends counts as not given
    sent = dict.fromkeys(re.findall(r'(?:input|select)[^>]* name="(\w+)"', page), "")
    sent.pop("include_archived")
    assert set(sent) >= {"q", "type", "limit", "mode", "strategy", "recency", "fusion", "gamma"}
    sent["q"] = "paella"
    plain = await get_json(datasette, url(demo_db, ".json", q="paella", now=NOW))
    form = await get_json(datasette, url(demo_db, ".json", **sent, now=NOW))
    assert form == plain
    page = (await get(datasette, url(demo_db, q="x", gamma="0.5", strategy="limbic"))).text
    assert 'name="gamma" min="0" max="0.5" step="any" value="0.5"' in page
    assert '<option value="limbic" selected>' in page
    # a new query keeps what the sliders are at
    form = page.split('role="search"')[1].split("</form>")[0]
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    assert hidden == {"strategy": "limbic", "gamma": "0.5"}
    page = (await get(datasette, url(demo_db, q="x", mode="text"))).text
    assert '<details class="limbic-options" open>' in page


async def test_json_link_asks_the_same(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    page = (await get(datasette, url(demo_db, q="vans & ñ", limit=3, gamma="", now=NOW))).text
    link = next(u for u in links(page) if "search.json" in u)
    assert parse_qs(urlsplit(link).query) == {"q": ["vans & ñ"], "limit": ["3"], "now": [NOW]}
    assert len((await get_json(datasette, link))["results"]) == 3


async def test_settings_of_the_plugin_count(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db, config={"limit": 4, "strategy": "limbic"})
    body = await get_json(datasette, url(demo_db, ".json", q="paella"))
    assert (body["limit"], body["strategy"]) == (4, "limbic")
    body = await get_json(datasette, url(demo_db, ".json", q="paella", limit=2))
    assert len(body["results"]) == 2
    page = (await get(datasette, url(demo_db, q="paella"))).text
    assert '<option value="limbic" selected>' in page
    assert "in force limbic" in text_of(page)


async def test_as_of_shows_what_held_then(demo_db: Path, make_datasette: Any) -> None:
    body = await get_json(
        make_datasette(demo_db), url(demo_db, ".json", q="paella", as_of="2025-06-30")
    )
    assert body["as_of"] == "2025-06-30 00:00:00"


async def test_the_last_of_a_repeated_argument_counts(demo_db: Path, make_datasette: Any) -> None:
    body = await get_json(
        make_datasette(demo_db), base(demo_db) + "/search.json?q=a&limit=1&limit=2"
    )
    assert len(body["results"]) == 2


async def test_sql_link_only_for_who_may_write_sql(demo_db: Path, make_datasette: Any) -> None:
    page = (await get(make_datasette(demo_db), url(demo_db, q="paella"))).text
    assert "This ranking as SQL" in page
    closed = make_datasette(demo_db, settings={"default_allow_sql": False})
    page = (await get(closed, url(demo_db, q="paella"))).text
    assert "This ranking as SQL" not in page
    assert "Vary its parameters" in page


SAME = [
    {"q": "paella"},
    {"q": "queue of delivery events without a broker", "limit": 7},
    {"q": "quién dirige el equipo", "strategy": "cosine_heavy"},
    {"q": "東京 用户"},
    {"q": "the of and la"},
    {"q": "vans", "type": "Tool"},
    {"q": "vans", "type": "Nope"},
    {"q": "vans", "type": "x" * 1200},
    {"q": "Kafka trial", "include_archived": 1},
    {"q": "paella", "as_of": "2025-06-30"},
    {"q": "geocoder", "recency": "freshest", "consolidation": 1},
    {"q": "geocoder", "recency": "activity", "strategy": "limbic"},
    {"q": "invoices", "gamma": 0.2, "beta_sal": 1, "cooc_cap": 2, "rrf_k": 10},
    {"q": "invoices", "explain": 1, "limit": 3, "expansion_factor": 5},
    {"q": "invoices", "explain": 1, "limit": 100, "expansion_factor": 40},
    {"q": "invoices", "mode": "hybrid", "fusion": "fused"},
]
OTHER = [
    {"q": ""},
    {"q": " ", "type": "Tool"},
    {"q": "paella", "mode": "text"},
    {"q": "paella", "mode": "semantic"},
    {"q": "paella", "fusion": "document"},
    {"q": "", "mode": "text", "fusion": "document"},
]


def named(arguments: dict[str, Any]) -> str:
    return urlencode(arguments)[:50]


@pytest.mark.parametrize("asked", SAME, ids=named)
async def test_the_stored_query_gives_the_same_rows(
    asked: dict[str, Any], demo_db: Path, make_datasette: Any
) -> None:
    await same_rows(make_datasette(demo_db), demo_db, asked)


async def same_rows(datasette: Any, path: Path, asked: dict[str, Any]) -> None:
    body = await get_json(datasette, url(path, ".json", now=NOW, **asked))
    link = body["stored_query_url"]
    assert (
        link in links((await get(datasette, url(path, now=NOW, **asked))).text)
        or not (body["results"])
    )
    page, _, query = link.partition("?")
    rows = (await get(datasette, f"{page}.json?{query}&_shape=array")).json()
    expected = body["results"] + body.get("losers", [])
    keys = ("id", "name", "knn_rank", "fts_rank", "degree", "access_count", "routing_strategy")
    assert [[row[k] for k in keys] for row in rows] == [[r[k] for k in keys] for r in expected]
    for key in ("final_score", "limbic_score", "rrf_score"):
        assert [row[key] for row in rows] == pytest.approx([r[key] for r in expected]), key


@pytest.mark.parametrize("asked", OTHER, ids=named)
async def test_no_stored_query_where_it_ranks_differently(
    asked: dict[str, Any], demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    assert (await get_json(datasette, url(demo_db, ".json", **asked)))["stored_query_url"] is None
    page = await get(datasette, url(demo_db, **asked))
    assert "Vary its parameters" not in page.text
    assert "limbic_search?" not in page.text


async def test_the_stored_query_has_the_fusion_of_the_settings(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db, config={"fusion": "document", "gamma": 0.3, "limit": 4})
    await same_rows(datasette, demo_db, {"q": "geocoder outage"})
    await same_rows(datasette, demo_db, {"q": "geocoder outage", "fusion": "document"})
    body = await get_json(datasette, url(demo_db, ".json", q="geocoder outage", fusion="fused"))
    assert body["stored_query_url"] is None
    by_text = make_datasette(demo_db, config={"mode": "text"})
    assert (await get_json(by_text, url(demo_db, ".json", q="vans")))["stored_query_url"] is None


async def test_no_stored_query_for_a_degraded_answer(demo_db: Path, make_datasette: Any) -> None:
    conn = connection.connect(demo_db)
    conn.execute("update limbic_indexes set vectors = 0")
    conn.commit()
    conn.close()
    body = await get_json(make_datasette(demo_db), url(demo_db, ".json", q="paella"))
    assert body["degraded"]
    assert body["stored_query_url"] is None


async def test_no_stored_query_for_a_type_among_more_than_vec0_gives(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasette = make_datasette(demo_db)
    for most, there in ((65, True), (64, False)):
        monkeypatch.setattr("datasette_limbic.search.MAX_K", most)
        with_type = await get_json(datasette, url(demo_db, ".json", q="vans", type="Tool"))
        assert (with_type["stored_query_url"] is not None) is there
        without = await get_json(datasette, url(demo_db, ".json", q="vans"))
        assert without["stored_query_url"]


CARRIED = {
    "expansion_factor": "7",
    "consolidation": "1",
    "now": NOW,
    "beta_deg": "0.2",
    "cooc_cap": "3",
    "lambda_hourly": "0.01",
}


async def test_the_form_carries_what_it_has_no_field_for(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    page = (await get(datasette, url(demo_db, q="paella", mode="text", **CARRIED))).text
    form = page.split('role="search"')[1].split("</form>")[0]
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    assert hidden == CARRIED
    # every argument of a search is sent once
    sent = re.findall(r'(?:input|select)[^>]* name="(\w+)"', form)
    assert sorted(sent) == sorted({*sent})
    plain = (await get(datasette, url(demo_db, q="paella", gamma="", _shape="x"))).text
    assert 'type="hidden"' not in plain.split('role="search"')[1].split("</form>")[0]


# "why not another?" is about one query
@pytest.mark.parametrize("name", [name for name in ARGUMENTS if name != "explain"])
async def test_each_argument_stays_in_the_form(
    name: str, demo_db: Path, make_datasette: Any
) -> None:
    good = {"q": "x", "type": "Tool", "mode": "text", "strategy": "limbic", "recency": "activity"}
    good |= {"fusion": "document", "as_of": "2025-06-30", "now": NOW, "temporal_floor": "0.2"}
    value = good.get(name, "1")
    page = (await get(make_datasette(demo_db), url(demo_db, **{name: value}))).text
    form = page.split('role="search"')[1].split("</form>")[0]
    field = re.search(rf'<(?:input|select)[^>]* name="{name}"[^>]*>(?:.*?</select>)?', form, re.S)
    assert field is not None
    kept = re.search(rf'value="{value}"( checked)?|<option selected>{value}<|selected', field[0])
    assert kept is not None


async def test_a_hostile_argument_is_carried_escaped(demo_db: Path, make_datasette: Any) -> None:
    page = (await get(make_datasette(demo_db), url(demo_db, q="x", now='2026-01-01"><b>'))).text
    assert "<b>" not in page.split("<h1>")[1]


RATE = re.compile(
    r'<button form="limbic-rate" name="rate" value="(-?\d+):(\w+)" aria-pressed="(\w+)"'
    r' aria-label="([^"]*)">([^<]*)<'
)


async def test_each_result_can_be_rated_by_whom_may_record(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    asked = url(demo_db, q="who fixed the geocoder", limit=3, explain=1, gamma=0.05)
    response = await get(datasette, asked, cookies=as_actor(datasette, AGENT))
    [form] = re.findall(r'<form id="limbic-rate".*?</form>', response.text, re.S)
    assert f'action="{base(demo_db)}/feedback" method="post"' in form
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    assert hidden.pop("csrftoken") or ONE_POINT_ZERO
    assert set(hidden) == {"search"}
    assert len(hidden["search"]) < 20_000
    body = await get_json(datasette, asked.replace("search?", "search.json?"))
    assert len(body["results"]) == 3  # the losers have no buttons
    assert RATE.findall(response.text) == [
        (str(row["id"]), value, "false", f"{label}: {row['name']}", label)
        for row in body["results"]
        for value, label in (("useful", "Useful"), ("not_useful", "Not useful"))
    ]
    assert not [key for key in body if "rating" in key or "csrf" in key]


async def test_what_was_rated_is_shown(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    found = await post_json(
        datasette, f"{base(demo_db)}/search", {"query": "invoices", "limit": 3, "wait": True}
    )
    first, second, third = (row["id"] for row in found["results"])
    for number, rating in ((first, "not_useful"), (first, "useful"), (second, "not_useful")):
        sent = {"search_id": found["search_id"], "id": number, "rating": rating}
        await post_json(datasette, f"{base(demo_db)}/feedback", sent)

    async def pressed(**more: Any) -> dict[int, list[str]]:
        page = (
            await get(
                datasette,
                url(demo_db, **{"q": "invoices", "limit": 3, **more}),
                cookies=as_actor(datasette, AGENT),
            )
        ).text
        return {
            number: [v for n, v, on, *_ in RATE.findall(page) if n == str(number) and on == "true"]
            for number in (first, second, third)
        }

    rated = await pressed(search_id=found["search_id"])
    assert rated == {first: ["useful"], second: ["not_useful"], third: []}
    # neither another search of the same words, nor these ratings on another search
    assert not any((await pressed()).values())
    assert not any((await pressed(q="invoice", search_id=found["search_id"])).values())


@pytest.mark.parametrize("who", [None, {"id": "somebody"}])
async def test_whoever_may_not_record_sees_no_buttons(
    who: dict[str, Any] | None, demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    cookies = as_actor(datasette, who) if who else {}
    response = await get(datasette, url(demo_db, q="invoices"), cookies=cookies)
    assert "limbic-card" in response.text
    assert "limbic-rate" not in response.text
    assert "csrftoken" not in response.text.split("<h1>")[1]
    if who is None:  # the menu of 0.65 has a form of its own for whoever is signed in
        assert "set-cookie" not in response.headers


async def test_no_buttons_where_nothing_can_be_written(demo_db: Path, make_datasette: Any) -> None:
    for immutable in (False, True):
        paths: dict[str, Any] = {"immutables": [str(demo_db)]} if immutable else {}
        datasette = recording_datasette(make_datasette, *([] if immutable else [demo_db]), **paths)
        page = (
            await get(datasette, url(demo_db, q="invoices"), cookies=as_actor(datasette, AGENT))
        ).text
        assert ("limbic-rate" in page) is not immutable
    listed = await get(datasette, url(demo_db), cookies=as_actor(datasette, AGENT))
    assert "limbic-rate" not in listed.text  # no query, nothing to be useful for


async def test_a_hostile_name_in_a_rating_is_escaped(demo_db: Path, make_datasette: Any) -> None:
    name = '"><script>alert(1)</script> ' + "n" * 5000
    write(demo_db, ("update entities set name = ? where id = 3", [name]))
    datasette = recording_datasette(make_datasette, demo_db)
    page = (
        await get(
            datasette,
            url(demo_db, q='geocoder"><b>', limit=100),
            cookies=as_actor(datasette, AGENT),
        )
    ).text.split("<h1>")[1]
    assert "<script>alert" not in page
    assert "<b>" not in page
    labels = [unescape(label) for *_, label, _ in RATE.findall(page)]
    [useful] = [label for label in labels if label.startswith('Useful: "><script>')]
    assert len(useful) < 120
