"""The benchmark of tuning: what it counts as right and wrong, and that it can be stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import tuning, tuning_runs
from benchmarks.scenario import Scenario
from benchmarks.simulated_openings import with_openings
from benchmarks.simulator import simulate
from benchmarks.tuning_cases import Case, cases
from datasette_limbic.tuning.log import NONE, OPENED, REACCESSED

SIGNAL = Case("some", "replay", Scenario(searches=40))
BLIND = Case("blind", "replay", Scenario(searches=40, preference="position"))


@pytest.fixture
def calls(monkeypatch) -> list[tuple[str, int]]:
    """The runs that are made, here and not in other processes."""
    found: list[tuple[str, int]] = []

    def here(todo: Sequence[tuple[Case, int]], jobs: int) -> Iterator[dict[str, Any]]:
        for case, seed in todo:
            found.append((case.key, seed))
            yield tuning_runs.one(case, seed)

    monkeypatch.setattr(tuning_runs, "_in_processes", here)
    return found


def test_it_goes_on_where_it_was_left(tmp_path, calls):
    path = tmp_path / "new" / "runs.jsonl"
    first = tuning_runs.run(path, [SIGNAL, BLIND], range(2))
    assert calls == [(case.key, seed) for seed in range(2) for case in (SIGNAL, BLIND)]
    assert [json.loads(line) for line in path.read_text().splitlines()] == json.loads(
        json.dumps(first)
    )
    calls.clear()
    more = tuning_runs.run(path, [SIGNAL, BLIND], range(3))
    assert calls == [(SIGNAL.key, 2), (BLIND.key, 2)]
    assert len(more) == 6
    # fewer seeds than there are in the file
    assert len(tuning_runs.run(path, [SIGNAL], range(1))) == 1
    assert len(calls) == 2


def test_a_line_that_was_cut_off_is_made_again(tmp_path, calls):
    path = tmp_path / "runs.jsonl"
    tuning_runs.run(path, [BLIND], range(3))
    path.write_bytes(path.read_bytes()[:-20])
    calls.clear()
    assert len(tuning_runs.run(path, [BLIND], range(4))) == 4
    assert calls == [(BLIND.key, 2), (BLIND.key, 3)]
    rows, ignored = tuning_runs.load(path, [BLIND])
    assert ({row["seed"] for row in rows}, ignored) == ({0, 1, 2, 3}, 1)


def test_lines_of_other_code_and_other_cases_count_nothing(tmp_path, calls, monkeypatch):
    path = tmp_path / "runs.jsonl"
    tuning_runs.run(path, [BLIND], range(2))
    other = Case(BLIND.users, BLIND.served, Scenario(searches=40, preference="position", eta=0.5))
    assert other.key == BLIND.key
    assert tuning_runs.load(path, [other]) == ([], 2)
    assert len(tuning_runs.load(path, [BLIND])[0]) == 2
    monkeypatch.setattr(tuning_runs, "code", lambda: "other")
    assert tuning_runs.load(path, [BLIND]) == ([], 2)


def test_a_digest_is_of_what_code_does(tmp_path, monkeypatch):
    path = tmp_path / "module.py"
    monkeypatch.setattr(tuning_runs, "_imported", lambda start, found: {path})

    def digest(text: str) -> str:
        path.write_text(text)
        tuning_runs.code.cache_clear()
        return tuning_runs.code()

    try:
        one = digest('"""Words."""\nLIMIT = 1\n"""More."""\n')
        assert digest("# other words\n\nLIMIT = (1)\n") == one
        assert digest("LIMIT = 2\n") != one
        assert digest('LIMIT = 1\nNAME = "more"\n') != one
    finally:
        tuning_runs.code.cache_clear()


def test_the_digest_is_of_all_that_decides():
    found = {path.name for path in tuning_runs._imported(Path(tuning_runs.__file__), set())}
    assert found >= {
        *("tuning_runs.py", "scenario.py", "simulator.py", "simulated_world.py"),
        *("simulated_openings.py", "naive_tuner.py", "proposing.py", "estimating.py", "grid.py"),
        *("labels.py", "rerank.py", "position.py", "resampling.py", "splitting.py", "weights.py"),
        *("scoring.py", "routing.py", "ranges.py", "log.py"),
    }
    # what only shows results does not, and a case is in its lines
    assert not found & {
        "tuning_cases.py",
        "report.py",
        "analysing.py",
        "reading.py",
        "tuning.py",
        "run.py",
    }


@pytest.mark.parametrize(
    ("new", "truth", "expected"),
    [
        ((0.6, 0.019), (1.5, 0.1), True),
        ((0.45, 0.009), (1.5, 0.1), False),
        ((0.5, 0.01), (1.5, 0.1), False),  # nothing moved
        # one goes far the right way, the other a little the wrong way
        ((1.0, 0.009), (1.5, 0.1), True),
        ((0.4, 0.01), (0.1, 0.001), True),
        # gamma is true: it does not count, and moving it alone is not towards anything
        ((0.6, 0.019), (1.5, 0.01), True),
        ((0.5, 0.019), (1.5, 0.01), False),
        # past the truth, and further from it than before
        ((9.0, 0.01), (1.5, 0.01), False),
    ],
)
def test_towards_the_truth(new, truth, expected):
    assert tuning_runs.towards((0.5, 0.01), new, truth) is expected


def _row(case: Case, seed: int, **values: Any) -> dict[str, Any]:
    return {"case": case.key, "seed": seed, "outcome": "interval", "best_gain": 0.05, **values}


def _proposal(towards: bool, step_gain: float, target_gain: float) -> dict[str, Any]:
    return {
        "target": [1, 0.1],
        "towards": towards,
        "step_gain": step_gain,
        "target_gain": target_gain,
    }


def test_what_counts_as_right():
    good, losing = _proposal(True, 0.01, 0.04), _proposal(True, -0.001, 0.02)
    away, far = _proposal(False, 0.001, -0.02), _proposal(True, 0.0, -0.04)
    rows = [
        _row(SIGNAL, seed, outcome="proposed", **each)
        for seed, each in enumerate([good, good, losing, away, far])
    ]
    rows += [_row(SIGNAL, 5, naive=away), _row(SIGNAL, 6, naive={"target": None})]
    found, every = tuning.right([(SIGNAL, rows)])
    assert every == {**found, "users": "all", "served": "", "searches": ""}
    assert (found["runs"], found["proposals"]) == (7, 5)
    assert found["right"].startswith("60.0 % (")  # good, good and far
    assert found["target loses"] == "40.0 %"
    assert found["its gain"] == pytest.approx(0.008)
    assert (found["naive proposes"], found["away"], found["naive loses"]) == (
        "50.0 %",
        "100.0 %",
        "100.0 %",
    )
    (power,) = tuning.power([(SIGNAL, rows)])
    assert power["40"].startswith("71.4 % (")


@pytest.mark.parametrize(("proposed", "high", "met"), [(0, "0.4%", True), (54, "7.0%", True)])
def test_the_upper_bound_of_false_proposals(proposed, high, met):
    rows = [
        _row(BLIND, seed, outcome="proposed" if seed < proposed else "flat") for seed in range(1000)
    ]
    (found,) = tuning.wrong([(BLIND, rows)])
    assert (found["upper 95 % bound"], found["<= 7%"]) == (high, met)
    worse = [{**row, "outcome": "proposed"} for row in rows[:60]] + rows[60:]
    (found,) = tuning.wrong([(BLIND, worse)])
    assert found["<= 7%"] is False


def test_wilson_bounds():
    # by hand, z = 1.96: (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n)
    z, n, p = 1.959964, 200, 0.05
    middle, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    expected = np.array([middle - half, middle + half]) / (1 + z * z / n)
    assert tuning.bounds(10, n) == pytest.approx(tuple(expected), abs=1e-6)


def test_every_case_can_be_told_apart_and_simulated():
    every = cases()
    assert len({case.key for case in every}) == len(every)
    assert {case.served for case in every} == {"randomised", "replay", "mostly baseline"}
    assert all((case.served == "replay") == (case.scenario.baseline_share == 0) for case in every)


def test_openings_by_name_add_nothing_but_coming_back():
    simulated = simulate(Scenario(searches=600), 3)
    without = simulated.log
    same = with_openings(simulated, 0)
    assert np.array_equal(same.source, without.source)
    assert np.array_equal(same.gain, without.gain, equal_nan=True)
    log = with_openings(simulated, 5.0)
    changed = log.source != without.source
    assert changed.sum() > 20
    assert set(without.source[changed]) == {NONE}
    assert set(log.source[changed]) == {REACCESSED}
    assert log.shown[changed].all()
    # nobody meant a search: what comes of it is popular, not relevant
    relevant = simulated.relevant[changed].mean()
    assert relevant < 0.5 * simulated.relevant[log.source == OPENED].mean()


def test_results_are_written_where_a_folder_is_missing(tmp_path: Path, calls, capsys):
    tables = tuning.run(tmp_path / "a" / "b.jsonl", 1, [SIGNAL, BLIND])
    assert [len(rows) for rows in tables.values()] == [1, 2, 1, 2]
    assert "minutes of one core for 1,000 seeds" in capsys.readouterr().err


def test_how_long_a_thousand_seeds_take():
    rows = [_row(SIGNAL, seed, seconds=0.2) for seed in (1, 2, 3)]
    rows.append(_row(SIGNAL, 0, seconds=0.4, naive={"target": None}))
    rows.append(_row(BLIND, 0, seconds=1.0, naive={"target": None}))
    # a tenth of the runs have the naive tuner: 0.9 · 0.2 + 0.1 · 0.4 + 1.0 seconds a seed
    assert tuning.minutes(rows) == pytest.approx(1.22 * 1000 / 60)
