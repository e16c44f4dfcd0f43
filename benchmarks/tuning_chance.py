"""Coming back to results as it comes, and less what chance brings, where there is nothing to learn.

A coin decides what is relevant; clients open results by name, and two other popular entities for
each search, once to five times each. Whatever is proposed is false.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from datasette_limbic.scoring import BETA_SAL, GAMMA
from datasette_limbic.tuning.proposing import propose
from datasette_limbic.tuning.ranges import DEFAULT_BETA_SAL, DEFAULT_GAMMA

from .scenario import Scenario
from .simulated_openings import with_openings
from .simulator import simulate

RUNS = 300
FIRST_SEED = 1000
OTHERS = 2.0
"""Openings by name for each search that have nothing to do with it."""


def run(runs: int = RUNS) -> list[dict[str, Any]]:
    """How many logs lead to a proposal, by how the labels are taken."""
    counts = {"as they come": 0, "less what chance brings": 0}
    for seed in range(FIRST_SEED, FIRST_SEED + runs):
        scenario = Scenario(searches=1500, baseline_share=0.3, preference="none")
        log = with_openings(simulate(scenario, seed), OTHERS, by_name=True)
        plain = replace(log, chance=np.zeros(len(log.chance)))
        for each, some in zip(counts, (plain, log), strict=True):
            found = propose(some, (BETA_SAL, GAMMA), betas=DEFAULT_BETA_SAL, gammas=DEFAULT_GAMMA)
            counts[each] += found.proposed
    return [
        {"openings by name": name, "logs": runs, "propose": count} for name, count in counts.items()
    ]
