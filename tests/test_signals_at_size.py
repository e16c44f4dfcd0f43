"""Nothing reads all that a hub has: steps of SQLite's machine, of a hub of 200 and one of 5,000.

Steps are the same on every machine, times are not. Both memories have the same entities.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks import large_signals
from benchmarks.large_signals import HUBS, Sizes, hub
from datasette_limbic import connection, entity_signals, recording, search, statement
from datasette_limbic.access_weeks import accesses_of, usual
from datasette_limbic.config import Settings
from datasette_limbic.graph import neighbourhood
from datasette_limbic.recording import Recording
from datasette_limbic.statement import PARAMETERS, Shape

pytestmark = [pytest.mark.slow, pytest.mark.once]

SMALL, LARGE = 200, 5_000
ENTITIES = 20_200
NOW = "2026-11-29 12:00:00"
OF_PAIRS = (hub("pairs"), hub("archived"), ENTITIES)
FOUND = "knn(id, distance, knn_rank) as (select value, 0.5, key + 1 from json_each('{}'))"
# Relations looked at either way to find d_max neighbours, and what one of them takes.
LOOKED_AT, STEPS_EACH = 2 * 250, 40


@pytest.fixture(scope="module")
def memories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """Two memories that differ in the size of their hubs alone."""
    folder: Path = tmp_path_factory.mktemp("at-size")
    found = []
    for size in (SMALL, LARGE):
        path = folder / f"{size}.db"
        large_signals.build(
            path,
            Sizes(ENTITIES, size * 4 + 5_000, size, size * 4 + 500, accesses=2_000, searches=20),
        )
        found.append(connection.connect(path))
    yield found[0], found[1]
    for conn in found:
        conn.close()


def steps(conn: Any, function: Callable[[], Any]) -> int:
    """How many steps the statements of ``function`` take."""
    count = 0

    def one() -> int:
        nonlocal count
        count += 1
        return 0

    conn.set_progress_handler(one, 1)
    try:
        function()
    finally:
        conn.set_progress_handler(None, 0)
    return count


def ranked(conn: Any, ids: list[int], *, large_pool: bool = False) -> list[dict[str, Any]]:
    """The rows of a search that found these entities."""
    sql = statement.build(
        Shape(text=False, hybrid=False, large_pool=large_pool), knn=FOUND.format(json.dumps(ids))
    )
    cursor = conn.execute(sql, dict.fromkeys(PARAMETERS, "") | {"now": NOW, "limit": 1000})
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def record(conn: Any, ids: tuple[int, ...]) -> None:
    conn.execute("begin")
    recording.write(conn, Recording(ids, NOW, query="x"))
    conn.rollback()


# What is done with hubs, by name.
DONE: dict[str, Callable[[Any], Any]] = {
    "ranking hubs of pairs": lambda conn: ranked(conn, [*OF_PAIRS, *range(100, 130)]),
    "ranking in a large pool": lambda conn: ranked(
        conn, [*OF_PAIRS, *range(100, 200)], large_pool=True
    ),
    "recording": lambda conn: record(conn, (*OF_PAIRS, *range(100, 107))),
    "the highest count": lambda conn: conn.execute(entity_signals.MOST_ACCESSED).fetchall(),
    **{
        f"ranking the hub of {name}": lambda conn, name=name: ranked(conn, [hub(name)])
        for name in ("relations", "contents")
    },
    **{
        f"partners of {id}": lambda conn, id=id: conn.execute(
            entity_signals.OFTEN, {"id": id}
        ).fetchall()
        for id in OF_PAIRS
    },
    **{
        f"partners of {id} in its picture": lambda conn, id=id: conn.execute(
            neighbourhood.statement("often"),
            {"focus": id, "archived": 0, "limit": 6, "counted": 5000},
        ).fetchall()
        for id in OF_PAIRS
    },
}


@pytest.mark.parametrize("name", DONE)
def test_a_larger_hub_takes_no_more_steps(memories: tuple[Any, Any], name: str) -> None:
    small, large = (steps(conn, lambda c=conn: DONE[name](c)) for conn in memories)
    # a tenth for what differs by chance, and a few more levels of an index
    assert large <= small * 1.1 + 500, f"{small:,} steps with {SMALL}, {large:,} with {LARGE}"


@pytest.mark.parametrize(
    ("name", "degrees"),
    # the few that hold stand before what has ended, and the few live ones behind the archived
    [("ended relations", [5, 5]), ("archived neighbours", [5, 0])],
)
def test_of_what_counts_for_nothing_so_much_is_looked_at(
    memories: tuple[Any, Any], name: str, degrees: list[int]
) -> None:
    place = hub(name)
    assert [ranked(conn, [place])[0]["degree"] for conn in memories] == degrees
    alone, with_it = (
        steps(memories[1], lambda id=id: ranked(memories[1], [id])) for id in (ENTITIES - 1, place)
    )
    assert with_it - alone <= LOOKED_AT * STEPS_EACH


def test_a_search_for_nothing_reads_no_more_than_it_lists(memories: tuple[Any, Any]) -> None:
    _, conn = memories
    taken = steps(conn, lambda: search.search(conn, "", settings=Settings(), now=NOW))
    # less than eight for each entity: two hubs with what counts for nothing among the most used
    assert taken <= 2 * LOOKED_AT * STEPS_EACH + 4 * ENTITIES, taken


def test_degrees_are_those_of_the_entity_page(memories: tuple[Any, Any]) -> None:
    _, large = memories
    names = [name for name in HUBS if name != "archived neighbours"]
    for row in ranked(large, [*map(hub, names), *range(50, 150)]):
        given = {"id": row["id"], "at": NOW}
        exact, is_more = large.execute(entity_signals.DEGREE, given).fetchone()
        assert not is_more
        assert row["degree"] == min(exact, Settings().d_max), row["name"]
    assert large.execute(entity_signals.DEGREE, {"id": hub("contents"), "at": NOW}).fetchone()[0]


@pytest.mark.parametrize("id", OF_PAIRS)
def test_the_few_that_are_read_are_the_first_of_all(memories: tuple[Any, Any], id: int) -> None:
    for conn in memories:
        often = conn.execute(entity_signals.OFTEN, {"id": id}).fetchall()
        every = conn.execute(entity_signals.ALL_PARTNERS, {"id": id}).fetchall()
        assert often == every[: len(often)]
        assert len(often) == entity_signals.PARTNERS or conn is memories[0]


def test_pairs_are_the_same_whether_scanned_or_looked_up(memories: tuple[Any, Any]) -> None:
    _, large = memories
    ids = [*OF_PAIRS, *range(100, 200)]
    looked_up, scanned = (
        {row["id"]: row["cooc_boost"] for row in ranked(large, ids, large_pool=large_pool)}
        for large_pool in (False, True)
    )
    # added up in another order
    assert looked_up == pytest.approx(scanned)
    assert any(looked_up.values())


def test_a_count_that_is_no_number_moves_nothing(memories: tuple[Any, Any]) -> None:
    """Only another program writes one; it sorts before all numbers, and counts as 0 or as what
    it begins with."""
    _, conn = memories
    with closing(conn.cursor()) as cursor:
        cursor.execute("begin")
        try:
            given = {"id": OF_PAIRS[0]}
            pair = "entity_a_id = 1 and entity_b_id = (select max(entity_b_id) from"
            pair += " co_occurrences where entity_a_id = 1 and entity_b_id < 20000)"
            cursor.execute(f"update co_occurrences set co_count = 'many' where {pair}")
            found = entity_signals._partners(conn, given | {"now": NOW}, Settings())
            assert len(found) == entity_signals.PARTNERS
            assert all(isinstance(row["co_count"], int) for row in found)
            cursor.execute("update entity_access set access_count = 'often' where entity_id = 5")
            cursor.execute("update entity_access set access_count = '999x' where entity_id = 6")
            assert cursor.execute(entity_signals.MOST_ACCESSED).fetchone() == (999,)
        finally:
            cursor.execute("rollback")


def test_days_of_the_log_are_told_as_row_by_row(memories: tuple[Any, Any]) -> None:
    conn, _ = memories
    place = hub("accesses")
    by_row = conn.execute(
        "select substr(accessed_at, 1, 10), count(*), count(query) from entity_access_log"
        f" where entity_id = ? and {usual('accessed_at')} group by 1 order by 1",
        [place],
    ).fetchall()
    found = accesses_of(conn, place)
    assert (list(found.days), found.since) == (by_row, None)
    # looked at, brought in order and counted; usual() alone takes 40 at each
    taken = steps(conn, lambda: accesses_of(conn, place))
    assert taken <= 60 * found.count, (taken, found.count)
