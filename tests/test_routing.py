from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_limbic import routing
from datasette_limbic.routing import STRATEGIES, detect_query_type, explain_route

CASES = json.loads((Path(__file__).parent / "reference" / "routing.json").read_text("utf-8"))


@pytest.mark.parametrize(("query", "limit", "expected"), CASES["cases"])
def test_reference(query, limit, expected):
    assert detect_query_type(query, limit) == expected


@pytest.mark.parametrize(
    ("query", "limit", "points", "phrases"),
    [
        (
            "¿Qué es un grafo?",
            3,
            {"factual": 2, "limit": 1},
            {"factual": ("qué es", "es un")},
        ),
        (
            "relación entre SofIA y FastMCP",
            5,
            {"exploratory": -2},
            {"exploratory": ("relación entre",)},
        ),
        (
            "relación entre A y B, y otra relación aparte",
            5,
            {"exploratory": -2, "intermediate": 1},
            {"exploratory": ("relación entre",), "intermediate": ("relación",)},
        ),
        ("mes uno del plan anual", 5, {}, {}),
        ("relaciones y diferencias del plan", 5, {}, {}),
        ("uno dos tres", 5, {"words": 1}, {}),
        ("uno dos tres cuatro", 4, {}, {}),
        ("a b c d e f g h i j", 9, {"words": -1}, {}),
        ("a b c d e f g h i", 10, {"limit": -1}, {}),
        ("compare  the\tdifference of examples", 5, {"intermediate": 1}, None),
    ],
)
def test_points_and_phrases(query, limit, points, phrases):
    route = explain_route(query, limit)
    assert route.points == points
    assert route.score == sum(points.values())
    if phrases is not None:
        assert route.phrases == phrases


@pytest.mark.parametrize("category", list(routing.PHRASES))
def test_every_phrase_is_found_however_it_is_written(category):
    for phrase in routing.PHRASES[category]:
        for spelled in (phrase, phrase.upper(), f"¡{phrase}!", phrase.replace(" ", "  ")):
            assert category in explain_route(spelled, 5).phrases, spelled
        for inside in (f"x{phrase}", f"{phrase}x"):
            assert phrase not in explain_route(inside, 5).phrases.get(category, ()), inside


@pytest.mark.parametrize(
    ("score", "strategy"),
    [(3, "cosine_heavy"), (2, "cosine_heavy"), (1, "hybrid_balanced"), (-1, "hybrid_balanced")],
)
def test_thresholds(score, strategy):
    queries = {3: ("what is it", 5), 2: ("FastMCP", 3), 1: ("FastMCP", 5), -1: ("a b c d", 10)}
    route = explain_route(*queries[score])
    assert (route.score, route.strategy) == (score, strategy)


def test_weights_are_the_documents():
    assert STRATEGIES == {
        "cosine_heavy": (0.7, 0.3),
        "hybrid_balanced": (0.5, 0.5),
        "limbic_heavy": (0.3, 0.7),
        "limbic": (0.0, 1.0),
    }


@given(st.text(), st.integers(min_value=1, max_value=100))
def test_any_text_is_routed_and_case_does_not_matter(query, limit):
    route = explain_route(query, limit)
    assert route.strategy in ("cosine_heavy", "hybrid_balanced", "limbic_heavy")
    assert -4 <= route.score <= 5
    assert len(route.points) == len(route.phrases) + len({"words", "limit"} & set(route.points))
