"""The users that tuning is tried on: with a preference, over log sizes, and without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .scenario import ALONE, AUTO, CLICK_MODELS, Scenario

RANDOMISED, REPLAY = "randomised", "replay"
MOSTLY = "mostly baseline"
SHARES = {RANDOMISED: 0.3, REPLAY: 0.0, MOSTLY: 0.8}
NAMED = 1.0
"""Openings by name for each search, where a case has them."""
Pair = tuple[float, float]
"""``beta_sal`` and ``gamma``."""


@dataclass(frozen=True)
class Case:
    """Users and how their searches were served: one line of a table for each size."""

    users: str
    served: str
    scenario: Scenario
    named: float = 0.0
    """Openings by name for each search that have nothing to do with it."""
    by_name: bool = False
    """Whether results are opened by name too."""

    @property
    def signal(self) -> bool:
        return self.scenario.preference == "scores"

    @property
    def truth(self) -> Pair:
        return self.scenario.beta_true, self.scenario.gamma_true

    @property
    def in_force(self) -> Pair:
        return self.scenario.beta_sal, self.scenario.gamma

    @property
    def key(self) -> str:
        return f"{self.users}, {self.served}, {self.scenario.searches}"


_SIGNAL: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "both too low": ((200, 500, 1000, 2000, 5000), {}),
    "beta_sal too low": ((2000,), {"gamma_true": 0.01}),
    "both too high": ((1000, 2000), {"beta_true": 0.1, "gamma_true": 0.001}),
    "both too low, auto": ((2000,), {"strategies": AUTO}),
    "both too low, results by name": ((1000,), {"named": NAMED, "by_name": True}),
    "both too low, strong": ((500, 1000, 2000), {"taste": 1.0}),
    "both too low, strong, little bias": ((1000,), {"taste": 1.0, "eta": 0.5}),
}
_NO_SIGNAL: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "a coin, feedback": (
        (300, 1000, 3000),
        {"preference": "none", "strategies": AUTO, "feedback": True, "query_tail": 1.3},
    ),
    "a coin, openings by name": ((1000,), {"preference": "none", "named": NAMED}),
    **{
        f"rank alone: {model}": (
            (300, 1000, 3000) if model == "position" else (1000,),
            {"preference": "position", "click_model": model},
        )
        for model in CLICK_MODELS
    },
    "rank alone: position, results by name": (
        (1000,),
        {"preference": "position", "named": NAMED, "by_name": True},
    ),
}
# the time it takes is all that speaks against it
_LEFT_OUT = {
    (users, REPLAY, size)
    for users, sizes in {
        "both too low": (200, 500, 5000),
        "beta_sal too low": (2000,),
        "both too high": (1000, 2000),
        "both too low, auto": (2000,),
        "both too low, results by name": (1000,),
        "both too low, strong": (500, 2000),
        "a coin, feedback": (300, 3000),
        "rank alone: position": (300, 3000),
    }.items()
    for size in sizes
}
_MOSTLY = {("both too low, strong", 1000), ("both too high", 2000), ("rank alone: position", 3000)}


def cases() -> list[Case]:
    """Those with a preference over log sizes, then those without.

    The largest sizes for a few of them alone, and fewer sizes of a replay: so a thousand seeds of
    all take well under an hour on two cores.
    """
    found = []
    for users, (sizes, changed) in {**_SIGNAL, **_NO_SIGNAL}.items():
        for served, share in SHARES.items():
            for searches in sizes:
                if (users, served, searches) in _LEFT_OUT:
                    continue
                if served == MOSTLY and (users, searches) not in _MOSTLY:
                    continue
                values = {"strategies": ALONE, **changed}
                named = float(values.pop("named", 0.0))
                by_name = bool(values.pop("by_name", False))
                scenario = Scenario(searches=searches, baseline_share=share, **values)
                found.append(Case(users, served, scenario, named, by_name))
    return found
