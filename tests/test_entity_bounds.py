"""What is told of a hub is true: no figure is more than there is, and one that is less says so.

Against the same counts of the whole tables, on the page of an entity, in its picture and in JSON.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from view_helpers import base, get, get_json, text_of

from benchmarks import filling
from datasette_limbic import connection
from datasette_limbic.bounds import COUNTED, LOGGED
from datasette_limbic.config import Settings
from datasette_limbic.entity import entity_detail
from datasette_limbic.entity_relations import block_of, relation_types
from datasette_limbic.entity_signals import PARTNERS, signals
from datasette_limbic.graph import neighbourhood as module
from datasette_limbic.graph.neighbourhood import neighbourhood
from datasette_limbic.views import entity_display

NOW = "2026-11-29 12:00:00"
HUB = 1
OTHERS = 10
"""From here on come the entities around."""
MANY, MORE = COUNTED + 1_000, 2 * COUNTED + 1_000

Links = Iterable[tuple[int, int, str]]


def out(kind: str, first: int, count: int) -> Links:
    return ((HUB, OTHERS + place, kind) for place in range(first, first + count))


def back(kind: str, first: int, count: int) -> Links:
    return ((other, hub, kind) for hub, other, kind in out(kind, first, count))


def loops(count: int, kind: str = "loop") -> Links:
    return ((HUB, HUB, f"{kind} {i}") for i in range(count))


# a hub of several types, the last of which come after the first block
MIXED = (out("knows", 0, 3_250), out("uses", 3_250, 3_250), out("contiene", 6_500, 500))
SHAPES: dict[str, tuple[Links, ...]] = {
    "few": (out("knows", 0, 20), back("knows", 0, 9), loops(2)),
    "types": MIXED,
    "out": (out("knows", 0, MANY), back("uses", 0, 20)),
    "in": (back("knows", 0, MANY), back("parte_de", MANY, 20)),
    "both": (out("knows", 0, MANY), back("uses", 0, MANY)),
    "loops": (loops(MORE),),
    "loops behind": (loops(MANY), out("knows", 0, MANY), back("uses", 0, 40)),
    # those of an end, however late, come after all others
    "late loops": (loops(MANY, "late"), out("knows", 0, MANY), back("uses", 0, MANY)),
    "loops and both": (loops(300), out("knows", 0, MANY), back("uses", 0, MANY)),
}
SHAPES = {name: tuple(map(tuple, parts)) for name, parts in SHAPES.items()}


def build(
    path: Path,
    links: Iterable[Iterable[tuple[int, int, str]]] = (),
    pairs: Iterable[Any] = (),
    accesses: Iterable[Any] = (),
    archived: bool = False,
) -> Path:
    """A hub with these relations, ``pairs`` as counts of those around, and times of accesses."""
    with closing(connection.connect(path, create=True)) as conn, filling.filling(conn):
        conn.execute("insert into entities(id, name) values (?, 'hub')", [HUB])
        conn.executemany(
            "insert into entities(id, name, archived_at) values (?, ?, ?)",
            ((OTHERS + i, f"other {i}", "2025-01-01" if archived else None) for i in range(MORE)),
        )
        conn.executemany(
            "insert into relations(from_entity, to_entity, relation_type) values (?, ?, ?)",
            (link for part in links for link in part),
        )
        conn.execute(
            "update relations set valid_to = '2099-01-01' where relation_type like 'late%'"
        )
        conn.executemany(
            "insert into co_occurrences(entity_a_id, entity_b_id, co_count, last_co)"
            " values (?, ?, ?, '2026-11-20')",
            ((HUB, OTHERS + place, count) for place, count in enumerate(pairs)),
        )
        conn.executemany(
            "insert into entity_access_log(entity_id, entity_name, accessed_at)"
            " values (?, 'hub', ?)",
            ((HUB, moment) for moment in accesses),
        )
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bounds")
    return {
        name: build(folder / f"{i}.db", parts) for i, (name, parts) in enumerate(SHAPES.items())
    }


def true_counts(shape: str) -> dict[str, int]:
    links = {link for part in SHAPES[shape] for link in part}
    return {
        "relations_out": sum(a == HUB for a, _, _ in links),
        "relations_in": sum(b == HUB for _, b, _ in links),
        "relations": len(links),
        "valid_relations": len(links),
        "partners": 0,
        "observations": 0,
        "valid_observations": 0,
        "log": 0,
    }


def true_types(shape: str) -> dict[str, Counter[str]]:
    """How many relations of each type there are, each way."""
    return {
        way: Counter(link[2] for part in SHAPES[shape] for link in part if link[end] == HUB)
        for way, end in (("out", 0), ("in", 1))
    }


@pytest.mark.parametrize("page", [1, 50, 51, 101, 300])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_count_is_more_than_there_is(files: dict[str, Path], shape: str, page: int) -> None:
    with closing(connection.connect(files[shape], readonly=True)) as conn:
        found = entity_detail(conn, HUB, now=NOW, relations_page=page)
        types = relation_types(conn, HUB, NOW)
    counts, at_least, truth = found["counts"], found["at_least"], true_counts(shape)
    for name, true in truth.items():
        assert 0 <= counts[name] <= true, name
        assert (counts[name] < true) <= (name in at_least), name
    assert counts["valid_relations"] <= counts["relations"]
    for way, listed in types.items():
        true_of_way = true_types(shape)[way]
        told = {row["relation_type"]: row["count"] for row in listed}
        assert all(count <= true_of_way[kind] for kind, count in told.items())
        assert told == true_of_way or "valid_relations" in at_least


@pytest.mark.parametrize("size", [1, 25, 100, COUNTED - 1, COUNTED, COUNTED + 1, 2 * COUNTED])
def test_a_page_lies_in_one_block(size: int) -> None:
    starts = {page: block_of(page, size) for page in range(1, 3 * COUNTED // size + 3)}
    for page, (start, block) in starts.items():
        assert block >= COUNTED
        assert block % size == start % block == 0
        assert start <= (page - 1) * size < page * size <= start + block


LAST = MORE // entity_display.RELATIONS
SECOND = COUNTED // entity_display.RELATIONS + 1
"""The first page for people of the second block."""


@pytest.mark.parametrize("page", [1, 131, SECOND, 261, LAST])
@pytest.mark.parametrize("shape", ["few", "types", "out", "both"])
async def test_figures_of_the_page(
    files: dict[str, Path], make_datasette: Any, shape: str, page: int
) -> None:
    datasette, here = make_datasette(files[shape]), base(files[shape])
    shown = await get(datasette, f"{here}/entity/{HUB}?now={NOW}&relations_page={page}")
    relations = shown.text.partition('id="limbic-relations"')[2].partition("</section>")[0]
    text = text_of(relations)
    truth, types = true_counts(shape), true_types(shape)
    for title, way in (("From here", "out"), ("To here", "in")):
        told, plus = re.search(rf"{title} ([\d,]+)(\+?)", text).groups()  # type: ignore[union-attr]
        number, true = int(told.replace(",", "")), truth[f"relations_{way}"]
        assert number <= true
        assert bool(plus) == (number < true)
        part = text.partition(title)[2].partition("To here")[0]
        for kind, true in types[way].items():
            for told, plus in re.findall(rf"\b{kind} ([\d,]+)(\+?)", part):
                number = int(told.replace(",", ""))
                assert number <= true
                # a type may be whole, but that is not known
                assert bool(plus) == (truth[f"relations_{way}"] > COUNTED)
    # no figure is only a sign for one
    assert not re.search(r"–\+| –(?: |$)", text)
    is_hub = max(truth["relations_out"], truth["relations_in"]) > COUNTED
    first = f"Of its relations the first {COUNTED:,} each way are counted." in text
    later = re.search(r"numbers ([\d,]+) to ([\d,]+) of each way\. Types are counted of", text)
    top = max(truth["relations_out"], truth["relations_in"])
    in_later = is_hub and page >= SECOND and (page - 1) * entity_display.RELATIONS // COUNTED == 1
    assert (first, bool(later)) == (is_hub and not in_later, in_later)
    if later:
        assert later.groups() == (f"{COUNTED + 1:,}", f"{top:,}")
    paged = re.search(r"Page [\d,]+ of ([\d,]+)(\+?)", text)
    if paged:
        # page after page there are no fewer
        whole = -(-top // entity_display.RELATIONS)
        last = int(paged[1].replace(",", ""))
        assert (last, paged[2]) == ((SECOND, "+") if is_hub and page < SECOND else (whole, ""))


@pytest.mark.parametrize("kind", [None, "knows", "uses", "contiene", "parte_de"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_picture_says_what_it_leaves_out(
    files: dict[str, Path], shape: str, kind: str | None
) -> None:
    with closing(connection.connect(files[shape], readonly=True)) as conn:
        found = neighbourhood(
            conn, HUB, relation_types=[kind] if kind else None, now=NOW, settings=Settings()
        )
    links = {link for part in SHAPES[shape] for link in part if kind in (None, link[2])}
    near = {a + b - HUB for a, b, _ in links if a != b}
    told = len(found.graph.nodes) - 1 + found.graph.left_out
    assert told <= len(near)
    assert (told < len(near)) <= found.graph.at_least
    if kind:
        # those of a type are found wherever they stand, and counted by themselves
        assert found.graph.at_least == any(
            sum(link[end] == HUB for link in links) > COUNTED for end in (0, 1)
        )
        assert told == len(near) or found.graph.at_least
    hub = next(node for node in found.graph.nodes if node.id == HUB)
    true = true_counts(shape)
    assert hub.relations <= true["relations"]
    is_hub = max(true["relations_out"], true["relations_in"]) > COUNTED
    assert hub.at_least == found.types_at_least == is_hub
    assert hub.relations == true["relations"] or hub.at_least
    assert not any(node.at_least for node in found.graph.nodes if node.id != HUB)


@pytest.mark.parametrize("looked_at", [6_500, 7_000])
def test_types_are_looked_for_among_so_many(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, looked_at: int
) -> None:
    monkeypatch.setattr("datasette_limbic.bounds.LOOKED_AT", looked_at)
    monkeypatch.setattr(module, "LOOKED_AT", looked_at)
    module.statement.cache_clear()
    try:
        with closing(connection.connect(files["types"], readonly=True)) as conn:
            graph = neighbourhood(conn, HUB, relation_types=["contiene"], now=NOW).graph
    finally:
        module.statement.cache_clear()
    # parts come last
    found = looked_at - 6_500
    assert (len(graph.nodes) - 1 + graph.left_out, graph.at_least) == (found, found < 500)


async def test_figures_of_the_page_of_a_picture(
    files: dict[str, Path], make_datasette: Any
) -> None:
    for shape, plus in (("few", ""), ("types", "+")):
        datasette, here = make_datasette(files[shape]), base(files[shape])
        url = f"{here}/entity/{HUB}/graph"
        body = await get_json(datasette, f"{url}.json?now={NOW}")
        assert body["relation_types_at_least"] is bool(plus)
        assert [node["at_least"] for node in body["nodes"] if node["id"] == HUB] == [bool(plus)]
        text = text_of((await get(datasette, f"{url}?now={NOW}")).text)
        text = re.sub("[\u2068\u2069]", "", text)
        for kind in body["relation_types"]:
            assert f"{kind['name']} {kind['count']:,}{plus} " in text
        told = next(node["relations"] for node in body["nodes"] if node["id"] == HUB)
        assert f" {told:,}{plus} relations" in text


@pytest.mark.parametrize(("count", "said"), [(COUNTED, False), (COUNTED + 1, True)])
async def test_nothing_of_what_was_looked_at_passes(
    tmp_path: Path, make_datasette: Any, count: int, said: bool
) -> None:
    path = build(tmp_path / "archived.db", [out("knows", 0, count)], archived=True)
    url = f"{base(path)}/entity/{HUB}/graph"
    body = await get_json(make_datasette(path), f"{url}.json?archived=0&now={NOW}")
    assert (len(body["nodes"]), body["left_out"], body["at_least"]) == (1, 0, said)
    page = (await get(make_datasette(path), f"{url}?archived=0&now={NOW}")).text
    assert ("Nothing that was looked at passes the filter." in page) is said
    assert ("Nothing passes the filter." in page) is not said
    # below the picture, and in its description
    assert page.count("More are left out.") == (2 if said else 0)


SELDOM = [1] * (COUNTED + 1_000) + [3] * 998
OFTEN = "are listed."
OF_COUNTED = f"The {PARTNERS} most frequent of those that are counted are listed."
ALL = f"The {PARTNERS} most frequent are listed."


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        (SELDOM[-COUNTED:], ALL),
        (SELDOM, OF_COUNTED),
        (SELDOM + [9] * (PARTNERS - 1), OF_COUNTED),
        (SELDOM + [9] * PARTNERS, ALL),
        # texts sort after all numbers, and count as what they begin with
        (SELDOM + ["many"] * 30 + [9] * PARTNERS, ALL),
        (SELDOM + ["2 times"] * 30 + [9] * PARTNERS, ALL),
        (SELDOM + [8] * 30 + ["9 times"] * 4, None),
        (["many"] * 30 + [2] * 5, ALL),
    ],
)
async def test_the_most_frequent_are_those(
    tmp_path: Path, make_datasette: Any, pairs: list[Any], sentence: str | None
) -> None:
    path = build(tmp_path / "pairs.db", pairs=pairs)
    counts = [int(n) if (n := re.match(r"\d*", str(count))[0]) else 0 for count in pairs]  # type: ignore[index]
    order = sorted(range(len(pairs)), key=lambda place: (-counts[place], place))
    with closing(connection.connect(path, readonly=True)) as conn:
        listed = signals(conn, {"id": HUB, "now": NOW}, Settings(), False)[0]["co_occurrences"]
        drawn = neighbourhood(conn, HUB, now=NOW, settings=Settings()).graph
    told = [counts[row["id"] - OTHERS] for row in listed]
    if sentence != OF_COUNTED:
        assert told == [counts[place] for place in order[:PARTNERS]]
    # those that come up often are always first, whatever was counted
    often = sum(count > 3 for count in counts)
    assert sorted(told, reverse=True) == told
    assert sum(count > 3 for count in told) == min(often, PARTNERS)
    near = {node.id - OTHERS for node in drawn.nodes if node.id != HUB}
    if often >= module.PARTNERS:
        assert near == set(order[: module.PARTNERS])
    page = text_of((await get(make_datasette(path), f"{base(path)}/entity/{HUB}?now={NOW}")).text)
    if sentence:
        assert sentence in page
        assert ({ALL, OF_COUNTED} - {sentence}).pop() not in page


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("moment", ["2099-01-01 10:00:00", "never", None])
async def test_a_page_without_an_access_that_is_drawn(
    tmp_path: Path, make_datasette: Any, moment: str | None, more: bool
) -> None:
    path = tmp_path / "log.db"
    with closing(connection.connect(path, create=True)) as conn:
        # as another program may have made it
        conn.execute(
            "create table entity_access_log (id integer primary key, entity_id, entity_name, query,"
            " accessed_at)"
        )
    build(path, accesses=[moment] * (LOGGED + more))
    url = f"{base(path)}/entity/{HUB}"
    body = await get_json(make_datasette(path), f"{url}.json?now={NOW}")
    assert (body["counts"]["log"], "log" in body["at_least"]) == (LOGGED, more)
    assert body["signals"]["counted_from"] == (moment if more else None)
    text = text_of((await get(make_datasette(path), f"{url}?now={NOW}")).text)
    said = f"Of its accesses the last {LOGGED:,} are counted, sorted by time as text"
    assert (f"None in the last 26 weeks. {said}" in text) is more
    # also beside what is drawn over time
    assert text.count(said) == 2 * more
