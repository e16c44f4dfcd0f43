"""Use turns an order around: known calls, and the figures that the formulas give for them.

What the calls must have left is counted here by hand and never read back from the database.
"""

from __future__ import annotations

import json
import math
from contextlib import closing
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from typing import Any

import llm
import pytest
from embedding_helpers import blob, registered, store
from view_helpers import ONE_POINT_ZERO, as_actor

from datasette_limbic import connection, recorder, times, vectors
from datasette_limbic.ranking import rank_candidates, rank_hybrid_candidates
from datasette_limbic.scoring import Parameters

NOW = "2026-11-29 12:00:00"
QUERY = "harbour crane"
FACTORS = ("base", "importance", "temporal_factor", "cooc_boost")
SCORES = ("limbic_score", "final_score")


def days_before(days: float, moment: str = NOW) -> str:
    return str(datetime.fromisoformat(moment) - timedelta(days=days))


class KnownModel(llm.EmbeddingModel):
    """Every query is the first axis: an entity's first component is its cosine similarity."""

    model_id = "known"

    def embed_batch(self, items: Any, *, key: str | None = None) -> Any:
        for _ in items:
            yield [1.0, *[0.0] * 7]


class Memory:
    """A Datasette on a small memory, its clock, and what its signals must be by now."""

    def __init__(self, datasette: Any, path: Any, clock: list[str]) -> None:
        self.datasette, self.clock = datasette, clock
        self.base = f"/{path.stem}/-/limbic"
        self.cookies = as_actor(datasette, {"id": "root"})
        self.access: dict[int, dict[str, Any]] = {}
        self.pairs: dict[tuple[int, int], tuple[int, str]] = {}
        self.created: dict[int, str | None] = {}
        self.names: dict[int, str] = {}
        self.degrees: dict[int, int] = {}

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = await self.datasette.client.post(
            f"{self.base}/{path}",
            content=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
            cookies=self.cookies,
        )
        assert response.status_code == 200, response.text
        return response.json()  # type: ignore[no-any-return]

    async def open(self, *ids: int) -> None:
        """Open these together, and count by hand what that leaves."""
        answer = await self.post("open", {"names": [self.names[i] for i in ids], "wait": True})
        assert [each["id"] for each in answer["entities"]] == list(ids)
        assert answer["recorded"]["status"] == "done"
        self._shown(ids)

    async def search(self, limit: int, shown: list[int], **arguments: Any) -> None:
        """POST a search that has to show these, recorded behind the answer."""
        answer = await self.post("search", {"query": QUERY, **arguments, "limit": limit})
        assert [each["id"] for each in answer["results"]] == shown
        assert answer["recorded"]["status"] == "queued"
        await recorder.drain(self.datasette)
        self._shown(shown)

    def _shown(self, ids: Any) -> None:
        moment = self.clock[0]
        for i in ids:
            count = self.access.get(i, {}).get("access_count", 0)
            self.access[i] = {"access_count": count + 1, "last_access": moment}
        for pair in combinations(sorted(ids), 2):
            self.pairs[pair] = (self.pairs.get(pair, (0, ""))[0] + 1, moment)

    async def look(self, **arguments: Any) -> list[dict[str, Any]]:
        """Results of a GET, which leaves no trace."""
        response = await self.datasette.client.get(
            f"{self.base}/search.json", params={"q": QUERY, **arguments}, cookies=self.cookies
        )
        assert response.status_code == 200, response.text
        body = response.json()
        assert body["degraded"] is None
        assert len(body["results"]) == body["candidates"]
        return body["results"]  # type: ignore[no-any-return]

    def expected(
        self, results: list[dict[str, Any]], by_text: list[int] | None, **arguments: Any
    ) -> list[dict[str, Any]]:
        """The ranking that the pure functions give for the counts of this object.

        ``by_text`` has the ids in the order of text search; else the candidates are vector hits
        with the distances of ``results``.
        """
        arguments = dict(arguments)
        now = arguments.pop("now", self.clock[0])
        strategy = arguments.pop("strategy", "limbic")
        signals = (
            {i: {"created_at": self.created[i], **self.access.get(i, {})} for i in self.names},
            self.degrees,
            self.pairs,
        )
        asked = {"now": now, "strategy": strategy, "parameters": Parameters(**arguments)}
        if by_text is None:
            found = [{"entity_id": r["id"], "distance": r["distance"]} for r in results]
            return rank_candidates(found, *signals, None, **asked)
        texts = [
            {"entity_id": i, "distance": None, "knn_rank": None, "fts_rank": rank}
            for rank, i in enumerate(by_text, 1)
        ]
        return rank_hybrid_candidates(texts, *signals, None, fusion="document", **asked)

    async def order(self, by_text: list[int] | None = None, **arguments: Any) -> list[int]:
        """Ids as a GET ranks them, every figure of it being what the formulas give."""
        mode = {"mode": "semantic"} if by_text is None else {"mode": "text", "fusion": "document"}
        arguments = {"strategy": "limbic", **arguments}
        results = await self.look(**mode, **arguments)
        expected = self.expected(results, by_text, **arguments)
        assert [r["id"] for r in results] == [e["entity_id"] for e in expected]
        for got, wanted in zip(results, expected, strict=True):
            figures = {**got["scoring"], **{name: got[name] for name in SCORES}}
            for name in (*FACTORS, *SCORES, "limbic_norm"):
                value = wanted[name] if name in SCORES else wanted["scoring"][name]
                assert figures[name] == pytest.approx(value, rel=1e-9, abs=1e-12), (name, got)
        return [r["id"] for r in results]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The time that is recorded, as its one element."""
    moment = [NOW]
    monkeypatch.setattr(times, "now_sql", lambda: moment[0])
    return moment


@pytest.fixture
def memory(empty_db, make_datasette, clock):
    """Makes a memory of entities given as (name, cosine similarity, time of creation)."""

    def make(*rows: tuple[str, float, str | None], links: int = 0) -> Memory:
        with closing(connection.connect(empty_db)) as conn:
            for i, (name, _, created) in enumerate(rows, 1):
                conn.execute(
                    "insert into entities(id, name, created_at) values (?, ?, ?)",
                    [i, name, created],
                )
            # the first is related to so many others: that is its degree
            for i in range(len(rows) + 1, len(rows) + links + 1):
                conn.execute(
                    "insert into entities(id, name, created_at) values (?, ?, ?)",
                    [i, f"far {i}", NOW],
                )
                conn.execute(
                    "insert into relations(from_entity, to_entity, relation_type)"
                    " values (1, ?, 'uses')",
                    [i],
                )
            vector = {}
            for i, (_, similarity, _) in enumerate(rows, 1):
                rest = [0.0] * 7
                rest[i - 1] = math.sqrt(1 - similarity**2)
                vector[i] = blob(similarity, *rest)
            store(conn, "entities", vector, "known")
            vectors.rebuild(conn, "entities")
            conn.commit()
        datasette = make_datasette(empty_db)
        if ONE_POINT_ZERO:
            datasette.root_enabled = True
        made = Memory(datasette, empty_db, clock)
        for i, (name, _, created) in enumerate(rows, 1):
            made.names[i], made.created[i] = name, created
        made.degrees = {1: links}
        return made

    with registered(KnownModel()):
        yield make


OLD = days_before(400)
A, B, C = 1, 2, 3
THREE = (("Atlas", 0.80, OLD), ("Borealis", 0.70, OLD), ("Cetus", 0.60, OLD))


@pytest.mark.parametrize("strategy", ["limbic", "hybrid_balanced", "limbic_heavy"])
async def test_opening_turns_the_order_around(memory, strategy):
    m = memory(*THREE)
    await m.datasette.invoke_startup()
    assert await m.order(strategy=strategy) == [A, B, C]
    await m.search(2, [A, B], mode="semantic", strategy=strategy)
    orders = [await m.order(strategy=strategy)]
    for _ in range(5):
        await m.open(B)
        orders.append(await m.order(strategy=strategy))
    # by hand: one access of each by the search, five of B by opening
    assert {i: each["access_count"] for i, each in m.access.items()} == {A: 1, B: 6}
    assert m.pairs == {(A, B): (1, NOW)}
    assert orders[0] == [A, B, C]
    assert orders[-1] == [B, A, C]
    turns = sum(one != other for one, other in pairwise(orders))
    assert turns == 1


async def test_searching_turns_the_order_around(memory):
    m = memory(("Atlas", 0.72, OLD), ("Borealis", 0.70, OLD), ("Cetus", 0.68, OLD))
    await m.datasette.invoke_startup()
    assert await m.order() == [A, B, C]
    await m.search(2, [A, B], mode="semantic")
    for _ in range(3):
        await m.search(2, [C], query="cetus", mode="text")
    # B: 0.70 · (1 + 0.5 · log2(2) / log2(4)), C: 0.68 · (1 + 0.5)
    assert {i: each["access_count"] for i, each in m.access.items()} == {A: 1, B: 1, C: 3}
    assert m.pairs == {(A, B): (1, NOW)}
    assert await m.order() == [C, A, B]
    assert await m.order(beta_sal=0) == [A, B, C]
    # only what was returned was recorded: the whole pool had three candidates
    m.clock[0] = days_before(-300)
    await m.search(1, [C], mode="semantic", strategy="limbic")
    await m.search(3, [B], query="borealis", mode="text")
    assert m.access[C] == {"access_count": 4, "last_access": m.clock[0]}
    assert m.access[A] == {"access_count": 1, "last_access": NOW}
    assert await m.order() == [C, B, A]


TEXTS = (
    # the shorter name ranks higher, since all hold the words once
    ("harbour crane", 0.1, OLD),
    ("harbour crane of the north", 0.1, OLD),
    ("harbour crane of the north and of the west", 0.1, OLD),
    ("harbour crane of the north and of the west and of all the seas beyond", 0.1, OLD),
)


async def test_text_hits_turn_too(memory):
    m = memory(*TEXTS)
    await m.datasette.invoke_startup()
    by_text = [1, 2, 3, 4]
    assert await m.order(by_text) == by_text
    text = {"mode": "text", "fusion": "document"}
    await m.search(3, [1, 2, 3], strategy="limbic", **text)
    for _ in range(30):
        await m.open(4, 2)
    assert {i: each["access_count"] for i, each in m.access.items()} == {1: 1, 2: 31, 3: 1, 4: 30}
    assert m.pairs == {(1, 2): (1, NOW), (1, 3): (1, NOW), (2, 3): (1, NOW), (2, 4): (30, NOW)}
    assert await m.order(by_text) == [2, 1, 3, 4]
    assert await m.order(by_text, beta_sal=2) == [2, 1, 4, 3]
    assert await m.order(by_text, beta_sal=0, gamma=0) == by_text


async def test_co_occurrence_alone_turns_the_order_around(memory):
    m = memory(*THREE)
    await m.datasette.invoke_startup()
    for _ in range(3):
        await m.open(A)
        await m.open(B, C)
    counts = {each["access_count"] for each in m.access.values()}
    assert counts == {3}  # so importance and recency are the same for all
    assert m.pairs == {(B, C): (3, NOW)}
    assert await m.order() == [A, B, C]
    assert await m.order(gamma=0.1) == [B, A, C]
    # 0.7 · (1 + 0.1 · log2(1 + 3)) against 0.8, both times 1.5 for salience
    [first, second, _] = await m.look(mode="semantic", strategy="limbic", gamma=0.1)
    assert first["limbic_score"] == pytest.approx(0.7 * 1.2 * 1.5, rel=1e-6)
    assert second["limbic_score"] == pytest.approx(0.8 * 1.5, rel=1e-6)
    # four years on the pair counts for a tenth, and all have aged alike
    m.clock[0] = days_before(-1461)
    assert await m.order(gamma=0.1) == [A, B, C]
    # until it comes up once more
    await m.open(A)
    await m.open(B, C)
    assert m.pairs == {(B, C): (4, m.clock[0])}
    assert await m.order(gamma=0.1) == [B, A, C]


@pytest.mark.parametrize(
    ("days", "order"),
    [(0, [B, A]), (30, [B, A]), (300, [A, B]), (1461, [A, B])],
)
async def test_what_was_used_long_ago_no_longer_turns_it(memory, days, order):
    m = memory(("Atlas", 0.80, NOW), ("Borealis", 0.70, days_before(2000)))
    await m.datasette.invoke_startup()
    m.clock[0] = days_before(days)
    for _ in range(4):
        await m.open(B)
    m.clock[0] = NOW
    assert m.access == {B: {"access_count": 4, "last_access": days_before(days)}}
    assert await m.order() == order


async def test_now_looks_back_from_another_time(memory):
    m = memory(("Atlas", 0.80, NOW), ("Borealis", 0.70, days_before(2000)))
    await m.datasette.invoke_startup()
    for _ in range(4):
        await m.open(B)
    later = days_before(-1461)
    assert await m.order() == [B, A]
    # both are old by then, but what was used stays salient
    assert await m.order(now=later) == [B, A]
    assert await m.order(now=later, beta_sal=0) == [A, B]


async def test_the_worked_example_from_recorded_signals(memory):
    """FastMCP of the documents: 10 accesses of at most 20, 30 days ago, pairs 5, 2 and 1."""
    m = memory(
        *(("FastMCP", 0.65, OLD), ("Sdk", 0.5, OLD), ("Server", 0.4, OLD), ("Tool", 0.3, OLD)),
        links=8,
    )
    await m.datasette.invoke_startup()
    m.clock[0] = days_before(30)
    for partner, times_together in ((2, 5), (3, 2), (4, 1)):
        for _ in range(times_together):
            await m.open(1, partner)
    for _ in range(2):
        await m.open(1)
    for _ in range(15):
        await m.open(2)
    m.clock[0] = NOW
    assert {i: each["access_count"] for i, each in m.access.items()} == {1: 10, 2: 20, 3: 2, 4: 1}
    assert {pair: count for pair, (count, _) in m.pairs.items()} == {
        (1, 2): 5,
        (1, 3): 2,
        (1, 4): 1,
    }

    # the document's pairs are fresh: a floor of 1 keeps them from ageing
    fresh = {"cooc_temporal_floor": 1}
    assert (await m.order(**fresh))[0] == 1
    row = (await m.look(mode="semantic", strategy="limbic", **fresh))[0]
    assert row["distance"] == pytest.approx(0.35, abs=1e-6)
    assert row["degree"] == 8
    shown = {name: round(row["scoring"][name], 4) for name in FACTORS}
    assert shown == {
        "base": 0.65,
        "importance": 0.8506,
        "temporal_factor": 0.9305,
        "cooc_boost": 5.1699,
    }
    assert round(row["limbic_score"], 4) == 0.9067

    # as they were really recorded, the pairs are 30 days old too
    assert (await m.order())[0] == 1
    row = (await m.look(mode="semantic", strategy="limbic"))[0]
    decay = math.exp(-0.0001 * 720)
    assert row["scoring"]["cooc_boost"] == pytest.approx(5.169925001442312 * decay, rel=1e-9)
    assert row["limbic_score"] < 0.9067
