"""Files of each age: what the migrations do to them, and what works before they ran."""

from __future__ import annotations

import ast
import asyncio
import io
import os
import shutil
import signal
import sqlite3 as stock_sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from signal_log_helpers import ADDED, made_old, old_memory, use

from datasette_limbic import connection, schema, search, serving, status
from datasette_limbic.errors import SchemaConflict
from datasette_limbic.exporting import export_full, export_mcp
from datasette_limbic.integrity.files import check_file

# What a file of before the third migration lacks.
LATER = ["m003_signals", "m004_reports", "m005_actions", "m006_retrieval"]


@pytest.fixture
def old(tmp_path):
    return old_memory(tmp_path / "old.db")


def rows(path, sql):
    with closing(stock_sqlite3.connect(path)) as conn:
        return conn.execute(sql).fetchall()


def change(path, *statements):
    with closing(stock_sqlite3.connect(path)) as conn:
        for statement in statements:
            conn.execute(statement)
        conn.commit()


def init(path):
    with closing(connection.connect(path)) as conn:
        return schema.init(conn)


def shape(path):
    """Tables with their columns, and what else the schema has."""
    found = {}
    for kind, name, sql in rows(path, "select type, name, sql from sqlite_master"):
        text = " ".join((sql or "").split())
        found[kind, name] = (
            sorted(
                row[:3]
                for row in rows(path, f"select name, type, pk from pragma_table_info('{name}')")
            )
            if kind == "table" and "virtual" not in text.lower()
            else text
        )
    return found


def test_searches_logged_before_are_kept(old, empty_db):
    logged = "id, query, mode, strategy, result_limit, now, parameters, policy, created_at"
    tables = ("limbic_search_candidates", "limbic_feedback", "entities", "observations")
    before = [rows(old, f"select {logged} from limbic_searches")]
    before += [rows(old, f"select * from {table}") for table in tables]
    assert all(before)
    assert init(old) == LATER
    after = [rows(old, f"select {logged} from limbic_searches")]
    after += [rows(old, f"select * from {table}") for table in tables]
    assert after == before
    assert rows(old, "select uid from limbic_searches") == [(None,), (None,)]
    assert shape(old) == shape(empty_db)
    assert check_file(old).findings == []


def test_run_twice(old):
    init(old)
    before = old.read_bytes()
    assert init(old) == []
    assert old.read_bytes() == before


def test_its_note_was_lost(old):
    """Then it runs again over what it made itself."""
    init(old)
    with closing(connection.connect(old)) as conn:
        [uid] = use(conn, 1)
    before = shape(old)
    change(old, "delete from _sqlite_migrations where name = 'm003_signals'")
    assert init(old) == ["m003_signals"]
    assert shape(old) == before
    assert rows(old, "select uid from limbic_searches order by id desc limit 1") == [(uid,)]


def test_several_programs_at_once(old):
    code = (
        "import sys; from datasette_limbic import connection, schema;"
        "print(schema.init(connection.connect(sys.argv[1])))"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(old)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [process.communicate(timeout=60)[0].strip() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    # whoever came second may tell of one that the first noted a moment before
    assert {name for names in said for name in ast.literal_eval(names)} == set(LATER)
    noted = rows(
        old, "select name from _sqlite_migrations where migration_set = 'datasette-limbic'"
    )
    assert sorted(name for (name,) in noted) == ["m001_memory", "m002_sources", *LATER]
    assert check_file(old).findings == []
    assert rows(old, "select count(*) from limbic_searches where uid is null") == [(2,)]


@pytest.mark.parametrize("after", [0, 1, 3])
def test_killed_on_its_way(old, after):
    """Nothing of it is there, and the next run does all of it."""
    before = shape(old)
    script = (
        "import os, signal, sys\n"
        "from datasette_limbic import adoption, connection, schema\n"
        "real, done = adoption.replace_index, []\n"
        "def dies(db, text):\n"
        "    if len(done) == int(sys.argv[2]):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(db, text)\n"
        "    done.append(text)\n"
        "    if len(done) == int(sys.argv[2]) == 3:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "adoption.replace_index = dies\n"
        "conn = connection.connect(sys.argv[1])\n"
        "conn.execute('pragma cache_spill = 1')\n"
        "schema.init(conn)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(old), str(after)], check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    with closing(connection.connect(old)) as conn:  # undoes what the dead program left
        conn.execute("select count(*) from entities").fetchone()
    assert shape(old) == before
    assert init(old) == LATER
    assert check_file(old).findings == []


def test_tables_that_were_adopted(tmp_path):
    """A log of accesses that was there before any migration: it gets the index by time too."""
    path = tmp_path / "adopted.db"
    change(
        path,
        "create table entities(id integer primary key, name text)",
        "create table entity_access_log(id integer primary key, entity_id integer,"
        " entity_name text, query text, accessed_at text, note text)",
        "insert into entities values (1, 'Ana')",
        "insert into entity_access_log values (1, 1, 'Ana', 'tea', '2026-01-01', 'mine')",
    )
    assert init(path) == ["m001_memory", "m002_sources", *LATER]
    with closing(connection.connect(path)) as conn:
        serving.open_nodes(conn, ["Ana"])
    assert rows(path, "select entity_id, query, note from entity_access_log") == [
        (1, "tea", "mine"),
        (1, None, None),
    ]
    assert check_file(path).findings == []
    made = {row[0] for row in rows(path, "select name from sqlite_master where type = 'index'")}
    assert set(ADDED) <= made


@pytest.mark.parametrize("kind", ["text", "", "blob", "varchar(20)", "text collate nocase"])
def test_a_column_of_that_name_is_there(old, kind):
    change(
        old,
        f"alter table limbic_searches add column uid {kind}",
        "update limbic_searches set uid = 'given' where id = 2",
    )
    assert init(old) == LATER
    assert rows(old, "select id, uid from limbic_searches") == [(1, None), (2, "given")]
    with closing(connection.connect(old)) as conn:
        [uid] = use(conn, 1)
        assert serving.rate(conn, uid, "Ana", "useful")["search_id"] == uid
    assert check_file(old).findings == []


def test_one_uid_of_several_searches(old):
    """Which of them keeps it is for a person to say: nothing is changed until then."""
    change(
        old,
        "alter table limbic_searches add column uid text",
        "update limbic_searches set uid = 'twin'",
    )
    before = shape(old)
    with pytest.raises(SchemaConflict, match=r"'twin' \(id 1 and 2\).*set uid to null") as error:
        init(old)
    assert "run this again" in str(error.value)
    assert shape(old) == before
    change(old, "update limbic_searches set uid = null where id = 1")
    assert init(old) == LATER
    assert rows(old, "select id, uid from limbic_searches") == [(1, None), (2, "twin")]


def test_a_column_that_differs_in_case(old):
    """SQLite would call it a duplicate, and reading rows by name would miss it."""
    change(old, "alter table limbic_searches add column UID text")
    with pytest.raises(SchemaConflict, match="the column UID of the table limbic_searches"):
        init(old)


@pytest.mark.parametrize(
    "index",
    [
        "create index limbic_searches_uid on limbic_searches(query)",
        "create index LIMBIC_SEARCHES_UID on limbic_searches(id)",
        "create index limbic_searches_created on limbic_searches(query)",
    ],
)
def test_an_index_of_that_name_is_made_anew(old, empty_db, index):
    change(old, index)
    assert init(old) == LATER
    assert shape(old) == shape(empty_db)
    with closing(connection.connect(old)) as conn:
        conn.execute("update limbic_searches set uid = 'x' where id = 1")
        with pytest.raises(connection.sqlite3.IntegrityError, match="UNIQUE"):
            conn.execute("update limbic_searches set uid = 'x' where id = 2")


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        ("create index limbic_searches_uid on entities(name)", "another index of the table"),
        ("create table limbic_searches_uid(x)", "another table"),
        ("create view limbic_feedback_entity as select 1", "another view"),
    ],
)
def test_a_name_that_is_taken_elsewhere(old, taken, said):
    change(old, taken)
    before = shape(old)
    with pytest.raises(SchemaConflict, match=f"{said}.*rename or drop it"):
        init(old)
    assert shape(old) == before


def test_each_older_file_gets_a_version_of_its_own(demo_db, tmp_path):
    """A copy of an older file that takes the place of another is told from it."""
    change(
        made_old(demo_db),
        "alter table limbic_indexes drop column version",
        "alter table limbic_indexes drop column changes_from",
        "delete from _sqlite_migrations where name = 'm006_retrieval'",
    )
    other = shutil.copy(demo_db, tmp_path / "other.db")
    versions = []
    for file in (demo_db, other):
        init(file)
        found = rows(file, "select version, changes_from from limbic_indexes order by collection")
        assert len(found) == 2
        assert all(now == known > 0 for now, known in found)
        versions += found
        assert init(file) == []
        assert rows(file, "select version, changes_from from limbic_indexes") != []
    assert len(set(versions)) == 4


# before it ran --------------------------------------------------------------------------------


@pytest.fixture
def unmigrated(demo_db):
    return made_old(demo_db)


def test_reading_works_before(unmigrated):
    before = unmigrated.read_bytes()
    with closing(connection.connect(unmigrated, readonly=True)) as conn:
        assert search.search(conn, "who fixed the geocoder")["results"]
        found = serving.serve_open(conn, ["Atlas"])[0]
        assert [entity["name"] for entity in found["entities"]] == ["Atlas"]
        assert status.status(conn)
        for export in (export_full, export_mcp):
            out = io.StringIO()
            export(conn, out)
            assert out.getvalue()
            assert '"uid"' not in out.getvalue()
    report = check_file(unmigrated)
    assert [result.name for result in report.findings] == ["schema.migrations"]
    # what needs the new column waits for it, and all else was looked at
    waits = {result.name for result in report.results if result.ok is None}
    assert "several.limbic_searches" in waits
    assert {name for name in waits if not name.startswith("schema.")} == {"several.limbic_searches"}
    assert unmigrated.read_bytes() == before


def test_pages_before(unmigrated, make_datasette):
    datasette = make_datasette(unmigrated)

    async def statuses():
        await datasette.invoke_startup()
        return {
            path: (await datasette.client.get(f"/demo/-/limbic{path}")).status_code
            for path in (
                "",
                ".json",
                "/search?q=tea",
                "/search.json?q=tea",
                "/entity/3",
                "/entity/3.json",
                "/imports",
            )
        }

    assert set(asyncio.run(statuses()).values()) == {200}


def test_recording_before_says_what_is_missing(unmigrated):
    with closing(connection.connect(unmigrated)) as conn:
        with pytest.raises(connection.sqlite3.OperationalError, match="no column named uid"):
            serving.search_semantic(conn, "who fixed the geocoder")
        # nothing of a search is written by half
        assert conn.execute("select count(*) from limbic_searches").fetchone()[0] == 0
        assert not conn.in_transaction
        # opening needs no column of the log
        assert serving.open_nodes(conn, ["Atlas"])["recorded"]["accesses"] == 1
    init(unmigrated)
    with closing(connection.connect(unmigrated)) as conn:
        assert use(conn, 1)


def test_a_copy_that_may_not_be_written(unmigrated, tmp_path):
    """Reading an old file needs no right to write it."""
    path = tmp_path / "readonly.db"
    shutil.copy(unmigrated, path)
    os.chmod(path, 0o444)
    with closing(connection.connect(path, readonly=True)) as conn:
        assert search.search(conn, "tea")["results"]
