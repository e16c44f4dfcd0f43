"""The log out of SQLite: the numbers that were written, and one bad row that spoils no other."""

from __future__ import annotations

import json
import math
import shutil
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from datasette.utils.sqlite import sqlite3
from empty_memory import empty_memory
from hypothesis import given, settings
from hypothesis import strategies as st
from signal_log_helpers import use

from datasette_limbic import connection, search_log, serving, times
from datasette_limbic.config import Settings
from datasette_limbic.errors import NotAMemory
from datasette_limbic.search_log import LoggedSearch
from datasette_limbic.tuning import reading
from datasette_limbic.tuning.labels import REPEATS, LabelPolicy, counts
from datasette_limbic.tuning.log import SOURCES, STRATEGY_NAMES

AT = 1_790_000_000.0
PARAMETERS = {"beta_sal": 0.5, "gamma": 0.01, "unknown_temporal": 0.25, "strategy": "auto"}
FACTORS = ("base", "importance", "temporal_factor", "cooc_boost")


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    path = empty_memory(tmp_path_factory.mktemp("reading") / "memory.db")
    with closing(connection.connect(path)) as conn, conn:
        conn.executemany(
            "insert into entities(id, name) values (?, ?)", [(i, f"e{i}") for i in range(1, 10)]
        )
    return path


@pytest.fixture
def conn(master, tmp_path):
    with closing(connection.connect(shutil.copy(master, tmp_path / "memory.db"))) as conn:
        yield conn


def candidate(entity: int, rank: int, **given: Any) -> tuple[Any, ...]:
    """A row as ``search_log`` writes it."""
    values = {
        "name": f"e{entity}",
        "baseline": rank,
        "cosine_sim": None,
        "rrf_score": None,
        "base": 0.9 / rank,
        "importance": 0.1 * rank,
        "temporal_factor": 0.7,
        "cooc_boost": 1.5,
        "limbic_score": 0.5,
        "final_score": 0.5,
        **given,
    }
    name, baseline = values.pop("name"), values.pop("baseline")
    return (entity, name, int(rank <= 2), baseline, rank, *values.values())


def searched(number: int, **given: Any) -> LoggedSearch:
    return LoggedSearch(
        **{
            "uid": f"{number:016x}",
            "query": f"query {number}",
            "mode": "hybrid",
            "strategy": "hybrid_balanced",
            "limit": 2,
            "now": "",
            "parameters": json.dumps(PARAMETERS),
            "parameters_version": None,
            "policy": "limbic",
            "probability": 1.0,
            "client": "me",
            "actor": "root",
            "candidates": tuple(candidate(entity, entity) for entity in (1, 2, 3)),
            **given,
        }
    )


def add(conn: Any, *given: LoggedSearch, at: float = AT) -> None:
    """These searches, an hour and a minute apart."""
    with conn:
        for number, each in enumerate(given):
            search_log.add_search(conn, each, times.to_sql(at + 3660 * number) or "")


def damage(conn: Any, *statements: str) -> None:
    """Past every check, as any program may."""
    conn.execute("pragma foreign_keys = off")
    conn.execute("pragma ignore_check_constraints = on")
    with conn:
        for statement in statements:
            conn.execute(statement)


# -- what was written ----------------------------------------------------------------------------


def test_every_column(conn):
    add(
        conn,
        searched(
            1,
            query="  ¿Dónde\x00está\tel  GEOCODER? ",
            strategy="limbic",
            policy="baseline",
            probability=0.25,
            candidates=(
                candidate(7, 1, baseline=2),
                candidate(3, 2, baseline=1, temporal_factor=None, cosine_sim=None),
            ),
        ),
        searched(2, client=None, limit=7, probability=0.75),
        searched(3, client=None, actor=None),
    )
    log = reading.read(conn)
    assert log.left_out == {}
    assert log.id.tolist() == [1, 2, 3]
    assert log.query == ("¿donde esta el geocoder?", "query 2", "query 3")
    assert log.client == ("me", "root", None)
    assert log.at.tolist() == [AT, AT + 3660, AT + 7320]
    assert [STRATEGY_NAMES[i] for i in log.strategy] == ["limbic", *["hybrid_balanced"] * 2]
    assert log.limit.tolist() == [2, 7, 2]
    assert (log.beta_sal.tolist(), log.gamma.tolist()) == ([0.5] * 3, [0.01] * 3)
    assert log.limbic.tolist() == [False, True, True]
    assert log.baseline_share.tolist() == [0.25, 0.25, 0]
    assert log.version.tolist() == [0, 0, 0]
    assert log.start.tolist() == [0, 2, 5, 8]
    # in order of their ids, whatever their rank
    assert log.entity.tolist() == [3, 7, 1, 2, 3, 1, 2, 3]
    assert log.base[:2].tolist() == [0.45, 0.9]
    assert log.importance[:2].tolist() == [0.2, 0.1]
    assert log.temporal[:3].tolist() == [0.25, 0.7, 0.7]
    assert log.cooc[:2].tolist() == [1.5, 1.5]
    assert log.baseline_rank.tolist()[:2] == [1, 2]
    assert log.limbic_rank.tolist()[:2] == [2, 1]
    assert {log.at.dtype, log.base.dtype, log.gain.dtype} == {np.dtype("float64")}
    assert {log.id.dtype, log.entity.dtype, log.start.dtype} == {np.dtype("int64")}


def test_by_time_then_by_id(conn):
    add(conn, *(searched(number) for number in range(1, 6)))
    for number, at in ((1, 500), (2, 100), (3, 500), (4, 100), (5, 300)):
        conn.execute(
            "update limbic_searches set created_at = ? where id = ?", [at + 1_790_000_000, number]
        )
    log = reading.read(conn)
    assert log.id.tolist() == [2, 4, 5, 1, 3]
    assert log.entity.tolist() == [1, 2, 3] * 5


def test_until(conn):
    add(conn, *(searched(number) for number in range(1, 6)))
    assert reading.read(conn, until=3).id.tolist() == [1, 2, 3]
    assert len(reading.read(conn, until=0)) == 0
    assert len(reading.read(conn, until=2**63 - 1)) == 5


def test_an_empty_log(conn):
    log = reading.read(conn, progress=lambda done, total: None)
    assert (len(log), len(log.entity), log.start.tolist(), log.left_out) == (0, 0, [0], {})
    assert counts(log)["searches"] == 0


def test_progress_ends_at_all_of_them(conn, monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 4)
    add(conn, *(searched(number) for number in range(1, 6)))
    said: list[tuple[int, int]] = []
    log = reading.read(conn, progress=lambda done, total: said.append((done, total)))
    assert len(log) == 5
    assert said == sorted(said)
    assert len(said) == 5
    assert said[-1] == (5, 5)


def test_a_file_for_reading_alone_is_read_and_left_as_it_was(conn, tmp_path):
    add(conn, searched(1))
    with closing(connection.connect(tmp_path / "memory.db", readonly=True)) as other:
        other.row_factory = sqlite3.Row
        factories = other.text_factory, other.row_factory
        before = other.total_changes
        assert len(reading.read(other)) == 1
        assert (other.text_factory, other.row_factory) == factories
        assert not other.in_transaction
        assert other.total_changes == before


def test_a_file_that_is_no_memory(tmp_path):
    with (
        closing(connection.connect(tmp_path / "other.db", create=True)) as other,
        pytest.raises(NotAMemory),
    ):
        reading.read(other)


def test_a_few_queries_whatever_the_length(conn):
    asked: list[list[str]] = []
    for numbers in (range(1, 3), range(3, 40)):
        add(conn, *(searched(number) for number in numbers))
        for number in numbers:
            event(conn, number, 1, "useful", 3660 * number)
        asked.append([])
        conn.set_trace_callback(asked[-1].append)
        reading.read(conn)
        conn.set_trace_callback(None)
    assert len(asked[0]) == len(asked[1])


def test_it_is_one_moment(conn, tmp_path, monkeypatch):
    """What others write meanwhile is not half here."""
    add(conn, searched(1), searched(2))
    conn.execute("pragma journal_mode = wal")
    candidates = reading._candidates

    def meanwhile(*args: Any) -> Any:
        with closing(connection.connect(tmp_path / "memory.db")) as other, other:
            other.execute("delete from limbic_searches where id = 1")
            search_log.add_event(
                other, f"{2:016x}", 1, "useful", client=None, actor=None, moment=""
            )
        return candidates(*args)

    monkeypatch.setattr(reading, "_candidates", meanwhile)
    log = reading.read(conn)
    assert (len(log), log.left_out) == (2, {})
    assert counts(log)["labelled"] == 0


# -- versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "parameters", "hours", "expected"),
    [
        (None, {}, -1, 0),  # before there was one
        (None, {}, 1, -1),  # the caller's own
        (1, {}, 1, 1),
        (2, {"beta_sal": 0.6}, 1, 2),
        (2, {}, 1, -1),  # says 2, and is not
        (1, {"gamma": 0.010000001}, 1, -1),
        (7, {}, 1, -1),  # no such version
        ("one", {}, 1, -1),
    ],
)
def test_which_version_ranked(version, parameters, hours, expected, conn):
    with conn:
        conn.executemany(
            "insert into limbic_parameters(version, beta_sal, gamma, source, created_at)"
            " values (?, ?, 0.01, 'manual', ?)",
            [(1, 0.5, times.to_sql(AT)), (2, 0.6, times.to_sql(AT + 10))],
        )
    add(
        conn,
        searched(1, parameters=json.dumps({**PARAMETERS, **parameters})),
        at=AT + 3600 * hours,
    )
    conn.execute("pragma foreign_keys = off")
    conn.execute("update limbic_searches set parameters_version = ?", [version])
    log = reading.read(conn)
    assert (log.version.tolist(), log.left_out) == ([expected], {})
    # whatever the version, the values are those that ranked
    assert log.beta_sal.tolist() == [parameters.get("beta_sal", 0.5)]


def test_a_version_of_which_nobody_knows_when(conn):
    with conn:
        conn.execute(
            "insert into limbic_parameters(version, beta_sal, gamma, source, created_at)"
            " values (1, 0.5, 0.01, 'manual', 'then')"
        )
    add(conn, searched(1))
    assert reading.read(conn).version.tolist() == [-1]


# -- what is left out ----------------------------------------------------------------------------

SEARCH = "update limbic_searches set {} where id = 2"
CANDIDATE = "update limbic_search_candidates set {} where search_id = 2 and entity_id = 3"


def parameters(**changed: Any) -> str:
    return SEARCH.format(f"parameters = '{json.dumps({**PARAMETERS, **changed})}'")


BAD: dict[str, tuple[str, tuple[str, ...]]] = {
    "time": (
        reading.BAD_TIME,
        (
            *(SEARCH.format(f"created_at = {v}") for v in ("'then'", "''", "x'ff'", "9e999")),
            *(SEARCH.format(f"created_at = {v}") for v in ("'2026-02-31'", "9223372036854775807")),
        ),
    ),
    "query": (
        reading.NO_QUERY,
        tuple(SEARCH.format(f"query = {v}") for v in ("''", "' '", "char(9, 0, 10)", "x''")),
    ),
    "strategy": (
        reading.BAD_STRATEGY,
        tuple(
            SEARCH.format(f"strategy = {v}") for v in ("'none'", "'auto'", "x'ff'", "5", "'LIMBIC'")
        ),
    ),
    "limit": (
        reading.BAD_LIMIT,
        tuple(SEARCH.format(f"result_limit = {v}") for v in ("0", "-3", "'ten'", "2.5", "x'01'")),
    ),
    "serving": (
        reading.BAD_SERVING,
        (
            *(SEARCH.format(f"policy = {v}") for v in ("'random'", "'baseline'", "x'6c'", "''")),
            *(SEARCH.format(f"treatment = {v}") for v in ("0", "7", "'yes'")),
            *(SEARCH.format(f"probability = {v}") for v in ("0", "1.5", "-1", "'half'", "x'31'")),
            *(SEARCH.format(f"probability = {v}") for v in ("9e999", "-9e999")),
            # one that is as good as none would have all the weight
            *(SEARCH.format(f"probability = {v}") for v in ("9e-7", "1e-300", "5e-324")),
        ),
    ),
    "parameters": (
        reading.BAD_PARAMETERS,
        (
            *(
                SEARCH.format(f"parameters = {v}")
                for v in ("''", "'{}'", "'[]'", "'nope'", "'null'", "5", "x'ff'", "'\"text\"'")
            ),
            SEARCH.format('parameters = \'{"beta_sal": 1, "gamma": 1e999}\''),
            SEARCH.format(f"parameters = '{'[' * 200_000}'"),
            SEARCH.format(f"parameters = '{'9' * 10_000}'"),
            *(parameters(beta_sal=v) for v in (None, "0.5", True, -1, 11, math.nan, [], 10**400)),
            *(parameters(gamma=v) for v in (None, "x", -0.01, math.inf)),
            *(parameters(unknown_temporal=v) for v in (None, "x", 2)),
        ),
    ),
    "pool": (
        reading.NO_POOL,
        (
            "delete from limbic_search_candidates where search_id = 2",
            "update limbic_search_candidates set search_id = 'x' where search_id = 2",
            "update limbic_search_candidates set search_id = 2.5 where search_id = 2",
        ),
    ),
    "factors": (
        reading.BAD_FACTORS,
        (
            *(
                CANDIDATE.format(f"{name} = {v}")
                for name in FACTORS
                for v in ("9e999", "-9e999", "'nan'", "'inf'", "'much'", "x'31'", "''")
            ),
            # finite, and infinite as soon as they are multiplied
            *(CANDIDATE.format(f"{name} = {v}") for name in FACTORS for v in ("1e308", "-1e308")),
            CANDIDATE.format("base = 1e200, importance = 1e200"),
            *(CANDIDATE.format(f"{name} = null") for name in ("base", "importance", "cooc_boost")),
            *(CANDIDATE.format(f"entity_id = {v}") for v in ("'x'", "2.5", "x'03'")),
        ),
    ),
    "ranks": (
        reading.BAD_RANKS,
        (
            *(
                CANDIDATE.format(f"{name} = {v}")
                for name in ("baseline_rank", "treatment_rank")
                for v in ("0", "2", "4", "-3", "'x'", "x'03'", "2.5", "9223372036854775807")
            ),
            "delete from limbic_search_candidates where search_id = 2 and entity_id = 2",
        ),
    ),
}


@pytest.mark.parametrize(
    ("reason", "statement"),
    [(reason, each) for reason, some in BAD.values() for each in some],
    ids=[f"{name} {n}" for name, (_, some) in BAD.items() for n in range(len(some))],
)
def test_one_bad_row_spoils_no_other(reason, statement, conn):
    add(conn, searched(1), searched(2), searched(3))
    whole = reading.read(conn)
    damage(conn, statement)
    log = reading.read(conn)
    assert log.left_out == {reason: 1}
    assert log.id.tolist() == [1, 3]
    same = whole.select(whole.id != 2)
    assert log.query == same.query
    for name in ("at", "start", "entity", "base", "temporal", "limbic_rank", "gain"):
        assert np.array_equal(getattr(log, name), getattr(same, name), equal_nan=True), name


FINE: dict[str, str] = {
    "cosine_sim": CANDIDATE.format("cosine_sim = null"),
    "nothing that is not read": CANDIDATE.format("rrf_score = 'x', limbic_score = x'ff'"),
    "a time of a known kind": SEARCH.format("created_at = '2026-09-21T15:30:00+01:00'"),
    "a limit of any size": SEARCH.format("result_limit = 9223372036854775807"),
    "a query that is no UTF-8": SEARCH.format("query = cast(x'61ff62' as text)"),
    "a query of bytes": SEARCH.format("query = x'61ff'"),
    "a client that is no UTF-8": SEARCH.format("client = cast(x'ff' as text)"),
    "a client of bytes": SEARCH.format("client = x'ff00'"),
    "whole numbers for factors": CANDIDATE.format("base = 1, importance = 0, cooc_boost = 3"),
    "factors that are large": CANDIDATE.format(
        "base = 1e100, importance = 1e100, cooc_boost = 1e90"
    ),
    "a probability that is small": SEARCH.format("probability = 1e-6"),
    "a parameter more": parameters(recency="access"),
    "whole numbers for parameters": parameters(beta_sal=1, gamma=0),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_unusual_and_can_be_read(name, conn):
    add(conn, searched(1), searched(2))
    damage(conn, FINE[name])
    log = reading.read(conn)
    assert (len(log), log.left_out) == (2, {})
    assert np.isfinite(log.base).all()
    json.dumps([log.query, log.client], ensure_ascii=False).encode()


def test_each_reason_is_counted(conn):
    add(conn, *(searched(number) for number in range(1, 10)))
    conn.execute(
        "update limbic_searches set query = 'same', created_at = ? where id in (7, 8)", [AT]
    )
    damage(
        conn,
        "update limbic_searches set strategy = 'x' where id in (1, 2)",
        "update limbic_search_candidates set base = null where search_id in (3, 4, 5)",
        "delete from limbic_search_candidates where search_id = 6",
    )
    log = reading.read(conn)
    assert log.id.tolist() == [7, 9]
    assert log.left_out == {
        reading.BAD_STRATEGY: 2,
        reading.BAD_FACTORS: 3,
        reading.NO_POOL: 1,
        REPEATS: 1,
    }


# -- labels --------------------------------------------------------------------------------------


def event(conn: Any, number: int, entity: int, kind: str, seconds: float, client: str = "me"):
    with conn:
        written = search_log.add_event(
            conn,
            f"{number:016x}",
            entity,
            kind,
            client=client,
            actor=None,
            moment=times.to_sql(AT + seconds) or "",
        )
    assert written


def labels(log: Any) -> dict[tuple[int, int], str]:
    return {
        (int(log.id[log.of[row]]), int(log.entity[row])): SOURCES[log.source[row]]
        for row in np.flatnonzero(log.source)
    }


def opened(conn: Any, entities: list[int], seconds: float, **who: str | None) -> None:
    """By name."""
    moment = times.to_sql(AT + seconds) or ""
    with conn:
        given_ = {"client": None, "actor": None, **who}
        assert search_log.add_openings(conn, entities, moment=moment, **given_)


def test_the_last_rating_and_who_came_back(conn):
    add(conn, searched(1), searched(2, client="you"))
    # so that it is known how often they are opened by chance
    opened(conn, [1, 2, 3], -900_000, client="me")
    event(conn, 1, 1, "useful", 5)
    event(conn, 1, 1, "not_useful", 6)
    event(conn, 2, 2, "opened", 4000)
    opened(conn, [2, 3], 60, client="me")
    assert labels(reading.read(conn)) == {
        (1, 1): "not_useful",
        (1, 2): "reaccessed",
        (2, 2): "opened",
    }
    assert labels(reading.read(conn, policy=LabelPolicy(reaccess_hours=0))) == {
        (1, 1): "not_useful",
        (2, 2): "opened",
    }


def test_an_actor_comes_back_too(conn):
    add(conn, searched(1, client=None, actor="ana"))
    opened(conn, [1, 2, 3], -900_000, actor="ana")
    opened(conn, [1], 60, actor="ana")
    opened(conn, [2], 60, actor="ana", client="shell")
    assert labels(reading.read(conn)) == {(1, 1): "reaccessed"}


def test_what_was_deleted_since_keeps_its_label(conn):
    add(conn, searched(1), searched(2))
    event(conn, 1, 2, "useful", 5)
    event(conn, 2, 2, "opened", 4000)
    with conn:
        conn.execute("delete from entities where id = 2")
    assert labels(reading.read(conn)) == {(1, 2): "useful", (2, 2): "opened"}


def test_events_that_cannot_be_read(conn):
    add(conn, searched(1), searched(2))
    event(conn, 1, 1, "opened", 5)
    insert = (
        "insert into limbic_feedback(search_id, entity_id, entity_name, event, client, created_at)"
        " values ({})"
    )
    damage(
        conn,
        insert.format("1, 2, 'e2', 'liked', 'me', '2026-09-21'"),
        insert.format("1, 2, 'e2', x'ff', 'me', '2026-09-21'"),
        insert.format("'x', 2, 'e2', 'useful', 'me', '2026-09-21'"),
        insert.format("1, 'x', 'nobody', 'useful', 'me', '2026-09-21'"),
        insert.format("1, null, 'nobody', 'useful', 'me', '2026-09-21'"),
        insert.format("1, 99, 'e99', 'useful', 'me', '2026-09-21'"),
        insert.format("null, 2, 'e2', 'opened', cast(x'ff' as text), 'soon'"),
        insert.format("null, 2, 'e2', 'opened', 'me', x'ff'"),
        # this one can: the time of a rating says nothing
        insert.format("2, 3, x'ff', 'useful', x'ff', 'never'"),
    )
    log = reading.read(conn)
    assert labels(log) == {(1, 1): "opened", (2, 3): "useful"}
    assert log.left_out == {}


def test_ratings_of_a_search_that_is_left_out(conn):
    add(conn, searched(1), searched(2, policy="baseline"))
    event(conn, 2, 1, "useful", 4000)
    damage(conn, SEARCH.format("strategy = 'x'"))
    assert labels(reading.read(conn)) == {}


# -- real ones -----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_searches_that_were_really_recorded(share, demo_db):
    settings_ = Settings(baseline_share=share)
    with closing(connection.connect(demo_db)) as conn:
        serving.open_nodes(conn, ids=range(1, 100), client="test")
        use(conn, 3, settings=settings_)
        last = serving.search_semantic(
            conn, "tea", 3, client="test", settings=settings_, gamma=0.5, strategy="cosine_heavy"
        )
        shown = [row["id"] for row in last["results"]]
        serving.open_nodes(conn, ids=[shown[1]], client="test")
        serving.open_nodes(conn, ids=[shown[2]], client="another")
        log = reading.read(conn, policy=LabelPolicy(repeat_minutes=0))
        assert (len(log), log.left_out) == (4, {})
        assert log.baseline_share.tolist() == pytest.approx([share] * 3 + [0])
        assert log.gamma.tolist() == [0.01] * 3 + [0.5]
        assert STRATEGY_NAMES[log.strategy[3]] == "cosine_heavy"
        policies = conn.execute("select policy = 'limbic' from limbic_searches").fetchall()
        assert log.limbic.tolist() == [bool(row[0]) for row in policies]
        # unrounded, and what was shown is what was returned
        rows = conn.execute(
            "select base, importance, temporal_factor, cooc_boost, returned, final_score"
            " from limbic_search_candidates order by search_id, entity_id"
        ).fetchall()
        for place, values in enumerate((log.base, log.importance, log.temporal, log.cooc)):
            assert values.tolist() == [row[place] for row in rows]
        assert log.shown.tolist() == [bool(row[4]) for row in rows]
        found = labels(log)
    firsts = [source for (search, _), source in found.items() if search < 4]
    assert firsts.count("useful") == 2
    assert firsts.count("not_useful") == 1
    assert {entity for search, entity in found if search == 4} == {shown[1]}
    assert found[4, shown[1]] == "reaccessed"


def test_the_same_query_is_one_search(demo_db):
    with closing(connection.connect(demo_db)) as conn:
        for query in ("Tea", "tea ", "TEA"):
            answer = serving.search_semantic(conn, query, 3, client="test")
        serving.rate(conn, answer["search_id"], answer["results"][0]["id"], "useful")
        log = reading.read(conn)
    assert (log.id.tolist(), log.left_out) == ([1], {REPEATS: 2})
    assert counts(log)["labels"]["useful"] == 1


# -- any of them ---------------------------------------------------------------------------------

_NUMBER = st.floats(0, 1e6)


@st.composite
def _pools(draw: st.DrawFn) -> tuple[tuple[Any, ...], ...]:
    entities = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6, unique=True))
    order = draw(st.permutations(range(1, len(entities) + 1)))
    return tuple(
        candidate(
            entity,
            rank,
            baseline=baseline,
            base=draw(st.floats(0, 1)),
            importance=draw(_NUMBER),
            temporal_factor=draw(st.one_of(st.none(), st.floats(0, 1))),
            cooc_boost=draw(_NUMBER),
        )
        for rank, (entity, baseline) in enumerate(zip(entities, order, strict=True), 1)
    )


@given(
    pools=st.lists(_pools(), min_size=1, max_size=4),
    limit=st.integers(1, 100),
    beta=st.floats(0, 10),
    gamma=st.floats(0, 10),
    unknown=st.floats(0, 1),
    strategy=st.sampled_from(STRATEGY_NAMES),
    policy=st.sampled_from(["limbic", "baseline"]),
    probability=st.floats(reading.LEAST_CHANCE, 1),
    query=st.text(min_size=1).filter(lambda text: text.strip("\x00").strip()),
)
@settings(max_examples=40, deadline=None)
def test_what_was_written_is_read(
    master, pools, limit, beta, gamma, unknown, strategy, policy, probability, query
):
    given_parameters = {"beta_sal": beta, "gamma": gamma, "unknown_temporal": unknown}
    with closing(connection.connect(master)) as conn:
        conn.execute("begin")
        for number, pool in enumerate(pools):
            search_log.add_search(
                conn,
                searched(
                    number,
                    query=query.encode("utf-8", "replace").decode(),
                    client=f"c{number}",
                    limit=limit,
                    parameters=json.dumps(given_parameters),
                    strategy=strategy,
                    policy=policy,
                    probability=probability,
                    candidates=pool,
                ),
                times.to_sql(AT + number) or "",
            )
        log = reading.read(conn)
        conn.rollback()
    if not log.query:
        # what folds to nothing, such as a combining accent alone, is no query
        assert log.left_out == {reading.NO_QUERY: len(pools)}
        return
    assert log.left_out == {}
    assert log.beta_sal.tolist() == [beta] * len(pools)
    assert log.gamma.tolist() == [gamma] * len(pools)
    assert log.limit.tolist() == [limit] * len(pools)
    assert {STRATEGY_NAMES[i] for i in log.strategy} == {strategy}
    share = probability if policy == "baseline" else 1 - probability
    assert log.baseline_share.tolist() == [share] * len(pools)
    rows = [sorted(pool) for pool in pools]
    assert np.diff(log.start).tolist() == [len(pool) for pool in rows]
    flat = [row for pool in rows for row in pool]
    assert log.entity.tolist() == [row[0] for row in flat]
    assert log.baseline_rank.tolist() == [row[3] for row in flat]
    assert log.limbic_rank.tolist() == [row[4] for row in flat]
    assert log.base.tolist() == [row[7] for row in flat]
    assert log.importance.tolist() == [row[8] for row in flat]
    assert log.temporal.tolist() == [unknown if row[9] is None else row[9] for row in flat]
    assert log.cooc.tolist() == [row[10] for row in flat]
