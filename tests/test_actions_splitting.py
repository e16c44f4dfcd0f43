"""Splitting an entity: what is made of it, what it refuses, and that nothing gets fresher by it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from actions_helpers import (
    ARCHIVED,
    ATLAS,
    BOREALIS,
    EMPTY,
    MODEL,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    assert_settled,
    differing,
    dump,
    opened,
)
from embedding_helpers import BagModel, fill_and_sync
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from split_helpers import add, texts

from datasette_limbic import schema
from datasette_limbic.actions import splitting
from datasette_limbic.actions.acting import Action, act
from datasette_limbic.api import search
from datasette_limbic.config import Settings
from datasette_limbic.connection import connect
from datasette_limbic.entity import entity_detail
from datasette_limbic.errors import BadParameter, Refused, StaleProposal, UnknownEntity, UnknownRow
from datasette_limbic.sync import sync

NOW = "2026-11-30 12:00:00"
MAPS = {"name": "Atlas: maps", "observations": [3, 4]}
MOVED = "id, content, created_at, similarity_flag, kind, confidence, valid_from, valid_to"


@pytest.fixture
def atlas(acted: Path) -> Iterator[Any]:
    """A connection to the memory of ``actions_helpers``."""
    with opened(acted) as conn:
        yield conn


def split(conn: Any, *children: Any, entity: Any = ATLAS, **options: Any) -> dict[str, Any]:
    return act(conn, "split", {"entity": entity, "children": list(children)}, **options)


def test_all_that_a_split_makes(atlas: Any) -> None:
    atlas.execute(
        "update entities set confidence = 0.7, valid_from = '2023-01-01', valid_to = '2999-01-01'"
        " where id = ?",
        [ATLAS],
    )
    atlas.commit()
    kept = f"select {MOVED} from observations order by id"
    before, parent = atlas.execute(kept).fetchall(), entity_row(atlas, ATLAS)
    answer = split(
        atlas,
        MAPS,
        {"name": " Atlas: plans\n", "entityType": "Plan", "observations": [6, 1, 2]},
        entity="Atlas",
        actor="ana",
    )
    first, second = (entity_row(atlas, name) for name in ("Atlas: maps", "Atlas: plans"))
    assert first == {
        **parent,
        "id": first["id"],
        "name": "Atlas: maps",
        "last_activity_at": "2024-01-05 09:00:00",  # the newest of what moves
        "updated_at": first["updated_at"],
    }
    assert first["updated_at"] > "2026"
    assert (second["entity_type"], second["last_activity_at"]) == ("Plan", "2024-01-06 09:00:00")
    assert entity_row(atlas, ATLAS) == parent
    assert atlas.execute(kept).fetchall() == before
    places = "select entity_id, group_concat(id) from observations where id < 8 group by entity_id"
    assert dict(atlas.execute(places)) == {
        ATLAS: "5,7",
        first["id"]: "3,4",
        second["id"]: "1,2,6",
    }
    made = "select from_entity, to_entity, relation_type from relations where id > 10 order by id"
    assert atlas.execute(made).fetchall() == [
        (ATLAS, first["id"], "contiene"),
        (first["id"], ATLAS, "parte_de"),
        (ATLAS, second["id"], "contiene"),
        (second["id"], ATLAS, "parte_de"),
    ]
    accesses = "select access_count, last_access from entity_access where entity_id = ?"
    # 9 accesses, 2 and 3 of 7 observations
    assert [
        atlas.execute(accesses, [n]).fetchone() for n in (ATLAS, first["id"], second["id"])
    ] == [(count, "2024-06-01 00:00:00") for count in (9, 2, 3)]
    assert answer["summary"] == (
        "Split 'Atlas': 'Atlas: maps', 'Atlas: plans' take 5 of its 7 observations"
    )
    assert answer["arguments"] == {
        "entity": ATLAS,
        "children": [
            {"name": "Atlas: maps", "entityType": "Project", "observations": [3, 4]},
            {"name": "Atlas: plans", "entityType": "Plan", "observations": [6, 1, 2]},
        ],
    }
    assert_settled(atlas)


def entity_row(conn: Any, asked: Any) -> dict[str, Any]:
    cursor = conn.execute("select * from entities where ? in (id, name)", [asked])
    return dict(zip([c[0] for c in cursor.description], cursor.fetchone(), strict=True))


@pytest.mark.parametrize(
    ("parent", "moved", "expected"),
    [
        ("2024-05-01", ["2024-01-01", "2024-03-01"], "2024-03-01"),
        ("2024-02-01", ["2024-01-01", "2024-03-01"], "2024-02-01"),
        ("2024-02-01", ["2024-02-01T00:00:00Z"], "2024-02-01"),
        # what is unknown of the parent is not known of its parts
        (None, ["2024-01-01", None], None),
        ("2024-02-01", [None, "some day"], "2024-02-01"),
        (None, [None, "some day"], None),
        ("once", ["2024-01-01"], "once"),
        # an offset counts, and so do seconds as a number
        ("2024-03-01 00:00:00", ["2024-03-01T01:00:00+05:00"], "2024-03-01T01:00:00+05:00"),
        ("2024-03-01 00:00:00", ["1704067200"], "1704067200"),
    ],
)
def test_a_child_was_last_active_when_its_observations_came(
    atlas: Any, parent: Any, moved: list[Any], expected: Any
) -> None:
    number = add(atlas, "Big", "Thing", ["stays", *(f"text {n}" for n in range(len(moved)))])
    ids = [r[0] for r in atlas.execute("select id from observations where entity_id = ?", [number])]
    for at, each in zip(moved, ids[1:], strict=True):
        atlas.execute("update observations set created_at = ? where id = ?", [at, each])
    atlas.execute(
        "update entities set last_activity_at = ?, created_at = null where id = ?", [parent, number]
    )
    atlas.commit()
    split(atlas, {"name": "Small", "observations": ids[1:]}, entity=number, embed=False)
    child = entity_row(atlas, "Small")
    assert (child["last_activity_at"], child["created_at"]) == (expected, None)
    assert entity_row(atlas, number)["last_activity_at"] == parent


@pytest.mark.parametrize(
    ("count", "share"), [(0, 0), (2, 0), (9, 2), (-4, 0), (1 << 60, (1 << 60) * 2 // 7)]
)
def test_the_share_of_the_accesses_is_rounded_down(atlas: Any, count: int, share: int) -> None:
    atlas.execute("update entity_access set access_count = ? where entity_id = ?", [count, ATLAS])
    atlas.commit()
    split(atlas, MAPS, embed=False)
    found = atlas.execute(
        "select access_count from entity_access where entity_id ="
        " (select id from entities where name = 'Atlas: maps')"
    ).fetchone()
    assert found == (share,)


def test_without_accesses_of_the_parent_there_are_none_of_the_child(atlas: Any) -> None:
    atlas.execute("delete from entity_access where entity_id = ?", [ATLAS])
    atlas.commit()
    counted = "select count(*) from entity_access"
    before = atlas.execute(counted).fetchone()
    split(atlas, MAPS, embed=False)
    assert atlas.execute(counted).fetchone() == before


BAD = [
    ([], "children is empty", BadParameter),
    ("Atlas: maps", "children is 'Atlas: maps'", BadParameter),
    ([["Atlas: maps"]], "child 1 is ['Atlas: maps']", BadParameter),
    ([{"name": f"n{n}", "observations": [n]} for n in range(101)], "101 entries", BadParameter),
    ([{**MAPS, "type": "x", "ids": []}], "unknown key type, ids", BadParameter),
    ([{**MAPS, "name": None}], "the name of child 1 is None", BadParameter),
    ([{**MAPS, "name": 7}], "the name of child 1 is 7", BadParameter),
    ([{**MAPS, "name": " \n\0"}], "the name of child 1 is empty", BadParameter),
    ([{**MAPS, "name": "x" * 501}], "has 501 characters", BadParameter),
    ([{**MAPS, "name": "Atlas"}], "'Atlas' is the name of the entity that is split", Refused),
    ([{**MAPS, "name": " Borealis "}], f"'Borealis' is taken by entity {BOREALIS}:", Refused),
    ([{**MAPS, "name": "Delta"}], f"entity {ARCHIVED}, archived at 2024-06-01", Refused),
    (
        [MAPS, {"name": " Atlas: maps", "observations": [5]}],
        "children 1 and 2 are both called 'Atlas: maps'",
        BadParameter,
    ),
    ([{**MAPS, "entityType": 3}], "entityType of 'Atlas: maps' is 3", BadParameter),
    ([{**MAPS, "entityType": " "}], "entityType of 'Atlas: maps' is ' '", BadParameter),
    ([{**MAPS, "entityType": "x" * 201}], "use a text of up to 200", BadParameter),
    ([{"name": "A"}], "observations of 'A': there are none", BadParameter),
    ([{"name": "A", "observations": []}], "observations of 'A': there are none", BadParameter),
    ([{"name": "A", "observations": 3}], "observations of 'A' is 3", BadParameter),
    ([{"name": "A", "observations": ["3"]}], "observations of 'A' is '3'", BadParameter),
    ([{"name": "A", "observations": [True]}], "observations of 'A' is True", BadParameter),
    ([{"name": "A", "observations": [1 << 63]}], "9223372036854775808", BadParameter),
    ([{"name": "A", "observations": [3, 3]}], "the same id twice: 3", BadParameter),
    (
        [MAPS, {"name": "B", "observations": [5, 4]}],
        "observation 4 is in both 'Atlas: maps' and 'B'",
        BadParameter,
    ),
    ([{"name": "A", "observations": [3, 8]}], "observation 8 belongs to 'Borealis'", Refused),
    ([{"name": "A", "observations": [3, 999]}], "there is no observation 999", UnknownRow),
    ([{"name": "A", "observations": [7, 6, 5, 4, 3, 2, 1]}], "would take all 7", Refused),
]


@pytest.mark.parametrize(("children", "said", "error"), BAD)
def test_what_cannot_be_done_is_refused(
    atlas: Any, children: Any, said: str, error: type[Exception]
) -> None:
    before = dump(atlas)
    for is_dry in (True, False):
        with pytest.raises(error) as caught:
            act(atlas, "split", {"entity": ATLAS, "children": children}, dry_run=is_dry)
        assert said in str(caught.value)
        assert ": " in str(caught.value)  # what to do stands behind it
    assert dump(atlas) == before


@pytest.mark.parametrize("children", [None, [MAPS]])
@pytest.mark.parametrize(
    ("entity", "said", "error"),
    [
        (ARCHIVED, "'Delta' was archived at 2024-06-01 10:00:00: restore it first", Refused),
        ("atlas", "did you mean 'Atlas' or 'ATLAS'?", UnknownEntity),
        (None, "use an id", BadParameter),
    ],
)
def test_the_entity_has_to_be_there_and_in_use(
    atlas: Any, entity: Any, said: str, error: type[Exception], children: Any
) -> None:
    with pytest.raises(error, match=said.replace("?", r"\?")):
        act(atlas, "split", {"entity": entity, "children": children})


@pytest.mark.parametrize(
    ("children", "said"),
    [
        ([MAPS], []),
        ([{"name": "A", "observations": [1, 2, 3, 4]}, {"name": "B", "observations": [5, 6, 7]}],
         ["Nothing stays in 'Atlas'"]),
        ([{"name": "atlas!", "observations": [3]}],
         ["'atlas!' differs from 'Atlas' (entity 1)", "'atlas!' differs from 'ATLAS' (entity 7)"]),
        ([{"name": "Gámma", "observations": [3]}], ["'Gámma' differs from 'Gamma' (entity 8)"]),
        ([{"name": "Uno", "observations": [3]}, {"name": "ÚNO", "observations": [4]}],
         ["'Uno', 'ÚNO' differ in case"]),
        ([{"name": "A", "observations": [1]}],
         ["different entities", "1 and 2",
          "1 observation keeps its flag of a duplicate without the one that it was like: "
          "observation 2"]),
    ],
)  # fmt: skip
def test_what_is_worth_a_second_look_is_said(atlas: Any, children: Any, said: list[str]) -> None:
    warnings = split(atlas, *children, dry_run=True)["warnings"]
    assert bool(warnings) == bool(said)
    for each in said:
        assert each in " ".join(warnings)


def test_a_flag_that_another_pair_stands_for_is_no_news(atlas: Any) -> None:
    """13, 14 and 15 say the same: 14 and 15 are flagged for 13, and 15 perhaps for 14."""
    flag = "update observations set similarity_flag = 1 where id in (14, 15)"
    atlas.execute(flag)
    atlas.execute("delete from limbic_duplicates where entity_id = 8")
    atlas.executemany(
        "insert into limbic_duplicates(earlier_id, later_id, entity_id, kind, rule, containment)"
        " values (?, ?, 8, 'duplicate', 'exact', 1)",
        [(13, 14), (13, 15), (14, 15)],
    )
    atlas.execute(flag)
    atlas.commit()
    (said,) = (
        each
        for each in split(atlas, {"name": "A", "observations": [13]}, entity=8, dry_run=True)[
            "warnings"
        ]
        if "flag" in each
    )
    assert said.endswith("it was like: observation 14")
    atlas.execute("update observations set similarity_flag = 0 where id = 14")
    atlas.commit()
    warnings = split(atlas, {"name": "A", "observations": [13]}, entity=8, dry_run=True)["warnings"]
    assert not any("flag" in each for each in warnings)


def test_pairs_go_along_where_both_texts_go(atlas: Any) -> None:
    pairs = "select entity_id from limbic_duplicates where (earlier_id, later_id) = (1, 2)"
    assert atlas.execute(pairs).fetchone() == (ATLAS,)
    split(atlas, {"name": "A", "observations": [1, 2]})
    assert atlas.execute(pairs).fetchone() == (entity_row(atlas, "A")["id"],)


def test_a_type_that_is_no_text_goes_along(atlas: Any) -> None:
    atlas.execute("update entities set entity_type = cast(x'50ff' as text) where id = ?", [ATLAS])
    atlas.commit()
    answer = split(atlas, MAPS, embed=False)
    assert atlas.execute(
        "select distinct hex(entity_type), typeof(entity_type) from entities where name glob ?",
        ["Atlas*"],
    ).fetchall() == [("50FF", "text")]
    assert "entityType" not in answer["arguments"]["children"][0]
    json.dumps(answer)


@pytest.mark.parametrize("children", [
    [MAPS],
    [{"name": "A", "observations": [1, 3, 5, 7]}, {"name": "B 日本", "observations": [2, 4, 6]}],
])  # fmt: skip
def test_undoing_brings_everything_back_and_undoing_that_the_split(
    atlas: Any, children: Any
) -> None:
    before = dump(atlas)
    first = split(atlas, *children)
    after = dump(atlas)
    assert differing(before, after)
    number = first["change"]
    for expected in (before, after, before):
        number = act(atlas, "undo", {"change": number})["change"]
        assert not differing(expected, dump(atlas))
        assert_settled(atlas)


def test_search_finds_the_children_when_the_call_returns(
    atlas: Any, models: dict[str, BagModel]
) -> None:
    models[MODEL].seen.clear()
    split(atlas, {"name": "Ledger", "observations": [5]})
    # the new entity and the parent; no observation, since those have their vectors
    assert sorted(text.partition(" ")[0] for text in models[MODEL].seen) == ["Atlas", "Ledger"]
    for mode, query in (
        ("text", "spreadsheet"),
        ("text", "ledger"),
        ("semantic", "Ledger (Project): Budgets are kept in a spreadsheet"),
        ("semantic", "Budgets are kept in a spreadsheet"),
    ):
        names = [row["name"] for row in search(atlas, query, mode=mode)["results"]]
        assert names[0] == "Ledger", (mode, query)
        assert mode != "text" or "Atlas" not in names
    assert_settled(atlas)


def test_columns_of_another_program(atlas: Any) -> None:
    atlas.execute("pragma writable_schema = on")
    atlas.execute("alter table entities add column note text default 'none'")
    atlas.execute("alter table entities add column owner text not null default 'x'")
    atlas.execute(
        "update sqlite_master set sql = replace(sql, ' not null default ''x''', ' not null')"
        " where name = 'entities'"
    )
    atlas.execute("pragma writable_schema = reset")
    atlas.execute("update entities set owner = 'ana', note = 'hm' where id = ?", [ATLAS])
    atlas.commit()
    before = dump(atlas)
    answer = split(atlas, MAPS)
    # what has to be there is the parent's, and nothing else
    found = "select owner, note from entities where name = 'Atlas: maps'"
    assert atlas.execute(found).fetchone() == ("ana", "none")
    act(atlas, "undo", {"change": answer["change"]})
    assert not differing(before, dump(atlas))


def test_observations_that_came_meanwhile_make_a_proposal_stale(atlas: Any) -> None:
    shown = split(atlas, MAPS, dry_run=True)
    atlas.execute("insert into observations(entity_id, content) values (?, 'new')", [ATLAS])
    atlas.commit()
    before = dump(atlas)
    with pytest.raises(StaleProposal, match="observation 16 came"):
        act(atlas, "split", shown["arguments"], basis=shown["basis"])
    assert dump(atlas) == before


def test_a_name_that_was_taken_meanwhile_is_refused(atlas: Any) -> None:
    action = Action("split", {"entity": ATLAS, "children": [MAPS]}, embed=False)
    action.read(atlas)
    atlas.execute("insert into entities(name) values ('Atlas: maps')")
    atlas.commit()
    with pytest.raises(Refused, match="'Atlas: maps' is taken by entity 9"):
        action.write(atlas)
    assert not atlas.in_transaction


@pytest.fixture
def proposable(conn: Any, models: Any) -> Any:
    """A memory with an entity of three topics, and nothing embedded."""
    add(conn, "Big", "Thing", texts(30))
    return conn


def test_without_children_the_proposal_is_taken(
    proposable: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    real = splitting.propose_entity_split

    def counted(conn: Any, entity: Any, *, settings: Any = None) -> Any:
        asked.append((conn.in_transaction, settings and settings.passage_prefix))
        return real(conn, entity, settings=settings)

    monkeypatch.setattr(splitting, "propose_entity_split", counted)
    proposal = real(proposable, "Big")
    answer = act(
        proposable, "split", {"entity": "Big"}, settings=Settings(passage_prefix="passage: ")
    )
    # once, with the plugin's settings, and not while others wait to write
    assert asked == [(True, "passage: ")]
    assert answer["arguments"] == {
        "entity": proposal["id"],
        "children": [
            {
                "name": child["name"],
                "entityType": "Thing",
                "observations": [row["id"] for row in child["observations"]],
            }
            for child in proposal["children"]
        ],
    }
    assert len(proposal["children"]) == 3
    found = proposable.execute("select name from entities where id > 1").fetchall()
    assert found == [(child["name"],) for child in proposal["children"]]


def test_where_nothing_is_proposed_it_says_why(conn: Any) -> None:
    add(conn, "Small", "Thing", texts(5))
    with pytest.raises(Refused) as caught:
        act(conn, "split", {"entity": "Small"}, dry_run=True)
    assert str(caught.value).startswith("'Small' was not split: ")
    assert "5 observations" in str(caught.value)
    assert ".." not in str(caught.value)
    assert "(children)" in str(caught.value)


# any number of observations, some in no child, and each child with at least one
_PARTS = st.lists(st.integers(0, 4), min_size=2, max_size=12).filter(
    lambda parts: any(parts) and (len(set(parts)) > 1)
)
_TIMES = st.sampled_from(
    [None, "", "2020-01-01 00:00:00", "2024-06-01T10:00:00Z", "2026-11-29", "2031-01-01", "1.7e9"]
)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A memory without rows or vectors, for many examples that are rolled back."""
    with closing(connect(tmp_path_factory.mktemp("bare") / "memory.db", create=True)) as conn:
        schema.init(conn)
        yield conn


@contextmanager
def example(conn: Any) -> Iterator[None]:
    conn.execute("begin")
    try:
        yield
    finally:
        conn.rollback()


def filled(conn: Any, parts: list[int], created: list[Any], data: st.DataObject) -> dict[str, Any]:
    """An entity with neighbours and signals of use; the split of it by ``parts``, 0: it stays."""
    times = st.one_of(_TIMES)
    conn.execute(
        "insert into entities(id, name, created_at, last_activity_at) values (1, 'Parent', ?, ?)",
        [data.draw(times), data.draw(times)],
    )
    conn.execute("insert into _limbic_guard values ('test')")
    conn.executemany(
        "insert into entities(id, name, created_at) values (?, ?, '2024-01-01 00:00:00')",
        [(number, f"n{number}") for number in (2, 3, 4)],
    )
    conn.executemany(
        "insert into observations(id, entity_id, content, created_at) values (?, 1, ?, ?)",
        [(n, f"text {n}", created[n % len(created)]) for n in range(1, len(parts) + 1)],
    )
    for number in data.draw(st.sets(st.integers(2, 4))):
        conn.execute("insert into relations(from_entity, to_entity, relation_type)"
                     " values (1, ?, 'uses')", [number])  # fmt: skip
    counts = data.draw(st.lists(st.none() | st.integers(0, 60), min_size=4, max_size=4))
    for number, count in enumerate(counts, 1):
        if count is not None:
            conn.execute("insert into entity_access values (?, ?, ?)",
                         [number, count, data.draw(times.filter(bool))])  # fmt: skip
    conn.execute("delete from _limbic_guard")
    children = [
        {"name": f"Child {part}",
         "observations": [n for n, place in enumerate(parts, 1) if place == part]}
        for part in sorted({part for part in parts if part})
    ]  # fmt: skip
    return {"entity": 1, "children": children}


def scores(conn: Any, number: int) -> dict[str, Any]:
    """What ranking and reports have of an entity at ``NOW``."""
    found = entity_detail(conn, number, now=NOW)["limbic"]
    return {n: found[n] for n in ("importance", "temporal_factor", "temporal_score", "degree")}


PROPERTY = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@PROPERTY
@given(parts=_PARTS, created=st.lists(_TIMES, min_size=1, max_size=4), data=st.data())
def test_nothing_gets_more_important_or_fresher(
    bare: Any, parts: list[int], created: list[Any], data: st.DataObject
) -> None:
    with example(bare):
        arguments = filled(bare, parts, created, data)
        before = {number: scores(bare, number) for number in range(1, 5)}
        act(bare, "split", arguments)
        # no neighbour, and not the parent either
        assert {number: scores(bare, number) for number in range(1, 5)} == before
        made = [r[0] for r in bare.execute("select id from entities where id > 4 order by id")]
        assert len(made) == len(arguments["children"])
        for number in made:
            child, parent = scores(bare, number), before[1]
            assert child["importance"] <= parent["importance"]
            # None, unknown, counts as UNKNOWN_TEMPORAL, and has to stay unknown
            assert (child["temporal_factor"] is None) == (parent["temporal_factor"] is None)
            assert (child["temporal_factor"] or 0) <= (parent["temporal_factor"] or 0)
            if parent["temporal_score"] is not None:
                assert child["temporal_score"] <= parent["temporal_score"]
        total = "select coalesce(sum(access_count), 0) from entity_access where entity_id"
        assert (
            bare.execute(f"{total} > 4").fetchone()[0] <= bare.execute(f"{total} = 1").fetchone()[0]
        )


@PROPERTY
@given(parts=_PARTS, created=st.lists(_TIMES, min_size=1, max_size=4), data=st.data())
def test_each_observation_is_accounted_for_once(
    bare: Any, parts: list[int], created: list[Any], data: st.DataObject
) -> None:
    kept = f"select {MOVED} from observations order by id"
    with example(bare):
        arguments = filled(bare, parts, created, data)
        before, facts = bare.execute(kept).fetchall(), all_of(bare)
        answer = act(bare, "split", arguments)
        assert bare.execute(kept).fetchall() == before
        names = dict(bare.execute("select id, name from entities"))
        placed = bare.execute("select entity_id from observations order by id").fetchall()
        expected = [f"Child {part}" if part else "Parent" for part in parts]
        assert [names[number] for (number,) in placed] == expected
        act(bare, "undo", {"change": answer["change"]})
        assert all_of(bare) == facts


def all_of(conn: Any) -> list[Any]:
    tables = ("entities", "observations", "relations", "entity_access")
    return [conn.execute(f"select * from {table} order by 1").fetchall() for table in tables]


def test_five_thousand_observations_in_under_two_seconds(
    conn: Any, models: dict[str, BagModel]
) -> None:
    fill_and_sync(conn, 2, 1)  # so that there are models and indexes
    conn.executemany(
        "insert into observations(entity_id, content) values (1, ?)",
        [(f"fact {n} of {n * 7919 % 1000}",) for n in range(5000)],
    )
    conn.commit()
    sync(conn, model=MODEL, reports=False)
    ids = [r[0] for r in conn.execute("select id from observations where entity_id = 1")]
    children = [{"name": f"part {n}", "observations": ids[n::5]} for n in range(4)]
    action = Action("split", {"entity": 1, "children": children})
    start = time.process_time()
    action.read(conn)
    spent = time.process_time() - start
    action.embed()
    start = time.process_time()
    assert action.write(conn)
    spent += time.process_time() - start
    # time of the processor: others may be at work on this machine
    assert spent < 2
    placed = "select count(*) from observations group by entity_id order by 1"
    assert conn.execute(placed).fetchall() == [(1,), *[(1000,)] * 4, (1001,)]


def test_an_entity_without_observations_has_nothing_to_split(atlas: Any) -> None:
    with pytest.raises(Refused, match="belongs to 'Atlas'"):
        split(atlas, MAPS, entity=EMPTY)
