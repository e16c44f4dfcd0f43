"""The plugins on the page of retrieval, as they stand there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from datasette.plugins import pm
from view_helpers import base, get, get_json

from datasette_limbic import connection
from datasette_limbic.api import Settings, search
from datasette_limbic.errors import BadParameter
from datasette_limbic.retrieval.plugins import retriever

PAGE = Path(__file__).resolve().parents[1] / "docs" / "retrieval.md"
NOW = "2026-11-29 12:00:00"


def source(name: str) -> str:
    text = PAGE.read_text("utf-8")
    match = re.search(rf"^<!-- plugin: {name} -->\n```python\n(.*?)^```$", text, re.M | re.S)
    assert match, f"docs/retrieval.md has no plugin {name}"
    return match[1]


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Registers a plugin of the page, as ``--plugins-dir`` does."""
    there = []

    def register(name: str) -> Any:
        path = tmp_path / f"limbic_{name}.py"
        path.write_text(source(name), "utf-8")
        spec = spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        pm.register(module)
        there.append(module)
        return retriever(name)

    yield register
    for module in there:
        pm.unregister(module)


def asked(conn: Any, by: str, query: str, **arguments: Any) -> dict[str, Any]:
    return search(
        conn, query, now=NOW, mode="semantic", settings=Settings(retriever=by), **arguments
    )


@pytest.mark.parametrize(
    "arguments",
    [{}, {"limit": 40}, {"type": "Persona"}, {"include_archived": "1"}],
    ids=["all", "more than there are", "of a type", "archived too"],
)
def test_the_tree_finds_what_vec0_finds(
    arguments: dict[str, Any], plugin: Any, demo_db: Path
) -> None:
    plugin("tree")
    conn = connection.connect(demo_db, readonly=True)
    try:
        for query in ("who works on billing", "la furgoneta del reparto"):
            found, wanted = (asked(conn, by, query, **arguments) for by in ("tree", "vec0"))
            assert (found["retriever"], found["degraded"]) == ("tree", None)
            assert len(wanted["results"]) > 3
            assert [r["id"] for r in found["results"]] == [r["id"] for r in wanted["results"]]
            for one, other in zip(found["results"], wanted["results"], strict=True):
                assert one["distance"] == pytest.approx(other["distance"], abs=1e-5)
    finally:
        conn.close()


def test_the_tree_follows_and_gives_way(plugin: Any, demo_db: Path) -> None:
    tree = plugin("tree")
    conn = connection.connect(demo_db)
    try:
        asked(conn, "tree", "who works on billing")
        first = tree.tree(conn)
        assert tree.tree(conn)[1] is first[1]
        with conn:
            conn.execute("update limbic_indexes set version = version + 1")
        assert tree.tree(conn)[1] is not first[1]
        with conn:  # a vector of nothing: no tree can be made
            conn.execute("update limbic_indexes set version = version + 1")
            conn.execute("update embeddings set embedding = x'0000' where id = '3'")
        found = asked(conn, "tree", "who works on billing")
        assert found["retriever"] == "vec0"
        assert re.match("no tree can be made .* another retriever searched", found["degraded"])
        assert found["results"]
    finally:
        conn.close()


def test_lately_compares_what_was_active_within_a_year(plugin: Any, demo_db: Path) -> None:
    plugin("lately")
    conn = connection.connect(demo_db, readonly=True)
    try:
        found = asked(conn, "lately", "who works on billing", limit=100)
        assert (found["retriever"], found["degraded"]) == ("lately", None)
        active = conn.execute(
            "select id from entities where archived_at is null"
            " and julianday(last_activity_at) > julianday(?) - 365",
            [NOW],
        ).fetchall()
        assert 3 < len(active) < 60
        assert {r["id"] for r in found["results"]} == {row[0] for row in active}
        exact = {
            r["id"]: r["distance"]
            for r in asked(conn, "vec0", "who works on billing", limit=100)["results"]
        }
        for row in found["results"]:
            assert row["distance"] == pytest.approx(exact[row["id"]], abs=1e-5)
    finally:
        conn.close()


@pytest.mark.parametrize("name", ["tree", "lately"])
async def test_datasette_serves_it_and_its_statement_runs(
    name: str, plugin: Any, demo_db: Path, make_datasette: Any
) -> None:
    plugin(name)
    datasette = make_datasette(demo_db, config={"retriever": name})
    found = await get_json(datasette, f"{base(demo_db)}/search.json?q=billing&limit=5")
    assert (found["retriever"], found["degraded"], len(found["results"])) == (name, None, 5)
    for link in ("sql_url", "stored_query_url"):
        page, _, query = found[link].partition("?")
        asked = f"{page}.json?{query}&_shape=array"
        rows = (await get(datasette, asked, follow_redirects=True)).json()
        assert [row["id"] for row in rows] == [row["id"] for row in found["results"]], link


def test_what_is_gone_is_no_retriever_any_more(demo_db: Path) -> None:
    with pytest.raises(BadParameter, match="there is no retriever 'tree'"):
        retriever("tree")
