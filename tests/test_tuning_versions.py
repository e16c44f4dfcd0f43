"""Versions of the parameters: applying, a person's word, taking back, and what was."""

from __future__ import annotations

import itertools
import json
import math
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tuning_helpers
from actions_helpers import faulty, opened
from datasette.utils.sqlite import sqlite3
from empty_memory import empty_memory
from exporting_helpers import copied, full
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from view_helpers import base, get, get_json, post_json, recording_datasette, text_of

from datasette_limbic import compat, scoring, search, times
from datasette_limbic.config import Settings
from datasette_limbic.errors import (
    BadParameter,
    LimbicError,
    NotAMemory,
    NotRecorded,
    NotWritable,
    Refused,
    StaleProposal,
)
from datasette_limbic.integrity import check
from datasette_limbic.request import applied_parameters
from datasette_limbic.tuning import log as logs
from datasette_limbic.tuning import versions
from datasette_limbic.tuning.log import Log
from datasette_limbic.tuning.version_writing import number_of
from datasette_limbic.tuning.versions import InForce, apply, blended, history, in_force

CONSTANTS = (scoring.BETA_SAL, scoring.GAMMA)
CONFIGURED = Settings(beta_sal=0.25, gamma=0.02)
INSERT = (
    "insert into limbic_parameters(version, beta_sal, gamma, source, evidence) values (?, ?, ?,"
    " ?, ?)"
)
NUMBERS = st.floats(0, 10)
NAMES = ("version", "beta_sal", "gamma")


@pytest.fixture
def conn(empty_db: Path) -> Iterator[Any]:
    with opened(empty_db) as found:
        yield found


def pair(found: InForce) -> tuple[float, float]:
    return (found.beta_sal, found.gamma)


def rows(conn: Any) -> list[tuple[Any, ...]]:
    """Each row, its values with their types."""
    return conn.execute("select *, typeof(evidence) from limbic_parameters order by 1").fetchall()


def insert(conn: Any, *values: Any) -> None:
    """A row of another program's; CHECK constraints do not hold it back."""
    conn.execute("pragma ignore_check_constraints = on")
    conn.execute(INSERT, values)
    conn.commit()
    conn.execute("pragma ignore_check_constraints = off")


def proposed(conn: Any, target: tuple[float, float] = (1.0, 0.1), **given: Any) -> InForce:
    """A proposal, applied: of a log of its own unless that is given."""
    number = len(rows(conn))
    options: dict[str, Any] = {
        "log_digest": f"log {number}",
        "expected_version": in_force(conn).version,
    }
    return apply(conn, {"gain": 0.01}, target, **{**options, **given})


# -- blending -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [(0.5, 1.0, 0.55), (0.01, 0.1, 0.019), (1.0, 0.0, 0.9), (0.0, 10.0, 1.0), (0.7, 0.7, 0.7)],
)
def test_ten_percent_new_ninety_old(old: float, new: float, expected: float) -> None:
    assert blended(old, new) == pytest.approx(expected, rel=1e-15)


@given(NUMBERS, NUMBERS)
@example(0.1, 0.1)
@example(5e-324, 5e-324)
@example(0.3, math.nextafter(0.3, 1))
def test_a_blend_is_between(old: float, new: float) -> None:
    found = blended(old, new)
    assert min(old, new) <= found <= max(old, new)
    assert abs(found - old) <= abs(new - old) * 0.1 + 1e-14


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_blend_rises_with_either(one: float, other: float, third: float) -> None:
    low, high = sorted((one, other))
    assert blended(third, low) <= blended(third, high)
    assert blended(low, third) <= blended(high, third)


def test_blending_again_and_again_gets_there(conn: Any) -> None:
    conn.execute("pragma synchronous = off")
    for _ in range(45):
        versions.set_manual(conn, gamma=0.05)
    assert in_force(conn).gamma == pytest.approx(0.05, rel=0.01)
    assert in_force(conn).beta_sal == scoring.BETA_SAL


# -- what is in force ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        (None, InForce(0, *CONSTANTS, "constants")),
        (Settings(), InForce(0, *CONSTANTS, "constants")),
        (Settings(gamma=0.02), InForce(0, scoring.BETA_SAL, 0.02, "configuration")),
        (CONFIGURED, InForce(0, 0.25, 0.02, "configuration")),
        (Settings(beta_sal=2), InForce(0, 2.0, scoring.GAMMA, "configuration")),
    ],
)
def test_without_a_version(conn: Any, configuration: Settings | None, expected: InForce) -> None:
    assert in_force(conn, configuration) == expected
    assert type(in_force(conn, configuration).beta_sal) is float
    assert applied_parameters(conn) == {}
    assert history(conn) == []


@pytest.mark.parametrize("bad", [11, -0.1, math.nan, math.inf, "x", True])
def test_configuration_out_of_range(conn: Any, bad: Any) -> None:
    with pytest.raises(BadParameter, match="configuration: gamma must be a number from 0 to 10"):
        in_force(conn, Settings(gamma=bad))


def test_the_newest_version_counts_before_configuration(conn: Any) -> None:
    insert(conn, 1, 0.7, 0.03, "manual", None)
    insert(conn, 5, 0.8, 0.04, "tuned", None)
    assert in_force(conn, CONFIGURED) == InForce(5, 0.8, 0.04, "tuned")
    assert applied_parameters(conn) == {"beta_sal": 0.8, "gamma": 0.04, "version": 5}


UNUSABLE = [
    (9, "much", 0.1),
    (9, 0.1, b"\xff"),
    (9, math.inf, 0.1),
    (9, 0.1, -math.inf),
    (9, 0.1, 10.5),
    (9, -0.1, 0.1),
    (9, 1 << 62, 0.1),
    (0, 0.9, 0.1),
    (-5, 0.9, 0.1),
    (-(1 << 63), 0.9, 0.1),
]


@pytest.mark.parametrize("row", UNUSABLE)
def test_what_no_search_can_use_is_passed_over(conn: Any, row: tuple[Any, ...]) -> None:
    insert(conn, 3, 0.7, 0.03, "manual", None)
    insert(conn, *row, "manual", None)
    assert in_force(conn) == InForce(3, 0.7, 0.03, "manual")
    answer = search.search(conn, "anything")
    assert (answer["parameters"]["beta_sal"], answer["parameters"]["gamma"]) == (0.7, 0.03)
    listed = {each["version"]: each for each in history(conn)}
    assert [each["in_force"] for each in listed.values()].count(True) == 1
    assert listed[3]["in_force"]
    assert listed[3]["unusable"] is None
    assert re.search("must be a number|counted from 1", listed[row[0]]["unusable"])
    json.dumps(history(conn), allow_nan=False)
    # a version after it follows on the one that was in force
    found = versions.set_manual(conn, gamma=0.1)
    assert found.version == max(row[0], 3) + 1
    assert found.gamma == blended(0.03, 0.1)
    assert history(conn)[0]["from"] == {"version": 3, "beta_sal": 0.7, "gamma": 0.03}
    assert pair(versions.rollback(conn)) == (0.7, 0.03)
    with pytest.raises((Refused, BadParameter)):
        versions.rollback(conn, row[0] if row[0] else -1)


@pytest.mark.parametrize("row", UNUSABLE)
def test_nothing_but_what_no_search_can_use(conn: Any, row: tuple[Any, ...]) -> None:
    insert(conn, *row, "manual", None)
    assert in_force(conn, CONFIGURED) == InForce(0, 0.25, 0.02, "configuration")
    assert applied_parameters(conn) == {}
    [listed] = history(conn)
    assert not listed["in_force"]
    found = versions.set_manual(conn, gamma=1, settings=CONFIGURED)
    assert found == InForce(max(row[0], 0) + 1, 0.25, blended(0.02, 1), "manual")
    assert pair(versions.rollback(conn)) == CONSTANTS


def test_text_that_is_a_number_is_one_to_sqlite(conn: Any) -> None:
    insert(conn, 1, "0.7", " 3e-2 ", "manual", None)
    assert in_force(conn) == InForce(1, 0.7, 0.03, "manual")


# -- a person's word ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"gamma": 0.05}, (0.5, 0.014)),
        ({"beta_sal": 0.75}, (0.525, 0.01)),
        ({"beta_sal": 0.75, "gamma": 0.05}, (0.525, 0.014)),
        ({"beta_sal": 0, "gamma": 10}, (0.45, 1.009)),
        ({"beta_sal": np.float64(1.5)}, (0.6, 0.01)),
    ],
)
def test_a_person_s_word(conn: Any, given_: dict[str, Any], expected: tuple[float, float]) -> None:
    before = times.now_sql()
    found = versions.set_manual(conn, **given_, actor="ana\ud800")
    assert (found.version, found.source) == (1, "manual")
    assert pair(found) == pytest.approx(expected, rel=1e-14)
    assert found == in_force(conn)
    assert not conn.in_transaction
    [row] = history(conn)
    assert row.pop("created_at") >= before
    assert row == {
        "version": 1,
        "source": "manual",
        "from": {"version": 0, "beta_sal": CONSTANTS[0], "gamma": CONSTANTS[1]},
        "to": {"version": 1, "beta_sal": found.beta_sal, "gamma": found.gamma},
        "evidence": {
            "asked": given_,
            "from": {"version": 0, "beta_sal": CONSTANTS[0], "gamma": CONSTANTS[1]},
            "blend": 0.1,
        },
        "log_digest": None,
        "applied_by": "ana\ufffd",
        "in_force": True,
        "stands_for": 1,
        "rollback_to": 0,
        "unusable": None,
    }


def test_a_word_is_blended_into_what_configuration_has(conn: Any) -> None:
    found = versions.set_manual(conn, gamma=0.1, settings=CONFIGURED)
    assert pair(found) == (0.25, blended(0.02, 0.1))
    # and from then on configuration counts no more
    assert pair(versions.set_manual(conn, beta_sal=1)) == (blended(0.25, 1), found.gamma)


BAD = [
    *(math.nan, math.inf, -math.inf, True, False, "0.05", "", "x" * 10**5, -1e-9),
    *(10.000001, 1 << 70, [0.1], b"1", 1j),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad!r:.20}")
@pytest.mark.parametrize("name", ["beta_sal", "gamma"])
def test_values_that_are_none(conn: Any, name: str, bad: Any) -> None:
    other = {"beta_sal": "gamma", "gamma": "beta_sal"}[name]
    target = {name: bad, other: 0.5}
    for call in (
        lambda: versions.set_manual(conn, **{name: bad}),
        lambda: versions.set_manual(conn, **target),
        lambda: proposed(conn, (target["beta_sal"], target["gamma"])),
    ):
        with pytest.raises(BadParameter) as raised:
            call()
        said = str(raised.value)
        assert f"{name} must be a number from 0 to 10, not {bad!r:.40}" in said
        assert len(said) < 300
    assert rows(conn) == []


def test_no_word_at_all(conn: Any) -> None:
    with pytest.raises(BadParameter, match="neither beta_sal nor gamma is given: give one"):
        versions.set_manual(conn)


def test_what_changes_nothing(conn: Any) -> None:
    with pytest.raises(Refused, match=r"gamma 0\.01 is in force already, as version 0"):
        versions.set_manual(conn, gamma=0.01)
    found = versions.set_manual(conn, gamma=0.02)
    said = r"beta_sal 0\.5 and gamma 0\.011 is in force already, as version 1"
    with pytest.raises(Refused, match=said):
        proposed(conn, pair(found))
    assert len(rows(conn)) == 1
    assert versions.set_manual(conn, beta_sal=1, gamma=found.gamma).gamma == found.gamma


# -- applying a proposal ------------------------------------------------------------------------


def test_a_proposal(conn: Any) -> None:
    evidence = {"gain": 0.0123456789012345678, "interval": (0.001, math.nan), "from": "theirs"}
    found = apply(
        conn,
        evidence,
        (1.5, 0.1),
        log_digest="abc",
        expected_version=0,
        actor="ana",
        settings=CONFIGURED,
    )
    assert found == InForce(1, blended(0.25, 1.5), blended(0.02, 0.1), "tuned")
    assert found == in_force(conn, CONFIGURED)
    [row] = history(conn)
    assert (row["log_digest"], row["applied_by"], row["source"]) == ("abc", "ana", "tuned")
    assert row["evidence"] == {
        "gain": 0.0123456789012345678,
        "interval": [0.001, None],
        "asked": {"beta_sal": 1.5, "gamma": 0.1},
        "from": {"version": 0, "beta_sal": 0.25, "gamma": 0.02},
        "blend": 0.1,
    }
    assert evidence["from"] == "theirs"


@pytest.mark.parametrize("bad", [None, "", " ", 5, b"x"])
def test_a_proposal_comes_from_a_log(conn: Any, bad: Any) -> None:
    with pytest.raises(BadParameter, match=f"log_digest is {bad!r}"):
        proposed(conn, log_digest=bad)
    assert rows(conn) == []


def test_evidence_that_cannot_be_written_leaves_nothing(conn: Any) -> None:
    with pytest.raises(TypeError):
        apply(conn, {"x": object()}, (1, 0.1), log_digest="a", expected_version=0)
    assert not conn.in_transaction
    assert rows(conn) == []


@pytest.mark.parametrize(
    "call",
    [
        lambda conn, seen: proposed(conn, expected_version=seen),
        lambda conn, seen: versions.set_manual(conn, gamma=0.1, expected_version=seen),
        lambda conn, seen: versions.set_manual(conn, gamma=0.011, expected_version=seen),
        lambda conn, seen: versions.rollback(conn, expected_version=seen),
        lambda conn, seen: versions.rollback(conn, 1, expected_version=seen),
    ],
)
def test_another_version_is_in_force_by_now(conn: Any, call: Callable[[Any, int], Any]) -> None:
    versions.set_manual(conn, gamma=0.02)
    versions.set_manual(conn, gamma=0.03, actor="ana")
    before = rows(conn)
    for seen in (0, 1, 3):
        with pytest.raises(StaleProposal) as raised:
            call(conn, seen)
        assert f"version {seen} was in force" in str(raised.value)
        assert re.search(r"now it is version 2 \(manual, by ana, 2\d{3}-", str(raised.value))
        assert not conn.in_transaction
    assert rows(conn) == before
    assert call(conn, 2).version == 3


def test_nothing_is_in_force_any_more(conn: Any) -> None:
    with pytest.raises(StaleProposal, match="now it is version 0, what configuration has"):
        proposed(conn, expected_version=4)


@pytest.mark.parametrize("bad", [-1, 1.5, "x", math.nan, True, [], 2**63, str(2**63), "²"])
def test_versions_that_are_none(conn: Any, bad: Any) -> None:
    with pytest.raises(BadParameter, match=re.escape(f"expected_version is {bad!r}: use a whole")):
        proposed(conn, expected_version=bad)
    with pytest.raises(BadParameter, match=re.escape(f"to is {bad!r}: use a whole number")):
        versions.rollback(conn, bad)
    assert rows(conn) == []


@pytest.mark.parametrize("number", [0, 7, 2**53 + 1, 2**63 - 1])
def test_versions_are_read_exactly(number: int) -> None:
    """Where a float has no room for them too; forms send text."""
    assert number_of("to", number) == number_of("to", str(number)) == number
    assert type(number_of("to", float(7))) is int


def test_a_version_of_thousands_of_digits() -> None:
    with pytest.raises(BadParameter, match=r"^to is '99999"):
        number_of("to", "9" * 5000)


@pytest.mark.parametrize("seen", ["then", "now"])
@pytest.mark.parametrize("after", ["nothing", "rollback", "rollback and another", "by hand"])
def test_the_same_log_twice(conn: Any, after: str, seen: str) -> None:
    versions.set_manual(conn, gamma=0.02)
    proposed(conn, log_digest="the log", actor="ana")
    if after.startswith("rollback"):
        versions.rollback(conn)
    if after.endswith("another"):
        proposed(conn, log_digest="another log")
    if after == "by hand":
        versions.set_manual(conn, gamma=5)
    before = rows(conn)
    at = before[1][7]
    expected = in_force(conn).version if seen == "now" else 1
    with pytest.raises(Refused) as raised:
        proposed(conn, (3, 3), log_digest="the log", expected_version=expected)
    assert not isinstance(raised.value, StaleProposal)
    assert f"applied already, as version 2 (tuned, by ana, {at})" in str(raised.value)
    assert rows(conn) == before


# -- taking back --------------------------------------------------------------------------------


def three(conn: Any) -> list[tuple[float, float]]:
    """Three versions; what was in force after each, with 0 before them."""
    found = [pair(in_force(conn))]
    for target in ((1, 0.1), (2, 0.2), (0, 0)):
        found.append(pair(proposed(conn, target)))
    return found


def test_one_rollback_after_another(conn: Any) -> None:
    was = three(conn)
    assert len(set(was)) == 4
    for number, to in ((4, 2), (5, 1), (6, 0)):
        assert history(conn)[0]["rollback_to"] == to
        found = versions.rollback(conn, actor="ana")
        assert found == InForce(number, *was[to], "rollback")
        row = history(conn)[0]
        assert row["evidence"] == {
            "rolled_back": number - 1,
            "to": to,
            "from": dict(zip(NAMES, (number - 1, *was[to + 1]), strict=True)),
        }
        assert (row["stands_for"], row["applied_by"]) == (to, "ana")
    assert history(conn)[0]["rollback_to"] is None
    with pytest.raises(Refused, match="nothing before it: version 6 is back at what configuration"):
        versions.rollback(conn)
    assert len(rows(conn)) == 6
    # what comes after goes back to where it came from
    proposed(conn, (3, 3))
    assert pair(versions.rollback(conn)) == was[0]


def test_nothing_to_take_back(conn: Any) -> None:
    with pytest.raises(Refused, match="nothing before it: no version was applied yet"):
        versions.rollback(conn)
    with pytest.raises(Refused, match="what version 0 has is in force already"):
        versions.rollback(conn, 0)
    assert rows(conn) == []


def test_after_a_rollback_comes_another_word(conn: Any) -> None:
    was = three(conn)
    versions.rollback(conn)  # to 2
    versions.set_manual(conn, gamma=9)
    assert pair(versions.rollback(conn)) == was[2]
    assert pair(versions.rollback(conn)) == was[1]


@pytest.mark.parametrize("to", [0, 1, 2])
def test_back_to_one_that_is_named(conn: Any, to: int) -> None:
    was = three(conn)
    found = versions.rollback(conn, to)
    assert found == InForce(4, *was[to], "rollback")
    with pytest.raises(Refused, match=f"what version {to} has is in force already"):
        versions.rollback(conn, to)
    with pytest.raises(Refused, match="what version 4 has is in force already"):
        versions.rollback(conn, 4)
    # the one that was rolled back may be named, and the rollback itself
    assert pair(versions.rollback(conn, 3)) == was[3]
    assert pair(versions.rollback(conn, 4)) == was[to]
    assert history(conn)[0]["stands_for"] == to
    if to:
        assert pair(versions.rollback(conn)) == was[to - 1]


def test_back_to_another_with_the_same_values(conn: Any) -> None:
    """It is another version all the same: what was before that one is before it again."""
    values = {1: (0.7, 0.03), 2: (0.9, 0.03), 3: (0.9, 0.03), 4: (0.7, 0.03)}
    for version, (beta_sal, gamma) in values.items():
        insert(conn, version, beta_sal, gamma, "manual", None)
    assert versions.rollback(conn, 1) == InForce(5, *values[1], "rollback")
    assert history(conn)[0]["stands_for"] == 1
    with pytest.raises(Refused, match="what version 1 has is in force already"):
        versions.rollback(conn, 1)
    assert pair(versions.rollback(conn)) == CONSTANTS
    # step by step likewise
    assert versions.rollback(conn, 3) == InForce(7, *values[3], "rollback")
    assert versions.rollback(conn) == InForce(8, *values[2], "rollback")
    assert history(conn)[0]["stands_for"] == 2


def test_back_to_what_configuration_has_now(conn: Any) -> None:
    versions.set_manual(conn, gamma=1)
    found = versions.rollback(conn, settings=CONFIGURED)
    assert found == InForce(2, 0.25, 0.02, "rollback")
    with pytest.raises(Refused, match="what version 0 has is in force already"):
        versions.rollback(conn, 0, settings=CONFIGURED)
    # configuration is another by now
    assert pair(versions.rollback(conn, 0, settings=Settings(gamma=0.5))) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("made", "to", "said"),
    [
        (0, 1, "to is 1: this memory has no version yet; 0 is"),
        (1, 2, "to is 2: this memory has version 1; 0 is"),
        (3, 9, "to is 9: this memory has versions from 1 to 3; 0 is"),
        (3, 1 << 63, f"to is {1 << 63}: "),
        (3, 1 << 200, f"to is {str(1 << 200)[:50]}"),
    ],
)
def test_no_such_version(conn: Any, made: int, to: int, said: str) -> None:
    for number in range(made):
        versions.set_manual(conn, gamma=number + 1)
    with pytest.raises(BadParameter, match=said):
        versions.rollback(conn, to)
    assert len(rows(conn)) == made


@pytest.mark.parametrize(
    "evidence",
    [
        None,
        "",
        "{",
        "[1]",
        '{"to": 9}',
        '{"to": 3}',
        '{"to": "1"}',
        '{"to": true}',
        '{"to": -1}',
        '{"to": 1.0}',
        '{"to": {"to": 1}}',
        b'{"to": 1}',
    ],
)
def test_a_rollback_of_others_that_says_nothing_stands_for_itself(conn: Any, evidence: Any) -> None:
    insert(conn, 1, 0.1, 0.1, "manual", None)
    insert(conn, 2, 0.2, 0.2, "manual", None)
    insert(conn, 3, 0.3, 0.3, "rollback", evidence)
    assert history(conn)[0]["stands_for"] == 3
    assert [pair(versions.rollback(conn)) for _ in range(3)] == [(0.2, 0.2), (0.1, 0.1), CONSTANTS]


def test_no_number_is_left(conn: Any) -> None:
    last = (1 << 63) - 1
    insert(conn, last, 0.1, 0.1, "manual", None)
    assert in_force(conn).version == last
    with pytest.raises(Refused, match=f"a row with the version {last}, and there is no higher"):
        proposed(conn)
    with pytest.raises(StaleProposal, match=f"version {last - 1} was in force"):
        proposed(conn, expected_version=last - 1)
    assert len(rows(conn)) == 1
    conn.execute("delete from limbic_parameters")
    insert(conn, last - 1, 0.1, 0.1, "manual", None)
    assert proposed(conn).version == last


@dataclass
class Model:
    """What a person expects: each version has behind it those that it was built on."""

    values: list[tuple[float, float]]
    behind: list[tuple[int, ...]]
    """By version: itself, and before it what rollbacks go back to; a rollback has what the
    version had that it brought back."""

    def add(self, values: tuple[float, float]) -> None:
        self.values.append(values)
        self.behind.append((*self.behind[-1], len(self.values) - 1))

    def back(self, to: int) -> None:
        self.values.append(self.values[to])
        self.behind.append(self.behind[to])


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), NUMBERS, NUMBERS),
        st.tuples(st.just("set"), st.one_of(st.none(), NUMBERS), NUMBERS),
        st.tuples(st.just("back")),
        st.tuples(st.just("back to"), st.integers(0, 12)),
    ),
    max_size=14,
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with opened(empty_memory(tmp_path_factory.mktemp("kept") / "memory.db")) as found:
        found.execute("pragma synchronous = off")
        yield found


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(STEPS)
@example([("apply", 1, 1), ("apply", 2, 2), ("back",), ("back to", 2), ("back",), ("back",)])
def test_any_sequence(kept: Any, steps: list[tuple[Any, ...]]) -> None:
    kept.execute("delete from limbic_parameters")
    kept.commit()
    model = Model([CONSTANTS], [(0,)])
    for step in steps:
        before, now = rows(kept), model.values[-1]
        try:
            if step[0] == "apply":
                proposed(kept, step[1:])
                model.add((blended(now[0], step[1]), blended(now[1], step[2])))
            elif step[0] == "set":
                beta = now[0] if step[1] is None else step[1]
                versions.set_manual(kept, step[1], step[2])
                model.add((blended(now[0], beta), blended(now[1], step[2])))
            elif step[0] == "back":
                versions.rollback(kept)
                model.back(model.behind[-1][-2])
            else:
                versions.rollback(kept, step[1])
                model.back(step[1])
        except Refused:
            there = model.behind[-1]
            if step[0] == "back":
                assert there == (0,)
            elif step[0] == "back to":
                assert model.behind[step[1]] == there
            else:
                asked = (now[0] if step[1] is None else step[1], step[2])
                assert (blended(now[0], asked[0]), blended(now[1], asked[1])) == now
            assert rows(kept) == before
        except BadParameter:
            assert step[0] == "back to"
            assert step[1] >= len(model.values)
            assert rows(kept) == before
        assert pair(in_force(kept)) == model.values[-1]
        assert in_force(kept).version == len(model.values) - 1
        # rows are only ever added
        assert rows(kept)[: len(before)] == before
    listed = history(kept)
    assert [each["version"] for each in listed] == list(range(len(listed), 0, -1))
    for each in listed:
        number, behind = each["version"], model.behind[each["version"]]
        assert (each["to"]["beta_sal"], each["to"]["gamma"]) == model.values[number]
        assert (each["from"]["beta_sal"], each["from"]["gamma"]) == model.values[number - 1]
        assert each["from"]["version"] == number - 1
        assert each["stands_for"] == behind[-1]
        assert each["rollback_to"] == (behind[-2] if len(behind) > 1 else None)
        assert each["in_force"] == (number == len(listed))


# -- history ------------------------------------------------------------------------------------

DEEP = "[" * 400 + "]" * 400


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (None, None),
        ("", ""),
        ("{", "{"),
        ("not JSON", "not JSON"),
        ('"text"', "text"),
        ("5", 5),
        ("[]", []),
        ('{"a": {"b": 1}}', {"a": {"b": 1}}),
        ('{"a": NaN, "b": [Infinity]}', {"a": None, "b": [None]}),
        ('{"x": ["a\\ud800"], "\\udc00": 1}', {"x": ["a\ufffd"], "\ufffd": 1}),
        ('{"smile": "\\ud83d\\ude00"}', {"smile": "\U0001f600"}),
        ("1e999", None),
        ("9" * 5000, "9" * 5000),
        (DEEP, DEEP),
        ("[" * 100_000, "[" * 100_000),
        (b"\xff\x00", "\ufffd\x00"),
        (b'{"a": 1}', '{"a": 1}'),
        (7, 7),
        ('{"from": 5}', {"from": 5}),
        ('{"from": {"beta_sal": "x", "gamma": 1}}', {"from": {"beta_sal": "x", "gamma": 1}}),
    ],
    ids=lambda each: f"{each!r:.30}",
)
def test_evidence_of_others_as_it_is(conn: Any, written: Any, shown: Any) -> None:
    insert(conn, 4, 0.7, 0.03, "tuned", written)
    [row] = history(conn)
    assert row["evidence"] == shown
    assert row["from"] == {"version": 0, "beta_sal": None, "gamma": None}
    assert row["to"] == {"version": 4, "beta_sal": 0.7, "gamma": 0.03}
    assert row["in_force"]
    json.dumps(row, allow_nan=False, ensure_ascii=False).encode()  # what is sent
    assert versions.rollback(conn).version == 5


def test_columns_of_others_as_they_are(conn: Any) -> None:
    conn.execute(
        "insert into limbic_parameters(version, beta_sal, gamma, source, log_digest, applied_by,"
        " created_at) values (1, .5, .1, 'manual', cast(x'ff61' as text), x'00ff', 'yesterday')"
    )
    conn.commit()
    [row] = history(conn)
    assert (row["log_digest"], row["applied_by"]) == ("\ufffda", "\x00\ufffd")
    assert row["created_at"] == "yesterday"
    with pytest.raises(Refused, match="applied already, as version 1 "):
        proposed(conn, log_digest="\ufffda")


def test_from_is_what_was_there_and_not_what_evidence_says(conn: Any) -> None:
    theirs = '{"from": {"version": 7, "beta_sal": 9, "gamma": 8}}'
    insert(conn, 1, 0.1, 0.1, "manual", theirs)
    insert(conn, 2, 0.2, 0.2, "manual", theirs)
    second, first = history(conn)
    assert second["from"] == {"version": 1, "beta_sal": 0.1, "gamma": 0.1}
    # before the first there is no row, and only this says what configuration had
    assert first["from"] == {"version": 0, "beta_sal": 9, "gamma": 8}


# -- files that cannot be written ---------------------------------------------------------------

CALLS: dict[str, Callable[[Any], Any]] = {
    "apply": lambda conn: apply(conn, {}, (1, 0.1), log_digest="new", expected_version=1),
    "set": lambda conn: versions.set_manual(conn, gamma=0.1),
    "rollback": versions.rollback,
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@pytest.fixture
def applied(empty_db: Path) -> Path:
    """A memory with a version."""
    with opened(empty_db) as conn:
        versions.set_manual(conn, gamma=0.02)
    return empty_db


@every_call
def test_read_only(applied: Path, call: Callable[[Any], Any]) -> None:
    said = f"nothing was changed: {applied.name} cannot be written: check the rights"
    with opened(applied, readonly=True) as conn:
        with pytest.raises(NotWritable, match=said):
            call(conn)
        assert not conn.in_transaction
        assert (in_force(conn).version, len(history(conn))) == (1, 1)
        conn.execute("begin")  # in a transaction of the caller's too
        with pytest.raises(NotWritable, match=said):
            call(conn)


@every_call
def test_locked(applied: Path, call: Callable[[Any], Any]) -> None:
    with opened(applied) as conn, opened(applied) as other:
        conn.execute("pragma busy_timeout = 10").fetchone()
        other.execute("begin immediate")
        said = f"nothing was changed: {applied.name} is locked by another program: close it, or try"
        with pytest.raises(NotRecorded, match=said):
            call(conn)
        assert not conn.in_transaction
        other.rollback()
        assert call(conn).version == 2


@pytest.mark.parametrize("call", [*CALLS.values(), in_force, history])
def test_no_memory(tmp_path: Path, call: Callable[[Any], Any]) -> None:
    with opened(tmp_path / "other.db", create=True) as conn:
        with pytest.raises(NotAMemory, match="datasette limbic init"):
            call(conn)
        assert conn.execute("select * from sqlite_master").fetchall() == []


@every_call
def test_a_rule_of_another_program(applied: Path, call: Callable[[Any], Any]) -> None:
    with opened(applied) as conn:
        conn.execute(
            "create trigger theirs before insert on limbic_parameters begin"
            " select raise(abort, 'frozen'); end"
        )
        before = rows(conn)
        with pytest.raises(Refused, match="a rule of this file does not allow it: frozen"):
            call(conn)
        assert not conn.in_transaction
        assert rows(conn) == before


@every_call
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize(
    "error",
    [sqlite3.OperationalError("disk I/O error"), KeyboardInterrupt(), MemoryError()],
    ids=lambda error: type(error).__name__,
)
def test_failing_at_every_statement(
    applied: Path, call: Callable[[Any], Any], error: BaseException, is_after: bool
) -> None:
    with faulty(applied) as conn, opened(applied, readonly=True) as observer:
        before = rows(observer)
        for number in itertools.count(1):
            conn.watch(number, error, is_after)
            try:
                call(conn)
            except type(error):
                steps, conn.steps = conn.steps or [], None
            else:
                conn.steps = None
                break
            assert not conn.in_transaction, steps
            if rows(observer) != before:  # carried out, and only then it failed
                assert is_after
                assert steps[-1] == "commit"
                break
        assert number > 4
        assert rows(observer)[:-1] == before


KILLED = """
import json, os, signal, sys
from datasette.utils.sqlite import sqlite3
from datasette_limbic.tuning.versions import apply

class Killed(sqlite3.Connection):
    steps = 0

    def _step(self, method, *args):
        self.steps += 1
        if self.steps == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return method(*args)

    def execute(self, *args):
        return self._step(super().execute, *args)

    def commit(self):
        self._step(super().commit)

def forked(path, at):
    pid = os.fork()
    if pid == 0:
        conn = sqlite3.connect(path, factory=Killed)
        sqlite3.Connection.execute(conn, "pragma synchronous = off")
        conn.at = at
        apply(conn, {}, (1, 0.1), log_digest="new", expected_version=1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

for path in sys.argv[1:]:
    code, at = -signal.SIGKILL, 0
    while code == -signal.SIGKILL:
        at += 1
        code = forked(path, at)
        conn = sqlite3.connect(path)
        there = conn.execute("select * from limbic_parameters").fetchall()
        damage = conn.execute("pragma integrity_check").fetchone()[0]
        conn.close()
        print(json.dumps([path, at, code, there, damage]))
"""


def test_killed_before_each_statement(applied: Path, tmp_path: Path) -> None:
    wal = tmp_path / "wal.db"
    wal.write_bytes(applied.read_bytes())
    with opened(wal) as conn:
        conn.execute("pragma journal_mode = wal").fetchone()
        before = [list(row[:-1]) for row in rows(conn)]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(applied), str(wal)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each[4] for each in said] == ["ok"] * len(said)
    for path in (applied, wal):
        *killed, last = [each for each in said if each[0] == str(path)]
        assert [each[2] for each in killed] == [-signal.SIGKILL] * len(killed)
        # begin, what is read, insert, commit
        assert len(killed) > 4
        assert [each[3] for each in killed] == [before] * len(killed)
        assert last[2] == 0
        assert last[3][:-1] == before
        assert len(last[3]) == 2


def test_in_a_transaction_of_the_caller_s(applied: Path) -> None:
    with opened(applied) as conn, opened(applied, readonly=True) as observer:
        conn.execute("begin")
        conn.execute("insert into limbic_reviews(report) values ('theirs')")
        assert versions.set_manual(conn, gamma=1).version == 2
        assert conn.in_transaction
        with pytest.raises(StaleProposal):
            versions.rollback(conn, expected_version=1)
        assert conn.in_transaction
        assert len(rows(observer)) == 1
        conn.commit()
        assert len(rows(observer)) == 2
        assert observer.execute("select count(*) from limbic_reviews").fetchone() == (1,)


@pytest.mark.parametrize("same_log", [True, False])
def test_of_many_at_once_one_is_applied(applied: Path, same_log: bool) -> None:
    ready = threading.Barrier(6)
    said: list[Any] = []

    def run(number: int) -> None:
        with opened(applied) as conn:
            digest = "log" if same_log else f"log {number}"
            ready.wait(timeout=20)
            try:
                done = apply(conn, {}, (1, 0.1 + number), log_digest=digest, expected_version=1)
                said.append(done.version)
            except LimbicError as error:
                said.append(type(error))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(said, key=str)[0] == 2
    assert said.count(Refused if same_log else StaleProposal) == 5
    with opened(applied) as conn:
        assert len(rows(conn)) == 2


# -- servers, copies, checks --------------------------------------------------------------------


async def test_a_version_counts_at_once_on_running_servers(
    demo_db: Path, make_datasette: Any
) -> None:
    config = {"beta_sal": 0.25, "gamma": 0.02}
    one = make_datasette(demo_db, config=config)
    other = recording_datasette(make_datasette, demo_db, config=config)
    url = f"{base(demo_db)}/search.json?q=delivery&strategy=limbic"

    async def shown(more: str = "") -> tuple[float, float]:
        found = await get_json(other, url + more)
        assert len(found["results"]) > 2
        return found["parameters"]["beta_sal"], found["parameters"]["gamma"]

    async def here(call: Callable[[Any], InForce]) -> InForce:
        return await compat.execute_write(one.get_database(demo_db.stem), call)

    def scores(found: dict[str, Any]) -> list[float]:
        return [each["limbic_score"] for each in found["results"]]

    await get(one, url)
    was = await get_json(other, url)
    assert await shown() == (0.25, 0.02)
    first = await here(
        lambda conn: apply(
            conn, {}, (10, 1), log_digest="log", expected_version=0, settings=Settings(**config)
        )
    )
    assert pair(first) == (blended(0.25, 10), blended(0.02, 1))
    assert await shown() == pair(first)
    assert scores(await get_json(other, url)) != scores(was)
    # what a URL says still counts before it
    assert await shown("&gamma=0.5") == (first.beta_sal, 0.5)
    assert await shown("&beta_sal=0&gamma=0") == (0, 0)
    second = await here(lambda conn: versions.set_manual(conn, beta_sal=0))
    assert await shown() == pair(second)
    body = {"query": "delivery", "wait": True}
    await post_json(other, f"{base(demo_db)}/search", body)
    await post_json(other, f"{base(demo_db)}/search", {**body, "gamma": 0.5})
    page = await get(other, f"{base(demo_db)}/search?q=delivery")
    assert page.status_code == 200
    overview = await get_json(other, f"{base(demo_db)}.json")
    assert overview["parameters_version"] == 2
    assert overview["parameters"]["beta_sal"] == second.beta_sal
    assert f"{second.beta_sal:g}" in text_of((await get(other, base(demo_db))).text)
    with opened(demo_db, readonly=True) as conn:
        logged = conn.execute("select parameters_version from limbic_searches order by id")
        assert logged.fetchall() == [(2,), (None,)]
    await here(lambda conn: versions.rollback(conn, 0, settings=Settings(**config)))
    assert await shown() == (0.25, 0.02)


def test_a_copy_has_the_same_history(conn: Any, tmp_path: Path) -> None:
    three(conn)
    versions.rollback(conn, actor="ana")
    versions.set_manual(conn, beta_sal=7, actor="Zoë")
    versions.rollback(conn)
    insert(conn, 11, 0.123456789012345678, 5e-324, "tuned", "not JSON")
    found = history(conn)
    assert len(found) == 7
    with closing(copied(full(conn), tmp_path)) as copy:
        assert history(copy) == found
        assert in_force(copy) == in_force(conn)
        with pytest.raises(Refused, match="applied already, as version 1 "):
            proposed(copy, log_digest="log 0")
        for _ in range(3):
            assert versions.rollback(copy) == versions.rollback(conn)
        assert pair(in_force(copy)) == CONSTANTS
        assert [found.name for found in check(copy).findings] == [
            "json.limbic_parameters.evidence",
        ]


def test_checks_find_ours_in_order_and_what_is_not(conn: Any) -> None:
    was = three(conn)
    versions.rollback(conn)
    versions.set_manual(conn, gamma=3)
    assert check(conn).ok
    insert(conn, 9, 0.1, 0.1, "guessed", None)
    [found] = check(conn).findings
    assert (found.name, found.count) == ("values.limbic_parameters.source", 1)
    assert in_force(conn) == InForce(9, 0.1, 0.1, "guessed")
    assert pair(versions.rollback(conn, 2)) == was[2]


# -- the digest of a log ------------------------------------------------------------------------


def log_of(*searches: tuple[int, list[tuple[int, float, int]]]) -> Log:
    """A log of searches, each an id and its candidates (entity, gain, source)."""
    made = tuning_helpers.log_of(
        [
            {"entity": [each[0] for each in found], "gain": [each[1] for each in found]}
            for _, found in searches
        ]
    )
    sources = [source for _, found in searches for *_, source in found]
    return replace(
        made,
        id=np.array([number for number, _ in searches], dtype=np.int64),
        source=np.array(sources, dtype=np.int64),
    )


NO, OPEN, GOOD, BAD_ONE = logs.NONE, logs.OPENED, logs.USEFUL, logs.NOT_USEFUL
LOG = (
    (1, [(5, 1.0, OPEN), (6, 0.0, NO), (7, math.nan, NO)]),
    (2, [(5, 2.0, GOOD), (6, 0.0, BAD_ONE)]),
)


def test_a_digest_is_the_same_everywhere() -> None:
    found = versions.digest(log_of(*LOG))
    # of these numbers, whatever machine reads them: a change makes every log a new one
    assert found == "2b9e1063567ec989d814b9cf68cd808cba297c008d0d6c86bd08d8f206e9e8df"
    assert found == versions.digest(log_of(*LOG))


@pytest.mark.parametrize(
    "other",
    [
        log_of(LOG[0], (9, [(5, 0.0, NO), (8, math.nan, NO)]), LOG[1]),
        log_of((9, [(5, 0.0, NO)]), *LOG),
        log_of(*LOG, (9, [])),
        replace(log_of(*LOG), base=np.ones(5), beta_sal=np.ones(2), client=("a", "b")),
        replace(log_of(*LOG), left_out={"no time": 5}),
        replace(log_of(*LOG), gain=np.array([1, -0.0, -math.nan, 2, -0.0])),
        replace(log_of(*LOG), source=log_of(*LOG).source.astype(np.int32)),
    ],
    ids=["between", "before", "empty", "factors", "left out", "signs", "a smaller type"],
)
def test_what_says_nothing_of_relevance_makes_no_other_log(other: Log) -> None:
    assert versions.digest(other) == versions.digest(log_of(*LOG))


@pytest.mark.parametrize(
    "other",
    [
        (LOG[0],),
        (LOG[1],),
        (LOG[0], (3, LOG[1][1])),
        (LOG[0], (2, [(5, 1.0, GOOD), (6, 0.0, BAD_ONE)])),
        (LOG[0], (2, [(5, 2.0, OPEN), (6, 0.0, BAD_ONE)])),
        (LOG[0], (2, [(5, 2.0, GOOD), (6, 0.0, NO)])),
        (LOG[0], (2, [(5, 2.0, GOOD), (7, 0.0, BAD_ONE)])),
        (LOG[0], (2, [(5, 2.0, GOOD), (6, math.nan, BAD_ONE)])),
        ((1, LOG[0][1][:2]), (2, [LOG[0][1][2], *LOG[1][1]])),
        (*LOG, (3, [(5, 1.0, OPEN)])),
        (),
    ],
)
def test_what_says_more_or_less_makes_another(other: Any) -> None:
    assert versions.digest(log_of(*other)) != versions.digest(log_of(*LOG))


def test_a_log_of_nothing_has_a_digest() -> None:
    assert versions.digest(log_of()) == versions.digest(log_of((1, [(5, 0.0, NO)])))


def test_a_connection_without_our_functions_does(applied: Path) -> None:
    with closing(sqlite3.connect(applied)) as conn:
        conn.row_factory = sqlite3.Row
        assert in_force(conn) == InForce(
            1, scoring.BETA_SAL, blended(scoring.GAMMA, 0.02), "manual"
        )
        assert versions.rollback(conn).version == 2
        assert [each["version"] for each in history(conn)] == [2, 1]
    with opened(applied, readonly=True) as conn:
        assert pair(in_force(conn)) == CONSTANTS
