"""A diff of more rows than an answer has: which it has, and what is said of the others."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from actions_helpers import (
    ARGUMENTS,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    opened,
    prepared,
)

from datasette_limbic.actions import acting
from datasette_limbic.actions.described import described
from datasette_limbic.actions.diff import diff
from datasette_limbic.actions.model import New, RowChange
from datasette_limbic.cli import diffs
from datasette_limbic.views import diff_display

NAMES = {"1": "keep", "2": "even", "3": "odd", "4": "other", "new-1": "fresh"}


def changes() -> list[RowChange]:
    """Of observations and relations whatever can happen, and from where to where, by turns; an
    entity archived, and a count."""
    some = [
        RowChange("observations", (i,), {"entity_id": 2 + i % 2}, {"entity_id": to}, {"content": i})
        for i, to in enumerate([1, 1, 4, New("new-1"), 1, 1, 4], 30)
    ]
    some += [
        RowChange("observations", (i,), {"content": "x", "entity_id": 2 + i % 2}, None)
        for i in range(50, 53)
    ]
    some += [
        RowChange(
            "observations", (i,), {"confidence": 1}, {"confidence": 0.5}, {"entity_id": 2 + i % 2}
        )
        for i in range(60, 63)
    ]
    some.append(RowChange("observations", (New("new-2"),), None, {"content": "y", "entity_id": 4}))
    some += [
        RowChange("relations", (i,), {"from_entity": 2}, {"from_entity": 1}, {"to_entity": i})
        for i in range(10, 17)
    ]
    some += [
        RowChange("relations", (20,), {"valid_to": "2025"}, {"valid_to": None}, {"to_entity": 1}),
        RowChange("relations", (21,), {"from_entity": 2, "to_entity": 3}, None),
        RowChange("relations", (22,), {"from_entity": 3, "to_entity": 2}, None),
        RowChange("entity_access", (1,), {"access_count": 1}, {"access_count": 3}),
        RowChange("limbic_topics", (2,), {"entity_id": 2}, None),
        RowChange("entities", (2,), {"archived_at": None}, {"archived_at": "2026"}, {"name": "b"}),
    ]
    return some


ALL = len(diff(changes())["rows"])
LAST_MOVED = ALL - 4
"""Rows up to the last relation that moves."""
BOUNDS = [None, *range(ALL + 1)]


@pytest.mark.parametrize("most", BOUNDS)
def test_so_many_rows_are_there_and_each_kind_is_counted(most: int | None) -> None:
    found, whole = diff(changes(), most), diff(changes())
    assert found["rows"] == whole["rows"][:most]
    assert found["counts"] == whole["counts"]
    assert found["counts"]["relations"]["moved"] == 7
    assert "left_out" not in whole
    left = found.get("left_out", [])
    assert sum(each["count"] for each in left) == ALL - len(found["rows"])
    of_kind = Counter((row["table"], row["what"]) for row in found["rows"])
    for each in left:
        of_kind[each["table"], each["what"]] += each["count"]
    assert of_kind == Counter((row["table"], row["what"]) for row in whole["rows"])


def test_what_is_left_out_has_where_from_and_where_to() -> None:
    left = json.loads(json.dumps(diff(changes(), 0)["left_out"]))
    counts = {tuple(each[key] for key in ("table", "what", "from", "to")): each["count"]
              for each in left}  # fmt: skip
    assert counts == {
        ("entities", "changed", None, None): 1,
        ("observations", "created", None, 4): 1,
        ("observations", "moved", 2, 1): 2,
        ("observations", "moved", 3, 1): 2,
        ("observations", "moved", 2, 4): 2,
        ("observations", "moved", 3, "new-1"): 1,
        ("observations", "changed", 2, 2): 2,
        ("observations", "changed", 3, 3): 1,
        ("observations", "removed", 2, None): 2,
        ("observations", "removed", 3, None): 1,
        ("relations", "moved", None, None): 7,
        ("relations", "changed", None, None): 1,
        ("relations", "removed", None, None): 2,
        ("entity_access", "changed", None, None): 1,
    }


def headings(text: str) -> list[str]:
    return re.findall(r"^\w+: .*", text, re.M)


@pytest.mark.parametrize("most", BOUNDS)
def test_a_terminal_says_of_each_group_how_many_there_are(
    most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffs, "MOST", 1)
    text = "\n".join(diffs.lines(diff(changes(), most), NAMES))
    whole = "\n".join(diffs.lines(diff(changes()), NAMES))
    assert headings(text) == headings(whole)
    assert "Moved: 2 observations from 'odd' to 'keep'" in headings(text)
    assert "Moved: 1 observation from 'odd' to 'fresh'" in headings(text)
    assert "Removed: 2 relations" in headings(text)
    assert text.endswith("\nWhat follows from it: 1 kept list of topics removed")
    for group in text.split("\n\n"):
        size = re.match(r"\n?(?:Created|Moved|Changed|Removed): (\d+)", group)
        if size:
            more = re.search(r"… and (\d+) more", group)
            shown = len(re.findall(r"^  (?!…)", group, re.M))
            assert shown + (int(more[1]) if more else 0) == int(size[1])


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (None, "and 4 more: --json has them all"),
        (ALL, "and 4 more: --json has them all"),
        (LAST_MOVED, "and 4 more: --json has them all"),
        (LAST_MOVED - 1, "and 4 more: --json has 3 of them"),
        (LAST_MOVED - 4, "and 4 more: --json has none of them"),
        (LAST_MOVED - 5, "and 5 more: --json has none of them"),
        (LAST_MOVED - 7, "and 7 more: --json has none of them"),
    ],
)
def test_a_long_list_says_how_many_of_the_others_its_json_has(
    most: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffs, "MOST", 3)
    text = "\n".join(diffs.lines(diff(changes(), most), NAMES))
    moved = text.partition("\nMoved: 7 relations\n")[2]
    assert said in moved.partition("\n\n")[0]


@pytest.mark.parametrize("most", BOUNDS)
def test_a_page_says_of_each_group_how_many_there_are(most: int | None) -> None:
    here: Any = SimpleNamespace(url=lambda path: path)
    found = diff(changes(), most)
    shown, whole = (diff_display.shown(here, each, NAMES) for each in (found, diff(changes())))
    for group, same in zip(shown["groups"], whole["groups"], strict=True):
        assert (group["heading"], group["size"]) == (same["heading"], same["size"])
        assert group["path"] == same["path"]
        assert group["size"] == len(group["rows"]) + group["more"]
        assert group["listed"] == 0  # of what is not shown, since there are few
    assert sum(len(group["rows"]) for group in shown["groups"]) == len(found["rows"])
    assert [key for key in shown if shown[key] != whole[key]] in ([], ["groups"])
    assert shown["beside"] == ["1 removed kept list of topics"]


@pytest.mark.parametrize("case", ARGUMENTS)
def test_each_action_says_where_everything_goes_however_much_is_left_out(
    case: str, acted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: Any = SimpleNamespace(url=lambda path: path)

    def said(most: int) -> tuple[Any, ...]:
        monkeypatch.setattr(acting, "MOST", most)
        made = acting.act(conn, name, given, dry_run=True)["diff"]
        assert len(made["rows"]) <= most
        found, names = described(conn, made)
        page = diff_display.shown(here, found, names)
        groups = [(group["heading"], group["size"], group["path"]) for group in page["groups"]]
        terminal = "\n".join(diffs.lines(found, names))
        return (
            headings(terminal),
            terminal.partition("What follows")[2],
            groups,
            page["beside"],
            found,
        )

    with opened(acted) as conn:
        name, given = prepared(conn, case)
        *whole, found = said(1000)
        assert "left_out" not in found
        # entities, of which an action has a few, are never left out: the others are named by them
        entities = sum(row["table"] == "entities" for row in found["rows"])
        for most in range(entities, len(found["rows"])):
            *cut, found = said(most)
            assert found["left_out"]
            assert cut == whole
