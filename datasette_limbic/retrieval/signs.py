"""The bits of all vectors, compared with those of a query.

Reading them is what takes the time, so of very many vectors a part of the bits is compared first,
and the others of those alone that may still be among the nearest.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

FROM = 250_000
"""Vectors from which it pays to compare a part of the bits first."""
FIRST = 5, 8
"""Of so many words so many are compared first."""
LEFT = 64
"""One in so many vectors is left then, at least."""
LEFT_FOR_EACH = 6
"""So many are left for each that is wanted in the end, at least."""
VOID = 65_535
"""In place of a difference: never among the least."""
_BLOCK = 65_536


class Signs:
    """Bits of n vectors, in words of 64."""

    def __init__(self, signs: numpy.ndarray) -> None:
        """``signs``: uint64, n × words."""
        import numpy

        count, words = signs.shape
        first = words if count < FROM or words < 4 else -(-words * FIRST[0] // FIRST[1])
        # word by word: so each step of ``differences`` runs through neighbouring memory
        self.first = numpy.ascontiguousarray(signs[:, :first].T)
        self.rest = numpy.ascontiguousarray(signs[:, first:])

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
        return max(many // LEFT, LEFT_FOR_EACH * count) if self.rest.size else many

    def differences(self, asked: numpy.ndarray) -> numpy.ndarray:
        """In how many of the first bits each vector differs from the query's: uint16, n."""
        import numpy

        count = self.first.shape[1]
        found = numpy.zeros(count, "u2")
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

    def further(self, asked: numpy.ndarray, places: numpy.ndarray) -> numpy.ndarray:
        """In how many of the other bits the vectors at these places differ: uint16."""
        import numpy

        others = self.rest.take(places, axis=0)
        others ^= asked[len(self.first) :]
        found: numpy.ndarray = numpy.einsum("ij->i", numpy.bitwise_count(others), dtype="u2")
        return found


def least(differences: numpy.ndarray, count: int, most: int) -> numpy.ndarray:
    """Places of the ``count`` least of these differences (uint16), and of ties with the last; of
    differences above ``most`` none."""
    import numpy

    def held(last: int) -> int:
        return int(numpy.count_nonzero(differences <= last))

    # ten times as quick as partitioning, twice as counting each difference; takes the ties
    low, high = 0, most
    if len(differences) > 2 * _BLOCK:
        # some of them tell about where to look
        some = differences[:: len(differences) // _BLOCK]
        part = count * len(some) // len(differences)
        about = bisect_left(range(most), part, key=lambda d: int(numpy.count_nonzero(some <= d)))
        near = max(0, about - 2), min(most, about + 2)
        if held(near[0]) < count <= held(near[1]):
            low, high = near
    return numpy.flatnonzero(differences <= bisect_left(range(most), count, low, high, key=held))
