"""Communities and the full map: the same each time, few enough to be drawn, and all of them."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy
import pytest
from view_helpers import write

from datasette_limbic import connection
from datasette_limbic.errors import UnknownEntity
from datasette_limbic.graph import atlas, communities, full_map, modularity, packing, whole

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
    held = numpy.bincount(ends.ravel() - 1, minlength=count)
    return whole.Whole(ids, names, ("Tool",) * count, importance, held, one, other, weight)


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
sheet = atlas.sheet(conn, found, atlas.opened(found, first), now=sys.argv[2])
print(found.links, [p.members.tolist() for p in first], sheet.graph, sheet.communities)
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


def modularity_of(found: whole.Whole, labels: Any) -> float:
    strength = numpy.bincount(found.one, found.weight, len(found))
    strength += numpy.bincount(found.other, found.weight, len(found))
    inside = found.weight[labels[found.one] == labels[found.other]].sum()
    shares = numpy.bincount(labels, strength) / strength.sum()
    return float(2 * inside / strength.sum() - (shares**2).sum())


@pytest.mark.parametrize("shape", ["cliques", "many pairs", "chain", "blocks"])
def test_communities_are_as_good_as_those_of_networkx(shape: str) -> None:
    import networkx

    found = graph(SHAPES[shape])
    labels = modularity.louvain(len(found), found.one, found.other, found.weight)
    assert (
        labels.tolist()
        == modularity.louvain(len(found), found.one, found.other, found.weight).tolist()
    )
    theirs = numpy.zeros(len(found), "i8")
    drawn = networkx.Graph()
    drawn.add_nodes_from(range(len(found)))
    drawn.add_weighted_edges_from(
        zip(found.one.tolist(), found.other.tolist(), found.weight.tolist(), strict=True)
    )
    for number, each in enumerate(networkx.community.louvain_communities(drawn, seed=1)):
        theirs[list(each)] = number
    assert modularity_of(found, labels) > modularity_of(found, theirs) - 0.02
    finer = modularity.louvain(len(found), found.one, found.other, found.weight, 16.0)
    assert finer.max() >= labels.max()


def test_what_has_no_links_stands_alone() -> None:
    none = numpy.zeros(0, "i8")
    for count in (0, 1, 3):
        assert modularity.louvain(count, none, none, none).tolist() == list(range(count))


def test_communities_of_a_large_memory_take_no_time() -> None:
    found = graph(blocks(60_000))
    began = time.process_time()
    first = atlas.first_parts(found)
    assert time.process_time() - began < 10  # one second; networkx takes minutes
    assert max(map(len, first)) < 6_000


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
    tables = ("entities", "relations", "entity_access")
    assert len([each for each in asked if any(f"from {name}" in each for name in tables)]) == 4
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
    top = atlas.sheet(None, found, atlas.opened(found, first), now=NOW)  # type: ignore[arg-type]
    assert [each.members for each in top.communities] == [len(part) for part in first]
    inside = sum(each.relations for each in top.communities)
    assert 2 * (top.relations - inside) == sum(each.leaving for each in top.communities)
    assert top.relations == found.relations
    assert not top.path
    with pytest.raises(UnknownEntity, match="no relation leads to"):
        atlas.opened(found, first, 999)


def test_levels_lead_to_the_innermost_community(empty_db: Path) -> None:
    fill(empty_db, star(6000), extra=3)
    conn = connection.connect(empty_db, readonly=True)
    found = whole.read(conn, NOW)
    first = atlas.first_parts(found)
    one = atlas.sheet(conn, found, atlas.opened(found, first, 5000, 1), now=NOW)
    assert len(one.path) == 1
    assert one.path[0].members == one.entities > communities.MOST
    two = atlas.sheet(conn, found, atlas.opened(found, first, 5000, 2), now=NOW)
    assert [each.level for each in two.path] == [1, 2]
    assert two.entities < one.entities
    deep = atlas.sheet(conn, found, atlas.opened(found, first, 5000, 90), now=NOW)
    assert 5000 in {node.id for node in deep.graph.nodes}
    assert all(node.kind == "entity" for node in deep.graph.nodes)
    # by any of its members, a community is the same
    other = next(each.id for each in two.communities)
    assert atlas.sheet(conn, found, atlas.opened(found, first, other, 2), now=NOW).path == two.path
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


def test_the_strongest_lines_are_drawn(empty_db: Path) -> None:
    pairs = [(a, b) for a, b in itertools.combinations(range(1, 41), 2)]
    fill(empty_db, pairs)
    write(empty_db, (LINK.replace("uses", "knows"), [39, 40]))
    conn = connection.connect(empty_db, readonly=True)
    found = whole.read(conn, NOW)
    sheet = atlas.sheet(conn, found, atlas.opened(found, []), now=NOW)
    drawn = {(edge.source, edge.target): edge for edge in sheet.graph.edges}
    assert len(drawn) == atlas.MOST_EDGES
    assert sheet.graph.edges_left_out == len(pairs) - atlas.MOST_EDGES
    assert sheet.relations == len(pairs) + 1
    assert drawn[39, 40].count == 2
    # nobody stands alone, as long as there are enough lines
    assert {end for pair in drawn for end in pair} == set(range(1, 41))
    conn.close()


def test_what_communities_depend_on() -> None:
    pairs = cliques([8] * 40)
    found = graph(pairs)
    # not on what no relation leads to
    more = graph(pairs, len(found) + 3)
    assert more.links == found.links
    assert more.shape != found.shape
    # but on each relation, also on how many there are between the same two
    assert graph([*pairs, pairs[0]]).links != found.links
    assert graph(pairs[:-1]).links != found.links
    other = graph(pairs)
    other.ids[-1] += 1
    assert other.links != found.links


def test_parts_move_with_their_entities() -> None:
    pairs = cliques([8] * 40)
    before = graph(pairs)
    first = atlas.first_parts(before)
    # entities without a relation in front, between and behind
    ids = numpy.concatenate([[-7, 0], before.ids * 2, [999]])
    places = numpy.searchsorted(ids, before.ids * 2)
    after = whole.Whole(
        ids,
        ("",) * len(ids),
        ("",) * len(ids),
        numpy.zeros(len(ids)),
        numpy.zeros(len(ids), "i8"),
        places[before.one],
        places[before.other],
        before.weight,
    )
    moved = communities.moved(first, before, after)
    assert [(part.members - 2).tolist() for part in moved] == [p.members.tolist() for p in first]
    assert [part.communities for part in moved] == [part.communities for part in first]


def test_importance_is_that_of_the_ranking(empty_db: Path) -> None:
    """As the neighbourhood has it, with the parameters of the memory."""
    from datasette_limbic.config import Settings
    from datasette_limbic.graph.neighbourhood import neighbourhood

    fill(empty_db, star(6), extra=1)
    write(
        empty_db,
        ("update relations set relation_type = 'contiene' where to_entity = 2", []),
        ("update relations set valid_to = '2020-01-01' where to_entity = 3", []),
        ("update relations set valid_from = '2099-01-01' where to_entity = 4", []),
        ("update entities set archived_at = '2026-01-01' where id = 5", []),
        (LINK.replace("uses", "knows"), [1, 6]),
        (LINK, [6, 1]),
        (LINK, [6, 6]),
        ("insert into entity_access(entity_id, access_count) values (1, 3), (2, 7), (5, 90)", []),
        ("insert into entity_access(entity_id, access_count) values (3, 'x'), (4, -4)", []),
    )
    conn = connection.connect(empty_db, readonly=True)
    for settings in (Settings(), Settings(d_max=2, beta_deg=2.0)):
        found = whole.read(conn, NOW, settings)
        near = neighbourhood(conn, 1, now=NOW, settings=settings).graph.nodes
        shown = {n.id: (n.importance, n.relations) for n in near if not n.archived}
        assert set(shown) == {1, 2, 3, 6, 7}  # that to 4 has not begun
        for entity, (importance, relations) in shown.items():
            place = found.place(entity)
            assert found.importance[place] == pytest.approx(importance), entity
            assert found.held[place] == relations, entity
    # those that hold, also with what is archived; with itself once
    assert [int(each) for each in found.held] == [6, 1, 0, 0, 4, 1, 0]
    conn.close()


@pytest.mark.parametrize("count", ["9e999", "'many'", "x'00'", "null", "-3", "1e18", "'7'"])
def test_any_access_count(count: str, empty_db: Path) -> None:
    fill(empty_db, star(3))
    write(
        empty_db,
        ("drop table entity_access", []),
        (
            "create table entity_access(entity_id integer primary key, access_count, last_access)",
            [],
        ),
        (f"insert into entity_access(entity_id, access_count) values (1, {count})", []),
    )
    conn = connection.connect(empty_db, readonly=True)
    found = whole.read(conn, NOW)
    assert ((found.importance >= 0) & (found.importance <= 1)).all()
    conn.close()


def test_bytes_are_read_as_text(empty_db: Path) -> None:
    fill(empty_db, star(2))
    write(
        empty_db,
        ("update entities set name = x'6e61ff', entity_type = x'54' where id = 1", []),
        ("update relations set relation_type = x'6b' where to_entity = 2", []),
    )
    conn = connection.connect(empty_db, readonly=True)
    found = whole.read(conn, NOW)
    assert (found.names[0], found.types[0]) == ("na\ufffd", "T")
    assert whole.relation_types(conn, [1, 2], NOW) == {(1, 2): [("k", 1)]}
    conn.close()


@pytest.mark.parametrize(("entities", "relations"), [(10, 50), (11, 50), (10, 51)])
def test_a_small_memory_is_counted(entities: int, relations: int, empty_db: Path) -> None:
    write(
        empty_db,
        *((FILL, [at * 1000, f"n{at}"]) for at in range(1, entities + 1)),
        *((LINK.replace("uses", f"k{at}"), [1000, 2000]) for at in range(relations)),
    )
    conn = connection.connect(empty_db, readonly=True)
    assert whole.is_small(conn, 10) is (entities == 10 and relations == 50)
    conn.close()
