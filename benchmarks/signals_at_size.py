"""What signals cost at size: on a memory of ten million pairs, with hubs of 50,000.

``python -m benchmarks.signals_at_size FILE`` measures a file that ``large_signals.build`` made, and
makes it where it is not there. What writes is rolled back. Time is that of the processor, the least
of REPEATS; steps are those of SQLite's machine, which are the same on every one.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tabulate import tabulate

from datasette_limbic import connection, recording, schema, search, statement
from datasette_limbic.actions.acting import act
from datasette_limbic.config import Settings
from datasette_limbic.graph.neighbourhood import neighbourhood
from datasette_limbic.health import health_report
from datasette_limbic.recording import Recording
from datasette_limbic.statement import PARAMETERS, Shape
from datasette_limbic.status import status
from datasette_limbic.views import entity

from . import large_signals
from .large_signals import HUBS, hub

NOW = "2026-11-29 12:00:00"
REPEATS = 5
POOLS = (60, 300, 600)
FOUND = "knn(id, distance, knn_rank) as (select value, 0.5, key + 1 from json_each('{}'))"
_EVERY = 20
OWN = ("relations_counted", "co_occurrences_often", "entity_access_", "entities_activity")
"""How the names of the indexes begin that are there for size alone."""


class Cost(NamedTuple):
    """Of one call."""

    steps: int
    ms: float


def cost(
    conn: Any,
    function: Callable[[], Any],
    repeats: int = REPEATS,
    least: Callable[[list[float]], float] = min,
) -> Cost:
    """The steps of a call, and its least time (or another one of all)."""
    count = 0

    def some() -> int:
        nonlocal count
        count += _EVERY
        return 0

    if repeats > 1:
        function()
    conn.set_progress_handler(some, _EVERY)
    try:
        function()
    finally:
        conn.set_progress_handler(None, 0)
    taken = []
    for _ in range(repeats):
        started = time.thread_time()
        function()
        taken.append(time.thread_time() - started)
    return Cost(count, least(taken) * 1000)


def pools(conn: Any, bare: Any, last: int) -> Iterator[dict[str, Any]]:
    """A search over pools of any entities and of hubs, and the same without signals."""
    rng = random.Random(1)
    hubs = [*map(hub, HUBS), last]
    for size in POOLS:
        anything = rng.sample(range(len(HUBS) + 1, last), size)
        for name, ids in (("any", anything), ("8 hubs", [*hubs, *anything[len(hubs) :]])):
            shape = Shape(text=False, hybrid=False, large_pool=size > statement.SMALL_POOL)
            sql = statement.build(shape, knn=FOUND.format(json.dumps(sorted(ids))))
            given = dict.fromkeys(PARAMETERS, "") | {"now": NOW}
            whole = cost(conn, lambda sql=sql, given=given: conn.execute(sql, given).fetchall())
            least = cost(bare, lambda sql=sql, given=given: bare.execute(sql, given).fetchall())
            yield {
                "pool": f"{size}, {name}",
                "steps": whole.steps,
                "ms": whole.ms,
                "without signals ms": least.ms,
                "ratio": whole.ms / least.ms,
            }


def _without_signals(conn: Any, folder: Path) -> Any:
    """The same entities in a file of their own, where nothing links them and nobody used them."""
    path = folder / "without-signals.db"
    with closing(connection.connect(path, create=True)) as made:
        schema.init(made)
        schema.drop_triggers(made)
        names = [row[1] for row in made.execute("pragma table_info(entities)")]
        marks = ", ".join("?" * len(names))
        with made:
            made.executemany(
                f"insert into entities({', '.join(names)}) values ({marks})",
                conn.execute(f"select {', '.join(names)} from entities"),
            )
        made.execute("analyze")
        made.commit()
    return connection.connect(path, readonly=True)


def calls(conn: Any, last: int) -> Iterator[dict[str, Any]]:
    """What is done with one hub after another, beside an entity that is none."""
    settings, plain = Settings(), last // 2 + 1
    page = entity.Asked(
        id=plain, now=NOW, as_of=None, page=1, relations_page=1, as_json=False, log=True,
        ratings=True, reports=True, insights=True,
    )  # fmt: skip
    subjects = [
        ("none", plain),
        *((f"of {name}", hub(name)) for name in HUBS),
        ("of pairs, last", last),
    ]
    for name, id in subjects:
        asked = replace(page, id=id)
        yield {
            "hub": name,
            **_costs("page", conn, lambda asked=asked: entity.read(conn, asked, settings)),
            **_costs("picture", conn, lambda id=id: neighbourhood(conn, id, settings=settings)),
        }


def _costs(name: str, conn: Any, function: Callable[[], Any]) -> dict[str, Any]:
    found = cost(conn, function)
    return {f"{name} steps": found.steps, f"{name} ms": found.ms}


def writes(conn: Any, last: int) -> Iterator[dict[str, Any]]:
    """Recording a search of ten, with and without the indexes that are there for size alone."""
    own = conn.execute("select name from sqlite_master where type = 'index'").fetchall()
    own = [name for (name,) in own if name.startswith(OWN)]
    hubs = [*map(hub, HUBS), last]
    for dropped in (False, True):
        conn.execute("begin immediate")
        try:
            for name in own if dropped else ():
                conn.execute(f"drop index {name}")
            for kind, some in (("ten that never met", []), ("8 hubs, and two of any", hubs)):
                # others each time, as searches are
                next_ids = itertools.count(last // 2)
                found = cost(
                    conn,
                    lambda some=some, ids=next_ids: recording.write(
                        conn, Recording((*some, *itertools.islice(ids, 10 - len(some))), NOW, "x")
                    ),
                    repeats=50,
                    least=median,
                )
                yield {
                    "a search of": kind,
                    "indexes for size": "no" if dropped else "yes",
                    "steps": found.steps,
                    "ms": found.ms,
                }
        finally:
            conn.rollback()


def others(conn: Any) -> Iterator[dict[str, Any]]:
    """What looks at the whole memory, or at several hubs."""
    keep, *merged = hub("pairs"), hub("relations"), hub("archived neighbours")
    asked = {"keep": keep, "others": merged}
    found = {
        "a search for nothing": lambda: search.search(conn, "", settings=Settings(), now=NOW),
        "preview of merging 3 hubs": lambda: act(
            conn, "merge_entities", asked, dry_run=True, embed=False
        ),
        "status": lambda: status(conn),
        "health": lambda: health_report(conn, now=NOW),
    }
    for name, function in found.items():
        yield {"what": name, **cost(conn, function, repeats=1)._asdict()}


def run(path: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The title of each table, and its rows."""
    with (
        closing(connection.connect(path)) as conn,
        tempfile.TemporaryDirectory() as folder,
        closing(_without_signals(conn, Path(folder))) as bare,
    ):
        last = conn.execute("select max(id) from entities").fetchone()[0]
        yield "Searches of a given pool", list(pools(conn, bare, last))
        yield "Recording", list(writes(conn, last))
        yield "Pages of hubs", list(calls(conn, last))
        yield "The whole memory", list(others(conn))


def main() -> None:
    path = Path(sys.argv[1])
    if not path.exists():
        large_signals.build(path)
    for title, rows in run(path):
        table = tabulate(rows, headers="keys", floatfmt=".2f", tablefmt="github", intfmt=",")
        print(f"\n## {title}\n\n{table}", flush=True)


if __name__ == "__main__":
    main()
