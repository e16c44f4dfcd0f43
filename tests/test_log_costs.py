"""What is asked of the log of searches and of accesses costs the same, however long it is.

Counted in turns of SQLite's virtual machine: unlike a query plan, they also hold what triggers
and foreign keys do, and unlike seconds they are the same on every machine.
"""

from __future__ import annotations

import re
from contextlib import closing, contextmanager

import pytest

from datasette_limbic import (
    access_weeks,
    connection,
    schema,
    search_log,
    signal_figures,
    signals,
)
from datasette_limbic.config import Settings
from datasette_limbic.recording import Recording, write_all

MOMENT = "2027-01-01 00:00:00"
POOL, SHOWN = 20, 5
# One entity that few searches found, among those that all of them found.
RARE = 30
_SEARCHES = f"""with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)
insert into limbic_searches(id, uid, query, mode, strategy, result_limit, now, parameters,
  created_at)
select i, printf('%016x', i), 'query', 'text', 'none', {SHOWN}, '2026-01-01', '{{}}',
  datetime('2020-01-01', '+' || i || ' hours') from n"""
_CANDIDATES = f"""with recursive n(i) as (select 1 union all select i + 1 from n where i < {POOL})
insert into limbic_search_candidates(search_id, entity_id, entity_name, returned, baseline_rank,
  treatment_rank) select s.id, i, 'e' || i, i <= {SHOWN}, i, i from limbic_searches s, n"""
_ACCESSES = """insert into entity_access_log(entity_id, entity_name, query, accessed_at)
select c.entity_id, c.entity_name, s.query, s.created_at from limbic_searches s
join limbic_search_candidates c on c.search_id = s.id where c.returned"""
_EVENTS = """insert into limbic_feedback(search_id, entity_id, entity_name, event)
select id, 1, 'e1', 'useful' from limbic_searches"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Two memories that differ in the length of their logs."""
    made = []
    for searches in (40, 800):
        path = tmp_path_factory.mktemp("log") / f"{searches}.db"
        conn = connection.connect(path, create=True)
        schema.init(conn)
        conn.executemany(
            "insert into entities(id, name) values (?, ?)",
            [(number, f"e{number}") for number in range(1, RARE + 1)],
        )
        conn.execute(_SEARCHES, [searches])
        for statement in (_CANDIDATES, _ACCESSES, _EVENTS):
            conn.execute(statement)
        conn.execute(
            "insert into limbic_feedback(search_id, entity_id, entity_name, event)"
            f" values (7, {RARE}, 'e{RARE}', 'opened')"
        )
        conn.execute(
            "insert into entity_access_log(entity_id, entity_name, accessed_at)"
            f" values ({RARE}, 'e{RARE}', '2026-01-01 00:00:00')"
        )
        conn.commit()
        made.append(conn)
    yield made
    for conn in made:
        conn.close()


def uid(number):
    return f"{number:016x}"


def rows(sql, *values):
    return lambda conn: conn.execute(sql, values).fetchall()


def event(conn):
    assert search_log.add_event(
        conn, uid(9), 3, search_log.USEFUL, client=None, actor=None, moment=MOMENT
    )


def opened(conn):
    assert signals.add_access(conn, [1, 2, 3], None, MOMENT) == 3


ACTIONS = {
    "a search by its id": lambda conn: search_log.search_row(conn, uid(9)),
    "whether it is logged": lambda conn: search_log.is_logged(conn, uid(9)),
    "a candidate by id": lambda conn: search_log.candidate(conn, {"id": 9, "uid": "x"}, 3),
    "a candidate by name": lambda conn: search_log.candidate(conn, {"id": 9, "uid": "x"}, "e3"),
    "the ratings of a search": lambda conn: search_log.ratings(conn, uid(9)),
    "an event": event,
    "an access": opened,
    "what came up together": lambda conn: signals.add_co_occurrences(conn, [1, 2, 3], MOMENT),
    "accesses of an entity": lambda conn: access_weeks.accesses_of(conn, RARE),
    "events of an entity": lambda conn: signal_figures.events(conn, RARE),
    "a search is deleted": rows("delete from limbic_searches where id = 9"),  # as pruning does
    "an entity is deleted": rows(f"delete from entities where id = {RARE}"),
    "an entity is renamed": rows("update entities set name = 'other' where id = 2"),
    "an entity is archived": rows(f"update entities set archived_at = '{MOMENT}' where id = 2"),
}


@contextmanager
def counted(conn, keys="on"):
    """A list that holds how often SQLite's virtual machine jumped meanwhile."""
    conn.execute(f"pragma foreign_keys = {keys}")
    found = [0]

    def one():
        found[0] += 1
        return 0

    conn.set_progress_handler(one, 1)
    try:
        yield found
    finally:
        conn.set_progress_handler(None, 1)


def steps(conn, action, keys="on"):
    """What it takes; taken back afterwards."""
    with counted(conn, keys) as found:
        conn.execute("begin")
        found[0] = 0
        action(conn)
    conn.rollback()
    return found[0]


def is_the_same(few, many):
    """For 20 times the rows: a tree may be one level deeper, and nothing else."""
    return 0 < few <= many <= few * 1.1 + 20


@pytest.mark.parametrize("keys", ["on", "off"])
@pytest.mark.parametrize("name", ACTIONS)
def test_the_length_of_the_log_costs_nothing(name, keys, logs):
    few, many = (steps(conn, ACTIONS[name], keys) for conn in logs)
    assert is_the_same(few, many), (few, many)


@pytest.mark.parametrize(
    ("index", "name"),
    [
        ("limbic_searches_uid", "a search by its id"),
        ("limbic_searches_uid", "an event"),
        ("entity_access_log_entity", "accesses of an entity"),
        ("limbic_feedback_entity", "events of an entity"),
        ("entity_access_log_entity", "an entity is deleted"),
        ("limbic_feedback_entity", "an entity is deleted"),
        ("limbic_feedback_search", "a search is deleted"),
    ],
)
def test_without_its_index_it_does(index, name, logs):
    """The measure sees what an index is for."""
    short, long = logs
    [text] = long.execute("select sql from sqlite_master where name = ?", [index]).fetchone()
    for conn in logs:
        conn.execute(f"drop index {index}")
    try:
        assert not is_the_same(steps(short, ACTIONS[name]), steps(long, ACTIONS[name]))
    finally:
        for conn in logs:
            conn.execute(text)


def test_recording_a_search_costs_its_pool(logs):
    """Whole, as the recorder writes it: the pool, the pairs of what was shown, the search."""
    candidates = tuple((n, f"e{n}", 1, n, n, *[0.5] * 8) for n in range(1, POOL + 1))
    found = []
    for conn in logs:
        entry = Recording(
            tuple(range(1, SHOWN + 1)),
            MOMENT,
            query="q",
            search=search_log.LoggedSearch(
                *("new", "q", "text", "none", SHOWN, MOMENT, "{}", None, "limbic", 1.0),
                *(None, None, candidates),
            ),
        )
        with counted(conn) as number:
            written = write_all(conn, [entry]).written[0]
        assert (written.accesses, written.co_occurrences) == (SHOWN, 10)
        found += number
        conn.execute("delete from limbic_searches where uid = 'new'")
        conn.commit()
    assert is_the_same(*found), found


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        ("select * from limbic_searches where uid = ?", "limbic_searches_uid"),
        (
            "select 1 from entity_access_log where entity_id = ? and accessed_at >= '2026'",
            "entity_access_log_entity",
        ),
        (
            "update limbic_feedback set entity_id = null where entity_id = ?",
            "limbic_feedback_entity",
        ),
        ("select 1 from limbic_feedback where search_id = ?", "limbic_feedback_search"),
    ],
)
def test_the_index_is_the_one_that_was_meant(sql, index, empty_db):
    with closing(connection.connect(empty_db)) as conn:
        plan = " ".join(row[3] for row in conn.execute(f"explain query plan {sql}", ["2026-01-01"]))
    assert re.search(rf"SEARCH \w+ USING (COVERING )?INDEX {index} ", plan), plan


def test_how_many_searches_and_when_is_read_from_the_index(empty_db):
    """Not from the searches, each of which holds its query and all parameters."""
    with closing(connection.connect(empty_db)) as conn:
        asked = []
        conn.set_trace_callback(asked.append)
        signal_figures.signal_figures(conn, Settings())
        conn.set_trace_callback(None)
        plans = [
            " ".join(row[3] for row in conn.execute(f"explain query plan {sql}"))
            for sql in asked
            if "from limbic_searches" in sql and "client" not in sql
        ]
    assert len(plans) >= 1
    for plan in plans:
        assert "limbic_searches USING COVERING INDEX limbic_searches_created" in plan, plan
