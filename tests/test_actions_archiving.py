"""Archiving by DDR-007: said by somebody, out of search at once, and nothing looks fresher."""

from __future__ import annotations

import pytest
from actions_helpers import (
    ARCHIVED,
    ATLAS,
    BOREALIS,
    EMPTY,
    LIKE,
    ODD,
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
from datasette_limbic.actions.functions import archive_entity, restore_entity, undo_change
from datasette_limbic.errors import BadParameter, Refused, StaleProposal, UnknownEntity
from datasette_limbic.search import search


@pytest.fixture
def conn(acted):
    with opened(acted) as found:
        yield found


@pytest.fixture(scope="module")
def refusing(acted_master):
    with opened(acted_master) as found:
        yield found


def found_by(conn, query, mode, **options):
    return [row["id"] for row in search(conn, query, mode=mode, **options)["results"]]


def test_every_promise(conn, models):
    before = dump(conn)
    row = "select updated_at, last_activity_at, confidence from entities where id = ?"
    times = conn.execute(row, [ATLAS]).fetchone()
    neighbour = "select content from entity_snapshots where id = ?"
    assert "Atlas" in conn.execute(neighbour, [ODD]).fetchone()[0]
    done = archive_entity(conn, "Atlas", "  finished in 2024\n", actor="ana")
    assert conn.execute(row, [ATLAS]).fetchone() == times, "archiving makes nothing look fresh"
    archived_at, reason = conn.execute(
        "select archived_at, archived_reason from entities where id = ?", [ATLAS]
    ).fetchone()
    assert reason == "finished in 2024"
    assert archived_at[:2] == "20"
    assert len(archived_at) == 19
    assert done["search"] == {"updated": True, "reason": None}
    for mode in ("text", "semantic", "hybrid"):
        assert ATLAS not in found_by(conn, "Atlas maps Oslo", mode), mode
        assert ATLAS in found_by(conn, "Atlas maps Oslo", mode, include_archived=True), mode
    archived = "select archived from _limbic_vec_entities where entity_id = ?"
    assert conn.execute(archived, [ATLAS]).fetchone() == (1,)
    # the text of a neighbour holds no name that is out of search, and its vector is of that text
    assert "Atlas" not in conn.execute(neighbour, [ODD]).fetchone()[0]
    assert_settled(conn, models["bag"])
    restored = restore_entity(conn, ATLAS)
    assert "(finished in 2024)" in restored["summary"]
    assert conn.execute(archived, [ATLAS]).fetchone() == (0,)
    for mode in ("text", "semantic", "hybrid"):
        assert ATLAS in found_by(conn, "Atlas maps Oslo", mode), mode
    assert_settled(conn, models["bag"])
    assert differing(before, dump(conn)) == {}, "restoring is the opposite of archiving"
    undo_change(conn, restored["change"])
    assert ATLAS not in found_by(conn, "Atlas maps Oslo", "text")
    with pytest.raises(Refused, match="'Atlas' was archived already, at 20"):
        archive_entity(conn, ATLAS, "again")


def test_a_bridge_is_said_with_who_is_on_each_side(conn):
    """Odd, and Foxtrot behind ATLAS, the twin: each is linked to the rest by one alone."""
    (warning,) = archive_entity(conn, ATLAS, "done", dry_run=True)["warnings"]
    assert warning == (
        "It is a bridge: without it 2 sides would no longer be linked to each other: "
        "3 entities ('Borealis', 'Foxtrot', 'ATLAS'); 1 entity ('Casa \"ñ\" 日本\\n\\x01 %')"
    )
    assert archive_entity(conn, EMPTY, "done", dry_run=True)["warnings"] == []
    (warning,) = archive_entity(conn, TWIN, "done", dry_run=True)["warnings"]
    assert warning.endswith(
        "3 entities ('Atlas', 'Borealis', 'Casa \"ñ\" 日本\\n\\x01 %'); 1 entity ('Foxtrot')"
    )


def test_a_bridge_of_many_sides(conn):
    conn.execute("insert into entities(id, name) values (100, 'hub')")
    for number in range(101, 141):
        conn.execute("insert into entities(id, name) values (?1, 'spoke ' || ?1)", [number])
        conn.execute(
            "insert into relations(from_entity, to_entity, relation_type) values (100, ?, 'x')",
            [number],
        )
    conn.execute(
        "insert into relations(from_entity, to_entity, relation_type) values (101, 102, 'x'),"
        " (101, 103, 'x'), (101, 104, 'x'), (101, 105, 'x')"
    )
    conn.commit()
    (warning,) = archive_entity(conn, "hub", "done", dry_run=True)["warnings"]
    assert warning == (
        "It is a bridge: without it 36 sides would no longer be linked to each other: 5 entities "
        "('spoke 101', 'spoke 102', 'spoke 103' and 2 more); 1 entity ('spoke 106'); "
        "1 entity ('spoke 107'); and 33 more sides"
    )


REFUSED = {
    "no reason": ("archive", {"entity": 1}, BadParameter, "reason is missing"),
    "an empty one": ("archive", {"entity": 1, "reason": " \n"}, BadParameter, "reason is missing"),
    "no text": ("archive", {"entity": 1, "reason": 5}, BadParameter, "reason is missing"),
    "a long one": (
        "archive", {"entity": 1, "reason": "x" * 1001}, BadParameter, "reason has 1,001 characters",
    ),
    "nobody": ("archive", {"entity": "atlas!", "reason": "x"}, UnknownEntity, "no entity with"),
    "no entity": ("archive", {"reason": "x"}, BadParameter, "entity is None"),
    "archived": (
        "archive", {"entity": ARCHIVED, "reason": "x"}, Refused,
        "'Delta' was archived already, at 2024-06-01 10:00:00",
    ),
    "live": ("restore", {"entity": "Atlas"}, Refused, "'Atlas' is not archived"),
    "nobody to restore": ("restore", {"entity": 99}, UnknownEntity, "no entity with the id 99"),
    "a reason to restore": (
        "restore", {"entity": 4, "reason": "x"}, BadParameter, "unknown argument reason",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(refusing, case):
    name, asked, error, message = REFUSED[case]
    before = everything(refusing)
    with pytest.raises(error, match=message):
        act(refusing, name, asked)
    assert everything(refusing) == before


def test_half_a_character_is_no_reason_to_fail(conn):
    archive_entity(conn, ATLAS, "half \ud83d of one")
    reason = conn.execute("select archived_reason from entities where id = ?", [ATLAS]).fetchone()
    assert reason == ("half \ufffd of one",)


def test_shown_then_changed(conn):
    found = archive_entity(conn, ATLAS, "done", dry_run=True)
    conn.execute("update entities set name = 'Atlas II' where id = ?", [ATLAS])
    conn.commit()
    with pytest.raises(StaleProposal, match="the name of entity 1 was 'Atlas' and is 'Atlas II'"):
        archive_entity(conn, ATLAS, "done", basis=found["basis"])
    found = archive_entity(conn, ATLAS, "done", dry_run=True)
    archive_entity(conn, ATLAS, "somebody was faster")
    with pytest.raises(Refused, match="was archived already"):
        archive_entity(conn, ATLAS, "done", basis=found["basis"])


SINCE = {
    "asked for": ("update entity_access set access_count = 13 where entity_id = {}", "accesses"),
    "asked for at all": ("insert into entity_access values ({}, 1, '2026-01-01')", "accesses"),
    "a new observation": (
        "insert into observations(id, entity_id, content) values (50, {}, 'news')",
        "observation 50 came",
    ),
    "another text": (
        "update observations set content = 'x' where entity_id = {}", "observations? .* changed",
    ),
    "one gone": ("delete from observations where entity_id = {}", "observation .* went"),
    "a link of its own": (
        "insert into relations(from_entity, to_entity, relation_type) values ({}, 6, 'new')",
        "the relations of entity {} changed",
    ),
    "a link to it": (
        "insert into relations(from_entity, to_entity, relation_type) values (6, {}, 'new')",
        "the relations of entity {} changed",
    ),
    "a link that ended": (
        "update relations set valid_to = '2025-01-01' where {} in (from_entity, to_entity)",
        "the relations of entity {} changed",
    ),
    "links gone": (
        "delete from relations where {} in (from_entity, to_entity)",
        "the relations of entity {} changed",
    ),
}  # fmt: skip


SAID = {
    "not for long": ("archive", {"entity": ATLAS, "reason": "not accessed since 2024"}),
    "never asked for": ("archive", {"entity": LIKE, "reason": "never accessed"}),
    "archived": ("restore", {"entity": ARCHIVED}),
}
NOT_THERE = {
    ("asked for at all", "not for long"), ("asked for", "never asked for"),
    ("a link that ended", "never asked for"), ("links gone", "never asked for"),
    ("asked for", "archived"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("since", "case"), [(s, c) for s in SINCE for c in SAID if (s, c) not in NOT_THERE]
)
def test_a_reason_that_holds_no_longer(conn, since, case):
    """What a reason may speak of, or the bridge warning, is another than was shown."""
    name, arguments = SAID[case]
    number = arguments["entity"]
    statement, said = (text.format(number) for text in SINCE[since])
    shown = act(conn, name, arguments, dry_run=True)
    assert conn.execute(statement).rowcount > 0
    conn.commit()
    before = everything(conn)
    with pytest.raises(StaleProposal, match=said):
        act(conn, name, arguments, basis=shown["basis"])
    assert everything(conn) == before
    shown = act(conn, name, arguments, dry_run=True)
    act(conn, name, arguments, basis=shown["basis"])


@pytest.mark.parametrize(
    "statement",
    [
        "update entities set last_activity_at = '2030', updated_at = '2030' where id = 1",
        "update observations set similarity_flag = 1 where id = 3",
        "update entity_access set access_count = 77 where entity_id = 2",
        "insert into observations(entity_id, content) values (2, 'of a neighbour')",
    ],
)
def test_what_says_nothing_of_it(conn, statement):
    shown = archive_entity(conn, ATLAS, "done", dry_run=True)
    conn.execute(statement)
    conn.commit()
    archive_entity(conn, ATLAS, "done", basis=shown["basis"])


def test_the_token_of_a_hub_is_small(conn):
    conn.executemany(
        "insert into entities(id, name) values (?1, 'spoke ' || ?1)",
        [(number,) for number in range(100, 3100)],
    )
    conn.execute(
        "insert into relations(from_entity, to_entity, relation_type)"
        " select 1, id, 'x' from entities where id >= 100"
    )
    conn.commit()
    assert len(archive_entity(conn, ATLAS, "done", dry_run=True)["basis"]) < 600


def test_without_vectors(conn):
    done = archive_entity(conn, BOREALIS, "done", embed=False)
    assert done["search"]["updated"] is False
    assert "not asked for: run 'datasette limbic sync'" in done["search"]["reason"]
    for mode in ("text", "semantic", "hybrid"):  # what is out of date is left out all the same
        assert BOREALIS not in found_by(conn, "Borealis charts sea", mode), mode
