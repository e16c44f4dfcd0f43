"""The bar of a result: how base, salience, co-occurrence and time come to its score.

All bars of a page share one scale. Lengths are per cent of it; templates draw them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import i18n, whatif
from ..i18n import gettext as _
from ..i18n import marked
from ..routing import STRATEGIES
from ..scoring import Parameters
from .display import number

# The order in which a bar is built: what adds comes first, then what time takes away.
STEPS = ("base", "salience", "cooc", "time")
TITLES = {
    "base": marked("base similarity"),
    "salience": marked("salience"),
    "cooc": marked("co-occurrence"),
    "time": marked("time"),
}


def scale(rows: Sequence[dict[str, Any]], parameters: Parameters) -> float:
    """What 100 % of a bar stands for: the highest that any step of any of them reaches, from 1."""
    # the last step is time, which takes away
    return max([1.0, *(float(_steps(row, parameters)[-1]["start"]) for row in rows)])


def titles() -> list[str]:
    """The names of the steps, in order, in the visitor's language."""
    return [_(TITLES[key]) for key in STEPS]


def factors(row: dict[str, Any], parameters: Parameters) -> list[float]:
    """The factors of one candidate of the pool, in the order of the steps."""
    found = whatif.multipliers(row, parameters)
    return [found[key] for key in STEPS]


def bar(row: dict[str, Any], parameters: Parameters, strategy: str, whole: float) -> dict[str, Any]:
    """The bar of one result of the pool, its texts and its accessible name."""
    steps = _steps(row, parameters)
    for step in steps:
        low, high = sorted((step["start"], step["end"]))
        step["x"], step["width"] = _percent(low, whole), _percent(high - low, whole)
        step["title"] = _(TITLES[step["key"]])
        step["drawn"] = high > low
        step["lost"] = step["end"] < step["start"]
        amount = abs(step["end"] - step["start"])
        step["change"] = ("−" if step["lost"] else "+") + number(amount)
    return {
        "steps": steps,
        "blend": _blend(row, strategy, whole),
        "label": _label(row, steps, strategy),
        "unknown_time": row["temporal_factor"] is None,
    }


def _steps(row: dict[str, Any], parameters: Parameters) -> list[dict[str, Any]]:
    """Where each factor takes the product: ``start``, ``end`` and the ``factor`` itself."""
    found, reached = [], 1.0
    for key, factor in zip(STEPS, factors(row, parameters), strict=True):
        start = 0.0 if key == "base" else reached
        reached *= factor
        found.append({"key": key, "factor": factor, "start": start, "end": reached})
    return found


def _blend(row: dict[str, Any], strategy: str, whole: float) -> dict[str, Any] | None:
    """The two parts of a final score that is a mixture; None where it is the limbic score."""
    if strategy == "limbic":
        return None
    of_base, of_limbic = STRATEGIES[strategy]
    similar, standing = of_base * row["base"], of_limbic * row["limbic_norm"]
    return {
        "similar": _percent(similar, whole),
        "standing": _percent(standing, whole),
        "of_base": i18n.figure(of_base, ".0%"),
        "of_limbic": i18n.figure(of_limbic, ".0%"),
    }


def _label(row: dict[str, Any], steps: list[dict[str, Any]], strategy: str) -> str:
    """Both scores and what they come from; a factor of 1 is not named."""
    named = [f"{s['title']} {number(s['factor'])}" for s in steps if s["factor"] != 1]
    score, product = number(row["limbic_score"]), " × ".join(named) or number(1.0)
    limbic = _("limbic %(score)s: %(steps)s") % {"score": score, "steps": product}
    if strategy == "limbic":
        return _("Final score: %(limbic)s") % {"limbic": limbic}
    of_base, of_limbic = STRATEGIES[strategy]
    return _("Final score %(final)s: %(a)s of %(base)s + %(b)s of %(norm)s; %(limbic)s") % {
        "final": number(row["final_score"]),
        "a": i18n.figure(of_base, ".0%"),
        "base": number(row["base"]),
        "b": i18n.figure(of_limbic, ".0%"),
        "norm": number(row["limbic_norm"]),
        "limbic": limbic,
    }


def _percent(value: float, whole: float) -> str:
    """A length as SVG takes it, to a thousandth of the bar; within it, whatever other programs
    wrote into the memory."""
    return f"{round(min(100.0, max(0.0, 100 * value / whole)), 1):g}%"
