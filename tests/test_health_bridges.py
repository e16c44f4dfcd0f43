"""Archived bridges against brute force: every simple way between two live entities is walked."""

from __future__ import annotations

import itertools
import time
from typing import Any

import networkx
import pytest
from datasette.utils.sqlite import sqlite3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_limbic import schema
from datasette_limbic.health.bridges import Side, bridges, cut_apart

NOW = "2026-11-29 12:00:00"
OVER = "2026-01-01 00:00:00"


@st.composite
def graphs(draw: Any) -> tuple[set[int], set[int], list[tuple[int, int]]]:
    """Live and archived nodes, and links: few enough to walk every way between them."""
    count = draw(st.integers(0, 9))
    archived = draw(st.sets(st.integers(1, count))) if count else set()
    pairs = list(itertools.product(range(1, count + 1), repeat=2))
    links = draw(st.lists(st.sampled_from(pairs), max_size=14)) if pairs else []
    return set(range(1, count + 1)) - archived, archived, links


@pytest.fixture(scope="module")
def memory() -> Any:
    conn = sqlite3.connect(":memory:")
    schema.init(conn)
    conn.isolation_level = None
    yield conn
    conn.close()


def fill(conn: Any, live: set[int], archived: set[int], links: Any) -> None:
    conn.execute("delete from entities")
    conn.execute("delete from relations")
    conn.executemany(
        "insert into entities(id, name, archived_at) values (?, 'e' || ?1, ?)",
        [*((i, None) for i in live), *((i, OVER) for i in archived)],
    )
    conn.executemany(
        "insert or ignore into relations(from_entity, to_entity, relation_type) values (?, ?, 'r')",
        links,
    )


def whole(live: set[int], archived: set[int], links: Any) -> networkx.Graph:
    graph = networkx.Graph()
    graph.add_nodes_from(live | archived)
    graph.add_edges_from((a, b) for a, b in links if a != b)
    return graph


def live_parts(graph: networkx.Graph, live: set[int]) -> int:
    """Components that hold a live entity."""
    return sum(bool(part & live) for part in networkx.connected_components(graph))


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=graphs())
def test_against_every_way(memory: Any, drawn: Any) -> None:
    live, archived, links = drawn
    fill(memory, live, archived, links)
    graph = whole(live, archived, links)
    parts = list(networkx.connected_components(graph.subgraph(live)))
    part_of = {entity: at for at, part in enumerate(parts) for entity in part}
    on_a_way: set[int] = set()
    for one, other in itertools.combinations(sorted(live), 2):
        if part_of[one] != part_of[other]:
            inner = graph.subgraph(archived | {one, other})
            for way in networkx.all_simple_paths(inner, one, other):
                on_a_way.update(way[1:-1])
    only = {
        entity
        for entity in archived
        if live_parts(graph.subgraph(set(graph) - {entity}), live) > live_parts(graph, live)
    }
    found = bridges(memory, NOW)
    shown = found.shown(0, 100)
    assert {bridge.id for bridge in shown} == on_a_way
    assert {bridge.id for bridge in shown if bridge.only} == only
    assert len(found) == len(on_a_way)
    assert bool(shown) == (len(parts) > live_parts(graph, live))
    for bridge in shown:
        sides = sides_of(bridge, graph, live, archived)
        assert sorted((side.entities, side.first) for side in bridge.sides) == sides
        assert bridge.entities == sum(count for count, _ in sides)
        assert [s.entities for s in bridge.sides] == sorted((c for c, _ in sides), reverse=True)
    assert [bridge.only for bridge in shown] == sorted((b.only for b in shown), reverse=True)


def sides_of(bridge: Any, graph: Any, live: set[int], archived: set[int]) -> list[Any]:
    """What lies beyond it: with the only link taken away, or through archived ones alone."""
    if bridge.only:
        mine = networkx.node_connected_component(graph, bridge.id) - {bridge.id}
        pieces = [p & live for p in networkx.connected_components(graph.subgraph(mine))]
    else:
        reached = networkx.node_connected_component(graph.subgraph(archived), bridge.id)
        touched = {n for a in reached for n in graph[a] if n in live}
        pieces = [
            part for part in networkx.connected_components(graph.subgraph(live)) if part & touched
        ]
    return sorted((len(p), tuple(sorted(p)[:3])) for p in pieces if p)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=graphs())
def test_what_archiving_would_cut_apart(memory: Any, drawn: Any) -> None:
    live, archived, links = drawn
    fill(memory, live, archived, links)
    graph = whole(live, archived, links).subgraph(live)
    for entity in live:
        mine = networkx.node_connected_component(graph, entity) - {entity}
        pieces = list(networkx.connected_components(graph.subgraph(mine)))
        sides = cut_apart(memory, entity, NOW)
        wanted = sorted((len(p), tuple(sorted(p)[:3])) for p in pieces)
        assert sorted((s.entities, s.first) for s in sides) == (wanted if len(wanted) > 1 else [])


@pytest.mark.parametrize(
    ("links", "archived", "found"),
    [
        ([(1, 2), (2, 3)], {2}, {2: True}),
        ([(1, 2), (3, 2)], {2}, {2: True}),  # in either direction
        ([(1, 2), (2, 3), (3, 4)], {2, 3}, {2: True, 3: True}),  # a chain
        ([(1, 2), (2, 4), (1, 3), (3, 4)], {2, 3}, {2: False, 3: False}),  # either of two
        ([(1, 2), (2, 3), (1, 3)], {2}, {}),  # linked directly too
        ([(1, 2)], {2}, {}),  # a dead end
        ([(1, 2), (2, 3), (1, 4)], {2, 3, 4}, {}),  # leads to archived ones alone
        ([(1, 2), (2, 3)], {1, 2, 3}, {}),
        ([], set(), {}),
    ],
)
def test_shapes(memory: Any, links: Any, archived: set[int], found: dict[int, bool]) -> None:
    fill(memory, {1, 2, 3, 4} - archived, archived, links)
    assert {b.id: b.only for b in bridges(memory, NOW).shown(0, 9)} == found


def test_relations_that_ended_join_nothing_and_those_of_a_split_do(memory: Any) -> None:
    fill(memory, {1, 3}, {2}, [(1, 2), (2, 3)])
    assert bridges(memory, NOW).ids == [2]
    memory.execute("update relations set relation_type = 'contiene'")
    assert bridges(memory, NOW).ids == [2]
    memory.execute("update relations set valid_to = ? where to_entity = 3", [OVER])
    assert bridges(memory, NOW).ids == []
    assert bridges(memory, "2025-01-01 00:00:00").ids == [2]
    memory.execute("update relations set valid_to = 'one day'")  # unreadable: never ends
    assert bridges(memory, NOW).ids == [2]


def test_dangling_links_and_odd_ids(memory: Any) -> None:
    memory.execute("pragma foreign_keys = off")
    fill(memory, {-5, 0, 7}, {-2}, [(-5, -2), (-2, 0), (-2, 99), (98, 99)])
    memory.execute(
        "insert into relations(from_entity, to_entity, relation_type) values ('x', -2, 'r')"
    )
    (bridge,) = bridges(memory, NOW).shown(0, 9)
    assert bridge.id == -2
    assert bridge.sides == (Side(1, (-5,)), Side(1, (0,)))


@pytest.mark.slow
def test_ten_thousand_entities_take_no_second(memory: Any) -> None:
    count = 10_000
    links = [
        (i, 1 + (i * 7919 + k * 104729) % count) for i in range(1, count + 1) for k in range(5)
    ]
    archived = set(range(20, count, 20))
    fill(memory, set(range(1, count + 1)) - archived, archived, links)
    bridges(memory, NOW)
    started = time.perf_counter()
    found = bridges(memory, NOW)
    found.shown(0, 20)
    assert time.perf_counter() - started < 2
