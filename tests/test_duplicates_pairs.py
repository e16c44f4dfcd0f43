"""Pairs of a whole memory: what `find_pairs` finds, what it leaves out, how much it takes."""

from __future__ import annotations

import itertools
import json
import random
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasette_limbic import embedding
from datasette_limbic.duplicates import (
    MODEL_THRESHOLDS,
    Observation,
    Pair,
    Thresholds,
    candidates,
    clusters,
    find_pairs,
    judge,
)
from datasette_limbic.duplicates.model import earlier_first
from datasette_limbic.duplicates.reading import read
from datasette_limbic.duplicates.rules import containment_of
from datasette_limbic.duplicates.series import SERIES
from datasette_limbic.errors import BadParameter
from datasette_limbic.text import normalise

EVAL = Path(__file__).parents[1] / "benchmarks" / "eval_en_es.json"
MODEL = "limbic-multilingual"
DEFAULT = Thresholds()


def observed(*texts: str, entity: int = 1) -> list[Observation]:
    return [Observation(i, entity, text) for i, text in enumerate(texts, 1)]


def unit(rows: Any) -> Any:
    vectors = np.asarray(rows, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def short(pairs: list[Pair]) -> list[tuple[int, int, str, str]]:
    return [(p.earlier_id, p.later_id, p.kind, p.rule) for p in pairs]


# -- the evaluation set ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def evaluated() -> dict[str, list[tuple[list[Observation], Any]]]:
    """By kind, each pair of the set as two observations and their vectors."""
    sets = json.loads(EVAL.read_text("utf-8"))
    found: dict[str, list[tuple[list[Observation], Any]]] = {}
    for kind in ("same", "different", "contradict"):
        rows = sets[kind]
        rows = rows if isinstance(rows, list) else [row for part in rows.values() for row in part]
        for row in rows:
            texts = list(row.values())[:2] if isinstance(row, dict) else row[:2]
            vectors = unit(embedding.run_model(MODEL, texts))
            found.setdefault(kind, []).append((observed(*texts), vectors))
    return found


def counted(rows: list[tuple[list[Observation], Any]], thresholds: Thresholds) -> dict[str, int]:
    kinds = [
        pair.kind for texts, vectors in rows for pair in find_pairs(texts, vectors, thresholds)
    ]
    return {kind: kinds.count(kind) for kind in ("duplicate", "contradiction", "look")}


@pytest.mark.parametrize(
    ("kind", "rows", "duplicate", "contradiction", "look"),
    [("same", 20, 12, 0, 2), ("different", 20, 1, 0, 6), ("contradict", 6, 0, 6, 0)],
)
def test_figures_of_the_packaged_model(
    evaluated: Any, kind: str, rows: int, duplicate: int, contradiction: int, look: int
) -> None:
    assert len(evaluated[kind]) == rows
    assert counted(evaluated[kind], Thresholds(*MODEL_THRESHOLDS[MODEL])) == {
        "duplicate": duplicate,
        "contradiction": contradiction,
        "look": look,
    }


def test_figures_with_the_thresholds_of_the_document(evaluated: Any) -> None:
    found = {kind: counted(rows, DEFAULT)["duplicate"] for kind, rows in evaluated.items()}
    assert found == {"same": 9, "different": 0, "contradict": 0}


# -- vectors ---------------------------------------------------------------------------------


def test_cosine_and_containment_are_told() -> None:
    texts = observed("Tom likes tea", "Tea is what Tom likes")
    (pair,) = find_pairs(texts, unit([[1, 0], [0.9, np.sqrt(1 - 0.81)]]), DEFAULT)
    assert pair.cosine == pytest.approx(0.9, abs=1e-6)
    assert pair.containment == 1.0
    assert pair.difference is None


@pytest.mark.parametrize("vectors", [None, np.full((2, 3), np.nan, np.float32)])
def test_words_are_compared_without_vectors(vectors: Any) -> None:
    texts = observed("Tom likes tea", "Tom likes tea with milk and sugar")
    (pair,) = find_pairs(texts, vectors, DEFAULT)
    assert (pair.kind, pair.rule, pair.cosine) == ("duplicate", "containment", None)


def test_one_without_a_vector() -> None:
    texts = observed("Maria lives in Lisbon", "Maria lives in Madrid", "Her home is in Lisbon")
    vectors = unit([[1, 0, 0], [1, 0, 0], [1, 0.1, 0]])
    vectors[1] = np.nan
    assert short(find_pairs(texts, vectors, DEFAULT)) == [
        (1, 2, "contradiction", "wording"),
        (1, 3, "duplicate", "cosine"),
    ]


def test_a_vector_of_the_same_text_stands_in() -> None:
    texts = observed("Tom likes tea", "tom likes tea.", "Tea is what Tom likes")
    vectors = unit([[1, 0], [1, 0], [1, 0]])
    vectors[0] = np.nan
    pairs = find_pairs(texts, vectors, DEFAULT)
    assert short(pairs) == [(1, 2, "duplicate", "exact"), (1, 3, "duplicate", "cosine")]
    assert pairs[0].cosine is None


@pytest.mark.parametrize("shape", [(1, 4), (3, 4), (2,)])
def test_vectors_of_another_number(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadParameter, match="for 2 observations"):
        find_pairs(observed("a", "b"), np.zeros(shape, np.float32), DEFAULT)


# -- texts of all sorts ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([], []),
        (["one"], []),
        (["one", "One."], [(1, 2, "duplicate", "exact")]),
        (["", " "], [(1, 2, "duplicate", "exact")]),
        (["😀", "😀 "], [(1, 2, "duplicate", "exact")]),
        (["😀", "🎉"], []),
        (["東京", "東京。", "大阪"], [(1, 2, "duplicate", "exact")]),
        (["東京に住んでいる", "東京に住んでいると言った、そして猫がいる"],
         [(1, 2, "duplicate", "containment")]),
        (["x " * 50_000, "x " * 50_000 + "y"], []),
        (["word " * 20_000, "Word " * 20_000], [(1, 2, "duplicate", "exact")]),
    ],
)  # fmt: skip
def test_texts_of_all_sorts(texts: list[str], found: list[Any]) -> None:
    assert short(find_pairs(observed(*texts), None, DEFAULT)) == found


def test_only_within_an_entity() -> None:
    texts = [Observation(1, 1, "Tom likes tea"), Observation(2, 2, "Tom likes tea")]
    vectors = unit([[1, 0], [1, 0]])
    assert find_pairs(texts, vectors, DEFAULT) == []


def test_entities_need_not_stand_together() -> None:
    texts = [Observation(i, i % 2, "Tom likes tea") for i in range(6)]
    assert short(find_pairs(texts, None, DEFAULT)) == [
        (0, 2, "duplicate", "exact"),
        (0, 4, "duplicate", "exact"),
        (1, 3, "duplicate", "exact"),
        (1, 5, "duplicate", "exact"),
    ]


@pytest.mark.parametrize(
    ("first", "second", "earlier"),
    [
        (None, None, 1),
        ("2026-05-02", "2026-05-01", 2),
        ("2026-05-01", "2026-05-02", 1),
        ("2026-05-01T00:00:00Z", "2026-05-01 00:00:00", 1),
        ("2026-05-02", None, 1),
        ("2026-05-02", "soon", 1),
    ],
)
@pytest.mark.parametrize("other", ["Maria lives in Madrid", "maria lives in LISBON."])
@pytest.mark.parametrize("turned", [False, True])
def test_which_is_the_earlier_one(
    first: str | None, second: str | None, earlier: int, other: str, turned: bool
) -> None:
    rows = [
        Observation(1, 1, "Maria lives in Lisbon", first),
        Observation(2, 1, other, second),
    ]
    (pair,) = find_pairs(rows[::-1] if turned else rows, None, DEFAULT)
    assert (pair.earlier_id, pair.later_id) == (earlier, 3 - earlier)
    if pair.kind == "contradiction":
        values = ["Lisbon", "Madrid"] if earlier == 1 else ["Madrid", "Lisbon"]
        assert pair.difference == "name: " + " / ".join(values)


def test_the_chain_of_identical_texts_begins_at_the_earliest() -> None:
    days = ("2026-05-02", "2026-05-03", "2026-05-01")
    rows = [Observation(i, 1, "Tom likes tea", day) for i, day in enumerate(days, 1)]
    assert short(find_pairs(rows, None, DEFAULT)) == [
        (3, 1, "duplicate", "exact"),
        (3, 2, "duplicate", "exact"),
    ]


def test_a_value_that_changes_is_a_contradiction_and_a_list_is_none() -> None:
    texts = [f"The server in the cellar has {n} disks" for n in (2, 4, 8, 16, 32)]
    assert len(find_pairs(observed(*texts[: SERIES - 1]), None, DEFAULT)) == 3
    assert find_pairs(observed(*texts[:SERIES]), None, DEFAULT) == []


def test_attributes_contradict_the_value_before() -> None:
    texts = observed("Status: Open", "Size: 4", "Status: In review", "Size: 5", "Status: Closed")
    pairs = find_pairs(texts, None, DEFAULT)
    assert [(p.earlier_id, p.later_id, p.difference) for p in pairs] == [
        (1, 3, "status: Open / In review"),
        (3, 5, "status: In review / Closed"),
    ]


# -- against the loop over all pairs ---------------------------------------------------------

PHRASES = [
    "Tom likes tea", "tom likes tea.", "Tea is what Tom likes", "Tom likes tea with milk, sugar",
    "Maria lives in Lisbon", "Maria lives in Madrid", "Maria does not live in Lisbon",
    "The flat costs 900 euros", "The flat costs 950 euros", "Status: Open", "Size: 3", "", "😀",
    "東京に住んでいる", "La copia es diaria", "La copia es semanal", "one",
    "Tom likes the red door",
]  # fmt: skip


def by_hand(observations: list[Observation], vectors: Any) -> list[Pair]:
    """Each pair judged: slow, and right but for lists and for what stands for the same texts."""
    found = []
    for i, j in itertools.combinations(range(len(observations)), 2):
        if observations[i].entity_id != observations[j].entity_id:
            continue
        one, other = earlier_first(observations[i], observations[j])
        cosine = None if vectors is None else float(vectors[i] @ vectors[j])
        cosine = None if cosine is None or np.isnan(cosine) else max(-1.0, min(1.0, cosine))
        a, b = read(one.content), read(other.content)
        containment = containment_of(a, b)
        verdict = judge(a, b, cosine, containment, DEFAULT)
        if verdict is not None:
            found.append(Pair(one.entity_id, one.id, other.id, *verdict[:2], cosine, containment,
                              verdict.difference))  # fmt: skip
    return sorted(found, key=lambda p: (p.entity_id, p.earlier_id, p.later_id))


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_same_as_judging_each_pair(data: st.DataObject) -> None:
    observations = []
    # few and different texts to an entity: neither lists nor the same text more than once
    for entity in range(data.draw(st.integers(1, 5))):
        texts = data.draw(st.lists(st.sampled_from(PHRASES), max_size=8, unique_by=normalise))
        for text in texts:
            observations.append(Observation(len(observations), entity, text))
    numbers = np.random.default_rng(data.draw(st.integers(0, 1000)))
    vectors = unit(numbers.normal(size=(len(observations), 3))) if observations else None
    if vectors is not None:
        vectors[numbers.random(len(observations)) < 0.3] = np.nan
    found = find_pairs(observations, vectors, DEFAULT)
    wanted = by_hand(observations, vectors)
    assert [replace(pair, cosine=None) for pair in found] == [
        replace(pair, cosine=None) for pair in wanted
    ]
    for pair, other in zip(found, wanted, strict=True):
        # products of another shape are summed in another order
        assert pair.cosine == pytest.approx(other.cosine, abs=1e-5)
    assert find_pairs(observations, vectors, DEFAULT) == found


LIST = [*PHRASES, *(f"The flat costs {price} euros" for price in range(960, 990, 5)), "TEA"]


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_those_of_some_alone_are_the_same(data: st.DataObject) -> None:
    """Lists and repeated texts among them: what is left out depends on others."""
    texts = data.draw(st.lists(st.tuples(st.integers(1, 2), st.sampled_from(LIST)), max_size=14))
    observations = [Observation(i, entity, text) for i, (entity, text) in enumerate(sorted(texts))]
    numbers = np.random.default_rng(data.draw(st.integers(0, 1000)))
    vectors = unit(numbers.normal(size=(len(observations), 3))) if observations else None
    only = set(data.draw(st.lists(st.integers(0, 13), max_size=3)))
    assert find_pairs(observations, vectors, DEFAULT, only=only) == [
        pair
        for pair in find_pairs(observations, vectors, DEFAULT)
        if pair.earlier_id in only or pair.later_id in only
    ]


def test_a_list_is_known_from_one_of_it() -> None:
    prices = [f"The flat costs {price} euros" for price in range(900, 900 + 5 * SERIES, 5)]
    assert find_pairs(observed(*prices), None, DEFAULT, only={1}) == []
    assert short(find_pairs(observed(*prices[:2]), None, DEFAULT, only={1})) == [
        (1, 2, "contradiction", "wording")
    ]


# -- candidates ------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[], [1], [2, 1, 3], [40], [5, 60, 1, 70, 2], [200, 3]])
@pytest.mark.parametrize("block", [4096, 1 << 20])
def test_blocks_give_what_whole_products_give(
    sizes: list[int], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_BLOCK", block)
    monkeypatch.setattr(candidates, "NEAREST", 1000)
    numbers = np.random.default_rng(3)
    vectors = unit(numbers.normal(size=(max(1, sum(sizes)), 4)))[: sum(sizes)]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows, columns, cosines = candidates.by_cosine(vectors, starts, 0.5)
    wanted = {
        (i, j)
        for a, b in itertools.pairwise(starts.tolist())
        for i in range(a, b)
        for j in range(a, i)
        if float(vectors[i] @ vectors[j]) >= 0.5
    }
    assert len(rows) == len(wanted)
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == wanted
    assert cosines == pytest.approx(
        np.einsum("ij,ij->i", vectors[rows], vectors[columns]), abs=1e-5
    )


@pytest.mark.parametrize("block", [64, 4 << 20])
def test_blocks_of_words_give_what_sets_give(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_SPARSE_BLOCK", block)
    monkeypatch.setattr(candidates, "NEAREST", 1000)
    chance = random.Random(5)
    words = [[chance.choice("abcdefgh") for _ in range(chance.randint(0, 9))] for _ in range(60)]
    sets = [frozenset(each) for each in words]
    lengths = np.array([2 * len(each) for each in words])
    counts = np.array([len(each) for each in words])
    starts = np.array([0, 3, 30, 31, 60])
    rows, columns = candidates.by_words(sets, lengths, counts, starts, 0.7, 0.6)
    wanted = set()
    for a, b in itertools.pairwise(starts.tolist()):
        for i in range(a, b):
            for j in range(a, i):
                common = len(sets[i] & sets[j])
                low, high = sorted((len(words[i]), len(words[j])))
                if not common:
                    continue
                held = (
                    low >= 3
                    and high >= 2 * low
                    and (common / min(len(sets[i]), len(sets[j])) >= 0.7)
                )
                if held or common / max(len(sets[i]), len(sets[j])) >= 0.6:
                    wanted.add((i, j))
    assert wanted
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == wanted


def test_the_nearest_of_many() -> None:
    vectors = unit([[1, i / 1000] for i in range(100)])
    rows, columns, _ = candidates.by_cosine(vectors, np.array([0, 100]), 0.5)
    last = sorted(columns[rows == 99].tolist())
    assert last == list(range(99 - candidates.NEAREST, 99))


# -- size ------------------------------------------------------------------------------------


def test_many_identical_texts_make_a_chain() -> None:
    pairs = find_pairs(observed(*["Tom likes tea"] * 5000), unit([[1, 0]] * 5000), DEFAULT)
    assert len(pairs) == 4999
    assert {p.earlier_id for p in pairs} == {1}
    (cluster,) = clusters(pairs, observed(*["Tom likes tea"] * 5000))
    assert (cluster.survivor_id, len(cluster.ids)) == (1, 5000)


@pytest.mark.slow
def test_many_alike_texts_stay_bounded() -> None:
    chance = random.Random(1)
    texts = [
        " ".join(chance.sample("the red blue green tea milk cup with and of door".split(), 8))
        for _ in range(2000)
    ]
    vectors = unit(np.random.default_rng(1).normal(size=(2000, 8)) * 0.05 + 1)
    pairs = find_pairs(observed(*texts), vectors, DEFAULT)
    assert 0 < len(pairs) <= 2000 * (1 + 2 * candidates.NEAREST)


def test_a_large_entity_needs_little_memory() -> None:
    vectors = unit(np.random.default_rng(1).normal(size=(5000, 64)))
    tracemalloc.start()
    candidates.by_cosine(vectors, np.array([0, 5000]), 0.75)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # the whole matrix would be 100 MB
    assert peak < 20e6


def test_progress_is_told() -> None:
    told: list[tuple[int, int, str]] = []
    find_pairs(observed(*PHRASES), None, DEFAULT, progress=lambda *args: told.append(args))
    assert {stage for _, _, stage in told} == {"cosine", "words", "judged"}
    assert all(0 <= done <= total for done, total, _ in told)


# -- clusters --------------------------------------------------------------------------------


def test_clusters_suggest_the_one_that_says_most() -> None:
    rows = observed("Tom likes tea", "tom likes tea.", "Tom likes tea with milk and with sugar")
    (cluster,) = clusters(find_pairs(rows, None, DEFAULT), rows)
    assert cluster.ids == (1, 2, 3)
    assert cluster.survivor_id == 3
    assert cluster.why == "the longest (38 characters)"


def test_of_equally_long_ones_the_earliest() -> None:
    rows = [Observation(1, 7, "Tom", "2026-05-02"), Observation(2, 7, "TOM", "2026-05-01")]
    (cluster,) = clusters(find_pairs(rows, None, DEFAULT), rows)
    assert (cluster.entity_id, cluster.survivor_id) == (7, 2)
    assert cluster.why == "the earliest; all have 3 characters"


def test_contradictions_join_no_cluster() -> None:
    rows = observed("Maria lives in Lisbon", "Maria lives in Madrid")
    pairs = find_pairs(rows, None, DEFAULT)
    assert pairs
    assert clusters(pairs, rows) == []
    assert clusters([], rows) == []


# -- some of many ------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [700, 1 << 20])
def test_some_of_a_large_entity_are_the_same(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_BLOCK", block)
    monkeypatch.setattr(candidates, "_SPARSE_BLOCK", block)
    monkeypatch.setattr(candidates, "NEAREST", 1000)
    chance, numbers = random.Random(11), np.random.default_rng(11)
    words = ["Lisbon", "Madrid", "costs", "900", "950", "tea", "likes", "Tom", "disks", "daily"]
    texts = [
        Observation(i, i * 3 // 150, " ".join(chance.choices(words, k=chance.randint(2, 9))))
        for i in range(150)
    ]
    vectors = unit(numbers.normal(size=(150, 4)))
    vectors[::17] = np.nan
    all_of = find_pairs(texts, vectors, DEFAULT)
    assert len(all_of) > 100
    for only in ({149}, {0, 60, 61, 149}, set(range(40, 60)), {1, 500}):
        assert find_pairs(texts, vectors, DEFAULT, only=only) == [
            pair for pair in all_of if pair.earlier_id in only or pair.later_id in only
        ]


@pytest.mark.parametrize("name", ["list", "negations"])
def test_one_of_many_is_judged_against_few(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each text contradicts others, and those others again."""
    text = {
        "list": "The server in the cellar has {} disks",
        "negations": "The server does {} run in the cellar{}",
    }[name]
    values = [(n,) for n in range(2, 402)]
    if name == "negations":
        letters = ["".join(each) for each in itertools.product("abcdefgh", repeat=3)]
        values = [("not" if n % 2 else "", f" {letters[n]}") for n in range(400)]
    texts = observed(*(text.format(*each) for each in values))
    judged = 0

    def counting(*args: Any) -> Any:
        nonlocal judged
        judged += 1
        return judge(*args)

    monkeypatch.setattr("datasette_limbic.duplicates.pairs.judge", counting)
    vectors = unit(np.ones((len(texts), 2)))
    find_pairs(texts, vectors, DEFAULT, only={texts[-1].id})
    assert 0 < judged <= 2 * SERIES * 4 * candidates.NEAREST


def test_the_earliest_of_equals_are_taken_of_a_large_entity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same vector everywhere: what is cut away is the same for one block and for many."""
    vectors = unit(np.ones((100, 2)))
    starts = np.array([0, 100])
    wanted = candidates.by_cosine(vectors, starts, 0.5)[:2]
    monkeypatch.setattr(candidates, "_BLOCK", 1000)
    found = candidates.by_cosine(vectors, starts, 0.5)[:2]
    assert sorted(zip(*map(list, found), strict=True)) == sorted(
        zip(*map(list, wanted), strict=True)
    )
    rows, columns, _ = candidates.by_cosine(vectors, starts, 0.5, np.array([50]))
    assert sorted(columns[rows == 50]) == list(range(candidates.NEAREST))
    assert sorted(rows[columns == 50]) == list(range(51, 51 + candidates.NEAREST))
