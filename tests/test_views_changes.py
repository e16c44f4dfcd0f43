"""The log of changes: its pages, what they say of one change, and who may read it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from actions_helpers import (
    ARGUMENTS,
    LIKE,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    opened,
)
from test_views_acting import browser, said
from test_views_observations import editing_datasette
from view_helpers import (
    AGENT,
    ONE_POINT_ZERO,
    as_actor,
    base,
    digest,
    get,
    get_json,
    rows,
    write,
)

from datasette_limbic.actions import log
from datasette_limbic.actions.acting import act
from datasette_limbic.errors import BadParameter, NotAMemory, UnknownChange

pytestmark = pytest.mark.slow  # the pages are no other on another Python

SECRET = "Maps are drawn by hand in Oslo"


@pytest.fixture
def logged(acted: Path) -> Path:
    """A memory with six changes: 1 and 2 stand, 3 was undone by 4, that by 5, and 6 is nobody's."""
    with opened(acted) as conn:
        act(conn, "delete", {"observations": [14, 15]}, actor="ana")
        act(conn, *ARGUMENTS["split"], actor="bob")
        act(conn, "archive", {"entity": LIKE, "reason": "over"}, actor="ana")
        act(conn, "undo", {"change": 3}, actor="bob")
        act(conn, "undo", {"change": 4}, actor="ana")
        act(conn, "correct", {"observation": 3, "confidence": 0.5})
    return acted


# the library -------------------------------------------------------------------------------------


def test_the_log_newest_first(logged: Path) -> None:
    with opened(logged, readonly=True) as conn:
        found = log.changes_log(conn)
    assert [c["id"] for c in found["changes"]] == [6, 5, 4, 3, 2, 1]
    assert (found["count"], found["count_all"], found["page"], found["pages"]) == (6, 6, 1, 1)
    third = found["changes"][3]
    assert third == {
        "id": 3,
        "action": "archive",
        "title": "Archive an entity",
        "entity": {"id": LIKE, "name": "Gamma", "is_there": True},
        "summary": "Archive 'Gamma': over",
        "actor": "ana",
        "insight": None,
        "undoes": None,
        # the undo of its undo: it stands again
        "undone_by": None,
        "undone_actor": None,
        "undone_at": None,
        "created_at": third["created_at"],
    }
    fourth = found["changes"][2]
    assert (fourth["undoes"], fourth["undone_by"], fourth["undone_actor"]) == (3, 5, "ana")
    assert fourth["undone_at"] == found["changes"][1]["created_at"]
    assert found["actions"] == [
        {"action": "undo", "count": 2},
        {"action": "archive", "count": 1},
        {"action": "correct", "count": 1},
        {"action": "delete", "count": 1},
        {"action": "split", "count": 1},
    ]
    assert found["actors"] == [{"actor": "ana", "count": 3}, {"actor": "bob", "count": 2}]


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        ({"entity": LIKE}, [5, 4, 3, 1]),
        ({"entity": str(LIKE)}, [5, 4, 3, 1]),
        ({"entity": "Gamma"}, [5, 4, 3, 1]),
        ({"entity": "gamma"}, []),
        ({"entity": 2**70}, []),
        ({"entity": "9" * 30}, []),
        ({"action": "undo"}, [5, 4]),
        ({"actor": "ana"}, [5, 3, 1]),
        ({"actor": "ana", "action": "archive", "entity": LIKE}, [3]),
        ({"actor": "' or 1=1 --"}, []),
        ({"size": 2}, [6, 5]),
        ({"size": 2, "page": 3}, [2, 1]),
        ({"size": 2, "page": 4}, []),
    ],
)
def test_filters_and_pages(asked: dict[str, Any], ids: list[int], logged: Path) -> None:
    with opened(logged, readonly=True) as conn:
        found = log.changes_log(conn, **asked)
    assert [c["id"] for c in found["changes"]] == ids
    assert found["count"] == (6 if "size" in asked else len(ids))
    assert found["count_all"] == 6
    assert found["pages"] == (3 if "size" in asked else 1)


@pytest.mark.parametrize("asked", [{"page": 0}, {"size": 0}, {"size": 1001}, {"page": "x"}])
def test_pages_that_are_none(asked: dict[str, Any], logged: Path) -> None:
    with opened(logged, readonly=True) as conn, pytest.raises(BadParameter):
        log.changes_log(conn, **asked)


def test_a_file_that_is_no_memory(tmp_path: Path) -> None:
    with opened(tmp_path / "x.db", create=True) as conn:
        for function in (log.changes_log, lambda c: log.change_detail(c, 1)):
            with pytest.raises(NotAMemory):
                function(conn)


def test_the_detail_has_texts_that_the_log_does_not_repeat(logged: Path) -> None:
    with opened(logged, readonly=True) as conn:
        found = log.change_detail(conn, 2)
        assert not conn.in_transaction
    moved = [row for row in found["diff"]["rows"] if row["what"] == "moved"]
    assert {row["label"] for row in moved if row["key"] == [3]} == {SECRET}
    assert set(moved[0]["before"]) == {"entity_id"}
    made = {row["key"][0]: row["label"] for row in found["diff"]["rows"]
            if (row["table"], row["what"]) == ("entities", "created")}  # fmt: skip
    assert found["names"] == {"1": "Atlas", **{str(i): name for i, name in made.items()}}
    # a correction of one of them is newer
    assert found["undo"]["possible"] is True
    assert found["waiting"] == 0
    json.dumps(found)


def test_the_detail_says_why_it_cannot_be_undone(logged: Path) -> None:
    with opened(logged) as conn:
        assert log.change_detail(conn, 5)["undo"] == {"possible": True, "reason": None}
        assert "undone already, by change 5" in log.change_detail(conn, 4)["undo"]["reason"]
        act(conn, "delete", {"observations": [3]}, actor="eve")
        found = log.change_detail(conn, 2)["undo"]
    assert found["possible"] is False
    assert "observation 3" in found["reason"]
    assert "change 7" in found["reason"]
    assert "eve" in found["reason"]


def test_the_detail_of_rows_that_are_gone(logged: Path) -> None:
    with opened(logged) as conn:
        act(conn, "delete", {"observations": [3]})
        row = next(r for r in log.change_detail(conn, 2)["diff"]["rows"]
                   if (r["table"], r["key"]) == ("observations", [3]))  # fmt: skip
        assert row["label"] is None
        assert "shown" not in row
        # the text of a removed one is in the log itself
        [row] = [r for r in log.change_detail(conn, 7)["diff"]["rows"] if r["what"] == "removed"]
        assert row["label"] == SECRET


@pytest.mark.parametrize("number", [0, 7, -1, 2**70])
def test_no_such_change(number: int, logged: Path) -> None:
    with opened(logged, readonly=True) as conn:
        with pytest.raises(UnknownChange, match=str(number)):
            log.change_detail(conn, number)
        assert not conn.in_transaction


def test_what_waits_for_a_sync(acted: Path) -> None:
    with opened(acted) as conn:
        act(conn, *ARGUMENTS["split"], embed=False)
        assert log.change_detail(conn, 1)["waiting"] > 0


# the pages ---------------------------------------------------------------------------------------


async def test_pages_and_json_say_the_same(logged: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, logged)
    before = digest(logged)
    with opened(logged, readonly=True) as conn:
        expected = log.changes_log(conn, entity="Gamma", actor="ana")
        detail = log.change_detail(conn, 2)
    url = f"{base(logged)}/changes"
    found = await get_json(datasette, f"{url}.json?entity=Gamma&actor=ana&action=")
    assert found == {"ok": True, **expected}
    assert await get_json(datasette, f"{url}/2.json") == {"ok": True, **detail}
    page = await get(datasette, url)
    words = said(page)
    for each in (
        "6 changes, newest first",
        "Archive 'Gamma': over",
        "by ana",
        "by nobody signed in",
        "undone by 5",
        "undoes 3",
        "Split an entity: Atlas",
    ):
        assert each in words, each
    assert f'href="{url}/2"' in page.text
    page = await get(datasette, f"{url}?entity=Gamma&actor=ana")
    assert "3 changes, newest first" in said(page)
    assert f'href="{url}">All changes</a>' in page.text
    page = await get(datasette, f"{url}/2")
    words = said(page)
    for each in ("Change 2 ·", "by bob", "Moved observations 3 Atlas → to Atlas: maps", SECRET):
        assert each in words, each
    assert digest(logged) == before


async def test_an_empty_log_teaches_and_a_filter_that_finds_nothing_says_so(
    acted: Path,
    make_datasette: Any,
) -> None:
    datasette = editing_datasette(make_datasette, acted)
    words = said(await get(datasette, f"{base(acted)}/changes"))
    assert "Nothing has been changed by an action yet." in words
    with opened(acted) as conn:
        act(conn, "archive", {"entity": LIKE, "reason": "over"})
    words = said(await get(datasette, f"{base(acted)}/changes?entity=Nobody"))
    assert "No such change." in words
    words = said(await get(datasette, f"{base(acted)}/changes?page=5"))
    assert "No more on this page" in words


async def test_paging(acted: Path, make_datasette: Any) -> None:
    write(
        acted,
        *[("insert into limbic_changes(action, summary, before, after) values ('delete', ?, '{}',"
           " '{}')", [f"number {i}"]) for i in range(1, 121)],
    )  # fmt: skip
    datasette = editing_datasette(make_datasette, acted)
    url = f"{base(acted)}/changes"
    page = await get(datasette, f"{url}?action=delete&page=2")
    assert "Page 2 of 3" in said(page)
    assert "number 70" in page.text
    assert "number 71" not in page.text
    assert 'href="?action=delete&amp;page=1"' in page.text
    assert 'href="?action=delete&amp;page=3"' in page.text


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/changes?page=0", 400, "page is '0'"),
        ("/changes?size=5", 400, "unknown argument size"),
        ("/changes/x", 404, "'x' is no number of a change"),
        ("/changes/99", 404, "there is no change 99"),
        ("/changes/" + "9" * 30, 404, "is no number of a change"),
        ("/changes/1?page=2", 400, "unknown argument page"),
    ],
)
async def test_what_is_refused(
    path: str, status: int, words: str, logged: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, logged)
    name, _, query = path.partition("?")
    found = await get_json(datasette, f"{base(logged)}{name}.json?{query}", status)
    assert words in found["error"]
    page = await get(datasette, base(logged) + path)
    assert page.status_code == status
    assert words.lower() in said(page).lower()


@pytest.mark.parametrize(
    ("number", "actor", "words", "button"),
    [
        (3, AGENT, "", True),
        (3, None, "", False),
        (3, {"id": "other"}, "", False),
        (4, AGENT, "Undone by change 5", False),
        (5, AGENT, "undoes change 4", True),
    ],
)
async def test_the_button_to_undo(
    number: int, actor: Any, words: str, button: bool, logged: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, logged)
    await datasette.invoke_startup()
    url = f"{base(logged)}/changes/{number}"
    page = await get(datasette, url, cookies=browser(datasette, actor))
    assert words in said(page)
    assert ("/actions/undo" in page.text) is button
    assert ("autofocus" in page.text) is False
    assert "Done." not in said(page)


async def test_what_keeps_it_from_being_undone_stands_in_place_of_the_button(
    logged: Path, make_datasette: Any
) -> None:
    with opened(logged) as conn:
        act(conn, "delete", {"observations": [3]}, actor="eve")
    datasette = editing_datasette(make_datasette, logged)
    await datasette.invoke_startup()
    page = await get(datasette, f"{base(logged)}/changes/2", cookies=browser(datasette))
    assert "It cannot be undone now." in said(page)
    assert "eve" in said(page)
    assert "/actions/undo" not in page.text


async def test_a_log_that_another_program_wrote(acted: Path, make_datasette: Any) -> None:
    """An action that we do not know, an entity that is gone, hostile words."""
    bad = "<script>alert(1)</script>\u202e\n<b>"
    write(
        acted,
        ("insert into limbic_changes(action, entity_id, entity_name, summary, before, after, actor)"
         " values (?, 999, ?, ?, '{\"t\": {}}', '{\"t\": {\"1\": null}}', ?)", [bad] * 4),
    )  # fmt: skip
    datasette = editing_datasette(make_datasette, acted)
    for path in ("/changes", "/changes/1"):
        page = await get(datasette, base(acted) + path)
        assert page.status_code == 200
        body = page.text.split("<h1")[1]
        assert "<script>alert" not in body
        assert "<b>" not in body
        assert "/entity/999" not in body
        for after in re.sub(r'value="[^"]*"', "", body).split("\u202e")[1:]:
            assert "</bdi>" in after[:200] or "</option>" in after[:200]
    found = await get_json(datasette, f"{base(acted)}/changes/1.json")
    assert found["change"]["entity"]["is_there"] is False


# who may read it ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "denied", ["limbic_changes", "limbic_insights", "observations", "entities", "entity_access"]
)
async def test_whoever_may_not_view_what_it_is_made_of_sees_nothing_of_it(
    denied: str, logged: Path, make_datasette: Any
) -> None:
    with opened(logged) as conn:
        act(conn, "delete", {"observations": [3]})
    hidden = {"databases": {"acted": {"tables": {denied: {"allow": {"id": "root"}}}}}}
    datasette = editing_datasette(make_datasette, logged, more=hidden)
    if ONE_POINT_ZERO:
        datasette.root_enabled = True
    await datasette.invoke_startup()
    root = as_actor(datasette, {"id": "root"})
    for path in (
        "/-/limbic/changes",
        "/-/limbic/changes/7",
        "/limbic_changes",
        "/limbic_changes/7",
    ):
        for suffix in ("", ".json"):
            response = await get(datasette, f"/acted{path}{suffix}")
            assert response.status_code == 403, path
            assert SECRET not in response.text
            allowed = await get(datasette, f"/acted{path}{suffix}", cookies=root)
            assert allowed.status_code == 200
    # and no tab leads there
    if denied in ("limbic_changes", "limbic_insights"):
        page = await get(datasette, base(logged))
        assert f'href="{base(logged)}/changes"' not in page.text
        assert f'href="{base(logged)}/search"' in page.text
    page = await get(datasette, base(logged), cookies=root)
    assert f'href="{base(logged)}/changes"' in page.text


async def test_the_log_shows_what_was_deleted_to_those_who_may(
    logged: Path, make_datasette: Any
) -> None:
    """What the test before looks for is really there."""
    with opened(logged) as conn:
        act(conn, "delete", {"observations": [3]})
    assert rows(logged, "select count(*) from observations where id = 3") == [(0,)]
    datasette = editing_datasette(make_datasette, logged)
    for path in ("/-/limbic/changes/7", "/-/limbic/changes/7.json", "/limbic_changes/7.json"):
        assert SECRET in (await get(datasette, f"/acted{path}")).text, path


FINDING = "Zyxw is to be split"


async def test_titles_of_findings_are_for_those_who_may_view_findings(
    acted: Path, make_datasette: Any
) -> None:
    write(acted, ("update limbic_insights set title = ?", [FINDING]))
    with opened(acted) as conn:
        act(conn, *ARGUMENTS["split"], insight=1, actor="ana")
    hidden = {"databases": {"acted": {"tables": {"limbic_insights": {"allow": {"id": "root"}}}}}}
    datasette = editing_datasette(make_datasette, acted, more=hidden)
    if ONE_POINT_ZERO:
        datasette.root_enabled = True
    await datasette.invoke_startup()
    root = as_actor(datasette, {"id": "root"})
    agent = as_actor(datasette, AGENT)
    seen = []
    for path in (
        "/-/limbic/changes",
        "/-/limbic/changes/1",
        "/limbic_changes",
        "/limbic_changes/1",
        "/limbic_insights",
        "/-/limbic/review",
        "/-/limbic/review/1",
    ):
        for suffix in ("", ".json"):
            response = await get(datasette, f"/acted{path}{suffix}", cookies=agent)
            assert response.status_code == 403, path
            assert FINDING not in response.text
            allowed = await get(datasette, f"/acted{path}{suffix}", cookies=root)
            assert allowed.status_code == 200
            seen.append(FINDING in allowed.text)
    assert seen[2:4] == [True, True]  # the page of the change and its JSON have it


async def test_the_key_of_the_way_back(logged: Path, make_datasette: Any) -> None:
    """``u`` leads to the undo on this page too, whose script is loaded."""
    datasette = editing_datasette(make_datasette, logged)
    page = (await get(datasette, f"{base(logged)}/changes/6", cookies=browser(datasette))).text
    [script] = re.findall(r'<script src="([^"]*/limbic_review.js)" defer>', page)
    assert (await get(datasette, script)).status_code == 200
    [button] = re.findall(r'<button[^>]* data-limbic-key="u">([^<]*)', page)
    assert button == "Undo…"
