"""Everything that the command and the page show of tuning, of one state of a memory."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasette.utils.sqlite import sqlite3

from ..answers import plain
from ..config import Settings, number
from . import analysing, labels, rerank, versions
from .labels import POLICY, LabelPolicy
from .log import SOURCES, Log
from .proposing import Proposal, propose
from .ranges import DEFAULT_BETA_SAL, DEFAULT_GAMMA
from .reading import Progress, read
from .version_rows import InForce
from .version_writing import number_of

DEFAULT_K = 10
MAX_K = 100


@dataclass(frozen=True)
class Options:
    """What is asked. Raises BadParameter for a ``k`` that is no whole number from 1 to MAX_K.

    ``until`` is the id of the last search that counts; None: all.
    """

    k: int = DEFAULT_K
    beta_sal: tuple[float, ...] = DEFAULT_BETA_SAL
    gamma: tuple[float, ...] = DEFAULT_GAMMA
    policy: LabelPolicy = POLICY
    until: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", int(number("k", self.k, 1, MAX_K, whole=True)))
        if self.until is not None:
            object.__setattr__(self, "until", number_of("until", self.until))


@dataclass(frozen=True)
class Worked:
    """A proposal with the log that it comes from and the version that it was compared with."""

    log: Log
    now: InForce
    proposal: Proposal
    options: Options

    @property
    def evidence(self) -> dict[str, Any]:
        """What a version keeps: figures, interval, policy of labels, counts, grid."""
        found = self.proposal.as_dict()
        return {
            **found,
            "labels": self.options.policy.as_dict(),
            "ranges": {
                "beta_sal": list(self.options.beta_sal),
                "gamma": list(self.options.gamma),
            },
        }


def work(
    conn: sqlite3.Connection,
    *,
    settings: Settings | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Worked:
    """Read the log and work out a proposal or a refusal. Reads only.

    ``progress(done, total)`` counts searches, first those read, then those ranked again. Raises
    NotAMemory, BadParameter and sqlite3.Error.
    """
    options = options or Options()
    now = versions.in_force(conn, settings)
    log = read(conn, policy=options.policy, until=options.until, progress=progress)
    proposal = propose(
        log,
        (now.beta_sal, now.gamma),
        betas=options.beta_sal,
        gammas=options.gamma,
        k=options.k,
        after=decided_until(versions.history(conn), latest=_latest(log)),
        progress=progress,
    )
    return Worked(log, now, proposal, options)


def decided_until(history: Sequence[Mapping[str, Any]], *, latest: float) -> float | None:
    """The time of the last search that decided about any version that was tuned, or None.

    Also where it was taken back since: what decided once decides nothing more. No search was later
    than ``latest``, so what says that is the row of another program, and says nothing.
    """
    found = []
    for row in history:
        evidence = row["evidence"]
        if row["source"] == versions.TUNED and isinstance(evidence, Mapping):
            moment = evidence.get("decided_until")
            # compared first: not every whole number can be made a float
            if (
                isinstance(moment, (int, float))
                and not isinstance(moment, bool)
                and 0 <= moment <= latest
            ):
                found.append(float(moment))
    return max(found, default=None)


def _latest(log: Log) -> float:
    """No search is later, Unix time: now, or the last one where clocks disagree."""
    return max(time.time(), float(log.at.max(initial=-math.inf)))


def report(
    conn: sqlite3.Connection,
    *,
    settings: Settings | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """What the log says of ``beta_sal`` and ``gamma``, and what it does not. Reads only.

    Keys: ``in_force`` (version, beta_sal, gamma, source), ``k``, ``labels`` (the policy),
    ``ranges``, ``counts``, ``left_out`` (searches by reason), ``arms``, ``difference``,
    ``strategies``, ``weeks`` (see ``analysing.figures``), ``grid`` (``analysing.surface``),
    ``movers``, ``proposal`` (``Proposal.as_dict``) and ``history`` (``versions.history``). Raises
    as ``work`` does.
    """
    worked = work(conn, settings=settings, options=options, progress=progress)
    log, options, proposal = worked.log, worked.options, worked.proposal
    found = analysing.movers(proposal)
    found_of_all: dict[str, Any] = plain(
        {
            "in_force": vars(worked.now),
            "k": options.k,
            "labels": options.policy.as_dict(),
            "ranges": {"beta_sal": list(options.beta_sal), "gamma": list(options.gamma)},
            "counts": labels.counts(log),
            "left_out": log.left_out,
            **analysing.figures(log, options.k),
            "grid": analysing.surface(proposal),
            "movers": _described(conn, worked, found) if found else None,
            "proposal": proposal.as_dict(),
            "history": versions.history(conn),
        }
    )
    return found_of_all


def _described(conn: sqlite3.Connection, worked: Worked, movers: dict[str, Any]) -> dict[str, Any]:
    """The same with query, client, time and the ranks of what was used, before and after."""
    for side in ("gain", "lose"):
        for row in movers[side]:
            row.update(_search(conn, row["id"]))
            chosen = worked.log.select(worked.log.id == row["id"])
            now = worked.proposal.in_force
            before = rerank.ranks(chosen, *now)
            after = rerank.ranks(chosen, movers["beta_sal"], movers["gamma"])
            row["relevant"] = [
                {
                    "id": int(chosen.entity[i]),
                    "name": _name(conn, row["id"], int(chosen.entity[i])),
                    "gain": float(chosen.gain[i]),
                    "label": SOURCES[chosen.source[i]],
                    "rank_before": int(before[i]),
                    "rank_after": int(after[i]),
                }
                for i in np.flatnonzero(chosen.gain > 0)
            ]
    return movers


def _search(conn: sqlite3.Connection, number: int) -> dict[str, Any]:
    row = conn.execute(
        "select uid, query, coalesce(nullif(client, ''), actor), created_at from limbic_searches"
        " where id = ?",
        [number],
    ).fetchone()
    names = ("search_id", "query", "client", "created_at")
    return dict(zip(names, row or (None,) * len(names), strict=True))


def _name(conn: sqlite3.Connection, search: int, entity: int) -> Any:
    row = conn.execute(
        "select entity_name from limbic_search_candidates where search_id = ? and entity_id = ?",
        [search, entity],
    ).fetchone()
    return row[0] if row else None
