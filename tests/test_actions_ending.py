"""Ending observations and relations, and correcting a confidence: small changes of one row."""

from __future__ import annotations

import math

import pytest
from actions_helpers import (
    ARCHIVED,
    ATLAS,
    BOREALIS,
    ODD,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    assert_settled,
    differing,
    dump,
    everything,
    opened,
)
from datasette.utils.sqlite import sqlite3

from datasette_limbic.actions.acting import act
from datasette_limbic.actions.functions import (
    correct_confidence,
    end_observation,
    end_relation,
    undo_change,
)
from datasette_limbic.errors import BadParameter, Refused, StaleProposal, UnknownEntity, UnknownRow
from datasette_limbic.search import search

NOT_A_TIME = "at is .*: use a time such as 2026-03-01"


@pytest.fixture
def conn(acted):
    with opened(acted) as found:
        found.execute(
            "update entities set updated_at = '2024-01-01 00:00:00',"
            " last_activity_at = '2024-01-01 00:00:00'"
        )
        found.commit()
        yield found


@pytest.fixture(scope="module")
def refusing(acted_master):
    """All that is refused may share a memory, since nothing changes it."""
    with opened(acted_master) as found:
        yield found


def one(conn, sql, *args):
    return conn.execute(sql, args).fetchone()


def activity(conn, entity):
    return one(conn, "select updated_at, last_activity_at from entities where id = ?", entity)


def finds(conn, query, entity, **options):
    found = search(conn, query, mode="text", **options)
    return entity in [row["id"] for row in found["results"]]


# ending -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "kept"),
    [
        (None, None),
        ("2024-07-01", "2024-07-01 00:00:00"),
        ("2024-07-01T12:00:00.250+02:00", "2024-07-01 10:00:00.250"),
        (1719792000, "2024-07-01 00:00:00"),
        ("1719792000000", "2024-07-01 00:00:00"),
    ],
)
def test_an_observation_ends(conn, at, kept):
    before = dump(conn)
    assert finds(conn, "Oslo", ATLAS)
    done = end_observation(conn, 3, at, actor="ana")
    valid_to, now = one(conn, "select valid_to, datetime('now') from observations where id = 3")
    assert valid_to == kept if kept else abs(int(now[-2:]) - int(valid_to[-2:])) in (0, 1, 59)
    assert min(activity(conn, ATLAS)) > "2026", "what ends is news of its entity"
    assert done["arguments"] == {"observation": 3, "at": valid_to}
    assert done["warnings"] == []
    assert done["search"] == {"updated": True, "reason": None}
    assert_settled(conn)
    snapshot = one(conn, "select content from entity_snapshots where id = ?", ATLAS)[0]
    assert "Oslo" not in snapshot
    undo_change(conn, done["change"])
    assert differing(before, dump(conn)) == {}


def test_pairs_and_flags_go_with_what_ends(conn):
    pairs = "select earlier_id, later_id from limbic_duplicates where 1 in (earlier_id, later_id)"
    assert conn.execute(pairs).fetchall()
    done = end_observation(conn, 1)
    assert conn.execute(pairs).fetchall() == []
    assert one(conn, "select similarity_flag from observations where id = 2") == (0,)
    counts = done["diff"]["counts"]["limbic_duplicates"]
    assert counts["removed"] >= 1


def test_a_time_to_come(conn):
    done = end_observation(conn, 3, "2099-01-01")
    assert done["warnings"] == [
        "2099-01-01 00:00:00 is still to come: until then the observation holds, and from then on "
        "it does not"
    ]
    assert_settled(conn)
    assert "Oslo" in one(conn, "select content from entity_snapshots where id = ?", ATLAS)[0]
    with pytest.raises(Refused, match="observation 3 ends at 2099-01-01 00:00:00 already"):
        end_observation(conn, 3, "2099-01-01T00:00")
    again = end_observation(conn, 3)  # sooner than that
    assert again["warnings"] == []
    undo_change(conn, again["change"])
    undo_change(conn, done["change"])
    assert one(conn, "select valid_to from observations where id = 3") == (None,)


def test_the_last_that_held(conn):
    done = end_observation(conn, 8)
    assert done["warnings"] == ["'Borealis' is left without observations that hold"]


def test_a_relation_ends_and_is_no_activity(conn):
    before, times = dump(conn), activity(conn, BOREALIS)
    assert "used by" in one(conn, "select content from entity_snapshots where id = 2")[0]
    done = end_relation(conn, 2, "2024-07-01")
    assert "→ used by →" in done["summary"]
    assert done["entity"] == {"id": BOREALIS, "name": "Borealis"}
    assert activity(conn, BOREALIS) == times
    assert "used by" not in one(conn, "select content from entity_snapshots where id = 2")[0]
    assert_settled(conn)
    undo_change(conn, done["change"])
    assert differing(before, dump(conn)) == {}


def test_half_a_link_of_a_split_is_said(conn):
    conn.execute(
        "insert into relations(id, from_entity, to_entity, relation_type)"
        " values (50, 1, 2, 'contiene'), (51, 2, 1, 'parte_de')"
    )
    conn.commit()
    found = end_relation(conn, 50, dry_run=True)
    assert found["warnings"] == ["the other way round 'parte_de' still holds (relation 51)"]
    end_relation(conn, 50)
    assert end_relation(conn, 51)["warnings"] == []


def test_a_relation_that_leads_nowhere(conn):
    """A file that was taken over may have such rows."""
    conn.execute("pragma foreign_keys = off")
    conn.execute(
        "insert into relations(id, from_entity, to_entity, relation_type) values (50, 77, 1, 'x')"
    )
    conn.commit()
    done = end_relation(conn, 50)
    assert done["entity"] == {"id": None, "name": None}
    assert "entity 77 → x → 'Atlas'" in done["summary"]


ENDING = {
    "neither": ({}, BadParameter, "neither is given"),
    "both": ({"observation": 1, "relation": 1}, BadParameter, "both are given"),
    "unknown": ({"observation": 99}, UnknownRow, "no observation 99"),
    "unknown relation": ({"relation": 99}, UnknownRow, "no relation 99"),
    "a name": ({"observation": "Atlas"}, BadParameter, "observation is 'Atlas': use an id"),
    "true": ({"relation": True}, BadParameter, "relation is True: use an id"),
    "no time": ({"observation": 1, "at": "soon"}, BadParameter, NOT_A_TIME),
    "no such day": ({"observation": 1, "at": "2026-02-31"}, BadParameter, NOT_A_TIME),
    "an empty time": ({"observation": 1, "at": ""}, BadParameter, NOT_A_TIME),
    "a time that is true": ({"observation": 1, "at": True}, BadParameter, NOT_A_TIME),
    "a list": ({"observation": 1, "at": ["2026"]}, BadParameter, NOT_A_TIME),
    "ended": ({"observation": 4}, Refused, "has ended already, at 2024-02-01 00:00:00"),
    "ended relation": ({"relation": 5}, Refused, "relation 5 has ended already, at 2024-01-01"),
    "before it began": (
        {"observation": 12, "at": "2019-12-31"}, Refused,
        "begins at 2020-01-01 00:00:00, so it cannot end at 2019-12-31 00:00:00",
    ),
    "not begun": ({"observation": 6}, Refused, "observation 6 begins at 2099-01-01 00:00:00"),
    "unknown argument": ({"observation": 1, "when": 1}, BadParameter, "unknown argument when"),
}  # fmt: skip


@pytest.mark.parametrize("case", ENDING)
def test_ending_refused(refusing, case):
    asked, error, message = ENDING[case]
    before = everything(refusing)
    with pytest.raises(error, match=message):
        act(refusing, "end", asked)
    assert everything(refusing) == before


@pytest.mark.parametrize("unreadable", ["some day", "1719792000", b"\xff"])
def test_an_end_that_search_cannot_read_is_none(conn, unreadable):
    conn.execute("update observations set valid_to = ? where id = 3", [unreadable])
    conn.commit()
    end_observation(conn, 3, "2024-07-01")
    assert one(conn, "select valid_to from observations where id = 3") == ("2024-07-01 00:00:00",)


# correcting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 0.25, 0.75])
@pytest.mark.parametrize("which", [{"entity": "Atlas"}, {"observation": 3}])
def test_corrected(conn, which, value):
    before = dump(conn)
    done = correct_confidence(conn, **which, confidence=value, actor="ana")
    table, number = ("entities", ATLAS) if "entity" in which else ("observations", 3)
    found = one(conn, f"select confidence, typeof(confidence) from {table} where id = ?", number)
    assert found == (value, "real")
    assert min(activity(conn, ATLAS)) > "2026"
    assert f"from 1 to {value:g}" in done["summary"]
    assert_settled(conn)
    with pytest.raises(Refused, match=f"is {value:g} already"):
        correct_confidence(conn, **which, confidence=value)
    undo_change(conn, done["change"])
    assert differing(before, dump(conn)) == {}


@pytest.mark.parametrize("which", [{"entity": "Atlas"}, {"observation": 3}])
def test_zero_has_no_sign(conn, which):
    done = correct_confidence(conn, **which, confidence=-0.0)
    assert done["summary"].split(" to ")[1][:2] in ("0", "0:")
    assert str(done["arguments"]["confidence"]) == "0.0"


CORRECTING = {
    "neither": ({"confidence": 1}, BadParameter, "neither is given"),
    "both": ({"entity": 1, "observation": 1, "confidence": 1}, BadParameter, "both are given"),
    "no value": ({"entity": 1}, BadParameter, "confidence is None: use a number from 0 to 1"),
    "text": ({"entity": 1, "confidence": "0.5"}, BadParameter, "confidence is '0.5'"),
    "true": ({"entity": 1, "confidence": True}, BadParameter, "confidence is True"),
    "nan": ({"entity": 1, "confidence": math.nan}, BadParameter, "confidence is nan"),
    "infinite": ({"entity": 1, "confidence": math.inf}, BadParameter, "confidence is inf"),
    "below": ({"entity": 1, "confidence": -0.01}, BadParameter, "confidence is -0.01"),
    "above": ({"observation": 1, "confidence": 1.01}, BadParameter, "confidence is 1.01"),
    "huge": ({"entity": 1, "confidence": 10**400}, BadParameter, "confidence is 1000"),
    "the same": ({"entity": 1, "confidence": 1}, Refused, "confidence of 'Atlas' is 1 already"),
    "nobody": ({"entity": "Atlos", "confidence": 0}, UnknownEntity, "no entity with the name"),
    "unknown": ({"observation": 99, "confidence": 0}, UnknownRow, "no observation 99"),
}


@pytest.mark.parametrize("case", CORRECTING)
def test_correcting_refused(refusing, case):
    asked, error, message = CORRECTING[case]
    before = everything(refusing)
    with pytest.raises(error, match=message):
        act(refusing, "correct", asked)
    assert everything(refusing) == before


def test_what_another_program_left_can_be_corrected(conn):
    conn.execute("update entities set confidence = 9e999 where id = ?", [ODD])
    conn.execute("update observations set confidence = 'high' where id = 3")
    conn.commit()
    before = dump(conn)
    first = correct_confidence(conn, entity=ODD, confidence=1)
    second = correct_confidence(conn, observation=3, confidence=1)
    assert "from inf to 1" in first["summary"]
    assert "from unknown to 1" in second["summary"]
    undo_change(conn, second["change"])
    undo_change(conn, first["change"])
    assert differing(before, dump(conn)) == {}


def test_archived_ones_can_be_corrected_and_stay_so(conn):
    correct_confidence(conn, entity=ARCHIVED, confidence=0.5)
    assert one(conn, "select archived_at is null from entities where id = ?", ARCHIVED) == (0,)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("end", {"observation": 3}),
        ("correct", {"observation": 3, "confidence": 0.5}),
        ("end", {"relation": 2}),
        ("correct", {"entity": ATLAS, "confidence": 0.5}),
    ],
)
def test_stale(conn, name, arguments):
    found = act(conn, name, arguments, dry_run=True)
    table, number = {
        "observation": ("observations", 3),
        "relation": ("relations", 2),
        "entity": ("entities", ATLAS),
    }[next(iter(arguments))]
    conn.execute(f"update {table} set valid_from = '2021-01-01' where id = ?", [number])
    conn.commit()
    with pytest.raises(StaleProposal, match=f"{table[:-1].replace('entitie', 'entity')} {number}"):
        act(conn, name, arguments, basis=found["basis"])


def test_read_only(acted):
    with opened(acted, readonly=True) as conn:
        found = end_observation(conn, 3, dry_run=True)
        assert found["change"] is None
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            end_observation(conn, 3)
