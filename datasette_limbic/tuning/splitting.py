"""Which searches propose and which decide: the later ones decide, and no query is on both sides.

Were a query on both sides, what chance gave it on the one it would give it on the other too, and a
gain of one popular query would pass for a gain of all.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from .log import Bools, Log
from .resampling import SECONDS


@dataclass(frozen=True)
class Split:
    """``train`` and ``holdout`` are (n,); ``cut`` is the Unix time between them."""

    train: Bools
    holdout: Bools
    cut: float


def split(log: Log, *, after: float | None = None) -> Split:
    """Halve a log by time, at a change of days.

    A query that was asked on both sides stands on one of them, by a hash of its text, and its
    searches on the other are not used. With ``after`` only later searches decide: what decided
    before does not do so again.
    """
    if not len(log):
        none = np.zeros(0, bool)
        return Split(none, none, 0.0)
    middle = float(np.median(log.at))
    floor = middle // SECONDS * SECONDS
    # the change of days that is nearer to the middle, counted in searches
    cut = min(
        (floor, floor + SECONDS),
        key=lambda each: abs(int((log.at < each).sum()) * 2 - len(log)),
    )
    if after is not None:
        cut = max(cut, after)
    early = log.at <= cut if cut == after else log.at < cut
    first, second = (
        {query for query, there in zip(log.query, side, strict=True) if there}
        for side in (early, ~early)
    )
    both = {query: _late(query) for query in first & second}
    late = np.array([both.get(query, query in second) for query in log.query], bool)
    return Split(early & ~late, ~early & late, cut)


def _late(query: str) -> bool:
    digest = hashlib.blake2b(query.encode("utf-8", "surrogatepass"), digest_size=1).digest()
    return digest[0] % 2 == 1
