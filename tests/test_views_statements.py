"""How many SQL statements a page takes does not depend on how large the memory is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from view_helpers import get

from benchmarks import big_memory
from datasette_limbic import connection, llm_model, plugin
from datasette_limbic.actions.acting import act
from datasette_limbic.insights.reflecting import reflect
from datasette_limbic.reports import keeping

pytestmark = pytest.mark.slow  # the pages are no other on another Python

SIZES = {"small": 60, "large": 600}
HUB, MANY = 1, 2
SHAPES = 3
"""Statements more or less are no row's: a large map is drawn by its communities, for one."""
PAGES = (
    "",
    "/search?q={word}",
    "/search?q={word}&limit=50&explain=1",
    f"/entity/{HUB}",
    f"/entity/{MANY}",
    f"/entity/{HUB}/graph",
    f"/entity/{HUB}/graph?hops=2",
    "/graph",
    "/graph.svg",
    "/consolidation",
    "/health",
    "/review",
    "/duplicates",
    f"/duplicates/{MANY}",
    "/changes",
    "/tuning",
    "/imports",
)
# What FTS5 and vec0 ask their own tables for, as often as they have to; and what Datasette 0.65
# asks for at each question about rights.
_NOT_OURS = re.compile(
    r"""['"]main['"]\.['"]_limbic_|select\s+name\s+from\s+sqlite_master\s+where\s+type\s+in"""
)


@pytest.fixture(scope="module")
def _quick_models() -> Iterator[None]:
    """No model is loaded, and no topics are looked for: this is about neither."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llm_model, "encode", lambda texts: [[1.0] + [0.0] * 511] * len(texts))
        patch.setattr(keeping, "topic_rows", lambda *_: [])
        yield


@pytest.fixture(scope="module")
def memories(tmp_path_factory: pytest.TempPathFactory, _quick_models: None) -> dict[str, Path]:
    """Two memories of one shape: the large one has ten times the rows in every table."""
    folder = tmp_path_factory.mktemp("sizes")
    made = {}
    for name, entities in SIZES.items():
        made[name] = folder / f"{name}.db"
        big_memory.build(made[name], entities)
        with closing(connection.connect(made[name])) as conn:
            conn.execute(
                "insert into limbic_topics(entity_id, topics, diversity, split_score)"
                " select id, '[]', 0.5, 1 from entities where id % 10 = 1"
            )
            conn.commit()
            reflect(conn)
            for entity in range(10, entities, 20):
                act(conn, "archive", {"entity": entity, "reason": "done"})
            with conn:
                conn.executemany(
                    "insert into limbic_imports(source, format, counts, started_at, finished_at)"
                    " values (?, 'mcp', '{}', datetime('now'), datetime('now'))",
                    [(f"{number}.jsonl",) for number in range(entities // 20)],
                )
    return made


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement on a memory from here on, as SQLite is given it."""
    statements: list[str] = []
    prepare = plugin.prepare

    def note(statement: str) -> None:
        if not _NOT_OURS.search(statement) and not statement.startswith("--"):
            statements.append(statement)

    def traced(conn: Any, database: str, datasette: Any) -> None:
        prepare(conn, database, datasette)
        if database in SIZES:
            conn.set_trace_callback(note)

    monkeypatch.setattr(plugin, "prepare", traced)
    return statements


def words(path: Path) -> str:
    """Two of an observation."""
    with closing(connection.connect(path, readonly=True)) as conn:
        text = conn.execute("select content from observations where entity_id = 20").fetchone()[0]
    return "+".join(sorted(text.split(), key=len)[-2:])


def differing(first: list[str], second: list[str]) -> str:
    """The statements that one has more often than the other, without their values."""
    shapes = [
        [re.sub(r"'[^']*'|\b\d+(\.\d+)?\b", "?", " ".join(one.split()))[:200] for one in each]
        for each in (first, second)
    ]
    return "\n".join(
        f"{shapes[0].count(shape)} and {shapes[1].count(shape)} times: {shape}"
        for shape in dict.fromkeys(shapes[0] + shapes[1])
        if shapes[0].count(shape) != shapes[1].count(shape)
    )


async def test_as_many_statements_on_ten_times_the_rows(
    memories: dict[str, Path], said: list[str], make_datasette: Any
) -> None:
    """Nine more of anything there are ten times as many of would be far beyond SHAPES."""
    # one thread is one connection: no other one is made ready meanwhile
    datasette = make_datasette(*memories.values(), settings={"num_sql_threads": 1})
    await get(datasette, "/")
    failed = []
    for page in PAGES:
        for again in (False, True):
            found = []
            for name, path in memories.items():
                said.clear()
                url = f"/{name}/-/limbic" + page.format(word=words(path))
                response = await get(datasette, url)
                if response.status_code != 200:
                    failed.append(f"{url}: status {response.status_code}")
                found.append(said.copy())
            # the map is kept, and sent without asking again
            assert found[0] or page.startswith("/graph"), page
            if abs(len(found[0]) - len(found[1])) > SHAPES:
                counts = " and ".join(str(len(each)) for each in found)
                when = "again" if again else "first"
                failed.append(f"{page or '/'} ({when}): {counts}\n{differing(*found)}")
    assert not failed, "\n\n".join(failed)
