"""Everything that the command and the page show of tuning, of one state of a memory."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasette.utils.sqlite import sqlite3

from ..answers import plain
from ..config import Settings, number
from ..exporting.transaction import reading
from . import analysing, labels, metrics, rerank, versions
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
    history: list[dict[str, Any]]
    proposal: Proposal
    options: Options

    @property
    def evidence(self) -> dict[str, Any]:
        """What a version keeps: figures, interval, policy of labels, counts, grid."""
        found = self.proposal.as_dict()
        if found["decided_until"] is not None:
            # one search with a clock of its own would end all deciding until then
            found["decided_until"] = min(found["decided_until"], time.time())
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
    # no longer than it is read: whoever holds a lock for seconds stops all who write
    with reading(conn, as_text):
        now = versions.in_force(conn, settings)
        history = versions.history(conn)
        log = read(conn, policy=options.policy, until=options.until, progress=progress)
    proposal = propose(
        log,
        (now.beta_sal, now.gamma),
        betas=options.beta_sal,
        gammas=options.gamma,
        k=options.k,
        after=decided_until(history, latest=time.time()),
        progress=progress,
    )
    return Worked(log, now, history, proposal, options)


def decided_until(history: Sequence[Mapping[str, Any]], *, latest: float) -> float | None:
    """The time of the last search that decided about any version that was tuned, or None.

    Also where it was taken back since: what decided once decides nothing more. A version holds no
    time to come (``Worked.evidence``): what is later than ``latest``, now, was written by another
    program, and says nothing.
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
    movers = analysing.movers(proposal)
    if movers:
        with reading(conn, as_text):
            _describe(conn, worked, movers)
    found: dict[str, Any] = plain(
        {
            "in_force": vars(worked.now),
            "k": options.k,
            "labels": options.policy.as_dict(),
            "ranges": {"beta_sal": list(options.beta_sal), "gamma": list(options.gamma)},
            "counts": labels.counts(log),
            "left_out": log.left_out,
            **analysing.figures(log, options.k),
            "grid": analysing.surface(proposal),
            "movers": movers,
            "proposal": proposal.as_dict(),
            "history": worked.history,
        }
    )
    return found


def as_text(data: bytes) -> str:
    """Text of a file that any program may have written."""
    return str(data, "utf-8", "replace")


def _describe(conn: sqlite3.Connection, worked: Worked, movers: dict[str, Any]) -> None:
    """Add query, client, time and the ranks of what was used, before and after."""
    for side in ("gain", "lose"):
        for row in movers[side]:
            row.update(_search(conn, row["id"]))
            chosen = worked.log.select(worked.log.id == row["id"])
            now = worked.proposal.in_force
            then = movers["beta_sal"], movers["gamma"]
            before, after = (rerank.ranks(chosen, *each) for each in (now, then))
            # of so few searches scikit-learn's own figures, ties averaged
            row["before"], row["after"] = (
                metrics.ndcg(
                    np.nan_to_num(chosen.gain).tolist(),
                    rerank.final_scores(chosen, *each).tolist(),
                    worked.options.k,
                )
                for each in (now, then)
            )
            row["change"] = row["after"] - row["before"]
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
