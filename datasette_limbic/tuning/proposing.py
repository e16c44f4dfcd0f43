"""A proposal of other parameters, or a refusal that names its figure and the bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..text import counted
from . import estimating, resampling, splitting, versions
from .estimating import Basis, Sums
from .grid import Choice, Grid, choose
from .log import Bools, Log
from .rerank import Progress
from .resampling import Interval
from .splitting import Split
from .weights import effective

MIN_EVENTS = 50
MIN_LABELLED = 50
MIN_QUERIES = 20
MIN_CLIENT_DAYS = 10
MIN_HOLDOUT_QUERIES = 10
MIN_HOLDOUT_CLIENT_DAYS = 5
MIN_EFFECTIVE = 20.0
MIN_COVERAGE = 0.1
"""Share of the labelled searches in which the parameters change the NDCG at all."""
MIN_RANGE = 0.001
"""Between the best and the worst cell: below that, the surface is flat."""
SEED = 20_240_229
SEARCHES = ("search", "searches")
QUERIES = ("distinct query", "distinct queries")
CLIENT_DAYS = ("day of a client", "days of clients")


@dataclass(frozen=True)
class Refusal:
    """Why nothing is proposed: ``figure`` is what was found, ``bound`` what it had to reach."""

    code: str
    message: str
    figure: float
    bound: float

    def as_dict(self) -> dict[str, Any]:
        return vars(self)


@dataclass
class Proposal:
    """What the log says of other parameters; ``refusal`` None where it proposes ``target``.

    ``step`` is what applying makes of it: BLEND of the target in what is in force.
    """

    in_force: tuple[float, float]
    k: int
    basis: Basis
    grid: Grid
    refusal: Refusal | None = None
    target: tuple[float, float] | None = None
    step: tuple[float, float] | None = None
    train_gain: float | None = None
    train_error: float | None = None
    gain: Interval | None = None
    step_gain: Interval | None = None
    effective: float | None = None
    coverage: float | None = None
    cut: float | None = None
    decided_until: float | None = None
    """Unix time of the last search that decided."""
    until: int | None = None
    """The last search that it was worked out from."""
    counts: dict[str, int] = field(default_factory=dict)
    sums: Sums | None = field(default=None, repr=False)

    @property
    def proposed(self) -> bool:
        return self.refusal is None and self.target is not None

    def as_dict(self) -> dict[str, Any]:
        """For JSON and for the evidence of a version."""
        pair = _pair
        return {
            "proposed": self.proposed,
            "refusal": self.refusal.as_dict() if self.refusal else None,
            "in_force": pair(self.in_force),
            "target": pair(self.target),
            "step": pair(self.step),
            "blend": versions.BLEND,
            "k": self.k,
            **self.basis.as_dict(),
            "gain": self.gain.as_dict() if self.gain else None,
            "step_gain": self.step_gain.as_dict() if self.step_gain else None,
            "train_gain": self.train_gain,
            "train_error": self.train_error,
            "effective_sample": self.effective,
            "coverage": self.coverage,
            "cut": self.cut,
            "decided_until": self.decided_until,
            "until": self.until,
            "counts": self.counts,
        }


def propose(
    log: Log,
    in_force: tuple[float, float],
    *,
    betas: Sequence[float],
    gammas: Sequence[float],
    k: int = 10,
    after: float | None = None,
    progress: Progress | None = None,
) -> Proposal:
    """Whether other values of ``beta_sal`` and ``gamma`` than ``in_force`` would rank better.

    ``after`` is the time of the last search that decided about a version applied before: what
    decides now is later. Deterministic: the same log gives the same answer.
    """
    found = Proposal(
        in_force,
        k,
        estimating.basis(log, *in_force),
        Grid.of(betas, gammas, in_force),
        until=int(log.id.max()) if len(log) else None,
    )
    found.refusal = next(_refusals(found, log, after, progress), None)
    return found


def blended(old: tuple[float, float], new: tuple[float, float]) -> tuple[float, float]:
    """What is applied: each value moves by BLEND of the way."""
    return versions.blended(old[0], new[0]), versions.blended(old[1], new[1])


def _refusals(
    found: Proposal, log: Log, after: float | None, progress: Progress | None
) -> Iterator[Refusal]:
    """Fill in the figures one after another; the first that is out of bounds ends it."""
    yield from _too_little(found, log)
    basis, grid = found.basis, found.grid
    sums = found.sums = estimating.sums(basis, grid.cells, found.k, progress=progress)
    differs = np.ptp(sums.above[estimating.relevant(basis.log)], axis=1) > 0
    found.coverage = float(differs.mean())
    if found.coverage < MIN_COVERAGE:
        yield Refusal(
            "coverage",
            f"in {found.coverage:.1%} of the labelled searches alone do beta_sal and gamma change "
            f"the order of what matters, at least {MIN_COVERAGE:.0%} needed: most results were "
            "never used before or come up with no other",
            found.coverage,
            MIN_COVERAGE,
        )
    parts = splitting.split(basis.log, after=after)
    found.cut = parts.cut
    yield from _sides(found, parts, after)
    mean = sums.mean(parts.train)
    breadth = float(np.ptp(mean))
    if breadth < MIN_RANGE:
        yield Refusal(
            "flat",
            f"the best and the worst of {len(mean)} pairs of parameters differ by {breadth:.5f} in "
            f"NDCG@{found.k}, at least {MIN_RANGE} needed: the surface is flat",
            breadth,
            MIN_RANGE,
        )
    choice = _chosen(found, sums, parts.train)
    yield from _no_better(found, choice)
    yield from _decided(found, parts.holdout)


def _too_little(found: Proposal, log: Log) -> Iterator[Refusal]:
    basis = found.basis
    treatment = int(log.limbic.sum())
    labelled = int(estimating.relevant(log).sum())
    found.counts.update(events=treatment, labelled=labelled)
    if treatment < MIN_EVENTS:
        yield Refusal(
            "events",
            f"only {treatment:,} {'event' if treatment == 1 else 'events'}, at least {MIN_EVENTS} "
            "needed: an event is a recorded search that was served in the limbic order",
            treatment,
            MIN_EVENTS,
        )
    if not labelled:
        yield Refusal(
            "labels",
            f"no labels: of {len(log):,} searches none has a result that was opened, opened again "
            "or rated useful",
            0,
            MIN_LABELLED,
        )
    log = basis.log
    if basis.served < MIN_EVENTS:
        yield Refusal(
            "parameters",
            f"only {basis.served:,} of {treatment:,} searches were ranked by what is in force "
            f"(beta_sal {found.in_force[0]:.4g}, gamma {found.in_force[1]:.4g}), at least "
            f"{MIN_EVENTS} needed: {basis.reason}, and then what other parameters ranked tells "
            "nothing",
            basis.served,
            MIN_EVENTS,
        )
    log = log.select(estimating.relevant(log))
    yield from _fewer(
        found,
        ("labelled", len(log), MIN_LABELLED, "with a label", SEARCHES),
        ("queries", len(set(log.query)), MIN_QUERIES, "with a label", QUERIES),
        (
            "client_days",
            len(np.unique(resampling.client_days(log))),
            MIN_CLIENT_DAYS,
            "with a label",
            CLIENT_DAYS,
        ),
    )


def _sides(found: Proposal, parts: Split, after: float | None) -> Iterator[Refusal]:
    log = found.basis.log
    days = resampling.client_days(log)
    labelled = estimating.relevant(log)
    for name, side in (
        ("train", parts.train & labelled),
        ("holdout", parts.holdout & labelled),
    ):
        queries = {query for query, there in zip(log.query, side, strict=True) if there}
        since = name == "holdout" and after is not None and parts.cut == after
        words = "with a label among the earlier searches"
        if name == "holdout":
            words = "with a label among the later searches, which decide"
        if since:
            words = (
                "with a label since the searches that decided about the last version, and what "
                "decided once does not decide again"
            )
        found.counts[f"{name}_searches"] = int(side.sum())
        yield from _fewer(
            found,
            (
                f"{name}_queries",
                len(queries),
                MIN_HOLDOUT_QUERIES,
                words,
                QUERIES,
            ),
            (
                f"{name}_client_days",
                len(np.unique(days[side])),
                MIN_HOLDOUT_CLIENT_DAYS,
                words,
                CLIENT_DAYS,
            ),
        )


def _fewer(
    found: Proposal, *figures: tuple[str, int, int, str, tuple[str, str]]
) -> Iterator[Refusal]:
    for code, figure, bound, words, names in figures:
        found.counts[code] = figure
        if figure < bound:
            yield Refusal(
                code,
                f"only {counted(figure, *names)} {words}, at least {bound} needed",
                figure,
                bound,
            )


def _chosen(found: Proposal, sums: Sums, train: Bools) -> Choice:
    grid, basis = found.grid, found.basis
    allowed = grid.near() if basis.biased else np.ones(len(grid.cells), bool)
    log = basis.log.select(train)
    clusterings = (resampling.client_days(log), resampling.queries(log))
    choice = choose(grid, sums, train, allowed, clusterings)
    found.train_gain, found.train_error = choice.gain, choice.error
    return choice


def _no_better(found: Proposal, choice: Choice) -> Iterator[Refusal]:
    grid = found.grid
    if choice.cell == grid.current:
        yield Refusal(
            "no_better",
            "no other parameters are better than those in force on the earlier searches by more "
            f"than the standard error of that: the best gain {choice.best_gain:.4f} in "
            f"NDCG@{found.k}, more than {choice.best_error:.4f} needed",
            choice.best_gain,
            choice.best_error,
        )
    now = np.array(grid.in_force)
    ways = np.sign(grid.cells[choice.ties] - now)
    own = np.sign(grid.cells[choice.cell] - now)
    if (ways[:, own != 0] != own[own != 0]).any():
        yield Refusal(
            "tie",
            f"{len(choice.ties)} pairs of parameters tie for the best on the earlier searches, and "
            "they lie on different sides of what is in force",
            len(choice.ties),
            1,
        )
    beta, gamma = (float(value) for value in grid.cells[choice.cell])
    found.target = (beta, gamma)
    found.step = blended(found.in_force, found.target)


def _decided(found: Proposal, holdout: Bools) -> Iterator[Refusal]:
    """What the later searches say of the target, and of the step that would be applied."""
    assert found.target is not None
    assert found.step is not None
    part = estimating.narrowed(found.basis, holdout)
    found.decided_until = float(part.log.at.max())
    clusterings = (resampling.client_days(part.log), resampling.queries(part.log))
    rng = np.random.default_rng(SEED)
    now = np.array(found.in_force)
    cells = np.array([found.target, found.step])
    above, below = estimating.drawn_differences(part, cells, now, found.k, rng)
    found.effective = effective(below[0])
    gains = [resampling.ratio_interval(each, below, clusterings, rng) for each in above]
    found.gain, found.step_gain = gains
    if found.effective is not None and found.effective < MIN_EFFECTIVE:
        yield Refusal(
            "effective_sample",
            f"the later searches tell as much as {found.effective:.1f} equal ones, at least "
            f"{MIN_EFFECTIVE:.0f} needed: a few that were unlikely to be looked at weigh the most",
            found.effective,
            MIN_EFFECTIVE,
        )
    if not found.gain.low > 0:
        yield Refusal(
            "interval",
            f"on the later searches the gain in NDCG@{found.k} is {found.gain.value:+.4f}, between "
            f"{found.gain.low:+.4f} and {found.gain.high:+.4f} (95 %): the interval is not above 0",
            found.gain.low,
            0.0,
        )
    if found.step_gain.value < 0:
        yield Refusal(
            "step",
            f"the step that would be applied loses {-found.step_gain.value:.4f} in NDCG@{found.k} "
            "on the later searches",
            found.step_gain.value,
            0.0,
        )


def _pair(values: tuple[float, float] | None) -> dict[str, float] | None:
    return None if values is None else {"beta_sal": values[0], "gamma": values[1]}
