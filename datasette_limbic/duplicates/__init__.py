"""Duplicates and contradictions among the observations of an entity: texts and vectors in, pairs
out. Nothing here reads or writes a database."""

from __future__ import annotations

from .clusters import Cluster, clusters
from .model import (
    LENGTH_RATIO,
    MIN_WORDS,
    MODEL_THRESHOLDS,
    Observation,
    Pair,
    Thresholds,
)
from .pairs import find_pairs
from .rules import Verdict, judge

__all__ = [
    "LENGTH_RATIO",
    "MIN_WORDS",
    "MODEL_THRESHOLDS",
    "Cluster",
    "Observation",
    "Pair",
    "Thresholds",
    "Verdict",
    "clusters",
    "find_pairs",
    "judge",
]
