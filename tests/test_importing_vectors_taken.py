"""Taking over the vectors of an MCP Memory v2 file, and what ``sync`` makes of them."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import pytest
from again_helpers import do, fresh_memory, run, unchanged, write_full
from datasette.utils.sqlite import sqlite3
from embedding_helpers import BagModel, blob, store, values
from importing_helpers import one
from mcp_v2_helpers import ddl

from datasette_limbic import connection
from datasette_limbic.errors import BadParameter, IndexedElsewhere, UnknownModel, VectorsUnavailable
from datasette_limbic.importing import import_files, taken_vectors
from datasette_limbic.sync import sync

NAMED = {"with_vectors": True, "vectors_model": "bag"}
UNNAMED = {"with_vectors": True}


@pytest.fixture(autouse=True)
def known(models: Any) -> Any:
    """The model must be known where it is named: its length is asked for."""
    return models


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    conn = fresh_memory(tmp_path / "memory.db")
    yield conn
    conn.close()


def write(
    path: Path, vectors: dict[int, tuple[float, ...]], texts: dict[int, str], dimension: int = 32
) -> Path:
    """A file of these entities, e1, e2 …, with an observation each, and of these vectors."""
    path.unlink(missing_ok=True)
    conn = sqlite3.connect(path)
    missing = connection.load_vec(conn)
    if missing:
        pytest.skip(missing)
    conn.executescript(
        ddl() + "create virtual table entity_embeddings using vec0("
        f"entity_id integer primary key, embedding float[{dimension}]);"
    )
    for number, text in texts.items():
        conn.execute("insert into entities(id, name) values (?, ?)", [number, f"e{number}"])
        conn.execute("insert into observations(entity_id, content) values (?, ?)", [number, text])
    for number, vector in vectors.items():
        padded = (*vector, *[0.0] * (dimension - len(vector)))
        conn.execute("insert into entity_embeddings values (?, ?)", [number, blob(*padded)])
    conn.commit()
    conn.close()
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three entities, and the vectors of two of them and of one that is gone."""
    texts = {1: "one", 2: "two", 3: "three"}
    return write(tmp_path / "source", {1: (1, 2), 2: (3, 4), 9: (5, 6)}, texts)


def stored(conn: Any, collection: str) -> dict[str, tuple[float, ...]]:
    """The first two values of each vector, by the names of the entities."""
    rows = conn.execute(
        "select e.name, embedding from embeddings m join entities e on m.id = cast(e.id as text)"
        " where collection_id = (select id from collections where name = ?)",
        [collection],
    )
    return {name: values(found)[:2] for name, found in rows}


def collections(conn: Any) -> dict[str, str]:
    return dict(conn.execute("select name, model from collections"))


def content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_without_a_model_they_stand_apart(memory: Any, source: Path, models: Any) -> None:
    do(memory, "insert into entities(name, entity_type) values ('Here', 'T')")
    sync(memory, model="bag2")
    before = memory.execute("select * from embeddings order by 1, 2").fetchall()
    file = run(memory, source, **UNNAMED).files[0]
    assert (file.vectors.rows, file.vectors.added) == (2, 2)
    assert file.notes.not_carried["vectors of entities that are gone"] == 1
    assert collections(memory) == {
        "entities": "bag2",
        "mcp_memory_v2": "unknown",
    }
    assert stored(memory, "mcp_memory_v2") == {"e1": (1, 2), "e2": (3, 4)}
    sql = "select * from embeddings where collection_id = 1 order by 1, 2"
    assert memory.execute(sql).fetchall() == before
    assert unchanged(memory, source, **UNNAMED).files[0].vectors.already_there == 2
    embedded = sync(memory).collections[0]
    assert (embedded.embedded, embedded.items) == (3, 4)
    assert stored(memory, "mcp_memory_v2") == {"e1": (1, 2), "e2": (3, 4)}


def test_not_asked_for_they_stay_out(memory: Any, source: Path) -> None:
    file = run(memory, source).files[0]
    assert file.vectors.rows == 0
    assert collections(memory) == {}
    with pytest.raises(BadParameter, match="vectors"):
        import_files(memory, [source], vectors_model="bag")


def test_of_a_named_model_they_need_no_embedding(memory: Any, source: Path, models: Any) -> None:
    do(memory, "insert into entities(id, name, entity_type) values (7, 'e2', 'T')")
    assert run(memory, source, **NAMED).files[0].vectors.added == 2
    assert collections(memory) == {"entities": "bag"}
    model: BagModel = models["bag"]
    summary = sync(memory)
    entities = summary.collections[0]
    assert (entities.model, entities.embedded, entities.pruned) == ("bag", 1, 0)
    assert [text for text in model.seen if text.startswith("e")] == ["e3 (Generic): three"]
    assert stored(memory, "entities")["e1"] == (1, 2)
    assert one(memory, "select count(*) from _limbic_vec_entities_rowids") == 3
    assert not sync(memory).changed
    assert unchanged(memory, source, **NAMED).files[0].vectors.already_there == 2
    do(memory, "update observations set content = 'changed' where content = 'one'")
    assert sync(memory).collections[0].embedded == 1
    assert stored(memory, "entities")["e1"] != (1, 2)
    unchanged(memory, source, **NAMED)


def test_what_comes_after_a_sync_reaches_the_index(memory: Any, tmp_path: Path) -> None:
    texts = {1: "one", 2: "two", 3: "three"}
    path = write(tmp_path / "source", {1: (1, 2)}, texts)
    run(memory, path, **NAMED)
    do(memory, "delete from limbic_stale")  # as if it had been looked at already
    run(memory, write(path, {1: (1, 2), 2: (3, 4)}, texts), **NAMED)
    assert memory.execute("select collection, item_id from limbic_stale").fetchall() == [
        ("entities", 2)
    ]
    sync(memory)
    assert one(memory, "select count(*) from _limbic_vec_entities_rowids") == 3
    assert stored(memory, "entities")["e2"] == (3, 4)


@pytest.mark.parametrize(
    ("model", "dimension", "words"),
    [
        ("bag2", 32, "embedded with 'bag2'"),
        ("bag", 16, "file have 32 dimensions, those of 'bag' have 16"),
    ],
)
@pytest.mark.parametrize("by_path", [True, False])
def test_vectors_of_another_model_are_refused(
    tmp_path: Path, source: Path, model: str, dimension: int, words: str, by_path: bool
) -> None:
    path = tmp_path / "memory.db"
    conn = fresh_memory(path)
    conn.execute("insert into entities(id, name, entity_type) values (5, 'Here', 'T')")
    conn.commit()
    store(conn, "entities", {5: blob(*[1.0] * dimension)}, model)
    if by_path:
        conn.close()
    before = content(path)
    with pytest.raises(IndexedElsewhere, match=words):
        import_files(path if by_path else conn, [source], **NAMED)
    assert content(path) == before
    if not by_path:
        assert not conn.in_transaction
        assert one(conn, "select count(*) from sqlite_temp_master") == 0
        file = run(conn, source, **UNNAMED).files[0]
        assert file.vectors.added == 2
        conn.close()


def test_an_empty_collection_takes_the_model(memory: Any, source: Path) -> None:
    memory.execute("insert into collections(name, model) values ('entities', 'bag2')")
    memory.commit()
    run(memory, source, **NAMED)
    assert collections(memory) == {"entities": "bag"}


def test_vectors_of_another_length_in_a_collection_of_their_own(
    memory: Any, tmp_path: Path, source: Path
) -> None:
    run(memory, source, **UNNAMED)
    other = write(tmp_path / "other", {1: (1,), 2: (2,)}, {1: "one", 2: "two"}, dimension=16)
    file = run(memory, other, **UNNAMED).files[0]
    assert (file.vectors.rows, file.vectors.dangling, file.rejects) == (2, 2, 2)
    assert "64 bytes, where the others have 128" in file.first_rejects[0]["reason"]
    assert stored(memory, "mcp_memory_v2") == {"e1": (1, 2), "e2": (3, 4)}


def test_vectors_of_entities_that_were_removed_or_renamed_here(memory: Any, source: Path) -> None:
    run(memory, source)
    do(memory, "delete from entities where name = 'e1'")
    do(memory, "update entities set name = 'New name' where name = 'e2'")
    file = run(memory, source, **UNNAMED).files[0]
    assert (file.vectors.added, file.vectors.removed_here) == (1, 1)
    assert stored(memory, "mcp_memory_v2") == {"New name": (3, 4)}
    unchanged(memory, source, **UNNAMED)


def test_vectors_that_cannot_be_indexed_reach_sync(
    memory: Any, tmp_path: Path, models: Any
) -> None:
    vectors = {1: (0.0,), 2: (math.nan,), 3: (math.inf, 1), 4: (1, 1)}
    path = write(tmp_path / "source", vectors, {n: f"text {n}" for n in vectors})
    assert run(memory, path, **NAMED).files[0].vectors.added == 4
    rejected = {row["id"]: row["reason"] for row in sync(memory).collections[0].rejected}
    assert rejected == {1: "zero vector", 2: "not finite", 3: "not finite"}
    assert one(memory, "select count(*) from _limbic_vec_entities_rowids") == 1
    unchanged(memory, path, **NAMED)


def test_archived_entities_have_vectors_too(memory: Any, source: Path) -> None:
    conn = sqlite3.connect(source)
    conn.execute("update entities set status = 'archivado' where id = 1")
    conn.commit()
    conn.close()
    assert run(memory, source, **NAMED).files[0].vectors.added == 2


def test_more_than_one_batch_and_the_same_file_twice(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taken_vectors, "_AT_ONCE", 3)
    numbers = range(1, 9)
    path = write(tmp_path / "source", {n: (n, 1) for n in numbers}, {n: f"t{n}" for n in numbers})
    summary = run(memory, path, path, **NAMED)
    assert [file.vectors.added for file in summary.files] == [8, 0]
    assert [file.vectors.already_there for file in summary.files] == [0, 8]
    assert stored(memory, "entities")["e8"] == (8, 1)
    unchanged(memory, path, **NAMED)


def test_a_full_export_holds_what_was_taken(memory: Any, tmp_path: Path, source: Path) -> None:
    run(memory, source, **UNNAMED)
    export = write_full(memory, tmp_path / "full.ndjson", vectors=True)
    other = fresh_memory(tmp_path / "other.db")
    run(other, export)
    assert stored(other, "mcp_memory_v2") == {"e1": (1, 2), "e2": (3, 4)}
    unchanged(other, source, **UNNAMED)
    other.close()


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        ("bag16", IndexedElsewhere, "file have 32 dimensions, those of 'bag16' have 16"),
        ("nosuchmodel", UnknownModel, "nosuchmodel"),
        ("broken", VectorsUnavailable, "broken"),
    ],
)
def test_a_model_that_did_not_make_them_is_refused(
    tmp_path: Path, source: Path, known: Any, model: str, error: type[Exception], words: str
) -> None:
    path = tmp_path / "new.db"
    with pytest.raises(error, match=words):
        import_files(path, [source], with_vectors=True, vectors_model=model)
    assert not path.exists() or not path.stat().st_size


def test_files_without_vectors_say_so(memory: Any, tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    path.write_text('{"type":"entity","name":"A","entityType":"T","observations":[]}')
    told = run(memory, path, with_vectors=True, vectors_model="nosuchmodel").files[0]
    assert "MCP Memory v2" in told.notes.remarks[0]
    assert collections(memory) == {}
