"""Searching, opening and rating from Python: at once, and written when the call returns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from view_helpers import added, signals

from datasette_limbic import connection, search, serving
from datasette_limbic.config import Settings
from datasette_limbic.errors import BadParameter, NotAMemory, UnknownSearch

Q = "who fixed the geocoder"
NOW = "2026-11-29 12:00:00"


@pytest.fixture
def memory(demo_db: Path) -> Iterator[sqlite3.Connection]:
    conn = connection.connect(demo_db)
    yield conn
    conn.close()


def test_each_call_is_written_when_it_returns(memory: sqlite3.Connection, demo_db: Path) -> None:
    before = signals(demo_db)
    plain = search.search(memory, Q, limit=3, now=NOW)
    found = serving.search_semantic(memory, Q, 3, now=NOW, client="script")
    own = {"search_id", "recorded"}
    assert {k: v for k, v in found.items() if k not in own} == plain
    assert found["recorded"]["status"] == "done"
    assert added(before, signals(demo_db)) == {
        "entity_access": 3,
        "entity_access_log": 3,
        "co_occurrences": 3,
        "limbic_searches": 1,
        "limbic_search_candidates": found["candidates"],
    }
    first = found["results"][0]
    opened = serving.open_nodes(memory, [first["name"], "Nobody"], search_id=found["search_id"])
    assert opened["recorded"]["opened"] == 1
    assert opened["unknown"] == ["Nobody"]
    rated = serving.rate(memory, found["search_id"], first["name"], "useful")
    assert (rated["id"], rated["rating"]) == (first["id"], "useful")
    events = memory.execute("select event from limbic_feedback order by id").fetchall()
    assert [tuple(row) for row in events] == [("opened",), ("useful",)]
    assert not memory.in_transaction


def test_what_records_nothing(memory: sqlite3.Connection, demo_db: Path) -> None:
    before = signals(demo_db)
    asked = serving.search_semantic(memory, " ")
    assert asked["recorded"]["reason"] == serving.NOTHING_ASKED
    assert asked["search_id"] is None
    assert serving.open_nodes(memory, ["Nobody"])["recorded"]["reason"] == serving.NOTHING_FOUND
    assert signals(demo_db) == before


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda c: serving.open_nodes(c), BadParameter),
        (lambda c: serving.open_nodes(c, [str(n) for n in range(101)]), BadParameter),
        (lambda c: serving.open_nodes(c, ["Atlas"], search_id="nope"), UnknownSearch),
        (lambda c: serving.rate(c, "nope", 1, "useful"), UnknownSearch),
        (lambda c: serving.rate(c, "nope", 1, "good"), BadParameter),
        (lambda c: serving.search_semantic(c, Q, 101), BadParameter),
        (lambda c: serving.search_semantic(c, Q, client="x" * 201), BadParameter),
        (lambda c: serving.search_semantic(c, Q, d_max=1.5), BadParameter),
    ],
)
def test_what_is_refused_leaves_nothing(
    call: Any, error: type[Exception], memory: sqlite3.Connection, demo_db: Path
) -> None:
    before = signals(demo_db)
    with pytest.raises(error):
        call(memory)
    assert not memory.in_transaction
    assert signals(demo_db) == before


def test_a_database_that_is_no_memory(tmp_path: Path) -> None:
    conn = sqlite3.connect(tmp_path / "other.db")
    for call in (
        lambda: serving.search_semantic(conn, Q),
        lambda: serving.open_nodes(conn, ["Atlas"]),
        lambda: serving.rate(conn, "x", 1, "useful"),
    ):
        with pytest.raises(NotAMemory):
            call()
    conn.close()


def test_a_share_of_the_searches_is_the_baseline(memory: sqlite3.Connection) -> None:
    settings = Settings(baseline_share=1.0)
    assert serving.search_semantic(memory, Q, settings=settings)["policy"] == "baseline"
    chosen = serving.search_semantic(memory, Q, settings=settings, gamma=0.01)
    assert chosen["policy"] == "limbic"


@pytest.mark.parametrize("policy", ["limbic", "baseline"])
def test_the_two_rankings_return_different_entities(
    policy: str, memory: sqlite3.Connection
) -> None:
    """What is answered, recorded and logged as returned is of the ranking that was served."""
    limit = 3
    settings = Settings(strategy="limbic", baseline_share=1.0 if policy == "baseline" else 0.0)
    pool = search.rank(memory, Q, settings=settings, limit=limit, now=NOW)
    by_base = [row["id"] for row in pool.by_base()]
    for _ in range(30):
        serving.open_nodes(memory, ids=by_base[-2:])
    pool = search.rank(memory, Q, settings=settings, limit=limit, now=NOW)
    limbic, base = pool.rows[:limit], pool.by_base()[:limit]
    assert {r["id"] for r in limbic} != {r["id"] for r in base}  # else this would prove nothing
    served = limbic if policy == "limbic" else base
    before = dict(memory.execute("select entity_id, access_count from entity_access"))

    found = serving.search_semantic(memory, Q, limit, settings=settings, now=NOW, explain=True)
    assert found["policy"] == policy
    assert [r["id"] for r in found["results"]] == [r["id"] for r in served]
    # the score that an answer shows is the one it is sorted by
    key = "final_score" if policy == "limbic" else "base"
    factors = {row["id"]: row for row in pool.rows}
    for row in [*found["results"], *found["losers"]]:
        assert row["final_score"] == pytest.approx(factors[row["id"]][key])
    assert any(row["base"] != row["final_score"] for row in pool.rows)

    logged = memory.execute(
        """select c.entity_id, c.returned, c.final_score from limbic_search_candidates c
        join limbic_searches s on s.id = c.search_id where s.uid = ?""",
        [found["search_id"]],
    ).fetchall()
    assert {row[0] for row in logged if row[1]} == {r["id"] for r in served}
    # whichever was served, the log has the figures of the limbic ranking
    assert {row[0]: row[2] for row in logged} == {r["id"]: r["final_score"] for r in pool.rows}
    after = dict(memory.execute("select entity_id, access_count from entity_access"))
    assert {id_ for id_ in after if after[id_] != before.get(id_, 0)} == {r["id"] for r in served}
