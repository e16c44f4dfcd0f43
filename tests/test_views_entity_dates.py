"""The page of one entity: what held as of a date, marks in place, its parts, its size."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape
from view_helpers import as_actor, base, get, get_json, links, rows, text_of, write

from datasette_limbic import connection
from datasette_limbic.entity import PAGE
from datasette_limbic.reports import keeping
from datasette_limbic.views.entity_display import OBSERVATIONS, RELATIONS

# content, valid_from, valid_to, whether it held on 2025-06-30
DATED = [
    ("always zebra", None, None, True),
    ("ended zebra", None, "2025-01-01", False),
    ("ended that midnight zebra", None, "2025-06-30", False),
    ("ended later zebra", "2024-01-01", "2026-02-02 10:00:00", True),
    ("began that midnight zebra", "2025-06-30", None, True),
    ("began later zebra", "2025-07-01", None, False),
    ("unreadable zebra", "never", "soon", True),
]
HELD = sorted(content for content, _, _, held in DATED if held)


@pytest.fixture
def dated(empty_db: Path) -> Path:
    write(
        empty_db,
        *[
            ("insert into entities(id, name) values (?, ?)", [number, name])
            for number, name in ((1, "Zebra"), (2, "Old"), (3, "New"), (4, "Later"))
        ],
        *[
            (
                "insert into observations(entity_id, content, valid_from, valid_to)"
                " values (1, ?, ?, ?)",
                [content, start, end],
            )
            for content, start, end, _ in DATED
        ],
        *[
            (
                "insert into relations(from_entity, to_entity, relation_type, valid_from, valid_to)"
                " values (?, ?, ?, ?, ?)",
                values,
            )
            for values in (
                [1, 2, "used", None, "2025-12-31"],
                [1, 3, "uses", "2025-08-01", None],
                [4, 1, "knows", None, None],
            )
        ],
    )
    return empty_db


@pytest.mark.parametrize("asked", ["2025-06-30", "2025-06-30T00:00:00Z", "1751241600"])
async def test_as_of_is_what_search_takes_it_for(
    asked: str, dated: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(dated)
    body = await get_json(datasette, f"{base(dated)}/entity/1.json?as_of={asked}")
    assert body["as_of"] == "2025-06-30 00:00:00"
    found = body["observations"]
    assert sorted(row["content"] for row in found if row["valid"]) == HELD
    [result] = [
        row
        for row in (await get_json(datasette, f"{base(dated)}/search.json?q=zebra&as_of={asked}"))[
            "results"
        ]
        if row["id"] == 1
    ]
    assert sorted(result["observations"]) == HELD
    assert body["counts"]["valid_observations"] == len(HELD)
    # what holds comes first
    assert [row["valid"] for row in found] == sorted((row["valid"] for row in found), reverse=True)
    assert {r["entity_name"]: (r["valid"], r["ended"]) for r in body["relations_out"]} == {
        "Old": (1, 0),
        "New": (0, 0),
    }
    assert body["counts"]["valid_relations"] == 2
    # a neighbour counts as it does in a search as of that day
    assert body["limbic"]["degree"] == result["degree"]


async def test_as_of_on_the_page(dated: Path, make_datasette: Any) -> None:
    datasette = make_datasette(dated)
    url = f"{base(dated)}/entity/1"
    page = (await get(datasette, f"{url}?as_of=2025-06-30&now=2026-11-29")).text
    words = text_of(page)
    start = "at the start of 2025-06-30 (00:00 UTC)"
    assert f"4 of 7 observations, 2 of 3 relations hold {start}." in words
    assert f"Do not hold {start} 3 " in words
    assert '<input type="date" name="as_of" value="2025-06-30" required>' in page
    assert '<input type="hidden" name="now" value="2026-11-29">' in page
    held, apart = page.split("<h3>Do not hold at")
    for content, _, _, there in DATED:
        assert (f"<bdi>{content}</bdi>" in held) is there
        assert (f"<bdi>{content}</bdi>" in apart) is not there
    found = links(page)
    assert f"{url}?now=2026-11-29" in found
    assert f"{base(dated)}/search?as_of=2025-06-30" in found
    assert f"{base(dated)}/entity/4?as_of=2025-06-30" in found
    now = (await get(datasette, url)).text
    assert "As of" not in text_of(now)
    assert f"{base(dated)}/entity/4" in links(now)
    assert "until 2025-12-31" in words
    assert "ended 2025-12-31" in text_of(now)
    # the picture leads on to the same moment, as every link to an entity does
    near = page.split('id="limbic-near-it"')[1].split("</section>")[0]
    assert f"{url}/graph?as_of=2025-06-30" in links(near)
    leads = [link for link in links(page) if re.search(r"/entity/\d+(/graph)?(\?|$)", link)]
    assert len(leads) >= 8
    assert {link.partition("?")[2] for link in leads} == {"as_of=2025-06-30", "now=2026-11-29"}


MOMENTS = {
    "2025-06-30": "at the start of 2025-06-30 (00:00 UTC)",
    "2025-06-30T00:00:00Z": "at the start of 2025-06-30 (00:00 UTC)",
    "2025-06-30 02:00:00%2B02:00": "at the start of 2025-06-30 (00:00 UTC)",
    "2025-06-30 10:00": "at 2025-06-30 10:00:00 UTC",
    "2025-06-30 00:00:01": "at 2025-06-30 00:00:01 UTC",
    "2025-06-30 00:00:00.5": "at 2025-06-30 00:00:00.500 UTC",
}


@pytest.mark.parametrize("asked", MOMENTS)
async def test_what_begins_within_the_day_is_not_said_to_hold_on_it(
    asked: str, dated: Path, make_datasette: Any
) -> None:
    """The page names the moment that it looks at, in the sentence and over what is apart."""
    write(
        dated,
        (
            "insert into observations(entity_id, content, valid_from) values (1, ?, ?)",
            ["began at noon", "2025-06-30 12:00:00"],
        ),
    )
    page = (await get(make_datasette(dated), f"{base(dated)}/entity/1?as_of={asked}")).text
    assert f"of 3 relations hold {MOMENTS[asked]}." in text_of(page)
    apart = page.split(f"<h3>Do not hold {MOMENTS[asked]} ")[1]
    assert "<bdi>began at noon</bdi>" in apart
    assert "on that day" not in text_of(page)


async def test_a_long_way_to_write_a_time_is_not_repeated_by_every_link(
    dated: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(dated)
    for path in ("entity/1", "entity/1/graph"):
        response = await get(datasette, f"{base(dated)}/{path}?as_of={'+' * 3000}2025-06-30")
        assert response.status_code == 200
        # the form's way back, the JSON and the like repeat the whole query, a few times alone
        assert response.text.count("+" * 3000) <= 3
        assert f"{base(dated)}/entity/1" in response.text
        assert "as_of=2025-06-30+00%3A00%3A00" in response.text


async def test_a_relation_to_itself_is_one(dated: Path, make_datasette: Any) -> None:
    write(
        dated,
        ("insert into relations(from_entity, to_entity, relation_type) values (1, 1, 'is')", []),
    )
    datasette = make_datasette(dated)
    url = f"{base(dated)}/entity/1"
    counts = (await get_json(datasette, f"{url}.json?as_of=2027-01-01"))["counts"]
    assert (counts["relations_out"], counts["relations_in"]) == (3, 2)
    assert (counts["relations"], counts["valid_relations"]) == (4, 3)
    words = text_of((await get(datasette, f"{url}?as_of=2027-01-01")).text)
    assert "3 of 4 relations hold at" in words
    assert "Relations 4 From here 3" in words


async def test_the_language_of_the_url_is_kept_by_the_forms(
    dated: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(dated)
    url = f"{base(dated)}/entity/1"
    kept = '<input type="hidden" name="_lang" value="es">'
    for path in (url, f"{url}/graph"):
        page = (await get(datasette, f"{path}?_lang=es")).text
        [form] = re.findall(
            r'<form class="core limbic-(?:as-of|graph-filter)".*?</form>', page, re.S
        )
        assert kept in form
        assert "_lang" not in (await get(datasette, path)).text


async def test_an_unknown_time_and_name_are_said_in_the_language_of_the_page(
    dated: Path, make_datasette: Any
) -> None:
    write(
        dated,
        ("update observations set created_at = null", []),
        ("update entities set name = ' ' where id = 1", []),  # a trigger dates that
        ("update entities set created_at = null, last_activity_at = '' where id = 1", []),
    )
    datasette = make_datasette(dated)
    for language, unknown, unnamed in (
        ("en", "unknown", "unnamed (#1)"),
        ("es", "desconocido", "sin nombre (#1)"),
    ):
        page = (await get(datasette, f"{base(dated)}/entity/1?_lang={language}")).text
        words = text_of(page)
        assert f"<title>{unnamed} – " in page
        assert words.count(unknown) == 2 + len(DATED), words
        assert unnamed in words
        assert ("unknown" in words or "unnamed" in words) is (language == "en")


async def test_an_entity_that_was_not_valid_then(dated: Path, make_datasette: Any) -> None:
    write(dated, ("update entities set valid_from = '2025-09-01' where id = 1", []))
    datasette = make_datasette(dated)
    url = f"{base(dated)}/entity/1"
    assert "The entity itself does not" in text_of(
        (await get(datasette, f"{url}?as_of=2025-06-30")).text
    )
    body = await get_json(datasette, f"{base(dated)}/search.json?q=zebra&as_of=2025-06-30")
    assert 1 not in [row["id"] for row in body["results"]]
    later = (await get(datasette, f"{url}?as_of=2025-10-01")).text
    assert "The entity itself does not" not in text_of(later)


WRONG = {
    "as_of=yesterday": "as_of is 'yesterday': use a time such as",
    "as_of=2025-06-31": "as_of is '2025-06-31'",
    "as_of=%3Cscript%3E": "as_of is '<script>'",
    "now=soon": "now is 'soon'",
    "page=0": "page is '0'",
    "relations_page=x": "relations_page is 'x'",
    "change=everything": "change is 'everything': use observation-ID or relation-ID",
    "asof=2025-06-30": "unknown argument asof: this page takes as_of, now, page",
    "search_id=1": "unknown argument search_id",
}


async def test_what_is_asked_wrongly_is_named(dated: Path, make_datasette: Any) -> None:
    datasette = make_datasette(dated)
    for query, says in WRONG.items():
        body = await get_json(datasette, f"{base(dated)}/entity/1.json?{query}", status=400)
        assert says in body["error"]
        page = await get(datasette, f"{base(dated)}/entity/1?{query}")
        assert page.status_code == 400
        assert str(escape(says)) in page.text


async def test_an_empty_field_is_not_a_date(dated: Path, make_datasette: Any) -> None:
    body = await get_json(make_datasette(dated), f"{base(dated)}/entity/1.json?as_of=&now=")
    assert body["as_of"] is None


# -- marks in place -----------------------------------------------------------------------------


def pair(path: Path, earlier: int, later: int, kind: str, difference: str | None = None) -> None:
    write(
        path,
        (
            "insert into limbic_duplicates(earlier_id, later_id, entity_id, kind, rule, cosine,"
            " containment, difference) values (?, ?, 1, ?, 'cosine', 0.9, 0.5, ?)",
            [earlier, later, kind, difference],
        ),
    )


def observation(page: str, number: int) -> str:
    return page.split(f'id="observation-{number}"')[1].split("</li>")[0]


async def test_both_sides_of_a_kept_pair_are_marked(dated: Path, make_datasette: Any) -> None:
    write(dated, ("update observations set valid_from = null, valid_to = null", []))
    pair(dated, 1, 2, "duplicate")
    pair(dated, 1, 3, "contradiction", "number: 5 / <b>6</b>")
    pair(dated, 4, 5, "look")
    datasette = make_datasette(dated)
    body = await get_json(datasette, f"{base(dated)}/entity/1.json")
    pairs = {
        row["id"]: [(p["id"], p["kind"]) for p in row["pairs"]] for row in body["observations"]
    }
    assert pairs == {
        1: [(3, "contradiction"), (2, "duplicate")],
        2: [(1, "duplicate")],
        3: [(1, "contradiction")],
        4: [(5, "look")],
        5: [(4, "look")],
        6: [],
        7: [],
    }
    page = (await get(datasette, f"{base(dated)}/entity/1")).text
    for number, words, there in (
        (1, "contradicts #3?", 3),
        (1, "duplicate of #2", 2),
        (3, "contradicts #1?", 1),
        (2, "duplicate of #1", 1),
        (5, "near #4", 4),
    ):
        part = observation(page, number)
        assert f">{words}</a>" in part
        assert f"#observation-{there}" in links(part)
    assert "<bdi>number: 5 / &lt;b&gt;6&lt;/b&gt;</bdi>" in observation(page, 1)
    assert "limbic-badge" not in observation(page, 6)


async def test_an_observation_in_many_pairs_names_some_and_counts_the_rest(
    dated: Path, make_datasette: Any
) -> None:
    write(dated, ("update observations set valid_from = null, valid_to = null", []))
    for later in range(2, 8):
        pair(dated, 1, later, "duplicate")
    page = (await get(make_datasette(dated), f"{base(dated)}/entity/1")).text
    part = observation(page, 1)
    assert part.count("duplicate of #") == 3
    assert "3 more like it" in text_of(part)
    assert links(part)[-1] == f"{base(dated)}/duplicates/1"


async def test_a_pair_of_an_ended_one_is_over(dated: Path, make_datasette: Any) -> None:
    pair(dated, 1, 2, "duplicate")  # 2 ended
    body = await get_json(make_datasette(dated), f"{base(dated)}/entity/1.json")
    assert [row["pairs"] for row in body["observations"]] == [[]] * len(DATED)


# -- the split, and what waits --------------------------------------------------------------------


async def test_the_kept_split_and_what_waits_in_the_queue(
    demo_db: Path, make_datasette: Any
) -> None:
    conn = connection.connect(demo_db)
    keeping.keep(conn)
    conn.close()
    [(number,)] = rows(demo_db, "select id from entities where name = 'Turia rollout'")
    write(
        demo_db,
        *[
            (
                "insert into limbic_insights(key, kind, entity_id, title, body, evidence,"
                " evidence_digest, status) values (?, ?, ?, ?, '', '{}', '', ?)",
                [f"k{i}", kind, number, title, status],
            )
            for i, (kind, title, status) in enumerate(
                [
                    *[("duplicate", f"Duplicate {i}", "pending") for i in range(6)],
                    ("split", "Split <Turia>", "pending"),
                    ("split", "Done", "approved"),
                ]
            )
        ],
    )
    only_root = {"tables": {"limbic_insights": {"allow": {"id": "root"}}}}
    datasette = make_datasette(demo_db, metadata={"databases": {demo_db.stem: only_root}})
    url = f"{base(demo_db)}/entity/{number}"
    hidden = await get_json(datasette, f"{url}.json")
    assert hidden["maintenance"]["waiting"] is None
    topics = hidden["maintenance"]["topics"]
    assert [topic["size"] for topic in topics] == [12, 11, 11]
    words = text_of((await get(datasette, url)).text)
    assert "Could be split into: " + " · ".join(f"{t['label']} ({t['size']})" for t in topics) in (
        words
    )
    assert "Duplicate 0" not in words
    page = (await get(datasette, url, cookies=as_actor(datasette, {"id": "root"}))).text
    assert "7 findings wait for a decision: Split &lt;Turia&gt; Duplicate 0" in text_of(page)
    assert "2 more" in text_of(page)
    assert f"{base(demo_db)}/review/7" in links(page)
    assert f"{base(demo_db)}/review?entity={number}" in links(page)
    # what another program left there stops no page
    for value in ("no json", "[1]", '[{"label": 5}]', '{"a": 1}', '[{"label": "x", "size": "y"}]'):
        write(demo_db, ("update limbic_topics set topics = ?", [value]))
        assert (await get_json(datasette, f"{url}.json"))["maintenance"]["topics"] == []
        assert (await get(datasette, url)).status_code == 200


# -- size -----------------------------------------------------------------------------------------

HOSTILE = "<script>alert(1)</script>\u202e\0" + "long " * 2_000


@pytest.fixture
def huge(empty_db: Path) -> Path:
    """An entity of 5,000 observations and 2,000 neighbours, one of one observation, one of none."""
    conn = connection.connect(empty_db)
    with conn:
        conn.executemany(
            "insert into entities(id, name, entity_type) values (?, ?, ?)",
            [(1, HOSTILE, HOSTILE), (2, "Small", "Tool"), (3, "\u202bשלום", "Tool")]
            + [
                (i, f"Neighbour {i} {HOSTILE if i % 100 == 0 else ''}", "Tool")
                for i in range(4, 2004)
            ],
        )
        conn.executemany(
            "insert into observations(id, entity_id, content, created_at) values (?, ?, ?, ?)",
            [
                (
                    i,
                    1,
                    HOSTILE if i % 10 == 0 else f"fact {i}",
                    f"20{i % 20 + 6:02}-01-{i % 28 + 1:02}",
                )
                for i in range(1, 5001)
            ]
            + [(5001, 2, "one", "2026-01-01")],
        )
        conn.executemany(
            "insert into relations(from_entity, to_entity, relation_type) values (?, ?, ?)",
            [(1, i, f"type {i % 7}") if i % 2 else (i, 1, HOSTILE) for i in range(4, 2004)],
        )
    conn.close()
    return empty_db


def statements(datasette: Any) -> list[str]:
    """The statements that connections to come will run, as they run them."""
    seen: list[str] = []
    prepare = datasette._prepare_connection

    def traced(conn: Any, database: str) -> None:
        prepare(conn, database)
        if database != "_internal":
            conn.set_trace_callback(seen.append)

    datasette._prepare_connection = traced
    return seen


async def test_a_huge_entity_is_a_small_page_of_as_many_statements_as_a_small_one(
    huge: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(huge)
    seen = statements(datasette)
    counts: dict[str, int] = {}
    for path in ("2", "3", "1", "1?page=2&relations_page=40", "1?as_of=2020-01-01", "1?page=999"):
        await get(datasette, f"{base(huge)}/entity/{path}")
        del seen[:]
        response = await get(datasette, f"{base(huge)}/entity/{path}")
        assert response.status_code == 200, response.text[-500:]
        # Datasette's own look at what tables there are is not ours to count
        counts[path] = sum("pragma" not in each.lower() and "_master" not in each for each in seen)
        assert len(response.content) < 95_000, path
        assert "<script>alert" not in response.text
        assert "\0" not in response.text
        assert len(re.findall(r'id="observation-', response.text)) <= OBSERVATIONS
        assert len(re.findall(r'id="relation-', response.text)) <= 2 * RELATIONS
    assert len(set(counts.values())) == 1, counts
    assert counts["1"] < 90, counts


async def test_pages_of_relations_hold_each_once_by_type(huge: Path, make_datasette: Any) -> None:
    datasette = make_datasette(huge)
    url = f"{base(huge)}/entity/1"
    body = await get_json(datasette, f"{url}.json")
    assert (body["relations_page"], body["relations_pages"]) == (1, 10)
    assert body["relation_types"]["out"][0]["count"] == 143
    # who goes through the pages of the longest list sees all of each list
    assert body["pages"] == 50
    found: dict[str, list[int]] = {"observations": [], "relations_out": [], "relations_in": []}
    for page in range(1, 12):
        body = await get_json(datasette, f"{url}.json?page={page}")
        assert body["relations_page"] == body["page"] == page
        for key, ids in found.items():
            assert len(body[key]) == (PAGE if page < 11 or key == "observations" else 0)
            ids += [row["id"] for row in body[key]]
    for key in ("relations_out", "relations_in"):
        assert len(found[key]) == len(set(found[key])) == 1000 == body["counts"][key]
    assert found["observations"] == list(range(1, 1101))
    body = await get_json(datasette, f"{url}.json?page=2&relations_page=3")
    assert body["relations_out"][0]["id"] == found["relations_out"][2 * PAGE]
    assert body["observations"][0]["id"] == found["observations"][PAGE]
    # a list of relations that is longer than that of the observations is counted too
    write(huge, ("delete from observations where entity_id = 1 and id > 120", []))
    assert (await get_json(datasette, f"{url}.json"))["pages"] == 10
    html = (await get(datasette, f"{url}?page=2")).text
    assert "?page=2&relations_page=2" in links(html)
    assert "?page=3" in links(html)
    assert len(re.findall(r'id="relation-', html)) == 2 * RELATIONS
    assert "<h4><bdi>type 0</bdi>" in html
    assert "type 1" in text_of(html.split('id="limbic-relations"')[1].split("<h4>")[0])
    beyond = text_of((await get(datasette, f"{url}?relations_page=41")).text)
    assert beyond.count("No more on this page.") == 2


async def test_of_many_rows_one_is_changed_at_a_time(huge: Path, make_datasette: Any) -> None:
    datasette = make_datasette(huge)
    root = {"cookies": as_actor(datasette, {"id": "root"})}
    if hasattr(datasette, "root_enabled"):
        datasette.root_enabled = True
    url = f"{base(huge)}/entity/1"
    page = (await get(datasette, url, **root)).text
    assert len(page.encode()) < 95_000
    assert "?change=observation-1#observation-1" in links(page)
    assert "/actions/correct" not in observation(page, 1)
    opened = (await get(datasette, f"{url}?change=observation-1&page=1", **root)).text
    part = observation(opened, 1)
    assert "<details" in part
    assert "/actions/correct" in part
    assert "/actions/correct" not in observation(opened, 2)
    # the past is not for changing
    dated = (await get(datasette, f"{url}?as_of=2020-01-01", **root)).text
    assert "/actions/" not in dated.replace("/actions/restore", "")


async def test_long_texts_are_cut_where_there_are_many(huge: Path, make_datasette: Any) -> None:
    datasette = make_datasette(huge)
    page = (await get(datasette, f"{base(huge)}/entity/1")).text
    assert f"/{huge.stem}/observations/10" in links(observation(page, 10))
    assert "more characters" in text_of(observation(page, 10))
    assert "more characters" not in text_of(observation(page, 11))
    write(huge, ("update observations set content = ? where id = 5001", ["w " * 5_000]))
    alone = (await get(datasette, f"{base(huge)}/entity/2")).text
    assert "w " * 5_000 in alone


async def test_the_timeline_of_the_page_is_told_in_words_and_as_a_table(
    huge: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(huge)
    url = f"{base(huge)}/entity/1"
    body = await get_json(datasette, f"{url}.json?now=2026-11-29")
    assert body["timeline"]["months"] == 12
    assert sum(each["observations"] for each in body["timeline"]["bins"]) == 5000
    page = (await get(datasette, f"{url}?now=2026-11-29")).text
    [drawn] = re.findall(r'<svg class="limbic-timeline".*?</svg>', page, re.S)
    assert 'role="img" aria-labelledby="limbic-time limbic-time-desc"' in drawn
    assert "From 2006 to 2026, year by year: 5,000 observations" in drawn
    table = page.split("The same as a table")[1].split("</table>")[0]
    assert len(re.findall("<tr>", table)) == 1 + 21 - [
        sum(each[k] for k in each if k != "start") for each in body["timeline"]["bins"]
    ].count(0)
    alone = text_of((await get(datasette, f"{base(huge)}/entity/3")).text)
    assert "Nothing of this entity has a time that can be shown." in alone
