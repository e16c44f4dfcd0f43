"""Undoing: everything as it was, or nothing and the name of what stands in the way."""

from __future__ import annotations

import sqlite3 as stock_sqlite3
from contextlib import closing

import pytest
from actions_helpers import (
    ATLAS,
    BOREALIS,
    LIKE,
    ODD,
    TWIN,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    differing,
    dump,
    everything,
    opened,
)

from datasette_limbic.actions.functions import (
    archive_entity,
    correct_confidence,
    delete_observations,
    end_observation,
    end_relation,
    merge_observations,
    undo_change,
)
from datasette_limbic.errors import BadParameter, DependedOn, Refused, UnknownChange
from datasette_limbic.exporting.values import RawText
from datasette_limbic.reports.keeping import keep
from datasette_limbic.signals import record_access


@pytest.fixture
def conn(acted):
    with opened(acted) as found:
        yield found


def delete(conn, *ids, **options):
    return delete_observations(conn, ids, **options)["change"]


def undo(conn, change, **options):
    return undo_change(conn, change, **options)["change"]


def by_another(conn, *statements):
    """As any program may write: stock SQLite, foreign keys off."""
    path = conn.execute("pragma database_list").fetchone()[2]
    with closing(stock_sqlite3.connect(path)) as other:
        for text in statements:
            other.execute(text)
        other.commit()


def standing(conn):
    return [
        row[0]
        for row in conn.execute("select id from limbic_changes where undone_by is null order by id")
    ]


# the order ----------------------------------------------------------------------------------------


def test_again_and_again(conn):
    """Undo of undo of undo …: who undoes whom is true at each step."""
    with_it = dump(conn)
    first = delete(conn, 3)
    without = dump(conn)
    expected = {1: [first]}
    last = first
    for step in range(2, 7):
        last = undo(conn, last, actor=f"person {step}")
        state = with_it if step % 2 == 0 else without
        assert differing(state, dump(conn)) == {}, step
        # one stands that says how it is, and those below it in turns
        expected[step] = list(range(last, 0, -2))[::-1]
        assert standing(conn) == expected[step], step
    # the sixth took the fifth back: the first is undone, by the second
    with pytest.raises(Refused, match=rf"change {first} was undone already, by change 2 \(undo"):
        undo(conn, first)
    with pytest.raises(Refused, match="change 5 was undone already, by change 6"):
        undo(conn, 5)
    # any that stands is as good as the last
    undo(conn, 2)
    assert differing(without, dump(conn)) == {}


def test_in_order_and_out_of_it(conn):
    started = dump(conn)
    one = delete(conn, 3)
    two = end_observation(conn, 1)["change"]
    three = archive_entity(conn, ATLAS, "done")["change"]
    four = correct_confidence(conn, entity=BOREALIS, confidence=0.5)["change"]
    for change in (one, four, three, two):  # none of them needs another
        undo(conn, change)
    found = differing(started, dump(conn))
    # who was active last is put back where it is as the change left it
    assert found.keys() <= {"entities"}
    assert (
        "2024-01-01 10:00:00"
        in conn.execute("select created_at from entities where id = ?", [ATLAS]).fetchone()
    )


def test_two_of_one_row_go_in_order(conn):
    first = correct_confidence(conn, observation=3, confidence=0.5)["change"]
    second = correct_confidence(conn, observation=3, confidence=0.25, actor="ana")["change"]
    third = delete(conn, 3)
    with pytest.raises(
        DependedOn,
        match=rf"observation 3 is not there any more \(change {third} .*Undo change {third} first",
    ):
        undo(conn, first)
    undo(conn, third)
    with pytest.raises(
        DependedOn,
        match=rf"observation 3 has another confidence \(change {second} \(correct of 'Atlas', by "
        rf"ana, .*\)\)\. Undo change {second} first",
    ):
        undo(conn, first)
    undo(conn, second)
    undo(conn, first)
    assert conn.execute("select confidence from observations where id = 3").fetchone() == (1,)


def test_a_chain_of_what_replaced_what(conn):
    """7 replaced 6, which replaced 5, which replaced 4."""
    started = dump(conn)
    chain = "select id, supersedes from observations where id between 4 and 7 order by id"
    one, two, three = delete(conn, 5), delete(conn, 4, 6), delete(conn, 7)
    with pytest.raises(DependedOn, match=f"Undo change {two} first"):
        undo(conn, one)  # 6 no longer named it
    undo(conn, three)
    assert conn.execute(chain).fetchall() == [(7, None)]
    undo(conn, two)
    undo(conn, one)
    assert conn.execute(chain).fetchall() == [(4, None), (5, 4), (6, 5), (7, 6)]
    assert differing(started, dump(conn)) == {}
    all_of_it = delete(conn, 4, 5, 6, 7)
    undo(conn, all_of_it)
    assert differing(started, dump(conn)) == {}


def test_what_it_replaced_is_gone(conn):
    first = delete(conn, 5)
    by_another(conn, "delete from observations where id = 4")
    found = undo_change(conn, first)
    assert found["warnings"] == [
        "observation 5 replaced observation 4, which is not there any more: it will not name it"
    ]
    row = "select supersedes from observations where id = 5"
    assert conn.execute(row).fetchone() == (None,)


def test_where_a_file_refuses_to_name_what_is_not_there(acted):
    """A memory server's own table has a foreign key, which is looked at at the end."""
    with opened(acted) as conn:
        text = conn.execute("select sql from sqlite_master where name = 'observations'").fetchone()
        conn.execute("pragma writable_schema = on")
        conn.execute(
            "update sqlite_master set sql = ? where name = 'observations'",
            [text[0].rstrip().rstrip(")") + ", foreign key (supersedes) references observations)"],
        )
        conn.commit()
    with opened(acted) as conn:
        assert len(conn.execute("pragma foreign_key_list(observations)").fetchall()) == 2
        started = dump(conn)
        change = delete(conn, 4, 5, 14)
        undo(conn, change)
        assert differing(started, dump(conn)) == {}


# other programs -----------------------------------------------------------------------------------

TAKEN = {
    "changed": (
        lambda conn: end_observation(conn, 3)["change"],
        "update observations set valid_to = '2030-01-01' where id = 3",
        "observation 3 has another valid_to. Another program did that",
    ),
    "gone": (
        lambda conn: correct_confidence(conn, observation=3, confidence=0.5)["change"],
        "delete from observations where id = 3",
        "observation 3 is not there any more",
    ),
    "its entity is gone": (
        lambda conn: delete(conn, 3),
        "delete from entities where id = 1",
        "entity 1 is not there any more",
    ),
    "the id is another one's": (
        lambda conn: delete(conn, 15),
        "insert into observations(entity_id, content) values (1, 'something else')",
        "observation 15 has been given to another row",
    ),
    "the relation was asserted again": (
        lambda conn: end_relation(conn, 2)["change"],
        "update relations set valid_to = null where id = 2",
        "relation 2 has another valid_to",
    ),
    "archived anew": (
        lambda conn: archive_entity(conn, ATLAS, "done")["change"],
        "update entities set archived_reason = 'other' where id = 1",
        "entity 1 has another archived_reason",
    ),
    "restored by a plain update": (
        lambda conn: archive_entity(conn, ATLAS, "done")["change"],
        "update entities set archived_at = null, archived_reason = null where id = 1",
        "entity 1 has another archived_at, archived_reason",
    ),
    "the same, as another type": (
        lambda conn: end_observation(conn, 3, "2024-01-01")["change"],
        "update observations set valid_to = cast(valid_to as blob) where id = 3",
        "observation 3 has another valid_to",
    ),
}


@pytest.mark.parametrize("case", TAKEN)
def test_refused_whole(conn, case):
    act, statement, message = TAKEN[case]
    change = act(conn)
    by_another(conn, statement)
    before = everything(conn)
    with pytest.raises(DependedOn, match=message):
        undo(conn, change)
    assert everything(conn) == before


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (99, UnknownChange, "there is no change 99"),
        (-1, UnknownChange, "there is no change -1"),
        (1 << 70, BadParameter, "use an id"),
        ("1", BadParameter, "change is '1': use an id"),
        (None, BadParameter, "change is None"),
        (True, BadParameter, "change is True"),
    ],
)
def test_no_such_change(conn, change, error, message):
    with pytest.raises(error, match=message):
        undo_change(conn, change)


def test_names_may_change(conn):
    """What the change did not touch is left as it is now."""
    change = archive_entity(conn, ATLAS, "done")["change"]
    by_another(conn, "update entities set name = 'Atlas II', entity_type = 'X' where id = 1")
    found = undo_change(conn, change)
    assert "'Atlas'" in found["summary"]
    row = conn.execute("select name, entity_type, archived_at from entities where id = 1")
    assert row.fetchone() == ("Atlas II", "X", None)


def test_counted_and_found_since(conn):
    started = dump(conn)
    change = merge_observations(conn, LIKE, [{"keep": 13, "remove": [14, 15]}])["change"]
    record_access(conn, [LIKE], query="gamma")
    keep(conn)
    undo(conn, change)
    found = differing(started, dump(conn))
    assert found.keys() == {"entity_access", "entity_access_log"}
    assert not any(gone for gone, _ in found.values()), "accesses of meanwhile stay"


def test_a_pair_whose_text_was_written_anew_does_not_come_back(conn):
    """The change has no copy of the text that stayed."""
    pairs = "select earlier_id, later_id from limbic_duplicates where 15 in (earlier_id, later_id)"
    before = conn.execute(pairs).fetchall()
    assert before == [(13, 15)]
    change = delete(conn, 15)
    undo(conn, change)
    assert conn.execute(pairs).fetchall() == before
    change = delete(conn, 15)
    by_another(conn, "update observations set content = 'Boats are made of wood' where id = 13")
    undo(conn, change)
    assert conn.execute(pairs).fetchall() == []


# odd rows -----------------------------------------------------------------------------------------


def test_text_that_is_no_utf8_and_numbers_that_are_none(conn):
    by_another(
        conn,
        "update observations set content = cast(x'6162ff00ff' as text), kind = x'ff01',"
        " confidence = 9e999 where id = 3",
        "update entities set name = cast(x'41ff42' as text) where id = 1",
    )
    started = dump(conn)
    assert any("RawText" in row or "xff" in row for row in started["observations"])
    changes = [
        archive_entity(conn, ATLAS, "done", embed=False)["change"],
        end_observation(conn, 3, embed=False)["change"],
        correct_confidence(conn, observation=3, confidence=0, embed=False)["change"],
        delete(conn, 3, embed=False),
    ]
    name = conn.execute("select distinct entity_name from limbic_changes").fetchall()
    assert name == [("A\ufffdB",)]
    for change in reversed(changes):
        undo(conn, change, embed=False)
    found = differing(started, dump(conn))
    assert found.keys() <= {"_limbic_vec_entities", "_limbic_vec_observations", "embeddings"}
    assert RawText(b"ab\xff\x00\xff") in [
        RawText(row[0]) for row in conn.execute("select cast(content as blob) from observations")
    ]


def test_columns_of_other_programs(conn):
    by_another(
        conn,
        "alter table observations add column mood text default 'calm'",
        'alter table observations add column "it\'s; ""odd""" blob',
        "alter table observations add column size int generated always as (length(content))",
        'update observations set mood = \'wild\', "it\'s; ""odd""" = x\'00ff\' where id = 3',
    )
    started = dump(conn)
    first = delete(conn, 3)
    undone = undo(conn, first)
    assert differing(started, dump(conn)) == {}
    again = undo(conn, undone)
    undo(conn, again)
    assert differing(started, dump(conn)) == {}
    change = delete(conn, 3, 8)
    by_another(
        conn,
        "alter table observations drop column mood",
        "alter table observations add column colour text not null default 'red'",
    )
    found = undo_change(conn, change)
    assert found["warnings"] == [
        "the table observations has no column mood any more: what it held of these rows stays in "
        "the log of changes alone"
    ]
    colours = conn.execute("select colour from observations where id in (3, 8)").fetchall()
    assert colours == [("red",)] * 2


def test_a_trigger_that_has_its_own_ideas(conn):
    change = archive_entity(conn, ATLAS, "done")["change"]
    by_another(
        conn,
        "create trigger never after update on entities when new.archived_at is null begin"
        " update entities set archived_at = '2020-01-01' where id = new.id; end",
    )
    before = everything(conn)
    with pytest.raises(
        Refused, match=r"entities .* has another archived_at afterwards\. A trigger"
    ):
        undo(conn, change)
    assert everything(conn) == before


def test_odd_names_and_twins(conn):
    started = dump(conn)
    for entity in (ODD, TWIN, "ATLAS"):
        if entity != "ATLAS":
            undo(conn, archive_entity(conn, entity, "'; drop table entities --")["change"])
    assert differing(started, dump(conn)) == {}


def test_two_at_once(conn, acted):
    """Both saw that it can be undone; the second is told who was faster."""
    change = delete(conn, 3)
    found = undo_change(conn, change, dry_run=True)
    with opened(acted) as other:
        undo_change(other, change, actor="ana", basis=found["basis"])
    with pytest.raises(Refused, match=rf"change {change} was undone already, by change .*by ana"):
        undo_change(conn, change, basis=found["basis"])
