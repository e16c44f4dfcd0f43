"""Dialects: one row in, one record or the reason why not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasette_limbic.importing.items import Access, Entity, Observation, Rejection, Relation
from datasette_limbic.importing.notes import Notes
from datasette_limbic.importing.rows import parse_row


def read(row: Any, section: str | None = None) -> Any:
    return parse_row(row, section, Notes())


@pytest.mark.parametrize(
    ("row", "name", "entity_type", "contents"),
    [
        ({"type": "entity", "name": "A", "entityType": "T", "observations": ["x"]}, "A", "T", "x"),
        ({"_type": "entity", "name": "A", "entity_type": "T", "observations": "x"}, "A", "T", "x"),
        ({"type": "Entity", "name": "A", "observations": None}, "A", None, ""),
        ({"name": "A", "entityType": "T"}, "A", "T", ""),
        ({"name": "A", "observations": ["x", "y"]}, "A", None, "x|y"),
        ({"name": "A", "type": "Person", "observations": ["x"]}, "A", "Person", "x"),
        (
            {"type": "entity", "name": 7, "entityType": 3, "observations": [1, 2.5]},
            "7",
            "3",
            "1|2.5",
        ),
        (
            {"type": "entity", "name": "A", "observations": [True, [1], {"k": "v"}]},
            "A",
            None,
            'true|[1]|{"k":"v"}',
        ),
        ({"type": "entity", "name": "A", "observations": {"text": "x"}}, "A", None, "x"),
        (
            {"type": "entity", "name": "  A ", "entityType": " ", "observations": []},
            "  A ",
            None,
            "",
        ),
    ],
)
def test_entities(row: Any, name: str, entity_type: str | None, contents: str) -> None:
    found = read(row)
    assert isinstance(found, Entity)
    assert (found.name, found.entity_type) == (name, entity_type)
    assert "|".join(o.content for o in found.observations) == contents


@pytest.mark.parametrize(
    "row",
    [
        {"type": "relation", "from": "A", "to": "B", "relationType": "r"},
        {"_type": "relation", "from_entity": "A", "to_entity": "B", "relation_type": "r"},
        {"fromEntity": "A", "toEntity": "B", "relationType": "r"},
    ],
)
def test_relations(row: Any) -> None:
    assert read(row) == Relation("A", "B", "r", None, None, None)


def test_the_section_tells_the_kind() -> None:
    assert isinstance(read({"name": "A"}, "entities"), Entity)
    assert read({"name": "A", "type": "T"}, "entities").entity_type == "T"
    found = read({"from": "A", "to": "B", "type": "uses"}, "relations")
    assert found == Relation("A", "B", "uses", None, None, None)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (None, "null"),
        (42, "a number (42)"),
        ("text", "a text"),
        ([1], "a list"),
        ({}, "an empty object"),
        ({"type": "chat", "role": "user"}, 'unknown record type "chat"'),
        (
            {"type": "message", "from": "a", "to": "b", "text": "hi"},
            'unknown record type "message"',
        ),
        ({"type": 3}, "unknown record type 3"),
        ({"text": "a", "timestamp": "b"}, "keys text, timestamp"),
        ({"name": "Tea", "price": 3}, "keys name, price"),
        ({"type": "entity", "observations": ["x"]}, "entity without a name"),
        ({"type": "entity", "name": " \n", "observations": ["x"]}, "entity without a name"),
        ({"type": "entity", "name": {"a": 1}, "observations": []}, "entity without a name"),
        ({"type": "relation", "to": "B", "relationType": "r"}, "relation without from"),
        ({"type": "relation", "from": "A", "to": "", "relationType": "r"}, "relation without to"),
        ({"type": "relation", "from": "A", "to": "B"}, "relation without relationType"),
        ({"type": "access", "entities": ["A"]}, "access without a readable time"),
        ({"type": "access", "accessedAt": "2025-01-01", "entities": []}, "list of entities"),
        ({"type": "access", "accessedAt": "2025-01-01", "entities": ["a"] * 1001}, "at most 1000"),
    ],
)
def test_rejections_say_why(row: Any, reason: str) -> None:
    found = read(row)
    assert isinstance(found, Rejection)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2025-03-24T14:38:53.603Z", "2025-03-24 14:38:53.603"),
        ("2025-03-01T10:00:00+02:00", "2025-03-01 08:00:00"),
        (1768354862, "2026-01-14 01:41:02"),
        (1768354862500, "2026-01-14 01:41:02.500"),
        ("", None),
        (None, None),
    ],
)
def test_times(value: Any, expected: str | None) -> None:
    for key in ("createdAt", "created_at", "timestamp"):
        notes = Notes()
        found = parse_row({"type": "entity", "name": "A", key: value}, None, notes)
        assert isinstance(found, Entity)
        assert found.created_at == expected
        assert not notes.unreadable
        assert not notes.extra_keys


def test_every_column_has_its_keys() -> None:
    time = "2025-01-02 03:04:05"
    for style in (str, _snake):
        keys = ("updatedAt", "lastActivityAt", "archivedAt", "validFrom", "validTo")
        row = {style(key): time for key in keys}
        found = read(
            {
                **row,
                "name": "A",
                "confidence": "0.5",
                "observations": [],
                style("archivedReason"): "why",
            }
        )
        assert (found.updated_at, found.last_activity_at, found.archived_at) == (time,) * 3
        assert (found.valid_from, found.valid_to) == (time, time)
        assert (found.confidence, found.archived_reason) == (0.5, "why")


def _snake(key: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in key)


def test_observation_objects() -> None:
    notes = Notes()
    row = {
        "name": "A",
        "observations": [
            {"text": "t", "timestamp": "2025-01-01"},
            {"content": "c", "kind": "k", "confidence": 0.2, "validFrom": 0, "validTo": "2025"},
            {"content": "old", "superseded_at": "2025-01-01", "similarity_flag": 1, "id": 5},
        ],
    }
    found = parse_row(row, None, notes)
    assert isinstance(found, Entity)
    assert found.observations == [
        Observation("t", "2025-01-01 00:00:00"),
        Observation("c", None, "k", 0.2, "1970-01-01 00:00:00", "1970-01-01 00:33:45"),
        Observation("old", valid_to="2025-01-01 00:00:00", flag=1),
    ]
    assert notes.extra_keys == {"observation.id": 1}


def test_nothing_is_lost_unsaid() -> None:
    notes = Notes()
    rows = [
        {"name": "A", "observations": ["x", None, "", " "], "version": 1, "createdAt": "soon"},
        {"name": "B", "observations": [], "version": 1, "createdAt": "soon", "confidence": 80},
        {"from": "A", "to": "B", "relationType": "r", "since": 2024, "createdAt": [1]},
    ]
    found = [parse_row(row, None, notes) for row in rows]
    assert found[0].skipped == ["null", "an empty text", "an empty text"]  # type: ignore[union-attr]
    assert notes.extra_keys == {"entity.version": 2, "relation.since": 1}
    assert notes.unreadable == {
        ("createdAt", "soon"): 2,
        ("confidence", "80"): 1,
        ("relation.createdAt", "[1]"): 1,
    }


def test_two_spellings_of_one_key() -> None:
    notes = Notes()
    row = {"name": "A", "observations": [], "createdAt": "2025-01-01", "timestamp": "2024-01-01"}
    found = parse_row(row, None, notes)
    assert isinstance(found, Entity)
    assert found.created_at == "2025-01-01 00:00:00"
    assert notes.extra_keys == {"entity.timestamp": 1}


def test_access_rows() -> None:
    row = {"type": "access", "query": "q", "accessedAt": 1735787045, "entities": ["A", "B", "A"]}
    assert read(row) == Access("q", "2025-01-02 03:04:05", ["A", "B"])


def test_lone_surrogates_become_storable_and_pairs_stay() -> None:
    notes = Notes()
    found = parse_row({"name": "a\ud800b", "observations": ["\ud83d\ude00"]}, None, notes)
    assert isinstance(found, Entity)
    assert found.name == "a\ufffdb"
    assert found.observations[0].content == "😀"
    assert notes.replaced_characters == 2


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["entity", "relation", "access", "2025-01-01", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "_type",
                    "name",
                    "entityType",
                    "observations",
                    "from",
                    "to",
                    "relationType",
                    "text",
                    "content",
                    "createdAt",
                    "confidence",
                    "validTo",
                    "entities",
                    "accessedAt",
                    "query",
                    "\udfff",
                ]
            ),
            inner,
            max_size=7,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(JSON, st.sampled_from([None, "entities", "relations"]))
def test_any_value_is_read_or_rejected(value: Any, section: str | None) -> None:
    found = parse_row(value, section, Notes())
    assert isinstance(found, (Entity, Relation, Access, Rejection))
    texts = [getattr(found, key, "") for key in ("name", "source", "reason", "relation_type")]
    "".join(texts).encode("utf-8")
