"""The log of recorded searches as arrays: what tuning computes with."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..routing import STRATEGIES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

STRATEGY_NAMES: tuple[str, ...] = tuple(STRATEGIES)
"""What ``Log.strategy`` counts in."""
NONE, USEFUL, NOT_USEFUL, OPENED, REACCESSED = range(5)
"""Where a label comes from, ``Log.source``."""
SOURCES = ("none", "useful", "not_useful", "opened", "reaccessed")
_SEARCH = (
    *("id", "at", "strategy", "limit", "beta_sal", "gamma", "limbic", "baseline_share"),
    *("version",),
)
_LISTS = ("query", "client")


@dataclass(frozen=True)
class Log:
    """n logged searches, oldest first, with all N candidates of their pools one after another.

    The candidates of search i are rows ``start[i]`` to ``start[i + 1]`` of the arrays of length N,
    in the order of their ids.
    """

    id: Ints
    """(n,) row ids in limbic_searches."""
    query: tuple[str, ...]
    """(n,) the query, folded for comparing."""
    client: tuple[str | None, ...]
    """(n,) who asked: the client's own name, else the actor; None where nobody knows."""
    at: Floats
    """(n,) when, Unix seconds, ascending."""
    strategy: Ints
    """(n,) index into STRATEGY_NAMES: the one that ranked."""
    limit: Ints
    """(n,) how many results were asked for."""
    beta_sal: Floats
    """(n,) the value that ranked."""
    gamma: Floats
    """(n,) likewise."""
    limbic: Bools
    """(n,) whether the limbic order was served (treatment), and not the baseline's."""
    baseline_share: Floats
    """(n,) the probability with which the baseline's order was to be served, 0 to 1."""
    version: Ints
    """(n,) version in limbic_parameters that ranked; 0: none, -1: values of the caller's own."""
    start: Ints
    """(n + 1,) where each search's candidates begin."""
    entity: Ints
    """(N,) entity ids."""
    base: Floats
    """(N,) base similarity, as all factors unrounded and finite."""
    importance: Floats
    temporal: Floats
    """(N,) temporal factor; an unknown one is already what it counted as."""
    cooc: Floats
    """(N,) cooc_boost."""
    baseline_rank: Ints
    """(N,) rank by base similarity, from 1."""
    limbic_rank: Ints
    """(N,) rank by final score as it was logged, from 1."""
    gain: Floats
    """(N,) relevance, 0 and up; NaN where nothing is known."""
    source: Ints
    """(N,) where the gain comes from, index into SOURCES."""
    chance: Floats
    """(N,) what a label REACCESSED would have brought on average had the search not been: its gain
    times the chance of one (``reaccess``)."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Searches that are not here, by the reason in words."""

    def __len__(self) -> int:
        return len(self.id)

    @cached_property
    def of(self) -> Ints:
        """(N,) index of the search that each candidate belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    @cached_property
    def served_rank(self) -> Ints:
        """(N,) rank in the order that was served."""
        return np.where(self.limbic[self.of], self.limbic_rank, self.baseline_rank)

    @cached_property
    def shown(self) -> Bools:
        """(N,) whether the candidate was among the results: the rest of the pool nobody saw."""
        return self.served_rank <= self.limit[self.of]

    def select(self, wanted: Bools) -> Log:
        """The searches where ``wanted`` (n,) is true."""
        rows = wanted[self.of]
        counts = np.diff(self.start)[wanted]
        chosen: dict[str, Any] = {
            "start": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            "left_out": self.left_out,
        }
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in _SEARCH:
                chosen[each.name] = value[wanted]
            elif each.name in _LISTS:
                chosen[each.name] = tuple(v for v, w in zip(value, wanted, strict=True) if w)
            elif each.name not in chosen:
                chosen[each.name] = value[rows]
        return Log(**chosen)
