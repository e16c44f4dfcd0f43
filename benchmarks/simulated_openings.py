"""Openings by name that have nothing to do with any search: the noise in coming back to a result.

Clients open what everybody knows, by its name. Some of that was among the results of a search of
theirs shortly before, and looks as if they came back to it, though nobody did.
"""

from __future__ import annotations

import numpy as np

from datasette_limbic.tuning.labels import NO_SEARCH, POLICY, Feedback, LabelPolicy, label
from datasette_limbic.tuning.log import NOT_USEFUL, OPENED, USEFUL, Log

from .scenario import OPENED_AFTER_S, RATED_AFTER_S
from .simulator import Simulated

_STREAM = 77


def with_openings(simulated: Simulated, per_search: float, policy: LabelPolicy = POLICY) -> Log:
    """The log as ``policy`` labels it once there are ``per_search`` (0 and up) openings by name
    for each search.

    Who is busy searching is busy opening; what is opened is drawn by the popularity of entities,
    which is also how often they come up and were accessed; moments are even over the log.
    """
    log = simulated.log
    searches = _of_searches(simulated)
    rng = np.random.default_rng([_STREAM, simulated.seed])
    m = rng.poisson(per_search * len(log))
    if not m:
        return label(log, searches, policy)
    popularity = simulated.queries.entities.popularity
    client = rng.integers(0, len(log), m)
    at = np.concatenate([searches.at, rng.uniform(log.at[0], log.at[-1], m)])
    order = np.argsort(at, kind="stable")
    who = (*searches.client, *(log.client[each] for each in client.tolist()))
    entity = rng.choice(len(popularity), m, p=popularity) + 1
    both = Feedback(
        search=np.concatenate([searches.search, np.full(m, NO_SEARCH)])[order],
        entity=np.concatenate([searches.entity, entity])[order],
        event=np.concatenate([searches.event, np.full(m, OPENED)])[order],
        at=at[order],
        client=tuple(who[each] for each in order.tolist()),
    )
    return label(log, both, policy)


def _of_searches(simulated: Simulated) -> Feedback:
    """What was opened and rated from the searches themselves."""
    log = simulated.log
    opened = np.flatnonzero(simulated.opened)
    rated = np.flatnonzero(np.isin(log.source, (USEFUL, NOT_USEFUL)))
    row = np.concatenate([opened, rated])
    search = log.of[row]
    after = np.repeat((OPENED_AFTER_S, RATED_AFTER_S), (len(opened), len(rated)))
    return Feedback(
        search=log.id[search],
        entity=log.entity[row],
        event=np.concatenate([np.full(len(opened), OPENED), log.source[rated]]),
        at=log.at[search] + after,
        client=tuple(log.client[each] for each in search.tolist()),
    )
