from __future__ import annotations

import json
import logging
import math
from pathlib import Path

import pytest
from datasette.utils.sqlite import sqlite3

from datasette_limbic import scoring
from datasette_limbic.scoring import EXPANSION_FACTOR, Parameters, rank_hybrid_candidates
from datasette_limbic.sql_functions import FUNCTIONS, register
from datasette_limbic.times import parse_time, to_sql

REFERENCE_DIR = Path(__file__).parent / "reference"
REFERENCE = json.loads((REFERENCE_DIR / "scoring.json").read_text("utf-8"))
RANKINGS = json.loads((REFERENCE_DIR / "ranking.json").read_text("utf-8"))["cases"]
ROUTES = json.loads((REFERENCE_DIR / "routing.json").read_text("utf-8"))["cases"]
NOW = "2026-11-29T12:00:00Z"
EPOCH = parse_time(NOW)


@pytest.fixture
def conn():
    connection = sqlite3.connect(":memory:")
    register(connection)
    yield connection
    connection.close()


def call(connection, name, *args):
    marks = ", ".join("?" * len(args))
    return connection.execute(f"select {name}({marks})", args).fetchone()[0]


def close(expected):
    return pytest.approx(expected, rel=1e-9, abs=0) if isinstance(expected, float) else expected


def hours_ago(hours):
    return None if hours is None else to_sql(EPOCH - 3600 * hours)


# The reference values, once as numbers and once as the text a form sends

DIRECT = {
    "cosine_sim(distance)": "cosine_sim",
    "importance(access_count, max_access, degree)": "limbic_importance",
    "temporal_factor(last_access, created_at, now)": "temporal_factor",
    "limbic_score(base, importance, temporal_factor, cooc_boost)": "limbic_score",
    "rrf(rank, rank, ...)": "rrf",
    "consolidation_importance(total_accesses, days)": "consolidation_importance",
    "limbic_blend(strategy, base, limbic_norm)": "limbic_blend",
    "text_containment(a, b)": "text_containment",
}
DIRECT_CASES = [
    pytest.param(name, case["args"], case["expect"], id=f"{name}-{case['args']}")
    for key, name in DIRECT.items()
    for case in REFERENCE[key]
]


@pytest.mark.parametrize(("name", "args", "expected"), DIRECT_CASES)
@pytest.mark.parametrize("as_text", [False, True])
def test_reference(conn, name, args, expected, as_text):
    if as_text:
        args = [str(arg) if isinstance(arg, (int, float)) else arg for arg in args]
    assert call(conn, name, *args) == close(expected)


@pytest.mark.parametrize("case", REFERENCE["temporal_factor(hours since last access)"], ids=str)
def test_reference_temporal_factor_by_hours(conn, case):
    last = hours_ago(case["args"][0])
    assert call(conn, "temporal_factor", last, None, NOW) == close(case["expect"])


@pytest.mark.parametrize("case", REFERENCE["temporal_score(age_days, half_life_days, degree)"])
def test_reference_temporal_score(conn, case):
    days, half_life, degree = case["args"]
    last = None if days is None else hours_ago(24 * days)
    assert call(conn, "temporal_score", last, half_life, degree, NOW) == close(case["expect"])


@pytest.mark.parametrize("case", REFERENCE["cooc_boost([(co_count, hours since last_co)])"])
def test_reference_cooc_boost(conn, case):
    pairs = [(count, hours_ago(hours)) for count, hours in case["args"][0]]
    values = ", ".join("(?, ?)" for _ in pairs) or "(null, null)"
    sql = f"with p(n, t) as (values {values}) select cooc_boost(n, t, '{NOW}') from p"
    arguments = [value for pair in pairs for value in pair]
    assert conn.execute(sql, arguments).fetchone()[0] == close(case["expect"])


@pytest.mark.parametrize(("query", "limit", "expected"), ROUTES)
def test_reference_routes(conn, query, limit, expected):
    assert call(conn, "limbic_route", query, limit) == expected
    assert call(conn, "limbic_route", query, str(limit)) == expected


RANKING_SQL = """
with pool as (
  select c.*,
    case when distance is null then
      0.2 + 0.6 * coalesce((score - min(score) over ()) / nullif(max(score) over ()
        - min(score) over (), 0), 1) else cosine_sim(distance) end as base
  from (select *, rrf(knn_rank, fts_rank) as score from candidates) c
),
factors as (
  select id, base, score as rrf_score,
    limbic_importance(access, max(access) over (), degree) as importance,
    temporal_factor(last_access, null, :now) as temporal_factor,
    coalesce((
      select cooc_boost(n, t, :now) from pairs where pairs.id = pool.id
        and other in (select id from candidates)
    ), 0.0) as cooc_boost
  from pool
),
scored as (
  select *, limbic_score(base, importance, temporal_factor, cooc_boost) as limbic_score
  from factors
),
normed as (
  select *, coalesce((limbic_score - min(limbic_score) over ()) / nullif(max(limbic_score) over ()
    - min(limbic_score) over (), 0), 1.0) as limbic_norm
  from scored
)
select *, limbic_blend(:strategy, base,
  case when :strategy = 'limbic' then limbic_score else limbic_norm end) as final_score
from normed order by final_score desc, id
"""


@pytest.mark.parametrize("number", range(len(RANKINGS)))
def test_reference_rankings_in_sql(conn, number):
    case = RANKINGS[number]
    conn.row_factory = sqlite3.Row
    conn.execute(
        "create table candidates(id, distance, access, degree, last_access, knn_rank, fts_rank)"
    )
    conn.execute("create table pairs(id, other, n, t)")
    for c in case["candidates"]:
        values = [c["id"], c["distance"], c["access"], c["degree"], hours_ago(c["hours"])]
        conn.execute(
            "insert into candidates values (?, ?, ?, ?, ?, ?, ?)",
            [*values, c["knn_rank"], c["fts_rank"]],
        )
        conn.executemany(
            "insert into pairs values (?, ?, ?, ?)",
            [(c["id"], int(o), n, hours_ago(h)) for o, (n, h) in c["cooc"].items()],
        )
    rows = conn.execute(RANKING_SQL, {"now": NOW, "strategy": case["strategy"]}).fetchall()
    assert [row["id"] for row in rows] == [expected["id"] for expected in case["expect"]]
    for row, expected in zip(rows, case["expect"], strict=True):
        for name in expected.keys() - {"id", "rrf_score"}:
            assert row[name] == close(expected[name]), (row["id"], name)


# NULL, '', text, trailing arguments


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("limbic_score(null, 1, 1, 1)", None),
        ("limbic_score(1, null, 1, 1)", None),
        ("limbic_score(1, 1, null, 0)", 0.75),
        ("limbic_score(1, 1, 1, null)", 1.5),
        ("limbic_score(1, 1, 1, 1, '', '')", 1.515),
        ("limbic_score(1, 1, 1, 1, 1, 1)", 4.0),
        ("limbic_score('1', '1', '1', '1', '1')", 2.02),
        ("cosine_sim('')", None),
        ("cosine_sim('0.25')", 0.75),
        ("limbic_importance(null, 1, 1)", None),
        ("limbic_importance(1, null, 1)", None),
        ("limbic_importance(1, 1, null)", None),
        ("limbic_importance(1, 1, 15, '', '')", 1.15),
        ("limbic_importance(1, 1, 15, 1)", 2.0),
        ("limbic_importance(1, 1, 15, 1, 30)", 1.5),
        ("temporal_factor(null, null)", None),
        ("temporal_factor('', '', '')", None),
        ("temporal_factor('2026-11-28', null, '2026-11-29', 1)", 0.1),
        ("temporal_factor('2026-11-28', null, '2026-11-29', 1, 0)", math.exp(-24)),
        ("temporal_factor('2999-01-01', null)", 1.0),
        ("temporal_score(null, 180)", None),
        ("temporal_score('nonsense', 180, 0, '2026-11-29')", None),
        ("temporal_score('2000-01-01', null)", 1.0),
        ("temporal_score('2000-01-01', '')", 1.0),
        ("temporal_score('2026-11-19', 10, null, '2026-11-29')", 0.5),
        ("temporal_score('2026-11-19', 10, '', '2026-11-29')", 0.5),
        ("temporal_score('2999-01-01', 10, 3)", 1.0),
        ("rrf(null)", None),
        ("rrf('', 1)", 1 / 61),
        ("limbic_rrf(0, 1, 2)", 1.5),
        ("limbic_rrf(null, 1)", 1 / 61),
        ("limbic_rrf('', 1)", 1 / 61),
        ("limbic_rrf(10, null)", None),
        ("limbic_blend(null, 1, 1)", None),
        ("limbic_blend('limbic_heavy', null, 1)", None),
        ("limbic_blend('limbic', 0.3, 1.7)", 1.7),
        ("limbic_half_life('Proyecto')", 180.0),
        ("limbic_half_life('insight')", 30.0),
        ("limbic_half_life('DOMINIO')", None),
        ("limbic_half_life(null)", None),
        ("limbic_threshold('Sesión')", 15),
        ("limbic_threshold('PROYECTO')", 25),
        ("limbic_threshold('anything')", 20),
        ("limbic_threshold(null)", None),
        ("limbic_hours('2026-11-28', '2026-11-29')", 24.0),
        ("limbic_hours('2027-11-28', '2026-11-29')", 0.0),
        ("limbic_hours(null)", None),
        ("limbic_hours('2999-01-01')", 0.0),
        ("limbic_route(null, 10)", None),
        ("limbic_route('x', null)", None),
        ("limbic_embed('text')", None),
        ("limbic_embed('text', 'entities')", None),
        ("limbic_fts_query(null)", None),
        ("limbic_fts_query('')", ""),
        ("limbic_fts_query('the POL-358')", '"POL-358"'),
        ("limbic_fts_query(42)", '"42"'),
        ("limbic_fts_terms(null)", None),
        (
            "limbic_fts_terms('té x')",
            '[{"match": "\\"té\\"", "tokens": ["te"], "cjk": false}, '
            '{"match": "\\"x\\"", "tokens": ["x"], "cjk": false}]',
        ),
        ("limbic_cjk_runs('a用户b')", '["用户"]'),
        ("limbic_cjk_runs(null)", None),
        ("consolidation_importance(null, 1)", None),
        ("consolidation_importance(5, null)", None),
        ("text_containment(null, 'a')", None),
        ("text_containment('1 2', 12)", 0.0),
    ],
)
def test_values(conn, sql, expected):
    assert conn.execute(f"select {sql}").fetchone()[0] == close(expected)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("limbic_score('high', 1, 1, 1)", "limbic_score(): base must be a number, not 'high'"),
        ("limbic_score(1, 1, 1, 1, -1)", "limbic_score(): beta_sal must be 0 or more, not -1"),
        ("limbic_score(x'00', 1, 1, 1)", "base must be a number, not a blob"),
        ("limbic_score('nan', 1, 1, 1)", "base must be a number, not 'nan'"),
        ("limbic_importance(1, 1, 1, 1, 0)", "d_max must be 1 or more, not 0"),
        ("temporal_factor(1, 1, 'soon')", "temporal_factor(): now must be a time, not 'soon'"),
        ("temporal_factor(1, 1, 1, 1, 2)", "floor must be from 0 to 1, not 2"),
        ("temporal_score('2026-01-01', -1)", "half_life_days must be above 0, not -1"),
        ("temporal_factor(1, 1, 1, -1)", "lambda_hourly must be 0 or more, not -1"),
        ("rrf(0)", "rrf(): rank must be 1 or more, not 0"),
        ("rrf()", "rrf takes at least one rank"),
        ("limbic_rrf(60)", "limbic_rrf takes k and at least one rank"),
        ("limbic_rrf(-1, 1)", "k must be 0 or more, not -1"),
        ("limbic_blend('best', 1, 1)", "Unknown strategy 'best'"),
        ("limbic_fts_query(x'ff')", "text must be text, not a blob"),
        ("limbic_hours('2026-01-01', 'soon')", "now must be a time, not 'soon'"),
        ("cooc_boost('many', null)", "cooc_boost(): co_count must be a number, not 'many'"),
        ("cooc_term('many', null)", "cooc_term(): co_count must be a number, not 'many'"),
        ("cooc_term(1, null, 'x')", "cooc_term(): now must be a time, not 'x'"),
        ("cooc_term(1, null, '', -1)", "cooc_term(): lambda_hourly must be 0 or more, not -1"),
        ("limbic_arg(-1, 2.0, 0)", "limbic_arg(): value must be 0 or more, not -1"),
        ("limbic_arg('0', 1, 1)", "limbic_arg(): value must be 1 or more, not '0'"),
        ("topic_count(x'00')", "topic_count(): content must be text, not a blob"),
    ],
)
def test_wrong_use_raises_and_is_logged(conn, caplog, sql, message):
    with (
        caplog.at_level(logging.WARNING, logger="datasette_limbic"),
        pytest.raises(sqlite3.OperationalError),
    ):
        conn.execute(f"select {sql}").fetchone()
    assert message in caplog.text


@pytest.mark.parametrize("year", [1970, 2026, 5137, 5138, 5200, 9999])
def test_time_runs_the_same_in_every_year(conn, year):
    """Seconds of a far moment are as many digits as milliseconds of a near one."""
    fresh, old = f"{year}-06-01 00:00:00", "1970-01-01 00:00:00"
    for then, hours in ((fresh, 0.0), (old, (parse_time(fresh) - parse_time(old)) / 3600)):
        expected = scoring.cooc_term(3, hours)
        for sql in ("cooc_term(3, ?, ?)", "cooc_boost(3, ?, ?)"):
            [found] = conn.execute(f"select {sql}", [then, fresh]).fetchone()
            assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("n, t", 2.0),
        ("n, t, ''", 2.0),
        ("n, t, '2999-01-01'", 0.2),
        ("n, t, '2999-01-01', '', 0.25", 0.5),
        ("n, t, '2999-01-01', 0", 2.0),
        ("n, t, '2999-01-01', 0, 0, 1.5", 1.5),
        ("n, null", 1.0),
        ("n, ''", 1.0),
        ("null, t", 0.0),
    ],
)
def test_cooc_boost_arguments(conn, arguments, expected):
    # Both stamps lie in the future of the clock, so that they are fresh without a `now`.
    sql = "with p(n, t) as (values (1, '2990-01-01'), ('1', '2990-01-01')) select "
    assert conn.execute(f"{sql} cooc_boost({arguments}) from p").fetchone()[0] == close(expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("1, '2990-01-01'", 1.0),
        ("'3', '2990-01-01', ''", 2.0),
        ("1, '2990-01-01', '2999-01-01'", 0.1),
        ("1, '2990-01-01', '2999-01-01', '', 0.25", 0.25),
        ("1, '2990-01-01', '2999-01-01', 0", 1.0),
        ("3, null", 1.0),
        ("3, 'soon', '2999-01-01', null, null, 0.25", 0.5),
        ("-2, '2990-01-01'", 0.0),
        ("null, '2990-01-01'", None),
    ],
)
def test_cooc_term(conn, arguments, expected):
    found = conn.execute(f"select cooc_term({arguments})").fetchone()[0]
    assert found is expected if expected is None else found == close(expected)


def test_cooc_boost_groups_are_apart(conn):
    sql = (
        "with p(e, n) as (values (1, 1), (1, 3), (2, 1)) "
        "select e, cooc_boost(n, '2026-11-29', '2026-11-29') from p group by e"
    )
    assert conn.execute(sql).fetchall() == [(1, 3.0), (2, 1.0)]


def test_cooc_boost_reckons_from_the_first_now(conn):
    sql = (
        "with p(n, t, now) as (values (1, '2026-11-29', '2026-11-29'), "
        "(1, '2026-11-29', '2999-01-01')) select cooc_boost(n, t, now) from p"
    )
    assert conn.execute(sql).fetchone()[0] == 2.0


def test_no_pairs_at_all_is_null_and_counts_as_none_in_the_score(conn):
    boost = "(select cooc_boost(1, null) where 0)"
    assert conn.execute(f"select {boost}, limbic_score(1, 0, 1, {boost})").fetchone() == (None, 1.0)


def test_topics(conn):
    database = ["migration", "backup", "index", "replica", "upgrade", "vacuum"]
    bicycle = ["chain", "tyre", "helmet", "brakes", "saddle", "pedals"]
    texts = [f"PostgreSQL database {word}" for word in database]
    texts += [f"bicycle {word} broken" for word in bicycle]
    rows = list(enumerate([*texts, "12", None, "lone remark"], start=1))
    conn.execute("create table o(id, content)")
    conn.executemany("insert into o values (?, ?)", rows)
    assert conn.execute("select topic_count(content) from o").fetchone()[0] == 2
    found = json.loads(conn.execute("select topic_clusters(id, content) from o").fetchone()[0])
    assert [set(topic["ids"]) - {15} for topic in found["topics"]] == [
        set(range(1, 7)),
        set(range(7, 13)),
    ]
    assert [topic["stands_apart"] for topic in found["topics"]] == [True, True]
    assert found["topics"][1]["label"].startswith("bicycle")
    assert found["without_words"] == [13]
    assert found["stay"] == [13, 15]  # the remark is in a topic, but not firmly
    assert found["diversity"] == 1 + found["silhouette"]


def test_settings_and_embed_are_the_callers(conn):
    class Settings:
        def half_life_days(self, entity_type):
            return None if entity_type == "Anchor" else 7.0

    asked = []

    def embed(text, collection):
        asked.append((text, collection))
        return b"\x00\x00\x80?"

    register(conn, settings=Settings(), embed=embed, threshold=len)
    assert call(conn, "limbic_half_life", "x") == 7.0
    assert call(conn, "limbic_half_life", "Anchor") is None
    assert call(conn, "limbic_threshold", "four") == 4
    assert call(conn, "limbic_embed", "hola", "entities") == b"\x00\x00\x80?"
    assert call(conn, "limbic_embed", "hola", "") == b"\x00\x00\x80?"
    assert call(conn, "limbic_embed", "hola") == b"\x00\x00\x80?"
    assert call(conn, "limbic_embed", "  ") is None
    assert call(conn, "limbic_embed", None) is None
    assert asked == [("hola", "entities"), ("hola", None), ("hola", None)]


# The table itself


def test_the_table_is_whole():
    names = [function.name for function in FUNCTIONS]
    assert len(set(names)) == len(names)
    for function in FUNCTIONS:
        assert function.signature.startswith(f"{function.name}(")
        assert function.help.endswith(".")
        assert function.nulls.endswith(".")
        assert set(function.clock_arities) <= set(function.arities)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_arities_are_those_registered(conn, function):
    allowed = set(range(1, 9)) if function.arities == (-1,) else set(function.arities)
    listed = conn.execute(
        "select narg, flags & 0x800 != 0 from pragma_function_list where name = ?", [function.name]
    ).fetchall()
    assert {narg for narg, _ in listed} == set(function.arities)
    if not function.aggregate:
        assert dict(listed) == {a: int(function.is_deterministic(a)) for a in function.arities}
    for count in set(range(1, 9)) - allowed:
        with pytest.raises(sqlite3.OperationalError, match="wrong number of arguments"):
            call(conn, function.name, *[None] * count)


def test_what_reads_the_clock_is_not_deterministic(conn):
    conn.execute("create table t(x)")
    conn.execute("create index fine on t(temporal_factor(x, null, '2026-11-29'))")
    for sql in ("temporal_factor(x, null)", "temporal_score(x, 1, 0)", "limbic_hours(x)"):
        with pytest.raises(sqlite3.OperationalError, match="non-deterministic"):
            conn.execute(f"create index bad on t({sql})")


def test_python_and_sql_agree_beyond_the_reference(conn):
    parameters = Parameters(gamma=0.1, beta_sal=1.0)
    row = rank_hybrid_candidates(
        *([{"entity_id": 1, "distance": 0.2, "knn_rank": 1}], {1: {"access_count": 3}}, {1: 4}),
        *({}, EXPANSION_FACTOR),
        now=NOW,
        parameters=parameters,
    )[0]
    importance = call(conn, "limbic_importance", 3, 3, 4)
    score = call(conn, "limbic_score", 0.8, importance, None, 0, 1.0, 0.1)
    assert score == close(row["limbic_score"])
