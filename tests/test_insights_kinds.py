"""What each report raises, on what it rests, and what approving would do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from duplicates_helpers import LONGER, SAME, written
from health_helpers import change, entity, relate
from insights_helpers import KEYS, LARGE, memory, one, reflected, table

from datasette_limbic import connection
from datasette_limbic.config import Settings
from datasette_limbic.insights import model
from datasette_limbic.insights.staging import SOURCES
from datasette_limbic.sync import sync


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = memory(tmp_path_factory.mktemp("insights") / "memory.db")
    reflected(path)
    return path


@pytest.fixture(name="path")
def copy(master: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(master, tmp_path / "memory.db"))


def pending(path: Path) -> dict[str, str]:
    """Digest by key."""
    rows = table(path, "select key, evidence_digest from limbic_insights where status = 'pending'")
    return {row["key"]: row["evidence_digest"] for row in rows}


def test_one_of_each_kind(path: Path) -> None:
    assert pending(path).keys() == KEYS
    assert {key.split(":")[0] for key in KEYS} == set(model.KINDS) == set(SOURCES)


@pytest.mark.parametrize(
    ("key", "action", "arguments", "confidence"),
    [
        ("contradiction:3:4", "end", {"observation": 3, "at": None}, 0.5),
        ("duplicate:1:1", "merge", {"entity": 1, "clusters": [{"keep": 2, "remove": [1]}]}, 1),
        ("name_clash:10", "merge_entities", {"keep": 11, "others": [10]}, 1),
        ("bridge:20", "restore", {"entity": 20}, 1),
        (f"split:{LARGE}", "split", {"entity": LARGE}, None),
        (
            "archive_candidate:30",
            "archive",
            {"entity": 30, "reason": "made on 2020-01-01 and never accessed"},
            1,
        ),
    ],
)
def test_what_approving_would_do(
    path: Path, key: str, action: str, arguments: dict[str, Any], confidence: float | None
) -> None:
    found = one(path, key)
    assert (found["action"], found["arguments"]) == (action, arguments)
    assert found["ours"] is True
    assert found["title"]
    assert found["body"].endswith(".")
    assert 0 <= found["confidence"] <= 1
    if confidence is not None:
        assert found["confidence"] == confidence
    (row,) = table(path, "select * from limbic_insights where key = ?", key)
    evidence = json.loads(row["evidence"])
    assert evidence.keys() == {"facts", "action", "arguments", "material"}
    assert row["evidence_digest"] == model.digest_of(evidence["material"])
    assert row["created_at"] == row["updated_at"]
    about = 1 if key.startswith("contradiction") else int(key.split(":")[1])
    assert about == row["entity_id"] == found["entity"]["id"]


def test_the_facts(path: Path) -> None:
    both = one(path, "contradiction:3:4")["facts"]
    assert (both["earlier"]["id"], both["later"]["id"]) == (3, 4)
    assert both["earlier"]["content"] == "Status: open"
    assert both["entity"] == {"id": 1, "name": "one", "entityType": "Thing"}
    same = one(path, "duplicate:1:1")["facts"]
    assert [each["id"] for each in same["observations"]] == [1, 2]
    assert (same["keep"], same["count"], same["rules"]) == (2, 2, ["exact"])
    names = one(path, "name_clash:10")["facts"]
    assert [(e["name"], e["observations"]) for e in names["entities"]] == [("Café", 0), ("cafe", 1)]
    bridge = one(path, "bridge:20")["facts"]
    assert bridge["only_link"] is True
    assert [(s["entities"], [n["name"] for n in s["names"]]) for s in bridge["sides"]] == [
        (6, ["left"]),
        (1, ["right"]),
    ]
    large = one(path, f"split:{LARGE}")
    assert (large["facts"]["observations"], large["facts"]["threshold"]) == (24, 20)
    assert [topic["size"] for topic in large["facts"]["topics"]] == [12, 12]
    assert large["confidence"] == large["facts"]["diversity"] - 1
    assert one(path, "archive_candidate:30")["facts"]["degree"] == 0


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param({"now": "2026-12-24"}, id="time passes"),
        pytest.param("keep", id="all is compared again"),
        pytest.param("insert into observations(entity_id, content) values (2, 'New here')", id="o"),
        pytest.param(
            "insert into entities(id, name) values (99, 'Another')", id="an unrelated entity"
        ),
        pytest.param("update entities set name = 'uno' where id = 1", id="a rename"),
        pytest.param("update entities set entity_type = 'Tool' where id = 1", id="another type"),
        pytest.param(
            "update observations set similarity_flag = 0, confidence = 0.5", id="flags and belief"
        ),
    ],
)
def test_keys_and_digests_stay(path: Path, happens: Any) -> None:
    before = pending(path)
    if happens == "keep":
        with closing(connection.connect(path)) as conn:
            # everything is looked at again, as after an upgrade
            conn.execute("update limbic_reports set settings = '{}'")
            conn.commit()
        assert reflected(path)["kept"]["entities"] > 3
    elif isinstance(happens, str):
        change(path, happens)
        reflected(path)
    else:
        reflected(path, **happens)
    assert {key: digest for key, digest in pending(path).items() if key in KEYS} == before


def test_vectors_change_figures_and_no_digest(demo_db: Path) -> None:
    """The sample memory, synced for real; then without vectors of one entity's observations."""
    first = reflected(demo_db)
    assert {kind: of["added"] for kind, of in first["kinds"].items()} == {
        "contradiction": 5,
        "duplicate": 9,
        "name_clash": 1,
        "bridge": 1,
        "split": 2,
        "archive_candidate": first["kinds"]["archive_candidate"]["added"],
    }
    before = pending(demo_db)
    with closing(connection.connect(demo_db)) as conn:
        sync(conn)
    found = reflected(demo_db)
    assert found["total"]["unchanged"] == len(before)
    assert pending(demo_db) == before
    change(
        demo_db,
        "delete from embeddings where id in (select o.id from observations o"
        " join entities e on e.id = o.entity_id where e.name = 'Facturas')"
        " and collection_id = (select id from collections where name = 'observations')",
    )
    found = reflected(demo_db)
    assert found["kept"]["entities"] == 1
    left = pending(demo_db)
    # only what was found by meaning is found no more
    assert left.items() < before.items()
    assert {key.split(":")[1] for key in before.keys() - left.keys()} == {"5"}


def test_what_is_archived_raises_nothing_but_bridges(path: Path) -> None:
    change(path, "update entities set archived_at = '2026-03-01 00:00:00' where id not in (21, 22)")
    reflected(path)
    # all of them stand beside 'left' alone, but for the bridge
    assert pending(path).keys() == {"bridge:20"}


@pytest.mark.parametrize(
    ("statement", "gone"),
    [
        ("update observations set valid_to = '2026-01-01' where id = 1", "duplicate:1:1"),
        ("update observations set valid_to = '2026-01-01' where id = 3", "contradiction:3:4"),
        ("update entities set archived_at = '2026-01-01' where id = 11", "name_clash:10"),
        ("update entities set archived_at = null where id = 20", "bridge:20"),
        ("update relations set valid_to = '2026-01-01' where to_entity = 22", "bridge:20"),
        ("delete from observations where id > 110", f"split:{LARGE}"),
        (
            "insert into entity_access values (30, 1, strftime('%Y-%m-%d %H:%M:%S'))",
            "archive_candidate:30",
        ),
        ("update entities set created_at = null where id = 30", "archive_candidate:30"),
        ("update entities set entity_type = 'Domain' where id = 30", "archive_candidate:30"),
    ],
)
def test_what_nothing_raises_any_more(path: Path, statement: str, gone: str) -> None:
    before = pending(path)
    change(path, statement)
    found = reflected(path)
    assert before.keys() - pending(path).keys() == {gone}
    assert found["kinds"][gone.split(":")[0]]["withdrawn"] == 1


def test_what_is_old_and_needed_is_not_archived(path: Path) -> None:
    for other in (1, 2):
        change(path, lambda conn, other=other: relate(conn, 30, other))
    reflected(path)
    assert one(path, "archive_candidate:30")["confidence"] == pytest.approx(1 / 3)
    change(path, lambda conn: relate(conn, 30, 10))
    reflected(path)
    assert "archive_candidate:30" not in pending(path)


def test_a_setting_says_what_is_stale_and_what_ages(path: Path) -> None:
    assert reflected(path, settings=Settings(exempt_types=("Generic",)))["total"]["withdrawn"] == 1
    change(path, "update limbic_settings set value = '40000' where key = 'stale_days'")
    assert reflected(path)["total"]["added"] == 0


def test_two_ways_over_archived_ones(path: Path) -> None:
    """Either alone would do, so neither is the only link."""
    change(path, entity(23, "Other way", to=(21, 22), archived_at="2026-04-01 00:00:00"))
    reflected(path)
    for key in ("bridge:20", "bridge:23"):
        assert one(path, key)["confidence"] == 0.5
        assert "another archived entity would as well" in one(path, key)["body"]


def test_a_way_over_several_archived_ones(path: Path) -> None:
    change(
        path,
        "delete from relations where to_entity = 22",
        entity(23, "Middle", to=(20,), archived_at="2026-04-01 00:00:00"),
        entity(24, "End", to=(23, 22), archived_at="2026-04-01 00:00:00"),
    )
    reflected(path)
    assert {"bridge:20", "bridge:23", "bridge:24"} <= pending(path).keys()
    assert one(path, "bridge:20")["facts"]["through"] == [{"id": 23, "name": "Middle"}]
    assert "by way of 'Middle', archived too" in one(path, "bridge:20")["body"]
    assert "'Bridge', 'End', archived too" in one(path, "bridge:23")["body"]
    assert [s["names"][0]["name"] for s in one(path, "bridge:24")["facts"]["sides"]] == ["right"]


def test_a_large_cluster_shows_a_few_and_names_all(path: Path) -> None:
    change(
        path,
        *[
            ("insert into observations(id, entity_id, content) values (?, 2, ?)", [200 + i, SAME])
            for i in range(60)
        ],
        ("update observations set content = ? where id = 259", [SAME + "."]),
    )
    reflected(path)
    found = one(path, "duplicate:2:200")
    (cluster,) = found["arguments"]["clusters"]
    assert sorted([cluster["keep"], *cluster["remove"]]) == list(range(200, 260))
    assert cluster["keep"] == 259
    assert (found["facts"]["count"], len(found["facts"]["observations"])) == (60, model.SHOWN)
    assert found["facts"]["observations"][-1]["id"] == 259


def test_of_equals_the_oldest_row_is_kept(path: Path) -> None:
    change(path, "insert into observations(entity_id, content) values (10, 'Closed on Mondays.')")
    reflected(path)
    assert one(path, "name_clash:10")["arguments"] == {"keep": 10, "others": [11]}


def test_a_cluster_is_as_sure_as_its_weakest_pair(path: Path) -> None:
    """Of three, two are the same text, and the third holds most of their words."""
    text = LONGER.replace(" runs", " was")
    change(path, ("insert into observations(id, entity_id, content) values (50, 1, ?)", [text]))
    reflected(path)
    found = one(path, "duplicate:1:1")
    assert found["facts"]["rules"] == ["containment", "exact"]
    assert found["arguments"]["clusters"] == [{"keep": 50, "remove": [1, 2]}]
    assert found["confidence"] == pytest.approx(5 / 6)  # of its different words


def test_a_chain_is_raised_as_what_each_kept_one_says(path: Path) -> None:
    """Who is kept must say what goes, and a chain of pairs does not: its ends may be far apart."""
    texts = ["Far and away the longest of the four", "The next one", "A longer one", "The end"]
    change(
        path,
        *[
            ("insert into observations(id, entity_id, content) values (?, 1, ?)", [401 + i, text])
            for i, text in enumerate(texts)
        ],
    )
    reflected(path)
    change(
        path,
        *[
            (
                "insert into limbic_duplicates(earlier_id, later_id, entity_id, kind, rule, cosine)"
                " values (?, ?, 1, 'duplicate', 'cosine', ?)",
                pair,
            )
            for pair in ((401, 402, 0.9), (402, 403, 0.8), (403, 404, 0.85))
        ],
    )
    reflected(path)
    found = {key: one(path, key) for key in pending(path) if key.startswith("duplicate:1:4")}
    assert {key: each["arguments"]["clusters"] for key, each in found.items()} == {
        "duplicate:1:401": [{"keep": 401, "remove": [402]}],
        "duplicate:1:403": [{"keep": 403, "remove": [404]}],
    }
    # the pair in the middle, 0.8, stands for neither
    assert [each["confidence"] for each in found.values()] == [0.9, 0.85]


def test_two_clusters_of_one_entity(path: Path) -> None:
    change(
        path,
        *[
            ("insert into observations(id, entity_id, content) values (?, 1, ?)", [number, text])
            for number, text in ((301, "Tea is served at five"), (302, "tea is served at five."))
        ],
    )
    reflected(path)
    assert {"duplicate:1:1", "duplicate:1:301"} <= pending(path).keys()
    assert one(path, "duplicate:1:301")["arguments"]["clusters"] == [{"keep": 302, "remove": [301]}]


@pytest.mark.parametrize("value", ["x'ff00fe'", "12345", "cast(x'61ff62' as text)", "9e999", "''"])
def test_whatever_stands_in_a_column(path: Path, value: str) -> None:
    """Bytes, numbers, infinity: written by any program, raised all the same."""
    written(
        path,
        f"update observations set content = {value}, created_at = {value} where id in (1, 2)",
        f"update entities set entity_type = {value} where id in (1, 20, 30, {LARGE})",
        f"update entities set last_activity_at = {value} where id = 30",
        f"update entities set archived_reason = {value} where id = 20",
        f"update entities set name = {value} where id = 10",
        "update limbic_settings set value = '20' where key like 'split_threshold%'",
    )
    assert reflected(path)["pending"] >= 4
    again = table(path)
    assert reflected(path)["total"]["unchanged"] == len(again)
    assert table(path) == again
    for row in again:
        json.loads(row["evidence"], parse_constant=lambda name: pytest.fail(name))
        assert one(path, row["key"])["ours"] is True


def test_rows_by_name_as_datasette_has_them(path: Path) -> None:
    with closing(connection.connect(path)) as conn:
        conn.row_factory = sqlite3.Row
        look = model.Looking("2026-11-29 12:00:00", 90, 2, Settings())
        raised = {each.key for source in SOURCES.values() for each in source(conn, look)}
    assert raised == KEYS


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("engrama:duplicate:1:1", "duplicate"),
        ("duplicate:1:1", "contradiction"),
        ("duplicate:one", "duplicate"),
        ("duplicate", "duplicate"),
        (None, "duplicate"),
        ("duplicate:1:1", None),
    ],
)
def test_keys_that_are_not_ours(key: Any, kind: Any) -> None:
    material = {"entity": 1}
    evidence = {"material": material}
    assert model.is_ours("duplicate:1:1", "duplicate", model.digest_of(material), evidence)
    assert not model.is_ours(key, kind, model.digest_of(material), evidence)
    assert not model.is_ours("duplicate:1:1", "duplicate", "0" * 32, evidence)
    assert not model.is_ours("duplicate:1:1", "duplicate", model.digest_of([]), [])


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    script = (
        "import sys, datasette_limbic.insights.queue, datasette_limbic.insights.reflecting\n"
        "print([m for m in ('numpy', 'scipy', 'sklearn', 'networkx') if m in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.strip() == "[]"
