"""Tables of the same names that stand in a file already: taken over, or refused in a sentence."""

from __future__ import annotations

import re
import shutil
import sqlite3 as stock_sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from datasette.utils.sqlite import sqlite3
from signal_log_helpers import old_memory

from datasette_limbic import connection, schema
from datasette_limbic.cli import limbic
from datasette_limbic.errors import SchemaConflict
from datasette_limbic.sync import sync

ENTITIES = "create table entities(id integer primary key, name text);"
REFUSED = {
    "text ids": (
        "create table entities(id text primary key, name text);"
        "insert into entities values ('u1', 'alpha'), ('u2', 'beta')",
        "id of the table entities is TEXT primary key.*'u1', 'u2'.*rename the table",
    ),
    "no primary key": (
        "create table entities(id integer, name text);"
        "insert into entities values (1, 'alpha'), (1, 'beta')",
        "id of the table entities is INTEGER where.*such as 1, 1",
    ),
    "no primary key, no rows": (
        "create table entities(id, name text)",
        "id of the table entities is untyped where a memory has INTEGER PRIMARY KEY: rename",
    ),
    "int": (
        "create table entities(id int primary key, name text)",
        "id of the table entities is INT primary key",
    ),
    "a key of two": (
        "create table entities(id integer, name text, primary key (id, name))",
        "id of the table entities is INTEGER primary key where",
    ),
    "text ids of observations": (
        ENTITIES + "create table observations(id text primary key, entity_id int, content text);"
        "insert into observations values ('o1', 1, 'x')",
        "id of the table observations is TEXT primary key.*'o1'",
    ),
    "relations without a key": (
        ENTITIES + "create table relations(id, from_entity int, to_entity int, relation_type text)",
        "id of the table relations is untyped",
    ),
    "huge ids": (
        ENTITIES + "insert into entities values (4611686018427387904, 'alpha'), (1, 'beta')",
        "ids of the table entities are too large .4611686018427387904.: give those rows ids under",
    ),
    "duplicate names": (
        ENTITIES + "insert into entities values (1, 'alpha'), (2, 'alpha'), (3, 'b'), (4, 'b')",
        "several rows of one name: 'alpha' .id 1 and 2.; 'b' .id 3 and 4.: rename or merge",
    ),
    "missing names": (
        ENTITIES + "insert into entities values (1, null), (2, 'alpha'), (3, null)",
        "the table entities has rows without name .id 1, 3.: fill it in or delete",
    ),
    "a view": (
        "create table e0(id integer primary key, name text);"
        "create view entities as select * from e0",
        "entities is a view in this file.*rename the view",
    ),
    "a view of observations": (
        ENTITIES + "create view observations as select 1 as id, 1 as entity_id, 'x' as content",
        "observations is a view",
    ),
    "a table in another case": (
        "create table Entities(id integer primary key, name text)",
        "the table Entities differs in case from a memory's: rename it to entities",
    ),
    "a column in another case": (
        "create table entities(id integer primary key, name text, Entity_Type text)",
        "the column Entity_Type of the table entities differs in case.*to entity_type",
    ),
    "accesses counted twice": (
        "create table entity_access(entity_id int, access_count int, last_access text);"
        "insert into entity_access values (5, 1, '2026-01-01'), (5, 2, '2026-01-02')",
        "the table entity_access has several rows of one entity_id: 5 .rowid 1 and 2.",
    ),
    "pairs counted twice": (
        "create table co_occurrences(entity_a_id int, entity_b_id int, co_count int, last_co);"
        "insert into co_occurrences values (1, 2, 1, null), (1, 2, 1, null)",
        r"several rows of one entity_a_id, entity_b_id: 1 \+ 2 .rowid 1 and 2.",
    ),
}


@pytest.fixture
def made(tmp_path: Path):
    def make(ddl: str) -> Path:
        path = tmp_path / "other.db"
        with closing(stock_sqlite3.connect(path)) as conn:
            conn.executescript(ddl)
            conn.commit()
        return path

    return make


@pytest.mark.parametrize(("ddl", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_taken_over_is_named_and_left_as_it_was(ddl, said, made):
    path = made(ddl)
    before = path.read_bytes()
    conn = connection.connect(path)
    with pytest.raises(SchemaConflict, match=said) as caught:
        schema.init(conn)
    assert not conn.in_transaction
    conn.close()
    assert len(str(caught.value)) < 400
    assert path.read_bytes() == before
    for command in (["init", str(path)], ["init", str(path)]):
        result = CliRunner().invoke(limbic, command)
        assert result.exit_code == 1
        assert result.output == f"Error: {caught.value}\n"
    assert path.read_bytes() == before


def test_the_first_rows_are_named_not_all(made):
    path = made(
        ENTITIES + "with recursive n(i) as (select 1 union all select i + 1 from n where i < 500)"
        " insert into entities select i, 'name ' || (i / 2) from n"
    )
    conn = connection.connect(path)
    with pytest.raises(SchemaConflict) as caught:
        schema.init(conn)
    conn.close()
    assert str(caught.value).count("'name ") == 3


TAKEN = {
    "bare": ENTITIES,
    "unique": "create table entities(id integer primary key, name text unique);",
    "autoincrement": "create table entities(id integer primary key autoincrement, name text);",
    "null types": "create table entities(id integer primary key, name text, entity_type text);",
}


def names_of_reports():
    """(kind, name) of what the fourth migration makes, but for triggers."""
    with closing(sqlite3.connect(":memory:")) as conn:
        schema.init(conn)
        listed = dict(conn.execute("select name, type from sqlite_master where sql is not null"))
    texts = schema.statements("reports", "report_views")
    found = re.findall(r"create \w+ (?:if not exists )?(\w+)", "\n".join(texts))
    assert len(found) > 15
    return [(listed[name], name) for name in found]


OF_REPORTS = names_of_reports()


@pytest.mark.slow
@pytest.mark.parametrize(
    "taken",
    [
        "create table {}(a, b)",
        "create table {}(id integer primary key, entity_id, computed_at)",
        "create view {} as select 1 as report, 2 as made",
        "create table o(id); create index {} on o(id)",
    ],
)
@pytest.mark.parametrize("older", [False, True], ids=["no memory", "an older memory"])
@pytest.mark.parametrize(("kind", "name"), OF_REPORTS, ids=[name for _, name in OF_REPORTS])
def test_a_name_of_the_reports_that_is_taken(kind, name, older, taken, made, tmp_path):
    """Named before anything is written, by each command that would make them."""
    ddl = taken.format(name)
    if older:
        path = old_memory(tmp_path / "other.db")
        with closing(stock_sqlite3.connect(path)) as conn:
            conn.executescript(ddl)
    else:
        path = made(ddl)
    before = path.read_bytes()
    with closing(connection.connect(path)) as conn:
        with pytest.raises(SchemaConflict, match=rf"\b{name}\b.*rename or drop it") as caught:
            schema.init(conn)
        assert not conn.in_transaction
        if older:
            with pytest.raises(SchemaConflict, match=re.escape(str(caught.value))):
                sync(conn)
    assert path.read_bytes() == before


@pytest.mark.parametrize("ddl", TAKEN.values(), ids=TAKEN)
def test_what_can_be_taken_over_works_to_the_end(ddl, made):
    path = made(
        ddl + "insert into entities(id, name) values (1, 'alpha'), (7, 'beta');"
        "create table observations(id integer primary key, entity_id integer, content text);"
        "insert into observations values (1, 1, 'alpha likes tea'), (2, 1, null);"
        "create table entity_access(entity_id int, access_count int, last_access text);"
        "insert into entity_access values (1, 3, '2026-01-01')"
    )
    for arguments, said in (
        (["init", path], "ran m001_memory"),
        (["init", path], "already up to date"),
        (["sync", path], "2 of 2 searchable"),
        (["search", path, "tea"], "alpha"),
        (["status", path], "2 entities"),
    ):
        result = CliRunner().invoke(limbic, [str(a) for a in arguments])
        assert result.exit_code == 0, result.output
        assert said in result.output
    with closing(connection.connect(path)) as conn:
        assert conn.execute("select id, entity_type from entities order by 1").fetchall() == [
            (1, "Generic"),
            (7, "Generic"),
        ]
        # the import counts accesses by entity
        conn.execute(
            "insert into entity_access values (1, 1, '2026-02-01')"
            " on conflict(entity_id) do update set access_count = access_count + 1"
        )
        assert conn.execute("select access_count from entity_access").fetchall() == [(4,)]


@pytest.mark.parametrize("owner", ["'1'", "'no number'", "null", "x'31'", "1.5"])
def test_an_owner_that_is_no_whole_number_stops_no_sync(owner, made):
    path = made(
        ENTITIES + "insert into entities(id, name) values (1, 'alpha');"
        "create table observations(id integer primary key, entity_id, content text);"
        f"insert into observations values (1, {owner}, 'likes tea'), (2, 1, 'likes coffee')"
    )
    for arguments in (["init", path], ["sync", path], ["search", path, "coffee"]):
        result = CliRunner().invoke(limbic, [str(a) for a in arguments])
        assert result.exit_code == 0, result.output
    assert "alpha" in result.output


def test_given_types_stay(made):
    path = made(
        "create table entities(id integer primary key, name text, entity_type text);"
        "insert into entities values (1, 'alpha', 'Tool'), (2, 'beta', null), (3, 'c', '')"
    )
    with closing(connection.connect(path)) as conn:
        schema.init(conn)
        assert conn.execute("select entity_type from entities order by id").fetchall() == [
            ("Tool",),
            ("Generic",),
            ("",),
        ]


@pytest.mark.parametrize("arguments", [["--explain"], ["--json"], ["--mode", "text"]])
def test_a_type_that_went_missing_later_stops_no_search(arguments, made):
    path = made(TAKEN["null types"])
    with closing(connection.connect(path, create=True)) as conn:
        schema.init(conn)
        conn.execute("insert into entities(name) values ('alpha'), ('beta')")
        assert conn.execute("select count(*) from entities where entity_type is null").fetchone()
        conn.commit()
    result = CliRunner().invoke(limbic, ["search", str(path), "alpha", *arguments])
    assert result.exit_code == 0, result.output
    assert "alpha" in result.output


def test_a_memory_copied_table_by_table_is_taken_over(demo_master, tmp_path):
    """Our own tables, WITHOUT ROWID among them, in a file that init never saw."""
    source, path = Path(shutil.copy(demo_master, tmp_path / "a.db")), tmp_path / "b.db"
    with closing(stock_sqlite3.connect(path)) as conn:
        conn.execute("attach ? as a", [str(source)])
        for name in schema.CORE_TABLES:
            (sql,) = conn.execute("select sql from a.sqlite_master where name = ?", [name])
            conn.execute(sql[0])
            conn.execute(f"insert into main.{name} select * from a.{name}")
        conn.commit()
    with closing(connection.connect(path)) as conn:
        schema.init(conn)
        assert conn.execute("select count(*) from co_occurrences").fetchone() == (152,)
