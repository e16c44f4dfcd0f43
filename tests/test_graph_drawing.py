"""Pictures of the graph: places, names, lines."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import subprocess
import sys
from typing import Any

import pytest

from datasette_limbic import i18n
from datasette_limbic.graph import layout
from datasette_limbic.graph.drawing import draw
from datasette_limbic.graph.labels import (
    Box,
    Wanted,
    place,
    plain_line,
    short_line,
    width_of,
)
from datasette_limbic.graph.layout import positions, radii
from datasette_limbic.graph.model import Edge, Graph, Node

WIDTH, HEIGHT = 1000, 640


def graph(links: list[tuple[int, int]], nodes: int, focus: int | None = None) -> Graph:
    return Graph(
        [
            Node(i, f"Entity number {i}", f"type {i % 11}", importance=(i % 7) / 7, url=f"/{i}")
            for i in range(nodes)
        ],
        [Edge(a, b, ("knows",)) for a, b in links],
        focus=focus,
    )


SHAPES = {
    "one": graph([], 1, 0),
    "two": graph([(0, 1)], 2, 1),
    "two apart": graph([], 2),
    "star": graph([(0, i) for i in range(1, 60)], 60, 0),
    "path": graph([(i, i + 1) for i in range(29)], 30, 15),
    "thicket": graph(list(itertools.combinations(range(25), 2)), 25, 3),
    # thickets that draw together, far from each other
    "two thickets": graph(
        [*itertools.combinations(range(18), 2), *itertools.combinations(range(18, 36), 2), (0, 18)]
        + [(36 + i, 0) for i in range(6)],
        42,
        0,
    ),
    "a long tail": graph(
        [*itertools.combinations(range(16), 2), *((15 + i, 16 + i) for i in range(14))], 30, 2
    ),
    "islands": graph([(0, 1), (1, 2), (4, 5), (6, 7)], 12),
    "no links": graph([], 40),
    "map": graph([(i, i // 3) for i in range(1, 200)], 200),
}


@pytest.mark.parametrize("name", SHAPES)
def test_nodes_stand_apart_and_inside(name: str) -> None:
    drawn = SHAPES[name]
    found = positions(drawn, width=WIDTH, height=HEIGHT)
    sizes = radii(drawn)
    assert set(found) == {node.id for node in drawn.nodes}
    for node, (x, y) in found.items():
        assert sizes[node] <= x <= WIDTH - sizes[node]
        assert sizes[node] <= y <= HEIGHT - sizes[node]
    for a, b in itertools.combinations(found, 2):
        gap = max(abs(found[a][i] - found[b][i]) for i in (0, 1))
        apart = ((found[a][0] - found[b][0]) ** 2 + (found[a][1] - found[b][1]) ** 2) ** 0.5
        assert apart > sizes[a] + sizes[b], (a, b)
        if len(found) <= 60:  # two targets of 24 px
            assert gap >= 23.5, (a, b)
    if drawn.focus is not None and len(found) != 2:
        assert found[drawn.focus] == (WIDTH / 2, HEIGHT / 2)


def test_the_order_of_rows_does_not_matter() -> None:
    drawn = graph([(0, i) for i in range(1, 30)] + [(3, 9), (9, 12), (20, 21)], 30, 0)
    first = positions(drawn, width=WIDTH, height=HEIGHT)
    layout._laid_out.cache_clear()
    for seed in range(3):
        shuffled = random.Random(seed)
        nodes, edges = list(drawn.nodes), list(drawn.edges)
        shuffled.shuffle(nodes)
        shuffled.shuffle(edges)
        again = positions(Graph(nodes, edges, focus=0), width=WIDTH, height=HEIGHT)
        assert again == first


SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from test_graph_drawing import SHAPES, positions
print(json.dumps(positions(SHAPES["islands"], width=640, height=400)))
"""


def test_another_process_draws_the_same() -> None:
    """Whatever the seed of its hashes."""
    here = os.path.dirname(__file__)
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, here],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": os.path.dirname(here)},
    )
    assert run.returncode == 0, run.stderr
    found = {int(k): tuple(v) for k, v in json.loads(run.stdout).items()}
    assert found == positions(SHAPES["islands"], width=640, height=400)


def test_a_picture_is_laid_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = graph([(0, 1), (1, 2), (2, 5)], 6, 0)
    first = positions(drawn, width=501, height=300)
    monkeypatch.setattr(layout, "_sprung", None)
    assert positions(drawn, width=501, height=300) == first
    # who changes what they got does not change what others get
    positions(drawn, width=501, height=300).clear()
    assert positions(drawn, width=501, height=300) == first
    with pytest.raises(TypeError):
        positions(drawn, width=502, height=300)


# names -----------------------------------------------------------------------------------------


def boxes(drawn: dict[str, Any]) -> list[Box]:
    """Where the names that are shown stand, by a reckoning of our own."""
    found = []
    for node in drawn["nodes"]:
        label = node["label"]
        if label is not None:
            size = 13 if node["focus"] else 12
            wide = width_of(label["text"], size)
            x, y = node["x"] + label["x"], node["y"] + label["y"]
            left = {"": x - wide / 2, "limbic-start": x, "limbic-end": x - wide}[label["class"]]
            found.append(Box(left, y - size * 0.7, left + wide, y))
    return found


def test_names_stand_away_from_the_focus() -> None:
    shape = SHAPES["star"]
    drawn = draw(shape, positions(shape, width=WIDTH, height=HEIGHT), width=WIDTH, height=HEIGHT)
    others = [node for node in drawn["nodes"] if not node["focus"]]
    away = [n for n in others if (n["y"] < HEIGHT / 2 - 1) == (n["label"]["y"] < 0)]
    assert len(away) > 0.8 * len(others)


@pytest.mark.parametrize("name", SHAPES)
def test_names_meet_neither_each_other_nor_circles(name: str) -> None:
    shape = SHAPES[name]
    drawn = draw(shape, positions(shape, width=WIDTH, height=HEIGHT), width=WIDTH, height=HEIGHT)
    shown = boxes(drawn)
    # the most important has its name, and where there is room all do
    assert drawn["nodes"][-1]["label"]
    if len(shape.nodes) <= 60:
        assert len(shown) >= 0.9 * len(shape.nodes)
    for one, other in itertools.combinations(shown, 2):
        assert not one.meets(other)
    for box in shown:
        assert box.within(WIDTH, HEIGHT)
        for node in drawn["nodes"]:
            x, y, r = node["x"], node["y"], node["r"] - 0.5
            assert not box.meets(Box(x - r, y - r, x + r, y + r))


def test_where_there_is_no_room_the_most_important_is_named() -> None:
    wanted = [Wanted(i, "a name of some length", 60, 50, 5, weight=i) for i in range(9)]
    found = place(wanted, [], width=150, height=90)
    assert found[8].shown
    assert not all(label.shown for label in found.values())
    assert len(found) == 9  # the others wait for whoever points at them
    shorter = [
        label.text for label in found.values() if label.shown and label.text[-2:] == "…\u2069"
    ]
    assert all(len(text) < 21 for text in shorter)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("a\0b\tc\nd\x1b e", "a b c d e"),
        ("\u202eright to left\u202c", "right to left"),
        ("\u2067x\u2069\u200f", "x"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("\ud800x", "x"),
        (None, ""),
        ("<b>&", "<b>&"),
    ],
)
def test_lines_are_plain(value: Any, line: str) -> None:
    assert plain_line(value) == line


def test_short_lines_are_isolated() -> None:
    assert short_line("نص عربي", 20) == "\u2068نص عربي\u2069"
    assert short_line("x" * 1_000_000, 10) == "\u2068" + "x" * 9 + "…\u2069"
    assert short_line("\u200b \u202e", 10) == ""
    assert width_of("漢字") > width_of("ab") > width_of("il") > width_of("\u2068\u2069") == 0


# the drawing -----------------------------------------------------------------------------------


def test_classes_follow_how_frequent_types_are() -> None:
    kinds = ["b"] * 3 + ["a"] * 2 + [f"rare {i}" for i in range(9)]
    shape = Graph([Node(i, f"n{i}", kind) for i, kind in enumerate(kinds)])
    drawn = draw(shape, positions(shape, width=800, height=500), width=800, height=500)
    by_id = {node["id"]: node["class"] for node in drawn["nodes"]}
    assert by_id[0] == "limbic-type-0"
    assert by_id[3] == "limbic-type-1"
    assert by_id[13] == "limbic-type-other"
    assert drawn["legend"][0] == {"class": "limbic-type-0", "text": "b", "count": 3}
    assert drawn["legend"][-1] == {
        "class": "limbic-type-other", "text": "other types", "count": 3,
    }  # fmt: skip
    assert len(drawn["legend"]) == 9


def test_lines_and_their_heads() -> None:
    shape = Graph(
        [Node(i, "abc"[i], "T") for i in range(3)],
        [
            Edge(0, 1, ("to",)),
            Edge(0, 2, ("to", "too"), count=3, back=("from",)),
            Edge(0, 1, kind="co_occurrence", count=4),
            Edge(1, 2, count=7, directed=False),
            Edge(1, 1, ("self",)),
            Edge(1, 99, ("nowhere",)),
        ],
        focus=0,
    )
    places = {0: (100.0, 100.0), 1: (300.0, 100.0), 2: (100.0, 300.0)}
    drawn = draw(shape, places, width=400, height=400)
    one, both, dashed, plain = drawn["edges"]
    sizes = radii(shape)
    # from circle to circle, with a gap, and the point of the arrow at the end of the line
    match = re.fullmatch(r"M([\d.]+) 100L([\d.]+) 100m0 0l-7 -2.9 0 5.9z", one["path"])
    assert match is not None
    start, end = map(float, match.groups())
    assert 100 + sizes[0] < start < 100 + sizes[0] + 5
    assert 300 - sizes[1] - 5 < end < 300 - sizes[1]
    assert [edge["path"].count("z") for edge in drawn["edges"]] == [1, 2, 0, 0]
    # that at the beginning points to it, and the line goes on from there
    assert re.fullmatch(r"M100 [\d.]+l-2.9 7 5.9 0zL100 [\d.]+m0 0l2.9 -7 -5.9 0z", both["path"])
    # bent beside the other line between the same two
    assert "Q" in dashed["path"]
    assert "Q" not in plain["path"]
    assert (one["strong"], both["strong"]) == (False, True)
    assert one["label"]["text"] == "\u2068to\u2069"
    assert both["label"]["text"] == "\u2068to\u2069 +2"
    assert dashed["label"] is None
    assert [row["text"].replace("\u2068", "").replace("\u2069", "") for row in drawn["links"]] == [
        "→ to", "→ to, too; ← from", "4 times together", "7 relations",
    ]  # fmt: skip


def test_circles_that_touch_leave_a_line_of_no_length() -> None:
    shape = Graph([Node(0, "a", "T"), Node(1, "b", "T")], [Edge(0, 1, ("t",))])
    drawn = draw(shape, {0: (50.0, 50.0), 1: (50.0, 50.0)}, width=100, height=100)
    assert drawn["edges"][0]["path"].startswith("M50 50L50 50")


def test_sizes() -> None:
    few = Graph([Node(i, "n", "T", importance=i / 4) for i in range(5)])
    sizes = radii(few)
    assert sizes[0] < sizes[1] < sizes[2] < sizes[3] < sizes[4] == layout.LARGEST
    assert radii(Graph(few.nodes, focus=0))[0] == layout.FOCUS_SMALLEST
    groups = Graph([Node(i, "n", "T", kind="community", members=10**i) for i in range(3)])
    found = radii(groups)
    assert found[0] < found[1] < found[2] == layout.COMMUNITY_LARGEST
    # many nodes are smaller
    assert radii(Graph([Node(i, "n", "T", importance=1) for i in range(200)]))[0] < 12


def test_words_are_those_of_the_language() -> None:
    shape = Graph(
        [Node(0, "", "", archived=True, relations=1, importance=0.5), Node(1, "b", "T")],
        [Edge(0, 1, ("t",), ended=True)],
        focus=0,
        left_out=3,
    )
    places = positions(shape, width=300, height=200)
    drawn = draw(shape, places, width=300, height=200)
    titles = {node["id"]: node["title"] for node in drawn["nodes"]}
    assert titles[0] == "unnamed (#0) · no type · importance 0.50 · 1 relation · archived"
    assert "2 nodes and 1 line" in drawn["desc"]
    assert "3 more are left out" in drawn["desc"]
    assert drawn["has_ended"]
    assert drawn["has_archived"]
    assert not drawn["has_relations"]
    shape.at_least = True
    assert "At least 3 more" in draw(shape, places, width=300, height=200)["desc"]
    shape.by_links = True
    assert "importance" not in draw(shape, places, width=300, height=200)["nodes"][0]["title"]

    class Spanish:
        def gettext(self, message: str) -> str:
            return {"archived": "archivada", "no type": "sin tipo"}.get(message, message)

        def ngettext(self, one: str, many: str, count: int) -> str:
            return "%(n)s relación" if count == 1 else many

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(i18n, "catalogue", lambda language: Spanish())
        spoken = draw(shape, places, width=300, height=200)
    [title] = [node["title"] for node in spoken["nodes"] if node["focus"]]
    assert title == "unnamed (#0) · sin tipo · 1 relación · archivada"
