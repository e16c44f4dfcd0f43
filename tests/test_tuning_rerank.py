"""Ranking logged pools again: to the last bit what the search statement gives."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_helpers import log_of

from datasette_limbic import connection, search, search_log, serving
from datasette_limbic.config import Settings
from datasette_limbic.tuning import rerank
from datasette_limbic.tuning.log import STRATEGY_NAMES
from datasette_limbic.tuning.reading import read

QUERIES = (
    "who fixed the geocoder",
    "what is the depot",  # factual
    "explain everything about routes and the difference between them",
    "tea",
)
PAIRS = ((0.5, 0.01), (0.0, 0.0), (1.5, 0.1), (0.1, 0.001), (10.0, 10.0))
ASKED: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "by text alone, without cosine": {"mode": "text"},
    "by vectors alone": {"mode": "semantic", "limit": 7},
    "as the documents fuse": {"fusion": "document"},
    "recency by activity": {"recency": "freshest", "consolidation": "1"},
    "a large pool": {"limit": 40, "expansion_factor": 5},
    "one strategy": {"strategy": "limbic"},
    "another": {"strategy": "hybrid_balanced", "include_archived": "1"},
    "archived and capped": {"include_archived": "1", "cooc_cap": 2, "temporal_floor": 0.5},
    "at a time": {"now": "2026-12-31 00:00:00", "unknown_temporal": 0.9},
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_logged_pool_ranks_as_the_statement_ranks_it(
    asked: dict[str, Any], demo_db: Path
) -> None:
    """The same pool at the same moment, with other parameters: by SQL, and from the log."""
    now = asked.get("now", "2026-11-29 12:00:00")
    with closing(connection.connect(demo_db)) as conn:
        # something that was used, so that both parameters have something to work on
        for query in QUERIES:
            found = serving.search_semantic(conn, query, 8, client="before")
            serving.open_nodes(conn, [row["name"] for row in found["results"][:4]], client="before")
        conn.execute("update entities set created_at = 'soon' where id % 3 = 0")
        conn.execute("delete from entity_access where entity_id % 3 = 0")
        conn.execute("delete from limbic_searches")
        conn.commit()
        with closing(connection.connect(demo_db, readonly=True)) as before:
            before.execute("begin")
            expected = {}
            for query in QUERIES:
                for beta, gamma in PAIRS:
                    pool = search.rank(
                        before,
                        query,
                        settings=Settings(),
                        **{**asked, "now": now, "beta_sal": beta, "gamma": gamma},
                    )
                    expected[query, beta, gamma] = [(r["id"], r["final_score"]) for r in pool.rows]
            before.rollback()
        uids = []
        for query in QUERIES:
            arguments = {"limit": None, **asked, "now": now}
            # each in the file's state of then: what one search records, the next would see
            conn.execute("savepoint one")
            _, entry = serving.serve_search(
                conn,
                search.parse({"q": query, **arguments}, Settings()),
                settings=Settings(),
            )
            uids.append(entry)
            conn.execute("release one")
        for entry in uids:
            search_log.add_search(conn, entry.search, entry.moment)
        conn.commit()
        log = read(conn)
    assert len(log) == len(QUERIES)
    assert {STRATEGY_NAMES[each] for each in log.strategy} <= set(STRATEGY_NAMES)
    moved = 0
    for beta, gamma in PAIRS:
        scores, places = rerank.final_scores(log, beta, gamma), rerank.ranks(log, beta, gamma)
        for number, query in enumerate(log.query):
            rows = slice(log.start[number], log.start[number + 1])
            order = np.argsort(places[rows])
            got = list(
                zip(log.entity[rows][order].tolist(), scores[rows][order].tolist(), strict=True)
            )
            assert got == expected[query, beta, gamma]
            moved += (np.sort(log.limbic_rank[rows]) != log.limbic_rank[rows][order]).any()
    assert (log.limbic_rank == rerank.ranks(log, *PAIRS[0])).all()
    assert moved


@pytest.mark.parametrize("names", [["depot"], ["depot", "depot.", "(depot)"]], ids=len)
@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_a_pool_whose_scores_are_all_equal(names: list[str], strategy: str, empty_db: Path) -> None:
    """There is no lowest and no highest to normalise between: by SQL, and from the log."""
    given = {"strategy": strategy, "mode": "text", "now": "2026-12-01 00:00:00"}
    with closing(connection.connect(empty_db)) as conn:
        with conn:
            conn.executemany(
                "insert into entities(name, created_at) values (?, '2026-01-01 00:00:00')",
                [(name,) for name in names],
            )
        expected = {}
        for beta, gamma in PAIRS:
            pool = search.rank(
                conn,
                "depot",
                settings=Settings(),
                **{**given, "beta_sal": beta, "gamma": gamma},
            )
            assert len({row["limbic_score"] for row in pool.rows}) == 1
            expected[beta, gamma] = [(row["id"], row["final_score"]) for row in pool.rows]
        _, entry = serving.serve_search(
            conn, search.parse({"q": "depot", **given}, Settings()), settings=Settings()
        )
        search_log.add_search(conn, entry.search, entry.moment)
        conn.commit()
        log = read(conn)
    assert (len(log), len(log.entity)) == (1, len(names))
    for (beta, gamma), rows in expected.items():
        scores = rerank.final_scores(log, beta, gamma).tolist()
        assert list(zip(log.entity.tolist(), scores, strict=True)) == rows
        assert rerank.ranks(log, beta, gamma).tolist() == list(range(1, len(names) + 1))


factor = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1)


@st.composite
def logs(draw: Any) -> Any:
    searches = []
    for _ in range(draw(st.integers(1, 5))):
        size = draw(st.integers(1, 8))
        lists = st.lists(factor, min_size=size, max_size=size)
        searches.append(
            {
                "gain": draw(
                    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=size, max_size=size)
                ),
                "strategy": draw(st.sampled_from(STRATEGY_NAMES)),
                **{name: draw(lists) for name in ("base", "importance", "temporal", "cooc")},
            }
        )
    return log_of(searches)


@settings(max_examples=40, deadline=None)
@given(log=logs(), k=st.integers(1, 10), budget=st.sampled_from([1, 20, 1 << 20]))
def test_places_are_those_of_scikit_learn(log: Any, k: int, budget: int) -> None:
    """DCG from the places of the labelled is ``dcg_score``, ties averaged, in any blocks."""
    from sklearn.metrics import dcg_score

    wanted = np.flatnonzero(log.gain > 0)
    cells = np.array([[0.5, 0.01], [0.0, 0.0], [1.5, 0.5]])
    whole, rerank.BUDGET = rerank.BUDGET, budget
    try:
        places = rerank.placed(log, wanted, cells, k=k)
    finally:
        rerank.BUDGET = whole
    for column, (beta, gamma) in enumerate(cells):
        scores = rerank.final_scores(log, beta, gamma)
        for number in range(len(log)):
            rows = np.arange(log.start[number], log.start[number + 1])
            mine = np.isin(wanted, rows)
            got = (log.gain[wanted[mine]] * places[mine, column]).sum()
            if len(rows) > 1:
                assert got == pytest.approx(
                    dcg_score([log.gain[rows]], [scores[rows]], k=k), rel=1e-12, abs=1e-15
                )
            else:
                assert got == pytest.approx(log.gain[rows].sum())


def test_places_among_some_of_a_pool() -> None:
    """Those that could not have been shown take no place; their scores still set the norm."""
    log = log_of(
        [
            {
                "gain": [0.0, 0.0, 0.0, 1.0],
                "base": [0.9, 0.8, 0.7, 0.1],
                "importance": [0.0, 0.0, 0.0, 1.0],
            }
        ]
    )
    wanted = np.array([3])
    some = np.array([True, False, False, True])
    cells = np.array([[0.0, 0.0], [9.5, 0.0]])
    sums = rerank.discounts(10, 4)
    one, two, four = (sums[place] - sums[place - 1] for place in (1, 2, 4))
    assert rerank.placed(log, wanted, cells, k=10).tolist() == [
        [pytest.approx(four), pytest.approx(one)]
    ]
    assert rerank.placed(log, wanted, cells, k=10, among=some).tolist() == [
        [pytest.approx(two), pytest.approx(one)]
    ]
    # one that could not have been shown itself stands where it would among the others
    others = np.array([True, True, False, False])
    assert rerank.placed(log, wanted, cells[:1], k=10, among=others)[0, 0] == pytest.approx(
        sums[3] - sums[2]
    )


def test_progress_counts_the_searches() -> None:
    log = log_of([{"gain": [1.0, 0.0]}] * 5)
    seen: list[tuple[int, int]] = []
    rerank.placed(
        log,
        np.flatnonzero(log.gain > 0),
        np.array([[0.5, 0.01]]),
        k=10,
        progress=lambda done, all_: seen.append((done, all_)),
    )
    assert seen[-1] == (5, 5)
