"""The vectors of an MCP Memory v2 file, read without sqlite-vec, against what vec0 answers."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from datasette.utils.sqlite import sqlite3
from mcp_v2_helpers import ddl, of, read, reasons

from datasette_limbic import connection
from datasette_limbic.importing.items import Vector
from datasette_limbic.importing.mcp_v2.tables import look
from datasette_limbic.importing.mcp_v2.vectors import Stored, stored_vectors


def with_vec(path: Path) -> sqlite3.Connection:
    conn = sqlite3.connect(path)
    missing = connection.load_vec(conn)
    if missing:
        pytest.skip(missing)
    return conn


def by_vec0(path: Path) -> dict[str, bytes]:
    """The vectors of the entities that are there, as vec0 itself gives them."""
    conn = with_vec(path)
    (sql,) = conn.execute(
        "select sql from sqlite_master where name = 'entity_embeddings'"
    ).fetchone()
    key = "entity_id" if "entity_id" in sql else "rowid"
    rows = conn.execute(
        f"select e.name, v.embedding from entity_embeddings v join entities e on e.id = v.{key}"
    ).fetchall()
    conn.close()
    return dict(rows)


def make(path: Path, declared: str, entities: int, blob: str = "?") -> Path:
    """A file whose entities have vectors; the first value of each tells them apart."""
    conn = with_vec(path)
    conn.executescript(ddl() + f"create virtual table entity_embeddings using vec0({declared});")
    dimension = int(declared.split("[")[1].split("]")[0])
    key = "entity_id" if "entity_id" in declared else "rowid"
    for number in range(1, entities + 1):
        conn.execute("insert into entities(id, name) values (?, ?)", [number, f"e{number}"])
        floats = [float(number), *[0.5] * (dimension - 1)]
        data: bytes = struct.pack(f"<{dimension}f", *floats)
        if "int8" in declared:
            data = bytes([number % 100] * dimension)
        if "bit[" in declared:
            data = bytes([number % 100] * (dimension // 8))
        conn.execute(
            f"insert into entity_embeddings({key}, embedding) values (?, {blob})", [number, data]
        )
    conn.commit()
    conn.close()
    return path


@pytest.mark.parametrize("name", ["mcp_memory_v2.db", "mcp_memory_v2_stock_vec0.db.gz"])
def test_a_servers_own_vectors(shared: Path, tmp_path: Path, name: str) -> None:
    source = shared / "data" / "peer_files" / name
    if not source.exists():
        pytest.skip(f"{name} is not among the shared files")
    data = source.read_bytes()
    path = tmp_path / "m.db"
    path.write_bytes(gzip.decompress(data) if name.endswith(".gz") else data)
    items, notes, _ = read(path, with_vectors=True)
    found = dict(of(items, Vector))
    assert len(found) == len(of(items, Vector)) == 14
    assert {len(blob) for blob in found.values()} == {4 * 384}
    assert not reasons(items)
    assert "vectors" not in notes.not_carried
    assert notes.not_carried["vectors in reflection_embeddings"] == 2
    assert found == by_vec0(path)
    items, notes, _ = read(path)
    assert not of(items, Vector)
    assert notes.not_carried["vectors"] == 14


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("embedding float[384] distance_metric=cosine", ("float", 384, "cosine")),
        ("embedding float[3]", ("float", 3, "l2")),
        ("embedding FLOAT[8] distance_metric=L1, chunk_size=8", ("float", 8, "l1")),
        ("embedding f32[1], chunk_size=8", ("f32", 1, "l2")),
        ("kind text, embedding float[5], +note text, chunk_size=16", ("float", 5, "l2")),
        ("entity_id integer primary key, embedding float[5]", ("float", 5, "l2")),
        ("embedding float[4] distance_metric=cosine, chunk_size=1024", ("float", 4, "cosine")),
    ],
)
@pytest.mark.parametrize("entities", [0, 1, 8, 9, 40])
def test_any_dimension_and_size_of_chunks(
    tmp_path: Path, declared: str, stored: tuple[str, int, str], entities: int
) -> None:
    declared_here = declared.replace("kind text, ", "").replace("+note text, ", "")
    path = make(tmp_path / "m.db", declared_here, entities)
    conn = sqlite3.connect(path)
    layout = look(conn)
    conn.close()
    assert stored_vectors(layout) == Stored(*stored)
    layout.virtual["entity_embeddings"] = f"create virtual table x using vec0({declared})"
    assert stored_vectors(layout) == Stored(*stored)
    items, _, _ = read(path, with_vectors=True)
    assert dict(of(items, Vector)) == by_vec0(path)
    assert len(of(items, Vector)) == entities


def test_vectors_that_were_replaced_or_deleted(tmp_path: Path) -> None:
    path = make(tmp_path / "m.db", "embedding float[4], chunk_size=8", 20)
    conn = with_vec(path)
    conn.execute("delete from entity_embeddings where rowid in (3, 9, 20)")
    conn.execute("insert into entity_embeddings(rowid, embedding) values (9, '[9, 8, 7, 6]')")
    conn.execute("update entity_embeddings set embedding = '[1, 1, 1, 1]' where rowid = 5")
    conn.execute("delete from entities where id in (7, 8)")
    conn.execute("update entities set name = ' ' where id = 10")
    conn.commit()
    conn.close()
    items, notes, _ = read(path, with_vectors=True)
    found = dict(of(items, Vector))
    expected = by_vec0(path)
    del expected[" "]
    assert found == expected
    assert len(found) == 18 - 3
    assert found["e9"] == struct.pack("<4f", 9, 8, 7, 6)
    assert notes.not_carried["vectors of entities that are gone"] == 3
    assert [item.line for item in items if isinstance(item.row, Vector)] == [
        int(name[1:]) for name in found
    ]


@pytest.mark.parametrize(
    ("declared", "blob", "element"),
    [
        ("embedding int8[8]", "vec_int8(?)", "int8"),
        ("embedding bit[8]", "vec_bit(?)", "bit"),
    ],
)
def test_other_types_are_not_carried_and_said(
    tmp_path: Path, declared: str, blob: str, element: str
) -> None:
    path = make(tmp_path / "m.db", declared, 3, blob)
    items, notes, _ = read(path, with_vectors=True)
    assert not of(items, Vector)
    assert notes.not_carried == {f"vectors of {element} (float32 alone is carried)": 3}


@pytest.mark.parametrize(
    "damage",
    [
        "update entity_embeddings_chunks set validity = zeroblob(2)",
        "update entity_embeddings_chunks set validity = 'x'",
        "update entity_embeddings_vector_chunks00 set vectors = x'00'",
        "delete from entity_embeddings_vector_chunks00",
        "delete from entity_embeddings_chunks",
        "update entity_embeddings_rowids set chunk_offset = 400",
        "update entity_embeddings_rowids set chunk_offset = -1",
        "update entity_embeddings_rowids set chunk_offset = 'x'",
        "update entity_embeddings_rowids set chunk_id = null",
    ],
)
def test_damaged_vectors_are_rejected(tmp_path: Path, damage: str) -> None:
    path = make(tmp_path / "m.db", "embedding float[4], chunk_size=16", 3)
    conn = sqlite3.connect(path)
    conn.execute(damage)
    conn.commit()
    conn.close()
    items, _, _ = read(path, with_vectors=True)
    assert reasons(items) == [
        f"entity_embeddings row {n}: no vector of 4 float32 in its place" for n in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "drop table entity_embeddings_chunks",
        "update sqlite_master set sql = replace(sql, 'float[4]', 'strange[4]')"
        " where name = 'entity_embeddings'",
        "update sqlite_master set sql = replace(sql, '(embedding', '(id text primary key,"
        " embedding') where name = 'entity_embeddings'",
    ],
)
def test_a_table_of_vectors_that_cannot_be_understood_is_counted(
    tmp_path: Path, statement: str
) -> None:
    path = make(tmp_path / "m.db", "embedding float[4]", 3)
    conn = sqlite3.connect(path)
    conn.execute("pragma writable_schema=on")
    conn.execute(statement)
    conn.commit()
    conn.close()
    items, notes, _ = read(path, with_vectors=True)
    assert not of(items, Vector)
    assert notes.not_carried == {"vectors": 3}


def test_a_file_without_vectors(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    conn = sqlite3.connect(path)
    conn.executescript(ddl())
    conn.close()
    items, notes, _ = read(path, with_vectors=True)
    assert not items
    assert not notes.not_carried
