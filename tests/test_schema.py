"""Tables, triggers and migrations, as any program that writes with stock SQLite meets them."""

from __future__ import annotations

import re
import sqlite3 as stock_sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from empty_memory import empty_memory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlite_utils import Database

from datasette_limbic import connection, schema
from datasette_limbic.errors import NotAMemory, SchemaConflict

OLD = "2024-01-01 00:00:00"


@pytest.fixture
def stock(empty_db):
    """A connection of Python's own sqlite3 without any extension or function of ours."""
    conn = stock_sqlite3.connect(empty_db)
    conn.execute("pragma foreign_keys=on")
    yield conn
    conn.close()


def text_index(conn):
    return {
        tuple(row) for row in conn.execute("select rowid, coalesce(name, content) from _limbic_fts")
    }


def expected_text_index(conn):
    return {(row[0] * 2, row[1]) for row in conn.execute("select id, name from entities")} | {
        (row[0] * 2 + 1, row[1]) for row in conn.execute("select id, content from observations")
    }


def stale(conn):
    return {tuple(row) for row in conn.execute("select collection, item_id from limbic_stale")}


def settle(conn):
    """As if everything was old and in step."""
    conn.execute("insert into _limbic_guard values ('test')")
    conn.execute(
        "update entities set last_activity_at = ?, updated_at = ?, created_at = ?", [OLD, OLD, OLD]
    )
    conn.execute("delete from _limbic_guard")
    conn.execute("delete from limbic_stale")
    conn.commit()


def active(conn):
    return {
        row[0] for row in conn.execute("select id from entities where last_activity_at <> ?", [OLD])
    }


@pytest.fixture
def two(stock):
    """Two related entities with one observation each, settled."""
    stock.executescript(
        """insert into entities(id, name) values (1, 'Ana'), (2, 'Atlas'), (3, 'Bo');
        insert into observations(id, entity_id, content) values (1, 1, 'likes tea'), (2, 2, 'x');
        insert into relations(id, from_entity, to_entity, relation_type)
          values (1, 1, 2, 'works_on');"""
    )
    settle(stock)
    return stock


def test_init_twice_changes_nothing(empty_db):
    before = empty_db.read_bytes()
    conn = connection.connect(empty_db)
    assert schema.init(conn) == []
    conn.close()
    assert empty_db.read_bytes() == before


def test_every_documented_table_and_column_is_there(stock):
    columns = {
        name: [row[1] for row in stock.execute(f"pragma table_info({name})")]
        for (name,) in stock.execute("select name from sqlite_master where type = 'table'")
    }
    assert (
        columns["entities"]
        == (
            "id name entity_type created_at updated_at last_activity_at archived_at "
            "archived_reason confidence valid_from valid_to"
        ).split()
    )
    assert (
        columns["observations"]
        == (
            "id entity_id content created_at similarity_flag kind confidence valid_from valid_to"
            " supersedes"
        ).split()
    )
    assert (
        columns["relations"]
        == "id from_entity to_entity relation_type created_at valid_from valid_to context".split()
    )
    assert columns["entity_access"] == ["entity_id", "access_count", "last_access"]
    assert columns["entity_access_log"] == ("id entity_id entity_name query accessed_at".split())
    assert columns["co_occurrences"] == ["entity_a_id", "entity_b_id", "co_count", "last_co"]
    for name in (
        "collections embeddings limbic_settings limbic_parameters limbic_searches "
        "limbic_search_candidates limbic_feedback limbic_insights limbic_changes limbic_topics "
        "limbic_reviews limbic_imports limbic_import_rejects limbic_indexes limbic_stale"
    ).split():
        assert name in columns


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("insert into entities(id, name) values (9, 'Ana')", "UNIQUE"),
        ("insert into observations(entity_id, content) values (99, 'x')", "FOREIGN KEY"),
        ("insert into observations(entity_id, content) values (1, null)", "NOT NULL"),
        ("update observations set similarity_flag = 2", "CHECK"),
        ("insert into co_occurrences(entity_a_id, entity_b_id) values (2, 1)", "CHECK"),
        (
            "insert into relations(from_entity, to_entity, relation_type)"
            " values (1, 2, 'works_on')",
            "UNIQUE",
        ),
    ],
)
def test_constraints(two, sql, message):
    with pytest.raises(stock_sqlite3.IntegrityError, match=message):
        two.execute(sql)


def test_deleting_an_entity_takes_its_rows_and_keeps_its_log(two):
    two.executescript(
        """insert into entity_access(entity_id) values (1);
        insert into co_occurrences(entity_a_id, entity_b_id) values (1, 2);
        insert into entity_access_log(entity_id, entity_name) values (1, 'Ana');
        delete from entities where id = 1;"""
    )
    for table in ("relations", "entity_access", "co_occurrences"):
        assert two.execute(f"select count(*) from {table}").fetchone()[0] == 0
    assert two.execute("select entity_id, entity_name from entity_access_log").fetchall() == [
        (None, "Ana")
    ]
    assert text_index(two) == expected_text_index(two)


@pytest.mark.parametrize(
    "sql",
    [
        "insert into observations(entity_id, content) values (1, 'new')",
        "update observations set content = 'changed' where id = 1",
        "delete from observations where id = 1",
        "update entities set name = 'Anna' where id = 1",
        "delete from entities where id = 2",
        "insert or replace into entities(id, name) values (1, 'Other')",
        "insert or replace into entities(id, name) values (7, 'Atlas')",
        "insert into entities(id, name) values (1, 'Up') on conflict(id)"
        " do update set name = excluded.name",
        "insert or ignore into entities(id, name) values (1, 'Ignored')",
        "insert or replace into observations(id, entity_id, content) values (1, 2, 'moved')",
        "update observations set id = 77 where id = 1",
        "update entities set id = 55 where id = 3",
    ],
)
def test_the_text_index_stays_true_whoever_writes(two, sql):
    two.execute(sql)
    two.commit()
    there = text_index(two)
    # INSERT OR REPLACE may leave the row of an id that is gone; it is never shown (joins), and
    # sync removes it
    assert expected_text_index(two) <= there
    gone = there - expected_text_index(two)
    assert len(gone) <= ("7, 'Atlas'" in sql) + ("or replace" in sql)
    two.execute("insert into _limbic_fts(_limbic_fts) values ('integrity-check')")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "update observations set content = 'y' where id = 1",
            {("observations", 1), ("entities", 1)},
        ),
        ("update observations set similarity_flag = 1 where id = 1", set()),
        ("update entities set name = 'Atlas 2' where id = 2", {("entities", 1), ("entities", 2)}),
        ("update entities set entity_type = 'Proyecto' where id = 2", {("entities", 2)}),
        ("update entities set archived_at = 'x' where id = 2", {("entities", 1), ("entities", 2)}),
        ("update entities set last_activity_at = 'x' where id = 2", set()),
        ("update relations set valid_to = 'x' where id = 1", {("entities", 1)}),
        ("delete from relations where id = 1", {("entities", 1)}),
        ("delete from observations where id = 2", {("observations", 2), ("entities", 2)}),
        ("insert into entity_access(entity_id) values (1)", set()),
    ],
)
def test_what_went_stale_is_noted(two, sql, expected):
    two.execute(sql)
    assert stale(two) == expected


def test_a_deleted_entity_marks_itself_its_neighbours_and_its_observations(two):
    two.execute("delete from entities where id = 2")
    assert {("entities", 2), ("entities", 1), ("observations", 2)} <= stale(two)


def test_a_vector_written_by_llm_marks_its_row(two):
    two.execute("insert into collections(id, name, model) values (1, 'entities', 'm')")
    two.execute(
        "insert or replace into embeddings(collection_id, id, embedding, content_hash)"
        " values (1, '2', x'00', x'00')"
    )
    assert stale(two) == {("entities", 2)}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("insert into observations(entity_id, content) values (1, 'n')", {1}),
        ("update observations set content = 'n' where id = 1", {1}),
        ("update observations set content = content where id = 1", set()),
        ("update observations set similarity_flag = 1", set()),
        ("update entities set entity_type = 'T' where id = 3", {3}),
        ("update entities set archived_at = 'x', archived_reason = 'y'", set()),
        (
            "insert into relations(from_entity, to_entity, relation_type) values (2, 3, 'uses')",
            {2, 3},
        ),
        (
            "insert into relations(from_entity, to_entity, relation_type)"
            " values (2, 3, 'contiene')",
            set(),
        ),
        ("delete from observations", set()),
        ("insert into entity_access(entity_id) values (1)", set()),
    ],
)
def test_last_activity_moves_with_own_data_and_new_relations(two, sql, expected):
    two.execute(sql)
    assert active(two) == expected


def test_a_relation_asserted_again_counts_as_activity_of_both_ends(two):
    two.execute("update relations set valid_to = '2025-01-01'")
    assert active(two) == set()
    two.execute("update relations set valid_to = null")
    assert active(two) == {1, 2}


def test_archiving_leaves_updated_at_alone(two):
    two.execute("update entities set archived_at = 'x' where id = 1")
    assert two.execute("select updated_at from entities where id = 1").fetchone()[0] == OLD


def test_a_guarded_writer_sets_the_times_itself(empty_db):
    conn = connection.connect(empty_db)
    with conn, schema.guarded(conn, "import"):
        conn.execute("insert into entities(id, name) values (1, 'Ana')")
        conn.execute("insert into observations(entity_id, content) values (1, 'x')")
    assert conn.execute("select last_activity_at from entities").fetchone()[0] is None
    with conn:
        conn.execute("insert into observations(entity_id, content) values (1, 'y')")
    assert conn.execute("select last_activity_at from entities").fetchone()[0] is not None
    conn.close()


def test_the_snapshot_says_what_is_embedded(two):
    two.executescript(
        """insert into observations(entity_id, content, valid_to) values (1, 'gone', '2020-01-01');
        insert into observations(entity_id, content, valid_to) values (1, 'stays', '2999-01-01');
        insert into relations(from_entity, to_entity, relation_type) values (1, 3, 'knows');
        insert into relations(from_entity, to_entity, relation_type) values (1, 1, 'self');"""
    )
    snapshot = two.execute("select content from entity_snapshots where id = 1").fetchone()[0]
    assert snapshot == "Ana (Generic): likes tea | stays | works_on → Atlas; knows → Bo"
    two.execute("update entities set archived_at = 'x' where id = 2")
    two.execute("update limbic_settings set value = '20' where key = 'snapshot_max_chars'")
    snapshot = two.execute("select content from entity_snapshots where id = 1").fetchone()[0]
    assert snapshot == "Ana (Generic): likes"


def test_tables_of_a_user_are_taken_over(tmp_path):
    db = Database(str(tmp_path / "own.db"))
    db["entities"].insert_all(
        [{"id": 1, "name": "Ana", "updated_at": OLD}, {"id": 2, "name": "Bo", "updated_at": None}],
        pk="id",
    )
    db["observations"].insert({"id": 1, "entity_id": 1, "content": "likes tea"}, pk="id")
    db.close()
    conn = connection.connect(tmp_path / "own.db")
    assert schema.init(conn) == [
        "m001_memory",
        "m002_sources",
        "m003_signals",
        "m004_reports",
        "m005_actions",
        "m006_retrieval",
    ]
    assert conn.execute("select name, last_activity_at from entities").fetchall() == [
        ("Ana", OLD),
        ("Bo", None),
    ]
    assert text_index(conn) == {(2, "Ana"), (4, "Bo"), (3, "likes tea")}
    conn.close()


@pytest.mark.parametrize(
    ("ddl", "part"),
    [
        ("create table entities (uuid text, title text)", "entities"),
        (
            "create table entities (id integer, name text); create table db_metadata (k, v)",
            "datasette limbic import",
        ),
        ("create table observations (id integer, note text)", "entity_id"),
    ],
)
def test_tables_of_another_program_are_left_alone(tmp_path, ddl, part):
    path = tmp_path / "other.db"
    conn = stock_sqlite3.connect(path)
    conn.executescript(ddl)
    conn.close()
    conn = connection.connect(path)
    with pytest.raises(SchemaConflict, match=part):
        schema.init(conn)
    assert not schema.is_memory(conn)
    with pytest.raises(NotAMemory):
        schema.require_memory(conn)
    conn.close()


actions = st.lists(
    st.tuples(
        st.sampled_from(["add", "change", "remove", "rename", "drop", "relate", "replace"]),
        st.integers(1, 4),
        st.text(max_size=12),
    ),
    max_size=25,
)


@settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(actions)
def test_any_sequence_of_writes_keeps_the_text_index_true(tmp_path_factory, steps):
    conn = stock_sqlite3.connect(empty_memory(tmp_path_factory.mktemp("any") / "memory.db"))
    conn.execute("pragma foreign_keys=on")
    for kind, i, text in steps:
        text = text.encode("utf-8", "ignore").decode()
        if kind == "add":
            conn.execute("insert or ignore into entities(id, name) values (?, ?)", [i, f"e{i}"])
            conn.execute("insert into observations(entity_id, content) values (?, ?)", [i, text])
        elif kind == "change":
            conn.execute("update observations set content = ? where entity_id = ?", [text, i])
        elif kind == "remove":
            conn.execute("delete from observations where entity_id = ?", [i])
        elif kind == "rename":
            conn.execute("update or ignore entities set name = ? where id = ?", [text, i])
        elif kind == "drop":
            conn.execute("delete from entities where id = ?", [i])
        elif kind == "replace":
            conn.execute("update entities set entity_type = ? where id = ?", [text, i])
        else:
            conn.execute(
                "insert or ignore into relations(from_entity, to_entity, relation_type)"
                " select a.id, b.id, ? from entities a, entities b where a.id = ? limit 1",
                [text, i],
            )
    conn.commit()
    assert text_index(conn) == expected_text_index(conn)
    conn.close()


def test_two_programs_may_make_the_same_memory_at_once(tmp_path):
    path = tmp_path / "both.db"
    code = (
        "import sys; from datasette_limbic import connection, schema;"
        "schema.init(connection.connect(sys.argv[1], create=True))"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(3)]
    assert [process.wait(60) for process in both] == [0, 0, 0]
    conn = connection.connect(path)
    assert schema.init(conn) == []
    conn.close()


@pytest.mark.parametrize("foreign_keys", ["on", "off"])
def test_a_new_entity_inherits_nothing_of_a_deleted_one(two, foreign_keys):
    """Datasette's write API and sqlite-utils leave foreign keys off."""
    two.executescript(
        f"""pragma foreign_keys={foreign_keys};
        insert into observations(entity_id, content) values (3, 'secret');
        insert into relations(from_entity, to_entity, relation_type) values (1, 3, 'knows');
        insert into entity_access(entity_id) values (3);
        insert into entity_access_log(entity_id, entity_name) values (3, 'Bo');
        insert into co_occurrences(entity_a_id, entity_b_id) values (1, 3);
        delete from entities where id = 3;
        insert into entities(name) values ('Quite new');"""
    )
    new = two.execute("select id from entities where name = 'Quite new'").fetchone()[0]
    assert new > 3
    for table, column in (
        ("observations", "entity_id"),
        ("relations", "to_entity"),
        ("entity_access", "entity_id"),
        ("co_occurrences", "entity_b_id"),
    ):
        found = two.execute(f"select count(*) from {table} where {column} >= 3").fetchone()[0]
        assert found == 0, table
    assert two.execute("select entity_id, entity_name from entity_access_log").fetchall() == [
        (None, "Bo")
    ]
    assert text_index(two) == expected_text_index(two)
    snapshot = two.execute("select content from entity_snapshots where id = ?", [new]).fetchone()[0]
    assert snapshot == "Quite new (Generic)"


@pytest.mark.parametrize(
    ("start", "end", "inside"),
    [
        (None, None, True),
        ("2020-01-01", "2999-01-01", True),
        ("2999-01-01", None, False),
        (None, "2020-01-01", False),
        # what cannot be read never begins and never ends, in search as in what is embedded
        ("soon", "never", True),
    ],
)
def test_snapshots_hold_what_is_valid_now(stock, start, end, inside):
    stock.execute("insert into entities(id, name) values (1, 'Ana'), (2, 'Atlas')")
    stock.execute(
        "insert into observations(entity_id, content, valid_from, valid_to)"
        " values (1, 'likes tea', ?, ?)",
        [start, end],
    )
    stock.execute(
        "insert into relations(from_entity, to_entity, relation_type, valid_to)"
        " values (1, 2, 'works_on', ?)",
        [end],
    )
    (text,) = stock.execute("select content from entity_snapshots where id = 1").fetchone()
    assert ("likes tea" in text) == inside
    assert ("works_on → Atlas" in text) == (inside or start is not None)


# What no SQLite of before 3.25 can parse, and from which version on it can. One statement of these
# in a file keeps an older program from opening it at all.
YOUNGER = {
    "an upsert of any conflict (3.35)": r"on conflict\s+do update",
    "iif() (3.32)": r"\biif\s*\(",
    "a hint to materialise (3.35)": r"\bmaterialized\b",
    "returning (3.35)": r"\breturning\b",
    "a filter of an aggregate (3.30)": r"\)\s*filter\s*\(",
    "a window (3.25)": r"\)\s*over\b|\bwindow\b",
    "an order of nulls (3.30)": r"\bnulls\s+(first|last)\b",
    "an arrow (3.38)": r"->",
    "a column that is computed (3.31)": r"\bgenerated\b|\)\s*(stored|virtual)\b",
    "a strict table (3.37)": r"\)\s*(without\s+rowid\s*,\s*)?strict\b",
    "a right or full join (3.39)": r"\b(right|full)\s+(outer\s+)?join\b",
    "distinct from (3.39)": r"\bis\s+(not\s+)?distinct\s+from\b",
    "underscores in a number (3.46)": r"\b\d+_\d",
    "a function (3.35 to 3.50)": r"\b(acos|asin|atan2?|ceil|ceiling|concat|concat_ws|cos|degrees"
    r"|exp|floor|format|if|jsonb?_?\w*|ln|log|log10|log2|mod|octet_length|pi|pow|power|radians|sign|sin"
    r"|sqrt|string_agg|tan|timediff|trunc|unhex|unistr|unixepoch)\s*\(",
}


def younger(sql):
    """What of a statement an older SQLite does not know; comments and texts are none of it."""
    bare = re.sub(r"'(?:[^']|'')*'", "''", re.sub(r"--[^\n]*", "", sql)).lower()
    return [name for name, pattern in YOUNGER.items() if re.search(pattern, bare)]


def test_what_stays_in_the_file_is_known_to_old_programs(empty_db):
    with closing(connection.connect(empty_db, readonly=True)) as conn:
        stored = conn.execute(
            "select name, sql from sqlite_master where sql is not null and sql not like"
            " 'create virtual table%'"
        ).fetchall()
    assert len(stored) > 80
    assert {name: found for name, sql in stored if (found := younger(sql))} == {}


@pytest.mark.parametrize(
    ("sql", "known"),
    [
        ("insert into t select 1 where 1 on conflict do update set a = 2", False),
        ("insert into t values (1) on conflict\n  do update set a = 2", False),
        ("insert into t values (1) on conflict(a) do update set a = 2", True),
        ("insert into t values (1) on conflict do nothing", True),
        ("select iif(a, 1, 2) from t", False),
        ("with c as not materialized (select 1) select * from c", False),
        ("insert into t values (1) returning a", False),
        ("select count(*) filter (where a) from t", False),
        ("select count(*) over (order by a) from t", False),
        ("select a from t order by a nulls last", False),
        ("select a ->> '$.b' from t", False),
        ("select json_extract(a, '$.b') from t", False),
        ("create table t(a, b as (a + 1) stored)", False),
        ("create table t(a text) without rowid, strict", False),
        ("select 1 from t full join u", False),
        ("select a is not distinct from b from t", False),
        ("select 1_000", False),
        ("select sqrt(a), unixepoch() from t", False),
        ("select 'iif(1)', a from t -- returning", True),
        ("select julianday(a), max(a, b), group_concat(a) from t", True),
    ],
)
def test_what_old_programs_know(sql, known):
    assert (younger(sql) == []) is known


def test_no_upsert_is_without_its_conflict():
    """Nor what we run ourselves: it says which conflict is meant, and any SQLite reads it."""
    package = Path(schema.__file__).parent
    texts = [
        path.read_text("utf-8") for path in package.rglob("*") if path.suffix in (".py", ".sql")
    ]
    # a text of Python may go on in the next line
    found = [re.findall(r'on conflict[\s"]+do update[^"\n]*', text, re.I) for text in texts]
    assert sum("on conflict(" in text for text in texts) > 5
    assert [each for each in found if each] == []
