"""Uses are no activity, and the log outlives what it is about."""

from __future__ import annotations

import sqlite3 as stock_sqlite3
from contextlib import closing

import pytest
from signal_log_helpers import use

from datasette_limbic import connection, search_log, serving, signals
from datasette_limbic.config import Settings
from datasette_limbic.errors import UnknownSearch
from datasette_limbic.integrity.files import check_file
from datasette_limbic.pruning import prune

OLD = "2020-01-01 00:00:00"
# All that a sync, a page or a decay would take for a change of the memory.
STATE = (
    "entities",
    "observations",
    "relations",
    "limbic_stale",
    "limbic_indexes",
    "embeddings",
    "limbic_topics",
    "limbic_insights",
    "_limbic_fts_content",
    "_limbic_trigram_content",
)


@pytest.fixture
def conn(demo_db):
    with closing(connection.connect(demo_db)) as conn:
        yield conn


def state(conn):
    return {table: conn.execute(f"select * from {table}").fetchall() for table in STATE}


def rated(conn):
    [uid] = use(conn, 1)
    [entity] = search_log.ratings(conn, uid)
    return uid, entity


USES = {
    "a search": lambda conn: serving.search_semantic(conn, "who fixed the geocoder"),
    "a search by the baseline": lambda conn: serving.search_semantic(
        conn, "tea", settings=Settings(baseline_share=1.0)
    ),
    "an opening": lambda conn: serving.open_nodes(conn, ["Atlas"]),
    "an opening by somebody": lambda conn: serving.open_nodes(conn, ["Atlas"], client="me"),
    "an opening of many": lambda conn: serving.open_nodes(conn, ids=range(1, 40)),
    "a rating": rated,
    "an access": lambda conn: signals.record_access(conn, [1, 2, 3]),
    "what came up together": lambda conn: signals.record_co_occurrences(conn, [1, 2, 3]),
    "pruning": lambda conn: (use(conn, 2), prune(conn, 0, now="2999-01-01 00:00:00")),
}


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("name", USES)
def test_a_use_is_no_activity(name, settled, conn):
    conn.execute("insert into _limbic_guard values ('test')")
    conn.execute("update entities set last_activity_at = ?, updated_at = ?", [OLD, OLD])
    conn.execute("delete from _limbic_guard")
    conn.commit()
    if not settled:  # marks that are there stay as they are
        conn.execute("update observations set content = 'changed' where id = 5")
        conn.commit()
    before, written = state(conn), conn.total_changes
    assert bool(before["limbic_stale"]) is not settled
    USES[name](conn)
    assert conn.total_changes > written
    assert state(conn) == before


@pytest.mark.parametrize("keys", ["on", "off"])
def test_the_log_outlives_an_entity(keys, conn, demo_db):
    uid, entity = rated(conn)
    name = conn.execute("select name from entities where id = ?", [entity]).fetchone()[0]
    candidates = conn.execute("select * from limbic_search_candidates").fetchall()
    searches = conn.execute("select * from limbic_searches").fetchall()
    feedback = conn.execute("select id, search_id, entity_name, event from limbic_feedback")
    feedback = feedback.fetchall()
    assert len(feedback) == 2
    with closing(stock_sqlite3.connect(demo_db)) as stock:
        stock.execute(f"pragma foreign_keys = {keys}")
        stock.execute("delete from entities where id = ?", [entity])
        stock.commit()
    assert conn.execute("select * from limbic_search_candidates").fetchall() == candidates
    assert conn.execute("select * from limbic_searches").fetchall() == searches
    assert (
        conn.execute("select id, search_id, entity_name, event from limbic_feedback").fetchall()
        == feedback
    )
    assert conn.execute("select distinct entity_id from limbic_feedback").fetchall() == [(None,)]
    assert search_log.ratings(conn, uid) == {}
    # the search still shows what it showed, and that can be rated
    assert serving.rate(conn, uid, name, "not_useful") == {
        "search_id": uid,
        "query": searches[0][1],
        "id": entity,
        "name": name,
        "rating": "not_useful",
    }
    assert conn.execute(
        "select entity_id, entity_name from limbic_feedback order by id desc limit 1"
    ).fetchone() == (None, name)
    # an entity of the same name is another one
    conn.execute("insert into entities(name) values (?)", [name])
    conn.commit()
    assert serving.rate(conn, uid, name, "useful")["id"] == entity
    assert search_log.ratings(conn, uid) == {}
    assert check_file(demo_db).findings == []


@pytest.mark.parametrize("keys", ["on", "off"])
def test_that_it_was_opened_outlives_an_entity(keys, conn, demo_db):
    serving.open_nodes(conn, ["Atlas"], client="me")
    with closing(stock_sqlite3.connect(demo_db)) as stock:
        stock.execute(f"pragma foreign_keys = {keys}")
        stock.execute("delete from entities where name = 'Atlas'")
        stock.commit()
    found = "select search_id, entity_id, entity_name, event, client from limbic_feedback"
    assert conn.execute(found).fetchall() == [(None, None, "Atlas", "opened", "me")]
    assert check_file(demo_db).findings == []


def test_an_entity_that_was_renamed(conn, demo_db):
    """The log says what was shown; what is rated is the entity."""
    uid, entity = rated(conn)
    name = conn.execute("select name from entities where id = ?", [entity]).fetchone()[0]
    with conn:
        conn.execute("update entities set name = 'Renamed' where id = ?", [entity])
    assert conn.execute(
        "select entity_name from limbic_search_candidates where entity_id = ?", [entity]
    ).fetchone() == (name,)
    for given in (name, entity):
        assert serving.rate(conn, uid, given, "not_useful")["id"] == entity
    with pytest.raises(UnknownSearch, match="Renamed"):
        serving.rate(conn, uid, "Renamed", "useful")
    assert conn.execute(
        "select distinct entity_id, entity_name from limbic_feedback"
    ).fetchall() == [(entity, name)]
    serving.open_nodes(conn, ["Renamed"], search_id=uid)
    assert conn.execute(
        "select event, entity_name from limbic_feedback order by id desc limit 1"
    ).fetchone() == ("opened", name)
    assert check_file(demo_db).findings == []


def test_an_entity_that_was_archived(conn, demo_db):
    uid, entity = rated(conn)
    before = conn.execute("select * from limbic_feedback").fetchall()
    with conn:
        conn.execute("update entities set archived_at = ? where id = ?", [OLD, entity])
    assert conn.execute("select * from limbic_feedback").fetchall() == before
    assert serving.rate(conn, uid, entity, "not_useful")["id"] == entity
    assert search_log.ratings(conn, uid) == {entity: "not_useful"}
    assert check_file(demo_db).findings == []


@pytest.mark.parametrize("keys", ["on", "off"])
def test_a_search_takes_its_candidates_and_ratings_along(keys, conn, demo_db):
    """Its number is given again: a new search must inherit nothing, nor be refused."""
    first, last = use(conn, 2)
    sql = "select * from {} where search_id = (select id from limbic_searches where uid = ?)"
    kept = {
        table: conn.execute(sql.format(table), [first]).fetchall()
        for table in ("limbic_search_candidates", "limbic_feedback")
    }
    with closing(stock_sqlite3.connect(demo_db)) as stock:
        stock.execute(f"pragma foreign_keys = {keys}")
        stock.execute("delete from limbic_searches where uid = ?", [last])
        stock.commit()
    for table, rows in kept.items():
        assert conn.execute(f"select * from {table}").fetchall() == rows
    answer = serving.search_semantic(conn, "tea")
    assert search_log.search_row(conn, answer["search_id"])["id"] == 2
    assert search_log.ratings(conn, answer["search_id"]) == {}
    assert check_file(demo_db).findings == []


def test_a_pruned_log_is_sound(conn, demo_db):
    use(conn, 4)
    with conn:
        conn.execute("update limbic_searches set created_at = ? where id < 3", [OLD])
        conn.execute("update entity_access_log set accessed_at = ? where id % 2", [OLD])
    pruned = prune(conn, 30)
    assert pruned.searches == 2
    assert pruned.ratings == 4
    assert check_file(demo_db).findings == []
