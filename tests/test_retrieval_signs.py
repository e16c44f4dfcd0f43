"""Comparing bits: in one step or two, the same as counting each of them."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_helpers import (
    add,
    ask,
    brute,
    clustered,
    forget_what_is_held,
    memory,
    opened,
    stock,
    with_index,
)

from datasette_limbic.config import Settings
from datasette_limbic.integrity.files import check_file
from datasette_limbic.retrieval import approximate, building, builds, codes, signs
from datasette_limbic.retrieval.approximate import Approximate
from datasette_limbic.retrieval.signs import Signs, about_the_least, least

VOID = 255


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
    of = Signs(rows, min(words, 3))
    assert of.nbytes == rows.nbytes
    assert (of.rows(slice(None)) == rows).all()
    assert (of.rows(slice(3, 5)) == rows[3:5]).all()
    first = len(of.first)
    assert first == (min(words, 3) if large else words)
    differences = of.differences(asked)
    assert differences.tolist() == counted(rows[:, :first], asked[:first])
    places = numpy.arange(count)[::-1]
    assert of.further(asked, differences, places).tolist() == counted(rows, asked)[::-1]


@pytest.mark.parametrize("first", [1, 3, 4, 24])
def test_all_bits_may_differ(first, monkeypatch):
    monkeypatch.setattr(signs, "FROM", 0)
    rows = numpy.zeros((3, 24), "u8")
    of = Signs(rows, first)
    differences = of.differences(~rows[0])
    assert differences.tolist() == [first * 64] * 3
    assert of.further(~rows[0], differences, numpy.arange(3)).tolist() == [24 * 64] * 3
    assert of.void > first * 64
    assert differences.dtype.type(of.void) == of.void


@pytest.mark.parametrize(
    ("count", "wanted", "left"),
    [(1000, 10, 1000), (300_000, 10, 20_000), (300_000, 5000, 30_000), (1_000_000, 10, 25_000)],
)
def test_how_many_are_left(count, wanted, left):
    assert Signs(numpy.zeros((count, 4), "u8"), 3).left(wanted) == left


@given(
    st.lists(st.integers(0, 128) | st.just(VOID), max_size=300),
    st.integers(1, 400),
    st.sampled_from(["u1", "u2"]),
)
def test_the_least_are_all_up_to_the_last_that_is_wanted(differences, count, kind):
    found = least(numpy.array(differences, kind), count, 128)
    there = sorted(value for value in differences if value != VOID)
    last = there[min(count, len(there)) - 1] if there else -1
    assert found.tolist() == [at for at, value in enumerate(differences) if value <= last]


def shuffled(values, seed=3):
    return numpy.random.default_rng(seed).permutation(numpy.array(values, "u1"))


@pytest.mark.parametrize("count", [1, 100, 5000, 60_000])
@pytest.mark.parametrize(
    "differences",
    [
        pytest.param(numpy.random.default_rng(5).binomial(192, 0.5, 150_000), id="chance"),
        pytest.param(
            numpy.sort(numpy.random.default_rng(5).binomial(192, 0.5, 150_000)), id="sorted"
        ),
        pytest.param(shuffled([7] * 150_000), id="equal"),
        pytest.param(shuffled([7] * 50_000 + [VOID] * 100_000), id="few allowed"),
        pytest.param(numpy.array([9] * 9 + [VOID] * 149_991), id="nearly none allowed"),
        # what stands in every fifth place tells nothing of the others
        pytest.param(numpy.tile([90, 9, 9, 9, 9], 30_000), id="as those looked at are not"),
        pytest.param(numpy.tile([9, 90, 90, 90, 90], 30_000), id="the other way round"),
    ],
)
def test_about_the_least_are_the_least(differences, count, monkeypatch):
    """Nothing that is left out is less than what is found, and they are not far too few or many."""
    monkeypatch.setattr(signs, "_SOME", 30_000)
    differences = differences.astype("u1")
    found = about_the_least(differences, count, 192)
    rest = numpy.delete(differences, found)
    assert differences[found].max(initial=0) < min(rest.min(initial=VOID), VOID)
    assert len(found) >= 0.9 * min(count, int((differences <= 192).sum()))
    exactly = least(differences, count, 192)
    assert len(found) <= max(2 * count, len(exactly))


def test_of_very_many_a_part_tells_where_to_look(monkeypatch):
    """All are compared with one difference, and not with one after the other."""
    differences = numpy.random.default_rng(5).binomial(192, 0.5, 150_000).astype("u1")
    exactly = least(differences, 5000, 192)
    monkeypatch.setattr(signs, "least", lambda *_: pytest.fail("all were looked through"))
    found = about_the_least(differences, 5000, 192)
    assert numpy.isin(exactly, found).all()


@pytest.fixture
def in_two_steps(monkeypatch):
    """Every memory counts as large."""
    monkeypatch.setattr(signs, "FROM", 0)
    monkeypatch.setattr(signs, "LEAST_LEFT", 0)
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
        assert codes.signs.rest.shape == (2000, 4)
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


@pytest.mark.parametrize("large", [False, True])
def test_an_index_without_a_sieve_goes_on(tmp_path, large, request):
    """As one that was built before there was any."""
    if large:
        request.getfixturevalue("in_two_steps")
    rows = clustered(1440, 256)
    path = memory(tmp_path / "m.db", rows[:1000])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(codes, "_sieve", lambda axes: None)
        built = with_index(path)
    forget_what_is_held()
    with opened(path) as conn:
        add(conn, dict(enumerate(rows[1000:1400], 1001)))
        folded = building.keep_in_step(conn)
        assert (folded.build, folded.vectors) == (built.build, 1400)
        held = approximate.read(conn, folded)
        assert (held.training.sieve, held.signs.rest.size) == (None, 0)
        assert folded.nbytes >= held.nbytes
        shares = []
        for query in rows[1400:]:
            found = ask(Approximate(), conn, query, 30, settings=Settings(retriever="approximate"))
            shares.append(len({c.id for c in found} & {c.id for c in brute(conn, query, 30)}) / 30)
    assert numpy.mean(shares) >= 0.9
    assert check_file(path).findings == []


def test_a_sieve_that_was_lost_is_damage(tmp_path):
    path = memory(tmp_path / "m.db", clustered(100, 256))
    built = with_index(path)
    stock(path, "delete from _limbic_ann_parts where name = 'sieve'")
    with opened(path, readonly=True) as conn, pytest.raises(ValueError, match="damaged"):
        approximate.read(conn, built)


@pytest.mark.parametrize("dimension", [64, 192, 193, 300])
def test_how_many_bytes_an_index_takes(tmp_path, dimension):
    path = memory(tmp_path / "m.db", clustered(100, dimension))
    with_index(path)
    with opened(path, readonly=True) as conn:
        build = builds.serving(conn)
        assert build.nbytes == approximate.read(conn, build).nbytes
