"""Adding observations: what is written, what is compared, what is said, and what never breaks."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from embedding_helpers import BagModel, fill, fill_and_sync, registered

from datasette_limbic import adding as adding_module
from datasette_limbic import adding_input, adding_similar, connection, errors
from datasette_limbic.adding import Adding, add_observations
from datasette_limbic.config import Settings
from datasette_limbic.connection import connect
from datasette_limbic.duplicates import Observation, Thresholds
from datasette_limbic.integrity import check
from datasette_limbic.llm_store import transaction
from datasette_limbic.reports.keeping import state
from datasette_limbic.search import search
from datasette_limbic.sync import sync

GEOCODER = "The geocoder caches 30 addresses for each van on the route"


def item(name: Any = "entity 1", *contents: Any) -> dict[str, Any]:
    return {"entityName": name, "contents": list(contents)}


def texts(conn: Any, entity: int = 1) -> list[str]:
    rows = conn.execute(
        "select content from observations where entity_id = ? order by id", [entity]
    )
    return [row[0] for row in rows]


def stale(conn: Any) -> list[tuple[str, int]]:
    return [
        tuple(row)
        for row in conn.execute("select collection, item_id from limbic_stale order by 1, 2")
    ]


def pairs(conn: Any) -> list[tuple[Any, ...]]:
    return [
        tuple(row)
        for row in conn.execute(
            "select earlier_id, later_id, kind, rule, round(cosine, 5), difference"
            " from limbic_duplicates order by 1, 2"
        )
    ]


@pytest.fixture
def synced(conn: Any, models: Any) -> Any:
    """Three entities of two observations each, embedded with ``bag``."""
    fill_and_sync(conn, 3)
    return conn


@pytest.fixture
def demo(demo_db: Path) -> Any:
    """The sample memory with an entity of one observation, embedded with the packaged model."""
    with closing(connect(demo_db)) as found:
        found.execute("insert into entities(id, name) values (9001, 'Kiosk')")
        found.execute(
            "insert into observations(id, entity_id, content) values (9001, 9001, ?)", [GEOCODER]
        )
        found.commit()
        sync(found)
        yield found


# what is written -----------------------------------------------------------------------------


def test_an_answer_in_the_shape_of_server_memory_and_more(synced: Any) -> None:
    answer = add_observations(
        synced,
        [
            item("entity 1", "red apples", {"content": "green pears", "kind": "taste"}),
            {"id": 3, "contents": ["blue plums", "fact 0 of number 3"]},
        ],
    )
    assert answer["counts"] == {"added": 3, "skipped": 1, "rejected": 0, "flagged": 0}
    one, three = answer["results"]
    assert (one["entityName"], one["entity_id"]) == ("entity 1", 1)
    assert one["addedObservations"] == ["red apples", "green pears"]
    assert [each["content"] for each in one["added"]] == ["red apples", "green pears"]
    assert three["addedObservations"] == ["blue plums"]
    assert three["skipped"] == [
        {"content": "fact 0 of number 3", "reason": "already there", "id": 5}
    ]
    assert answer["rejected"] == []
    assert answer["similarity"] == {"computed": True, "model": "bag", "reason": None}
    assert answer["search"] == {"updated": True, "reason": None}
    rows = synced.execute("select id, content, kind, created_at from observations where id > 6")
    written = [each for result in answer["results"] for each in result["added"]]
    assert [tuple(row) for row in rows] == [
        (each["id"], each["content"], kind, each["created_at"])
        for each, kind in zip(written, (None, "taste", None), strict=True)
    ]
    assert texts(synced, 3) == ["fact 0 of number 3", "fact 1 of number 3", "blue plums"]


def test_what_a_caller_says_of_an_observation_is_kept(synced: Any) -> None:
    said = {"kind": " rule ", "confidence": 0.25, "valid_from": "2020-01-01T10:00:00+02:00"}
    add_observations(
        synced, [item("entity 1", {"content": "x y", **said, "valid_to": "2999-01-01"})]
    )
    row = synced.execute(
        "select kind, confidence, valid_from, valid_to from observations where id = 7"
    ).fetchone()
    assert tuple(row) == ("rule", 0.25, "2020-01-01 08:00:00", "2999-01-01 00:00:00")


def test_activity_moves_and_nothing_else_of_the_entity(synced: Any) -> None:
    synced.execute("insert into _limbic_guard values ('t')")
    synced.execute("update entities set last_activity_at = '2001-01-01 00:00:00'")
    synced.execute("delete from _limbic_guard")
    synced.commit()
    before = synced.execute("select * from entities where id = 1").fetchone()
    add_observations(synced, [item("entity 1", "news")])
    after = synced.execute("select * from entities where id = 1").fetchone()
    names = [c[1] for c in synced.execute("pragma table_info(entities)")]
    changed = [n for n, a, b in zip(names, before, after, strict=True) if a != b]
    assert changed == ["last_activity_at"]
    others = synced.execute("select last_activity_at from entities where id > 1").fetchall()
    assert {row[0] for row in others} == {"2001-01-01 00:00:00"}


def test_a_repetition_is_skipped_within_a_call_too(synced: Any) -> None:
    answer = add_observations(
        synced,
        [item("entity 1", "same", "same"), item("entity 1", "same"), item("entity 2", "same")],
    )
    first, again, other = answer["results"]
    new = first["added"][0]["id"]
    assert first["skipped"] == again["skipped"]
    assert first["skipped"][0]["id"] == new
    assert again["addedObservations"] == []
    assert other["addedObservations"] == ["same"]
    assert texts(synced).count("same") == 1


def test_what_no_longer_holds_may_be_said_again(synced: Any) -> None:
    synced.execute("update observations set valid_to = '2020-01-01' where id = 1")
    synced.commit()
    answer = add_observations(synced, [item("entity 1", "fact 0 of number 1")])
    assert answer["counts"]["added"] == 1
    assert answer["results"][0]["added"][0]["similar"] == [
        # not with what has ended, but with what still holds
        each for each in answer["results"][0]["added"][0]["similar"] if each["id"] == 2
    ]  # fmt: skip


def test_what_does_not_hold_yet_is_written_and_compared_to_nothing(synced: Any) -> None:
    later = {"content": "fact 0 of number 1!", "valid_from": "2999-01-01"}
    answer = add_observations(synced, [item("entity 1", later)])
    added = answer["results"][0]["added"][0]
    assert (added["similarity_flag"], added["similar"]) == (0, [])
    sync(synced)
    assert 7 not in {number for row in pairs(synced) for number in row[:2]}


# what is wrong -------------------------------------------------------------------------------

WRONG_CONTENT: list[tuple[Any, str]] = [
    ("", "the text is empty"),
    (" \n\t", "the text is empty"),
    ("\0", "the text is empty"),
    (5, "5 is no text"),
    (None, "None is no text"),
    (True, "True is no text"),
    (["a"], "is no text"),
    ({}, "content is None"),
    ({"content": 5}, "content is 5"),
    ({"content": {"a": 1}}, "content is {'a': 1}"),
    ({"content": "a", "created_at": "2001-01-01"}, "unknown key created_at"),
    ({"content": "a", "kind": 5}, "kind is 5"),
    ({"content": "a", "kind": " "}, "kind is ' '"),
    ({"content": "a", "kind": "k" * 101}, "up to 100 characters"),
    ({"content": "a", "confidence": 1.5}, "confidence is 1.5"),
    ({"content": "a", "confidence": True}, "confidence is True"),
    ({"content": "a", "confidence": "1"}, "confidence is '1'"),
    ({"content": "a", "confidence": float("nan")}, "confidence is nan"),
    ({"content": "a", "valid_from": "soon"}, "valid_from is 'soon'"),
    ({"content": "a", "valid_to": 5}, "valid_to is 5"),
    (
        {"content": "a", "valid_from": "2026-02-01", "valid_to": "2026-02-01"},
        "not after valid_from",
    ),
    ("x" * (adding_input.MAX_TEXT + 1), "the text has 1,000,001 characters"),
]
WRONG_ITEMS: list[tuple[Any, str]] = [
    (5, "5 is no object"),
    (None, "None is no object"),
    ("entity 1", "is no object"),
    ({}, "which entity?"),
    ({"contents": ["x"]}, "which entity?"),
    ({"entityName": 5, "contents": ["x"]}, "entityName is 5"),
    ({"id": "1", "contents": ["x"]}, "id is '1'"),
    ({"id": True, "contents": ["x"]}, "id is True"),
    ({"id": 2**63, "contents": ["x"]}, "too large"),
    ({"id": 99, "contents": ["x"]}, "no entity with the id 99"),
    ({"entityName": "Nobody", "contents": ["x"]}, "no entity with the name 'Nobody': search"),
    ({"entityName": "Entity-1", "contents": ["x"]}, "perhaps 'entity 1'"),
    ({"entityName": "", "contents": ["x"]}, "no entity with the name ''"),
    ({"entityName": "n" * 5000, "contents": ["x"]}, "no entity with the name"),
    ({"entityName": "entity 2", "id": 1, "contents": ["x"]}, "is called 'entity 1', not"),
    ({"entityName": "entity 1"}, "contents is None"),
    ({"entityName": "entity 1", "contents": "x"}, "contents is one text"),
    ({"entityName": "entity 1", "contents": {"content": "x"}}, "use a list of texts"),
    ({"entityName": "entity 1", "contents": []}, "contents is empty"),
    ({"entityName": "entity 1", "contents": ["x"], "time": 1}, "unknown key time"),
]


@pytest.mark.parametrize(("content", "error"), WRONG_CONTENT, ids=range(len(WRONG_CONTENT)))
def test_a_bad_text_spoils_nothing_else(content: Any, error: str, synced: Any) -> None:
    answer = add_observations(synced, [item("entity 1", "good", content, "better")])
    assert answer["results"][0]["addedObservations"] == ["good", "better"]
    (rejected,) = answer["rejected"]
    assert error in rejected["error"]
    assert (rejected["item"], rejected["entityName"]) == (0, "entity 1")
    assert len(rejected.get("content", "")) <= adding_input.SHOWN
    assert len(texts(synced)) == 4


@pytest.mark.parametrize(("bad", "error"), WRONG_ITEMS, ids=range(len(WRONG_ITEMS)))
def test_a_bad_item_spoils_nothing_else(bad: Any, error: str, synced: Any) -> None:
    answer = add_observations(synced, [item("entity 1", "good"), bad, item("entity 2", "better")])
    assert [each["entity_id"] for each in answer["results"]] == [1, 2]
    (rejected,) = answer["rejected"]
    assert rejected["item"] == 1
    assert error in rejected["error"]
    assert synced.execute("select count(*) from observations").fetchone()[0] == 8


def test_an_archived_entity_takes_nothing(synced: Any) -> None:
    synced.execute(
        "update entities set archived_at = '2026-01-01', archived_reason = 'done' where id = 2"
    )
    synced.commit()
    answer = add_observations(synced, [item("entity 2", "x"), item("entity 1", "y")])
    assert "was archived at 2026-01-01 (done): restore it first" in answer["rejected"][0]["error"]
    assert answer["counts"]["added"] == 1


@pytest.mark.parametrize(
    ("items", "error"),
    [
        (None, "observations is None: use a list"),
        ({"entityName": "entity 1"}, "use a list"),
        ("x", "use a list"),
        ([], "nothing to add"),
        ([item("entity 1", *map(str, range(501)))], "501 observations were sent"),
        ([item("entity 1", str(n)) for n in range(501)], "501 observations were sent"),
    ],
)
def test_what_is_no_list_of_observations_is_refused(items: Any, error: str, synced: Any) -> None:
    with pytest.raises(errors.BadParameter, match=error):
        add_observations(synced, items)
    assert synced.execute("select count(*) from observations").fetchone()[0] == 6


def test_nothing_that_can_be_added_writes_nothing(synced: Any) -> None:
    before = synced.total_changes
    answer = add_observations(synced, [item("Nobody", "x")])
    assert answer["results"] == []
    assert answer["similarity"]["reason"] == answer["search"]["reason"] == "nothing was added"
    assert synced.total_changes == before


def test_hostile_texts_come_back_as_they_were(synced: Any) -> None:
    long = "wörd " * 20_000
    kept = [
        "🎉",
        "👩‍👩‍👧",
        long,
        "日本語のテキスト",
        "' ; drop table entities --",
        "a\u2028b",
        "<b>",
    ]
    answer = add_observations(synced, [item("entity 1", *kept, "nul\0here", "half \ud83d pair")])
    cleaned = [*kept, "nul\ufffdhere", "half \ufffd pair"]
    assert answer["results"][0]["addedObservations"] == cleaned
    assert texts(synced)[2:] == cleaned
    assert stale(synced) == []
    assert check(synced).findings == []


def test_five_hundred_at_once(synced: Any) -> None:
    items = [
        item(f"entity {n % 3 + 1}", f"thing {n} alpha", f"matter {n} beta") for n in range(250)
    ]
    answer = add_observations(synced, items)
    assert answer["counts"]["added"] == 500
    assert len(answer["results"]) == 250
    assert stale(synced) == []
    before = pairs(synced)
    sync(synced)
    # those of the new ones that are part of a list fall away once the whole list is there
    assert pairs(synced) == before


# what is alike -------------------------------------------------------------------------------


def test_a_duplicate_is_flagged_and_a_contradiction_is_not(demo: Any) -> None:
    again = GEOCODER.lower() + "."
    answer = add_observations(
        demo, [item("Kiosk", GEOCODER.replace("30", "45"), again, "Trains leave at noon")]
    )
    other, same, apart = answer["results"][0]["added"]
    assert [each["similarity_flag"] for each in (other, same, apart)] == [0, 1, 0]
    assert answer["counts"]["flagged"] == 1
    found = other["similar"][0]
    assert (found["id"], found["kind"]) == (9001, "contradiction")
    assert found["content"] == GEOCODER
    assert found["difference"] == "number: 30 / 45"
    assert found["cosine"] > 0.8
    found = same["similar"][0]
    assert (found["id"], found["kind"], found["rule"]) == (9001, "duplicate", "exact")
    assert apart["similar"] == []
    flags = demo.execute("select id from observations where entity_id = 9001 and similarity_flag")
    assert [row[0] for row in flags] == [same["id"]]


def test_search_by_meaning_finds_it_at_once(demo: Any) -> None:
    query = "who sells chestnuts in winter"
    found = [row["name"] for row in search(demo, query, mode="semantic", limit=1)["results"]]
    assert found != ["Kiosk"]
    fact = "In winter it sells roasted chestnuts"
    answer = add_observations(demo, [item("Kiosk", fact)])
    assert answer["search"]["updated"]
    found = [row["name"] for row in search(demo, query, mode="semantic", limit=1)["results"]]
    assert found == ["Kiosk"]


def test_afterwards_sync_has_no_vectors_to_make_and_finds_the_same(demo: Any) -> None:
    add_observations(
        demo, [item("Kiosk", GEOCODER.replace("30", "45"), GEOCODER + "!", "It opens at eight")]
    )
    assert stale(demo) == []
    assert state(demo)["changed_since"] == 1  # its topics are the next sync's
    before = pairs(demo)
    assert {row[2] for row in before if row[0] >= 9001} == {"duplicate", "contradiction"}
    done = sync(demo)
    assert [part.embedded for part in done.collections] == [0, 0]
    assert done.reports is not None
    assert (done.reports.new_pairs, done.reports.gone_pairs, done.reports.flagged) == (0, 0, 0)
    assert pairs(demo) == before
    assert check(demo).findings == []


def test_pairs_of_the_old_ones_alone_are_left_to_sync(synced: Any) -> None:
    synced.execute(
        "insert into observations(id, entity_id, content) values (50, 1, 'FACT 0 of number 1')"
    )
    synced.commit()
    before = pairs(synced)
    add_observations(synced, [item("entity 1", "unlike anything")])
    assert pairs(synced) == before
    sync(synced)
    assert [row[:3] for row in pairs(synced) if row[1] == 50] == [(1, 50, "duplicate")]


# what may go wrong ---------------------------------------------------------------------------


def test_a_file_without_vectors_is_compared_by_words(conn: Any, models: Any) -> None:
    fill(conn, 1)
    answer = add_observations(conn, [item("entity 1", "FACT 0 of number 1", "fact 9 of number 1")])
    assert answer["similarity"]["computed"] is False
    assert "there are no vectors of observations yet: run" in answer["similarity"]["reason"]
    assert not answer["search"]["updated"]
    same, other = answer["results"][0]["added"]
    assert same["similarity_flag"] == 1
    assert same["similar"][0]["cosine"] is None
    assert {each["kind"] for each in other["similar"]} == {"contradiction"}
    assert conn.execute("select count(*) from collections").fetchone()[0] == 0
    assert ("observations", same["id"]) in stale(conn)
    assert models["bag"].seen == []


@pytest.mark.parametrize("model", ["broken", "unknown-model", "bag16"])
def test_a_model_that_fails_keeps_nothing_out(model: str, synced: Any) -> None:
    answer = add_observations(
        synced, [item("entity 1", "FACT 0 of number 1")], settings=Settings(model=model)
    )
    assert answer["results"][0]["added"][0]["similarity_flag"] == 1
    assert answer["similarity"]["computed"] is False
    assert (
        "model" in answer["similarity"]["reason"] or "dimensions" in answer["similarity"]["reason"]
    )
    assert answer["search"] == {"updated": False, "reason": answer["search"]["reason"]}
    assert stale(synced) == [("entities", 1), ("observations", 7)]
    sync(synced)
    assert stale(synced) == []


def test_vectors_that_are_none(synced: Any) -> None:
    answer = add_observations(synced, [item("entity 1", "ZEROVEC 1", "NANVEC 2")])
    assert texts(synced)[2:] == ["ZEROVEC 1", "NANVEC 2"]
    assert [each["similar"] for each in answer["results"][0]["added"]] == [[], []]
    assert ("observations", 7) not in stale(synced)
    rejected = synced.execute(
        "select rejected from limbic_indexes where collection = 'observations'"
    )
    assert [each["id"] for each in json.loads(rejected.fetchone()[0])] == [7, 8]
    sync(synced)
    assert stale(synced) == []


def test_without_sqlite_vec_vectors_are_kept_for_later(
    synced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "datasette_limbic.embedding_target.vec_missing", lambda conn: "no sqlite-vec here"
    )
    answer = add_observations(synced, [item("entity 1", "fact 0 of number 1 !")])
    assert answer["similarity"]["computed"] is True
    assert answer["results"][0]["added"][0]["similar"][0]["cosine"] > 0.9
    assert answer["search"] == {"updated": False, "reason": "no sqlite-vec here"}
    assert stale(synced) == [("entities", 1), ("observations", 7)]
    monkeypatch.undo()
    done = sync(synced)
    assert [(part.embedded, part.verified) for part in done.collections] == [(0, 1), (0, 1)]


def test_no_index_is_begun_that_holds_the_new_one_alone(synced: Any) -> None:
    for name in ("entities", "observations"):
        synced.execute(f"drop table _limbic_vec_{name}")
    synced.commit()
    answer = add_observations(synced, [item("entity 1", "news")])
    assert "not indexed yet: run 'datasette limbic sync'" in answer["search"]["reason"]
    made = synced.execute(
        "select name from sqlite_master where name like '_limbic_vec_%' and type = 'table'"
    )
    assert made.fetchall() == [("_limbic_vec_changes",)]


def test_an_index_of_another_model_is_left_alone(synced: Any) -> None:
    synced.execute("update limbic_indexes set model = 'bag2'")
    synced.commit()
    answer = add_observations(synced, [item("entity 1", "news")])
    assert "indexed with another model" in answer["search"]["reason"]
    assert stale(synced) == [("entities", 1), ("observations", 7)]


def test_a_prefix_is_put_before_what_is_embedded(synced: Any, models: Any) -> None:
    settings = Settings(passage_prefix="passage: ")
    sync(synced, settings=settings, full=True)
    models["bag"].seen.clear()
    add_observations(synced, [item("entity 1", "news")], settings=settings)
    assert models["bag"].seen[0] == "passage: news"
    assert models["bag"].seen[1].startswith("passage: entity 1 (Thing)")
    assert len(models["bag"].seen) == 2
    assert [p.embedded for p in sync(synced, settings=settings, full=True).collections] == [0, 0]


def test_no_transaction_is_open_while_a_model_runs(synced: Any, path: Path, models: Any) -> None:
    seen = []

    def before(batch: list[str]) -> None:
        with closing(connect(path)) as other:
            other.execute("pragma busy_timeout = 0").fetchone()
            other.execute("insert into entities(name) values (?)", [batch[0]])
            other.commit()
        seen.append(batch[0])

    models["bag"].before = before
    answer = add_observations(synced, [item("entity 1", "news")])
    assert len(seen) == 2
    assert answer["search"]["updated"]


def test_killed_before_the_entity_is_embedded(synced: Any) -> None:
    adding = Adding([item("entity 1", "zebra crossing")])
    adding.read(synced)
    adding.embed()
    adding.compare(synced)
    adding.write(synced)
    # here the process ends
    assert texts(synced)[-1] == "zebra crossing"
    assert stale(synced) == [("entities", 1)]
    done = sync(synced)
    assert [part.embedded for part in done.collections] == [1, 0]
    found = search(synced, "zebra crossing", mode="semantic")["results"]
    assert found[0]["name"] == "entity 1"


def test_an_entity_that_changed_meanwhile_stays_marked(synced: Any) -> None:
    adding = _until_entities(synced)
    synced.execute("update entities set name = 'renamed' where id = 1")
    synced.commit()
    adding.store_entities(synced)
    assert "changed meanwhile" in adding.answer["search"]["reason"]
    assert stale(synced) == [("entities", 1)]


def _until_entities(conn: Any) -> Adding:
    adding = Adding([item("entity 1", "news")])
    adding.read(conn)
    adding.embed()
    adding.compare(conn)
    adding.write(conn)
    adding.embed_entities()
    return adding


def test_a_lock_after_the_write_is_said_and_loses_nothing(synced: Any, path: Path) -> None:
    adding = _until_entities(synced)
    synced.execute("pragma busy_timeout = 20").fetchone()
    with closing(connect(path)) as other:
        other.execute("begin immediate")
        adding.store_entities(synced)
        other.rollback()
    assert "locked" in adding.answer["search"]["reason"]
    assert adding.answer["similarity"]["computed"] is True
    assert texts(synced)[-1] == "news"
    assert stale(synced) == [("entities", 1)]


def test_a_failure_in_the_middle_leaves_all_as_it_was(synced: Any) -> None:
    synced.execute(
        "create trigger broken before insert on limbic_duplicates begin"
        " select raise(abort, 'full'); end"
    )
    synced.commit()
    before = _everything(synced)
    with pytest.raises(Exception, match="full"):
        add_observations(synced, [item("entity 2", "news"), item("entity 1", "FACT 0 of number 1")])
    assert _everything(synced) == before
    assert not synced.in_transaction


def _everything(conn: Any) -> dict[str, Any]:
    names = [
        row[0]
        for row in conn.execute(
            "select name from sqlite_master where type = 'table' and sql not like '%virtual%'"
            " and name not like '%vec%'"
        )
    ]
    return {name: conn.execute(f'select * from "{name}"').fetchall() for name in names}


# others at the same time ---------------------------------------------------------------------


def _compared(conn: Any, *items: Any) -> Adding:
    adding = Adding(list(items))
    adding.read(conn)
    adding.embed()
    adding.compare(conn)
    return adding


def _finished(conn: Any, adding: Adding) -> dict[str, Any]:
    adding.write(conn)
    adding.embed_entities()
    adding.store_entities(conn)
    return adding.answer


def test_what_another_added_meanwhile_is_compared_too(synced: Any) -> None:
    one = _compared(synced, item("entity 1", "red green blue grey"))
    two = _compared(synced, item("entity 1", "Red green blue grey"), item("entity 1", "same"))
    three = _compared(synced, item("entity 1", "same"))
    assert _finished(synced, one)["counts"]["flagged"] == 0
    answer = _finished(synced, two)
    assert answer["counts"] == {"added": 2, "skipped": 0, "rejected": 0, "flagged": 1}
    assert answer["results"][0]["added"][0]["similar"][0]["rule"] == "exact"
    answer = _finished(synced, three)
    assert answer["counts"]["skipped"] == 1
    assert texts(synced)[2:] == ["red green blue grey", "Red green blue grey", "same"]


def test_nothing_is_compared_again_inside_the_transaction(
    synced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adding = _compared(synced, item("entity 1", "FACT 0 of number 1"), item("entity 2", "x"))
    add_observations(synced, [item("entity 3", "by another, elsewhere")])

    def again(*args: Any) -> None:
        raise AssertionError("compared while others wait to write")

    monkeypatch.setattr(adding_similar, "find_pairs", again)
    assert _finished(synced, adding)["counts"]["flagged"] == 1


def test_a_long_comparison_is_not_made_inside_the_transaction(
    synced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adding_module, "AT_ONCE", -1)  # any is long
    adding = _compared(synced, item("entity 1", "red green blue grey"))
    before = _everything(synced)
    assert texts(synced)[2:] == []
    add_observations(synced, [item("entity 1", "Red green blue grey")])
    between = _everything(synced)
    assert between != before
    assert adding.write(synced) is False
    assert _everything(synced) == between
    assert not synced.in_transaction
    adding.compare(synced)
    assert adding.write(synced) is True
    assert adding.answer["results"][0]["added"][0]["similar"][0]["rule"] == "exact"


def test_others_that_never_stop_writing(
    synced: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared so often, and no more; then nothing is written, and that is said."""
    monkeypatch.setattr(adding_module, "AT_ONCE", -1)
    compared = 0
    find_pairs = adding_similar.find_pairs

    def meanwhile(*args: Any, **options: Any) -> Any:
        nonlocal compared
        compared += 1
        if compared <= stops_after:
            synced.execute(
                "update observations set content = content || '!' where id = 1",
            )
            synced.commit()
        return find_pairs(*args, **options)

    monkeypatch.setattr(adding_similar, "find_pairs", meanwhile)
    stops_after = 1000
    with pytest.raises(errors.NotRecorded, match="Send it again"):
        add_observations(synced, [item("entity 1", "news")])
    assert compared == adding_module.TRIES
    assert len(texts(synced)) == 2
    compared, stops_after = 0, adding_module.TRIES - 1
    assert add_observations(synced, [item("entity 1", "news")])["counts"]["added"] == 1
    assert len(texts(synced)) == 3


@pytest.mark.parametrize(
    ("there", "new", "length", "long"),
    [(10, 1, 80, False), (5000, 1, 80, False), (5000, 500, 80, True), (2, 500, 1400, True)],
)
def test_how_long_a_comparison_takes_is_known_before(
    there: int, new: int, length: int, long: bool
) -> None:
    rows = [Observation(i, 1, "x" * length) for i in range(there + new)]
    ids = tuple((row.id, 1) for row in rows[there:])
    gathered = adding_similar.Gathered((1,), ids, b"", rows, None, Thresholds())
    assert (gathered.seconds > adding_module.AT_ONCE) is long


def test_what_was_archived_deleted_or_taken_away_meanwhile(synced: Any) -> None:
    adding = _compared(
        synced,
        item("entity 1", "one"),
        item("entity 2", "two"),
        item("entity 3", "three", "fact 0 of number 3"),
    )
    synced.execute("update entities set archived_at = '2026-01-01' where id = 1")
    synced.execute("delete from entities where id = 2")
    synced.execute("delete from observations where id = 5")  # was there already
    synced.commit()
    answer = _finished(synced, adding)
    assert [each["entity_id"] for each in answer["results"]] == [3]
    assert answer["results"][0]["addedObservations"] == ["three", "fact 0 of number 3"]
    assert [each["item"] for each in answer["rejected"]] == [0, 1]
    # the one that was not new when texts were embedded waits for sync
    assert stale(synced)[-1] == ("observations", answer["results"][0]["added"][1]["id"])
    sync(synced)
    assert check(synced).findings == []


def test_two_names_that_changed_places_meanwhile(synced: Any) -> None:
    adding = _compared(synced, item("entity 1", "FACT 0 of number 1"), item("entity 2", "other"))
    for n, name in ((1, "between"), (2, "entity 1"), (1, "entity 2")):
        synced.execute("update entities set name = ? where id = ?", [name, n])
    synced.commit()
    answer = _finished(synced, adding)
    assert [each["entity_id"] for each in answer["results"]] == [2, 1]
    assert answer["results"][0]["added"][0]["similarity_flag"] == 0


def test_the_collection_changed_its_model_meanwhile(synced: Any) -> None:
    adding = _compared(synced, item("entity 1", "news"))
    sync(synced, model="bag2", reembed=True)
    answer = _finished(synced, adding)
    assert answer["counts"]["added"] == 1
    assert "was embedded with 'bag2'" in answer["similarity"]["reason"]
    assert not answer["search"]["updated"]
    sync(synced)
    assert check(synced).findings == []


def test_many_adders_at_once_lose_nothing(synced: Any, path: Path) -> None:
    failed: list[Exception] = []

    def adder(who: int) -> None:
        try:
            with closing(connect(path)) as own:
                for n in range(8):
                    add_observations(own, [item(f"entity {n % 3 + 1}", f"said by {who} time {n}")])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=adder, args=[who]) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert synced.execute("select count(*) from observations").fetchone()[0] == 6 + 32
    sync(synced)
    assert stale(synced) == []
    assert check(synced).findings == []


def test_a_writer_without_the_extension_goes_on(synced: Any, path: Path) -> None:
    import sqlite3

    added = add_observations(synced, [item("entity 1", "FACT 0 of number 1")])
    new = added["results"][0]["added"][0]["id"]
    with closing(sqlite3.connect(path)) as stock:
        stock.execute("insert into observations(entity_id, content) values (1, 'by hand')")
        # the flag goes with the text that it stood for
        stock.execute("update observations set content = 'something else' where id = 1")
        stock.commit()
    row = synced.execute("select similarity_flag from observations where id = ?", [new])
    assert row.fetchone()[0] == 0


def test_within_a_transaction_of_the_caller(synced: Any) -> None:
    def add_and_fail() -> None:
        with transaction(synced):
            add_observations(synced, [item("entity 1", "news")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        add_and_fail()
    assert len(texts(synced)) == 2


# files of another kind -----------------------------------------------------------------------


def test_a_file_of_an_earlier_version_says_what_to_do(synced: Any) -> None:
    synced.execute("drop table limbic_report_pending")
    synced.commit()
    with pytest.raises(errors.NotWritable, match="datasette limbic init"):
        add_observations(synced, [item("entity 1", "news")])


def test_no_memory(tmp_path: Path) -> None:
    with (
        closing(connect(tmp_path / "other.db", create=True)) as conn,
        pytest.raises(errors.NotAMemory, match="datasette limbic init"),
    ):
        add_observations(conn, [item("entity 1", "news")])


def test_a_file_that_is_opened_for_reading(synced: Any, path: Path) -> None:
    with (
        closing(connect(path, readonly=True)) as conn,
        pytest.raises(connection.sqlite3.OperationalError, match="readonly"),
    ):
        add_observations(conn, [item("entity 1", "news")])


def test_a_model_of_a_key_is_used_as_sync_uses_it(
    conn: Any, models: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAG_KEY", "a key")
    fill(conn, 1)
    sync(conn, model="keyed")
    answer = add_observations(conn, [item("entity 1", "news")])
    assert answer["similarity"] == {"computed": True, "model": "keyed", "reason": None}


def test_a_model_gets_no_more_at_once_than_it_takes(conn: Any) -> None:
    model = BagModel("small")
    model.batch_size = 3
    sizes = []
    with registered(model):
        fill_one = "insert into entities(id, name) values (1, 'entity 1')"
        conn.execute(fill_one)
        conn.execute("insert into observations(entity_id, content) values (1, 'first')")
        conn.commit()
        sync(conn, model="small")
        model.before = lambda batch: sizes.append(len(batch))
        add_observations(conn, [item("entity 1", *(f"word{n}" for n in range(7)))])
    assert sizes == [3, 3, 1, 1]
