"""Importing a source again is a sync: what changed in it comes in, what was done here stays."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from again_helpers import (
    ENGRAMA,
    ENVELOPE,
    FORMATS,
    FULL,
    JSONL,
    MCP,
    Fact,
    World,
    do,
    end_of,
    entity_of,
    first,
    fresh_memory,
    node,
    run,
    texts,
    unchanged,
)
from importing_helpers import access, dump, entity, graph, one, relation, write_lines
from mcp_v2_helpers import T1, T2, T3, make

from datasette_limbic import connection, schema
from datasette_limbic.errors import UnknownFormat
from datasette_limbic.importing import ImportSummary, baseline, import_files, writing
from datasette_limbic.importing.summary_text import summary_text

ARCHIVING = [MCP, ENGRAMA, FULL]


@pytest.fixture
def conn(tmp_path: Path) -> Any:
    conn = fresh_memory(tmp_path / "memory.db")
    # a memory that holds something, so that a full export is merged
    conn.execute("insert into entities(name, entity_type) values ('Here', 'Ours')")
    conn.commit()
    yield conn
    conn.close()


@pytest.fixture(params=FORMATS)
def world(request: Any, tmp_path: Path) -> World:
    return a_world(request.param, tmp_path / "source")


def a_world(kind: str, path: Path) -> World:
    world = World(kind, path)
    world.add("A", "a one", "a two")
    world.add("B", "b one")
    world.add("C")
    world.links[("A", "B", "uses")] = None
    world.links[("B", "C", "uses")] = None
    return world


# what the source has new ---------------------------------------------------------------------


def test_growth(conn: Any, world: World) -> None:
    run(conn, world)
    world.add("A", "a three")
    world.add("D", "d one")
    world.links[("A", "D", "uses")] = None
    file = first(conn, world)
    assert (file.entities.created, file.entities.merged, file.entities.updated) == (1, 3, 1)
    assert (file.observations.added, file.observations.already_there) == (2, 3)
    assert (file.relations.created, file.relations.merged, file.relations.updated) == (1, 2, 0)
    assert list(texts(conn, "A")) == [world.said(t) for t in ("a one", "a two", "a three")]
    assert end_of(conn, "A", "D") is None
    unchanged(conn, world)


def test_nothing_new(conn: Any, world: World) -> None:
    run(conn, world)
    file = unchanged(conn, world).files[0]
    assert (file.entities.merged, file.entities.updated) == (3, 0)
    assert (file.entities.gone, file.observations.gone, file.relations.gone) == (0, 0, 0)


def test_what_is_gone_is_kept_and_counted(conn: Any, world: World) -> None:
    run(conn, world)
    del world.things["A"].texts["a one"], world.things["C"], world.links[("B", "C", "uses")]
    file = first(conn, world)
    assert not file.changed
    assert (file.entities.gone, file.observations.gone, file.relations.gone) == (1, 1, 1)
    assert list(texts(conn, "A")) == [world.said("a one"), world.said("a two")]
    assert "gone from the source, kept" in run(conn, world).text()
    unchanged(conn, world)


def test_what_is_gone_on_both_sides_is_not_kept(conn: Any, world: World) -> None:
    run(conn, world)
    do(conn, "delete from observations where content = ?", world.said("a one"))
    do(conn, "delete from entities where name = 'C'")
    del world.things["A"].texts["a one"], world.things["C"], world.links[("B", "C", "uses")]
    file = first(conn, world)
    assert (file.entities.gone, file.observations.gone, file.relations.gone) == (0, 0, 0)
    unchanged(conn, world)


def test_what_is_removed_here_is_not_gone_there(conn: Any, world: World) -> None:
    run(conn, world)
    do(conn, "delete from entities where name = 'B'")
    file = first(conn, world)
    assert (file.entities.removed_here, file.relations.removed_here) == (1, 2)
    assert (file.entities.gone, file.observations.gone, file.relations.gone) == (0, 0, 0)


# entities themselves --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [JSONL, MCP, FULL])
def test_a_type_that_changed_there(conn: Any, tmp_path: Path, kind: str) -> None:
    world = a_world(kind, tmp_path / "source")
    run(conn, world)
    world.things["A"].kind = "U"
    file = first(conn, world)
    assert (file.entities.updated, file.type_conflict_count) == (1, 0)
    assert entity_of(conn, "A") == "U"
    unchanged(conn, world)


@pytest.mark.parametrize("kind", [JSONL, MCP, FULL])
@pytest.mark.parametrize("ours", ["Mine", "Generic"])
def test_a_type_that_changed_here_too(conn: Any, tmp_path: Path, kind: str, ours: str) -> None:
    world = a_world(kind, tmp_path / "source")
    run(conn, world)
    do(conn, "update entities set entity_type = ? where name = 'A'", ours)
    unchanged(conn, world)
    world.things["A"].kind = "U"
    file = first(conn, world)
    assert (file.entities.updated, file.type_conflict_count) == (0, 1)
    assert entity_of(conn, "A") == ours
    assert unchanged(conn, world).files[0].type_conflict_count == 0


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("there", "here", "expected"),
    [
        # archived then, there, here: what a person did here wins, else what the source did
        ([None, T1], None, T1),
        ([None, T1], T3, T3),
        ([T1, None], "as it came", None),
        ([T1, None], None, None),
        ([T1, None], T3, T3),
        ([T1, T1], None, None),
        ([T1, T2], None, None),
        ([T1, T2], T3, T3),
        ([T1, T2], "as it came", T1),
        ([T1, T2, None], "as it came", None),
        ([None, None], T3, T3),
    ],
)
@pytest.mark.parametrize("column", ["archived_at", "valid_to"])
def test_archived_and_valid_there_and_here(
    conn: Any, tmp_path: Path, kind: str, there: Any, here: Any, expected: Any, column: str
) -> None:
    if (kind, column) == (MCP, "valid_to"):
        pytest.skip("that format has no such thing")
    attribute = "archived" if column == "archived_at" else column
    world = a_world(kind, tmp_path / "source")
    setattr(world.things["A"], attribute, there[0])
    run(conn, world)
    if here != "as it came":
        do(conn, f"update entities set {column} = ? where name = 'A'", here)
    for value in there[1:]:
        setattr(world.things["A"], attribute, value)
        first(conn, world)
    if kind == JSONL and there[-1] is None and here == "as it came":
        expected = there[0]  # a line that leaves something out does not take it back
    if column == "valid_to" and there == [T1, T2] and here == "as it came":
        expected = T2
    if column == "valid_to" and there == [T1, T2, None] and kind == JSONL:
        expected = T2
    assert entity_of(conn, "A", column) == expected
    unchanged(conn, world)


def test_neighbours_hear_of_what_is_not_archived_any_more(conn: Any, tmp_path: Path) -> None:
    world = a_world(MCP, tmp_path / "source")
    world.things["B"].archived = T1
    run(conn, world)
    do(conn, "delete from limbic_stale")
    world.things["B"].archived = None
    file = first(conn, world)
    assert (file.entities.updated, file.changed) == (1, True)
    assert entity_of(conn, "B", "archived_reason") is None
    stale = conn.execute(
        "select name from limbic_stale join entities on id = item_id where collection = 'entities'"
    )
    assert sorted(stale) == [("A",), ("B",)]


def test_the_reason_of_archiving_is_a_persons_too(conn: Any, tmp_path: Path) -> None:
    world = a_world(MCP, tmp_path / "source")
    world.things["A"].archived = T1
    run(conn, world)
    assert entity_of(conn, "A", "archived_reason") == "status: archivado"
    do(conn, "update entities set archived_reason = null where name = 'A'")
    unchanged(conn, world)


def test_only_the_last_activity_moved(conn: Any, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", entity("A", "x", lastActivityAt=T1))
    run(conn, path)
    write_lines(path, entity("A", "x", lastActivityAt=T2))
    file = first(conn, path)
    assert (file.entities.updated, file.changed) == (1, True)
    assert entity_of(conn, "A", "last_activity_at") == T2
    write_lines(path, entity("A", "x", lastActivityAt=T1))
    assert not first(conn, path).changed
    assert entity_of(conn, "A", "last_activity_at") == T2
    unchanged(conn, path)


def test_an_entity_that_was_renamed_here(conn: Any, world: World) -> None:
    run(conn, world)
    do(conn, "update entities set name = 'New name' where name = 'A'")
    unchanged(conn, world)
    world.add("A", "a three")
    world.links[("C", "A", "uses")] = None
    if world.format in (MCP, FULL):
        world.counts["A"] = 4
    file = first(conn, world)
    assert (file.entities.created, file.entities.merged) == (0, 3)
    assert (file.observations.added, file.relations.created) == (1, 1)
    assert list(texts(conn, "New name"))[-1] == world.said("a three")
    assert end_of(conn, "C", "New name") is None
    assert entity_of(conn, "A") is None
    if world.format in (MCP, FULL):
        assert one(conn, "select access_count from entity_access natural join (select id as"
                   " entity_id from entities where name = 'New name')") == 4  # fmt: skip
    unchanged(conn, world)


def test_the_old_name_given_to_another(conn: Any, world: World) -> None:
    run(conn, world)
    do(conn, "update entities set name = 'New name' where name = 'A'")
    do(conn, "insert into entities(name, entity_type) values ('A', 'Another')")
    world.add("A", "a three")
    first(conn, world)
    assert list(texts(conn, "New name"))[-1] == world.said("a three")
    assert texts(conn, "A") == {}
    unchanged(conn, world)


def test_an_entity_that_was_deleted_here(conn: Any, world: World) -> None:
    run(conn, world)
    do(conn, "delete from entities where name = 'A'")
    file = unchanged(conn, world).files[0]
    assert (file.entities.removed_here, file.entities.merged) == (1, 2)
    assert (file.observations.removed_here, file.observations.already_there) == (2, 1)
    assert (file.relations.removed_here, file.relations.merged) == (1, 1)
    world.add("A", "a three")
    file = first(conn, world)
    assert not file.changed
    assert file.observations.removed_here == 3
    assert entity_of(conn, "A") is None
    unchanged(conn, world)


def test_an_entity_deleted_here_and_made_again_here(conn: Any, world: World) -> None:
    run(conn, world)
    do(conn, "delete from entities where name = 'A'")
    do(conn, "insert into entities(name, entity_type) values ('A', 'T')")
    world.add("A", "a three")
    file = first(conn, world)
    assert (file.entities.merged, file.observations.removed_here) == (3, 2)
    assert list(texts(conn, "A")) == [world.said("a three")]
    unchanged(conn, world)


# observations ---------------------------------------------------------------------------------


def test_an_observation_that_was_deleted_here(conn: Any, world: World) -> None:
    run(conn, world)
    do(conn, "delete from observations where content = ?", world.said("a one"))
    file = unchanged(conn, world).files[0]
    assert (file.observations.removed_here, file.observations.already_there) == (1, 2)
    kept = world.things["A"].texts
    del kept["a one"]
    unchanged(conn, world, same=False)
    kept["a one"] = Fact()
    assert first(conn, world).observations.removed_here == 1
    assert list(texts(conn, "A")) == [world.said("a two")]


def test_an_observation_that_was_edited_here(conn: Any, world: World) -> None:
    run(conn, world)
    do(conn, "update observations set content = 'mine' where content = ?", world.said("a one"))
    assert unchanged(conn, world).files[0].observations.removed_here == 1
    assert list(texts(conn, "A")) == ["mine", world.said("a two")]


def test_a_split_made_here(conn: Any, world: World) -> None:
    run(conn, world)
    do(conn, "insert into entities(name, entity_type) values ('A part', 'T')")
    do(
        conn,
        "update observations set entity_id = (select id from entities where name = 'A part')"
        " where content = ?",
        world.said("a one"),
    )
    world.add("A", "a three")
    file = first(conn, world)
    assert (file.observations.added, file.observations.removed_here) == (1, 1)
    assert list(texts(conn, "A part")) == [world.said("a one")]
    unchanged(conn, world)


@pytest.mark.parametrize("kind", [MCP, FULL])
def test_one_of_two_copies_deleted_here(conn: Any, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "source"
    if kind == MCP:
        rows = [{"entity_id": 1, "content": "same"}, {"entity_id": 1, "content": "same"}]
        make(path, {"entities": [{"id": 1, "name": "A"}], "observations": rows})
    else:
        world = World(FULL, path)
        world.add("A", "same")
        lines = world.write().read_text(encoding="utf-8").split("\n")
        at = next(i for i, line in enumerate(lines) if '"same"' in line)
        again = json.loads(lines[at])
        again["row"]["id"] += 1
        path.write_text("\n".join([*lines[: at + 1], json.dumps(again), *lines[at + 1 :]]))
    assert first(conn, path).observations.added == 2
    unchanged(conn, path)
    do(conn, "delete from observations where id = (select max(id) from observations)")
    file = unchanged(conn, path).files[0]
    assert (file.observations.already_there, file.observations.removed_here) == (1, 1)


@pytest.mark.parametrize("kind", [JSONL, MCP, FULL])
def test_superseded_later_there(conn: Any, tmp_path: Path, kind: str) -> None:
    world = a_world(kind, tmp_path / "source")
    run(conn, world)
    do(conn, "delete from limbic_stale")
    world.things["A"].texts["a one"].ended = T2
    file = first(conn, world)
    assert (file.observations.updated, file.entities.updated) == (1, 1)
    assert texts(conn, "A") == {"a one": T2, "a two": None}
    assert one(conn, "select count(*) from limbic_stale") == 2
    do(conn, "update observations set valid_to = null where content = 'a one'")
    unchanged(conn, world)
    world.things["A"].texts["a one"].ended = T3  # still over there, whatever the date is
    assert not first(conn, world).changed


@pytest.mark.parametrize("kind", [JSONL, MCP, FULL])
def test_superseded_no_more_there(conn: Any, tmp_path: Path, kind: str) -> None:
    world = a_world(kind, tmp_path / "source")
    world.things["A"].texts["a one"].ended = T2
    run(conn, world)
    do(conn, "delete from limbic_stale")
    world.things["A"].texts["a one"].ended = None
    file = first(conn, world)
    # a line that leaves something out does not take it back
    assert file.observations.updated == (kind != JSONL)
    assert texts(conn, "A")["a one"] == (T2 if kind == JSONL else None)
    assert one(conn, "select count(*) from limbic_stale") == (0 if kind == JSONL else 2)
    unchanged(conn, world)
    do(conn, "update observations set valid_to = ? where content = 'a one'", T3)
    unchanged(conn, world)


def test_each_copy_of_a_text_has_its_own_end(conn: Any, tmp_path: Path) -> None:
    path = tmp_path / "source"

    def write(*ends: str | None) -> Path:
        path.unlink(missing_ok=True)
        rows = [{"entity_id": 1, "content": "same", "superseded_at": end} for end in ends]
        return make(path, {"entities": [{"id": 1, "name": "A"}], "observations": rows})

    for ends in ([None, T1], [T2, T1], [T2, T1, None], [T2, T1, T3]):
        run(conn, write(*ends))
        found = conn.execute("select valid_to from observations order by id").fetchall()
        assert [end for (end,) in found] == ends
        unchanged(conn, path)


@pytest.mark.parametrize("kind", [JSONL, MCP, FULL])
def test_a_flag_that_was_raised_there(conn: Any, tmp_path: Path, kind: str) -> None:
    world = a_world(kind, tmp_path / "source")
    run(conn, world)
    world.things["A"].texts["a one"].flag = 1
    assert first(conn, world).observations.updated == 1
    flag = "select similarity_flag from observations where content = 'a one'"
    assert one(conn, flag) == 1
    do(conn, "update observations set similarity_flag = 0")
    unchanged(conn, world)
    assert one(conn, flag) == 0


def test_a_flag_that_was_raised_there_and_here(conn: Any, tmp_path: Path) -> None:
    world = a_world(MCP, tmp_path / "source")
    run(conn, world)
    world.things["A"].texts["a one"].flag = 1
    do(conn, "update observations set similarity_flag = 1 where content = 'a one'")
    file = first(conn, world)
    assert (file.observations.updated, file.changed) == (0, False)


@pytest.mark.parametrize("column", ["kind", "created_at", "valid_from"])
def test_what_a_person_made_unknown_stays_unknown(conn: Any, tmp_path: Path, column: str) -> None:
    text = {"text": "x", "kind": "fact", "timestamp": T1, "validFrom": T1}
    path = write_lines(tmp_path / "a.jsonl", entity("A", text))
    run(conn, path)
    do(conn, f"update observations set {column} = null")
    unchanged(conn, path)
    write_lines(path, entity("A", "x"))
    unchanged(conn, path, same=False)


def test_who_replaces_whom_is_said_once(conn: Any, tmp_path: Path) -> None:
    path = tmp_path / "source"
    rows = [{"id": 1, "entity_id": 1, "content": "old"}]
    rows += [{"id": 2, "entity_id": 1, "content": "new", "supersedes": 1, "created_at": T2}]
    make(path, {"entities": [{"id": 1, "name": "A"}], "observations": rows})
    run(conn, path)
    assert texts(conn, "A") == {"old": T2, "new": None}
    assert one(conn, "select supersedes from observations where content = 'new'") == 1
    unchanged(conn, path)
    do(conn, "update observations set supersedes = null")
    unchanged(conn, path)
    rows += [{"id": 3, "entity_id": 1, "content": "newest", "supersedes": 2, "created_at": T3}]
    path.unlink()
    make(path, {"entities": [{"id": 1, "name": "A"}], "observations": rows})
    file = first(conn, path)
    assert (file.observations.added, file.observations.updated) == (1, 1)
    assert texts(conn, "A") == {"old": T2, "new": T3, "newest": None}
    sql = "select o.content from observations n join observations o on o.id = n.supersedes"
    assert conn.execute(sql).fetchall() == [("new",)]
    unchanged(conn, path)


# relations ------------------------------------------------------------------------------------

LINK = ("A", "B", "uses")


@pytest.mark.parametrize("kind", [JSONL, MCP, FULL])
@pytest.mark.parametrize(
    ("there", "here", "expected", "counted"),
    [
        ([None, T2], "as it came", T2, "updated"),
        ([T1, None], "as it came", None, "reopened"),
        ([None, None], T3, T3, None),
        ([T1, T1], None, None, None),
        ([T1, T2], "as it came", T1, None),
        ([None, T2], T3, T3, None),
        ([None, T2, None], T3, None, "reopened"),
        ([T1, None], None, None, None),
    ],
)
def test_relations_that_end_there_and_here(
    conn: Any, tmp_path: Path, kind: str, there: Any, here: Any, expected: Any, counted: Any
) -> None:
    world = a_world(kind, tmp_path / "source")
    world.links[LINK] = there[0]
    run(conn, world)
    if here != "as it came":
        do(conn, "update relations set valid_to = ? where from_entity = 2", here)
    for end in there[1:]:
        world.links[LINK] = end
        file = first(conn, world)
    assert end_of(conn, "A", "B") == expected
    figures = {name: getattr(file.relations, name) for name in ("updated", "reopened")}
    assert figures == {
        "updated": int(counted is not None),
        "reopened": int(counted == "reopened"),
    }
    unchanged(conn, world)


def test_a_relation_that_was_deleted_here(conn: Any, world: World) -> None:
    run(conn, world)
    do(conn, "delete from relations where to_entity = (select id from entities where name = 'B')")
    file = unchanged(conn, world).files[0]
    assert (file.relations.removed_here, file.relations.merged) == (1, 1)
    world.links[("A", "B", "knows")] = None
    assert first(conn, world).relations.created == 1
    assert end_of(conn, "A", "B") == "none"
    unchanged(conn, world)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([None, T1], [None, T1, None], None),
        ([T1, None], [T1, None, T2], T2),
        ([None], [T1, None], None),
        ([None], [None, T1], T1),
        ([T1], [None, T2], T1),
        ([None, T1], [None], None),
    ],
)
def test_of_several_lines_on_a_relation_the_last_one_counts(
    conn: Any, tmp_path: Path, before: Any, after: Any, expected: Any
) -> None:
    def write(ends: list[Any]) -> Path:
        lines = [relation("A", "B", **({"validTo": end} if end else {})) for end in ends]
        return write_lines(tmp_path / "a.jsonl", entity("A"), entity("B"), *lines)

    run(conn, write(before))
    assert end_of(conn, "A", "B") == before[-1]
    unchanged(conn, write(before))
    file = first(conn, write(after))
    assert end_of(conn, "A", "B") == expected
    assert file.relations.updated == (expected != before[-1])
    unchanged(conn, write(after))
    other = None if expected else T3
    do(conn, "update relations set valid_to = ?", other)
    unchanged(conn, write(after))


def test_legacy_types_of_relations(conn: Any, tmp_path: Path) -> None:
    path = tmp_path / "source"
    entities = [{"id": 1, "name": "A"}, {"id": 2, "name": "B"}]
    ends = {"from_entity": 1, "to_entity": 2}
    make(path, {"entities": entities, "relations": [{**ends, "relation_type": "continua"}]})
    run(conn, path)
    rows = [{**ends, "relation_type": kind} for kind in ("continua", "contribuye_a")]
    path.unlink()
    make(path, {"entities": entities, "relations": rows})
    file = unchanged(conn, path).files[0]
    assert (file.relations.merged, file.relations.created) == (2, 0)
    path.unlink()
    make(path, {"entities": entities, "relations": rows[1:]})
    assert unchanged(conn, path).files[0].relations.gone == 0
    do(conn, "delete from relations")
    assert unchanged(conn, path).files[0].relations.removed_here == 1


# counts ---------------------------------------------------------------------------------------


def counted(world: World) -> World:
    world.counts["A"] = 43
    world.pairs[("B", "A")] = 5
    return world


def figures(conn: Any) -> tuple[Any, Any]:
    """The count of A, and of the pair of A and B."""
    return (
        one(conn, "select access_count from entity_access where entity_id = 2"),
        one(conn, "select co_count from co_occurrences where entity_a_id = 2"),
    )


@pytest.mark.parametrize("kind", [MCP, FULL])
def test_counts_grow_by_what_is_new(conn: Any, tmp_path: Path, kind: str) -> None:
    world = counted(a_world(kind, tmp_path / "source"))
    run(conn, world)
    do(conn, "update entity_access set access_count = access_count + 10, last_access = ?", T3)
    do(conn, "update co_occurrences set co_count = co_count + 10")
    unchanged(conn, world)
    world.counts["A"], world.pairs[("B", "A")] = 50, 8
    file = first(conn, world)
    assert (file.access_counts.updated, file.co_occurrences.updated) == (1, 1)
    assert figures(conn) == (60, 18)
    assert one(conn, "select last_access from entity_access") == T3
    unchanged(conn, world)


@pytest.mark.parametrize("kind", [MCP, FULL])
def test_counts_that_went_down_there(conn: Any, tmp_path: Path, kind: str) -> None:
    world = counted(a_world(kind, tmp_path / "source"))
    run(conn, world)
    for number in (2, 43, 44):
        world.counts["A"] = number
        run(conn, world)
    assert figures(conn) == (44, 5)
    unchanged(conn, world)


@pytest.mark.parametrize("kind", [MCP, FULL])
def test_counts_that_were_set_back_here(conn: Any, tmp_path: Path, kind: str) -> None:
    world = counted(a_world(kind, tmp_path / "source"))
    run(conn, world)
    do(conn, "update entity_access set access_count = 0")
    do(conn, "delete from co_occurrences")
    assert unchanged(conn, world).files[0].co_occurrences.removed_here == 1
    world.counts["A"] = 50
    run(conn, world)
    assert figures(conn) == (7, None)
    unchanged(conn, world)


def test_a_copy_of_the_source_elsewhere_does_not_double(conn: Any, tmp_path: Path) -> None:
    worlds = [counted(a_world(MCP, tmp_path / name)) for name in ("source", "copy")]
    run(conn, worlds[0])
    unchanged(conn, worlds[1].write(), worlds[0].path, same=False)
    assert figures(conn) == (43, 5)


def test_a_log_with_one_row_a_day(conn: Any, tmp_path: Path) -> None:
    world = counted(a_world(MCP, tmp_path / "source"))
    world.days[("A", "2025-03-01")] = 1
    run(conn, world)
    world.days[("A", "2025-03-01")] = 4
    world.days[("A", "2025-03-02")] = 1
    world.counts["A"] = 47
    file = first(conn, world)
    assert (file.access_log.added, file.access_log.already_there) == (1, 1)
    assert one(conn, "select count(*) from entity_access_log") == 2
    assert figures(conn) == (47, 5)
    unchanged(conn, world)


def test_a_count_that_is_given_twice(conn: Any, tmp_path: Path) -> None:
    path = tmp_path / "source"
    rows = [{"entity_id": 1, "access_count": n, "last_access": T1} for n in (5, 7)]
    make(path, {"entities": [{"id": 1, "name": "A"}], "entity_access": rows})
    run(conn, path)
    assert one(conn, "select access_count from entity_access") == 7
    unchanged(conn, path)


def test_accesses_of_entities_that_another_file_describes(conn: Any, tmp_path: Path) -> None:
    things = write_lines(tmp_path / "a.jsonl", entity("A"), entity("B"), relation("A", "C"))
    used = write_lines(
        tmp_path / "b.jsonl", entity("C"), access("q", T1, "A", "B"), relation("C", "A")
    )
    assert run(conn, things, used).rejects == 0
    unchanged(conn, things, used)
    unchanged(conn, used, things)
    do(conn, "update entities set name = 'New name' where name = 'A'")
    do(conn, "delete from entities where name = 'B'")
    assert unchanged(conn, things, used).rejects == 0
    # alone too, and whoever is missing is not made again
    file = unchanged(conn, used, create_missing=True).files[0]
    assert (file.access.already_there, file.access.removed_here) == (1, 1)
    assert (file.relations.merged, file.stubs) == (1, 0)
    assert entity_of(conn, "A") is None


# several lines, several files -----------------------------------------------------------------


def test_several_lines_of_one_name(conn: Any, tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "a.jsonl",
        entity("A", "x", "y"),
        entity("A", "x", "z", entityType="U", archivedAt=T1, archivedReason="over"),
        entity("A", "z", {"text": "x", "validTo": T1}, validTo=T2),
    )
    run(conn, path)
    expected = ("T", T1, "over", T2)
    columns = "entity_type, archived_at, archived_reason, valid_to"
    assert entity_of(conn, "A", columns) == expected
    file = unchanged(conn, path).files[0]
    assert (file.entities.merged, file.observations.already_there) == (3, 6)
    assert texts(conn, "A") == {"x": T1, "y": None, "z": None}


@pytest.mark.parametrize(
    "edit",
    [
        "update entities set archived_at = null, archived_reason = null",
        "update entities set valid_to = null",
        "update entities set entity_type = 'Generic'",
        "update entities set entity_type = 'Mine'",
        "update observations set valid_to = null",
        "delete from observations where content = 'x'",
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_what_a_person_did_stays_whichever_line_says_otherwise(
    conn: Any, tmp_path: Path, edit: str, turned: bool
) -> None:
    lines = [
        entity("A", {"text": "x", "validTo": T1}),
        entity("A", "x", "z", entityType="U", archivedAt=T1, archivedReason="over", validTo=T2),
        entity("A", "x", entityType="Generic"),
    ]
    path = write_lines(tmp_path / "a.jsonl", *(reversed(lines) if turned else lines))
    run(conn, path)
    do(conn, edit)
    unchanged(conn, path)
    lines.append(entity("A", "new", archivedAt=T1))
    write_lines(path, *(reversed(lines) if turned else lines))
    assert first(conn, path).observations.added == 1
    unchanged(conn, path)


def test_two_sources_of_one_entity_do_not_flap(conn: Any, tmp_path: Path) -> None:
    one_world, other = (a_world(MCP, tmp_path / name) for name in ("one", "other"))
    other.things["A"].kind = "U"
    other.things["A"].archived = T1
    other.things["A"].texts["a one"].ended = T2
    other.links[LINK] = T2
    run(conn, one_world)
    run(conn, other)
    assert entity_of(conn, "A", "entity_type, archived_at") == ("T", T1)
    for world in (one_world, other, one_world):
        unchanged(conn, world)
    unchanged(conn, one_world.path, other.path)
    unchanged(conn, other.path, one_world.path)
    one_world.things["A"].kind = "V"
    run(conn, one_world)
    assert entity_of(conn, "A") == "V"
    unchanged(conn, other)


def test_the_same_file_twice_at_once(conn: Any, world: World) -> None:
    if world.format in (MCP, FULL):
        counted(world)
    path = world.write()
    summary = run(conn, path, path)
    assert [file.changed for file in summary.files] == [True, False]
    unchanged(conn, path, path)
    world.add("A", "a three")
    if world.format in (MCP, FULL):
        world.counts["A"] = 50
    summary = run(conn, world, path)
    assert [file.observations.added for file in summary.files] == [1, 0]
    assert all(file.observations.gone == 0 for file in summary.files)
    if world.format in (MCP, FULL):
        assert figures(conn) == (50, 5)
    unchanged(conn, path)


def test_stubs_that_were_deleted_or_renamed_here(conn: Any, tmp_path: Path) -> None:
    rows = [entity("A"), relation("A", "B"), relation("A", "C"), relation("A", "D")]
    path = write_lines(tmp_path / "a.jsonl", *rows)
    assert first(conn, path, create_missing=True).stubs == 3
    do(conn, "delete from entities where name = 'B'")
    do(conn, "update entities set name = 'New name' where name = 'C'")
    file = unchanged(conn, path, create_missing=True).files[0]
    assert (file.relations.removed_here, file.relations.merged) == (1, 2)
    assert (file.stubs, file.entities.gone) == (0, 0)
    # described at last, it is no stub any more
    write_lines(path, *rows, entity("B", "b"), entity("C", "c"), entity("D", "d"))
    file = first(conn, path, create_missing=True)
    assert (file.entities.created, file.observations.added) == (1, 3)
    assert graph(conn)[0].items() >= {"B": ["b"], "New name": ["c"], "D": ["d"]}.items()
    unchanged(conn, path, create_missing=True)


def test_forgetting_what_was_read_changes_nothing(
    conn: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(40):
        world.add(f"E{n}", f"e {n}", f"f {n}")
    run(conn, world)
    monkeypatch.setattr(baseline, "_REMEMBERED", 3)
    monkeypatch.setattr(baseline, "_BATCH", 7)
    assert unchanged(conn, world).files[0].observations.gone == 0
    del world.things["E3"].texts["e 3"]
    world.add("E5", "new")
    file = first(conn, world)
    assert (file.observations.added, file.observations.gone) == (1, 1)
    do(conn, "delete from observations where content = ?", world.said("f 9"))
    assert unchanged(conn, world).files[0].observations.removed_here == 1


def test_lines_of_one_name_far_apart(
    conn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"E{n}" for n in range(20)]
    path = write_lines(
        tmp_path / "a.jsonl",
        *(entity(name, "x") for name in names),
        *(entity(name, "y", archivedAt=T1) for name in names),
    )
    run(conn, path)
    monkeypatch.setattr(baseline, "_REMEMBERED", 3)
    do(conn, "update entities set archived_at = null, archived_reason = null where id % 2")
    do(conn, "delete from observations where entity_id % 3 = 0 and content = 'y'")
    file = unchanged(conn, path).files[0]
    assert (file.observations.gone, file.observations.removed_here) == (0, 7)


# insights -------------------------------------------------------------------------------------


def finding(key: str, label: str = "Insight", **properties: Any) -> dict[str, Any]:
    given = {"source_query": "stale_knowledge", "engrama_id": f"id of {key}", "body": "text"}
    return node(key, label, **{**given, **properties})


def judged(conn: Any) -> Any:
    return conn.execute("select title, body, status from limbic_insights order by id").fetchall()


def test_insights_that_were_judged_here(conn: Any, tmp_path: Path) -> None:
    path = tmp_path / "export.ndjson"
    write_lines(path, ENVELOPE, finding("one"), finding("two"), finding("three"))
    assert first(conn, path).insights.added == 3
    unchanged(conn, path)
    do(conn, "update limbic_insights set status = 'dismissed' where title = 'one'")
    do(conn, "delete from limbic_insights where title = 'three'")
    file = unchanged(conn, path).files[0]
    assert (file.insights.already_there, file.insights.removed_here) == (2, 1)
    rows = [finding(key, body="other") for key in ("one", "two", "three")]
    write_lines(path, ENVELOPE, *rows)
    file = first(conn, path)
    counts = file.insights
    assert (counts.already_there, counts.updated, counts.removed_here) == (1, 1, 1)
    assert judged(conn) == [("one", "text", "dismissed"), ("two", "other", "pending")]
    unchanged(conn, path)


def test_an_insight_that_was_judged_there(conn: Any, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "export.ndjson", ENVELOPE, finding("one", status="pending"))
    run(conn, path)
    write_lines(path, ENVELOPE, finding("one", status="approved", approved_at=T2))
    assert first(conn, path).insights.updated == 1
    assert one(conn, "select status, judged_at from limbic_insights") == ("approved", T2)
    unchanged(conn, path)
    # taken back here: the source says nothing new
    do(conn, "update limbic_insights set status = 'pending', judged_at = null")
    unchanged(conn, path)


def test_a_node_that_became_an_insight(conn: Any, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "export.ndjson", ENVELOPE, node("one", "Insight", body="text"))
    assert first(conn, path).insights.rows == 0
    write_lines(path, ENVELOPE, finding("one"))
    assert first(conn, path).insights.added == 1
    unchanged(conn, path)


def test_two_exports_of_one_insight_do_not_flap(conn: Any, tmp_path: Path) -> None:
    old = write_lines(tmp_path / "old.ndjson", ENVELOPE, finding("one", body="old"))
    new = write_lines(tmp_path / "new.ndjson", ENVELOPE, finding("one", body="new"))
    run(conn, old)
    run(conn, new)
    for path in (old, new, old):
        unchanged(conn, path)
    assert judged(conn)[0][1] == "new"


# Engrama --------------------------------------------------------------------------------------


def test_notes_that_were_replaced(conn: Any, tmp_path: Path) -> None:
    path = tmp_path / "export.ndjson"

    def write(notes: str, *more: Any) -> Path:
        return write_lines(path, ENVELOPE, *more, node("A", notes=notes, updated_at=T2, seats=3))

    run(conn, write("first"))
    # new nodes wait to be written while this one changes
    file = first(conn, write("second", node("New", notes="n")))
    assert (file.observations.replaced, file.observations.added) == (1, 2)
    assert texts(conn, "A") == {"first": T2, "seats: 3": None, "second": None}
    unchanged(conn, path)
    do(conn, "update observations set valid_to = null where content = 'first'")
    unchanged(conn, path)
    assert texts(conn, "A")["first"] is None


def test_notes_that_became_what_they_were(conn: Any, tmp_path: Path) -> None:
    path = tmp_path / "export.ndjson"
    for notes in ("first", "second", "first"):
        write_lines(path, ENVELOPE, node("A", notes=notes, updated_at=T2))
        file = first(conn, path)
    assert texts(conn, "A") == {"first": None, "second": T2}
    assert (file.observations.replaced, file.observations.updated) == (1, 1)
    unchanged(conn, path)


def test_notes_that_a_person_edited(conn: Any, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "export.ndjson", ENVELOPE, node("A", notes="first"))
    run(conn, path)
    do(conn, "update observations set content = 'mine'")
    unchanged(conn, path)
    write_lines(path, ENVELOPE, node("A", notes="second"))
    file = first(conn, path)
    assert (file.observations.replaced, file.observations.added) == (0, 1)
    assert texts(conn, "A") == {"mine": None, "second": None}
    unchanged(conn, path)


def test_a_property_that_vanished(conn: Any, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "export.ndjson", ENVELOPE, node("A", notes="x", seats=3))
    run(conn, path)
    write_lines(path, ENVELOPE, node("A", notes="x"))
    file = first(conn, path)
    assert (file.observations.gone, file.changed) == (1, False)
    assert texts(conn, "A") == {"x": None, "seats: 3": None}
    unchanged(conn, path)


def test_a_name_that_becomes_shared(conn: Any, tmp_path: Path) -> None:
    path = tmp_path / "export.ndjson"
    write_lines(path, ENVELOPE, node("Acequia", "Project", notes="p"))
    run(conn, path)
    nodes = [node("Acequia", "Concept", notes="c"), node("Acequia", "Project", notes="p", seats=1)]
    link = {"type": "relation", "rel_type": "IS"}
    link |= {"from_label": "Project", "from_key": "name", "from_value": "Acequia"}
    link |= {"to_label": "Concept", "to_key": "name", "to_value": "Acequia"}
    write_lines(path, ENVELOPE, *nodes, link)
    file = first(conn, path)
    assert (file.entities.created, file.entities.merged) == (1, 1)
    assert list(texts(conn, "Acequia")) == ["p", "seats: 1"]
    assert list(texts(conn, "Acequia (Concept)")) == ["c"]
    assert end_of(conn, "Acequia", "Acequia (Concept)", "IS") is None
    unchanged(conn, path)
    write_lines(path, ENVELOPE, nodes[0])
    file = first(conn, path)
    assert (file.entities.created, file.entities.gone, file.changed) == (0, 1, False)
    write_lines(path, ENVELOPE, nodes[1])
    assert first(conn, path).entities.created == 0
    unchanged(conn, path)


def test_two_exports_in_one_file(conn: Any, tmp_path: Path) -> None:
    old = [ENVELOPE, node("A", notes="old", updated_at=T1), node("B", valid_to=T1)]
    new = node("A", notes="new", status="archived", archived_at=T2)
    new_b = node("B", seats=1)
    path = write_lines(tmp_path / "export.ndjson", *old, ENVELOPE, new, new_b)
    run(conn, path)
    assert entity_of(conn, "A", "archived_at") == T2
    unchanged(conn, path)
    assert texts(conn, "A") == {"old": None, "new": None}
    write_lines(path, ENVELOPE, new, new_b)
    file = first(conn, path)
    assert (file.observations.replaced, file.entities.updated) == (1, 2)
    assert list(texts(conn, "A").values())[1] is None
    assert entity_of(conn, "B", "valid_to") is None
    unchanged(conn, path)


# bringing back --------------------------------------------------------------------------------


def test_restoring_brings_back_what_was_removed_and_only_that(conn: Any, world: World) -> None:
    has_counts = world.format in (MCP, FULL)
    if has_counts:
        counted(world)
    world.add("D", "d one", archived=T1)
    run(conn, world)
    do(conn, "delete from entities where name = 'B'")
    do(conn, "delete from observations where content = ?", world.said("a one"))
    do(conn, "update entities set name = 'New name', entity_type = 'Mine' where name = 'C'")
    do(conn, "update entities set archived_at = null where name = 'D'")
    do(conn, "update observations set valid_to = ? where content = ?", T3, world.said("a two"))
    if has_counts:
        do(conn, "update entity_access set access_count = 53")
        world.counts["A"] = 50
    file = first(conn, world, restore_removed=True)
    assert (file.entities.created, file.entities.merged) == (1, 3)
    assert (file.observations.added, file.observations.already_there) == (2, 2)
    assert (file.relations.created, file.relations.merged) == (2, 0)
    assert entity_of(conn, "New name") == "Mine"
    assert entity_of(conn, "D", "archived_at") is None
    assert texts(conn, "A") == {world.said("a two"): T3, world.said("a one"): None}
    assert list(texts(conn, "B")) == [world.said("b one")]
    if has_counts:
        assert one(conn, "select access_count from entity_access") == 60
        assert one(conn, "select co_count from co_occurrences") == 5
    file = unchanged(conn, world).files[0]
    assert (file.entities.gone, file.observations.gone, file.relations.gone) == (0, 0, 0)
    unchanged(conn, world, restore_removed=True)


def test_restoring_leaves_what_ended_here(conn: Any, world: World) -> None:
    run(conn, world)
    do(conn, "update relations set valid_to = ?", T3)
    unchanged(conn, world, restore_removed=True)
    do(conn, "delete from relations")
    assert first(conn, world, restore_removed=True).relations.created == 2


def test_restoring_insights(conn: Any, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "export.ndjson", ENVELOPE, finding("one"), finding("two"))
    run(conn, path)
    do(conn, "delete from limbic_insights where title = 'one'")
    do(conn, "update limbic_insights set status = 'dismissed'")
    assert first(conn, path, restore_removed=True).insights.added == 1
    assert [row[2] for row in judged(conn)] == ["dismissed", "pending"]
    unchanged(conn, path)


# tables that were taken over ------------------------------------------------------------------


@pytest.fixture
def adopted(tmp_path: Path) -> Any:
    conn = connection.connect(tmp_path / "adopted.db", create=True)
    conn.execute("create table entities(id integer primary key, name text not null unique)")
    schema.init(conn)
    yield conn
    conn.close()


@pytest.mark.parametrize("maker", ["import", "person"])
def test_an_id_that_is_given_anew(adopted: Any, tmp_path: Path, maker: str) -> None:
    world = World(MCP, tmp_path / "source")
    world.add("A", "a")
    world.add("B", "b")
    world.links[("B", "A", "uses")] = None
    world.counts["B"] = 43
    world.pairs[("A", "B")] = 5
    run(adopted, world)
    do(adopted, "delete from entities where name = 'B'")
    if maker == "person":
        do(adopted, "insert into entities(name) values ('N')")
    world.add("N", "n")
    world.links[("N", "A", "uses")] = None
    world.counts["N"] = 3
    world.pairs[("A", "N")] = 2
    file = first(adopted, world)
    assert one(adopted, "select id from entities where name = 'N'") == 2
    assert (file.entities.removed_here, file.relations.removed_here) == (1, 1)
    assert (file.relations.created, file.observations.added) == (1, 1)
    assert graph(adopted) == ({"A": ["a"], "N": ["n"]}, {("N", "A", "uses")})
    assert one(adopted, "select access_count from entity_access") == 3
    assert one(adopted, "select co_count from co_occurrences") == 2
    unchanged(adopted, world)
    do(adopted, "delete from relations")
    file = unchanged(adopted, world).files[0]
    assert (file.relations.removed_here, file.entities.removed_here) == (2, 1)


def test_order_of_ids_of_a_pair(conn: Any, tmp_path: Path) -> None:
    do(conn, "insert into entities(name, entity_type) values ('B', 'T')")
    world = counted(a_world(MCP, tmp_path / "source"))
    run(conn, world)
    sql = "select a.name, b.name, co_count from co_occurrences join entities a"
    sql += " on a.id = entity_a_id join entities b on b.id = entity_b_id"
    assert conn.execute(sql).fetchall() == [("B", "A", 5)]
    unchanged(conn, world)
    world.pairs[("B", "A")] = 6
    assert first(conn, world).co_occurrences.updated == 1
    unchanged(conn, world)


def test_a_change_of_what_is_known_alone_is_kept(conn: Any, world: World) -> None:
    """What is here already may be new in the source: deleted later, it must stay away."""
    do(conn, "insert into observations(entity_id, content) values (1, ?)", world.said("x"))
    run(conn, world)
    world.things["Here"] = world.add("Here", "x")
    world.things["Here"].kind = "Ours"
    run(conn, world)
    do(conn, "delete from observations where content = ?", world.said("x"))
    assert unchanged(conn, world).files[0].observations.removed_here == 1
    assert dump(conn)


@pytest.mark.parametrize("log", ["whole", "pruned", "one row pruned"])
def test_uses_count_once_whatever_became_of_the_log(tmp_path: Path, log: str) -> None:
    conn = fresh_memory(tmp_path / "memory.db")
    rows = [
        entity("A"),
        entity("B"),
        *(
            {"type": "access", "accessedAt": f"2026-01-0{n}", "entities": ["A", "B"]}
            for n in (1, 2)
        ),
    ]
    path = write_lines(tmp_path / "memory.jsonl", *rows)
    run(conn, path)
    if log != "whole":
        do(conn, f"delete from entity_access_log where {'id = 1' if 'one' in log else '1'}")
    unchanged(conn, path)
    counts = "select group_concat(access_count) from entity_access"
    assert one(conn, counts) == "2,2"
    assert one(conn, "select co_count from co_occurrences") == 2
    # a new use is one, also where the older ones are not in the log
    write_lines(path, *rows, access(None, "2026-01-03", "A"))
    file = run(conn, path).files[0]
    assert (file.access.added, one(conn, counts)) == (1, "3,2")
    unchanged(conn, path)
    restored = run(conn, path, restore_removed=True).files[0].access.added
    assert restored == {"whole": 0, "pruned": 4, "one row pruned": 1}[log]
    conn.close()


def test_what_a_row_left_out_for_once_is_still_known(tmp_path: Path) -> None:
    """A JSON row takes nothing back; what it says afterwards counts as a change of the source."""
    conn = fresh_memory(tmp_path / "memory.db")
    path = tmp_path / "memory.jsonl"
    for given, expected in (
        ("2025-02-02", "2025-02-02 00:00:00"),
        ("2025-03-03", "2025-03-03 00:00:00"),
        (None, "2025-03-03 00:00:00"),
        ("2025-04-04", "2025-04-04 00:00:00"),
    ):
        run(conn, write_lines(path, entity("A", **({"validTo": given} if given else {}))))
        assert one(conn, "select valid_to from entities") == expected
        unchanged(conn, path)
    do(conn, "update entities set valid_to = '2025-05-05 00:00:00'")
    run(conn, write_lines(path, entity("A", validTo="2025-06-06")))
    assert one(conn, "select valid_to from entities") == "2025-05-05 00:00:00"
    conn.close()


def test_a_file_that_a_failed_import_made_is_not_taken_from_one_that_waits(tmp_path: Path) -> None:
    """The first one makes the database, fails and takes it away; the second one still comes in."""
    database = tmp_path / "race.db"
    junk = write_lines(tmp_path / "junk.jsonl", *[{"price": n} for n in range(1000)])
    good = write_lines(tmp_path / "good.jsonl", entity("A"))
    begun, waiting = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def hold(_: int) -> None:
        begun.set()
        waiting.wait(10)
        time.sleep(0.3)  # the other one stands before the lock

    def first() -> None:
        try:
            import_files(database, [junk], progress=hold)
        except UnknownFormat as error:
            failed.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(10)
    opened = writing.open_memory

    def open_memory(path: Path) -> Any:
        conn = opened(path)
        waiting.set()
        return conn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "open_memory", open_memory)
        summary = import_files(database, [good])
    thread.join(10)
    assert len(failed) == 1
    assert summary.total("entities", "created") == 1
    conn = connection.connect(database)
    assert one(conn, "select name from entities") == "A"
    conn.close()


def test_confidence_is_belief_and_no_import_changes_it(tmp_path: Path) -> None:
    """Set when a fact is made; old exports hold decayed values. What differs is said."""
    conn = fresh_memory(tmp_path / "memory.db")
    path = tmp_path / "memory.jsonl"
    run(conn, write_lines(path, entity("A", confidence=0.9), entity("B"), entity("C")))
    lines = (entity("A", confidence=0.2), entity("B", confidence=0.3), entity("C", confidence=1.0))
    file = run(conn, write_lines(path, *lines)).files[0]
    assert conn.execute("select confidence from entities").fetchall() == [(0.9,), (1.0,), (1.0,)]
    assert file.as_dict()["warnings"]["kept_confidence"] == 2
    assert "Confidence that differs from what is here, kept as it is here: 2" in summary_text(
        ImportSummary([file])
    )
    conn.close()
