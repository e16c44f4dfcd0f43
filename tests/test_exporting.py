"""Exporting: the graph for memory servers, and everything."""

from __future__ import annotations

import io
import json
import os
import sqlite3 as stock_sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from exporting_helpers import copied, fill, full, mcp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from importing_helpers import SHARED, graph, new_memory, one

from datasette_limbic import connection, schema
from datasette_limbic.errors import BadParameter, CannotWrite, NotAMemory
from datasette_limbic.exporting import RESTORED, export_full, export_mcp
from datasette_limbic.exporting.output import check_output, whole_file
from datasette_limbic.exporting.retyping import retype, retyped
from datasette_limbic.exporting.tables import DERIVED, EXPORTED, SEQUENCE, VECTORS, affinity
from datasette_limbic.importing import import_files


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    conn = new_memory(tmp_path / "memory.db")
    yield conn
    conn.close()


@pytest.fixture
def filled(memory: sqlite3.Connection) -> sqlite3.Connection:
    fill(memory)
    return memory


# the graph -------------------------------------------------------------------------------------


def test_exactly_what_servers_write(memory: sqlite3.Connection) -> None:
    memory.executescript(
        "insert into entities(id, name, entity_type) values (3, 'Ana', 'T'), (4, 'Empty', 'T');"
        "insert into observations(entity_id, content)"
        " values (3, 'likes tea'), (3, 'likes tea'), (3, 'says \"¡hola!\"' || char(10));"
        "insert into relations(id, from_entity, to_entity, relation_type)"
        " values (8, 3, 3, 'is'), (7, 3, 4, 'knows')"
    )
    text, summary = mcp(memory)
    assert text.split("\n") == [
        '{"type":"entity","name":"Ana","entityType":"T","observations":'
        '["likes tea","likes tea","says \\"¡hola!\\"\\n"]}',
        '{"type":"entity","name":"Empty","entityType":"T","observations":[]}',
        '{"type":"relation","from":"Ana","to":"Empty","relationType":"knows"}',
        '{"type":"relation","from":"Ana","to":"Ana","relationType":"is"}',
        "",
    ]
    assert summary.written == {"entities": 2, "observations": 3, "relations": 2}
    assert summary.left_out == {}


VALIDITY = [
    # valid_from, valid_to, live
    (None, None, True),
    ("2026-06-01", None, True),
    (None, "2026-06-01 12:00:00", False),  # ends at this very moment
    (None, "2026-06-01 12:00:01", True),
    ("2026-06-01 12:00:00", None, True),
    ("2026-06-01 12:00:01", None, False),
    ("2026-06-01T14:00:00+02:00", None, True),
    (None, "2026-06-01T13:59:00+02:00", False),
    (None, "no time", True),
    ("no time", None, True),
    ("no time", "2020-01-01", False),
]


@pytest.mark.parametrize(("begin", "end", "live"), VALIDITY)
def test_what_is_live(
    memory: sqlite3.Connection, begin: str | None, end: str | None, live: bool
) -> None:
    memory.executescript(
        "insert into entities(id, name) values (1, 'a'), (2, 'b'), (3, 'c');"
        "insert into observations(entity_id, content) values (1, 'x'), (1, 'y'), (2, 'z');"
        "insert into relations(id, from_entity, to_entity, relation_type)"
        " values (1, 1, 3, 'r'), (2, 2, 3, 'r'), (3, 1, 1, 'r');"
    )
    for table, where in (("entities", "id = 2"), ("observations", "content = 'x'")):
        memory.execute(
            f"update {table} set valid_from = ?, valid_to = ? where {where}", [begin, end]
        )
    memory.execute("update relations set valid_from = ?, valid_to = ? where id = 1", [begin, end])
    memory.commit()
    text, summary = mcp(memory, now="2026-06-01 12:00:00")
    assert ('"b"' in text, '"x"' in text, '"from":"a","to":"c"' in text) == (live,) * 3
    assert ('"from":"b"' in text) is live
    if live:
        assert summary.left_out == {}
    else:
        ended = {"entities": 1, "observations": 2, "relations": 2}
        assert summary.left_out == {"ended": ended}
    everything, summary = mcp(memory, now="2026-06-01 12:00:00", include_ended=True)
    assert everything.count("\n") == 6
    assert summary.left_out == {}


def test_search_and_export_agree_on_what_is_live(memory: sqlite3.Connection) -> None:
    """`entities` are live by the words of queries/search.sql."""
    live = "ifnull(julianday(valid_to) > at, 1) and ifnull(julianday(valid_from) <= at, 1)"
    assert live in (files("datasette_limbic") / "queries" / "search.sql").read_text("utf-8")
    for number, (begin, end, _) in enumerate(VALIDITY):
        memory.execute(
            "insert into entities(name, valid_from, valid_to) values (?, ?, ?)",
            [f"e{number}", begin, end],
        )
    memory.commit()
    at = "julianday('2026-06-01 12:00:00')"
    wanted = memory.execute(
        f"select name from entities where {live.replace(' at', ' ' + at)} order by id"
    ).fetchall()
    text, _ = mcp(memory, now="2026-06-01 12:00:00")
    assert [json.loads(line)["name"] for line in text.splitlines()] == [row[0] for row in wanted]


def test_archived_and_what_hangs_on_it(filled: sqlite3.Connection) -> None:
    filled.execute("insert into observations(entity_id, content) values (2, 'old')")
    filled.commit()
    text, summary = mcp(filled)
    assert "Atlas" not in text
    assert summary.left_out["archived"] == {"entities": 1, "observations": 1, "relations": 2}
    assert summary.left_out["ended"] == {"observations": 1}
    text, summary = mcp(filled, include_archived=True)
    assert "Atlas ☕" in text
    assert summary.left_out == {"ended": {"observations": 1, "relations": 1}}
    assert "--include-ended" in summary.text()
    assert "--include-archived" not in summary.text()


def test_every_row_is_written_or_left_out_once(filled: sqlite3.Connection) -> None:
    for options in ({}, {"include_archived": True}, {"include_ended": True}):
        _, summary = mcp(filled, **options)
        for table in ("entities", "observations", "relations"):
            left = sum(counts[table] for counts in summary.left_out.values())
            total = one(filled, f"select count(*) from {table}")
            assert summary.written[table] + left == total


def test_dangling_rows_are_counted_and_never_written(memory: sqlite3.Connection) -> None:
    memory.executescript(
        "insert into entities(id, name) values (1, 'a');"
        "pragma foreign_keys = off;"
        "insert into observations(entity_id, content) values (5, 'lost'), (1, 'kept');"
        "insert into relations(from_entity, to_entity, relation_type)"
        " values (1, 5, 'r'), (6, 1, 'r')"
    )
    text, summary = mcp(memory, include_archived=True, include_ended=True)
    assert text == '{"type":"entity","name":"a","entityType":"Generic","observations":["kept"]}\n'
    assert summary.left_out == {"dangling": {"observations": 1, "relations": 2}}
    assert "their entity is gone: 1 observation, 2 relations" in summary.text()


def test_values_that_are_no_text(tmp_path: Path) -> None:
    """Any program may have written them; an adopted table forbids little."""
    path = tmp_path / "adopted.db"
    conn = stock_sqlite3.connect(path)
    conn.executescript(
        "create table entities(id integer primary key, name);"
        "create table observations(id integer primary key, entity_id integer, content);"
        "create table relations(id integer primary key, from_entity, to_entity, relation_type);"
    )
    conn.close()
    memory = new_memory(path)
    memory.executescript(
        "insert into entities(id, name) values (1, x'61ff62'), (2, 7), (3, null), (4, 'd');"
        "update entities set entity_type = null;"
        "insert into observations(entity_id, content)"
        " values (4, 1.5), (4, x'e282ac'), (4, cast(x'eda080' as text)), (4, null), (3, 'x');"
        "insert into relations(from_entity, to_entity, relation_type)"
        " values (1, 2, 5), (1, 4, null), (3, 4, 'r')"
    )
    text, summary = mcp(memory)
    rows = [json.loads(line) for line in text.encode().split(b"\n") if line]
    assert [row.get("name") for row in rows] == ["a\ufffdb", "7", "d", None]
    assert {row["entityType"] for row in rows[:3]} == {"Generic"}
    assert rows[2]["observations"] == ["1.5", "€", "\ufffd\ufffd\ufffd"]
    assert rows[3] == {"type": "relation", "from": "a\ufffdb", "to": "7", "relationType": "5"}
    assert summary.left_out == {"unusable": {"entities": 1, "observations": 2, "relations": 2}}
    assert summary.replaced == 3  # two names of one, and an observation
    assert "U+FFFD: 3" in summary.text()
    memory.close()


@pytest.mark.parametrize("export", [export_mcp, export_full])
def test_progress_adds_up_to_the_rows(filled: sqlite3.Connection, export: Any) -> None:
    seen: list[int] = []
    export(filled, io.StringIO(), progress=seen.append)
    tables = ["entities", "observations", "relations"]
    if export is export_full:
        tables = [table.name for table in EXPORTED]
    assert sum(seen) == sum(one(filled, f"select count(*) from {table}") for table in tables)
    assert all(seen)


@pytest.mark.parametrize("export", [export_mcp, export_full])
def test_no_memory(tmp_path: Path, export: Any) -> None:
    conn = sqlite3.connect(tmp_path / "other.db")
    with pytest.raises(NotAMemory):
        export(conn, io.StringIO())
    conn.close()


def _data_files() -> list[Path]:
    found = [*(SHARED / "memory_files").glob("*.json*"), *(SHARED / "peer_files").glob("*")]
    no_memory = ("counts.json", "mcp_memory_v2_search_semantic.json")
    return sorted(
        path for path in found if path.suffix in (".json", ".jsonl") and path.name not in no_memory
    )


@pytest.mark.parametrize("path", _data_files(), ids=lambda p: p.name)
def test_files_from_elsewhere_come_back_the_same(path: Path, tmp_path: Path) -> None:
    before = new_memory(tmp_path / "a.db")
    import_files(before, [path])
    text, summary = mcp(before, include_archived=True, include_ended=True)
    exported = tmp_path / "out.jsonl"
    exported.write_text(text, "utf-8", newline="\n")
    after = new_memory(tmp_path / "b.db")
    result = import_files(after, [exported])
    assert result.rejects == 0
    assert graph(before) == graph(after)
    assert summary.written["entities"] > 0
    assert mcp(after)[0] == text
    before.close()
    after.close()


# everything ------------------------------------------------------------------------------------


def test_each_table_is_exported_or_derived(demo_db: Path) -> None:
    """Whoever adds a table extends the export."""
    conn = connection.connect(demo_db, readonly=True)
    rows = conn.execute("select name, coalesce(sql, '') from sqlite_master where type = 'table'")
    tables = dict(rows.fetchall())
    conn.close()
    virtual = [name for name, sql in tables.items() if sql.lower().startswith("create virtual")]
    ours = {
        name
        for name in tables
        if not name.startswith("sqlite_")
        and not any(name.startswith(f"{owner}_") for owner in virtual)
    }
    exported = {table.name for table in EXPORTED + VECTORS}
    assert ours - exported - set(DERIVED) == set()
    assert exported - ours == set()
    assert exported & set(DERIVED) == set()


def test_the_rows_of_these_tests_fill_each_table(filled: sqlite3.Connection) -> None:
    for table in EXPORTED + VECTORS:
        assert one(filled, f"select count(*) from {table.name}") > 0, table.name


def test_the_first_line(filled: sqlite3.Connection) -> None:
    lines = full(filled).splitlines()
    head = json.loads(lines[0])
    assert head["limbic_export"] == 1
    assert list(head["tables"]) == [table.name for table in EXPORTED] + [SEQUENCE]
    assert head["tables"]["observations"]["rows"] == 4
    assert head["tables"]["observations"]["columns"] == {
        "id": "INTEGER",
        "entity_id": "INTEGER",
        "content": "TEXT",
        "created_at": "TEXT",
        "similarity_flag": "INTEGER",
        "kind": "TEXT",
        "confidence": "REAL",
        "valid_from": "TEXT",
        "valid_to": "TEXT",
        "supersedes": "INTEGER",
    }
    rows = [json.loads(line) for line in lines[1:]]
    counts = dict.fromkeys(head["tables"], 0)
    for row in rows:
        counts[row["table"]] += 1
        assert list(row["row"]) == list(head["tables"][row["table"]]["columns"])
    assert counts == {name: table["rows"] for name, table in head["tables"].items()}
    at = [(r["row"]["entity_id"], r["row"]["id"]) for r in rows if r["table"] == "observations"]
    assert at == [(1, 4), (1, 5), (1, 6), (7, 3)]
    assert rows[-1] == {"table": SEQUENCE, "row": {"name": "entities", "seq": 9}}


def test_nothing_of_this_machine_or_of_today(filled: sqlite3.Connection, tmp_path: Path) -> None:
    first = full(filled)
    assert str(tmp_path) not in first
    time.sleep(1.1)  # SQLite's times have seconds
    assert full(filled) == first


@pytest.mark.parametrize("vectors", [False, True])
def test_there_and_back(filled: sqlite3.Connection, tmp_path: Path, vectors: bool) -> None:
    text = full(filled, vectors=vectors)
    conn = copied(text, tmp_path)
    assert full(conn, vectors=vectors) == text
    assert one(conn, "select count(*) from embeddings") == vectors
    # how this copy came to be is in the copy, and not in its export
    assert one(conn, "select format from limbic_imports where id < 0") == RESTORED
    conn.execute("insert into limbic_import_rejects(import_id, line, reason) values (-1, 1, 'x')")
    assert full(conn, vectors=vectors) == text
    assert conn.execute("pragma foreign_key_check").fetchall() == []
    conn.close()


def test_a_restored_memory_works(filled: sqlite3.Connection, tmp_path: Path) -> None:
    from datasette_limbic.search import search

    conn = copied(full(filled), tmp_path)
    found = search(conn, "coffee tea", mode="text")["results"]
    assert [row["name"] for row in found] == ["Ana"]
    conn.execute("insert into entities(name) values ('new')")
    assert one(conn, "select id from entities where name = 'new'") == 10  # 9 had been given
    conn.execute("insert into limbic_imports values (null, 'c', 'f', '{}', 'x', 'x')")
    assert one(conn, "select max(id) from limbic_imports") == 3
    conn.close()


def test_the_sample_with_its_vectors(demo_db: Path, tmp_path: Path) -> None:
    from datasette_limbic.sync import sync

    conn = connection.connect(demo_db)
    text = full(conn, vectors=True)
    conn.close()
    copy = copied(text, tmp_path)
    assert full(copy, vectors=True) == text
    report = sync(copy)
    assert [c.embedded for c in report.collections] == [0, 0]
    if connection.vec_missing(copy) is None:
        assert [c.indexed for c in report.collections] == [65, 403]
    copy.close()


VALUES = {
    "blob": b"\x00\xff\xfe",
    "empty blob": b"",
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "largest": 9223372036854775807,
    "smallest": -9223372036854775808,
    "tiny": 5e-324,
    "tenth": 0.1,
    "huge": 1.7976931348623157e308,
    "whole": 2.0,
    "nul": "a\x00b",
    "lines": "a\nb\r\u2028\u2029\x85c",
    "emoji": "👩‍👩‍👧",
    "looks like JSON": '{"$base64": true, "encoded": "AA=="}',
    "looks like a number": "007",
    "none": None,
    "not a character": "\ufffe\uffff",
}


def test_any_value_in_any_column(memory: sqlite3.Connection, tmp_path: Path) -> None:
    memory.execute("alter table entities add column anything")
    for number, (name, value) in enumerate(VALUES.items(), 1):
        memory.execute("insert into entities(name, anything) values (?, ?)", [name, value])
        memory.execute(
            "insert into observations(entity_id, content, kind, confidence) values (?, ?, ?, ?)",
            [number, name, value, value if isinstance(value, float) else 1],
        )
    memory.commit()
    text = full(memory)
    assert all(json.loads(line) for line in text.split("\n")[:-1])
    conn = copied(text, tmp_path)
    assert full(conn) == text
    rows = conn.execute("select name, anything from entities order by id").fetchall()
    assert [(type(value), value) for _, value in rows] == [
        (type(value), value) for value in VALUES.values()
    ]
    conn.close()


@pytest.mark.parametrize("raw", [b"ab\xff", b"\xed\xa0\x80", b"\xc3", b"ok\x00\xf0\x9f"])
def test_text_that_is_no_utf8(memory: sqlite3.Connection, tmp_path: Path, raw: bytes) -> None:
    memory.execute("insert into entities(name) values (cast(? as text)), ('b')", [raw])
    memory.execute(
        "insert into observations(entity_id, content) values (1, cast(? as text))", [raw]
    )
    memory.commit()
    text = full(memory)
    text.encode("utf-8")
    conn = copied(text, tmp_path)
    assert full(conn) == text
    assert one(conn, "select typeof(name), cast(name as blob) from entities where id = 1") == (
        "text",
        raw,
    )
    conn.close()


ADOPTED = """
create table entities(zeta varchar(20), id integer primary key, name text, "odd ""name" real,
  entity_type text, a blob, n numeric, created_at text);
create table observations(id integer primary key, note text, entity_id integer, content text);
create table relations(relation_type text, from_entity integer, to_entity integer,
  id integer primary key, weight float);
insert into entities(zeta, id, name, "odd ""name", a, n) values ('z', 4, 'Ana', 1, x'00', '12'),
  (null, 2, 'Bo', 'text', 'text', 1.5);
insert into observations values (3, 'n', 4, 'x'), (1, null, 2, 'y');
insert into relations values ('r', 4, 2, 8, 0.5);
"""


def test_columns_of_an_adopted_table_are_kept(tmp_path: Path) -> None:
    conn = stock_sqlite3.connect(tmp_path / "adopted.db")
    conn.executescript(ADOPTED)
    conn.close()
    memory = new_memory(tmp_path / "adopted.db")
    text = full(memory)
    head = json.loads(text.split("\n")[0])["tables"]["entities"]["columns"]
    extra = {name: kind for name, kind in head.items() if name in ("zeta", 'odd "name', "a", "n")}
    assert extra == {"a": "BLOB", "n": "NUMERIC", 'odd "name': "REAL", "zeta": "TEXT"}
    assert list(head)[:3] == ["id", "name", "entity_type"]
    copy = copied(text, tmp_path)
    assert full(copy) == text
    assert one(copy, "select weight from relations") == 0.5
    # no AUTOINCREMENT there, and still no id is given twice here
    copy.execute("delete from entities where id = 4")
    assert one(copy, "insert into entities(name) values ('c') returning id") == 5
    copy.close()
    memory.close()


AFFINITY = [
    ("integer", "INTEGER"), ("BIGINT", "INTEGER"), ("varchar(20)", "TEXT"), ("clob", "TEXT"),
    ("", "BLOB"), ("blob", "BLOB"), ("ANY", "BLOB"), ("double precision", "REAL"),
    ("float", "REAL"), ("decimal(10,5)", "NUMERIC"), ("date", "NUMERIC"), ("x); drop", "NUMERIC"),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "stored"), AFFINITY)
def test_affinity(declared: str, stored: str) -> None:
    assert affinity(declared) == stored


# Types that other programs give to columns of a memory, and values for them.
DECLARED = ("datetime", "INTEGER", "real", "varchar(20)", "decimal(10, 5)", "", "blob", "text")
STORED = (
    "2026-01-01 10:00:00", 1700000000, "1700000000", 1700000000.5, "007", b"\x00\xff",
    2**53 + 1, "1e3", float("inf"),
)  # fmt: skip
OURS = {
    "entities": ("entity_type", "created_at", "updated_at", "confidence", "valid_to"),
    "observations": ("content", "created_at", "kind", "confidence", "valid_from", "supersedes"),
    "relations": ("relation_type", "created_at", "valid_from", "context"),
    "entity_access": ("access_count", "last_access"),
    "co_occurrences": ("co_count", "last_co"),
}
KEYS = {
    "entities": "id integer primary key autoincrement, name text not null unique",
    "observations": "id integer primary key, entity_id integer references entities(id)",
    "relations": "id integer primary key, from_entity integer, to_entity integer",
    "entity_access": "entity_id integer primary key",
    "co_occurrences": "entity_a_id integer, entity_b_id integer",
}


def other_types(path: Path, declared: str, rows: bool = True) -> None:
    """A file with tables of our names whose columns have the type ``declared``."""
    conn = stock_sqlite3.connect(path)
    for table, key in KEYS.items():
        others = ", ".join(f"{column} {declared}" for column in OURS[table])
        end = ", primary key (entity_a_id, entity_b_id)" if table == "co_occurrences" else ""
        conn.execute(f"create table {table}({key}, {others}{end})")
    for number, value in enumerate(STORED, 1) if rows else ():
        keys: dict[str, list[Any]] = {
            "entities": [number, f"n{number}"], "observations": [number, number],
            "relations": [number, number, 1], "entity_access": [number],
            "co_occurrences": [number, number + 1],
        }  # fmt: skip
        for table, columns in OURS.items():
            if (table, number) == ("co_occurrences", len(STORED)):
                continue
            values = [*keys[table], *[value] * len(columns)]
            conn.execute(f"insert into {table} values ({', '.join('?' * len(values))})", values)
    conn.commit()
    conn.close()


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("declared", DECLARED)
def test_columns_of_ours_with_other_types_come_back(
    declared: str, rows: bool, tmp_path: Path
) -> None:
    other_types(tmp_path / "adopted.db", declared, rows)
    memory = new_memory(tmp_path / "adopted.db")
    text = full(memory)
    copy = copied(text, tmp_path)
    assert full(copy) == text
    for table, columns in OURS.items():
        classes = ", ".join(f"{column}, typeof({column})" for column in columns)
        sql = f"select {classes} from {table} order by {KEYS[table].split()[0]}"
        assert copy.execute(sql).fetchall() == memory.execute(sql).fetchall(), table
    # the copy is a memory like any other
    assert copy.execute("pragma foreign_key_check").fetchall() == []
    copy.execute("insert into entities(id, name, entity_type) values (90, 'tea pot', 't')")
    assert one(copy, "select count(*) from _limbic_fts where _limbic_fts match 'pot'") == 1
    there = "select name from sqlite_master where type = 'index' and sql is not null order by 1"
    fresh = new_memory(tmp_path / "fresh.db")
    assert copy.execute(there).fetchall() == fresh.execute(there).fetchall()
    for conn in (fresh, copy, memory):
        conn.close()


@pytest.mark.parametrize("declared", DECLARED)
def test_values_come_back_into_tables_of_other_types(
    filled: sqlite3.Connection, declared: str, tmp_path: Path
) -> None:
    """Where the empty memory was adopted, the types of the file win there too."""
    for column in ("created_at", "valid_to"):
        filled.execute(f"update entities set {column} = '1700000000' where id = 1")
    filled.commit()
    text = full(filled)
    other_types(tmp_path / "copy.db", declared, rows=False)
    copy = copied(text, tmp_path)
    columns = json.loads(text.split("\n")[0])["tables"]
    again = json.loads(full(copy).split("\n")[0])["tables"]
    assert {name: again[name]["columns"] for name in KEYS} == {
        name: columns[name]["columns"] for name in KEYS
    }
    assert one(copy, "select typeof(created_at), typeof(valid_to) from entities where id = 1") == (
        "text",
        "text",
    )
    copy.close()


def test_a_type_that_cannot_be_changed_is_said(tmp_path: Path) -> None:
    """A strict table knows five types alone."""
    other_types(tmp_path / "adopted.db", "datetime")
    memory = new_memory(tmp_path / "adopted.db")
    path = tmp_path / "in.ndjson"
    path.write_text(full(memory), "utf-8", newline="\n")
    conn = stock_sqlite3.connect(tmp_path / "strict.db")
    conn.execute("create table entities(id integer primary key, name text, created_at text) strict")
    conn.close()
    (file,) = import_files(tmp_path / "strict.db", [path]).files
    (remark,) = [said for said in file.notes.remarks if "created_at" in said]
    assert remark.startswith("entities.created_at is TEXT here and NUMERIC in the file")
    assert remark in file_text(file)
    memory.close()


def file_text(file: Any) -> str:
    from datasette_limbic.importing import ImportSummary

    return ImportSummary([file]).text()


CREATE = [
    ("create table t(a text, b text)", "create table t(a K , b text)"),
    ("create table t(a, b text)", "create table t(a K , b text)"),
    ("create table t(b text, a)", "create table t(b text, a K )"),
    ('create table "a"("A" varchar ( 3, 4 ) not null)', 'create table "a"("A" K not null)'),
    ("create table t([a] 'long text' default (a(1, 2)), b)",
     "create table t([a] K default (a(1, 2)), b)"),
    ("create table t(`a`--, a text\n double /* ) */ precision, a2 int)",
     "create table t(`a` K , a2 int)"),
    ("create table t(b check (b in ('a', 'x, a y')), a int primary key, check (a > 1), unique (a))",
     "create table t(b check (b in ('a', 'x, a y')), a K primary key, check (a > 1), unique (a))"),
    ("create table t(b int references a(a), a int, foreign key (a) references a(a))",
     "create table t(b int references a(a), a K , foreign key (a) references a(a))"),
    ("create table t(x int, y int)", "create table t(x int, y int)"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "wanted"), CREATE)
def test_the_type_in_the_text_of_a_table(sql: str, wanted: str) -> None:
    assert retyped(sql, {"A": "K"}) == wanted


def test_a_table_with_rows_keeps_its_types(memory: sqlite3.Connection) -> None:
    memory.execute("insert into entities(name) values ('a')")
    assert retype(memory, "entities", {"created_at": "NUMERIC", "name": "TEXT"}) == ["created_at"]
    assert one(memory, "select name from entities") == "a"
    # ids stay numbers
    assert retype(memory, "relations", {"id": "TEXT", "created_at": "REAL"}) == ["id"]
    kinds = dict(memory.execute("select name, type from pragma_table_info('relations')"))
    assert (kinds["id"].upper(), kinds["created_at"]) == ("INTEGER", "REAL")


def test_a_table_made_anew_has_all_that_hung_on_it(memory: sqlite3.Connection) -> None:
    memory.executescript(
        "insert into entities(id, name) values (40, 'a'); delete from entities;"
        "create trigger mine after insert on entities begin select 1; end;"
        "create index by_time on entities(created_at) where created_at > 5;"
    )
    sql = "select type, name, sql from sqlite_master where tbl_name = 'entities' order by 1, 2"
    before = memory.execute(sql).fetchall()
    assert retype(memory, "entities", {"created_at": "NUMERIC"}) == []
    after = memory.execute(sql).fetchall()
    assert [row[:2] for row in after] == [row[:2] for row in before]
    assert [row for row in after if row[0] != "table"] == [r for r in before if r[0] != "table"]
    assert one(memory, "insert into entities(name) values ('b') returning id") == 41


def older(conn: sqlite3.Connection) -> None:
    """Take away what the second migration made."""
    for name in ("_source_entities", "_source_relations", "_source_counts", "_sources"):
        conn.execute(f"drop table _limbic{name}")
    conn.execute("drop view entity_snapshots")
    schema.drop_triggers(conn)
    conn.execute("drop index if exists observations_supersedes")
    conn.execute("alter table relations drop column context")
    conn.execute("alter table observations drop column supersedes")
    conn.commit()


def test_an_older_file_lacks_the_newest_tables(filled: sqlite3.Connection, tmp_path: Path) -> None:
    older(filled)
    text = full(filled, vectors=True)
    head = json.loads(text.split("\n")[0])["tables"]
    assert "_limbic_sources" not in head
    assert head["entities"]["rows"] == 3
    copy = copied(text, tmp_path)
    assert full(copy, vectors=True) == text
    copy.close()


def test_what_is_empty_is_not_in_the_first_line(memory: sqlite3.Connection, tmp_path: Path) -> None:
    text = full(memory, vectors=True)
    assert list(json.loads(text.split("\n")[0])["tables"]) == ["limbic_settings"]
    older(memory)
    assert full(memory, vectors=True) == text
    memory.execute("delete from limbic_settings")
    memory.execute("alter table relations add column weight real")
    memory.commit()
    text = full(memory)
    head = json.loads(text.split("\n")[0])["tables"]
    assert list(head) == ["limbic_settings", "relations"]
    copy = copied(text, tmp_path)
    assert full(copy) == text
    assert one(copy, "select count(*) from limbic_settings") == 0
    copy.close()


def test_what_else_is_in_the_file_is_named(filled: sqlite3.Connection) -> None:
    filled.executescript("create table notes(x); create virtual table words using fts5(x);")
    summary = export_full(filled, io.StringIO())
    assert summary.others == ["notes", "words"]
    assert summary.vectors == 1
    assert "no part of a memory: notes, words" in summary.text()
    assert "Left out: 1 vector (--vectors" in summary.text()
    assert "vector" not in export_full(filled, io.StringIO(), vectors=True).text()
    assert summary.as_dict()["written"]["entities"] == 3


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUE = st.one_of(
    st.none(), WORDS, st.binary(max_size=6), st.integers(-(2**63), 2**63 - 1), st.floats()
)


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[str, list[Any]]]:
    """Rows of the graph's tables, with odd texts and values."""
    ids = draw(st.lists(st.integers(-5, 60), unique=True, max_size=6))
    names = draw(st.lists(WORDS, unique=True, min_size=len(ids), max_size=len(ids)))
    found: list[tuple[str, list[Any]]] = [
        ("insert into entities(id, name, entity_type, extra, valid_to) values (?, ?, ?, ?, ?)",
         [number, name, draw(WORDS), draw(VALUE), draw(VALUE)])
        for number, name in zip(ids, names, strict=True)
    ]  # fmt: skip
    for _ in range(draw(st.integers(0, 6)) if ids else 0):
        a, b = draw(st.sampled_from(ids)), draw(st.sampled_from(ids))
        found.append(
            ("insert into observations(entity_id, content, kind, supersedes) values (?, ?, ?, ?)",
             [a, draw(WORDS), draw(VALUE), draw(st.none() | st.integers(-9, 9))])
        )  # fmt: skip
        found.append(
            ("insert or ignore into relations(from_entity, to_entity, relation_type, context)"
             " values (?, ?, ?, ?)", [a, b, draw(WORDS), draw(VALUE)])
        )  # fmt: skip
    return found


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=graphs())
def test_any_graph_comes_back(rows: list[tuple[str, list[Any]]], tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    memory = new_memory(folder / "memory.db")
    memory.execute("alter table entities add column extra")
    for sql, values in rows:
        memory.execute(sql, values)
    memory.commit()
    text = full(memory)
    copy = copied(text, folder)
    assert full(copy) == text
    lines, summary = mcp(memory, include_ended=True)
    exported = folder / "graph.jsonl"
    exported.write_text(lines, "utf-8", newline="\n")
    assert summary.left_out == {}
    for line in lines.split("\n")[:-1]:
        keys = list(json.loads(line))
        assert keys in (
            ["type", "name", "entityType", "observations"], ["type", "from", "to", "relationType"]
        )  # fmt: skip
    memory.close()
    copy.close()


# one state, whoever writes ---------------------------------------------------------------------


class Interrupting(io.StringIO):
    """Another program writes while the export is at work."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.done = path, False

    def write(self, text: str) -> int:
        if not self.done:
            self.done = True
            other = connection.connect(self.path)
            other.execute("insert into entities(id, name) values (50, 'later')")
            other.execute("insert into observations(entity_id, content) values (7, 'later')")
            other.execute("delete from entities where id = 2")
            other.commit()
            other.close()
        return super().write(text)


@pytest.mark.parametrize("export", [export_mcp, export_full])
def test_one_state_while_another_program_writes(
    filled: sqlite3.Connection, tmp_path: Path, export: Any
) -> None:
    filled.execute("pragma journal_mode = wal")
    before = io.StringIO()
    export(filled, before)
    out = Interrupting(tmp_path / "memory.db")
    reader = connection.connect(tmp_path / "memory.db", readonly=True)
    export(reader, out)
    assert out.done
    assert out.getvalue() == before.getvalue()
    after = io.StringIO()
    export(reader, after)  # the transaction has ended
    assert "later" in after.getvalue()
    reader.close()


def test_the_connection_is_as_it_was(filled: sqlite3.Connection) -> None:
    filled.row_factory, texts = sqlite3.Row, filled.text_factory
    mapped = one(filled, "pragma mmap_size")

    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    for export in (export_mcp, export_full):
        with pytest.raises(OSError, match="No space"):
            export(filled, Broken())
        assert not filled.in_transaction
        assert (filled.text_factory, filled.row_factory) == (texts, sqlite3.Row)
        assert one(filled, "pragma mmap_size") == mapped


def test_a_transaction_of_the_caller_stays_open(filled: sqlite3.Connection) -> None:
    filled.execute("begin")
    filled.execute("insert into entities(name) values ('mine')")
    text, _ = mcp(filled)
    assert '"mine"' in text
    assert filled.in_transaction
    filled.rollback()


# files -----------------------------------------------------------------------------------------


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with whole_file(path) as out:
        out.write("ü\n")
        assert not path.exists()
    assert path.read_bytes() == "ü\n".encode()
    assert os.listdir(tmp_path) == ["out.jsonl"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_file_leaves_the_old_one(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("old")

    def fail() -> None:
        with whole_file(path) as out:
            out.write("new")
            raise error

    with pytest.raises((CannotWrite, KeyboardInterrupt)) as raised:
        fail()
    if isinstance(error, OSError):
        assert "No space left on device" in str(raised.value)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_a_folder_that_went_away(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="No such file or directory"):
        whole_file(tmp_path / "gone" / "out.jsonl").__enter__()


def test_rights_and_links_stay(tmp_path: Path) -> None:
    real = tmp_path / "real.jsonl"
    real.write_text("old")
    real.chmod(0o600)
    link = tmp_path / "link.jsonl"
    link.symlink_to(real)
    with whole_file(check_output(link, tmp_path / "memory.db", force=True)) as out:
        out.write("new")
    assert (link.is_symlink(), real.read_text()) == (True, "new")
    assert real.stat().st_mode & 0o777 == 0o600


def test_what_is_refused_as_output(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    db.touch()
    (tmp_path / "there.jsonl").touch()
    (tmp_path / "link").symlink_to(db)
    os.link(db, tmp_path / "hard")
    for name in ("memory.db", "link", "hard", "memory.db-wal", "memory.db-journal"):
        with pytest.raises(BadParameter, match="belongs to the database itself"):
            check_output(tmp_path / name, db, force=True)
    with pytest.raises(BadParameter, match="--force"):
        check_output(tmp_path / "there.jsonl", db)
    assert check_output(tmp_path / "there.jsonl", db, force=True)
    with pytest.raises(BadParameter, match="is a directory"):
        check_output(tmp_path, db, force=True)
    with pytest.raises(BadParameter, match="does not exist"):
        check_output(tmp_path / "no" / "out", db)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadParameter, match="no regular file"):
        check_output(tmp_path / "pipe", db, force=True)


@pytest.mark.slow
def test_a_million_observations_in_little_memory(tmp_path: Path) -> None:
    """One entity may have them all."""
    conn = new_memory(tmp_path / "big.db")
    conn.execute("begin")
    schema.drop_triggers(conn)
    conn.execute("insert into entities(id, name) values (1, 'big')")
    conn.execute(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000)"
        " insert into observations(entity_id, content) select 1, 'observation number ' || i from n"
    )
    schema.create_triggers(conn)
    conn.commit()
    conn.close()
    code = (
        "import resource, sys; from datasette_limbic import connection, exporting\n"
        f"conn = connection.connect({str(tmp_path / 'big.db')!r}, readonly=True)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with open('/dev/null', 'w') as out:\n"
        "    exporting.export_mcp(conn, out); exporting.export_full(conn, out)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100
