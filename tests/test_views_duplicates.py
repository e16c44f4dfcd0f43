"""Duplicates of one entity and of the whole memory as pages, and their JSON."""

from __future__ import annotations

import asyncio
import difflib
import re
import sys
import threading
from contextlib import closing, contextmanager
from functools import partial
from html import unescape

import pytest
from duplicates_helpers import LONGER, OTHER, SAME, kept, made, written
from embedding_helpers import blob, store
from view_helpers import ONE_POINT_ZERO, base, digest, get, get_json, links, text_of

from datasette_limbic import connection, schema
from datasette_limbic.duplicates import find_pairs
from datasette_limbic.reports import similar
from datasette_limbic.reports.queries import queries
from datasette_limbic.views import duplicates, duplicates_display, working
from datasette_limbic.views.duplicates_display import PAIR_STEPS, SHOWN, Budget, marked, scores

pytestmark = pytest.mark.slow  # the pages are no other on another Python

HOSTILE = "<script>alert(1)</script> & \"quoted\" 'text' said here"


@pytest.fixture(name="path")
def memory(tmp_path):
    return made(tmp_path / "memory.db")


async def page(datasette, url, status=200, **kwargs):
    response = await get(datasette, url, **kwargs)
    assert response.status_code == status, response.text[:500]
    return response.text


def section(html, anchor):
    """The part of a page below one of its headings."""
    found = re.search(
        rf'<section aria-labelledby="limbic-{anchor}">.*?</section>', html, flags=re.S
    )
    assert found, anchor
    return found[0]


# one entity ------------------------------------------------------------------------------------


async def test_one_entity(path, make_datasette):
    kept(path)
    before = digest(path)
    datasette = make_datasette(path)
    html = await page(datasette, f"{base(path)}/duplicates/1")
    words = text_of(html)
    assert "Duplicates of one" in words
    assert "4 observations as kept on " in words
    assert "Similarity was not computed:" in words
    duplicates = text_of(section(html, "pairs"))
    assert "The same text, but for case" in duplicates
    assert "meaning not compared: no vectors" in duplicates
    assert "100% of the shorter one's words are in the longer one" in unescape(duplicates)
    assert "similar" in duplicates
    assert "suggested to keep" in duplicates
    apart = section(html, "contradictions")
    assert "but they differ" in text_of(apart)
    assert "<mark>open</mark>" in apart
    assert "<mark>closed</mark>" in apart
    assert html.index("limbic-contradictions") < html.index('id="limbic-pairs"')
    assert html.index('id="limbic-pairs"') < html.index('id="limbic-look"')
    kept_one = text_of(section(html, "clusters"))
    assert "Observation 2 of 2 observations: the longest" in kept_one
    assert f"{base(path)}/entity/1#observation-2" in links(html)
    body = await get_json(datasette, f"{base(path)}/duplicates/1.json")
    assert body["counts"] == {"pairs": 1, "contradictions": 1, "worth_a_look": 0, "clusters": 1}
    assert [k for k in body if k.startswith("_")] == []
    assert body["pairs"][0]["later"]["similarity_flag"] == 1
    assert set(body["pairs"][0]["later"]) == {"id", "content", "created_at", "similarity_flag"}
    assert digest(path) == before


@pytest.mark.parametrize(
    ("entity", "words"),
    [(2, "This entity has one observation that holds now"), (3, "no observations that hold now")],
)
async def test_nothing_to_compare(path, make_datasette, entity, words):
    written(path, "insert into entities(id, name) values (3, 'empty')")
    html = await page(make_datasette(path), f"{base(path)}/duplicates/{entity}")
    assert words in text_of(html)
    assert "limbic-card" not in html


async def test_none_alike(path, make_datasette):
    written(path, f"insert into observations(entity_id, content) values (2, '{SAME}')")
    html = await page(make_datasette(path), f"{base(path)}/duplicates/2")
    assert "No two of them are alike by these thresholds" in text_of(html)


async def test_thresholds_of_the_form(path, make_datasette):
    with closing(connection.connect(path)) as conn:
        store(conn, "observations", {i: blob(1, i / 10) for i in (1, 2, 3, 4)})
        conn.execute("delete from limbic_stale")
        conn.execute(
            "insert into observations(id, entity_id, content) values (6, 1, ?)",
            [LONGER.replace(" runs", " was")],
        )
        conn.commit()
    datasette = make_datasette(path)
    html = await page(
        datasette,
        f"{base(path)}/duplicates/1?threshold=0.999&look=&containment_threshold=0.95",
    )
    fields = dict(re.findall(r'name="(\w+)" min="0" max="1" step="any" value="([\d.]+)"', html))
    assert fields == {"threshold": "0.999", "look": "0.75", "containment_threshold": "0.95"}
    assert "as set for this memory" in text_of(html)
    assert "Cosines are those of the model bag" in text_of(html)
    assert "Similarity was computed in part" in text_of(html)
    body = await get_json(datasette, f"{base(path)}/duplicates/1.json?containment_threshold=0.95")
    assert not [p for p in body["pairs"] if p["rule"] == "containment"]
    body = await get_json(datasette, f"{base(path)}/duplicates/1.json?containment_threshold=0.7")
    assert [p["later"]["id"] for p in body["pairs"] if p["rule"] == "containment"] == [6]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("threshold=2", "threshold is '2': use a number from 0 to 1"),
        ("threshold=nan", "threshold is 'nan'"),
        ("look=-1", "look is '-1'"),
        ("containment_threshold=half", "containment_threshold is 'half'"),
        ("page=0", "page is '0'"),
        ("page=x", "page is 'x'"),
    ],
)
async def test_bad_arguments(path, make_datasette, query, words):
    datasette = make_datasette(path)
    body = await get_json(datasette, f"{base(path)}/duplicates/1.json?{query}", 400)
    assert words in body["error"]
    html = await page(datasette, f"{base(path)}/duplicates/1?{query}", 400)
    assert words[1:] in unescape(text_of(html))
    assert "searched for" not in html


@pytest.mark.parametrize("entity", ["99", "one", "-1", "9" * 30, "~2Fx"])
async def test_unknown_entities(path, make_datasette, entity):
    body = await get_json(make_datasette(path), f"{base(path)}/duplicates/{entity}.json", 404)
    assert "search for" in body["error"]


async def test_hostile_text(path, make_datasette):
    with closing(connection.connect(path)) as conn:
        conn.execute("update entities set name = ?, entity_type = ? where id = 1", [HOSTILE] * 2)
        conn.execute("update observations set content = ? where id = 1", [HOSTILE])
        conn.execute("update observations set content = ? where id = 2", [HOSTILE + "!"])
        conn.execute("update observations set content = ? where id = 5", [HOSTILE])
        conn.execute("insert into entities(id, name) values (9, ?)", [HOSTILE.upper()])
        conn.commit()
    kept(path)
    datasette = make_datasette(path)
    for url in ("/duplicates/1", "/duplicates"):
        html = await page(datasette, base(path) + url)
        assert "<script>alert" not in html
        assert "&lt;script&gt;alert" in html


async def test_long_lists_turn(path, make_datasette):
    with closing(connection.connect(path)) as conn:
        conn.executemany(
            "insert into observations(entity_id, content) values (2, ?)", [(OTHER,)] * 120
        )
        conn.commit()
    kept(path)
    datasette = make_datasette(path)
    html = await page(datasette, f"{base(path)}/duplicates/2?threshold=0.9&page=2")
    assert html.count('class="limbic-card"') == 50
    assert "Page 2 of 3" in text_of(html)
    assert {"?threshold=0.9&page=1", "?threshold=0.9&page=3"} <= set(links(html))
    assert "No more on this page" in text_of(section(html, "pairs")) or "limbic-card" in html
    html = await page(datasette, f"{base(path)}/duplicates/2?page=9")
    assert "No more on this page" in text_of(section(html, "pairs"))
    assert "?page=3" in links(html)
    html = await page(datasette, f"{base(path)}/duplicates?kind=duplicate&page=2")
    assert "Page 2 of 3" in text_of(html)
    assert "?kind=duplicate&page=3" in links(html)
    html = await page(datasette, f"{base(path)}/duplicates/2")
    assert "and 100 more" in text_of(section(html, "clusters"))


# the whole memory ------------------------------------------------------------------------------


async def test_whole_memory(path, make_datasette):
    written(
        path,
        f"insert into observations(id, entity_id, content) values (6, 2, '{SAME}')",
        "insert into entities(id, name) values (3, 'ONE')",
    )
    kept(path)
    before = digest(path)
    datasette = make_datasette(path)
    html = await page(datasette, f"{base(path)}/duplicates")
    words = text_of(html)
    assert "Nothing changed since" in words
    assert "Without vectors: only words were compared" in words
    assert html.count('class="limbic-card"') == 2
    assert "but they differ" in words
    assert f"{base(path)}/duplicates/1" in links(html)
    across = text_of(section(html, "across"))
    assert SAME in across
    assert "in 2 entities" in across
    names = text_of(section(html, "names"))
    assert "one Thing, 4 observations" in names
    assert "ONE Generic, 0 observations" in names
    body = await get_json(datasette, f"{base(path)}/duplicates.json")
    assert body["counts"] == {"duplicate": 1, "contradiction": 1, "look": 0}
    assert body["kept"]["computed_at"]
    assert (body["across_entities"]["count"], body["name_clashes"]["count"]) == (1, 1)
    assert digest(path) == before


async def test_the_date_and_what_changed_since(path, make_datasette):
    datasette = make_datasette(path)
    url = f"{base(path)}/duplicates"
    assert "Not looked through yet" in text_of(await page(datasette, url))
    kept(path)
    assert "Nothing changed since" in text_of(await page(datasette, url))
    written(path, f"insert into observations(entity_id, content) values (1, '{OTHER}')")
    assert "1 entity changed since" in text_of(await page(datasette, url))
    written(path, f"insert into observations(entity_id, content) values (2, '{OTHER}')")
    assert "2 entities changed since" in text_of(await page(datasette, url))
    written(path, "update limbic_settings set value = '0.5' where key = 'containment_threshold'")
    assert "all of it is to be looked at again" in text_of(await page(datasette, url))
    # the page answers from what is kept: it compares nothing
    body = await get_json(datasette, url + ".json")
    assert body["counts"]["duplicate"] == 1


async def test_kinds(path, make_datasette):
    kept(path)
    datasette = make_datasette(path)
    url = f"{base(path)}/duplicates"
    html = await page(datasette, url + "?kind=contradiction")
    assert html.count('class="limbic-card"') == 1
    assert "open" in text_of(section(html, "pairs"))
    assert "All kinds" in text_of(html)
    html = await page(datasette, url + "?kind=look")
    assert "No pair of this kind" in text_of(html)
    body = await get_json(datasette, url + ".json?kind=exact", 400)
    assert body["error"].startswith("kind is 'exact'")
    written(path, "delete from observations")
    html = await page(datasette, url)
    assert "No two observations of an entity are alike" in text_of(html)


async def test_datasettes_own_table(path, make_datasette):
    kept(path)
    datasette = make_datasette(path)
    html = await page(datasette, f"{base(path)}/duplicates?kind=contradiction")
    (table,) = {x for x in links(html) if "limbic_similar_observations" in x}
    assert "kind=contradiction" in table
    rows = await get(datasette, table.replace("?", ".json?", 1) + "&_shape=array")
    assert [row["later_id"] for row in rows.json()] == [4]
    html = await page(datasette, f"{base(path)}/duplicates/1")
    (table,) = {x for x in links(html) if "limbic_similar_observations" in x}
    rows = await get(datasette, table.replace("?", ".json?", 1) + "&_shape=array")
    assert {row["later_id"] for row in rows.json()} == {2, 4}
    with closing(connection.connect(path)) as conn:
        conn.execute("drop view limbic_similar_observations")
        conn.commit()
    html = await page(datasette, f"{base(path)}/duplicates")
    assert "limbic_similar_observations" not in html
    assert html.count('class="limbic-card"') == 2


async def test_below_a_base_url(path, make_datasette):
    kept(path)
    datasette = make_datasette(path, settings={"base_url": "/data/"})
    for url in ("/duplicates", "/duplicates/1"):
        html = await page(datasette, f"{base(path)}{url}")
        own = [x for x in links(html) if "limbic" in x and not x.startswith("#")]
        assert own
        assert all(x.startswith("/data/memory") for x in own)
    assert f'action="/data{base(path)}/duplicates/1"' in html


@pytest.mark.parametrize("table", ["limbic_duplicates", "observations", "limbic_settings"])
async def test_who_may_not_see_a_table(path, make_datasette, table):
    kept(path)
    allowed = {"databases": {"memory": {"tables": {table: {"allow": {"id": "root"}}}}}}
    if ONE_POINT_ZERO:
        datasette = make_datasette(path)
        datasette.config = {**(datasette.config or {}), **allowed}
    else:
        datasette = make_datasette(path, metadata=allowed)
    for url in ("/duplicates", "/duplicates/1"):
        await get_json(datasette, f"{base(path)}{url}.json", 403)
        await page(datasette, f"{base(path)}{url}", 403)


async def test_a_file_of_before(path, make_datasette):
    """One that could not be brought up to date, since it is opened for reading alone."""
    with closing(connection.connect(path)) as conn:
        schema.drop_triggers(conn)
        for name in queries():
            conn.execute(f"drop view {name}")
        for name in ("limbic_duplicates", "limbic_reports", "limbic_report_pending"):
            conn.execute(f"drop table {name}")
        conn.execute("drop table _limbic_text_keys")
        conn.execute("insert into entities(name) values ('ONE')")
        conn.commit()
    datasette = make_datasette(immutables=[str(path)])
    html = await page(datasette, f"{base(path)}/duplicates")
    assert "No pairs are kept" in text_of(html)
    assert "ONE" in text_of(section(html, "names"))
    body = await get_json(datasette, f"{base(path)}/duplicates.json")
    assert (body["pairs"], body["counts"], body["name_clashes"]["count"]) == (None, None, 1)
    html = await page(datasette, f"{base(path)}/duplicates/1")
    assert html.count('class="limbic-card"') == 2


# marks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "marks"),
    [
        ("Lives in Lisbon", "lives in Madrid", (["Lisbon"], ["Madrid"])),
        ("same", "same", ([], [])),
        ("", "a b", ([], ["a b"])),
        ("a & b", "a < b", (["&amp;"], ["&lt;"])),
        ("El café", "el CAFE", ([], [])),
        ("🦆 swims", "🦉 swims", (["🦆"], ["🦉"])),
        ("on 3 May", "on 5 May", (["3"], ["5"])),
    ],
)
def test_marked(one, other, marks):
    first, second = marked(one, other)
    found = tuple(re.findall("<mark>(.*?)</mark>", str(x)) for x in (first, second))
    assert found == marks
    # the text itself stays what it was
    for text, html in ((one, first), (other, second)):
        assert unescape(re.sub("</?mark>", "", str(html))) == text


ONE_WORD_EACH = ("a b " * 30_000, "b a c " * 30_000)


@contextmanager
def lines_of_difflib(most):
    """Fails as soon as difflib runs more lines than that; several make a step of comparing."""
    ran = 0

    def line(frame, event, arg):
        nonlocal ran
        ran += event == "line"
        if ran > most:
            pytest.fail(f"difflib ran more than {most:,} lines")
        return line

    before = sys.gettrace()
    sys.settrace(lambda f, *_: line if f.f_code.co_filename == difflib.__file__ else None)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ONE_WORD_EACH,
        ("a " * 600, "a " * 599 + "b"),
        ("a " * 600, "b " + "a " * 599),
        ("x y z " * 200, "z y x " * 200),
        (", " * 640, ", . " * 320),
        (
            " ".join("abcdefgh"[i % 8] for i in range(600)),
            " ".join("hgfedcba"[i % 7] for i in range(600)),
        ),
        ("," * 1280, ".," * 640),
    ],
)
def test_the_work_of_marking_is_bounded(one, other):
    with lines_of_difflib(10 * PAIR_STEPS):
        first, second = marked(one, other)
    for text, html in ((one, first), (other, second)):
        shown = unescape(re.sub("</?mark>", "", str(html)))
        assert len(shown) == min(len(text), SHOWN)
        assert shown.startswith(text[: SHOWN - 1])


def test_beyond_the_bound_words_are_marked_that_stand_nowhere_in_the_other():
    one, other = "a b " * 150 + "Only here, b", "B A C " * 100
    first, second = marked(one, other)
    assert re.findall("<mark>(.*?)</mark>", str(first)) == ["Only here,"]
    assert re.findall("<mark>(.*?)</mark>", str(second)) == ["C"] * 100


def test_the_work_of_a_page_is_bounded_too(monkeypatch):
    pairs = [
        (
            {
                "earlier": {"content": ONE_WORD_EACH[0]},
                "later": {"content": ONE_WORD_EACH[1]},
                "rule": "cosine",
                "cosine": 0.9,
                "containment": 0.9,
            },
            "duplicate",
        )
        for _ in range(50)
    ]
    monkeypatch.setattr(duplicates_display, "Budget", partial(Budget, 3 * PAIR_STEPS))
    # a list of the places of each word is made for every pair: a few lines a word
    with lines_of_difflib(10 * 3 * PAIR_STEPS + 50 * 8 * SHOWN):
        duplicates_display.decorate(pairs)
    assert all("<mark>c</mark>" in pair["later"]["_text"] for pair, _ in pairs)


@pytest.mark.parametrize("name", ["entity", "duplicates", "memory"])
async def test_the_form_leads_to_its_own_page(tmp_path, make_datasette, name):
    path = made(tmp_path / f"{name}.db")
    html = await page(make_datasette(path), f"{base(path)}/duplicates/1")
    assert f'action="{base(path)}/duplicates/1"' in html


def test_what_a_pair_did_not_need_is_left_for_the_next():
    budget = Budget(1000)
    for _ in range(100):
        first, _ = marked("it runs on port 8080", "it runs on port 9090", budget)
        assert str(first) == "it runs on port <mark>8080</mark>"
        if budget.left < 100:
            break
    else:
        pytest.fail("nothing was counted")
    assert budget.left > 0


@pytest.mark.parametrize("url", ["/duplicates/1", "/duplicates"])
async def test_texts_are_compared_beside_the_event_loop(path, make_datasette, monkeypatch, url):
    kept(path)
    threads = []

    def watched(*args):
        threads.append(threading.current_thread())
        return marked(*args)

    monkeypatch.setattr(duplicates_display, "marked", watched)
    await page(make_datasette(path), f"{base(path)}{url}")
    assert threads
    assert threading.current_thread() not in threads


@pytest.mark.parametrize(
    ("cosine", "containment", "words"),
    [
        (0.91234, 0.5, ["cosine 0.912", "50% of the shorter one's words are in the longer one"]),
        (None, None, ["meaning not compared: no vectors", "no words to compare"]),
    ],
)
def test_scores(cosine, containment, words):
    assert scores({"cosine": cosine, "containment": containment}) == words


# compared in turn -------------------------------------------------------------------------------


@pytest.fixture(name="comparing")
def watched_comparing(monkeypatch):
    """Names of the threads that compared; few texts are many."""
    threads = []

    def watched(*args, **options):
        threads.append(threading.current_thread().name)
        return find_pairs(*args, **options)

    monkeypatch.setattr(similar, "find_pairs", watched)
    monkeypatch.setattr(duplicates, "FEW", 0)
    monkeypatch.setattr(duplicates, "WORKER", working.Worker("one-worker", waiting=1))
    return threads


async def test_what_is_kept_is_not_compared(path, make_datasette, comparing):
    kept(path)
    datasette = make_datasette(path)
    body = await get_json(datasette, f"{base(path)}/duplicates/1.json")
    assert body["kept"]["computed_at"]
    assert body["counts"]["pairs"] == 1
    html = await page(datasette, f"{base(path)}/duplicates/1")
    looked = body["kept"]["computed_at"][:19]
    assert f"as kept on {looked} UTC , nothing has changed since" in text_of(html)
    assert comparing == []


async def test_a_comparison_is_made_once_and_beside_everything_else(
    path, make_datasette, comparing
):
    datasette = make_datasette(path)
    url = f"{base(path)}/duplicates/1"
    found = [await get_json(datasette, f"{url}.json{more}") for more in ("", "?page=2")]
    assert [body["kept"] for body in found] == [None, None]
    assert found[0]["counts"] == found[1]["counts"]
    assert "compared just now" in text_of(await page(datasette, url))
    assert len(comparing) == 1
    assert comparing[0].startswith("one-worker")
    # another comparison: of other thresholds, of other texts
    await get_json(datasette, f"{url}.json?threshold=0.5")
    assert len(comparing) == 2
    written(path, "update observations set content = 'Status: lost' where id = 3")
    body = await get_json(datasette, f"{url}.json")
    assert body["contradictions"][0]["difference"] == "status: lost / closed"
    assert len(comparing) == 3


async def test_too_many_comparisons_are_refused_and_others_answered(
    path, make_datasette, monkeypatch, comparing
):
    go_on, began = threading.Event(), threading.Event()

    def slow(*args):
        began.set()
        assert go_on.wait(20)
        return similar.compare(*args)

    monkeypatch.setattr(duplicates, "compare", slow)
    datasette = make_datasette(path)
    await datasette.invoke_startup()
    url = f"{base(path)}/duplicates/1.json"
    first = asyncio.ensure_future(get_json(datasette, url))
    try:
        assert await asyncio.to_thread(began.wait, 20)
        body = await get_json(datasette, f"{url}?threshold=0.5", 503)
        assert "try again" in body["error"]
        await get_json(datasette, f"{base(path)}/duplicates.json")
        assert not first.done()
    finally:
        go_on.set()
    assert (await asyncio.wait_for(first, 20))["counts"]["pairs"] == 1
