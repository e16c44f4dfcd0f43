"""similarity_flag follows the pairs that are kept, whoever writes to the file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from duplicates_helpers import LONGER, OTHER, SAME, asked, flags, kept, made, marked, pairs, written
from view_helpers import ONE_POINT_ZERO, as_actor

from datasette_limbic import connection, schema
from datasette_limbic.exporting import export_full
from datasette_limbic.importing import import_files
from datasette_limbic.reports.keeping import keep

ADD = "insert into observations(id, entity_id, content) values (6, 1, '{}')"
# What is written; flagged at once; flagged after the next run.
CASES = {
    "nothing": ([], {2}, {2}),
    "the earlier one goes": (["delete from observations where id = 1"], set(), set()),
    "the later one goes": (["delete from observations where id = 2"], set(), set()),
    "the earlier one says another thing": (
        [f"update observations set content = '{OTHER}' where id = 1"],
        set(),
        set(),
    ),
    "the later one says another thing": (
        [f"update observations set content = '{OTHER}' where id = 2"],
        set(),
        set(),
    ),
    "said again as it is": (["update observations set content = content"], {2}, {2}),
    "still the same when said at length": (
        [f"update observations set content = '{LONGER}' where id = 2"],
        set(),
        {2},
    ),
    "the earlier one ended": (
        ["update observations set valid_to = '2020-01-01' where id = 1"],
        set(),
        set(),
    ),
    "the later one ended": (
        ["update observations set valid_to = '2020-01-01' where id = 2"],
        set(),
        set(),
    ),
    "the earlier one moves away": (
        ["update observations set entity_id = 2 where id = 1"],
        set(),
        set(),
    ),
    "the later one moves away": (
        ["update observations set entity_id = 2 where id = 2"],
        set(),
        set(),
    ),
    "both move": (["update observations set entity_id = 2 where id < 3"], set(), {2}),
    "the later one gets another id": (
        ["update observations set id = 20 where id = 2"],
        set(),
        {20},
    ),
    "replaced by another text": (
        [f"insert or replace into observations(id, entity_id, content) values (1, 1, '{OTHER}')"],
        set(),
        set(),
    ),
    "replaced by the same text": (
        [
            "insert or replace into observations(id, entity_id, content, created_at)"
            f" values (2, 1, '{SAME}', '2026-01-02 00:00:00')"
        ],
        set(),
        {2},
    ),
    "replaced in another entity": (
        [f"insert or replace into observations(id, entity_id, content) values (1, 2, '{SAME}')"],
        set(),
        set(),
    ),
    "the entity goes": (["delete from entities where id = 1"], set(), set()),
    "another one comes": ([ADD.format(SAME)], {2}, {2, 6}),
    "another one comes and the first goes": (
        [ADD.format(SAME), "delete from observations where id = 1"],
        set(),
        {6},
    ),
    "another text comes": ([ADD.format(OTHER)], {2}, {2}),
    "a person takes the flag away": (
        ["update observations set similarity_flag = 0 where id = 2"],
        set(),
        set(),
    ),
    "a person takes it away and the entity changes": (
        ["update observations set similarity_flag = 0 where id = 2", ADD.format(OTHER)],
        set(),
        set(),
    ),
    "a flag of which no pair is known": (
        ["update observations set similarity_flag = 1 where id = 5", ADD.format(OTHER)],
        {2, 5},
        {2, 5},
    ),
    "the later one is dated before the earlier": (
        ["update observations set created_at = '2020-01-01' where id = 2"],
        {2},
        {1},
    ),
    "a contradiction that is settled": (
        ["update observations set content = 'Status: open' where id = 4"],
        {2},
        {2, 4},
    ),
}


@pytest.fixture(name="path")
def memory(tmp_path):
    path = made(tmp_path / "memory.db")
    kept(path)
    return path


def test_what_it_starts_from(path):
    """A duplicate is flagged on its later side, a contradiction on neither."""
    assert pairs(path) == {(1, 2, "duplicate"), (3, 4, "contradiction")}
    assert flags(path) == {2}
    assert marked(path) == set()


@pytest.mark.parametrize("foreign_keys", [False, True], ids=["plain", "foreign keys"])
@pytest.mark.parametrize(("statements", "at_once", "afterwards"), CASES.values(), ids=list(CASES))
def test_flags_follow(path, statements, at_once, afterwards, foreign_keys):
    written(path, *statements, foreign_keys=foreign_keys)
    assert flags(path) == at_once
    kept(path)
    assert flags(path) == afterwards
    assert marked(path) == set()
    before = pairs(path)
    kept(path, full=True)
    assert (flags(path), pairs(path)) == (afterwards, before)


def test_no_flag_of_a_look(path):
    """What is only worth a look is never flagged, also when it once was a duplicate."""
    written(
        path,
        "delete from limbic_duplicates",
        "insert into limbic_duplicates(earlier_id, later_id, entity_id, kind, rule)"
        " values (1, 2, 1, 'look', 'cosine')",
    )
    assert flags(path) == set()
    kept(path, full=True)
    assert pairs(path) >= {(1, 2, "duplicate")}
    assert flags(path) == {2}


def test_the_flag_stays_while_one_partner_is_left(path):
    written(path, ADD.format(LONGER))
    kept(path)
    of_6 = {earlier for earlier, later, _ in pairs(path) if later == 6}
    assert of_6
    # a second pair of the same later one, as another rule would find it
    other = ({1, 2} - of_6).pop()
    written(
        path,
        "insert into limbic_duplicates(earlier_id, later_id, entity_id, kind, rule)"
        f" values ({other}, 6, 1, 'duplicate', 'cosine')",
    )
    written(path, f"delete from observations where id = {other}")
    assert 6 in flags(path)
    written(path, f"delete from observations where id = {of_6.pop()}")
    assert 6 not in flags(path)


def test_both_entities_of_a_move_are_looked_at_again(path):
    written(path, "update observations set entity_id = 2 where id = 1")
    assert marked(path) == {1, 2}
    kept(path)
    written(
        path, f"insert or replace into observations(id, entity_id, content) values (1, 1, '{SAME}')"
    )
    assert marked(path) == {1, 2}


MOVE_OVER = {
    "insert or replace": "insert or replace into observations(id, entity_id, content)"
    f" values (1, 2, '{OTHER}')",
    "replace": f"replace into observations(id, entity_id, content) values (1, 2, '{OTHER}')",
    "update or replace": "update or replace observations set id = 1 where id = 5",
    "update or replace of all columns": "update or replace observations set id = 1, entity_id = 2,"
    f" content = '{OTHER}', created_at = '2026-01-01' where id = 5",
}


@pytest.mark.parametrize("foreign_keys", [False, True], ids=["plain", "foreign keys"])
@pytest.mark.parametrize("statement", MOVE_OVER.values(), ids=list(MOVE_OVER))
def test_an_observation_that_takes_the_place_of_another(path, statement, foreign_keys):
    """REPLACE fires no trigger for the row that goes; its entity is looked at again too."""
    written(path, statement, foreign_keys=foreign_keys)
    assert marked(path) == {1, 2}
    assert flags(path) == set()
    assert pairs(path) == {(3, 4, "contradiction")}
    kept(path)
    keys = asked(path, "select observation_id, entity_id from _limbic_text_keys")
    there = asked(path, "select id, entity_id from observations")
    assert set(keys) <= set(there)
    before = (flags(path), pairs(path))
    kept(path, full=True)
    assert (flags(path), pairs(path)) == before


def test_nothing_is_left_of_an_entity_that_goes(path):
    written(path, "delete from entities where id = 1")
    for table in ("limbic_duplicates", "limbic_report_pending", "_limbic_text_keys"):
        assert asked(path, f"select count(*) from {table} where entity_id = 1") == [(0,)]


def test_another_type_is_looked_at_again(path):
    """Types have thresholds of their own, from which on topics are looked for."""
    written(path, "update entities set entity_type = entity_type")
    assert marked(path) == set()
    written(path, "update entities set entity_type = 'Sesion' where id = 2")
    assert marked(path) == {2}


def test_flags_are_no_activity(path):
    before = asked(path, "select id, updated_at, last_activity_at from entities")
    written(path, "update entities set last_activity_at = '2001-01-01', updated_at = '2001-01-01'")
    kept(path, full=True)
    written(path, "delete from limbic_duplicates")
    assert flags(path) == set()
    after = asked(path, "select distinct updated_at, last_activity_at from entities")
    assert len(before) == 2
    assert after == [("2001-01-01", "2001-01-01")]


@pytest.mark.skipif(not ONE_POINT_ZERO, reason="0.65 has no write API")
async def test_datasettes_write_api(path, make_datasette):
    datasette = make_datasette(path)
    datasette.root_enabled = True
    await datasette.invoke_startup()
    sent = {
        "headers": {"content-type": "application/json"},
        "cookies": as_actor(datasette, {"id": "root"}),
    }

    async def post(where, body, status):
        response = await datasette.client.post(
            f"/memory/observations/{where}", json=body, cookies=sent["cookies"]
        )
        assert response.status_code == status, response.text

    await post("-/insert", {"rows": [{"id": 6, "entity_id": 1, "content": SAME}]}, 201)
    assert flags(path) == {2}
    kept(path)
    assert flags(path) == {2, 6}
    await post("6/-/update", {"update": {"content": OTHER}}, 200)
    assert flags(path) == {2}
    await post("1/-/delete", {}, 200)
    assert flags(path) == set()
    assert marked(path) == {1}


def test_what_an_import_flagged_stays(tmp_path):
    """Nobody knows of which pair it speaks, and no pair of ours goes that it could go with."""
    path, file = tmp_path / "memory.db", tmp_path / "memory.jsonl"
    made(path)
    kept(path)
    file.write_text(
        '{"type": "entity", "name": "three", "entityType": "Thing", "observations": ["'
        + OTHER
        + '"]}\n{"type": "entity", "name": "one", "entityType": "Thing", "observations": ["'
        + LONGER
        + '"]}\n'
    )
    with closing(connection.connect(path)) as conn:
        import_files(conn, [file])
    assert flags(path) == {2}
    (three,) = {i for (i,) in asked(path, "select id from entities where name = 'three'")}
    assert {1, three} <= marked(path)
    written(path, f"update observations set similarity_flag = 1 where entity_id = {three}")
    kept(path)
    (longer,) = asked(path, "select id from observations where content = ?", LONGER)[0]
    (third,) = asked(path, "select id from observations where entity_id = ?", three)[0]
    assert flags(path) == {2, longer, third}
    with closing(connection.connect(path)) as conn:
        import_files(conn, [file])
    kept(path)
    assert flags(path) == {2, longer, third}


def test_restored_as_it_was(path, tmp_path):
    """Also what a person took away stays away, since the pair came along."""
    written(
        path,
        ADD.format(SAME),
        "update observations set similarity_flag = 1 where id = 5",
    )
    kept(path)
    written(path, "update observations set similarity_flag = 0 where id = 2")
    assert flags(path) == {5, 6}
    file, copy = tmp_path / "full.jsonl", tmp_path / "copy.db"
    with closing(connection.connect(path)) as conn, file.open("w", encoding="utf-8") as out:
        export_full(conn, out)
    with closing(connection.connect(copy, create=True)) as conn:
        schema.init(conn)
        import_files(conn, [file])
        assert keep(conn).entities == 2
    assert flags(copy) == {5, 6}
    assert pairs(copy) == pairs(path)


def test_a_file_of_before(tmp_path):
    """Flags that stood there before there were reports stay, and new ones come."""
    path = made(Path(tmp_path) / "memory.db")
    written(path, "update observations set similarity_flag = 1 where id in (3, 5)")
    kept(path)
    assert flags(path) == {2, 3, 5}
