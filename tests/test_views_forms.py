"""Forms of actions on the pages, from the page to the diff, the yes and the undoing of it.

No JavaScript: what is sent is what a browser makes of the HTML (``forms_helpers``).
"""

from __future__ import annotations

import json
import re
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from actions_helpers import (
    ARCHIVED,
    ATLAS,
    LIKE,
    TWIN,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    assert_settled,
    opened,
)
from forms_helpers import forms, one, press
from review_helpers import look, send, words
from split_helpers import add, texts
from test_views_observations import editing_datasette
from view_helpers import AGENT, base, digest, get_json, links, post, post_json, rows, write

from datasette_limbic import connection
from datasette_limbic.duplicates import Observation
from datasette_limbic.duplicates.model import Pair, Thresholds
from datasette_limbic.reports.similar import Asked, answer, compare
from datasette_limbic.views import merge_form, split_form

pytestmark = pytest.mark.slow  # the pages are no other on another Python

HOSTILE = "</textarea><script>alert(1)</script>\u202e\r\n'\"&amp; Old"
SHOW = "Show what would change"


@pytest.fixture(name="editable")
def editable_fixture(acted: Path, make_datasette: Any, models: Any) -> Any:
    """Datasette on the memory of ``actions_helpers``, which the agent may edit."""
    return editing_datasette(make_datasette, acted)


def of_entity(path: Path, name: str) -> list[int]:
    """Ids of the observations of an entity."""
    found = rows(
        path,
        "select o.id from observations o join entities e on e.id = o.entity_id"
        " where e.name = ? order by o.id",
        name,
    )
    return [row[0] for row in found]


def place(*ids: int, to: str) -> dict[str, str]:
    return {f"place.{number}": to for number in ids}


async def approved(datasette: Any, page: Any, action: str, label: str) -> str:
    """Say yes on the page of a diff; the page of the change."""
    assert page.status_code == 200, words(page.text)[:600]
    done = await press(datasette, one(page.text, f"/actions/{action}"), label)
    assert done.status_code == 303, words(done.text)[:600]
    return await look(datasette, done.headers["location"])


async def undone(datasette: Any, html: str) -> str:
    page = await press(datasette, one(html, "/actions/undo"), "Undo")
    return await approved(datasette, page, "undo", "Undo")


# a split ------------------------------------------------------------------------------------------


async def test_a_split_is_edited_seen_made_found_and_undone(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, demo_db)
    [(number,)] = rows(demo_db, "select id from entities where name = 'Turia rollout'")
    everything = of_entity(demo_db, "Turia rollout")
    form = one(await look(datasette, f"{base(demo_db)}/split/{number}"), f"/split/{number}")
    first, second, third = (
        child["observations"] for child in json.loads(form.value("arguments"))["children"]
    )
    assert sorted(first + second + third) == everything
    form.fill(children_0_name="Turia: people", children_3_name="Turia: one more")
    form.fill(children_3_entityType="Nota", **place(first[0], second[0], to="3"))
    form.fill(**place(first[1], to="")).fill(**place(first[2], to="1"))
    form.tick("children.2.skip")
    diff = await press(datasette, form, SHOW)
    said = words(diff.text)
    assert "Nothing has been changed yet." in said
    assert "3 new entities" in said
    # back to the form, where nothing of that is lost
    again = await press(datasette, one(diff.text, "/actions/split"), "Change it")
    kept = one(again.text, f"/split/{number}")
    expected = [
        {"name": "Turia: people", "entityType": "Proyecto", "observations": first[3:]},
        {
            "name": form.value("children.1.name"),
            "entityType": "Proyecto",
            "observations": [*second[1:], first[2]],
        },
        {"name": "Turia: one more", "entityType": "Nota", "observations": [first[0], second[0]]},
    ]
    assert json.loads(kept.value("arguments"))["children"] == expected
    assert kept.value(f"place.{second[0]}") == "2"
    assert kept.value(f"place.{first[1]}") == ""
    kept.fill(children_1_name="Turia: stops", **place(third[0], to="0"))
    diff = await press(datasette, kept, SHOW)
    assert of_entity(demo_db, "Turia rollout") == everything
    done = await approved(datasette, diff, "split", "Split")
    assert "Done." in words(done)
    assert of_entity(demo_db, "Turia: people") == sorted([*first[3:], third[0]])
    assert of_entity(demo_db, "Turia: stops") == sorted([*second[1:], first[2]])
    assert of_entity(demo_db, "Turia rollout") == sorted([first[1], *third[1:]])
    [(child, kind)] = rows(
        demo_db, "select id, entity_type from entities where name = 'Turia: one more'"
    )
    assert kind == "Nota"
    html = await look(datasette, f"{base(demo_db)}/entity/{child}")
    assert f'id="observation-{second[0]}"' in html
    assert "parte_de" in words(html)
    await undone(datasette, done)
    assert of_entity(demo_db, "Turia rollout") == everything
    assert rows(demo_db, "select 1 from entities where name like 'Turia: %'") == []


@pytest.mark.parametrize(
    ("fills", "status", "says"),
    [
        ({"children.0.name": "  ", "place.3": "0"}, 400, "The name of child 1 is empty"),
        ({"children.0.name": "ATLAS", "place.3": "0"}, 409, "The name 'ATLAS' is taken"),
        ({"children.0.name": "Delta", "place.3": "0"}, 409, "is taken by entity 4, archived"),
        ({"children.0.name": "Atlas", "place.3": "0"}, 409, "of the entity that is split"),
        ({"children.0.name": "x" * 501, "place.3": "0"}, 400, "has 501 characters"),
        ({"children.0.name": "Lonely"}, 400, "Observations of 'Lonely': there are none"),
        (
            {"children.0.name": "Two", "children.1.name": "Two", "place.3": "0", "place.5": "1"},
            400, "Children 1 and 2 are both called 'Two'",
        ),
        ({}, 400, "Nothing would move"),
        (
            {"children.0.name": "All", "children.0.entityType": "t" * 201, "place.3": "0"},
            400, "EntityType of 'All'",
        ),
    ],
)  # fmt: skip
async def test_what_cannot_be_done_comes_back_with_the_sentence_and_the_edits(
    fills: dict[str, str], status: int, says: str, acted: Path, editable: Any
) -> None:
    before = digest(acted)
    url = f"{base(acted)}/split/{ATLAS}"
    form = one(await look(editable, f"{url}?by_hand=1"), f"/split/{ATLAS}").fill(**fills)
    page = await press(editable, form, SHOW)
    assert page.status_code == status, words(page.text)[:500]
    assert re.search(rf'role="alert"[^>]*>.*?{re.escape(says)}', unescape(page.text), re.S)
    assert page.text.index('role="alert"') < page.text.index("<fieldset")
    again = one(page.text, f"/split/{ATLAS}")
    for name, value in fills.items():
        assert again.value(name) == value, name
    # mended, it leads on
    again.fill(children_0_name="Right", children_0_entityType="", place_3="0")
    if "children.1.name" in fills:
        again.fill(children_1_name="Also right")
    assert (await press(editable, again, SHOW)).status_code == 200
    assert digest(acted) == before


async def test_children_left_out_can_be_taken_in_again(acted: Path, editable: Any) -> None:
    url = f"{base(acted)}/split/{ATLAS}"
    form = one(await look(editable, f"{url}?by_hand=1"), f"/split/{ATLAS}")
    form.fill(children_0_name="", children_1_name="Second")
    form.fill(**place(1, to="1")).fill(**place(3, to="0"))
    page = await press(editable, form, SHOW)
    form = one(page.text, f"/split/{ATLAS}").tick("children.0.skip").fill(children_1_name="ATLAS")
    page = await press(editable, form, SHOW)
    # sentences count without those that are left out, and so does the page
    assert "The name 'ATLAS' is taken" in words(page.text)
    form = one(page.text, f"/split/{ATLAS}")
    assert [form.value(f"children.{i}.name") for i in (0, 1)] == ["ATLAS", ""]
    assert [form.control(f"children.{i}.skip").on for i in (0, 1)] == [False, True]
    assert [form.value(f"place.{i}") for i in (1, 3)] == ["0", "1"]
    diff = await press(editable, form.fill(children_0_name="Second"), SHOW)
    given = json.loads(one(diff.text, "/actions/split").value("arguments"))["children"]
    assert [child["observations"] for child in given] == [[1]]
    form.tick("children.1.skip", on=False).fill(children_1_name="First")
    diff = await press(editable, form, SHOW)
    given = json.loads(one(diff.text, "/actions/split").value("arguments"))["children"]
    assert [(child["name"], child["observations"]) for child in given] == [
        ("Second", [1]),
        ("First", [3]),
    ]


async def test_a_proposal_that_is_out_of_date_says_what_changed(acted: Path, editable: Any) -> None:
    url = f"{base(acted)}/split/{ATLAS}"
    form = one(await look(editable, f"{url}?by_hand=1"), f"/split/{ATLAS}")
    form.fill(children_0_name="Maps", **place(3, to="0")).fill(**place(2, to="0"))
    write(
        acted,
        ("delete from observations where id = 2", []),
        ("insert into observations(id, entity_id, content) values (99, ?, 'new')", [ATLAS]),
    )
    page = await press(editable, form, SHOW)
    assert page.status_code == 409
    assert "observation 2 went; observation 99 came" in words(page.text)
    again = one(page.text, f"/split/{ATLAS}")
    # what went is in no field, and not in the draft either: it would be refused again
    assert json.loads(again.value("arguments"))["children"][0]["observations"] == [3]
    assert again.value("place.99") == ""
    diff = await press(editable, again, SHOW)
    # and the page of the diff leads back too where the yes comes too late
    write(acted, ("insert into entities(name) values ('Maps')", []))
    late = await press(editable, one(diff.text, "/actions/split"), "Split")
    assert late.status_code == 409
    assert "is taken" in words(late.text)
    back = await press(editable, one(late.text, f"/split/{ATLAS}"), "Change it")
    form = one(back.text, f"/split/{ATLAS}")
    assert (form.value("children.0.name"), form.value("place.3")) == ("Maps", "0")
    done = await press(editable, form.fill(children_0_name="Charts"), SHOW)
    await approved(editable, done, "split", "Split")
    assert of_entity(acted, "Charts") == [3]
    with opened(acted) as conn:
        conn.execute("delete from limbic_stale where item_id in (2, 99)")
        names = conn.execute("select name from entities where id = ?", [ATLAS]).fetchone()
    assert names == ("Atlas",)


async def test_thousands_of_observations_a_page_at_a_time(path: Path, make_datasette: Any) -> None:
    with closing(connection.connect(path)) as conn:
        add(conn, "Large", "Tool", texts(5_000))
    datasette = editing_datasette(make_datasette, path)
    html = await look(datasette, f"{base(path)}/split/1")
    form = one(html, "/split/1")
    children = json.loads(form.value("arguments"))["children"]
    moving = sum(len(child["observations"]) for child in children)
    assert moving > 1_000
    assert len(html) < 1_500_000
    shown = [name for name in form.names() if name.startswith("place.")]
    assert len(shown) == split_form.ROWS
    assert "Observations 1 to 500 of 5,000" in words(html)
    assert len(json.dumps(form.sent(SHOW)[1])) < 300_000
    # an edit of the first page is there on the second, and in what is asked for from there
    one_of_them = children[0]["observations"][0]
    spare = str(len(children))
    form.fill(**{f"children.{spare}.name": "Mine"}, **place(one_of_them, to=spare))
    page = await press(datasette, form, "Further ones")
    assert page.status_code == 200
    assert "Observations 501 to 1,000 of 5,000" in words(page.text)
    form = one(page.text, "/split/1")
    assert f"place.{one_of_them}" not in form.names()
    assert form.value(f"children.{spare}.name") == "Mine"
    assert "place.501" in form.names()
    was = form.value("place.501")
    form.fill(place_501=spare)
    # refused, it stays on its page
    page = await press(datasette, form.fill(children_0_name=""), SHOW)
    assert page.status_code == 400
    form = one(page.text, "/split/1")
    assert form.value("page") == "2"
    diff = await press(datasette, form.fill(children_0_name="First"), SHOW)
    assert diff.status_code == 200, words(diff.text)[:500]
    given = json.loads(one(diff.text, "/actions/split").value("arguments"))["children"]
    assert sorted(given[int(spare)]["observations"]) == sorted([one_of_them, 501])
    assert sum(len(child["observations"]) for child in given) == moving + (was == "")
    page = await press(datasette, form, "Earlier ones")
    assert "Observations 1 to 500 of 5,000" in words(page.text)


@pytest.mark.parametrize("number", [ATLAS, LIKE])
async def test_where_nothing_is_proposed_one_may_split_by_hand(
    number: int, acted: Path, editable: Any
) -> None:
    url = f"{base(acted)}/split/{number}"
    html = await look(editable, f"{url}?insight=7")
    assert forms(html, f"/split/{number}") == []
    assert f"{url}?by_hand=1&insight=7" in links(html)
    form = one(await look(editable, f"{url}?by_hand=1&insight=7"), f"/split/{number}")
    assert form.value("insight") == "7"
    assert {"children.0.name", "children.1.name"} < form.names()
    assert "children.2.name" not in form.names()


@pytest.mark.parametrize("number", [ARCHIVED, 5, 6])
async def test_nothing_to_split(number: int, acted: Path, editable: Any) -> None:
    """Archived, with one observation, with none."""
    html = await look(editable, f"{base(acted)}/split/{number}?by_hand=1")
    assert forms(html) == []
    assert f"/split/{number}?by_hand" not in html


async def test_the_finding_that_a_split_answers_is_carried_along(
    acted: Path, editable: Any
) -> None:
    write(acted, ("update limbic_insights set id = 70", []))
    url = f"{base(acted)}/split/{ATLAS}?by_hand=1&insight=70"
    form = one(await look(editable, url), f"/split/{ATLAS}")
    page = await press(editable, form, SHOW)
    form = one(page.text, f"/split/{ATLAS}").fill(children_0_name="Maps", place_3="0")
    diff = await press(editable, form, SHOW)
    assert f"{base(acted)}/review/70" in links(diff.text)
    again = await press(editable, one(diff.text, "/actions/split"), "Change it")
    diff = await press(editable, one(again.text, f"/split/{ATLAS}"), SHOW)
    await approved(editable, diff, "split", "Split")
    assert rows(acted, "select status, judged_by from limbic_insights where id = 70") == [
        ("approved", "agent")
    ]
    await get_json(editable, f"{base(acted)}/split/1.json?insight=x", 400)


async def test_json_can_be_sent_back_as_it_is(path: Path, make_datasette: Any) -> None:
    with closing(connection.connect(path)) as conn:
        add(conn, "Atlas", "Tool", texts(24))
        add(conn, "Small", "Tool", ["one", "two"])
    datasette = editing_datasette(make_datasette, path)
    body = await get_json(datasette, f"{base(path)}/split/1.json")
    small = await get_json(datasette, f"{base(path)}/split/2.json")
    assert small["arguments"] == {"entity": 2, "children": []}
    children = body["arguments"]["children"]
    assert [[row["id"] for row in child["observations"]] for child in body["children"]] == [
        child["observations"] for child in children
    ]
    to = f"{base(path)}/actions/split"
    write(path, ("insert into observations(entity_id, content) values (1, 'late')", []))
    late = await post_json(
        datasette, to, {**body["arguments"], "basis": body["basis"], "dry_run": True}, 409
    )
    assert "observation 27 came" in late["error"]
    fresh = await get_json(datasette, f"{base(path)}/split/1.json")
    done = await post_json(datasette, to, {**fresh["arguments"], "basis": fresh["basis"]})
    assert done["change"] == 1
    by_hand = {"entity": 2, "children": [{"name": "Part", "observations": [25]}]}
    await post_json(datasette, to, {**by_hand, "basis": small["basis"], "dry_run": True})


@pytest.mark.parametrize("kind", ["application/json", "text/plain", None])
async def test_the_address_of_the_form_takes_nothing_else(
    kind: str | None, acted: Path, editable: Any
) -> None:
    before = digest(acted)
    for url in (f"{base(acted)}/split/1", f"{base(acted)}/split/1.json"):
        sent = await post(editable, url, {"children": []}, kind=kind)
        assert sent.status_code in (400, 403)
    assert digest(acted) == before


# names and texts ----------------------------------------------------------------------------------


async def test_hostile_names_and_texts_are_text_and_come_back_as_they_were(
    acted: Path, editable: Any
) -> None:
    write(
        acted,
        ("update entities set name = ?, entity_type = ? where id = ?", [HOSTILE, HOSTILE, ATLAS]),
        ("update observations set content = ? where id in (1, 2)", [HOSTILE]),
        ("update entities set name = ? where id = ?", [HOSTILE.upper(), TWIN]),
    )
    child = f"\n{HOSTILE} child"
    write(acted, ("delete from limbic_duplicates", []))
    for url in (
        f"/split/{ATLAS}?by_hand=1",
        f"/entity/{ATLAS}",
        f"/duplicates/{ATLAS}",
        "/duplicates",
        "/health",
        "/consolidation?stale_days=0",
    ):
        html = await look(editable, base(acted) + url)
        assert "<script>alert" not in html.lower(), url
        forms(html)
    form = one(await look(editable, f"{base(acted)}/split/{ATLAS}?by_hand=1"), f"/split/{ATLAS}")
    given = {"entity": ATLAS, "children": [{"name": child, "observations": [3]}]}
    form.control("arguments").value = json.dumps(given)
    form.control("children.0.name").value = child
    page = await press(editable, form.fill(children_1_name="Lonely", place_3="0"), SHOW)
    assert page.status_code == 400
    assert "<script>alert" not in page.text
    again = one(page.text, f"/split/{ATLAS}")
    # several lines keep their ends through the browser, as \n
    assert again.value("children.0.name") == child.replace("\r\n", "\n")
    diff = await press(editable, again.fill(children_1_name=""), SHOW)
    await approved(editable, diff, "split", "Split")
    expected = child.replace("\r\n", "\n").strip()
    assert rows(acted, "select count(*) from entities where name = ?", expected) == [(1,)]


# duplicates ---------------------------------------------------------------------------------------


async def test_a_cluster_is_merged_and_the_survivor_chosen(acted: Path, editable: Any) -> None:
    html = await look(editable, f"{base(acted)}/duplicates/{LIKE}")
    form = one(html, "/actions/merge")
    name, gone = "clusters.0.keep", "clusters.0.remove"
    assert [c.value for c in form.controls if c.name == name and c.on] == ["13"]
    assert [c.value for c in form.controls if c.name == gone and c.on] == ["", "13", "14", "15"]
    # 14 stays, 13 goes; 15 is not ticked
    diff = await press(editable, form.tick(name, "14").tick(gone, "15", on=False), "Merge")
    given = json.loads(one(diff.text, "/actions/merge").value("arguments"))
    assert given["clusters"] == [{"keep": 14, "remove": [13]}]
    done = await approved(editable, diff, "merge", "Merge")
    assert of_entity(acted, "Gamma") == [14, 15]
    await undone(editable, done)
    assert of_entity(acted, "Gamma") == [13, 14, 15]
    with opened(acted) as conn:
        assert_settled(conn)
    # none is ticked, or the one that stays alone: none goes
    for ticked in ((), ("13",)):
        form = one(html, "/actions/merge")
        for number in ("13", "14", "15"):
            form.tick(gone, number, on=number in ticked)
        refused = await press(editable, form, "Merge")
        assert refused.status_code == 400
        assert "None would go: tick at least one" in words(refused.text)


def test_members_that_hang_in_through_others_are_not_ticked() -> None:
    """They would be refused, and all others of the cluster with them."""
    texts_of = [Observation(i, 1, f"text {i}", None) for i in (1, 2, 3, 4)]
    pairs = [
        Pair(1, a, b, "duplicate", "cosine", 0.9, None, None) for a, b in ((1, 2), (2, 3), (3, 4))
    ]
    asked = Asked({"id": 1}, Thresholds(), None, 4, 0, texts_of, None, frozenset(), pairs, "now")
    alike = compare(asked)
    data = {**answer(asked, alike), "entity": {"id": 1}}
    merge_form.decorate(data, asked, alike)
    [cluster] = data["clusters"]
    assert cluster["survivor"]["id"] == 1
    assert [(m["id"], m["kept"], m["goes"]) for m in cluster["_members"]] == [
        (1, True, True), (2, False, True), (3, False, False), (4, False, False),
    ]  # fmt: skip
    assert cluster["_arguments"]["clusters"] == [{"keep": 1, "remove": [2, 3, 4]}]


async def test_large_clusters_are_cut_and_merged_whole(path: Path, make_datasette: Any) -> None:
    with closing(connection.connect(path)) as conn:
        add(conn, "Same", "Tool", ["The same long text as it stood before"] * 60)
    datasette = editing_datasette(make_datasette, path)
    html = await look(datasette, f"{base(path)}/duplicates/1")
    form = one(html, "/actions/merge")
    assert len([c for c in form.controls if c.kind == "radio"]) == 21
    assert "and 39 more that say the same, which go too" in words(html)
    diff = await press(datasette, form, "Merge")
    [cluster] = json.loads(one(diff.text, "/actions/merge").value("arguments"))["clusters"]
    assert (cluster["keep"], len(cluster["remove"])) == (1, 59)


async def test_merging_goes_by_the_thresholds_of_the_memory(acted: Path, editable: Any) -> None:
    html = await look(editable, f"{base(acted)}/duplicates/{LIKE}?threshold=0.5")
    assert forms(html, "/actions/merge") == []
    assert "by the thresholds of this memory" in words(html)


@pytest.mark.parametrize(("label", "number"), [("End the earlier", 1), ("End the later", 2)])
async def test_one_side_of_a_contradiction_is_ended(
    label: str, number: int, path: Path, make_datasette: Any
) -> None:
    with closing(connection.connect(path)) as conn:
        add(conn, "Ports", "Tool", ["The api listens on port 8080", "The api listens on port 8090"])
    datasette = editing_datasette(make_datasette, path)
    html = await look(datasette, f"{base(path)}/duplicates/1")
    [form] = [f for f in forms(html, "/actions/end") if f.buttons[0].label.startswith(label)]
    diff = await press(datasette, form, label)
    await approved(datasette, diff, "end", "End")
    ended = rows(path, "select id from observations where valid_to is not null")
    assert ended == [(number,)]


# an entity ----------------------------------------------------------------------------------------


async def test_what_can_be_changed_on_the_page_of_an_entity(acted: Path, editable: Any) -> None:
    url = f"{base(acted)}/entity/{ATLAS}"

    async def page() -> str:
        return await look(editable, url)

    html = await page()
    assert f"{base(acted)}/changes?entity={ATLAS}" in links(html)
    assert f"{base(acted)}/split/{ATLAS}" in links(html)
    # several observations
    [form] = [f for f in forms(html, "/actions/delete") if f.id == "limbic-delete"]
    form.tick("observations", "4").tick("observations", "6")
    diff = await press(editable, form, "Delete the selected")
    await approved(editable, diff, "delete", "Delete")
    assert of_entity(acted, "Atlas") == [1, 2, 3, 5, 7]
    # one of them: deleted, ended, corrected
    [form] = [f for f in forms(await page(), "/actions/delete") if "[7]" in f.value("arguments")]
    await approved(editable, await press(editable, form, "Delete"), "delete", "Delete")
    assert of_entity(acted, "Atlas") == [1, 2, 3, 5]
    [form] = [
        f for f in forms(await page(), "/actions/end") if '"observation": 3' in f.value("arguments")
    ]
    diff = await press(editable, form.fill(at="2024-07-01"), "End")
    await approved(editable, diff, "end", "End")
    assert rows(acted, "select valid_to from observations where id = 3") == [
        ("2024-07-01 00:00:00",)
    ]
    html = await page()
    ends = [f.value("arguments") for f in forms(html, "/actions/end")]
    assert not [each for each in ends if '"observation": 3' in each]
    [form] = [
        f for f in forms(html, "/actions/correct") if '"observation": 1' in f.value("arguments")
    ]
    diff = await press(editable, form.fill(confidence="0.25"), "Correct")
    await approved(editable, diff, "correct", "Correct")
    assert rows(acted, "select confidence from observations where id = 1") == [(0.25,)]
    # a relation of either end; one that ended has no form
    ends = [f for f in forms(html, "/actions/end") if '"relation"' in f.value("arguments")]
    numbers = {json.loads(f.value("arguments"))["relation"] for f in ends}
    assert 5 not in numbers
    assert {1, 2, 3} < numbers
    [form] = [f for f in ends if '"relation": 2' in f.value("arguments")]
    await approved(editable, await press(editable, form, "End"), "end", "End")
    assert rows(acted, "select valid_to is not null from relations where id = 2") == [(1,)]
    # the entity itself
    [form] = [
        f for f in forms(await page(), "/actions/correct") if '"entity"' in f.value("arguments")
    ]
    diff = await press(editable, form.fill(confidence="0.5"), "Correct")
    await approved(editable, diff, "correct", "Correct")
    form = one(await page(), "/actions/archive")
    refused = await press(editable, form, "Archive")
    assert refused.status_code == 400
    diff = await press(editable, form.fill(reason="over & <b>out</b>"), "Archive")
    done = await approved(editable, diff, "archive", "Archive")
    assert "over & <b>out</b>" in words(done)
    html = await page()
    assert forms(html, "/actions/archive") == []
    assert f"{base(acted)}/split/{ATLAS}" not in links(html)
    diff = await press(editable, one(html, "/actions/restore"), "Restore")
    await approved(editable, diff, "restore", "Restore")
    assert rows(acted, "select archived_at, confidence from entities where id = ?", ATLAS) == [
        (None, 0.5)
    ]
    listed = await get_json(editable, f"{base(acted)}/changes.json?entity={ATLAS}")
    assert [each["action"] for each in listed["changes"]] == [
        "restore", "archive", "correct", "correct", "end", "delete", "delete",
    ]  # fmt: skip


# reports ------------------------------------------------------------------------------------------


async def test_names_alike_are_merged_from_health_and_from_duplicates(
    acted: Path, editable: Any
) -> None:
    write(
        acted,
        ("insert into entities(id, name) values (70, 'atlas')", []),
        ("insert into entities(id, name, archived_at) values (71, 'átlas', '2024-01-01')", []),
    )
    for page in ("/health", "/duplicates"):
        form = one(await look(editable, base(acted) + page), "/actions/merge_entities")
        assert [value for value, _ in form.control("keep").options] == ["1", "7", "70"]
        form.fill(keep="7").tick("others", "70", on=False)
        diff = await press(editable, form, "Merge")
        given = json.loads(one(diff.text, "/actions/merge_entities").value("arguments"))
        assert given == {"keep": 7, "others": [1]}
    write(acted, ("update entities set name = 'else' where id = 70", []))
    form = one(await look(editable, f"{base(acted)}/health"), "/actions/merge_entities")
    diff = await press(editable, form.fill(keep="1"), "Merge")
    await approved(editable, diff, "merge_entities", "Merge")
    assert rows(acted, "select archived_reason from entities where id = 7") == [
        ("merged into 'Atlas'",)
    ]


async def test_rows_of_health_lead_to_their_action(acted: Path, editable: Any) -> None:
    write(acted, ("update entities set archived_at = '2024-01-01' where id = 2", []))
    html = await look(editable, f"{base(acted)}/health")
    assert f"{base(acted)}/review" in links(html)
    archives = {json.loads(f.value("arguments"))["entity"] for f in forms(html, "/actions/archive")}
    assert 6 in archives
    restores = [json.loads(f.value("arguments"))["entity"] for f in forms(html, "/actions/restore")]
    bridges = (await get_json(editable, f"{base(acted)}/health.json"))["findings"]
    [found] = [each for each in bridges if each["name"] == "archived_bridges"]
    assert restores == [row["id"] for row in found["rows"]]


async def test_what_is_stale_is_archived_from_the_report(acted: Path, editable: Any) -> None:
    html = await look(editable, f"{base(acted)}/consolidation?stale_days=1")
    assert f"{base(acted)}/review" in links(html)
    found = {json.loads(f.value("arguments"))["entity"]: f for f in forms(html, "/actions/archive")}
    assert set(found) == {
        row["id"]
        for row in (await get_json(editable, f"{base(acted)}/consolidation.json?stale_days=1"))[
            "stale_entities"
        ]
    }
    diff = await press(editable, found[LIKE].fill(reason="old"), "Archive")
    assert "stale_days=1" in one(diff.text, "/actions/archive").value("return")
    await approved(editable, diff, "archive", "Archive")
    assert rows(acted, "select archived_reason from entities where id = ?", LIKE) == [("old",)]


# who may ------------------------------------------------------------------------------------------

PAGES = (
    "/split/1",
    "/split/1?by_hand=1",
    "/split/8",
    "/duplicates",
    "/duplicates/8",
    "/entity/1",
    "/entity/4",
    "/health",
    "/consolidation?stale_days=1",
)


@pytest.mark.parametrize(
    ("allow", "actor", "may"),
    [
        (None, AGENT, False),
        (None, None, False),
        (AGENT, None, False),
        (AGENT, {"id": "other"}, False),
        (AGENT, AGENT, True),
        (None, {"id": "root"}, True),
    ],
)
async def test_without_the_permission_there_is_no_form(
    allow: Any, actor: Any, may: bool, acted: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, acted, allow=allow or {"id": "root"})
    datasette.root_enabled = True
    before = digest(acted)
    seen = 0
    for url in PAGES:
        html = (await look(datasette, base(acted) + url, actor=actor)).split("<h1", 1)[1]
        posts = html.count('method="post"')
        seen += posts
        if not may:
            assert posts == 0, url
            assert "<button" not in html, url
            html = html.replace(".json?by_hand", "")
            for tag in (
                "csrftoken",
                "<select",
                "<textarea",
                'type="checkbox"',
                "?by_hand",
                "limbic-quiet",
                "Merge…",
            ):
                assert tag not in html, (url, tag)
    assert (seen > 0) is may
    form = {"show": "diff", "children.0.name": "x", "place.3": "0"}
    sent = await send(datasette, f"{base(acted)}/split/1", form, actor=actor)
    assert sent.status_code == (200 if may else 403)
    assert digest(acted) == before


async def test_a_file_that_cannot_be_written_has_no_forms(acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, immutables=[str(acted)])
    for url in PAGES:
        html = await look(datasette, base(acted) + url)
        assert 'method="post"' not in html.split("<h1", 1)[1], url


async def test_pages_of_other_sites_get_no_form(acted: Path, editable: Any) -> None:
    for headers in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}):
        sent = await send(editable, f"{base(acted)}/split/1", {"show": "diff"}, headers=headers)
        assert sent.status_code == 403


async def test_who_may_not_view_the_log_gets_no_diff_of_a_split(
    acted: Path, make_datasette: Any
) -> None:
    hidden = {"databases": {acted.stem: {"tables": {"limbic_changes": {"allow": False}}}}}
    datasette = editing_datasette(make_datasette, acted, more=hidden)
    form = {"show": "diff", "children.0.name": "Maps", "place.3": "0"}
    sent = await send(datasette, f"{base(acted)}/split/1", form)
    assert sent.status_code == 403
    assert "drawn by hand" not in sent.text
