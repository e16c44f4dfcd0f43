"""Communities and the full map: the same each time, few enough to be drawn, and all of them."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
from view_helpers import write

from datasette_limbic import connection
from datasette_limbic.errors import UnknownEntity
from datasette_limbic.graph import atlas, communities, full_map, other_process, packing, whole

NOW = "2026-11-29 12:00:00"


def graph(pairs: Any, count: int | None = None) -> whole.Whole:
    """Entities 1, 2 … with these links between them, by id."""
    ends = numpy.array(list(pairs), "i8").reshape(-1, 2)
    count = int(ends.max()) if count is None else count
    ids = numpy.arange(1, count + 1)
    one, other, weight = whole._links(ids, ends)
    linked = numpy.bincount(numpy.concatenate([one, other]), minlength=count).astype("f8")
    importance = linked / max(1.0, float(linked.max()))
    names = tuple(f"n{at}" for at in ids)
    return whole.Whole(ids, names, ("Tool",) * count, importance, one, other, weight)


def cliques(sizes: list[int]) -> list[tuple[int, int]]:
    """Groups of which all are linked to each other, each group to the next by one link."""
    pairs, first = [], 1
    for size in sizes:
        pairs += itertools.combinations(range(first, first + size), 2)
        pairs.append((first + size - 1, first + size))
        first += size
    return pairs[:-1]


def star(leaves: int) -> list[tuple[int, int]]:
    return [(1, leaf) for leaf in range(2, leaves + 2)]


def blocks(count: int, seed: int = 3) -> list[tuple[int, int]]:
    """Entities of about 30 to a group, most links within it, and one that half are linked to."""
    chosen = random.Random(seed)
    pairs = []
    for at in range(1, count + 1):
        group = (at - 1) // 30 * 30
        pairs += [(at, min(count, group + chosen.randint(1, 30))) for _ in range(4)]
        pairs.append((at, chosen.randint(1, count)))
        if at % 2:
            pairs.append((at, 1))
    return [(a, b) for a, b in pairs if a != b]


def test_communities_are_found() -> None:
    found = graph(cliques([8] * 40))
    parts = communities.parts(found, found.linked)
    members = [set(part.members.tolist()) for part in parts]
    assert sum(map(len, members)) == len(set().union(*members)) == 320
    # a clique is never torn apart
    for first in range(0, 320, 8):
        assert any(set(range(first, first + 8)) <= each for each in members)


SHAPES = {
    "cliques": cliques([8] * 40),
    "many pairs": [(2 * at + 1, 2 * at + 2) for at in range(1500)],
    "star": star(1500),
    "one clique": list(itertools.combinations(range(1, 260), 2)),
    "chain": [(at, at + 1) for at in range(1, 1200)],
    "blocks": blocks(900),
    "large star": star(7000),
    "large blocks": blocks(6000),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_entity_is_reached_in_few_steps(shape: str) -> None:
    found = graph(SHAPES[shape])
    first = atlas.first_parts(found)
    assert first
    seen: list[int] = []
    todo = [(part, 1) for part in first]
    most = communities.ALONE + communities.SHARED
    assert 2 <= len(first) <= most
    while todo:
        part, depth = todo.pop()
        children = communities.parts(found, part.members)
        if not children:
            assert len(part) <= communities.MOST
            seen += part.members.tolist()
            continue
        assert depth < 12
        assert 2 <= len(children) <= most
        assert max(map(len, children)) < len(part)
        todo += [(child, depth + 1) for child in children]
    assert sorted(seen) == found.linked.tolist()


def test_few_entities_are_not_split() -> None:
    found = graph(star(communities.MOST - 1))
    assert atlas.first_parts(found) == []
    assert len(atlas.first_parts(graph(star(communities.MOST)))) > 1


def test_a_hub_does_not_hold_a_large_memory_together() -> None:
    found = graph(SHAPES["large blocks"])
    sizes = [len(part) for part in atlas.first_parts(found)]
    assert max(sizes) < 1500


def test_small_communities_share_a_part() -> None:
    found = graph(SHAPES["many pairs"])
    parts = atlas.first_parts(found)
    assert [part.communities for part in parts[: communities.ALONE]] == [1] * communities.ALONE
    shared = parts[communities.ALONE :]
    assert sum(part.communities for part in shared) == 1500 - communities.ALONE
    assert max(map(len, shared)) - min(map(len, shared)) <= 4


FILL = """insert into entities(id, name, entity_type) values (?, ?, 'Tool')"""
LINK = """insert into relations(from_entity, to_entity, relation_type) values (?, ?, 'uses')"""


def fill(path: Path, pairs: list[tuple[int, int]], seed: int = 0, extra: int = 0) -> None:
    """Write entities and relations in an order of chance."""
    count = max((max(pair) for pair in pairs), default=0) + extra
    ids, links = list(range(1, count + 1)), sorted(set(pairs))
    random.Random(seed).shuffle(ids)
    random.Random(seed).shuffle(links)
    conn = connection.connect(path)
    conn.executemany(FILL, [(at, f"n{at}") for at in ids])
    conn.executemany(LINK, links)
    conn.commit()
    conn.close()


PRINTED = """
import sys
from datasette_limbic import connection
from datasette_limbic.graph import atlas, full_map, sheet_layout, whole
conn = connection.connect(sys.argv[1], readonly=True)
found = whole.read(conn, sys.argv[2])
first = atlas.first_parts(found)
sheet = atlas.sheet(conn, found, first, now=sys.argv[2])
print(found.digest, [p.members.tolist() for p in first], sheet.graph, sheet.communities)
print(sheet_layout.sheet_positions(sheet.graph), full_map.full_map(found, first).points.tolist())
"""


def test_the_same_in_any_process_and_order_of_rows(tmp_path: Path) -> None:
    from empty_memory import empty_memory

    printed = []
    for seed in (1, 2):
        path = empty_memory(tmp_path / f"m{seed}.db")
        fill(path, blocks(400), seed)
        printed.append(
            subprocess.run(
                [sys.executable, "-c", PRINTED, str(path), NOW],
                env={**os.environ, "PYTHONHASHSEED": str(seed)},
                capture_output=True,
                text=True,
                check=True,
                timeout=120,
            ).stdout
        )
    assert len(printed[0]) > 5000
    assert printed[0] == printed[1]


def test_another_process_finds_the_same() -> None:
    found = graph(blocks(400))
    here, there = atlas.first_parts(found), other_process.first_parts(found)
    assert [p.members.tolist() for p in here] == [p.members.tolist() for p in there]
    assert [p.communities for p in here] == [p.communities for p in there]


@pytest.mark.parametrize("missing", ["module", "program"])
def test_where_no_other_process_can_be_had(
    missing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if missing == "module":
        monkeypatch.setattr(other_process, "__name__", "no_such_module")
    else:
        monkeypatch.setattr(sys, "executable", "/no/such/program")
    found = graph(blocks(300))
    here, there = atlas.first_parts(found), other_process.first_parts(found)
    assert [p.members.tolist() for p in here] == [p.members.tolist() for p in there]
    assert f"no_such_{missing}" in caplog.text.replace("/no/such/program", "no_such_program")


def test_only_what_is_live_is_read(empty_db: Path) -> None:
    fill(empty_db, [(1, 2), (2, 1), (2, 3), (4, 5), (1, 1)], extra=1)
    write(
        empty_db,
        ("update entities set archived_at = '2026-01-01' where id = 3", []),
        ("update relations set valid_to = '2026-01-01' where from_entity = 4", []),
        (LINK.replace("uses", "knows"), [1, 2]),
        ("insert into entity_access(entity_id, access_count) values (2, 9), (4, 3)", []),
    )
    conn = connection.connect(empty_db, readonly=True)
    asked: list[str] = []
    conn.set_trace_callback(asked.append)
    found = whole.read(conn, NOW)
    assert len([each for each in asked if "join" in each or "from relations" in each]) == 2
    assert found.ids.tolist() == [1, 2, 4, 5, 6]
    assert [found.one.tolist(), found.other.tolist(), found.weight.tolist()] == [[0], [1], [3]]
    assert found.relations == 3
    assert found.linked.tolist() == [0, 1]
    assert found.importance.argmax() == 1
    assert 0 < found.importance[2] < found.importance[1] <= 1
    # a relation that ended holds at an earlier time
    assert whole.read(conn, "2025-06-01").relations == 4
    conn.close()


def test_the_sheet_of_an_entity_at_any_level() -> None:
    found = graph(cliques([8] * 40))
    first = atlas.first_parts(found)
    top = atlas.sheet(None, found, first, now=NOW)  # type: ignore[arg-type]
    assert [each.members for each in top.communities] == [len(part) for part in first]
    inside = sum(each.relations for each in top.communities)
    assert 2 * (top.relations - inside) == sum(each.leaving for each in top.communities)
    assert top.relations == found.relations
    assert not top.path
    with pytest.raises(UnknownEntity, match="no relation leads to"):
        atlas.sheet(None, found, first, now=NOW, entity=999)  # type: ignore[arg-type]


def test_levels_lead_to_the_innermost_community(empty_db: Path) -> None:
    fill(empty_db, star(6000), extra=3)
    conn = connection.connect(empty_db, readonly=True)
    found = whole.read(conn, NOW)
    first = atlas.first_parts(found)
    one = atlas.sheet(conn, found, first, now=NOW, entity=5000, level=1)
    assert len(one.path) == 1
    assert one.path[0].members == one.entities > communities.MOST
    two = atlas.sheet(conn, found, first, now=NOW, entity=5000, level=2)
    assert [each.level for each in two.path] == [1, 2]
    assert two.entities < one.entities
    deep = atlas.sheet(conn, found, first, now=NOW, entity=5000, level=90)
    assert 5000 in {node.id for node in deep.graph.nodes}
    assert all(node.kind == "entity" for node in deep.graph.nodes)
    # by any of its members, a community is the same
    other = next(each.id for each in two.communities)
    assert atlas.sheet(conn, found, first, now=NOW, entity=other, level=2).path == two.path
    conn.close()


@pytest.mark.parametrize("shape", ["cliques", "star", "many pairs", "blocks"])
def test_the_full_map_has_a_place_for_each(shape: str) -> None:
    pairs = SHAPES[shape][:700]
    found = graph(pairs, max(max(pair) for pair in pairs) + 30)
    placed = full_map.full_map(found, atlas.first_parts(found))
    points = placed.points
    assert (points > 0).all()
    assert (points < [placed.width, placed.height]).all()
    apart = numpy.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    numpy.fill_diagonal(apart, 99)
    assert apart.min() > 2 * 8  # the largest circle of an entity
    for circle in placed.circles:
        inside = points[circle.members] - [circle.x, circle.y]
        assert (numpy.hypot(*inside.T) < circle.radius).all()


def test_circles_do_not_overlap() -> None:
    radii = numpy.array([5.0, 90.0, 20.0, 20.0, 1.0] * 12)
    pairs = numpy.array([[0, at] for at in range(1, 60)])
    points = packing.packed(radii, pairs, numpy.ones(59))
    apart = numpy.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    room = radii[:, None] + radii[None]
    numpy.fill_diagonal(apart, numpy.inf)
    assert (apart >= room).all()
    # and are close: more than a fifth of the circle around them is filled
    around = (numpy.hypot(*points.T) + radii).max()
    assert (radii**2).sum() > around**2 / 5
