"""Codes of vectors, in three sizes: the sieve's bits, a bit for each value, and some bytes.

The bits say on which side of the mean a vector lies. Those of the sieve, three machine words, do so
along the axes along which the vectors differ most (principal components), turned at random: so each
tells as much as any other, and they tell as much as five words of the vector's own values. All
vectors are compared by them, and some hundredths remain. A bit for each value of the vector leaves
some thousands of those. The bytes are the vector's coordinates on the axes as they are; they leave
some hundreds, which are compared exactly.

The query is not taken from the mean: what ranks is q·(x − mean), which differs from the cosine
similarity by the same q·mean for all. Measured on questions that are not like the vectors
(docs/benchmarks.md), that finds as many in half the candidates.

Sources: Charikar, "Similarity Estimation Techniques from Rounding Algorithms" (2002), for signs;
Gong and Lazebnik, "Iterative Quantization" (2011), for axes turned at random, and what they are
turned for (to find the best turn, as they go on to do, found no more here);
Jégou, Douze and Schmid, "Product Quantization for Nearest Neighbor Search" (2011), for comparing
exact queries with coded vectors and re-ranking what that finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

VARIANCE = 0.95
"""Share of the vectors' variance that the axes keep."""
AXES = (32, 256)
"""Fewest and most axes."""
SAMPLE = 20_000
"""Vectors that training looks at."""
WORD = 64
SIEVE = 192
"""Bits of the sieve: as many as a byte can count, and vectors of no more values have none."""
_CLIPPED = 0.9995
_BLOCK = 8192


@dataclass(frozen=True)
class Training:
    """What codes are made with. ``d`` is the dimension of vectors, ``r`` the number of axes."""

    mean: numpy.ndarray
    """float32, d."""
    axes: numpy.ndarray
    """float32, d × r, orthonormal columns."""
    scale: float
    """What one step of a code is worth."""
    sieve: numpy.ndarray | None = None
    """float32, d × SIEVE: directions among the main axes. None: there is no sieve."""

    @property
    def dimension(self) -> int:
        """Values of a vector."""
        return int(self.axes.shape[0])

    @property
    def words(self) -> int:
        """Machine words that hold the signs of a vector, the sieve's first."""
        return -(-self.dimension // WORD) + (0 if self.sieve is None else self.first)

    @property
    def first(self) -> int:
        """How many of them are compared first: the sieve's, all where there is none."""
        return self.words if self.sieve is None else SIEVE // WORD

    def encode(self, rows: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Signs (uint64, n × words) and codes (int8, n × r) of unit vectors (float32, n × d)."""
        import numpy

        codes = numpy.empty((len(rows), self.axes.shape[1]), "i1")
        for start in range(0, len(rows), _BLOCK):
            there = slice(start, start + _BLOCK)
            along = (rows[there] - self.mean) @ self.axes
            codes[there] = numpy.clip(numpy.rint(along / self.scale), -127, 127)
        return self.signs(rows - self.mean), codes

    def signs(self, rows: numpy.ndarray) -> numpy.ndarray:
        """The bits of rows (float32, n × d): uint64, n × words; beyond d they are 0."""
        import numpy

        packed = numpy.zeros((len(rows), self.words * WORD // 8), "u1")
        own = packed
        if self.sieve is not None:
            packed[:, : SIEVE // 8] = numpy.packbits(rows @ self.sieve > 0, axis=1)
            own = packed[:, SIEVE // 8 :]
        bits = numpy.packbits(rows > 0, axis=1)
        own[:, : bits.shape[1]] = bits
        return packed.view("<u8")

    def parts(self) -> dict[str, bytes]:
        """As little-endian float32, by name."""
        import numpy

        values = {"mean": self.mean, "axes": self.axes, "scale": numpy.array([self.scale])}
        if self.sieve is not None:
            values["sieve"] = self.sieve
        return {name: value.astype("<f4").tobytes() for name, value in values.items()}

    @classmethod
    def of_parts(cls, parts: dict[str, bytes], dimension: int) -> Training:
        """What ``parts`` gave. Raises ValueError where they are missing or do not fit."""
        import numpy

        try:
            found = {name: numpy.frombuffer(parts[name], "<f4") for name in ("mean", "axes")}
            axes = found["axes"].reshape(dimension, -1)
            scale = float(numpy.frombuffer(parts["scale"], "<f4")[0])
            sieve = None  # as in an index that was made before there was one
            if "sieve" in parts:
                sieve = numpy.frombuffer(parts["sieve"], "<f4").reshape(dimension, SIEVE)
        except (KeyError, IndexError, TypeError, ValueError):
            raise ValueError("what the approximate index was made with is damaged") from None
        every = [*found.values(), numpy.array(scale), *([] if sieve is None else [sieve])]
        finite = all(numpy.isfinite(value).all() for value in every)
        if found["mean"].shape != (dimension,) or not axes.size or not finite or scale <= 0:
            raise ValueError("what the approximate index was made with is damaged")
        return cls(found["mean"], axes, scale, sieve)


def train(sample: numpy.ndarray) -> Training:
    """Training on a random sample (float32 unit vectors, n × d, n from 1 on).

    Vectors that are all equal do no harm: their codes are too.
    """
    import numpy

    mean = sample.mean(axis=0, dtype="f8").astype("f4")
    axes = _axes(sample - mean)
    along = (sample - mean) @ axes
    scale = float(numpy.quantile(numpy.abs(along), _CLIPPED)) / 127
    return Training(mean, axes, scale if scale > 1e-9 else 1.0, _sieve(axes))


def _sieve(axes: numpy.ndarray) -> numpy.ndarray | None:
    """Directions among the first SIEVE axes (d × r): d × SIEVE; None of vectors that need none."""
    import numpy

    if len(axes) <= SIEVE:
        return None
    turn, _ = numpy.linalg.qr(numpy.random.default_rng(0).normal(size=(SIEVE, SIEVE)))
    kept = min(SIEVE, axes.shape[1])
    return numpy.ascontiguousarray(axes[:, :kept] @ turn[:kept], dtype="f4")


def _axes(centred: numpy.ndarray) -> numpy.ndarray:
    """The principal axes that keep VARIANCE, in steps of 16, between the bounds of AXES."""
    import numpy

    dimension = centred.shape[1]
    values, found = numpy.linalg.eigh((centred.T @ centred).astype("f8") / len(centred))
    values, found = values[::-1].clip(0), found[:, ::-1]
    kept = AXES[0]
    if total := values.sum():
        kept = int(numpy.searchsorted(numpy.cumsum(values), VARIANCE * total)) + 1
    kept = min(dimension, AXES[1], max(AXES[0], -(-kept // 16) * 16))
    return numpy.ascontiguousarray(found[:, :kept], dtype="f4")
