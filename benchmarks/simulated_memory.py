"""A simulated log in a real memory, so that the command and the page can be tried on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from datasette_limbic import search_log, times
from datasette_limbic.scoring import Parameters
from datasette_limbic.search import BASELINE, LIMBIC
from datasette_limbic.search_log import LoggedSearch
from datasette_limbic.tuning import rerank
from datasette_limbic.tuning.log import NOT_USEFUL, STRATEGY_NAMES, USEFUL

from .scenario import OPENED_AFTER_S, RATED_AFTER_S
from .simulated_world import HISTORY_HOURS, START

if TYPE_CHECKING:
    from .simulator import Simulated

_RATINGS = {USEFUL: search_log.USEFUL, NOT_USEFUL: search_log.NOT_USEFUL}


def write(conn: Any, simulated: Simulated) -> None:
    """The entities, with their accesses, the searches and what became of them; one transaction.

    ``conn`` is a connection to a memory without entities: the log says by number which ones it
    found. ValueError where there are any. Pairs that came up together are not written: the log
    has what they came to.
    """
    if conn.execute("select exists (select 1 from entities)").fetchone()[0]:
        raise ValueError(
            "this memory has entities already: a simulated log brings its own, so write it "
            "into an empty memory (datasette limbic init)"
        )
    with conn:
        conn.execute("begin immediate")
        _entities(conn, simulated)
        opened = simulated.opened.reshape(-1, simulated.scenario.candidates)
        for index, (found, moment) in enumerate(_searches(simulated)):
            search_log.add_search(conn, found, moment)
            columns = np.flatnonzero(opened[index])
            if len(columns):
                _feedback(conn, simulated, index, columns.tolist(), found)


def name(entity: int) -> str:
    """What an entity of a simulated memory is called."""
    return f"Simulated {entity}"


def _entities(conn: Any, simulated: Simulated) -> None:
    """As they are when the log ends."""
    scenario, entities = simulated.scenario, simulated.queries.entities
    everyone = np.arange(scenario.entities)
    hours = np.full(scenario.entities, 24.0 * scenario.days)
    then = hours * scenario.drift
    accesses = entities.accesses(everyone, then, simulated.use)
    end = START + 3600 * hours
    last = end - 3600 * entities.age(everyone, then, simulated.use)
    made = np.minimum(last, START - 3600 * HISTORY_HOURS)
    rows = [
        (number, name(number), times.to_sql(created), int(count), times.to_sql(accessed))
        for number, created, count, accessed in zip(
            (everyone + 1).tolist(), made.tolist(), accesses.tolist(), last.tolist(), strict=True
        )
    ]
    conn.executemany(
        "insert into entities(id, name, entity_type, created_at, updated_at, last_activity_at)"
        " values (?, ?, 'Note', ?, ?, ?)",
        ((number, called, at, at, at) for number, called, at, _, _ in rows),
    )
    conn.executemany(
        "insert into entity_access(entity_id, access_count, last_access) values (?, ?, ?)",
        ((number, count, at) for number, _, _, count, at in rows if count),
    )


def _searches(simulated: Simulated) -> Iterator[tuple[LoggedSearch, str]]:
    """Each search as the product would have logged it, and when that was."""
    scenario, log = simulated.scenario, simulated.log
    parameters = json.dumps(
        {
            **asdict(Parameters(beta_sal=scenario.beta_sal, gamma=scenario.gamma)),
            "strategy": "auto" if len(scenario.strategies) > 1 else scenario.strategies[0][0],
            "recency": "access",
            "fusion": "document",
            "consolidation": False,
            "expansion_factor": max(1, scenario.candidates // scenario.limit),
            "type": None,
            "as_of": None,
            "include_archived": False,
            "degraded": False,
        }
    )
    limbic = rerank.limbic_scores(
        log.base, log.importance, log.temporal, log.cooc, log.beta_sal[log.of], log.gamma[log.of]
    )
    final = rerank.final_scores(log, scenario.beta_sal, scenario.gamma)
    names = [name(number) for number in range(scenario.entities + 1)]
    entity = log.entity.tolist()
    columns = zip(
        *(entity, (names[number] for number in entity), log.shown.astype(int).tolist()),
        *(log.baseline_rank.tolist(), log.limbic_rank.tolist()),
        # semantic search: base is the cosine, and there is no other evidence to fuse
        *(log.base.tolist(), [None] * len(entity), log.base.tolist(), log.importance.tolist()),
        *(log.temporal.tolist(), log.cooc.tolist(), limbic.tolist(), final.tolist()),
        strict=True,
    )
    rows = list(columns)
    ids = np.random.default_rng([simulated.seed, len(log)]).bytes(8 * len(log)).hex()
    when = zip(log.at.tolist(), log.strategy.tolist(), strict=True)
    for index, (at, strategy) in enumerate(when):
        moment = times.to_sql(at)
        assert moment is not None  # simulated logs are of our days
        policy = LIMBIC if log.limbic[index] else BASELINE
        share = scenario.baseline_share
        found = LoggedSearch(
            uid=ids[16 * index : 16 * index + 16],
            query=log.query[index],
            mode="semantic",
            strategy=STRATEGY_NAMES[strategy],
            limit=scenario.limit,
            now=moment,
            parameters=parameters,
            parameters_version=None,
            policy=policy,
            probability=share if policy == BASELINE else 1 - share,
            client=log.client[index],
            actor=None,
            candidates=tuple(rows[log.start[index] : log.start[index + 1]]),
        )
        yield found, moment


def _feedback(
    conn: Any, simulated: Simulated, index: int, columns: list[int], found: LoggedSearch
) -> None:
    """What was opened of one search, and how it was rated."""
    log = simulated.log
    for column in columns:
        row = int(log.start[index]) + column
        events = [(search_log.OPENED, OPENED_AFTER_S)]
        if int(log.source[row]) in _RATINGS:
            events.append((_RATINGS[int(log.source[row])], RATED_AFTER_S))
        for event, seconds in events:
            moment = times.to_sql(float(log.at[index]) + seconds)
            assert moment is not None
            search_log.add_event(
                conn,
                found.uid,
                int(log.entity[row]),
                event,
                client=found.client,
                actor=None,
                moment=moment,
            )
