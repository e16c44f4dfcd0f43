"""A diff of more rows than an answer has: which it has, and what is said of the others."""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from datasette_limbic.actions.diff import diff
from datasette_limbic.actions.model import RowChange
from datasette_limbic.cli import diffs
from datasette_limbic.views import diff_display


def changes() -> list[RowChange]:
    """Relations and observations that move, from two entities to one, and an entity archived."""
    moved = [
        RowChange("relations", (i,), {"from_entity": 2}, {"from_entity": 1}, {"to_entity": i})
        for i in range(10, 17)
    ]
    moved += [
        RowChange(
            "observations", (i,), {"entity_id": 2 + i % 2}, {"entity_id": 1}, {"content": "x"}
        )
        for i in (30, 32, 34, 36, 31, 33)
    ]
    kept = RowChange("entity_access", (1,), {"access_count": 1}, {"access_count": 3})
    gone = RowChange(
        "entities", (2,), {"archived_at": None}, {"archived_at": "2026"}, {"name": "b"}
    )
    return [*moved, kept, gone]


@pytest.mark.parametrize("most", [None, 15, 14, 9, 8, 5, 1])
def test_so_many_rows_are_there_and_all_are_counted(most: int | None) -> None:
    found = diff(changes(), most)
    whole = diff(changes())
    assert found["rows"] == whole["rows"][:most]
    assert found.get("left_out", 0) == len(whole["rows"]) - len(found["rows"])
    assert "left_out" not in whole
    assert found["counts"] == whole["counts"]
    assert found["counts"]["relations"]["moved"] == 7


# an entity, six observations, seven relations, a count: of the last ones no row may be there
@pytest.mark.parametrize(("most", "listed"), [(None, 7), (15, 7), (9, 7), (7, 0), (4, 0)])
def test_headings_count_what_is_left_out(most: int | None, listed: int) -> None:
    found = diff(changes(), most)
    here: Any = SimpleNamespace(url=lambda path: path)
    shown = diff_display.shown(here, found, {})
    sizes: Counter[str] = Counter()
    for group in shown["groups"]:
        assert group["size"] == len(group["rows"]) + group["more"]
        sizes[group["heading"]] += group["size"]
    assert sizes["Moved observations"] == 6
    assert sizes["Moved relations"] == listed
    assert ("7 moved relations" in shown["beside"]) == (not listed)
    text = "\n".join(diffs.lines(found, {}))
    said = [int(n) for n in re.findall(r"^Moved: (\d+) observations", text, re.M)]
    assert sum(said) == 6
    assert ("\nMoved: 7 relations\n" in text) == bool(listed)
    follows = text.partition("\nWhat follows from it: ")[2]
    assert ("7 relations moved" in follows) == (not listed)


def test_a_long_list_says_how_many_its_json_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffs, "MOST", 3)
    assert "… and 4 more: --json has them all" in "\n".join(diffs.lines(diff(changes()), {}))
    assert "… and 4 more: --json has 5 of them" in "\n".join(diffs.lines(diff(changes(), 12), {}))
