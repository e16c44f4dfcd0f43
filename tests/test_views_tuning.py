"""The tuning page: what it shows, who may see and change it, and that it computes things once."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import threading
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from datasette.database import Database
from datasette.utils.sqlite import sqlite3
from empty_memory import empty_memory
from forms_helpers import forms, one, press
from review_helpers import look, send
from test_views_observations import editing_datasette
from view_helpers import (
    AGENT,
    ONE_POINT_ZERO,
    as_actor,
    base,
    digest,
    get,
    get_json,
    links,
    post,
    post_json,
    rows,
    text_of,
    write,
)

from benchmarks.scenario import Scenario
from benchmarks.simulator import simulate
from benchmarks.simulator import write as write_log
from datasette_limbic import connection, permissions
from datasette_limbic.tuning import report as reports
from datasette_limbic.tuning import state, versions
from datasette_limbic.tuning.ranges import parse_range
from datasette_limbic.views import apart, retuning, working

pytestmark = pytest.mark.slow  # the pages are no other on another Python

# four pairs: the grid is worked out in no time
RANGES = {"beta_sal_range": "0.5,1.5", "gamma_range": "0.01,0.1"}
SMALL = "?beta_sal_range=0.5,1.5&gamma_range=0.01,0.1"
OPTIONS = reports.Options(
    beta_sal=parse_range("beta_sal_range", "0.5,1.5"), gamma=parse_range("gamma_range", "0.01,0.1")
)
SIGNAL = Scenario(
    searches=700,
    candidates=20,
    days=20,
    baseline_share=0.5,
    taste=0.1,
    noise=0.0,
    opens=1.0,
    beta_true=6,
    gamma_true=1,
)
SCRIPT = "<script>alert(1)</script>"
ODD = [SCRIPT, "\u202eabc", '"><img src=x onerror=alert(1)>', "long " * 400, "a\0b"]


def memory(path: Path, scenario: Scenario, seed: int = 1) -> Path:
    empty_memory(path)
    with closing(connection.connect(path)) as conn:
        write_log(conn, simulate(scenario, seed))
    return path


@pytest.fixture(scope="module")
def signal_master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log from which a proposal comes: far better values, and chance chose the order."""
    return memory(tmp_path_factory.mktemp("tuning") / "memory.db", SIGNAL, 4)


@pytest.fixture
def signal(signal_master: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(signal_master, tmp_path / "memory.db"))


@pytest.fixture(scope="module")
def seen(signal_master: Path) -> dict[str, Any]:
    """What a person who looks at its page agrees to."""
    with closing(connection.connect(signal_master, readonly=True)) as conn:
        target = reports.work(conn, options=OPTIONS).proposal.target
    assert target is not None, "this log is there for its proposal"
    return {"beta_sal": target[0], "gamma": target[1], "version": 0, **RANGES}


def step(seen: dict[str, Any]) -> tuple[float, float]:
    """What is in force once that was applied: 90 % of the constants and 10 % of it."""
    return 0.45 + 0.1 * seen["beta_sal"], 0.009 + 0.1 * seen["gamma"]


@pytest.fixture
def few(tmp_path: Path) -> Path:
    return memory(tmp_path / "few.db", Scenario(searches=23), 5)


def page(path: Path, query: str = SMALL) -> str:
    return f"{base(path)}/tuning{query}"


def call(path: Path, name: str) -> str:
    return f"{base(path)}/tuning/{name}"


def in_force(path: Path) -> tuple[int, float, float]:
    with closing(connection.connect(path, readonly=True)) as conn:
        now = versions.in_force(conn)
    return now.version, now.beta_sal, now.gamma


# the page -----------------------------------------------------------------------------------


async def test_the_twin_is_the_report(signal: Path, make_datasette: Any) -> None:
    datasette = make_datasette(signal)
    body = await get_json(datasette, page(signal, f".json{SMALL}&k=5"))
    with closing(connection.connect(signal, readonly=True)) as conn:
        expected = reports.report(conn, options=reports.Options(5, OPTIONS.beta_sal, OPTIONS.gamma))
    del body["ok"]
    assert body == json.loads(json.dumps(expected))
    assert body["k"] == 5
    assert body["proposal"]["proposed"] is True


async def test_a_proposal_with_what_applying_does(
    signal: Path, seen: dict[str, Any], make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, signal)
    html = await look(datasette, page(signal))
    body = await get_json(datasette, page(signal, f".json{SMALL}"))
    words = text_of(html)
    gain = body["proposal"]["gain"]
    beta_sal, gamma = step(seen)
    assert f"beta_sal 0.5 {seen['beta_sal']:.4g} {beta_sal:.4g}" in words
    assert f"gamma 0.01 {seen['gamma']:.4g} {gamma:.4g}" in words
    assert f"{gain['value']:+.4f} ({gain['low']:+.4f} to {gain['high']:+.4f})" in words
    assert "Applying moves 10 % of the way" in words
    assert "Unbiased" in words
    form = one(html, "/tuning/apply")
    given = {c.name: c.value for c in form.controls}
    assert given.pop("csrftoken") or ONE_POINT_ZERO
    assert given == {
        **RANGES,
        "beta_sal": str(seen["beta_sal"]),
        "gamma": str(seen["gamma"]),
        "version": "0",
        "until": str(body["proposal"]["until"]),
    }
    # counts, groups and who would gain
    assert f"Searches {body['counts']['searches']:,}" in words
    assert words.count("Base similarity alone") >= 2
    assert all(week["week"] in words for week in body["weeks"])
    assert all(row["query"] in words for row in body["movers"]["gain"])
    first = body["movers"]["gain"][0]
    used = first["relevant"][0]
    assert f"{first['before']:.3f} → {first['after']:.3f}" in words
    assert f"{used['rank_before']} → {used['rank_after']}" in words
    found = links(html)
    assert f"{base(signal)}/search?q={first['query'].replace(' ', '+')}" in found
    assert f"{base(signal)}/entity/{used['id']}" in found
    # the grid: a picture, and the same as a table
    assert html.count('<svg class="limbic-heat" viewBox') == 1
    for line in body["grid"]["ndcg"]:
        for value in line:
            assert f"{value:.4f}" in words


async def test_an_honest_no_has_figure_and_bound(few: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, few)
    html = await look(datasette, page(few))
    words = text_of(html)
    assert "Nothing is proposed. Only 23 events, at least 50 needed" in words
    assert "23 of 50" in words
    assert 'aria-label="46 % of what is needed"' in html
    # nothing was estimated, so nothing is biased
    assert "Biased" not in words
    assert forms(html, "/tuning/apply") == []
    assert "Other parameters would rank better" not in words
    body = {"beta_sal": 1.5, "gamma": 0.1, "version": 0}
    assert "23 events" in (await post_json(datasette, call(few, "apply"), body, 409))["error"]
    assert in_force(few)[0] == 0


async def test_nothing_moves_where_nothing_is_better(signal: Path, make_datasette: Any) -> None:
    datasette = make_datasette(signal)
    lower = "?beta_sal_range=0.4,0.5&gamma_range=0.009,0.01"
    words = text_of((await get(datasette, page(signal, lower))).text)
    assert "No other pair of these ranges does better" in words
    assert "Would gain most" not in words
    alone = page(signal, ".json?beta_sal_range=0.5&gamma_range=0.01")
    assert "nothing to compare with" in (await get_json(datasette, alone, 400))["error"]


async def test_an_empty_log_says_how_to_fill_it(empty_db: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, empty_db)
    words = text_of(await look(datasette, page(empty_db, "")))
    assert "No search has been recorded yet" in words
    for needed in ("/-/limbic/search", "/-/limbic/open", "/-/limbic/feedback", "baseline_share"):
        assert needed in words
    assert "NDCG@10 by parameters" not in words
    assert "Set by hand" in words
    body = await get_json(datasette, page(empty_db, ".json"))
    assert body["counts"]["searches"] == 0
    assert body["grid"] is body["movers"] is None


BAD = [
    ("k=0", "k is '0': use a whole number from 1 to 100"),
    ("k=101", "k is '101'"),
    ("k=many", "k is 'many'"),
    ("k=1.5", "k is '1.5'"),
    ("gamma_range=x", "a value of gamma_range is 'x'"),
    ("gamma_range=-1", "a value of gamma_range is '-1'"),
    ("beta_sal_range=0:1", "beta_sal_range is '0:1'"),
    ("beta_sal_range=1,,2", "beta_sal_range is '1,,2' and lacks a value"),
    ("gamma_range=nan", "a value of gamma_range is 'nan'"),
    ("gamma_range=0.001:1:21&beta_sal_range=0.1:1:20", "20 by 21 values: use at most 400 pairs"),
    ("gama_range=1", "unknown argument gama_range"),
]


@pytest.mark.parametrize(("query", "said"), BAD)
async def test_arguments_that_are_wrong(
    query: str, said: str, few: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(few)
    assert said in (await get_json(datasette, page(few, f".json?{query}"), 400))["error"]
    response = await get(datasette, page(few, f"?{query}"))
    assert response.status_code == 400
    assert said.replace("'", "&#39;") in response.text


async def test_empty_fields_are_the_defaults(few: Path, make_datasette: Any) -> None:
    datasette = make_datasette(few)
    given = await get_json(datasette, page(few, ".json?k=&gamma_range=&beta_sal_range="))
    assert given == await get_json(datasette, page(few, ".json"))
    assert given["k"] == 10
    assert len(given["ranges"]["gamma"]) == 12


async def test_no_memory_and_no_database(tmp_path: Path, make_datasette: Any) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("create table t (a)")
    datasette = make_datasette(path)
    await get_json(datasette, page(path, ".json"), 404)
    await get_json(datasette, "/none/-/limbic/tuning.json", 404)


async def test_a_log_that_cannot_be_read_is_told_from_none(few: Path, make_datasette: Any) -> None:
    write(
        few,
        ("update limbic_searches set query = '' where id <= 3", []),
        ("update limbic_search_candidates set base = 'x' where search_id = 4", []),
    )
    words = text_of((await get(make_datasette(few), page(few))).text)
    assert re.search(r"Left out: 3 without a query, 1 with missing, unreadable", words)


# who may --------------------------------------------------------------------------------------


# the page shows queries, who asked, what was found and used, and who changed what
SHOWN = [
    *("limbic_searches", "limbic_search_candidates", "limbic_feedback", "limbic_parameters"),
    "entities",
]


@pytest.mark.parametrize("table", SHOWN)
async def test_each_table_is_needed(table: str, few: Path, make_datasette: Any) -> None:
    only_root = {"databases": {few.stem: {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = make_datasette(few, metadata=only_root)
    assert table in (await get_json(datasette, page(few, ".json"), 403))["error"]
    for name in retuning.BODIES:
        assert table in (await post_json(datasette, call(few, name), {}, 403))["error"]
    assert f"{base(few)}/tuning" not in links((await get(datasette, f"{base(few)}/imports")).text)


async def test_buttons_are_for_who_may_edit(signal: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, signal)
    with closing(connection.connect(signal)) as conn:
        versions.set_manual(conn, gamma=0.2)
    before = digest(signal)
    html = await look(datasette, page(signal), actor={"id": "other"})
    assert forms(html, "/apply") + forms(html, "/set") + forms(html, "/rollback") == []
    assert "this needs the permission limbic-edit" in text_of(html)
    for name in retuning.BODIES:
        body = await post_json(
            datasette, call(signal, name), {"gamma": 0.3}, 403, actor={"id": "other"}
        )
        assert permissions.EDIT in body["error"]
    assert digest(signal) == before
    html = await look(datasette, page(signal))
    assert len(forms(html, "/set")) == 1
    assert [f.value("to") for f in forms(html, "/rollback")] == ["0", "0"]


@pytest.mark.parametrize("name", retuning.BODIES)
async def test_what_cannot_be_written_keeps_its_page(
    name: str, signal: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, immutables=[str(signal)])
    html = await look(datasette, page(signal))
    assert "the database was opened as immutable" in text_of(html)
    assert "Other parameters would rank better" in html
    assert forms(html, f"/tuning/{name}") == []
    assert "immutable" in (await post_json(datasette, call(signal, name), {}, 409))["error"]


async def test_a_memory_that_is_no_file(signal: Path, make_datasette: Any) -> None:
    datasette = make_datasette(memory=True)
    db = Database(datasette, memory_name="in_memory")
    datasette.add_database(db, name="in_memory")
    await datasette.invoke_startup()

    def fill(conn: Any) -> None:
        with closing(sqlite3.connect(signal)) as source:
            source.backup(conn)

    await db.execute_write_fn(fill, **({"transaction": False} if ONE_POINT_ZERO else {}))
    body = await get_json(datasette, f"/in_memory/-/limbic/tuning.json{SMALL}")
    assert body["proposal"]["proposed"] is True
    db.close()


@pytest.mark.parametrize("name", retuning.BODIES)
async def test_get_is_no_way_to_change(name: str, few: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, few)
    for url in (call(few, name), f"{call(few, name)}.json"):
        response = await get(datasette, url, cookies=as_actor(datasette, AGENT))
        assert response.status_code == 405
        assert response.headers["allow"] == "POST"


# changing --------------------------------------------------------------------------------------


async def test_applied_and_in_force_from_the_next_search_on(
    signal: Path, seen: dict[str, Any], make_datasette: Any
) -> None:
    """A server that runs takes the new version, and the same log is not applied twice."""
    datasette = editing_datasette(make_datasette, signal)
    search = f"{base(signal)}/search.json?q=Simulated&mode=text&limit=1"
    before = (await get_json(datasette, search))["parameters"]
    assert (before["beta_sal"], before["gamma"]) == (0.5, 0.01)
    body = await post_json(datasette, call(signal, "apply"), {**seen, "until": 700})
    now = body["in_force"]
    assert (now["version"], now["source"]) == (1, "tuned")
    assert (now["beta_sal"], now["gamma"]) == pytest.approx(step(seen))
    assert body["from"] == {"version": 0, "beta_sal": 0.5, "gamma": 0.01}
    after = (await get_json(datasette, search))["parameters"]
    assert (after["beta_sal"], after["gamma"]) == (now["beta_sal"], now["gamma"])
    [(evidence, actor)] = rows(signal, "select evidence, applied_by from limbic_parameters")
    assert actor == AGENT["id"]
    assert json.loads(evidence)["gain"]["low"] > 0

    again = await post_json(datasette, call(signal, "apply"), seen, 409)
    assert "version 0 was in force when this was looked at" in again["error"]
    again = await post_json(datasette, call(signal, "apply"), {**seen, "version": 1}, 409)
    assert "nothing was changed" in again["error"]
    words = text_of(await look(datasette, page(signal)))
    assert "Nothing is proposed" in words
    assert "In force version 1" in words
    assert "From the log, since" in words


@pytest.mark.parametrize(
    ("changed", "status", "said"),
    [
        ({"beta_sal": 1.4}, 409, "was proposed when this was looked at, and now it is"),
        ({"version": 3}, 409, "version 3 was in force when this was looked at"),
        ({"until": 20}, 409, "events, at least 50 needed"),
        ({"beta_sal": None}, 400, "beta_sal is not given"),
        ({"gamma": None, "version": None}, 400, "gamma and version are not given"),
        ({"gamma": "much"}, 400, "gamma is 'much': use a number from 0 to 10"),
        ({"gamma": 11}, 400, "gamma is 11"),
        ({"version": -1}, 400, "version is -1"),
        ({"version": True}, 400, "version is True"),
        ({"until": 10**30}, 400, "until is 1000"),
        ({"k": "x"}, 400, "k is 'x'"),
        ({"gamma_range": [1]}, 400, "gamma_range is [1]"),
        ({"now": 1}, 400, "unknown key now"),
    ],
)
async def test_what_is_not_applied(
    changed: dict[str, Any],
    status: int,
    said: str,
    signal: Path,
    seen: dict[str, Any],
    make_datasette: Any,
) -> None:
    datasette = editing_datasette(make_datasette, signal)
    before = digest(signal)
    body = await post_json(datasette, call(signal, "apply"), {**seen, **changed}, status)
    assert said in body["error"]
    assert digest(signal) == before


async def test_set_by_hand_and_back(few: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, few)
    body = await post_json(datasette, call(few, "set"), {"gamma": 0.11, "version": 0})
    assert body["in_force"] == {
        "version": 1, "beta_sal": 0.5, "gamma": pytest.approx(0.02), "source": "manual"
    }  # fmt: skip
    await post_json(datasette, call(few, "set"), {"beta_sal": 1.5, "gamma": 1})
    body = await post_json(datasette, call(few, "rollback"), {"version": 2})
    assert body["in_force"]["version"] == 3
    assert body["in_force"]["gamma"] == pytest.approx(0.02)
    assert body["from"]["version"] == 2
    body = await post_json(datasette, call(few, "rollback"), {"to": 0})
    assert (body["in_force"]["beta_sal"], body["in_force"]["gamma"]) == (0.5, 0.01)
    history = (await get_json(datasette, page(few, ".json")))["history"]
    assert [row["source"] for row in history] == ["rollback", "rollback", "manual", "manual"]


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        ("set", {}, 400, "neither beta_sal nor gamma is given"),
        ("set", {"gamma": 0.01}, 409, "is in force already"),
        ("set", {"gamma": "NaN"}, 400, "gamma is 'NaN'"),
        ("set", {"gamma": 0.2, "version": 7}, 409, "version 7 was in force"),
        ("set", {"gamma": 0.2, "k": 5}, 400, "unknown key k"),
        ("rollback", {}, 409, "there is nothing before it"),
        ("rollback", {"to": 9}, 400, "to is 9"),
        ("rollback", {"to": "last"}, 400, "to is 'last'"),
        ("rollback", {"version": 1}, 409, "version 1 was in force"),
    ],
)
async def test_what_is_not_set(
    name: str, body: Any, status: int, said: str, few: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, few)
    found = await post_json(datasette, call(few, name), body, status)
    assert said in found["error"]
    assert in_force(few)[0] == 0


async def test_bodies_are_json_or_our_forms(
    few: Path, make_datasette: Any, menus_for_all: None
) -> None:
    datasette = editing_datasette(make_datasette, few)
    for body, kind in (("gamma=1", "text/plain"), ("[1]", "application/json"), ("", None)):
        response = await post(datasette, call(few, "set"), body, kind=kind)
        assert response.status_code in (400, 403), kind  # Datasette itself refuses some
    headers = {"sec-fetch-site": "cross-site"}
    response = await post(datasette, call(few, "set"), {"gamma": 1}, headers=headers)
    assert response.status_code == 403
    assert in_force(few)[0] == 0


async def test_by_forms_with_a_notice(
    signal: Path, seen: dict[str, Any], make_datasette: Any
) -> None:
    """As a person does it: apply, set by hand, one step back, back to a row of the history."""
    datasette = editing_datasette(make_datasette, signal)

    async def pressed(html: str, action: str, label: str, version: int, index: int = 0) -> str:
        response = await press(datasette, forms(html, action)[index], label)
        assert response.status_code == 303, response.text[:500]
        to = urlsplit(response.headers["location"])
        assert to.path == page(signal, "")
        kept = {name: [value] for name, value in RANGES.items()}
        assert parse_qs(to.query) == {**kept, "done": [str(version)]}
        html = await look(datasette, response.headers["location"])
        assert f"Version {version} is in force" in text_of(html)
        return html

    html = await pressed(await look(datasette, page(signal)), "/apply", "Apply this", 1)
    beta_sal, gamma = step(seen)
    said = f"from the log: beta_sal {beta_sal:.4g}, gamma {gamma:.4g}; before it beta_sal 0.5, "
    assert said in text_of(html)
    form = one(html, "/set").fill(gamma="0.219")
    assert form.value("beta_sal") == ""
    response = await press(datasette, form, "Set")
    html = await look(datasette, response.headers["location"])
    by_hand = pytest.approx((beta_sal, 0.9 * gamma + 0.0219))
    assert in_force(signal)[1:] == by_hand
    assert "towards gamma 0.219" in text_of(html)
    html = await pressed(html, "/rollback", "Roll back to version 1", 3)
    assert in_force(signal)[1:] == pytest.approx(step(seen))
    backs = [form.value("to") for form in forms(html, "/rollback")]
    assert backs == ["0", "2", "0"]  # one step back, then the rows that are not in force
    await pressed(html, "/rollback", "Back to this", 4, 1)
    assert in_force(signal)[1:] == by_hand
    # what the URL says of another version is not believed
    html = await look(datasette, page(signal, f"{SMALL}&done=99"))
    assert 'role="status"' not in html


async def test_a_form_that_is_out_of_date_shows_what_is_there(
    signal: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, signal)
    html = await look(datasette, page(signal))
    await post_json(datasette, call(signal, "set"), {"gamma": 0.2})
    for action, label in (("/apply", "Apply this"), ("/set", "Set")):
        form = one(html, action)
        if action == "/set":
            form.fill(gamma="0.3")
        response = await press(datasette, form, label)
        assert response.status_code == 409
        assert 'role="alert"' in response.text
        words = text_of(response.text)
        assert "Not done. Nothing was changed: version 0 was in force" in words
        assert "In force version 1" in words
    response = await press(datasette, one(await look(datasette, page(signal)), "/set"), "Set")
    assert response.status_code == 400
    assert "Neither beta_sal nor gamma is given" in text_of(response.text)


async def test_the_page_after_a_refusal_is_the_one_that_was_asked_for(
    signal: Path, make_datasette: Any
) -> None:
    """Its forms and links are for the ranges that it shows, and so work."""
    datasette = editing_datasette(make_datasette, signal)
    asked = f"{SMALL}&k=5"
    html = await look(datasette, page(signal, asked))
    await post_json(datasette, call(signal, "set"), {"gamma": 0.2})
    again = await press(datasette, one(html, "/apply"), "Apply this")
    assert again.status_code == 409
    expected = await look(datasette, page(signal, asked))
    for action in ("/apply", "/set", "/rollback"):
        assert forms(again.text, action), action
        for found, there in zip(forms(again.text, action), forms(expected, action), strict=True):
            values = [{c.name: c.value for c in each.controls} for each in (found, there)]
            for each in values:
                each.pop("csrftoken")
            assert values[0] == values[1]
            assert values[0]["k"] == "5"
    assert "Back to the usual ranges" in again.text
    assert one(again.text, "/tuning").value("gamma_range") == RANGES["gamma_range"]
    [twin] = [link for link in links(again.text) if ".json" in link]
    assert twin in links(expected)
    assert (await get_json(datasette, twin))["k"] == 5
    done = await press(datasette, one(again.text, "/apply"), "Apply this")
    assert done.status_code == 303
    assert in_force(signal)[0] == 2
    assert parse_qs(urlsplit(done.headers["location"]).query)["k"] == ["5"]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("set", {"gamma": "0.4", "k": "x"}),
        ("set", {"gamma": "0.4", "beta_sal_range": "-1"}),
        ("rollback", {"to": "0", "k": "101"}),
        ("rollback", {"to": "0", "gamma_range": "0.1:1:500"}),
        ("apply", {"beta_sal": "1", "gamma": "1", "version": "1", "k": "0"}),
    ],
)
async def test_nothing_is_written_where_the_page_cannot_be_shown(
    name: str, fields: dict[str, str], few: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, few)
    await post_json(datasette, call(few, "set"), {"gamma": 0.2})
    before = digest(few)
    response = await send(datasette, call(few, name), fields)
    assert response.status_code == 400
    assert "Not done." in text_of(response.text)
    assert digest(few) == before
    [form] = forms(response.text, "/set")  # as usual, not with what was wrong
    assert form.names().isdisjoint({"k", *RANGES})


async def test_back_to_what_the_ranges_hold_alone(few: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, few)
    await post_json(datasette, call(few, "set"), {"gamma": 0.2})
    html = await look(datasette, page(few, "?beta_sal_range=0.5&gamma_range=0.01"))
    back = await press(datasette, forms(html, "/rollback")[0], "Roll back to version 0")
    assert back.status_code == 303
    assert "Version 2 is in force" in text_of(await look(datasette, back.headers["location"]))


async def test_versions_beyond_what_a_float_tells_apart(few: Path, make_datasette: Any) -> None:
    first = (1 << 53) + 1
    write(
        few,
        (
            "insert into limbic_parameters(version, beta_sal, gamma, source)"
            " values (?, 0.6, 0.02, 'manual'), (?, 0.7, 0.02, 'manual')",
            [first, first + 2],
        ),
    )
    datasette = editing_datasette(make_datasette, few)
    html = await look(datasette, page(few))
    done = await press(datasette, one(html, "/set").fill(gamma="0.3"), "Set")
    assert (done.status_code, in_force(few)[0]) == (303, first + 3)
    html = await look(datasette, done.headers["location"])
    [form] = [each for each in forms(html, "/rollback") if each.value("to") == str(first)]
    done = await press(datasette, form, "Back to this")
    assert (done.status_code, in_force(few)) == (303, (first + 4, 0.6, 0.02))
    body = await post_json(datasette, call(few, "rollback"), {"to": str(first + 2)})
    assert body["in_force"]["beta_sal"] == 0.7


@pytest.mark.parametrize(
    "value", ["9" * 4000, "9" * 20, str(1 << 63), "1.5", "-1", "1_0", "\u0661"]
)
async def test_what_is_no_version(value: str, few: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, few)
    found = await post_json(datasette, call(few, "rollback"), {"to": value}, 400)
    assert f"to is {value!r:.20}" in found["error"]


async def test_a_notice_is_of_the_page_and_of_what_is_in_force(
    few: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, few)
    for gamma in (0.2, 0.3):
        await post_json(datasette, call(few, "set"), {"gamma": gamma})
    html = await look(datasette, page(few, f"{SMALL}&done=2"))
    assert "Version 2 is in force" in text_of(html)
    [twin] = [link for link in links(html) if ".json" in link]
    assert "done" not in twin
    assert (await get(datasette, twin)).status_code == 200
    for old in ("1", "0", "02", "99", "x"):
        assert 'role="status"' not in await look(datasette, page(few, f"{SMALL}&done={old}"))
    refused = await get_json(datasette, page(few, ".json?done=2"), 400)
    assert "unknown argument done" in refused["error"]
    assert "takes k, beta_sal_range, gamma_range" in refused["error"]
    html = (await get(datasette, page(few, "?gama=1"))).text
    assert "this page takes k, beta_sal_range, gamma_range" in html
    assert "done" not in text_of(html).split("this page takes")[1][:60]


async def test_landmarks_are_told_apart(signal: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, signal)
    await post_json(datasette, call(signal, "set"), {"gamma": 0.2})
    html = (await look(datasette, page(signal))).split("<h1")[1]
    names = []
    for tag, attributes in re.findall(r"<(section|div|svg)\b([^>]*)>", html):
        given = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
        if tag == "section" or given.get("role") in ("region", "img"):
            name = given.get("aria-label")
            if name is None:
                [name] = re.findall(rf'id="{given["aria-labelledby"]}">(.*?)</h', html)
            names.append(text_of(name).strip())
    assert len(names) > 12
    assert len(set(names)) == len(names)
    assert all(names)


# words ----------------------------------------------------------------------------------------


async def test_figures_say_what_they_count(signal: Path, make_datasette: Any) -> None:
    datasette = make_datasette(signal)
    words = text_of((await get(datasette, page(signal))).text)
    body = await get_json(datasette, page(signal, f".json{SMALL}"))
    proposal, counts = body["proposal"], body["counts"]
    mine = proposal["counts"]
    assert f"{counts['client_days']:,} days of clients" in words
    assert f"Distinct queries {counts['queries']:,} of all searches" in words
    assert f"Usable searches with a used result {proposal['labelled']:,}" in words
    assert f"Distinct queries of these {mine['queries']:,}" in words
    aside = proposal["labelled"] - mine["train_searches"] - mine["holdout_searches"]
    assert aside > 0, "this log has queries that were asked early and late"
    assert f"which choose {mine['train_searches']:,}" in words
    assert f"which decide {mine['holdout_searches']:,}" in words
    assert f"Set aside, since their query stands on the other side {aside:,}" in words
    assert f"many of the usable ones {100 * proposal['coverage']:.0f} %" in words
    assert f"tell as much as {proposal['effective_sample']:,.0f} equal ones" in words
    assert "0.5, less what chance brings, where the same client opened it by name within" in words


async def test_labels_that_do_not_count_are_said(signal: Path, make_datasette: Any) -> None:
    datasette = make_datasette(signal)
    body = await get_json(datasette, page(signal, f".json{SMALL}"))
    assert body["proposal"]["not_used"] == ["reaccessed"]
    assert body["counts"]["labels"]["reaccessed"] == 0
    # there is none, so none is left out
    assert "Not counted" not in text_of((await get(datasette, page(signal))).text)
    with closing(connection.connect(signal)) as conn:
        # some come back by name to what was shown; something is rated that was not
        conn.execute(
            "insert into limbic_feedback(entity_id, entity_name, event, client, created_at)"
            " select c.entity_id, c.entity_name, 'opened', s.client,"
            " strftime('%Y-%m-%d %H:%M:%f', s.created_at, '+1 minute')"
            " from limbic_searches s join limbic_search_candidates c on c.search_id = s.id"
            " where c.returned and s.id % 40 = 0 and not exists (select 1 from limbic_feedback f"
            " where f.search_id = s.id and f.entity_id = c.entity_id)"
        )
        conn.execute(
            "insert into limbic_feedback(search_id, entity_id, entity_name, event)"
            " select search_id, entity_id, entity_name, 'not_useful'"
            " from limbic_search_candidates where not returned and search_id = 600 limit 2"
        )
        conn.commit()
    body = await get_json(datasette, page(signal, f".json{SMALL}"))
    assert body["counts"]["labels"]["reaccessed"] > 0
    assert body["counts"]["unshown_ratings"] == 2
    words = text_of((await get(datasette, page(signal))).text)
    assert "Not counted: results opened again later, since how much their rank mattered" in words
    assert "Not counted: 2 labels of what the search had not shown." in words


# once ------------------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads in which reports were worked out."""
    found: list[str] = []
    report = reports.report

    def counting(*args: Any, **options: Any) -> Any:
        found.append(threading.current_thread().name)
        return report(*args, **options)

    monkeypatch.setattr(reports, "report", counting)
    monkeypatch.setattr(apart, "WORKER", working.Worker("tested"))
    return found


async def test_eight_at_once_are_worked_out_once(
    signal: Path, make_datasette: Any, counted: list[str]
) -> None:
    datasette = editing_datasette(make_datasette, signal)
    await datasette.invoke_startup()
    urls = [page(signal), page(signal, f".json{SMALL}")] * 4
    answers = await asyncio.gather(*(datasette.client.get(url) for url in urls))
    assert [answer.status_code for answer in answers] == [200] * 8
    assert len(counted) == 1
    assert counted[0].startswith("tested")
    # a page takes nothing from the twin that others get
    assert answers[1].json() == (await get_json(datasette, urls[1]))
    [kept] = apart.WORKER._found.values()
    assert not any(key.startswith("_") for key in kept)
    await get(datasette, page(signal, f"{SMALL}&k=7"))
    assert len(counted) == 2


@pytest.mark.parametrize(
    "statement",
    [
        "insert into limbic_feedback(search_id, entity_id, entity_name, event)"
        " select search_id, entity_id, entity_name, 'useful' from limbic_search_candidates limit 1",
        "insert into limbic_parameters(beta_sal, gamma, source) values (1, 0.1, 'manual')",
        "insert into limbic_searches(query, mode, strategy, result_limit, now, parameters)"
        " values ('x', 'text', 'auto', 10, '2026-01-01', '{}')",
        "update limbic_search_candidates set cooc_boost = 4 where search_id = 9",
        "delete from limbic_searches where id = 4",
    ],
)
@pytest.mark.parametrize("wal", [False, True])
async def test_worked_out_again_after_any_change(
    statement: str, wal: bool, few: Path, make_datasette: Any, counted: list[str]
) -> None:
    with closing(sqlite3.connect(few)) as writer:
        if wal:
            writer.execute("pragma journal_mode = wal")
        datasette = make_datasette(few)
        for _ in range(2):
            assert (await get(datasette, page(few))).status_code == 200
        assert len(counted) == 1
        writer.execute(statement)
        writer.commit()
        await get(datasette, page(few))
        assert len(counted) == 2


def test_a_mark_sees_every_row_that_is_added(few: Path) -> None:
    with closing(connection.connect(few)) as conn:
        marks = [state.mark(conn)]
        conn.execute(
            "insert into limbic_parameters(beta_sal, gamma, source) values (1, 1, 'tuned')"
        )
        marks.append(state.mark(conn))
        conn.execute("delete from limbic_feedback where id = (select max(id) from limbic_feedback)")
        marks.append(state.mark(conn))
        conn.execute(
            "insert into limbic_searches(query, mode, strategy, result_limit, now, parameters)"
            " values ('x', 'text', 'auto', 10, '2026-01-01', '{}')"
        )
        marks.append(state.mark(conn))
        assert len(set(marks)) == 4
        assert state.mark(conn) == marks[-1]
        assert state.entities_there(conn, [1, 2, 2, -5, 10**6]) == {1, 2}


async def test_too_much_at_once_is_said(
    few: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "WORKER", working.Worker("full", waiting=0))
    datasette = make_datasette(few)
    body = await get_json(datasette, page(few, ".json"), 503)
    assert "try again" in body["error"]


async def test_who_only_looks_keeps_nobody_from_acting(
    few: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two reports at most are worked out or wait, and whoever may edit has a place beside them."""
    go_on = threading.Event()
    report = reports.report

    def slow(*args: Any, **options: Any) -> Any:
        assert go_on.wait(20)
        return report(*args, **options)

    monkeypatch.setattr(reports, "report", slow)
    monkeypatch.setattr(apart, "WORKER", working.Worker("tested"))
    datasette = editing_datasette(make_datasette, few)
    await datasette.invoke_startup()
    looks = [
        asyncio.ensure_future(datasette.client.get(page(few, f".json{SMALL}&k={k}")))
        for k in range(1, 9)
    ]
    try:
        for _ in range(500):
            await asyncio.sleep(0.01)
            refused = [each for each in looks if each.done()]
            if len(refused) >= 6:
                break
        assert [each.result().status_code for each in refused] == [503] * 6
        apply = asyncio.ensure_future(
            post_json(datasette, call(few, "apply"), {"beta_sal": 1, "gamma": 1, "version": 0}, 409)
        )
        await asyncio.sleep(0.3)
        assert not apply.done()
    finally:
        go_on.set()
    assert "23 events" in (await apply)["error"]
    assert (
        sorted(each.status_code for each in await asyncio.gather(*looks)) == [200] * 2 + [503] * 6
    )


@pytest.mark.parametrize("how", ["deleted", "damaged"])
async def test_where_a_file_lies_is_not_for_visitors(
    how: str, few: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, few)
    await get(datasette, page(few))
    if how == "deleted":
        few.unlink()
    else:
        few.write_bytes(b"no database " * 1000)
    asked = [
        await get(datasette, page(few, f".json{SMALL}&k=3")),
        await get(datasette, page(few, f"{SMALL}&k=3")),
        await post(
            datasette,
            f"{base(few)}/actions/merge",
            {"entity": 1, "dry_run": True},
        ),
    ]
    for response in asked:
        assert response.status_code == 503, response.text[:300]
        assert str(few.parent) not in response.text
    assert asked[0].json()["error"].startswith("few ")


async def test_databases_of_one_name_share_nothing(
    signal: Path, few: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two Datasettes of one process, and one that was put in the place of another."""
    # as if nothing else told them apart
    monkeypatch.setattr(state, "mark", lambda conn: ())
    found = []
    databases = []

    async def added(datasette: Any, path: Path) -> None:
        db = Database(datasette, memory_name=f"shared_{len(databases)}")
        databases.append(datasette.add_database(db, name="one"))

        def fill(conn: Any) -> None:
            with closing(sqlite3.connect(path)) as source:
                source.backup(conn)

        await db.execute_write_fn(fill, **({"transaction": False} if ONE_POINT_ZERO else {}))
        body = await get_json(datasette, f"/one/-/limbic/tuning.json{SMALL}")
        found.append(body["counts"]["searches"])

    first, second = make_datasette(memory=True), make_datasette(memory=True)
    for datasette, path in ((first, signal), (second, few)):
        await datasette.invoke_startup()
        await added(datasette, path)
    assert found == [700, 23]
    if ONE_POINT_ZERO:  # 0.65 itself goes on to read the one that was removed
        second.remove_database("one")
        await added(second, signal)
        assert found == [700, 23, 700]
    for db in databases:
        db.close()


async def test_what_was_deleted_since_is_named_and_leads_nowhere(
    signal: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(signal)
    body = await get_json(datasette, page(signal, f".json{SMALL}"))
    used = body["movers"]["gain"][0]["relevant"][0]
    url = f"{base(signal)}/entity/{used['id']}"
    assert url in links((await get(datasette, page(signal))).text)
    write(signal, ("delete from entities where id = ?", [used["id"]]))
    html = (await get(datasette, page(signal))).text
    assert used["name"] in text_of(html)
    assert url not in links(html)


# hostile ----------------------------------------------------------------------------------------


@pytest.fixture
def hostile(signal: Path) -> Path:
    """The log with names and texts of others, and rows of parameters that no program of ours
    wrote."""
    with closing(connection.connect(signal)) as conn:
        for number, text in enumerate(ODD):
            for table, column in (("limbic_searches", "query"), ("limbic_searches", "client")):
                conn.execute(
                    f"update {table} set {column} = ? || id where id % {len(ODD)} = ?",
                    [text, number],
                )
            conn.execute(
                "update limbic_search_candidates set entity_name = ? || entity_id"
                f" where entity_id % {len(ODD)} = ?",
                [text, number],
            )
        huge = '{"asked": {"gamma": 1%s}, "gain": {"value": 1%s, "low": "x"}, "to": 1%s}'
        for version, (source, evidence, who) in enumerate(
            [
                ("manual", "null", None),
                ("manual", huge % (("0" * 400,) * 3), SCRIPT),
                ("rollback", '{"to": "x", "from": 3}', "\u202eabc"),
                ("tuned", "[" * 90 + "]" * 90, "long " * 400),
                ("tuned", '{"gain": {"value": true, "low": null, "high": 1e999}}', b"\xff"),
                ("manual", '{"asked": {"gamma": {"a": 1}}}', None),
                ("manual", b"\xff\xfe", None),
            ],
            1,
        ):
            conn.execute(
                "insert into limbic_parameters(version, beta_sal, gamma, source, evidence,"
                " log_digest, applied_by, created_at) values (?, 0.5, 0.01, ?, ?, ?, ?, ?)",
                [version, source, evidence, SCRIPT, who, SCRIPT],
            )
        conn.commit()
        conn.execute("pragma ignore_check_constraints = on")
        conn.execute(
            "insert into limbic_parameters(version, beta_sal, gamma, source, created_at)"
            " values (8, ?, -3, ?, 5)",
            [SCRIPT, "tuned"],
        )
        conn.commit()
    return signal


async def test_texts_of_others_are_texts(hostile: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, hostile)
    html = await look(datasette, page(hostile))
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert "\0" not in html
    body = await get_json(datasette, page(hostile, f".json{SMALL}"))
    listed = [*body["movers"]["gain"], *body["movers"]["lose"]]
    assert any("\u202e" in row["query"] for row in listed)
    # what turns a line around stays in an element of its own
    assert re.findall("(.{5})\u202e", html) == ["<bdi>"] * html.count("\u202e")
    assert "never in force" in html
    assert "long long" in html
    for link in links(html):
        if "/entity/" in link or "/search?" in link:
            assert (await get(datasette, link)).status_code == 200, link
            break
    body = await post_json(datasette, call(hostile, "rollback"), {"to": 8}, 409)
    assert "version 8 cannot be used" in body["error"]


async def test_the_documented_answer_has_its_keys(signal: Path, make_datasette: Any) -> None:
    body = await get_json(make_datasette(signal), page(signal, f".json{SMALL}"))
    docs = (Path(__file__).parents[1] / "docs" / "json-api.md").read_text("utf-8")
    section = docs.split("\n## Tuning\n")[1].split("\n## ")[0]
    told = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", section, re.S)]
    whole, refusal = told[:2]
    assert list(whole) == list(body)
    for name in ("in_force", "labels", "ranges", "counts", "grid", "movers", "proposal"):
        assert list(whole[name]) == list(body[name]), name
    for name in ("arms", "strategies", "weeks"):
        assert list(whole[name][0]) == list(body[name][0]), name
    assert list(whole["arms"][0]["served"]) == list(body["arms"][0]["served"])
    assert list(whole["movers"]["gain"][0]) == list(body["movers"]["gain"][0])
    bad = await get_json(make_datasette(signal), page(signal, ".json?beta_sal_range=0.5&k=1"))
    assert set(bad["proposal"]["refusal"] or refusal) == set(refusal)
