"""A full export comes back: whole into an empty memory, merged into any other."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from again_helpers import do, end_of, entity_of, fresh_memory, run, texts, unchanged, write_full
from exporting_helpers import fill
from importing_helpers import dump, entity, graph, one, relation, write_lines

from datasette_limbic import connection, schema
from datasette_limbic.errors import UnknownFormat
from datasette_limbic.exporting import export_full
from datasette_limbic.importing import full, import_files
from datasette_limbic.insights.model import imported_key

T1, T2, T3 = "2025-01-01 10:00:00", "2025-02-01 10:00:00", "2025-03-01 10:00:00"


@pytest.fixture
def filled(tmp_path: Path) -> Any:
    conn = fresh_memory(tmp_path / "filled.db")
    fill(conn)
    conn.commit()
    yield conn
    conn.close()


@pytest.fixture
def conn(tmp_path: Path) -> Any:
    conn = fresh_memory(tmp_path / "memory.db")
    yield conn
    conn.close()


@pytest.fixture
def export(filled: Any, tmp_path: Path) -> Path:
    return write_full(filled, tmp_path / "full.ndjson")


def text_of(conn: Any, **options: Any) -> str:
    out = io.StringIO()
    export_full(conn, out, **options)
    return out.getvalue()


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def here(conn: Any) -> None:
    """Something is in the memory already, of the same names and of others."""
    conn.execute("insert into entities(id, name, entity_type) values (40, 'Here', 'Ours')")
    conn.execute("insert into entities(id, name, entity_type) values (41, 'Ana', 'Generic')")
    conn.execute("insert into observations(entity_id, content) values (41, 'likes tea')")
    conn.commit()


# into an empty memory -------------------------------------------------------------------------


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("by_path", [False, True])
def test_into_an_empty_memory(filled: Any, tmp_path: Path, vectors: bool, by_path: bool) -> None:
    path = write_full(filled, tmp_path / "full.ndjson", vectors=vectors)
    db = tmp_path / "copy.db"
    if by_path:
        summary = import_files(db, [path])
        copy = connection.connect(db)
    else:
        copy = fresh_memory(db)
        summary = run(copy, path)
    assert text_of(copy, vectors=vectors) == path.read_text(encoding="utf-8")
    file = summary.files[0]
    assert (file.format, file.changed, file.rejects) == ("restored export", True, 0)
    assert (file.entities.created, file.observations.added, file.relations.created) == (3, 4, 2)
    counts = Counter(line.get("table") for line in lines_of(path))
    for table in ("limbic_searches", "limbic_changes", "entity_access", "limbic_settings"):
        assert file.restored[table] == counts[table]
    assert "restored" in summary.text()
    logged = copy.execute("select id, counts from limbic_imports where id < 0").fetchall()
    assert [number for number, _ in logged] == [-1]
    assert json.loads(logged[0][1])["entities"]["created"] == 3
    assert one(copy, "select count(*) from sqlite_temp_master") == 0
    copy.close()


def test_an_import_goes_on_in_the_copy(conn: Any, tmp_path: Path) -> None:
    """The copy knows the sources too: a deletion stays one, and counts go on."""
    other = fresh_memory(tmp_path / "other.db")
    source = write_lines(tmp_path / "a.jsonl", entity("A", "x", "y"), entity("B"))
    run(other, source)
    do(other, "delete from observations where content = 'x'")
    do(other, "delete from entities where name = 'B'")
    run(conn, write_full(other, tmp_path / "full.ndjson"))
    file = unchanged(conn, source).files[0]
    assert (file.observations.removed_here, file.entities.removed_here) == (1, 1)
    assert text_of(other).split("\n")[1:10] == text_of(conn).split("\n")[1:10]
    other.close()


def test_with_other_files_in_one_call(conn: Any, export: Path, tmp_path: Path) -> None:
    more = write_lines(tmp_path / "more.jsonl", entity("Ana", "new"), relation("Ana", "Böhm"))
    summary = run(conn, export, more)
    assert [file.format for file in summary.files] == ["restored export", "JSON Lines"]
    assert (summary.files[1].entities.merged, summary.files[1].relations.created) == (1, 1)
    assert end_of(conn, "Ana", "Böhm") is None
    unchanged(conn, more)


def test_not_first_in_the_call_it_is_merged(conn: Any, export: Path, tmp_path: Path) -> None:
    more = write_lines(tmp_path / "more.jsonl", entity("Ana", "new"))
    summary = run(conn, more, export)
    assert [file.format for file in summary.files] == ["JSON Lines", "full export"]
    assert summary.files[1].entities.merged == 1
    unchanged(conn, more, export)


def test_twice_in_one_call(conn: Any, export: Path) -> None:
    summary = run(conn, export, export)
    assert [file.format for file in summary.files] == ["restored export", "full export"]
    assert not summary.files[1].changed


def test_a_newer_version_leaves_no_database(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "full.ndjson", {"limbic_export": 99, "tables": {}})
    with pytest.raises(UnknownFormat, match="version 99"):
        import_files(tmp_path / "memory.db", [path])
    assert not (tmp_path / "memory.db").exists()


# into another memory --------------------------------------------------------------------------


def test_merged(conn: Any, export: Path) -> None:
    here(conn)
    summary = run(conn, export)
    file = summary.files[0]
    assert file.format == "full export"
    assert (file.entities.created, file.entities.merged, file.entities.updated) == (2, 1, 1)
    assert (file.observations.added, file.observations.already_there) == (3, 1)
    assert (file.relations.created, file.access_counts.added) == (2, 1)
    assert (file.access_log.added, file.co_occurrences.added, file.insights.added) == (1, 1, 2)
    assert entity_of(conn, "Ana", "id, entity_type, confidence") == (41, "Person", 1.0)
    assert entity_of(conn, "Böhm", "confidence, valid_from") == (1e-300, "2025-01-01 10:00:00.123")
    assert entity_of(conn, "Atlas ☕", "archived_at, archived_reason") == (
        "2026-01-02 03:04:05",
        "over",
    )
    # both copies, the one that ended, and who replaced it
    assert conn.execute(
        "select content, o.valid_to, similarity_flag from observations o join entities e"
        " on e.id = entity_id where name = 'Ana' order by o.id"
    ).fetchall() == [
        ("likes tea", None, 0),
        ("likes coffee", "2026-01-01 00:00:00", 0),
        ("likes tea", None, 0),
    ]
    sql = "select o.content, n.content from observations o join observations n"
    assert conn.execute(f"{sql} on n.id = o.supersedes").fetchall() == [
        ("likes coffee", "likes tea")
    ]
    assert graph(conn)[1] == {("Ana", "Atlas ☕", "works_on"), ("Atlas ☕", "Atlas ☕", "contiene")}
    assert one(conn, "select context from relations where valid_to is null") == "since May"
    assert conn.execute("select entity_id, access_count from entity_access").fetchall() == [(41, 7)]
    insights = conn.execute("select key, entity_id, status from limbic_insights order by key")
    # its ids are those of another memory, so ours may have the key
    key = imported_key("split:1", "Ana")
    assert insights.fetchall() == [(key, 41, "approved"), ("stale", None, "pending")]
    unchanged(conn, export)


def test_what_is_not_carried_is_counted(conn: Any, export: Path) -> None:
    here(conn)
    settings = conn.execute("select * from limbic_settings").fetchall()
    file = run(conn, export).files[0]
    rows = Counter(line.get("table") for line in lines_of(export))
    left_out = ["limbic_settings", "limbic_changes", "limbic_parameters", "limbic_searches"]
    left_out += ["limbic_search_candidates", "limbic_feedback", "limbic_topics", "limbic_reviews"]
    carried = file.notes.not_carried
    for table in left_out:
        assert carried[f"rows of {table}"] == rows[table] > 0
    assert carried["log entries of deleted entities"] == 1
    # the first line of the file, and the highest id
    assert file.beside == 2 + sum(carried.values())
    assert conn.execute("select * from limbic_settings").fetchall() == settings
    for table in ("limbic_searches", "limbic_changes", "limbic_parameters", "limbic_feedback"):
        assert one(conn, f"select count(*) from {table}") == 0
    assert "Not carried" in run(conn, export).text()


def test_with_vectors_they_are_left_to_sync(conn: Any, filled: Any, tmp_path: Path) -> None:
    here(conn)
    path = write_full(filled, tmp_path / "full.ndjson", vectors=True)
    carried = run(conn, path).files[0].notes.not_carried
    assert (carried["rows of embeddings"], carried["rows of collections"]) == (1, 1)
    assert one(conn, "select count(*) from embeddings") == 0
    unchanged(conn, path)


def test_of_this_very_memory_nothing_changes(filled: Any, export: Path) -> None:
    assert not run(filled, export).files[0].changed
    unchanged(filled, export)


def test_a_memory_that_grew_is_synced(conn: Any, filled: Any, export: Path) -> None:
    here(conn)
    run(conn, export)
    do(filled, "delete from observations where content = 'first'")
    do(filled, "insert into observations(entity_id, content) values (7, 'second')")
    do(filled, "update entities set name = 'Renamed' where id = 2")
    do(filled, "update entity_access set access_count = 9")
    do(filled, "update limbic_insights set status = 'dismissed' where key = 'stale'")
    do(
        filled,
        "insert into limbic_insights(key, kind, entity_id, title, body, evidence, evidence_digest)"
        " values ('new', 'split', 1, 'New', 'b', '[]', 'd'), ('all', 'x', null, 'All', 'b', '1',"
        " 'd')",
    )
    do(conn, "update entity_access set access_count = access_count + 100")
    do(conn, "delete from limbic_insights where key like 'imported:%:split:1'")
    file = run(conn, write_full(filled, export)).files[0]
    assert (file.observations.added, file.observations.gone) == (1, 1)
    assert one(conn, "select access_count from entity_access") == 109
    assert (file.insights.added, file.insights.updated, file.insights.removed_here) == (2, 1, 1)
    assert dict(conn.execute("select key, status from limbic_insights")) == {
        "stale": "dismissed",
        "new": "pending",
        "all": "pending",
    }
    # told by its name: a renamed entity is a new one
    assert (file.entities.created, file.entities.gone) == (1, 1)
    unchanged(conn, export)
    do(conn, "delete from limbic_insights where key = 'all'")
    assert unchanged(conn, export).files[0].insights.removed_here == 2


def test_two_memories_that_exchange_exports(tmp_path: Path) -> None:
    """What came from the other one goes back to it, and nothing counts twice."""
    memories = [fresh_memory(tmp_path / f"{n}.db") for n in range(2)]
    exports = [tmp_path / f"{n}.ndjson" for n in range(2)]
    for n, memory in enumerate(memories):
        do(memory, "insert into entities(name, entity_type) values (?, 'T')", f"of {n}")
        do(memory, "insert into entities(name, entity_type) values ('both', 'T')")
        do(memory, "insert into observations(entity_id, content) values (2, ?)", f"fact {n}")
        do(memory, "insert into entity_access values (2, ?, ?)", 10, T1)
    for _ in range(3):
        for n in range(2):
            write_full(memories[n], exports[n])
            run(memories[1 - n], exports[n])
    assert {len(graph(memory)[0]) for memory in memories} == {3}
    for memory in memories:
        assert sorted(texts(memory, "both")) == ["fact 0", "fact 1"]
        assert one(memory, "select access_count from entity_access") == 10
    for memory in memories:
        memory.close()


def test_more_observations_than_one_row_holds(
    conn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full, "_TOGETHER", 3)
    other = fresh_memory(tmp_path / "other.db")
    do(other, "insert into entities(id, name, entity_type) values (1, 'A', 'T')")
    other.executemany(
        "insert into observations(entity_id, content) values (1, ?)",
        [(f"o{n}",) for n in range(10)],
    )
    other.commit()
    here(conn)
    path = write_full(other, tmp_path / "full.ndjson")
    file = run(conn, path).files[0]
    assert (file.observations.added, file.entities.created) == (10, 1)
    do(conn, "delete from observations where content = 'o4'")
    file = unchanged(conn, path).files[0]
    assert (file.observations.already_there, file.observations.removed_here) == (10 - 1, 1)
    other.close()


@pytest.mark.parametrize(
    ("table", "change", "reason"),
    [
        ("entities", {"name": None}, "entity without a name"),
        ("observations", {"content": None}, "observation without content"),
        ("observations", {"entity_id": 99}, "no entity with id 99"),
        ("observations", {"entity_id": [1]}, "a list or an object"),
        ("relations", {"to_entity": 99}, "no entity with id 99"),
        ("relations", {"from_entity": None}, "no entity with id None"),
        ("relations", {"relation_type": " "}, "without a relation_type"),
        ("entity_access", {"access_count": -1}, "no number of accesses"),
        ("entity_access", {"access_count": "7"}, "no number of accesses"),
        ("entity_access", {"entity_id": 99}, "no entity with id 99"),
        ("entity_access_log", {"accessed_at": "soon"}, "without a readable time"),
        ("entity_access_log", {"entity_id": 99}, "no entity with id 99"),
        ("co_occurrences", {"co_count": None}, "no number of co-occurrences"),
        ("co_occurrences", {"entity_b_id": 1}, "with itself"),
        ("co_occurrences", {"entity_a_id": 99}, "no entity with id 99"),
        ("limbic_insights", {"status": "maybe"}, "insight without a usable status"),
        ("limbic_insights", {"title": None}, "insight without a usable title"),
        ("limbic_insights", {"entity_id": 99}, "no entity with id 99"),
    ],
)
def test_a_row_that_cannot_be_used_is_a_reject(
    conn: Any, export: Path, table: str, change: dict[str, Any], reason: str
) -> None:
    rows = lines_of(export)
    row = next(row for row in rows if row.get("table") == table)
    row["row"].update(change)
    write_lines(export, *rows)
    here(conn)
    file = run(conn, export).files[0]
    # what names the entity without a name is rejected with it
    assert file.rejects == (9 if table == "entities" else 1)
    assert any(reason in reject["reason"] for reject in file.first_rejects)
    unchanged(conn, export)


def test_lines_that_are_no_rows(conn: Any, export: Path) -> None:
    rows = [*lines_of(export), "broken", "", "[]", {"table": "entities"}, {"table": 1, "row": {}}]
    rows += [{"table": "entities", "row": {"id": 5, "name": {"$x": 1}}}, {"table": "no", "row": {}}]
    write_lines(export, *rows)
    here(conn)
    file = run(conn, export).files[0]
    assert (file.blank, file.notes.not_carried["rows of no"]) == (1, 1)
    assert file.rejects in (4, 5)
    unchanged(conn, export)


def test_bytes_of_another_writer(conn: Any, tmp_path: Path) -> None:
    other = fresh_memory(tmp_path / "other.db")
    do(other, "insert into entities(id, name, entity_type) values (1, cast(x'41ff' as text), 'T')")
    do(other, "insert into observations(entity_id, content) values (1, x'42ff'), (1, x'00')")
    here(conn)
    path = write_full(other, tmp_path / "full.ndjson")
    run(conn, path)
    unchanged(conn, path)
    copy = fresh_memory(tmp_path / "copy.db")
    run(copy, path)
    assert text_of(copy) == path.read_text(encoding="utf-8")
    copy.close()
    other.close()


def test_into_a_memory_that_only_has_settings_it_is_restored(conn: Any, export: Path) -> None:
    do(conn, "update limbic_settings set value = '77' where key = 'stale_days'")
    assert run(conn, export).files[0].format == "restored export"
    assert one(conn, "select value from limbic_settings where key = 'stale_days'") == "33"


def test_the_sample_memory_whole(conn: Any, tmp_path: Path) -> None:
    folder = Path(schema.__file__).parent / "demo"
    other = fresh_memory(tmp_path / "other.db")
    run(other, folder / "history.jsonl", folder / "memory.jsonl")
    path = write_full(other, tmp_path / "full.ndjson")
    run(conn, path)
    assert text_of(conn) == path.read_text(encoding="utf-8")
    merged = fresh_memory(tmp_path / "merged.db")
    here(merged)
    file = run(merged, path).files[0]
    assert file.entities.created == one(other, "select count(*) from entities")
    for table in ("entity_access_log", "entity_access", "co_occurrences", "relations"):
        sql = f"select count(*) from {table}"
        assert one(merged, sql) == one(other, sql)
    unchanged(merged, path)
    assert dump(merged)
    merged.close()
    other.close()
