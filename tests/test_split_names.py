"""Names for the parts of an entity."""

from __future__ import annotations

import pytest

from datasette_limbic.reports.split_names import child_names, name_key


@pytest.mark.parametrize(
    ("parent", "terms", "taken", "names"),
    [
        ("Atlas", [["geocoder", "cache", "tiles"]], [], ["Atlas – geocoder, cache"]),
        # words of the parent say nothing new
        ("Atlas cache", [["Caché", "geocoder", "tiles"]], [], ["Atlas cache – geocoder, tiles"]),
        # what only one part has comes first
        (
            "A",
            [["shared", "one", "two"], ["SHARED", "three", "four"]],
            [],
            ["A – one, two", "A – three, four"],
        ),
        # the same but for case, accents, punctuation is taken
        ("A", [["sesión", "red", "mapa"]], ["a: SESION red"], ["A – sesión, red, mapa"]),
        ("A", [["x1", "y1"]], ["A – x1, y1"], ["A – x1, y1 2"]),
        ("A", [["x1", "y1"]], ["A – x1, y1", "a x1 y1 2"], ["A – x1, y1 3"]),
        ("A", [["x1"], ["x1"]], [], ["A – x1", "A – x1 2"]),
        ("A", [[], []], [], ["A – 1", "A – 2"]),
        ("A", [["A"], []], ["A 1"], ["A – 2", "A – 3"]),
        ("😀", [["x1"]], [], ["😀 – x1"]),
        ("two\n lines", [["x1"]], [], ["two lines – x1"]),
        ("", [["x1"]], [], [" – x1"]),
        ("A", [], ["B"], []),
    ],
)
def test_names(parent: str, terms: list[list[str]], taken: list[str], names: list[str]) -> None:
    assert child_names(parent, terms, taken) == names


def test_long_names_are_cut() -> None:
    (name,) = child_names("p" * 5_000, [["t" * 5_000, "u"]], [])
    assert len(name) < 300
    assert name.startswith("p" * 150)


def test_keys() -> None:
    assert name_key("Sesión – Áéí, 2") == name_key("sesion aei 2")
    assert name_key("???") != name_key("!!!") != ""
