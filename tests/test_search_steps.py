"""Bars of a score, and words marked in a text."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from datasette_limbic import scoring
from datasette_limbic.scoring import Parameters
from datasette_limbic.views import search_steps, search_words
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
    found["final_score"] = 0.5 * found["base"] + 0.5 * found["limbic_norm"]
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
    assert base == pytest.approx(one["base"], abs=2e-3 * whole)
    # what adds lies end to end; what time takes ends where that ends, and begins at the score
    at = 0.0
    for key in ("base", "salience", "cooc"):
        assert length(steps[key]["x"]) == pytest.approx(at, abs=0.2)
        assert not steps[key]["lost"]
        at += length(steps[key]["width"])
    lost = steps["time"]
    assert lost["lost"] is (at > 0)
    assert length(lost["x"]) + length(lost["width"]) == pytest.approx(at, abs=0.3)
    assert length(lost["x"]) * to_value == pytest.approx(one["limbic_score"], abs=2e-3 * whole)
    assert at <= 100.3
    # nothing is drawn of what does not change the score
    assert [key for key, step in steps.items() if step["drawn"]] == [
        key for key, step in steps.items() if length(step["width"]) > 0
    ]
    final = 0.5 * one["base"] + 0.5 * one["limbic_norm"]
    blend = length(bar["blend"]["similar"]) + length(bar["blend"]["standing"])
    assert blend * to_value == pytest.approx(final, abs=2e-3 * whole)
    assert bar["unknown_time"] is (one["temporal_factor"] is None)


def test_one_scale_holds_the_longest_bar() -> None:
    whole = search_steps.scale(ROWS, PARAMETERS)
    assert whole == pytest.approx(1.0 * (1 + 0.5 * 1.15) * (1 + 0.1 * 40))
    # never below 1, or weak results would look strong
    assert search_steps.scale([row(base=0.1)], PARAMETERS) == 1.0
    assert search_steps.scale([], PARAMETERS) == 1.0


def test_the_name_of_a_bar_says_both_scores_and_their_parts() -> None:
    limbic = (
        "limbic 0.778: base similarity 0.600 × salience 1.200 × co-occurrence 1.200 × time 0.900"
    )
    bar = search_steps.bar(row(), PARAMETERS, "limbic", 1.0)
    assert bar["blend"] is None
    assert bar["label"] == f"Final score: {limbic}"
    bar = search_steps.bar(row(), PARAMETERS, "hybrid_balanced", 1.0)
    assert bar["label"] == f"Final score 0.550: 50% of 0.600 + 50% of 0.500; {limbic}"
    # what changes nothing is not named
    plain = row(importance=0.0, cooc_boost=0.0, temporal_factor=1.0)
    label = search_steps.bar(plain, PARAMETERS, "limbic", 1.0)["label"]
    assert label == "Final score: limbic 0.600: base similarity 0.600"
    assert (
        "limbic 1.000: 1.000"
        in search_steps.bar({**plain, "base": 1.0, "limbic_score": 1.0}, PARAMETERS, "limbic", 1.0)[
            "label"
        ]
    )


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -5.0])
def test_no_length_leaves_the_bar(value: float) -> None:
    one = row(base=value)
    whole = search_steps.scale([one], PARAMETERS)
    for step in search_steps.bar(one, PARAMETERS, "limbic", whole)["steps"]:
        assert 0 <= length(step["x"]) <= 100
        assert 0 <= length(step["width"]) <= 100


def NFD(text: str) -> str:
    """Stored decomposed, as some programs do."""
    return unicodedata.normalize("NFD", text)


@pytest.mark.parametrize(
    ("query", "content", "expected"),
    [
        ("zebra", "a Zébra & <b>", "a <mark>Zébra</mark> &amp; &lt;b&gt;"),
        ("zebra", "zebras", "zebras"),
        # stop words are not looked for beside others
        ("the zebra", "the zebra", "the <mark>zebra</mark>"),
        # what the index takes apart counts where its pieces follow one another
        ("POL-358", "see POL-358", "see <mark>POL-358</mark>"),
        ("38.101", "38 and 101, 38 101", "38 and 101, <mark>38 101</mark>"),
        ("don't", "can't, don’t", "can&#39;t, <mark>don’t</mark>"),
        ("GB/s x", "GB s/s GB/s", "<mark>GB s</mark>/s <mark>GB/s</mark>"),
        ("a-b-c b-z", "a b a-b-c-b-z", "a b <mark>a-b-c</mark>-<mark>b-z</mark>"),
        ("one.two two.three", "one two three", "<mark>one two three</mark>"),
        # as the index splits and folds, in the text as it is written
        ("bar", "foo_bar", "foo_<mark>bar</mark>"),
        ("foo_bar", "foo bar_foo", "<mark>foo bar</mark>_foo"),
        ("qué", NFD("ahí, qué?"), NFD("ahí, <mark>qué</mark>?")),
        (NFD("qué"), "ahí, QUE", "ahí, <mark>QUE</mark>"),
        ("🤖", "a 🤖!", "a <mark>🤖</mark>!"),
        ("\ue000x", "\ue000x \ue000", "<mark>\ue000x</mark> \ue000"),
        ("zebra", "zebrañ Zebrå", "zebrañ <mark>Zebrå</mark>"),
        ("身份", "用户身份管理", "用户<mark>身份</mark>管理"),
        ("<script>", "<script>x", "&lt;<mark>script</mark>&gt;x"),
        ("", "zebra", "zebra"),
        ("zebra", "", ""),
    ],
)
def test_words_are_marked_and_all_else_escaped(query: str, content: str, expected: str) -> None:
    assert str(Words(query).marked(content)) == expected


@pytest.mark.parametrize(
    ("query", "name", "texts", "expected"),
    [
        ("ostgreS", "PostgreSQL 16", ["no"], "P<mark>ostgreS</mark>QL 16"),
        # a word of an observation is why it was found; so is a word of the name
        ("ostgreS", "PostgreSQL", ["an ostgres"], "PostgreSQL"),
        ("post", "post Postgres", [], "<mark>post</mark> Postgres"),
        ("os", "Postgres", [], "Postgres"),  # trigrams
        ("x GB/s", "60MGB/second", [], "60M<mark>GB/s</mark>econd"),
        ("zebra", "", ["x"], ""),
    ],
)
def test_a_word_inside_a_word_of_the_name_is_marked(
    query: str, name: str, texts: list[str], expected: str
) -> None:
    words = Words(query)
    parts = words.parts(name, texts)
    assert str(words.marked(name, parts)) == expected
    assert bool(parts) is ("<mark>" in expected and not words.in_text(name))


def test_what_stands_nowhere() -> None:
    words = Words("zebra GB/s 用户ID")
    assert words.nowhere(["zebras"]) == {("zebra",), ("gb", "s")}
    assert words.nowhere(["GB or s", "a zebra"]) == {("gb", "s")}
    assert words.nowhere(["GB/s", "a zebra"]) == set()


def test_no_more_is_read_than_asked_and_not_all_is_marked(monkeypatch: Any) -> None:
    seen = []
    original = search_words.text._fts_char
    monkeypatch.setattr(search_words.text, "_fts_char", lambda c: seen.append(c) or original(c))
    assert Words("é").in_text("x é " + "éü " * 30_000)
    assert len(seen) < 50
    assert str(Words("a").marked("a " * 1000)).count("<mark>") == search_words.MARKS


def test_of_a_long_text_the_piece_with_the_word_is_shown() -> None:
    words = Words("zebra")
    long = "x " * 2000 + "the zebra " + "y " * 2000
    piece = words.around(long, 200)
    assert "zebra" in piece
    assert piece.startswith("…")
    assert piece.endswith("…")
    assert len(piece) == 201
    # signs that are escaped have less room, and the word stays in it
    dense = words.around("<&> " * 35 + "zebra " + "<&> " * 2000, 200)
    assert "zebra" in dense
    assert len(str(words.marked(dense)).encode()) < 350
    assert words.around("short zebra", 200) == "short zebra"
    # near its beginning, the beginning is shown; so it is where the word is nowhere, or too far
    assert words.around("a zebra " + "y " * 500, 200).startswith("a zebra")
    assert words.around("y " * 500, 200).startswith("y y")
    assert words.around("y " * MOST + "zebra", 200).startswith("y y")
