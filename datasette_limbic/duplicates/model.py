"""What goes in and comes out: observations, thresholds, pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from datasette_limbic.embedding import PACKAGED
from datasette_limbic.errors import BadParameter
from datasette_limbic.times import parse_time

LENGTH_RATIO = 2.0
"""Containment counts where one text has at least so many times the characters of the other."""
MIN_WORDS = 3
"""Containment counts where the shorter text has at least so many word tokens."""

MODEL_THRESHOLDS: dict[str, tuple[float, float]] = dict.fromkeys(PACKAGED, (0.80, 0.75))
"""(cosine, look) by model id, for models whose cosines were measured; others use .85 and .75.

Those of the packaged model, under each of its names, were chosen on the pairs of
``benchmarks/eval_en_es.json``, in the middle of the stretch (.78 to .82) that finds most of the
same pairs at one mistake. The tests use the same pairs, so the figures there flatter them.
"""


@dataclass(frozen=True)
class Thresholds:
    """From where on two observations are alike. Each is 0 to 1.

    Raises BadParameter naming the value otherwise. Source: "Mantenimiento & Operaciones".
    """

    cosine: float = 0.85
    """At or above: a duplicate by meaning."""
    look: float = 0.75
    """At or above, and below ``cosine``: worth a look, never flagged."""
    containment: float = 0.7
    """At or above: the longer text holds the shorter one."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not math.isfinite(value)
                or not 0 <= value <= 1
            ):
                raise BadParameter(
                    f"the threshold {field.name} is {value!r:.40}: use a number from 0 to 1"
                )

    @property
    def lowest(self) -> float:
        """The cosine from which on pairs are looked at: with ``look`` above ``cosine`` there is
        no band between them."""
        return min(self.look, self.cosine)


@dataclass(frozen=True)
class Observation:
    """One observation of an entity."""

    id: int
    entity_id: int
    content: str
    created_at: str | None = None


@dataclass(frozen=True)
class Pair:
    """Two observations of one entity that are alike."""

    entity_id: int
    earlier_id: int
    later_id: int
    kind: str
    """``duplicate``, ``contradiction`` or ``look``."""
    rule: str
    """``exact``, ``cosine``, ``containment`` or ``wording``: what made them alike."""
    cosine: float | None
    """None where one of the two has no vector."""
    containment: float | None
    """``text_containment`` of the two (of the part that is looked at), None without words."""
    difference: str | None
    """What a contradiction differs in, ``number: 30 / 45``: the earlier one's value first."""


def earlier_first(one: Observation, other: Observation) -> tuple[Observation, Observation]:
    """The two in order of ``created_at`` where both can be read and differ, else of id."""
    first, second = parse_time(one.created_at), parse_time(other.created_at)
    if first is not None and second is not None and first != second:
        return (one, other) if first < second else (other, one)
    return (one, other) if one.id <= other.id else (other, one)
