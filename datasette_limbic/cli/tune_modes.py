"""What each mode of ``datasette limbic tune`` does, and answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from .. import connection
from ..config import Settings, number
from ..tuning import ranges
from .bars import Bars

if TYPE_CHECKING:
    from ..tuning.report import Options
    from ..tuning.version_rows import InForce

BEFORE = "before"
"""What ``--rollback`` without a version has for one."""
ANALYZE, TUNE, SET = "analyze", "tune", "set"
ESTIMATES = ("gamma_range", "beta_sal_range", "k")
"""Parameters that an estimate depends on."""


@dataclass(frozen=True)
class Asked:
    """One call of the command."""

    database: str
    given: dict[str, Any]
    actor: str | None
    settings: Settings

    def open(self, *, readonly: bool = True) -> Any:
        """The file, closed with the block."""
        conn = connection.connect(self.database, readonly=readonly, settings=self.settings)
        return closing(conn)

    def options(self) -> Options:
        """Raises BadParameter, naming the option and the value."""
        from ..tuning.report import MAX_K, Options

        k = int(number("--k", self.given["k"], 1, MAX_K, whole=True))
        values: dict[str, Any] = {
            name: ranges.parse_range(written(option), self.given[option])
            for name, option in (("beta_sal", "beta_sal_range"), ("gamma", "gamma_range"))
            if self.given[option] is not None
        }
        return Options(k=k, **values)

    def same(self) -> list[str]:
        """What was given that an estimate depends on, for a command line to go on with."""
        return [
            word
            for name in ESTIMATES
            if was_given(name)
            for word in (written(name), str(self.given[name]))
        ]


Answer = tuple[Any, Iterable[str]]
"""What --json prints, and the lines for people."""


def _analyze(asked: Asked) -> Answer:
    from ..tuning.report import report
    from . import tune_text

    options = asked.options()
    with asked.open() as conn, Bars() as bars:
        found = report(conn, settings=asked.settings, options=options, progress=_progress(bars))
    return found, tune_text.analysis(asked.database, found, asked.same())


def _tune(asked: Asked) -> Answer:
    from ..answers import plain
    from ..tuning import applying, labels, versions
    from ..tuning.report import work
    from . import tune_text

    options, apply = asked.options(), asked.given["apply"]
    with asked.open(readonly=not apply) as conn:
        with Bars() as bars:
            worked = work(conn, settings=asked.settings, options=options, progress=_progress(bars))
        proposal = plain(worked.proposal.as_dict())
        answer = {"in_force": asdict(worked.now), "proposal": proposal}
        if not apply:
            counts = labels.counts(worked.log)
            return answer, tune_text.verdict(asked.database, proposal, counts, asked.same())
        target = worked.proposal.target
        if target is None or not worked.proposal.proposed:
            return {**answer, "applied": None}, tune_text.not_applied(proposal)
        # not apply_proposal, which has no figures to show where nothing is proposed
        agreed = applying.Agreed(
            target, worked.evidence, versions.digest(worked.log), worked.now.version
        )
        now = applying.write_agreed(conn, agreed, settings=asked.settings, actor=asked.actor)
        text = tune_text.changed(asked.database, _row(conn, now))
    return {**answer, "in_force": asdict(now), "applied": asdict(now)}, text


def _set(asked: Asked) -> Answer:
    from ..tuning import versions

    values: dict[str, Any] = {
        name: number(written(option), asked.given[option], 0, ranges.HIGHEST)
        for name, option in (("beta_sal", "set_beta"), ("gamma", "set_gamma"))
        if asked.given[option] is not None
    }
    return _changed(asked, partial(versions.set_manual, **values))


def _rollback(asked: Asked) -> Answer:
    from ..tuning import versions

    to = asked.given["rollback"]
    return _changed(asked, partial(versions.rollback, to=None if to == BEFORE else to))


def _changed(asked: Asked, write: Callable[..., InForce]) -> Answer:
    from . import tune_text

    with asked.open(readonly=False) as conn:
        now = write(conn, actor=asked.actor, settings=asked.settings)
        row = _row(conn, now)
    return {"in_force": asdict(now), "from": row["from"]}, tune_text.changed(asked.database, row)


def _history(asked: Asked) -> Answer:
    from ..exporting.transaction import reading
    from ..tuning import versions
    from ..tuning.report import as_text
    from . import tune_text

    with asked.open() as conn, reading(conn, as_text):
        rows, now = versions.history(conn), versions.in_force(conn, asked.settings)
    return rows, tune_text.history(asked.database, asdict(now), rows)


WAYS: dict[str, Callable[[Asked], Answer]] = {
    ANALYZE: _analyze,
    TUNE: _tune,
    SET: _set,
    "rollback": _rollback,
    "history": _history,
}


def _row(conn: Any, now: InForce) -> dict[str, Any]:
    """The version that was just written, as history has it."""
    from ..tuning import versions

    return next(row for row in versions.history(conn) if row["version"] == now.version)


def _progress(bars: Bars) -> Callable[[int, int], None] | None:
    """A bar for reading the log and then one for ranking it again, where somebody sees them."""
    if not sys.stderr.isatty():
        return None
    parts = iter(("Reading searches", "Ranking them again"))
    part, last = next(parts), 0

    def show(done: int, total: int) -> None:
        nonlocal part, last
        if done < last:  # it counts anew
            part = next(parts, part)
        last = done
        bars.show(done, total, part)

    return show


def written(name: str) -> str:
    """A parameter as it is typed."""
    return f"--{name.replace('_', '-')}"


def was_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE
