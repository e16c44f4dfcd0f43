"""Ranges of parameters as they are written on a command line."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from datasette_limbic.errors import BadParameter
from datasette_limbic.scoring import Parameters
from datasette_limbic.tuning.ranges import (
    DEFAULT_BETA_SAL,
    DEFAULT_GAMMA,
    HIGHEST,
    MOST,
    log_spaced,
    parse_range,
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.001,0.01,0.05,0.1", (0.001, 0.01, 0.05, 0.1)),
        ("0.1,0.5,1.0", (0.1, 0.5, 1.0)),
        (" 0.5 ,\t.1,1e-3 ", (0.001, 0.1, 0.5)),
        ("0.5,0.1,0.5,0.50", (0.1, 0.5)),
        ("0.5", (0.5,)),
        ("0,0.1", (0.0, 0.1)),
        ("-0.0", (0.0,)),
        ("10", (10.0,)),
        (",".join(["0.25"] * MOST), (0.25,)),
        ("0.01:1:3", (0.01, 0.1, 1.0)),
        (" 0.01 : 1 : 2 ", (0.01, 1.0)),
        ("1e-3:10:5", (0.001, 0.01, 0.1, 1.0, 10.0)),
    ],
)
def test_what_may_be_written(text: str, values: tuple[float, ...]) -> None:
    found = parse_range("gamma_range", text)
    assert found == pytest.approx(values, rel=1e-12)
    assert [type(each) for each in found] == [float] * len(values)
    assert not np.signbit(found).any()


@pytest.mark.parametrize(
    ("text", "count"), [("0.001:0.1", 12), ("0.001:0.1:20", 20), ("0.001:0.1:100", 100)]
)
def test_log_spaced_as_numpy_has_it(text: str, count: int) -> None:
    found = parse_range("gamma_range", text)
    assert found == pytest.approx(np.geomspace(0.001, 0.1, count), rel=1e-12)
    assert (found[0], found[-1]) == (0.001, 0.1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["is empty", "write values with commas"]),
        (" \n", ["is empty"]),
        ("0.1,,0.2", ["'0.1,,0.2'", "lacks a value"]),
        ("0.1,", ["'0.1,'", "lacks a value"]),
        (",", ["lacks a value"]),
        ("0.1:", ["'0.1:'", "lacks a value"]),
        (":", ["lacks a value"]),
        ("-0.1", ["'-0.1'", "from 0 to 10"]),
        ("0.1,-1e-300", ["'-1e-300'", "from 0 to 10"]),
        ("0.1,10.1", ["'10.1'", "from 0 to 10"]),
        ("nan", ["'nan'", "from 0 to 10"]),
        ("0.1,inf", ["'inf'"]),
        ("a few", ["'a few'", "use a number"]),
        ("0.1;0.2", ["'0.1;0.2'"]),
        ("0.1 0.2", ["'0.1 0.2'"]),
        ("0x1", ["'0x1'"]),
        ("0.1\x00", ["x00"]),
        (",".join(str(i / 100) for i in range(MOST + 1)), ["101 values", "at most 100"]),
        ("0.1:0.1", ["'0.1:0.1'", "0.1 is not below 0.1", "lower end first"]),
        ("0.2:0.1:5", ["0.2 is not below 0.1"]),
        ("0:0.1", ["'0:0.1'", "never reach 0", "low end above 0"]),
        ("-0:0.1", ["never reach 0"]),
        ("-1:0.1", ["'-1'"]),
        ("0.1:11", ["'11'", "from 0 to 10"]),
        ("nan:0.1", ["'nan'"]),
        ("0.1:0.2:1", ["count", "'1'", "from 2 to 100"]),
        ("0.1:0.2:101", ["count", "'101'", "from 2 to 100"]),
        ("0.1:0.2:2.5", ["'2.5'", "whole number"]),
        ("0.1:0.2:nan", ["'nan'"]),
        ("0.1:0.2:", ["count", "''"]),
        ("0.1:0.2:3:4", ["'0.1:0.2:3:4'", "low:high:count"]),
        ("0.1:0.2,0.3", ["'0.1:0.2,0.3'", "low:high:count"]),
        ("0.1:0.10000000000000003:50", ["only 3 numbers", "further apart"]),
        (None, ["None"]),
        (0.1, ["0.1", "write values with commas"]),
        ([0.1], ["[0.1]"]),
        (b"0.1", ["b'0.1'"]),
    ],
)
def test_what_may_not(text: Any, words: list[str]) -> None:
    with pytest.raises(BadParameter) as raised:
        parse_range("--gamma-range", text)
    said = str(raised.value)
    assert "--gamma-range" in said
    assert [word for word in words if word not in said] == []
    assert len(said) < 300


@pytest.mark.parametrize("text", ["x" * 10**6, "1:" * 10**6, "1" * 10**6, "0.1:" + "9" * 10**6])
def test_long_text_makes_a_short_answer(text: str) -> None:
    with pytest.raises(BadParameter) as raised:
        parse_range("gamma_range", text)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("default", "low", "high"), [(DEFAULT_GAMMA, 0.001, 0.1), (DEFAULT_BETA_SAL, 0.1, 1.5)]
)
def test_defaults(default: tuple[float, ...], low: float, high: float) -> None:
    assert default == pytest.approx(np.geomspace(low, high, 12), rel=1e-12)
    assert (default[0], default[-1]) == (low, high)
    assert parse_range("x", f"{low}:{high}") == default


def test_the_bound_is_that_of_the_parameters() -> None:
    Parameters(beta_sal=HIGHEST, gamma=HIGHEST)
    for name in ("beta_sal", "gamma"):
        with pytest.raises(ValueError, match=name):
            Parameters(**{name: np.nextafter(HIGHEST, 11)})


ends = st.floats(5e-324, HIGHEST, allow_subnormal=True)


@given(ends, ends, st.integers(2, MOST))
@example(6.515929727227629, 6.51592972722763, 10)  # rounding leads beyond such ends
def test_log_spaced_values(low: float, high: float, count: int) -> None:
    assume(low < high)
    found = log_spaced(low, high, count)
    assert len(found) == count
    assert (found[0], found[-1]) == (low, high)
    assert list(found) == sorted(found)


@given(st.lists(st.floats(0, HIGHEST), min_size=1, max_size=MOST))
def test_values_come_back_as_they_were_written(values: list[float]) -> None:
    assert parse_range("x", ",".join(map(repr, values))) == tuple(sorted(set(values)))


def test_reading_a_range_loads_no_numpy() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, datasette_limbic.tuning.ranges, datasette_limbic.tuning.versions;"
            "print([name for name in ('numpy', 'scipy', 'sklearn') if name in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[]"
