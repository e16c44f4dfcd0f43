"""POST /open: entities whole, by name or id, recorded as opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import NOW
from view_helpers import (
    AGENT,
    added,
    base,
    digest,
    get_json,
    post,
    post_json,
    recording_datasette,
    rows,
    signals,
    write,
)

from datasette_limbic import recorder, serving

OPENED = (
    "select entity_id, entity_name, event, client, actor from limbic_feedback"
    " where search_id is not null order by id"
)
OPENED_ALONE = (
    "select entity_id, entity_name from limbic_feedback"
    " where search_id is null and event = 'opened' and actor = 'agent'"
)


def ids_of(path: Path, *names: str) -> list[int]:
    return [rows(path, "select id from entities where name = ?", name)[0][0] for name in names]


async def open_(datasette: Any, path: Path, body: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    found: dict[str, Any] = await post_json(datasette, f"{base(path)}/open", body, **kwargs)
    return found


async def test_each_entity_is_its_own_page_without_paging(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    names = [name for (name,) in rows(demo_db, "select name from entities order by name desc")][:60]
    # nothing is recorded meanwhile
    found = await open_(datasette, demo_db, {"names": names}, actor=None)
    assert set(found) == {"ok", "entities", "unknown", "suggestions", "now", "recorded"}
    assert [e["name"] for e in found["entities"]] == names
    for each in found["entities"]:
        url = f"{base(demo_db)}/entity/{each['id']}.json?now={found['now'].replace(' ', '+')}"
        twin = await get_json(datasette, url)
        for key in ("ok", "page", "pages", "relations_page", "relations_pages"):
            del twin[key]
        # what the page alone has
        del twin["relation_types"], twin["timeline"]
        # from tables that opening asks no rights for
        del twin["signals"]["events"], twin["maintenance"]
        for observation in twin["observations"]:
            del observation["similar_to"], observation["pairs"]
        assert each == {**twin, "cut": False}


@pytest.mark.parametrize("suffix", ["", ".json"])
async def test_names_and_ids_in_the_order_given(
    suffix: str, demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    atlas, geocoder, turia = ids_of(demo_db, "Atlas", "geocoder", "Turia rollout")
    body = {
        "names": ["geocoder", "Nobody", "Atlas", "geocoder", "Nobody"],
        "ids": [turia, atlas, 999_999, turia, -1, 0, 2**63 - 1, -(2**63)],
        "wait": True,
        "client": "a client",
    }
    before = signals(demo_db)
    found = await post_json(datasette, f"{base(demo_db)}/open{suffix}", body)
    assert [e["id"] for e in found["entities"]] == [geocoder, atlas, turia]
    assert found["unknown"] == ["Nobody", 999_999, -1, 0, 2**63 - 1, -(2**63)]
    assert found["recorded"] == {
        "status": "done",
        "accesses": 3,
        "co_occurrences": 3,
        "opened": 0,
        "reason": None,
    }
    assert added(before, signals(demo_db)) == {
        "entity_access": 3,
        "entity_access_log": 3,
        "co_occurrences": 3,
        "limbic_feedback": 3,
    }
    assert rows(demo_db, f"{OPENED_ALONE} and client = 'a client'") == [
        (geocoder, "geocoder"),
        (atlas, "Atlas"),
        (turia, "Turia rollout"),
    ]
    logged = rows(
        demo_db, "select entity_id, query from entity_access_log order by id desc limit 3"
    )
    assert logged[::-1] == [(geocoder, None), (atlas, None), (turia, None)]


async def test_one_alone_has_no_partner_and_none_records_nothing(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    before = signals(demo_db)
    found = await open_(datasette, demo_db, {"names": ["Nobody"], "wait": True})
    assert found["entities"] == []
    assert found["recorded"]["status"] == "nothing"
    assert found["recorded"]["reason"] == serving.NOTHING_FOUND
    assert signals(demo_db) == before
    await open_(datasette, demo_db, {"names": ["Atlas", "Atlas"], "wait": True})
    assert added(before, signals(demo_db)) == {
        "entity_access": 1,
        "entity_access_log": 1,
        "limbic_feedback": 1,
    }


async def test_archived_ended_and_superseded_are_answered_as_such(
    demo_db: Path, make_datasette: Any
) -> None:
    [atlas] = ids_of(demo_db, "Atlas")
    write(
        demo_db,
        ("update entities set archived_at = ?, archived_reason = 'old' where id = ?", [NOW, atlas]),
        (
            "insert into observations(entity_id, content, valid_to) values (?, 'was so', ?)",
            [atlas, "2020-01-01"],
        ),
    )
    datasette = recording_datasette(make_datasette, demo_db)
    [found] = (await open_(datasette, demo_db, {"names": ["Atlas"]}))["entities"]
    assert (found["archived_at"], found["archived_reason"]) == (NOW, "old")
    assert [o["ended"] for o in found["observations"] if o["content"] == "was so"] == [1]


async def test_a_name_that_differs_is_unknown_and_the_near_one_suggested(
    demo_db: Path, make_datasette: Any
) -> None:
    write(
        demo_db,
        *(
            ("insert into entities(name) values (?)", [name])
            for name in ("Sesión de análisis", "sesion-de-ANALISIS", "Über Maß", "(((", "a\x00b")
        ),
    )
    datasette = recording_datasette(make_datasette, demo_db)
    near = {
        "atlas": ["Atlas"],
        "ATLAS!": ["Atlas"],
        "Átlas": ["Atlas"],
        "sesion de analisis": ["Sesión de análisis", "sesion-de-ANALISIS"],
        "uber maß": ["Über Maß"],
        "Atla": [],
        "Atlas project": [],
        "))": [],
        "": [],
        '"': [],
        'x" OR name : "atlas': [],
        "y" * 600: [],
    }
    found = await open_(datasette, demo_db, {"names": [*near, "((("], "wait": True})
    assert [e["name"] for e in found["entities"]] == ["((("]
    assert found["unknown"] == list(near)
    assert found["suggestions"] == {name: names for name, names in near.items() if names}


async def test_as_many_as_a_search_returns(demo_db: Path, make_datasette: Any) -> None:
    write(
        demo_db,
        *(("insert into entities(name) values (?)", [f"many {n}"]) for n in range(120)),
    )
    datasette = recording_datasette(make_datasette, demo_db)
    before = signals(demo_db)
    names = [f"many {n}" for n in range(120)]
    found = await open_(datasette, demo_db, {"names": names[:100], "wait": True})
    assert len(found["entities"]) == 100
    assert found["recorded"]["co_occurrences"] == 4950
    assert added(before, signals(demo_db))["co_occurrences"] == 4950
    # the same one ten thousand times is one
    found = await open_(datasette, demo_db, {"names": ["Atlas"] * 10_000})
    assert [e["name"] for e in found["entities"]] == ["Atlas"]
    await recorder.drain(datasette)
    unchanged = digest(demo_db)
    for many, said in ((names[:101], "101"), ([f"n {n}" for n in range(10_000)], "10,000")):
        refused = await open_(datasette, demo_db, {"names": many}, status=400)
        assert refused["error"].startswith(f"{said} entities were asked for: at most 100")
    refused = await open_(
        datasette, demo_db, {"names": names[:60], "ids": [*range(41)]}, status=400
    )
    assert refused["error"].startswith("101 entities")
    await recorder.drain(datasette)
    assert digest(demo_db) == unchanged


def fill(path: Path, observations: int, relations: int) -> int:
    """An entity "large" with so many observations, and relations each way."""
    from datasette_limbic import connection

    conn = connection.connect(path)
    number: int = conn.execute("insert into entities(name) values ('large')").lastrowid
    conn.executemany(
        "insert into observations(entity_id, content) values (?, ?)",
        [(number, f"fact {n}") for n in range(observations)],
    )
    others = [
        conn.execute("insert into entities(name) values (?)", [f"other {n}"]).lastrowid
        for n in range(relations)
    ]
    conn.executemany(
        "insert into relations(from_entity, to_entity, relation_type) values (?, ?, 'knows')",
        [pair for other in others for pair in ((number, other), (other, number))],
    )
    conn.commit()
    conn.close()
    return number


async def test_a_large_entity_is_answered_whole(demo_db: Path, make_datasette: Any) -> None:
    fill(demo_db, 450, 130)
    datasette = recording_datasette(make_datasette, demo_db)
    [found] = (await open_(datasette, demo_db, {"names": ["large"]}))["entities"]
    assert [o["content"] for o in found["observations"]] == [f"fact {n}" for n in range(450)]
    assert len(found["relations_out"]) == len(found["relations_in"]) == 130
    assert found["counts"]["observations"] == 450
    assert found["cut"] is False


async def test_what_is_too_much_for_one_answer_is_cut_and_said(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(demo_db, 320, 3)
    monkeypatch.setattr(serving, "MAX_OPEN_ROWS", 600)
    datasette = recording_datasette(make_datasette, demo_db)
    found = await open_(datasette, demo_db, {"names": ["large", "Atlas"], "wait": True})
    large, atlas = found["entities"]
    assert (len(large["observations"]), large["cut"]) == (300, True)
    assert large["counts"]["observations"] == 320
    assert len(large["relations_out"]) == 3
    assert atlas["cut"] is False
    assert found["recorded"]["accesses"] == 2
    [alone] = (await open_(datasette, demo_db, {"names": ["large"]}))["entities"]
    assert (len(alone["observations"]), alone["cut"]) == (320, False)
    # never fewer than the page of an entity shows
    monkeypatch.setattr(serving, "MAX_OPEN_ROWS", 1)
    [least] = (await open_(datasette, demo_db, {"names": ["large"]}))["entities"]
    assert (len(least["observations"]), least["cut"]) == (100, True)


# -- opened from a search -----------------------------------------------------------------------


@pytest.mark.parametrize("wait", [True, False])
async def test_opened_from_a_search(wait: bool, demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    body = {"query": "geocoder", "limit": 3, "mode": "text", "expansion_factor": 1, "wait": wait}
    search = await post_json(datasette, f"{base(demo_db)}/search", body)
    shown = [(r["id"], r["name"]) for r in search["results"]]
    candidates = search["candidates"]
    outside = rows(
        demo_db,
        "select id from entities where name not like '%geo%' and id not in"
        " (select entity_id from observations where content like '%geo%') limit 1",
    )[0][0]
    # the search itself may still be waiting: that is known
    opened = await open_(
        datasette,
        demo_db,
        {
            "ids": [shown[1][0], outside, shown[0][0]],
            "search_id": search["search_id"],
            "client": "c",
        },
    )
    assert opened["recorded"]["status"] == "queued"
    assert opened["recorded"]["reason"] is None
    assert opened["recorded"]["accesses"] == 3
    assert opened["recorded"]["opened"] == 2  # known although the search may be waiting itself
    await recorder.drain(datasette)
    assert len(rows(demo_db, "select 1 from limbic_search_candidates")) == candidates
    # events for candidates of that search alone, each with the search and who it was
    assert rows(demo_db, OPENED) == [
        (*shown[1], "opened", "c", "agent"),
        (*shown[0], "opened", "c", "agent"),
    ]
    assert [number for number, _ in rows(demo_db, OPENED_ALONE)] == [outside]
    uids = rows(
        demo_db,
        "select s.uid from limbic_feedback f join limbic_searches s on s.id = f.search_id",
    )
    assert uids == [(search["search_id"],)] * 2
    again = await open_(
        datasette,
        demo_db,
        {"ids": [shown[0][0], outside], "search_id": search["search_id"], "wait": True},
    )
    assert again["recorded"]["opened"] == 1


async def test_an_unknown_search_is_said_and_the_rest_recorded(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    before = signals(demo_db)
    for search_id in ("nope", "0123456789abcdef", "\ud800", "a\x00b"):
        found = await open_(
            datasette, demo_db, {"names": ["Atlas"], "search_id": search_id, "wait": True}
        )
        assert found["recorded"]["status"] == "done"
        assert found["recorded"]["accesses"] == 1
        assert found["recorded"]["opened"] == 0
        assert "no logged search has the id" in found["recorded"]["reason"]
    assert added(before, signals(demo_db)) == {
        "entity_access": 4,
        "entity_access_log": 4,
        "limbic_feedback": 4,
    }
    assert len(rows(demo_db, OPENED_ALONE)) == 4
    for none in (None, ""):
        found = await open_(datasette, demo_db, {"names": ["Atlas"], "search_id": none})
        assert found["recorded"]["reason"] is None


async def test_without_permission_the_answer_is_the_same(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    before = digest(demo_db)
    body = {"names": ["Atlas", "Nobody"], "search_id": "nope", "wait": True}
    found = await open_(datasette, demo_db, body, actor=None)
    assert found["recorded"]["status"] == "nothing"
    assert found["recorded"]["reason"] == "this needs the permission limbic-record"
    await recorder.drain(datasette)
    assert digest(demo_db) == before
    allowed = await open_(datasette, demo_db, body)
    assert set(found) == set(allowed)
    # ages are reckoned from the moment of each answer
    same = ("id", "name", "counts", "observations", "relations_out", "relations_in", "cut")
    [one], [other] = found["entities"], allowed["entities"]
    assert set(one) == set(other)
    assert [one[key] for key in same] == [other[key] for key in same]


async def test_an_entity_that_goes_before_it_is_recorded(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    [atlas] = ids_of(demo_db, "Atlas")
    before = signals(demo_db)
    search = await post_json(
        datasette, f"{base(demo_db)}/search", {"query": "Atlas", "limit": 3, "now": NOW}
    )
    assert atlas in [r["id"] for r in search["results"]]
    await open_(datasette, demo_db, {"ids": [atlas], "search_id": search["search_id"]})
    kept = rows(
        demo_db,
        "select (select coalesce(sum(access_count), 0) from entity_access where entity_id <> ?),"
        " (select count(*) from entity_access_log)",
        atlas,
    )[0]
    write(demo_db, ("delete from entities where id = ?", [atlas]))
    await recorder.drain(datasette)
    assert recorder.recorder_for(datasette.get_database("demo")).failed == 0
    now = rows(
        demo_db,
        "select (select sum(access_count) from entity_access),"
        " (select count(*) from entity_access_log)",
    )[0]
    assert (now[0] - kept[0], now[1] - kept[1]) == (2, 2)
    # what the search showed stays in its log, and that it was opened
    assert rows(demo_db, OPENED) == [(None, "Atlas", "opened", None, "agent")]
    assert signals(demo_db)["limbic_searches"] == before["limbic_searches"] + 1


WRONG: dict[str, list[Any]] = {
    "names": ["Atlas", 5, {}, True, [5], [None], [["Atlas"]], ["Atlas", {}], 1.5],
    "ids": [1, "1", {}, True, [True], ["1"], [1.0], [None], [2**63], [-(2**63) - 1], [10**4000]],
    "search_id": [5, [], {}, True, "x" * 101],
    "client": [5, [], {}, True, "x" * 201],
    "wait": [5, [], {}, "maybe", 1.5],
}


async def test_wrong_types_are_named(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    before = digest(demo_db)
    for key, values in WRONG.items():
        for value in values:
            body = {"names": ["Atlas"], key: value}
            found = await open_(datasette, demo_db, body, status=400)
            assert key in found["error"], (key, value, found["error"])
            assert len(found["error"]) < 250
    for empty in ({}, {"names": []}, {"names": None, "ids": []}, {"search_id": "x"}):
        found = await open_(datasette, demo_db, empty, status=400)
        assert "nothing to open" in found["error"]
    await recorder.drain(datasette)
    assert digest(demo_db) == before


async def test_names_that_utf8_or_sqlite_may_stumble_over(
    demo_db: Path, make_datasette: Any
) -> None:
    odd = ["a\x00b", "two\nlines", "\ufffd", "👩‍👩‍👧", "' or 1=1 --", "x" * 5000]
    write(demo_db, *(("insert into entities(name) values (?)", [name]) for name in odd))
    datasette = recording_datasette(make_datasette, demo_db)
    found = await open_(datasette, demo_db, {"names": odd, "wait": True})
    assert [e["name"] for e in found["entities"]] == odd
    assert found["recorded"]["accesses"] == len(odd)
    response = await post(datasette, f"{base(demo_db)}/open", b'{"names": ["?", "x\\udc00"]}')
    assert response.json()["unknown"] == ["?", "x\ufffd"]


async def test_who_opens_is_who_is_signed_in(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db, allow=True)
    search = await post_json(datasette, f"{base(demo_db)}/search", {"query": "Atlas", "wait": 1})
    body = {"ids": [search["results"][0]["id"]], "search_id": search["search_id"], "wait": True}
    for actor in (None, {"id": 5}, {"id": "é" * 300}, AGENT):
        await open_(datasette, demo_db, body, actor=actor)
    actors = [row[4] for row in rows(demo_db, OPENED)]
    assert actors == [None, "5", "é" * 200, "agent"]
