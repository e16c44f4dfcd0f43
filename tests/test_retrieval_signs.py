"""Comparing bits: in one step or two, the same as counting each of them."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_helpers import ask, brute, clustered, forget_what_is_held, memory, opened, with_index

from datasette_limbic.config import Settings
from datasette_limbic.retrieval import approximate, signs
from datasette_limbic.retrieval.approximate import Approximate
from datasette_limbic.retrieval.signs import VOID, Signs, least


def bits(count, words, seed=1):
    return numpy.random.default_rng(seed).integers(0, 2**64, (count, words), "u8")


def counted(rows, asked):
    """Each bit by itself."""
    return numpy.unpackbits((rows ^ asked).view("u1"), axis=1).sum(axis=1).tolist()


@pytest.mark.parametrize("count", [0, 1, 7, 999])
@pytest.mark.parametrize("words", [1, 2, 3, 4, 6, 8, 12, 24])
@pytest.mark.parametrize("large", [False, True])
def test_differences_are_those_of_all_bits(count, words, large, monkeypatch):
    monkeypatch.setattr(signs, "FROM", 0 if large else 10_000)
    monkeypatch.setattr(signs, "_BLOCK", 100)
    rows, asked = bits(count, words), bits(1, words, seed=2)[0]
    of = Signs(rows)
    assert of.nbytes == rows.nbytes
    assert (of.rows(slice(None)) == rows).all()
    assert (of.rows(slice(3, 5)) == rows[3:5]).all()
    first = len(of.first)
    assert first == (-(-words * 5 // 8) if large and words > 3 else words)
    differences = of.differences(asked)
    assert differences.tolist() == counted(rows[:, :first], asked[:first])
    places = numpy.arange(count)[::-1]
    both = of.further(asked, places) + differences[places]
    assert both.tolist() == counted(rows, asked)[::-1]


def test_all_bits_may_differ():
    rows = numpy.zeros((3, 24), "u8")
    of = Signs(rows)
    assert of.differences(~rows[0]).tolist() == [24 * 64] * 3


@pytest.mark.parametrize(
    ("count", "wanted", "left"),
    [(1000, 10, 1000), (300_000, 10, 300_000 // 64), (300_000, 5000, 30_000)],
)
def test_how_many_are_left(count, wanted, left):
    assert Signs(numpy.zeros((count, 4), "u8")).left(wanted) == left


@pytest.mark.parametrize("block", [8, 100_000])
@given(
    st.lists(st.integers(0, 128) | st.just(VOID), max_size=300),
    st.integers(1, 400),
)
def test_the_least_are_all_up_to_the_last_that_is_wanted(block, differences, count):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(signs, "_BLOCK", block)  # of some only, or of all
        found = least(numpy.array(differences, "u2"), count, 128)
    there = sorted(value for value in differences if value != VOID)
    last = there[min(count, len(there)) - 1] if there else -1
    assert found.tolist() == [at for at, value in enumerate(differences) if value <= last]


@pytest.fixture
def in_two_steps(monkeypatch):
    """Every memory counts as large."""
    monkeypatch.setattr(signs, "FROM", 0)
    monkeypatch.setattr(signs, "LEFT_FOR_EACH", 2)
    forget_what_is_held()
    yield
    forget_what_is_held()


@pytest.mark.parametrize("archived", [(), tuple(range(1, 2000, 3))])
@pytest.mark.parametrize("entity_type", [None, "Thing", "Other"])
def test_a_search_in_two_steps_finds_what_was_measured(
    tmp_path, in_two_steps, archived, entity_type
):
    rows = clustered(2040, 256)
    path = memory(tmp_path / "m.db", rows[:2000], types=("Thing", "Other"), archived=archived)
    measured = with_index(path, 0.98)
    assert measured.recall >= 0.98
    with opened(path, readonly=True) as conn:
        codes = approximate.read(conn, measured)
        assert codes.signs.rest.shape == (2000, 1)
        assert codes.signs.left(measured.shortlisted) < 2000
        shares = []
        for query in rows[2000:]:
            given = (conn, query, 30, entity_type)
            found = ask(Approximate(), *given, settings=Settings(retriever="approximate"))
            truth = brute(*given)
            shares.append(len({c.id for c in found} & {c.id for c in truth}) / 30)
    assert numpy.mean(shares) >= 0.9


def test_what_the_first_bits_lose_is_measured(tmp_path, in_two_steps, monkeypatch):
    """With too few left by the first bits no number of others makes up for it."""
    path = memory(tmp_path / "m.db", clustered(2000, 256))
    monkeypatch.setattr(signs, "LEFT_FOR_EACH", 0)
    monkeypatch.setattr(signs, "LEFT", 100)
    found = with_index(path, 0.98)
    assert found.recall < 0.7  # 20 of 30, but for ties
    # nothing is gained by looking at more of what is left
    assert (found.shortlisted, found.rescored) == (250, 40)
    with opened(path, readonly=True) as conn:
        assert "short of the 98.0%" in approximate.due(conn, found)
