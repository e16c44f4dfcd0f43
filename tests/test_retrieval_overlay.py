"""What changed since is compared exactly, with the filters of a search."""

from __future__ import annotations

import math

import numpy
import pytest
from embedding_helpers import blob
from retrieval_helpers import add, embed, memory, opened, uniform

from datasette_limbic.retrieval.overlay import overlay, similarities, unindexed, unit_vectors

ROWS = uniform(12, 8)


@pytest.fixture
def conn(tmp_path):
    path = memory(tmp_path / "m.db", ROWS, types=("Person", "Place"), archived=[3, 4])
    with opened(path) as found:
        yield found


def test_what_an_overlay_holds(conn):
    embed(conn, {2: b"\0" * 32, 99: ROWS[0]})  # of no use, and of nobody
    found = overlay(conn, [5, 4, 2, 99, 1000, 4], 8)
    assert found.changed.tolist() == [2, 4, 5, 99, 1000]
    assert sorted(found.ids.tolist()) == [4, 5]
    for item, row in zip(found.ids, found.vectors, strict=True):
        assert numpy.allclose(row, ROWS[item - 1], atol=1e-6)


@pytest.mark.parametrize(
    ("entity_type", "archived", "ids"),
    [
        (None, False, [1, 2, 5]),
        (None, True, [1, 2, 3, 4, 5]),
        ("Place", False, [1, 5]),
        ("Place", True, [1, 3, 5]),
        ("Person", False, [2]),
        ("Nothing", True, []),
        ("", True, []),
    ],
)
def test_filters(entity_type, archived, ids, conn):
    found, similar = overlay(conn, range(1, 6), 8).scores(ROWS[4], entity_type, archived)
    assert sorted(found.tolist()) == ids
    for item, value in zip(found, similar, strict=True):
        assert value == pytest.approx(float(ROWS[item - 1] @ ROWS[4]), abs=1e-6)


def test_nothing_changed(conn):
    found = overlay(conn, [], 8)
    assert [len(part) for part in found] == [0] * 5
    assert len(found.scores(ROWS[0], "Place", False)[0]) == 0


def test_what_nobody_indexed(conn):
    assert unindexed(conn) == []
    embed(conn, {7: ROWS[1]})
    assert unindexed(conn) == [7]
    # a text that changed and has its old vector is no news
    conn.execute("update entities set name = 'other' where id = 8")
    conn.execute("update embeddings set updated = 5 where id = '8'")
    conn.execute("delete from limbic_stale where item_id = 8")
    conn.execute("update entities set name = 'another' where id = 8")
    assert unindexed(conn) == [7]
    add(conn, {7: ROWS[1]})
    assert unindexed(conn) == []


def test_vectors_of_any_length(conn):
    """float32 has no room for their squares, and they are told as exactly."""
    odd = {
        1: blob(1e25, 0, 0, 0, 1e25, 0, 0, 0),
        2: blob(1e-25, 0, 0, 0, 1e-25, 0, 0, 0),
        3: blob(3, 0, 0, 0, 3, 0, 0, 0),
        4: blob(math.nan, *[1] * 7),
        5: blob(math.inf, *[1] * 7),
        6: bytes(32),
        7: blob(1, 2),
        8: "t" * 32,
        9: None,
    }
    conn.execute("pragma ignore_check_constraints = on")
    embed(conn, odd)
    query = numpy.eye(8, dtype="<f4")[0]
    ids, similar = similarities(conn, list(odd), query)
    assert sorted(ids.tolist()) == [1, 2, 3]
    assert similar.tolist() == pytest.approx([math.sqrt(0.5)] * 3, abs=1e-6)
    assert sorted(unit_vectors(conn, list(odd), 8)) == [1, 2, 3]
    assert len(similarities(conn, [], query)[0]) == 0
    conn.execute("delete from embeddings")
    conn.execute("delete from collections")
    assert len(similarities(conn, [1], query)[0]) == 0
    assert unit_vectors(conn, [1], 8) == {}
