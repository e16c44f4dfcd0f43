"""Parts of vectors compared first: what remains holds the whole answer, and is little."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrieval_helpers import SETTINGS, agrees, ask, asked_with, brute, memory, opened, uniform

from datasette_limbic.retrieval import heads


def along_few(
    count: int, dimension: int = 64, axes: int = 8, noise: float = 0.04, seed: int = 1
) -> numpy.ndarray:
    """Unit vectors that lie along a few axes most, as those of texts do."""
    rng = numpy.random.default_rng(seed)
    lie = rng.normal(size=(axes, dimension))
    rows = rng.normal(size=(count, axes)) @ lie + rng.normal(size=(count, dimension)) * noise * 8
    rows = rows.astype("f4")
    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


FORCED = {"FROM": 1, "PER_DIMENSION": 0, "MOST": 99, "MOST_LEFT": 1.1, "_STEP": 1}
"""What heads are made of every memory with, and used however little they tell."""


def anything(_: int) -> bool:
    return True


def product(vector: numpy.ndarray, matrix: numpy.ndarray) -> numpy.ndarray:
    return vector @ matrix


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads for every memory, however little they tell."""
    for name, value in FORCED.items():
        monkeypatch.setattr(heads, name, value)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    noise=st.sampled_from([0, 0.03, 0.3, 3]),
    count=st.integers(1, 40),
    repeated=st.integers(1, 30),
    part=st.sampled_from([None, 0.02, 0.4]),
    length=st.sampled_from([1.0, 0.01, 30.0]),
)
def test_all_of_the_nearest_remain(seed, noise, count, repeated, part, length):
    rng = numpy.random.default_rng(seed)
    rows = numpy.repeat(along_few(300, noise=noise, seed=seed), repeated, axis=0)
    query = (rows[rng.integers(len(rows))] + 0.02 * rng.normal(size=64)).astype("f4") * length
    keep = None if part is None else rng.random(len(rows)) < part
    with pytest.MonkeyPatch.context() as patch:
        for name, value in FORCED.items():
            patch.setattr(heads, name, value)
        made = heads.of(rows, anything)
        assert made is not None
        left = made.remaining(rows, query, count, keep, product)
    if left is None:  # all of them would be compared first
        assert 4 * count >= len(rows)
        return
    exact = rows.astype("f8") @ query.astype("f8")
    if keep is not None:
        exact[~keep] = -numpy.inf
    last = numpy.sort(exact)[-count]
    nearest = numpy.flatnonzero((exact >= last) & (exact > -numpy.inf))
    assert set(nearest) <= set(left)
    assert keep is None or keep[left].all()
    assert heads.products(rows, left, query) == pytest.approx(exact[left], abs=1e-5 * length)


def test_few_remain():
    rows = along_few(20_000)
    made = heads.of(rows, anything)
    assert made is not None
    assert made.values.shape == (16, 20_000)
    left = [len(made.remaining(rows, row, 30, None, product)) for row in along_few(30, seed=1)]
    assert max(left) < 4_000
    assert numpy.median(left) < 1_000


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (along_few(4_999), "few vectors"),
        (along_few(6_000, dimension=24), "short ones"),
        (uniform(6_000, 64), "in all directions alike"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_where_it_does_not_pay(rows, why):
    assert heads.of(rows, anything) is None, why


def test_a_query_that_tells_nothing():
    """Unlike all of them: every one is as near as the next, and all are compared."""
    rows = along_few(20_000, noise=0)
    made = heads.of(rows, anything)
    assert made is not None
    across = numpy.linalg.svd(rows[:200], full_matrices=True)[2][-1].astype("f4")
    assert abs(rows @ across).max() < 1e-4
    assert made.remaining(rows, across, 30, None, product) is None


def test_bytes_are_those_that_were_asked_for():
    asked: list[int] = []
    rows = along_few(6_000)
    made = heads.of(rows, lambda nbytes: asked.append(nbytes) or True)
    assert made is not None
    assert asked == [made.nbytes]
    assert heads.of(rows, lambda nbytes: False) is None


KINDS = {
    "along few": along_few(400, dimension=24, axes=3),
    "in all directions": uniform(300, 24),
    "all equal": numpy.repeat(uniform(1, 8), 60, axis=0),
    "some equal": numpy.repeat(uniform(40, 8), 5, axis=0),
    "one": uniform(1, 8),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_exact_answer(kind, tmp_path, always):
    rows = KINDS[kind]
    path = memory(
        tmp_path / "m.db", rows, types=("Person", "Place", "Rare"), archived=range(2, len(rows), 5)
    )
    retriever = asked_with("memory")
    with opened(path, readonly=True) as conn:
        for query in (rows[0], uniform(1, rows.shape[1], seed=7)[0]):
            for entity_type, archived in itertools.product((None, "Rare"), (False, True)):
                expected = brute(conn, query, 4096, entity_type, archived)
                for k in (1, 10, 4096):
                    found = ask(retriever, conn, query, k, entity_type, archived)
                    agrees(found, expected[:k])
        assert [matrix.heads is not None for matrix in retriever.held._kept.values()] == [True]


@pytest.mark.parametrize(("allowed", "fits"), [(4, True), (2, False)])
def test_heads_take_the_room_that_is_left(allowed, fits, tmp_path):
    """Without it, what fits is the vectors, and they are compared whole."""
    rows = along_few(7_000)
    path = memory(tmp_path / "m.db", rows)
    retriever, asked = asked_with("memory"), replace(SETTINGS, vectors_in_memory_mb=allowed)
    assert rows.nbytes + 8 * len(rows) < 2 << 20 < rows.nbytes * 1.25
    with opened(path, readonly=True) as conn:
        assert retriever.unusable(conn, asked) is None
        for row in along_few(5, seed=3):
            agrees(ask(retriever, conn, row, settings=asked), brute(conn, row, 10))
    (matrix,) = retriever.held._kept.values()
    assert (matrix.heads is not None) == fits
    assert matrix.nbytes <= allowed << 20


@pytest.mark.parametrize(
    ("count", "dimension", "made"),
    [(6_000, 64, True), (6_000, 512, True), (5_000, 512, False), (4_999, 64, False)],
)
def test_made_where_it_pays(count, dimension, made, monkeypatch):
    rows = along_few(count, dimension)
    assert (heads.of(rows, anything) is not None) == made
    monkeypatch.setattr(heads, "MOST_DIMENSIONS", dimension - 1)
    monkeypatch.setattr(numpy.linalg, "eigh", None)  # not even looked for
    assert heads.of(rows, anything) is None


def test_heads_go_first_where_another_file_needs_the_room(tmp_path):
    """They keep nothing out that fits without them, and no file goes for them."""
    rows = along_few(7_000)
    paths = [memory(tmp_path / f"{name}.db", rows) for name in "abc"]
    retriever, asked = asked_with("memory"), replace(SETTINGS, vectors_in_memory_mb=6)
    with opened(paths[0], readonly=True) as conn:
        ask(retriever, conn, rows[0], settings=asked)
    (first,) = retriever.held._kept.values()
    assert first.heads is not None
    assert first.nbytes < 3 << 20
    for path in paths[1:]:
        with opened(path, readonly=True) as conn:
            by_itself = replace(asked, retriever="auto")
            assert retriever.unusable(conn, by_itself) is None
            agrees(ask(retriever, conn, rows[1], settings=by_itself), brute(conn, rows[1], 10))
    kept = list(retriever.held._kept.values())
    assert len(kept) == 3
    assert first in kept
    assert first.heads is None
    assert sum(matrix.nbytes for matrix in kept) <= 6 << 20
    with opened(paths[0], readonly=True) as conn:
        agrees(ask(retriever, conn, rows[2], settings=asked), brute(conn, rows[2], 10))
