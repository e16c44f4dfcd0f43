"""How long analysing a large log of searches takes, from the file to the report."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from datasette_limbic import connection, schema
from datasette_limbic.tuning import rerank
from datasette_limbic.tuning.log import Log
from datasette_limbic.tuning.reading import read
from datasette_limbic.tuning.report import Options, report

from .scenario import AUTO, Scenario
from .simulator import simulate, write

SEARCHES, CANDIDATES = 10_000, 30
TARGET_S = 20.0
SAMPLE = 50
"""So many searches go through scikit-learn, under so many cells of the grid each."""


def run(folder: Path, quick: bool) -> list[dict[str, Any]]:
    """One row: the report of a simulated memory, and scikit-learn's ``ndcg_score`` beside it."""
    searches = 1000 if quick else SEARCHES
    path = folder / "tuning.db"
    scenario = Scenario(
        searches=searches,
        candidates=CANDIDATES,
        queries=max(searches // 2, 1),
        baseline_share=0.3,
        strategies=AUTO,
    )
    with closing(connection.connect(path, create=True)) as conn:
        schema.init(conn)
        write(conn, simulate(scenario, 1))
    with closing(connection.connect(path, readonly=True)) as conn:
        times = []
        for _ in range(1 if quick else 3):
            start = time.perf_counter()
            found = report(conn)
            times.append(time.perf_counter() - start)
        log = read(conn)
    options = Options()
    # the values in force have a row and a column of their own
    cells = len(found["grid"]["beta_sal"]) * len(found["grid"]["gamma"])
    labelled = found["grid"] and found["counts"]["labelled"]
    plain = one_by_one(log, options) * labelled * cells
    seconds = median(times)
    return [
        {
            "searches": searches,
            "candidates": CANDIDATES,
            "labelled": labelled,
            "cells": cells,
            "report s": seconds,
            "target": f"< {TARGET_S:.0f} s",
            "met": seconds < TARGET_S,
            "one by one s": plain,
            "one by one / report": plain / seconds,
        }
    ]


def one_by_one(log: Log, options: Options) -> float:
    """Seconds that scikit-learn's ``ndcg_score`` takes for one search and one cell, on average.

    Scores are there already: it is the metric alone, nothing of the file or of re-ranking.
    """
    from sklearn.metrics import ndcg_score

    relevant = np.flatnonzero(np.bincount(log.of, log.gain > 0, len(log)) > 0)
    chosen = np.random.default_rng(1).choice(relevant, min(SAMPLE, len(relevant)), replace=False)
    wanted = np.zeros(len(log), bool)
    wanted[chosen] = True
    part = log.select(wanted)
    gains = np.nan_to_num(part.gain)
    taken, calls = 0.0, 0
    for beta, gamma in zip(options.beta_sal, options.gamma, strict=True):
        scores = rerank.final_scores(part, beta, gamma)
        for begin, end in zip(part.start[:-1].tolist(), part.start[1:].tolist(), strict=True):
            one = [gains[begin:end]], [scores[begin:end]]
            start = time.perf_counter()
            ndcg_score(*one, k=options.k)
            taken += time.perf_counter() - start
            calls += 1
    return taken / calls
