"""What is raised to be archived: worth a person's time, and one yes makes no other."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from health_helpers import change, entity, relate
from insights_helpers import one, reflected, table

from datasette_limbic import connection, schema
from datasette_limbic.actions.acting import act
from datasette_limbic.sync import sync

OLD = "2020-01-01 00:00:00"


def made(path: Path, *statements: Any) -> Path:
    with closing(connection.connect(path, create=True)) as conn:
        schema.init(conn)
        sync(conn)
    change(path, *statements)
    return path


def old(*numbers: int) -> list[Any]:
    return [entity(i, f"Old {i}", created_at=OLD) for i in numbers]


def young(*numbers: int) -> list[Any]:
    return [entity(i, f"Young {i}") for i in numbers]


def link(one: int, other: int, kind: str = "uses", **columns: Any) -> Any:
    return lambda conn: relate(conn, one, other, kind, **columns)


def part(of: int, number: int) -> list[Any]:
    return [link(of, number, "contiene"), link(number, of, "parte_de")]


def candidates(path: Path) -> set[int]:
    reflected(path, kinds=["archive_candidate", "bridge"])
    return {
        row["entity_id"]
        for row in table(path, "select * from limbic_insights where status = 'pending'")
        if row["kind"] == "archive_candidate"
    }


def bridges(path: Path) -> list[Any]:
    return table(path, "select * from limbic_insights where kind = 'bridge'")


ACCESS = "insert into entity_access values ({}, {}, '{}')"


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        pytest.param(old(1), {1}, id="alone"),
        pytest.param([*old(1, 2), link(1, 2)], {1, 2}, id="a pair"),
        pytest.param([*old(1), *young(2, 3), link(1, 2), link(1, 3)], set(), id="holds two"),
        pytest.param(
            [*old(1), *young(2, 3), link(1, 2), link(1, 3), link(2, 3)], {1}, id="held otherwise"
        ),
        pytest.param(
            [*old(1), *young(2, 3), link(1, 2), link(1, 3, valid_to=OLD)], {1}, id="an ended link"
        ),
        pytest.param(
            [
                *old(1), *young(2, 3, 4),
                link(2, 3), link(3, 4), *[link(1, i) for i in (2, 3, 4)],
                "update entities set archived_at = '2026-01-01' where id = 2",
            ],
            set(),
            id="archived neighbours count",
        ),
        pytest.param(
            [
                *old(1), *young(2, 3, 4), link(1, 2), link(1, 3), link(2, 3), link(3, 4),
                "update entities set archived_at = '2026-01-01' where id = 3",
            ],
            set(),
            id="beside an archived bridge",
        ),
        pytest.param(
            [
                *old(1), *young(2, 3), link(1, 2), link(2, 3),
                "update entities set archived_at = '2026-01-01' where id = 2",
            ],
            {1},
            id="hangs on an archived bridge alone",
        ),
        pytest.param([*young(1), *old(2, 3), *part(1, 2), *part(1, 3)], set(), id="parts"),
        pytest.param([*old(1, 2), *part(1, 2)], {1, 2}, id="a part of what is one itself"),
        pytest.param([*young(1), *old(2), link(1, 2, "contiene")], {2}, id="no part both ways"),
        pytest.param(
            [
                *young(1), *old(2, 3), *part(1, 2), *part(2, 3), link(1, 3),
                ACCESS.format(1, 9, "2026-11-01"),
            ],
            set(),
            id="a part of a part",
        ),
        pytest.param(
            [
                *young(1), *old(2), *part(1, 2),
                "update entities set archived_at = '2026-01-01' where id = 1",
            ],
            {2},
            id="a part of what is archived",
        ),
        pytest.param(
            [
                *young(1), *old(2), *part(1, 2),
                ACCESS.format(1, 9, "2026-01-01"), ACCESS.format(2, 1, "2026-01-02"),
            ],
            {2},
            id="a part that was asked for since",
        ),
        pytest.param(
            [
                *young(1), *old(2), *part(1, 2),
                ACCESS.format(1, 9, "2026-01-02"), ACCESS.format(2, 1, "2026-01-02"),
            ],
            set(),
            id="a part used like its parent",
        ),
    ],
)  # fmt: skip
def test_what_is_worth_a_look(tmp_path: Path, statements: list[Any], found: set[int]) -> None:
    assert candidates(made(tmp_path / "m.db", *statements)) == found


def test_a_split_raises_none_of_its_own_parts(tmp_path: Path) -> None:
    """Old as their parent, with its share of accesses, and linked with nothing else."""
    path = made(
        tmp_path / "m.db",
        entity(1, "Large", *[f"Fact number {i}" for i in range(8)], created_at=OLD),
        entity(2, "Beside"),
        link(1, 2),
        ACCESS.format(1, 3, "2026-01-01 00:00:00"),
        "update observations set created_at = '2020-01-01 00:00:00'",
    )
    (row,) = table(path, "select min(id) as low from observations where entity_id = 1")
    low = row["low"]
    children = [
        {"name": f"Part {n}", "observations": [low + 2 * n, low + 2 * n + 1]} for n in range(3)
    ]
    before = candidates(path)
    with closing(connection.connect(path)) as conn:
        act(conn, "split", {"entity": 1, "children": children}, embed=False)
    assert len(table(path, "select 1 from limbic_stale_entities where name like 'Part%'")) == 3
    assert candidates(path) <= before


def test_what_is_said_of_archived_neighbours(tmp_path: Path) -> None:
    path = made(
        tmp_path / "m.db",
        *old(1),
        *young(2, 3),
        *[link(1, 2), link(1, 3), link(2, 3)],
        "update entities set archived_at = '2026-01-01' where id = 2",
    )
    assert candidates(path) == {1}
    found = one(path, "archive_candidate:1")
    assert "2 entities are linked with it, 1 of them archived." in found["body"]
    assert found["confidence"] == pytest.approx(1 / 3)
    assert (found["facts"]["degree"], found["facts"]["links"]) == (1, 2)


@pytest.mark.parametrize("seed", range(8))
def test_no_yes_makes_another(tmp_path: Path, seed: int) -> None:
    """Archive every candidate one after another: only what was raised first, and no bridges."""
    rand = random.Random(seed)
    count = 18
    pairs = sorted({tuple(rand.sample(range(1, count + 1), 2)) for _ in range(24)})
    links = [
        step for a, b in pairs for step in (part(a, b) if a < b and a % 4 == 0 else [link(a, b)])
    ]
    path = made(tmp_path / "m.db", *old(*range(1, count)), *young(count), *links)
    first = left = candidates(path)
    done = 0
    while left:
        with closing(connection.connect(path)) as conn:
            found = one(path, f"archive_candidate:{rand.choice(sorted(left))}")
            act(conn, "archive", found["arguments"], insight=found["id"], embed=False)
        done += 1
        now = candidates(path)
        assert now < left
        assert bridges(path) == []
        left = now
    assert done <= len(first)


@pytest.mark.parametrize(("count", "confidence"), [(-3, 1), (-1, 1), (0, 1), (1, 0.5)])
def test_a_count_below_zero_makes_nobody_surer(
    tmp_path: Path, count: int, confidence: float
) -> None:
    """Any program may have written it."""
    path = made(tmp_path / "m.db", *old(1), ACCESS.format(1, count, OLD))
    assert candidates(path) == {1}
    assert one(path, "archive_candidate:1")["confidence"] == pytest.approx(confidence)
