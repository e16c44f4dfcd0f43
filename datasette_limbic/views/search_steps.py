"""The bar of a result: how base, salience, co-occurrence and time come to its score.

All bars of a page share one scale. Lengths are per cent of it; templates draw them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import whatif
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
    limbic = row["limbic_score"]
    return {
        "steps": steps,
        "end": _percent(limbic, whole),
        "blend": _blend(row, strategy, whole),
        "label": _label(steps, limbic),
        "unknown_time": row["temporal_factor"] is None,
    }


def _steps(row: dict[str, Any], parameters: Parameters) -> list[dict[str, Any]]:
    """Where each factor takes the product: ``start``, ``end`` and the ``factor`` itself."""
    factors = whatif.multipliers(row, parameters)
    found, reached = [], 1.0
    for key in STEPS:
        start = 0.0 if key == "base" else reached
        reached *= factors[key]
        found.append({"key": key, "factor": factors[key], "start": start, "end": reached})
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
        "of_base": f"{of_base:.0%}",
        "of_limbic": f"{of_limbic:.0%}",
    }


def _label(steps: list[dict[str, Any]], limbic: float) -> str:
    said = [f"{step['title']} {number(step['factor'])}" for step in steps[:1]]
    said += [f"{step['title']} × {number(step['factor'])}" for step in steps[1:]]
    return _("Limbic score %(score)s: %(steps)s") % {
        "score": number(limbic),
        "steps": ", ".join(said),
    }


def _percent(value: float, whole: float) -> str:
    """A length as SVG takes it; within the bar, whatever other programs wrote into the memory."""
    return f"{round(min(100.0, max(0.0, 100 * value / whole)), 2):g}%"
