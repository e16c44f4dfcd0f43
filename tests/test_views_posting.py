"""POST /search: the answer of its GET twin, and what it leaves behind."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from conftest import NOW
from view_helpers import (
    AGENT,
    ONE_POINT_ZERO,
    added,
    as_actor,
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

from datasette_limbic import recorder, serving, write_behind
from datasette_limbic.request import ARGUMENTS
from datasette_limbic.scoring import Parameters

pytestmark = pytest.mark.slow  # the pages are no other on another Python

OWN = {"recorded", "search_id"}
Q = "who fixed the geocoder"
ARGUMENT_SETS: list[dict[str, Any]] = [
    {},
    {"limit": 1},
    {"limit": 100},
    {"limit": 3, "explain": True},
    {"mode": "text"},
    {"mode": "semantic", "explain": 1},
    {"type": "Proyecto", "limit": 5},
    {"type": "Nothing of the kind"},
    {"include_archived": True, "limit": 100},
    {"as_of": "2026-06-30"},
    {"strategy": "limbic_heavy", "recency": "freshest", "fusion": "document"},
    {"strategy": "cosine_heavy", "recency": "activity", "consolidation": True},
    {"expansion_factor": 1, "limit": 2, "explain": True},
    {f.name: getattr(Parameters(), f.name) for f in fields(Parameters)},
    {"beta_sal": 3, "gamma": 0.5, "cooc_cap": 1.5},
    {"query": "zzzzqqqq xxxxyyyy", "mode": "text"},
    {"query": "  \u00a0 "},
    {"query": "東京 geocoder ñ"},
]


def url_of(body: dict[str, Any]) -> str:
    """The GET twin of a body: ``query`` is ``q`` there, and yes is 1."""
    named = {("q" if k == "query" else k): (1 if v is True else v) for k, v in body.items()}
    return urlencode({k: v for k, v in named.items() if v is not None})


def bodies() -> list[dict[str, Any]]:
    return [{"query": Q, "now": NOW, **each} for each in ARGUMENT_SETS]


async def test_the_answer_is_the_one_of_its_get_twin(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    for body in bodies():
        # searches that are recorded change the next ranking: GET first, then nothing waits
        for suffix in ("", ".json"):
            await recorder.drain(datasette)
            twin = await get_json(datasette, f"{base(demo_db)}/search.json?{url_of(body)}")
            found = await post_json(datasette, f"{base(demo_db)}/search{suffix}", body)
            assert set(found) == set(twin) | OWN, body
            assert {k: v for k, v in found.items() if k not in OWN} == twin, body
            assert found["policy"] == "limbic"


async def test_every_argument_of_the_url_is_a_key_of_the_body(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    body = {"query" if name == "q" else name: None for name in ARGUMENTS}
    found = await post_json(datasette, f"{base(demo_db)}/search", {**body, "query": Q})
    assert found["limit"] == 10
    assert len(found["results"]) == 10


async def test_only_what_was_returned_is_counted(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    for body in bodies():
        before = signals(demo_db)
        found = await post_json(datasette, f"{base(demo_db)}/search", {**body, "wait": True})
        shown = len(found["results"])
        pairs = shown * (shown - 1) // 2
        if not body["query"].strip():
            assert found["recorded"]["status"] == "nothing"
            assert found["recorded"]["reason"] == serving.NOTHING_ASKED
            assert found["search_id"] is None
            assert signals(demo_db) == before
            continue
        assert found["recorded"] == {
            "status": "done",
            "accesses": shown,
            "co_occurrences": pairs,
            "opened": 0,
            "reason": None,
        }
        changed = {
            "entity_access": shown,
            "entity_access_log": shown,
            "co_occurrences": pairs,
            "limbic_searches": 1,
            "limbic_search_candidates": found["candidates"],
        }
        assert added(before, signals(demo_db)) == {k: v for k, v in changed.items() if v}
        logged = rows(
            demo_db,
            "select entity_id, entity_name, query from entity_access_log order by id desc limit ?",
            shown,
        )
        assert logged[::-1] == [(r["id"], r["name"], body["query"]) for r in found["results"]]


@pytest.mark.parametrize("wait", [True, False])
async def test_the_log_holds_the_whole_search(
    wait: bool, demo_db: Path, make_datasette: Any
) -> None:
    write(
        demo_db,
        (
            "insert into limbic_parameters(version, beta_sal, gamma, source)"
            " values (7, 0.7, 0.03, 'manual')",
            [],
        ),
    )
    datasette = recording_datasette(make_datasette, demo_db)
    body = {"query": Q, "now": NOW, "limit": 4, "client": "a client", "explain": True}
    found = await post_json(datasette, f"{base(demo_db)}/search", {**body, "wait": wait})
    assert found["recorded"]["status"] == ("done" if wait else "queued")
    assert found["recorded"]["accesses"] == 4
    assert found["recorded"]["co_occurrences"] == 6
    await recorder.drain(datasette)
    [search] = rows(
        demo_db,
        """select query, mode, strategy, result_limit, now, parameters_version, policy, treatment,
        probability, client, actor, uid, parameters, id,
        julianday('now') - julianday(created_at) from limbic_searches""",
    )
    assert search[:12] == (
        *(Q, "hybrid", found["results"][0]["routing_strategy"], 4, NOW, 7, "limbic", 1, 1.0),
        *("a client", "agent", found["search_id"]),
    )
    assert 0 <= search[14] < 1 / 1440
    kept = json.loads(search[12])
    assert {name: kept[name] for name in found["parameters"]} == found["parameters"]
    assert (kept["beta_sal"], kept["gamma"]) == (0.7, 0.03)
    assert kept["strategy"] == "auto"

    pool = [*found["results"], *found["losers"]]
    by_base = sorted(pool, key=lambda r: (-r["scoring"]["base"], r["id"]))
    baseline = {r["id"]: rank for rank, r in enumerate(by_base, 1)}
    expected = {
        r["id"]: (
            *(r["name"], int(rank <= 4), baseline[r["id"]], rank),
            *(r["scoring"]["cosine_sim"], r["rrf_score"], r["scoring"]["base"]),
            *(r["scoring"]["importance"], r["scoring"]["temporal_factor"]),
            *(r["scoring"]["cooc_boost"], r["limbic_score"], r["final_score"]),
        )
        for rank, r in enumerate(pool, 1)
    }
    # to the last bit: nothing is rounded on its way
    written = rows(
        demo_db,
        """select entity_id, entity_name, returned, baseline_rank, treatment_rank, cosine_sim,
        rrf_score, base, importance, temporal_factor, cooc_boost, limbic_score, final_score
        from limbic_search_candidates where search_id = ?""",
        search[13],
    )
    assert {row[0]: row[1:] for row in written} == expected
    assert len(written) == found["candidates"] > 4


async def test_the_version_is_that_of_what_was_used(demo_db: Path, make_datasette: Any) -> None:
    insert = "insert into limbic_parameters(version, beta_sal, gamma, source) values (?, ?, ?, ?)"
    datasette = recording_datasette(make_datasette, demo_db)
    url = f"{base(demo_db)}/search"
    await post_json(datasette, url, {"query": Q, "wait": 1})
    write(demo_db, (insert, [3, 0.9, 0.02, "manual"]))
    await post_json(datasette, url, {"query": Q, "wait": 1})
    await post_json(datasette, url, {"query": Q, "wait": 1, "gamma": 0.5})
    await post_json(datasette, url, {"query": Q, "wait": 1, "rrf_k": 10})
    assert rows(demo_db, "select parameters_version from limbic_searches order by id") == [
        (None,),
        (3,),
        (None,),
        (3,),
    ]


async def test_a_second_search_ranks_by_what_the_first_left(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    body = {"query": Q, "limit": 2, "now": NOW, "wait": True}
    first = await post_json(datasette, f"{base(demo_db)}/search", body)
    second = await post_json(datasette, f"{base(demo_db)}/search", body)
    counts = {r["id"]: r["access_count"] for r in first["results"]}
    again = {r["id"]: r["access_count"] for r in second["results"]}
    assert any(again[i] == counts[i] + 1 for i in counts if i in again)


async def test_without_vectors_the_returned_are_recorded_too(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db, config={"model": "no-such-model"})
    before = signals(demo_db)
    found = await post_json(
        datasette, f"{base(demo_db)}/search", {"query": "geocoder", "wait": True}
    )
    assert "only text was searched" in found["degraded"]
    assert added(before, signals(demo_db))["entity_access"] == len(found["results"]) > 0
    [(kept,)] = rows(demo_db, "select parameters from limbic_searches")
    assert json.loads(kept)["degraded"] is True


# -- serving the baseline -----------------------------------------------------------------------


def is_by_base(found: dict[str, Any]) -> bool:
    order = [(-r["scoring"]["base"], r["id"]) for r in found["results"]]
    return order == sorted(order)


@pytest.mark.parametrize(("share", "policies"), [(0, {"limbic"}), (1, {"baseline"})])
async def test_share_none_and_all(
    share: float, policies: set[str], demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db, config={"baseline_share": share})
    body = {"query": Q, "limit": 5, "now": NOW, "explain": True, "wait": True}
    twin = await get_json(datasette, f"{base(demo_db)}/search.json?{url_of(body)[:-7]}")
    assert twin["policy"] == "limbic"
    found = await post_json(datasette, f"{base(demo_db)}/search", body)
    assert {found["policy"]} == policies
    assert is_by_base(found) is (share == 1)
    [logged] = rows(demo_db, "select policy, treatment, probability from limbic_searches")
    assert logged == (found["policy"], int(share == 0), 1.0)
    returned = rows(
        demo_db,
        "select entity_id from limbic_search_candidates where returned order by "
        + ("baseline_rank" if share else "treatment_rank"),
    )
    assert [row[0] for row in returned] == [r["id"] for r in found["results"]]
    # both ranks are those of the two rankings, whichever was served
    ranked = [r["id"] for r in [*twin["results"], *twin["losers"]]]
    logged_order = rows(
        demo_db, "select entity_id from limbic_search_candidates order by treatment_rank"
    )
    assert [row[0] for row in logged_order] == ranked


async def test_half_of_the_searches(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter([0.0, 0.29999, 0.3, 0.999])
    monkeypatch.setattr("datasette_limbic.serving.random.random", lambda: next(drawn))
    datasette = recording_datasette(make_datasette, demo_db, config={"baseline_share": 0.3})
    served = [
        (await post_json(datasette, f"{base(demo_db)}/search", {"query": Q, "wait": 1}))["policy"]
        for _ in range(4)
    ]
    assert served == ["baseline", "baseline", "limbic", "limbic"]
    logged = rows(demo_db, "select policy, treatment, probability from limbic_searches order by id")
    assert logged == [("baseline", 0, 0.3)] * 2 + [("limbic", 1, 0.7)] * 2


RANKING = [
    {"strategy": "auto"},
    {"recency": "access"},
    {"fusion": "fused"},
    {"consolidation": False},
    *({f.name: 1} for f in fields(Parameters)),
]


async def test_who_takes_no_part_in_comparing(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db, config={"baseline_share": 1})
    url = f"{base(demo_db)}/search"
    for chosen in RANKING:
        found = await post_json(datasette, url, {"query": Q, **chosen, "wait": True})
        assert found["policy"] == "limbic", chosen
    logged = rows(demo_db, "select distinct policy, probability from limbic_searches")
    assert logged == [("limbic", 1.0)]
    assert (await post_json(datasette, url, {"query": ""}))["policy"] == "limbic"
    assert (await post_json(datasette, url, {"query": Q}, actor=None))["policy"] == "limbic"
    # what chooses no ranking does not take anybody out
    for other in ({"limit": 3}, {"type": "Proyecto"}, {"strategy": None, "gamma": ""}):
        found = await post_json(datasette, url, {"query": Q, **other})
        assert found["policy"] == "baseline", other


# -- bad input ----------------------------------------------------------------------------------

BAD_BODIES: dict[str, tuple[bytes | str, str]] = {
    "empty": (b"", "the body is empty: send {"),
    "spaces": (b" \n", "the body is empty: send {"),
    "text": (b"nope", "no JSON"),
    "not UTF-8": (b'{"query": "\xff"}', "no UTF-8"),
    "UTF-16": ('{"query": "x"}'.encode("utf-16"), "no UTF-8"),
    "array": (b'[{"query": "x"}]', "no object"),
    "string": (b'"x"', "no object"),
    "null": (b"null", "no object"),
    "number": (b"5", "no object"),
    "NaN": (b'{"gamma": NaN}', "NaN is no JSON"),
    "infinity": (b'{"gamma": -Infinity}', "-Infinity is no JSON"),
    "cut off": (b'{"query": "x"', "no JSON"),
    "two": (b'{"query": "x"} {"query": "y"}', "no JSON"),
    "nested": (b"[" * 100_000, "no JSON"),
    "nested and closed": (b'{"query":' + b"[" * 400 + b"]" * 400 + b"}", "nested too deeply"),
    "nested objects": (b'{"a":' * 300 + b"1" + b"}" * 300, "nested too deeply"),
    "duplicate keys": (b'{"query": "x", "query": "y"}', "twice"),
    "4,301 digits": (b'{"limit": ' + b"9" * 4301 + b"}", "no JSON"),
    "unknown key": (b'{"nope": 1}', "unknown key nope"),
    "the URL's name": (b'{"q": "x"}', "unknown key q: the body takes query"),
    "long unknown key": (b'{"' + b"k" * 9000 + b'": 1}', "unknown key kkk"),
    "surrogate key": (b'{"\\ud800": 1}', "unknown key \ufffd"),
}


async def test_bodies_that_are_no_object_of_ours(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    before = digest(demo_db)
    for path in ("search", "search.json", "open", "open.json", "feedback", "feedback.json"):
        for name, (body, words) in BAD_BODIES.items():
            if name == "the URL's name" and not path.startswith("search"):
                continue
            found = await post_json(datasette, f"{base(demo_db)}/{path}", body, status=400)
            assert words in found["error"], (path, name, found["error"])
            assert len(found["error"]) < 1000
    await recorder.drain(datasette)
    assert digest(demo_db) == before


WRONG: list[Any] = [
    *([], {}, ["x"], {"a": 1}, True, -1, 0, 1.5, 101, 10**400, -(10**4000), 1e308, "x" * 3000),
    *("ten", "\x00", "\ud800", "½", [[[[]]]]),
]
# Values that are right for some of the keys, so that none of these can tell by their status.
KEYS = [*("query" if name == "q" else name for name in ARGUMENTS), "client", "wait"]
KEYS.append("confident_only")


async def test_no_value_of_any_key_breaks_a_search(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    refused: dict[str, int] = {}
    for key in KEYS:
        for value in WRONG:
            response = await post(
                datasette, f"{base(demo_db)}/search", {"query": "geocoder", key: value}
            )
            assert response.status_code in (200, 400), (key, value, response.text[:300])
            found = response.json()
            if response.status_code == 400:
                refused[key] = refused.get(key, 0) + 1
                words = "query" if key == "query" else key
                assert words in found["error"], (key, value, found["error"])
                assert len(found["error"]) < 300
    assert set(refused) == set(KEYS)
    assert refused["limit"] == len(WRONG)
    await recorder.drain(datasette)
    assert recorder.recorder_for(datasette.get_database("demo")).failed == 0


async def test_text_that_utf8_cannot_hold_is_kept_as_a_replacement(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    body = b'{"query": "geo\\ud800coder \\u0000", "client": "a\\udfffb\\u0000c", "wait": 1}'
    found = await post_json(datasette, f"{base(demo_db)}/search", b"\xef\xbb\xbf" + body)
    assert found["query"] == "geo\ufffdcoder"
    assert found["recorded"]["status"] == "done"
    assert rows(demo_db, "select query, client from limbic_searches") == [
        ("geo\ufffdcoder", "a\ufffdb c")
    ]


async def test_a_type_is_of_bounded_length_and_utf8(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    url = f"{base(demo_db)}/search"
    longest = {"query": "geocoder", "type": "x" * 10_000, "wait": True}
    assert (await post_json(datasette, url, longest))["recorded"]["status"] == "done"
    for length, said in ((10_001, "10,001"), (900_000, "900,000")):
        body = {"query": "geocoder", "type": "x" * length}
        found = await post_json(datasette, url, body, status=400)
        assert found["error"] == f"type has {said} characters: use at most 10,000"
    await get_json(datasette, f"{url}.json?q=x&type={'x' * 3000}")
    await post_json(datasette, url, b'{"query": "x", "type": "a\\udfff", "wait": 1}')
    kept = rows(demo_db, "select parameters from limbic_searches order by id desc limit 1")
    assert json.loads(kept[0][0])["type"] == "a\ufffd"
    found = await get_json(datasette, f"{url}.json?q=geocoder&type=%ff%ed%a0%80")
    found["type"].encode("utf-8")


@pytest.mark.parametrize("share", [0, 1])
async def test_only_confident_answers_are_recorded_for_who_wants_that(
    share: int, demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db, config={"baseline_share": share})
    url = f"{base(demo_db)}/search"
    before = signals(demo_db)
    junk = {"query": "quantum chromodynamics lattice", "confident_only": True, "wait": True}
    found = await post_json(datasette, url, junk)
    assert found["confident"] is False
    assert found["results"]
    assert found["search_id"] is None
    assert found["policy"] == "limbic"  # the baseline is served where it is recorded alone
    assert found["recorded"]["status"] == "nothing"
    assert found["recorded"]["reason"].startswith("the answer is not confident")
    assert signals(demo_db) == before
    nobody = await post_json(datasette, url, junk, actor=None)
    assert nobody["recorded"]["reason"] == "this needs the permission limbic-record"
    empty = await post_json(datasette, url, {**junk, "query": " "})
    assert empty["recorded"]["reason"] == serving.NOTHING_ASKED
    assert signals(demo_db) == before
    for body in ({**junk, "query": "double invoices"}, {**junk, "confident_only": False}):
        found = await post_json(datasette, url, body)
        assert found["recorded"]["status"] == "done"
        assert found["search_id"]
        assert found["policy"] == ("baseline" if share else "limbic")
    assert signals(demo_db)["limbic_searches"] == before["limbic_searches"] + 2


async def test_a_body_of_over_a_mebibyte_is_not_read_to_its_end(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    await datasette.invoke_startup()
    big = json.dumps({"query": "x", "client": "y" * 1024 * 1024})
    for path in ("search", "open", "feedback"):
        found = await post_json(datasette, f"{base(demo_db)}/{path}", big, status=413)
        assert "1,048,576 bytes" in found["error"]
        # without a length that tells: refused at the piece that goes over it
        status, _, pieces = await raw(datasette, f"{base(demo_db)}/{path}", endless=True)
        assert status == 413
        assert pieces == 17
    within = json.dumps({"query": "x", "now": NOW}) + " " * (1024 * 1024 - 100)
    assert (await post(datasette, f"{base(demo_db)}/search", within)).status_code == 200


async def test_a_client_that_goes_away_leaves_no_traceback(
    demo_db: Path, make_datasette: Any, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    await datasette.invoke_startup()
    before = digest(demo_db)
    for path in ("search", "open", "feedback"):
        status, text, _ = await raw(datasette, f"{base(demo_db)}/{path}")
        assert status == 400
        assert "the connection ended" in json.loads(text)["error"]
    assert "Traceback" not in caplog.text + "".join(capsys.readouterr())
    assert digest(demo_db) == before


async def raw(datasette: Any, path: str, *, endless: bool = False) -> tuple[int, str, int]:
    """A POST piece by piece: one that never ends, or one that breaks off after the first piece."""
    asked = 0

    async def receive() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        if asked > 1 and not endless:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": b" " * 65536, "more_body": True}

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    await datasette.app()(scope, receive, send)
    text = b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
    return sent[0]["status"], text.decode(), asked


@pytest.mark.parametrize("path", ["open", "feedback", "open.json", "feedback.json"])
async def test_what_is_answered_to_post_alone(
    path: str, demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    await datasette.invoke_startup()
    for method in ("get", "head", "put", "patch", "delete", "options"):
        response = await getattr(datasette.client, method)(f"{base(demo_db)}/{path}")
        assert response.status_code == 405
        assert response.headers["allow"] == "POST"
        if method != "head":
            key = path.partition(".")[0].replace("open", "names").replace("feedback", "rating")
            assert "use POST, with {" in response.json()["error"]
            assert f'"{key}": ' in response.json()["error"]
    response = await datasette.client.put(f"{base(demo_db)}/search")
    assert response.headers["allow"] == "GET, HEAD, POST"


async def test_preflight_and_cors(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db, cors=True)
    await datasette.invoke_startup()
    for path in ("search", "open", "feedback"):
        asked = {"origin": "https://elsewhere.example", "access-control-request-method": "POST"}
        response = await datasette.client.options(f"{base(demo_db)}/{path}", headers=asked)
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == "*"
        assert "content-type" in response.headers["access-control-allow-headers"].lower()
        assert "access-control-allow-credentials" not in response.headers
        response = await post(datasette, f"{base(demo_db)}/{path}", "nope", actor=None)
        assert response.headers["access-control-allow-origin"] == "*"


async def test_databases_that_are_none_of_ours(
    demo_db: Path, make_datasette: Any, tmp_path: Path
) -> None:
    from datasette.utils.sqlite import sqlite3

    other = tmp_path / "other.db"
    with sqlite3.connect(other) as conn:
        conn.execute("create table t (x)")
    conn.close()
    datasette = recording_datasette(make_datasette, demo_db, other)
    bodies = {
        "search": {"query": "x"},
        "open": {"names": ["x"]},
        "feedback": {"search_id": "x", "id": 1, "rating": "useful"},
    }
    for path, body in bodies.items():
        for name in ("nope", "_internal", "a~2Fb"):
            found = await post_json(datasette, f"/{name}/-/limbic/{path}", body, status=404)
            assert "there is no database" in found["error"]
        found = await post_json(datasette, f"/other/-/limbic/{path}", body, status=404)
        assert "other" in found["error"] or "memory" in found["error"]


async def test_immutable_and_read_only_files_answer_and_say_why(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = f"{base(demo_db)}/search.json?{url_of({'query': Q, 'now': NOW})}"
    before = digest(demo_db)
    immutable = recording_datasette(make_datasette, immutables=[str(demo_db)])
    writable = recording_datasette(make_datasette, demo_db)
    for datasette, words in ((immutable, "immutable"), (writable, "read-only")):
        if datasette is writable:
            # root may write to any file: what the system would say to another user
            monkeypatch.setattr("datasette_limbic.views.writable.os.access", lambda *_: False)
        found = await post_json(datasette, f"{base(demo_db)}/search", {"query": Q, "now": NOW})
        assert found["results"] == (await get_json(datasette, twin))["results"]
        assert words in found["recorded"]["reason"]
        assert (found["recorded"]["status"], found["search_id"]) == ("nothing", None)
        opened = await post_json(datasette, f"{base(demo_db)}/open", {"names": ["Atlas"]})
        assert words in opened["recorded"]["reason"]
        await recorder.drain(datasette)
        assert recorder.recorder_for(datasette.get_database("demo")).failed == 0
    assert digest(demo_db) == before


async def test_a_file_that_cannot_be_written_after_all_fails_no_answer(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    url = f"{base(demo_db)}/search"
    await datasette.get_database("demo").execute_write_fn(
        lambda conn: conn.execute("pragma query_only = 1")
    )
    found = await post_json(datasette, url, {"query": Q, "wait": True})
    assert found["results"]
    assert found["recorded"]["status"] == "failed"
    assert "readonly" in found["recorded"]["reason"]
    assert found["search_id"] is None
    found = await post_json(datasette, url, {"query": Q})
    assert found["recorded"]["status"] == "queued"
    await recorder.drain(datasette)
    assert recorder.recorder_for(datasette.get_database("demo")).failed == 2


@pytest.mark.usefixtures("impatient_connections")
async def test_a_locked_file_is_answered_from_and_counted(
    demo_db: Path, make_datasette: Any
) -> None:
    from datasette_limbic import connection

    datasette = recording_datasette(make_datasette, demo_db)
    url = f"{base(demo_db)}/search"
    await post_json(datasette, url, {"query": Q, "wait": True})
    before = signals(demo_db)
    other = connection.connect(demo_db)
    other.execute("begin immediate")
    try:
        found = await post_json(datasette, url, {"query": Q, "wait": True})
        assert found["results"]
        assert found["recorded"]["status"] == "failed"
        assert "locked" in found["recorded"]["reason"]
        assert found["search_id"] is None
        assert (await post_json(datasette, url, {"query": Q}))["recorded"]["status"] == "queued"
        await recorder.drain(datasette)
        rated = {"search_id": "x", "id": 1, "rating": "useful"}
        refused = await post_json(datasette, f"{base(demo_db)}/feedback", rated, status=503)
        assert "locked" in refused["error"]
        state = recorder.recorder_for(datasette.get_database("demo")).state()
        assert state["failed"] == 3
        assert "locked" in state["last_error"]
        other.rollback()
        other.execute("begin exclusive")
        for path, body in (("search", {"query": Q}), ("open", {"ids": [1]}), ("feedback", rated)):
            refused = await post_json(datasette, f"{base(demo_db)}/{path}", body, status=503)
            assert "locked" in refused["error"], path
    finally:
        other.rollback()
        other.close()
    assert signals(demo_db) == before
    assert (await post_json(datasette, url, {"query": Q, "wait": 1}))["recorded"][
        "status"
    ] == "done"


async def test_a_full_queue_is_said(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_behind, "MAX_WAITING", 3)
    datasette = recording_datasette(make_datasette, demo_db)
    for wait in (False, True):
        found = await post_json(datasette, f"{base(demo_db)}/search", {"query": Q, "wait": wait})
        assert found["results"]
        assert found["recorded"]["status"] == "failed"
        assert "wait to be written already" in found["recorded"]["reason"]
        assert found["search_id"] is None


# -- who sends it -------------------------------------------------------------------------------

JSON_TYPES = [
    "application/json",
    "application/json; charset=utf-8",
    "Application/JSON",
    "application/json;",
]
MULTIPART = "multipart/form-data; boundary=x"
OTHER_TYPES = [
    "text/plain",
    "text/plain; application/json",
    "application/jsonx",
    "application/x-json",
    "x application/json",
    MULTIPART,
    "application/x-www-form-urlencoded",
    "application/x-www-form-urlencoded; application/json",
    None,
]
BODY = {"query": Q, "now": NOW, "wait": True}


@pytest.mark.parametrize("kind", JSON_TYPES)
async def test_json_passes_with_a_cookie(kind: str, demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    found = await post_json(datasette, f"{base(demo_db)}/search", BODY, kind=kind)
    assert found["recorded"]["status"] == "done"


CROSS = {"sec-fetch-site": "cross-site"}
FORGED = [CROSS, {"sec-fetch-site": "same-site"}, {"origin": "https://evil.example"}]
FORGED += [{"origin": "null"}, {"origin": "http://[::1"}]


@pytest.mark.usefixtures("menus_for_all")
@pytest.mark.parametrize("kind", [*OTHER_TYPES, *JSON_TYPES])
async def test_no_page_of_another_site_can_make_a_browser_record(
    kind: str | None, demo_db: Path, make_datasette: Any
) -> None:
    # also where anybody may record and there is no cookie to protect
    datasette = recording_datasette(make_datasette, demo_db, allow=True)
    await datasette.invoke_startup()
    before = digest(demo_db)
    for path, body in (
        ("search", BODY),
        ("open", {"ids": [1], "wait": True}),
        ("feedback", {"search_id": "x", "id": 1, "rating": "useful"}),
    ):
        for actor in (AGENT, None):
            if actor and kind == MULTIPART and not ONE_POINT_ZERO:
                continue  # 0.65 looks for its token in there, with a parser of its own
            for headers in FORGED:
                response = await post(
                    datasette,
                    f"{base(demo_db)}/{path}",
                    body,
                    kind=kind,
                    actor=actor,
                    headers=headers,
                )
                assert response.status_code == 403, (path, actor, headers, response.text[:200])
    await recorder.drain(datasette)
    assert digest(demo_db) == before


@pytest.mark.usefixtures("menus_for_all")
async def test_a_token_passes_from_another_site_if_it_signs_in(
    demo_db: Path, make_datasette: Any
) -> None:
    from datasette import hookimpl
    from datasette.plugins import pm

    class Tokens:
        __name__ = "Tokens"

        @hookimpl
        def actor_from_request(self, request: Any) -> Any:
            given = request.headers.get("authorization", "")
            return AGENT if given in ("Bearer right", "Basic right") else None

    plugin = Tokens()
    pm.register(plugin, name="tokens")
    try:
        datasette = recording_datasette(make_datasette, demo_db, allow=True, cors=True)
        url = f"{base(demo_db)}/search"
        for forged in FORGED:
            for token, status in (("Bearer right", 200), ("Bearer x", 403), ("Basic right", 403)):
                headers = {**forged, "authorization": token}
                response = await post(datasette, url, BODY, actor=None, headers=headers)
                assert response.status_code == status, (headers, response.text[:200])
            # with a cookie it may be the cookie that signs in
            headers = {**forged, "authorization": "Bearer x"}
            assert (await post(datasette, url, BODY, headers=headers)).status_code == 403
        assert signals(demo_db)["limbic_searches"] == len(FORGED)
    finally:
        pm.unregister(plugin)


async def test_programs_need_no_type(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db, allow=True)
    for kind in ("application/json", "application/x-www-form-urlencoded", "text/plain", None):
        for headers in ({}, {"origin": "http://localhost", "host": "localhost"}):
            found = await post_json(
                datasette,
                f"{base(demo_db)}/search",
                BODY,
                kind=kind,
                actor=None,
                headers=headers,
            )
            assert found["recorded"]["status"] == "done"


@pytest.mark.skipif(ONE_POINT_ZERO, reason="0.65 protects by a token")
@pytest.mark.parametrize("kind", [kind for kind in OTHER_TYPES if kind != MULTIPART])
async def test_with_a_cookie_anything_but_json_needs_the_token(
    kind: str | None, demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    for path in ("search", "open", "feedback"):
        response = await post(datasette, f"{base(demo_db)}/{path}", BODY, kind=kind)
        assert response.status_code == 403


@pytest.mark.skipif(not ONE_POINT_ZERO, reason="1.0 looks at where a request comes from")
@pytest.mark.usefixtures("menus_for_all")
async def test_where_a_request_comes_from(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    url = f"{base(demo_db)}/search"
    for headers in FORGED:
        assert (await post(datasette, url, BODY, headers=headers)).status_code == 403
    for site in ("same-origin", "none"):
        found = await post_json(datasette, url, BODY, headers={"sec-fetch-site": site})
        assert found["recorded"]["status"] == "done"


@pytest.mark.skipif(ONE_POINT_ZERO, reason="0.65 alone asks plugins about CSRF")
async def test_other_plugins_keep_their_csrf_protection(demo_db: Path, make_datasette: Any) -> None:
    from datasette import Response, hookimpl
    from datasette.plugins import pm

    class Other:
        __name__ = "Other"

        @hookimpl
        def register_routes(self) -> Any:
            return [
                (r"^/-/other$", self.view),
                (r"^/(?P<name>[^/]+)/-/other/limbic$", self.view),
                (r"^/x/(?P<name>.*)$", self.view),
            ]

        @staticmethod
        def view() -> Any:
            return Response.text("changed")

    other = Other()
    pm.register(other, name="other")
    try:
        datasette = recording_datasette(make_datasette, demo_db, settings={"base_url": "/m/"})
        cookies = as_actor(datasette, AGENT)
        for path in ("/-/other", "/demo/-/other/limbic", "/x/demo/-/limbic/search"):
            # the client puts the base URL before it
            assert (await post(datasette, path, BODY)).status_code == 403, path
            # the route is there
            response = await datasette.client.get(path, cookies=cookies)
            assert response.text == "changed", path
        found = await post_json(datasette, f"{base(demo_db)}/search", BODY)
        assert found["recorded"]["status"] == "done"
    finally:
        pm.unregister(other)


async def test_two_types_are_none(demo_db: Path, make_datasette: Any) -> None:
    from datasette_limbic.views import posting

    def scope(*types: bytes) -> dict[str, Any]:
        return {
            "path": "/demo/-/limbic/search",
            "headers": [(b"content-type", each) for each in types],
        }

    assert posting.skips_csrf("/", scope(b"application/json"))
    for types in (
        (),
        (b"text/plain", b"application/json"),
        (b"application/json", b"text/plain"),
        (b"application/json", b"application/json"),
        (b"text/plain, application/json",),
        (b"application/json, text/plain",),
    ):
        assert not posting.skips_csrf("/", scope(*types)), types
