"""docs/tuning.md: what it shows is printed by simulated memories made as it says; its figures."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_docs import DOCS, RUN, TYPED

from datasette_limbic.cli import limbic
from datasette_limbic.tuning import (
    estimating,
    grid,
    position,
    proposing,
    resampling,
    versions,
    weights,
)
from datasette_limbic.tuning.labels import POLICY, VERSION

pytestmark = pytest.mark.slow  # the same on any Python

PAGE = (DOCS / "tuning.md").read_text("utf-8")
NUMBER = re.compile(r"(?<![\w.])[+-]?\d[\d,]*\.\d+(?![\w.])")


def test_examples(tmp_path, monkeypatch):
    """In the order of the page. Intervals may differ by what a machine's arithmetic rounds to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")  # wide terminals are told more
    monkeypatch.syspath_prepend(str(DOCS.parent))
    made = re.search(r"^<!-- simulated -->\n+```python\n(.*?)^```$", PAGE, re.M | re.S)
    assert made is not None
    exec(made[1], {})  # the block of the page
    shown = re.findall(r"^<!-- on simulated memories -->\n+```\n(.*?)^```$", PAGE, re.M | re.S)
    examples = [each for block in shown for each in TYPED.findall(block)]
    assert len(examples) == 8
    for command, expected in examples:
        result = CliRunner().invoke(limbic, shlex.split(command)[2:])
        assert result.exit_code == 0, result.output
        assert _words(expected) == _words(result.output)
        for one, other in zip(_numbers(expected), _numbers(result.output), strict=True):
            assert one == pytest.approx(other, abs=0.003), result.output


def _words(text: str) -> list[str]:
    """Those of an output, without rules of tables, times and fractions."""
    words = NUMBER.sub("·", RUN.sub("·", text)).split()
    return [word for word in words if not set(word) <= {"-"}]


def _numbers(text: str) -> list[float]:
    return [float(each.replace(",", "")) for each in NUMBER.findall(RUN.sub("·", text))]


def test_true_gains():
    """What the page says that the proposal and its step are worth, and what is nothing."""
    from benchmarks.naive_tuner import tune
    from benchmarks.simulator import Scenario, simulate
    from datasette_limbic.tuning.ranges import DEFAULT_BETA_SAL, DEFAULT_GAMMA

    told = re.search(r"proposal is worth (\S+), and its step (\S+)\. What", PAGE)
    assert told is not None
    simulated = simulate(Scenario(searches=6000, baseline_share=0.3), seed=2)
    for said, values in zip(told.groups(), ((1.5, 0.1), (0.6, 0.019)), strict=True):
        assert float(said) == pytest.approx(simulated.true_gain(*values), abs=0.0006)
    coin = simulate(Scenario(searches=2000, baseline_share=0.3, preference="none"), seed=2)
    assert coin.true_gain(1.5, 0.1) == pytest.approx(0, abs=1e-9)
    naive = tune(coin.log, (0.5, 0.01), betas=DEFAULT_BETA_SAL, gammas=DEFAULT_GAMMA)
    assert naive.target is not None


# what it took to be one, and where the page says so
BOUNDS = {
    "events": proposing.MIN_EVENTS,
    "labels": proposing.MIN_LABELLED,
    "parameters": proposing.MIN_EVENTS,
    "labelled": proposing.MIN_LABELLED,
    "queries": proposing.MIN_QUERIES,
    "client_days": proposing.MIN_CLIENT_DAYS,
    "coverage": proposing.MIN_COVERAGE,
    "train_queries": proposing.MIN_HOLDOUT_QUERIES,
    "train_client_days": proposing.MIN_HOLDOUT_CLIENT_DAYS,
    "holdout_queries": proposing.MIN_HOLDOUT_QUERIES,
    "holdout_client_days": proposing.MIN_HOLDOUT_CLIENT_DAYS,
    "flat": proposing.MIN_RANGE,
    "no_better": "that error",
    "tie": 1,
    "effective_sample": f"{proposing.MIN_EFFECTIVE:g}",
    "interval": 0,
    "step": 0,
}


def test_every_refusal_is_in_the_table():
    """With its bound, and in the order in which they are looked at."""
    section = PAGE.split("\n### Refusals\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \| [^|]+ \|$", section, re.M)
    assert rows == [(code, str(bound)) for code, bound in BOUNDS.items()]


def test_no_refusal_is_missing():
    """All codes that stand in the module: of ``Refusal``, and with a bound for ``_fewer``."""
    found = set()
    for node in ast.walk(ast.parse(Path(proposing.__file__).read_text("utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Refusal":
            found.add(ast.unparse(node.args[0]))
        elif isinstance(node, ast.Tuple) and len(node.elts) == 5:
            code, _figure, bound, _words, _names = map(ast.unparse, node.elts)
            if bound.startswith("MIN_"):
                found.add(code)
    found.discard("code")  # in _fewer itself
    codes = set()
    for code in found:
        text = code.removeprefix("f").strip("'")
        codes |= {text.replace("{name}", side) for side in ("train", "holdout")}
    assert codes == set(BOUNDS)


def test_policy_of_labels():
    """The gains and windows that the page names are those of the policy."""
    section = PAGE.split("\n## Labels\n")[1].split("\n## ")[0]
    assert f"a version ({VERSION})" in section
    for words, name in (
        ("rated useful", "useful"),
        ("opened", "opened"),
        ("rated not useful", "not_useful"),
    ):
        assert f"| {words} | {getattr(POLICY, name):g} |" in section
    assert f"| came back | {POLICY.reaccessed:g} less chance |" in section
    assert (POLICY.reaccess_hours, POLICY.repeat_minutes) == (1, 60)
    assert section.count("within an hour of the") == 2
    assert len(fields(POLICY)) == 7


def test_constants_of_the_estimate():
    words = (
        f"for p(i, j) ≥ {weights.CLIP:g}",
        f"{resampling.DRAWS:,} resamples",
        f"{resampling.LEVEL:.0%}".replace("%", " %"),
        f"It needs {estimating.MIN_PAIRS} such results",
        f"at most {estimating.MAX_LOG_ERROR:g} at every knot",
        f"one of {estimating.CURVES} curves",
        f"a factor of {grid.MAX_FACTOR:g} at most",
        f"{versions.BLEND:.0%}".replace("%", " %") + " of the new one",
        ", ".join(map(str, position.KNOTS[:6])),
    )
    for each in words:
        assert each in PAGE


def test_readme_shows_the_same():
    """Its example is that of the page, shortened."""
    readme = (DOCS.parent / "README.md").read_text("utf-8")
    block = readme.split("    $ datasette limbic tune memory.db --tune\n")[1].split("\n\n")[0]
    lines = [line[4:] for line in block.replace("memory.db", "simulated.db").splitlines()]
    assert len(lines) > 5
    assert all(line in PAGE or line.strip() == "…" for line in lines)
