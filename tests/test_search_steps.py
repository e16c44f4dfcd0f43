"""Bars of a score, and words marked in a text."""

from __future__ import annotations

from typing import Any

import pytest

from datasette_limbic import scoring
from datasette_limbic.scoring import Parameters
from datasette_limbic.views import search_steps
from datasette_limbic.views.search_words import MOST, Words

PARAMETERS = Parameters(beta_sal=0.5, gamma=0.1)


def row(**columns: Any) -> dict[str, Any]:
    """A candidate as a pool has it."""
    found = {
        **{"base": 0.6, "importance": 0.4, "temporal_factor": 0.9, "cooc_boost": 2.0},
        **{"limbic_norm": 0.5, **columns},
    }
    found["limbic_score"] = scoring.limbic_score(
        found["base"],
        found["importance"],
        found["temporal_factor"],
        found["cooc_boost"],
        beta_sal=0.5,
        gamma=0.1,
    )
    return found


def length(text: str) -> float:
    assert text.endswith("%")
    return float(text[:-1])


ROWS = [
    row(),
    row(temporal_factor=None),
    row(importance=0.0, cooc_boost=0.0),
    row(base=0.0),
    row(base=1.0, importance=1.15, cooc_boost=40.0, temporal_factor=0.1),
]


@pytest.mark.parametrize("one", ROWS)
def test_lengths_say_how_the_score_came_about(one: dict[str, Any]) -> None:
    whole = search_steps.scale(ROWS, PARAMETERS)
    bar = search_steps.bar(one, PARAMETERS, "hybrid_balanced", whole)
    steps = {step["key"]: step for step in bar["steps"]}
    assert list(steps) == ["base", "salience", "cooc", "time"]
    to_value = whole / 100
    base = length(steps["base"]["width"]) * to_value
    assert base == pytest.approx(one["base"], abs=2e-4 * whole)
    # what adds lies end to end; what time takes ends where that ends, and begins at the score
    at = 0.0
    for key in ("base", "salience", "cooc"):
        assert length(steps[key]["x"]) == pytest.approx(at, abs=0.02)
        assert not steps[key]["lost"]
        at += length(steps[key]["width"])
    lost = steps["time"]
    assert lost["lost"] is (at > 0)
    assert length(lost["x"]) + length(lost["width"]) == pytest.approx(at, abs=0.03)
    assert length(lost["x"]) * to_value == pytest.approx(one["limbic_score"], abs=2e-4 * whole)
    assert at <= 100.03
    # nothing is drawn of what does not change the score
    assert [key for key, step in steps.items() if step["drawn"]] == [
        key for key, step in steps.items() if length(step["width"]) > 0
    ]
    final = 0.5 * one["base"] + 0.5 * one["limbic_norm"]
    blend = length(bar["blend"]["similar"]) + length(bar["blend"]["standing"])
    assert blend * to_value == pytest.approx(final, abs=2e-4 * whole)
    assert bar["unknown_time"] is (one["temporal_factor"] is None)


def test_one_scale_holds_the_longest_bar() -> None:
    whole = search_steps.scale(ROWS, PARAMETERS)
    assert whole == pytest.approx(1.0 * (1 + 0.5 * 1.15) * (1 + 0.1 * 40))
    # never below 1, or weak results would look strong
    assert search_steps.scale([row(base=0.1)], PARAMETERS) == 1.0
    assert search_steps.scale([], PARAMETERS) == 1.0


def test_a_limbic_ranking_has_no_mixture_and_says_its_factors() -> None:
    bar = search_steps.bar(row(), PARAMETERS, "limbic", 1.0)
    assert bar["blend"] is None
    assert bar["label"] == (
        "Limbic score 0.778: base similarity 0.600, salience × 1.200, co-occurrence × 1.200,"
        " time × 0.900"
    )


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -5.0])
def test_no_length_leaves_the_bar(value: float) -> None:
    one = row(base=value)
    whole = search_steps.scale([one], PARAMETERS)
    for step in search_steps.bar(one, PARAMETERS, "limbic", whole)["steps"]:
        assert 0 <= length(step["x"]) <= 100
        assert 0 <= length(step["width"]) <= 100


@pytest.mark.parametrize(
    ("query", "content", "expected"),
    [
        ("zebra", "a Zébra & <b>", "a <mark>Zébra</mark> &amp; &lt;b&gt;"),
        ("zebra", "zebras", "zebras"),
        # stop words are not looked for beside others
        ("the zebra", "the zebra", "the <mark>zebra</mark>"),
        ("POL-358", "see POL-358", "see <mark>POL</mark>-<mark>358</mark>"),
        ("身份", "用户身份管理", "用户<mark>身份</mark>管理"),
        ("<script>", "<script>x", "&lt;<mark>script</mark>&gt;x"),
        ("", "zebra", "zebra"),
        ("zebra", "", ""),
    ],
)
def test_words_are_marked_and_all_else_escaped(query: str, content: str, expected: str) -> None:
    assert str(Words(query).marked(content)) == expected


def test_of_a_long_text_the_piece_with_the_word_is_shown() -> None:
    words = Words("zebra")
    long = "x " * 2000 + "the zebra " + "y " * 2000
    piece = words.around(long, 200)
    assert "zebra" in piece
    assert piece.startswith("…")
    assert piece.endswith("…")
    assert len(piece) == 202
    assert words.around("short zebra", 200) == "short zebra"
    # near its beginning, the beginning is shown; so it is where the word is nowhere, or too far
    assert words.around("a zebra " + "y " * 500, 200).startswith("a zebra")
    assert words.around("y " * 500, 200).startswith("y y")
    assert words.around("y " * MOST + "zebra", 200).startswith("y y")
