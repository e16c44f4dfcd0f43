"""Opening files that are missing, foreign, damaged, locked or not ours to write."""

from __future__ import annotations

import os
import sqlite3 as stock_sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from datasette.utils.sqlite import sqlite3

from datasette_limbic import connection
from datasette_limbic.cli import limbic
from datasette_limbic.errors import DatabaseUnusable


def test_a_connection_is_ready(empty_db):
    conn = connection.connect(empty_db, readonly=True)
    assert conn.execute("select limbic_score(.65, .85, .93, 5.17)").fetchone()[0] == pytest.approx(
        0.90594752625
    )
    assert connection.vec_missing(conn) is None
    conn.close()


def test_extension_loading_is_closed_again(empty_db):
    conn = connection.connect(empty_db)
    with pytest.raises(sqlite3.OperationalError, match="not authorized"):
        conn.execute("select load_extension('anything')")
    conn.close()


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"this is no database, it is a text file of some length\n" * 40, "not a SQLite database"),
        (None, "does not exist"),
    ],
)
def test_what_is_no_database_is_said(tmp_path, content, part):
    path = tmp_path / "x.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DatabaseUnusable, match=part):
        connection.connect(path)


def test_a_directory_and_a_missing_folder_are_said(tmp_path):
    with pytest.raises(DatabaseUnusable, match="directory"):
        connection.connect(tmp_path)
    with pytest.raises(DatabaseUnusable, match="folder"):
        connection.connect(tmp_path / "no" / "x.db", create=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_said(empty_db):
    empty_db.chmod(0)
    with pytest.raises(DatabaseUnusable):
        connection.connect(empty_db)


@pytest.mark.parametrize(
    ("error", "part"),
    [
        ("database is locked", "locked by another program"),
        ("attempt to write a readonly database", "cannot be written"),
        ("database or disk is full", "no room left"),
        ("database disk image is malformed", "damaged"),
        ("unable to open database file", "cannot be opened"),
    ],
)
def test_sqlite_errors_become_sentences(error, part):
    assert part in str(connection.unusable("m.db", Exception(error)))


@pytest.mark.parametrize(
    "word", ["full", "locked", "busy", "readonly", "corrupt", "not a database"]
)
def test_a_word_of_the_path_is_no_reason(tmp_path, word):
    path = tmp_path / word / "m.db"
    for error in (
        FileNotFoundError(2, "No such file or directory", str(path)),
        sqlite3.OperationalError(f"unable to open database: {path}"),
    ):
        assert f"{path} cannot be opened" in str(connection.unusable(path, error))


@pytest.mark.parametrize("path", ["data", "a", "e", "database", "full", "locked"])
@pytest.mark.parametrize(
    ("said", "part"),
    [
        ("file is not a database", "is not a SQLite database"),
        ("database is locked", "is locked by another program"),
        ("database disk image is malformed", "is damaged (database disk image is malformed)"),
        ("database or disk is full", "no room left for"),
    ],
)
def test_a_path_is_no_part_of_what_sqlite_says(path, said, part):
    assert part in str(connection.unusable(path, sqlite3.DatabaseError(said)))


def test_a_full_disk_as_the_system_says_it():
    error = OSError(28, "No space left on device", "m.db")
    assert "no room left for m.db" in str(connection.unusable("m.db", error))


@pytest.mark.parametrize(
    ("error", "part"),
    [
        ("user-defined function raised exception", "m.db holds a value that ranking cannot use"),
        ("user-defined aggregate's 'step' method raised error", "look into entity_access"),
        ("no such table: co_occurrences", "run 'datasette limbic init' on its file"),
        ("no such column: kind", "lacks part of a memory (no such column: kind)"),
        ("database is locked", "m.db is locked by another program"),
        ("anything else", "m.db cannot be opened: anything else"),
    ],
)
def test_errors_while_reading_become_sentences(error, part):
    assert part in connection.unreadable("m.db", Exception(error))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("database is locked", "database is locked"),
        ("UNIQUE constraint failed: limbic_searches.uid",) * 2,
        ("the event loop ended",) * 2,
        (
            "no such column: uid",
            "m lacks part of a memory (no such column: uid): run 'datasette limbic init' on its "
            "file to bring it up to date",
        ),
    ],
)
def test_errors_while_writing_become_sentences(error, said):
    assert connection.unwritten("m", Exception(error)) == said
    for part in ("no such table: limbic_searches", "table t has no column named uid"):
        lacking = connection.unwritten("m", Exception(part))
        assert lacking == connection.unreadable("m", Exception(part))


def test_the_pages_say_where_to_look():
    said = connection.unreadable("m", Exception("user-defined function raised"), "the log names it")
    assert said.endswith("such as a count that is no number: the log names it")


def test_without_extension_support_a_connection_still_opens(empty_db, monkeypatch, caplog):
    class NoExtensions(sqlite3.Connection):
        @property
        def enable_load_extension(self):
            raise AttributeError("enable_load_extension")

    connect = sqlite3.connect
    monkeypatch.setattr(connection._said, "is_set", lambda: False)
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=NoExtensions))
    conn = connection.connect(empty_db, readonly=True)
    assert connection.vec_missing(conn)
    assert "pip install pysqlite3" in caplog.text
    assert conn.execute("select rrf(1, 1)").fetchone()[0] > 0
    conn.close()


BROKEN = "cast(x'6261e4' as text)"


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "{db}", "Ana"],
        ["search", "{db}", "Ana", "--explain"],
        ["import", "{more}", "{db}"],
        ["sync", "{db}"],
        ["sync", "{db}", "--full"],
        ["status", "{db}"],
        ["export", "{db}"],
        ["export", "{db}", "--format", "full"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("table", ["entities", "observations", "relations"])
def test_text_that_is_no_utf8_stops_nothing(
    tmp_path: Path, empty_db: Path, arguments: list[str], table: str
) -> None:
    """Any program may have written it; Datasette reads it with U+FFFD, and so do we."""
    conn = stock_sqlite3.connect(empty_db)
    conn.execute("insert into entities(id, name) values (1, 'Ana'), (2, 'Bo')")
    for sql in {
        "entities": [f"insert into entities(name, entity_type) values ({BROKEN}, {BROKEN})"],
        "observations": [f"insert into observations(entity_id, content) values (1, {BROKEN})"],
        "relations": [
            "insert into relations(from_entity, to_entity, relation_type, context)"
            f" values (1, 2, {BROKEN}, {BROKEN})"
        ],
    }[table]:
        conn.execute(sql)
    conn.commit()
    conn.close()
    more = tmp_path / "more.jsonl"
    more.write_text(
        '{"type":"entity","name":"Ana","entityType":"T","observations":["new"]}\n'
        '{"type":"relation","from":"Ana","to":"Bo","relationType":"knows"}'
    )
    named = [a.format(db=empty_db, more=more) for a in arguments]
    result = CliRunner().invoke(limbic, named)
    assert result.exit_code == 0, result.output
    if arguments[0] in ("search", "export"):
        assert "Ana" in result.output


KILLED = """
import sqlite3, os, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
conn.execute("pragma cache_size=2")
conn.execute("begin")
conn.execute("update entities set name = name || ' half-way'")
conn.executemany(
    "insert into entities(name) values (?)", ((f"row {n} " + "x" * 400,) for n in range(3000))
)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("command", ["status", "search", "export", "sync", "import"], ids=str)
def test_a_killed_writer_stops_no_reader(command: str, tmp_path: Path, empty_db: Path) -> None:
    """Its journal is taken back by whoever comes next, be it one that only reads."""
    with connection.connect(empty_db) as conn:
        conn.execute("insert into entities(name) values ('Ana')")
    conn.close()
    subprocess.run([sys.executable, "-c", KILLED, str(empty_db)], timeout=30)
    assert empty_db.with_name(empty_db.name + "-journal").stat().st_size > 0
    more = tmp_path / "more.jsonl"
    more.write_text('{"type":"entity","name":"Bo","entityType":"T","observations":[]}')
    arguments = {
        "search": ["search", str(empty_db), "Ana", "--mode", "text"],
        "import": ["import", str(more), str(empty_db)],
    }.get(command, [command, str(empty_db)])
    result = CliRunner().invoke(limbic, arguments)
    assert result.exit_code == 0, result.output
    with stock_sqlite3.connect(empty_db) as stock:
        names = [row[0] for row in stock.execute("select name from entities order by id")]
    stock.close()
    assert names == (["Ana", "Bo"] if command == "import" else ["Ana"])
