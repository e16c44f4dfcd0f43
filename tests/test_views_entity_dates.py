"""The page of one entity: what held as of a date, marks in place, its parts, its size."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape
from view_helpers import as_actor, base, get, get_json, links, rows, text_of, write

from datasette_limbic import connection
from datasette_limbic.reports import keeping
from datasette_limbic.views.entity import OBSERVATIONS, RELATIONS

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
    assert "As of 2025-06-30 : 4 of 7 observations, 2 of 3 relations hold on that day." in words
    assert "Do not hold on that day 3 " in words
    assert '<input type="date" name="as_of" value="2025-06-30" required>' in page
    assert '<input type="hidden" name="now" value="2026-11-29">' in page
    held, apart = page.split("<h3>Do not hold on that day")
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
        assert len(response.content) < 110_000, path
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
    assert (body["relations_page"], body["relations_pages"]) == (1, 40)
    assert body["relation_types"]["out"][0]["count"] == 143
    found: list[int] = []
    for page in (1, 20, 40):
        body = await get_json(datasette, f"{url}.json?relations_page={page}")
        assert len(body["relations_out"]) == RELATIONS
        found += [row["id"] for row in body["relations_out"] + body["relations_in"]]
    assert len(found) == len(set(found)) == 6 * RELATIONS
    html = (await get(datasette, f"{url}?page=2")).text
    assert "?page=2&relations_page=2" in links(html)
    assert "?page=3" in links(html)
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
    assert len(page.encode()) < 130_000
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
