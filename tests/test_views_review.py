"""The review queue: what waits, one decision after another, and what a yes does."""

from __future__ import annotations

import asyncio
import json
import re
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from actions_helpers import differing, dump
from insights_helpers import LARGE, id_of, judge_all, on, one, reflected, table
from review_helpers import (
    NAME,
    ORDER,
    buttons,
    carried,
    form,
    ids,
    look,
    queued_fixture,  # noqa: F401
    queued_master_fixture,  # noqa: F401
    review,
    send,
    words,
)
from test_views_observations import editing_datasette
from view_helpers import (
    AGENT,
    ONE_POINT_ZERO,
    as_actor,
    base,
    digest,
    get_json,
    post,
    post_json,
    recording_datasette,
    rows,
    write,
)

from datasette_limbic import connection, permissions
from datasette_limbic.actions import acting, log
from datasette_limbic.actions.acting import act
from datasette_limbic.insights import deciding
from datasette_limbic.views import diff_display, reflecting
from datasette_limbic.views.tabs import REVIEW_TABLES

pytestmark = pytest.mark.slow  # the pages are no other on another Python

OTHER = {"id": "other"}
ANA = {"id": "ana"}
IMPORTED = ("engrama:1", "engrama:2")
# what each kind does when it is approved as it is raised
DONE = {
    "contradiction": ("end", "select valid_to is not null from observations where id = 3"),
    "duplicate": ("merge", "select count(*) = 0 from observations where id = 1"),
    "name_clash": ("merge_entities", "select archived_at is not null from entities where id = 10"),
    "bridge": ("restore", "select archived_at is null from entities where id = 20"),
    "split": ("split", f"select count(*) < 24 from observations where entity_id = {LARGE}"),
    "archive_candidate": ("archive", "select archived_at is not null from entities where id = 30"),
    "engrama:1": ("archive", "select archived_reason = 'Nobody asks for it' from entities"
                  " where id = 11"),
}  # fmt: skip


def status(path: Path, number: int) -> str:
    return str(rows(path, "select status from limbic_insights where id = ?", number)[0][0])


def dumped(path: Path) -> dict[str, list[str]]:
    with closing(connection.connect(path, readonly=True)) as conn:
        return dump(conn)


def where(response: Any) -> tuple[str, dict[str, list[str]]]:
    """The path and arguments that a browser is sent to."""
    assert response.status_code == 303, words(response.text)[:600]
    found = urlsplit(response.headers["location"])
    return found.path, parse_qs(found.query)


# the queue ---------------------------------------------------------------------------------------


async def test_the_queue_in_its_order_with_counts(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    before = digest(queued)
    number = ids(queued)
    found = await get_json(datasette, review(queued, "").rstrip("/") + ".json")
    listed = [row["id"] for row in found["insights"]]
    expected = [number[kind] for kind in (*ORDER, *IMPORTED)]
    assert sorted(listed) == sorted(expected)
    kinds = [row["kind"] for row in found["insights"]]
    assert kinds == [*ORDER, "archive_candidate", "<b>hub</b>"]
    assert found["counts"]["archive_candidate"] == {"pending": 2, "approved": 0, "dismissed": 0}
    assert (found["pending"], found["judged"], found["first"]) == (8, 0, listed[0])
    assert found["kept"]["changed_since"] == 0
    html = await look(datasette, review(queued))
    assert buttons(html) == ["Look again"]
    start = re.search(r'<a class="[^"]*" href="([^"]*)"[^>]*>Start</a>', html)
    assert start
    assert start[1] == review(queued, listed[0])
    links = re.findall(r'href="[^"]*/review/(\d+)"', html.split("<tbody role")[1])
    assert list(map(int, links)) == listed
    assert re.search(r'Review <span class="limbic-badge limbic-warn">8<', html)
    assert "<b>hub" not in html
    assert "<script>alert" not in html
    assert digest(queued) == before


FILTERED = {
    "kind=duplicate": {"duplicate"},
    "entity=1": {"contradiction", "duplicate"},
    "entity=one": {"contradiction", "duplicate"},
    "entity=1&kind=duplicate": {"duplicate"},
    "status=approved": {"bridge"},
    "status=dismissed": {"split"},
    "status=all&kind=split": {"split"},
    "kind=nothing": set(),
    "status=approved&kind=split": set(),
    "entity=2": set(),
}


async def test_filters(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)
    on(queued, deciding.judge, number["bridge"], "approved", actor="ana")
    on(queued, deciding.dismiss, number["split"], actor="ana")
    for query, kinds in FILTERED.items():
        found = await get_json(datasette, f"{base(queued)}/review.json?{query}")
        assert {row["kind"] for row in found["insights"]} == kinds, query
        html = await look(datasette, f"{review(queued)}?{query}")
        assert ("Nothing of this kind, status and entity." in words(html)) is not kinds, query
        kinds_offered = html.partition('<select name="status">')[0]
        named = re.findall(r'<option value="([^"]*)" selected>', kinds_offered)
        assert named == re.findall(r"kind=(\w+)", query), query
    html = await look(datasette, f"{review(queued)}?status=approved")
    assert "approved 2026" in words(html)
    assert "ana" in words(html)
    # an entity that is not there is said, and the filter stays
    html = await look(datasette, f"{review(queued)}?entity=Nobody")
    assert "No such entity: this memory has no entity with the name 'Nobody'" in words(html)
    assert 'name="entity" value="Nobody"' in html
    await get_json(datasette, f"{base(queued)}/review.json?entity=Nobody", 404)
    for query, what in (("status=open", "status is 'open'"), ("page=0", "page is '0'"),
                        ("stat=x", "unknown argument stat")):  # fmt: skip
        wrong = await get_json(datasette, f"{base(queued)}/review.json?{query}", 400)
        assert what in wrong["error"]


async def test_empty_queues_say_which(queued: Path, empty_db: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued, empty_db)
    said = words(await look(datasette, review(empty_db)))
    assert "Nothing has been raised yet." in said
    assert (
        "“Look now” reads what is kept of the reports; the command datasette limbic reflect "
        "empty.db compares what changed first." in said
    )
    assert "datasette limbic reflect empty.db" in said
    assert "Not looked through yet." in said
    judge_all(queued)
    html = await look(datasette, review(queued))
    assert "All is decided. 8 findings judged, none waits." in words(html)
    assert "Start" not in words(html)
    assert "limbic-badge limbic-warn" not in html
    assert "Nothing of this kind" in words(await look(datasette, f"{review(queued)}?kind=split"))
    # without the permission nothing is told to press
    said = words(await look(datasette, review(empty_db), actor=OTHER))
    assert "Look again" not in said
    assert "Look now" not in said
    assert "this needs the permission limbic-edit" in said


async def test_pages_of_a_long_queue(queued: Path, make_datasette: Any) -> None:
    write(queued, *[
        ("insert into limbic_insights(key, kind, title, body, evidence, evidence_digest)"
         " values (?, 'other', ?, '', '{}', 'x')", [f"k{i}", f"Number {i}"])
        for i in range(100)
    ])  # fmt: skip
    datasette = editing_datasette(make_datasette, queued)
    html = await look(datasette, f"{review(queued)}?page=2&kind=other")
    assert "Page 2 of 2" in words(html)
    assert '<a href="?kind=other&amp;page=1" rel="prev">' in html
    assert 'rel="next"' not in html
    assert "No more on this page." in words(await look(datasette, f"{review(queued)}?page=9"))


async def test_what_is_out_of_date_is_said(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    write(queued, ("insert into observations(entity_id, content) values (1, 'news')", []))
    said = words(await look(datasette, review(queued)))
    assert "1 entity changed since this was found" in said
    assert "datasette limbic reflect memory.db looks at it again" in said
    write(queued, ("update limbic_reports set settings = '{}'", []))
    said = words(await look(datasette, review(queued)))
    assert "with other settings or another model" in said


# one decision ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*ORDER, *IMPORTED])
async def test_a_decision_shows_exactly_what_a_yes_does(
    kind: str, queued: Path, make_datasette: Any
) -> None:
    """From the page alone: approve, what was done, undo, and it waits again."""
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)[kind]
    before, seen = dumped(queued), digest(queued)
    found = await get_json(datasette, f"{review(queued, number)}.json")
    html = await look(datasette, review(queued, number))
    assert digest(queued) == seen
    assert found["insight"]["id"] == number
    position, pending = found["insight"]["position"], found["insight"]["pending"]
    assert f"{position} of {pending}" in words(html)
    assert "<script>alert" not in html
    fields = form(html, review(queued, number))
    following = found["insight"]["next"] or ids(queued)["contradiction"]
    if kind == "engrama:2":
        assert (found["answer"], found["options"]) == (None, {})
        assert "changes nothing else" in words(html)
        answer = await send(datasette, review(queued, number), {**fields, "decision": "approve"})
        assert where(answer) == (review(queued, following), {"judged": [str(number)]})
        assert status(queued, number) == "approved"
        assert rows(queued, "select * from limbic_changes") == []
        return
    name, sql = DONE[kind]
    assert found["answer"]["action"] == name
    assert found["answer"]["insight"] == number
    assert found["answer"]["dry_run"] is True
    shown = [row for row in found["answer"]["diff"]["rows"] if row["table"] != "limbic_insights"]
    assert html.count("<li><span") == len(shown) > 0
    assert re.sub(r"\s+", " ", found["answer"]["summary"]).split(" at 20")[0] in words(html)
    for warning in found["answer"]["warnings"]:
        assert warning in words(html)
    assert rows(queued, sql) == [(0,)] or kind == "engrama:1"
    answer = await send(datasette, review(queued, number), {**fields, "decision": "approve"})
    assert where(answer) == (review(queued, following), {"done": ["1"]})
    assert rows(queued, sql) == [(1,)]
    assert rows(queued, "select action, actor, insight_id from limbic_changes") == [
        (name, "agent", number)
    ]
    assert rows(queued, "select status, judged_by from limbic_insights where id = ?", number) == [
        ("approved", "agent")
    ]
    # exactly what was shown, but for ids that were not there yet
    with closing(connection.connect(queued, readonly=True)) as conn:
        detail = log.change_detail(conn, 1)["diff"]
    assert detail["counts"] == found["answer"]["diff"]["counts"]
    assert [(r["what"], r["table"]) for r in detail["rows"]] == [
        (r["what"], r["table"]) for r in found["answer"]["diff"]["rows"]
    ]
    # the next page says what was done, and leads to undoing it
    html = await look(datasette, answer.headers["location"])
    assert "Done." in words(html)
    assert f'href="{base(queued)}/changes/1" data-limbic-key="u"' in html
    judged = await look(datasette, review(queued, number))
    assert "Approved by agent" in words(judged)
    assert "carried out as change 1" in words(judged)
    assert buttons(judged) == []
    await post_json(datasette, f"{base(queued)}/actions/undo", {"change": 1})
    assert differing(before, dumped(queued)) == {}
    assert status(queued, number) == "pending"
    html = await look(datasette, f"{review(queued, number)}?done=1")
    assert "Done, and undone since." in words(html)


async def test_evidence_is_readable(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)
    for kind, expected in {
        "contradiction": ("Which of the two ends?", "Status: open", "They differ in", "earlier"),
        "duplicate": ("Which one stays?", "suggested", "The same text, but for case"),
        "name_clash": ("Café", "cafe Generic, 1 observation", "suggested"),
        "bridge": ("Archived 2026-03-01 over", "Sides 2 the only link", "1 live entity, by way"),
        "split": ("Observations 24", "Split score", "12 observations", "Edit the split"),
        "archive_candidate": ("Accesses 0", "Last access never", "Made 2020-01-01"),
        "engrama:1": ("imported", "Nobody asks for it", "Reason for archiving"),
        "engrama:2": ("imported", "<b>hub</b>", '"n": [ 1 ]'),
    }.items():
        html = await look(datasette, review(queued, number[kind]))
        for text in expected:
            assert text in words(html), (kind, text)
    html = await look(datasette, review(queued, number["split"]))
    assert f"{base(queued)}/split/{LARGE}?insight={number['split']}" in html
    html = await look(datasette, review(queued, number["contradiction"]))
    assert "<mark>open</mark>" in html


async def test_evidence_of_another_form_is_shown_as_it_is(
    queued: Path, make_datasette: Any
) -> None:
    """Under a key of ours, with the right digest, but facts that no report of ours wrote."""
    number = ids(queued)["duplicate"]
    for facts in ({}, {"observations": "<i>x</i>"}, {"observations": [1], "keep": 1}, []):
        write(queued, (
            "update limbic_insights set evidence = json_set(evidence, '$.facts', json(?))"
            " where id = ?", [json.dumps(facts), number],
        ))  # fmt: skip
        datasette = editing_datasette(make_datasette, queued)
        html = await look(datasette, review(queued, number))
        assert "<i>x" not in html
        # the radios went with the facts, the proposal is still there
        assert "Merge 1 observation" in words(html)
    write(queued, (
        "update limbic_insights set evidence = json_set(evidence, '$.arguments', json('{}'))"
        " where id = ?", [number],
    ))  # fmt: skip
    found = await get_json(datasette, f"{review(queued, number)}.json", 409)
    assert "cannot be read" in found["error"]


@pytest.mark.parametrize(
    ("kind", "choice", "sql"),
    [
        ("contradiction", {"observation": "4"}, "select valid_to is not null from observations"
         " where id = 4"),
        ("contradiction", {"observation": "3", "at": "2026-01-05"}, "select valid_to ="
         " '2026-01-05 00:00:00' from observations where id = 3"),
        ("duplicate", {"keep": "1"}, "select count(*) = 0 from observations where id = 2"),
        ("name_clash", {"keep": "10"}, "select archived_at is not null from entities"
         " where id = 11"),
        ("archive_candidate", {"reason": "said so <b>"}, "select archived_reason = 'said so <b>'"
         " from entities where id = 30"),
        ("engrama:1", {"reason": "no more"}, "select archived_reason = 'no more' from entities"
         " where id = 11"),
    ],
)  # fmt: skip
async def test_another_choice_is_shown_before_it_is_done(
    kind: str, choice: dict[str, str], sql: str, queued: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)[kind]
    before = digest(queued)
    fields = form(await look(datasette, review(queued, number)), review(queued, number))
    # whether the button says so or not: what was not shown is not done
    for decision in ("show", "approve"):
        chosen = {**fields, **choice, "decision": decision}
        answer = await send(datasette, review(queued, number), chosen)
        path, arguments = where(answer)
        assert path == review(queued, number)
        for name, value in choice.items():
            assert arguments[name] == [value]
        assert digest(queued) == before
    html = await look(datasette, answer.headers["location"])
    fields = form(html, review(queued, number))
    for name, value in choice.items():
        assert fields[name] == value
        assert str(carried(fields)[name]) == value
    answer = await send(datasette, review(queued, number), {**fields, "decision": "approve"})
    assert where(answer)[1] == {"done": ["1"]}
    assert rows(queued, sql) == [(1,)]


async def test_what_a_proposal_leaves_out_is_not_said_to_be_in_its_json(
    queued: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diff_display, "SHOWN", 2)
    datasette = editing_datasette(make_datasette, queued)
    path = review(queued, ids(queued)["split"])
    rows_of = json.loads(await look(datasette, f"{path}.json"))["answer"]["diff"]["rows"]
    kinds = [(row["table"], row["what"]) for row in rows_of]
    moved = kinds.index(("observations", "moved"))
    assert "more: the JSON has them all" in words(await look(datasette, path))
    for listed, says in ((3, "the JSON has 1 of them"), (5, "the JSON has 3 of them"), (1, None)):
        monkeypatch.setattr(acting, "MOST", moved + listed)
        html = words(await look(datasette, path))
        more = html.partition("Moved observations")[2].partition("and ")[2][:40]
        assert "has them all" not in more
        assert (says or "more") in more
        assert ("JSON" in more) == bool(says)
        left = json.loads(await look(datasette, f"{path}.json"))["answer"]["diff"]["left_out"]
        assert sum(each["count"] for each in left) == len(rows_of) - moved - listed


async def test_a_dismissal_its_note_and_opening_again(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)
    first, second = number["contradiction"], number["duplicate"]
    fields = form(await look(datasette, review(queued, first)), review(queued, first))
    answer = await send(
        datasette, review(queued, first),
        # also where a field was changed: a no needs no diff
        {**fields, "observation": "4", "decision": "dismiss", "note": "both <b>hold</b>"},
    )  # fmt: skip
    assert where(answer) == (review(queued, second), {"judged": [str(first)]})
    assert status(queued, first) == "dismissed"
    assert rows(queued, "select * from limbic_changes") == []
    html = await look(datasette, answer.headers["location"])
    assert "Dismissed: Two observations of 'one' contradict each other" in words(html)
    judged = await look(datasette, review(queued, first))
    assert "Dismissed by agent" in words(judged)
    assert "“both <b>hold</b>”" in words(judged)
    assert "<b>hold" not in judged
    fields = form(html, review(queued, first))
    assert fields == {"decision": "reopen"}
    answer = await send(datasette, review(queued, first), fields)
    assert where(answer) == (review(queued, first), {"judged": [str(first)]})
    assert status(queued, first) == "pending"
    html = await look(datasette, answer.headers["location"])
    assert "Open again:" in words(html)
    assert "Opened again. Dismissed by agent" in words(html)
    assert "“both <b>hold</b>”" in words(html)


async def test_the_last_decision_leads_to_the_queue(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)
    path: str = review(queued, number["contradiction"])
    order = []
    for _ in range(8):
        order.append(int(path.rsplit("/", 1)[1]))
        fields = form(await look(datasette, path), path)
        path, arguments = where(await send(datasette, path, {**fields, "decision": "dismiss"}))
    assert path == review(queued)
    assert arguments == {"judged": [str(order[-1])]}
    assert len(set(order)) == 8
    html = await look(datasette, f"{path}?judged={order[-1]}")
    assert "All is decided." in words(html)
    assert "Dismissed:" in words(html)


async def test_raised_again_says_what_was_judged_and_what_changed(
    queued: Path, make_datasette: Any
) -> None:
    number = ids(queued)["contradiction"]
    on(queued, deciding.dismiss, number, actor="ana", note="both of them")
    write(queued, ("update observations set content = 'Status: shut' where id = 4", []))
    reflected(queued)
    assert status(queued, number) == "pending"
    datasette = editing_datasette(make_datasette, queued)
    said = words(await look(datasette, review(queued, number)))
    assert "Raised again. Dismissed by ana" in said
    assert "“both of them”. Since then: Observation 4 has another text" in said
    assert "again" in words(await look(datasette, review(queued)))


# what cannot be done any more --------------------------------------------------------------------


async def test_what_no_longer_applies_can_be_dismissed(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)["archive_candidate"]
    with closing(connection.connect(queued)) as conn:
        act(conn, "archive", {"entity": 30, "reason": "done elsewhere"})
    found = await get_json(datasette, f"{review(queued, number)}.json")
    assert found["answer"] is None
    assert "is archived" in found["refused"]
    html = await look(datasette, review(queued, number))
    assert "It cannot be approved" in words(html)
    assert "is archived" in words(html)
    assert "Dismiss: leave it in use" in buttons(html)
    assert "Look again" in buttons(html)
    assert not [b for b in buttons(html) if b.startswith("Approve")]
    fields = form(html, review(queued, number))
    refused = await send(datasette, review(queued, number), {**fields, "decision": "approve"})
    assert refused.status_code == 409
    assert "Not done." in words(refused.text)
    assert status(queued, number) == "pending"
    again = await send(datasette, f"{base(queued)}/reflect", form(html, f"{base(queued)}/reflect"))
    assert where(again) == (review(queued), {"looked": ["0.0.0.1"]})
    await look(datasette, review(queued, number), status=404)


async def test_a_stale_proposal_is_shown_again(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)["contradiction"]
    html = await look(datasette, review(queued, number))
    fields = {**form(html, review(queued, number)), "decision": "approve"}
    write(queued, ("update entities set entity_type = 'Door' where id = 1", []))
    found = await post_json(
        datasette, review(queued, number), {"decision": "approve", "basis": fields["basis"]}, 409
    )
    assert "the type of entity 1 was" in found["error"]
    refused = await send(datasette, review(queued, number), fields)
    assert refused.status_code == 409
    said = words(refused.text)
    assert "Not done. Nothing was changed: this is not as it was when it was shown" in said
    assert "the type of entity 1 was" in said
    assert rows(queued, "select valid_to from observations where id = 3") == [(None,)]
    # what is on the page now can be approved
    fields = {**form(refused.text, review(queued, number)), "decision": "approve"}
    assert where(await send(datasette, review(queued, number), fields))[1] == {"done": ["1"]}


async def test_what_is_not_so_any_more(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)["contradiction"]
    fields = form(await look(datasette, review(queued, number)), review(queued, number))
    write(queued, ("update observations set content = 'Status: ajar' where id = 3", []))
    said = "observation 3 has another text"
    found = await post_json(datasette, review(queued, number), {"decision": "approve"}, 409)
    assert said in found["error"]
    refused = await send(datasette, review(queued, number), {**fields, "decision": "approve"})
    assert refused.status_code == 409
    assert rows(queued, "select valid_to from observations where id = 3") == [(None,)]
    for html in (refused.text, await look(datasette, review(queued, number))):
        assert "It cannot be approved" in words(html)
        assert said in words(html)
        assert "Look again" in buttons(html)
        assert not [b for b in buttons(html) if b.startswith("Approve")]


async def test_evidence_that_changed_meanwhile(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)["split"]
    for decision in ("approve", "dismiss"):
        body = {"decision": decision, "digest": "another"}
        found = await post_json(datasette, review(queued, number), body, 409)
        assert "is not what was shown" in found["error"]
        html = await look(datasette, review(queued, number))
        fields = {**form(html, review(queued, number)), **body}
        answer = await send(datasette, review(queued, number), fields)
        assert answer.status_code == 409
        assert "Not done." in words(answer.text)
    assert status(queued, number) == "pending"


@pytest.mark.parametrize("kind", ["duplicate", "split", "engrama:2"])
async def test_two_at_once(kind: str, queued: Path, make_datasette: Any) -> None:
    """One of them decides; the other one is told who did, and when."""
    datasette = editing_datasette(make_datasette, queued, allow=True)
    number = ids(queued)[kind]
    html = await look(datasette, review(queued, number))
    fields = {**form(html, review(queued, number)), "decision": "approve"}
    answers = await asyncio.gather(*(
        send(datasette, review(queued, number), fields, actor=actor) for actor in (AGENT, ANA)
    ))  # fmt: skip
    assert sorted(each.status_code for each in answers) == [303, 409]
    (late,) = [each for each in answers if each.status_code == 409]
    (judged,) = rows(
        queued, "select judged_by, judged_at from limbic_insights where id = ?", number
    )
    assert f"was approved by {judged[0]}" in words(late.text)
    assert judged[1][:16] in words(late.text)
    assert f"Approved by {judged[0]}" in words(late.text)
    assert not [b for b in buttons(late.text) if b.startswith(("Approve", "Dismiss"))]
    changed = rows(queued, "select count(*) from limbic_changes")
    assert changed == [(0 if kind == "engrama:2" else 1,)]
    for decision in ("approve", "dismiss"):
        found = await post_json(datasette, review(queued, number), {"decision": decision}, 409)
        assert "approved by" in found["error"]
    # what is in effect is undone, not opened again
    if changed[0][0]:
        found = await post_json(datasette, review(queued, number), {"decision": "reopen"}, 409)
        assert "carried out as change 1: undo that first" in found["error"]


# JSON --------------------------------------------------------------------------------------------


async def test_decisions_in_json(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)
    found = await get_json(datasette, f"{review(queued, number['split'])}.json")
    first = found["answer"]["arguments"]["children"][0]
    first["name"] = "Only this"
    body = {
        "decision": "approve",
        "basis": found["answer"]["basis"],
        "arguments": {"children": [first]},
    }
    done = await post_json(datasette, f"{review(queued, number['split'])}.json", body)
    assert (done["change"]["id"], done["answer"]["change"]) == (1, 1)
    assert done["answer"]["action"] == "split"
    assert done["insight"]["status"] == "approved"
    assert done["next"] == found["insight"]["next"]
    assert rows(queued, "select count(*) from entities where name = 'Only this'") == [(1,)]
    left = rows(queued, "select count(*) from observations where entity_id = ?", LARGE)
    assert left == [(24 - len(first["observations"]),)]
    body = {"decision": "approve", "arguments": {"keep": 1}, "embed": False}
    done = await post_json(datasette, review(queued, number["duplicate"]), body)
    assert done["answer"]["arguments"]["clusters"] == [{"keep": 1, "remove": [2]}]
    done = await post_json(datasette, review(queued, number["engrama:2"]), {"decision": "approve"})
    assert (done["change"], done["answer"]) == (None, None)
    assert done["next"] == number["contradiction"]
    body = {"decision": "dismiss", "note": "no"}
    done = await post_json(datasette, review(queued, number["bridge"]), body)
    assert (done["insight"]["status"], done["insight"]["note"]) == ("dismissed", "no")
    done = await post_json(datasette, review(queued, number["bridge"]), {"decision": "reopen"})
    assert done["insight"]["status"] == "pending"


BAD: list[tuple[Any, Any, int, str]] = [
        ("split", "", 400, "the body is empty"),
        ("split", "{", 400, "no JSON"),
        ("split", {}, 400, "decision is None: use one of approve, dismiss, reopen"),
        ("split", {"decision": "show"}, 400, "decision is 'show'"),
        ("split", {"decision": ["approve"]}, 400, "decision is ['approve']"),
        ("split", {"decision": "approve", "actor": "root"}, 400, "unknown key actor"),
        ("split", {"decision": "approve", "arguments": [1]}, 400, "arguments is [1]"),
        ("split", {"decision": "approve", "arguments": {"entity": 2}}, 400,
         "unknown argument entity: choose children here"),
        ("split", {"decision": "approve", "arguments": {"children": 5}}, 400, "children"),
        ("bridge", {"decision": "approve", "arguments": {"entity": 2}}, 400,
         "unknown argument entity: there is nothing to choose here"),
        ("engrama:2", {"decision": "approve", "arguments": {"keep": 2}}, 400, "nothing to choose"),
        ("contradiction", {"decision": "approve", "arguments": {"observation": 5}}, 400,
         "observation is 5: use one of 3, 4"),
        ("contradiction", {"decision": "approve", "arguments": {"observation": True}}, 400,
         "observation is True"),
        ("contradiction", {"decision": "approve", "arguments": {"at": "soon"}}, 400, "soon"),
        ("contradiction", {"decision": "approve", "arguments": {"at": 5}}, 400, "at is 5"),
        ("duplicate", {"decision": "approve", "arguments": {"keep": 3}}, 400, "use one of 2, 1"),
        ("name_clash", {"decision": "approve", "arguments": {"keep": "10"}}, 400, "keep is '10'"),
        ("archive_candidate", {"decision": "approve", "arguments": {"reason": " "}}, 400,
         "reason is missing"),
        ("archive_candidate", {"decision": "approve", "arguments": {"reason": "x" * 1001}}, 400,
         "use at most 1,000"),
        ("split", {"decision": "dismiss", "note": 5}, 400, "note is 5"),
        ("split", {"decision": "dismiss", "note": "x" * 1001}, 400, "use at most 1,000"),
        ("split", {"decision": "dismiss", "digest": 5}, 400, "digest is 5"),
        ("split", {"decision": "dismiss", "arguments": {"children": []}}, 400,
         "children is for approving"),
        ("split", {"decision": "reopen", "basis": "x"}, 400, "basis is for approving"),
        ("split", {"decision": "approve", "note": "x"}, 400, "leave it out here"),
        ("split", {"decision": "approve", "basis": "none"}, 400, "none of a proposal"),
        ("split", {"decision": "approve", "embed": 1}, 400, "embed is 1"),
        ("split", {"decision": "reopen"}, 409, "waits for a decision already"),
        (999, {"decision": "dismiss"}, 404, "no insight 999"),
        ("x", {"decision": "dismiss"}, 404, "'x' is no id of a finding"),
        (2**70, {"decision": "dismiss"}, 404, "no id of a finding"),
]  # fmt: skip


async def test_bad_decisions(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    before = digest(queued)
    number = ids(queued)
    for kind, body, code, said in BAD:
        found = await post_json(datasette, review(queued, number.get(kind, kind)), body, code)
        assert said in found["error"], (kind, body)
        assert digest(queued) == before, (kind, body)


ADDRESSES = [
    ("/review/999", 404, "no insight 999"),
    ("/review/x", 404, "'x' is no id of a finding"),
    ("/review/-1", 404, "'-1' is no id of a finding"),
    ("/review/1?keep=999", 400, "unknown argument keep: choose observation, at here"),
    ("/review/1?entity=1", 400, "unknown argument entity"),
]


async def test_bad_addresses(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    for path, code, said in ADDRESSES:
        html = await look(datasette, base(queued) + path, status=code)
        assert said.lower() in words(html).lower(), path
        name, _, query = path.partition("?")
        found = await get_json(datasette, f"{base(queued)}{name}.json?{query}", code)
        assert said in found["error"], path


FORMS: list[tuple[dict[str, str], int, str]] = [
    ({"decision": "burn"}, 400, "decision is 'burn'"),
    ({"decision": "approve", "actor": "root"}, 400, "unknown field actor"),
    ({"decision": "approve", "arguments": "{"}, 400, "no JSON"),
    ({"decision": "approve", "arguments": '{"entity": 1}'}, 400, "unknown argument entity"),
    # what was written is still there
    ({"decision": "approve", "note": "my reasons"}, 400, "leave it out here"),
    ({"decision": "approve", "note": "my reasons"}, 400, "my reasons"),
]


async def test_bad_forms(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    before = digest(queued)
    for fields, code, said in FORMS:
        answer = await send(datasette, review(queued, ids(queued)["split"]), fields)
        assert answer.status_code == code, fields
        assert said.lower() in words(answer.text).lower(), fields
        assert digest(queued) == before, fields


# who may -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allow", "actor", "may"),
    [
        (None, AGENT, False),
        (None, None, False),
        (None, {"id": "root"}, True),
        (AGENT, AGENT, True),
        (AGENT, OTHER, False),
        ({"unauthenticated": True}, None, True),
    ],
)
async def test_who_may_decide(
    allow: Any, actor: Any, may: bool, queued: Path, make_datasette: Any
) -> None:
    """All who may view the tables see everything; to decide needs the permission."""
    datasette = editing_datasette(make_datasette, queued, allow=allow)
    if ONE_POINT_ZERO:
        datasette.root_enabled = True
    number = ids(queued)
    before = digest(queued)
    for kind in (*ORDER, *IMPORTED):
        html = await look(datasette, review(queued, number[kind]), actor=actor)
        assert bool(buttons(html)) is may, kind
        assert ("limbic-diff" in html) is (kind != "engrama:2"), kind
        part = html.split("<h1")[1].split("<footer")[0]
        for tag in ("<form", 'type="hidden"', "csrftoken", "<textarea"):
            assert (tag in part) is may, (kind, tag)
        assert ("this needs the permission limbic-edit" in words(html)) is not may
    queue_page = await look(datasette, review(queued), actor=actor)
    assert buttons(queue_page) == (["Look again"] if may else [])
    assert digest(queued) == before
    requests = (
        (review(queued, number["duplicate"]), {"decision": "approve"}),
        (review(queued, number["bridge"]), {"decision": "dismiss"}),
        (review(queued, number["bridge"]), {"decision": "reopen"}),
        (f"{base(queued)}/reflect", {}),
        (f"{base(queued)}/reviewed", {}),
    )
    for url, body in requests:
        found = await post_json(datasette, url, body, 200 if may else 403, actor=actor)
        if not may:
            assert permissions.EDIT in found["error"], url
            answer = await send(datasette, url, body or {"x": "1"}, actor=actor)
            assert answer.status_code == 403, url
    assert (digest(queued) == before) is not may
    who = actor["id"] if actor else None
    if may:
        assert rows(queued, "select actor from limbic_changes") == [(who,)]
        assert rows(queued, "select report, actor from limbic_reviews") == [("consolidation", who)]


async def test_the_right_to_record_is_none_to_decide(queued: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, queued)
    found = await post_json(datasette, review(queued, 1), {"decision": "dismiss"}, 403)
    assert permissions.EDIT in found["error"]


@pytest.mark.parametrize("hidden", REVIEW_TABLES)
async def test_whoever_may_not_view_a_table_sees_no_finding(
    hidden: str, queued: Path, make_datasette: Any
) -> None:
    only = {"databases": {"memory": {"tables": {hidden: {"allow": {"id": "root"}}}}}}
    datasette = editing_datasette(make_datasette, queued, more=only)
    before = digest(queued)
    number = ids(queued)["contradiction"]
    for url in (review(queued), review(queued, number)):
        html = await look(datasette, url, status=403)
        assert "Status: open" not in html
        await get_json(datasette, f"{url}.json", 403, cookies=as_actor(datasette, AGENT))
    for url in (review(queued, number), f"{base(queued)}/reflect"):
        await post_json(datasette, url, {"decision": "approve"}, 403)
        assert (await send(datasette, url, {"decision": "approve"})).status_code == 403
    # nor how many there are
    response = await datasette.client.get(f"{base(queued)}/imports")
    assert "/review" not in response.text
    assert digest(queued) == before


FORGED = (
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
)


@pytest.mark.usefixtures("menus_for_all")
async def test_pages_of_other_sites_decide_nothing(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued, allow=True)
    before = digest(queued)
    number = ids(queued)["bridge"]
    html = await look(datasette, review(queued, number))
    fields = {**form(html, review(queued, number)), "decision": "approve"}
    urls = (review(queued, number), f"{base(queued)}/reflect", f"{base(queued)}/reviewed")
    for url in urls:
        for headers in FORGED:
            assert (await send(datasette, url, fields, headers=headers)).status_code == 403
            body = {"decision": "approve"} if url == urls[0] else {}
            assert (await post(datasette, url, body, headers=headers)).status_code == 403
        for kind in (None, "text/plain"):
            sent = await post(datasette, url, {"decision": "approve"}, kind=kind)
            assert sent.status_code in ((400,) if ONE_POINT_ZERO else (400, 403))
    if not ONE_POINT_ZERO:
        for url in urls:
            sent = await datasette.client.post(
                url, content=b"decision=approve&csrftoken=wrong",
                headers={"content-type": "application/x-www-form-urlencoded",
                         "accept": "text/html"},
                cookies=as_actor(datasette, AGENT),
            )  # fmt: skip
            assert sent.status_code == 403
    assert digest(queued) == before
    assert (await send(datasette, urls[0], fields)).status_code == 303


async def test_an_immutable_file(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, immutables=[str(queued)])
    before = digest(queued)
    number = ids(queued)["bridge"]
    html = await look(datasette, review(queued, number))
    assert buttons(html) == []
    assert "opened as immutable" in words(html)
    assert "limbic-diff" in html
    for url in (review(queued, number), f"{base(queued)}/reflect", f"{base(queued)}/reviewed"):
        body = {"decision": "dismiss"} if url.endswith(str(number)) else {}
        found = await post_json(datasette, url, body, 409)
        assert "opened as immutable" in found["error"]
    assert digest(queued) == before


@pytest.mark.usefixtures("impatient_connections")
async def test_a_locked_file(
    queued: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflecting, "WAITS_MS", 50)
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)
    html = await look(datasette, review(queued, number["bridge"]))
    fields = form(html, review(queued, number["bridge"]))
    with closing(connection.connect(queued)) as other:
        other.execute("begin immediate")
        for decision in ("approve", "dismiss"):
            body = {"decision": decision}
            found = await post_json(datasette, review(queued, number["bridge"]), body, 503)
            assert "nothing was changed" in found["error"]
            assert "Send it again" in found["error"]
            answer = await send(datasette, review(queued, number["bridge"]), {**fields, **body})
            assert answer.status_code == 503
            assert "Send it again" in words(answer.text)
        begun = time.monotonic()
        found = await post_json(datasette, f"{base(queued)}/reflect", {}, 503)
        assert time.monotonic() - begun < 3  # not as long as a command waits
        assert "Send it again" in found["error"]
        other.rollback()
    assert status(queued, number["bridge"]) == "pending"


async def test_a_file_of_an_earlier_version(queued: Path, make_datasette: Any) -> None:
    write(queued, ("alter table limbic_insights drop column judged_before", []))
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)["bridge"]
    await look(datasette, review(queued))
    html = await look(datasette, review(queued, number))
    assert "datasette limbic init" in words(html)
    found = await post_json(datasette, review(queued, number), {"decision": "approve"}, 409)
    assert "datasette limbic init" in found["error"]


# looking again, and the report that was looked through -------------------------------------------


async def test_looking_again(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    found = await post_json(datasette, f"{base(queued)}/reflect", {})
    assert found["total"]["unchanged"] == 6
    assert found["kept"] is None
    write(queued, ("insert into entities(id, name, created_at) values (50, 'x', '2020')", []))
    found = await post_json(datasette, f"{base(queued)}/reflect.json", {"kinds": ["bridge"]})
    assert list(found["kinds"]) == ["bridge"]
    html = await look(datasette, review(queued))
    fields = form(html, f"{base(queued)}/reflect")
    answer = await send(datasette, f"{base(queued)}/reflect", fields)
    assert where(answer) == (review(queued), {"looked": ["1.0.0.0"]})
    assert "Looked again: 1 new." in words(await look(datasette, answer.headers["location"]))
    answer = await send(datasette, f"{base(queued)}/reflect", fields)
    assert "nothing is new" in words(await look(datasette, answer.headers["location"]))
    assert "Looked again" not in words(await look(datasette, f"{review(queued)}?looked=%3Cb%3E"))
    assert id_of(queued, "archive_candidate:50")
    for body, said in (({"kinds": []}, "kinds is []"), ({"kinds": "split"}, "kinds is 'split'"),
                       ({"kinds": ["x"]}, "kind is 'x'"), ({"keep": True}, "unknown key keep"),
                       ("", "the body is empty")):  # fmt: skip
        wrong = await post_json(datasette, f"{base(queued)}/reflect", body, 400)
        assert said in wrong["error"]


async def test_nothing_is_looked_for_without_a_comparison(
    empty_db: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, empty_db)
    found = await post_json(datasette, f"{base(empty_db)}/reflect", {})
    assert set(found["left_out"]) == {"contradiction", "duplicate", "split"}


async def test_a_report_is_marked_as_looked_through(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    url = f"{base(queued)}/reviewed"
    found = await post_json(datasette, url, {})
    assert found["by"] == "agent"
    wrong = await post_json(datasette, url, {"x": 1}, 400)
    assert wrong["error"] == "unknown key x: send {}"
    html = await look(datasette, f"{base(queued)}/consolidation")
    assert "by agent" in words(html)
    answer = await send(datasette, url, form(html, url), actor=AGENT)
    assert where(answer) == (f"{base(queued)}/consolidation", {})
    assert rows(queued, "select count(*) from limbic_reviews") == [(2,)]
    html = await look(datasette, f"{base(queued)}/consolidation", actor=OTHER)
    assert "/reviewed" not in html


async def test_methods(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    await datasette.invoke_startup()
    for path, allowed in (("/reflect", "POST"), ("/reviewed", "POST"), ("/review", "GET, HEAD"),
                          ("/review/1", "GET, HEAD, POST")):  # fmt: skip
        response = await datasette.client.request("PUT", base(queued) + path)
        if ONE_POINT_ZERO:  # 0.65 asks for a token first
            assert (response.status_code, response.headers["allow"]) == (405, allowed), path
        else:
            assert response.status_code in (403, 405)
    response = await datasette.client.head(review(queued, ids(queued)["split"]))
    assert response.status_code == 200


async def test_names_turn_nothing_around(queued: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, queued)
    number = ids(queued)["archive_candidate"]
    html = await look(datasette, review(queued, number))
    assert NAME.split("\n")[1] in words(html)
    assert "<script>alert" not in html
    for at in [m.start() for m in re.finditer("‮", html)]:
        assert html.rfind("<bdi>", 0, at) > html.rfind("</bdi>", 0, at) or (
            html.rfind("<title>", 0, at) > html.rfind("</title>", 0, at)
        ), html[at - 200 : at + 50]
    assert one(queued, "archive_candidate:30")["status"] == "pending"
    assert len(table(queued)) == 8
