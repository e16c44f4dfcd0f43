"""The grid of parameters, and which cell of it the training searches speak for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import BadParameter
from .estimating import Sums
from .log import Bools, Floats, Ints
from .resampling import standard_errors

MAX_FACTOR = 2.0
"""How far a biased estimate may move a parameter."""
SAME = 1e-9
"""Estimates that differ by less are a tie."""


@dataclass(frozen=True)
class Grid:
    """Both axes, ascending, with the values in force among them."""

    beta_sal: Floats
    gamma: Floats
    in_force: tuple[float, float]

    @classmethod
    def of(
        cls, betas: Sequence[float], gammas: Sequence[float], in_force: tuple[float, float]
    ) -> Grid:
        """The grid of two ranges; what is in force becomes a row and a column of its own.

        Raises BadParameter where there is nothing else.
        """
        found = cls(
            np.array(sorted({*betas, in_force[0]})),
            np.array(sorted({*gammas, in_force[1]})),
            in_force,
        )
        if len(found.cells) == 1:
            raise BadParameter(
                f"there is nothing to compare with: the ranges hold beta_sal {in_force[0]:.4g} and "
                f"gamma {in_force[1]:.4g} alone, which are in force. Give other values"
            )
        return found

    @property
    def cells(self) -> Floats:
        """(C, 2) all pairs, ``gamma`` changing fastest."""
        beta, gamma = np.meshgrid(self.beta_sal, self.gamma, indexing="ij")
        return np.stack([beta.ravel(), gamma.ravel()], axis=1)

    @property
    def current(self) -> int:
        """Index of the cell that is in force."""
        return int(np.flatnonzero((self.cells == np.array(self.in_force)).all(axis=1))[0])

    def near(self, factor: float = MAX_FACTOR) -> Bools:
        """(C,) cells within ``factor`` of what is in force; from 0, up to the next value."""
        found = np.ones(len(self.cells), bool)
        for axis, values in enumerate((self.beta_sal, self.gamma)):
            now = self.in_force[axis]
            top = now * factor if now else values[values > 0][:1].sum()
            each = self.cells[:, axis]
            found &= (each >= now / factor * (1 - 1e-12)) & (each <= top * (1 + 1e-12))
        return found


@dataclass(frozen=True)
class Choice:
    """The cell that training speaks for: ``cell`` is its index, ``gain`` what it has over the cell
    in force there, ``error`` the standard error of that; ``ties`` (T,) are as good. ``best_gain``
    and ``best_error`` are those of the best cell, whether it is the one or not."""

    cell: int
    gain: float
    error: float
    ties: Ints
    best_gain: float
    best_error: float


def choose(
    grid: Grid, sums: Sums, train: Bools, allowed: Bools, clusterings: Sequence[Ints]
) -> Choice:
    """The best allowed cell of the simplest kind that is within one standard error of the best.

    Kinds from simple to free: nothing moves; ``beta_sal`` or ``gamma`` alone; both. So a parameter
    that earns nothing stays where it is. ``clusterings`` are of the training searches.
    """
    above, below = sums.above[train], sums.below[train]
    mean = above.sum(axis=0) / below.sum()
    limited = np.where(allowed, mean, -np.inf)
    best = int(limited.argmax())
    behind = standard_errors(above - above[:, [best]], below, clusterings)
    moved = grid.cells != np.array(grid.in_force)
    found = best
    for free in range(3):
        kind = np.where(moved.sum(axis=1) <= free, limited, -np.inf)
        cell = int(kind.argmax())
        if limited[best] - limited[cell] <= behind[cell]:
            found = cell
            break
    now = grid.current
    error = standard_errors((above[:, [found]] - above[:, [now]]), below, clusterings)[0]
    ties = np.flatnonzero(allowed & (np.abs(mean - mean[found]) <= SAME))
    return Choice(
        found,
        float(mean[found] - mean[now]),
        float(error),
        ties,
        float(mean[best] - mean[now]),
        float(behind[now]),
    )
