"""Which entities are worth splitting, and what would go where."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from embedding_helpers import blob, store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from split_helpers import add, placed, texts
from view_helpers import digest

from datasette_limbic import api, connection, schema
from datasette_limbic.errors import BadParameter, NotAMemory, UnknownEntity
from datasette_limbic.report_settings import ReportSettings
from datasette_limbic.reports import keeping, split_analysis
from datasette_limbic.reports.consolidation import consolidation_report
from datasette_limbic.reports.similar import find_duplicate_observations
from datasette_limbic.reports.split_proposal import STAYS, proposal
from datasette_limbic.reports.split_subject import (
    SplitObservation,
    Subject,
    approaching_from,
    read_subject,
)
from datasette_limbic.reports.splits import (
    analyze_entity_split,
    find_split_candidates,
    propose_entity_split,
)

# type, threshold: the first three are the document's, the last two stand in limbic_settings
TYPES = {
    "Sesion": 15,
    "  SESIÓN ": 15,
    "Proyecto": 25,
    "Tool": 20,
    "": 20,
    "Receta": 30,
    "récéta": 30,
}
# Threshold and 80 % of it, each with one less and one more.
SIZES = {15: (11, 12, 15, 16), 25: (19, 20, 25, 26), 20: (15, 16, 20, 21), 30: (23, 24, 30, 31)}
EXPECTED = ("none", "approaching", "approaching", "split")


@pytest.fixture(scope="module")
def thresholds_db(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Entities around each threshold, all of three topics; and what each is to be found as."""
    path = tmp_path_factory.mktemp("thresholds") / "memory.db"
    expected = {}
    with closing(connection.connect(path, create=True)) as conn:
        schema.init(conn)
        conn.execute(
            "insert into limbic_settings(key, value) values ('split_threshold:Receta', 30)"
        )
        for entity_type, threshold in TYPES.items():
            for size, status in zip(SIZES[threshold], EXPECTED, strict=True):
                name = f"{entity_type!r} {size}"
                add(conn, name, entity_type, texts(size))
                expected[name] = status
        keeping.keep(conn)
    return path, expected


def found_as(found: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["status"] for row in found["candidates"]}


@pytest.mark.parametrize("fresh", [True, False])
def test_by_the_threshold_of_the_type(thresholds_db: Any, fresh: bool) -> None:
    path, expected = thresholds_db
    with closing(connection.connect(path, readonly=True)) as conn:
        found = find_split_candidates(conn, fresh=fresh)
    assert found_as(found) == {n: status for n, status in expected.items() if status != "none"}
    scores = [row["split_score"] for row in found["candidates"]]
    assert scores == sorted(scores, reverse=True)
    assert found["total"] == len(scores) == 3 * len(TYPES)
    assert (found["split"], found["approaching"]) == (len(TYPES), 2 * len(TYPES))
    assert (found["kept"] is None) is fresh
    for row in found["candidates"]:
        assert row["needs_split"] is (row["observations"] > row["threshold"])
        assert row["split_score"] == pytest.approx(
            row["observations"] / row["threshold"] * row["diversity"]
        )
        assert sum(topic["size"] for topic in row["topics"]) == row["observations"]


def test_the_analysis_says_the_same_as_the_list(thresholds_db: Any) -> None:
    path, expected = thresholds_db
    with closing(connection.connect(path, readonly=True)) as conn:
        listed = {row["name"]: row for row in find_split_candidates(conn)["candidates"]}
        for name, status in expected.items():
            found = analyze_entity_split(conn, name)
            assert (found["needs_split"], found["approaching"]) == (
                status == "split",
                status == "approaching",
            ), name
            assert found["verdict"] == {"none": "too_few"}.get(status, status)
            if name in listed:
                for key in ("threshold", "observations", "diversity", "split_score", "topics"):
                    assert found[key] == listed[name][key], (name, key)


def test_the_list_is_cut_and_narrowed(thresholds_db: Any) -> None:
    path, _ = thresholds_db
    with closing(connection.connect(path, readonly=True)) as conn:
        whole = find_split_candidates(conn, fresh=False)["candidates"]
        part = find_split_candidates(conn, fresh=False, limit=3, offset=2)
        large = find_split_candidates(conn, fresh=False, approaching=False)
        for wrong in ({"limit": 0}, {"offset": -1}, {"limit": True}):
            with pytest.raises(BadParameter, match="use a whole number from"):
                find_split_candidates(conn, fresh=False, **wrong)
    assert part["candidates"] == whole[2:5]
    assert part["total"] == len(whole)
    assert large["candidates"] == [row for row in whole if row["needs_split"]]
    assert large["approaching"] == 2 * len(TYPES)


@pytest.mark.parametrize(
    "contents",
    [["the very same text as ever"] * 400, ["😀 🎉"] * 200 + ["🚀"] * 200],
    ids=["identical", "emoji"],
)
def test_without_diversity_never_a_candidate(conn: Any, contents: list[str]) -> None:
    number = add(conn, "Large", "Tool", contents)
    found = analyze_entity_split(conn, number)
    assert (found["diversity"], found["split_score"], found["needs_split"]) == (0, 0, False)
    assert found["size_ratio"] == 20
    assert find_split_candidates(conn)["candidates"] == []
    keeping.keep(conn)
    assert find_split_candidates(conn, fresh=False)["candidates"] == []


def test_topics_that_overlap_need_no_split(conn: Any) -> None:
    """With a bar below 0 diversity may be below 1: size alone must not make it a split."""
    add(conn, "Mixed", "Tool", texts(22))
    subject = read_subject(conn, "Mixed")
    topics = split_analysis.topics_of(subject)
    loose = replace(topics, silhouettes=[-0.4] * 3, apart=[0, 1, 2], silhouette=-0.4, diversity=0.6)
    found = split_analysis.analysis(subject, loose)
    assert found["split_score"] == pytest.approx(0.66)
    assert (found["needs_split"], found["approaching"], found["verdict"]) == (False, False, "loose")
    assert "topics overlap" in found["reason"]
    keeping.keep(conn)
    conn.execute("delete from limbic_topics")
    conn.execute(
        "insert into limbic_topics(entity_id, topics, diversity, split_score)"
        " values (1, '[]', ?, 0)",
        [loose.diversity],
    )
    assert find_split_candidates(conn, fresh=False)["candidates"] == []
    conn.execute("update limbic_topics set diversity = 1.1")
    assert found_as(find_split_candidates(conn, fresh=False)) == {"Mixed": "split"}
    conn.rollback()


def test_what_is_proposed(conn: Any) -> None:
    number = add(conn, "Atlas", "Próyecto", texts(30))
    found = propose_entity_split(conn, number)
    assert found["verdict"] == "split"
    assert len(found["children"]) == 3
    ids = [row[0] for row in conn.execute("select id from observations order by id")]
    assert placed(found) == ids
    # the topics came in turn
    for child in found["children"]:
        assert len({row["id"] % 3 for row in child["observations"]}) == 1
        assert child["entityType"] == "Próyecto"
        assert child["name"].startswith("Atlas – ")
        assert set(child["name"].removeprefix("Atlas – ").split(", ")) < set(child["terms"])
        assert 0.1 <= child["firmness"] <= 1
        assert child["size"] == len(child["observations"]) >= 3
    assert found["moving"] + found["staying"] == 30
    assert [(r["from"], r["relation_type"], r["to"]) for r in found["relations"]] == [
        relation
        for child in found["children"]
        for relation in (
            ("Atlas", "contiene", child["name"]),
            (child["name"], "parte_de", "Atlas"),
        )
    ]
    assert f"would take {found['moving']} of 30 observations" in found["summary"]


def test_names_are_like_none_that_there_is(conn: Any) -> None:
    add(conn, "Atlas", "Tool", texts(24))
    first = [child["name"] for child in propose_entity_split(conn, "Atlas")["children"]]
    assert len(set(first)) == 3
    # one is there but for case, the other with other punctuation
    add(conn, first[0].upper(), "Tool", [])
    add(conn, first[1].replace(" – ", ": "), "Tool", [])
    second = [child["name"] for child in propose_entity_split(conn, "Atlas")["children"]]
    for before, after in zip(first[:2], second[:2], strict=True):
        assert after.startswith(before + ", ")
    assert second[2] == first[2]


def test_of_what_stays_the_reason_is_said(conn: Any) -> None:
    odd = ["...", "😀"]
    number = add(conn, "Atlas", "Tool", [*texts(24), *odd])
    found = propose_entity_split(conn, number)
    why = {row["content"]: (row["reason"], row["topic"]) for row in found["stays"]}
    assert {why[text] for text in odd} == {("no_words", None)}
    assert {row["reason"] for row in found["stays"]} <= set(STAYS)
    assert all(row["why"] == STAYS[row["reason"]] for row in found["stays"])


def test_the_reasons_by_which_observations_stay(conn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    add(conn, "Atlas", "Tool", texts(24))
    subject = read_subject(conn, "Atlas")
    good = split_analysis.topics_of(subject)
    # topics: 0 and 1 stand apart, 2 holds two texts, 3 does not stand apart, 4 has two firm ones
    labels = [0] * 6 + [1] * 6 + [2] * 2 + [3] * 3 + [4] * 6 + [-1]
    firmness = [0.5] * 5 + [0.05] + [0.5] * 8 + [0.02] * 3 + [0.5] * 2 + [0.0] * 4 + [0.0]
    topics = type(good)(labels, firmness, [["a"]] * 5, [0.4] * 5, [0, 1, 4], 0.4, 1.4)
    monkeypatch.setattr("datasette_limbic.reports.split_proposal.topics_of", lambda _: topics)
    found = proposal(subject)
    assert [child["size"] for child in found["children"]] == [6, 5]
    reasons = [row["reason"] for row in found["stays"]]
    assert reasons == [
        "unclear",
        *["small_group"] * 2,
        *["loose_topic"] * 3,
        *["small_group"] * 2,
        *["unclear"] * 4,
        "no_words",
    ]


def test_topics_of_which_too_little_is_firm_move_nothing(
    conn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(conn, "Atlas", "Tool", texts(24))
    subject = read_subject(conn, "Atlas")
    good = split_analysis.topics_of(subject)
    labels = [0] * 12 + [1] * 12
    topics = type(good)(
        labels, [0.9] * 14 + [0.0] * 10, [["a"], ["b"]], [0.9, 0.15], [0, 1], 0.5, 1.5
    )
    monkeypatch.setattr("datasette_limbic.reports.split_proposal.topics_of", lambda _: topics)
    found = proposal(subject)
    assert found["needs_split"]
    assert (found["children"], found["relations"], found["moving"]) == ([], [], 0)
    assert found["summary"].startswith("Nothing is proposed: topics stand apart, but fewer than")
    assert placed(found) == [row.id for row in subject.rows]


def test_ended_observations_stay_and_count_nothing(conn: Any) -> None:
    number = add(conn, "Atlas", "Tool", texts(24))
    conn.execute("update observations set valid_to = '2020-01-01' where id <= 3")
    conn.execute("update observations set valid_from = '2999-01-01' where id = 4")
    conn.execute("update observations set valid_to = 'some day' where id = 5")
    conn.commit()
    found = propose_entity_split(conn, number)
    assert (found["observations"], found["ended_observations"]) == (20, 4)
    assert (found["needs_split"], found["approaching"]) == (False, True)
    assert "just at 20" in found["reason"]
    assert len(found["children"]) >= 2  # before it hurts
    assert placed(found) == list(range(5, 25))


def test_an_archived_entity_is_not_split(conn: Any) -> None:
    number = add(conn, "Atlas", "Tool", texts(24))
    assert propose_entity_split(conn, number)["children"]
    conn.execute("update entities set archived_at = '2026-01-01', archived_reason = 'over'")
    conn.commit()
    found = propose_entity_split(conn, number)
    assert (found["needs_split"], found["approaching"], found["verdict"]) == (
        False,
        False,
        "archived",
    )
    assert (found["children"], found["archived_reason"]) == ([], "over")
    assert found["diversity"] > 1  # said all the same
    assert find_split_candidates(conn)["candidates"] == []


def test_the_digest_tells_what_changed(conn: Any) -> None:
    number = add(conn, "Atlas", "Tool", texts(24))

    def now() -> str:
        found: str = propose_entity_split(conn, number)["digest"]
        return found

    seen = [now()]
    assert len(seen[0]) == 32
    for harmless in (
        "update observations set similarity_flag = 1, kind = 'fact' where id = 1",
        "update entities set confidence = 0.5",
        "insert into observations(entity_id, content, valid_to) values (1, 'was', '2020-01-01')",
        "insert into entities(name) values ('another')",
    ):
        conn.execute(harmless)
        assert now() == seen[0], harmless
    for change in (
        "update observations set content = content || '.' where id = 1",
        "insert into observations(entity_id, content) values (1, 'new')",
        "delete from observations where id = 2",
        "update observations set valid_to = '2020-01-01' where id = 3",
        "update entities set name = 'Atlas 2' where id = 1",
        "update entities set entity_type = 'Thing' where id = 1",
    ):
        conn.execute(change)
        assert now() not in seen, change
        seen.append(now())
    conn.rollback()


def test_vectors_are_used_where_there_are_enough(demo_db: Path) -> None:
    with closing(connection.connect(demo_db)) as conn:
        used = analyze_entity_split(conn, "Turia rollout")["vectors"]
        assert used == {
            "used": True,
            "model": "limbic-multilingual",
            "without": 0,
            "reason": None,
        }
        theirs = (
            "collection_id = (select id from collections where name = 'observations') and id in"
        )
        ids = "(select cast(id as text) from observations where entity_id = 4 order by id limit {})"
        conn.execute(f"delete from embeddings where {theirs} {ids.format(17)}")
        half = analyze_entity_split(conn, "Turia rollout")["vectors"]
        assert (half["used"], half["without"], half["reason"]) == (True, 17, None)
        conn.execute(f"delete from embeddings where {theirs} {ids.format(18)}")
        few = analyze_entity_split(conn, "Turia rollout")["vectors"]
        assert (few["used"], few["without"]) == (False, 18)
        assert "only 16 of 34" in few["reason"]
        conn.execute(f"delete from embeddings where {theirs} {ids.format(34)}")
        none = analyze_entity_split(conn, "Turia rollout")
        assert (none["vectors"]["used"], none["vectors"]["without"]) == (False, 34)
        assert "datasette limbic sync" in none["vectors"]["reason"]
        assert none["needs_split"]  # by its words


BAD = {
    "none": [],
    "one": ["only this"],
    "identical": ["the same text as before"] * 30,
    "one word": [f"word{i}" for i in range(30)],
    "no letters": ["...", "😀", "🎉🎉", "—", " "] * 5,
    "unspaced": ["私は東京に住んでいます" * 2, "数据库迁移已经完成", "ฉันชอบกาแฟมาก"] * 8,
    "long": ["long " * 20_000, *texts(24)],
    "odd": ["\x00", "a\x00b", "'; drop table entities; --", "<script>alert(1)</script>"] * 6,
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(conn: Any, case: str) -> None:
    number = add(conn, case, "Tool", BAD[case])
    found = propose_entity_split(conn, number)
    ids = [row[0] for row in conn.execute("select id from observations order by id")]
    assert placed(found) == ids
    assert found["observations"] == len(ids)
    assert found["vectors"]["used"] is False
    assert found["reason"].endswith(".")
    if not (found["needs_split"] or found["approaching"]):
        assert (found["children"], found["relations"]) == ([], [])
        assert {row["reason"] for row in found["stays"]} <= {"no_split"}
    candidates = [row["id"] for row in find_split_candidates(conn)["candidates"]]
    assert candidates == [number] * (found["needs_split"] or found["approaching"])


@pytest.mark.parametrize(
    ("case", "verdict", "says"),
    [
        ("none", "empty", "It has no observations"),
        ("one", "too_few", "1 observation is too few to split: topics count from 16 on"),
        (
            "identical",
            "identical",
            "30 observations, over 20, the threshold of type 'Tool', but all",
        ),
        ("no letters", "no_words", "no words in them and no vectors"),
        ("long", "split", "25 observations, over 20"),
    ],
)
def test_each_case_has_its_sentence(conn: Any, case: str, verdict: str, says: str) -> None:
    add(conn, "Case", "Tool", BAD[case])
    found = analyze_entity_split(conn, "Case")
    assert found["verdict"] == verdict
    assert says in found["reason"]


def test_all_ended_is_not_the_same_as_none(conn: Any) -> None:
    add(conn, "Case", "Tool", ["was", "was too"])
    conn.execute("update observations set valid_to = '2020-01-01'")
    found = analyze_entity_split(conn, "Case")
    assert found["verdict"] == "empty"
    assert found["reason"].startswith("None of its 2 observations holds now")


def test_one_subject(conn: Any) -> None:
    add(conn, "Case", "Tool", texts(24, 1))
    found = propose_entity_split(conn, "Case")
    assert (found["verdict"], found["diversity"]) == ("one_subject", 0)
    assert "about one subject" in found["reason"]
    assert found["children"] == []


def test_five_thousand_observations(conn: Any) -> None:
    number = add(conn, "Large", "Tool", texts(5_000, 4))
    started = time.monotonic()
    found = propose_entity_split(conn, number)
    assert time.monotonic() - started < 30  # 2 s on an idle machine
    assert placed(found) == list(range(1, 5_001))
    assert len(found["children"]) >= 2


@given(
    parts=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=30),
    threshold=st.integers(1, 12),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_each_observation_is_in_exactly_one_place(
    parts: list[tuple[int, int]], threshold: int
) -> None:
    """Whatever the texts are: of four topics, some of them empty or the same."""
    pool = {topic: texts(40, 4)[topic::4] for topic in range(4)}
    contents = [pool[topic][which] if which else "" for topic, which in parts]
    rows = [SplitObservation(n * 7, text, None, None, 0) for n, text in enumerate(contents, 1)]
    shape = ReportSettings(split_threshold=threshold)
    subject = Subject(1, "Atlas", "Tool", None, None, rows, 0, None, None, shape, ["Atlas"])
    found = proposal(subject)
    assert placed(found) == [row.id for row in rows]
    names = [child["name"] for child in found["children"]]
    assert len(set(names)) == len(names) != 1
    assert found["moving"] + found["staying"] == len(rows)
    assert bool(names) <= (found["needs_split"] or found["approaching"])


def test_topics_are_looked_for_once(conn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    add(conn, "Atlas", "Tool", texts(24))
    calls = []
    real = split_analysis.analyse_topics
    monkeypatch.setattr(
        split_analysis, "analyse_topics", lambda *a, **k: calls.append(1) or real(*a, **k)
    )
    split_analysis._kept.clear()
    first = propose_entity_split(conn, "Atlas")
    assert propose_entity_split(conn, 1) == first
    assert len(calls) == 1
    conn.execute("update observations set content = 'another' where id = 1")
    propose_entity_split(conn, 1)
    assert len(calls) == 2
    conn.execute("update limbic_settings set value = 0.9 where key = 'topic_min_silhouette'")
    propose_entity_split(conn, 1)
    assert len(calls) == 3
    for value in (1.0, 2.0):  # the same texts, embedded anew
        store(conn, "observations", {n: blob(value, n, 1) for n in range(1, 25)})
        conn.execute("delete from limbic_stale")  # as sync leaves it
        propose_entity_split(conn, 1)
    assert len(calls) == 5


def test_what_is_kept_says_what_changed_since(conn: Any) -> None:
    number = add(conn, "Atlas", "Tool", texts(24))
    never = find_split_candidates(conn, fresh=False)
    assert never["candidates"] is None
    assert "datasette limbic sync" in never["reason"]
    keeping.keep(conn)
    assert find_split_candidates(conn, fresh=False)["kept"]["changed_since"] == 0
    conn.execute("update observations set content = 'no more'")
    conn.commit()
    kept = find_split_candidates(conn, fresh=False)
    assert [row["changed_since"] for row in kept["candidates"]] == [True]
    assert kept["kept"]["changed_since"] == 1
    assert find_split_candidates(conn)["candidates"] == []
    assert analyze_entity_split(conn, number)["verdict"] == "identical"


def test_a_file_that_keeps_no_reports(conn: Any) -> None:
    add(conn, "Atlas", "Tool", texts(24))
    schema.drop_triggers(conn)
    for table in ("limbic_duplicates", "limbic_reports", "limbic_report_pending"):
        conn.execute(f"drop table {table}")
    conn.commit()
    kept = find_split_candidates(conn, fresh=False)
    assert kept["candidates"] is None
    assert "datasette limbic sync" in kept["reason"]
    assert found_as(find_split_candidates(conn)) == {"Atlas": "split"}
    assert propose_entity_split(conn, "Atlas")["children"]


def test_unknown_entities(conn: Any) -> None:
    add(conn, "Sesión de Atlas", "Tool", [])
    for entity, says in (
        (99, "no entity with the id 99: search for it by name"),
        ("Nobody", "no entity with the name 'Nobody': search"),
        ("sesion de atlas", "did you mean 'Sesión de Atlas'?"),
        ("1", "no entity with the name '1'"),
    ):
        for function in (analyze_entity_split, propose_entity_split):
            with pytest.raises(UnknownEntity, match=says.replace("?", r"\?")):
                function(conn, entity)


def test_no_memory(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as conn:
        for call in (
            lambda: find_split_candidates(conn),
            lambda: analyze_entity_split(conn, 1),
            lambda: propose_entity_split(conn, 1),
        ):
            with pytest.raises(NotAMemory):
                call()


def test_settings_that_cannot_be_used_are_named(conn: Any) -> None:
    add(conn, "Atlas", "Tool", texts(24))
    conn.execute("insert into limbic_settings(key, value) values ('split_threshold:Tool', 'many')")
    found = analyze_entity_split(conn, "Atlas")
    assert found["threshold"] == 20
    assert "split_threshold:Tool" in found["warnings"][0]
    conn.rollback()


def test_bytes_in_text_columns(conn: Any) -> None:
    """Any program may have put them there."""
    number = add(conn, "Atlas", "Tool", texts(24))
    conn.execute("update entities set entity_type = x'546f6f6c', name = x'41746c6173'")
    conn.execute("update observations set kind = x'ff', created_at = x'ff' where id = 1")
    conn.commit()
    found = propose_entity_split(conn, number)
    assert (found["name"], found["entityType"], found["needs_split"]) == ("Atlas", "Tool", True)


def test_reading_changes_no_byte(demo_db: Path) -> None:
    before = digest(demo_db)
    with closing(connection.connect(demo_db)) as conn:
        assert api.find_split_candidates(conn)["split"] >= 1
        api.find_split_candidates(conn, fresh=False)
        for (number,) in conn.execute("select id from entities").fetchall():
            found = api.propose_entity_split(conn, number)
            api.analyze_entity_split(conn, number)
            ids = "select id from observations where entity_id = ? and valid_to is null order by id"
            assert placed(found) == [row[0] for row in conn.execute(ids, [number])]
        assert not conn.in_transaction
    assert digest(demo_db) == before


def test_a_transaction_of_the_caller_stays_open(conn: Any) -> None:
    add(conn, "Atlas", "Tool", texts(24))
    conn.execute("update entities set name = 'Turia'")
    assert analyze_entity_split(conn, "Turia")["needs_split"]
    assert conn.in_transaction
    conn.rollback()
    assert analyze_entity_split(conn, "Atlas")["needs_split"]


@pytest.mark.parametrize("entity", [True, False, 1.0, None, b"one", [1]])
def test_what_is_neither_an_id_nor_a_name(conn: Any, entity: Any) -> None:
    add(conn, "one", "Tool", [])
    for function in (analyze_entity_split, propose_entity_split, find_duplicate_observations):
        with pytest.raises(BadParameter, match="use an id, a whole number, or a name"):
            function(conn, entity)


@pytest.mark.parametrize(
    "function", [analyze_entity_split, propose_entity_split, find_duplicate_observations]
)
def test_the_same_help_everywhere_with_an_unknown_name(conn: Any, function: Any) -> None:
    add(conn, "Acequia", "Tool", [])
    for entity, says in (
        ("acequía", r"has no entity with the name 'acequía': did you mean 'Acequia'\?$"),
        (7, "has no entity with the id 7: search for it by name$"),
        (2**70, f"has no entity with the id {2**70}: search for it by name$"),
    ):
        with pytest.raises(UnknownEntity, match=says):
            function(conn, entity)


@pytest.mark.parametrize("name", ["limit", "offset"])
@pytest.mark.parametrize("value", ["x", 1.5, "1.5", -1, True, float("nan"), [], 10**30])
def test_cuts_of_the_list_that_cannot_be(conn: Any, name: str, value: Any) -> None:
    with pytest.raises(BadParameter, match=f"^{name} is "):
        find_split_candidates(conn, **{name: value})


def test_cuts_of_the_list_may_be_text(conn: Any) -> None:
    for name in ("one", "two", "three"):
        add(conn, name, "Tool", texts(24))
    whole = [row["id"] for row in find_split_candidates(conn)["candidates"]]
    assert len(whole) == 3
    found = find_split_candidates(conn, limit="1", offset="1")
    assert [row["id"] for row in found["candidates"]] == whole[1:2]


@pytest.mark.parametrize(
    ("threshold", "approaching"), [(1, 1), (4, 4), (5, 4), (6, 5), (7, 6), (20, 16), (25, 20)]
)
def test_approaching_is_never_below_four_fifths(threshold: int, approaching: int) -> None:
    assert approaching_from(threshold) == approaching


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("ПРОЕКТ", "Проект"),
        ("проект", "ПРОЕКТ"),
        ("Έργο", "ΕΡΓΟ"),
        ("STRASSE", "Straße"),
        ("Žurnál", "zurnal"),
        ("プロジェクト", "プロジェクト"),
    ],
)
def test_types_of_every_script_count_the_same_everywhere(conn: Any, key: str, kind: str) -> None:
    conn.execute(
        "insert into limbic_settings(key, value) values (?, '25')", [f"split_threshold:{key}"]
    )
    number = add(conn, "one", kind, texts(24))
    large = add(conn, "two", kind, texts(26))
    keeping.keep(conn)
    report = consolidation_report(conn, fresh=False)
    assert [row["id"] for row in report["large_entities"]] == [large]
    assert [row["id"] for row in report["split_candidates"]] == [large]
    assert [row["id"] for row in report["approaching"]] == [number]
    for fresh in (True, False):
        listed = find_split_candidates(conn, fresh=fresh)["candidates"]
        assert {row["id"]: (row["status"], row["threshold"]) for row in listed} == {
            number: ("approaching", 25),
            large: ("split", 25),
        }
    for entity in (number, large):
        assert analyze_entity_split(conn, entity)["threshold"] == 25


def test_what_holds_goes_by_the_moment_that_is_asked_for(conn: Any) -> None:
    number = add(conn, "one", "Tool", texts(25))
    conn.execute("update observations set valid_to = '2100-01-01'")
    conn.commit()
    for now, large in (("2099-12-31", [number]), ("2100-01-02", [])):
        report = consolidation_report(conn, now=now)
        assert [row["id"] for row in report["large_entities"]] == large
        assert report["summary"]["observations"] == 25 * len(large)
