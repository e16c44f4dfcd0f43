"""What the log says: figures of both orders, by strategy and week, the grid, and who would gain.

``analyse`` computes on a ``Log`` alone; ``tuning.report`` reads one from a memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np

from . import metrics, rerank, resampling
from .log import STRATEGY_NAMES, Bools, Floats, Log
from .proposing import Proposal
from .resampling import Interval, ratio_interval

ARMS = ("limbic", "baseline")
MOVERS = 10
"""So many of the queries that would gain the most, and that would lose the most."""
SEED = 7
_NAMES = ("precision", "lift", "recall")


def figures(log: Log, k: int) -> dict[str, Any]:
    """``arms``, ``strategies`` and ``weeks``: NDCG@K of what was served, with intervals.

    Of the arms also the order of either over the same searches (``shadow``), which favours the one
    that was served. JSON values; None where there is nothing to tell.
    """
    rng = np.random.default_rng(SEED)
    served = metrics.figures(log, log.served_rank, k) if len(log) else None
    arms = []
    for arm in ARMS:
        mine = log.limbic if arm == "limbic" else ~log.limbic
        rank = log.limbic_rank if arm == "limbic" else log.baseline_rank
        arms.append(
            {
                "arm": arm,
                "served": _one(log, served, mine, rng),
                "shadow": _one(
                    log,
                    metrics.figures(log, rank, k) if len(log) else None,
                    np.ones(len(log), bool),
                    rng,
                ),
            }
        )
    return {
        "arms": arms,
        "difference": _difference(log, served, rng),
        "strategies": [
            {"strategy": name, **_both(log, served, log.strategy == number, rng)}
            for number, name in enumerate(STRATEGY_NAMES)
            if (log.strategy == number).any()
        ],
        "weeks": [{"week": week, **_both(log, served, rows, rng)} for week, rows in _weeks(log.at)],
    }


def _one(
    log: Log, found: metrics.Figures | None, rows: Bools, rng: np.random.Generator
) -> dict[str, Any]:
    """Means over the searches of ``rows`` that have a relevant result, and how many have none."""
    known = rows & ~np.isnan(found.ndcg) if found is not None else rows
    some: dict[str, Any] = {
        "searches": int(rows.sum()),
        "labelled": int(known.sum()) if found is not None else 0,
        "ndcg": None,
        **dict.fromkeys(_NAMES),
    }
    if found is None or not known.any():
        return some
    part = log.select(known)
    some["ndcg"] = _interval(part, found.ndcg[known], np.ones(len(part)), rng).as_dict()
    some.update({name: float(getattr(found, name)[known].mean()) for name in _NAMES})
    return some


def _interval(log: Log, above: Floats, below: Floats, rng: np.random.Generator) -> Interval:
    return ratio_interval(above, below, (resampling.client_days(log), resampling.queries(log)), rng)


def _both(
    log: Log, found: metrics.Figures | None, rows: Bools, rng: np.random.Generator
) -> dict[str, Any]:
    return {
        "limbic": _one(log, found, rows & log.limbic, rng),
        "baseline": _one(log, found, rows & ~log.limbic, rng),
    }


def _difference(
    log: Log, found: metrics.Figures | None, rng: np.random.Generator
) -> dict[str, Any] | None:
    """NDCG of the limbic order less that of the baseline, each where it was served by chance.

    Searches without a used result count 0 here, or whoever finds less would seem as good. None
    where only one of both was served.
    """
    mixed = (log.baseline_share > 0) & (log.baseline_share < 1)
    if found is None or not (log.limbic & mixed).any() or not (~log.limbic & mixed).any():
        return None
    part = log.select(mixed)
    value = np.nan_to_num(found.ndcg[mixed])
    clusterings = (resampling.client_days(part), resampling.queries(part))
    return resampling.difference_interval(
        value,
        part.limbic / (1.0 - part.baseline_share),
        ~part.limbic / part.baseline_share,
        clusterings,
        rng,
    ).as_dict()


def _weeks(at: Floats) -> list[tuple[str, Bools]]:
    """Each week (its Monday, UTC) from the first to the last search, with its searches."""
    days = (at // resampling.SECONDS).astype(np.int64)
    monday = days - (days + 3) % 7  # 1970-01-01 was a Thursday
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return [
        ((epoch + timedelta(days=int(day))).date().isoformat(), monday == day)
        for day in np.unique(monday)
    ]


def surface(proposal: Proposal) -> dict[str, Any] | None:
    """The grid over all searches that can be used: ``ndcg`` [β][γ], and where what stands.

    None where nothing can be used.
    """
    sums, grid = proposal.sums, proposal.grid
    if sums is None:
        return None
    mean = sums.mean()
    shape = (len(grid.beta_sal), len(grid.gamma))
    values = mean.reshape(shape)
    target = None
    if proposal.target is not None:
        target = _place(grid.cells, np.array(proposal.target), shape)
    best = int(mean.argmax())
    return {
        "beta_sal": grid.beta_sal.tolist(),
        "gamma": grid.gamma.tolist(),
        "ndcg": values.tolist(),
        "in_force": list(divmod(grid.current, shape[1])),
        "best": list(divmod(best, shape[1])),
        "target": target,
        "gain": float(mean[best] - mean[grid.current]),
    }


def _place(cells: Floats, cell: Floats, shape: tuple[int, int]) -> list[int]:
    index = int(np.flatnonzero((cells == cell).all(axis=1))[0])
    return list(divmod(index, shape[1]))


def movers(proposal: Proposal) -> dict[str, Any] | None:
    """The searches that would gain and lose the most: under the target, else the best cell.

    Each with the NDCG@K of its whole pool in force (``before``) and then (``after``), unweighted;
    what nobody labelled counts as not relevant.
    """
    sums, grid = proposal.sums, proposal.grid
    if sums is None:
        return None
    if proposal.target is not None:
        cell = int(np.flatnonzero((sums.cells == np.array(proposal.target)).all(axis=1))[0])
    else:
        cell = int(sums.mean().argmax())
    log = proposal.basis.log
    before, after = (
        np.nan_to_num(metrics.figures(log, rerank.ranks(log, *map(float, each)), proposal.k).ndcg)
        for each in (grid.in_force, sums.cells[cell])
    )
    change = after - before
    order = np.argsort(change, kind="stable")
    beta, gamma = (float(value) for value in sums.cells[cell])
    return {
        "beta_sal": beta,
        "gamma": gamma,
        "better": int((change > 0).sum()),
        "worse": int((change < 0).sum()),
        "same": int((change == 0).sum()),
        "gain": _listed(log, [i for i in order[::-1][:MOVERS] if change[i] > 0], before, after),
        "lose": _listed(log, [i for i in order[:MOVERS] if change[i] < 0], before, after),
    }


def _listed(log: Log, rows: Sequence[int], before: Floats, after: Floats) -> list[dict[str, Any]]:
    return [
        {
            "id": int(log.id[i]),
            "before": float(before[i]),
            "after": float(after[i]),
            "change": float(after[i] - before[i]),
        }
        for i in rows
    ]
