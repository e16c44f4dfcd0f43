"""The statement itself: the reference rankings through SQL, its variants, its length."""

from __future__ import annotations

import itertools
import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from empty_memory import empty_memory

from datasette_limbic import connection, statement
from datasette_limbic.config import Settings
from datasette_limbic.request import parse
from datasette_limbic.statement import Shape

CASES = json.loads((Path(__file__).parent / "reference" / "ranking.json").read_text("utf-8"))[
    "cases"
]
NOW = datetime(2026, 11, 29, 12, tzinfo=timezone.utc)
FACTORS = ("base", "importance", "temporal_factor", "cooc_boost", "limbic_norm")


def ago(hours: float) -> str:
    return (NOW - timedelta(hours=hours)).strftime("%Y-%m-%d %H:%M:%S")


def memory_of(path: Path, candidates: list[dict[str, Any]]) -> Any:
    """A memory whose signals are those of the candidates; degrees by neighbours of their own."""
    conn = connection.connect(empty_memory(path))
    with conn:
        neighbour = itertools.count(1000)
        pairs = {}
        for c in candidates:
            conn.execute(
                "insert into entities(id, name, created_at) values (?, ?, null)",
                [c["id"], f"e{c['id']}"],
            )
            for _ in range(c["degree"]):
                other = next(neighbour)
                conn.execute("insert into entities(id, name) values (?, ?)", [other, f"n{other}"])
                conn.execute(
                    "insert into relations(from_entity, to_entity, relation_type)"
                    " values (?, ?, 'knows')",
                    [c["id"], other] if other % 2 else [other, c["id"]],
                )
            if c["access"] or c["hours"] is not None:
                conn.execute(
                    "insert into entity_access values (?, ?, ?)",
                    [c["id"], c["access"], "" if c["hours"] is None else ago(c["hours"])],
                )
            for other, (count, hours) in c["cooc"].items():
                a, b = sorted((c["id"], int(other)))
                pairs[a, b] = (count, ago(hours))
        for (a, b), (count, last) in pairs.items():
            for partner in (a, b):  # one case has a partner outside the pool
                conn.execute(
                    "insert or ignore into entities(id, name) values (?, ?)",
                    [partner, f"outside{partner}"],
                )
            conn.execute("insert into co_occurrences values (?, ?, ?, ?)", [a, b, count, last])
    return conn


def injected(candidates: list[dict[str, Any]]) -> dict[str, str]:
    """The candidate CTEs as VALUES."""
    knn = ", ".join(
        f"({c['id']}, {c['distance']!r}, {c['knn_rank']})"
        for c in candidates
        if c["distance"] is not None
    )
    fts = ", ".join(
        f"({c['id']}, {c['fts_rank']}, null)" for c in candidates if c["fts_rank"] is not None
    )
    return {
        "knn": f"knn(id, distance, knn_rank) as (values {knn})" if knn else statement.NO_KNN,
        "text": f"fts(id, fts_rank, covered) as (values {fts})" if fts else statement.NO_TEXT,
    }


@pytest.mark.parametrize("large_pool", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['strategy']}-{len(c['candidates'])}")
def test_reference_rankings_through_sql(case, large_pool, tmp_path):
    conn = memory_of(tmp_path / "memory.db", case["candidates"])
    shape = Shape(hybrid=case["hybrid"], fusion="document", large_pool=large_pool)
    sql = statement.build(shape, **injected(case["candidates"]))
    request = parse(
        {
            "q": "x",
            "strategy": case["strategy"],
            "limit": 100,
            "now": "2026-11-29 12:00:00",
            **case.get("parameters", {}),
        },
        Settings(),
    )
    cursor = conn.execute(sql, request.named())
    names = [column[0] for column in cursor.description]
    rows = [dict(zip(names, row, strict=True)) for row in cursor]
    assert [row["id"] for row in rows] == [e["id"] for e in case["expect"]]
    for row, expected in zip(rows, case["expect"], strict=True):
        for key in (*FACTORS, "limbic_score", "final_score", "rrf_score"):
            wanted = expected[key]
            if wanted is None:
                assert row[key] is None, key
            else:
                assert row[key] == pytest.approx(wanted, rel=1e-9, abs=1e-12), key
        assert row["routing_strategy"] == case["strategy"]
    conn.close()


SHAPES = [
    Shape(),
    Shape(unspaced=False, large_pool=False),
    Shape(vectors=False),
    Shape(text=False),
    Shape(vectors=False, text=False),
    Shape(by_type=True),
    Shape(listing=True),
    Shape(fusion="document"),
    Shape(form=True),
    Shape(hybrid=False),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_variant_runs_with_a_form_that_sends_empty_text(shape, demo_db):
    conn = connection.connect(demo_db, readonly=True)
    params = dict.fromkeys(statement.PARAMETERS, "") | {"q": "Atlas deploy 東京"}
    if shape.by_type:
        params["type"] = "Servicio"
    rows = conn.execute(statement.build(shape), params).fetchall()
    assert len(rows) <= 10
    assert bool(rows) == (shape.vectors or shape.text or shape.listing)
    conn.close()


def test_a_form_without_a_query_gives_no_rows_and_no_error(demo_db):
    conn = connection.connect(demo_db, readonly=True)
    params = dict.fromkeys(statement.PARAMETERS, "")
    assert conn.execute(statement.build(Shape(form=True)), params).fetchall() == []
    conn.close()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_mark_of_the_template_is_left(shape):
    sql = statement.build(shape)
    assert "/*" not in sql
    assert "--" not in sql
    assert "  " not in sql
    assert sql.startswith("with arg as")


def test_the_link_stays_short():
    """Servers and proxies cut long request lines, the strictest of the common ones at 8 kB."""
    request = parse({"q": "who is the manager of the data team", "type": "Person"}, Settings())
    lengths = {
        shape: len(statement.url_query(statement.build(shape), request.varied()))
        for shape in (*SHAPES, Shape(unspaced=False, large_pool=False, fusion="document"))
    }
    assert lengths[Shape(unspaced=False, large_pool=False)] < 6600
    # request lines of 8 kB pass everywhere
    assert max(lengths.values()) < 7300


def test_the_link_carries_what_is_not_default():
    request = parse({"q": "a b&c=d", "gamma": "0.05", "type": "Person"}, Settings())
    varied = request.varied()
    assert varied["gamma"] == 0.05
    assert varied["type"] == "Person"
    assert "beta_sal" not in varied
    sql = statement.build(Shape())
    back = parse_qs(statement.url_query(sql, varied), keep_blank_values=True)
    assert back["sql"] == [sql]
    assert back["q"] == ["a b&c=d"]


def test_every_parameter_of_the_statement_is_listed():
    found = set()
    for shape in SHAPES:
        found |= set(re.findall(r"(?<!:):(\w+)", statement.build(shape).replace("%H:%M:%f", "")))
    assert found == set(statement.PARAMETERS)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_readable_statement_is_the_same(shape, demo_db):
    conn = connection.connect(demo_db, readonly=True)
    params = dict.fromkeys(statement.PARAMETERS, "") | {
        "q": "Atlas deploy",
        "type": "Servicio" if shape.by_type else "",
        "now": "2026-11-29 12:00:00",
    }
    readable = statement.build(shape, readable=True)
    assert max(len(line) for line in readable.splitlines()) <= 125
    assert conn.execute(readable, params).fetchall() == (
        conn.execute(statement.build(shape), params).fetchall()
    )
    conn.close()
