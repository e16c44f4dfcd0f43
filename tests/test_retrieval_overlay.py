"""What changed since is compared exactly, with the filters of a search."""

from __future__ import annotations

import math

import numpy
import pytest
from embedding_helpers import blob
from retrieval_helpers import (
    SETTINGS,
    add,
    agrees,
    ask,
    asked_with,
    brute,
    clustered,
    embed,
    memory,
    opened,
    uniform,
    with_index,
)

from datasette_limbic import vectors
from datasette_limbic.errors import RetrieverFailed
from datasette_limbic.retrieval import base, builds, in_memory
from datasette_limbic.retrieval import overlay as module
from datasette_limbic.retrieval.approximate import Approximate
from datasette_limbic.retrieval.held import file_key
from datasette_limbic.retrieval.in_memory import Memory
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


def test_what_is_seen_is_kept_once_for_a_connection(tmp_path):
    """Of the states that a file had, none but the last; what the log names, once for all."""
    path = memory(tmp_path / "m.db", ROWS)
    with opened(path) as one, opened(path) as two, opened(path) as writer:
        matrix = in_memory.read(one)
        bare = matrix.nbytes
        writer.execute("update embeddings set updated = 5")  # long before the sync
        for n in range(5):
            add(writer, {20 + n: ROWS[n]})
            writer.execute("update entities set name = 'waits' where id = 5")
            writer.commit()
            for conn in (one, two, one):
                assert matrix.seen(conn).over.ids.tolist() == list(range(20, 21 + n))
                assert matrix.seen(conn).waiting.ids.tolist() == [5]
            assert len(matrix._seen) == 2
        assert matrix.nbytes == bare + matrix._logged[1].nbytes > bare + 5 * 8 * 4


def test_a_commit_that_wrote_no_vector_reads_no_vector_again(tmp_path, monkeypatch):
    path = memory(tmp_path / "m.db", ROWS)
    reads = []
    real = base.overlay
    monkeypatch.setattr(
        base, "overlay", lambda conn, ids, size: reads.append(list(ids)) or real(conn, ids, size)
    )
    with opened(path) as one, opened(path) as two, opened(path) as writer:
        matrix = in_memory.read(one)
        add(writer, {20: ROWS[0], 21: ROWS[1]})
        matrix.seen(one)
        for _ in range(3):
            writer.execute("insert into observations(entity_id, content) values (1, 'x')")
            writer.execute("delete from limbic_stale")
            writer.commit()
            matrix.seen(one)
            matrix.seen(two)
        assert reads == [[20, 21]]


@pytest.mark.parametrize("name", ["memory", "approximate"])
def test_what_changed_is_read_before_the_statement(name, tmp_path, monkeypatch):
    """The statement is limited in time."""
    path = memory(tmp_path / "m.db", ROWS)
    with_index(path)
    with opened(path) as conn:
        add(conn, {20: ROWS[0]})
        retriever = asked_with(name)
        retriever.prepare(conn, SETTINGS)
        monkeypatch.setattr(base, "overlay", None)  # must not be called any more
        assert ask(retriever, conn, ROWS[0], 2)[1].id == 20


@pytest.mark.parametrize("bound", [2000, 5])
@pytest.mark.parametrize("name", ["memory", "approximate"])
def test_thousands_that_wait_leave_room_for_the_type(name, bound, tmp_path, monkeypatch):
    """They are judged as they are now, and beyond the bound as of the last sync."""
    monkeypatch.setattr(module, "MOST_UNINDEXED", bound)
    rows = clustered(600, 16, clusters=3)
    path = memory(tmp_path / "m.db", rows, types=["Rare", *["Common"] * 19])
    build = with_index(path)
    retriever = Memory() if name == "memory" else Approximate()
    with opened(path) as conn:
        conn.execute("update embeddings set updated = 5")  # long before the sync
        # a search that looks at few
        builds.change(conn, build.build, shortlisted=40, rescored=40)
        conn.execute(
            "insert into observations(entity_id, content) select id, 'x' from entities"
            " where entity_type = 'Common'"
        )
        conn.commit()
        query = uniform(1, 16, seed=7)[0]
        agrees(ask(retriever, conn, query, 30, "Rare"), brute(conn, query, 30, "Rare"))
        # what became one, or is none any more, and waits; ids are the newest
        conn.execute("update entities set entity_type = 'Common' where id = 600")
        conn.execute("update entities set entity_type = 'Rare' where id = 599")
        conn.execute(
            "update entities set entity_type = 'Rare', archived_at = '2026-01-01' where id = 598"
        )
        conn.commit()
        found = ask(retriever, conn, query, 60, "Rare")
        agrees(found, brute(conn, query, 60, "Rare"))
        assert {598, 599, 600} & {c.id for c in found} == {599}


@pytest.mark.parametrize("name", ["memory", "approximate"])
def test_what_the_file_cannot_tell_is_an_error(name, tmp_path):
    """Never what was there before."""
    path = memory(tmp_path / "m.db", ROWS)
    with_index(path)
    retriever = asked_with(name)
    with opened(path) as conn, opened(path) as writer:
        ask(retriever, conn, ROWS[0])
        held = retriever.held.peek((name, file_key(conn)))
        vectors.rebuild(writer, "entities")
        writer.commit()
        with pytest.raises(RetrieverFailed, match="is not known: run datasette limbic sync"):
            held.seen(conn)
        if name == "approximate":
            assert "out of step" in retriever.unusable(conn, SETTINGS)
            with pytest.raises(RetrieverFailed, match="is not known"):
                ask(retriever, conn, ROWS[0])
        else:  # it reads all anew
            agrees(ask(retriever, conn, ROWS[0], 12), brute(conn, ROWS[0], 12))
