"""Applying what passed: worked out again, compared with what a person saw, and written.

In two steps, since the first one takes seconds and only reads: a server does it on a connection
of its own, and the second one where it writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import schema
from ..config import Settings
from ..errors import NotProposed, StaleProposal
from . import versions
from .reading import Progress
from .report import Options, Worked, work
from .version_rows import InForce, read
from .version_writing import UNDONE, in_force_of, number_of, require_in_force


@dataclass(frozen=True)
class Agreed:
    """A proposal that passed and is the one that was agreed to: what writing it takes."""

    target: tuple[float, float]
    """(beta_sal, gamma)."""
    evidence: Mapping[str, Any]
    log_digest: str
    version: int
    """The version that has to be in force still."""


def apply_proposal(
    conn: sqlite3.Connection,
    *,
    settings: Settings | None = None,
    options: Options | None = None,
    target: tuple[float, float] | None = None,
    expected_version: int | None = None,
    actor: str | None = None,
    progress: Progress | None = None,
) -> tuple[InForce, Worked]:
    """Work the proposal out once more and apply it: 10 % of it, in 90 % of what is in force.

    ``target`` (beta_sal, gamma) and ``expected_version`` are what a person saw and agreed to, with
    ``options.until`` as it was then. Returns what is in force now, and what it was worked out from.

    Raises NotProposed with the refusal where nothing passes; StaleProposal where the log speaks
    for another target by now, or another version is in force; and what ``versions.apply`` raises.
    Whatever is raised, nothing was changed.
    """
    agreed, worked = agree(
        conn,
        settings=settings,
        options=options,
        target=target,
        expected_version=expected_version,
        progress=progress,
    )
    return write_agreed(conn, agreed, settings=settings, actor=actor), worked


def agree(
    conn: sqlite3.Connection,
    *,
    settings: Settings | None = None,
    options: Options | None = None,
    target: tuple[float, float] | None = None,
    expected_version: int | None = None,
    progress: Progress | None = None,
) -> tuple[Agreed, Worked]:
    """The first step of ``apply_proposal``: what it would write. Reads only; raises as that."""
    schema.require_memory(conn)
    if expected_version is not None:
        # what is out of date need not be worked out
        there = read(conn)
        expected = number_of("expected_version", expected_version)
        require_in_force(there, in_force_of(there, settings), expected)
    worked = work(conn, settings=settings, options=options, progress=progress)
    found = worked.proposal
    if found.refusal is not None or found.target is None:
        reason = found.refusal.message if found.refusal else "there is nothing to apply"
        raise NotProposed(f"{UNDONE}: {reason}")
    if target is not None and found.target != target:
        raise StaleProposal(
            f"{UNDONE}: {_said(target)} was proposed when this was looked at, and now it "
            f"is {_said(found.target)}. Look again"
        )
    version = worked.now.version if expected_version is None else expected_version
    digest = versions.digest(worked.log)
    return Agreed(found.target, worked.evidence, digest, version), worked


def write_agreed(
    conn: sqlite3.Connection,
    agreed: Agreed,
    *,
    settings: Settings | None = None,
    actor: str | None = None,
) -> InForce:
    """The second step: write it where the same version is in force still. Raises as
    ``versions.apply``."""
    return versions.apply(
        conn,
        agreed.evidence,
        agreed.target,
        log_digest=agreed.log_digest,
        expected_version=agreed.version,
        actor=actor,
        settings=settings,
    )


def _said(target: tuple[float, float]) -> str:
    return f"beta_sal {target[0]:.4g} with gamma {target[1]:.4g}"
