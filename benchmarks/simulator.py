"""Users of a memory whose best parameters are known: what tuning is tried on.

``simulate(Scenario(…), seed)`` gives a log as tuning reads it from a memory, together with what no
real log tells: what is relevant, what was looked at, and what any other parameters would truly be
worth (``true_ndcg``). ``write`` puts the same log into a memory.

A memory has entities with heavy-tailed use, queries with the same pool and the same relevant
results each time, and factors that drift as entities go on being used (``simulated_world``).
Clients ask, by Zipf's law; results are looked at by a click model; what is looked at is opened
more often where it is relevant, and sometimes rated. ``Scenario`` has a line on each. Users know
nothing of the order but what the click model says: Craswell, Zoeter, Taylor and Ramsey 2008
(examination by rank, and the cascade).

Everything is drawn from ``numpy.random.Generator``; the same scenario and seed give the same log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from datasette_limbic.tuning.labels import POLICY, Feedback, LabelPolicy, label
from datasette_limbic.tuning.log import NOT_USEFUL, OPENED, USEFUL, Bools, Floats, Ints, Log

from .scenario import ALONE, AUTO, OPENED_AFTER_S, RATED_AFTER_S, Scenario
from .simulated_memory import write
from .simulated_world import Entities, Fresh, Queries, Use, relevance, zipf

__all__ = ["ALONE", "AUTO", "Scenario", "Simulated", "simulate", "write"]

FRESH = 400
"""Searches of the sample that ``true_ndcg`` is worked out on."""
DAY = 86_400
REPEAT_S = 3600
"""A client asks the same again later than that: sooner, it would count as one search."""
_SYLLABLES = [c + v for c in "bcdfglmnprstvz" for v in "aeiou"]


@dataclass(frozen=True)
class Simulated:
    """A log and the truth about it. Arrays (N,) are of candidates, in the order of the log's."""

    scenario: Scenario
    seed: int
    log: Log
    relevant: Bools
    """(N,) what truly answers the query: decided once for each distinct query and candidate."""
    examined: Bools
    """(N,) what was looked at."""
    opened: Bools
    """(N,) what was opened."""
    asked: Ints
    """(n,) which distinct query each search asks."""
    queries: Queries = field(repr=False)
    """The distinct queries, and the entities (``queries.entities``)."""
    use: Use = field(repr=False)
    """What the log had added to the use of entities when it ended (``feedback``)."""
    _odds: Floats = field(repr=False)
    _stream: np.random.SeedSequence = field(repr=False)

    @cached_property
    def relevance(self) -> Floats:
        """(N,) the probability with which each candidate came to be relevant, 0 to 1.

        Zero where preference is "position".
        """
        if self.scenario.preference == "position":
            return np.zeros(len(self.relevant))
        return relevance(self._odds, self.queries.wanted)[self.asked].ravel()

    @cached_property
    def fresh(self) -> Fresh:
        """FRESH searches of the same world that are not in the log."""
        rng = np.random.default_rng(self._stream)
        queries = Queries(self.scenario, self.queries.entities, FRESH, rng)
        return Fresh(queries, self.use, rng)

    def true_ndcg(self, beta: float, gamma: float, k: int = 10) -> float:
        """NDCG@k that these parameters give to new queries to the same memory, over whole pools.

        The expectation over what is relevant, worked out exactly, so that only which queries are
        asked is left to chance; the true parameters are the best in every sample. With preference
        "none" it is the same for all parameters; NaN with "position", where nothing is relevant.
        """
        if self.scenario.preference == "position":
            return float("nan")
        return self.fresh.ndcg(beta, gamma, k)

    def true_gain(self, beta: float, gamma: float, k: int = 10) -> float:
        """What true NDCG@k gains by these parameters over those that ranked."""
        ranked = self.true_ndcg(self.scenario.beta_sal, self.scenario.gamma, k)
        return self.true_ndcg(beta, gamma, k) - ranked


def simulate(scenario: Scenario, seed: int, *, policy: LabelPolicy = POLICY) -> Simulated:
    """One log; 500 searches of 30 candidates take some 10 ms. ``seed`` is 0 or more.

    Labels are those that ``policy`` finds in what was opened and rated. That a client opens a
    result of one search which another search showed as well counts there too, as it would in a
    real log; with ``reaccess_hours`` 0 it does not.
    """
    streams = np.random.SeedSequence(seed).spawn(5)
    of_entities, of_queries, of_asking, of_users = map(np.random.default_rng, streams[:4])
    client, number, second = _asking(scenario, of_asking)
    distinct, asked = np.unique(number, return_inverse=True)
    entities = Entities(scenario, of_entities)
    queries = Queries(scenario, entities, len(distinct), of_queries)
    # what a query is after is decided once: by how things stand in the middle of the log
    middle = np.full(len(distinct), 12.0 * scenario.days)
    odds = queries.odds(middle, Use.none(scenario.entities))
    relevant = queries.relevant(odds)[asked]
    if scenario.preference == "position":
        relevant = np.zeros_like(relevant)

    users = _Users(scenario, client, relevant, of_users)
    use = Use.none(scenario.entities)
    logs = []
    for part in _parts(scenario, second):
        log = queries.log(asked[part], second[part] / 3600.0, use)
        log = replace(log, limbic=users.limbic[part])
        opened = users.look(part, log.served_rank.reshape(-1, scenario.candidates))
        logs.append(log)
        if scenario.feedback:
            chosen = log.entity.reshape(opened.shape)[opened] - 1
            hours = np.repeat(second[part] / 3600.0, opened.sum(axis=1))
            np.add.at(use.accesses, chosen, 1.0)
            np.maximum.at(use.last, chosen, hours * scenario.drift)
    text = [_words(int(each)) for each in distinct]
    log = replace(
        _joined(logs),
        query=tuple(text[each] for each in asked.tolist()),
        client=tuple(f"client {each + 1}" for each in client.tolist()),
    )
    return Simulated(
        scenario=scenario,
        seed=seed,
        log=label(log, users.feedback(log), policy),
        relevant=relevant.ravel(),
        examined=users.examined.ravel(),
        opened=users.opened.ravel(),
        asked=asked,
        queries=queries,
        _odds=odds,
        use=use,
        _stream=streams[4],
    )


def _parts(scenario: Scenario, second: Ints) -> Sequence[slice]:
    """Stretches of the log in which nothing that is opened changes what is served."""
    if not scenario.feedback or not len(second):
        return [slice(0, len(second))]
    edges = np.searchsorted(second, np.arange(scenario.days + 1) * DAY)
    return [slice(a, b) for a, b in pairwise(edges.tolist()) if a < b]


def _asking(scenario: Scenario, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    """(n,) client, number of the query and seconds since START of each search, by time."""
    n = scenario.searches
    client = _drawn(scenario.clients, 1.0, n, rng)
    number = _drawn(scenario.queries, scenario.query_tail, n, rng)
    # favourites of its own: the same law, beginning elsewhere
    shift = client * (scenario.queries // scenario.clients)
    number = np.where(rng.random(n) < scenario.own, (number + shift) % scenario.queries, number)
    day = rng.integers(0, scenario.days, n)
    second = rng.integers(0, DAY, n)
    again = _again(client, number, day * DAY + second)
    for attempt in range(20):
        if not len(again):
            break
        # at another time of the day; and where that is full, something else
        second[again] = rng.integers(0, DAY, len(again))
        if attempt >= 10:
            number[again] = rng.integers(0, scenario.queries, len(again))
        again = _again(client, number, day * DAY + second)
    at = day * DAY + second
    order = np.argsort(at, kind="stable")
    client, number, at = client[order], number[order], at[order]
    if len(again):  # too many for the time there is: those go
        last: dict[tuple[int, int], int] = {}
        kept = []
        for index, key in enumerate(zip(client.tolist(), number.tolist(), strict=True)):
            if at[index] - last.get(key, -DAY) > REPEAT_S:
                last[key] = int(at[index])
                kept.append(index)
        client, number, at = client[kept], number[kept], at[kept]
    return client, number, at


def _again(client: Ints, number: Ints, at: Ints) -> Ints:
    """Which searches ask what the same client asked within the hour before."""
    order = np.lexsort((at, number, client))
    same = (np.diff(client[order]) == 0) & (np.diff(number[order]) == 0)
    found: Ints = order[1:][same & (np.diff(at[order]) <= REPEAT_S)]
    return found


def _drawn(count: int, exponent: float, size: int, rng: np.random.Generator) -> Ints:
    """(size,) numbers from 0 by Zipf's law."""
    edges = np.cumsum(zipf(count, exponent))
    found: Ints = np.searchsorted(edges, rng.random(size) * edges[-1], side="right")
    return np.minimum(found, count - 1)


class _Users:
    """What clients do with what they are shown."""

    def __init__(
        self, scenario: Scenario, client: Ints, relevant: Bools, rng: np.random.Generator
    ) -> None:
        self.scenario, self.relevant = scenario, relevant
        n, m = relevant.shape
        self.limbic: Bools = np.greater_equal(rng.random(n), scenario.baseline_share)
        # some open more than others
        room = min(scenario.opens, 1.0 - scenario.opens)
        opens = scenario.opens + room * rng.uniform(-1, 1, scenario.clients)
        if scenario.preference == "position":
            chance = np.full((n, m), scenario.blind)
        else:
            chance = np.where(relevant, opens[client][:, None], scenario.noise)
        self._look, self._stop = rng.random((n, m)), rng.random((n, m)) < scenario.stop
        self._would_open = rng.random((n, m)) < chance
        self._would_rate = rng.random((n, m)) < scenario.rating_share
        self._likes = rng.random((n, m)) < 0.5 if scenario.preference == "position" else relevant
        self.examined, self.opened = np.zeros((n, m), bool), np.zeros((n, m), bool)

    def look(self, part: slice, served: Ints) -> Bools:
        """Which of the pools of ``part``, at ranks ``served`` (b, m), are opened: (b, m)."""
        scenario, shown = self.scenario, served <= self.scenario.limit
        if scenario.click_model == "cascade":
            examined = shown & self._cascade(part, served)
        elif scenario.click_model == "position":
            examined = shown & (self._look[part] < served ** -float(scenario.eta))
        elif scenario.click_model == "geometric":
            examined = shown & (self._look[part] < scenario.decay ** (served - 1))
        else:
            examined = shown
        self.examined[part] = examined
        self.opened[part] = examined & self._would_open[part]
        found: Bools = self.opened[part]
        return found

    def _cascade(self, part: slice, served: Ints) -> Bools:
        """(b, m) what comes before the first opening with which a user is content, and that."""
        content = self._would_open[part] & self._stop[part]
        last = np.where(content, served, served.shape[1]).min(axis=1)
        found: Bools = served <= last[:, None]
        return found

    def feedback(self, log: Log) -> Feedback:
        """What was opened and rated, search by search."""
        opened = np.flatnonzero(self.opened)
        rated = np.flatnonzero(self.opened & self._would_rate)
        row = np.concatenate([opened, rated])
        useful = np.where(self._likes.ravel()[rated], USEFUL, NOT_USEFUL)
        event = np.concatenate([np.full(len(opened), OPENED), useful])
        order = np.argsort(log.of[row], kind="stable")
        row, event = row[order], event[order]
        search = log.of[row]
        return Feedback(
            search=log.id[search],
            entity=log.entity[row],
            event=event,
            at=log.at[search] + np.where(event == OPENED, OPENED_AFTER_S, RATED_AFTER_S),
            client=tuple(log.client[each] for each in search.tolist()),
        )


def _joined(logs: Sequence[Log]) -> Log:
    """Logs of one after another as one; their pools are of one size."""
    if len(logs) == 1:
        return logs[0]
    arrays: dict[str, Any] = {
        each.name: np.concatenate([getattr(log, each.name) for log in logs])
        for each in fields(Log)
        if isinstance(getattr(logs[0], each.name), np.ndarray) and each.name not in ("id", "start")
    }
    n = len(arrays["at"])
    return replace(
        logs[0],
        **arrays,
        id=np.arange(1, n + 1),
        query=("",) * n,
        client=(None,) * n,
        start=np.arange(n + 1) * (len(arrays["base"]) // n),
    )


def _words(number: int) -> str:
    """A query of two invented words; no two numbers have the same."""
    count = len(_SYLLABLES)
    first, second, third = number % count, number // count % count, number // count**2
    return (
        f"{_SYLLABLES[first]}{_SYLLABLES[(first * 7 + second) % count]} "
        f"{_SYLLABLES[second]}{_SYLLABLES[third % count]}{third // count or ''}"
    )
