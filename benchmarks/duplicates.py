"""Duplicates of a whole memory: the cosine stage against bare numpy products, the words beside it.

100,000 observations in 10,000 entities, 512 dimensions: of 10 each, and of sizes that fall as in
real memories (a few of 500, most of a few). The bare product is the loop that nobody can do
without, ``vectors[a:b] @ vectors[a:b].T`` for each entity; it compares nothing. The vectors are
around a centre per entity, as observations of one subject are, so that some pairs are alike.
Stages are taken in turn; the ratio is the median of the ratios of neighbouring measurements.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from datasette_limbic.duplicates import Observation, Thresholds, find_pairs
from datasette_limbic.duplicates.candidates import by_cosine

DIMENSION = 512
TARGET = 1.5
_WORDS = 4000
_LARGEST = 500


def even(observations: int) -> list[int]:
    """Entities of 10 observations."""
    return [10] * (observations // 10)


def falling(observations: int) -> list[int]:
    """A tenth as many entities, the k-th largest with about largest/k^s observations, at least 1;
    in random order. s is sought so that they add up."""
    entities = observations // 10
    largest = min(_LARGEST, observations // 20)

    def made(s: float) -> list[int]:
        return [max(1, round(largest / (k / 20 + 1) ** s)) for k in range(entities)]

    low, high = 0.1, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(made(middle)) > observations else (low, middle)
    sizes = made(high)
    for i in itertools.cycle(range(entities // 2, entities)):
        if sum(sizes) >= observations:
            break
        sizes[i] += 1
    random.Random(7).shuffle(sizes)
    return sizes


def memory(sizes: list[int]) -> tuple[list[Observation], Any]:
    """Observations of 6 to 25 words and their vectors; one in fifty says what another says."""
    rng, chance = np.random.default_rng(7), random.Random(7)
    vectors = rng.standard_normal((sum(sizes), DIMENSION), dtype=np.float32)
    words = [f"w{i}" for i in range(_WORDS)]
    weights = list(itertools.accumulate(1 / (i + 5) for i in range(_WORDS)))
    observations: list[Observation] = []
    at = 0
    for entity, size in enumerate(sizes, 1):
        vectors[at : at + size] += rng.standard_normal(DIMENSION, dtype=np.float32)
        for i in range(at, at + size):
            text = " ".join(chance.choices(words, cum_weights=weights, k=chance.randint(6, 25)))
            if i > at and chance.random() < 0.02:
                j = chance.randrange(at, i)
                text = f"{observations[j].content} {text[:12]}"
                vectors[i] = vectors[j] + 0.3 * vectors[i]
            observations.append(Observation(i + 1, entity, text))
        at += size
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return observations, vectors


def bare(vectors: Any, starts: list[int]) -> None:
    """The products alone."""
    for a, b in itertools.pairwise(starts):
        block = vectors[a:b]
        block @ block.T


def timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def run(observations: int, repeats: int) -> list[dict[str, Any]]:
    """Rows of the table: one for each way that observations fall on entities."""
    table = []
    thresholds = Thresholds()
    for name, sizes in (("10 each", even(observations)), ("falling", falling(observations))):
        rows, vectors = memory(sizes)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        bounds = starts.tolist()
        bare(vectors, bounds), by_cosine(vectors, starts, thresholds.lowest)
        ratios, products, cosines = [], [], []
        for _ in range(repeats):
            products.append(timed(lambda v=vectors, b=bounds: bare(v, b)))
            cosines.append(timed(lambda v=vectors, s=starts: by_cosine(v, s, thresholds.lowest)))
            ratios.append(cosines[-1] / products[-1])
        stages: dict[str, float] = {}
        began = time.perf_counter()

        def ended(done: int, total: int, stage: str, stages: dict[str, float] = stages) -> None:
            stages[stage] = time.perf_counter()

        pairs = find_pairs(rows, vectors, thresholds, progress=ended)
        whole = time.perf_counter() - began
        table.append(
            {
                "entities": name,
                "observations": len(rows),
                "largest": max(sizes),
                "products s": median(products),
                "cosine s": median(cosines),
                f"ratio (target {TARGET})": median(ratios),
                "words s": stages["words"] - stages["cosine"],
                "all s": whole,
                "pairs": len(pairs),
            }
        )
    return table


if __name__ == "__main__":
    from tabulate import tabulate

    print(tabulate(run(100_000, 5), headers="keys", floatfmt=".2f", tablefmt="github"))
