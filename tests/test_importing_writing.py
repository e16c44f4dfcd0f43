"""Imports into real files: merging, times, links, faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from importing_helpers import (
    DIALECTS,
    LOGS,
    SHARED,
    access,
    dump,
    entity,
    graph,
    new_memory,
    one,
    relation,
    write_lines,
)

from datasette_limbic import connection, schema
from datasette_limbic.errors import BadParameter, DatabaseUnusable, NotAMemory, UnknownFormat
from datasette_limbic.importing import import_files

REAL = sorted((SHARED / "memory_files").glob("*.json*")) if SHARED.exists() else []
PEER = SHARED / "peer_files"
GRAPH = ("entities", "observations", "relations")
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason=f"{SHARED} is not there")


@pytest.fixture
def conn(tmp_path: Path) -> Any:
    conn = new_memory(tmp_path / "memory.db")
    yield conn
    conn.close()


def run(conn: sqlite3.Connection, tmp_path: Path, *rows: Any, **options: Any) -> Any:
    path = write_lines(tmp_path / "in.jsonl", *rows)
    summary = import_files(conn, [path], **options)
    assert summary.lines_add_up()
    assert not conn.in_transaction
    return summary


# dialects ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "entities", "observations", "relations", "rejects"),
    [
        ("object_pretty.json", 2, 2, 1, 2),
        ("array.json", 1, 1, 1, 1),
        ("snake_case.jsonl", 2, 1, 2, 0),
        ("underscore_type.jsonl", 2, 1, 1, 0),
        ("observation_objects.jsonl", 1, 6, 0, 0),
        ("foreign_rows.jsonl", 1, 1, 1, 2),
        ("glued_and_cut.jsonl", 3, 4, 1, 1),
        ("bom_crlf.jsonl", 1, 1, 1, 0),
        ("no_observations.jsonl", 5, 4, 0, 1),
        ("lifecycle.jsonl", 2, 2, 2, 1),
    ],
)
def test_dialects(
    conn: Any, name: str, entities: int, observations: int, relations: int, rejects: int
) -> None:
    summary = import_files(conn, [DIALECTS / name])
    assert summary.lines_add_up()
    counts = [one(conn, f"select count(*) from {t}") for t in GRAPH]
    assert counts == [entities, observations, relations]
    assert summary.rejects == rejects
    before = dump(conn)
    import_files(conn, [DIALECTS / name])
    assert dump(conn) == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("chat_history.json", "keys messages"),
        ("price_list.json", "keys sku, name, price"),
    ],
)
def test_what_is_no_memory_is_refused(conn: Any, name: str, words: str) -> None:
    before = dump(conn)
    with pytest.raises(UnknownFormat, match=words):
        import_files(conn, [DIALECTS / name])
    assert dump(conn) == before
    assert one(conn, "select count(*) from limbic_imports") == 0


# real files -------------------------------------------------------------------------------------


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The records of a well-formed file, by nothing but json."""
    text = path.read_text(encoding="utf-8")
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    return found if isinstance(found, list) else found["entities"] + found["relations"]


def expected_graph(rows: list[Any]) -> tuple[dict[str, Counter[str]], set[tuple[str, ...]], int]:
    observations: dict[str, Counter[str]] = {}
    for row in rows:
        if "name" in row:
            texts = [o if isinstance(o, str) else o["content"] for o in row.get("observations", [])]
            there = observations.setdefault(row["name"], Counter())
            observations[row["name"]] = there | Counter(texts)
    ends = [(r["from"], r["to"], r["relationType"]) for r in rows if "relationType" in r]
    known = {end for end in ends if end[0] in observations and end[1] in observations}
    return observations, known, sum(end not in known for end in ends)


@pytest.mark.skipif(not REAL, reason=f"{SHARED / 'memory_files'} is not there")
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_files(conn: Any, path: Path) -> None:
    check_file(conn, path)


@needs_shared
@pytest.mark.parametrize("name", ["memory.jsonl", "memory_read_graph.json", "memory_2025.8.4.json"])
def test_files_of_the_official_server(conn: Any, name: str) -> None:
    check_file(conn, PEER / name)
    counts = json.loads((PEER / "counts.json").read_text(encoding="utf-8"))[name]
    assert one(conn, "select count(*) from entities") == counts["entities"]
    assert one(conn, "select count(*) from relations") == counts["relations"]
    assert one(conn, "select count(*) from observations") == counts["observations"]


def check_file(conn: Any, path: Path) -> None:
    rows = rows_of(path)
    observations, relations, dangling = expected_graph(rows)
    summary = import_files(conn, [path])
    assert summary.lines_add_up()
    found, links = graph(conn)
    assert {name: Counter(texts) for name, texts in found.items()} == {
        name: Counter(set(texts)) for name, texts in observations.items()
    }
    assert links == relations
    file = summary.files[0]
    assert file.relations.dangling == dangling
    assert file.lines - file.blank == len(rows)
    assert file.rejected == sum("name" not in row and "from" not in row for row in rows)
    assert schema_is_whole(conn)
    before = dump(conn)
    again = import_files(conn, [path])
    assert again.lines_add_up()
    assert dump(conn) == before
    assert again.total("observations", "added") == 0
    assert again.total("entities", "created") == 0


def schema_is_whole(conn: Any) -> bool:
    """Triggers are back, the text index holds every row, and no guard is left."""
    triggers = {r[0] for r in conn.execute("select name from sqlite_master where type='trigger'")}
    rows = one(conn, "select (select count(*) from entities) + (select count(*) from observations)")
    return (
        triggers >= set(schema.trigger_names())
        and one(conn, "select count(*) from _limbic_fts") == rows
        and one(conn, "select count(*) from _limbic_guard") == 0
        and one(conn, "select count(*) from sqlite_temp_master") == 0
    )


@needs_shared
def test_odd_lines(conn: Any, tmp_path: Path) -> None:
    rejects = tmp_path / "rejects.jsonl"
    summary = import_files(conn, [PEER / "memory_odd_lines.jsonl"], rejects_path=rejects)
    file = summary.files[0]
    assert summary.lines_add_up()
    assert (file.lines, file.blank, file.glued) == (23, 1, 1)
    assert (file.entities.lines, file.relations.lines, file.rejected) == (13, 4, 6)
    rejected = [json.loads(line) for line in rejects.read_text(encoding="utf-8").splitlines()]
    assert [row["line"] for row in rejected] == [2, 10, 11, 14, 15, 19, 18]
    source = (PEER / "memory_odd_lines.jsonl").read_bytes().split(b"\n")
    for row in rejected:
        assert row["raw"] == source[row["line"] - 1].decode()
    assert file.skipped_observations == [
        {"line": 5, "name": "Null inside", "reason": "null"},
        {"line": 5, "name": "Null inside", "reason": "an empty text"},
    ]
    row = "select created_at, confidence from entities where name = 'Extra keys'"
    assert one(conn, row) == ("2025-05-05 05:05:05", 0.4)


# merging ----------------------------------------------------------------------------------------


def test_same_names_merge_and_a_text_of_one_entity_is_kept_once(conn: Any, tmp_path: Path) -> None:
    summary = run(
        conn,
        tmp_path,
        entity("A", "x", "x", "y"),
        entity("A", "x", "z"),
        entity("A", "x", "x", "x"),
        entity("A", entityType="Other"),
    )
    assert graph(conn)[0] == {"A": ["x", "y", "z"]}
    file = summary.files[0]
    assert (file.entities.created, file.entities.merged) == (1, 3)
    counts = file.observations
    assert (counts.added, counts.already_there, counts.skipped) == (3, 2, 3)
    assert file.skipped_observations[0] == {
        "line": 1,
        "name": "A",
        "reason": "the same text again",
    }
    assert file.type_conflicts == [{"line": 4, "name": "A", "kept": "T", "given": "Other"}]


def test_new_entities_wait_while_others_are_merged(conn: Any, tmp_path: Path) -> None:
    run(conn, tmp_path, entity("Old", "x"), entity("Older", "x"))
    rows = [entity("New", "n"), entity("Old", "y"), entity("New", "m"), entity("Older", "z")]
    run(conn, tmp_path, *rows, entity("Newer", "n"), entity("Old", "w"), entity("Older", "v"))
    assert graph(conn)[0] == {
        "Old": ["x", "y", "w"],
        "Older": ["x", "z", "v"],
        "New": ["n", "m"],
        "Newer": ["n"],
    }


def test_an_unnamed_type_gives_way_to_a_named_one(conn: Any, tmp_path: Path) -> None:
    summary = run(conn, tmp_path, {"type": "entity", "name": "A"}, entity("A"))
    assert one(conn, "select entity_type from entities") == "T"
    assert not summary.files[0].type_conflicts


def test_many_lines_of_one_entity(conn: Any, tmp_path: Path) -> None:
    rows = [entity("A", f"o{i % 700}") for i in range(1400)]
    rows += [entity(f"B{i % 300}", f"o{i}") for i in range(600)]
    run(conn, tmp_path, *rows)
    found = graph(conn)[0]
    assert found["A"] == [f"o{i}" for i in range(700)]
    assert found["B7"] == ["o7", "o307"]


def test_forgetting_texts_changes_nothing(
    conn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasette_limbic.importing.observations._REMEMBERED", 3)
    rows = [entity(f"E{i % 5}", f"o{i % 20}", f"p{i % 10}") for i in range(200)]
    run(conn, tmp_path, *rows)
    assert all(len(set(texts)) == len(texts) == 6 for texts in graph(conn)[0].values())


def test_names_that_look_the_same_stay_apart(conn: Any, tmp_path: Path) -> None:
    summary = run(
        conn,
        tmp_path,
        entity("Café"),
        entity("cafe"),
        entity("CAFÉ"),
        entity("Tea"),
        relation("tea", "Café"),
    )
    assert summary.near_equal == [["Café", "cafe", "CAFÉ"]]
    assert "there is 'Tea'" in summary.files[0].first_rejects[0]["reason"]
    assert run(conn, tmp_path, entity("Café")).near_equal == []


def test_any_text_is_kept_as_it_is(conn: Any, tmp_path: Path) -> None:
    names = [
        "n" * 10_000,
        "it's",
        'a "quote"',
        "a/b?c#d",
        "<b>&amp;</b>",
        "🚀",
        "a\0b",
        "a\nb",
        "a\u2028b",
        "用户身份",
        "%_*",
        "  padded  ",
    ]
    run(conn, tmp_path, *(entity(name, name * 2) for name in names))
    assert graph(conn)[0] == {name: [name * 2] for name in names}
    run(conn, tmp_path, *(entity(name, name * 2) for name in names))
    assert one(conn, "select count(*) from observations") == len(names)


def test_relations_before_entities_repeated_dangling_and_self(conn: Any, tmp_path: Path) -> None:
    summary = run(
        conn,
        tmp_path,
        relation("A", "B"),
        relation("A", "B"),
        relation("A", "A"),
        relation("A", "Nobody"),
        relation("X", "X"),
        entity("A"),
        entity("B"),
    )
    relations = summary.files[0].relations
    assert (relations.created, relations.merged, relations.dangling) == (2, 1, 2)
    assert graph(conn)[1] == {("A", "B", "uses"), ("A", "A", "uses")}
    stored = conn.execute("select line, reason, raw from limbic_import_rejects").fetchall()
    assert stored == [
        (4, "no entity named 'Nobody'", json.dumps(relation("A", "Nobody"))),
        (5, "no entity named 'X'", json.dumps(relation("X", "X"))),
    ]


def test_create_missing_makes_stubs(conn: Any, tmp_path: Path) -> None:
    rows = [entity("A"), relation("A", "B"), relation("C", "B", createdAt="2025-01-01")]
    summary = run(conn, tmp_path, *rows, create_missing=True)
    assert summary.files[0].stubs == 2
    assert conn.execute("select name, entity_type, created_at from entities").fetchall() == [
        ("A", "T", None),
        ("B", "Generic", None),
        ("C", "Generic", None),
    ]
    assert schema_is_whole(conn)
    before = dump(conn)
    assert run(conn, tmp_path, *rows, create_missing=True).files[0].stubs == 0
    assert dump(conn) == before


def test_ended_relations_reopen_and_live_ones_end(conn: Any, tmp_path: Path) -> None:
    ended = relation("A", "B", validTo="2025-01-01", createdAt="2024-06-06")
    run(conn, tmp_path, entity("A"), entity("B"), ended)
    assert one(conn, "select valid_to from relations") == "2025-01-01 00:00:00"
    conn.execute("delete from limbic_stale")
    conn.commit()
    summary = run(conn, tmp_path, relation("A", "B", createdAt="2024-01-01"))
    assert summary.files[0].relations.reopened == 1
    assert one(conn, "select created_at, valid_to from relations") == ("2024-01-01 00:00:00", None)
    assert conn.execute("select collection, item_id from limbic_stale").fetchall() == [
        ("entities", 1)
    ]
    run(conn, tmp_path, ended)
    assert one(conn, "select valid_to from relations") == "2025-01-01 00:00:00"


def test_a_relation_said_twice_ends_as_its_last_line_says(conn: Any, tmp_path: Path) -> None:
    rows = [entity("A"), entity("B"), relation("A", "B"), relation("A", "B", validTo="2025-01-01")]
    run(conn, tmp_path, *rows)
    assert one(conn, "select valid_to from relations") == "2025-01-01 00:00:00"
    conn.execute("delete from limbic_stale")
    conn.commit()
    before = dump(conn)
    run(conn, tmp_path, *rows)
    assert dump(conn) == before


# times ------------------------------------------------------------------------------------------


def test_times_not_given_stay_unknown(conn: Any, tmp_path: Path) -> None:
    run(conn, tmp_path, entity("A", "x"), entity("B"), relation("A", "B"))
    for sql in (
        "select created_at, updated_at, last_activity_at from entities where name = 'A'",
        "select created_at, valid_from, valid_to from observations",
        "select created_at, valid_from, valid_to from relations",
    ):
        assert one(conn, sql) == (None, None, None)


def test_last_activity_is_stated_or_the_newest_known(conn: Any, tmp_path: Path) -> None:
    run(
        conn,
        tmp_path,
        entity("Stated", {"text": "o", "timestamp": "2025-09-09"}, lastActivityAt="2025-02-02"),
        entity("Observed", {"text": "o", "timestamp": "2025-03-03"}, updatedAt="2025-01-01"),
        entity("Linked", createdAt="2025-01-01", archivedAt="2026-06-06", validTo="2026-06-06"),
        entity("Part", createdAt="2025-01-01"),
        entity("Silent"),
        relation("Linked", "Linked", createdAt="2025-04-04"),
        relation("Part", "Silent", "contiene", createdAt="2025-05-05"),
    )
    assert dict(conn.execute("select name, last_activity_at from entities")) == {
        "Stated": "2025-02-02 00:00:00",
        "Observed": "2025-03-03 00:00:00",
        "Linked": "2025-04-04 00:00:00",
        "Part": "2025-01-01 00:00:00",
        "Silent": None,
    }
    run(conn, tmp_path, entity("Observed", lastActivityAt="2024-01-01"))
    activity = "select last_activity_at from entities where name = 'Observed'"
    assert one(conn, activity) == "2025-03-03 00:00:00"
    run(conn, tmp_path, entity("Observed", lastActivityAt="2025-03-03T00:00:00.5Z"))
    assert one(conn, activity) == "2025-03-03 00:00:00.500"


def test_earliest_creation_latest_change_and_filled_gaps(conn: Any, tmp_path: Path) -> None:
    run(conn, tmp_path, entity("A", "x", createdAt="2025-02-02", updatedAt="2025-02-02"))
    conn.execute("delete from limbic_stale")
    conn.commit()
    run(
        conn,
        tmp_path,
        entity(
            "A",
            {"text": "x", "timestamp": "2025-01-15", "kind": "k"},
            createdAt="2025-01-01",
            updatedAt="2025-01-05",
        ),
    )
    row = one(conn, "select created_at, updated_at from entities")
    assert row == ("2025-01-01 00:00:00", "2025-02-02 00:00:00")
    assert one(conn, "select created_at, kind from observations") == ("2025-01-15 00:00:00", "k")
    assert one(conn, "select count(*) from limbic_stale") == 0
    run(
        conn, tmp_path, entity("A", {"text": "x", "validTo": "2025-06-06"}, archivedAt="2025-06-07")
    )
    assert one(conn, "select valid_to from observations") == "2025-06-06 00:00:00"
    assert set(conn.execute("select collection, item_id from limbic_stale")) == {
        ("entities", 1),
        ("observations", 1),
    }


def test_neighbours_of_what_is_archived_go_stale(conn: Any, tmp_path: Path) -> None:
    run(conn, tmp_path, entity("A"), entity("B"), relation("A", "B"))
    conn.execute("delete from limbic_stale")
    conn.commit()
    run(conn, tmp_path, entity("B", archivedAt="2025-01-01", archivedReason="over"))
    assert sorted(conn.execute("select item_id from limbic_stale")) == [(1,), (2,)]
    assert one(conn, "select archived_reason from entities where name = 'B'") == "over"


def test_new_rows_are_indexed_and_marked_like_those_of_the_triggers(
    tmp_path: Path, conn: Any
) -> None:
    run(conn, tmp_path, entity("A", "x", "用户身份"), entity("B"), relation("A", "B"))
    other = new_memory(tmp_path / "other.db")
    other.execute("insert into entities(id, name, entity_type) values (1, 'A', 'T'), (2, 'B', 'T')")
    other.execute("insert into observations(entity_id, content) values (1, 'x'), (1, '用户身份')")
    other.execute(
        "insert into relations(from_entity, to_entity, relation_type) values (1, 2, 'uses')"
    )
    other.commit()
    for sql in (
        "select collection, item_id from limbic_stale order by 1, 2",
        "select rowid, name, content from _limbic_fts order by 1",
        "select rowid, content from _limbic_trigram order by 1",
    ):
        assert conn.execute(sql).fetchall() == other.execute(sql).fetchall()
    other.close()


# accesses ---------------------------------------------------------------------------------------


def test_accesses_count_once(conn: Any, tmp_path: Path) -> None:
    rows = [
        access("q", "2025-01-01", "C", "A", "Nobody", "A"),
        access(None, "2025-02-02T00:00:00Z", "A"),
        access(None, "2025-02-02T00:00:00Z", "A"),
        access("q", "2025-01-03", "B", "C"),
        entity("A"),
        entity("B"),
        entity("C"),
    ]
    summary = run(conn, tmp_path, *rows)
    found = summary.files[0].access
    assert (found.lines, found.names, found.added) == (4, 7, 5)
    assert (found.already_there, found.dangling) == (1, 1)
    assert conn.execute("select * from entity_access order by 1").fetchall() == [
        (1, 2, "2025-02-02 00:00:00"),
        (2, 1, "2025-01-03 00:00:00"),
        (3, 2, "2025-01-03 00:00:00"),
    ]
    assert conn.execute("select * from co_occurrences order by 1, 2").fetchall() == [
        (1, 3, 1, "2025-01-01 00:00:00"),
        (2, 3, 1, "2025-01-03 00:00:00"),
    ]
    before = dump(conn)
    run(conn, tmp_path, *rows)
    assert dump(conn) == before
    run(conn, tmp_path, access("q", "2025-01-01", "C", "A", "Nobody"), entity("Nobody"))
    assert sorted(
        conn.execute("select entity_a_id, entity_b_id, co_count from co_occurrences")
    ) == [
        (1, 3, 1),
        (1, 4, 1),
        (2, 3, 1),
        (3, 4, 1),
    ]


def test_the_sample_memory_comes_in_whole(conn: Any) -> None:
    folder = Path(schema.__file__).parent / "demo"
    files = [folder / "history.jsonl", folder / "memory.jsonl"]
    if not all(file.exists() for file in files):
        pytest.skip("the sample memory is not there")
    summary = import_files(conn, files)
    assert summary.lines_add_up()
    assert summary.rejects == 0
    before = dump(conn)
    import_files(conn, files)
    assert dump(conn) == before


# logs -------------------------------------------------------------------------------------------


def test_imports_and_rejects_are_logged(
    conn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasette_limbic.importing.rejects.MAX_STORED", 3)
    monkeypatch.setattr("datasette_limbic.importing.rejects.MAX_RAW", 10)
    rejects = tmp_path / "rejects.jsonl"
    rejects.write_text('{"file": "old", "line": 1, "reason": "from an earlier run", "raw": ""}')
    first = write_lines(tmp_path / "first.jsonl", entity("A"), *["{broken line"] * 5)
    second = write_lines(tmp_path / "second.jsonl", entity("B"), "nonsense")
    summary = import_files(conn, [first, DIALECTS, second], rejects_path=rejects)
    assert [file.name for file in summary.files] == ["first.jsonl", "second.jsonl", "dialects"]
    assert "directory" in str(summary.files[2].refused)
    logged = conn.execute("select source, format, counts from limbic_imports").fetchall()
    assert [row[:2] for row in logged] == [
        ("first.jsonl", "JSON Lines"),
        ("second.jsonl", "JSON Lines"),
    ]
    assert json.loads(logged[0][2])["rejected"] == 5
    stored = conn.execute("select import_id, line, raw from limbic_import_rejects").fetchall()
    assert stored == [
        (1, 2, "{broken li"),
        (1, 3, "{broken li"),
        (1, 4, "{broken li"),
        (2, 2, "nonsense"),
    ]
    lines = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert len(lines) == 6
    assert lines[0] == {
        "file": "first.jsonl",
        "line": 2,
        "reason": "not JSON: Expecting property name enclosed in double quotes (character 2)",
        "raw": "{broken line",
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "first.jsonl",
        "memory.db",
        "rejects.jsonl",
        "second.jsonl",
    ]


def test_the_summary_for_people(conn: Any, tmp_path: Path) -> None:
    summary = run(
        conn,
        tmp_path,
        entity("Café", "x", None, createdAt="soon", mood="good"),
        "",
        "oops",
        entity("cafe", entityType="Other\ntype"),
        entity("cafe"),
        relation("Café", "Nobody"),
        access("q", "2025-01-01", "Café"),
    )
    text = summary.text()
    for part in (
        "in.jsonl (JSON Lines): 7 lines, 1 blank, 1 rejected",
        "entities      2 created, 1 merged",
        "observations  1 added, 1 skipped",
        "relations     1 dangling",
        "line 5: cafe stays Other type, not T",
        "null in Café",
        "createdAt 'soon' × 1",
        "entity.mood × 1",
        "line 3: not JSON",
        "Café / cafe",
    ):
        assert part in text
    json.dumps(summary.as_dict())


# faults -----------------------------------------------------------------------------------------


def test_an_error_half_way_leaves_everything_as_it_was(
    conn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(conn, tmp_path, entity("A", "x"))
    before = dump(conn)
    rejects = tmp_path / "rejects.jsonl"

    def disk_full(*_: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(schema, "fill_indexes", disk_full)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        run(conn, tmp_path, entity("B", "y"), "broken", rejects_path=rejects)
    monkeypatch.undo()
    assert dump(conn) == before
    assert schema_is_whole(conn)
    assert not rejects.exists()
    run(conn, tmp_path, entity("B", "y"))
    assert schema_is_whole(conn)


def test_a_full_disk_is_said_and_leaves_the_file(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    conn = new_memory(db)
    conn.execute(f"pragma max_page_count={one(conn, 'pragma page_count') + 20}")
    before = dump(conn)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        run(conn, tmp_path, *(entity(f"E{i}", "x" * 500) for i in range(2000)))
    assert not conn.in_transaction
    assert dump(conn) == before
    conn.close()


KILLED = """
import sys, time
from datasette_limbic import connection, schema
from datasette_limbic.importing import import_files
fill = schema.fill_indexes
def wait(*arguments):
    fill(*arguments)
    print("written", flush=True)
    time.sleep(60)
def slow(conn, *arguments):
    wait(conn, *arguments) if arguments else fill(conn)
schema.fill_indexes = slow
conn = connection.connect(sys.argv[1])
# a small cache, so that pages are in the file already when the kill comes
conn.execute("pragma cache_size=-500")
conn.execute("pragma cache_spill=-500")
import_files(conn, [sys.argv[2]])
"""


def test_kill_half_way_leaves_the_database_as_before(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    conn = new_memory(db)
    run(conn, tmp_path, entity("Before", "x"))
    before = dump(conn)
    conn.close()
    source = write_lines(
        tmp_path / "large.jsonl",
        *(entity(f"E{i}", *[f"{i} {'x' * 1500} {j}" for j in range(10)]) for i in range(300)),
    )
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(db), str(source)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    assert (tmp_path / "memory.db-journal").exists()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    conn = connection.connect(db)
    assert dump(conn) == before
    assert one(conn, "pragma integrity_check") == "ok"
    assert import_files(conn, [source]).total("observations", "added") == 3000
    conn.close()


def test_a_locked_database_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = tmp_path / "memory.db"
    holder = new_memory(db)
    source = write_lines(tmp_path / "in.jsonl", entity("A"))
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.05)
    holder.execute("begin immediate")
    with pytest.raises(DatabaseUnusable, match="locked by another program"):
        import_files(db, [source])
    holder.rollback()
    assert import_files(db, [source]).total("entities", "created") == 1
    holder.close()


def test_a_read_only_database_is_said(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    new_memory(db).close()
    source = write_lines(tmp_path / "in.jsonl", entity("A"))
    conn = connection.connect(db, readonly=True)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        import_files(conn, [source])
    conn.close()
    if os.getuid() == 0:
        return  # to root, every file is writable
    db.chmod(0o444)
    with pytest.raises(DatabaseUnusable, match="cannot be written"):
        import_files(db, [source])


def test_two_imports_at_once_both_come_in(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    sources = [
        write_lines(
            tmp_path / f"{k}.jsonl",
            entity("Both", f"from {k}"),
            *(entity(f"{k}{i}", "x") for i in range(2000)),
        )
        for k in "ab"
    ]
    failed: list[BaseException] = []

    def work(source: Path) -> None:
        try:
            import_files(db, [source])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=[source]) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    conn = connection.connect(db)
    assert one(conn, "select count(*) from entities") == 4001
    assert sorted(graph(conn)[0]["Both"]) == ["from a", "from b"]
    assert schema_is_whole(conn)
    conn.close()


def test_a_database_made_for_nothing_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "memory.db"
    source = write_lines(tmp_path / "in.jsonl", {"type": "chat"})
    with pytest.raises(UnknownFormat):
        import_files(db, [source])
    assert [p.name for p in tmp_path.iterdir()] == ["in.jsonl"]
    new_memory(db).close()
    with pytest.raises(UnknownFormat):
        import_files(db, [source])
    assert db.exists()


def test_wrong_arguments(conn: Any, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in.jsonl", entity("A"))
    with pytest.raises(BadParameter, match="one of the files of this import"):
        import_files(conn, [source], rejects_path=source)
    with pytest.raises(BadParameter, match="does not exist"):
        import_files(conn, [source], rejects_path=tmp_path / "no" / "where")
    with pytest.raises(UnknownFormat, match="no file"):
        import_files(conn, [])
    with pytest.raises(DatabaseUnusable, match="not a SQLite database"):
        import_files(source, [source])
    bare = sqlite3.connect(tmp_path / "bare.db")
    with pytest.raises(NotAMemory):
        import_files(bare, [source])
    bare.close()


NAMES = st.sampled_from(["A", "B", "a", "Á", "", "C\0", "x" * 300, 7])
TIMES = st.sampled_from([None, "2025-01-01", "2025-06-06T06:06:06.5Z", 1735787045, "soon", {}, -1])
OBSERVATION = st.one_of(
    st.sampled_from(["o1", "o2", "", None, 3]),
    st.fixed_dictionaries(
        {},
        optional={
            "text": st.sampled_from(["o1", "o2"]),
            "timestamp": TIMES,
            "validTo": TIMES,
            "kind": st.sampled_from(["k", 1]),
        },
    ),
)
ROW = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("entity"),
            "name": NAMES,
            "observations": st.lists(OBSERVATION, max_size=4),
        },
        optional={
            "entityType": st.sampled_from(["T", "U", "Generic"]),
            "createdAt": TIMES,
            "updatedAt": TIMES,
            "lastActivityAt": TIMES,
            "archivedAt": TIMES,
            "confidence": st.sampled_from([0, 0.5, 1, 2, "x"]),
        },
    ),
    st.fixed_dictionaries(
        {"from": NAMES, "to": NAMES, "relationType": st.sampled_from(["uses", "contiene"])},
        optional={"createdAt": TIMES, "validTo": TIMES},
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("access"),
            "accessedAt": TIMES,
            "entities": st.lists(NAMES, max_size=4),
            "query": st.sampled_from([None, "q"]),
        },
    ),
    st.sampled_from(["", "broken", "null", '{"type":"entity","name":"A"}{"type":"note"}']),
)


@pytest.fixture(scope="module")
def reused(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("random")
    conn = new_memory(folder / "memory.db")
    conn.execute("pragma synchronous=off")
    yield conn, folder
    conn.close()


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ROW, max_size=14), st.booleans())
def test_random_rows_never_raise_add_up_and_repeat_without_effect(
    reused: Any, rows: list[Any], create_missing: bool
) -> None:
    conn, folder = reused
    for table in (
        "entities",
        "observations",
        "relations",
        "entity_access",
        "co_occurrences",
        "entity_access_log",
        "limbic_stale",
        "_limbic_sources",
        "_limbic_source_entities",
        "_limbic_source_relations",
        "_limbic_source_counts",
        *reversed(LOGS),
    ):
        conn.execute(f"delete from {table}")
    conn.commit()
    options = {"create_missing": create_missing}
    rows = [entity("Always", "here"), *rows]
    run(conn, folder, *rows, **options)
    conn.execute("delete from limbic_stale")  # as a sync does
    conn.commit()
    before = dump(conn)
    run(conn, folder, *rows, **options)
    assert dump(conn) == before
    assert schema_is_whole(conn)


def test_a_hub_with_many_repeated_lines_stays_fast(conn: Any, tmp_path: Path) -> None:
    started = time.perf_counter()
    run(conn, tmp_path, *(entity("Hub", f"o{i}") for i in range(5000)))
    run(conn, tmp_path, *(entity("Hub", f"o{i}") for i in range(5000)))
    assert time.perf_counter() - started < 5
