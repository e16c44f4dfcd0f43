"""Other ways to find the nearest vectors, behind one small interface, for ``benchmarks.scale``.

Each is used as its own documentation says, on its defaults but for what ``efforts`` names: that
is raised step by step until the answers are as good as is asked for. A library is imported where
it is first needed, so that one that is absent is left out, and its memory can be told.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy


class Asked(NamedTuple):
    """One query."""

    text: str
    vector: numpy.ndarray
    """Unit length, float32."""


Effort = tuple[int, ...]
Found = list[tuple[int, float]]
"""Ids and cosine distances, nearest first."""


class Peer:
    """One way to search: build once, then open, perhaps with one effort after the other."""

    name: ClassVar[str]
    modules: ClassVar[tuple[str, ...]] = ()
    """What has to be installed for it."""
    efforts: ClassVar[tuple[str, ...]] = ()
    """What its documentation calls the numbers of ``ladder``."""
    ladder: ClassVar[tuple[Effort, ...]] = ((),)
    """Efforts to try, the least first; one empty one where there is nothing to set."""

    def __init__(self, folder: Path, memory: Path) -> None:
        """``folder`` is its own, and there; ``memory`` is the file the rows come from."""
        self.folder, self.memory = folder, memory

    @classmethod
    def missing(cls) -> str | None:
        """Which package is not installed, in a sentence; None where all are."""
        absent = cls.absent()
        return f"not installed: {', '.join(absent)}" if absent else None

    @classmethod
    def absent(cls) -> list[str]:
        """Those of ``modules`` that are not installed."""
        return [name for name in cls.modules if find_spec(name) is None]

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        """Store the unit vectors, float32 of shape (n, d), under their ids (int64), and index."""
        raise NotImplementedError

    def ready(self, queries: Iterable[Asked]) -> None:
        """What any search needs before, and memory is not counted for."""

    def open(self, effort: Effort) -> None:
        """Open what was built; again with another effort."""
        raise NotImplementedError

    def search(self, asked: Asked, k: int) -> Found:
        """The ``k`` nearest."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of it, whatever of it is open; ``open`` may follow."""

    def at_most(self, size: int) -> int | None:
        """How many queries it is asked among so many rows; None: all."""
        return None

    def nbytes(self) -> float:
        """Bytes on disk of what searches read; nan where that cannot be told."""
        return sum(f.stat().st_size for f in self.folder.rglob("*") if f.is_file())

    def processes(self) -> list[int]:
        """Other processes whose memory is its own."""
        return []

    def says(self, effort: Effort) -> str:
        """The effort, for the table."""
        return ", ".join(f"{n} {v}" for n, v in zip(self.efforts, effort, strict=True))


class Numpy(Peer):
    """All vectors in memory, multiplied and partitioned: the limit of exact search."""

    name = "numpy"

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        numpy.save(self.folder / "rows.npy", rows)
        numpy.save(self.folder / "ids.npy", ids)

    def open(self, effort: Effort) -> None:
        self.rows = numpy.load(self.folder / "rows.npy")
        self.ids = numpy.load(self.folder / "ids.npy")

    def search(self, asked: Asked, k: int) -> Found:
        similar = self.rows @ asked.vector
        cut = max(0, len(similar) - k)
        best = numpy.argpartition(similar, cut)[cut:]
        best = best[numpy.argsort(-similar[best])]
        return pairs(self.ids[best], 1 - similar[best])

    def close(self) -> None:
        self.rows = self.ids = numpy.empty(0)


class Faiss(Peer):
    """HNSW over inner products: M 32, efConstruction 100."""

    name = "faiss"
    modules = ("faiss",)
    efforts = ("efSearch",)
    ladder = tuple((ef,) for ef in (32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048))
    index: Any = None

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        import faiss

        index = faiss.IndexHNSWFlat(rows.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = 100
        index.add(rows)
        faiss.write_index(index, str(self.folder / "index"))
        numpy.save(self.folder / "ids.npy", ids)

    def open(self, effort: Effort) -> None:
        import faiss

        if self.index is None:
            self.index = faiss.read_index(str(self.folder / "index"))
            self.ids = numpy.load(self.folder / "ids.npy")
        (self.index.hnsw.efSearch,) = effort

    def search(self, asked: Asked, k: int) -> Found:
        similar, places = self.index.search(asked.vector[None], k)
        good = places[0] >= 0
        return pairs(self.ids[places[0][good]], 1 - similar[0][good])

    def close(self) -> None:
        self.index = None


class Usearch(Peer):
    """HNSW over cosines in float32, on its defaults (connectivity 16, expansion_add 128)."""

    name = "usearch"
    modules = ("usearch",)
    efforts = ("expansion_search",)
    ladder = tuple((ef,) for ef in (32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048))
    index: Any = None

    def build(self, rows: numpy.ndarray, ids: numpy.ndarray) -> None:
        from usearch.index import Index

        index = Index(ndim=rows.shape[1], metric="cos", dtype="f32")
        index.add(ids.astype("u8"), rows)
        index.save(str(self.folder / "index"))

    def open(self, effort: Effort) -> None:
        from usearch.index import Index

        if self.index is None:
            self.index = Index.restore(str(self.folder / "index"))
        (self.index.expansion_search,) = effort

    def search(self, asked: Asked, k: int) -> Found:
        found = self.index.search(asked.vector, k)
        return pairs(found.keys, found.distances)

    def close(self) -> None:
        self.index = None


PEERS: tuple[type[Peer], ...] = (Numpy, Usearch, Faiss)


def pairs(ids: numpy.ndarray, distances: numpy.ndarray) -> Found:
    """Two arrays as what is answered."""
    return list(zip(ids.tolist(), distances.tolist(), strict=True))
