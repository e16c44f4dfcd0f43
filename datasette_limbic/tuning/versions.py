"""Versions of ``beta_sal`` and ``gamma``: what is in force, what was, and changing it.

The table limbic_parameters is only ever added to: the newest row is in force, on running servers
at once, and taking one back adds another. Version 0 stands for no row: what configuration has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from datasette.utils.sqlite import sqlite3

from .. import schema
from ..answers import plain
from ..config import Settings
from ..errors import BadParameter, Refused
from ..request import unusable
from .version_rows import CONFIGURATION, InForce, Versions, configured, read
from .version_writing import UNDONE, Made, in_force_of, number_of, write

if TYPE_CHECKING:
    from .log import Log

BLEND = 0.1
"""Share of the new value in what is applied; the old one has the rest."""
TUNED, MANUAL, ROLLBACK = "tuned", "manual", "rollback"


def blended(old: float, new: float) -> float:
    """90 % of the old value and 10 % of the new one: never beyond either, and not falling where
    one of them rises."""
    mixed = (1 - BLEND) * old + BLEND * new
    # rounding alone may lead beyond them
    return min(max(mixed, min(old, new)), max(old, new))


def in_force(conn: sqlite3.Connection, settings: Settings | None = None) -> InForce:
    """The parameters that a search takes where its caller names none. Reads only.

    Version 0, of ``source`` "configuration" or "constants", where none was applied. Raises
    NotAMemory, and BadParameter where configuration has values out of range.
    """
    schema.require_memory(conn)
    return in_force_of(read(conn), settings)


def history(conn: sqlite3.Connection) -> list[dict[str, Any]]:
    """All versions, newest first. Reads only. Raises NotAMemory.

    Each has ``version``, ``source`` (tuned, manual, rollback), ``from`` and ``to`` ({"version",
    "beta_sal", "gamma"}: what was in force before, and then; None for what nobody wrote down),
    ``evidence`` (as it was written, parsed; text that is no JSON as it is), ``log_digest``,
    ``applied_by``, ``created_at``, ``in_force`` (true for one of them at most), ``stands_for``
    (the version whose values a rollback brought back, else its own), ``rollback_to`` (the version
    that a rollback from this one brings back, None where nothing was before it) and ``unusable``:
    why a row of another program's was never in force, else None.
    """
    schema.require_memory(conn)
    versions = read(conn)
    newest = versions.newest
    listed = []
    for row in versions.rows:
        stands_for = versions.stands_for.get(row.version, row.version)
        listed.append(
            plain(
                {
                    "version": row.version,
                    "source": row.source,
                    "from": versions.before(row),
                    "to": {"version": row.version, **row.values},
                    "evidence": row.read_evidence,
                    "log_digest": row.log_digest,
                    "applied_by": row.applied_by,
                    "created_at": row.created_at,
                    "in_force": row is newest,
                    "stands_for": stands_for,
                    "rollback_to": versions.preceding.get(stands_for),
                    "unusable": row.unusable,
                }
            )
        )
    return listed[::-1]


def apply(
    conn: sqlite3.Connection,
    proposal_evidence: Mapping[str, Any],
    target: tuple[float, float],
    *,
    log_digest: str,
    expected_version: int,
    actor: str | None = None,
    settings: Settings | None = None,
) -> InForce:
    """Apply a proposal: blend the ``target`` (beta_sal, gamma) into what is in force.

    ``log_digest`` is ``digest`` of the log that it comes from, ``expected_version`` the version
    that it was compared with. The row's evidence is that of the proposal with "asked" (the
    target), "from" (what was in force) and "blend". Returns what is in force then.

    Raises Refused where a version comes from this log already, StaleProposal where another
    version is in force by now, Refused where nothing would change, BadParameter for a value that
    is no number from 0 to 10, and what ``set_manual`` raises. Whatever is raised, nothing was
    changed.
    """
    beta_sal, gamma = target
    if not isinstance(log_digest, str) or not log_digest.strip():
        raise BadParameter(f"log_digest is {log_digest!r:.60}: use the digest of the log")
    asked = _checked({"beta_sal": beta_sal, "gamma": gamma})

    def made(_: Versions, now: InForce) -> Made:
        return _blended(now, asked, proposal_evidence)

    return write(conn, TUNED, made, actor, settings, expected_version, log_digest)


def set_manual(
    conn: sqlite3.Connection,
    beta_sal: float | None = None,
    gamma: float | None = None,
    *,
    actor: str | None = None,
    settings: Settings | None = None,
    expected_version: int | None = None,
) -> InForce:
    """A person's word: blend the values that are given into what is in force, at once.

    The row's evidence has "asked", "from" and "blend". ``expected_version`` is the version that
    the person saw in force, where that is known. Returns what is in force then.

    Raises BadParameter where neither is given, or a value is no number from 0 to 10; Refused where
    nothing would change; StaleProposal where another version is in force than the expected one;
    NotAMemory; NotWritable where nothing can be written to the file, NotRecorded where another
    program has locked it, and any other sqlite3.Error as it comes. Whatever is raised, nothing was
    changed.
    """
    given = {"beta_sal": beta_sal, "gamma": gamma}
    asked = _checked({name: value for name, value in given.items() if value is not None})
    if not asked:
        raise BadParameter("neither beta_sal nor gamma is given: give one of them, or both")

    def made(_: Versions, now: InForce) -> Made:
        return _blended(now, asked, {})

    return write(conn, MANUAL, made, actor, settings, expected_version)


def rollback(
    conn: sqlite3.Connection,
    to: int | None = None,
    *,
    actor: str | None = None,
    settings: Settings | None = None,
    expected_version: int | None = None,
) -> InForce:
    """Bring back the exact values of version ``to``, as a new version; 0: what configuration has.

    Without ``to`` it is the version before the one in force. One rollback after another goes
    further and further back: what was rolled back does not come again. The row's evidence has
    "rolled_back" (the version that was in force), "to" and "from". Returns what is in force then.

    Raises Refused where there is nothing before, where ``to`` is in force already or holds values
    that cannot be used, BadParameter where there is no such version, and what ``set_manual``
    raises. Whatever is raised, nothing was changed.
    """
    wanted = None if to is None else number_of("to", to)

    def made(versions: Versions, now: InForce) -> Made:
        chosen = _preceding(versions, now) if wanted is None else wanted
        values = _values(versions, chosen, settings)
        same = versions.stands_for.get(chosen) == versions.stands_for[now.version]
        if same and values == now.values:
            raise Refused(f"{UNDONE}: what version {chosen} has is in force already")
        return values, {"rolled_back": now.version, "to": chosen, "from": _from(now)}

    return write(conn, ROLLBACK, made, actor, settings, expected_version)


def digest(log: Log) -> str:
    """SHA-256 of what a log says of relevance: ids, gains and their sources, search by search.

    Searches without any label count nothing, so more of them make no other log.
    """
    import numpy as np  # heavy, and needed here alone

    from .log import NONE

    labelled = np.zeros(len(log), dtype=bool)
    labelled[log.of[log.source != NONE]] = True
    chosen = log.select(labelled)
    gain = np.where(np.isnan(chosen.gain), np.nan, chosen.gain) + 0.0  # one NaN, one zero
    found = hashlib.sha256()
    for values, kind in (
        (chosen.id, "<i8"),
        (chosen.start, "<i8"),
        (chosen.entity, "<i8"),
        (gain, "<f8"),
        (chosen.source, "<i8"),
    ):
        found.update(len(values).to_bytes(8, "little"))
        found.update(values.astype(kind).tobytes())
    return found.hexdigest()


def _checked(asked: Mapping[str, Any]) -> dict[str, float]:
    """These values as numbers. Raises BadParameter, naming the value."""
    defaults = {"beta_sal": 0.0, "gamma": 0.0}
    reason = unusable(**{**defaults, **asked})
    if reason is not None:
        raise BadParameter(f"{UNDONE}: {reason:.200}")
    return {name: float(value) for name, value in asked.items()}


def _blended(now: InForce, asked: Mapping[str, float], evidence: Mapping[str, Any]) -> Made:
    values = {
        name: blended(old, asked[name]) if name in asked else old
        for name, old in now.values.items()
    }
    if values == now.values:
        said = " and ".join(f"{name} {now.values[name]:.15g}" for name in asked)
        raise Refused(f"{UNDONE}: {said} is in force already, as version {now.version}")
    return values, {**evidence, "asked": dict(asked), "from": _from(now), "blend": BLEND}


def _from(now: InForce) -> dict[str, Any]:
    return {"version": now.version, **now.values}


def _preceding(versions: Versions, now: InForce) -> int:
    before = versions.preceding[versions.stands_for[now.version]]
    if before is None:
        what = "no version was applied yet"
        if now.version:
            what = f"version {now.version} is back at what {CONFIGURATION} had"
        raise Refused(f"{UNDONE}: there is nothing before it: {what}")
    return before


def _values(versions: Versions, version: int, settings: Settings | None) -> dict[str, float]:
    if version == 0:
        return configured(settings).values
    row = versions.get(version)
    if row is None:
        raise BadParameter(
            f"to is {version}: this memory has {versions.named()}; 0 is what {CONFIGURATION} has"
        )
    if row.unusable is not None:
        raise Refused(f"{UNDONE}: version {version} cannot be used: {row.unusable}")
    return row.values
