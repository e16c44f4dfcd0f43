"""Undoing after more has happened: what was made has been changed since, asked for, or parted."""

from __future__ import annotations

import sqlite3 as stock_sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from actions_helpers import (
    ATLAS,
    EMPTY,
    LIKE,
    TWIN,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    assert_settled,
    differing,
    dump,
    everything,
    opened,
)

from datasette_limbic.actions.acting import act
from datasette_limbic.errors import DependedOn, StaleProposal
from datasette_limbic.signals import record_access

MAPS = {"name": "Atlas: maps", "observations": [3, 4]}
CHILD = "(select id from entities where name = 'Atlas: maps')"


@pytest.fixture
def conn(acted: Path) -> Iterator[Any]:
    with opened(acted) as found:
        yield found


def by_another(conn: Any, *statements: str) -> None:
    """As any program may write: stock SQLite, foreign keys off."""
    path = conn.execute("pragma database_list").fetchone()[2]
    with closing(stock_sqlite3.connect(path)) as other:
        for text in statements:
            other.execute(text)
        other.commit()


def split(conn: Any, **options: Any) -> int:
    return int(act(conn, "split", {"entity": ATLAS, "children": [MAPS]}, **options)["change"])


def undo(conn: Any, change: int, **options: Any) -> dict[str, Any]:
    return act(conn, "undo", {"change": change}, **options)


def child(conn: Any) -> int:
    return int(conn.execute(f"select {CHILD}").fetchone()[0])


# what was made is another now ---------------------------------------------------------------------


def test_newer_changes_of_what_a_split_made_stand_in_the_way(conn: Any) -> None:
    first = split(conn)
    number = child(conn)
    archived = act(conn, "archive", {"entity": number, "reason": "over"})["change"]
    relation = conn.execute("select id from relations where from_entity = ?", [number]).fetchone()[
        0
    ]
    ended = act(conn, "end", {"relation": relation})["change"]
    before = everything(conn)
    with pytest.raises(DependedOn) as caught:
        undo(conn, first)
    assert everything(conn) == before
    said = str(caught.value)
    assert f"entity {number} has another archived_at, archived_reason (change {archived} " in said
    assert f"relation {relation} has another valid_to (change {ended} " in said
    assert f"Undo change {ended} and change {archived} first" in said
    undo(conn, ended)
    undo(conn, archived)
    undo(conn, first)
    assert_settled(conn)


ANOTHER = {
    "entities": {
        "entity_type": "'x'", "archived_at": "'2025-01-01'", "archived_reason": "'x'",
        "confidence": "0.5", "valid_from": "'2020'", "valid_to": "'2030'", "theirs": "'x'",
        "\"th\"\"eirs\"": "x'00ff'",
    },
    "relations": {
        "valid_from": "'2020'", "valid_to": "'2030'", "created_at": "null", "theirs": "null",
        "\"th\"\"eirs\"": "5",
    },
    "observations": {
        "kind": "'x'", "confidence": "0.25", "valid_from": "'2020'", "valid_to": "'2030'",
        "supersedes": "1", "theirs": "'x'", "\"th\"\"eirs\"": "5",
    },
}  # fmt: skip
WHERE = {
    "entities": f"id = {CHILD}",
    "relations": f"from_entity = {CHILD}",
    "observations": "id = 3",
}
CASES = [(table, column) for table, columns in ANOTHER.items() for column in columns]


@pytest.mark.parametrize(("table", "column"), CASES)
def test_any_column_of_a_created_row_counts(conn: Any, table: str, column: str) -> None:
    """Those that the file itself filled in, and those of another program, as well."""
    for name in ANOTHER:
        by_another(
            conn,
            f"alter table {name} add column theirs default 'none'",
            f'alter table {name} add column "th""eirs"',
        )
    if table == "observations":
        # an observation is created by undoing its deletion
        deleted = act(conn, "delete", {"observations": [3]})["change"]
        change = undo(conn, deleted)["change"]
    else:
        change = split(conn)
    kept = dump(conn)
    undone = undo(conn, change)["change"]
    change = undo(conn, undone)["change"]  # made once more, by an undo
    assert differing(kept, dump(conn)) == {}
    where = WHERE[table]
    by_another(conn, f"update {table} set {column} = {ANOTHER[table][column]} where {where}")
    before = everything(conn)
    with pytest.raises(DependedOn, match=r"has another .*Another program did that"):
        undo(conn, change)
    assert everything(conn) == before


def test_what_moves_by_itself_or_is_computed_stands_in_no_way(conn: Any) -> None:
    by_another(
        conn,
        "alter table entities add column age generated always as (coalesce(last_activity_at, ''))",
        "alter table entities add column theirs default 'x'",
    )
    started = dump(conn)
    change = split(conn)
    by_another(
        conn,
        f"update entities set updated_at = '2030', last_activity_at = '2030' where id = {CHILD}",
        f"update entity_access set last_access = '2030' where entity_id = {CHILD}",
    )
    undone = undo(conn, change)["change"]
    assert differing(started, dump(conn)) == {}
    change = undo(conn, undone)["change"]
    by_another(conn, "alter table entities drop column theirs")
    undo(conn, change)  # a column that is gone was changed by nobody
    assert conn.execute(f"select {CHILD}").fetchone() == (None,)


# shown, then another ------------------------------------------------------------------------------


def test_an_undo_that_would_do_something_else_is_stale(conn: Any) -> None:
    """Observation 6 replaced 5, which is deleted: put back, it would name one that has gone."""
    by_another(conn, "update observations set supersedes = 4 where id = 6")
    change = act(conn, "delete", {"observations": [6]})["change"]
    shown = undo(conn, change, dry_run=True)
    by_another(conn, "delete from observations where id = 4")
    before = everything(conn)
    with pytest.raises(StaleProposal, match=f"what undoing change {change} does to observations"):
        undo(conn, change, basis=shown["basis"])
    assert everything(conn) == before
    again = undo(conn, change, dry_run=True)
    assert "which is not there any more" in again["warnings"][0]
    undo(conn, change, basis=again["basis"])


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("update entities set archived_at = '2026-01-01' where id = 1", "what there is to know"),
        ("update entities set name = 'Other' where id = 1", None),
        ("update entity_access set access_count = 50", None),
        ("update observations set similarity_flag = 1 where id = 7", None),
        ("update entities set last_activity_at = '2030', updated_at = '2030'", None),
    ],
)
def test_what_makes_an_undo_stale(conn: Any, statement: str, said: str | None) -> None:
    change = act(conn, "delete", {"observations": [3]})["change"]
    shown = undo(conn, change, dry_run=True)
    by_another(conn, statement)
    if said is None:
        undo(conn, change, basis=shown["basis"])
        return
    with pytest.raises(StaleProposal, match=said):
        undo(conn, change, basis=shown["basis"])


def test_that_of_another_change_is_stale(conn: Any) -> None:
    one = act(conn, "delete", {"observations": [3]})["change"]
    two = act(conn, "delete", {"observations": [8]})["change"]
    shown = undo(conn, one, dry_run=True)
    with pytest.raises(StaleProposal):
        undo(conn, two, basis=shown["basis"])


def test_the_token_of_an_undo_is_small(conn: Any) -> None:
    conn.executemany(
        "insert into observations(id, entity_id, content) values (?, 6, ?)",
        [(number, f"text {number}") for number in range(1000, 3000)],
    )
    conn.commit()
    change = act(conn, "delete", {"observations": [*range(1000, 3000)]}, embed=False)["change"]
    assert len(undo(conn, change, dry_run=True)["basis"]) < 500


# accesses -----------------------------------------------------------------------------------------


def accesses(conn: Any, number: int) -> Any:
    return conn.execute(
        "select access_count, last_access from entity_access where entity_id = ?", [number]
    ).fetchone()


def test_accesses_of_a_child_go_to_its_parent(conn: Any) -> None:
    change = split(conn)
    number = child(conn)
    assert accesses(conn, ATLAS) == (9, "2024-06-01 00:00:00")
    assert accesses(conn, number) == (2, "2024-06-01 00:00:00")
    for entity in (ATLAS, number, number, number):
        record_access(conn, [entity], query="maps")
    last = accesses(conn, number)
    split_state = accesses(conn, ATLAS), last
    shown = undo(conn, change, dry_run=True)
    (row,) = [
        row
        for row in shown["diff"]["rows"]
        if row["table"] == "entity_access" and row["what"] == "changed"
    ]
    assert (row["key"], row["before"]["access_count"], row["after"]["access_count"]) == (
        [ATLAS], 10, 13,
    )  # fmt: skip
    undone = undo(conn, change)["change"]
    assert accesses(conn, ATLAS) == (13, last[1])
    again = undo(conn, undone)["change"]
    assert (accesses(conn, ATLAS), accesses(conn, number)) == split_state
    # twice as many on the way back: none is counted twice, none is lost
    record_access(conn, [number], query="maps")
    undo(conn, again)
    assert accesses(conn, ATLAS)[0] == 14
    assert accesses(conn, number) is None


def test_accesses_where_the_parent_had_none(conn: Any) -> None:
    conn.execute("delete from entity_access where entity_id = ?", [ATLAS])
    conn.commit()
    change = split(conn)
    number = child(conn)
    assert accesses(conn, number) is None
    record_access(conn, [number], query="maps")
    last = accesses(conn, number)
    undone = undo(conn, change)["change"]
    assert accesses(conn, ATLAS) == last
    undo(conn, undone)
    assert (accesses(conn, ATLAS), accesses(conn, number)) == (None, last)


@pytest.mark.parametrize("count", ["'many'", "-4", "x'ff'", "2.5"])
def test_accesses_that_are_no_number(conn: Any, count: str) -> None:
    change = split(conn)
    by_another(conn, f"update entity_access set access_count = {count} where entity_id = {CHILD}")
    undo(conn, change)
    assert accesses(conn, ATLAS) == (9, "2024-06-01 00:00:00")


def test_accesses_of_several_children(conn: Any) -> None:
    children = [MAPS, {"name": "Atlas: money", "observations": [5, 6]}]
    change = act(conn, "split", {"entity": ATLAS, "children": children})["change"]
    ids = [r[0] for r in conn.execute("select id from entities where name like 'Atlas: %'")]
    record_access(conn, ids, query="x")
    record_access(conn, ids[:1], query="x")
    undo(conn, change)
    assert accesses(conn, ATLAS)[0] == 12


# flags and places ---------------------------------------------------------------------------------


def flags(conn: Any) -> dict[int, int]:
    return dict(
        conn.execute("select id, similarity_flag from observations where entity_id = ?", [LIKE])
    )


def test_no_flag_comes_back_without_its_pair(conn: Any) -> None:
    conn.execute("update observations set similarity_flag = 1 where id in (14, 15)")
    conn.commit()
    merged = act(conn, "merge", {"entity": LIKE, "clusters": [{"keep": 13, "remove": [14, 15]}]})
    act(conn, "delete", {"observations": [13]})
    undone = undo(conn, merged["change"])
    # 14 is now the earliest that says it; 15 is like 14
    pairs = conn.execute(
        "select earlier_id, later_id from limbic_duplicates where entity_id = ?", [LIKE]
    ).fetchall()
    later = {pair[1] for pair in pairs}
    assert flags(conn) == {14: int(14 in later), 15: int(15 in later)}
    assert flags(conn)[14] == 0
    assert_settled(conn)
    # with 13 gone, merging again would take the last copies
    with pytest.raises(DependedOn, match="observation 13 is not there any more, which was kept"):
        undo(conn, undone["change"])


def test_nor_a_flag_that_was_taken_away_with_one(conn: Any) -> None:
    """The flag of 14 went with 13, which comes back as another text."""
    assert flags(conn)[14] == 1
    change = act(conn, "delete", {"observations": [13]})["change"]
    by_another(conn, "update observations set content = 'Boats are made of wood' where id = 14")
    undo(conn, change)
    assert flags(conn)[14] == 0
    pairs = conn.execute(
        "select count(*) from limbic_duplicates where 14 in (earlier_id, later_id)"
    )
    assert pairs.fetchone() == (0,)


def test_a_flag_that_another_pair_stands_for_comes_back(conn: Any) -> None:
    conn.execute("update observations set similarity_flag = 1 where id = 15")
    conn.commit()
    change = act(conn, "delete", {"observations": [13]})["change"]
    assert flags(conn)[15] == 0
    by_another(
        conn,
        "update observations set content = 'Boats are made of wood' where id in (14, 15)",
        "insert into limbic_duplicates(earlier_id, later_id, entity_id, kind, rule, containment)"
        " values (14, 15, 8, 'duplicate', 'exact', 1)",
        "update observations set similarity_flag = 0 where id = 15",
    )
    undo(conn, change)
    assert flags(conn) == {13: 0, 14: 0, 15: 1}


def test_a_flag_that_somebody_set_stays(conn: Any) -> None:
    assert conn.execute("select similarity_flag from observations where id = 8").fetchone() == (1,)
    change = act(conn, "delete", {"observations": [8]})["change"]
    undo(conn, change)
    assert conn.execute("select similarity_flag from observations where id = 8").fetchone() == (1,)


def test_what_comes_back_to_an_archived_entity_is_said(conn: Any) -> None:
    merged = act(conn, "merge", {"entity": LIKE, "clusters": [{"keep": 14, "remove": [13]}]})
    assert undo(conn, merged["change"], dry_run=True)["warnings"] == []
    into = act(conn, "merge_entities", {"keep": EMPTY, "others": [LIKE]})
    (said,) = undo(conn, merged["change"], dry_run=True)["warnings"]
    assert said == (
        "1 observation (13) goes back to 'Gamma', which is archived (merged into 'Foxtrot'): "
        "search leaves it out until it is restored"
    )
    # the undo that restores the entity has nothing to say
    assert undo(conn, into["change"], dry_run=True)["warnings"] == []
    undo(conn, merged["change"])
    # one that moves back, too
    moved = act(conn, "merge_entities", {"keep": ATLAS, "others": [TWIN]})["change"]
    assert undo(conn, moved, dry_run=True)["warnings"] == []
