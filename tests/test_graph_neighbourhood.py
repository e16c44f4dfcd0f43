"""What is near an entity: which nodes, which edges, how many statements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from datasette_limbic import connection, schema, scoring
from datasette_limbic.config import Settings
from datasette_limbic.errors import BadParameter, NotAMemory, UnknownEntity
from datasette_limbic.graph import neighbourhood as module
from datasette_limbic.graph import whole
from datasette_limbic.graph.neighbourhood import neighbourhood, statement

NOW = "2026-11-29 12:00:00"


@pytest.fixture
def conn(empty_db: Path) -> Iterator[Any]:
    with closing(connection.connect(empty_db)) as found:
        yield found


def entities(conn: Any, *names: Any, kind: str = "Thing") -> None:
    conn.executemany(
        "insert into entities (name, entity_type) values (?, ?)", [(n, kind) for n in names]
    )


def number(conn: Any, name: Any) -> int:
    found: int = conn.execute("select id from entities where name = ?", [name]).fetchone()[0]
    return found


def relate(conn: Any, *rows: tuple[str, str, str], valid_to: str | None = None) -> None:
    conn.executemany(
        "insert into relations (from_entity, to_entity, relation_type, valid_to)"
        " values (?, ?, ?, ?)",
        [(number(conn, a), number(conn, b), kind, valid_to) for a, kind, b in rows],
    )


def access(conn: Any, **counts: int) -> None:
    for name, count in counts.items():
        conn.execute(
            "insert into entity_access (entity_id, access_count) values (?, ?)",
            [number(conn, name), count],
        )


def together(conn: Any, a: str, b: str, count: int) -> None:
    pair = sorted((number(conn, a), number(conn, b)))
    conn.execute(
        "insert into co_occurrences (entity_a_id, entity_b_id, co_count) values (?, ?, ?)",
        [*pair, count],
    )


@pytest.fixture
def town(conn: Any) -> Any:
    """a – b – c – d, a – old (archived), a – gone (ended), and x comes up with a."""
    entities(conn, "a", "b", "c", "d", "old", "gone", "x", "far")
    relate(conn, ("a", "knows", "b"), ("b", "likes", "c"), ("c", "likes", "d"))
    relate(conn, ("old", "made", "a"))
    relate(conn, ("a", "knows", "gone"), valid_to="2020-01-01")
    conn.execute("update entities set archived_at = '2025-01-01' where name = 'old'")
    together(conn, "a", "x", 5)
    together(conn, "a", "b", 2)
    together(conn, "c", "far", 9)
    return conn


def names(found: Any) -> str:
    return " ".join(sorted(node.name for node in found.graph.nodes))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "a b gone old x"),
        ({"co_occurrence": False}, "a b gone old"),
        ({"archived": False}, "a b gone x"),
        ({"hops": 2}, "a b c gone old x"),
        ({"relation_types": ["made"], "co_occurrence": False}, "a old"),
        ({"relation_types": ["made", "knows"], "co_occurrence": False}, "a b gone old"),
        # the second hop follows those types too
        ({"relation_types": ["knows"], "hops": 2, "co_occurrence": False}, "a b gone"),
        ({"relation_types": ["nothing"], "co_occurrence": False}, "a"),
        ({"limit": 1}, "a"),
    ],
)
def test_which_nodes(town: Any, options: dict[str, Any], expected: str) -> None:
    found = neighbourhood(town, number(town, "a"), now=NOW, **options)
    assert names(found) == expected
    assert found.graph.focus == number(town, "a")
    # the filter is offered whole, whatever is chosen
    assert [(t.name, t.count) for t in found.relation_types] == [("knows", 2), ("made", 1)]
    # both ends of each edge are there
    ids = {node.id for node in found.graph.nodes}
    assert all({edge.source, edge.target} <= ids for edge in found.graph.edges)


def test_what_is_said_of_them(town: Any) -> None:
    graph = neighbourhood(town, number(town, "a"), hops=2, now=NOW).graph
    by_name = {node.name: node for node in graph.nodes}
    assert {n.name: n.distance for n in graph.nodes} == {
        "a": 0, "b": 1, "gone": 1, "old": 1, "x": 1, "c": 2,
    }  # fmt: skip
    assert [n.name for n in graph.nodes if n.archived] == ["old"]
    # what has ended counts for nobody
    assert by_name["a"].relations == 2
    assert by_name["b"].relations == 2
    assert by_name["gone"].relations == 0
    ended = [e for e in graph.edges if e.ended]
    assert [(e.source, e.target) for e in ended] == [(by_name["a"].id, by_name["gone"].id)]
    dashed = {(e.source, e.target, e.count) for e in graph.edges if e.kind == "co_occurrence"}
    assert dashed == {
        (by_name["a"].id, by_name["x"].id, 5),
        (by_name["a"].id, by_name["b"].id, 2),
    }
    assert not graph.left_out
    # at that time it held
    before = neighbourhood(town, number(town, "a"), now="2019-01-01 00:00:00").graph
    assert not any(e.ended for e in before.edges)


def test_relations_of_two_are_one_edge(conn: Any) -> None:
    entities(conn, "a", "b")
    relate(conn, ("a", "knows", "b"), ("b", "uses", "a"), ("b", "calls", "a"), ("a", "self", "a"))
    relate(conn, ("a", "knew", "b"), valid_to="2020-01-01")
    a, b = number(conn, "a"), number(conn, "b")
    [edge] = neighbourhood(conn, a, now=NOW).graph.edges
    # from the one with more; what has ended goes without saying where others hold
    assert (edge.source, edge.target) == (b, a)
    assert (edge.labels, edge.back) == (("calls", "uses"), ("knows",))
    assert (edge.count, edge.ended) == (3, False)


def test_importance_is_that_of_the_ranking(town: Any) -> None:
    access(town, a=3, b=40, far=100)
    graph = neighbourhood(town, number(town, "a"), now=NOW).graph
    found = {node.name: node.importance for node in graph.nodes}
    most = 1 + scoring.BETA_DEG
    # archived ones and ended relations count for no degree: b alone, and of b both a and c
    assert found["a"] == pytest.approx(scoring.compute_importance(3, 100, 1) / most)
    assert found["b"] == pytest.approx(scoring.compute_importance(40, 100, 2) / most)
    assert found["old"] == found["x"] == 0
    assert not graph.by_links


def test_where_nothing_was_used_links_count(town: Any) -> None:
    graph = neighbourhood(town, number(town, "a"), now=NOW).graph
    found = {node.name: node.importance for node in graph.nodes}
    assert graph.by_links
    # of the ended one neither a nor the other end has more
    assert 1 == found["a"] == found["b"] > found["old"] > found["gone"] == found["x"] == 0


def test_a_hub_keeps_the_most_used_and_counts_the_others(conn: Any) -> None:
    leaves = [f"leaf {i}" for i in range(2000)]
    entities(conn, "hub", *leaves, "other")
    relate(conn, *(("hub", "has", leaf) for leaf in leaves))
    conn.execute(
        "insert into entity_access (entity_id, access_count) select id, id from entities"
        " where name in ('leaf 1500', 'leaf 7', 'leaf 999')"
    )
    together(conn, "hub", "other", 3)
    found = neighbourhood(conn, number(conn, "hub"), limit=5, now=NOW)
    assert names(found) == "hub leaf 1500 leaf 7 leaf 999 other"
    assert (found.graph.left_out, found.graph.at_least) == (1997, False)
    assert found.relation_types[0].count == 2000
    # another entity has one neighbour, the hub, whose other leaves are not all looked at
    found = neighbourhood(conn, number(conn, "leaf 3"), hops=2, limit=30, now=NOW)
    assert len(found.graph.nodes) == 30
    assert found.graph.at_least
    # of the first 40 of the hub it is one, and 28 are shown
    assert found.graph.left_out == module.FOLLOWED - 1 - 28


def test_room_that_the_second_hop_does_not_fill(conn: Any) -> None:
    leaves = [f"leaf {i}" for i in range(30)]
    entities(conn, "hub", *leaves)
    relate(conn, *(("hub", "has", leaf) for leaf in leaves))
    found = neighbourhood(conn, number(conn, "hub"), hops=2, limit=20, now=NOW)
    assert len(found.graph.nodes) == 20
    assert (found.graph.left_out, found.graph.at_least) == (11, True)


def test_statements_do_not_grow_with_the_rows(town: Any) -> None:
    def run(entity: int) -> list[str]:
        said: list[str] = []
        town.set_trace_callback(said.append)
        neighbourhood(town, entity, hops=2, now=NOW)
        town.set_trace_callback(None)
        return said

    few = run(number(town, "a"))
    entities(town, *(f"n{i}" for i in range(500)))
    relate(town, *(("a", "has", f"n{i}") for i in range(500)))
    many = run(number(town, "a"))
    assert len(few) == len(many) < 15


def test_the_second_hop_never_reads_all_of_a_hub(conn: Any) -> None:
    entities(conn, "a", "hub")
    relate(conn, ("a", "knows", "hub"))

    def steps() -> int:
        count = 0

        def step() -> int:
            nonlocal count
            count += 1
            return 0

        conn.set_progress_handler(step, 10)
        conn.execute(
            statement("further"),
            {
                "focus": number(conn, "a"),
                "types": None,
                "archived": 1,
                "now": NOW,
                "shown": f"[{number(conn, 'hub')}]",
                "each": module.FOLLOWED,
                "limit": 20,
            },
        ).fetchall()
        conn.set_progress_handler(None, 0)
        return count

    def grow(first: int, last: int) -> None:
        leaves = [f"leaf {i}" for i in range(first, last)]
        entities(conn, *leaves)
        relate(conn, *(("hub", "has", leaf) for leaf in leaves))

    grow(0, 100)
    few = steps()
    grow(100, 3000)
    assert steps() < few * 1.2


def test_the_edges_of_a_thicket(conn: Any) -> None:
    many = [f"n{i}" for i in range(30)]
    entities(conn, *many)
    relate(conn, *((a, "t", b) for a in many for b in many if a < b))
    graph = neighbourhood(conn, number(conn, "n7"), now=NOW).graph
    assert len(graph.edges) == module.MOST_EDGES
    assert graph.edges_left_out == 30 * 29 // 2 - module.MOST_EDGES
    # those of the focus stay
    assert sum(graph.focus in (e.source, e.target) for e in graph.edges) == 29


def test_texts_of_other_programs(conn: Any) -> None:
    entities(conn, "a", b"\xff\x00bytes")
    conn.execute(
        "insert into relations (from_entity, to_entity, relation_type) values (1, 2, ?)", [b"\xfe"]
    )
    conn.execute("insert into entity_access (entity_id, access_count) values (1, 'many')")
    # what no entity has, as adopted tables may hold it
    conn.commit()
    conn.execute("pragma foreign_keys = off")
    for end in (77, b"\0", "x"):
        conn.execute(
            "insert into relations (from_entity, to_entity, relation_type) values (1, ?, 't')",
            [end],
        )
    found = neighbourhood(conn, 1, hops=2, now=NOW)
    assert [node.name for node in found.graph.nodes] == ["a", "\ufffd\0bytes"]
    assert found.graph.edges[0].labels == ("\ufffd",)


def odd_conn(path: Path) -> Any:
    """A memory of another program: columns of no type, no keys, no rule broken too few."""
    conn = connection.connect(path, create=True)
    conn.executescript("""
        create table entities (id integer primary key, name, entity_type, created_at, updated_at,
          archived_at);
        create table observations (id integer primary key, entity_id, content, created_at);
        create table relations (id integer primary key, from_entity, to_entity, relation_type,
          created_at, valid_from, valid_to);
        create table entity_access (entity_id integer primary key, access_count, last_access);
        create table entity_access_log (id integer primary key, entity_id, entity_name, query,
          accessed_at);
        create table co_occurrences (entity_a_id, entity_b_id, co_count, last_co);
        insert into entities (id, name) values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');
    """)
    schema.init(conn)
    return conn


def test_what_no_rule_of_the_tables_forbids(tmp_path: Path) -> None:
    with closing(odd_conn(tmp_path / "odd.db")) as conn:
        conn.executemany(
            "insert into relations (from_entity, to_entity, relation_type) values (?, ?, ?)",
            [
                *[(1, 2, kind) for kind in ("rare", "k", "k", "k", "often", "often")],
                (2, 1, "k"),
                (1, 1, "self"),
                (1, 3, None),
                (1, 3, ""),
                (1, 3, b"bytes"),
                (1, 3, 9),
                # from or to what is none of them
                (1.0, 4, "real"),
                ("1", 4, "text"),
                (1, 77, "nowhere"),
                (77, 1, "nowhere"),
            ],
        )
        conn.executemany(
            "insert into co_occurrences (entity_a_id, entity_b_id, co_count) values (?, ?, ?)",
            [(1, 2, 4), (2, 1, 9), (1, 1, 8), (1, 3, "much"), (1, 99, 9), (1, 4, -1)],
        )
        # what is not there has been used most
        conn.execute("insert into entity_access values (77, 9, null), (99, 9, null)")
        found = neighbourhood(conn, 1, limit=3, now=NOW)
        graph = found.graph
        assert [(node.id, node.relations) for node in graph.nodes] == [(1, 14), (2, 7), (3, 4)]
        assert (graph.left_out, graph.at_least) == (0, False)
        one, two, both = graph.edges
        assert (one.labels, one.back, one.count) == (("k", "often", "rare"), ("k",), 7)
        assert {type(end) for end in (two.source, two.target)} == {int}
        assert (two.source, two.target, two.count) == (1, 3, 4)
        assert (both.kind, both.source, both.target, both.count) == ("co_occurrence", 1, 2, 4)
        assert whole.read(conn, NOW).held[:3].tolist() == [14, 7, 4]  # the map counts them so too
        # offered is what can be asked for
        kinds = {kind.name: kind.count for kind in found.relation_types}
        assert kinds == {"k": 4, "often": 2, "rare": 1, "self": 1, "nowhere": 2}
        for kind in kinds:
            only = neighbourhood(conn, 1, relation_types=[kind], co_occurrence=False, now=NOW)
            assert len(only.graph.nodes) == (2 if kind in ("k", "often", "rare") else 1)
        # nor does the second hop lead there
        assert len(neighbourhood(conn, 2, hops=2, now=NOW).graph.nodes) == 3


@pytest.mark.parametrize("count", [9, "9", "9 times"])
@pytest.mark.parametrize("larger", [True, False])
def test_counts_of_any_kind_lead_to_live_entities(tmp_path: Path, count: Any, larger: bool) -> None:
    focus = 1 if larger else 4
    with closing(odd_conn(tmp_path / "odd.db")) as conn:
        conn.execute("update entities set archived_at = ? where id = 2", [NOW])
        partners = (2, 3, 99) if larger else (2, 3, -99)
        conn.executemany(
            "insert into co_occurrences (entity_a_id, entity_b_id, co_count) values (?, ?, ?)",
            [(*sorted((focus, partner)), count) for partner in partners],
        )
        for archived, expected in ((False, [3]), (True, [2, 3])):
            found = neighbourhood(conn, focus, archived=archived, now=NOW).graph
            assert sorted(node.id for node in found.nodes if node.id != focus) == expected


def test_what_has_not_begun_is_not_there_yet(conn: Any) -> None:
    entities(conn, "a", "b", "later", "soon", "far")
    relate(conn, ("a", "knows", "b"), ("a", "knows", "later"), ("b", "knows", "soon"))
    relate(conn, ("b", "knows", "far"))
    for name in ("later", "soon"):
        conn.execute(
            "update relations set valid_from = '2027-01-01' where to_entity = ?",
            [number(conn, name)],
        )
    a = number(conn, "a")
    found = neighbourhood(conn, a, hops=2, now=NOW)
    assert names(found) == "a b far"
    assert {n.name: n.relations for n in found.graph.nodes} == {"a": 1, "b": 2, "far": 1}
    assert [(t.name, t.count) for t in found.relation_types] == [("knows", 1)]
    assert names(neighbourhood(conn, a, hops=2, now="2027-01-01")) == "a b far later soon"


@pytest.mark.parametrize("values", [{}, {"beta_deg": 2.0}, {"d_max": 2}])
def test_the_map_says_the_same_of_an_entity(conn: Any, values: dict[str, Any]) -> None:
    """Importance and relations, with ended, later, repeated, own and split ones."""
    many = [f"n{i}" for i in range(9)]
    entities(conn, *many, b"\xffbytes")
    relate(conn, *(("n0", kind, other) for kind in ("k", "contiene") for other in many[1:4]))
    relate(conn, ("n0", "self", "n0"), ("n4", "k", "n0"), ("n4", "l", "n0"), ("n5", "k", "n4"))
    relate(conn, ("n0", "was", "n6"), ("n0", "was", "n7"), valid_to="2020-01-01")
    conn.execute("update relations set valid_from = '2027-01-01' where to_entity = 4")
    conn.execute("update entities set archived_at = '2025-01-01' where name = 'n2'")
    conn.execute(
        "insert into relations (from_entity, to_entity, relation_type) values (1, 10, 'k')"
    )
    access(conn, n0=7, n4=3, n1=40, n2=90)
    settings = Settings(**values)
    found = whole.read(conn, NOW, settings)
    for at, entity in enumerate(found.ids.tolist()):
        graph = neighbourhood(conn, entity, limit=1, now=NOW, settings=settings).graph
        [node] = graph.nodes
        assert node.importance == pytest.approx(float(found.importance[at])), node
        assert (node.name, node.relations) == (found.names[at], int(found.held[at]))
    assert found.held[0] == 8


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"entity_id": 99}, UnknownEntity, "no entity with the id 99"),
        ({"hops": 3}, BadParameter, "hops is 3: use 1 or 2"),
        ({"limit": 0}, BadParameter, "limit is 0: use a whole number from 1 to 80"),
        ({"limit": 81}, BadParameter, "limit is 81"),
    ],
)
def test_what_is_refused(
    town: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        neighbourhood(town, **{"entity_id": 1, "now": NOW, **options})


def test_a_file_that_is_no_memory(tmp_path: Path) -> None:
    with (
        closing(connection.connect(tmp_path / "x.db", create=True)) as conn,
        pytest.raises(NotAMemory),
    ):
        neighbourhood(conn, 1, now=NOW)
