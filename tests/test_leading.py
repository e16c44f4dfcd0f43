"""The short lists of the overview, and entities by a piece of their name."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from view_helpers import write

from datasette_limbic import connection, leading
from datasette_limbic.named import LISTED, named


def read(path: Path, function: Any, *values: Any) -> list[dict[str, Any]]:
    with closing(connection.connect(path, readonly=True)) as conn:
        return function(conn, *values)  # type: ignore[no-any-return]


ENTITY = "insert into entities(id, name, entity_type, created_at, archived_at) values (?,?,?,?,?)"
RELATION = """insert into relations(from_entity, to_entity, relation_type, valid_to)
  values (?, ?, ?, ?)"""
ACCESS = "insert into entity_access(entity_id, access_count) values (?, ?)"


def test_hubs_have_most_relations_that_hold(empty_db: Path) -> None:
    write(
        empty_db,
        *((ENTITY, [i, f"e{i}", "T", "2026-01-01", "2026-01-02" if i == 4 else None])
          for i in range(1, 7)),
        (RELATION, [1, 2, "a", None]),
        (RELATION, [1, 2, "b", None]),
        (RELATION, [3, 1, "a", "9999-01-01"]),
        (RELATION, [1, 1, "self", None]),
        (RELATION, [2, 3, "a", "2020-01-01"]),
        (RELATION, [4, 1, "a", None]),
        (RELATION, [4, 2, "a", None]),
        (RELATION, [4, 3, "a", None]),
    )  # fmt: skip
    found = read(empty_db, leading.hubs)
    assert [(each["name"], each["relations"]) for each in found] == [
        ("e1", 4),
        ("e2", 3),
        ("e3", 2),
    ]


def test_newest_by_their_day(empty_db: Path) -> None:
    stamps = ["2026-01-01", "2026-03-01T10:00:00Z", "2099-01-01", "soon", None, "2026-02-01"]
    write(
        empty_db,
        *((ENTITY, [i, f"e{i}", "T", s, None]) for i, s in enumerate(stamps, 1)),
        (ENTITY, [9, "archived", "T", "2026-04-01", "2026-05-01"]),
    )
    found = read(empty_db, leading.newest)
    assert [each["id"] for each in found] == [2, 6, 1, 3, 5, 4]
    assert found[0]["created_at"] == "2026-03-01T10:00:00Z"


def test_most_used_live_ones(empty_db: Path) -> None:
    write(
        empty_db,
        *((ENTITY, [i, f"e{i:02}", "T", "2026-01-01", "2026-01-02" if i == 3 else None])
          for i in range(1, 15)),
        *((ACCESS, [i, 100 - i]) for i in range(1, 13)),
        (ACCESS, [13, 0]),
        (ACCESS, [14, "many"]),
    )  # fmt: skip
    found = read(empty_db, leading.most_used)
    assert [each["id"] for each in found] == [1, 2, 4, 5, 6, 7, 8, 9]
    assert found[0]["access_count"] == 99


NAMES = {
    1: "Elena Marqués",
    2: "Elena",
    3: "100% of it",
    4: "Atlas_api",
    5: "Mar Elena",
    6: "北京市",
    7: "A" * 10_000,
}


@pytest.mark.parametrize(
    ("typed", "ids"),
    [
        ("elena", [2, 1, 5]),
        ("ELENA mar", [1, 5]),
        ("marques", [1]),
        ("qué", [1]),  # a piece of a word as it is written
        ("100%", [3]),
        ("% of", [3]),
        ("s_a", [4]),
        ("x_y", []),
        ("京市", [6]),
        ("e", []),
        ("", []),
        (' "', []),
        ('" OR name : x', []),
        ("elena NOT mar*", []),
        ("\0\0elena", [2, 1, 5]),
        ("A" * 10_000, [7]),
    ],
)
def test_named(typed: str, ids: list[int], empty_db: Path) -> None:
    write(
        empty_db,
        *((ENTITY, [i, name, "T", "2026-01-01", None]) for i, name in NAMES.items()),
        (ENTITY, [8, "Elena archived", "T", "2026-01-01", "2026-01-01"]),
        ("insert into observations(entity_id, content) values (4, 'elena marques in a text')", []),
        (ACCESS, [1, 5]),
    )
    found = read(empty_db, named, typed)
    assert [each["id"] for each in found] == ids
    assert all(len(each["name"]) <= 200 for each in found)


def test_the_most_used_of_many(empty_db: Path) -> None:
    write(
        empty_db,
        *((ENTITY, [i, f"thing {i}", "T", "2026-01-01", None]) for i in range(1, 40)),
        (ACCESS, [33, 7]),
    )
    found = read(empty_db, named, "thing")
    assert len(found) == LISTED
    assert found[0] == {"id": 33, "name": "thing 33", "entityType": "T"}
