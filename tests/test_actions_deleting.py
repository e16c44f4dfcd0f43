"""Deleting observations: whatever they say, with warnings of what is lost."""

from __future__ import annotations

import pytest
from actions_helpers import (
    ARCHIVED,
    ATLAS,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    assert_settled,
    differing,
    dump,
    everything,
    opened,
)

from datasette_limbic.actions.acting import act
from datasette_limbic.actions.functions import delete_observations, merge_observations, undo_change
from datasette_limbic.errors import BadParameter, StaleProposal, UnknownEntity, UnknownRow
from datasette_limbic.search import search


@pytest.fixture
def conn(acted):
    with opened(acted) as found:
        yield found


@pytest.fixture(scope="module")
def refusing(acted_master):
    with opened(acted_master) as found:
        yield found


def test_gone_from_everywhere_and_back(conn, models):
    before = dump(conn)
    times = "select updated_at, last_activity_at from entities order by id"
    was = conn.execute(times).fetchall()
    done = delete_observations(conn, {3, 8, 14}, actor="ana")
    assert done["summary"] == "Delete 3 observations of 'Atlas', 'Borealis', 'Gamma'"
    assert done["entity"] == {"id": None, "name": None}
    assert conn.execute(times).fetchall() == was, "deleting is no activity"
    assert conn.execute("select supersedes from observations where id = 15").fetchone() == (None,)
    collection = "select count(*) from embeddings where id in ('3', '8', '14') and collection_id ="
    of = " (select id from collections where name = 'observations')"
    assert conn.execute(collection + of).fetchone() == (0,)
    assert ATLAS not in [row["id"] for row in search(conn, "Oslo", mode="text")["results"]]
    assert_settled(conn, models["bag"])
    undo_change(conn, done["change"])
    assert ATLAS in [row["id"] for row in search(conn, "Oslo", mode="text")["results"]]
    assert_settled(conn)
    assert differing(before, dump(conn)) == {}


WARNED = {
    "the only one": ([8], ["'Borealis' is left without observations"]),
    "of two entities": ([8, 13, 14, 15], [
        "'Borealis', 'Gamma' are left without observations",
        "observations 13, 14, 15 say the same, and all of them go: to keep one, merge them "
        "(action merge)",
    ]),
    "those that hold": ([1, 2, 3, 5, 7], [
        "'Atlas' is left without observations that hold",
        "observations 1, 2 say the same, and all of them go: to keep one, merge them "
        "(action merge)",
    ]),
    "one of a pair": ([13], []),
    "all but one": ([13, 15], []),
    "of an archived one": ([11], ["'Delta' is left without observations"]),
    "ended": ([4], []),
}  # fmt: skip


@pytest.mark.parametrize("case", WARNED)
def test_warned(refusing, case):
    ids, warnings = WARNED[case]
    assert delete_observations(refusing, ids, dry_run=True)["warnings"] == warnings


def test_what_was_merged_into_it_is_said(conn):
    first = merge_observations(conn, "Gamma", [{"keep": 13, "remove": [14]}])
    merge_observations(conn, "Gamma", [{"keep": 15, "remove": [13]}])
    found = delete_observations(conn, [15], dry_run=True)
    assert found["warnings"][1:] == [
        "observation 15 was kept for observation 13 “Everything about gamma rays and detectors” "
        f"and 1 more (change {first['change'] + 1}), and goes now"
    ]


REFUSED = {
    "none": ([], BadParameter, "observations has 0 ids"),
    "twice": ([1, 2, 1], BadParameter, "same id twice: 1"),
    "a name": (["Atlas"], BadParameter, "observations is 'Atlas': use an id"),
    "one id": (1, BadParameter, "observations is 1: give a list of ids"),
    "a text": ("12", BadParameter, "observations is '12': give a list of ids"),
    "nothing": (None, BadParameter, "observations is None"),
    "true": ([True], BadParameter, "observations is True"),
    "too many": (range(10_001), BadParameter, "observations has 10,001 ids: give 1 to 10,000"),
    "unknown": ([1, 98, 99], UnknownRow, "no observation 98, 99"),
    "many unknown": (
        range(100, 200), UnknownRow, "no observation 100, 101, 102, 103, 104 and 95 more",
    ),
    "beyond 64 bits": ([1 << 64], BadParameter, "use an id, a whole number"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(refusing, case):
    asked, error, message = REFUSED[case]
    before = everything(refusing)
    with pytest.raises(error, match=message):
        delete_observations(refusing, asked)
    assert everything(refusing) == before


def test_of_no_entity(conn):
    conn.execute("pragma foreign_keys = off")
    conn.execute("insert into observations(id, entity_id, content) values (90, 77, 'lost')")
    conn.commit()
    with pytest.raises(UnknownEntity, match="observation 90 belongs to no entity that is there"):
        delete_observations(conn, [90])


def test_stale(conn):
    found = delete_observations(conn, [3, 8], dry_run=True)
    # what is found beside a row makes no proposal untrue
    conn.execute("update observations set similarity_flag = 1 where id = 3")
    conn.execute("update entities set last_activity_at = datetime('now')")
    conn.commit()
    again = delete_observations(conn, [3, 8], dry_run=True, basis=found["basis"])
    assert again["diff"]["counts"]["observations"]["removed"] == 2
    conn.execute("update observations set content = 'Maps are drawn in Rome' where id = 3")
    conn.commit()
    with pytest.raises(StaleProposal, match="observation 3 changed"):
        delete_observations(conn, [3, 8], basis=found["basis"])


def test_many_at_once(conn):
    conn.executemany(
        "insert into observations(id, entity_id, content) values (?, ?, ?)",
        [(n, ARCHIVED if n % 2 else ATLAS, f"note {n}") for n in range(1_000, 3_000)],
    )
    conn.commit()
    done = act(conn, "delete", {"observations": list(range(1_000, 3_000))}, embed=False)
    assert conn.execute("select count(*) from observations where id >= 1000").fetchone() == (0,)
    act(conn, "undo", {"change": done["change"]}, embed=False)
    assert conn.execute("select count(*) from observations where id >= 1000").fetchone() == (2_000,)
