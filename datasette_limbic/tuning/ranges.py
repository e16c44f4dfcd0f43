"""Ranges of parameters as a person writes them: the values that a grid is made of."""

from __future__ import annotations

import math
from typing import Any

from ..config import number
from ..errors import BadParameter

HIGHEST = 10.0
"""The most that ``beta_sal`` and ``gamma`` may be: see ``scoring.Parameters``."""
SPACED = 12
"""Values of a range that gives only its ends."""
MOST = 100
"""Values of a range at most."""

_WRITE = "write values with commas (0.001,0.01,0.05), or low:high, or low:high:count"


def parse_range(name: str, text: Any) -> tuple[float, ...]:
    """The values of a range, from 0 to 10, ascending and distinct; 1 to 100 of them.

    ``0.001,0.01,0.05`` are these values, in any order; ``0.001:0.1`` are 12 from the first to the
    second, log-spaced (each the same multiple of the one before), ``0.001:0.1:20`` are 20.

    Raises BadParameter, which begins with ``name`` and says which value is wrong and what to do.
    """
    if not isinstance(text, str):
        raise BadParameter(f"{name} is {text!r:.60}: {_WRITE}")
    if not text.strip():
        raise BadParameter(f"{name} is empty: {_WRITE}")
    if ":" in text:
        return _spaced(name, text)
    parts = text.split(",")
    if len(parts) > MOST:
        raise BadParameter(f"{name} has {len(parts):,} values: use at most {MOST}")
    return tuple(sorted({_value(name, text, part) for part in parts}))


def log_spaced(low: float, high: float, count: int) -> tuple[float, ...]:
    """``count`` values (2 and up) from ``low`` to ``high``, both exact, 0 < low < high; each is
    the same multiple of the one before."""
    # not numpy.geomspace: the defaults below are wanted where numpy is not loaded
    first, last = math.log(low), math.log(high)
    between = (first + (last - first) * i / (count - 1) for i in range(1, count - 1))
    return (low, *(min(max(math.exp(each), low), high) for each in between), high)


def _spaced(name: str, text: str) -> tuple[float, ...]:
    ends = text.split(":")
    if len(ends) > 3 or "," in text:
        raise BadParameter(f"{name} is {text!r:.60}: {_WRITE}")
    low, high = (_value(name, text, each) for each in ends[:2])
    if low == 0:
        raise BadParameter(
            f"{name} is {text!r:.60}, and log-spaced values never reach 0: use a low end above 0, "
            "or write the values with commas"
        )
    if low >= high:
        raise BadParameter(
            f"{name} is {text!r:.60}: {low:g} is not below {high:g}: write the lower end first"
        )
    count = SPACED
    if len(ends) == 3:
        count = int(number(f"the count in {name}", ends[2].strip(), 2, MOST, whole=True))
    values = tuple(sorted(set(log_spaced(low, high, count))))
    if len(values) < count:
        raise BadParameter(
            f"{name} is {text!r:.60}, and between these ends are only {len(values)} numbers: use "
            "ends that are further apart, or a lower count"
        )
    return values


def _value(name: str, text: str, part: str) -> float:
    if not part.strip():
        raise BadParameter(f"{name} is {text!r:.60} and lacks a value: {_WRITE}")
    # adding 0 takes the sign of a negative zero away
    return number(f"a value of {name}", part.strip(), 0, HIGHEST) + 0.0


DEFAULT_GAMMA = log_spaced(0.001, 0.1, SPACED)
DEFAULT_BETA_SAL = log_spaced(0.1, 1.5, SPACED)
