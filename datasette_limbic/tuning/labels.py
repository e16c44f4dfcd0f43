"""What counts as relevant, of all that was opened and rated: the policy, and applying it.

Of one result of a search the last rating counts most, then that it was opened from that search,
then that the same client opened it by name soon after. The search's own record never counts, nor
that another search showed it again, nor what was opened from another search. Only what was
shown can be irrelevant without anybody's word.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from .. import times
from ..config import number
from ..errors import BadParameter
from .log import NONE, NOT_USEFUL, OPENED, REACCESSED, SOURCES, USEFUL, Floats, Ints, Log
from .reaccess import Openings, reaccesses

VERSION = 1
"""Of the rules themselves; a change of them that gives other labels is another version."""
REPEATS = "repeats"
"""What ``Log.left_out`` calls searches that were merged with the same one shortly before."""
NO_SEARCH = -(1 << 63)
MAX_GAIN = 100.0
_DAY_S = 86400
_MAX_WINDOW = 1e6


@dataclass(frozen=True)
class LabelPolicy:
    """Gains (0 to 100) by what tells of them, and windows of time. Raises BadParameter.

    ``reaccess_hours``: how long after a search coming back to a result counts as one;
    ``repeat_minutes``: how long the same query of the same client stays one search.
    """

    useful: float = 2.0
    opened: float = 1.0
    reaccessed: float = 0.5
    not_useful: float = 0.0
    reaccess_hours: float = 1.0
    repeat_minutes: float = 60.0
    version: int = VERSION

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "version":
                if isinstance(value, bool) or value != VERSION:
                    raise BadParameter(
                        f"version is {value!r:.60}: the rules for labels are version {VERSION}"
                    )
                continue
            most = MAX_GAIN if each.name in SOURCES else _MAX_WINDOW
            object.__setattr__(self, each.name, float(number(each.name, value, 0, most)))
        if self.useful <= self.not_useful:
            raise BadParameter(
                f"useful is {self.useful:g} and not_useful {self.not_useful:g}: what was rated "
                "useful has to count for more"
            )

    @property
    def gains(self) -> Floats:
        """By index into SOURCES; what was shown and has no label counts 0."""
        return np.array([0.0] + [getattr(self, name) for name in SOURCES[1:]])

    def as_dict(self) -> dict[str, Any]:
        """For the evidence of a version."""
        return asdict(self)


POLICY = LabelPolicy()


@dataclass(frozen=True)
class Feedback:
    """m events in the order in which they were written."""

    search: Ints
    """(m,) row id of the search that it is about; NO_SEARCH where there is none."""
    entity: Ints
    """(m,) entity id, as the candidates of that search have it."""
    event: Ints
    """(m,) USEFUL, NOT_USEFUL or OPENED."""
    at: Floats
    """(m,) when, Unix seconds; NaN where unknown."""
    client: tuple[str | None, ...]
    """(m,) who, as in ``Log.client``."""


def label(log: Log, feedback: Feedback, policy: LabelPolicy = POLICY) -> Log:
    """The log without its repeats, with gains and sources by the policy.

    What was rated or opened in a repeat goes to the first of them. A result of the first that has
    no label counts 0 where it was shown, and is NaN, not known, where it was not; ratings of what
    was not shown count too.
    """
    first = merged(log, policy.repeat_minutes)
    kept = first == np.arange(len(log))
    entities, code = np.unique(log.entity, return_inverse=True)
    about = _candidates(log, first, feedback, entities, code)
    source = np.full(len(log.entity), NONE)
    opened = (about >= 0) & (feedback.event == OPENED)
    source[about[opened]] = OPENED
    rated = (about >= 0) & (feedback.event != OPENED)
    # of several to one place numpy leaves the last
    source[about[rated]] = feedback.event[rated]
    last = log.at.copy()
    np.maximum.at(last, first, log.at)
    left_out = dict(log.left_out)
    if not kept.all():
        left_out[REPEATS] = left_out.get(REPEATS, 0) + int((~kept).sum())
    log = replace(log, source=source, left_out=left_out).select(kept)
    client, openings = _by_name(log, feedback)
    came, chance = reaccesses(
        log,
        client,
        openings.once(policy.repeat_minutes * 60.0),
        last[kept] + policy.reaccess_hours * 3600.0,
    )
    source = np.where((log.source == NONE) & came, REACCESSED, log.source)
    gain = policy.gains[source]
    gain[(source == NONE) & ~log.shown] = np.nan
    return replace(log, gain=gain, source=source, chance=chance * policy.reaccessed)


def merged(log: Log, minutes: float) -> Ints:
    """(n,) the search that each counts as: the first with the same query and client, from which
    it is at most so many minutes away. All whom nobody knows are one client here."""
    found = np.arange(len(log))
    begun: dict[tuple[str, str | None], int] = {}
    at = log.at.tolist()
    for index, key in enumerate(zip(log.query, log.client, strict=True)):
        first = begun.get(key)
        if first is not None and at[index] - at[first] <= minutes * 60:
            found[index] = first
        else:
            begun[key] = index
    return found


def counts(log: Log) -> dict[str, Any]:
    """How much there is to learn from, of a log with labels.

    ``searches``, of which ``treatment`` were served in the limbic order and ``baseline`` not, and
    ``labelled`` have a label; ``labels`` by source; ``unshown_ratings`` and ``unshown_opened``,
    those of them that are about what the search did not show; ``clients`` and ``client_days``
    (all whom nobody knows are one); distinct ``queries``; ``first`` and ``last``, UTC text, or
    None where there is no search.
    """
    labelled = log.source != NONE
    number_of = np.bincount(log.source, minlength=len(SOURCES))
    unshown = np.bincount(log.source[~log.shown], minlength=len(SOURCES))
    days = zip(log.client, (log.at // _DAY_S).tolist(), strict=True)
    treatment = int(log.limbic.sum())
    return {
        "searches": len(log),
        "treatment": treatment,
        "baseline": len(log) - treatment,
        "labelled": len(np.unique(log.of[labelled])),
        "labels": {SOURCES[i]: int(number_of[i]) for i in range(len(SOURCES)) if i != NONE},
        "unshown_ratings": int(unshown[USEFUL] + unshown[NOT_USEFUL]),
        "unshown_opened": int(unshown[OPENED]),
        "clients": len(set(log.client)),
        "client_days": len(set(days)),
        "queries": len(set(log.query)),
        "first": times.to_sql(float(log.at[0])) if len(log) else None,
        "last": times.to_sql(float(log.at[-1])) if len(log) else None,
    }


def _candidates(log: Log, first: Ints, feedback: Feedback, entities: Ints, code: Ints) -> Ints:
    """(m,) row of the candidate that each event is about; -1 where it was none."""
    order = np.argsort(log.id, kind="stable")
    place = find(log.id[order], feedback.search)
    which = find(entities, feedback.entity)
    known = (place >= 0) & (which >= 0)
    search = first[order[place[known]]]
    # ascending, since the candidates of a search stand in the order of their ids
    rows = find(log.of * len(entities) + code, search * len(entities) + which[known])
    found = np.full(len(feedback.search), -1)
    found[known] = rows
    return found


def _by_name(log: Log, feedback: Feedback) -> tuple[Ints, Openings]:
    """(n,) who searched, as numbers, -1 where unknown; and what they opened from no search.

    What was opened from another search is what became of that one.
    """
    numbers: dict[str, int] = {}
    who = np.array(
        [-1 if c is None else numbers.setdefault(c, len(numbers)) for c in log.client], np.int64
    )
    by = np.array([-1 if c is None else numbers.get(c, -1) for c in feedback.client], np.int64)
    used = (
        (feedback.event == OPENED)
        & (feedback.search == NO_SEARCH)
        & (by >= 0)
        & np.isfinite(feedback.at)
    )
    return who, Openings(by[used], feedback.entity[used], feedback.at[used])


def find(among: Ints, wanted: Ints) -> Ints:
    """(m,) where each of ``wanted`` stands in ``among``, which ascends; -1 where it does not."""
    if not len(among):
        return np.full(len(wanted), -1)
    place = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    return np.where(among[place] == wanted, place, -1)
