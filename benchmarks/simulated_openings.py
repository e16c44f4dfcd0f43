"""Openings by name: results that clients come back to, and what has nothing to do with any search.

Clients open what everybody knows, by its name, while they are at work and searching. Much of that
was among the results of a search of theirs shortly before, and looks as if they came back to it.
"""

from __future__ import annotations

import numpy as np

from datasette_limbic.tuning.labels import NO_SEARCH, POLICY, Feedback, LabelPolicy, label
from datasette_limbic.tuning.log import NOT_USEFUL, OPENED, USEFUL, Log

from .scenario import OPENED_AFTER_S, RATED_AFTER_S
from .simulator import Simulated

_STREAM = 77


def with_openings(
    simulated: Simulated,
    per_search: float,
    policy: LabelPolicy = POLICY,
    *,
    by_name: bool = False,
) -> Log:
    """The log as ``policy`` labels it once there are ``per_search`` (0 and up) openings by name
    for each search that have nothing to do with any.

    What is opened is drawn by the popularity of entities, which is also how often they come up and
    were accessed; each time it is opened once to five times within five minutes; the moments lie
    from half an hour before a search to an hour after it. With
    ``by_name`` results are opened by name too, as a client does that knows no ids of searches, and
    nothing is rated.
    """
    log = simulated.log
    searches = _of_searches(simulated, by_name)
    rng = np.random.default_rng([_STREAM, simulated.seed])
    m = rng.poisson(per_search * len(log))
    if not m:
        return label(log, searches, policy)
    popularity = simulated.queries.entities.popularity
    client = rng.integers(0, len(log), m)
    moment = log.at[client] + rng.uniform(-1800, 3600, m)
    entity = rng.choice(len(popularity), m, p=popularity) + 1
    # who works on something opens it again and again
    times = rng.integers(1, 6, m)
    client, entity = np.repeat(client, times), np.repeat(entity, times)
    m = len(client)
    at = np.concatenate([searches.at, np.repeat(moment, times) + rng.uniform(0, 300, m)])
    order = np.argsort(at, kind="stable")
    who = (*searches.client, *(log.client[each] for each in client.tolist()))
    both = Feedback(
        search=np.concatenate([searches.search, np.full(m, NO_SEARCH)])[order],
        entity=np.concatenate([searches.entity, entity])[order],
        event=np.concatenate([searches.event, np.full(m, OPENED)])[order],
        at=at[order],
        client=tuple(who[each] for each in order.tolist()),
    )
    return label(log, both, policy)


def _of_searches(simulated: Simulated, by_name: bool) -> Feedback:
    """What was opened and rated from the searches themselves; or opened by name after them."""
    log = simulated.log
    opened = np.flatnonzero(simulated.opened)
    rated = np.flatnonzero(np.isin(log.source, (USEFUL, NOT_USEFUL)) & ~np.array(by_name))
    row = np.concatenate([opened, rated])
    search = log.of[row]
    after = np.repeat((OPENED_AFTER_S, RATED_AFTER_S), (len(opened), len(rated)))
    return Feedback(
        search=np.full(len(row), NO_SEARCH) if by_name else log.id[search],
        entity=log.entity[row],
        event=np.concatenate([np.full(len(opened), OPENED), log.source[rated]]),
        at=log.at[search] + after,
        client=tuple(log.client[each] for each in search.tolist()),
    )
