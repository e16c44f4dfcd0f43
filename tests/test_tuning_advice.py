"""What is said beside a verdict: labels that did not count, and what to do next."""

from __future__ import annotations

from typing import Any

import pytest

from datasette_limbic.tuning import estimating, proposing
from datasette_limbic.tuning.advice import NO_ESTIMATE, advice, not_counted, not_shown
from datasette_limbic.tuning.log import NONE, SOURCES


def counts(**labels: int) -> dict[str, Any]:
    of_all = {SOURCES[i]: 0 for i in range(len(SOURCES)) if i != NONE}
    return {"labels": {**of_all, **labels}, "unshown_ratings": 0, "unshown_opened": 0}


@pytest.mark.parametrize(
    ("not_used", "labels", "said"),
    [
        ([], {"reaccessed": 3, "opened": 3}, None),
        (["reaccessed"], {}, None),
        (["reaccessed"], {"opened": 3, "useful": 1}, None),
        (["reaccessed"], {"reaccessed": 1}, "results opened again later, since"),
        (["opened"], {"opened": 1}, "results opened or rated, since"),
        (["opened"], {"useful": 1}, "results opened or rated, since"),
        (["opened"], {"not_useful": 2, "reaccessed": 2}, None),
        (["opened", "reaccessed"], {"opened": 1, "reaccessed": 1}, "rated or opened again later,"),
        (["opened", "reaccessed"], {"reaccessed": 1}, "results opened again later, since"),
    ],
)
def test_only_labels_that_there_are_can_be_left_out(
    not_used: list[str], labels: dict[str, int], said: str | None
) -> None:
    found = not_counted({"not_used": not_used}, counts(**labels))
    assert [sentence[:13] for sentence in found] == (["Not counted: "] if said else [])
    assert said is None or said in found[0]


def test_each_group_of_labels_has_its_words() -> None:
    for name in estimating.GROUPS:
        everything = counts(**dict.fromkeys(counts()["labels"], 1))
        assert not_counted({"not_used": [name]}, everything), name


@pytest.mark.parametrize(
    ("ratings", "opened", "said"),
    [(0, 0, []), (1, 0, ["1 label of"]), (0, 2, ["2 labels of"]), (1_000, 1, ["1,001 labels of"])],
)
def test_labels_of_what_was_not_shown(ratings: int, opened: int, said: list[str]) -> None:
    found = not_shown({"unshown_ratings": ratings, "unshown_opened": opened})
    assert found == [f"Not counted: {each} what the search had not shown" for each in said]


@pytest.mark.parametrize("code", NO_ESTIMATE)
def test_before_an_estimate(code: str) -> None:
    """Nothing is said against a bias of what was not estimated."""
    refusal = proposing.Refusal(code, "x", 1, 2)
    said = advice({"refusal": refusal.as_dict(), "biased": True})
    assert len(said) == (2 if code == "parameters" else 1)
