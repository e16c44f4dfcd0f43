"""A pool ranked again in Python is what the statement would have made of it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from datasette_limbic import connection, request, whatif
from datasette_limbic.config import Settings
from datasette_limbic.search import Pool, rank
from datasette_limbic.statement import Shape

NOW = "2026-11-29 12:00:00"


@pytest.mark.parametrize("strategy", ["auto", "limbic", "cosine_heavy", "limbic_heavy"])
@pytest.mark.parametrize("query", ["who fixed the geocoder", "invoices", ""])
def test_ranks_are_those_of_the_statement(query: str, strategy: str, demo_db: Path) -> None:
    conn = connection.connect(demo_db, readonly=True)
    settings = Settings()
    pool = rank(conn, query, settings=settings, now=NOW, beta_sal=0.1, gamma=0.0)
    asked = {"q": query, "now": NOW, "beta_sal": 2.5, "gamma": 0.3, "strategy": strategy}
    expected = rank(conn, request.parse(asked, settings), settings=settings).rows
    found = whatif.ranks(pool, request.parse(asked, settings))
    assert found == {row["id"]: place for place, row in enumerate(expected, 1)}
    # and it is not the order that the pool has anyway
    if query:
        assert found != {row["id"]: place for place, row in enumerate(pool.rows, 1)}
    conn.close()


def made_pool(*rows: dict[str, Any], strategy: str = "hybrid_balanced") -> Pool:
    """A ranked pool of these candidates, as the statement would give it."""
    asked = request.parse({"q": "x", "strategy": strategy, "now": NOW}, Settings())
    full = [
        {
            **{"id": i, "importance": 0.0, "temporal_factor": 1.0, "cooc_boost": 0.0},
            "routing_strategy": strategy,
            **row,
        }
        for i, row in enumerate(rows, 1)
    ]
    scores = whatif.limbic_scores(full, asked.parameters)
    low, high = min(scores), max(scores)
    for row, score in zip(full, scores, strict=True):
        row["limbic_score"] = score
        row["final_score"] = whatif.final(strategy, row["base"], score, low, high)
    full.sort(key=lambda row: (-row["final_score"], row["id"]))
    return Pool(asked, Shape(), full, [])


@pytest.mark.parametrize(
    ("best", "loser", "factor", "enough"),
    [
        ({"base": 0.8}, {"base": 0.5}, "base", True),
        ({"base": 0.8}, {"base": 0.8, "temporal_factor": 0.5}, "time", True),
        ({"base": 0.8, "importance": 1.0}, {"base": 0.8}, "salience", True),
        ({"base": 0.8, "cooc_boost": 9.0}, {"base": 0.8}, "cooc", True),
        ({"base": 0.8, "importance": 1.0}, {"base": 0.7, "temporal_factor": 0.3}, "time", False),
        # unknown time counts as 0.5
        ({"base": 0.8}, {"base": 0.8, "temporal_factor": None}, "time", True),
    ],
)
def test_what_a_candidate_lacked(
    best: dict[str, Any], loser: dict[str, Any], factor: str, enough: bool
) -> None:
    pool = made_pool(best, loser)
    lack = whatif.lacks(pool, 1)[2]
    assert lack is not None
    assert (lack.factor, lack.enough) == (factor, enough)
    assert lack.own < lack.needed
    parameters = pool.request.parameters
    assert lack.own == whatif.multipliers(pool.rows[1], parameters)[factor]
    assert lack.needed == whatif.multipliers(pool.rows[0], parameters)[factor]


def test_two_alike_lack_nothing() -> None:
    assert whatif.lacks(made_pool({"base": 0.5}, {"base": 0.5}), 1) == {2: None}


@pytest.mark.parametrize("limit", [2, 3, 100])
def test_who_has_no_last_result_lacks_nothing(limit: int) -> None:
    assert whatif.lacks(made_pool({"base": 0.5}, {"base": 0.4}), limit) == {}


@pytest.mark.parametrize("strategy", ["hybrid_balanced", "limbic", "limbic_heavy"])
def test_no_other_factor_would_have_brought_more(strategy: str) -> None:
    pick = random.Random(strategy)
    rows = [
        {
            "base": pick.random(),
            "importance": pick.choice([0.0, pick.random()]),
            "temporal_factor": pick.choice([None, pick.uniform(0.1, 1)]),
            "cooc_boost": pick.choice([0.0, 20 * pick.random()]),
        }
        for _ in range(60)
    ]
    pool = made_pool(*rows, strategy=strategy)
    last = pool.rows[9]
    low = min(row["limbic_score"] for row in pool.rows)
    high = max(row["limbic_score"] for row in pool.rows)
    columns = {
        "base": "base",
        "salience": "importance",
        "time": "temporal_factor",
        "cooc": "cooc_boost",
    }
    parameters = pool.request.parameters
    for row in pool.rows[10:]:
        tried = {}
        for factor, column in columns.items():
            other = {**row, column: last[column]}
            [score] = whatif.limbic_scores([other], parameters)
            tried[factor] = whatif.final(strategy, other["base"], score, low, high)
        lack = whatif.lacks(pool, 10)[row["id"]]
        assert lack is not None
        assert lack.would_be == pytest.approx(max(tried.values()))
        assert tried[lack.factor] == pytest.approx(lack.would_be)
        assert lack.would_be > row["final_score"]
        assert lack.enough is (lack.would_be >= last["final_score"])


def test_auto_is_decided_by_the_query_and_the_limit() -> None:
    pool = made_pool({"base": 0.5})
    auto = replace(pool.request, strategy="auto", query="explícame todo lo que sabes", limit=10)
    assert whatif.strategy_of(auto, pool) == "limbic_heavy"
    assert whatif.strategy_of(replace(auto, query="qué es x", limit=3), pool) == "cosine_heavy"
    listing = replace(pool, shape=Shape(listing=True))
    assert whatif.strategy_of(auto, listing) == "limbic"
