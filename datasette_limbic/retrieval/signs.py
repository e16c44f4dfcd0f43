"""The bits of all vectors, compared with those of a query.

Reading them is what takes the time, so very many vectors are compared by their first words alone
(see ``codes``), and by all words those that may still be among the nearest.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

FROM = 250_000
"""Vectors from which it pays to compare the first words first: of fewer a larger part has to be
left, as the nearest of few stand less apart."""
LEFT = 40
"""One in so many vectors is left by the first words, at least."""
LEAST_LEFT = 20_000
"""So many are left, at least."""
LEFT_FOR_EACH = 6
"""So many are left for each that is wanted in the end, at least."""
_BLOCK = 65_536
_IN_A_BYTE = 3
"""Words whose differences a byte can count, and one value beyond them."""
_SOME = 32_768
"""Differences that tell, of very many, about how great the least are."""


class Signs:
    """Bits of n vectors, in words of 64."""

    def __init__(self, signs: numpy.ndarray, first: int) -> None:
        """``signs``: uint64, n × words, of which the ``first`` are compared first."""
        import numpy

        first = first if len(signs) >= FROM else signs.shape[1]
        # word by word: so each step of ``differences`` runs through neighbouring memory
        self.first = numpy.ascontiguousarray(signs[:, :first].T)
        self.rest = numpy.ascontiguousarray(signs[:, first:])
        self._kind = numpy.dtype("u1" if first <= _IN_A_BYTE else "u2")
        self.void = int(numpy.iinfo(self._kind).max)
        """In place of a difference: never among the least."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self.first.nbytes + self.rest.nbytes)

    def rows(self, there: slice) -> numpy.ndarray:
        """The bits as they were given: uint64, n × words."""
        import numpy

        return numpy.concatenate([self.first[:, there].T, self.rest[there]], axis=1)

    def left(self, count: int) -> int:
        """How many are compared further where ``count`` are wanted in the end."""
        many = int(self.first.shape[1])
        if not self.rest.size:
            return many
        return max(many // LEFT, LEAST_LEFT, LEFT_FOR_EACH * count)

    def differences(self, asked: numpy.ndarray) -> numpy.ndarray:
        """In how many of the first bits each vector differs from the query's: n of uint8, or of
        uint16 where a byte cannot count them."""
        import numpy

        count = self.first.shape[1]
        found = numpy.zeros(count, self._kind)
        words = numpy.empty(min(_BLOCK, count), "u8")
        counts = numpy.empty(len(words), "u1")
        for at in range(0, count, _BLOCK):
            there = slice(at, min(at + _BLOCK, count))
            size = there.stop - at
            for signs, word in zip(self.first, asked, strict=False):
                numpy.bitwise_xor(signs[there], word, out=words[:size])
                numpy.bitwise_count(words[:size], out=counts[:size])
                numpy.add(found[there], counts[:size], out=found[there])
        return found

    def further(
        self, asked: numpy.ndarray, differences: numpy.ndarray, places: numpy.ndarray
    ) -> numpy.ndarray:
        """In how many of all bits the vectors at these places differ, of whose first bits that is
        known: uint16."""
        import numpy

        others = self.rest.take(places, axis=0)
        others ^= asked[len(self.first) :]
        found: numpy.ndarray = numpy.einsum("ij->i", numpy.bitwise_count(others), dtype="u2")
        found += differences[places]
        return found


def least(differences: numpy.ndarray, count: int, most: int) -> numpy.ndarray:
    """Places of the ``count`` least of these differences, and of ties with the last; of differences
    above ``most`` none."""
    import numpy

    return numpy.flatnonzero(differences <= _last(differences, count, most))


def about_the_least(differences: numpy.ndarray, count: int, most: int) -> numpy.ndarray:
    """The same, but some more or, seldom, some fewer than ``count``: at a third of the time where
    there are very many."""
    import numpy

    step = len(differences) // _SOME
    if step > 1:
        some = differences[::step]
        part = count * len(some) / len(differences)
        # as many more as chance would let it fall short
        last = _last(some, int(part + 2 * part**0.5), most)
        found = numpy.flatnonzero(differences <= last)
        if 0.9 * count <= len(found) <= 2 * count:
            return found
    # few, or not as those that were looked at, or with many ties
    return least(differences, count, most)


def _last(differences: numpy.ndarray, count: int, most: int) -> int:
    """The ``count``th least difference; ``most`` where there are not so many up to it."""
    import numpy

    def held(last: int) -> int:
        return int(numpy.count_nonzero(differences <= last))

    # ten times as quick as partitioning, twice as counting each difference
    return bisect_left(range(most), count, key=held)
