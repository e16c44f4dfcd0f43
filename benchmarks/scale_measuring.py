"""How ``benchmarks.scale`` measures: the right answers, the least effort that does, and turns."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from . import progress, scale_apart
from .peers import Asked, Effort, Peer
from .scale_targets import RECALL

DEPTHS = (10, 30)
WARM_UP = 3
"""Queries that are asked once before."""
_SEED = 42
_TIE = 1e-6
"""Of cosine: what is as near as the last of the nearest is among them."""

Way = Callable[[Asked], Any]


@dataclass
class Opened:
    """A peer that is open, and what is known of it."""

    peer: Peer
    effort: Effort = ()
    recall: dict[int, float] = field(default_factory=dict)
    build_s: float = float("nan")
    taken: scale_apart.Taken | None = None


@dataclass
class Measured:
    """All of one size."""

    size: int
    peers: dict[str, Opened]
    times: dict[str, numpy.ndarray]
    """Milliseconds by way, one for each query; nan where it was not asked."""
    limit: int = 10
    """Results of a search; retrieval is of 3 times as many."""
    short: float | None = None
    """Recall of the approximate index at its usual target, where that did not do."""

    def p50(self, way: str) -> float:
        """Median of a way, ms; nan where it was not measured."""
        return float(numpy.nanmedian(self.times[way])) if way in self.times else float("nan")


class Exact:
    """The right answers to the queries."""

    def __init__(self, rows: numpy.ndarray, ids: numpy.ndarray, asked: Sequence[Asked]) -> None:
        self.rows, self.ids = rows, ids
        self.order = numpy.argsort(ids)
        self.least = {depth: numpy.empty(len(asked), "f4") for depth in DEPTHS}
        with progress.counted("the right answers") as show:
            for i, query in enumerate(asked):
                similar = rows @ query.vector
                for depth in DEPTHS:
                    at = max(0, len(similar) - depth)
                    self.least[depth][i] = numpy.partition(similar, at)[at]
                show(i + 1, len(asked))

    def recall(self, peer: Peer, asked: Sequence[Asked]) -> dict[int, float]:
        """Share of the nearest that a peer finds, by depth: the mean of all queries it answers."""
        shares: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
        deepest = max(DEPTHS)
        for i, query in enumerate(asked[: peer.at_most(len(self.ids))]):
            answer = list(dict.fromkeys(item for item, _ in peer.search(query, deepest)))
            similar = self.rows[self._places(answer)] @ query.vector
            for depth in DEPTHS:
                right = numpy.count_nonzero(similar[:depth] >= self.least[depth][i] - _TIE)
                shares[depth].append(right / min(depth, len(self.ids)))
        return {depth: float(numpy.mean(some)) for depth, some in shares.items()}

    def _places(self, answer: Sequence[int]) -> numpy.ndarray:
        wanted = numpy.array(answer, "i8")
        at = numpy.searchsorted(self.ids, wanted, sorter=self.order).clip(max=len(self.ids) - 1)
        places: numpy.ndarray = self.order[at]
        if not (self.ids[places] == wanted).all():
            raise RuntimeError("a peer answered ids that no row has")
        return places


def tuned(opened: Opened, asked: Sequence[Asked], exact: Exact) -> None:
    """Leave the peer open with the least effort that reaches RECALL, else with the most."""
    for effort in opened.peer.ladder:
        opened.effort = effort
        opened.peer.open(effort)
        opened.recall = exact.recall(opened.peer, asked)
        if opened.recall[max(DEPTHS)] >= RECALL:
            break


def in_turn(ways: dict[str, Way], asked: Sequence[Asked]) -> dict[str, numpy.ndarray]:
    """Milliseconds of each way for each query; nan where a way gave None, not to be asked it."""
    names, rng = list(ways), random.Random(_SEED)
    times = {name: numpy.full(len(asked), numpy.nan) for name in names}
    for query in asked[:WARM_UP]:
        for name in names:
            ways[name](query)
    with progress.counted("asking all in turn") as show:
        for i, query in enumerate(asked):
            rng.shuffle(names)  # what somebody left in the processor's cache helps nobody for long
            for name in names:
                started = time.perf_counter()
                answer = ways[name](query)
                if answer is not None:
                    times[name][i] = (time.perf_counter() - started) * 1000
            show(i + 1, len(asked))
    return times


def few(way: Way, most: int | None) -> Way:
    """A way that gives None from the query after ``most`` on."""
    if most is None:
        return way
    left = iter(range(most + WARM_UP))
    return lambda asked: None if next(left, None) is None else way(asked)
