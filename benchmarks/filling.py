"""What made-up memories of use have in common: names, moments, accesses, pairs, a search log.

Rows are written in bulk, with the triggers off and the indexes filled afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy

from datasette_limbic import schema

from . import memory

YEARS = 2
PARAMETERS = json.dumps({"beta_sal": 0.5, "gamma": 0.01})


@contextmanager
def filling(conn: Any, *, for_reports: bool = False) -> Iterator[None]:
    """A transaction that fills an empty file; then the text index, the triggers and a commit.

    ``for_reports``: what was written waits to be looked at by the reports.
    """
    schema.init(conn)
    conn.execute("pragma synchronous=off")
    conn.execute("begin immediate")
    schema.drop_triggers(conn)
    yield
    schema.fill_indexes(conn)
    if for_reports:
        schema.mark_for_reports(conn)
    conn.execute("delete from limbic_stale")
    schema.create_triggers(conn)
    conn.commit()


def moments(rng: numpy.random.Generator, count: int, *, lately: float = 1.0) -> list[str]:
    """UTC moments of the last YEARS; ``lately`` above 1 puts more of them near the end."""
    now = datetime.now(timezone.utc).replace(microsecond=0, tzinfo=None)
    back = (rng.random(count) ** lately * YEARS * 365 * 86_400).astype("i8").tolist()
    return [str(now - timedelta(seconds=seconds)) for seconds in back]


def names(rng: numpy.random.Generator, count: int) -> list[str]:
    """Two words and a number each, so that no two are one."""
    vocabulary = memory.words()
    picked = rng.integers(0, len(vocabulary), (count, 2)).tolist()
    return [f"{vocabulary[a]} {vocabulary[b]} {i}" for i, (a, b) in enumerate(picked, 1)]


def write_accesses(
    conn: Any, names: Sequence[str], accesses: Iterable[tuple[int, str | None, str]]
) -> None:
    """The log, of (entity, query, moment) each, and the counts that it makes."""
    conn.executemany(
        "insert into entity_access_log(entity_id, entity_name, query, accessed_at)"
        " values (?, ?, ?, ?)",
        ((owner, names[owner - 1], query, moment) for owner, query, moment in accesses),
    )
    conn.execute(
        "insert into entity_access(entity_id, access_count, last_access)"
        " select entity_id, count(*), max(accessed_at) from entity_access_log group by 1"
    )


def write_pairs(conn: Any, pairs: Iterable[tuple[int, int, int, str]]) -> None:
    """Co-occurrences: the lower id, the higher one, how often, and when last."""
    conn.executemany(
        "insert into co_occurrences(entity_a_id, entity_b_id, co_count, last_co)"
        " values (?, ?, ?, ?)",
        pairs,
    )


def write_searches(
    conn: Any,
    names: Sequence[str],
    made: Sequence[str],
    shown: Sequence[Sequence[int]],
    *,
    mode: str,
    strategy: str,
    clients: Sequence[str | None],
    event: Callable[[int], str],
) -> None:
    """A search for the first of each row of entities, at the moments ``made``.

    All of a row are its candidates, and every second search led to an ``event`` of the first.
    """
    conn.executemany(
        "insert into limbic_searches(id, query, mode, strategy, result_limit, now, parameters,"
        " client, created_at) values (?1, ?2, ?3, ?4, 10, ?5, ?6, ?7, ?5)",
        (
            (i, names[row[0] - 1], mode, strategy, moment, PARAMETERS, clients[i % len(clients)])
            for i, (row, moment) in enumerate(zip(shown, made, strict=True), 1)
        ),
    )
    cosine = "null" if mode == "text" else "?5"
    conn.executemany(
        "insert or ignore into limbic_search_candidates(search_id, entity_id, entity_name,"
        " returned, baseline_rank, treatment_rank, cosine_sim, base, importance, temporal_factor,"
        f" cooc_boost, limbic_score, final_score) values (?1, ?2, ?3, 1, ?4, ?4, {cosine}, ?5, 1,"
        " 1, 0, ?5, ?5)",
        (
            (i, entity, names[entity - 1], rank, 1 / (rank + 1))
            for i, row in enumerate(shown, 1)
            for rank, entity in enumerate(row, 1)
        ),
    )
    conn.executemany(
        "insert into limbic_feedback(search_id, entity_id, entity_name, event, created_at)"
        " values (?, ?, ?, ?, ?)",
        (
            (i, row[0], names[row[0] - 1], event(i), moment)
            for i, (row, moment) in enumerate(zip(shown, made, strict=True), 1)
            if i % 2
        ),
    )
