"""Exact search that compares a part of each vector, and the whole of those that can be nearest.

Along the axes that the vectors of texts lie along most, less than half as many values as a vector
has tell most of a similarity: its *head*. What the rest can add to a product is bounded by its
length (Cauchy and Schwarz). Whoever's bound is below the similarities of k others is not among the
k nearest, so that only those that remain, some per cent, are compared whole. Nothing that is left
out could be in the answer: it is that of comparing all.

Source: Li, Chan, Yiu and Mamoulis, "FEXIPRO: Fast and Exact Inner Product Retrieval in
Recommender Systems" (2017): the transformation by singular vectors, and the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .codes import SAMPLE

if TYPE_CHECKING:
    import numpy

FROM = 5_000
"""Vectors from which it pays: fewer are compared whole in a millisecond."""
MOST_DIMENSIONS = 1_024
"""To find the axes takes the cube of the dimension, in the first search: 2 s of this many."""
PER_DIMENSION = 10
"""Vectors for each dimension from which it pays: of fewer a search saves too little for that."""
TOLD = 0.95
"""Share of the squared lengths that heads hold. Measured on questions that are unlike the vectors,
of which heads hold less (docs/benchmarks.md): with .86, 40 of 100 vectors remain; with .95, two."""
MOST = 0.5
"""Share of the values that heads may have: longer ones would save little."""
_STEP = 16
"""Axes of a head are a multiple of it."""
MOST_LEFT = 0.3
"""Share of the vectors that may remain: comparing more of them one by one takes longer than all."""
_ROUNDING = 4e-6
"""What rounding to float32 may take from a squared length of 1."""
_SLACK = 1e-5
"""What it may take from a product of lengths 1."""
_FIRST = 4
"""Vectors compared to learn how near the nearest are, for each that is wanted."""
_BLOCK = 512
"""Vectors gathered at a time: they stay in the processor's cache until they are compared."""


@dataclass(frozen=True)
class Heads:
    """The heads of n unit vectors of dimension d, along m axes."""

    axes: numpy.ndarray
    """float32, d × m, orthonormal columns."""
    values: numpy.ndarray
    """float32, m × n, a head in each column: a product with it takes half the time of one with a
    head in each row."""
    rest: numpy.ndarray
    """The length of what is no head, at most: float32, n."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self.axes.nbytes + self.values.nbytes + self.rest.nbytes)

    def remaining(
        self,
        rows: numpy.ndarray,
        query: numpy.ndarray,
        count: int,
        keep: numpy.ndarray | None,
        product: Callable[[Any, Any], Any],
    ) -> numpy.ndarray | None:
        """Places of all vectors that can be among the ``count`` nearest, or tie with the last.

        ``rows`` are the vectors (float32, n × d), ``query`` is one (float32, d), ``keep`` (bool, n)
        are those that may be found, ``product`` multiplies a vector (m) with a matrix (m × n). None
        where too many remain to be worth it.
        """
        import numpy

        # not by BLAS, whose threads would wait for those of other searches
        along = numpy.einsum("i,ij->j", query, self.axes)
        bounds = product(along, self.values)
        if keep is not None:
            bounds[~keep] = -numpy.inf
        first = _FIRST * count
        if first >= MOST_LEFT * len(bounds):
            return None
        nearest = numpy.argpartition(bounds, len(bounds) - first)[-first:]
        similar = products(rows, nearest, query)
        similar[bounds[nearest] == -numpy.inf] = -numpy.inf
        least = numpy.partition(similar, first - count)[first - count]
        bounds += self.rest * _length_of_rest(query, along)
        least = max(least - _SLACK * numpy.linalg.norm(query), numpy.finfo("f4").min)
        remain = numpy.flatnonzero(bounds >= least)
        return None if len(remain) > MOST_LEFT * len(bounds) else remain


def of(rows: numpy.ndarray, fits: Callable[[int], bool]) -> Heads | None:
    """The heads of unit vectors (float32, n × d). None where it would not pay: few vectors, or such
    as lie in all directions alike; and where so many bytes more do not fit."""
    import numpy

    count, dimension = rows.shape
    if count < max(FROM, PER_DIMENSION * dimension) or dimension > MOST_DIMENSIONS:
        return None
    sample = rows[:: -(-count // SAMPLE)]
    squared, axes = numpy.linalg.eigh((sample.T @ sample).astype("f8"))
    told = numpy.cumsum(squared[::-1].clip(0))
    size = int(numpy.searchsorted(told, TOLD * told[-1])) + 1
    size = -(-size // _STEP) * _STEP
    if size > MOST * dimension or not fits(4 * (count * (size + 1) + dimension * size)):
        return None
    first = numpy.ascontiguousarray(axes[:, : -size - 1 : -1], dtype="f4")
    values = first.T @ rows.T
    rest = 1.0 - numpy.einsum("ij,ij->j", values, values)
    return Heads(first, values, numpy.sqrt(numpy.maximum(rest, 0) + _ROUNDING, dtype="f4"))


def products(rows: numpy.ndarray, places: numpy.ndarray, query: numpy.ndarray) -> numpy.ndarray:
    """The products of ``rows`` at ``places`` with the query: float32."""
    import numpy

    found = numpy.empty(len(places), "f4")
    gathered = numpy.empty((min(_BLOCK, len(places)), rows.shape[1]), "f4")
    for at in range(0, len(places), _BLOCK):
        there = places[at : at + _BLOCK]
        some = numpy.take(rows, there, axis=0, out=gathered[: len(there)], mode="clip")
        numpy.einsum("ij,j->i", some, query, out=found[at : at + len(there)])
    return found


def _length_of_rest(vector: numpy.ndarray, head: numpy.ndarray) -> float:
    """Of one vector, at most."""
    squared = float(vector @ vector)
    return math.sqrt(max(0.0, squared - float(head @ head)) + _ROUNDING * squared)
