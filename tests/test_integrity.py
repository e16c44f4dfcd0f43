"""Every kind of damage is found by its name, repaired where it can be, and nothing else moves."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3 as stock_sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest
from datasette.utils.sqlite import sqlite3
from embedding_helpers import blob, fill, fill_and_sync, store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_limbic import connection, index_repair, integrity, repairing, schema, status
from datasette_limbic.errors import DatabaseUnusable, NotAMemory
from datasette_limbic.integrity import report as reports
from datasette_limbic.integrity.encoding import guess
from datasette_limbic.integrity.files import check_file
from datasette_limbic.integrity.schema import reference, shadows
from datasette_limbic.integrity.vec_parts import every_part
from datasette_limbic.pair_repair import repair_pairs
from datasette_limbic.sync import sync

# minutes in all: CI runs these on both lines, and leaves them out on further Pythons
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("reports_once")]


def findings(path):
    return {result.name: result for result in check_file(path).findings}


def silently(conn, *statements):
    """Statements that no trigger, no key and no constraint sees."""
    triggers = conn.execute("select name, sql from sqlite_master where type = 'trigger'").fetchall()
    conn.execute("pragma foreign_keys = off")
    conn.execute("pragma ignore_check_constraints = on")
    if not conn.in_transaction:  # as one, since each alone waits for the disk
        conn.execute("begin")
    for name, _ in triggers:
        conn.execute(f"drop trigger {name}")
    for statement in statements:
        conn.execute(statement)
    for _, sql in triggers:
        conn.execute(sql)


def stock(path, *statements, quiet=True):
    """The same from the sqlite3 of Python itself, without any extension."""
    with closing(stock_sqlite3.connect(path)) as conn:
        if quiet:
            silently(conn, *statements)
        else:
            for statement in statements:
                conn.execute(statement)
        conn.commit()


def _version(conn):
    return conn.execute("pragma schema_version").fetchone()[0]


def copied(path, table, change):
    """A table made again with another definition, with the same rows."""
    with closing(stock_sqlite3.connect(path)) as conn:
        sql = conn.execute("select sql from sqlite_master where name = ?", [table]).fetchone()[0]
        own = conn.execute(
            "select sql from sqlite_master where tbl_name = ? and type in ('index', 'trigger')"
            " and sql is not null",
            [table],
        ).fetchall()
        rows = conn.execute(f"select * from {table}").fetchall()
        conn.execute(f"drop table {table}")
        conn.execute(change(sql))
        marks = ", ".join("?" * len(rows[0]))
        conn.executemany(f"insert into {table} values ({marks})", rows)
        for (text,) in own:
            conn.execute(text)
        conn.execute("delete from limbic_stale")
        conn.commit()


# Derived, or dated by each sync.
_DERIVED = ("_limbic_fts", "_limbic_trigram", "_limbic_vec", "limbic_indexes", "sqlite_sequence")
# When it was embedded or looked at; and vectors are compared apart, since a model rounds by the
# batch.
_OWN_WORDS = {
    ("embeddings", "updated"),
    ("embeddings", "embedding"),
    ("limbic_topics", "computed_at"),
    ("limbic_reports", "computed_at"),
    ("limbic_reports", "seconds"),
}


def stored_vectors(path):
    with closing(stock_sqlite3.connect(path)) as conn:
        rows = conn.execute(
            "select embedding from embeddings order by collection_id, id"
        ).fetchall()
    return numpy.frombuffer(b"".join(row[0] for row in rows), "<f4")


def dump(path):
    """All rows that are not derived, and the schema as a set."""
    with closing(stock_sqlite3.connect(path)) as conn:
        conn.text_factory = bytes
        objects = {
            (kind, name, b" ".join((sql or b"").split()))
            for kind, name, sql in conn.execute("select type, name, sql from sqlite_master")
        }
        found: dict[Any, Any] = {}
        for kind, name, _ in objects:
            table = name.decode()
            if kind != b"table" or table.startswith(_DERIVED):
                continue
            columns = [r[1].decode() for r in conn.execute(f"pragma table_info({table})")]
            shown = ", ".join(c for c in columns if (table, c) not in _OWN_WORDS)
            found[table] = sorted(map(repr, conn.execute(f"select {shown} from {table}")))
        found["schema"] = objects
        for table, key in (("_limbic_fts", "id, c0, c1"), ("_limbic_trigram", "id, c0")):
            found[table] = conn.execute(f"select {key} from {table}_content order by 1").fetchall()
        for table in ("_limbic_vec_entities_rowids", "_limbic_vec_observations_rowids"):
            found[table] = sorted(conn.execute(f"select rowid from {table}").fetchall())
        return found


def repaired(path, model=None):
    with closing(connection.connect(path)) as conn:
        return sync(conn, repair=True, model=model)


# what sync --repair puts right ------------------------------------------------------------------


@dataclass
class Break:
    """How to break a memory, and what check must say."""

    names: set[str]
    how: Callable[[Path], Any]
    same: bool = True
    """Whether the repaired file holds what it held before."""


def sql(*statements, quiet=True):
    return lambda path: stock(path, *statements, quiet=quiet)


def overwrite_fts(path):
    stock(path, "update _limbic_fts_data set block = zeroblob(40) where id > 100", quiet=False)


def other_dimension(path):
    with closing(connection.connect(path)) as conn:
        conn.execute("drop table _limbic_vec_entities")
        conn.execute(
            "create virtual table _limbic_vec_entities using vec0(entity_id integer primary key,"
            " embedding float[8], archived integer, entity_type text)"
        )
        conn.commit()


def vec(*statements):
    def how(path):
        with closing(connection.connect(path)) as conn:
            for statement in statements:
                conn.execute(statement)
            conn.commit()

    return how


def index_without_row(path):
    with closing(stock_sqlite3.connect(path)) as conn:
        before = conn.execute(
            "select sql from sqlite_master where name = 'relations_to_entity'"
        ).fetchone()[0]
        for text in (
            "create index relations_to_entity on relations(to_entity) where id > 3",
            before,
        ):
            if "where" in text:
                conn.execute("drop index relations_to_entity")
                conn.execute(text)
                conn.commit()
            else:
                conn.execute("pragma writable_schema = on")
                conn.execute(
                    "update sqlite_master set sql = ? where name = 'relations_to_entity'", [text]
                )
                conn.execute(f"pragma schema_version = {_version(conn) + 1}")
                conn.commit()


FIRST = "(select min(id) from entities)"
SYNC_REPAIRS = {
    "a trigger dropped": Break(
        {"schema.triggers"}, sql("drop trigger limbic_stale_entities_insert", quiet=False)
    ),
    "all triggers dropped": Break(
        {"schema.triggers"},
        lambda path: stock(
            path, *(f"drop trigger {name}" for name in schema.trigger_names()), quiet=False
        ),
    ),
    "a trigger of other text": Break(
        {"schema.trigger_texts"},
        sql(
            "drop trigger limbic_activity_relations_insert",
            "create trigger limbic_activity_relations_insert after insert on relations begin"
            " select 1; end",
            quiet=False,
        ),
    ),
    "an index dropped": Break({"schema.indexes"}, sql("drop index relations_to_entity")),
    "the view dropped": Break({"schema.views"}, sql("drop view entity_snapshots")),
    "a table dropped": Break({"schema.tables"}, sql("drop table limbic_reviews")),
    "a table with indexes dropped": Break(
        {"schema.tables", "schema.indexes"}, sql("drop table limbic_insights")
    ),
    "the guard dropped": Break({"schema.tables"}, sql("drop table _limbic_guard")),
    "the text index dropped": Break({"schema.tables"}, sql("drop table _limbic_fts")),
    "part of the text index dropped": Break(
        {"schema.tables", "text.structure"}, sql("drop table _limbic_trigram_docsize")
    ),
    "a column dropped": Break(
        {"schema.columns"}, sql("alter table limbic_settings drop column help"), same=False
    ),
    "an index that lacks rows": Break({"sqlite.index"}, index_without_row),
    "a guard left behind": Break(
        {"marks.guard"}, sql("insert into _limbic_guard values ('my script')")
    ),
    "a mark about nothing": Break(
        {"marks.stale"}, sql("insert into limbic_stale(collection, item_id) values ('others', 7)")
    ),
    "a pair with itself": Break(
        {"pairs.self"},
        sql(f"insert into co_occurrences values ({FIRST}, {FIRST}, 3, '2026-01-01')"),
    ),
    "a pair in the wrong order": Break(
        {"pairs.order"},
        sql(
            "update co_occurrences set entity_a_id = entity_b_id, entity_b_id = entity_a_id"
            " where (entity_a_id, entity_b_id) = (select entity_a_id, entity_b_id"
            " from co_occurrences limit 1)"
        ),
    ),
    "words overwritten": Break({"text.structure"}, overwrite_fts),
    "a name not in the text index": Break(
        {"text.words"},
        vec("delete from _limbic_fts where rowid = 2 * (select min(id) from entities)"),
    ),
    "a row left over in the text index": Break(
        {"text.words"}, vec("insert into _limbic_fts(rowid, content) values (200001, 'left over')")
    ),
    "other text in the text index": Break(
        {"text.words"},
        vec(
            "update _limbic_fts set name = 'other' where rowid = 2 * (select min(id) from entities)"
        ),
    ),
    "a name not among the substrings": Break(
        {"text.substrings"},
        vec("delete from _limbic_trigram where rowid = 2 * (select min(id) from entities)"),
    ),
    "text changed behind the index": Break(
        {"text.words", "text.structure"},
        sql(
            "update _limbic_fts_content set c1 = 'behind' where id ="
            " (select 2 * min(id) + 1 from observations)"
        ),
    ),
    "a vector of a row that is gone": Break(
        {"vectors.orphans"},
        sql(
            "insert into embeddings(collection_id, id, embedding) select id, '99999',"
            " (select embedding from embeddings limit 1) from collections"
        ),
    ),
    "a vector whose key is no number": Break(
        {"vectors.orphans"},
        sql(
            "insert into embeddings(collection_id, id, embedding) select min(id), '01',"
            " (select embedding from embeddings limit 1) from collections"
        ),
    ),
    "a vector of another length": Break(
        {"vectors.unusable"},
        sql("update embeddings set embedding = zeroblob(16) where rowid = 40"),
    ),
    "a zero vector": Break(
        {"vectors.unusable"},
        sql("update embeddings set embedding = zeroblob(length(embedding)) where rowid = 40"),
    ),
    "a vector that is not finite": Break(
        {"vectors.unusable"},
        sql(
            "update embeddings set embedding = cast(substr(embedding, 1, length(embedding) - 4)"
            " || x'0000c07f' as blob) where rowid = 40"
        ),
    ),
    "a vector that is no blob": Break(
        {"vectors.unusable"}, sql("update embeddings set embedding = 'text' where rowid = 40")
    ),
    "a vector index of another dimension": Break(
        {"vectors.dimension", "vectors.index"}, other_dimension
    ),
    "a row not in the vector index": Break(
        {"vectors.index"}, vec("delete from _limbic_vec_entities where entity_id = 3")
    ),
    "a row left over in the vector index": Break(
        {"vectors.index"},
        vec(
            "insert into _limbic_vec_observations(observation_id, embedding, entity_id)"
            " select 99999, embedding, 1 from _limbic_vec_observations where observation_id = 3"
        ),
    ),
    "another state in the vector index": Break(
        {"vectors.index"}, vec("update _limbic_vec_entities set archived = 1 where entity_id = 3")
    ),
    "another vector in the vector index": Break(
        {"vectors.index"},
        vec(
            "update _limbic_vec_entities set embedding ="
            " (select embedding from _limbic_vec_entities where entity_id = 4) where entity_id = 3"
        ),
    ),
    "a vector index dropped": Break({"vectors.index"}, vec("drop table _limbic_vec_entities")),
    "part of a vector index dropped": Break(
        {"vectors.index"}, sql("drop table _limbic_vec_entities_rowids")
    ),
    "topics of nobody": Break(
        {"gone.limbic_topics.entity_id"},
        sql(
            "insert into limbic_topics(entity_id, topics, diversity, split_score)"
            " values (99999, '[]', 1, 1)"
        ),
    ),
    **{
        f"a pair without its {column}": Break(
            {f"gone.limbic_duplicates.{column}"},
            sql(
                "insert into limbic_duplicates(earlier_id, later_id, entity_id, kind, rule)"
                " values (3, 1, 1, 'look', 'cosine')",
                f"update limbic_duplicates set {column} = 99999 where earlier_id = 3",
            ),
        )
        for column in ("earlier_id", "later_id", "entity_id")
    },
    **{
        f"a pair of no known {column}": Break(
            {f"values.limbic_duplicates.{column}"},
            sql(
                "insert into limbic_duplicates(earlier_id, later_id, entity_id, kind, rule)"
                " values (3, 1, 1, 'look', 'cosine')",
                f"update limbic_duplicates set {column} = 'odd' where earlier_id = 3",
            ),
        )
        for column in ("kind", "rule")
    },
    "what was rejected cannot be read": Break(
        {"json.limbic_indexes.rejected"}, sql("update limbic_indexes set rejected = '{'")
    ),
}


@pytest.mark.parametrize("name", SYNC_REPAIRS)
def test_sync_repairs(name, demo_db):
    case = SYNC_REPAIRS[name]
    before, vectors = dump(demo_db), stored_vectors(demo_db)
    case.how(demo_db)
    found = findings(demo_db)
    assert set(found) == case.names
    assert all(f.count and f.examples and f.repair.by == "sync" for f in found.values())
    summary = repaired(demo_db)
    # what is made anew for one finding may settle another
    assert summary.repaired
    assert {one.name for one in summary.repaired} <= case.names
    assert [one.failed for one in summary.repaired if one.failed] == []
    assert summary.left == []
    assert findings(demo_db) == {}
    if case.same:
        after = dump(demo_db)
        assert {key for key in before if after[key] != before[key]} == set()
        assert numpy.allclose(stored_vectors(demo_db), vectors, atol=1e-5)
    # all that a second sync --repair would put right
    with closing(connection.connect(demo_db)) as conn:
        assert repairing.repair(conn) == []


# the tables behind the virtual ones --------------------------------------------------------------


BEHIND = [
    *(part for index in index_repair.INDEXES for part in shadows(index)),
    *every_part("entities"),
    *every_part("observations"),
]


def found_by_search(path):
    """Rows of both text indexes by a word, and the nearest vectors of both collections."""
    with closing(connection.connect(path)) as conn:
        return [
            conn.execute(sql).fetchall()
            for sql in (
                "select rowid from _limbic_fts where _limbic_fts match 'atlas' order by 1",
                "select rowid from _limbic_trigram where _limbic_trigram match 'tla' order by 1",
                "select entity_id from _limbic_vec_entities where embedding match"
                " (select embedding from _limbic_vec_entities where entity_id = 3)"
                " and k = 5 and archived = 0 and entity_type <> 'none' order by distance",
                "select observation_id from _limbic_vec_observations where embedding match"
                " (select embedding from _limbic_vec_observations where observation_id = 3)"
                " and k = 5 and entity_id > 0 order by distance",
            )
        ]


def mended(path, before):
    """Check it, repair it: search finds what it found, and a plain sync works again."""
    found = findings(path)
    assert found
    assert {f.repair.by for f in found.values()} == {"sync"}
    summary = repaired(path)
    assert summary.left == []
    assert [one.failed for one in summary.repaired if one.failed] == []
    assert findings(path) == {}
    with closing(connection.connect(path)) as conn:
        sync(conn)
    assert found_by_search(path) == before
    return found


def test_the_tables_behind_are_all_known(demo_db):
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        rows = conn.execute(
            "select name from sqlite_master where type = 'table' and sql not like '%virtual%'"
            " and (name glob '_limbic_fts*' or name glob '_limbic_trigram*'"
            "  or name glob '_limbic_vec_[eo]*')"
        ).fetchall()
    assert sorted(BEHIND) == sorted(row[0] for row in rows)


@pytest.fixture(scope="module")
def long_type_master(demo_master, tmp_path_factory):
    """A part of the sample memory, with a type that does not fit into a chunk."""
    path = Path(shutil.copy(demo_master, tmp_path_factory.mktemp("long_type") / "demo.db"))
    with closing(connection.connect(path)) as conn:
        conn.execute("delete from entities where id > 30")
        conn.commit()
    stock(path, "update entities set entity_type = 'a type of many words' where id = 3")
    repaired(path)
    return path


@pytest.mark.parametrize("how", ["drop table", "delete from"])
@pytest.mark.parametrize("table", BEHIND)
def test_a_table_behind_is_lost_or_emptied(table, how, long_type_master, tmp_path):
    path = Path(shutil.copy(long_type_master, tmp_path / "demo.db"))
    before = found_by_search(path)
    assert all(before)
    stock(path, f"{how} {table}")
    mended(path, before)


@pytest.mark.parametrize(
    "statement",
    [
        "delete from _limbic_fts_idx where segid = 2 and pgno > 8",
        "update _limbic_fts_idx set pgno = pgno + 2 where segid = 2 and length(term) > 0",
        "update _limbic_fts_idx set term = x'ff' where segid = 2 and pgno >> 1 = 4",
        "update _limbic_fts_idx set term = 'text' where segid = 2 and pgno >> 1 = 4",
    ],
)
def test_words_that_no_search_comes_to(statement, demo_db):
    before = found_by_search(demo_db)
    stock(demo_db, statement)
    assert set(mended(demo_db, before)) == {"text.structure"}


@pytest.mark.parametrize("seed", range(3))
def test_a_text_index_that_was_written_to_often_is_whole(seed, conn):
    """Many small segments, merged in parts and as one, with rows taken away between."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("abcdefghijklmnoäß", k=9)) for _ in range(2000)]
    conn.execute("insert into entities(id, name) values (1, 'one')")
    conn.execute("insert into _limbic_fts(_limbic_fts, rank) values ('automerge', 2)")
    if seed == 0:
        conn.execute("insert into _limbic_fts(_limbic_fts, rank) values ('secure-delete', 1)")
    for turn in range(40):
        for _ in range(15):
            text = " ".join(chance.choices(words, k=chance.choice([5, 60, 600]))) + " common"
            conn.execute("insert into observations(entity_id, content) values (1, ?)", [text])
        conn.execute("delete from observations where id % 7 = ?", [turn % 7])
        conn.commit()
        merge = chance.choice(["'optimize', null", "'merge', 20", "'merge', -3", None, None])
        if merge:
            conn.execute(f"insert into _limbic_fts(_limbic_fts, rank) values ({merge})")
        for index in index_repair.INDEXES:
            assert list(index_repair.damage(conn, index)) == []
            assert index_repair.is_whole(conn, index)


@pytest.mark.parametrize(
    "statement",
    [
        "update _limbic_vec_entities_chunks set validity = zeroblob(length(validity))",
        "update _limbic_vec_entities_chunks set rowids = zeroblob(length(rowids))",
        "update _limbic_vec_entities_chunks set rowids = zeroblob(8)",
        "update _limbic_vec_entities_chunks set validity = 'text'",
        "update _limbic_vec_entities_vector_chunks00 set vectors = zeroblob(16)",
        "update _limbic_vec_entities_metadatachunks01 set data = zeroblob(16)",
        "update _limbic_vec_entities_rowids set chunk_id = 77 where rowid = 3",
        "update _limbic_vec_entities_rowids set chunk_offset = null where rowid = 3",
        "update _limbic_vec_entities_rowids set chunk_offset = 900 where rowid = 3",
    ],
)
def test_parts_of_a_vector_index_that_are_not_as_vec0_left_them(statement, demo_db):
    before = found_by_search(demo_db)
    stock(demo_db, statement)
    assert set(mended(demo_db, before)) == {"vectors.index"}


def test_the_tables_behind_are_left_without_theirs(demo_db):
    before = found_by_search(demo_db)
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        conn.execute("pragma writable_schema = on")
        conn.execute("delete from sqlite_master where name = '_limbic_vec_entities'")
        conn.execute(f"pragma schema_version = {_version(conn) + 1}")
        conn.commit()
    assert set(mended(demo_db, before)) == {"vectors.index"}


def test_a_vector_index_of_many_chunks_is_whole(path, conn, models):
    fill(conn, 2500, each=0)
    sync(conn, model="bag")
    conn.execute("delete from entities where id % 3 = 0 or id between 1024 and 2100")
    conn.commit()
    sync(conn)
    names = [(f"later {number}",) for number in range(300)]
    conn.executemany("insert into entities(name) values (?)", names)
    conn.commit()
    sync(conn)
    assert findings(path) == {}


def test_a_part_is_lost_where_sqlite_vec_is_too(demo_db, monkeypatch):
    before = found_by_search(demo_db)
    stock(demo_db, "drop table _limbic_vec_entities_chunks")
    with monkeypatch.context() as patch:
        patch.setattr(connection, "load_vec", lambda conn: "none")
        assert set(findings(demo_db)) == {"vectors.index"}
        assert repaired(demo_db).left == []
    # taken away whole: the next sync with sqlite-vec makes it
    with closing(connection.connect(demo_db)) as conn:
        sync(conn)
    assert findings(demo_db) == {}
    assert found_by_search(demo_db) == before


def test_a_sound_memory(demo_db, empty_db):
    for path in (demo_db, empty_db):
        report = check_file(path)
        assert report.findings == []
        assert all(result.ok for result in report.results)
        assert "all is well" in report.text()
    before = dump(demo_db)
    summary = repaired(demo_db)
    assert (summary.repaired, summary.left) == ([], [])
    assert dump(demo_db) == before


def test_every_check_has_a_name_and_its_repair_exists():
    every = integrity.checks()
    names = [one.name for one in every]
    assert len(set(names)) == len(names)
    by_sync = {one.name for one in every if one.repair and one.repair.by == "sync"}
    assert by_sync == set(repairing.REPAIRS)
    broken = set().union(*(case.names for case in SYNC_REPAIRS.values()))
    # these two need a table that was adopted: below; those of the approximate index, one of it
    index = {"approximate.index", "values.limbic_approximate.state"}
    assert by_sync - broken == {"schema.keys", "pairs.twice", *index}


def test_both_orders_of_a_pair_add_up(demo_db):
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        a, b, count, last = conn.execute("select * from co_occurrences limit 1").fetchone()
        silently(conn, f"insert into co_occurrences values ({b}, {a}, 10, '2030-01-01T00:00:00Z')")
        conn.commit()
    assert set(findings(demo_db)) == {"pairs.order", "pairs.twice"}
    summary = repaired(demo_db)
    assert [one.name for one in summary.repaired] == ["pairs.order", "pairs.twice"]
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        rows = conn.execute(
            "select * from co_occurrences"
            " where entity_a_id in (?1, ?2) and entity_b_id in (?1, ?2)",
            [a, b],
        ).fetchall()
    assert rows == [(a, b, count + 10, "2030-01-01T00:00:00Z")]
    assert last < "2030"
    assert findings(demo_db) == {}


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(
            st.integers(1, 4),
            st.integers(1, 4),
            st.integers(1, 9),
            st.sampled_from(["2026-01-01", "2025-06-01 10:00:00", "1767300000", "never"]),
        ),
        max_size=12,
    )
)
def test_pairs_of_any_kind_become_canonical(rows):
    conn = sqlite3.connect(":memory:")
    conn.execute("create table co_occurrences(entity_a_id, entity_b_id, co_count, last_co, more)")
    conn.executemany("insert into co_occurrences values (?, ?, ?, ?, 'kept')", rows)
    repair_pairs(conn)
    found = conn.execute("select * from co_occurrences").fetchall()
    conn.close()
    expected: dict[tuple[int, int], int] = {}
    for a, b, count, _ in rows:
        if a != b:
            key = (min(a, b), max(a, b))
            expected[key] = expected.get(key, 0) + count
    assert {(r[0], r[1]): r[2] for r in found} == expected
    assert len(found) == len(expected)
    assert all(r[4] == "kept" for r in found)


def test_an_adopted_table_that_lost_its_key(demo_db):
    def without_key(text):
        return (
            text.replace("primary key (entity_a_id, entity_b_id),", "")
            .replace("check (entity_a_id < entity_b_id)", "")
            .replace("last_co text not null default (datetime('now')),", "last_co text")
            .replace("without rowid", "")
        )

    copied(demo_db, "co_occurrences", without_key)
    assert set(findings(demo_db)) == {"schema.keys"}
    stock(demo_db, "insert into co_occurrences select * from co_occurrences limit 5")
    assert set(findings(demo_db)) == {"schema.keys", "pairs.twice"}
    # the key can be made once each pair is there once
    assert [one.name for one in repaired(demo_db).repaired] == ["pairs.twice", "schema.keys"]
    assert findings(demo_db) == {}


def test_an_adopted_file_with_no_constraint_at_all(tmp_path, models):
    path = tmp_path / "adopted.db"
    stock(
        path,
        "create table entities(id integer primary key, name)",
        "create table observations(id integer primary key, entity_id, content)",
        "create table relations(id integer primary key, from_entity, to_entity, relation_type)",
        "create table entity_access(entity_id, access_count, last_access)",
        "create table co_occurrences(entity_a_id, entity_b_id, co_count, last_co, note)",
        "insert into entities values (1, 'one'), (2, 'two'), (3, 'three')",
        "insert into observations values (1, 1, 'fact'), (2, 2, 'other')",
        "insert into relations values (1, 1, 2, 'knows'), (2, 2, 3, 'knows')",
        "insert into entity_access values (1, 3, '2026-01-01')",
        "insert into co_occurrences values (1, 2, 4, '2026-01-01', 'a')",
        quiet=False,
    )
    with closing(connection.connect(path)) as conn:
        schema.init(conn)
        sync(conn, model="bag")
    assert findings(path) == {}
    stock(
        path,
        "insert into observations(id, entity_id, content) values (3, 76, 'lost')",
        "insert into observations(id, entity_id, content) values (4, 77, 'lost too')",
        "insert into relations(from_entity, to_entity, relation_type) values (1, 2, 'knows')",
        "insert into entity_access values (null, 'many', 'soon')",
        "insert into co_occurrences values (2, 1, 1, '2026-02-02', 'b'), (3, 3, 1, 'x', 'c')",
        quiet=False,
    )
    assert set(findings(path)) == {
        "gone.observations.entity_id",
        "gone.entity_access.entity_id",
        "several.relations",
        "values.entity_access.access_count",
        "times.entity_access",
        "times.co_occurrences",
        "pairs.order",
        "pairs.twice",
        "pairs.self",
    }
    repaired(path)
    left = findings(path)
    assert {result.repair.by for result in left.values()} == {"person"}
    for result in left.values():
        stock(path, *result.repair.sql, quiet=False)
    assert findings(path) == {}
    with closing(stock_sqlite3.connect(path)) as conn:
        assert conn.execute("select * from co_occurrences").fetchall() == [
            (1, 2, 5, "2026-02-02", "a")
        ]


def test_a_migration_that_has_not_run(demo_db):
    stock(
        demo_db,
        "delete from _sqlite_migrations where name = 'm002_sources'",
        "drop table _limbic_source_counts",
    )
    report = check_file(demo_db)
    assert [result.name for result in report.findings] == ["schema.migrations"]
    assert report.findings[0].repair.by == "init"
    assert "not looked at: " in report.text()
    with closing(connection.connect(demo_db)) as conn:
        schema.init(conn)
    assert findings(demo_db) == {}


def test_a_file_from_before_the_newest_migration(demo_db):
    """One cause, one finding; what needs the new tables and columns is a note."""
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        objects = conn.execute("select type, name, sql from sqlite_master").fetchall()
        tables = {name for kind, name, _ in objects if kind == "table"}
        silent = [name for kind, name, _ in objects if kind in ("trigger", "view")]
    new = sorted(name for name in tables if name.startswith("_limbic_source"))
    stock(
        demo_db,
        *(f"drop trigger if exists {name}" for name in silent if name.startswith("limbic_")),
        "drop view entity_snapshots",
        *(f"drop table {name}" for name in new),
        "alter table relations drop column context",
        "delete from _sqlite_migrations where name = 'm002_sources'",
        quiet=False,
    )
    report = check_file(demo_db)
    assert [result.name for result in report.findings] == ["schema.migrations"]
    unseen = {result.name: result.note for result in report.notes if result.ok is None}
    assert "schema.tables" in unseen
    assert set(unseen.values()) == {"migrations that have not run come first"}
    assert report.text().count("not looked at") == 1
    assert repaired(demo_db).left == []
    assert findings(demo_db) == {}


def test_killed_in_the_middle_the_next_repair_goes_on(demo_db):
    stock(
        demo_db,
        "insert into _limbic_guard values ('x')",
        f"insert into co_occurrences values ({FIRST}, {FIRST}, 3, '2026-01-01')",
        "delete from _limbic_fts_content where id = (select 2 * min(id) from entities)",
        "update embeddings set embedding = zeroblob(16) where rowid = 40",
        "drop index relations_to_entity",
    )
    broken = set(findings(demo_db))
    script = (
        "import os, signal, sys\n"
        "from datasette_limbic import connection, repairing, sync\n"
        "conn = connection.connect(sys.argv[1])\n"
        "real = repairing.REPAIRS['pairs.self']\n"
        "def dies(conn):\n"
        "    real(conn)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "repairing.REPAIRS['pairs.self'] = dies\n"
        "sync.sync(conn, repair=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(demo_db)], check=False)
    assert done.returncode == -signal.SIGKILL
    # what the dead program left half written is undone by the next that may write
    with closing(connection.connect(demo_db)) as conn:
        conn.execute("select count(*) from entities").fetchone()
    left = set(findings(demo_db))
    assert left < broken
    assert "pairs.self" in left
    assert "marks.guard" not in left
    assert repaired(demo_db).left == []
    assert findings(demo_db) == {}


# what a person decides --------------------------------------------------------------------------


def insert_observation(columns, values):
    return sql(f"insert into observations(entity_id, {columns}) values ({FIRST}, {values})")


# name → (check, how, whether the statements given put the file back as it was)
PERSON = {
    "an observation of nobody": (
        "gone.observations.entity_id",
        sql(
            "insert into observations(id, entity_id, content) values (99999, 99999, 'lost')",
            "insert into _limbic_fts(rowid, content) values (199999, 'lost')",
        ),
        True,
    ),
    "an observation that replaced nothing": (
        "gone.observations.supersedes",
        sql("update observations set supersedes = 99999 where id = 5"),
        True,
    ),
    "a relation from nobody": (
        "gone.relations.from_entity",
        sql(
            "insert into relations(from_entity, to_entity, relation_type)"
            f" values (99, {FIRST}, 'r')"
        ),
        True,
    ),
    "a relation to nobody": (
        "gone.relations.to_entity",
        sql(
            "insert into relations(from_entity, to_entity, relation_type)"
            f" values ({FIRST}, 99, 'r')"
        ),
        True,
    ),
    "an access of nobody": (
        "gone.entity_access.entity_id",
        sql("insert into entity_access(entity_id) values (99999)"),
        True,
    ),
    "a logged access of nobody": (
        "gone.entity_access_log.entity_id",
        sql("update entity_access_log set entity_id = 99999 where id = 1"),
        False,
    ),
    "a pair with nobody": (
        "gone.co_occurrences.entity_b_id",
        sql(f"insert into co_occurrences values ({FIRST}, 99999, 1, '2026-01-01')"),
        True,
    ),
    "an insight about nobody": (
        "gone.limbic_insights.entity_id",
        sql(
            "insert into limbic_insights(key, kind, entity_id, title, body, evidence,"
            " evidence_digest) values ('k', 'k', 99999, 't', 'b', '[]', '')"
        ),
        True,
    ),
    "a candidate of no search": (
        "gone.limbic_search_candidates.search_id",
        sql(
            "insert into limbic_search_candidates(search_id, entity_id, entity_name,"
            " baseline_rank, treatment_rank) values (99, 1, 'x', 1, 1)"
        ),
        True,
    ),
    "a reject of no import": (
        "gone.limbic_import_rejects.import_id",
        sql("insert into limbic_import_rejects(import_id, line, reason) values (99, 1, 'x')"),
        True,
    ),
    "a vector in no collection": (
        "gone.embeddings.collection_id",
        sql("insert into embeddings(collection_id, id) values (99, '1')"),
        True,
    ),
    "confidence above 1": (
        "values.entities.confidence",
        sql(f"update entities set confidence = 1.5 where id = {FIRST}"),
        False,
    ),
    "confidence that is no number": (
        "values.observations.confidence",
        sql("update observations set confidence = 'high' where id = 5"),
        False,
    ),
    "a flag of 7": (
        "values.observations.similarity_flag",
        sql("update observations set similarity_flag = 7 where id = 5"),
        False,
    ),
    "parameters that are text": (
        "values.limbic_parameters.unusable",
        sql("insert into limbic_parameters(beta_sal, gamma, source) values ('much', 1, 'manual')"),
        True,
    ),
    "parameters out of range": (
        "values.limbic_parameters.unusable",
        sql("insert into limbic_parameters(beta_sal, gamma, source) values (0.5, 11, 'manual')"),
        True,
    ),
    "a version that is none": (
        "values.limbic_parameters.unusable",
        sql(
            "insert into limbic_parameters(version, beta_sal, gamma, source)"
            " values (0, 1, 1, 'manual')"
        ),
        True,
    ),
    "evidence that cannot be read": (
        "json.limbic_parameters.evidence",
        sql(
            "insert into limbic_parameters(beta_sal, gamma, source, evidence)"
            " values (1, 1, 'manual', '{')"
        ),
        False,
    ),
    "a source of parameters that is none": (
        "values.limbic_parameters.source",
        sql("insert into limbic_parameters(beta_sal, gamma, source) values (1, 1, 'guessed')"),
        False,
    ),
    "feedback that is none": (
        "values.limbic_feedback.event",
        sql("insert into limbic_feedback(entity_name, event) values ('x', 'liked')"),
        True,
    ),
    "a status that is none": (
        "values.limbic_insights.status",
        sql(
            "insert into limbic_insights(key, kind, title, body, evidence, evidence_digest, status)"
            " values ('k', 'k', 't', 'b', '[]', '', 'lost')"
        ),
        False,
    ),
    "a treatment that is none": (
        "values.limbic_searches.treatment",
        sql(
            "insert into limbic_searches(query, mode, strategy, result_limit, now, parameters,"
            " treatment) values ('q', 'm', 's', 1, '2026-01-01', '{}', 7)"
        ),
        False,
    ),
    "fewer than no accesses": (
        "values.entity_access.access_count",
        sql(f"update entity_access set access_count = -3 where entity_id = {FIRST}"),
        False,
    ),
    "a count of words": (
        "values.co_occurrences.co_count",
        sql(
            "update co_occurrences set co_count = 'many' where entity_a_id ="
            " (select min(entity_a_id) from co_occurrences)"
        ),
        False,
    ),
    "an empty name": (
        "values.entities.name",
        sql(
            f"update entities set name = '  ' where id = {FIRST}",
            f"update _limbic_fts set name = '  ' where rowid = 2 * {FIRST}",
            f"update _limbic_trigram set content = '  ' where rowid = 2 * {FIRST}",
        ),
        False,
    ),
    "an empty type": (
        "values.entities.entity_type",
        sql(
            f"update entities set entity_type = '' where id = {FIRST}",
            "insert into limbic_stale(collection, item_id) select 'entities', min(id)"
            " from entities",
        ),
        False,
    ),
    "an observation of bytes": (
        "values.observations.content",
        sql(
            "update observations set content = x'616263' where id = 5",
            "update _limbic_fts set content = x'616263' where rowid = 11",
        ),
        False,
    ),
    "a relation without a type": (
        "values.relations.relation_type",
        sql("update relations set relation_type = '' where id = 1"),
        False,
    ),
    "a logged access of bytes": (
        "values.entity_access_log.entity_name",
        sql("update entity_access_log set entity_name = x'41' where id = 1"),
        False,
    ),
    "an id that is too large": (
        "values.observations.id",
        insert_observation("id, content", f"{1 << 62}, 'large'"),
        False,
    ),
    "counts that cannot be read": (
        "json.limbic_imports.counts",
        sql("update limbic_imports set counts = 'none'"),
        False,
    ),
    "metadata that cannot be read": (
        "json.embeddings.metadata",
        sql("update embeddings set metadata = '{' where rowid = 40"),
        True,
    ),
}


@pytest.mark.parametrize("name", PERSON)
def test_a_person_decides(name, demo_db):
    check, how, same = PERSON[name]
    before = dump(demo_db)
    how(demo_db)
    broken = dump(demo_db)
    found = findings(demo_db)
    assert set(found) == {check}
    result = found[check]
    assert result.repair.by == "person"
    assert result.repair.sql
    # a repair leaves facts alone and says so
    summary = repaired(demo_db)
    assert [left.name for left in summary.left] == [check]
    assert "needs a person" in summary.text()
    changed = {key for key, rows in dump(demo_db).items() if rows != broken[key]}
    assert changed <= {"embeddings", "limbic_stale", "limbic_reports"} | {
        "_limbic_text_keys",
        "_limbic_vec_entities_rowids",
        "_limbic_vec_observations_rowids",
    }
    stock(demo_db, *result.repair.sql, quiet=False)
    assert findings(demo_db) == {}
    with closing(connection.connect(demo_db)) as conn:
        sync(conn)
    if same:
        after = dump(demo_db)
        assert {k for k in before if before[k] != after[k]} <= {
            "entities",  # last_activity_at
            "limbic_reports",  # how much was looked at
        }


@pytest.mark.parametrize(
    ("table", "how"),
    [
        ("entities", "update {t} set name = 'Twin' where id in (1, 2)"),
        (
            "relations",
            "update {t} set (from_entity, to_entity, relation_type) = (1, 2, 'r') where id < 4",
        ),
    ],
)
def test_adopted_tables_may_hold_twins(table, how, empty_db):
    copied_rows = "insert into entities(id, name) values (1, 'a'), (2, 'b'), (3, 'c')"
    stock(
        empty_db,
        copied_rows,
        "insert into relations(from_entity, to_entity, relation_type)"
        " values (1, 2, 'a'), (2, 3, 'b'), (3, 1, 'c')",
        quiet=False,
    )
    copied(
        empty_db,
        table,
        lambda text: re.sub(r",\s*unique \([^)]*\)|not null unique", "", text),
    )
    stock(empty_db, how.format(t=table), quiet=False)
    found = findings(empty_db)
    keys = {"schema.keys"} if table == "entities" else set()
    assert set(found) == {f"several.{table}"} | keys
    # the key cannot be made while two rows have it
    with closing(connection.connect(empty_db)) as conn:
        done = repairing.repair(conn)
    assert all(one.failed for one in done)
    assert all("not repaired" in one.text() for one in done)
    stock(empty_db, *found[f"several.{table}"].repair.sql, quiet=False)
    with closing(connection.connect(empty_db)) as conn:
        repairing.repair(conn)
    assert findings(empty_db) == {}


@pytest.mark.parametrize(
    ("table", "column", "value", "readable"),
    [
        ("entities", "created_at", "'2026-02-31 00:00:00'", False),
        ("entities", "updated_at", "'yesterday'", False),
        ("entities", "last_activity_at", "'0000-01-01 00:00:00'", False),
        ("entities", "last_activity_at", "x'00'", False),
        ("entities", "created_at", "1e300", False),
        ("entities", "created_at", "''", False),
        ("entities", "created_at", "'it''s late'", False),
        ("entities", "created_at", "'a' || char(0) || 'b'", False),
        ("entities", "created_at", "'2026-01-02T03:04:05Z'", True),
        ("entities", "created_at", "'1767300000'", True),
        ("entities", "created_at", "'2026-01-02 03:04:05 UTC'", True),
        ("entities", "created_at", "null", True),
        # search compares these in SQL, which reads less
        ("entities", "valid_to", "'1767300000'", False),
        ("observations", "valid_from", "'2026-01-02 03:04:05 UTC'", False),
        ("relations", "valid_to", "'soon'", False),
        ("relations", "valid_to", "''", True),
        ("observations", "valid_to", "'2026-01-02'", True),
        ("entity_access", "last_access", "'soon'", False),
        ("entity_access_log", "accessed_at", "'soon'", False),
        ("co_occurrences", "last_co", "'soon'", False),
        ("limbic_imports", "finished_at", "'soon'", False),
    ],
)
def test_times(table, column, value, readable, demo_db):
    key = next(c.name for c in reference().columns[table].values() if c.key)
    stock(
        demo_db,
        f"update {table} set {column} = {value} where {key} = (select min({key}) from {table})",
    )
    found = findings(demo_db)
    assert set(found) == (set() if readable else {f"times.{table}"})
    if readable:
        return
    result = found[f"times.{table}"]
    assert column in result.examples[0]
    assert [left.name for left in repaired(demo_db).left] == [f"times.{table}"]
    stock(demo_db, *result.repair.sql, quiet=False)
    assert findings(demo_db) == {}


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.one_of(
        st.text(max_size=12),
        st.datetimes().map(str),
        st.integers(-(10**12), 10**12).map(str),
        st.sampled_from(["2026-13-01", "2026-01-01T00:00:00+0100", "2020", " ", "12:00", "now"]),
    )
)
def test_validity_is_read_as_status_reads_it(conn, value):
    conn.execute("delete from entities")  # that of the value before
    try:
        conn.execute("insert into entities(name, valid_to) values ('a', ?)", [value])
    except (sqlite3.Error, UnicodeEncodeError):
        conn.rollback()
        return
    conn.commit()
    known = conn.execute(status.UNREADABLE_VALIDITY).fetchone()[0]
    found = {r.name for r in integrity.check(conn).findings}
    if known:
        assert found == {"times.entities"}


def test_a_time_that_is_known_is_kept(demo_db):
    """A Unix time is read everywhere but in SQL."""
    stock(demo_db, "update entities set valid_to = '1767300000' where id in (1, 2)")
    repair = findings(demo_db)["times.entities"].repair
    assert repair.sql == (
        "update entities set valid_to = '2026-01-01 20:40:00' where valid_to = '1767300000';",
    )
    assert repair.text is None


def test_what_is_unreadable_stays_archived(demo_db):
    """No value that is advised brings an entity back, and what the other choice means is said."""
    stock(demo_db, "update entities set archived_at = 'long ago' where id = 3")
    repair = findings(demo_db)["times.entities"].repair
    assert "null brings it back" in repair.text
    stock(demo_db, *repair.sql, quiet=False)
    assert findings(demo_db) == {}
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        row = conn.execute("select archived_at from entities where id = 3").fetchone()
    assert row == ("1970-01-01 00:00:00",)


@pytest.mark.parametrize("table", ["entities", "observations", "relations"])
def test_an_end_that_is_unreadable_is_said_to_be_none(table, demo_db):
    stock(demo_db, f"update {table} set valid_to = 'soon', valid_from = 'then' where id = 3")
    repair = findings(demo_db)[f"times.{table}"].repair
    assert "null in valid_to means that it never ends" in repair.text
    assert "null in valid_from means that it always held" in repair.text
    assert "archived" not in repair.text
    # a time that is known changes nothing, so there is nothing to say
    stock(demo_db, f"update {table} set valid_to = '1767300000', valid_from = null where id = 3")
    assert findings(demo_db)[f"times.{table}"].repair.text is None


def test_many_unreadable_times_name_the_first_values(demo_db):
    stock(demo_db, "update observations set created_at = 'n° ' || id")
    found = findings(demo_db)["times.observations"]
    assert found.count == 403
    assert found.repair.text.endswith("more values remain: check again afterwards")
    stock(demo_db, *found.repair.sql, quiet=False)
    assert findings(demo_db)["times.observations"].count == 383


def test_large_entity_ids_do_not_stop_the_rest(demo_db):
    stock(demo_db, f"insert into entities(id, name) values ({1 << 62}, 'large')")
    found = findings(demo_db)
    assert set(found) == {"values.entities.id"}


def test_rows_that_break_a_constraint(demo_db):
    """Read-only connections know NOT NULL, and no CHECK."""
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        conn.execute("pragma writable_schema = on")
        conn.execute(
            "update sqlite_master set sql = replace(sql, 'report text not null', 'report text')"
            " where name = 'limbic_reviews'"
        )
        conn.execute(f"pragma schema_version = {_version(conn) + 1}")
        conn.commit()
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        conn.execute("insert into limbic_reviews(report) values (null)")
        conn.execute("pragma writable_schema = on")
        conn.execute(
            "update sqlite_master set sql = replace(sql, 'report text', 'report text not null')"
            " where name = 'limbic_reviews'"
        )
        conn.execute(f"pragma schema_version = {_version(conn) + 1}")
        conn.commit()
    found = findings(demo_db)
    assert set(found) == {"sqlite.constraint"}
    assert found["sqlite.constraint"].examples == ({"text": "NULL value in limbic_reviews.report"},)


def test_every_check_constraint_has_a_check():
    tables = [name for name, (_, text) in reference().objects.items() if " check (" in text]
    assert set(tables) == {
        "observations",
        "co_occurrences",
        "limbic_approximate",
        "limbic_duplicates",
        "limbic_feedback",
        "limbic_insights",
        "limbic_parameters",
        "limbic_searches",
    }


def test_text_that_is_no_utf8(demo_db):
    stock(demo_db, "update entities set updated_at = cast(x'ff00fe' as text) where id = 1")
    assert set(findings(demo_db)) == {"times.entities"}


NO_UTF8 = [
    ("observations", "insert into observations(entity_id, content) values (1, {})", "content"),
    ("entities", "insert into entities(name) values ({})", "name"),
    ("entities", "update entities set entity_type = {} where id = 1", "entity_type"),
    ("entities", "update entities set archived_reason = {} where id = 1", "archived_reason"),
    ("relations", "update relations set relation_type = {} where id = 1", "relation_type"),
    ("relations", "update relations set context = {} where id = 1", "context"),
    (
        "entity_access_log",
        "update entity_access_log set entity_name = {} where id = 1",
        "entity_name",
    ),
    ("limbic_settings", "insert into limbic_settings(key) values ({})", "key"),
    ("limbic_imports", "update limbic_imports set source = {} where id = 1", "source"),
]


@pytest.mark.parametrize("text", ["6261e4", "e4", "62c3a4e4f6", "eda080", "62e98f"])
@pytest.mark.parametrize(("table", "statement", "column"), NO_UTF8)
def test_texts_that_are_not_utf8(table, statement, column, text, demo_db):
    data = bytes.fromhex(text)
    stock(demo_db, statement.format(f"cast(x'{text}' as text)"), quiet=False)
    found = findings(demo_db)
    assert set(found) == {f"values.{table}.utf8"}
    result = found[f"values.{table}.utf8"]
    assert result.count == 1
    assert column in result.examples[0]
    assert "Windows-1252" in result.repair.text
    stock(demo_db, *result.repair.sql, quiet=False)
    assert findings(demo_db) == {}
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        rows = [row[0] for row in conn.execute(f"select {column} from {table}")]
    assert guess(data) in rows


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"ba\xe4", "baä"),
        ("ä".encode() + b"\xe4", "ää"),
        (b"\x80\x81", "€\x81"),
        (b"plain", "plain"),
    ],
)
def test_bytes_are_read_as_windows_1252(data, text):
    assert guess(data) == text


def test_many_texts_that_are_not_utf8(demo_db):
    stock(
        demo_db,
        "update observations set content = cast(x'e4' || cast(id as blob) as text)",
        f"update observations set content = cast(x'e4' || zeroblob({3000}) as text) where id = 5",
        quiet=False,
    )
    result = findings(demo_db)["values.observations.utf8"]
    assert result.count == 403
    assert len(result.repair.sql) == 20
    assert "check again afterwards" in result.repair.text
    assert "with a program" in result.repair.text
    stock(demo_db, *result.repair.sql, quiet=False)
    assert findings(demo_db)["values.observations.utf8"].count == 383


# notes: no fault --------------------------------------------------------------------------------


def notes(path):
    report = check_file(path)
    assert report.ok
    return {result.name: result.note for result in report.notes}


def test_what_a_sync_will_do_is_a_note(demo_db):
    stock(
        demo_db,
        "delete from entities where id = 3",
        "insert into entities(name) values ('new')",
        "update observations set content = 'changed' where id = 5",
        quiet=False,
    )
    assert "wait for a sync" in notes(demo_db)["vectors.pending"]
    assert "datasette limbic sync" in notes(demo_db)["vectors.pending"]


def test_no_vectors_yet(path, conn):
    fill(conn, 3)
    assert "no vectors of entities yet" in notes(path)["vectors.pending"]


def test_vectors_that_only_llm_wrote(path, conn):
    fill(conn, 1, each=0)
    store(conn, "entities", {1: blob(1, 2)})
    assert "wait for a sync" in notes(path)["vectors.pending"]


def test_texts_that_the_model_cannot_embed(path, conn, models):
    fill(conn, 2)
    conn.execute("insert into observations(entity_id, content) values (1, 'ZEROVEC')")
    conn.commit()
    sync(conn, model="bag")
    assert "no usable vector for 2 texts" in notes(path)["vectors.unusable"]


def test_a_model_that_rejects_is_not_repaired_for_ever(path, conn, models):
    fill(conn, 2)
    conn.execute("insert into observations(entity_id, content) values (1, 'ZEROVEC')")
    conn.commit()
    sync(conn, model="bag")
    first = sync(conn, repair=True)
    assert (first.repaired, first.left) == ([], [])


def test_a_repair_embeds_again_what_was_broken(path, conn, models):
    fill_and_sync(conn, 3)
    conn.execute("update embeddings set embedding = x'00' where id = '2' and collection_id = 1")
    conn.commit()
    summary = sync(conn, repair=True)
    assert summary.collections[0].embedded == 1
    assert "repaired: vectors that cannot be indexed: 1" in summary.text()
    assert summary.changed
    assert json.loads(json.dumps(summary.as_dict()))["repaired"][0]["name"] == "vectors.unusable"
    found = conn.execute(
        "select embedding from embeddings where id = '2' and collection_id = 1"
    ).fetchone()[0]
    assert len(found) == 32 * 4
    assert any(struct.unpack("<32f", found))


# sqlite-vec is not here -------------------------------------------------------------------------


def test_without_sqlite_vec(demo_db, monkeypatch):
    monkeypatch.setattr(connection, "load_vec", lambda conn: "none")
    report = check_file(demo_db)
    assert report.ok
    assert "only its list of rows" in next(
        r.note for r in report.results if r.name == "vectors.index"
    )
    stock(demo_db, "delete from _limbic_vec_entities_rowids where rowid = 3")
    stock(demo_db, "insert into _limbic_guard values ('x')")
    assert set(findings(demo_db)) == {"vectors.index", "marks.guard"}
    summary = repaired(demo_db)
    # the next sync that has sqlite-vec builds it
    assert summary.left == []
    monkeypatch.undo()
    with closing(connection.connect(demo_db)) as conn:
        assert [c.rebuilt for c in sync(conn).collections] == [True, True]
    assert findings(demo_db) == {}


def test_by_the_stock_module(demo_db):
    """A page may hand over any connection: rows as sqlite3.Row, no extension."""
    conn = sqlite3.connect(f"file:{demo_db}?mode=ro", uri=True)
    conn.row_factory = sqlite3.Row
    seen = []
    report = integrity.check(conn, progress=lambda *args: seen.append(args))
    assert report.ok
    assert conn.row_factory is sqlite3.Row
    assert not conn.in_transaction
    conn.close()
    total = len(integrity.checks())
    assert [s[0] for s in seen] == [*range(total), total]


# files ------------------------------------------------------------------------------------------


def state(folder):
    return {
        p.name: (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns)
        for p in folder.iterdir()
    }


@pytest.mark.parametrize("mode", ["delete", "wal", "truncate", "persist"])
def test_a_check_leaves_no_trace(mode, demo_db):
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        conn.execute(f"pragma journal_mode = {mode}")
        conn.execute("insert into limbic_settings(key) values ('x')")
        conn.commit()
    before = state(demo_db.parent)
    assert check_file(demo_db).ok
    stock_before = state(demo_db.parent)
    assert stock_before == before


def test_a_wal_file_with_a_writer(demo_db):
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        conn.execute("pragma journal_mode = wal")
        conn.execute("insert into _limbic_guard values ('in the wal')")
        conn.commit()
        before = state(demo_db.parent)
        # what is only in the WAL counts
        assert set(findings(demo_db)) == {"marks.guard"}
        after = state(demo_db.parent)
        # -shm is the shared memory in which every reader says that it reads
        shm = f"{demo_db.name}-shm"
        assert {k: v for k, v in after.items() if k != shm} == {
            k: v for k, v in before.items() if k != shm
        }


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("rows", [True, False])
def test_a_copied_pair_of_file_and_wal(rows, linked, demo_db, tmp_path):
    """A -wal and no -shm: what is in the WAL counts, and nothing is left beside it."""
    folder = tmp_path / "copy"
    folder.mkdir()
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        conn.execute("pragma journal_mode = wal")
        if rows:
            conn.execute("insert into _limbic_guard values ('in the wal')")
            conn.commit()
        for suffix in ("", "-wal")[: 1 + rows]:
            shutil.copy(f"{demo_db}{suffix}", folder)
    if not rows:
        (folder / f"{demo_db.name}-wal").write_bytes(b"")
    path = folder / demo_db.name
    if linked:
        path = tmp_path / "link.db"
        path.symlink_to(folder / demo_db.name)
    before = state(folder)
    report = check_file(path)
    assert [result.name for result in report.findings] == ["marks.guard"] * rows
    assert report.database == str(path)
    assert state(folder) == before
    assert not list(tmp_path.glob("link.db-*"))


def test_written_to_while_it_was_checked(demo_db, monkeypatch):
    """A quiet WAL file that somebody opens meanwhile is checked again, with their WAL."""
    from datasette_limbic.integrity import files

    with closing(stock_sqlite3.connect(demo_db)) as conn:
        conn.execute("pragma journal_mode = wal")
    writers = []
    real = files.check

    def during(conn, **kwargs):
        if not writers:
            writer = stock_sqlite3.connect(demo_db)
            writer.execute("insert into _limbic_guard values ('meanwhile')")
            writer.commit()
            writers.append(writer)
        return real(conn, **kwargs)

    monkeypatch.setattr(files, "check", during)
    assert set(findings(demo_db)) == {"marks.guard"}
    writers[0].close()


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_file_and_folder_that_cannot_be_written(mode, demo_db):
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        conn.execute(f"pragma journal_mode = {mode}")
    demo_db.chmod(0o444)
    demo_db.parent.chmod(0o555)
    try:
        assert check_file(demo_db).ok
    finally:
        demo_db.parent.chmod(0o755)


def test_left_half_written(demo_db, tmp_path):
    """A program died while it wrote: only one that may write can undo that."""
    folder = tmp_path / "copy"
    folder.mkdir()
    with closing(stock_sqlite3.connect(demo_db)) as conn:
        conn.execute("pragma cache_size = 1")
        conn.execute("update observations set content = content || ' and more'")
        for name in (demo_db.name, f"{demo_db.name}-journal"):
            shutil.copy(demo_db.parent / name, folder / name)
        conn.rollback()
    broken = folder / demo_db.name
    with pytest.raises(DatabaseUnusable, match="stopped while it wrote"):
        check_file(broken)
    with closing(connection.connect(broken)) as conn:
        schema.init(conn)
    assert check_file(broken).ok


def test_not_a_memory(tmp_path):
    other = tmp_path / "other.db"
    with closing(stock_sqlite3.connect(other)) as conn:
        conn.execute("create table t(x)")
    with pytest.raises(NotAMemory, match="limbic init"):
        check_file(other)
    with pytest.raises(DatabaseUnusable, match="does not exist"):
        check_file(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("this is no database, whatever it is called" * 40)
    with pytest.raises(DatabaseUnusable, match="not a SQLite database"):
        check_file(tmp_path / "text.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(NotAMemory):
        check_file(tmp_path / "empty.db")
    with closing(stock_sqlite3.connect(tmp_path / "same.db")) as conn:
        conn.execute("create table entities(id, name)")
    with pytest.raises(NotAMemory):
        check_file(tmp_path / "same.db")


@pytest.mark.parametrize("start", [0, 2, 20, 400, 1000])
@pytest.mark.parametrize("byte", [b"\x00", b"\xff"])
def test_damaged_pages(start, byte, demo_db):
    """A finding, or a sentence: never anything else."""
    size = demo_db.stat().st_size
    with demo_db.open("r+b") as file:
        page = 4096
        start = min(start, size // page - 12)
        for number in range(start, start + 12):
            file.seek(number * page)
            file.write(byte * page)
    try:
        found = findings(demo_db)
    except (DatabaseUnusable, NotAMemory, sqlite3.DatabaseError):
        return
    assert found


def overwritten(path, table):
    """The first page of a table, as a disk may give it back."""
    with closing(stock_sqlite3.connect(path)) as conn:
        page = conn.execute(
            "select rootpage from sqlite_master where name = ?", [table]
        ).fetchone()[0]
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)


@pytest.mark.parametrize(
    "table",
    ["entities", "observations", "relations", "co_occurrences", "limbic_imports", "embeddings"],
)
def test_one_damaged_page_is_one_finding(table, demo_db):
    overwritten(demo_db, table)
    report = check_file(demo_db)
    assert [result.name for result in report.findings] == ["sqlite.file"]
    assert report.findings[0].repair.by == "person"
    unseen = [result for result in report.results if result.ok is None]
    assert unseen
    assert all("malformed" in result.note for result in unseen)
    assert report.text().count("not looked at") == 1


@pytest.mark.parametrize(
    "table",
    [
        "_limbic_fts_data",
        "_limbic_fts_idx",
        "_limbic_trigram_content",
        "_limbic_vec_entities_chunks",
        "_limbic_vec_entities_rowids",
        "_limbic_vec_observations_vector_chunks00",
    ],
)
def test_a_damaged_page_of_what_can_be_made_again(table, demo_db):
    before = found_by_search(demo_db)
    overwritten(demo_db, table)
    found = findings(demo_db)
    assert found
    assert {result.repair.by for result in found.values()} == {"sync"}
    summary = repaired(demo_db)
    assert [one.failed for one in summary.repaired if one.failed] == []
    # the pages are still in the file
    assert [left.name for left in summary.left] == ["sqlite.file"]
    assert summary.left[0].repair.sql == ("vacuum;",)
    assert found_by_search(demo_db) == before
    stock(demo_db, *summary.left[0].repair.sql, quiet=False)
    assert findings(demo_db) == {}
    assert found_by_search(demo_db) == before


def test_what_breaks_a_check_off_is_never_passed_over(demo_db, monkeypatch):
    """Also where integrity_check has nothing to say."""

    def fails(context):
        raise sqlite3.DatabaseError("a strange error")

    one = integrity.checks()
    every = [*one[:-1], integrity.Check("values.strange", "strange values", fails)]
    monkeypatch.setattr(integrity, "checks", lambda: every)
    report = check_file(demo_db)
    assert [result.name for result in report.findings] == ["sqlite.file"]
    assert report.findings[0].examples == ({"text": "strange values: a strange error"},)
    assert report.results[-1].ok is None


@pytest.mark.parametrize("error", ["database is locked", "interrupted"])
def test_conditions_of_the_moment_are_raised(error, demo_db, monkeypatch):
    def fails(context):
        raise sqlite3.OperationalError(error)

    every = [integrity.Check("text.words", "words", fails)]
    monkeypatch.setattr(integrity, "checks", lambda: every)
    with pytest.raises(sqlite3.OperationalError, match=error):
        check_file(demo_db)


def test_cut_off(demo_db):
    os.truncate(demo_db, demo_db.stat().st_size // 2)
    try:
        found = findings(demo_db)
    except (DatabaseUnusable, sqlite3.DatabaseError):
        return
    assert "sqlite.file" in found


# what it says -----------------------------------------------------------------------------------


def test_report():
    one = integrity.Result(
        "a.b",
        "things",
        False,
        7,
        ({"id": 5, "name": "x"}, {"text": "plain"}),
        integrity.Repair("person", ("delete from t;",), "or not"),
    )
    other = integrity.Result("c", "marks", False, 1, ({"id": 1},), integrity.Repair("sync"))
    noted = integrity.Result("d", "pending", True, note="later")
    unseen = integrity.Result("e", "vectors", None, note="no table")
    report = integrity.Report([one, other, noted, unseen], "my file.db")
    assert report.text() == (
        "things: 7 [a.b]\n    id 5, name 'x'\n    plain\n    … and 5 more\n"
        "  needs a person, who may run:\n    delete from t;\n    or not\n\n"
        "marks: 1 [c]\n    id 1\n  repair: datasette limbic sync 'my file.db' --repair\n\n"
        "note: later\nnot looked at: vectors: no table\n"
        "my file.db: 2 findings, 1 checks passed"
    )
    found = json.loads(json.dumps(report.as_dict()))
    assert found["ok"] is False
    assert found["checks"][1]["repair"] == {
        "by": "sync",
        "command": "datasette limbic sync 'my file.db' --repair",
        "sql": [],
        "text": None,
    }
    assert found["checks"][3]["ok"] is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"abc", "blob of 3 bytes"),
        (float("inf"), "inf"),
        (1.5, 1.5),
        ("x" * 100, "x" * 79 + "…"),
        (None, None),
    ],
)
def test_values_are_shown_as_json_takes_them(value, expected):
    assert reports.plain(value) == expected
