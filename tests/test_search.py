"""Search through its one function, on the sample memory with the real model."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from datasette.utils.sqlite import sqlite3

from datasette_limbic import (
    connection,
    embedding,
    entity,
    further,
    retrieving,
    schema,
    search,
    statement,
)
from datasette_limbic.config import Settings
from datasette_limbic.errors import BadParameter, NotAMemory, QueryTooLong
from datasette_limbic.sync import sync

NOW = "2026-11-29 12:00:00"


@pytest.fixture
def conn(demo_db):
    conn = connection.connect(demo_db)
    yield conn
    conn.close()


def names(answer, key="results"):
    return [row["name"] for row in answer[key]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("cola de eventos sin broker", "Una cola en PostgreSQL"),
        ("en qué fecha sale el vuelo a Osaka", "Kyoto"),
        ("how long do we keep billing backups", "billing-api"),
        ("POL-358", "Atlas"),
        ("double invoices", "INC-19 double invoices"),
        ("Café Central", "Café Central"),
        ("cafe central", "Café Central"),
    ],
)
def test_finds_what_is_asked_for(conn, query, expected):
    answer = search.search(conn, query, now=NOW, limit=5)
    assert expected in names(answer)[:3]
    assert answer["degraded"] is None


def test_the_response_has_the_documented_shape(conn):
    answer = search.search(conn, "cola de eventos", now=NOW, limit=3, explain="1")
    for key in (
        "query", "limit", "strategy", "now", "parameters", "candidates", "degraded", "confident",
        "sql_url", "results", "losers",
    ):  # fmt: skip
        assert key in answer
    row = answer["results"][0]
    for key in (
        "id", "name", "entityType", "observations", "distance", "limbic_score", "final_score",
        "rrf_score", "routing_strategy", "matched_by", "scoring",
    ):  # fmt: skip
        assert key in row
    assert set(row["scoring"]) >= {
        "base", "cosine_sim", "importance", "temporal_factor", "cooc_boost", "limbic_norm",
    }  # fmt: skip
    assert all(isinstance(text, str) for text in row["observations"])
    json.dumps(answer, allow_nan=False)


def test_results_and_losers_are_the_whole_pool_once_in_order(conn):
    answer = search.search(conn, "invoices", now=NOW, limit=4, explain="1")
    rows = answer["results"] + answer["losers"]
    assert len(rows) == answer["candidates"]
    assert len({row["id"] for row in rows}) == len(rows)
    scores = [row["final_score"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert names(search.search(conn, "invoices", now=NOW, limit=4)) == names(answer)


def test_the_factors_multiply_to_the_limbic_score(conn):
    answer = search.search(conn, "invoices", now=NOW, explain="1")
    p = answer["parameters"]
    for row in answer["results"] + answer["losers"]:
        s = row["scoring"]
        temporal = p["unknown_temporal"] if s["temporal_factor"] is None else s["temporal_factor"]
        expected = (
            s["base"]
            * (1 + p["beta_sal"] * s["importance"])
            * temporal
            * (1 + p["gamma"] * s["cooc_boost"])
        )
        assert row["limbic_score"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("mode", ["semantic", "text", "hybrid"])
def test_mode_says_which_candidates_are_used(conn, mode):
    answer = search.search(conn, "PostgreSQL queue of events", mode=mode, now=NOW, explain="1")
    rows = answer["results"] + answer["losers"]
    used = {way for row in rows for way in row["matched_by"]}
    assert used == {"semantic": {"knn"}, "text": {"fts"}, "hybrid": {"knn", "fts"}}[mode]
    assert all((row["rrf_score"] is None) == (mode != "hybrid") for row in rows)


@pytest.mark.parametrize(
    "strategy", ["cosine_heavy", "hybrid_balanced", "limbic_heavy", "limbic", "auto"]
)
def test_strategies(conn, strategy):
    answer = search.search(conn, "qué es Atlas", strategy=strategy, now=NOW)
    served = {row["routing_strategy"] for row in answer["results"]}
    assert served == {"cosine_heavy" if strategy == "auto" else strategy}
    if strategy == "limbic":
        assert all(row["final_score"] == row["limbic_score"] for row in answer["results"])


def test_recency_activity_differs_from_access_and_freshest_is_the_larger(conn):
    found = {}
    for recency in ("access", "activity", "freshest"):
        answer = search.search(conn, "Atlas", recency=recency, now=NOW, explain="1")
        rows = answer["results"] + answer["losers"]
        found[recency] = {row["id"]: row["scoring"]["temporal_factor"] for row in rows}
    assert found["access"] != found["activity"]
    for i, freshest in found["freshest"].items():
        known = [v for v in (found["access"][i], found["activity"][i]) if v is not None]
        assert freshest == (pytest.approx(max(known)) if known else None)


def test_consolidation_raises_importance_of_what_is_used(conn):
    plain = search.search(conn, "Atlas", now=NOW)["results"][0]
    raised = search.search(conn, "Atlas", now=NOW, consolidation="1")["results"][0]
    assert raised["id"] == plain["id"]
    assert raised["scoring"]["importance"] > plain["scoring"]["importance"] > 0


def test_an_unrelated_query_is_not_confident_and_still_lists_the_nearest(conn):
    answer = search.search(conn, "quantum chromodynamics lattice simulation", now=NOW)
    assert answer["confident"] is False
    assert answer["results"]


@pytest.mark.parametrize("query", ["POL-358", "cola de eventos sin broker", "Kenji Mori"])
def test_a_query_about_something_stored_is_confident(conn, query):
    assert search.search(conn, query, now=NOW)["confident"] is True


def test_archived_entities_stay_out_unless_asked(conn):
    plain = search.search(conn, "Kafka trial", now=NOW, explain="1")
    assert "Kafka trial" not in names(plain) + names(plain, "losers")
    asked = search.search(conn, "Kafka trial", now=NOW, include_archived="1")
    assert names(asked)[0] == "Kafka trial"


def test_as_of_shows_what_held_then(conn):
    ended = conn.execute(
        "select o.content, o.entity_id, e.name from observations o join entities e"
        " on e.id = o.entity_id where o.valid_to is not null"
    ).fetchone()
    before = search.search(conn, ended[2], as_of="2025-12-01", now=NOW)["results"][0]
    after = search.search(conn, ended[2], now=NOW)["results"][0]
    assert before["name"] == after["name"] == ended[2]
    assert ended[0] in before["observations"]
    assert ended[0] not in after["observations"]


def test_an_entity_outside_its_validity_stays_out(conn):
    with conn:
        conn.execute("update entities set valid_to = '2026-01-01' where name = 'Kyoto'")
    assert "Kyoto" not in names(search.search(conn, "Kyoto", now=NOW))
    assert "Kyoto" in names(search.search(conn, "Kyoto", as_of="2025-12-31", now=NOW))


def test_a_type_filter_applies_before_the_cut(conn):
    answer = search.search(conn, "invoices payments customers", type="Place", now=NOW, limit=3)
    assert len(answer["results"]) == 3
    assert {row["entityType"] for row in answer["results"]} == {"Place"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [({"type": "Spaceship"}, "no entity has the type 'Spaceship'")],
)
def test_an_empty_answer_says_why(conn, arguments, reason):
    answer = search.search(conn, "Atlas", now=NOW, **arguments)
    assert answer["results"] == []
    assert reason in answer["reason"]
    assert answer["confident"] is False


def test_an_empty_memory_says_so(empty_db):
    conn = connection.connect(empty_db, readonly=True)
    for query in ("", "anything"):
        answer = search.search(conn, query)
        assert answer["results"] == []
        assert "empty" in answer["reason"]
    conn.close()


def test_an_empty_query_lists_by_use_and_recency(conn):
    answer = search.search(conn, "   ", now=NOW, limit=5)
    assert names(answer)[0] == "Atlas"
    assert all(row["scoring"]["base"] == 1 for row in answer["results"])
    assert all(row["matched_by"] == [] for row in answer["results"])


def test_parameters_change_the_order_and_are_reported(conn):
    plain = search.search(conn, "delivery", now=NOW, strategy="limbic")
    salient = search.search(conn, "delivery", now=NOW, strategy="limbic", beta_sal="5")
    assert salient["parameters"]["beta_sal"] == 5
    assert [r["limbic_score"] for r in plain["results"]] != [
        r["limbic_score"] for r in salient["results"]
    ]


def test_applied_parameters_count_before_configuration_and_after_arguments(conn):
    with conn:
        conn.execute(
            "insert into limbic_parameters(beta_sal, gamma, source) values (.7, .03, 'manual')"
        )
    settings = Settings(beta_sal=0.2, gamma=0.002)
    applied = search.search(conn, "Atlas", settings=settings, now=NOW)
    assert (applied["parameters"]["beta_sal"], applied["parameters"]["gamma"]) == (0.7, 0.03)
    given = search.search(conn, "Atlas", settings=settings, now=NOW, gamma="0.5")
    assert given["parameters"]["gamma"] == 0.5


def test_the_statement_of_the_link_gives_the_same_rows(conn):
    for query, arguments in [
        ("cola de eventos", {}),
        ("Atlas", {"type": "Servicio"}),
        ("", {}),
        ("invoices", {"mode": "text", "gamma": "0.09", "limit": 3}),
        ("invoices", {"fusion": "document", "limit": 40}),
        ("東京 Kyoto", {"include_archived": "1"}),
    ]:
        answer = search.search(conn, query, now=NOW, **arguments)
        values = dict(parse_qsl(answer["sql_url"].lstrip("?"), keep_blank_values=True))
        sql = values.pop("sql")
        rows = conn.execute(sql, dict.fromkeys(statement.PARAMETERS, "") | values).fetchall()
        assert [row[0] for row in rows] == [row["id"] for row in answer["results"]], query
        for row, result in zip(rows, answer["results"], strict=True):
            assert row[4] == pytest.approx(result["limbic_score"])
            assert row[5] == pytest.approx(result["final_score"])


def test_without_an_index_text_answers_and_says_so(demo_db):
    conn = connection.connect(demo_db)
    conn.execute("drop table _limbic_vec_entities")
    conn.execute("delete from limbic_indexes")
    conn.commit()
    for mode in ("hybrid", "semantic"):
        answer = search.search(conn, "cola de eventos", mode=mode, now=NOW)
        assert names(answer)[0] == "Una cola en PostgreSQL"
        assert "datasette limbic sync" in answer["degraded"]
    conn.close()


def test_where_sqlite_vec_cannot_be_loaded_text_answers(demo_db, monkeypatch):
    monkeypatch.setattr(connection, "load_vec", lambda conn: "sqlite-vec is not installed")
    conn = connection.connect(demo_db, readonly=True)
    answer = search.search(conn, "cola de eventos", now=NOW)
    assert names(answer)[0] == "Una cola en PostgreSQL"
    assert "only text was searched" in answer["degraded"]
    conn.close()


def test_an_unknown_model_degrades_naming_it(conn):
    answer = search.search(conn, "cola de eventos", settings=Settings(model="no-such"), now=NOW)
    assert "no-such" in answer["degraded"]
    assert answer["results"]


def test_a_model_of_another_dimension_degrades_naming_both(conn, monkeypatch):
    monkeypatch.setattr(embedding, "embed_query", lambda *a, **k: b"\0\0\x80?" * 3)
    answer = search.search(conn, "cola de eventos", now=NOW)
    assert "3 dimensions" in answer["degraded"]
    assert "512" in answer["degraded"]
    assert answer["results"]


def test_a_failing_model_degrades(conn, monkeypatch):
    def fail(*_args, **_kwargs):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(embedding, "embed_query", fail)
    answer = search.search(conn, "cola de eventos", now=NOW)
    assert "out of memory" in answer["degraded"]
    assert answer["results"]


def test_a_knn_over_its_time_limit_gives_way_to_text(conn, monkeypatch):
    sql = statement.build
    slow = "(with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n)"

    def build(shape, **kwargs):
        text = sql(shape, **kwargs)
        return text.replace(" as k,", f" + 0 * {slow} as k,", 1) if shape.vectors else text

    search.search(conn, "cola de eventos", now=NOW)
    monkeypatch.setattr(statement, "build", build)
    answer = search.search(
        conn, "cola de eventos", settings=Settings(knn_time_limit_ms=50), now=NOW
    )
    assert "took over 50 ms" in answer["degraded"]
    assert names(answer)[0] == "Una cola en PostgreSQL"


@pytest.mark.parametrize("said", ["interrupted", "database is locked"])
def test_a_second_run_that_takes_too_long_leaves_the_first(conn, monkeypatch, said):
    rows, needed = retrieving._rows, further.needed
    whole = search.search(conn, "geocoder outage", now=NOW)
    runs = []

    def run(*given: Any) -> Any:
        runs.append(given)
        if len(runs) > 1:
            raise sqlite3.OperationalError(said)
        return rows(*given)

    def once_more(conn: Any, request: Any, shape: Any, rows: Any) -> Any:
        assert needed(conn, request, shape, rows) is None
        return further.Further(replace(shape, cut=False), None, 10)

    monkeypatch.setattr(retrieving, "_rows", run)
    monkeypatch.setattr(further, "needed", once_more)
    if said == "interrupted":
        answer = search.search(conn, "geocoder outage", now=NOW)
        assert answer["results"] == whole["results"]
        assert answer["sql_url"] == whole["sql_url"]
        assert answer["degraded"] == "not all texts that match could be looked at in time"
    else:
        with pytest.raises(sqlite3.OperationalError, match=said):
            search.search(conn, "geocoder outage", now=NOW)
    assert len(runs) == 2


def test_a_stale_index_does_not_hide_what_the_text_knows(conn):
    with conn:
        new = conn.execute("insert into entities(name) values ('Zeppelin hangar')").lastrowid
        conn.execute(
            "insert into observations(entity_id, content) values (?, 'helium 38.777 refill')",
            [new],
        )
    assert names(search.search(conn, "Zeppelin", now=NOW))[0] == "Zeppelin hangar"
    assert names(search.search(conn, "38.777", now=NOW))[0] == "Zeppelin hangar"


def test_an_entity_archived_since_the_sync_stays_out_and_the_pool_stays_full(conn):
    before = search.search(conn, "PostgreSQL", mode="semantic", now=NOW, limit=5, explain="1")
    with conn:
        conn.execute(
            "update entities set archived_at = ? where id = ?", [NOW, before["results"][0]["id"]]
        )
    after = search.search(conn, "PostgreSQL", mode="semantic", now=NOW, limit=5, explain="1")
    assert before["results"][0]["name"] not in names(after) + names(after, "losers")
    assert after["candidates"] == before["candidates"]


@pytest.mark.parametrize("archived", [3, 300])
def test_many_archived_entities_do_not_empty_the_pool(empty_db, archived):
    conn = connection.connect(empty_db)
    with conn:
        for i in range(archived + 5):
            conn.execute(
                "insert into entities(name, archived_at) values (?, ?)",
                [f"boat {i}", NOW if i < archived else None],
            )
    sync(conn)
    answer = search.search(conn, "boat", mode="semantic", now=NOW, limit=5)
    assert len(answer["results"]) == 5
    conn.close()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("ticket POL-358 is open", "POL-358"),
        ("please don't use agents here", "don't use agents"),
        ("throughput of 3 GB/s", "GB/s"),
        ("section 38.101 applies", "38.101"),
        ("the table health.base grows", "health.base"),
        ('he said "hello" AND left', '"'),
        ('he said "hello" AND left', "AND"),
        ("NEAR( is an operator", "NEAR("),
        ("用户身份验证失败", "用户身份"),
        ("用户身份验证失败", "用户"),
        ("un caffe\u0300 corto", "caff\u00e8"),
        ("un caff\u00e8 corto", "caffe\u0300"),
        ("function getUserName fails", "username"),
        ("東京タワーへ行く", "東京"),
    ],
)
def test_searches_for_what_the_query_says(empty_db, text, query):
    conn = connection.connect(empty_db)
    with conn:
        conn.execute("insert into entities(id, name) values (1, 'right'), (2, 'wrong')")
        name = text if query == "username" else None
        if name:
            conn.execute("update entities set name = ? where id = 1", [name])
        conn.execute("insert into observations(entity_id, content) values (1, ?)", [text])
        conn.execute("insert into observations(entity_id, content) values (2, 'nothing alike')")
    answer = search.search(conn, query, mode="text", now=NOW)
    if query == '"':
        assert answer["results"] == []  # no word to search for
    else:
        assert [row["id"] for row in answer["results"]] == [1]
    conn.close()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"limit": 0}, "limit is 0"),
        ({"limit": -1}, "limit is -1"),
        ({"limit": 10**9}, "1000000000"),
        ({"limit": "ten"}, "'ten'"),
        ({"limit": "1.5"}, "'1.5'"),
        ({"mode": "psychic"}, "'psychic'"),
        ({"strategy": "best"}, "'best'"),
        ({"recency": "never"}, "'never'"),
        ({"fusion": "cold"}, "'cold'"),
        ({"gamma": "lots"}, "'lots'"),
        ({"gamma": "nan"}, "gamma"),
        ({"beta_sal": -1}, "beta_sal"),
        ({"now": "yesterday-ish"}, "'yesterday-ish'"),
        ({"as_of": "soon"}, "'soon'"),
        ({"include_archived": "maybe"}, "'maybe'"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_arguments_are_named_with_what_is_allowed(conn, arguments, part):
    with pytest.raises(BadParameter, match=part):
        search.search(conn, "Atlas", **arguments)


def test_a_query_over_the_limit_is_refused(conn):
    with pytest.raises(QueryTooLong, match="10,000"):
        search.search(conn, "x" * 10_000)


def test_a_database_without_memory_is_refused(tmp_path):
    conn = connection.connect(tmp_path / "other.db", create=True)
    with pytest.raises(NotAMemory, match="datasette limbic init"):
        search.search(conn, "x")
    conn.close()


def test_search_never_writes(demo_db):
    before = demo_db.read_bytes()
    conn = connection.connect(demo_db, readonly=True)
    for query in ("Atlas", "", "nothing like it", "東京"):
        search.search(conn, query, explain="1")
    conn.close()
    assert demo_db.read_bytes() == before


def test_flagged_observations_stay_in_search(conn):
    with conn:
        conn.execute("update observations set similarity_flag = 1")
    schema.require_memory(conn)
    assert names(search.search(conn, "cola de eventos", now=NOW))[0] == "Una cola en PostgreSQL"


FLOOD = 1200


@pytest.fixture
def flooded(empty_db):
    """Four live entities of type Rare whose long texts match, besides a flood of short ones."""
    conn = connection.connect(empty_db)
    with conn:
        for i in range(1, 5):
            conn.execute(
                "insert into entities(id, name, entity_type) values (?, ?, 'Rare')",
                [i, f"rare {i}"],
            )
            conn.execute(
                "insert into observations(entity_id, content) values (?, ?)",
                [i, "gasket " + "and some more words that make this text a long one " * 4],
            )
    yield conn
    conn.close()


@pytest.mark.parametrize("kind", ["other type", "archived", "ended", "one hub", "not valid yet"])
def test_a_flood_of_matches_that_do_not_count_hides_nothing(flooded, kind):
    with flooded:
        flooded.execute("insert into entities(id, name, entity_type) values (9, 'hub', 'Common')")
        for i in range(FLOOD):
            owner = 9
            if kind in ("other type", "archived"):
                owner = flooded.execute(
                    "insert into entities(name, entity_type, archived_at) values (?, 'Common', ?)",
                    [f"e{i}", NOW if kind == "archived" else None],
                ).lastrowid
            flooded.execute(
                "insert into observations(entity_id, content, valid_to, valid_from)"
                " values (?, 'gasket', ?, ?)",
                [
                    owner,
                    "2020-01-01" if kind == "ended" else None,
                    "2999-01-01" if kind == "not valid yet" else None,
                ],
            )
    entity_type = "Rare" if kind == "other type" else None
    answer = search.search(flooded, "gasket", mode="text", type=entity_type, now=NOW)
    assert {1, 2, 3, 4} <= {row["id"] for row in answer["results"]}


def test_coverage_tells_apart_what_holds_every_term(conn):
    answer = search.search(conn, "INC 19", now=NOW, explain="1")
    rows = {row["name"]: row for row in answer["results"] + answer["losers"]}
    assert rows["INC-19 double invoices"]["coverage"] == 1
    assert rows["INC-27 clock change"]["coverage"] < 0.6
    assert names(answer)[0] == "INC-19 double invoices"


def test_the_name_of_an_entity_finds_it(conn):
    """Of all live names, nearly all come first for their own name; the blend may do otherwise."""
    every = [row[0] for row in conn.execute("select name from entities where archived_at is null")]
    ranks = []
    for name in every:
        found = names(search.search(conn, name, now=NOW))
        ranks.append(found.index(name) + 1 if name in found else 99)
    assert max(ranks) <= 3
    assert sum(rank == 1 for rank in ranks) >= len(every) - 3


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("用户身份验证失败", "用户身份"),
        ("用户身份验证失败", "身份"),
        ("東京タワーへ行く", "東京タワー"),
        ("신호 처리 라이브러리를 구현했다", "라이브러리"),
        ("인증은 실패했다", "인증"),
    ],
)
def test_substrings_of_unspaced_scripts_are_confident_matches(empty_db, text, query):
    conn = connection.connect(empty_db)
    with conn:
        conn.execute("insert into entities(id, name) values (1, 'right'), (2, 'wrong')")
        conn.execute("insert into observations(entity_id, content) values (1, ?)", [text])
        conn.execute("insert into observations(entity_id, content) values (2, '다른 文字 text')")
    answer = search.search(conn, query, mode="text", now=NOW)
    assert [row["id"] for row in answer["results"]] == [1]
    assert answer["confident"] is True
    conn.close()


@pytest.mark.parametrize("query", ["the", "de la", "nest platypus"])
def test_neither_stop_words_nor_ended_facts_make_an_answer_confident(conn, query):
    with conn:
        conn.execute(
            "insert into observations(entity_id, content, valid_to)"
            " values (1, 'the nest of the platypus', '2020-01-01')"
        )
    assert search.search(conn, query, now=NOW)["confident"] is False


def test_odd_values_of_other_writers_count_as_nothing(conn):
    with conn:
        conn.execute("update entity_access set access_count = 'many' where entity_id = 3")
        conn.execute("update co_occurrences set co_count = 'often' where entity_a_id = 3")
    answer = search.search(conn, "Atlas", now=NOW)
    assert "Atlas" in names(answer)
    assert all(row["limbic_score"] is not None for row in answer["results"])


def test_consolidation_with_an_unreadable_time_keeps_the_score(conn):
    with conn:
        conn.execute("update entity_access set last_access = 'some day'")
    answer = search.search(conn, "Atlas", consolidation="1", now=NOW)
    assert all(row["limbic_score"] is not None for row in answer["results"])


def test_a_listing_says_the_same_everywhere(conn):
    answer = search.search(conn, "", strategy="cosine_heavy", now=NOW)
    assert answer["strategy"] == "limbic"
    assert {row["routing_strategy"] for row in answer["results"]} == {"limbic"}
    assert all(row["final_score"] == row["limbic_score"] for row in answer["results"])


def test_the_degree_is_that_of_the_entity_page(conn):
    for row in search.search(conn, "", now=NOW, limit=60, d_max="400")["results"]:
        detail = entity.entity_detail(conn, row["id"], now=NOW)
        assert row["degree"] == detail["limbic"]["degree"]
