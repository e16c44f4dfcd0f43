"""Tuning as functions, with plain arguments and dicts of JSON values: the Python API.

Nothing heavy is imported before one of them is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from datasette.utils.sqlite import sqlite3

from ..answers import plain
from ..config import Settings
from ..errors import BadParameter
from . import versions
from .ranges import parse_range

if TYPE_CHECKING:  # in typing from Python 3.11 on
    from typing_extensions import Unpack

    from .version_rows import InForce


class Estimate(TypedDict, total=False):
    """What an estimate takes; see ``analyze_searches``."""

    k: int
    beta_sal: Iterable[float] | str | None
    gamma: Iterable[float] | str | None
    until: int | None
    settings: Settings | None
    progress: Callable[[int, int], None] | None


def analyze_searches(conn: sqlite3.Connection, **options: Unpack[Estimate]) -> dict[str, Any]:
    """What the recorded searches say of ``beta_sal`` and ``gamma``, all figures. Reads only.

    ``k`` results of each search are judged, 1 to 100, by default 10. ``beta_sal`` and ``gamma`` are
    the values to try, 1 to 100 of each, from 0 to 10, as numbers or as ``parse_range`` reads them
    from text; by default 12 from 0.1 to 1.5, and 12 from 0.001 to 0.1. ``until`` is the id of the
    last search that counts. ``progress(done, total)`` counts searches, first those read, then
    those ranked again.

    Returns the dict of ``tuning.report.report``. Raises NotAMemory, BadParameter, which names the
    value, and sqlite3.Error.
    """
    from .report import report

    return report(conn, **_given(options))


def propose_parameters(conn: sqlite3.Connection, **options: Unpack[Estimate]) -> dict[str, Any]:
    """Better values of ``beta_sal`` and ``gamma``, or why there are none to propose. Reads only.

    Takes and raises what ``analyze_searches`` does, and is faster. Returns ``in_force`` and
    ``proposal``: ``proposed`` (true or false), ``refusal`` (None, or ``code``, ``message``,
    ``figure`` and the ``bound`` it had to reach), ``target`` and ``step`` (what applying makes of
    it), ``gain`` and ``step_gain`` in NDCG@K with 95 % intervals, ``estimation`` and what it rests
    on.
    """
    from .report import work

    worked = work(conn, **_given(options))
    found: dict[str, Any] = plain(
        {"in_force": vars(worked.now), "proposal": worked.proposal.as_dict()}
    )
    return found


def apply_parameters(
    conn: sqlite3.Connection,
    target: Mapping[str, float] | None = None,
    *,
    actor: str | None = None,
    expected_version: int | None = None,
    **options: Unpack[Estimate],
) -> dict[str, Any]:
    """Work the proposal out again and apply it: 10 % of the target, in 90 % of what is in force.

    ``target`` ({"beta_sal", "gamma"}) and ``expected_version`` are of the proposal that somebody
    agreed to: what is no longer proposed, or compared with another version, is refused. ``actor``
    is who applies it, for the history. Takes what ``analyze_searches`` does besides.

    Returns ``in_force`` (the new version), ``from`` (what was before it) and ``proposal``. Raises
    NotProposed where nothing is proposed, StaleProposal, Refused where the same log was applied
    already, NotWritable, NotRecorded (the file is locked) and what ``analyze_searches`` raises.
    Whatever is raised, nothing was changed.
    """
    from .applying import apply_proposal

    agreed = None
    if target is not None:
        try:
            agreed = (target["beta_sal"], target["gamma"])
        except (KeyError, TypeError) as error:
            raise BadParameter(
                f"target is {target!r:.60}: use the target of a proposal, with beta_sal and gamma"
            ) from error
    now, worked = apply_proposal(
        conn, target=agreed, expected_version=expected_version, actor=actor, **_given(options)
    )
    return {**_changed(conn, now), "proposal": plain(worked.proposal.as_dict())}


def set_parameters(
    conn: sqlite3.Connection,
    beta_sal: float | None = None,
    gamma: float | None = None,
    *,
    actor: str | None = None,
    expected_version: int | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """A person's word: move what is given 10 % of the way to that value, 0 to 10, at once.

    Returns ``in_force`` (the new version) and ``from`` (what was before it). Raises what
    ``versions.set_manual`` does; then nothing was changed.
    """
    now = versions.set_manual(
        conn,
        beta_sal,
        gamma,
        actor=actor,
        settings=settings,
        expected_version=expected_version,
    )
    return _changed(conn, now)


def rollback_parameters(
    conn: sqlite3.Connection,
    to: int | None = None,
    *,
    actor: str | None = None,
    expected_version: int | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Bring back the values of version ``to``, by default the one before; 0: of configuration.

    That is a new version again. Returns what ``set_parameters`` does, and raises what
    ``versions.rollback`` does; then nothing was changed.
    """
    now = versions.rollback(
        conn, to, actor=actor, settings=settings, expected_version=expected_version
    )
    return _changed(conn, now)


def parameters_history(conn: sqlite3.Connection) -> list[dict[str, Any]]:
    """All versions of the parameters, newest first: see ``versions.history``. Reads only."""
    return versions.history(conn)


def parameters_in_force(
    conn: sqlite3.Connection, settings: Settings | None = None
) -> dict[str, Any]:
    """``version``, ``beta_sal``, ``gamma`` and ``source`` of what a search takes. Reads only.

    Version 0 is what configuration has: see ``versions.in_force``, also for what is raised.
    """
    return dict(vars(versions.in_force(conn, settings)))


def _given(options: Estimate) -> dict[str, Any]:
    """Arguments as the functions behind this have them."""
    from .report import Options

    unknown = set(options) - set(Estimate.__annotations__)
    if unknown:
        raise TypeError(f"{', '.join(sorted(unknown))}: there is no such argument")
    named: dict[str, Any] = {name: options[name] for name in ("k", "until") if name in options}
    for name in ("beta_sal", "gamma"):
        values: Any = options.get(name)
        if values is not None:
            text = values if isinstance(values, str) else ",".join(str(each) for each in values)
            named[name] = parse_range(name, text)
    return {
        "options": Options(**named),
        "settings": options.get("settings"),
        "progress": options.get("progress"),
    }


def _changed(conn: sqlite3.Connection, now: InForce) -> dict[str, Any]:
    row = next(row for row in versions.history(conn) if row["version"] == now.version)
    return {"in_force": dict(vars(now)), "from": row["from"]}
