"""Merging entities: what comes to the one kept, what stays, what it refuses, and taking it back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from actions_helpers import (
    ARCHIVED,
    ATLAS,
    BOREALIS,
    EMPTY,
    LIKE,
    MODEL,
    ODD,
    TWIN,
    UNDATED,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    assert_settled,
    differing,
    dump,
    opened,
)
from embedding_helpers import BagModel, fill_and_sync
from hypothesis import given, settings
from hypothesis import strategies as st

from datasette_limbic import schema
from datasette_limbic.actions.acting import Action, act
from datasette_limbic.api import search
from datasette_limbic.connection import connect
from datasette_limbic.errors import BadParameter, Refused, StaleProposal, UnknownEntity
from datasette_limbic.sync import sync

KEPT = "id, content, created_at, similarity_flag, kind, confidence, valid_from, valid_to"


@pytest.fixture
def atlas(acted: Path) -> Iterator[Any]:
    """A connection to the memory of ``actions_helpers``."""
    with opened(acted) as conn:
        yield conn


def merge(conn: Any, keep: Any, *others: Any, **options: Any) -> dict[str, Any]:
    return act(conn, "merge_entities", {"keep": keep, "others": list(others)}, **options)


def column(conn: Any, sql: str, *args: Any) -> list[Any]:
    return [row[0] for row in conn.execute(sql, args)]


def test_all_that_a_merge_makes(atlas: Any) -> None:
    observed = f"select {KEPT} from observations order by id"
    whole = "select * from entities where id = ?"
    before = atlas.execute(observed).fetchall()
    twin = atlas.execute(whole, [TWIN]).fetchone()
    answer = merge(atlas, "Atlas", "ATLAS", UNDATED, actor="ana")
    assert atlas.execute(observed).fetchall() == before
    # 9 says what 3 says already
    owned = "select id from observations where entity_id = ? order by id"
    assert column(atlas, owned, ATLAS) == [1, 2, 3, 4, 5, 6, 7, 10, 12]
    assert column(atlas, owned, TWIN) == [9]
    relations = "select id, from_entity, to_entity from relations order by id"
    assert atlas.execute(relations).fetchall() == [
        (1, ATLAS, BOREALIS),
        (2, BOREALIS, ATLAS),
        (3, ODD, ATLAS),
        (4, ATLAS, ATLAS),  # its own, and none of the others
        (5, UNDATED, ATLAS),  # would lead to itself
        (6, TWIN, BOREALIS),  # 1 says so
        (7, ATLAS, EMPTY),
        (8, ATLAS, TWIN),  # would lead to itself
        (9, ARCHIVED, ATLAS),
        (10, BOREALIS, ARCHIVED),
    ]
    archived = atlas.execute(whole, [TWIN]).fetchone()
    assert archived[:6] + archived[8:] == twin[:6] + twin[8:]  # its times too
    assert archived[6] is not None
    assert archived[7] == "merged into 'Atlas'"
    access = "select entity_id, access_count, last_access from entity_access where entity_id in"
    assert atlas.execute(f"{access} ({ATLAS}, {TWIN})").fetchall() == [
        (ATLAS, 13, "2024-07-01 00:00:00"),
        (TWIN, 4, "2024-07-01 00:00:00"),
    ]
    assert answer["summary"] == (
        "Merge 'ATLAS', 'Echo' into 'Atlas': 2 observations and 1 relation move"
    )
    assert answer["arguments"] == {"keep": ATLAS, "others": [TWIN, UNDATED]}
    assert answer["warnings"] == [
        "The types differ: 'Echo' is 'Thing', and 'Atlas' stays 'Project'",
        "1 observation (9) with a text that is there already, character by character, will stay "
        "with the archived ones",
        "2 relations (5, 8) would lead from the entity to itself, and will stay with the archived "
        "ones",
        "1 relation (6) would say again what another one says, and will stay with the archived "
        "ones",
    ]
    assert_settled(atlas)


@pytest.mark.parametrize(
    ("mine", "theirs", "created_at", "last_activity_at"),
    [
        (("2024-02-01", "2024-03-01"), ("2024-01-01", "2024-02-01"), "2024-01-01", "2024-03-01"),
        (("2024-01-01", "2024-03-01"), ("2024-02-01", "2024-05-01"), "2024-01-01", "2024-05-01"),
        ((None, None), ("2024-02-01", "2024-05-01"), "2024-02-01", "2024-05-01"),
        (("2024-01-01", "2024-03-01"), (None, None), "2024-01-01", "2024-03-01"),
        ((None, None), (None, None), None, None),
        (("some day", "once"), (None, "later"), "some day", "once"),
        (("some day", "once"), ("2024-01-01", "2024-01-02"), "2024-01-01", "2024-01-02"),
        # the same moment is no change
        (("2024-01-01", "2024-03-01"), ("2024-01-01T00:00:00Z", "2024-03-01T00:00Z"),
         "2024-01-01", "2024-03-01"),
        # by the clock, not by the letters
        (("2024-01-01 05:00:00", "1"), ("2024-01-01T06:00:00+05:00", "0"),
         "2024-01-01T06:00:00+05:00", "1"),
    ],
)  # fmt: skip
def test_it_is_as_old_as_the_oldest_and_as_fresh_as_the_latest(
    atlas: Any, mine: Any, theirs: Any, created_at: Any, last_activity_at: Any
) -> None:
    for number, times in ((ATLAS, mine), (TWIN, theirs)):
        atlas.execute(
            "update entities set created_at = ?, last_activity_at = ? where id = ?",
            [*times, number],
        )
    atlas.commit()
    merge(atlas, ATLAS, TWIN, embed=False)
    found = "select created_at, last_activity_at from entities where id = ?"
    assert atlas.execute(found, [ATLAS]).fetchone() == (created_at, last_activity_at)
    assert atlas.execute(found, [TWIN]).fetchone() == theirs


@pytest.mark.parametrize(
    ("mine", "theirs", "moves"),
    [
        (("Same", None), ("Same", None), False),
        (("Same", None), ("same", None), True),
        (("Same", None), ("Same ", None), True),
        # what has ended is no news, and still history
        (("Same", "2020-01-01"), ("Same", None), True),
        (("Same", None), ("Same", "2020-01-01"), True),
        (("Same", "2020-01-01"), ("Same", "2020-01-01"), True),
        (("Same", "2999-01-01"), ("Same", "some day"), False),
    ],
)
def test_only_what_both_say_and_hold_stays(atlas: Any, mine: Any, theirs: Any, moves: bool) -> None:
    for number, values in ((BOREALIS, mine), (EMPTY, theirs)):
        atlas.execute("insert into observations(entity_id, content, valid_to) values (?, ?, ?)",
                      [number, *values])  # fmt: skip
    atlas.commit()
    answer = merge(atlas, BOREALIS, EMPTY, embed=False)
    left = column(atlas, "select content from observations where entity_id = ?", EMPTY)
    assert left == ([] if moves else [theirs[0]])
    assert ("character by character" in str(answer["warnings"])) is not moves


@pytest.mark.parametrize(
    ("mine", "theirs", "count"),
    [(9, 4, 13), (9, -4, 9), (-9, 4, 4), (-9, -4, 0), ("x", "4", 4), (2.9, 1.9, 3), (b"7", 1, 8)],
)
def test_counts_of_accesses_that_are_none(atlas: Any, mine: Any, theirs: Any, count: int) -> None:
    """Any program may have written them: they are added as ranking reads them."""
    atlas.executemany("update entity_access set access_count = ? where entity_id = ?",
                      [(mine, ATLAS), (theirs, TWIN)])  # fmt: skip
    atlas.commit()
    merge(atlas, ATLAS, TWIN)
    found = column(atlas, "select access_count from entity_access where entity_id = ?", ATLAS)
    assert found == [count]


def test_a_text_of_two_others_comes_once(atlas: Any) -> None:
    atlas.execute("insert into observations(id, entity_id, content) select 90 + id, id, 'Same'"
                  " from entities where id in (?, ?)", [TWIN, EMPTY])  # fmt: skip
    atlas.commit()
    merge(atlas, BOREALIS, EMPTY, TWIN, embed=False)
    owner = "select entity_id from observations where id in (?, ?) order by id"
    assert column(atlas, owner, 90 + EMPTY, 90 + TWIN) == [BOREALIS, TWIN]


@pytest.mark.parametrize(
    ("mine", "theirs", "end", "said"),
    [
        (None, None, None, False),
        (None, "2020-01-01", None, False),
        ("2020-01-01", "2021-01-01", "2020-01-01", False),
        ("2020-01-01", None, None, True),
        ("2020-01-01", "2999-01-01", "2999-01-01", True),
        ("some day", None, "some day", False),
    ],
)
def test_a_relation_that_one_of_them_still_has_holds(
    atlas: Any, mine: Any, theirs: Any, end: Any, said: bool
) -> None:
    # 1 and 6 are the same of Atlas and of its twin
    atlas.executemany("update relations set valid_to = ? where id = ?", [(mine, 1), (theirs, 6)])
    atlas.commit()
    sync(atlas, model=MODEL, reports=False)
    before = dump(atlas)
    answer = merge(atlas, ATLAS, TWIN)
    ends = "select valid_to from relations where id in (1, 6) order by id"
    assert column(atlas, ends) == [end, theirs]
    assert ("1 relation (1) had ended and will hold again" in str(answer["warnings"])) is said
    assert not column(atlas, "select item_id from limbic_stale")
    act(atlas, "undo", {"change": answer["change"]})
    assert not differing(before, dump(atlas))


def test_of_two_others_the_relation_that_holds_comes(atlas: Any) -> None:
    atlas.execute("insert into relations(id, from_entity, to_entity, relation_type, valid_to)"
                  " values (50, ?, ?, 'sees', '2020-01-01'), (51, ?, ?, 'sees', null)",
                  [TWIN, LIKE, EMPTY, LIKE])  # fmt: skip
    atlas.commit()
    merge(atlas, ATLAS, TWIN, EMPTY, embed=False)
    kept = "select id from relations where from_entity = ? and relation_type = 'sees'"
    assert column(atlas, kept, ATLAS) == [51]


@pytest.mark.parametrize(
    ("arguments", "said", "error"),
    [
        ({}, "others is None: give a list", BadParameter),
        ({"keep": ATLAS, "others": "ATLAS"}, "others is 'ATLAS': give a list", BadParameter),
        ({"keep": ATLAS, "others": []}, "others is empty", BadParameter),
        ({"keep": ATLAS, "others": list(range(2, 103))}, "others has 101 entities", BadParameter),
        ({"others": [TWIN]}, "entity is None: use an id", BadParameter),
        ({"keep": ATLAS, "others": [TWIN, True]}, "entity is True", BadParameter),
        ({"keep": ATLAS, "others": [99]}, "the id 99", UnknownEntity),
        ({"keep": "atlas", "others": [LIKE]}, "did you mean 'Atlas' or 'ATLAS'", UnknownEntity),
        ({"keep": ATLAS, "others": [TWIN, "Atlas"]}, "'Atlas' (entity 1) is the one to keep and",
         BadParameter),
        ({"keep": ATLAS, "others": [TWIN, "ATLAS"]}, "'ATLAS' (entity 7) is twice", BadParameter),
        ({"keep": ARCHIVED, "others": [TWIN]}, "'Delta' was archived at 2024-06-01", Refused),
        ({"keep": ATLAS, "others": [TWIN, "Delta"]}, "'Delta' was archived at", Refused),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(
    atlas: Any, arguments: Any, said: str, error: type[Exception]
) -> None:
    before = dump(atlas)
    for is_dry in (True, False):
        with pytest.raises(error) as caught:
            act(atlas, "merge_entities", arguments, dry_run=is_dry)
        assert said in str(caught.value)
    assert dump(atlas) == before


@pytest.mark.parametrize(
    ("meanwhile", "said"),
    [
        (f"insert into observations(entity_id, content) values ({TWIN}, 'x')", "observation 16 ca"),
        (f"delete from observations where entity_id = {ATLAS} and id = 3", "observation 3 went"),
        (f"insert into relations(from_entity, to_entity, relation_type) values ({LIKE}, {TWIN},"
         " 'x')", "relation 11 came"),
        ("update relations set valid_to = '2020-01-01' where id = 6", "relation 6 changed"),
        (f"update entities set name = 'Aatlas' where id = {TWIN}", "the name of entity 7 was"),
    ],
)  # fmt: skip
def test_what_changed_meanwhile_makes_a_proposal_stale(
    atlas: Any, meanwhile: str, said: str
) -> None:
    shown = merge(atlas, ATLAS, TWIN, dry_run=True)
    atlas.execute(meanwhile)
    atlas.commit()
    before = dump(atlas)
    with pytest.raises(StaleProposal, match=said):
        act(atlas, "merge_entities", shown["arguments"], basis=shown["basis"])
    assert dump(atlas) == before


@pytest.mark.parametrize("others", [[TWIN], [TWIN, ODD, EMPTY], [LIKE, UNDATED, BOREALIS, TWIN]])
def test_undoing_brings_everything_back_and_undoing_that_the_merge(
    atlas: Any, others: list[int]
) -> None:
    before = dump(atlas)
    number = merge(atlas, ATLAS, *others)["change"]
    after = dump(atlas)
    assert differing(before, after)
    for expected in (before, after, before):
        number = act(atlas, "undo", {"change": number})["change"]
        assert not differing(expected, dump(atlas))
        assert_settled(atlas)


@pytest.mark.parametrize(("keep", "left"), [(ATLAS, 9 + 2), (EMPTY, 2)])
def test_undoing_takes_away_what_was_added_and_leaves_later_accesses(
    atlas: Any, keep: int, left: int
) -> None:
    number = merge(atlas, keep, TWIN, embed=False)["change"]
    count = "update entity_access set access_count = access_count + 2 where entity_id = ?"
    atlas.execute(count, [keep])
    atlas.commit()
    access = "select access_count from entity_access where entity_id = ?"
    for expected in (left, left + 4, left):
        number = act(atlas, "undo", {"change": number}, embed=False)["change"]
        assert column(atlas, access, keep) == [expected]


def test_counts_that_are_no_numbers_count_as_ranking_counts_them(atlas: Any) -> None:
    atlas.execute("update entity_access set access_count = 'many' where entity_id = ?", [ATLAS])
    atlas.commit()
    merge(atlas, ATLAS, TWIN, BOREALIS, embed=False)
    access = "select access_count from entity_access where entity_id = ?"
    assert column(atlas, access, ATLAS) == [5]


def test_search_finds_what_came_and_the_others_no_longer(
    atlas: Any, models: dict[str, BagModel]
) -> None:
    atlas.execute("insert into relations(from_entity, to_entity, relation_type)"
                  " values (?, ?, 'knows')", [LIKE, TWIN])  # fmt: skip
    atlas.commit()
    sync(atlas, model=MODEL, reports=False)
    models[MODEL].seen.clear()
    merge(atlas, BOREALIS, TWIN)
    # the one kept, the other, and whoever was linked to it; no observation
    seen = [text.partition(" (")[0] for text in models[MODEL].seen]
    assert sorted(seen) == ["ATLAS", "Borealis", "Gamma"]
    text = atlas.execute("select content from entity_snapshots where id = ?", [BOREALIS])
    for mode, query in (
        ("text", "twin with another spelling"),
        ("semantic", text.fetchone()[0]),
    ):
        answer = search(atlas, query, mode=mode)
        found = {row["name"]: row for row in answer["results"]}
        assert "ATLAS" not in found
        # the vector is that of the text with all that came
        assert mode == "text" or found["Borealis"]["scoring"]["cosine_sim"] > 0.99
        assert "Borealis" in found
    assert_settled(atlas)


def test_neighbours_of_a_hub_are_left_to_sync(conn: Any, models: dict[str, BagModel]) -> None:
    fill_and_sync(conn, 130, 1)
    conn.execute("insert into relations(from_entity, to_entity, relation_type)"
                 " select id, 2, 'knows' from entities where id > 2")  # fmt: skip
    conn.commit()
    sync(conn, model=MODEL, reports=False)
    answer = merge(conn, 1, 2)
    for _ in range(2):
        assert answer["search"]["reason"].startswith("28 neighbours are left to the next sync")
        stale = column(conn, "select item_id from limbic_stale where collection = 'entities'")
        assert len(stale) == 28
        sync(conn, model=MODEL, reports=False)
        assert_settled(conn, models[MODEL])
        answer = act(conn, "undo", {"change": answer["change"]})


_ENDS = st.sampled_from([None, "2020-01-01", "2999-01-01"])
_LINKS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 5), st.sampled_from("ab"), _ENDS),
    max_size=14,
    unique_by=lambda link: link[:3],
)
_SAID = st.lists(
    st.tuples(st.integers(1, 5), st.sampled_from("xyz"), _ENDS),
    max_size=14,
)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A memory without rows or vectors, for many examples that are rolled back."""
    with closing(connect(tmp_path_factory.mktemp("bare") / "memory.db", create=True)) as conn:
        schema.init(conn)
        yield conn


def live(conn: Any, merged: set[int]) -> tuple[set[Any], set[Any]]:
    """What holds of texts and relations, with the entities of ``merged`` taken as one."""

    def one(number: int) -> int:
        return min(merged) if number in merged else number

    where = "where coalesce(datetime(valid_to) > datetime('now'), 1)"
    links = conn.execute(f"select from_entity, to_entity, relation_type from relations {where}")
    said = conn.execute(f"select entity_id, content from observations {where}")
    triples = {(one(row[0]), one(row[1]), row[2]) for row in links}
    return {(one(row[0]), row[1]) for row in said}, {t for t in triples if t[0] != t[1]}


@settings(max_examples=40, deadline=None)
@given(links=_LINKS, said=_SAID, others=st.sets(st.integers(2, 5), min_size=1, max_size=3))
def test_nothing_that_holds_is_lost_and_all_comes_back(
    bare: Any, links: list[Any], said: list[Any], others: set[int]
) -> None:
    bare.execute("begin")
    try:
        bare.executemany(
            "insert into entities(id, name) values (?, ?)", [(n, f"n{n}") for n in range(1, 6)]
        )
        bare.executemany(
            "insert into relations(from_entity, to_entity, relation_type, valid_to)"
            " values (?, ?, ?, ?)",
            links,
        )
        bare.executemany(
            "insert into observations(entity_id, content, valid_to) values (?, ?, ?)", said
        )
        whole = [f"select * from {t} order by 1" for t in ("entities", "observations", "relations")]
        before = [bare.execute(sql).fetchall() for sql in whole]
        merged = {1, *others}
        knew = live(bare, merged)
        number = merge(bare, 1, *others)["change"]
        texts, triples = knew
        # seen from what is in use alone: nothing leads to or stands in an archived entity
        assert {(e, t) for e, t in live(bare, set())[0] if e not in others} == texts
        after = {t for t in live(bare, set())[1] if not others & {t[0], t[1]}}
        assert after == triples
        for expected in (before, None, before):
            number = act(bare, "undo", {"change": number})["change"]
            if expected is not None:
                assert [bare.execute(sql).fetchall() for sql in whole] == expected
    finally:
        bare.rollback()


def test_five_thousand_observations_in_under_two_seconds(
    conn: Any, models: dict[str, BagModel]
) -> None:
    fill_and_sync(conn, 3, 1)  # so that there are models and indexes
    conn.executemany(
        "insert into observations(entity_id, content) values (2, ?)",
        [(f"fact {n} of {n * 7919 % 1000}",) for n in range(5000)],
    )
    conn.commit()
    sync(conn, model=MODEL, reports=False)
    action = Action("merge_entities", {"keep": 1, "others": [2]})
    start = time.process_time()
    action.read(conn)
    spent = time.process_time() - start
    action.embed()
    start = time.process_time()
    assert action.write(conn)
    spent += time.process_time() - start
    # time of the processor: others may be at work on this machine
    assert spent < 2
    counted = "select count(*) from observations group by entity_id order by entity_id"
    assert column(conn, counted) == [5002, 1]
