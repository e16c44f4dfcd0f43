"""Reading the SQLite file of an MCP Memory v2 server: what becomes of every row."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp_v2_helpers import LOOSE, READ, RELEASES, T1, T2, T3, ddl, make, of, read, reasons

from datasette_limbic.errors import DatabaseUnusable, UnknownFormat
from datasette_limbic.importing.items import (
    AccessCount,
    Entity,
    Item,
    LogEntry,
    Observation,
    PairCount,
    Rejection,
    Relation,
    Vector,
)
from datasette_limbic.importing.mcp_v2 import FORMAT, sqlite_source
from datasette_limbic.importing.notes import Notes

FILES = (
    "mcp_memory_v2.db",
    "mcp_memory_v2_stock_vec0.db.gz",
    "mcp_memory_v2_first_release.db",
)


def peer_file(shared: Path, name: str, folder: Path) -> Path:
    source = shared / "data" / "peer_files" / name
    if not source.exists():
        pytest.skip(f"{name} is not among the shared files")
    path = folder / name.removesuffix(".gz")
    data = source.read_bytes()
    path.write_bytes(gzip.decompress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", FILES)
def test_a_servers_own_file_gives_the_documented_counts(
    shared: Path, tmp_path: Path, name: str
) -> None:
    items, notes, source = read(peer_file(shared, name, tmp_path), with_vectors=True)
    told = json.loads((shared / "data" / "peer_files" / "counts.json").read_text("utf-8"))[name]
    entities, relations = of(items, Entity), of(items, Relation)
    observations = [o for entity in entities for o in entity.observations]
    assert (source.format, source.unit) == (FORMAT, "row")
    assert not reasons(items)
    assert len(entities) == told["entities"]
    assert len(observations) == told["observations"]
    assert len(relations) == told["relations"]
    assert (
        sum(not entity.observations for entity in entities) == told["entities_without_observations"]
    )
    assert sum(r.source == r.target for r in relations) == told["self_relations"]
    assert Counter(e.entity_type for e in entities) == told["entities_by_type"]
    assert sum(e.archived_at is not None for e in entities) == told["archived"]
    assert sum(o.valid_to is not None for o in observations) == told["observations_superseded"]
    assert (
        sum(o.supersedes is not None for o in observations) == told["observations_with_supersedes"]
    )
    assert sum(o.flag for o in observations) == told["observations_flagged"]
    assert Counter(o.kind for o in observations if o.kind) == told.get("observations_by_kind", {})
    assert sum(r.valid_to is not None for r in relations) == told["relations_ended"]
    counts = of(items, AccessCount)
    assert (len(counts), sum(c.count for c in counts)) == (
        told["access_rows"],
        told["access_count_total"],
    )
    assert len(of(items, LogEntry)) == told["access_log_rows"]
    pairs = of(items, PairCount)
    assert (len(pairs), sum(p.count for p in pairs)) == (
        told["co_occurrence_rows"],
        told["co_count_total"],
    )
    assert len(of(items, Vector)) == told["vectors"]
    largest = max(entities, key=lambda e: len(e.observations))
    assert [largest.name, len(largest.observations)] == told["largest_entity"]
    times = [e.created_at for e in entities] + [o.created_at for o in observations]
    times += [r.created_at for r in relations]
    assert told["oldest_created_at"] == min(times)
    assert told["newest_created_at"] == max(times)
    expected = {"searches": "search_events", "search results": "search_results"}
    expected["reflections"] = "reflections"
    for shown, key in expected.items():
        assert notes.not_carried[shown] == told[key]
    statuses = told.get("entities_by_status", {})
    for status in ("pausado", "completado"):
        assert notes.not_carried[f"status {status}"] == statuses.get(status, 0)
    assert not any("fts" in what or "_chunks" in what for what in notes.not_carried)


def test_legacy_types_of_a_servers_own_file_are_renamed(shared: Path, tmp_path: Path) -> None:
    items, notes, _ = read(peer_file(shared, "mcp_memory_v2.db", tmp_path))
    renamed = [r for r in of(items, Relation) if r.context == "sesión continuación"]
    assert [r.relation_type for r in renamed] == ["contribuye_a"]
    with_context = [r for r in of(items, Relation) if r.context]
    assert len(with_context) == 4 + 1  # those of the file, and the one of the renamed
    assert notes.not_carried["vectors"] == 14
    assert any("6 of them (7) are in the counts alone" in remark for remark in notes.remarks)


FULL: dict[str, list[dict[str, Any]]] = {
    "entities": [
        {"id": 2, "name": "Café", "entity_type": "Lugar", "created_at": T1, "updated_at": T2},
        {"id": 5, "name": "cafe", "created_at": T1, "updated_at": T1},
    ],
    "observations": [
        {"id": 1, "entity_id": 5, "content": "uno\ndos", "created_at": T1},
        {"id": 2, "entity_id": 2, "content": "tres", "created_at": T2},
        {"id": 3, "entity_id": 5, "content": "cuatro 🌊", "created_at": T3},
    ],
    "relations": [
        {"id": 9, "from_entity": 5, "to_entity": 2, "relation_type": "usa", "created_at": T1},
        {"id": 10, "from_entity": 5, "to_entity": 5, "relation_type": "usa", "created_at": T1},
    ],
    "db_metadata": [{"key": "gamma", "value": "0.01"}],
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("status", [None, "archivado"])
def test_every_release_of_the_server_is_read(
    tmp_path: Path, release: str, status: str | None
) -> None:
    schema = ddl(release)
    rows = dict(FULL)
    if "entity_access (" in schema:
        rows["entity_access"] = [{"entity_id": 5, "access_count": 3, "last_access": T3}]
        rows["co_occurrences"] = [
            {"entity_a_id": 2, "entity_b_id": 5, "co_count": 4, "last_co": T2}
        ]
    if "search_events" in schema:
        rows["search_events"] = [{"event_id": 1, "query_text": "q"}]
    if "entity_access_log" in schema:
        rows["entity_access_log"] = [
            {"entity_id": 5, "access_date": "2025-03-01", "access_count": 3}
        ]
    if "status" in schema:
        rows["entities"] = [{**row, "status": status or "activo"} for row in rows["entities"]]
    items, notes, _ = read(make(tmp_path / "m.db", rows, schema))
    cafe, lower = of(items, Entity)
    assert (cafe.name, cafe.entity_type, cafe.created_at, cafe.updated_at) == (
        *("Café", "Lugar"),
        *(T1, T2),
    )
    assert (lower.entity_type, lower.last_activity_at, lower.key) == ("Generic", None, None)
    assert [o.content for o in lower.observations] == ["uno\ndos", "cuatro 🌊"]
    assert [o.created_at for o in lower.observations] == [T1, T3]
    assert [tuple(r[:4]) for r in of(items, Relation)] == [
        ("cafe", "Café", "usa", T1),
        ("cafe", "cafe", "usa", T1),
    ]
    newest = "status" in schema
    assert {o.kind for e in (cafe, lower) for o in e.observations} == {
        "generic" if newest else None
    }
    assert [e.archived_at for e in (cafe, lower)] == (
        [T2, T1] if newest and status else [None, None]
    )
    assert of(items, AccessCount) == [AccessCount("cafe", 3, T3)] * ("entity_access" in rows)
    assert of(items, PairCount) == [PairCount("Café", "cafe", 4, T2)] * ("co_occurrences" in rows)
    assert of(items, LogEntry) == [LogEntry("cafe", None, "2025-03-01 00:00:00")] * (
        "entity_access_log" in rows
    )
    assert notes.not_carried["searches"] == ("search_events" in rows)
    assert notes.not_carried["settings (db_metadata)"] == 1
    assert [item.line for item in items][:4] == [2, 5, 9, 10]
    assert not reasons(items)


def test_a_memory_without_rows_is_fine(tmp_path: Path) -> None:
    items, notes, source = read(make(tmp_path / "m.db", {}, ddl()))
    assert (items, source.counted.lines, notes) == ([], 0, Notes())


def one(tmp_path: Path, **cells: Any) -> tuple[list[Item], Notes]:
    """What becomes of one entity with these cells, and one observation."""
    row = {"id": 1, "name": "A", "created_at": T1, "updated_at": T2, **cells}
    items, notes, _ = read(make(tmp_path / "m.db", {"entities": [row]}))
    return items, notes


@pytest.mark.parametrize(
    ("cells", "archived_at"),
    [
        ({"status": "archivado"}, T2),
        ({"status": " Archivado "}, T2),
        ({"status": b"ARCHIVADO"}, T2),
        ({"status": "archivado", "updated_at": "ayer"}, T1),
        ({"status": "archivado", "updated_at": None}, T1),
        ({"status": "archivado", "updated_at": None, "created_at": ""}, "1970-01-01 00:00:00"),
        ({"status": "activo"}, None),
        ({"status": None}, None),
        ({"status": ""}, None),
        ({}, None),
    ],
)
def test_archived_means_since_its_last_change(
    tmp_path: Path, cells: dict[str, Any], archived_at: str | None
) -> None:
    items, notes = one(tmp_path, **cells)
    (entity,) = of(items, Entity)
    assert entity.archived_at == archived_at
    assert entity.archived_reason == ("status: archivado" if archived_at else None)
    assert not notes.not_carried
    assert bool(notes.remarks) == (archived_at == "1970-01-01 00:00:00")


def test_archived_without_times_of_its_own_takes_its_observations_newest(tmp_path: Path) -> None:
    rows = {
        "entities": [{"id": 1, "name": "A", "status": "archivado"}],
        "observations": [
            {"entity_id": 1, "content": "x", "created_at": T3},
            {"entity_id": 1, "content": "y", "created_at": T2},
        ],
    }
    items, _, _ = read(make(tmp_path / "m.db", rows))
    assert of(items, Entity)[0].archived_at == T3


def test_other_statuses_are_counted(tmp_path: Path) -> None:
    rows = {"entities": [{"name": f"a{n}", "status": "pausado"} for n in range(3)]}
    rows["entities"] += [{"name": f"b{n}", "status": f"odd {n}"} for n in range(100)]
    _, notes, _ = read(make(tmp_path / "m.db", rows))
    assert notes.not_carried["status pausado"] == 3
    assert notes.not_carried["other statuses"] > 40
    assert notes.not_carried.total() == 103
    assert len(notes.not_carried) <= 51


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (None, None),
        ("", None),
        (" \n", None),
        (b"", None),
        (7, "7"),
        (1.5, "1.5"),
        (b"Caf\xc3\xa9", "Café"),
        (b"Caf\xe9", "Caf\ufffd"),
        ("O'Brien 🌊 中文 空格", "O'Brien 🌊 中文 空格"),
    ],
)
def test_names_of_any_type(tmp_path: Path, given: Any, name: str | None) -> None:
    path = make(
        tmp_path / "m.db",
        {
            "entities": [{"id": 1, "name": given}, {"id": 2, "name": "B"}],
            "observations": [{"id": 4, "entity_id": 1, "content": "x"}],
            "relations": [{"id": 3, "from_entity": 2, "to_entity": 1, "relation_type": "r"}],
        },
    )
    items, notes, _ = read(path)
    if name is None:
        assert [e.name for e in of(items, Entity)] == ["B"]
        why = "no name" if given is None else "an empty name"
        assert reasons(items) == [
            f"entities row 1: {why}",
            f"observations row 4: its entity (id 1) has {why}",
            "relations row 3: the entity with id 1 has no name",
        ]
    else:
        assert [e.name for e in of(items, Entity)] == [name, "B"]
        assert of(items, Relation)[0].target == name
        assert not reasons(items)
    assert notes.replaced_characters == (given == b"Caf\xe9")


def test_text_that_is_no_utf8_is_read_and_counted(tmp_path: Path) -> None:
    path = make(tmp_path / "m.db", {})
    conn = sqlite3.connect(path)
    bad = "cast(x'61FF62' as text)"
    conn.execute(f"insert into entities(id, name, entity_type) values (1, {bad}, {bad})")
    conn.execute(f"insert into observations(entity_id, content, kind) values (1, {bad}, {bad})")
    conn.execute(f"insert into observations(entity_id, content) values ({bad}, {bad})")
    conn.execute(f"insert into observations(entity_id, content, created_at) values (1, 'y', {bad})")
    conn.execute(
        f"insert into relations(from_entity, to_entity, relation_type, context) values"
        f" (1, 1, {bad}, {bad})"
    )
    conn.execute(f"insert into entity_access_log(entity_id, access_date) values (1, {bad})")
    conn.commit()
    conn.close()
    items, notes, _ = read(path)
    (entity,) = of(items, Entity)
    assert (entity.name, entity.entity_type) == ("a\ufffdb", "a\ufffdb")
    assert entity.observations[0] == Observation("a\ufffdb", kind="a\ufffdb")
    assert of(items, Relation)[0] == Relation(*["a\ufffdb"] * 3, context="a\ufffdb")
    assert notes.unreadable[("observation.createdAt", "a\ufffdb")] == 1
    assert reasons(items) == [
        'observations row 2: no entity with id "a\ufffdb"',
        'entity_access_log row 1: no readable date but "a\ufffdb"',
    ]


def observations_of(tmp_path: Path, *rows: dict[str, Any]) -> tuple[list[Item], Notes]:
    path = make(tmp_path / "m.db", {"entities": [{"id": 1, "name": "A"}], "observations": [*rows]})
    items, notes, _ = read(path)
    return items, notes


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("x", "x"),
        (12, "12"),
        (b"bytes", "bytes"),
        ("a\x00b", "a\x00b"),
        ("", "skipped"),
        (" \t\u00a0", "skipped"),
        (None, "rejected"),
    ],
)
def test_contents_of_any_type(tmp_path: Path, content: Any, expected: str) -> None:
    items, _ = observations_of(tmp_path, {"id": 3, "entity_id": 1, "content": content})
    (entity,) = of(items, Entity)
    found = [o.content for o in entity.observations]
    assert found == ([] if expected in ("skipped", "rejected") else [expected])
    assert entity.skipped == ["an empty text"] * (expected == "skipped")
    assert reasons(items) == ["observations row 3: no content, in A"] * (expected == "rejected")


@pytest.mark.parametrize(
    ("given", "flag", "noted"),
    [
        *((0, 0, 0), (1, 1, 0), (None, 0, 0), (1.0, 1, 0)),
        *((2, 0, 1), (-1, 0, 1), ("yes", 0, 1), (b"\xff", 0, 1), (1e308, 0, 1)),
    ],
)
def test_flags(tmp_path: Path, given: Any, flag: int, noted: int) -> None:
    items, notes = observations_of(
        tmp_path, {"entity_id": 1, "content": "x", "similarity_flag": given}
    )
    assert of(items, Entity)[0].observations[0].flag == flag
    assert notes.unreadable.total() == noted


@pytest.mark.parametrize(
    ("given", "time"),
    [
        ("2025-01-01T10:00:00Z", T1),
        ("2025-01-01 11:00:00.250+01:00", "2025-01-01 10:00:00.250"),
        (1735725600, T1),
        (b"2025-01-01 10:00:00", T1),
        (None, None),
        ("", None),
        ("mañana", None),
        (float("inf"), None),
        (b"\xff", None),
    ],
)
def test_times(tmp_path: Path, given: Any, time: str | None) -> None:
    items, notes = one(tmp_path, created_at=given)
    assert of(items, Entity)[0].created_at == time
    assert notes.unreadable.total() == (time is None and given not in (None, ""))


def test_what_was_replaced_is_history(tmp_path: Path) -> None:
    base = {"entity_id": 1, "created_at": T1}
    items, notes = observations_of(
        tmp_path,
        {**base, "id": 1, "content": "first", "superseded_at": T3},
        {**base, "id": 2, "content": "second", "supersedes": 1, "created_at": T2},
        {**base, "id": 3, "content": "third", "supersedes": 2, "created_at": T3},
        {**base, "id": 4, "content": "also third", "supersedes": 2, "created_at": T1},
        {**base, "id": 5, "content": "itself", "supersedes": 5},
        {**base, "id": 6, "content": "dangling", "supersedes": 77},
        {**base, "id": 7, "content": "garbage", "supersedes": "x"},
        {**base, "id": 8, "content": "no time", "superseded_at": "long ago"},
        {**base, "id": 9, "content": "empty time", "superseded_at": "", "created_at": None},
        {**base, "id": 10, "content": "replaced, untold"},
        {**base, "id": 11, "content": "untold", "supersedes": 10, "created_at": None},
    )
    found = {o.content: o[5:] for o in of(items, Entity)[0].observations}
    assert found == {
        # valid_to, flag, ref, supersedes
        "first": (T3, 0, 1, None),
        "second": (T3, 0, 2, 1),
        "third": (None, 0, None, 2),
        "also third": (None, 0, None, 2),
        "itself": (None, 0, None, None),
        "dangling": (None, 0, None, None),
        "garbage": (None, 0, None, None),
        "no time": (T1, 0, None, None),
        "empty time": ("1970-01-01 00:00:00", 0, None, None),
        "replaced, untold": (T1, 0, 10, None),
        "untold": (None, 0, None, 10),
    }
    assert notes.unreadable == {("observation.validTo", "long ago"): 1}
    assert len(notes.remarks) == 2
    assert "not in the file: 3." in notes.remarks[0]
    assert "no known time: 1," in notes.remarks[1]


@pytest.mark.parametrize(
    ("cells", "valid_to", "noted"),
    [
        ({}, None, 0),
        ({"active": 1}, None, 0),
        ({"active": None}, None, 0),
        ({"active": 0, "ended_at": T3}, T3, 0),
        ({"active": 1, "ended_at": T3}, T3, 0),
        ({"active": 0}, T1, 0),
        ({"active": "0"}, T1, 0),
        ({"active": 0, "created_at": None}, "1970-01-01 00:00:00", 0),
        ({"active": 0, "ended_at": "x"}, T1, 1),
        ({"active": 1, "ended_at": "x"}, None, 1),
        ({"active": "quizás"}, None, 1),
    ],
)
def test_ended_relations(
    tmp_path: Path, cells: dict[str, Any], valid_to: str | None, noted: int
) -> None:
    row = {"from_entity": 1, "to_entity": 1, "relation_type": "r", "created_at": T1, **cells}
    items, notes, _ = read(
        make(tmp_path / "m.db", {"entities": [{"id": 1, "name": "A"}], "relations": [row]})
    )
    assert of(items, Relation)[0].valid_to == valid_to
    assert notes.unreadable.total() == noted


def test_legacy_types_that_clash_come_as_two_rows(tmp_path: Path) -> None:
    ends = {"from_entity": 1, "to_entity": 2}
    relations = [
        {**ends, "relation_type": "continua"},
        {**ends, "relation_type": "contribuye_a", "context": "own"},
        {**ends, "relation_type": "documentado_en"},
        {"from_entity": 2, "to_entity": 1, "relation_type": "continua", "context": "told"},
        {**ends, "relation_type": "Continua"},
    ]
    rows = {"entities": [{"name": "A"}, {"name": "B"}], "relations": relations}
    items, notes, _ = read(make(tmp_path / "m.db", rows))
    assert [(r.relation_type, r.context) for r in of(items, Relation)] == [
        ("contribuye_a", "sesión continuación"),
        ("contribuye_a", "own"),
        ("producido_por", None),
        ("contribuye_a", "told"),
        ("Continua", None),
    ]
    assert len(notes.remarks) == 1
    assert "next start: 3 (" in notes.remarks[0]


@pytest.mark.parametrize(
    ("table", "row", "reason"),
    [
        ("observations", {"entity_id": 99, "content": "x"}, "no entity with id 99"),
        ("observations", {"entity_id": -1, "content": "x"}, "no entity with id -1"),
        ("observations", {"entity_id": None, "content": "x"}, "no entity with id null"),
        ("observations", {"entity_id": "z", "content": "x"}, 'no entity with id "z"'),
        ("observations", {"entity_id": b"\xff", "content": b"\xff"}, "no entity with id \"x'ff'\""),
        ("observations", {"entity_id": 1.5, "content": "x"}, "no entity with id 1.5"),
        (
            "relations",
            {"from_entity": 8, "to_entity": 9, "relation_type": "r"},
            "no entity with id 8; no entity with id 9",
        ),
        (
            "relations",
            {"from_entity": 8, "to_entity": 8, "relation_type": "r"},
            "no entity with id 8",
        ),
        ("relations", {"from_entity": 1, "to_entity": 2}, "no relation_type"),
        ("relations", {"from_entity": 1, "to_entity": 2, "relation_type": " "}, "no relation_type"),
        ("entity_access", {"entity_id": 9, "access_count": 1}, "no entity with id 9"),
        ("entity_access", {"entity_id": 1, "access_count": -1}, "no count of accesses but -1"),
        ("entity_access", {"entity_id": 1}, "no count of accesses but null"),
        ("entity_access_log", {"entity_id": 9, "access_date": T1}, "no entity with id 9"),
        ("entity_access_log", {"entity_id": 1}, "no readable date but null"),
        (
            "entity_access_log",
            {"entity_id": 1, "access_date": T1, "access_count": 0},
            "no count of accesses but 0",
        ),
        (
            "co_occurrences",
            {"entity_a_id": 1, "entity_b_id": 1, "co_count": 2},
            "both ends are the entity with id 1",
        ),
        (
            "co_occurrences",
            {"entity_a_id": 1, "entity_b_id": 3, "co_count": 2},
            'both ends are entities of the name "A"',
        ),
        (
            "co_occurrences",
            {"entity_a_id": 1, "entity_b_id": 2, "co_count": 0},
            "no count of at least 1 but 0",
        ),
        (
            "co_occurrences",
            {"entity_a_id": 1, "entity_b_id": 2, "co_count": "many"},
            'no count of at least 1 but "many"',
        ),
        (
            "co_occurrences",
            {"entity_a_id": 1, "entity_b_id": 9, "co_count": 1},
            "no entity with id 9",
        ),
    ],
)
def test_rows_that_cannot_be_used(
    tmp_path: Path, table: str, row: dict[str, Any], reason: str
) -> None:
    entities = [{"id": 1, "name": "A"}, {"id": 2, "name": "B"}, {"id": 3, "name": "A"}]
    items, _, _ = read(make(tmp_path / "m.db", {"entities": entities, table: [row]}))
    assert reasons(items) == [f"{table} row 1: {reason}"]
    assert len(of(items, Entity)) == 3  # one name twice, both of them


def test_a_rejected_row_keeps_what_it_held(tmp_path: Path) -> None:
    row = {"id": 5, "entity_id": 9, "content": b"\x00" * 5000, "created_at": "él", "kind": 1e999}
    items, _, _ = read(make(tmp_path / "m.db", {"observations": [row]}))
    raw = json.loads(items[0].raw)
    assert (items[0].line, raw["id"], raw["created_at"], raw["kind"]) == (5, 5, "él", "inf")
    assert raw["content"].startswith("x'0000")
    assert raw["content"].endswith("(5,000 bytes)")
    assert raw["superseded_at"] is None


def test_days_of_several_accesses_are_remarked(tmp_path: Path) -> None:
    log = [
        {"entity_id": 1, "access_date": "2025-01-01", "access_count": 3},
        {"entity_id": 1, "access_date": "2025-01-02", "access_count": 1},
        {"entity_id": 1, "access_date": "2025-01-03", "access_count": 2},
    ]
    rows = {"entities": [{"id": 1, "name": "A"}], "entity_access_log": log}
    items, notes, _ = read(make(tmp_path / "m.db", rows))
    assert len(of(items, LogEntry)) == 3
    assert "2 of them (3)" in notes.remarks[0]


def test_what_has_no_place_is_counted(tmp_path: Path) -> None:
    schema = ddl() + (
        "create table diary (x); create table [odd \"'] (x);"
        "create virtual table words using fts5(x); create table words_more (x);"
        "create table bare (x); create view look as select 1;"
        "alter table entities add column mood text; alter table entities add column void text;"
    )
    rows: dict[str, list[dict[str, Any]]] = {
        "entities": [{"name": "A", "mood": "happy"}, {"name": "B", "mood": None}],
        "search_events": [{"event_id": n} for n in range(3)],
        "search_results": [{"event_id": 1}],
        "implicit_feedback": [{"event_id": 1}],
        "reflections": [{"content": "x"}],
        "diary": [{"x": 1}, {"x": 2}],
        "words": [{"x": "hello"}],
        "words_more": [{"x": 1}],
        "[odd \"']": [{"x": 1}],
    }
    _, notes, _ = read(make(tmp_path / "m.db", rows, schema))
    assert notes.not_carried == {
        "searches": 3,
        "search results": 1,
        "implicit feedback": 1,
        "reflections": 1,
        "rows of the table diary": 2,
        "rows of the table words_more": 1,
        "rows of the table odd \"'": 1,
    }
    assert notes.extra_keys == {"entities.mood": 1}


def test_a_later_table_without_its_columns_is_left_out_and_said(tmp_path: Path) -> None:
    schema = ddl("2026-03-21") + "create table entity_access (entity_id, hits);"
    rows = {"entity_access": [{"entity_id": 1, "hits": 2}]}
    items, notes, _ = read(make(tmp_path / "m.db", rows, schema))
    assert not items
    assert notes.not_carried == {"rows of the table entity_access, which lacks access_count": 1}


def test_names_of_tables_and_columns_may_be_in_capitals(tmp_path: Path) -> None:
    schema = LOOSE.upper()
    rows = {"ENTITIES": [{"ID": 1, "NAME": "A", "STATUS": "ARCHIVADO", "CREATED_AT": T1}]}
    items, _, _ = read(make(tmp_path / "m.db", rows, schema))
    assert of(items, Entity)[0].archived_at == T1


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("", "an empty SQLite database"),
        ("create table a(x); create table b(x);", "without a memory in it (tables: a, b)"),
        (
            "".join(f"create table t{n}(x);" for n in range(20)),
            "(tables: t0, t1, t10, t11, t12, t13, t14, t15 and 12 more)",
        ),
        ("create table entities(id, name);", "without a memory in it (tables: entities)"),
        (
            LOOSE.replace("entities (id integer primary key, name", "entities (id, title"),
            "its table entities has no column name (it has id, title, ",
        ),
        (
            LOOSE.replace("(id integer primary key, from_entity, to_entity", "(x"),
            "its table relations has no column id and no from_entity and no to_entity",
        ),
        (
            LOOSE.replace("entities (id integer primary key", "entities (id text primary key"),
            "the id of the table entities is no INTEGER PRIMARY KEY",
        ),
        (
            LOOSE + "create table limbic_stale(x);",
            "s.db' out.ndjson --format full', then import out.ndjson",
        ),
        (
            "create table e(id integer primary key, name);"
            "create view entities as select * from e;"
            "create table observations(id integer primary key, entity_id, content);"
            "create table relations(id integer primary key, from_entity, to_entity, x);",
            "without a memory in it (tables: e, observations, relations)",
        ),
        (
            "create virtual table entities using fts5(id, name);"
            "create table observations(x); create table relations(x);",
            "without a memory in it (tables: entities, observations, relations)",
        ),
    ],
)
def test_other_databases_are_told_apart(tmp_path: Path, schema: str, said: str) -> None:
    path = tmp_path / "it's.db"
    conn = sqlite3.connect(path)
    conn.executescript("create table gone(x); drop table gone;" + schema)
    conn.close()
    with pytest.raises(UnknownFormat) as raised:
        sqlite_source(path)
    assert str(raised.value).startswith(f"{path} is ")
    assert said in str(raised.value)


def test_a_memory_of_ours_is_to_be_exported(empty_db: Path) -> None:
    with pytest.raises(UnknownFormat, match=r"export .*empty\.db out\.ndjson --format full"):
        sqlite_source(empty_db)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"SQLite format 3\x00", "damaged"),
        (b"SQLite format 3\x00" + b"\x9c" * 5000, "damaged"),
        (b"SQLite format 3\x00\x10\x00\x01\x01\x00@  " + b"\xa7" * 9000, "damaged"),
    ],
)
def test_broken_files_are_told(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "m.db"
    path.write_bytes(data)
    with pytest.raises(UnknownFormat, match=said):
        sqlite_source(path)
    assert [p.name for p in tmp_path.iterdir()] == ["m.db"]


def test_damage_further_in_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    rows = {
        "entities": [{"name": "A"}],
        "observations": [{"entity_id": 1, "content": "x" * 2000} for _ in range(200)],
    }
    path = make(tmp_path / "m.db", rows, ddl())
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4096 * 4] = b"\xff" * 4096 * 4
    path.write_bytes(data)
    with pytest.raises(DatabaseUnusable, match=r"m\.db is damaged"):
        read(path)


def test_an_index_that_lost_rows_is_noticed(tmp_path: Path) -> None:
    rows = {
        "entities": [{"name": "A"}],
        "observations": [{"entity_id": 1, "content": f"x{n}"} for n in range(9)],
    }
    path = make(tmp_path / "m.db", rows, ddl("2026-03-21"))
    conn = sqlite3.connect(path)
    conn.execute("create table other(id integer primary key, entity_id integer)")
    conn.execute("create index other_index on other(entity_id)")
    conn.execute("insert into other select id, entity_id from observations where id < 5")
    conn.execute("pragma writable_schema=on")
    conn.execute(
        "update sqlite_master set rootpage = (select rootpage from sqlite_master where"
        " name = 'other_index') where name = 'idx_obs_entity'"
    )
    conn.execute("delete from sqlite_master where name in ('other', 'other_index')")
    conn.commit()
    conn.close()
    with pytest.raises(DatabaseUnusable, match="an index leaves rows of it out"):
        read(path)


VALUES = st.one_of(
    st.none(),
    st.integers(-3, 8),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.binary(max_size=6),
    st.text(max_size=6).filter(lambda t: t.isprintable() or "\ud800" not in t),
    st.sampled_from([T1, T2, "archivado", "pausado", "continua", "x", " ", "", "0", "1"]),
)
IDS = st.one_of(st.integers(0, 6), st.integers(0, 6), VALUES)


@st.composite
def databases(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    columns = {
        "entities": ["name", "entity_type", "created_at", "updated_at", "status"],
        "observations": "content created_at similarity_flag kind superseded_at".split(),
        "relations": "relation_type created_at context active ended_at".split(),
        "entity_access": ["access_count", "last_access"],
        "entity_access_log": ["access_date", "access_count"],
        "co_occurrences": ["co_count", "last_co"],
    }
    links = {
        "observations": ["entity_id", "supersedes"],
        "relations": ["from_entity", "to_entity"],
        "entity_access": ["entity_id"],
        "entity_access_log": ["entity_id"],
        "co_occurrences": ["entity_a_id", "entity_b_id"],
    }
    found = {}
    for table, plain in columns.items():
        row = st.fixed_dictionaries(
            {}, optional=dict.fromkeys(plain, VALUES) | dict.fromkeys(links.get(table, []), IDS)
        )
        rows = draw(st.lists(row.filter(bool), max_size=5))
        if table in ("entities", "observations", "relations"):
            numbers = st.lists(
                st.one_of(st.integers(-1, 9), st.integers(-(2**63), 2**63 - 1)),
                min_size=len(rows),
                max_size=len(rows),
                unique=True,
            )
            rows = [{"id": number, **row} for number, row in zip(draw(numbers), rows, strict=True)]
        found[table] = rows
    return found


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=databases(), indexed=st.booleans())
def test_any_rows_are_read_once_each(
    tmp_path: Path, rows: dict[str, list[dict[str, Any]]], indexed: bool
) -> None:
    path = tmp_path / "m.db"
    path.unlink(missing_ok=True)
    schema = LOOSE + "create index i on observations(entity_id);" * indexed
    items, _, _ = read(make(path, rows, schema))
    inside = sum(len(e.observations) + len(e.skipped) for e in of(items, Entity))
    assert len(items) + inside == sum(len(every) for every in rows.values())
    for table in READ:
        told = [i for i in items if isinstance(i.row, Rejection)]
        told = [i for i in told if i.row.reason.startswith(f"{table} row {i.line}: ")]
        assert len({i.line for i in told}) == len(told)
    kinds = [Entity, Relation, AccessCount, LogEntry, PairCount]
    order = [kinds.index(type(i.row)) for i in items if not isinstance(i.row, Rejection)]
    assert order == sorted(order)
    for text in _texts(items):
        text.encode("utf-8")


def _texts(items: list[Item]) -> list[str]:
    texts: list[str] = []
    for item in items:
        row = item.row
        if isinstance(row, Entity):
            texts += [row.name, row.entity_type or "", *row.skipped]
            texts += [value for o in row.observations for value in o if isinstance(value, str)]
        else:
            texts += [value for value in row if isinstance(value, str)]
    return texts


@pytest.mark.slow
@pytest.mark.parametrize("indexed", [True, False])
def test_memory_stays_flat(tmp_path: Path, indexed: bool) -> None:
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("this system does not tell how much memory is in use")
    path = make(tmp_path / "m.db", {})
    conn = sqlite3.connect(path)
    conn.executemany(
        "insert into entities(id, name) values (?, ?)", ((n, f"e{n}") for n in range(2000))
    )
    conn.executemany(
        "insert into observations(entity_id, content, created_at) values (?, ?, ?)",
        ((n * 7919 % 2000, f"observation {n} " + "x" * 1600, T1) for n in range(50_000)),
    )
    if indexed:
        conn.execute("create index i on observations(entity_id)")
    conn.commit()
    conn.close()

    def used() -> int:
        return int(statm.read_text().split()[1]) * 4096

    source = sqlite_source(path)
    before, most, seen = used(), 0, 0
    for number, item in enumerate(source.items(Notes())):
        seen += len(item.row.observations) if isinstance(item.row, Entity) else 0
        if number % 50 == 0:
            most = max(most, used())
    assert seen == 50_000
    assert most - before < 40e6
