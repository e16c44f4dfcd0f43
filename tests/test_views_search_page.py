"""The search page beyond its answer: sliders, moves, badges, why not, and what it costs."""

from __future__ import annotations

import itertools
import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from view_helpers import (
    AGENT,
    as_actor,
    base,
    get,
    get_json,
    links,
    recording_datasette,
    text_of,
    write,
)

from datasette_limbic import i18n
from datasette_limbic.config import Settings
from datasette_limbic.highlights import Highlights, Observation
from datasette_limbic.request import parse
from datasette_limbic.views import display, search_display
from datasette_limbic.views.search_words import Words

NOW = "2026-11-29 12:00:00"


def url(path: Path, suffix: str = "", **arguments: Any) -> str:
    return f"{base(path)}/search{suffix}?" + urlencode({"now": NOW, **arguments})


async def page_of(datasette: Any, path: Path, **arguments: Any) -> str:
    response = await get(datasette, url(path, **arguments))
    assert response.status_code == 200
    return str(response.text)


def cards(page: str) -> dict[int, str]:
    """The HTML of each result, by entity id, in order."""
    pieces = re.split(r'<li class="limbic-card[^"]*" id="entity-(\d+)">', page)
    return {int(i): html for i, html in zip(pieces[1::2], pieces[2::2], strict=True)}


async def test_what_the_sliders_move_is_shown_against_what_is_in_force(
    demo_db: Path, make_datasette: Any
) -> None:
    write(
        demo_db,
        (
            "insert into limbic_parameters(version, beta_sal, gamma, source, created_at)"
            " values (1, 0.7, 0.02, 'manual', '2026-01-01')",
            [],
        ),
    )
    datasette = make_datasette(demo_db)
    asked = {"q": "who fixed the geocoder", "limit": 8}
    varied = {"beta_sal": 2, "gamma": 0.2, "strategy": "limbic"}
    in_force = await get_json(datasette, url(demo_db, ".json", **asked, explain=1))
    before = [row["id"] for row in in_force["results"] + in_force["losers"]]
    page = await page_of(datasette, demo_db, **asked, **varied)
    moves = {}
    for rank, (number, card) in enumerate(cards(page).items()):
        arrow = re.search(r'aria-hidden="true">([▲▼])(\d+)<', card)
        words = re.search(r"(\d+) places? (higher|lower) than with what is in force", card)
        assert (arrow is None) is (words is None)
        if arrow and words:
            assert {"▲": "higher", "▼": "lower"}[arrow[1]] == words[2]
            assert arrow[2] == words[1]
        found = int(arrow[2]) * (1 if arrow[1] == "▲" else -1) if arrow else 0
        assert found == before.index(number) - rank
        moves[number] = found
    assert sum(map(bool, moves.values())) > 2
    said = f"{sum(map(bool, moves.values()))} of 8 results stand elsewhere"
    assert said in text_of(page)
    sliders = re.findall(r'<input type="range"[^>]*name="(\w+)"[^>]*>', page)
    assert sliders == ["beta_sal", "gamma"]
    assert 'value="2" list="limbic-beta_sal-default" data-default="0.7"' in page
    assert 'value="0.2" list="limbic-gamma-default" data-default="0.02"' in page
    [reset] = [
        u
        for u in links(page)
        if u.startswith(base(demo_db) + "/search?")
        and "now" in u
        and "explain" not in u
        and "beta_sal" not in u
    ]
    assert parse_qs(urlsplit(reset).query) == {
        "now": [NOW],
        "q": ["who fixed the geocoder"],
        "limit": ["8"],
    }
    # in force again: nothing has moved, nothing is said of it
    plain = await page_of(datasette, demo_db, **asked)
    assert "limbic-move " not in plain
    assert "what is in force." not in text_of(plain)
    # the same values given are no difference either
    same = await page_of(datasette, demo_db, **asked, beta_sal=0.7, gamma=0.02)
    assert "what is in force." not in text_of(same)


async def test_the_sliders_keep_all_else_of_the_search(demo_db: Path, make_datasette: Any) -> None:
    asked = {"q": "vans", "limit": 3, "mode": "text", "explain": 1, "lambda_hourly": 0.01}
    page = await page_of(make_datasette(demo_db), demo_db, **asked, gamma=0.1)
    form = page.split('id="limbic-vary"')[1].split("</form>")[0]
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    assert hidden == {"now": NOW, **{name: str(value) for name, value in asked.items()}}
    sent = re.findall(r'<(?:input|select)[^>]* name="(\w+)"', form)
    assert len(sent) == len(set(sent))
    assert {"beta_sal", "gamma", "strategy"} <= set(sent)


async def test_a_value_past_the_end_of_a_slider_is_kept(demo_db: Path, make_datasette: Any) -> None:
    page = await page_of(make_datasette(demo_db), demo_db, q="vans", beta_sal=7.25, gamma=3)
    assert re.search(r'name="beta_sal" min="0" max="7.25" step="any" value="7.25"', page)
    assert re.search(r'name="gamma" min="0" max="3" step="any" value="3"', page)


async def test_what_a_form_sends_back_is_no_variation(demo_db: Path, make_datasette: Any) -> None:
    """Without a script all fields are sent: an untouched form asks for what was asked before."""
    write(
        demo_db,
        (
            "insert into limbic_parameters(version, beta_sal, gamma, source, created_at)"
            " values (1, 0.734950283402371, 0.012345678901234, 'manual', '2026-01-01')",
            [],
        ),
    )
    datasette = make_datasette(demo_db)
    for asked in ({"q": "atlas"}, {"q": ""}):
        page = await page_of(datasette, demo_db, **asked, _lang="es")
        forms = [
            page.split(start)[1].split("</form>")[0]
            for start in ('role="search"', 'id="limbic-vary"')
        ]
        for form in forms:
            assert form.count('<input type="hidden" name="_lang" value="es">') == 1
        sent = dict(
            re.findall(r'type="(?:range|hidden)"[^>]* name="(\w+)"[^>]* value="([^"]*)"', page)
        )
        assert sent["beta_sal"] == "0.734950283402371"
        # a listing is ranked by "limbic", which nobody chose
        [chosen] = re.findall(r'<option value="(\w+)" selected', forms[1].split("<select")[1])
        assert chosen == "auto"
        page = await page_of(datasette, demo_db, **{**asked, **sent, "strategy": chosen})
        assert "0.735" in page
        assert '<span role="status">' not in page
    page = await page_of(datasette, demo_db, q="atlas", _lang="<b>")
    assert 'name="_lang"' not in page


async def test_what_stands_where_it_did_is_said_of_the_results_alone(
    demo_db: Path, make_datasette: Any
) -> None:
    asked = {"q": "geocoder", "limit": 1, "explain": 1, "strategy": "limbic"}
    page = await page_of(make_datasette(demo_db), demo_db, **asked)
    losers = page.split('id="limbic-losers"')[1]
    assert "Each result stands where it does with what is in force." in text_of(page)
    assert re.search(r'role="img" aria-label="\d+ places? (higher|lower)">[▲▼]\d', losers)


@pytest.mark.parametrize(
    ("query", "badges", "without", "name"),
    [
        (
            "luekiwiB",
            ["part of the name"],
            ["every word", "in the name"],
            "B<mark>luekiwib</mark>ird",
        ),
        ("kiwi luekiwiB", ["part of the name"], ["every word"], "B<mark>luekiwib</mark>ird"),
        ("bluekiwibird 38.101", ["in the name"], ["part of the name"], "<mark>Bluekiwibird</mark>"),
        ("38.101", [], ["in the name", "part of the name"], None),
        ("zebra 99.5", ["every word"], ["in the name", "part of the name"], "38 of 101"),
    ],
)
async def test_badges_tell_words_from_parts(
    query: str,
    badges: list[str],
    without: list[str],
    name: str | None,
    demo_db: Path,
    make_datasette: Any,
) -> None:
    write(
        demo_db,
        ("insert into entities(id, name, entity_type) values (900, 'Bluekiwibird', 'T')", []),
        ("insert into entities(id, name, entity_type) values (901, '38 of 101', 'T')", []),
        ("insert into observations(entity_id, content) values (900, 'has kiwi')", []),
        ("insert into observations(entity_id, content) values (901, 'a zebra, 99.5')", []),
    )
    page = await page_of(make_datasette(demo_db), demo_db, q=query, mode="text", limit=100)
    found = cards(page)
    card = found.get(901 if name is None or "38" in name else 900)
    if name is None:
        assert card is None
        return
    assert card is not None
    assert f"<bdi>{name}</bdi></a></h3>" in card
    shown = re.findall(r'class="limbic-badge[^>]*>([^<]+)<', card)
    assert set(badges) <= set(shown), shown
    assert not set(without) & set(shown)


@pytest.mark.parametrize(
    ("asked", "factor", "has_time", "said"),
    [
        ({}, "time", True, "used or created longer ago"),
        ({"recency": "activity"}, "time", True, "its activity"),
        ({"recency": "freshest"}, "time", True, "neither its use nor its activity"),
        ({}, "time", False, "not known"),
        ({"recency": "freshest"}, "time", False, "not known"),
        ({}, "salience", True, "less used or less connected"),
        ({"consolidation": 1}, "salience", True, "longer ago"),
        ({"consolidation": 1}, "cooc", True, "co-occurrence"),
        ({}, "base", False, "base similarity"),
    ],
)
def test_what_a_loser_lacked_is_named_by_what_was_asked(
    asked: dict[str, Any], factor: str, has_time: bool, said: str
) -> None:
    found = search_display.lacked(factor, parse(asked, Settings()), has_time)
    assert said in found
    with i18n.spoken("es"):
        assert search_display.lacked(factor, parse(asked, Settings()), has_time) != found


def test_the_nearest_is_left_out_for_no_other() -> None:
    both = Highlights(5, [Observation(i, f"o{i}", i == 3) for i in (1, 2, 3)])
    for in_full, rank, listed, expected in (
        (True, 1, 10, ["o1", "o2", "o3"]),
        (True, 1, 100, ["o1", "o3"]),
        (False, 11, 100, ["o3"]),
        (False, 90, 100, []),
    ):
        row: dict[str, Any] = {"_in_full": in_full}
        search_display._add_observations(row, both, Words("x"), rank, listed)
        assert [str(each["html"]) for each in row["_shown"]] == expected
        assert [each["nearest"] for each in row["_shown"]] == [e == "o3" for e in expected]
        assert row["_more"] == 5 - len(expected)
        assert len(both.shown) == 3


async def test_a_full_page_of_hostile_texts_stays_under_150_kb(
    demo_db: Path, make_datasette: Any
) -> None:
    """In total: what it shows, and our own sheets and scripts."""
    name, type_, note = "&<ñ>" * 80, "T&" * 50, "<&>\" '" * 200
    many = str(list(range(160)))
    write(
        demo_db,
        (
            "insert into entities(id, name, entity_type) select 1000 + value,"
            " 'kiwi ' || value || ' ' || ?, ? from json_each(?)",
            [name, type_, many],
        ),
        (
            "insert into observations(entity_id, content) select 1000 + e.value,"
            " k.value || ' kiwi ' || ? from json_each(?) e, json_each('[1, 2, 3]') k",
            [note, many],
        ),
    )
    datasette = make_datasette(demo_db)
    asked = {"q": "kiwi", "mode": "text", "limit": 100, "explain": 1}
    page = await page_of(datasette, demo_db, **asked)
    ours = set(re.findall(r'(?:href|src)="([^"]*static-plugins/datasette-limbic[^"]*)"', page))
    assert len(ours) == 3
    total = len(page.encode())
    for each in ours:
        total += len((await get(datasette, each)).content)
    assert total < 150_000
    shown = cards(page)
    assert len(shown) == 100
    assert all("<title>Final score" in card for card in shown.values())
    assert len(re.findall(r'<tr id="entity-', page)) == search_display.LOSERS
    # a page of ten shows more of each
    few = await page_of(datasette, demo_db, **{**asked, "limit": 10, "explain": ""})
    assert len(cards(few)[next(iter(cards(few)))]) > 1.5 * len(next(iter(shown.values())))


async def test_no_text_of_the_memory_turns_what_follows(demo_db: Path, make_datasette: Any) -> None:
    turn = "\u202e"
    write(
        demo_db,
        ("insert into entities(id, name, entity_type) values (900, ?, ?)", [f"zqzq{turn}", turn]),
        (
            "insert into entity_access(entity_id, access_count, last_access) values (900, 3, ?)",
            [f"{turn}long ago"],
        ),
        ("insert into observations(entity_id, content) values (900, ?)", [f"zqzq {turn}"]),
    )
    page = await page_of(make_datasette(demo_db), demo_db, q="zqzq", mode="text")
    card = cards(page)[900]
    assert "long ago" in card
    assert turn not in re.sub(r"<bdi[^>]*>.*?</bdi>|<[^>]+>", "", card)


@pytest.mark.parametrize(
    ("show", "value", "english", "spanish"),
    [
        (display.day, None, "unknown", "desconocido"),
        (display.day, "\u202e<b>", "<bdi>\u202e&lt;b&gt;</bdi>", None),
        (display.moment, "\u202e<b>", "<bdi>\u202e&lt;b&gt;</bdi>", None),
        (display.number, "\u202e<b>", "<bdi>\u202e&lt;b&gt;</bdi>", None),
        (display.number, 1.5, "1.500", "1,500"),
        (lambda name: display.named(name, 7), " ", "unnamed (#7)", "sin nombre (#7)"),
        (lambda text: display.light(text, 6), "abcdefgh", "abcde…", None),
        (lambda text: display.light(text, 6), "<<<<<", "<…", None),
        (lambda text: display.light(text, 6), "ñandú", "ñandú", None),
    ],
)
def test_what_filters_make_of_odd_values(
    show: Any, value: Any, english: str, spanish: str | None
) -> None:
    assert str(show(value)) == english
    with i18n.spoken("es"):
        assert str(show(value)) == (spanish or english)


@pytest.mark.parametrize(
    ("asked", "entity", "badges"),
    [
        ({"q": "geocoder"}, 32, ["meaning #1", "text #1", "exact name"]),
        ({"q": "geocoder outage"}, 61, ["in the name", "every word"]),
        ({"q": "who fixed the geocoder"}, 3, ["far"]),
        ({"q": "Kafka trial", "include_archived": 1}, 10, ["archived"]),
    ],
)
async def test_badges_say_why(
    asked: dict[str, Any], entity: int, badges: list[str], demo_db: Path, make_datasette: Any
) -> None:
    page = await page_of(make_datasette(demo_db), demo_db, **asked)
    found = re.findall(
        r'class="limbic-badge limbic-\w+" title="[^"]+">([^<]+)<', cards(page)[entity]
    )
    assert set(badges) <= set(found), found
    if "exact name" in found:
        assert "in the name" not in found


async def test_losers_say_what_they_lacked(demo_db: Path, make_datasette: Any) -> None:
    asked = {"q": "who fixed the geocoder", "limit": 5, "explain": 1}
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, url(demo_db, ".json", **asked))
    page = await page_of(datasette, demo_db, **asked)
    last, first_out = body["results"][-1], body["losers"][0]
    losers = text_of(page.split('id="limbic-losers"')[1])
    assert f"The last that made it is #5 {last['name']} with {last['final_score']:.3f}." in losers
    [row] = re.findall(rf'<tr id="entity-{first_out["id"]}">.*?</tr>', page, re.S)
    own, needed = first_out["scoring"]["base"], last["scoring"]["base"]
    assert f"base similarity {own:.3f} against {needed:.3f}" in text_of(row)
    assert "with that it would have been as good: 0." in text_of(row)


async def test_many_losers_are_listed_in_the_json_alone(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasette_limbic.views.search_display.LOSERS", 4)
    page = await page_of(make_datasette(demo_db), demo_db, q="geocoder", limit=3, explain=1)
    assert len(re.findall(r'<tr id="entity-', page)) == 4
    assert "The first 4 are listed; the JSON has all." in text_of(page)


async def test_every_state_works_under_a_strict_policy(
    demo_db: Path, empty_db: Path, make_datasette: Any
) -> None:
    """No inline script or style, no handler, nothing from elsewhere; headings in order."""
    datasette = make_datasette(demo_db, empty_db)
    states: list[tuple[Path, dict[str, Any]]] = [
        (demo_db, {"q": "geocoder", "explain": 1, "beta_sal": 3}),
        (demo_db, {"q": "quantum chromodynamics lattice"}),
        (demo_db, {"q": "paella", "type": "Nope"}),
        (demo_db, {"q": ""}),
        (empty_db, {"q": "x"}),
    ]
    for path, asked in states:
        page = (await page_of(datasette, path, **asked)).split('class="limbic-page')[1]
        page = page.split("</footer>")[0].split("<footer")[0]
        assert not re.search(r"<[^>]+\s(style|on\w+)=", page)
        assert "<style" not in page
        assert not re.search(r"<script(?![^>]*\ssrc=)", page)
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', page)
        levels = [int(level) for level in re.findall(r"<h([1-6])", page)]
        assert levels[0] == 1
        assert all(b - a <= 1 for a, b in itertools.pairwise(levels)), levels
        ids = re.findall(r'\sid="([^"]+)"', page)
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"q": "x", "stratgy": "limbic", "beta": 1}, "unknown argument beta, stratgy"),
        ({"q": "x" * 3000}, "the query has 3,000 characters"),
        ({"q": "x", "gamma": "much"}, "gamma is 'much'"),
        ({"q": "x", "beta_sal": -1}, "beta_sal"),
    ],
)
async def test_what_cannot_be_searched_is_named(
    asked: dict[str, Any], said: str, demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, url(demo_db, ".json", **asked), 400)
    assert said in body["error"]
    response = await get(datasette, url(demo_db, **asked))
    assert response.status_code == 400
    assert said in unescape(text_of(response.text))


async def test_a_result_with_thousands_of_observations_stays_small_and_quick(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of 5,000 are read for the page; its JSON has them all. As many statements as ever."""
    hostile = '</bdi><script>alert(1)</script>\u202e "\x00' + "w" * 10_000
    write(
        demo_db,
        *(
            (
                "insert into observations(entity_id, content) select 32, 'note ' || value || ?"
                " from json_each(?)",
                [" about nothing " + "x" * 50, str(list(range(5000)))],
            ),
            ("update entities set name = 'geocoder ' || ? where id = 61", [hostile]),
            ("update observations set content = 'geocoder ' || ? where id = 390", [hostile]),
        ),
    )
    datasette = recording_datasette(make_datasette, demo_db)
    asked = {"q": "geocoder", "limit": 10}
    body = await get_json(datasette, url(demo_db, ".json", **asked))
    [long] = [row for row in body["results"] if row["id"] == 32]
    assert len(long["observations"]) > 5000
    response = await get(datasette, url(demo_db, **asked), cookies=as_actor(datasette, AGENT))
    page = response.text
    assert len(page.encode()) < 70_000
    assert text_of(cards(page)[32]).count("geocoder") > 1
    assert f"{len(long['observations']) - 3:,} more" in text_of(cards(page)[32])
    assert "<script>alert" not in page
    assert "\x00" not in page
    all_of_them = await page_of(datasette, demo_db, q="geocoder", limit=100)
    assert len(cards(all_of_them)) > 50
    assert len(all_of_them.encode()) < 150_000


async def test_as_many_statements_for_one_result_as_for_a_hundred(
    demo_db: Path, make_datasette: Any
) -> None:
    # one thread, and so one connection that reads
    datasette = make_datasette(demo_db, settings={"num_sql_threads": 1})
    await datasette.invoke_startup()
    database = datasette.get_database(demo_db.stem)
    counted = []
    for limit in (1, 100):
        await page_of(datasette, demo_db, q="geocoder", limit=limit, explain=1)  # embedded, cached
        asked: list[str] = []
        await database.execute_fn(lambda conn, asked=asked: conn.set_trace_callback(asked.append))
        await page_of(datasette, demo_db, q="geocoder", limit=limit, explain=1)
        await database.execute_fn(lambda conn: conn.set_trace_callback(None))
        # what FTS5 and vec0 ask their own tables, SQLite shows as comments
        counted.append([sql[:25] for sql in asked if not sql.startswith("-- ") or "\nwith" in sql])
    assert counted[0] == counted[1]
    assert sum("What a page shows" in sql for sql in counted[0]) == 1
