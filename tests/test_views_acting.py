"""POST …/actions/{name}: the diff before a yes, and doing it, as JSON and as forms."""

from __future__ import annotations

import json
import re
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from actions_helpers import (
    ARGUMENTS,
    ATLAS,
    BOREALIS,
    LIKE,
    MODEL,
    TWIN,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    assert_settled,
    differing,
    dump,
    opened,
    prepared,
)
from datasette.utils.sqlite import sqlite3
from test_views_feedback import FORM, token
from test_views_observations import editing_datasette
from view_helpers import (
    AGENT,
    ONE_POINT_ZERO,
    as_actor,
    base,
    digest,
    get,
    post,
    post_json,
    recording_datasette,
    rows,
    text_of,
    write,
)

from datasette_limbic import actions, connection, permissions
from datasette_limbic.actions import kinds
from datasette_limbic.actions.acting import Action, act
from datasette_limbic.errors import Busy, NotRecorded
from datasette_limbic.views import acting, diff_display

pytestmark = pytest.mark.slow  # the pages are no other on another Python

ARCHIVE = {"entity": ATLAS, "reason": "done"}
OTHER = {"id": "other"}
# what is ended, is ended now
TIME = re.compile(r"\d\d:\d\d:\d\d")


def url(path: Path, name: str) -> str:
    return f"{base(path)}/actions/{name}"


def browser(datasette: Any, actor: dict[str, Any] | None = AGENT) -> dict[str, str]:
    """The cookies of somebody who looks at the pages."""
    cookies = as_actor(datasette, actor) if actor else {}
    return cookies if ONE_POINT_ZERO else {**cookies, "ds_csrftoken": token(datasette)}


async def submit(
    datasette: Any,
    path: Path,
    name: str,
    fields: Any,
    *,
    actor: dict[str, Any] | None = AGENT,
    headers: Any = None,
) -> Any:
    """What a browser sends for a form of ours."""
    await datasette.invoke_startup()
    cookies = browser(datasette, actor)
    pairs = list(fields.items()) if isinstance(fields, dict) else list(fields)
    if not ONE_POINT_ZERO:
        pairs.append(("csrftoken", cookies["ds_csrftoken"]))
    sent = {"content-type": FORM, "accept": "text/html,*/*", **(headers or {})}
    sent.setdefault("sec-fetch-site", "same-origin")
    content = urlencode(pairs).encode()
    return await datasette.client.post(
        url(path, name), content=content, headers=sent, cookies=cookies
    )


def arguments_of(given: dict[str, Any], **more: str) -> dict[str, str]:
    return {"arguments": json.dumps(given), **more}


def form_of(html: str, name: str) -> dict[str, str]:
    """The hidden fields of the page's form for an action, as a browser sends them back."""
    [markup] = re.findall(rf'<form[^>]*/actions/{name}".*?</form>', html, re.S)
    fields = {}
    for tag in re.findall(r"<input[^>]*>", markup):
        found = {key: unescape(value) for key, value in re.findall(r'(\w+)="([^"]*)"', tag)}
        fields[found["name"]] = found["value"]
    assert fields.pop("csrftoken") or ONE_POINT_ZERO
    return fields


def said(response: Any) -> str:
    return unescape(text_of(response.text.split("<h1")[1]))


def dumped(path: Path) -> dict[str, list[str]]:
    with opened(path) as conn:
        return dump(conn)


# what each action does ---------------------------------------------------------------------------


@pytest.mark.parametrize("case", ARGUMENTS)
async def test_json_looks_then_acts_and_is_undone(
    case: str, acted: Path, make_datasette: Any, models: Any
) -> None:
    with opened(acted) as conn:
        name, arguments = prepared(conn, case)
        expected = act(conn, name, arguments, dry_run=True)
    before, seen = dumped(acted), digest(acted)
    datasette = editing_datasette(make_datasette, acted)
    looked = await post_json(datasette, url(acted, name), {**arguments, "dry_run": True})
    assert digest(acted) == seen
    assert set(looked) == {"ok", *expected}
    for key in ("action", "dry_run", "change", "summary", "entity", "warnings", "basis", "insight"):
        assert TIME.sub("", str(looked[key])) == TIME.sub("", str(expected[key])), key
    assert looked["diff"]["counts"] == expected["diff"]["counts"]
    # what is answered can be sent back as it is
    body = {**looked["arguments"], "basis": looked["basis"]}
    done = await post_json(datasette, url(acted, name), body)
    assert (done["dry_run"], done["search"]) == (False, {"updated": True, "reason": None})
    assert rows(acted, "select action, actor from limbic_changes where id = ?", done["change"]) == [
        (name, "agent")
    ]
    assert dumped(acted) != before
    with opened(acted) as conn:
        assert_settled(conn, models[MODEL])
    await post_json(datasette, url(acted, "undo.json"), {"change": done["change"]})
    assert differing(before, dumped(acted)) == {}


def test_every_action_has_a_case() -> None:
    assert {name for name, _ in ARGUMENTS.values()} == set(kinds.KINDS)


@pytest.mark.parametrize("case", ARGUMENTS)
async def test_a_form_shows_asks_acts_and_says_what_was_done(
    case: str, acted: Path, make_datasette: Any
) -> None:
    with opened(acted) as conn:
        name, arguments = prepared(conn, case)
        expected = act(conn, name, arguments, dry_run=True)
    before, seen = dumped(acted), digest(acted)
    datasette = editing_datasette(make_datasette, acted)
    back = f"/entity/{ATLAS}?page=1"
    page = await submit(datasette, acted, name, arguments_of(arguments, **{"return": back}))
    assert page.status_code == 200, page.text[:500]
    assert digest(acted) == seen
    words = said(page)
    assert "Nothing has been changed yet." in words
    for each in (expected["summary"], *expected["warnings"]):
        assert TIME.sub("", re.sub(r"\s+", " ", each)).lower() in TIME.sub("", words).lower()
    assert page.text.count("<li><span") == len(expected["diff"]["rows"])
    # the heading has the focus, and no button does
    assert page.text.count("autofocus") == 1
    assert re.search(r"<h1[^>]* autofocus>", page.text)
    assert f'href="{base(acted)}{back}">Cancel</a>' in page.text
    fields = form_of(page.text, name)
    assert fields["approve"] == "1"
    assert fields["return"] == back
    answer = await submit(datasette, acted, name, fields)
    number = rows(acted, "select max(id) from limbic_changes")[0][0]
    assert answer.status_code == 303, answer.text[:500]
    to = f"{base(acted)}/changes/{number}?done=1&return=%2Fentity%2F{ATLAS}%3Fpage%3D1"
    assert answer.headers["location"] == to
    assert rows(acted, "select actor from limbic_changes where id = ?", number) == [("agent",)]
    done = await get(datasette, to, cookies=browser(datasette))
    assert "Done." in said(done)
    assert f'href="{base(acted)}{back}">Back to where you were</a>' in done.text
    assert done.text.count("<li><span") == len(expected["diff"]["rows"])
    # and back
    undo = await submit(datasette, acted, "undo", form_of(done.text, "undo"))
    assert undo.status_code == 200
    answer = await submit(datasette, acted, "undo", form_of(undo.text, "undo"))
    assert answer.status_code == 303
    assert differing(before, dumped(acted)) == {}


async def test_the_page_reads_as_a_sentence_of_each_row(acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, acted)
    _, arguments = ARGUMENTS["split"]
    words = said(await submit(datasette, acted, "split", arguments_of(arguments)))
    for expected in (
        "2 new entities",
        "5 moved observations",
        "4 new relations",
        "Moved observations 3 Atlas → to Atlas: maps new",
        "→ Maps are drawn by hand in Oslo",
        "Moved observations 2 Atlas → to Atlas: 予算 new",
        "+ Atlas → contiene → Atlas: maps",
        "+ Atlas: 予算 → parte_de → Atlas",
        "type: Ledger",
        "3 texts are embedded first",
        "Split Change it Cancel It can be undone",
    ):
        assert expected in words, expected
    words = said(await submit(datasette, acted, "archive", arguments_of(ARCHIVE)))
    assert "reason: – → becomes done" in words
    words = said(await submit(datasette, acted, "delete", arguments_of({"observations": [14]})))
    assert "− Everything about gamma rays and detectors of Gamma" in words
    assert "kept pair" in words


async def test_long_lists_are_cut(
    acted: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diff_display, "SHOWN", 2)
    datasette = editing_datasette(make_datasette, acted)
    given = {"observations": [1, 2, 3, 4, 5]}
    page = await submit(datasette, acted, "delete", arguments_of(given))
    assert "Removed observations 5" in said(page)
    assert "and 3 more" in said(page)
    # and approving takes all of them
    await submit(datasette, acted, "delete", form_of(page.text, "delete"))
    assert rows(acted, "select count(*) from observations where id < 6") == [(0,)]
    detail = await get(datasette, f"{base(acted)}/changes/1")
    assert "and 3 more: the JSON has them all" in said(detail)
    monkeypatch.setattr(diff_display, "SHOWN_IN_ALL", 1)
    detail = await get(datasette, f"{base(acted)}/changes/1")
    assert "and 5 more: the JSON has them all" in said(detail)


async def test_what_a_preview_leaves_out_is_counted_on_its_page(
    acted: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasette = editing_datasette(make_datasette, acted)
    given = ARGUMENTS["merge_entities"][1]
    whole = await submit(datasette, acted, "merge_entities", arguments_of(given))
    monkeypatch.setattr(actions.acting, "MOST", 0)
    bounded = await submit(datasette, acted, "merge_entities", arguments_of(given))
    heading = re.compile(r'<h3 id="limbic-diff-.*?</h3>')
    sizes = [re.findall(r">(\d+)<", found)[0] for found in heading.findall(whole.text)]
    assert heading.findall(bounded.text) == heading.findall(whole.text)
    assert len(sizes) > 3
    assert re.findall(r"\band (\d+) more\b", said(bounded)) == sizes
    answer = await post_json(
        datasette, url(acted, "merge_entities"), {**given, "dry_run": True}, actor=AGENT
    )
    diff = answer["diff"]
    assert diff["rows"] == []
    moved = [(each["from"], each["to"]) for each in diff["left_out"] if each["what"] == "moved"]
    assert (TWIN, ATLAS) in moved


async def test_thousands_of_ids_fit(acted: Path, make_datasette: Any) -> None:
    ids = list(range(100_001, 105_001))
    many = [("insert into observations(id, entity_id, content) values (?, 6, ?)", [i, f"fact {i}"])
            for i in ids]  # fmt: skip
    write(acted, *many)
    datasette = editing_datasette(make_datasette, acted)
    half = [
        {"name": "Half", "observations": ids[:2500]},
        {"name": "Rest", "observations": ids[2500:]},
    ]
    page = await submit(datasette, acted, "split", arguments_of({"entity": 6, "children": half}))
    assert page.status_code == 200, said(page)[:500]
    fields = {**form_of(page.text, "split"), "embed": "0"}
    assert (await submit(datasette, acted, "split", fields)).status_code == 303
    assert rows(acted, "select count(*) from observations where entity_id = 6") == [(0,)]
    found = await post_json(datasette, url(acted, "delete"), {"observations": ids, "embed": False})
    assert found["diff"]["counts"]["observations"]["removed"] == 5000


# who may -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allow", "actor", "may"),
    [
        (None, AGENT, False),
        (None, None, False),
        (None, {"id": "root"}, True),
        (AGENT, AGENT, True),
        (AGENT, OTHER, False),
        (AGENT, None, False),
        ({"unauthenticated": True}, None, True),
        (False, {"id": "root"}, False),
    ],
)
async def test_who_may(allow: Any, actor: Any, may: bool, acted: Path, make_datasette: Any) -> None:
    """All who may view the tables see what would happen; to do it needs the permission."""
    datasette = editing_datasette(make_datasette, acted, allow=allow)
    if ONE_POINT_ZERO:
        datasette.root_enabled = True
    before = digest(acted)
    dry = {**ARCHIVE, "dry_run": True}
    assert (await post_json(datasette, url(acted, "archive"), dry, actor=actor))["change"] is None
    page = await submit(datasette, acted, "archive", arguments_of(ARCHIVE), actor=actor)
    assert page.status_code == 200
    assert ("<button" in page.text.split("<h1")[1]) is may
    assert ("needs the permission limbic-edit" in said(page)) is not may
    yes = arguments_of(ARCHIVE, approve="1")
    if not may:
        found = await post_json(datasette, url(acted, "archive"), ARCHIVE, 403, actor=actor)
        assert found["error"] == "changing a memory needs the permission limbic-edit"
        answer = await submit(datasette, acted, "archive", yes, actor=actor)
        assert answer.status_code == 403
        assert digest(acted) == before
        return
    assert (await submit(datasette, acted, "archive", yes, actor=actor)).status_code == 303
    await post_json(datasette, url(acted, "undo"), {"change": 1}, actor=actor)
    who = actor["id"] if actor else None
    assert rows(acted, "select actor from limbic_changes") == [(who,), (who,)]


async def test_the_right_to_record_is_none_to_edit(acted: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, acted)
    found = await post_json(datasette, url(acted, "archive"), ARCHIVE, 403)
    assert permissions.EDIT in found["error"]


@pytest.mark.parametrize("table", [*acting.TABLES])
async def test_whoever_may_not_view_a_table_sees_no_diff(
    table: str, acted: Path, make_datasette: Any
) -> None:
    hidden = {"databases": {"acted": {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = editing_datasette(make_datasette, acted, more=hidden)
    before = digest(acted)
    for body in (ARCHIVE, {**ARCHIVE, "dry_run": True}):
        found = await post_json(datasette, url(acted, "archive"), body, 403)
        assert f"view-table on acted/{table}" in found["error"]
    for fields in (arguments_of(ARCHIVE), arguments_of(ARCHIVE, approve="1")):
        response = await submit(datasette, acted, "archive", fields)
        assert response.status_code == 403
        assert "Atlas" not in response.text
    assert digest(acted) == before


FORGED = (
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
    {"sec-fetch-site": "cross-site", "content-type": f"{FORM}; charset=application/json"},
)


@pytest.mark.usefixtures("menus_for_all")
async def test_pages_of_other_sites_change_nothing(acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, acted, allow=True)
    before = digest(acted)
    fields = arguments_of(ARCHIVE, approve="1")
    for headers in FORGED:
        for actor in (AGENT, None):
            sent = await submit(datasette, acted, "archive", fields, actor=actor, headers=headers)
            assert sent.status_code == 403, headers
            only = {k: v for k, v in headers.items() if k != "content-type"}
            sent = await post(datasette, url(acted, "archive"), ARCHIVE, actor=actor, headers=only)
            assert sent.status_code == 403, headers
    if not ONE_POINT_ZERO:
        cookies = browser(datasette)
        for wrong in (fields, {**fields, "csrftoken": "wrong"}):
            answer = await datasette.client.post(
                url(acted, "archive"),
                content=urlencode(wrong).encode(),
                headers={"content-type": FORM, "accept": "text/html"},
                cookies=cookies,
            )
            assert answer.status_code == 403
    assert digest(acted) == before
    assert (await submit(datasette, acted, "archive", fields)).status_code == 303


@pytest.mark.parametrize("kind", [None, FORM, "text/plain"])
async def test_types_that_a_page_can_send_unasked_are_refused(
    kind: str | None, acted: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, acted, allow=True)
    before = digest(acted)
    for actor in (AGENT, None):
        sent = await post(datasette, url(acted, "archive"), ARCHIVE, kind=kind, actor=actor)
        assert sent.status_code in ((400, 403) if actor and not ONE_POINT_ZERO else (400,))
        if sent.status_code == 400:
            assert "content-type: application/json" in sent.json()["error"]
    assert digest(acted) == before


async def test_an_immutable_or_read_only_file(
    acted: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digest(acted)
    immutable = editing_datasette(make_datasette, immutables=[str(acted)])
    monkeypatch.setattr("datasette_limbic.views.writable.os.access", lambda *_: False)
    readonly = editing_datasette(make_datasette, acted)
    for datasette, why in ((immutable, "opened as immutable"), (readonly, "file is read-only")):
        found = await post_json(datasette, url(acted, "archive"), ARCHIVE, 409)
        assert found["error"].startswith("nothing was changed: the database")
        assert why in found["error"]
        page = await submit(datasette, acted, "archive", arguments_of(ARCHIVE))
        assert (page.status_code, "<button" in page.text.split("<h1")[1]) == (200, False)
        assert why in said(page)
        yes = await submit(datasette, acted, "archive", arguments_of(ARCHIVE, approve="1"))
        assert yes.status_code == 409
        assert why in said(yes)
        await post_json(datasette, url(acted, "archive"), {**ARCHIVE, "dry_run": True})
        looked = await get(datasette, f"{base(acted)}/changes", cookies=as_actor(datasette, AGENT))
        assert "<button" not in looked.text.split("<h1")[1]
    assert digest(acted) == before


# what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "body", "status", "words"),
    [
        ("archive", "", 400, "the body is empty"),
        ("archive", "{", 400, "no JSON"),
        ("archive", [], 400, "no object"),
        ("archive", {**ARCHIVE, "now": "2001-01-01"}, 400, "unknown key now"),
        ("archive", {**ARCHIVE, "actor": "root"}, 400, "unknown key actor"),
        ("archive", {"entity": ATLAS}, 400, "reason is missing"),
        ("archive", {"reason": "x"}, 400, "entity is None"),
        ("archive", {"entity": "Atlantis", "reason": "x"}, 404, "no entity with the name"),
        ("archive", {"entity": 4, "reason": "x"}, 409, "was archived already"),
        ("archive", {**ARCHIVE, "dry_run": "yes"}, 400, "dry_run is 'yes': use true or false"),
        ("archive", {**ARCHIVE, "embed": 0}, 400, "embed is 0: use true or false"),
        ("archive", {**ARCHIVE, "basis": 5}, 400, "basis is 5"),
        ("archive", {**ARCHIVE, "basis": "nonsense"}, 400, "which is none of a proposal"),
        ("archive", {**ARCHIVE, "insight": "1"}, 400, "insight is '1'"),
        ("archive", {**ARCHIVE, "insight": True}, 400, "insight is True"),
        ("archive", {**ARCHIVE, "insight": 99}, 404, "no insight 99"),
        ("archive", {**ARCHIVE, "reason": "x" * 1_100_000}, 413, "1,048,576 bytes"),
        ("delete", {"observations": [999]}, 404, "no observation 999"),
        ("delete", {"observations": [2**70]}, 400, "observations is 1180"),
        ("undo", {"change": 5}, 404, "there is no change 5"),
        ("split", {"entity": BOREALIS}, 409, "was not split"),
        ("merge", {"entity": BOREALIS}, 409, "no duplicates"),
        ("nothing", ARCHIVE, 404, "there is no action 'nothing': use one of split, merge"),
        ("SPLIT", ARCHIVE, 404, "there is no action 'SPLIT'"),
    ],
)
async def test_what_is_refused(
    name: str, body: Any, status: int, words: str, acted: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, acted)
    before = digest(acted)
    found = await post_json(datasette, url(acted, name), body, status)
    assert words in found["error"]
    assert digest(acted) == before


@pytest.mark.parametrize(
    ("name", "fields", "status", "words"),
    [
        ("archive", {"arguments": "{"}, 400, "no JSON"),
        ("archive", {"arguments": "[]"}, 400, "no object"),
        ("archive", {"entity": "1"}, 400, "reason is missing"),
        ("archive", {"entity": "1", "reason": " "}, 400, "reason is missing"),
        ("archive", {"entity": "Atlas", "reason": "x", "actor": "root"}, 400, "field actor"),
        ("archive", {"entity": "1", "reason": "x", "insight": "one"}, 400, "insight is 'one'"),
        ("archive", {"entity": "1", "reason": "x", "basis": "?"}, 400, "none of a proposal"),
        ("correct", {"observation": "3", "confidence": "much"}, 400, "confidence is 'much'"),
        ("correct", {"observation": "3", "confidence": "nan"}, 400, "confidence"),
        ("split", {"entity": "1", "children": "[]"}, 400, "given in arguments, as JSON"),
        ("split", {"entity": "1", "place.3": "100"}, 400, "place.3 is '100'"),
        ("split", {"entity": "1", "place.3": "-1"}, 400, "place.3 is '-1'"),
        ("split", {"arguments": '{"children": 5}', "children.0.name": "x"}, 400, "list of objects"),
        ("merge", {"entity": "8", "clusters.0.keep": "14"}, 400, "there are 0 clusters"),
        ("merge", {"entity": "8", "place.3": "1"}, 400, "unknown field place.3"),
        ("delete", {}, 400, "nothing would be deleted: tick at least one observation"),
        ("delete", {"arguments": "{}"}, 400, "tick at least one observation"),
        (
            "split",
            {"arguments": '{"children": [{"observations": [[]]}]}', "place.3": "0"},
            400,
            "observations of a child is [[]]: use a list of ids",
        ),
        (
            "merge",
            {"arguments": '{"clusters": [{"keep": 1, "remove": [{}]}]}', "clusters.0.remove": "2"},
            400,
            "remove of a cluster is [{}]: use a list",
        ),
        ("undo", {"change": "7"}, 404, "no change 7"),
        ("nothing", {"change": "7"}, 404, "no action 'nothing'"),
    ],
)
async def test_what_is_refused_of_a_form(
    name: str, fields: dict[str, str], status: int, words: str, acted: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, acted)
    before = digest(acted)
    for approve in ("", "1"):
        response = await submit(datasette, acted, name, {**fields, "approve": approve})
        assert response.status_code == status, said(response)
        assert words.lower() in said(response).lower()
        assert 'role="alert"' in response.text
    assert digest(acted) == before


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
async def test_only_post_acts(method: str, acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, acted)
    await datasette.invoke_startup()
    query = urlencode({"arguments": json.dumps(ARCHIVE), "approve": "1"})
    before = digest(acted)
    response = await datasette.client.request(
        method,
        f"{url(acted, 'archive')}?{query}",
        headers={"content-type": "application/json"},
        cookies=as_actor(datasette, AGENT),
    )
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert digest(acted) == before


@pytest.mark.parametrize("path", ["actions/archive", "reflect", "reviewed", "feedback"])
async def test_a_person_who_opens_the_address_of_a_form_gets_a_page(
    path: str, acted: Path, make_datasette: Any
) -> None:
    more = {"databases": {"acted": {"allow": {"id": "root"}}}}
    datasette = editing_datasette(make_datasette, acted)
    hidden = editing_datasette(make_datasette, acted, more=more)
    headers = {"accept": "text/html,application/xhtml+xml"}
    address = f"{base(acted)}/{path}"
    page = await get(datasette, address, headers=headers)
    assert page.status_code == 405
    assert page.headers["allow"] == "POST"
    assert page.headers["content-type"].startswith("text/html")
    assert "GET is not answered here: use POST" in said(page)
    assert "forms of other pages lead: go back to the one you were on." in said(page)
    assert f'href="{base(acted)}">Memory overview</a>' in page.text
    # a program, and an address that is JSON's, get that
    for other, sent in ((address, {}), (f"{address}.json", headers)):
        found = await get(datasette, other, headers=sent)
        assert (found.status_code, found.json()["ok"]) == (405, False)
    # whoever may not see the database learns nothing of it
    page = await get(hidden, address, headers=headers)
    assert (page.status_code, base(acted) in page.text) == (405, False)


async def test_a_database_that_is_no_memory(tmp_path: Path, make_datasette: Any) -> None:
    path = tmp_path / "plain.db"
    with closing(connection.connect(path, create=True)) as conn:
        conn.execute("create table t(x)")
        conn.commit()
    datasette = editing_datasette(make_datasette, path)
    for name in ("archive", "split"):
        found = await post_json(datasette, url(path, name), {"entity": 1}, 404)
        assert "holds no memory" in found["error"]
        response = await submit(datasette, path, name, {"entity": "1"})
        assert response.status_code == 404


async def test_a_file_of_an_earlier_version(acted: Path, make_datasette: Any) -> None:
    write(acted, ("alter table limbic_insights drop column judged_before", []))
    datasette = editing_datasette(make_datasette, acted)
    found = await post_json(datasette, url(acted, "archive"), ARCHIVE, 409)
    assert "datasette limbic init" in found["error"]


# what changed meanwhile --------------------------------------------------------------------------


async def test_a_stale_proposal_says_what_changed_and_shows_it_anew(
    acted: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, acted)
    _, arguments = ARGUMENTS["split"]
    looked = await post_json(datasette, url(acted, "split"), {**arguments, "dry_run": True})
    page = await submit(datasette, acted, "split", arguments_of(arguments))
    write(acted, ("update observations set content = 'Another text' where id = 3", []))
    before = digest(acted)
    body = {**looked["arguments"], "basis": looked["basis"]}
    found = await post_json(datasette, url(acted, "split"), body, 409)
    assert "observation 3 changed" in found["error"]
    again = await submit(datasette, acted, "split", form_of(page.text, "split"))
    assert again.status_code == 409
    assert "Not done. Nothing was changed" in said(again)
    assert "observation 3 changed" in said(again)
    assert "→ Another text" in said(again)
    assert digest(acted) == before
    # with what it shows now it goes on
    done = await submit(datasette, acted, "split", form_of(again.text, "split"))
    assert done.status_code == 303


async def test_two_yeses(acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, acted)
    page = await submit(datasette, acted, "archive", arguments_of(ARCHIVE))
    fields = form_of(page.text, "archive")
    assert (await submit(datasette, acted, "archive", fields)).status_code == 303
    second = await submit(datasette, acted, "archive", fields, headers={})
    assert second.status_code == 409
    assert "archived" in said(second)
    assert "<button" not in second.text.split("<h1")[1]
    assert rows(acted, "select count(*) from limbic_changes") == [(1,)]


async def test_an_insight_is_approved_with_it(acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, acted)
    part = [{"name": "Part", "observations": [3]}]
    fields = {"arguments": json.dumps({"entity": ATLAS, "children": part}), "insight": "1"}
    page = await submit(datasette, acted, "split", fields)
    assert "status: pending → becomes approved" in said(page)
    other = await submit(datasette, acted, "archive", arguments_of(ARCHIVE, insight="1"))
    assert other.status_code == 409
    assert "not what insight 1 (Split Atlas) proposes: split" in said(other)
    assert (await submit(datasette, acted, "split", form_of(page.text, "split"))).status_code == 303
    assert rows(acted, "select status, judged_by from limbic_insights where id = 1") == [
        ("approved", "agent")
    ]
    again = {"entity": BOREALIS, "reason": "x", "insight": 1}
    found = await post_json(datasette, url(acted, "archive"), again, 409)
    assert "was approved by agent" in found["error"]


async def test_others_write_meanwhile(
    acted: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read, embedded and written again; after so many times it is given up, undone."""
    write_, left = Action.write, [2]

    def disturbed(action: Action, conn: Any) -> bool:
        left[0] -= 1
        return False if left[0] >= 0 else write_(action, conn)

    monkeypatch.setattr(Action, "write", disturbed)
    datasette = editing_datasette(make_datasette, acted)
    assert (await post_json(datasette, url(acted, "archive"), ARCHIVE))["change"] == 1
    left[0], before = 100, digest(acted)
    found = await post_json(datasette, url(acted, "undo"), {"change": 1}, 503)
    assert "others wrote 5 times" in found["error"]
    assert left[0] == 95
    assert digest(acted) == before


@pytest.mark.usefixtures("impatient_connections")
async def test_a_locked_database(acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, acted)
    await datasette.invoke_startup()
    await datasette.get_database("acted").execute_write_fn(lambda conn: None)
    before = digest(acted)
    other = connection.connect(acted)
    other.execute("begin immediate")
    try:
        found = await post_json(datasette, url(acted, "archive"), ARCHIVE, 503)
        assert found["error"].startswith("nothing was changed: ")
        assert found["error"].endswith("locked. Send it again")
        page = await submit(datasette, acted, "archive", arguments_of(ARCHIVE, approve="1"))
        assert page.status_code == 503
        assert "Not done. Nothing was changed" in said(page)
        assert "locked. Send it again" in said(page)
        assert "Below is what would happen now, with the button to try again." in said(page)
        assert "reason: – → becomes done" in said(page)
        fields = form_of(page.text, "archive")
    finally:
        other.rollback()
        other.close()
    assert digest(acted) == before
    # the page is no dead end: the same button does it now
    assert (await submit(datasette, acted, "archive", fields)).status_code == 303
    assert rows(acted, "select action from limbic_changes") == [("archive",)]


@pytest.mark.usefixtures("impatient_connections")
async def test_a_file_that_nobody_may_read_meanwhile(
    acted: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where not even the diff can be made, what was asked for is on the page all the same."""
    datasette = editing_datasette(make_datasette, acted)
    await datasette.invoke_startup()
    read = Action.read
    fails = [sqlite3.OperationalError("database is locked"), NotRecorded("nothing was changed: x")]

    def disturbed(action: Action, conn: Any) -> Any:
        if not fails:
            return read(action, conn)
        raise fails.pop()

    monkeypatch.setattr(Action, "read", disturbed)
    page = await submit(datasette, acted, "archive", arguments_of(ARCHIVE, approve="1"))
    assert page.status_code == 503
    assert "Not done. Nothing was changed: x." in said(page)
    assert "Try again It shows what would happen first." in said(page)
    fields = form_of(page.text, "archive")
    assert "approve" not in fields
    again = await submit(datasette, acted, "archive", fields)
    assert "reason: – → becomes done" in said(again)


@pytest.mark.parametrize("error", [Busy("too much is being compared"), NotRecorded("x")])
async def test_a_look_that_has_to_wait_is_asked_for_again(
    error: Exception, acted: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = acting.WORKER.run

    async def busy(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(acting.WORKER, "run", busy)
    datasette = editing_datasette(make_datasette, acted)
    page = await submit(datasette, acted, "merge", arguments_of({"entity": LIKE}))
    assert page.status_code == 503
    assert "Not done." in said(page)
    monkeypatch.setattr(acting.WORKER, "run", run)
    again = await submit(datasette, acted, "merge", form_of(page.text, "merge"))
    assert (again.status_code, "Nothing has been changed yet." in said(again)) == (200, True)


async def test_the_model_fails(
    acted: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch, models: Any
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(models[MODEL], "embed_batch", fail)
    datasette = editing_datasette(make_datasette, acted)
    before = digest(acted)
    found = await post_json(datasette, url(acted, "archive"), ARCHIVE, 503)
    assert "nothing was changed" in found["error"]
    assert "embed: false" in found["error"]
    page = await submit(datasette, acted, "archive", arguments_of(ARCHIVE))
    again = await submit(datasette, acted, "archive", form_of(page.text, "archive"))
    assert again.status_code == 503
    assert digest(acted) == before
    assert "Archive without embedding" in said(again)
    assert "search by meaning with the next sync" in said(again)
    done = await submit(datasette, acted, "archive", form_of(again.text, "archive"))
    assert done.status_code == 303
    assert rows(acted, "select count(*) from limbic_stale") != [(0,)]
    change = await get(datasette, done.headers["location"])
    assert "not in the search by meaning yet" in said(change)


async def test_what_takes_seconds_waits_in_line(
    acted: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proposal that is left to us keeps neither the event loop nor a thread of the database."""
    asked: list[Any] = []
    run = acting.WORKER.run

    async def noted(key: Any, function: Any, *args: Any) -> Any:
        asked.append(args[1].name)
        return await run(key, function, *args)

    monkeypatch.setattr(acting.WORKER, "run", noted)
    datasette = editing_datasette(make_datasette, acted)
    found = await post_json(datasette, url(acted, "merge"), {"entity": LIKE, "dry_run": True})
    assert found["arguments"]["clusters"]
    assert asked == ["merge"]
    await post_json(datasette, url(acted, "merge"), {**found["arguments"], "dry_run": True})
    await post_json(datasette, url(acted, "split"), {"entity": BOREALIS, "dry_run": True}, 409)
    await post_json(datasette, url(acted, "archive"), {**ARCHIVE, "dry_run": True})
    assert asked == ["merge", "split"]


# fields ------------------------------------------------------------------------------------------


async def test_friendly_fields(acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, acted)
    cases: list[tuple[str, Any, Any]] = [
        ("archive", {"entity": "Atlas", "reason": " over "}, {"entity": ATLAS, "reason": "over"}),
        ("delete", [("observations", "3"), ("observations", "8")], {"observations": [3, 8]}),
        (
            "correct",
            {"observation": "3", "confidence": "0.5"},
            {"observation": 3, "confidence": 0.5},
        ),
        ("merge_entities", [("keep", "1"), ("others", "ATLAS")], {"keep": 1, "others": [7]}),
    ]
    for name, fields, expected in cases:
        page = await submit(datasette, acted, name, fields)
        assert page.status_code == 200, said(page)
        assert json.loads(form_of(page.text, name)["arguments"]) == expected
    # the page's own arguments, and a field on top of them
    fields = arguments_of({"entity": ATLAS, "reason": "from the page"}, reason="mine")
    page = await submit(datasette, acted, "archive", fields)
    assert json.loads(form_of(page.text, "archive")["arguments"])["reason"] == "mine"
    page = await submit(datasette, acted, "end", {"relation": "1", "at": ""})
    assert page.status_code == 200


async def test_a_split_is_edited_by_fields(acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, acted)
    _, arguments = ARGUMENTS["split"]
    fields = [
        ("arguments", json.dumps(arguments)),
        ("children.0.name", "Drawing"),
        ("children.1.entityType", "Plan"),
        ("children.2.name", "Third"),
        ("place.2", "1"),
        ("place.3", ""),
        ("place.4", "0"),
        ("place.7", "2"),
        ("place.1", "0"),
    ]
    page = await submit(datasette, acted, "split", fields)
    assert page.status_code == 200, said(page)
    assert json.loads(form_of(page.text, "split")["arguments"])["children"] == [
        {"name": "Drawing", "entityType": "Project", "observations": [4, 1]},
        {"name": "Atlas: 予算", "entityType": "Plan", "observations": [5, 6, 2]},
        {"name": "Third", "entityType": "Project", "observations": [7]},
    ]
    # a child that is left with nothing is not made
    fields = [
        ("arguments", json.dumps(arguments)), ("place.2", ""), ("place.3", ""), ("place.4", ""),
    ]  # fmt: skip
    page = await submit(datasette, acted, "split", fields)
    children = json.loads(form_of(page.text, "split")["arguments"])["children"]
    assert [child["name"] for child in children] == ["Atlas: 予算"]


async def test_a_merge_is_edited_by_fields(acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, acted)
    given = {"entity": LIKE, "clusters": [{"keep": 14, "remove": [13, 15]}]}
    fields = arguments_of(given, **{"clusters.0.keep": "13"})
    page = await submit(datasette, acted, "merge", fields)
    assert json.loads(form_of(page.text, "merge")["arguments"])["clusters"] == [
        {"keep": 13, "remove": [14, 15]}
    ]
    given["clusters"].append({"keep": 1, "remove": [2]})
    page = await submit(datasette, acted, "merge", arguments_of(given, **{"clusters.1.skip": "1"}))
    assert page.status_code == 200, said(page)
    assert len(json.loads(form_of(page.text, "merge")["arguments"])["clusters"]) == 1
    wrong = await submit(datasette, acted, "merge", arguments_of(given, **{"clusters.0.keep": "9"}))
    assert (wrong.status_code, "use one of [14, 13, 15]" in said(wrong)) == (400, True)


@pytest.mark.parametrize(
    ("asked", "back"),
    [
        ("/entity/5?page=2", "/entity/5?page=2"),
        ("/review?kind=split&page=3", "/review?kind=split&page=3"),
        ("", ""),
        ("{base}/duplicates/5", "/duplicates/5"),
        ("https://evil.example/", ""),
        ("//evil.example", ""),
        ("/../../-/logout", ""),
        ("/%2e%2e/x", ""),
        ("/a/..\\..", ""),
        ("\\\\evil.example", ""),
        ("/entity/5?a=1#observation-7", "/entity/5?a=1#observation-7"),
        ("javascript:alert(1)", ""),
        ("@evil.example", ""),
        (".evil.example", ""),
        ('/"><script>', ""),
        ("/x\r\nset-cookie: a=b", ""),
        ("/x?" + "a" * 2000, ""),
    ],
)
async def test_back_leads_to_a_page_of_ours_alone(
    asked: str, back: str, acted: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, acted)
    given = asked.format(base=base(acted)) if "{base}" in asked else asked
    page = await submit(datasette, acted, "archive", arguments_of(ARCHIVE, **{"return": given}))
    href = (base(acted) + back).replace("&", "&amp;")
    assert f'<a class="limbic-button" href="{href}">Cancel</a>' in page.text
    done = await submit(datasette, acted, "archive", form_of(page.text, "archive"))
    shown = await get(datasette, done.headers["location"])
    assert f'<a href="{href}">Back to where you were</a>' in shown.text
    shown = await get(
        datasette, f"{base(acted)}/changes/1?{urlencode({'return': given, 'done': 1})}"
    )
    assert f'<a href="{href}">Back to where you were</a>' in shown.text


async def test_under_a_base_url(acted: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, acted, settings={"base_url": "/m/"})
    given = {**arguments_of(ARCHIVE), "return": f"/m{base(acted)}/entity/1"}
    page = await submit(datasette, acted, "archive", given)
    assert f'href="/m{base(acted)}/entity/1">Cancel</a>' in page.text
    assert f'action="/m{base(acted)}/actions/archive"' in page.text
    done = await submit(datasette, acted, "archive", form_of(page.text, "archive"))
    assert done.headers["location"].startswith(f"/m{base(acted)}/changes/1?")
    found = await post_json(datasette, url(acted, "undo"), {"change": 1})
    assert found["change"] == 2


HOSTILE = "<script>alert(1)</script>\u202e\n\"'><b>&amp;"


async def test_hostile_texts_stay_texts(acted: Path, make_datasette: Any) -> None:
    write(
        acted,
        ("update entities set name = ?, entity_type = ? where id = 2", [HOSTILE, HOSTILE]),
        ("update observations set content = ? where id = 8", [HOSTILE]),
        ("update relations set relation_type = ? where id = 2", [HOSTILE]),
    )
    datasette = editing_datasette(make_datasette, acted)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("archive", {"entity": 2, "reason": HOSTILE}),
        ("delete", {"observations": [8]}),
        ("end", {"relation": 2}),
        ("split", {"entity": ATLAS, "children": [{"name": HOSTILE + "2", "observations": [1]}]}),
        ("merge_entities", {"keep": 2, "others": [6]}),
        ("archive", {"entity": HOSTILE + "x", "reason": "x"}),
    ]
    for name, arguments in asked:
        page = await submit(datasette, acted, name, arguments_of(arguments))
        pages = [page]
        if page.status_code == 200:
            fields = form_of(page.text, name)
            done = await submit(datasette, acted, name, fields)
            assert done.status_code == 303, said(done)
            pages.append(await get(datasette, done.headers["location"]))
            pages.append(await get(datasette, f"{base(acted)}/changes"))
        for each in pages:
            body = each.text.split("<h1")[1]
            assert "<b>" not in body
            assert "<script>alert" not in each.text
            # what turns the text around stays inside its own element
            turned = body.split("\u202e")[1:]
            assert turned or page.status_code != 200
            for after in turned:
                assert after.find("</bdi>") != -1, name


async def test_the_connection_for_a_proposal_is_closed(
    acted: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    connect = connection.connect

    def noted(*args: Any, **kwargs: Any) -> Any:
        made.append(connect(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(acting.connection, "connect", noted)
    datasette = editing_datasette(make_datasette, acted)
    await post_json(datasette, url(acted, "merge"), {"entity": LIKE, "dry_run": True})
    await post_json(datasette, url(acted, "split"), {"entity": BOREALIS, "dry_run": True}, 409)
    assert len(made) == 2
    for conn in made:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            conn.execute("select 1")


UNSEEN = (
    "\u200b",
    "\u2060\ufeff",
    "\u00ad \u200d",
    "\u202e",
    "\u3164",
    "\u034f\ufe0f",
    "\x01",
    "\ufffd",
)


@pytest.mark.parametrize("name", UNSEEN)
async def test_a_name_of_nothing_that_can_be_seen(
    name: str, acted: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, acted)
    child = {"name": name, "observations": [3]}
    body = {"entity": ATLAS, "children": [child], "dry_run": True}
    found = await post_json(datasette, url(acted, "split"), body, 400)
    assert "nothing of it can be seen" in found["error"]
    child["name"] = f"a{name}b"
    await post_json(datasette, url(acted, "split"), body)


async def test_no_page_holds_nul(acted: Path, make_datasette: Any) -> None:
    """A text of another program may hold U+0000, which no HTML may."""
    write(
        acted,
        ("update observations set content = 'Ma' || char(0) || 'ps' where id = 3", []),
        ("update entities set name = 'At' || char(0) || 'las' where id = 1", []),
    )
    datasette = editing_datasette(make_datasette, acted)
    shown = [await submit(datasette, acted, "delete", arguments_of({"observations": [3]}))]
    await post_json(datasette, url(acted, "delete"), {"observations": [3]})
    for path in ("/changes", "/changes/1", f"/entity/{ATLAS}", f"/split/{ATLAS}", "/review", ""):
        shown.append(await get(datasette, base(acted) + path, cookies=browser(datasette)))
    for response in shown:
        assert response.status_code == 200
        assert "\0" not in response.text
    assert "Ma\ufffdps" in shown[0].text
    assert "At\ufffdlas" in shown[3].text
    wrong = await get(datasette, f"{base(acted)}/split/x~00y", cookies=browser(datasette))
    assert (wrong.status_code, "\0" in wrong.text) == (404, False)
