"""The log of searches in ``check``: silent on a real one, each kind of damage by its name."""

from __future__ import annotations

import shutil
import sqlite3 as stock_sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from signal_log_helpers import use

from datasette_limbic import connection, integrity, repairing, serving
from datasette_limbic.config import Settings
from datasette_limbic.integrity.files import check_file
from datasette_limbic.integrity.search_log import checks


@pytest.fixture(scope="module")
def logged_master(demo_master, tmp_path_factory):
    """Searches by both policies, opened and rated."""
    path = shutil.copy(demo_master, tmp_path_factory.mktemp("logged") / "demo.db")
    with closing(connection.connect(path)) as conn:
        use(conn, 3)
        use(conn, 3, settings=Settings(baseline_share=1.0))
        use(conn, 3, settings=Settings(baseline_share=0.5))
        serving.open_nodes(conn, ["Atlas"], client="test")  # of no search
    return path


@pytest.fixture
def logged_db(logged_master, tmp_path):
    return Path(shutil.copy(logged_master, tmp_path / "demo.db"))


def findings(path):
    return {result.name: result for result in check_file(path).findings}


def stock(path, *statements, keys="off"):
    """Past every CHECK constraint, as any writer may."""
    with closing(stock_sqlite3.connect(path)) as conn:
        conn.execute(f"pragma foreign_keys = {keys}")
        conn.execute("pragma ignore_check_constraints = on")
        for statement in statements:
            conn.execute(statement)
        conn.commit()


def one(path, sql):
    with closing(stock_sqlite3.connect(path)) as conn:
        return conn.execute(sql).fetchone()


LOG = ("limbic_searches", "limbic_search_candidates", "limbic_feedback")


def log(path):
    with closing(stock_sqlite3.connect(path)) as conn:
        conn.text_factory = bytes
        return {t: conn.execute(f"select * from {t} order by 1, 2").fetchall() for t in LOG}


CANDIDATE = "where search_id = 2 and treatment_rank = 5"
# What breaks it, the finding, and whether its repair brings back what was there before.
BREAKS = {
    "a policy that is none": (
        "values.limbic_searches.policy",
        "update limbic_searches set policy = 'random' where id in (2, 5)",
        True,
    ),
    "a policy of another treatment": (
        "values.limbic_searches.served",
        "update limbic_searches set treatment = 1 - treatment where id in (2, 5)",
        True,
    ),
    "a treatment that is none": (
        "values.limbic_searches.treatment",
        "update limbic_searches set treatment = 7 where id in (2, 5)",
        True,
    ),
    "a probability of more than 1": (
        "values.limbic_searches.probability",
        "update limbic_searches set probability = 1.5 where id = 2",
        True,
    ),
    "a probability of none": (
        "values.limbic_searches.probability",
        "update limbic_searches set probability = 0 where id = 2",
        True,
    ),
    "a probability of words": (
        "values.limbic_searches.probability",
        "update limbic_searches set probability = 'half' where id = 2",
        True,
    ),
    "a limit below 1": (
        "values.limbic_searches.result_limit",
        "update limbic_searches set result_limit = 0 where id = 2",
        True,
    ),
    "a limit of words": (
        "values.limbic_searches.result_limit",
        "update limbic_searches set result_limit = 'ten' where id = 2",
        True,
    ),
    "a rank below 1": (
        "values.limbic_search_candidates.rank",
        f"update limbic_search_candidates set treatment_rank = 0 {CANDIDATE}",
        False,
    ),
    "a rank of words": (
        "values.limbic_search_candidates.rank",
        f"update limbic_search_candidates set baseline_rank = 'first' {CANDIDATE}",
        False,
    ),
    "a rank between two": (
        "values.limbic_search_candidates.rank",
        f"update limbic_search_candidates set baseline_rank = 4.5 {CANDIDATE}",
        False,
    ),
    "a rank twice": (
        "several.limbic_search_candidates",
        f"update limbic_search_candidates set treatment_rank = 6 {CANDIDATE}",
        False,
    ),
    "a baseline rank twice": (
        "several.limbic_search_candidates",
        "update limbic_search_candidates set baseline_rank = 2 where search_id = 2"
        " and baseline_rank = 3",
        False,
    ),
    "returned that is neither": (
        "values.limbic_search_candidates.returned",
        "update limbic_search_candidates set returned = 2 where search_id in (2, 5)",
        True,
    ),
    "the whole pool as returned": (
        "values.limbic_search_candidates.shown",
        "update limbic_search_candidates set returned = 1 where search_id in (2, 5)",
        True,
    ),
    "nothing as returned": (
        "values.limbic_search_candidates.shown",
        "update limbic_search_candidates set returned = 0 where search_id = 8",
        True,
    ),
    "returned of words": (
        "values.limbic_search_candidates.returned",
        "update limbic_search_candidates set returned = 'yes' where search_id = 5",
        True,
    ),
    "a factor of words": (
        "values.limbic_search_candidates.factors",
        f"update limbic_search_candidates set importance = 'high' {CANDIDATE}",
        False,
    ),
    "a factor of bytes": (
        "values.limbic_search_candidates.factors",
        f"update limbic_search_candidates set base = x'00' {CANDIDATE}",
        False,
    ),
    "a factor that is infinite": (
        "values.limbic_search_candidates.factors",
        f"update limbic_search_candidates set final_score = 9e999 {CANDIDATE}",
        False,
    ),
    "a factor below all": (
        "values.limbic_search_candidates.factors",
        f"update limbic_search_candidates set cooc_boost = -9e999 {CANDIDATE}",
        False,
    ),
    "feedback on no candidate": (
        "values.limbic_feedback.entity_id",
        "insert into limbic_feedback(search_id, entity_id, entity_name, event) select 2, min(id),"
        " 'x', 'useful' from entities where id not in"
        " (select entity_id from limbic_search_candidates where search_id = 2)",
        True,
    ),
    "feedback of a search that is gone": (
        "gone.limbic_feedback.search_id",
        "insert into limbic_feedback(search_id, entity_id, entity_name, event)"
        " values (77, 1, 'x', 'useful')",
        True,
    ),
    "candidates of a search that is gone": (
        "gone.limbic_search_candidates.search_id",
        "insert into limbic_search_candidates(search_id, entity_id, entity_name, baseline_rank,"
        " treatment_rank) values (77, 1, 'x', 1, 1)",
        True,
    ),
    "parameters that are gone": (
        "gone.limbic_searches.parameters_version",
        "update limbic_searches set parameters_version = 9 where id = 2",
        True,
    ),
    "parameters that cannot be read": (
        "json.limbic_searches.parameters",
        "update limbic_searches set parameters = '{' where id = 2",
        False,
    ),
    "a time that cannot be read": (
        "times.limbic_searches",
        "update limbic_searches set created_at = 'today' where id = 2",
        False,
    ),
    "feedback at no time": (
        "times.limbic_feedback",
        "update limbic_feedback set created_at = 'today' where id = 2",
        False,
    ),
    "a name that is not UTF-8": (
        "values.limbic_search_candidates.utf8",
        "update limbic_search_candidates set entity_name = cast(x'6261e4' as text) " + CANDIDATE,
        False,
    ),
}


def test_a_real_log_is_sound(logged_db):
    report = check_file(logged_db)
    assert report.findings == []
    assert all(result.ok for result in report.results)
    # and it is one: both policies, a rating and an opening of each search, and one of none
    assert one(logged_db, "select count(*), count(distinct policy) from limbic_searches") == (9, 2)
    assert one(logged_db, "select count(*), count(search_id) from limbic_feedback") == (19, 18)
    assert one(logged_db, "select min(returned), max(returned) from limbic_search_candidates") == (
        0,
        1,
    )


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        (name, keys)
        for name in BREAKS
        # where rows go with others, foreign keys make a difference
        for keys in (("off", "on") if "rank" in name else ("off",))
    ],
)
def test_what_a_person_decides(name, keys, logged_db):
    check, statement, same = BREAKS[name]
    before = log(logged_db)
    stock(logged_db, statement)
    assert log(logged_db) != before
    found = findings(logged_db)
    assert set(found) == {check}
    result = found[check]
    assert result.count > 0
    assert result.repair.by == "person"
    stock(logged_db, *result.repair.sql, keys=keys)
    assert findings(logged_db) == {}
    after = log(logged_db)
    assert (after == before) is same
    # what is not about the broken search is as it was
    others = {
        table: [row for row in before[table] if 2 not in row[:2] and 5 not in row[:2]]
        for table in LOG
    }
    for table in LOG:
        assert set(others[table]) <= set(after[table]), table


def test_every_check_of_the_log_is_tried():
    tried = {check for check, _, _ in BREAKS.values()}
    assert {one.name for one in checks()} - tried == {"several.limbic_searches"}


@pytest.mark.parametrize(
    "index",
    [
        "drop index limbic_searches_uid",
        # rows of it were lost: what SQLite calls damage
        "damaged",
    ],
)
def test_two_searches_of_one_uid(index, logged_db):
    uid = one(logged_db, "select uid from limbic_searches where id = 2")[0]
    twin = f"update limbic_searches set uid = '{uid}' where id in (3, 4)"
    if index == "damaged":
        with closing(stock_sqlite3.connect(logged_db)) as conn:
            text = conn.execute(
                "select sql from sqlite_master where name = 'limbic_searches_uid'"
            ).fetchone()[0]
            conn.execute("drop index limbic_searches_uid")
            conn.execute(twin)
            conn.execute(
                "create unique index limbic_searches_uid on limbic_searches(uid)"
                " where uid is not null and id < 3"
            )
            conn.commit()
            conn.execute("pragma writable_schema = on")
            conn.execute(
                "update sqlite_master set sql = ? where name = 'limbic_searches_uid'", [text]
            )
            version = conn.execute("pragma schema_version").fetchone()[0]
            conn.execute(f"pragma schema_version = {version + 1}")
            conn.commit()
    else:
        stock(logged_db, index, twin)
    found = findings(logged_db)
    missing = "sqlite.index" if index == "damaged" else "schema.indexes"
    assert set(found) == {"several.limbic_searches", missing}
    result = found["several.limbic_searches"]
    assert result.examples == ({"uid": uid, "rows": 3},)
    # the key cannot be made while two searches have it, and facts are left alone
    with closing(connection.connect(logged_db)) as conn:
        done = {each.name: each.failed for each in repairing.repair(conn)}
    assert "UNIQUE" in done[missing]
    stock(logged_db, *result.repair.sql)
    assert findings(logged_db) == {}
    assert one(
        logged_db,
        f"select id, count(*) from limbic_searches where uid is not null and uid = '{uid}'",
    ) == (2, 1)
    assert one(logged_db, "select group_concat(id) from limbic_searches where uid is null") == (
        "3,4",
    )


def test_an_index_that_is_not_unique(logged_db):
    """Of the right name, so it is not missing: but it would take two searches of one id."""
    stock(
        logged_db,
        "drop index limbic_searches_uid",
        "create index limbic_searches_uid on limbic_searches(uid)",
    )
    found = findings(logged_db)
    assert set(found) == {"schema.keys"}
    assert found["schema.keys"].examples == ({"table": "limbic_searches", "unique": "uid"},)
    with closing(connection.connect(logged_db)) as conn:
        assert [each.failed for each in repairing.repair(conn)] == [None]
    assert findings(logged_db) == {}
    with pytest.raises(stock_sqlite3.IntegrityError):
        stock(logged_db, "update limbic_searches set uid = 'x'")


def test_an_index_of_part_of_the_searches(logged_db):
    stock(
        logged_db,
        "drop index limbic_searches_uid",
        "create unique index limbic_searches_uid on limbic_searches(uid) where id < 3",
    )
    assert set(findings(logged_db)) == {"schema.keys"}


@pytest.mark.parametrize(
    "name",
    [
        "limbic_searches_uid",
        "limbic_searches_created",
        "limbic_feedback_entity",
    ],
)
def test_an_index_that_is_missing(name, logged_db):
    stock(logged_db, f"drop index {name}")
    found = findings(logged_db)
    assert set(found) == {"schema.indexes"}
    assert found["schema.indexes"].examples == ({"index": name},)
    with closing(connection.connect(logged_db)) as conn:
        assert [each.name for each in repairing.repair(conn)] == ["schema.indexes"]
    assert findings(logged_db) == {}


def test_a_column_that_is_missing(logged_db):
    """The names are lost, the log is not."""
    stock(
        logged_db,
        "drop index limbic_searches_uid",
        "alter table limbic_searches drop column uid",
    )
    assert set(findings(logged_db)) == {"schema.columns", "schema.indexes"}
    with closing(connection.connect(logged_db)) as conn:
        repairing.repair(conn)
        assert use(conn, 1)
    assert findings(logged_db) == {}
    assert one(logged_db, "select count(*) from limbic_searches where uid is null") == (9,)


def test_candidates_that_were_deleted_are_no_fault(logged_db):
    """What a search showed stays logged when the entity goes."""
    stock(logged_db, "delete from entities where id in (select entity_id from limbic_feedback)")
    with closing(connection.connect(logged_db, readonly=True)) as conn:
        names = {result.name for result in integrity.check(conn).findings}
    assert names == set()
