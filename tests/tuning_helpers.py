"""Small logs of searches for tests of tuning, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from datasette_limbic.tuning.log import NONE, OPENED, STRATEGY_NAMES, Log

DAY = 86_400.0
START = 1_790_000_000.0 // DAY * DAY
UNKNOWN = float("nan")


def log_of(searches: Sequence[dict[str, Any]]) -> Log:
    """A log of searches given as ``gain`` and the factors of their candidates, best served first.

    Of a search may be given: ``query, client, at, strategy, limit, beta_sal, gamma, limbic,
    share, version``; of its candidates lists of ``gain`` and, where wanted, of ``base, importance,
    temporal, cooc, baseline_rank, limbic_rank, entity``.
    """
    sizes = [len(each["gain"]) for each in searches]

    def each(name: str, default: Any, kind: Any) -> Any:
        return np.array([s.get(name, default) for s in searches], kind)

    def rows(name: str, default: Any, kind: Any) -> Any:
        found = [s.get(name, default(len(s["gain"]))) for s in searches]
        return np.array([value for row in found for value in row], kind)

    def ranks(size: int) -> Any:
        return range(1, size + 1)

    gain = rows("gain", ranks, float)
    return Log(
        id=np.arange(1, len(searches) + 1),
        query=tuple(s.get("query", f"query {i}") for i, s in enumerate(searches)),
        client=tuple(s.get("client", "agent") for s in searches),
        at=np.array([s.get("at", START + i * DAY) for i, s in enumerate(searches)], float),
        strategy=np.array(
            [STRATEGY_NAMES.index(s.get("strategy", "limbic")) for s in searches], int
        ),
        limit=each("limit", 10, int),
        beta_sal=each("beta_sal", 0.5, float),
        gamma=each("gamma", 0.01, float),
        limbic=each("limbic", True, bool),
        baseline_share=each("share", 0.0, float),
        version=each("version", 0, int),
        start=np.concatenate([[0], np.cumsum(sizes)]).astype(int),
        entity=rows("entity", ranks, int),
        base=rows("base", lambda size: [0.9 - 0.01 * i for i in range(size)], float),
        importance=rows("importance", lambda size: [0.0] * size, float),
        temporal=rows("temporal", lambda size: [1.0] * size, float),
        cooc=rows("cooc", lambda size: [0.0] * size, float),
        baseline_rank=rows("baseline_rank", ranks, int),
        limbic_rank=rows("limbic_rank", ranks, int),
        gain=gain,
        source=np.where(np.nan_to_num(gain) > 0, OPENED, NONE),
        chance=rows("chance", lambda size: [0.0] * size, float),
    )
