"""``consolidation_report``: what wants attention, and what it is measured by."""

from __future__ import annotations

import json
import math
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from embedding_helpers import fill
from view_helpers import digest

from datasette_limbic import scoring
from datasette_limbic.api import consolidation_report
from datasette_limbic.config import Settings
from datasette_limbic.connection import connect
from datasette_limbic.errors import BadParameter, NotAMemory
from datasette_limbic.reports import keeping
from datasette_limbic.reports.consolidation import LISTS, standing
from datasette_limbic.reports.queries import queries
from datasette_limbic.sync import sync

NOW = "2026-11-29 12:00:00"
OLD_TABLES = ("limbic_duplicates", "limbic_reports", "limbic_report_pending", "_limbic_text_keys")
KEPT_LISTS = {name for name, listing in LISTS.items() if listing.kept}


def ago(days: float) -> str:
    moment = datetime(2026, 11, 29, 12, tzinfo=timezone.utc) - timedelta(days=days)
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def entity(
    conn: Any, number: int, days: float, *, kind: str = "Thing", accesses: int = 0, size: int = 1
) -> None:
    """An entity that was made, and last used, ``days`` ago."""
    conn.execute(
        "insert into entities(id, name, entity_type, created_at) values (?, ?, ?, ?)",
        [number, f"entity {number}", kind, ago(days)],
    )
    if accesses:
        conn.execute("insert into entity_access values (?, ?, ?)", [number, accesses, ago(days)])
    conn.executemany(
        "insert into observations(entity_id, content, created_at) values (?, ?, ?)",
        [(number, f"note {k} about thing number {number}", ago(days)) for k in range(size)],
    )
    conn.execute("update entities set last_activity_at = ? where id = ?", [ago(days), number])


def link(conn: Any, one: int, *others: int, kind: str = "uses") -> None:
    conn.executemany(
        "insert into relations(from_entity, to_entity, relation_type) values (?, ?, ?)",
        [(one, other, kind) for other in others],
    )


def made_older(path: Path) -> None:
    """The file as the version before reports left it."""
    with closing(connect(path)) as conn:
        for (name,) in conn.execute(
            "select name from sqlite_master where type = 'trigger'"
            " and (name like 'limbic_report%' or name like 'limbic_flag%')"
        ).fetchall():
            conn.execute(f"drop trigger {name}")
        for name in queries():
            conn.execute(f"drop view {name}")
        for name in OLD_TABLES:
            conn.execute(f"drop table {name}")
        conn.execute("delete from limbic_topics")
        conn.commit()


# the documents' lists ---------------------------------------------------------------------------


def test_the_sample_memory(demo_db):
    with closing(connect(demo_db, readonly=True)) as conn:
        found = consolidation_report(conn, now=NOW)
        [(entities,)] = conn.execute("select count(*) from entities where archived_at is null")
    assert found["summary"]["entities"] == entities
    assert found["split_candidates"][0]["name"] == "Turia rollout"
    assert found["split_candidates"][0]["threshold"] == 25
    assert found["split_candidates"][0]["observations"] == 34
    assert [row["name"] for row in found["approaching"]] == ["Home Assistant"]
    assert found["contradictions"][0]["difference"] == "number: 8080 / 8090"
    for name in LISTS:
        assert found["summary"][name] == found["paging"][name]["count"] == len(found[name])
        assert found["summary"][name] > 0
    assert found["similarity"] == {
        "computed": True,
        "model": "limbic-multilingual",
        "without_vector": 0,
        "reason": None,
    }
    assert found["stale_days"] == 90
    assert found["now"] == NOW
    json.dumps(found, allow_nan=False)


def test_a_split_candidate_has_what_the_decision_needs(demo_db):
    with closing(connect(demo_db, readonly=True)) as conn:
        found = consolidation_report(conn, now=NOW)
    for row in found["split_candidates"] + found["approaching"]:
        assert row["split_score"] == row["observations"] / row["threshold"] * row["diversity"]
        assert 1 < row["diversity"] <= 2
        assert sum(topic["stands_apart"] for topic in row["topics"]) >= 2
        assert sum(topic["size"] for topic in row["topics"]) <= row["observations"]
        assert all(topic["label"] == ", ".join(topic["terms"][:3]) for topic in row["topics"])
        assert row["changed_since"] is False
    assert all(row["needs_split"] is True for row in found["split_candidates"])
    # over 1 by its diversity, and yet below its threshold
    assert found["approaching"][0]["split_score"] > 1
    assert found["approaching"][0]["needs_split"] is False
    scores = [row["split_score"] for row in found["split_candidates"]]
    assert scores == sorted(scores, reverse=True)


def test_flagged_observations_of_the_most_used_first_and_imported_flags_without_partner(demo_db):
    with closing(connect(demo_db)) as conn:
        [(alone,)] = conn.execute(
            "select min(id) from observations where entity_id = 1 and similarity_flag = 0"
        )
        conn.execute("update observations set similarity_flag = 1 where id = ?", [alone])
        conn.execute("update entity_access set access_count = 99 where entity_id = 1")
        conn.commit()
        found = consolidation_report(conn, now=NOW)["flagged_observations"]
        assert found[0]["id"] == alone
        assert [found[0][k] for k in ("similar_to", "rule", "cosine", "containment")] == [None] * 4
        counts = [row["access_count"] for row in found]
        assert counts == sorted(counts, reverse=True)
        assert counts[0] == 99
        for row in found[1:]:
            assert row["rule"] in ("exact", "cosine", "containment")
            [(content,)] = conn.execute(
                "select content from observations where id = ?", [row["similar_to"]]
            )
            assert content == row["similar_content"]


def test_old_but_central_and_old_and_unused_look_different(conn):
    for number in range(1, 8):
        entity(conn, number, 5)
    entity(conn, 10, 400, accesses=2)
    entity(conn, 11, 400)
    entity(conn, 12, 300, accesses=1)
    entity(conn, 13, 500, kind="Domain")
    link(conn, 10, 1, 2, 3)
    link(conn, 12, 4, 5)
    link(conn, 10, 6, kind="contiene")  # left by a split: no sign of use
    # a new relation is activity
    conn.execute("update entities set last_activity_at = created_at")
    conn.commit()
    found = consolidation_report(conn, now=NOW)["stale_entities"]
    assert [(row["id"], row["standing"], row["degree"]) for row in found] == [
        (13, "unused", 0),
        (11, "unused", 0),
        (12, "linked", 2),
        (10, "central", 3),
    ]
    by_id = {row["id"]: row for row in found}
    assert by_id[10]["stale_for_days"] == pytest.approx(400, abs=1e-6)
    assert by_id[10]["consolidation_importance"] == scoring.consolidation_importance(2, 400)
    assert by_id[11]["consolidation_importance"] == 0
    assert by_id[10]["temporal_score"] == pytest.approx(2 ** -(400 / (180 * 3)))
    assert by_id[11]["temporal_score"] == pytest.approx(2 ** -(400 / 180))
    assert by_id[12]["temporal_score"] == pytest.approx(2 ** -(300 / (180 * (1 + math.log2(3)))))
    assert by_id[13]["temporal_score"] == 1.0
    assert by_id[13]["half_life_days"] is None
    other = consolidation_report(
        conn, now=NOW, settings=Settings(half_life_days_by_type={"Thing": 30})
    )
    row = next(row for row in other["stale_entities"] if row["id"] == 11)
    assert row["half_life_days"] == 30
    assert row["temporal_score"] == pytest.approx(2 ** -(400 / 30))


@pytest.mark.parametrize(
    ("degree", "word"),
    [(0, "unused"), (1, "linked"), (2, "linked"), (3, "central"), (9, "central")],
)
def test_standing(degree, word):
    assert standing(degree) == word


def test_unknown_times_are_never_stale_and_known_old_ones_are(conn):
    for number, accesses in ((1, 0), (2, 1), (3, 0), (4, 3), (5, 2)):
        entity(conn, number, 100, accesses=accesses)
    conn.execute("update entities set created_at = 'some day' where id = 1")
    conn.execute("update entity_access set last_access = '?' where entity_id = 2")
    conn.execute("update entities set archived_at = ? where id = 3", [NOW])
    conn.commit()
    # 4 is used too often, 3 is archived, of 1 and 2 nothing is known
    assert [r["id"] for r in consolidation_report(conn, now=NOW)["stale_entities"]] == [5]


def test_large_entities_by_how_far_they_are_over_the_threshold_of_their_type(conn):
    for number, kind, size in (
        (1, "Thing", 21),
        (2, "Sesión", 17),
        (3, "PROYECTO", 26),
        (4, "Proyecto", 25),
        (5, "Thing", 40),
    ):
        entity(conn, number, 1, kind=kind, size=size)
    conn.commit()
    found = consolidation_report(conn, now=NOW)["large_entities"]
    assert [(r["id"], r["threshold"], r["size_ratio"]) for r in found] == [
        (5, 20, 40 / 20),
        (2, 15, 17 / 15),
        (1, 20, 21 / 20),
        (3, 25, 26 / 25),
    ]


# parameters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "counted"), [(0, 3), (0.5, 2), ("0.5", 2), (1, 1), (30.5, 1), (100, 0), (1e6, 0)]
)
def test_stale_days(given, counted, conn):
    for number, days in ((1, 0.25), (2, 0.75), (3, 31)):
        entity(conn, number, days)
    conn.commit()
    found = consolidation_report(conn, given, now=NOW)
    assert found["summary"]["stale_entities"] == counted
    assert found["stale_days"] == float(given)


@pytest.mark.parametrize(
    "bad", [-1, -0.001, "-5", "soon", "", math.nan, math.inf, "nan", 1e7, True, [90], "1e999"]
)
def test_stale_days_that_are_none(bad, conn):
    with pytest.raises(BadParameter, match="stale_days is") as caught:
        consolidation_report(conn, bad)
    assert repr(bad)[:20] in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"only": "everything"}, "list is 'everything': use one of split_candidates"),
        ({"page": 2}, "page is 2: say of which list"),
        ({"page": 0, "only": "approaching"}, "page is 0"),
        ({"size": 0}, "size is 0"),
        ({"size": 1001}, "size is 1001"),
        ({"size": 2.5}, "size is 2.5"),
        ({"now": "soon"}, "now is 'soon'"),
    ],
)
def test_other_bad_parameters(arguments, said, conn):
    with pytest.raises(BadParameter, match=said):
        consolidation_report(conn, **arguments)


def test_the_settings_of_the_memory_are_followed(conn):
    for number, accesses in ((1, 0), (2, 3)):
        entity(conn, number, 40, accesses=accesses, size=4)
    conn.executemany(
        "update limbic_settings set value = ? where key = ?",
        [("30", "stale_days"), ("3", "stale_max_access"), ("3", "split_threshold")],
    )
    conn.commit()
    found = consolidation_report(conn, now=NOW)
    assert found["stale_days"] == 30
    assert found["summary"]["stale_entities"] == 2
    assert found["summary"]["large_entities"] == 2
    assert found["settings"]["split_threshold"] == 3
    conn.execute("update limbic_settings set value = '30 days' where key = 'stale_days'")
    conn.commit()
    found = consolidation_report(conn, now=NOW)
    assert found["stale_days"] == 90
    assert len(found["warnings"]) == 1
    assert "stale_days is '30 days'" in found["warnings"][0]


def test_pages_hold_every_row_once_in_order(conn):
    for number in range(1, 48):
        entity(conn, number, 100 + number % 5)
    conn.commit()
    whole = consolidation_report(conn, now=NOW, size=1000)["stale_entities"]
    assert len(whole) == 47
    turned = []
    for page in range(1, 7):
        found = consolidation_report(conn, now=NOW, size=10, page=page, only="stale_entities")
        assert found["paging"] == {
            "stale_entities": {"count": 47, "page": page, "pages": 5, "size": 10}
        }
        assert set(LISTS) & set(found) == {"stale_entities"}
        assert found["summary"]["large_entities"] == 0  # counts of all stay
        turned += found["stale_entities"]
    assert turned == whole
    keys = [(-row["stale_for_days"], row["id"]) for row in whole]
    assert keys == sorted(keys)
    assert len(set(keys)) == 47


# what is kept, and what stands there now ---------------------------------------------------------


def test_looking_now_sees_what_is_not_kept_and_says_of_when_that_was(demo_db):
    with closing(connect(demo_db)) as conn:
        before = consolidation_report(conn, fresh=False)
        assert before["kept"]["computed_at"]
        assert before["kept"]["changed_since"] == 0
        conn.execute(
            "insert into observations(entity_id, content) select entity_id, content"
            " from observations where length(content) > 40 and similarity_flag = 0 limit 1"
        )
        conn.commit()
        kept = consolidation_report(conn, fresh=False)
        now = consolidation_report(conn)
        assert kept["summary"]["duplicates"] == before["summary"]["duplicates"]
        assert now["summary"]["duplicates"] == before["summary"]["duplicates"] + 1
        for found in (kept, now):
            assert found["kept"]["changed_since"] == 1
            assert found["kept"]["computed_at"] == before["kept"]["computed_at"]
            assert found["similarity"]["without_vector"] == 1
            assert "not computed for 1 of " in found["similarity"]["reason"]
        assert (kept["fresh"], now["fresh"]) == (False, True)
        assert conn.execute("select name from sqlite_temp_master").fetchall() == []
        keeping.keep(conn)
        after = consolidation_report(conn, fresh=False)
        assert after["summary"]["duplicates"] == now["summary"]["duplicates"]
        assert after["kept"]["changed_since"] == 0


def test_nothing_kept_yet(path, conn, models):
    fill(conn, 2, 1)
    conn.execute("insert into observations(entity_id, content) values (1, 'fact 0 of number 1')")
    conn.commit()
    kept = consolidation_report(conn, fresh=False)
    assert kept["kept"]["computed_at"] is None
    unknown = {"split_candidates", "approaching", "contradictions"}
    assert kept["reasons"] == dict.fromkeys(
        [name for name in LISTS if name in unknown],
        "not looked at yet: run 'datasette limbic sync'",
    )
    for name in unknown:
        assert (kept[name], kept["summary"][name]) == (None, None)
        assert name not in kept["paging"]
    assert {name for name, count in kept["summary"].items() if count is None} == {
        *unknown,
        "duplicates",
        "worth_a_look",
    }
    # flags may have come with an import, and counting needs no comparison
    assert (kept["summary"]["flagged_observations"], kept["summary"]["stale_entities"]) == (0, 0)
    assert kept["similarity"]["computed"] is False
    assert kept["similarity"]["model"] is None
    assert "not computed for 3 of 3 observations" in kept["similarity"]["reason"]
    # the rules on words run without vectors
    assert consolidation_report(conn)["summary"]["duplicates"] == 1
    sync(conn, model="bag")
    found = consolidation_report(conn, fresh=False)
    assert found["summary"]["duplicates"] == found["summary"]["flagged_observations"] == 1
    assert found["similarity"] == {
        "computed": True,
        "model": "bag",
        "without_vector": 0,
        "reason": None,
    }


def test_observations_without_a_usable_vector_are_counted(conn, models):
    fill(conn, 3)
    conn.execute("update observations set content = 'ZEROVEC' where id = 1")
    conn.commit()
    sync(conn, model="bag")
    assert consolidation_report(conn)["similarity"]["without_vector"] == 1  # of length 0
    conn.execute("update observations set content = 'other' where id = 2")  # not of this text
    conn.execute("insert into observations(entity_id, content) values (1, 'new')")
    conn.execute("update observations set valid_to = '2020-01-01' where id = 3")  # ended
    conn.execute("update observations set content = content where id = 4")
    conn.execute("insert or ignore into limbic_stale values ('observations', 4, ?)", [NOW])
    conn.commit()
    for fresh in (True, False):
        found = consolidation_report(conn, fresh=fresh)["similarity"]
        assert (found["without_vector"], found["computed"]) == (3, True)


@pytest.mark.parametrize("fresh", [True, False])
def test_reading_only(fresh, demo_db):
    before = digest(demo_db)
    with closing(connect(demo_db, readonly=True)) as conn:
        conn.execute("select 1")
        consolidation_report(conn, 0, fresh=fresh)
        assert not conn.in_transaction
    assert digest(demo_db) == before
    assert [p.name for p in demo_db.parent.glob(f"{demo_db.name}*")] == [demo_db.name]


def test_a_file_of_an_earlier_version(demo_db):
    with closing(connect(demo_db, readonly=True)) as conn:
        whole = consolidation_report(conn, now=NOW)
    made_older(demo_db)
    before = digest(demo_db)
    with closing(connect(demo_db, readonly=True)) as conn:
        found = consolidation_report(conn, now=NOW, fresh=False)
        assert set(found["reasons"]) == KEPT_LISTS
        for name in KEPT_LISTS:
            assert found[name] is None
            assert found["summary"][name] is None
            assert "datasette limbic init" in found["reasons"][name]
        assert found["summary"]["duplicates"] is None
        assert found["kept"] is None
        for name in set(LISTS) - KEPT_LISTS:
            assert found[name] == whole[name]
        alone = consolidation_report(conn, now=NOW, fresh=False, only="approaching")
        assert alone["approaching"] is None
        # what is missing is only in the way of what is kept
        now = consolidation_report(conn, now=NOW)
        assert now["reasons"] == {}
        assert now["summary"] == whole["summary"]
        for row in now["contradictions"] + whole["contradictions"]:
            del row["found_at"]
        assert now["contradictions"] == whole["contradictions"]
    assert digest(demo_db) == before


def test_no_memory(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as conn, pytest.raises(NotAMemory):
        consolidation_report(conn)


def test_an_empty_memory(empty_db):
    with closing(connect(empty_db, readonly=True)) as conn:
        found = consolidation_report(conn)
    assert set(found["summary"].values()) == {0}
    assert all(found[name] == [] for name in LISTS)
    assert found["similarity"]["reason"] is None


@pytest.mark.parametrize("fresh", [True, False])
def test_odd_contents(fresh, conn):
    """Whatever any program wrote: bytes, emoji only, no spaces, 100 kB, a count that is none."""
    texts: list[Any] = [
        b"\xff\xfe",
        "🦆🦆",
        "今日は東京で会議があります",
        "x" * 100_000,
        "",
        "a",
        "a",
    ]
    for number in (1, 2):
        entity(conn, number, 200, size=0)
    conn.executemany(
        "insert into observations(entity_id, content, similarity_flag) values (1, ?, 1)",
        [(text,) for text in texts],
    )
    conn.execute("update entities set name = ?, entity_type = ? where id = 2", [b"\xff", b"\xfe"])
    conn.execute("insert into entity_access values (1, 'many', 'long ago'), (2, -3, '')")
    conn.commit()
    found = consolidation_report(conn, now=NOW, fresh=fresh)
    assert found["summary"]["flagged_observations"] == len(texts)
    assert [row["id"] for row in found["stale_entities"]] == [2]
    json.dumps(found, allow_nan=False)


def test_when_it_was_last_looked_through(empty_db):
    with closing(connect(empty_db)) as conn:
        assert consolidation_report(conn)["reviewed"] is None
        conn.executemany(
            "insert into limbic_reviews(report, actor, reviewed_at) values (?, ?, ?)",
            [
                ("consolidation", "ana", "2026-11-02 10:00:00"),
                ("consolidation", "bo", "2026-10-01 10:00:00"),
                ("health", "cy", "2026-11-20 10:00:00"),
            ],
        )
        conn.commit()
        found = consolidation_report(conn)
        assert found["reviewed"] == {"at": "2026-11-02 10:00:00", "by": "ana"}
        assert consolidation_report(conn, reviews=False)["reviewed"] is None


def test_progress_counts_entities(demo_db):
    seen: list[tuple[int, int, str]] = []
    with closing(connect(demo_db)) as conn:
        conn.execute("update observations set content = content || ' again' where entity_id < 4")
        conn.commit()
        consolidation_report(conn, progress=lambda *step: seen.append(step))
        assert seen[-1] == (3, 3, "reports")
