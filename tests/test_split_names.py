"""Names for the parts of an entity."""

from __future__ import annotations

import random

import pytest

from datasette_limbic.reports.name_clashes import folded
from datasette_limbic.reports.split_names import child_names


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
        # and so is what health would report as a clash: without spaces too
        ("Atlas", [["geocoder"]], ["Atlasgeocoder"], ["Atlas – geocoder 2"]),
        ("Atlas", [["geo", "cache", "tiles"]], ["ATLAS-GEOCACHE"], ["Atlas – geo, cache, tiles"]),
        ("A", [["c"]], ["A – C++", "A c#"], ["A – c"]),
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


@pytest.mark.parametrize("seed", range(20))
def test_no_name_clashes_with_another(seed: int) -> None:
    r = random.Random(seed)
    parts = ["Atlas", "geo", "coder", "Caché", "1", "1.0", "C++", "–", "  ", "ñ", "n"]
    joined = [r.choice(["", " ", "-", ", "]).join(r.choices(parts, k=4)) for _ in range(60)]
    names = child_names("Atlas 1", [r.choices(parts, k=3) for _ in range(4)], joined)
    forms = [folded(name) for name in names]
    assert len(set(forms)) == 4
    assert not {folded(name) for name in [*joined, "Atlas 1"]}.intersection(forms)
