"""Whether tuning can be trusted: shares of many seeded runs, as tables, beside a naive tuner.

With a preference: how often anything is proposed at all, over log sizes, and how often that is
right. Without one, where whatever is proposed is wrong: how often it is. ``tuning_cases`` says
which users there are, ``tuning_runs`` makes the runs.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import tuning_runs
from .tuning_cases import Case, cases
from .tuning_runs import Result

RUNS = 1000
RESULTS = Path("build") / "tuning.jsonl"
WRONG = 0.07
"""The upper bound of the share of false proposals has to be no higher."""
RIGHT = 0.95
"""This share of proposals has to be right."""
_EVERY_S = 10.0
Row = dict[str, Any]


def run(path: Path, runs: int, wanted: Sequence[Case] | None = None) -> dict[str, list[Row]]:
    """Tables by title, of ``runs`` (1 and up) seeds for each case; results are kept at ``path``.

    Says on stderr how far it is.
    """
    wanted = cases() if wanted is None else wanted
    _, stale = tuning_runs.load(path, wanted)
    if stale:
        print(f"{path}: {stale:,} lines of other code or other cases are ignored", file=sys.stderr)
    results = tuning_runs.run(path, wanted, range(runs), progress=_Progress())
    if results:
        print(f"{minutes(results):.0f} minutes of one core for {RUNS:,} seeds", file=sys.stderr)
    return tables(results, wanted)


class _Progress:
    """A line on stderr every ten seconds."""

    def __init__(self) -> None:
        self.began = self.said = time.monotonic()
        self.first: int | None = None

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self.first is None:
            self.first = done - 1
        if now - self.said < _EVERY_S and done < total:
            return
        self.said = now
        left = (now - self.began) / (done - self.first) * (total - done) / 60
        print(f"{done:,} of {total:,} runs, {left:.0f} minutes left", file=sys.stderr, flush=True)


def tables(results: Sequence[Result], wanted: Sequence[Case]) -> dict[str, list[Row]]:
    """The tables, of any results of these cases; cases without one are left out."""
    by_case: dict[str, list[Result]] = {}
    for row in results:
        by_case.setdefault(row["case"], []).append(row)
    some = [(case, by_case[case.key]) for case in wanted if case.key in by_case]
    signal = [(case, rows) for case, rows in some if case.signal]
    return {
        "Tuning: how often anything is proposed, by searches in the log": power(signal),
        "Tuning: what is proposed, and what the naive tuner proposes": right(signal),
        "Tuning: false proposals, where there is nothing to learn": wrong(
            [(case, rows) for case, rows in some if not case.signal]
        ),
        "Tuning: why nothing is proposed": refusals(some),
    }


def power(some: Sequence[tuple[Case, list[Result]]]) -> list[Row]:
    """A row for each kind of users, a column for each size: share of proposals, Wilson 95 %."""
    found: dict[tuple[str, str], Row] = {}
    sizes = sorted({case.scenario.searches for case, _ in some})
    for case, rows in some:
        row = found.setdefault(
            (case.users, case.served),
            {"users": case.users, "served": case.served} | {f"{size:,}": "" for size in sizes},
        )
        row[f"{case.scenario.searches:,}"] = between(len(_proposed(rows)), len(rows))
    return list(found.values())


def right(some: Sequence[tuple[Case, list[Result]]]) -> list[Row]:
    """Of proposals: towards the truth and without a true loss of the step; of naive ones too.

    The last row is of all cases together.
    """
    found = [{**_what(case), **_right(rows)} for case, rows in some]
    if found:
        every = [row for _, rows in some for row in rows]
        found.append({"users": "all", "served": "", "searches": "", **_right(every)})
    return found


def _right(rows: Sequence[Result]) -> Row:
    proposed = _proposed(rows)
    good = sum(row["towards"] and row["step_gain"] >= 0 for row in proposed)
    naive, moved = _naive(rows)
    return {
        "runs": len(rows),
        "proposals": len(proposed),
        "right": between(good, len(proposed)),
        "target loses": share(_losing(proposed), len(proposed)),
        "its gain": _mean(proposed, "target_gain"),
        "possible": _mean(rows, "best_gain"),
        "naive proposes": share(len(moved), len(naive)),
        "away": share(sum(not row["towards"] for row in moved), len(moved)),
        "naive loses": share(_losing(moved), len(moved)),
        "naive gain": _mean(moved, "target_gain"),
    }


def wrong(some: Sequence[tuple[Case, list[Result]]]) -> list[Row]:
    """The share of false proposals with its upper 95 % bound, and that of the naive tuner."""
    found = []
    for case, rows in some:
        proposed = len(_proposed(rows))
        high = bounds(proposed, len(rows))[1]
        naive, moved = _naive(rows)
        found.append(
            {
                **_what(case),
                "runs": len(rows),
                "proposes": share(proposed, len(rows)),
                "upper 95 % bound": f"{high:.1%}",
                f"<= {WRONG:.0%}": high <= WRONG,
                "naive proposes": share(len(moved), len(naive)),
            }
        )
    return found


def refusals(some: Sequence[tuple[Case, list[Result]]]) -> list[Row]:
    """How often each refusal came up."""
    counted = [(case, Counter(row["outcome"] for row in rows), len(rows)) for case, rows in some]
    codes = Counter[str]()
    for _, outcomes, _ in counted:
        codes.update(outcomes)
    names = [name for name, _ in codes.most_common() if name != "proposed"]
    return [
        {**_what(case), **{name: share(outcomes[name], runs) for name in names}}
        for case, outcomes, runs in counted
    ]


def bounds(count: int, total: int) -> tuple[float, float]:
    """Wilson's interval at 95 % for ``count`` of ``total`` (1 and up)."""
    from scipy.stats import binomtest

    found = binomtest(count, total).proportion_ci(0.95, "wilson")
    return float(found.low), float(found.high)


def between(count: int, total: int) -> str:
    """A share in percent with its interval; empty of none."""
    if not total:
        return ""
    low, high = bounds(count, total)
    return f"{100 * count / total:.1f} % ({100 * low:.1f}–{100 * high:.1f})"


def share(count: int, total: int) -> str:
    """A share in percent; empty of none."""
    return f"{100 * count / total:.1f} %" if total else ""


def _what(case: Case) -> Row:
    return {"users": case.users, "served": case.served, "searches": case.scenario.searches}


def _proposed(rows: Sequence[Result]) -> list[Result]:
    return [row for row in rows if row["outcome"] == "proposed"]


def _naive(rows: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    """What the naive tuner made of the runs that it saw, and of those where it proposed."""
    seen = [row["naive"] for row in rows if "naive" in row]
    return seen, [row for row in seen if row["target"] is not None]


def _losing(rows: Sequence[Result]) -> int:
    return sum(row["target_gain"] < 0 for row in rows)


def _mean(rows: Sequence[Result], name: str) -> float | str:
    return float(np.mean([row[name] for row in rows])) if rows else ""


def minutes(results: Sequence[Result]) -> float:
    """What RUNS seeds of all these cases take, of one core, from what each run took."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for row in results:
        found.setdefault(row["case"], ([], []))["naive" in row].append(row["seconds"])
    seconds, share = 0.0, 1.0 / tuning_runs.NAIVE_EVERY
    for without, beside in found.values():
        usual, long = float(np.mean(without or beside)), float(np.mean(beside or without))
        seconds += (1.0 - share) * usual + share * long
    return seconds * RUNS / 60
