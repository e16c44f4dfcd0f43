"""Codes: what they keep of the vectors, and that damage to their parts is seen."""

from __future__ import annotations

import numpy
import pytest
from retrieval_helpers import clustered, uniform

from datasette_limbic.retrieval import codes
from datasette_limbic.retrieval.codes import Training, train


@pytest.mark.parametrize("dimension", [1, 3, 8, 63, 64, 65, 130])
def test_signs(dimension):
    rows = uniform(50, dimension, seed=dimension)
    found = train(rows)
    signs, short = found.encode(rows)
    assert signs.shape == (50, -(-dimension // 64))
    assert signs.dtype == "<u8"
    expected = rows - found.mean > 0
    bits = numpy.unpackbits(signs.view("u1"), axis=1)
    assert (bits[:, :dimension] == expected).all()
    assert not bits[:, dimension:].any()
    assert short.dtype == "i1"
    assert len(short) == 50


@pytest.mark.parametrize("dimension", [193, 256, 300, 512])
def test_signs_of_the_sieve_come_first(dimension):
    rows = uniform(50, dimension, seed=dimension)
    found = train(rows)
    assert found.first == 3
    assert found.words == 3 + -(-dimension // 64)
    signs, _ = found.encode(rows)
    bits = numpy.unpackbits(signs.view("u1"), axis=1)
    assert (bits[:, :192] == ((rows - found.mean) @ found.sieve > 0)).all()
    assert (bits[:, 192 : 192 + dimension] == (rows - found.mean > 0)).all()
    assert not bits[:, 192 + dimension :].any()


@pytest.mark.parametrize("dimension", [1, 64, 192])
def test_short_vectors_have_no_sieve(dimension):
    found = train(uniform(50, dimension))
    assert found.sieve is None
    assert found.first == found.words == -(-dimension // 64)


def test_each_bit_of_the_sieve_tells_about_as_much():
    """Along the axes as they are, the first would tell most, and the last next to nothing."""
    rows = clustered(3000, 256) * numpy.geomspace(1, 0.01, 256, dtype="f4")
    found = train(rows)
    along = numpy.var((rows - found.mean) @ found.sieve, axis=0)
    axes = numpy.var((rows - found.mean) @ found.axes, axis=0)
    assert 5 * along.max() / along.min() < axes.max() / axes.min()
    # they are directions among the axes, and lose nothing of them but what is beyond the first 192
    beyond = found.sieve - found.axes @ (found.axes.T @ found.sieve)
    assert numpy.abs(beyond).max() < 1e-5
    kept = min(192, found.axes.shape[1])
    assert numpy.allclose(along.sum(), axes[:kept].sum(), rtol=1e-3)


@pytest.mark.parametrize("rows", [clustered(900, 96), uniform(900, 96)], ids=["texts", "noise"])
def test_codes_tell_the_similarity(rows):
    found = train(rows)
    _, short = found.encode(rows)
    query = rows[5]
    told = short.astype("f4") @ (query @ found.axes) * found.scale + query @ found.mean
    assert numpy.corrcoef(told, rows @ query)[0, 1] > 0.97
    assert numpy.allclose(found.axes.T @ found.axes, numpy.eye(found.axes.shape[1]), atol=1e-4)
    kept = numpy.var((rows - found.mean) @ found.axes, axis=0).sum() / numpy.var(rows, axis=0).sum()
    assert kept > codes.VARIANCE - 0.01


@pytest.mark.parametrize("count", [1, 2, 30])
def test_vectors_that_are_all_equal(count):
    rows = numpy.repeat(uniform(1, 40), count, axis=0)
    found = train(rows)
    assert found.scale > 0
    signs, short = found.encode(rows)
    assert (signs == signs[0]).all()
    assert (short == short[0]).all()
    assert found.encode(rows[:0])[0].shape == (0, 1)


def test_large_values_are_cut_not_wrapped():
    rows = numpy.vstack([uniform(5000, 40) * 1e-3, uniform(1, 40) * 100]).astype("f4")
    found = train(rows[:5000])
    _, short = found.encode(rows)
    along = (rows[-1] - found.mean) @ found.axes
    assert (short[-1] == numpy.sign(along) * 127).all()


def test_blocks_are_no_different(monkeypatch):
    rows = clustered(100, 40)
    found = train(rows)
    whole = found.encode(rows)
    monkeypatch.setattr(codes, "_BLOCK", 7)
    pieces = found.encode(rows)
    assert all((a == b).all() for a, b in zip(whole, pieces, strict=True))


def test_parts_come_back():
    found = train(clustered(300, 70))
    again = Training.of_parts(found.parts(), 70)
    assert (again.mean == found.mean).all()
    assert (again.axes == found.axes).all()
    assert again.scale == numpy.float32(found.scale)
    assert again.words == 2
    assert again.sieve is None


def test_parts_with_a_sieve_come_back():
    found = train(clustered(300, 200))
    again = Training.of_parts(found.parts(), 200)
    assert (again.sieve == found.sieve).all()
    assert (again.words, again.first) == (7, 3)


def damage(**changed):
    def how(parts):
        for name, value in changed.items():
            if value is None:
                del parts[name]
            else:
                parts[name] = value(parts[name])

    return how


@pytest.mark.parametrize(
    "how",
    [
        *(damage(**{name: None}) for name in ("mean", "axes", "scale")),
        *(damage(**{name: lambda p: p[:-2]}) for name in ("mean", "axes", "scale")),
        *(damage(**{name: lambda p: b""}) for name in ("mean", "axes", "scale")),
        *(
            damage(**{name: lambda p: b"\0\0\xc0\x7f" + p[4:]})
            for name in ("mean", "axes", "scale")
        ),
        *(
            damage(sieve=lambda p, how=how: how(p))
            for how in (
                lambda p: p[:-2],
                lambda p: p[:-4],
                lambda p: b"",
                lambda p: b"\0\0\xc0\x7f" + p[4:],
                lambda p: "text",
                lambda p: None,
            )
        ),
        damage(mean=lambda p: p[4:]),
        damage(axes=lambda p: p[4:]),
        damage(scale=lambda p: b"\0\0\0\0"),
        damage(scale=lambda p: "text"),
        damage(mean=lambda p: None),
    ],
)
def test_damaged_parts(how):
    parts = train(clustered(100, 200)).parts()
    how(parts)
    with pytest.raises(ValueError, match="damaged"):
        Training.of_parts(parts, 200)


def test_parts_of_another_dimension():
    with pytest.raises(ValueError, match="damaged"):
        Training.of_parts(train(clustered(100, 16)).parts(), 17)
