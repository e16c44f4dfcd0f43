"""Reading exports of Engrama."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from importing_helpers import write_lines

from datasette_limbic.errors import UnknownFormat
from datasette_limbic.importing.engrama import EngramaSource, engrama_source
from datasette_limbic.importing.engrama.nodes import WITHOUT_HOME
from datasette_limbic.importing.items import Entity, Insight, Item, Observation, Rejection, Relation
from datasette_limbic.importing.notes import Notes
from datasette_limbic.importing.records import MAX_RECORD

ENVELOPE = {
    "engrama_export": 1,
    "version": "0.18.1",
    "exported_at": "2026-11-29T19:39:08.895712+00:00",
    "source_backend": "sqlite",
    "embedding_model": "",
    "embedding_dimensions": 8,
}
PEER_FILES = [
    "engrama_export.ndjson",
    "engrama_export_vectors.ndjson",
    "engrama_0.18.1_export.ndjson",
    "engrama_0.18.1_export_vectors.ndjson",
]


class Read:
    """Everything that one reading gave, with the lines added up."""

    def __init__(self, path: Path) -> None:
        self.source = engrama_source(path, path.stat().st_size, ENVELOPE)
        self.notes = Notes()
        self.items = list(self.source.items(self.notes))
        rows = [item.row for item in self.items]
        self.entities = [row for row in rows if isinstance(row, Entity)]
        self.relations = [row for row in rows if isinstance(row, Relation)]
        self.insights = [row for row in rows if isinstance(row, Insight)]
        self.reasons = [row.reason for row in rows if isinstance(row, Rejection)]
        self.names = [entity.name for entity in self.entities]
        counted = self.source.counted
        yielded = len(self.entities) + len(self.relations) + len(self.reasons)
        assert counted.lines - counted.blank + counted.glued == yielded + self.source.counted.beside
        json.dumps([item.raw for item in self.items]).encode()

    @property
    def only(self) -> Entity:
        assert self.reasons == []
        (entity,) = self.entities
        return entity

    def texts(self) -> list[str]:
        return [observation.content for observation in self.only.observations]


def node(
    key: Any, label: Any = "Concept", owner: str | None = None, **properties: Any
) -> dict[str, Any]:
    field = "title" if label in ("Insight", "Decision") else "name"
    if owner:
        properties["org_id"], properties["user_id"] = owner.split("/")
    properties = {field: key, **properties}
    return {
        "type": "node",
        "label": label,
        "key_field": field,
        "key_value": key,
        "properties": properties,
    }


def relation(source: str, target: str, owner: str | None = None, **more: Any) -> dict[str, Any]:
    """The ends are written ``Label: key``."""
    start, end = source.split(": ", 1), target.split(": ", 1)
    org, user = owner.split("/") if owner else (None, None)
    row = {"type": "relation", "from_label": start[0], "from_key": "name", "from_value": start[1]}
    row |= {"rel_type": "USES", "to_label": end[0], "to_key": "name", "to_value": end[1]}
    return {**row, "org_id": org, "user_id": user, **more}


def read(tmp_path: Path, *rows: Any) -> Read:
    return Read(write_lines(tmp_path / "export.ndjson", ENVELOPE, *rows))


@pytest.mark.parametrize("name", PEER_FILES)
def test_figures_of_real_exports(shared: Path, name: str) -> None:
    folder = shared / "data" / "peer_files"
    if not (folder / name).is_file():
        pytest.skip(f"{name} is not among the shared files")
    expected = json.loads((folder / "counts.json").read_text(encoding="utf-8"))[name]
    result = Read(folder / name)
    entities, notes = result.entities, result.notes
    observations = [o for entity in entities for o in entity.observations]
    found = {
        "lines": result.source.counted.lines,
        "vector_lines": notes.not_carried["vectors"],
        "entities": len(set(result.names)),
        "observations": len(observations),
        "observations_by_key": dict(Counter(o.kind for o in observations)),
        "empty_properties": notes.not_carried["empty properties"],
        "properties_to_columns": result.source.columns,
        "properties_without_home": sum(notes.extra_keys.values()),
        "relations": len(set(result.relations)),
        "dangling_relations": len(result.reasons),
        "ambiguous_relations": len(result.reasons),
        "self_relations": sum(r.source == r.target for r in result.relations),
        "archived": sum(e.archived_at is not None for e in entities),
        "with_valid_to": sum(e.valid_to is not None for e in entities),
        "with_created_at": sum(e.created_at is not None for e in entities),
        "with_updated_at": sum(e.updated_at is not None for e in entities),
        "with_last_activity_at": sum(e.last_activity_at is not None for e in entities),
        "confidence_below_1": sum(e.confidence is not None and e.confidence < 1 for e in entities),
        "system_insights": len(result.insights),
        "hand_written_insights": sum(e.entity_type == "Insight" for e in entities)
        - len(result.insights),
        "entities_by_type": dict(Counter(e.entity_type for e in entities)),
    }
    assert found == {key: expected[key] for key in found}
    assert result.source.counted.beside == expected["envelope_lines"] + expected["vector_lines"]
    assert not notes.unreadable
    assert notes.replaced_characters == 0
    keys = {entity.key for entity in entities}
    assert len(keys) == len(entities)
    assert all(r.source in keys and r.target in keys for r in result.relations)
    assert all(insight.entity in keys for insight in result.insights)
    shared_names = expected["names_shared_by_several_nodes"]
    assert not set(shared_names) & set(result.names)
    (remark,) = notes.remarks
    assert all(remark.count(f"{name} (") == count for name, count in shared_names.items())


def test_columns_observations_and_what_has_no_home(tmp_path: Path) -> None:
    result = read(
        tmp_path,
        node(
            "Taller",
            "Course",
            confidence=0.62,
            valid_from="2025-05-01",
            valid_to="2025-12-31T23:59:59+00:00",
            created_at="2024-12-05T10:00:00.123456789+00:00",
            updated_at="2025-02-07T08:30:00.000000000+00:00",
            last_activity_at="2026-08-15T06:45:10.500000000+00:00",
            notes="Line A\nLine B",
            rationale="Range and power",
            type="radio",
            status="active",
            seats=12,
            price=35.5,
            online=False,
            modules=["siembra", 3, True],
            room={"name": "Sala 2", "floor": 1},
            cohort=None,
            description="",
            tags=[],
            blank=" ",
            **dict.fromkeys(WITHOUT_HOME, "x"),
        ),
    )
    entity = result.only
    assert (entity.name, entity.entity_type, entity.replaces) == ("Taller", "Course", True)
    assert entity.key == "Course: Taller [x/x]"
    assert entity.confidence == 0.62
    assert (entity.valid_from, entity.valid_to) == ("2025-05-01 00:00:00", "2025-12-31 23:59:59")
    assert entity.created_at == "2024-12-05 10:00:00.123"
    assert entity.updated_at == "2025-02-07 08:30:00"
    assert entity.last_activity_at == "2026-08-15 06:45:10.500"
    assert (entity.archived_at, entity.archived_reason) == (None, None)
    assert entity.observations == [
        Observation(text, kind=kind)
        for kind, text in [
            ("notes", "Line A\nLine B"),
            ("rationale", "rationale: Range and power"),
            ("type", "type: radio"),
            ("status", "status: active"),
            ("seats", "seats: 12"),
            ("price", "price: 35.5"),
            ("online", "online: false"),
            ("modules", "modules: siembra, 3, true"),
            ("room", 'room: {"name":"Sala 2","floor":1}'),
        ]
    ]
    assert result.source.columns == 6
    assert result.notes.not_carried == {"empty properties": 4}
    assert result.notes.extra_keys == {f"node.{key}": 1 for key in WITHOUT_HOME}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["a", ["b"]], 'x: ["a",["b"]]'),
        (["a", None], 'x: ["a",null]'),
        (["a", ""], 'x: ["a",""]'),
        ([{"b": 1}], 'x: [{"b":1}]'),
        (0, "x: 0"),
        (math.nan, "x: NaN"),
        (10**4000, f"x: 1{'0' * 4000}"),
        ("\u2028 \x85.", "x: \u2028 \x85."),
        ("a\ud800b", "x: a\ufffdb"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_text_of_odd_values(tmp_path: Path, value: Any, text: str) -> None:
    path = tmp_path / "export.ndjson"
    rows = [json.dumps(ENVELOPE), json.dumps(node("A", x=value))]
    path.write_text("\n".join(rows), encoding="utf-8")
    assert Read(path).texts() == [text]


def test_free_text_that_is_no_text_and_a_key_that_differs(tmp_path: Path) -> None:
    row = node("A", notes=["b", "c"], title="A", body={"d": 1})
    row["properties"]["name"] = "Another"
    assert read(tmp_path, row).texts() == [
        "name: Another",
        "notes: b, c",
        "title: A",
        'body: {"d":1}',
    ]


def test_values_that_no_column_takes_are_noted_and_kept(tmp_path: Path) -> None:
    odd = {"confidence": "high", "valid_from": "next spring", "created_at": ["2025-01-01"]}
    result = read(tmp_path, node("A", **odd))
    entity = result.only
    assert (entity.confidence, entity.valid_from, entity.created_at) == (None, None, None)
    assert result.texts() == [
        "confidence: high",
        "valid_from: next spring",
        "created_at: 2025-01-01",
    ]
    assert set(result.notes.unreadable) == {
        ("confidence", "high"),
        ("node.valid_from", "next spring"),
        ("node.created_at", '["2025-01-01"]'),
    }
    assert result.source.columns == 0


@pytest.mark.parametrize(
    ("properties", "at", "reason", "texts"),
    [
        ({"status": "archived", "archived_at": "2026-02-21"}, "2026-02-21 00:00:00", "", []),
        (
            {"status": "archived", "archived_at": "2026-02-21", "archived_reason": "ttl"},
            "2026-02-21 00:00:00",
            "ttl",
            [],
        ),
        (
            {"status": "archived", "updated_at": "2026-01-02", "last_activity_at": "2026-01-03"},
            "2026-01-02 00:00:00",
            "",
            [],
        ),
        (
            {"status": "archived", "created_at": "2026-01-02", "last_activity_at": "2026-01-03"},
            "2026-01-03 00:00:00",
            "",
            [],
        ),
        ({"status": "archived"}, "2026-11-29 19:39:08.896", "", []),
        (
            {"status": "archived", "archived_at": "once", "updated_at": "2026-01-02"},
            "2026-01-02 00:00:00",
            "",
            ["archived_at: once"],
        ),
        ({"archived_at": "2026-02-21"}, "2026-02-21 00:00:00", None, []),
        ({"archived_at": "once"}, None, None, ["archived_at: once"]),
        ({"status": "Archived"}, None, None, ["status: Archived"]),
        ({"status": ["archived"]}, None, None, ["status: archived"]),
    ],
)
def test_archived(
    tmp_path: Path, properties: dict[str, Any], at: str, reason: str | None, texts: list[str]
) -> None:
    result = read(tmp_path, node("A", **properties))
    assert result.only.archived_at == at
    assert result.only.archived_reason == ("status: archived" if reason == "" else reason)
    assert result.texts() == texts


def test_archived_with_no_time_in_the_file_stays_archived(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "e", {"engrama_export": 1}, node("A", status="archived"))
    assert Read(path).only.archived_at is not None


def test_restored_node_is_not_archived(tmp_path: Path) -> None:
    row = node("A", status="active", archived_at="2026-02-21", archived_reason="forget")
    result = read(tmp_path, row)
    assert (result.only.archived_at, result.only.archived_reason) == (None, None)
    assert result.texts() == ["status: active"]
    assert result.notes.extra_keys == {"node.archived_at": 1, "node.archived_reason": 1}


def test_insight_of_a_query(tmp_path: Path) -> None:
    row = node(
        "Stale knowledge",
        "Insight",
        "o/u",
        body="The tool …",
        confidence=0.5,
        status="approved",
        source_query="stale_knowledge",
        approved_at="2026-06-18",
        created_at="2026-03-21",
        updated_at="2026-06-17",
        engrama_id="id-1",
        trust_level=0.8,
        nodes=["A", math.nan],
    )
    result = read(tmp_path, row)
    entity = result.only
    assert [o.kind for o in entity.observations] == ["body", "status", "source_query", "nodes"]
    assert result.insights == [
        Insight(
            key="engrama:id-1",
            kind="stale_knowledge",
            entity="Insight: Stale knowledge [o/u]",
            title="Stale knowledge",
            body="The tool …",
            evidence='{"engrama_id":"id-1","nodes":"[\\"A\\",NaN]","source_query":"stale_knowledge"}',
            confidence=0.5,
            status="approved",
            judged_by=None,
            judged_at="2026-06-18 00:00:00",
            created_at="2026-03-21 00:00:00",
            updated_at="2026-06-17 00:00:00",
        )
    ]
    assert [item.line for item in result.items] == [2, 2]


@pytest.mark.parametrize(
    ("status", "expected", "judged_at"),
    [
        ("dismissed", "dismissed", "2026-01-02 00:00:00"),
        ("pending", "pending", None),
        ("archived", "pending", None),
        (["approved"], "pending", None),
        (None, "pending", None),
    ],
)
def test_review_of_an_insight(
    tmp_path: Path, status: Any, expected: str, judged_at: str | None
) -> None:
    row = node("T", "Insight", status=status, source_query={"q": 1}, dismissed_at="2026-01-02")
    (insight,) = read(tmp_path, row).insights
    assert (insight.status, insight.judged_at) == (expected, judged_at)
    assert (insight.key, insight.kind) == ("engrama:Insight: T", '{"q":1}')
    assert (insight.body, insight.confidence) == ("", 1.0)


@pytest.mark.parametrize(
    "row",
    [node("T", "Insight"), node("T", "Insight", source_query=""), node("T", source_query="q")],
)
def test_no_insight(tmp_path: Path, row: dict[str, Any]) -> None:
    assert read(tmp_path, row).insights == []


def test_names_that_several_nodes_share(tmp_path: Path) -> None:
    rows = [
        node("Acequia", "Project", "o/a"),
        node("Acequia", "Concept", "o/a"),
        node("Riego", "Concept", "o/a"),
        node("Riego", "Concept", "o/b"),
        node("Riego", "Concept"),
        node("Norte", "Concept", "o/a"),
        node("Norte", "Concept", "p/a"),
        node("Sólo", "Concept", "o/b"),
        node("sólo", "Concept", "o/b"),
    ]
    expected = [
        "Acequia (Project)",
        "Acequia (Concept)",
        "Riego (Concept, a)",
        "Riego (Concept, b)",
        "Riego (Concept)",
        "Norte (Concept, o/a)",
        "Norte (Concept, p/a)",
        "Sólo",
        "sólo",
    ]
    result = read(tmp_path, *rows)
    assert result.names == expected
    assert read(tmp_path, *reversed(rows)).names == expected[::-1]
    (remark,) = result.notes.remarks
    assert remark.startswith(
        "Nodes that share a name with others are kept apart: Acequia (Concept)"
    )


def test_names_made_up_never_meet_another_name(tmp_path: Path) -> None:
    rows = [
        node("A", "Project", "o/a"),
        node("A", "Concept", "o/a"),
        node("A (Project)", "Concept", "o/a"),
        node("A (Concept)", "Concept", "o/a"),
        node("A (Concept, o/a)", "Concept", "o/a"),
        # the same words for another organisation and user
        node("B", "Concept") | {"properties": {"org_id": "x/y", "user_id": "z"}},
        node("B", "Concept") | {"properties": {"org_id": "x", "user_id": "y/z"}},
        node("B", "Concept") | {"properties": {"org_id": "w", "user_id": "z"}},
        node("B", "Concept") | {"properties": {"org_id": "w", "user_id": "y/z"}},
    ]
    result = read(tmp_path, *rows)
    assert result.names[:2] == ["A (Project, o/a)", "A (Concept, 2)"]
    assert len(set(result.names)) == len(rows)
    assert len({entity.key for entity in result.entities}) == len(rows)


def test_many_shared_names_make_one_short_remark(tmp_path: Path) -> None:
    rows = [node(f"N{n:03}", label) for n in range(50) for label in ("Concept", "Project")]
    (remark,) = read(tmp_path, *rows).notes.remarks
    assert remark.count("(") == 20
    assert remark.endswith("N009 (Project) and 80 more")


def test_keys_cannot_be_mistaken(tmp_path: Path) -> None:
    rows = [
        node("B: C", "A"),
        node("C", "A: B"),
        node("X", "A", "o/u"),
        node("X [o/u]", "A"),
        node('"X', "A"),
    ]
    keys = [entity.key for entity in read(tmp_path, *rows).entities]
    assert keys == ["A: B: C", '"A: B": C', "A: X [o/u]", 'A: "X [o/u]"', 'A: "\\"X"']


def test_the_same_node_twice(tmp_path: Path) -> None:
    result = read(tmp_path, node("A", notes="one"), node("A", notes="two"))
    assert result.names == ["A", "A"]
    assert result.notes.remarks == []


NODES = [
    node("Riego", "Concept", "o/a"),
    node("Riego", "Concept", "o/b"),
    node("Goteo", "Concept", "o/a"),
    node("goteo", "Concept", "o/a"),
    node("Acequia", "Project", "o/a"),
    node("Shared", "Concept", "o/__entity__"),
    node("Shared", "Concept", "p/__entity__"),
    node("Free", "Concept"),
    node("Ñandú", "Concept", "o/a"),
]


@pytest.mark.parametrize(
    ("end", "owner", "expected"),
    [
        ("Concept: Riego", "o/a", "Concept: Riego [o/a]"),
        ("Concept: Riego", "o/b", "Concept: Riego [o/b]"),
        ("Concept: riego", "o/b", "Concept: Riego [o/b]"),
        ("Concept: Goteo", None, "Concept: Goteo [o/a]"),
        ("Concept: goteo", "o/a", "Concept: goteo [o/a]"),
        ("Project: ACEQUIA", None, "Project: Acequia [o/a]"),
        ("Project: Acequia", "o/zzz", "Project: Acequia [o/a]"),
        ("Concept: Shared", "o/a", "Concept: Shared [o/__entity__]"),
        ("Concept: shared", "p/a", "Concept: Shared [p/__entity__]"),
        ("Concept: Free", "o/a", "Concept: Free"),
        ("Concept: ñandú", None, "no Concept named 'ñandú'"),
        ("Concept: Acequia", None, "no Concept named 'Acequia' (there is Project: Acequia [o/a])"),
        (
            "Concept: Riego",
            None,
            "Concept 'Riego' may be any of 2: Concept: Riego [o/a]; Concept: Riego [o/b]",
        ),
        (
            "Concept: GOTEO",
            "o/a",
            "Concept 'GOTEO' may be any of 2: Concept: Goteo [o/a]; Concept: goteo [o/a]",
        ),
    ],
)
def test_ends_of_relations(tmp_path: Path, end: str, owner: str | None, expected: str) -> None:
    result = read(tmp_path, *NODES, relation("Concept: Free", end, owner))
    if result.reasons:
        assert result.reasons == [expected]
        assert json.loads(result.items[-1].raw)["type"] == "relation"
    else:
        assert result.relations == [Relation("Concept: Free", expected, "USES")]


def test_ends_at_another_owner_are_remarked(tmp_path: Path) -> None:
    rows = [
        node("A", owner="o/a"),
        node("B", owner="o/b"),
        relation("Concept: A", "Concept: B", "o/a"),
    ]
    result = read(tmp_path, *rows)
    assert result.relations == [Relation("Concept: A [o/a]", "Concept: B [o/b]", "USES")]
    (remark,) = result.notes.remarks
    assert remark.endswith("another owner than the relation: 1")


def test_relations_may_come_first_and_lack_both_ends(tmp_path: Path) -> None:
    result = read(
        tmp_path,
        relation("Concept: A", "Concept: A", since=2020),
        relation("Concept: B", "Tool: C"),
        relation("Concept: B", "Concept: B"),
        node("A"),
    )
    assert result.relations == [Relation("Concept: A", "Concept: A", "USES")]
    assert result.notes.extra_keys == {"relation.since": 1}
    assert result.reasons == ["no Concept named 'B'; no Tool named 'C'", "no Concept named 'B'"]


def test_relation_keeps_two_nodes_of_one_name_apart(tmp_path: Path) -> None:
    rows = [node("A", "Concept"), node("A", "Project"), relation("Concept: A", "Project: A")]
    assert read(tmp_path, *rows).relations == [Relation("Concept: A", "Project: A", "USES")]


NESTED = '{"type":"node","label":"L","key_value":"K","properties":{"x":' + "[" * 10_000


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (node("A") | {"label": None}, "node without a label"),
        (node("A") | {"label": " "}, "node without a label"),
        (node(["A"]), "node without a key_value"),
        ({"type": "node", "label": "L", "properties": {"name": "A"}}, "node without a key_value"),
        (node("A") | {"properties": ["x"]}, "node whose properties are no object"),
        (relation("A: b", "A: b", rel_type=""), "relation without rel_type"),
        (relation("A: b", "A: b", to_value={"x": 1}), "relation without to_value"),
        ({"type": "note", "x": 1}, 'unknown record type "note"'),
        ({"type": ["node"]}, 'unknown record type ["node"]'),
        ({"x": 1, "y": 2}, "no record type: keys x, y"),
        ({}, "an empty object"),
        ([1], "no object but [1]"),
        (None, "no object but null"),
        ({"engrama_export": 2}, "an export within the file in format 2, and format 1 is read"),
        ('{"type":"node","label":"Con', "not JSON: "),
        (NESTED + "]" * 10_000 + "}}", ""),
        ('{"type":"node","properties":{"x":1' + "0" * 5000 + "}}", "JSON that cannot be read"),
        ("\ufeff\ufeff garbage", "not JSON"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_lines_are_rejected_and_stop_nothing(tmp_path: Path, line: Any, reason: str) -> None:
    line = line if isinstance(line, str) else json.dumps(line)
    result = read(tmp_path, node("Before"), line, node("After"))
    assert result.names == ["Before", "After"]
    assert len(result.reasons) == 1
    assert result.reasons[0].startswith(reason)
    assert result.items[1].line == 3


def test_nested_to_the_edge_of_the_limit(tmp_path: Path) -> None:
    rows = [
        f'{{"type":"node","label":"L","key_value":"{n}","properties":{{"x":{"[" * n}{"]" * n}}}}}'
        for n in range(900, 1010)
    ]
    result = read(tmp_path, *rows)
    assert len(result.entities) + len(result.reasons) == len(rows)


def test_numbers_are_names_too(tmp_path: Path) -> None:
    result = read(tmp_path, node(42, notes="x"), relation("Concept: 42", "Concept: 42"))
    assert result.names == ["42"]
    assert result.texts() == ["x"]
    assert len(result.relations) == 1


def test_lines_end_at_newline_alone(tmp_path: Path) -> None:
    text = "A\u2028B\u2029C\x85D"
    result = read(
        tmp_path, node(text, notes=text), "", relation(f"Concept: {text}", f"Concept: {text}")
    )
    assert result.names == [text]
    assert result.texts() == [text]
    assert (result.source.counted.lines, result.source.counted.blank) == (4, 1)
    assert len(result.relations) == 1


def test_glued_and_cut_off_lines(tmp_path: Path) -> None:
    path = tmp_path / "export.ndjson"
    one, two = json.dumps(node("A")), json.dumps(node("B"))
    path.write_text(f"{json.dumps(ENVELOPE)}{one}{two}\r\n{two[:40]}", encoding="utf-8")
    result = Read(path)
    assert result.names == ["A", "B"]
    assert (result.source.counted.lines, result.source.counted.glued) == (2, 2)
    assert len(result.reasons) == 1


def test_concatenated_exports_and_vectors(tmp_path: Path) -> None:
    vector = {"type": "vector", "label": "Concept", "key_value": "A", "vector": "anything"}
    result = read(tmp_path, node("A"), vector, ENVELOPE, node("B"), vector)
    assert result.names == ["A", "B"]
    assert result.source.counted.beside == 4
    assert result.notes.not_carried == {"vectors": 2}


def test_broken_bytes_and_overlong_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasette_limbic.importing.reading.MAX_RECORD", 2000)
    assert MAX_RECORD > 2000
    path = tmp_path / "export.ndjson"
    long = json.dumps(node("Long", notes="x" * 3000)).encode()
    lines = [
        json.dumps(ENVELOPE).encode(),
        b'{"type":"node\xff"}',
        long,
        json.dumps(node("A")).encode(),
    ]
    path.write_bytes(b"\n".join(lines))
    result = Read(path)
    assert result.names == ["A"]
    assert len(result.reasons) == 2


def test_unknown_keys_of_a_record(tmp_path: Path) -> None:
    result = read(
        tmp_path, node("A") | {"valid": True}, {"type": "node", "label": "L", "key_value": "B"}
    )
    assert result.notes.extra_keys == {"record.valid": 1}
    assert result.names == ["A", "B"]


@pytest.mark.parametrize("version", [2, "1", None, True, [1], 1.5, "2" * 500])
def test_newer_formats_are_refused_by_name(version: Any) -> None:
    with pytest.raises(UnknownFormat) as error:
        engrama_source("e.ndjson", 1, {"engrama_export": version})
    assert f"format {json.dumps(version)[:60]}" in str(error.value)
    assert "format 1 is read" in str(error.value)


def test_source_says_what_it_is_and_reads_again(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "e", ENVELOPE, *(node(f"N{n}", notes="x" * 900) for n in range(500))
    )
    source = engrama_source(str(path), path.stat().st_size, ENVELOPE)
    assert isinstance(source, EngramaSource)
    assert (source.unit, source.format, source.path) == ("line", "Engrama export", path)
    progress: list[int] = []
    first = list(source.items(Notes(), progress.append))
    assert len(progress) > 4
    assert source.size - 1 <= sum(progress) <= source.size
    assert list(source.items(Notes())) == first
    assert (source.counted.lines, source.counted.beside) == (501, 1)


def test_reading_may_stop_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    path = write_lines(tmp_path / "e", ENVELOPE, node("A"), node("B"))
    items = engrama_source(path, 1, ENVELOPE).items(Notes())
    assert isinstance(next(iter(items)), Item)
    assert list(scratch.iterdir())
    items.close()  # type: ignore[attr-defined]
    assert not list(scratch.iterdir())


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["archived", "2025-01-01", "0.5", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
_COLUMNS = ["confidence", "valid_from", "valid_to", "created_at", "updated_at", "last_activity_at"]
_KEYS = st.text(max_size=4) | st.sampled_from(
    [
        *_COLUMNS,
        *sorted(WITHOUT_HOME),
        "status",
        "archived_at",
        "archived_reason",
        "notes",
        "body",
        "source_query",
        "name",
        "title",
    ]
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50
)
@given(
    st.dictionaries(_KEYS, _VALUES, max_size=8),
    st.sampled_from(["Insight", "Concept"]),
    _VALUES,
    _VALUES,
)
def test_every_property_ends_in_one_place(
    tmp_path: Path, properties: dict[str, Any], label: str, odd: Any, key_field: Any
) -> None:
    row = {"type": "node", "label": label, "key_field": "name", "key_value": "K"}
    path = tmp_path / "export.ndjson"
    rows = [
        ENVELOPE,
        {**row, "properties": properties},
        {**row, "key_field": key_field, "key_value": odd, "properties": odd},
        {**row, "label": odd, "type": odd},
        {**relation("Concept: K", "Concept: K"), "to_value": odd, "user_id": odd},
        odd,
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = Read(path)
    for entity in result.entities:
        json.dumps(
            [entity.name, entity.key, *map(list, entity.observations)], ensure_ascii=False
        ).encode()
    for insight in result.insights:
        json.loads(insight.evidence, parse_constant=lambda text: pytest.fail(text))

    path.write_text("\n".join(map(json.dumps, rows[:2])), encoding="utf-8")
    result = Read(path)
    places = (
        result.source.columns
        + len(result.only.observations)
        + sum(result.notes.extra_keys.values())
        + result.notes.not_carried["empty properties"]
    )
    assert places == len(properties) - (properties.get("name") == "K")
