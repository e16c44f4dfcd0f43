"""What is embedded before an action is, byte for byte, what the file would have embedded after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from actions_helpers import (
    ARGUMENTS,
    ATLAS,
    BOREALIS,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    assert_settled,
    opened,
    prepared,
)

from datasette_limbic import llm_store
from datasette_limbic.actions import snapshots
from datasette_limbic.actions.acting import Action, act
from datasette_limbic.actions.model import New, Plan
from datasette_limbic.sync import sync


def planned(conn: Any, case: str) -> tuple[Plan, dict[str, Any]]:
    name, arguments = prepared(conn, case)
    action = Action(name, arguments)
    action.read(conn)
    assert action.plan is not None
    return action.plan, arguments


def all_texts(conn: Any) -> dict[int, str]:
    ids = [row[0] for row in conn.execute("select id from entities")]
    return llm_store.texts(conn, "entities", ids)


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("case", ARGUMENTS)
def test_texts_are_those_of_afterwards(acted: Path, case: str, odd: bool) -> None:
    with opened(acted) as conn:
        if odd:
            conn.execute(
                "update observations set content = cast(x'61ff0062' as text)"
                " where id < 13 and id % 3"
            )
            conn.execute("update entities set name = name || cast(x'ff' as text) where id > 4")
            conn.execute("update limbic_settings set value = 60 where key = 'snapshot_max_chars'")
            conn.commit()
            sync(conn, full=True)
        plan, _ = planned(conn, case)
        before = all_texts(conn)
        touched, left = snapshots.touched(conn, plan)
        made = snapshots.texts(conn, plan, touched)
        assert left == 0
        act(conn, plan.action, plan.arguments)
        after = all_texts(conn)
        assert {n: text for n, text in made.items() if not isinstance(n, New)} == {
            n: after[n] for n in made if not isinstance(n, New)
        }
        new = sorted(after.keys() - before.keys())
        assert [text for n, text in made.items() if isinstance(n, New)] == [after[n] for n in new]
        # whoever is not among them says what was said before
        for number in before.keys() & after.keys() - made.keys():
            assert before[number] == after[number]
        assert conn.execute("select * from limbic_stale").fetchall() == []


@pytest.mark.parametrize("case", ARGUMENTS)
def test_of_what_is_undone_too(acted: Path, case: str) -> None:
    with opened(acted) as conn:
        change = act(conn, *prepared(conn, case))["change"]
        for _ in range(2):
            action = Action("undo", {"change": change})
            action.read(conn)
            assert action.plan is not None
            made = snapshots.texts(conn, action.plan, snapshots.touched(conn, action.plan)[0])
            change = act(conn, "undo", {"change": change})["change"]
            after = all_texts(conn)
            assert made == {number: after[number] for number in made}


def test_neighbours_of_a_hub_are_left_to_sync(acted: Path, models: Any) -> None:
    """The first hundred are embedded; how many are not is said, and sync does them."""
    with opened(acted) as conn:
        conn.executemany(
            "insert into entities(id, name) values (?, ?)",
            [(n, f"neighbour {n}") for n in range(1000, 1130)],
        )
        conn.executemany(
            "insert into relations(from_entity, to_entity, relation_type) values (?, ?, 'near')",
            [(n, BOREALIS) for n in range(1000, 1130)],
        )
        conn.commit()
        sync(conn)
        answer = act(conn, "archive", {"entity": BOREALIS, "reason": "done"})
        # Atlas, ATLAS and Borealis itself come first
        assert answer["search"]["updated"] is False
        assert "neighbours are left to the next sync" in answer["search"]["reason"]
        stale = conn.execute("select item_id from limbic_stale where collection = 'entities'")
        left = [row[0] for row in stale]
        assert len(left) == 130 + 2 - snapshots.NEIGHBOURS
        assert min(left) > 1000
        models["bag"].seen.clear()
        sync(conn)
        assert len(models["bag"].seen) == len(left)
        assert_settled(conn)


def test_reads_only(acted: Path) -> None:
    with opened(acted, readonly=True) as conn:
        plan, _ = planned(conn, "split")
        touched, _ = snapshots.touched(conn, plan)
        assert touched[:1] != []
        assert ATLAS in touched
        assert conn.total_changes == 0
