"""POST …/observations: who may add, what is answered, what is refused, on both lines."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from view_helpers import (
    AGENT,
    ONE_POINT_ZERO,
    base,
    digest,
    get,
    get_json,
    post,
    post_json,
    recording_datasette,
    rows,
    write,
)

from datasette_limbic import adding as adding_module
from datasette_limbic import adding_similar, embedding, permissions
from datasette_limbic.connection import connect
from datasette_limbic.views import observations

FACT = "In winter the kiosk at the corner sells 12 roasted chestnuts a bag"
BODY = {"observations": [{"entityName": "Kiosk", "contents": [FACT]}]}


@pytest.fixture
def kiosk(demo_db: Path) -> Path:
    """The sample memory with an entity that nothing is known of."""
    from datasette_limbic.sync import sync

    write(demo_db, ("insert into entities(id, name) values (9001, 'Kiosk')", []))
    with closing(connect(demo_db)) as conn:
        sync(conn)
    return demo_db


def editing_datasette(
    make: Any, *paths: Path, allow: Any = AGENT, more: Any = (), **kw: Any
) -> Any:
    granted = {"permissions": {permissions.EDIT: allow}, **dict(more)}
    return recording_datasette(make, *paths, more=granted, **kw)


def url(path: Path) -> str:
    return f"{base(path)}/observations"


def known(path: Path) -> list[str]:
    return [row[0] for row in rows(path, "select content from observations where entity_id = 9001")]


async def test_added_compared_and_found_at_once(kiosk: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, kiosk)
    contents = [FACT, FACT.upper(), FACT.replace("12", "20"), FACT, ""]
    body = {"observations": [{"entityName": "Kiosk", "contents": contents}]}
    found = await post_json(datasette, url(kiosk), body)
    (result,) = found["results"]
    assert result["addedObservations"] == contents[:3]
    assert [each["similarity_flag"] for each in result["added"]] == [0, 1, 0]
    assert result["added"][1]["similar"][0]["id"] == result["added"][0]["id"]
    contradicted = {each["difference"] for each in result["added"][2]["similar"]}
    assert contradicted == {"number: 12 / 20"}
    assert set(result["added"][1]["similar"][0]) == {
        "id", "content", "kind", "rule", "cosine", "containment", "difference",
    }  # fmt: skip
    assert result["skipped"][0]["id"] == result["added"][0]["id"]
    assert found["rejected"][0]["error"] == "the text is empty: say something"
    assert found["counts"] == {"added": 3, "skipped": 1, "rejected": 1, "flagged": 1}
    assert found["similarity"] == {
        "computed": True, "model": "limbic-multilingual", "reason": None,
    }  # fmt: skip
    assert found["search"] == {"updated": True, "reason": None}
    query = f"{base(kiosk)}/search.json?q=who+offers+hot+chestnuts&mode=semantic&limit=1"
    answer = await get_json(datasette, query)
    assert [each["name"] for each in answer["results"]] == ["Kiosk"]
    assert rows(kiosk, "select * from limbic_stale") == []
    assert rows(kiosk, "select entity_id from limbic_report_pending") == [(9001,)]


async def test_by_id_and_with_json_in_the_path(kiosk: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, kiosk)
    content = {"content": FACT, "kind": "habit", "confidence": 0.5}
    body = {"observations": [{"id": 9001, "contents": [content]}]}
    found = await post_json(datasette, f"{url(kiosk)}.json", body)
    assert found["results"][0]["entityName"] == "Kiosk"
    assert rows(kiosk, "select kind, confidence from observations where entity_id = 9001") == [
        ("habit", 0.5)
    ]


async def test_times_are_those_of_the_server(kiosk: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, kiosk)
    started = rows(kiosk, "select datetime('now')")[0][0]
    content = {"content": FACT, "created_at": "1999-01-01"}
    body = {"observations": [{"entityName": "Kiosk", "contents": [content, "Second"]}]}
    found = await post_json(datasette, url(kiosk), body)
    assert "created_at" in found["rejected"][0]["error"]
    created = found["results"][0]["added"][0]["created_at"]
    now, moved = rows(
        kiosk, "select datetime('now'), last_activity_at from entities where id = 9001"
    )[0]
    assert started <= created <= moved <= now


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "observations is None"),
        ({"observations": []}, 400, "nothing to add"),
        ({"observations": {"entityName": "Kiosk"}}, 400, "use a list"),
        ({"observations": [], "now": "2001-01-01"}, 400, "unknown key now"),
        ([], 400, "no object"),
        ("", 400, "the body is empty"),
        ("{", 400, "no JSON"),
        ('{"observations": ' + "[" * 50 + "]" * 50 + "}", 400, "nested too deeply"),
        ({"observations": [{"id": 9001, "contents": ["x"] * 501}]}, 400, "at most 500"),
        ({"observations": [{"id": 9001, "contents": ["x" * 1_100_000]}]}, 413, "1,048,576 bytes"),
    ],
)
async def test_bodies_that_are_refused(
    body: Any, status: int, words: str, kiosk: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, kiosk)
    before = digest(kiosk)
    found = await post_json(datasette, url(kiosk), body, status)
    assert words in found["error"]
    assert digest(kiosk) == before


async def test_where_nothing_can_be_added_all_that_is_wrong_is_said(
    kiosk: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, kiosk)
    before = digest(kiosk)
    body = {"observations": [{"entityName": "kiosk", "contents": ["x"]}, 5]}
    found = await post_json(datasette, url(kiosk), body, 400)
    assert found["error"].startswith("nothing was added: this memory has no entity")
    assert "perhaps 'Kiosk'" in found["error"]
    assert found["error"].endswith("(and 1 more in rejected)")
    assert [each["item"] for each in found["rejected"]] == [0, 1]
    assert digest(kiosk) == before


async def test_what_is_there_already_is_no_error(kiosk: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, kiosk)
    await post_json(datasette, url(kiosk), BODY)
    found = await post_json(datasette, url(kiosk), BODY)
    assert found["counts"] == {"added": 0, "skipped": 1, "rejected": 0, "flagged": 0}
    assert known(kiosk) == [FACT]


async def test_half_a_surrogate_pair_and_nul(kiosk: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, kiosk)
    body = '{"observations": [{"id": 9001, "contents": ["half \\ud83d", "n\\u0000l", "🎉"]}]}'
    found = await post_json(datasette, url(kiosk), body)
    assert found["results"][0]["addedObservations"] == ["half \ufffd", "n\ufffdl", "🎉"]
    assert known(kiosk) == ["half \ufffd", "n\ufffdl", "🎉"]


# who may -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allow", "actor", "may"),
    [
        (None, AGENT, False),
        (None, None, False),
        (None, {"id": "root"}, True),
        (AGENT, AGENT, True),
        (AGENT, {"id": "other"}, False),
        (AGENT, None, False),
        ({"unauthenticated": True}, None, True),
        (False, {"id": "root"}, False),
    ],
)
async def test_who_may_add(
    allow: Any, actor: Any, may: bool, kiosk: Path, make_datasette: Any
) -> None:
    datasette = editing_datasette(make_datasette, kiosk, allow=allow)
    if ONE_POINT_ZERO:
        datasette.root_enabled = True
    found = await post_json(datasette, url(kiosk), BODY, 200 if may else 403, actor=actor)
    if not may:
        assert found["error"] == "adding observations needs the permission limbic-edit"
    assert known(kiosk) == ([FACT] if may else [])


async def test_the_right_to_record_is_none_to_edit(kiosk: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, kiosk)
    await post_json(datasette, url(kiosk), BODY, 403)
    assert known(kiosk) == []


@pytest.mark.parametrize("table", ["entities", "observations", "limbic_duplicates"])
async def test_who_may_not_see_the_tables_may_not_add(
    table: str, kiosk: Path, make_datasette: Any
) -> None:
    more = {"databases": {"demo": {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = editing_datasette(make_datasette, kiosk, more=more)
    found = await post_json(datasette, url(kiosk), BODY, 403)
    assert f"view-table on demo/{table}" in found["error"]
    assert known(kiosk) == []


async def test_other_sites_and_forms_cannot_add(kiosk: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, kiosk, allow=True)
    before = digest(kiosk)
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        response = await post(datasette, url(kiosk), BODY, headers=headers)
        assert response.status_code == 403
    assert digest(kiosk) == before


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "application/x-www-form-urlencoded",
        "text/plain",
        "text/plain; application/json",
        "application/jsonx",
        "multipart/form-data; boundary=x",
    ],
)
@pytest.mark.parametrize("path", ["", ".json"])
@pytest.mark.parametrize("actor", [None, AGENT])
async def test_what_is_not_sent_as_json_is_refused_in_json(
    actor: Any, path: str, kind: str | None, kiosk: Path, make_datasette: Any
) -> None:
    """On both lines, with a cookie and without: a browser sends it with any form."""
    datasette = editing_datasette(make_datasette, kiosk, allow=True)
    before = digest(kiosk)
    found = await post_json(datasette, url(kiosk) + path, BODY, 400, kind=kind, actor=actor)
    assert "content-type: application/json" in found["error"]
    assert digest(kiosk) == before
    sent = {"headers": {"content-type": "application/json; charset=utf-8"}, "kind": None}
    assert (await post_json(datasette, url(kiosk) + path, BODY, actor=actor, **sent))["ok"]


async def test_get_is_no_way_to_add(kiosk: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, kiosk)
    for path in (url(kiosk), f"{url(kiosk)}.json"):
        response = await get(datasette, path)
        assert response.status_code == 405
        assert response.headers["allow"] == "POST"
        assert "entityName" in response.json()["error"]


# files ---------------------------------------------------------------------------------------


async def test_files_that_cannot_be_written(
    kiosk: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    immutable = editing_datasette(make_datasette, immutables=[str(kiosk)])
    found = await post_json(immutable, url(kiosk), BODY, 409)
    assert found["error"] == "nothing was added: the database was opened as immutable"
    datasette = editing_datasette(make_datasette, kiosk)
    monkeypatch.setattr("datasette_limbic.views.writable.os.access", lambda *_: False)
    found = await post_json(datasette, url(kiosk), BODY, 409)
    assert found["error"] == "nothing was added: the database file is read-only"
    monkeypatch.setattr("datasette_limbic.views.writable.os.access", os.access)
    assert known(kiosk) == []


async def test_a_file_of_an_earlier_version(kiosk: Path, make_datasette: Any) -> None:
    write(kiosk, ("drop table limbic_report_pending", []))
    datasette = editing_datasette(make_datasette, kiosk)
    found = await post_json(datasette, url(kiosk), BODY, 409)
    assert "run 'datasette limbic init'" in found["error"].replace("Run", "run")
    assert known(kiosk) == []


async def test_no_memory_and_no_database(tmp_path: Path, make_datasette: Any) -> None:
    other = tmp_path / "other.db"
    connect(other, create=True).close()
    datasette = editing_datasette(make_datasette, other)
    found = await post_json(datasette, "/other/-/limbic/observations", BODY, 404)
    assert "holds no memory yet" in found["error"]
    await post_json(datasette, "/nothing/-/limbic/observations", BODY, 404)


@pytest.mark.usefixtures("impatient_connections")
async def test_a_locked_file_takes_nothing_and_says_so(kiosk: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, kiosk)
    await datasette.invoke_startup()
    await datasette.get_database("demo").execute_write_fn(lambda conn: None)
    before = digest(kiosk)
    with closing(connect(kiosk)) as other:
        other.execute("begin immediate")
        found = await post_json(datasette, url(kiosk), BODY, 503)
        other.rollback()
    assert "locked" in found["error"]
    assert found["error"].endswith("Send it again")
    assert digest(kiosk) == before
    await post_json(datasette, url(kiosk), BODY)
    assert known(kiosk) == [FACT]


# at the same time ----------------------------------------------------------------------------


async def test_many_at_once_lose_nothing(kiosk: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, kiosk)
    await datasette.invoke_startup()
    facts = [f"Number {n} of many facts about {word}" for n, word in enumerate("abcdefgh")]
    bodies = [{"observations": [{"id": 9001, "contents": [fact, "the same"]}]} for fact in facts]
    found = await asyncio.gather(*(post_json(datasette, url(kiosk), body) for body in bodies))
    assert sorted(known(kiosk)) == sorted([*facts, "the same"])
    assert sum(each["counts"]["added"] for each in found) == len(facts) + 1
    assert sum(each["counts"]["skipped"] for each in found) == len(facts) - 1


async def test_a_slow_model_keeps_nobody_waiting(
    kiosk: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a model embeds, pages are answered and others write."""
    datasette = editing_datasette(make_datasette, kiosk)
    await datasette.invoke_startup()
    started, go_on = threading.Event(), threading.Event()
    run = embedding.run_model

    def slow(model: str, texts: Any) -> Any:
        started.set()
        assert go_on.wait(20)
        return run(model, texts)

    monkeypatch.setattr(embedding, "run_model", slow)
    adding = asyncio.ensure_future(post_json(datasette, url(kiosk), BODY))
    try:
        assert await asyncio.to_thread(started.wait, 20)
        await get_json(datasette, f"{base(kiosk)}.json")
        await datasette.get_database("demo").execute_write("update entities set confidence = 0.9")
        with closing(connect(kiosk)) as other:
            other.execute("pragma busy_timeout = 0").fetchone()
            other.execute("insert into entities(name) values ('by another')")
            other.commit()
        assert not adding.done()
    finally:
        go_on.set()
    found = await asyncio.wait_for(adding, 30)
    assert found["search"]["updated"]


async def test_a_long_comparison_keeps_nobody_waiting(
    kiosk: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While texts are compared, pages are answered and others write, to the same entity too; what
    they wrote is compared as well."""
    datasette = editing_datasette(make_datasette, kiosk)
    await datasette.invoke_startup()
    started, go_on = threading.Event(), threading.Event()
    threads: list[str] = []
    find_pairs = adding_similar.find_pairs

    def slow(*args: Any, **options: Any) -> Any:
        threads.append(threading.current_thread().name)
        started.set()
        assert go_on.wait(20)
        return find_pairs(*args, **options)

    monkeypatch.setattr(adding_similar, "find_pairs", slow)
    monkeypatch.setattr(observations, "AT_ONCE", -1)
    monkeypatch.setattr(adding_module, "AT_ONCE", -1)
    adding = asyncio.ensure_future(post_json(datasette, url(kiosk), BODY))
    try:
        assert await asyncio.to_thread(started.wait, 20)
        await get_json(datasette, f"{base(kiosk)}.json")
        await datasette.get_database("demo").execute_write(
            "insert into observations(entity_id, content) values (9001, ?)", [FACT.upper()]
        )
        assert not adding.done()
    finally:
        go_on.set()
    found = await asyncio.wait_for(adding, 30)
    assert found["results"][0]["added"][0]["similar"][0]["rule"] == "exact"
    assert len(threads) == 2
    assert all(name.startswith("limbic-compare") for name in threads)


async def test_long_comparisons_at_once_all_end(
    kiosk: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each makes those of the others outdated, more often than one is tried again."""
    monkeypatch.setattr(observations, "AT_ONCE", -1)
    monkeypatch.setattr(adding_module, "AT_ONCE", -1)
    datasette = editing_datasette(make_datasette, kiosk)
    await datasette.invoke_startup()
    facts = [f"One of many facts about {word}" for word in "abcdefgh"]
    bodies = [{"observations": [{"id": 9001, "contents": [fact]}]} for fact in facts]
    await asyncio.gather(*(post_json(datasette, url(kiosk), body) for body in bodies))
    assert sorted(known(kiosk)) == facts


async def test_the_answer_is_json_that_anything_can_read(kiosk: Path, make_datasette: Any) -> None:
    blob = "insert into observations(entity_id, content) values (9001, ?)"
    write(kiosk, (blob, [b"\xff\x00" + FACT.encode()]), (blob, [b""]))
    datasette = editing_datasette(make_datasette, kiosk)
    response = await post(datasette, url(kiosk), BODY)
    assert response.status_code == 200
    json.loads(response.content)
