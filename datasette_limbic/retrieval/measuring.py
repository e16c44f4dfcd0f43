"""Recall on the memory's own vectors: what share of the truly nearest an approximate search finds.

With one half of the questions (``questions``) the search is set: how many bits to compare further,
how many vectors to compare exactly. The other half says what recall that reaches, so the figure is
not one of the questions that it was set by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from datasette.utils.sqlite import sqlite3

from .. import llm_store, vectors
from .approximate import MEASURED_FOR, Codes
from .builds import FIRST_ID
from .model import Wanted
from .overlay import COLLECTION
from .questions import questions
from .signs import least

if TYPE_CHECKING:
    import numpy

DEPTHS = (10, MEASURED_FOR, 300)
"""Numbers of results for which recall is told."""
SHORTLISTED = (250, 500, 1000, 1500, 2000, 3000, 4000, 6000, 8000, 12_000, 16_000, 24_000)
RESCORED = (40, 60, 80, 100, 150, 200, 300, 450, 700, 1000, 1500)
EXACT_COST = 14
"""What comparing one vector exactly costs, in codes that could be compared instead (measured)."""
MARGIN = 0.5
"""Share of the misses that the target allows by which the setting half has to do better: people's
questions are less like the vectors than any that can be made of the memory's own texts."""
_BATCH = 20_000
_SAME = 1e-6
"""Similarities that differ by less are the same: several texts may be equal."""


@dataclass(frozen=True)
class Measured:
    """How the search is set, and what it reaches."""

    shortlisted: int
    rescored: int
    recalls: dict[int, float]
    """Mean recall by number of results, of questions that it was not set by."""
    questions: int
    """How many those were."""

    @property
    def recall(self) -> float:
        """That for MEASURED_FOR results."""
        return self.recalls[MEASURED_FOR]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"recall": {str(k): v for k, v in self.recalls.items()}, "questions": self.questions}


class Truth(NamedTuple):
    """The true neighbours of a question, nearest first."""

    ids: numpy.ndarray
    """int64."""
    similar: numpy.ndarray
    """Their cosine similarities, float32."""

    def of(self, count: int) -> Truth:
        """The nearest ``count`` of them."""
        return Truth(self.ids[:count], self.similar[:count])


def unit_rows(
    conn: sqlite3.Connection, dimension: int, *, after: int = FIRST_ID, batch: int = _BATCH
) -> Iterator[tuple[numpy.ndarray, numpy.ndarray, int]]:
    """All usable vectors of the entities by id, in batches: ids (int64), unit rows (float32), and
    the last id that was looked at.

    Each batch is a statement of its own, so that writers are not kept waiting.
    """
    import numpy

    collection = llm_store.collection(conn, COLLECTION)
    while collection is not None:
        rows = conn.execute(
            "select t.id, m.embedding from (select id from entities where id > ? order by id"
            " limit ?) t left join embeddings m"
            " on m.collection_id = ? and m.id = cast(t.id as text) order by t.id",
            [after, batch, collection[0]],
        ).fetchall()
        if not rows:
            return
        after = rows[-1][0]
        units = vectors.units([row[1] for row in rows], dimension)
        good = [(row[0], u) for row, u in zip(rows, units, strict=True) if isinstance(u, bytes)]
        joined = numpy.frombuffer(b"".join(unit for _, unit in good), "<f4")
        ids = numpy.array([item for item, _ in good], "i8")
        yield ids, joined.reshape(len(good), dimension), after


def measure(
    conn: sqlite3.Connection,
    codes: Codes,
    target: float,
    progress: Callable[[int], None] | None = None,
) -> Measured:
    """Set the search so that it reaches the target, or what can be reached. Reads only."""
    import numpy

    asked, itself = questions(conn, codes.ids, codes.dimension, codes.build.model)
    depth = min(max(DEPTHS), max(1, len(codes.ids) - 1))
    truth = _nearest(conn, asked, itself, depth, progress)
    order = numpy.random.default_rng(0).permutation(len(asked))
    setting, telling = (order[::2], order[1::2]) if len(asked) > 1 else (order, order)
    ranks = [_ranks(codes, asked[i], truth[i].ids[:MEASURED_FOR]) for i in setting]
    shortlisted, rescored = _cheapest(codes, ranks, target)
    recalls = {
        k: float(
            numpy.mean(
                [
                    _recall(conn, codes, asked[i], itself[i], truth[i].of(k), shortlisted, rescored)
                    for i in telling
                ]
            )
        )
        for k in DEPTHS
    }
    return Measured(shortlisted, rescored, recalls, len(telling))


class Ranks(NamedTuple):
    """How many vectors come before each of the true neighbours of a question."""

    first: numpy.ndarray
    """By the bits that are compared first."""
    bits: numpy.ndarray
    """By all bits, among as many as are left by the first ones."""
    codes: numpy.ndarray
    """By codes, among as many as are shortlisted at most: of fewer, fewer come before."""


def _ranks(codes: Codes, query: numpy.ndarray, truth: numpy.ndarray) -> Ranks:
    import numpy

    differences = codes.differences(query)
    places = _places(codes, truth)
    held = numpy.concatenate([[0], numpy.cumsum(numpy.bincount(differences))])
    most = codes.signs.left(max(SHORTLISTED))
    left = least(differences, most, int(differences.max(initial=0)))
    bits = numpy.sort(codes.further(query, differences, left))
    own_bits = codes.further(query, differences, places)
    shortlist = codes.shortlist(query, differences, max(SHORTLISTED))
    similar = numpy.sort(codes.along(query, shortlist))
    own = codes.along(query, places)
    return Ranks(
        held[differences[places]],
        numpy.searchsorted(bits, own_bits, side="left"),
        len(similar) - numpy.searchsorted(similar, own, side="right"),
    )


def _cheapest(codes: Codes, ranks: list[Ranks], target: float) -> tuple[int, int]:
    """The cheapest numbers to shortlist and to compare that reach the target, else those that
    reach most."""
    import numpy

    best: tuple[tuple[float, float], int, int] | None = None
    for shortlisted in SHORTLISTED:
        left = codes.signs.left(shortlisted)
        for rescored in RESCORED:
            if rescored > shortlisted:
                continue
            recall = numpy.mean(
                [
                    numpy.mean((r.first < left) & (r.bits < shortlisted) & (r.codes < rescored))
                    for r in ranks
                    if len(r.bits)
                ]
            )
            # beyond the target more recall is worth nothing
            worth = min(float(recall), 1 - (1 - target) * (1 - MARGIN))
            key = (worth, -(shortlisted + EXACT_COST * rescored))
            if best is None or key > best[0]:
                best = (key, shortlisted, rescored)
    assert best is not None  # there are numbers to choose from
    return best[1], best[2]


def _nearest(
    conn: sqlite3.Connection,
    asked: numpy.ndarray,
    itself: numpy.ndarray,
    depth: int,
    progress: Callable[[int], None] | None,
) -> list[Truth]:
    """The true neighbours of each question: exact, over all vectors."""
    import numpy

    ids = numpy.full((len(asked), depth), -1, "i8")
    similar = numpy.full((len(asked), depth), -numpy.inf, "f4")
    for batch, units, _ in unit_rows(conn, asked.shape[1]):
        found = asked @ units.T
        found[itself[:, None] == batch[None, :]] = -numpy.inf
        all_ids = numpy.concatenate([ids, numpy.broadcast_to(batch, found.shape)], axis=1)
        all_similar = numpy.concatenate([similar, found], axis=1)
        order = numpy.argpartition(-all_similar, depth - 1, axis=1)[:, :depth]
        ids = numpy.take_along_axis(all_ids, order, axis=1)
        similar = numpy.take_along_axis(all_similar, order, axis=1)
        if progress:
            progress(len(batch))
    order = numpy.argsort(-similar, axis=1, kind="stable")
    ids = numpy.take_along_axis(ids, order, axis=1)
    similar = numpy.take_along_axis(similar, order, axis=1)
    return [
        Truth(row[there], values[there])
        for row, values in zip(ids, similar, strict=True)
        for there in [values > -numpy.inf]
    ]


def _places(codes: Codes, ids: numpy.ndarray) -> numpy.ndarray:
    """Where the ids stand among the codes, of those that do."""
    import numpy

    order = numpy.argsort(codes.ids, kind="stable")
    at = numpy.searchsorted(codes.ids, ids, sorter=order).clip(max=len(order) - 1)
    found: numpy.ndarray = order[at]
    there: numpy.ndarray = found[codes.ids[found] == ids]
    return there


def _recall(
    conn: sqlite3.Connection,
    codes: Codes,
    query: numpy.ndarray,
    itself: int,
    truth: Truth,
    shortlisted: int,
    rescored: int,
) -> float:
    """The share of true neighbours among as many results of the search itself.

    What is as near as the last of them is one too: of vectors that are equal, any will do.
    """
    count = len(truth.ids)
    if not count:
        return 1.0
    wanted = Wanted("", count + 1, query.tobytes(), include_archived=True)
    found = [c for c in codes.nearest(conn, wanted, shortlisted, rescored) if c.id != itself]
    farthest = 1.0 - float(truth.similar[-1]) + _SAME
    return sum(c.distance <= farthest for c in found[:count]) / count
