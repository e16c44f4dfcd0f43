"""``datasette limbic tune``, and the same as Python functions."""

from __future__ import annotations

import codecs
import getpass
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from cli_helpers import Terminal
from click.testing import CliRunner, Result
from empty_memory import empty_memory
from view_helpers import digest, rows

from benchmarks.simulator import Scenario, simulate, write
from datasette_limbic import api, connection
from datasette_limbic.cli import limbic, tune_modes, tune_tables, tune_text
from datasette_limbic.cli.printing import as_json
from datasette_limbic.config import Settings
from datasette_limbic.errors import BadParameter, NotProposed, StaleProposal
from datasette_limbic.tuning import applying, versions
from datasette_limbic.tuning.advice import advice
from datasette_limbic.tuning.report import Options, report

GAMMAS, BETAS = (0.001, 0.01, 0.1), (0.1, 0.5, 1.0, 1.5)
RANGES = ("--gamma-range", "0.001,0.01,0.1", "--beta-sal-range", "0.1, 0.5, 1, 1.5")
OPTIONS = Options(beta_sal=BETAS, gamma=GAMMAS)
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]")
HOSTILE = "red\x1b[31m \u202eder\nline\x9b"
SMALL: dict[str, Any] = {
    **{"candidates": 12, "entities": 80, "queries": 200, "clients": 6, "days": 20},
    "click_model": "none",
}
SCENARIOS = {
    # what is relevant goes by the scores, and users look at everything
    "signal": (Scenario(searches=500, baseline_share=0.4, taste=0.3, noise=0.01, **SMALL), 1),
    "replay": (Scenario(searches=300, preference="none", **SMALL), 3),
    "few": (Scenario(searches=23, **SMALL), 5),
}
COMMAND = "  datasette limbic "
NO_LABELS = {"labels": dict.fromkeys(("useful", "not_useful", "opened", "reaccessed"), 0)}


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a scenario: made once, and never to be changed."""
    folder = tmp_path_factory.mktemp("tuning")

    def made(name: str) -> Path:
        path = folder / f"{name}.db"
        if not path.exists():
            with closing(connection.connect(empty_memory(path))) as conn:
                if name in SCENARIOS:
                    write(conn, simulate(*SCENARIOS[name]))
        return path

    return made


@pytest.fixture(params=[*SCENARIOS, "empty"])
def each(request: pytest.FixtureRequest, simulated: Any, tmp_path: Path) -> Path:
    return Path(shutil.copy(simulated(request.param), tmp_path / "memory.db"))


@pytest.fixture
def signal(simulated: Any, tmp_path: Path) -> Path:
    return Path(shutil.copy(simulated("signal"), tmp_path / "memory.db"))


@pytest.fixture
def few(simulated: Any, tmp_path: Path) -> Path:
    return Path(shutil.copy(simulated("few"), tmp_path / "memory.db"))


@pytest.fixture
def empty(simulated: Any, tmp_path: Path) -> Path:
    return Path(shutil.copy(simulated("empty"), tmp_path / "memory.db"))


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def invoke(*args: Any, code: int = 0) -> Result:
    result = CliRunner().invoke(limbic, ["tune", *[str(arg) for arg in args]])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def run(*args: Any, code: int = 0) -> str:
    return invoke(*args, code=code).output


def said(*args: Any) -> str:
    """The output, as one line: where it wraps is none of its words."""
    return " ".join(run(*args).split())


def answered(*args: Any) -> Any:
    return json.loads(run("--json", *args))


def refused(*args: Any) -> str:
    """The one sentence with which it is refused."""
    result = invoke(*args, code=1)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def follow(command: str) -> str:
    """The output of a command line that was printed."""
    given = shlex.split(command)
    assert given[:3] == ["datasette", "limbic", "tune"]
    return run(*given[3:])


def printed_command(text: str) -> str:
    """The last command line of a text."""
    return [line for line in text.splitlines() if line.startswith(COMMAND)][-1]


def in_force(path: Path) -> dict[str, Any]:
    with closing(connection.connect(path, readonly=True)) as conn:
        return api.parameters_in_force(conn)


def of_library(path: Path, function: Callable[..., Any], **options: Any) -> Any:
    """An answer of the library, as JSON has it."""
    with closing(connection.connect(path, readonly=True)) as conn:
        return json.loads(as_json(function(conn, **options)))


# -- analyzing ----------------------------------------------------------------------------------


def test_it_analyzes_where_nothing_is_said(each: Path) -> None:
    before = digest(each)
    text = run(each, *RANGES)
    assert run(each, "--analyze", *RANGES) == text
    assert text.startswith("In force: beta_sal 0.5, gamma 0.01 (version 0: no version was applied")
    assert answered(each, *RANGES) == of_library(each, report, options=OPTIONS)
    assert digest(each) == before


@pytest.mark.parametrize("width", [80, 100])
def test_what_it_says_of_a_signal(
    signal: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = run(signal, *RANGES)
    found = answered(signal, *RANGES)
    for line in text.splitlines():
        assert len(line) <= width or line.startswith(COMMAND), line
    flat = " ".join(text.split())
    counts = found["counts"]
    assert f"Searches: 500 from {counts['first']} to {counts['last']} (UTC): " in flat
    assert f"{counts['queries']} queries, 6 clients, {counts['client_days']} days of" in flat
    assert f"Labels: {counts['labelled']} searches have any; results: " in flat
    assert f"{counts['labels']['useful']} rated useful" in flat
    for arm in found["arms"]:
        for how, mark in (("served", ""), ("shadow", "*")):
            ndcg = arm[how]["ndcg"]
            row = rf"^{arm['arm']}, {how}{re.escape(mark)} +{ndcg['value']:.3f} "
            row += rf"\({ndcg['low']:.3f}–{ndcg['high']:.3f}\) +{arm[how]['lift']:.2f} "
            row += rf"+{arm[how]['recall']:.2f} +{arm[how]['searches']} +{arm[how]['labelled']}$"
            assert re.search(row, text, re.MULTILINE), row
    assert "it favours the one that was served" in flat
    assert f"Difference: limbic {found['difference']['value']:+.3f} (" in flat
    assert "\nBy strategy\n" in text
    for week in found["weeks"]:
        ndcg = week["baseline"]["ndcg"]
        assert re.search(
            rf"^{week['week']} .* {ndcg['value']:.3f} \(.* {week['baseline']['labelled']}$",
            text,
            re.MULTILINE,
        )
    movers = found["movers"]
    assert f"{movers['better']} searches would be better, {movers['worse']} worse" in flat
    first = movers["gain"][0]
    assert f"{first['before']:.2f} → {first['after']:.2f} {first['query']}: Simulated" in flat
    assert len(re.findall(r"from rank \d+ to \d+$", text, re.MULTILINE)) == 6
    assert text.splitlines()[-1].startswith(f"{COMMAND}tune ")


def test_the_grid_has_its_marks(signal: Path) -> None:
    found = answered(signal, *RANGES)["grid"]
    lines = run(signal, *RANGES).splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:1] == ["gamma"])
    assert lines[start].split() == ["gamma", ".001", ".01", ".1"]
    grid = [line.split() for line in lines[start + 2 : start + 2 + len(BETAS)]]
    assert [row[0] for row in grid] == [".1", ".5", "1", "1.5"]
    now = found["ndcg"][found["in_force"][0]][found["in_force"][1]]
    for i, row in enumerate(found["ndcg"]):
        for j, value in enumerate(row):
            mark = "=" if [i, j] == found["in_force"] else ""
            mark = mark or (">" if [i, j] == found["target"] else "")
            mark = mark or ("*" if [i, j] == found["best"] else "")
            assert grid[i][j + 1].rstrip("=>*") == f"{round((value - now) * 1000) or 0:+d}".replace(
                "+0", "0"
            )
            assert grid[i][j + 1].lstrip("+-0123456789") == mark


def test_a_grid_that_is_too_wide(signal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = run(signal, "--gamma-range", "0.001:0.1:40", "--beta-sal-range", "0.1:1.5:30")
    assert max(map(len, text.splitlines()[:-1])) <= 80
    assert re.search(r"^[\d,]+ pairs left out: --json has all$", text, re.MULTILINE)
    assert re.search(r" 0=", text)
    assert re.search(r"[*>]$|[*>] ", text)


def test_only_the_last_weeks_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"searches": 3, "labelled": 0, "ndcg": None}
    weeks = [{"week": f"week {i}", "limbic": one, "baseline": one} for i in range(20)]
    text = "\n".join(tune_tables.weeks({"weeks": weeks}))
    assert "week 7 " not in text
    assert "week 8 " in text
    assert text.endswith("\n8 earlier weeks: --json has all")
    assert "earlier" not in "\n".join(tune_tables.weeks({"weeks": weeks[:12]}))


def test_an_empty_log(empty: Path) -> None:
    text = run(empty)
    assert "\nSearches: none yet\n" in text
    assert "NDCG" not in text
    assert "\nNothing is proposed: only 0 events, at least 50 needed" in text
    assert "datasette limbic record search" in " ".join(text.split())


def test_what_is_left_out_is_said(few: Path) -> None:
    with closing(connection.connect(few)) as conn, conn:
        conn.execute("update limbic_searches set created_at = 'once' where id < 4")
        conn.execute("update limbic_search_candidates set base = 'x' where search_id = 9")
    assert (
        "Left out: 3 with an unreadable time, 1 with missing, unreadable or infinite factors"
    ) in run(few)
    with closing(connection.connect(few)) as conn, conn:
        conn.execute("update limbic_searches set created_at = 'once'")
    text = run(few)
    assert "Searches: none that can be read\n" in text
    assert "Left out: 23 with an unreadable time\n" in text


@pytest.mark.parametrize("one_client", [False, True])
def test_intervals_that_nobody_knows(empty: Path, one_client: bool) -> None:
    """Of weeks with one search, and of a client's only day: there is nothing to resample."""
    with closing(connection.connect(empty)) as conn:
        share = 0.5 if one_client else 0.0
        write(conn, simulate(Scenario(searches=23, baseline_share=share), seed=5))
        if one_client:
            with conn:
                conn.execute(
                    "update limbic_searches set client = 'ana', created_at = '2026-09-01 ' ||"
                    " printf('%02d:00:00', id)"
                )
    found = answered(empty)
    text = run(empty)
    week = next(each for each in found["weeks"] if (each["limbic"]["ndcg"] or {}).get("value"))
    ndcg = week["limbic"]["ndcg"]
    assert ndcg["low"] is ndcg["high"] is None
    assert re.search(rf"^{week['week']} +{ndcg['value']:.3f} \(–\) ", text, re.MULTILINE)
    assert "None" not in text
    if one_client:
        assert found["difference"]["low"] is None
        assert f"Difference: limbic {found['difference']['value']:+.3f} (–) over the" in text
        assert re.search(r"^limbic, served +\d\.\d{3} \(–\) ", text, re.MULTILINE)


def test_bounds_of_an_interval() -> None:
    for low, high, expected in (
        (0.25, 0.5, "+0.250 to +0.500"),
        (0, 0.5, "+0.000 to +0.500"),
        (None, None, "–"),
    ):
        assert tune_tables.between({"low": low, "high": high}, "+.3f") == expected


def test_nothing_of_a_log_reaches_the_terminal_as_it_is(signal: Path) -> None:
    with closing(connection.connect(signal)) as conn, conn:
        conn.execute("update limbic_searches set query = query || ?, client = ?", [HOSTILE] * 2)
        conn.execute("update limbic_search_candidates set entity_name = ?", [HOSTILE])
        conn.execute(
            "insert into limbic_parameters(version, beta_sal, gamma, source, applied_by,"
            " created_at) values (1, 0.5, 0.01, 'manual', ?1, ?1)",
            [HOSTILE],
        )
    for args in (RANGES, (*RANGES, "--json"), ("--history",), ("--history", "--json")):
        text = run(signal, *args)
        assert "der" in text
        assert not OBEYED.search(text)


def test_movers_of_which_nothing_is_known(signal: Path) -> None:
    found = answered(signal, *RANGES)
    found["movers"]["gain"][0].update(query=None, relevant=[])
    found["movers"]["lose"] = []
    command = limbic.get_command(click.Context(limbic), "tune")
    assert command is not None
    with click.Context(command):
        text = "\n".join(tune_text.analysis(str(signal), found, []))
        assert re.search(r"most:\n  \d\.\d\d → \d\.\d\d\n", text)
        assert "lose the most" not in text
        found["movers"]["gain"] = []
        text = "\n".join(tune_text.analysis(str(signal), found, []))
        assert "searches would be better" not in text


# -- proposing ----------------------------------------------------------------------------------


def test_a_proposal_and_the_command_that_applies_it(signal: Path) -> None:
    before = digest(signal)
    text = run(signal, "--tune", *RANGES)
    found = answered(signal, "--tune", *RANGES)
    assert digest(signal) == before
    proposal = found["proposal"]
    assert proposal["proposed"]
    target, step, gain = proposal["target"], proposal["step"], proposal["gain"]
    # this memory speaks for gamma alone
    assert (target["beta_sal"], step["beta_sal"]) == (0.5, 0.5)
    assert text.startswith(f"Proposed: beta_sal stays 0.5, gamma 0.01 → {target['gamma']:.4g}\n")
    flat = " ".join(text.split())
    assert (
        f"It gains {gain['value']:+.4f} in NDCG@10 ({gain['low']:+.4f} to {gain['high']:+.4f}, "
        f"95 %) on {proposal['counts']['holdout_searches']} later searches"
    ) in flat
    assert f"Unbiased: from {proposal['labelled']} labelled searches" in flat
    assert (
        f"Applying moves 10 % of the way: beta_sal {step['beta_sal']:.4g}, gamma "
        f"{step['gamma']:.4g}; that gains "
    ) in flat
    assert "Nothing has been changed. To apply it:" in text
    command = printed_command(text)
    assert "--beta-sal-range '0.1, 0.5, 1, 1.5' --k" not in command  # only what was given

    applied = follow(command)
    now = in_force(signal)
    assert now == {"version": 1, **step, "source": "tuned"}
    assert applied.startswith(
        f"Version 1 is in force: beta_sal stays 0.5, gamma 0.01 → {step['gamma']:.4g}"
    )
    flat = " ".join(applied.split())
    assert f"10 % of the way to beta_sal {target['beta_sal']:.4g}, gamma " in flat
    assert f"gains {gain['value']:+.4f} in NDCG@10" in flat
    assert follow(printed_command(applied)).startswith("Version 2 is in force: beta_sal ")
    assert in_force(signal)["beta_sal"] == 0.5


def test_the_answer_is_that_of_the_library(each: Path) -> None:
    found = answered(each, "--tune", *RANGES, "--k", 5)
    options = {"beta_sal": BETAS, "gamma": iter(GAMMAS), "k": 5}
    assert found == of_library(each, api.propose_parameters, **options)
    assert set(found) == {"in_force", "proposal"}
    assert found["proposal"]["k"] == 5
    whole = of_library(each, api.analyze_searches, **{**options, "gamma": RANGES[1]})
    assert whole == answered(each, *RANGES, "--k", 5)
    assert whole["proposal"] == found["proposal"]


def test_an_honest_no(each: Path) -> None:
    proposal = answered(each, "--tune", *RANGES)["proposal"]
    if proposal["proposed"]:
        return  # of which there are tests of its own
    before = digest(each)
    text = said(each, "--tune", *RANGES)
    message = " ".join(proposal["refusal"]["message"].split())
    assert text.startswith(f"Nothing is proposed: {message}. ")
    advised = advice(proposal)
    assert advised
    assert all(f"- {sentence}." in text for sentence in advised)
    # "no events" and "no labels" rest on nothing
    known = proposal["refusal"]["code"] not in ("events", "labels")
    assert ("Replay, biased: " in text) == known
    assert (proposal["reason"][1:] in text) == known
    # a job that runs every week is not to fail where there is nothing to learn
    applied = said(each, "--tune", "--apply", *RANGES)
    assert applied.startswith(f"Nothing is applied: {message}. ")
    assert applied.endswith("beta_sal 0.5, gamma 0.01 stay in force.")
    found = answered(each, "--tune", "--apply", *RANGES)
    assert found == {**answered(each, "--tune", *RANGES), "applied": None}
    assert digest(each) == before


def test_23_events(few: Path) -> None:
    assert said(few, "--tune").startswith("Nothing is proposed: only 23 events, at least 50 needed")


def test_the_same_log_is_not_applied_twice(signal: Path) -> None:
    found = answered(signal, "--tune", "--apply", *RANGES, "--actor", "ana")
    assert found["in_force"] == found["applied"] == in_force(signal)
    assert found["proposal"]["step"]["beta_sal"] == found["applied"]["beta_sal"]
    assert found["proposal"]["in_force"] == {"beta_sal": 0.5, "gamma": 0.01}
    before = digest(signal)
    text = said(signal, "--tune", "--apply", *RANGES)
    assert text.startswith("Nothing is applied: only 0 ")
    assert "what decided once does not decide again" in text
    assert digest(signal) == before
    row = answered(signal, "--history")[0]
    assert (row["applied_by"], row["evidence"]["ranges"]["gamma"]) == ("ana", list(GAMMAS))


def test_another_version_came_between(signal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_agreed = applying.write_agreed

    def late(conn: Any, *args: Any, **options: Any) -> Any:
        with closing(connection.connect(signal)) as other:
            versions.set_manual(other, gamma=0.02)
        return write_agreed(conn, *args, **options)

    monkeypatch.setattr(applying, "write_agreed", late)
    assert "version 0 was in force when this was looked at, and now it is version 1" in refused(
        signal, "--tune", "--apply", *RANGES
    )
    assert in_force(signal)["version"] == 1


def test_a_warning_where_co_occurrence_would_outweigh_salience(signal: Path) -> None:
    proposal = answered(signal, "--tune", *RANGES)["proposal"]
    assert proposal["proposed"]
    command = limbic.get_command(click.Context(limbic), "tune")
    assert command is not None
    with click.Context(command):
        for name, warned in (("step", True), ("target", True), ("in_force", False)):
            # to be seen before somebody applies it, also where it takes many steps to get there
            found = {**proposal, name: {"beta_sal": 0.5, "gamma": 3.0}}
            text = "\n".join(tune_text.verdict(str(signal), found, NO_LABELS, []))
            assert ("\nWarning: gamma 3 against beta_sal 0.5" in text) == warned
    text = said(signal, "--set-gamma", "5")
    assert "Warning: gamma 0.509 against beta_sal 0.5: co-occurrence outweighs salience" in text
    assert "Warning: gamma 0.509 against beta_sal 0.5" in said(signal)
    assert "Warning" not in said(signal, "--rollback")


@pytest.mark.parametrize(
    ("not_used", "labels", "said"),
    [
        ([], {"reaccessed": 3}, None),
        (["reaccessed"], {"opened": 3}, None),
        (["reaccessed"], {"reaccessed": 3}, "opened again later"),
        (["opened"], {"reaccessed": 3, "not_useful": 1}, None),
        (["opened"], {"useful": 1}, "opened or rated"),
    ],
)
def test_labels_that_are_not_counted(
    signal: Path, not_used: list[str], labels: dict[str, int], said: str | None
) -> None:
    """Where there are any, of a proposal and of a refusal."""
    proposal = {**answered(signal, "--tune", *RANGES)["proposal"], "not_used": not_used}
    counts = {"labels": {**NO_LABELS["labels"], **labels}}
    refusal = {"code": "flat", "message": "the surface is flat"}
    command = limbic.get_command(click.Context(limbic), "tune")
    assert command is not None
    with click.Context(command):
        for found in (proposal, {**proposal, "refusal": refusal}):
            text = " ".join("\n".join(tune_text.verdict("m.db", found, counts, [])).split())
            assert ("Not counted" in text) == (said is not None)
            assert said is None or f"Not counted: results {said}, since how much" in text


def test_labels_of_what_was_not_shown(few: Path) -> None:
    found = answered(few)
    for unshown, said in ((0, None), (1, "1 label of what"), (2, "2 labels of what")):
        found["counts"].update(unshown_ratings=unshown // 2, unshown_opened=(unshown + 1) // 2)
        command = limbic.get_command(click.Context(limbic), "tune")
        assert command is not None
        with click.Context(command):
            text = " ".join(tune_text.analysis("m.db", found, []))
        assert ("Not counted" in text) == (said is not None)
        assert said is None or f"Not counted: {said} the search had not shown" in text


# -- a person's word ----------------------------------------------------------------------------


def test_setting_as_it_is_documented(empty: Path) -> None:
    text = run(empty, *shlex.split("--set-gamma 0.05 --set-beta 0.75"), "--actor", "ana")
    assert text.startswith(
        "Version 1 is in force: beta_sal 0.5 → 0.525, gamma 0.01 → 0.014\n"
        "  That is 10 % of the way to beta_sal 0.75, gamma 0.05. Say it again to go further.\n"
    )
    now = in_force(empty)
    assert now["source"] == "manual"
    assert (now["beta_sal"], now["gamma"]) == pytest.approx((0.525, 0.014))
    assert rows(empty, "select applied_by from limbic_parameters") == [("ana",)]
    found = answered(empty, "--set-beta", "0")
    assert found == {"in_force": in_force(empty), "from": {"version": 1, **_values(now)}}
    assert found["in_force"]["beta_sal"] == pytest.approx(0.525 * 0.9)
    assert found["in_force"]["gamma"] == now["gamma"]
    text = run(empty, "--set-gamma", "1")
    assert (
        "beta_sal stays 0.4725, gamma 0.014 → 0.1126\n  That is 10 % of the way to gamma 1." in text
    )
    assert follow(printed_command(text)).startswith("Version 4 is in force: beta_sal stays")
    assert _values(in_force(empty)) == _values(found["in_force"])


def test_setting_what_is_there(empty: Path) -> None:
    assert "gamma 0.01 is in force already, as version 0" in refused(empty, "--set-gamma", "0.01")


def test_rolling_back(empty: Path) -> None:
    for value in ("0.1", "0.2", "0.3"):
        run(empty, "--set-gamma", value)
    one, two = (row["to"] for row in answered(empty, "--history")[:0:-1])
    text = run(empty, "--rollback")
    assert text.startswith("Version 4 is in force: beta_sal stays 0.5, gamma ")
    assert "\n  These are the values of version 2.\n" in text
    assert _values(in_force(empty)) == _values(two)
    found = answered(empty, "--rollback")  # what was rolled back does not come again
    assert found["in_force"] == {"version": 5, **_values(one), "source": "rollback"}
    assert found["from"]["version"] == 4
    # the command that it prints takes back the rollback, not one version more
    text = run(empty, "--rollback", "0")
    assert "These are the values of version 0." in text
    assert in_force(empty)["gamma"] == 0.01
    assert "rolled back" not in follow(printed_command(text))
    assert _values(in_force(empty)) == _values(one)
    assert run(empty, "--rollback=2").startswith("Version 8 is in force")
    assert "already" in refused(empty, "--rollback", "2")
    assert "to is 99: this memory has versions from 1 to 8" in refused(empty, "--rollback", "99")


def test_nothing_to_roll_back(empty: Path) -> None:
    assert "there is nothing before it: no version was applied" in refused(empty, "--rollback")


@pytest.mark.parametrize("value", ["x", "²", "1.5", "memory.db", "", "9" * 20, "9" * 5000])
def test_a_version_that_is_none(empty: Path, value: str) -> None:
    text = run(empty, f"--rollback={value}", code=2)
    assert "Usage:" in text
    assert f"{value!r:.60} is no number of a version: --history lists them, and FILE stands" in text


def test_the_highest_version(empty: Path) -> None:
    """Exactly as it was said, also where a float has no room for it."""
    for number in (2**53 + 1, 2**63 - 1):
        assert f"to is {number}: this memory has no version" in refused(
            empty, "--rollback", str(number)
        )
    assert f"to is {2**63}: use a whole number from 0 to" in refused(
        empty, "--rollback", str(2**63)
    )


def test_a_version_below_0(empty: Path) -> None:
    before = digest(empty)
    assert "'-1'" in run(empty, "--rollback=-1", code=2)
    assert digest(empty) == before


def test_the_file_in_place_of_the_version(empty: Path) -> None:
    assert "and FILE stands before --rollback" in run("--rollback", empty, code=2)


def test_the_history(signal: Path) -> None:
    assert run(signal, "--history") == run(signal).splitlines()[0] + "\n"
    assert answered(signal, "--history") == []
    run(signal, "--tune", "--apply", *RANGES, "--actor", "ana")
    run(signal, "--set-gamma", "0.05", "--actor", "")
    run(signal, "--rollback", "--actor", "luis")
    found = answered(signal, "--history")
    assert found == of_library(signal, api.parameters_history)
    text = run(signal, "--history")
    assert text.startswith(f"In force: beta_sal {found[0]['to']['beta_sal']:.4g}, gamma ")
    assert "(version 3: back to version 1 by luis, 20" in text
    gain = found[2]["evidence"]["gain"]
    shown = [line.split() for line in text.splitlines()[4:7]]
    assert [row[0] for row in shown] == ["3", "2", "1"]
    assert shown[0][1] == "="
    assert "back to 1" in " ".join(shown[0])
    assert shown[1][3] == "manual"
    assert shown[2][3:8] == [
        "tuned", f"{gain['value']:+.3f}", f"({gain['low']:+.3f}", "to", f"{gain['high']:+.3f})"
    ]  # fmt: skip
    assert text.endswith(f"To bring one back: datasette limbic tune {signal} --rollback VERSION\n")


def test_a_history_that_another_program_wrote(empty: Path) -> None:
    evidence = [
        '{"gain": Infinity}',
        "[1",
        '{"gain": {"value": "much", "low": [], "high": 1}}',
        "7",
    ]
    with closing(connection.connect(empty)) as conn, conn:
        conn.execute("pragma ignore_check_constraints = on")
        conn.executemany(
            "insert into limbic_parameters(version, beta_sal, gamma, source, evidence) values"
            " (?, ?, 1, 'tuned', ?)",
            [(i, i, text) for i, text in enumerate(evidence, 1)],
        )
        conn.execute(
            "insert into limbic_parameters(version, beta_sal, gamma, source) values"
            " (9, x'ff', 'much', 'tuned')"
        )
    text = run(empty, "--history")
    assert text.startswith("In force: beta_sal 4, gamma 1 (version 4: tuned, ")
    assert re.search(r"^9 +.* much +unusable", text, re.MULTILINE)
    assert "Version 9 was never in force: beta_sal must be a number" in " ".join(text.split())
    assert [row["version"] for row in answered(empty, "--history")] == [9, 4, 3, 2, 1]
    assert "Infinity" not in run(empty, "--json")


@pytest.mark.parametrize(
    "evidence",
    [
        f'{{"decided_until": {10**400}}}',
        '{"x": "\\ud800", "\\ud800": 1}',
        '{"gain": {"value": 0.03, "low": null, "high": null}}',
    ],
    ids=lambda each: f"{each:.30}",
)
def test_evidence_that_another_program_wrote(few: Path, evidence: str) -> None:
    with closing(connection.connect(few)) as conn, conn:
        conn.execute(
            "insert into limbic_parameters(version, beta_sal, gamma, source, evidence) values"
            " (1, 0.6, 0.02, 'tuned', ?)",
            [evidence],
        )
    for args in ([], ["--json"], ["--tune"], ["--history"], ["--history", "--json"]):
        text = run(few, *args)
        assert "0.6" in text or "23 events" in text
        text.encode()
    assert ("+0.030 (–)" in run(few, "--history")) == ("gain" in evidence)


@pytest.mark.parametrize(
    ("given", "kept"),
    [(["--actor", "a" * 300], "a" * 200), (["--actor", ""], "maria"), ([], "maria")],
)
def test_who_changed_it(
    empty: Path, given: list[str], kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "maria")
    run(empty, "--set-gamma", "0.1", *given)
    assert rows(empty, "select applied_by from limbic_parameters") == [(kept,)]


def _values(found: dict[str, Any]) -> dict[str, float]:
    return {name: found[name] for name in ("beta_sal", "gamma")}


# -- what cannot be -----------------------------------------------------------------------------

MODES: dict[str, tuple[str, ...]] = {
    "--analyze": (),
    "--tune": (),
    "--set-gamma": ("0.1",),
    "--rollback": (),
    "--history": (),
}


@pytest.mark.parametrize(
    ("one", "other"), [(a, b) for i, a in enumerate(MODES) for b in list(MODES)[i + 1 :]]
)
def test_modes_exclude_each_other(empty: Path, one: str, other: str) -> None:
    before = digest(empty)
    text = refused(empty, other, *MODES[other], one, *MODES[one])
    assert text == f"Error: {one} and {other} are both given: use one of them\n"
    assert digest(empty) == before


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--set-beta", "1", "--history"], "--set-beta and --history are both given"),
        (["--rollback", "0", "--history"], "--rollback and --history are both given"),
        (["--apply"], "--apply applies what --tune proposes: say --tune --apply"),
        (["--analyze", "--apply"], "what --tune proposes: leave it out with --analyze"),
        (["--rollback", "--apply"], "what --tune proposes: leave it out with --rollback"),
        (["--history", "--k", "5"], "--k is for --analyze and --tune: leave it out with --history"),
        (["--set-beta", "1", "--gamma-range", "1"], "--gamma-range is for --analyze and --tune"),
        (["--rollback", "--beta-sal-range", "1"], "--beta-sal-range is for --analyze and"),
        (["--k", "0"], "--k is '0': use a whole number from 1 to 100"),
        (["--k", "1000"], "--k is '1000': use a whole number from 1 to 100"),
        (["--k", "abc"], "--k is 'abc': use a whole number from 1 to 100"),
        (["--k", "1.5"], "--k is '1.5': use a whole number"),
        (["--k", "nan"], "--k is 'nan': use a whole number"),
        (["--k", ""], "--k is '': use a whole number"),
        (["--gamma-range", ""], "--gamma-range is empty: write values with commas"),
        (["--gamma-range", "0.1,,0.2"], "--gamma-range is '0.1,,0.2' and lacks a value"),
        (["--gamma-range", "-0.1"], "a value of --gamma-range is '-0.1': use a number from 0 to"),
        (["--gamma-range", "nan"], "a value of --gamma-range is 'nan': use a number"),
        (["--tune", "--beta-sal-range", "x"], "a value of --beta-sal-range is 'x': use a number"),
        (["--tune", "--beta-sal-range", "11"], "a value of --beta-sal-range is '11'"),
        (["--beta-sal-range", "2:1"], "--beta-sal-range is '2:1': 2 is not below 1"),
        (["--set-gamma", "x"], "--set-gamma is 'x': use a number from 0 to 10"),
        (["--set-gamma", ""], "--set-gamma is '': use a number from 0 to 10"),
        (["--set-gamma=-1"], "--set-gamma is '-1': use a number from 0 to 10"),
        (["--set-beta", "nan"], "--set-beta is 'nan': use a number from 0 to 10"),
        (["--set-beta", "inf"], "--set-beta is 'inf': use a number from 0 to 10"),
        (["--set-gamma", "1", "--set-beta", "10.1"], "--set-beta is '10.1': use a number"),
    ],
)
def test_bad_input(empty: Path, args: list[str], sentence: str) -> None:
    before = digest(empty)
    assert sentence in refused(empty, *args)
    assert digest(empty) == before


READING = ([], ["--tune"], ["--history"])
WRITING = (["--set-gamma", "0.1"], ["--rollback", "0"], ["--tune", "--apply"])


@pytest.mark.parametrize("args", [*READING, *WRITING])
def test_files_that_are_no_memory(args: list[str], tmp_path: Path, empty: Path) -> None:
    assert "does not exist" in refused(tmp_path / "none.db", *args)
    assert "is a directory" in run(tmp_path, *args, code=2)
    text = tmp_path / "text.db"
    text.write_text("hello " * 500)
    assert "not a SQLite database" in refused(text, *args)
    other = tmp_path / "other.db"
    connection.connect(other, create=True).close()
    assert "holds no memory yet" in refused(other, *args)
    damaged = tmp_path / "damaged.db"
    content = bytearray(empty.read_bytes())
    content[4096 : len(content)] = b"\xa5" * (len(content) - 4096)
    damaged.write_bytes(content)
    assert "damaged" in refused(damaged, *args)


@pytest.fixture
def readonly(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Nothing can be written to files; what is opened so by the command, in order."""
    asked: list[bool] = []
    connect = connection.connect

    def never(path: Any, *, readonly: bool = False, **options: Any) -> Any:
        asked.append(readonly)
        return connect(path, readonly=True, **options)

    monkeypatch.setattr(connection, "connect", never)
    return asked


def test_a_file_that_cannot_be_written(signal: Path, readonly: list[bool]) -> None:
    for args in READING:
        assert run(signal, *args, *(RANGES if args != ["--history"] else ()))
    assert readonly == [True] * len(READING)
    before = digest(signal)
    for args in (["--set-gamma", "0.1"], ["--rollback", "0"], ["--tune", "--apply", *RANGES]):
        if args[0] == "--rollback":
            assert "already" in refused(signal, *args)
        else:
            assert "memory.db cannot be written: check the rights" in refused(signal, *args)
    assert digest(signal) == before


def test_a_file_that_is_locked(signal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.05)
    with closing(connection.connect(signal)) as holder:
        holder.execute("begin exclusive")
        for args in (*READING, *WRITING):
            assert "memory.db is locked by another program" in refused(signal, *args)
        holder.rollback()
        holder.execute("begin immediate")
        assert run(signal, "--tune", *RANGES).startswith("Proposed")
        assert "memory.db is locked by another program" in refused(
            signal, "--tune", "--apply", *RANGES
        )
        holder.rollback()
    assert in_force(signal)["version"] == 0


# -- settings, names, terminals -----------------------------------------------------------------


def test_the_configuration_counts(few: Path, tmp_path: Path) -> None:
    config = tmp_path / "metadata.yml"
    config.write_text("plugins:\n  datasette-limbic:\n    beta_sal: 0.8\n")
    text = run(few, "-c", config)
    assert text.startswith("In force: beta_sal 0.8, gamma 0.01 (version 0: no version was applied")
    assert "so what configuration has counts)" in " ".join(text.split())
    assert answered(few, "-c", config, "--tune")["in_force"]["source"] == "configuration"
    text = run(few, "-c", config, "--set-beta", "1.8")
    assert "beta_sal 0.8 → 0.9" in text
    assert f"--config {config}" in printed_command(text)
    assert "beta_sal 0.9 → 0.8" in follow(printed_command(text))
    config.write_text("plugins:\n  datasette-limbic:\n    beta_sal: 80\n")
    assert "beta_sal" in refused(few, "-c", config)


def test_names_of_files_that_a_shell_would_take_apart(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(empty.parent)
    for name in ("my memory.db", "-x.db", "quo'te.db"):
        shutil.copy(empty, name)
        text = run("--set-gamma", "0.1", "--", name)
        follow(printed_command(text))
        assert answered("--history", "--", name)[0]["source"] == "rollback"


@pytest.mark.parametrize(
    ("calls", "parts"),
    [
        ([(40, 90), (90, 90), (90, 90), (20, 60), (60, 60)], ["Reading", "Reading", "Ranking"]),
        ([(90, 90), (90, 90), (30, 90), (90, 90)], ["Reading", "Ranking"]),
        ([(9, 9), (2, 4)], ["Reading", "Ranking"]),
        ([(0, 9), (9, 9)], ["Reading"]),
    ],
)
def test_which_bar_is_moved(
    calls: list[tuple[int, int]], parts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[str] = []

    class Bars:
        def show(self, done: int, total: int, part: str) -> None:
            moved.append(part.split()[0])

    assert tune_modes._progress(Bars()) is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    progress = tune_modes._progress(Bars())
    assert progress is not None
    for call in calls:
        progress(*call)
    assert len(moved) == len(calls)
    assert list(dict.fromkeys(moved)) == list(dict.fromkeys(parts))
    last = calls[-1]
    assert moved[calls.index(last) if calls.count(last) == 1 else -1] == parts[-1]


def test_on_a_real_terminal(signal: Path) -> None:
    """80 columns wide: nothing is wider, and a bar moves on stderr while it works."""
    pty = pytest.importorskip("pty")
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "datasette", "limbic", "tune", str(signal), *RANGES]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env={**environment, "TERM": "xterm"}
    ) as process:
        os.close(slave)
        text = "".join(_chunks(master))
        os.close(master)
        assert process.wait(60) == 0
    assert "Reading searches" in text
    assert "Ranking them again" in text
    assert "100%" in text
    lines = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", text[text.index("In force") :]).splitlines()
    assert max(len(line) for line in lines if not line.startswith(COMMAND)) in range(70, 81)


def _chunks(master: int) -> Iterator[str]:
    decode = codecs.getincrementaldecoder("utf-8")().decode
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:  # Linux ends the reading so, once nobody writes any more
            return
        if not data:
            return
        yield decode(data)


def test_no_bar_without_a_terminal(signal: Path) -> None:
    assert invoke(signal, *RANGES).stderr == ""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.001, 0.0015199, 0.1), [".001", ".0015", ".1"]),
        ((0.01, 0.01001), [".01", ".01001"]),
        ((0.0, 0.5, 1.0, 1.5, 10.0), ["0", ".5", "1", "1.5", "10"]),
        ((0.123, 0.1234), [".123", ".1234"]),
    ],
)
def test_labels_of_the_grid(values: tuple[float, ...], expected: list[str]) -> None:
    assert tune_tables.labels(values) == expected


@pytest.mark.parametrize(
    ("count", "most", "kept"),
    [(5, 9, {1}), (40, 10, {0, 39, 17}), (100, 4, {1, 2, 3}), (7, 3, set())],
)
def test_thinning(count: int, most: int, kept: set[int]) -> None:
    found = tune_tables.thinned(count, most, kept)
    assert len(found) == min(count, most)
    assert found == sorted(set(found))
    assert kept <= set(found) <= set(range(count))


# -- the Python API -----------------------------------------------------------------------------


def test_applying_from_python(signal: Path) -> None:
    options: dict[str, Any] = {"beta_sal": BETAS, "gamma": GAMMAS}
    with closing(connection.connect(signal)) as conn:
        proposal = api.propose_parameters(conn, **options)["proposal"]
        target = {**proposal["target"], "gamma": 0.7}
        with pytest.raises(StaleProposal, match=r"gamma 0\.7 was proposed"):
            api.apply_parameters(conn, target, **options)
        with pytest.raises(StaleProposal, match="version 3 was in force"):
            api.apply_parameters(conn, expected_version=3, **options)
        with pytest.raises(BadParameter, match=r"target is \{'beta_sal': 1\}: use the target of"):
            api.apply_parameters(conn, {"beta_sal": 1}, **options)
        assert api.parameters_history(conn) == []
        found = api.apply_parameters(
            conn, proposal["target"], expected_version=0, actor="ana", **options
        )
        assert found["proposal"] == proposal
        assert found["in_force"] == api.parameters_in_force(conn)
        assert found["in_force"]["beta_sal"] == proposal["step"]["beta_sal"]
        assert found["from"] == {"version": 0, "beta_sal": 0.5, "gamma": 0.01}
        assert api.parameters_history(conn)[0]["applied_by"] == "ana"
        with pytest.raises(NotProposed, match="what decided once does not decide again"):
            api.apply_parameters(conn, **options)
        with pytest.raises(StaleProposal):
            api.rollback_parameters(conn, 0, expected_version=0)
        back = api.rollback_parameters(conn, 0, expected_version=1)
        assert back["from"]["version"] == 1
        assert back["in_force"]["source"] == "rollback"
        found = api.set_parameters(conn, gamma=1, actor="eva", settings=Settings(beta_sal=9))
        assert found["in_force"]["gamma"] == pytest.approx(0.109)
        with pytest.raises(StaleProposal):
            api.set_parameters(conn, 1, expected_version=1)


def test_arguments_from_python(few: Path) -> None:
    with closing(connection.connect(few, readonly=True)) as conn:
        assert api.analyze_searches(conn, until=5)["counts"]["searches"] == 5
        assert api.parameters_in_force(conn, Settings(gamma=0.3))["gamma"] == 0.3
        found = api.analyze_searches(conn, settings=Settings(gamma=0.3), gamma="0.1:1:3")
        assert found["in_force"]["source"] == "configuration"
        assert len(found["ranges"]["gamma"]) == 3
        calls: list[tuple[int, int]] = []
        api.propose_parameters(conn, progress=lambda *call: calls.append(call))
        assert calls[-1] == (23, 23)
        for options, sentence in (
            ({"k": 0}, "k is 0"),
            ({"gamma": []}, "gamma is empty"),
            ({"gamma": [float("nan")]}, "a value of gamma is 'nan'"),
            ({"beta_sal": [True]}, "a value of beta_sal is 'True'"),
        ):
            with pytest.raises(BadParameter, match=sentence):
                api.propose_parameters(conn, **options)
        with pytest.raises(TypeError, match="kk"):
            api.propose_parameters(conn, kk=3)


CODES = (
    *("events", "labels", "parameters", "labelled", "queries", "client_days", "coverage", "flat"),
    *("no_better", "tie", "effective_sample", "interval", "step", "train_queries", "unheard of"),
)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("biased", [True, False])
def test_there_is_advice_for_every_refusal(code: str, biased: bool) -> None:
    found = advice({"refusal": {"code": code}, "biased": biased})
    assert found
    assert not any(sentence.endswith(".") for sentence in found)
    share = any("baseline_share" in sentence for sentence in found)
    assert share == (biased and code not in ("events", "labels"))


def test_no_advice_where_something_is_proposed() -> None:
    assert advice({"refusal": None, "biased": True}) == []
