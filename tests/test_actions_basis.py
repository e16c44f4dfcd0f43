"""Tokens of what a proposal was made from: those that are none, and those of something else."""

from __future__ import annotations

import base64
import json
import time
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from actions_helpers import (
    ARGUMENTS,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    everything,
    opened,
    prepared,
)
from hypothesis import given
from hypothesis import strategies as st

from datasette_limbic.actions import basis
from datasette_limbic.actions.acting import act
from datasette_limbic.errors import BadParameter, StaleProposal

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def token(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(zlib.compress(raw, 9)).decode()


BOMB = token(b"[" + b"0," * (40 * 1024 * 1024) + b"0]")


@pytest.mark.parametrize(
    "given_token",
    [
        "", "x", "é", "AAAA", " " * 100, "\x00", "=" * 8, token(b""), token(b"\xff"), token(1),
        token([]), token([{}, {}]), token([{}, {}, {}, {}]), token([[], {}, {}]),
        token([{"1": 5}, {}, {}]), token([{}, {"1": 5}, {}]), token(b"[" * 100_000),
        token([{}, {}, {}])[:-6], BOMB, 5, [], {}, b"x", True,
    ],
    ids=lambda each: repr(each)[:24],
)  # fmt: skip
def test_what_is_none(acted: Path, given_token: Any) -> None:
    with opened(acted) as conn:
        before = everything(conn)
        started = time.monotonic()
        with pytest.raises(BadParameter, match="none of a proposal"):
            act(conn, *ARGUMENTS["delete"], basis=given_token)
        assert time.monotonic() - started < 5
        assert everything(conn) == before


def test_a_bomb_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BadParameter):
            basis.read(BOMB)
        assert tracemalloc.get_traced_memory()[1] < 3 * basis.MAX_BYTES
    finally:
        tracemalloc.stop()


@given(st.text() | JSON.map(token) | st.tuples(JSON, JSON, JSON).map(token))
def test_any_token_is_read_or_refused(given_token: str) -> None:
    try:
        found = basis.read(given_token)
    except BadParameter:
        return
    here = basis.make([{"id": 1, "name": "x"}], {1: [{"id": 2, "content": "y"}]})
    for sentence in here.changes_since(found):
        assert len(sentence) < 1000


@pytest.mark.parametrize("case", ARGUMENTS)
def test_what_is_read_is_what_was_written(acted: Path, case: str) -> None:
    with opened(acted) as conn:
        shown = act(conn, *prepared(conn, case), dry_run=True)
        found = basis.read(shown["basis"])
        assert found.token() == shown["basis"]
        assert found.changes_since(found) == []
        # what nobody has seen is missed
        empty = basis.Basis()
        assert found.changes_since(empty)
        assert empty.changes_since(found)


def tokens(conn: Any) -> dict[str, str]:
    found = {
        case: act(conn, *given_action, dry_run=True)["basis"]
        for case, given_action in ARGUMENTS.items()
        if given_action[0] != "undo"
    }
    act(conn, *ARGUMENTS["delete"])
    act(conn, "undo", {"change": 1})
    act(conn, "undo", {"change": 2})
    return {**found, "undo": act(conn, "undo", {"change": 1}, dry_run=True)["basis"]}


def test_those_of_other_actions_are_refused(acted: Path) -> None:
    """The rows that an action is worked out from have to have been shown, and no others."""
    with opened(acted) as conn:
        every = tokens(conn)
        act(conn, "undo", {"change": 1})
        before = everything(conn)
        for case, (name, arguments) in ARGUMENTS.items():
            for other, theirs in every.items():
                if name == "undo" or theirs == every[case]:
                    continue
                with pytest.raises(StaleProposal):
                    act(conn, name, arguments, basis=theirs)
                assert everything(conn) == before, (case, other)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("update entities set name = 'Other' where id = 1", "the name of entity 1 was 'Atlas'"),
        ("update entities set confidence = 0.5 where id = 1", "the confidence of entity 1 was"),
        ("update entities set valid_to = '2030' where id = 1", "the end of entity 1 was None"),
        ("update observations set content = 'x' where id = 7", "observation 7 changed"),
        ("update observations set kind = 'x' where id = 3", "observation 3 changed"),
        ("update observations set entity_id = 2 where id = 3", "observation 3"),
        ("delete from observations where id in (1, 7)", "observation 1, observation 7 went"),
        ("insert into observations(id, entity_id, content) values (50, 1, 'x')", "50 came"),
    ],
)
def test_what_changed_is_said(acted: Path, sql: str, said: str) -> None:
    with opened(acted) as conn:
        arguments = {"entity": 1, "children": [{"name": "n", "observations": [4, 5]}]}
        shown = act(conn, "split", arguments, dry_run=True)
        conn.execute(sql)
        conn.commit()
        with pytest.raises(StaleProposal, match=said):
            act(conn, "split", shown["arguments"], basis=shown["basis"])


@pytest.mark.parametrize(
    "sql",
    [
        "update observations set similarity_flag = 1 where id = 3",
        "update entities set updated_at = 'x', last_activity_at = 'y' where id = 1",
        "update entity_access set access_count = 77",
        "update entities set name = 'Other' where id = 2",
    ],
)
def test_what_moves_by_itself_makes_nothing_stale(acted: Path, sql: str) -> None:
    with opened(acted) as conn:
        shown = act(conn, *ARGUMENTS["split"], dry_run=True)
        conn.execute(sql)
        conn.commit()
        done = act(conn, "split", shown["arguments"], basis=shown["basis"])
        assert done["change"] is not None
        moved = "select count(*) from observations join entities e on e.id = entity_id"
        moved += " where e.name like 'Atlas: %'"
        assert conn.execute(moved).fetchone() == (5,)


def test_a_proposal_about_much_is_said_in_short(acted: Path) -> None:
    with opened(acted) as conn:
        shown = act(conn, *ARGUMENTS["split"], dry_run=True)
        conn.executemany(
            "insert into observations(entity_id, content) values (1, ?)",
            [(f"fact {i}",) for i in range(500)],
        )
        conn.commit()
        with pytest.raises(StaleProposal, match="and 495 more came") as caught:
            act(conn, "split", shown["arguments"], basis=shown["basis"])
        assert len(str(caught.value)) < 400


def some(count: int, **changed: Any) -> list[dict[str, Any]]:
    return [{"id": i, "updated_at": i, "text": "x", **changed} for i in range(count)]


MANY = basis.MANY


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        (
            some(MANY),
            [*some(MANY - 1), {"id": MANY, "text": "y"}],
            ["row 999 went", "row 1000 came"],
        ),
        (some(MANY + 1), [*some(MANY), *some(1, id=MANY, text="y")], ["one of the rows changed"]),
        (some(MANY), some(MANY + 1), ["one of the rows came"]),
        (some(MANY + 1), some(MANY), ["one of the rows went"]),
        (some(MANY + 1), some(MANY + 1, updated_at="later"), []),
    ],
)
def test_of_many_rows_that_one_of_them_is_another(was: Any, becomes: Any, said: list[str]) -> None:
    others = {"other": [{"id": 1}]}
    first, then = (basis.make(rows={"row": each, **others}) for each in (was, becomes))
    assert basis.read(then.token()).changes_since(first) == said
    assert len(basis.make(rows={"row": some(MANY + 1)}).token()) < 200
