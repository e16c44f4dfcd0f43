"""The vec0 tables."""

from __future__ import annotations

import json
import math

import pytest
from embedding_helpers import (
    blob,
    fill,
    fill_and_store,
    store,
    values,
)

from datasette_limbic import connection, vectors
from datasette_limbic.errors import VectorsUnavailable

ENTITIES = "_limbic_vec_entities"


def there(conn, name):
    return bool(conn.execute("select 1 from sqlite_master where name = ?", [name]).fetchone())


def nearest(conn, vector, k=5, where=""):
    rows = conn.execute(
        f"select entity_id from {ENTITIES} where embedding match ? and k = ? {where}"
        " order by distance",
        [vector, k],
    )
    return [row[0] for row in rows]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (blob(3, 4), (0.6, 0.8)),
        (blob(-1, 0), (-1, 0)),
        (blob(1e30, 0), (1, 0)),
        (blob(1e-30, 0), (1, 0)),
        (blob(0, 0), "zero vector"),
        (blob(math.nan, 1), "not finite"),
        (blob(math.inf, 1), "not finite"),
        (blob(1, 2, 3), "3 values instead of 2"),
        (b"", "0 values instead of 2"),
        (b"abc", "not a vector of float32"),
        (None, "not a vector of float32"),
        ("text", "not a vector of float32"),
    ],
)
def test_unit(given, found):
    result = vectors.unit(given, 2)
    if isinstance(found, str):
        assert result == found
    else:
        assert values(result) == pytest.approx(found)


def test_units_keep_their_order():
    assert vectors.units([], 2) == []
    found = vectors.units([blob(0, 0), blob(0, 2), None, blob(5, 0)], 2)
    assert [f if isinstance(f, str) else values(f) for f in found] == [
        "zero vector",
        (0, 1),
        "not a vector of float32",
        (1, 0),
    ]


def test_empty_store_has_no_table(conn):
    assert vectors.rebuild(conn, "entities") == []
    assert not there(conn, ENTITIES)
    state = vectors.index_state(conn)["entities"]
    assert state["in_step"]
    assert (state["model"], state["dimension"], state["indexed"]) == (None, 0, 0)


def test_rebuild(conn):
    fill(conn, 4)
    conn.execute("update entities set archived_at = '2024-01-01' where id = 2")
    conn.execute("delete from limbic_stale")
    store(conn, "entities", {1: blob(1, 0), 2: blob(1, 1), 3: blob(0, 5), 4: blob(-1, 0)})
    seen = []
    assert vectors.rebuild(conn, "entities", lambda *args: seen.append(args)) == []
    assert seen == [(4, 4, "entities")]
    assert nearest(conn, blob(1, 0)) == [1, 2, 3, 4]
    assert nearest(conn, blob(1, 0), where="and archived = 0") == [1, 3, 4]
    assert nearest(conn, blob(1, 0), where="and entity_type = 'Thing'", k=1) == [1]
    distance = conn.execute(
        f"select distance from {ENTITIES} where embedding match ? and k = 4 and entity_id = 2",
        [blob(1, 0)],
    ).fetchone()[0]
    assert 1 - distance**2 / 2 == pytest.approx(math.sqrt(0.5), abs=1e-6)


def test_rejected_vectors_are_reported_never_indexed(conn):
    fill_and_store(conn, (1, 0), (0, 0), (math.nan, 0), (1, 2, 3), (0, 1))
    expected = [
        {"id": 2, "reason": "zero vector"},
        {"id": 3, "reason": "not finite"},
        {"id": 4, "reason": "3 values instead of 2"},
    ]
    assert vectors.rebuild(conn, "entities") == expected
    conn.execute("delete from limbic_stale where collection = 'entities'")
    state = vectors.index_state(conn)["entities"]
    assert state["rejected"] == expected
    assert (state["indexed"], state["stored"], state["in_step"]) == (2, 5, True)
    assert sorted(nearest(conn, blob(1, 1))) == [1, 5]
    # a good one takes it off the list, a bad one puts it on
    assert vectors.upsert(conn, "entities", [(2, blob(1, 1)), (1, blob(0, 0))]) == [
        {"id": 1, "reason": "zero vector"}
    ]
    state = vectors.index_state(conn)["entities"]
    assert [r["id"] for r in state["rejected"]] == [3, 4, 1]
    assert sorted(nearest(conn, blob(1, 1))) == [2, 5]


def test_the_list_of_rejected_is_json_in_the_file(conn):
    fill_and_store(conn, (0, 0))
    vectors.rebuild(conn, "entities")
    row = conn.execute("select rejected from limbic_indexes").fetchone()
    assert json.loads(row[0]) == [{"id": 1, "reason": "zero vector"}]


def test_upsert_replaces_and_creates(conn):
    fill_and_store(conn, (1, 0), (0, 1))
    assert vectors.upsert(conn, "entities", [(1, blob(1, 0)), (2, blob(0, 1))]) == []
    assert nearest(conn, blob(1, 0)) == [1, 2]
    vectors.upsert(conn, "entities", [(1, blob(-1, 0))])
    assert nearest(conn, blob(1, 0)) == [2, 1]
    vectors.upsert(conn, "entities", [])
    vectors.upsert(conn, "entities", [(99, blob(1, 0))])  # no such entity
    assert nearest(conn, blob(1, 0)) == [2, 1]
    vectors.delete(conn, "entities", [2])
    assert nearest(conn, blob(1, 0)) == [1]
    assert conn.execute("select vectors from limbic_indexes").fetchone() == (1,)


def test_upsert_is_part_of_the_callers_transaction(conn):
    fill_and_store(conn, (1, 0))
    conn.execute("begin immediate")
    vectors.upsert(conn, "entities", [(1, blob(1, 0))])
    assert conn.in_transaction
    conn.rollback()
    assert not there(conn, ENTITIES)


def test_observations_carry_their_entity(conn):
    fill(conn, 2, each=1)
    store(conn, "observations", {1: blob(1, 0), 2: blob(0, 1)})
    vectors.rebuild(conn, "observations")
    rows = conn.execute(
        "select observation_id from _limbic_vec_observations where embedding match ? and k = 5"
        " and entity_id = 2",
        [blob(1, 0)],
    ).fetchall()
    assert rows == [(2,)]


def test_another_dimension_makes_another_table(conn):
    fill_and_store(conn, (1, 0), (0, 1))
    vectors.rebuild(conn, "entities")
    store(conn, "entities", {1: blob(1, 0, 0), 2: blob(0, 1, 0)})
    conn.execute("delete from limbic_stale")
    state = vectors.index_state(conn)["entities"]
    assert "2 dimensions, the vectors have 3" in state["reason"]
    vectors.rebuild(conn, "entities")
    assert vectors.table_dimension(conn, "entities") == 3
    assert nearest(conn, blob(1, 0, 0)) == [1, 2]
    assert vectors.index_state(conn)["entities"]["in_step"]


@pytest.mark.parametrize(
    "kind", ["", "a\0b", "x" * 10_000, "ñ用户" * 3_000, "' or 1=1 --", "123", "x" * 12, "x" * 13]
)
def test_any_entity_type(conn, kind):
    fill(conn, 2)
    conn.execute("update entities set entity_type = ? where id = 1", [kind])
    store(conn, "entities", {1: blob(1, 0), 2: blob(0, 1)})
    for _ in range(2):
        vectors.rebuild(conn, "entities")
        vectors.upsert(conn, "entities", [(1, blob(1, 0)), (2, blob(0, 1))])
        rows = conn.execute(
            f"select entity_id from {ENTITIES} where embedding match ? and k = 1"
            " and entity_type = ?",
            [blob(0, 1), kind],
        ).fetchall()
        assert rows == [(1,)]
    vectors.delete(conn, "entities", [1, 2])
    assert nearest(conn, blob(0, 1)) == []


def test_state_says_why_it_is_not_in_step(conn):
    fill(conn, 2)

    def reason():
        return vectors.index_state(conn)["entities"]["reason"]

    assert reason() == "2 changed since the last sync"
    conn.execute("delete from limbic_stale")
    assert reason() == "2 without a vector"
    store(conn, "entities", {1: blob(1, 0), 2: blob(0, 1)})
    conn.execute("delete from limbic_stale")
    assert reason() == "not built from this model's vectors"
    vectors.rebuild(conn, "entities")
    assert reason() is None
    conn.execute(f"delete from {ENTITIES} where entity_id = 1")
    assert reason() == "1 of 2 vectors indexed"


def test_differences(conn):
    fill_and_store(conn, (1, 0), (0, 1), (0, 0))
    assert vectors.differences(conn, "entities") == ([1, 2, 3], [])
    vectors.rebuild(conn, "entities")
    assert vectors.differences(conn, "entities") == ([], [])
    conn.execute(f"delete from {ENTITIES} where entity_id = 1")
    conn.execute("delete from embeddings where id = '2'")
    assert vectors.differences(conn, "entities") == ([1], [2])


def test_without_sqlite_vec(conn, path, monkeypatch):
    fill_and_store(conn, (1, 0))
    vectors.rebuild(conn, "entities")
    conn.commit()
    monkeypatch.setattr(connection, "load_vec", lambda conn: "no vec here")
    bare = connection.connect(path)
    try:
        assert vectors.index_state(bare)["entities"]["indexed"] == 1
        for call in (
            lambda: vectors.rebuild(bare, "entities"),
            lambda: vectors.upsert(bare, "entities", [(1, blob(1, 0))]),
            lambda: vectors.delete(bare, "entities", [1]),
        ):
            with pytest.raises(VectorsUnavailable, match="pip install sqlite-vec"):
                call()
    finally:
        bare.close()


def test_much_deleting_is_noticed(conn):
    fill_and_store(conn, (1, 0))
    vectors.rebuild(conn, "entities")
    assert not vectors.is_bloated(conn, "entities")
    conn.executemany(
        f"insert into {ENTITIES}_chunks(size, validity, rowids) values (1024, x'', x'')",
        [()] * 6,
    )
    assert vectors.is_bloated(conn, "entities")
