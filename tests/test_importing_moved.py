"""What actions moved or merged away, and files that say it again."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
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
    write_full,
)
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from importing_helpers import entity, one, relation, write_lines
from mcp_v2_helpers import T1, T2

from datasette_limbic.actions.acting import act
from datasette_limbic.errors import LimbicError
from datasette_limbic.importing.moved import Moved
from datasette_limbic.importing.summary import ImportSummary
from datasette_limbic.integrity import check

EXAMPLES = [15, pytest.param(150, marks=pytest.mark.load)]
PLACES = ["same", "other"]
RESTORE = [False, True]


@pytest.fixture(name="conn")
def conn_fixture(tmp_path: Path) -> Iterator[Any]:
    with closing(fresh_memory(tmp_path / "memory.db")) as conn:
        # so that a full export is merged
        do(conn, "insert into entities(name, entity_type) values ('Here', 'T')")
        yield conn


def world_of(kind: str, folder: Path) -> World:
    world = World(kind, folder / "source")
    world.add("Ana", "one", "two", "three")
    world.add("Bea", "four", "five")
    world.add("Cid", "six")
    world.links = {("Ana", "Bea", "uses"): None, ("Cid", "Ana", "knows"): None}
    return world


def id_of(conn: Any, name: str) -> int:
    return int(entity_of(conn, name, "id"))


def observation(conn: Any, text: str) -> int:
    return int(one(conn, "select id from observations where content like ?", f"%{text}"))


def split(conn: Any, parent: str, child: str, *said: str) -> int:
    ids = [observation(conn, text) for text in said]
    return done(conn, "split", entity=parent, children=[{"name": child, "observations": ids}])


def merge_entities(conn: Any, keep: str, *others: str) -> int:
    return done(conn, "merge_entities", keep=keep, others=list(others))


def done(conn: Any, action: str, **arguments: Any) -> int:
    return int(act(conn, action, arguments, embed=False)["change"])


def everything(conn: Any) -> tuple[list[Any], list[Any]]:
    """Who says what, and what relations there are."""
    return (
        conn.execute(
            "select name, content from observations o join entities e on e.id = entity_id"
            " order by 1, 2"
        ).fetchall(),
        conn.execute(
            "select f.name, r.relation_type, t.name from relations r join entities f"
            " on f.id = from_entity join entities t on t.id = to_entity order by 1, 2, 3"
        ).fetchall(),
    )


def elsewhere(world: World, place: str, folder: Path) -> Path:
    """The file where it was, or a copy of it under another path."""
    return world.path if place == "same" else Path(shutil.copy(world.path, folder / "elsewhere"))


@pytest.mark.parametrize("restore", RESTORE)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", FORMATS)
def test_split_and_merged_facts_are_there(
    conn: Any, tmp_path: Path, kind: str, place: str, restore: bool
) -> None:
    world = world_of(kind, tmp_path)
    run(conn, world)
    split(conn, "Ana", "Ana: numbers", "one", "two")
    merge_entities(conn, "Bea", "Ana")
    split(conn, "Bea", "Bea: rest", "three", "five")
    before = everything(conn)
    file = first(conn, elsewhere(world, place, tmp_path), restore_removed=restore)
    assert everything(conn) == before
    counts = file.observations
    assert (counts.added, counts.already_there, counts.removed_here, counts.moved) == (0, 6, 0, 4)
    # one led from the two to themselves, and stays where it was
    links = file.relations
    assert (links.created, links.merged, links.removed_here, links.moved) == (0, 2, 0, 1)
    assert "6 already there, 4 moved here since" in " ".join(file_text(file).split())
    assert file.sent_on == {}


def file_text(file: Any) -> str:
    return ImportSummary([file]).text()


@pytest.mark.parametrize("place", PLACES)
def test_relations_are_followed_over_several_merges(conn: Any, tmp_path: Path, place: str) -> None:
    world = world_of(JSONL, tmp_path)
    world.add("Dan", "seven")
    run(conn, world)
    merge_entities(conn, "Dan", "Ana")
    assert end_of(conn, "Dan", "Bea") is None
    merge_entities(conn, "Cid", "Dan")
    before = everything(conn)
    file = first(conn, elsewhere(world, place, tmp_path), restore_removed=True)
    assert everything(conn) == before
    assert (file.relations.created, file.relations.merged, file.relations.moved) == (0, 2, 2)


def test_what_is_undone_counts_for_nothing(conn: Any, tmp_path: Path) -> None:
    world = world_of(JSONL, tmp_path)
    run(conn, world)
    change = split(conn, "Ana", "Part", "one")
    done(conn, "undo", change=change)
    do(conn, "delete from observations where content = 'one'")
    file = first(conn, world, restore_removed=True)
    assert (file.observations.added, file.observations.moved) == (1, 0)
    assert Moved(conn).touched == set()


def test_an_undo_that_is_undone_stands_again(conn: Any, tmp_path: Path) -> None:
    world = world_of(JSONL, tmp_path)
    run(conn, world)
    undo = done(conn, "undo", change=split(conn, "Ana", "Part", "one"))
    done(conn, "undo", change=undo)
    before = everything(conn)
    assert first(conn, world, restore_removed=True).observations.moved == 1
    assert everything(conn) == before


@pytest.mark.parametrize(
    ("sql", "back"),
    [
        ("delete from observations where content = 'one'", True),
        ("update observations set content = 'mine' where content = 'one'", True),
        ("delete from entities where name = 'Part'", True),
        ("update entities set name = 'Other' where name = 'Part'", False),
        ("update observations set entity_id = 1 where content = 'one'", False),
    ],
)
def test_what_was_done_after_the_move(conn: Any, tmp_path: Path, sql: str, back: bool) -> None:
    """Only a text that is still here, wherever, is there."""
    world = world_of(JSONL, tmp_path)
    run(conn, world)
    split(conn, "Ana", "Part", "one")
    do(conn, sql)
    assert first(conn, world).observations.added == 0
    file = first(conn, world, restore_removed=True)
    assert (file.observations.added, file.observations.moved) == (int(back), int(not back))
    assert ("one" in texts(conn, "Ana")) == back
    assert one(conn, "select count(*) from observations where content = 'one'") == 1
    unchanged(conn, world, restore_removed=True)


def test_what_the_file_changes_of_a_moved_fact_is_taken_over(conn: Any, tmp_path: Path) -> None:
    world = world_of(MCP, tmp_path)
    run(conn, world)
    split(conn, "Ana", "Part", "one")
    merge_entities(conn, "Cid", "Ana")
    world.things["Ana"].texts["one"].ended = T1
    world.links["Ana", "Bea", "uses"] = T2
    do(conn, "delete from limbic_stale")
    file = first(conn, world)
    assert (file.observations.updated, file.relations.updated) == (1, 1)
    assert texts(conn, "Part") == {"one": T1}
    assert end_of(conn, "Cid", "Bea") == T2
    marked = {row[0] for row in conn.execute("select item_id from limbic_stale"
                                             " where collection = 'entities'")}  # fmt: skip
    assert {id_of(conn, "Part"), id_of(conn, "Cid")} <= marked
    assert id_of(conn, "Ana") not in marked
    unchanged(conn, world)
    world.things["Ana"].texts["one"].ended = None
    world.links["Ana", "Bea", "uses"] = None
    run(conn, world)
    assert (texts(conn, "Part"), end_of(conn, "Cid", "Bea")) == ({"one": None}, None)


def test_a_property_with_another_text_ends_the_moved_one(conn: Any, tmp_path: Path) -> None:
    world = World(ENGRAMA, tmp_path / "source")
    write_lines(world.path, ENVELOPE, node("Ana", seat="Oslo", more="x", rest="y"))
    run(conn, world.path)
    split(conn, "Ana", "Part", "Oslo")
    write_lines(world.path, ENVELOPE, node("Ana", seat="Rome", more="x", rest="y"))
    assert first(conn, world.path).observations.replaced == 1
    assert [end is not None for end in texts(conn, "Part").values()] == [True]


def test_moved_facts_that_are_gone_from_the_file(conn: Any, tmp_path: Path) -> None:
    world = world_of(JSONL, tmp_path)
    run(conn, world)
    split(conn, "Ana", "Part", "one")
    merge_entities(conn, "Cid", "Ana")
    del world.things["Ana"].texts["one"]
    del world.links["Ana", "Bea", "uses"]
    file = first(conn, world)
    assert (file.observations.gone, file.relations.gone) == (1, 1)


@pytest.mark.parametrize("kind", [JSONL, MCP, FULL])
def test_what_is_new_of_a_merged_entity_goes_to_the_one_kept(
    conn: Any, tmp_path: Path, kind: str
) -> None:
    world = world_of(kind, tmp_path)
    world.add("Dan", "seven")
    run(conn, world)
    merge_entities(conn, "Bea", "Cid")
    merge_entities(conn, "Dan", "Bea")
    world.add("Cid", "new", "seven")
    world.add("Dan", "new")
    world.links |= {("Cid", "Ana", "helps"): None, ("Cid", "Bea", "near"): None}
    file = first(conn, world)
    assert sorted(texts(conn, "Dan")) == ["five", "four", "new", "seven", "six"]
    assert texts(conn, "Cid") == {}
    assert end_of(conn, "Dan", "Ana", "helps") is None
    # it would lead from the one kept to itself
    assert end_of(conn, "Cid", "Bea", "near") is None
    assert file.observations.added == 1
    assert file.sent_on == {("Cid", "Dan"): 2}
    assert file.as_dict()["warnings"]["sent_on"] == [{"name": "Cid", "kept": "Dan", "count": 2}]
    assert "sent to the one kept (1): Cid → Dan × 2" in file_text(file)
    assert entity_of(conn, "Cid", "archived_at") is not None
    unchanged(conn, world)
    unchanged(conn, world, restore_removed=True)
    assert findings(conn) == {}


def test_both_names_of_one_entity_in_a_file(conn: Any, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", entity("Ana", "one"), entity("Bea", "two"))
    run(conn, path)
    merge_entities(conn, "Ana", "Bea")
    write_lines(path, entity("Ana", "new"), entity("Bea", "new", "newer"), entity("Ana", "newer"))
    assert first(conn, path).observations.added == 2
    assert sorted(texts(conn, "Ana")) == ["new", "newer", "one", "two"]
    assert len(everything(conn)[0]) == 4


def test_an_id_that_is_another_rows_by_now(conn: Any, tmp_path: Path) -> None:
    world = world_of(JSONL, tmp_path)
    run(conn, world)
    number = observation(conn, "one")
    split(conn, "Ana", "Part", "one")
    done(conn, "delete", observations=[number])
    do(conn, "insert into observations(id, entity_id, content) values (?, 1, 'one')", number)
    file = first(conn, world, restore_removed=True)
    assert (file.observations.added, file.observations.moved) == (1, 0)
    assert texts(conn, "Ana").keys() == {"one", "two", "three"}


def test_activity_goes_to_the_one_kept(conn: Any, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", entity("Ana", "one"), entity("Bea", "two"))
    run(conn, path)
    merge_entities(conn, "Ana", "Bea")
    late = "2031-01-01 00:00:00"
    write_lines(path, entity("Ana", "one"), entity("Bea", {"text": "three", "createdAt": late}))
    run(conn, path)
    assert entity_of(conn, "Ana", "last_activity_at") == late


@pytest.mark.parametrize("again", [False, True])
def test_a_merged_entity_that_was_restored_keeps_what_is_new(
    conn: Any, tmp_path: Path, again: bool
) -> None:
    world = world_of(JSONL, tmp_path)
    run(conn, world)
    merge_entities(conn, "Bea", "Cid")
    done(conn, "restore", entity="Cid")
    if again:  # for another reason
        do(conn, "update entities set archived_at = ? where name = 'Cid'", T1)
    world.add("Cid", "new")
    file = first(conn, world)
    assert (texts(conn, "Cid"), file.sent_on) == ({"new": None}, {})
    assert file.observations.moved == 1


def test_a_deleted_entity_comes_back_without_what_moved(conn: Any, tmp_path: Path) -> None:
    world = world_of(JSONL, tmp_path)
    run(conn, world)
    split(conn, "Ana", "Part", "one")
    merge_entities(conn, "Bea", "Cid")
    do(conn, "delete from entities where name in ('Ana', 'Cid')")
    file = first(conn, world, restore_removed=True)
    assert sorted(texts(conn, "Ana")) == ["three", "two"]
    assert texts(conn, "Cid") == {}
    assert (file.entities.created, file.observations.added, file.observations.moved) == (2, 2, 2)
    unchanged(conn, world)


SAME = ["Works on  bikes", "works on bikes", "WORKS ON BIKES!"]


def merged_world(conn: Any, folder: Path, *, split_first: bool = False) -> World:
    world = World(JSONL, folder / "source")
    world.add("Ana", "other", *SAME)
    run(conn, world)
    ids = [one(conn, "select id from observations where content = ?", text) for text in SAME]
    if split_first:
        done(conn, "split", entity="Ana", children=[{"name": "Part", "observations": ids}])
    owner = "Part" if split_first else "Ana"
    for keep, gone in ((ids[0], ids[1]), (ids[2], ids[0])):
        done(conn, "merge", entity=owner, clusters=[{"keep": keep, "remove": [gone]}])
    return world


@pytest.mark.parametrize("restore", RESTORE)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("split_first", [False, True])
def test_what_was_merged_away_stays_away(
    conn: Any, tmp_path: Path, split_first: bool, place: str, restore: bool
) -> None:
    world = merged_world(conn, tmp_path, split_first=split_first)
    before = everything(conn)
    file = first(conn, elsewhere(world, place, tmp_path), restore_removed=restore)
    assert everything(conn) == before
    assert (file.observations.already_there, file.observations.removed_here) == (2, 2)


def test_what_was_merged_away_comes_back_when_nothing_says_it(conn: Any, tmp_path: Path) -> None:
    world = merged_world(conn, tmp_path)
    kept = one(conn, "select id from observations where content = ?", SAME[2])
    done(conn, "delete", observations=[kept])
    assert first(conn, world).observations.removed_here == 3
    # the id of what is deleted may be given to another row
    do(conn, "insert into observations(id, entity_id, content) values (?, 1, 'x')", kept)
    assert first(conn, world, restore_removed=True).observations.added == 3
    assert sorted(texts(conn, "Ana")) == sorted(["other", *SAME])


def test_an_undone_merge_lets_texts_in(conn: Any, tmp_path: Path) -> None:
    world = merged_world(conn, tmp_path)
    done(conn, "undo", change=2)
    do(conn, "delete from observations where content = ?", SAME[0])
    assert first(conn, world, restore_removed=True).observations.added == 2


def test_copies_are_told_apart(conn: Any, tmp_path: Path) -> None:
    """Of three equal texts one moved, one was merged away, and one stays."""
    path = tmp_path / "export.ndjson"
    with closing(fresh_memory(tmp_path / "other.db")) as other:
        do(other, "insert into entities(id, name, entity_type) values (1, 'Ana', 'T')")
        for text in ("same", "same", "same", "rest"):
            do(other, "insert into observations(entity_id, content) values (1, ?)", text)
        write_full(other, path)
    run(conn, path)
    ids = [row[0] for row in conn.execute("select id from observations where content = 'same'")]
    done(conn, "split", entity="Ana", children=[{"name": "Part", "observations": ids[:1]}])
    done(conn, "merge", entity="Ana", clusters=[{"keep": ids[1], "remove": [ids[2]]}])
    copy = Path(shutil.copy(path, tmp_path / "copy"))
    for source in (path, copy):
        file = first(conn, source, restore_removed=True)
        counts = file.observations
        assert (counts.added, counts.already_there, counts.removed_here) == (0, 3, 1)
        assert counts.moved == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("null", "null"),
        ("[1]", '"x"'),
        ("no json", "{"),
        ('{"observations": {"x": 1, "1": null}}', "{}"),
        ('{"observations": {"1": {"entity_id": "no"}}, "relations": {"1": {"from_entity": 9}}}',
         '{"arguments": {"clusters": [3]}, "entities": 5}'),
    ],
)  # fmt: skip
def test_a_log_that_others_wrote(conn: Any, tmp_path: Path, before: str, after: str) -> None:
    for action in ("split", "merge", "merge_entities", "delete"):
        do(
            conn,
            "insert into limbic_changes(action, summary, before, after) values (?, '', ?, ?)",
            *(action, before, after),
        )
    assert first(conn, world_of(JSONL, tmp_path)).observations.added == 6


def test_the_log_is_looked_at_once(conn: Any, tmp_path: Path) -> None:
    """However many rows a file has; where nothing moved, nothing of it is read."""
    seen: list[str] = []
    path = write_lines(tmp_path / "a.jsonl", *(entity(f"e{n}", f"text {n}") for n in range(50)))
    conn.set_trace_callback(lambda sql: seen.append(sql) if "limbic_changes" in sql else None)
    run(conn, path)
    run(conn, path)
    reading = [sql for sql in seen if sql.lstrip().startswith("select")]
    assert len(reading) == 2
    conn.set_trace_callback(None)
    world = world_of(JSONL, tmp_path)
    run(conn, world)
    split(conn, "Ana", "Part", "one")
    seen.clear()
    conn.set_trace_callback(lambda sql: seen.append(sql) if "limbic_changes" in sql else None)
    run(conn, path, world)
    assert len([sql for sql in seen if sql.lstrip().startswith("select")]) <= 8
    conn.set_trace_callback(None)


def findings(conn: Any) -> dict[str, int]:
    left_out = ("stale", "vectors")  # nothing is embedded here
    return {
        found.name: found.count
        for found in check(conn).findings
        if not any(word in found.name for word in left_out)
    }


NAMES = ("Ana", "Bea", "Cid", "Dan", "Eva")


def random_file(path: Path, rng: random.Random) -> None:
    """Texts that stand once, ones that differ in case alone, and one that all have."""
    rows: list[Any] = []
    for name in NAMES:
        said = [f"{name} knows the fact number {n}" for n in range(rng.randint(0, 4))]
        said += [f"{name} lives by the sea", f"{name.upper()} LIVES BY THE SEA"]
        said += ["they have this in common"] * rng.randrange(2)
        rows.append(entity(name, *said, createdAt=T1))
    for source in NAMES:
        for target in rng.sample(NAMES, 2):
            rows.append(relation(source, target, rng.choice(("uses", "knows"))))
    write_lines(path, *rows)


def random_action(conn: Any, rng: random.Random, made: int) -> tuple[str, dict[str, Any]]:
    live = [row[0] for row in conn.execute("select id from entities where archived_at is null")]
    entity_id = rng.choice(live)
    own = conn.execute(
        "select id, content from observations where entity_id = ?", [entity_id]
    ).fetchall()
    ids = [row[0] for row in own]
    action = rng.choice(("split", "split", "merge", "merge", "merge_entities", "delete", "undo"))
    if action == "split":
        some = rng.sample(ids, rng.randint(min(1, len(ids)), len(ids)))
        children = [{"name": f"Part {made}", "observations": some}]
        return action, {"entity": entity_id, "children": children}
    if action == "merge":
        alike = [number for number, text in own if text.lower().endswith("lives by the sea")]
        rng.shuffle(alike)
        return action, {
            "entity": entity_id,
            "clusters": [{"keep": alike[0], "remove": alike[1:2]}] if len(alike) > 1 else [],
        }
    if action == "merge_entities":
        return action, {
            "keep": entity_id,
            "others": rng.sample(live, min(len(live), rng.randint(1, 2))),
        }
    if action == "delete":
        return action, {"observations": ids[:1]}
    # what had been undone and is done again has a test of its own
    found = conn.execute("select id from limbic_changes where undoes is null")
    done_so_far = [row[0] for row in found]
    return action, {"change": rng.choice(done_so_far or [0])}


def copies(conn: Any) -> Counter[str]:
    return Counter(row[0] for row in conn.execute("select content from observations"))


def removed(conn: Any) -> tuple[set[str], set[str]]:
    """Texts that stand deleted, and those that stand merged away, by the log of changes."""
    found: dict[str, set[str]] = {"delete": set(), "merge": set()}
    for action, before, after in conn.execute(
        "select action, before, after from limbic_changes"
        " where undone_by is null and undoes is null and action in ('delete', 'merge')"
    ):
        for key, image in json.loads(after).get("observations", {}).items():
            if image is None:
                found[action].add(json.loads(before)["observations"][key]["content"])
    return found["delete"], found["merge"]


def one_world(rng: random.Random, done_at_all: Counter[str]) -> None:
    place, restore = rng.choice(PLACES), rng.choice(RESTORE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with closing(fresh_memory(folder / "memory.db")) as conn:
            path = folder / "a.jsonl"
            random_file(path, rng)
            run(conn, path)
            at_first, links = everything(conn)
            for made in range(rng.randint(1, 8)):
                action, arguments = random_action(conn, rng, made)
                try:
                    act(conn, action, arguments, embed=False)
                except LimbicError as error:
                    note(f"{action} {arguments}: {error}")
                    continue
                note(f"{action} {arguments}")
                done_at_all[action] += 1
            before, rows, found = copies(conn), everything(conn), findings(conn)
            deleted, merged = removed(conn)
            source = path if place == "same" else Path(shutil.copy(path, folder / "b.jsonl"))
            file = first(conn, source, restore_removed=restore)
            note(f"{place} {restore}: {file.as_dict()}")
            now = copies(conn)
            assert file.rejects == 0
            # nothing stands twice that stood once; only what was deleted may come back, and what
            # had been merged into that
            back = now - before
            assert not before - now
            assert back.total() == file.observations.added
            if place == "same" and not restore:
                assert not back
            assert back.keys() <= deleted | merged
            told = Counter(text for _, text in at_first)
            assert all(now[text] <= max(told[text], before[text]) for text in back)
            if not deleted:
                assert everything(conn) == rows
            assert everything(conn)[1] == rows[1]
            assert (file.relations.created, file.relations.merged) == (0, file.relations.lines)
            assert findings(conn) == found
            unchanged(conn, source)
            if back:
                return
            standing = conn.execute(
                "select id from limbic_changes where undone_by is null and undoes is null"
                " order by id desc"
            ).fetchall()
            if conn.execute("select 1 from limbic_changes where undoes is not null").fetchone():
                return
            for (change,) in standing:
                act(conn, "undo", {"change": change}, embed=False)
            assert everything(conn) == (at_first, links)
            assert first(conn, source, restore_removed=restore).observations.added == 0
            done_at_all["all undone"] += 1


@pytest.mark.parametrize("examples", EXAMPLES)
def test_any_actions_and_the_file_again(examples: int) -> None:
    done_at_all: Counter[str] = Counter()

    @settings(
        max_examples=examples, deadline=None, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(st.randoms(use_true_random=True))
    def check_one(rng: random.Random) -> None:
        one_world(rng, done_at_all)

    check_one()
    assert examples < 100 or min(done_at_all.values()) > 5, done_at_all
    assert len(done_at_all) == 6 or examples < 100, done_at_all
