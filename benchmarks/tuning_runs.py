"""Seeded runs of tuning on simulated memories: what it says, and what is true.

Each run makes a log, labels it by the label policy, asks for a proposal, and compares it with what
the simulator knows: whether the step goes towards the true parameters, and what it truly gains on
new queries. The naive tuner gets the same logs. One run is one line of JSON; a file of them goes
on where it was left, and lines of another state of the code count nothing.
"""

from __future__ import annotations

import ast
import hashlib
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import datasette_limbic
from datasette_limbic.tuning.proposing import blended, propose
from datasette_limbic.tuning.ranges import DEFAULT_BETA_SAL, DEFAULT_GAMMA

from . import naive_tuner
from .simulated_openings import with_openings
from .simulator import Simulated, simulate
from .tuning_cases import Case, Pair

NAIVE_EVERY = 10
"""The naive tuner sees each tenth run: it takes as long again, and its failure shows in fewer."""
Result = dict[str, Any]

_ROOT = Path(datasette_limbic.__file__).parents[1]
_DECIDES = tuple(f"datasette_limbic/{name}" for name in ("tuning/", "scoring.py", "routing.py"))
"""With the benchmarks themselves, what of the code decides about a result."""


@cache
def code() -> str:
    """A digest of all modules that decide about a result, without comments and docstrings."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(_imported(Path(__file__), set())):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                node.body = [each for each in body if not _said(each)]  # type: ignore[attr-defined]
        digest.update(f"{path.name}\n{ast.unparse(tree)}\n".encode())
    return digest.hexdigest()


def _imported(path: Path, found: set[Path]) -> set[Path]:
    """The module at ``path``, and what it imports of the benchmarks and of _DECIDES, and so on."""
    found.add(path)
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = path.parents[node.level - 1] if node.level else _ROOT
        module = base.joinpath(*(node.module or "").split("."))
        for each in (module, *(module / name.name for name in node.names)):
            file = each.with_suffix(".py")
            if file not in found and file.is_file() and _decides(file):
                _imported(file, found)
    return found


def _decides(file: Path) -> bool:
    if file.parent == Path(__file__).parent:
        return file.name != "tuning_cases.py"  # each line has its own case: ``setting``
    return file.is_relative_to(_ROOT) and file.relative_to(_ROOT).as_posix().startswith(_DECIDES)


def _said(node: ast.AST) -> bool:
    """Whether it is a docstring, or a text that stands alone."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)


def setting(case: Case) -> str:
    """A digest of what a case is, so that one may change and the results of the others stay."""
    text = repr((case.scenario, case.named, case.by_name))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def one(case: Case, seed: int) -> Result:
    """One run. Gains are in true NDCG@10 on new queries; None where nothing is relevant."""
    began = time.process_time()
    simulated = simulate(case.scenario, seed)
    log = simulated.log
    if case.named:
        log = with_openings(simulated, case.named, by_name=case.by_name)
    found = propose(log, case.in_force, betas=DEFAULT_BETA_SAL, gammas=DEFAULT_GAMMA)
    result: Result = {
        "case": case.key,
        "seed": seed,
        "code": code(),
        "setting": setting(case),
        "outcome": found.refusal.code if found.refusal else "proposed",
        "estimation": found.basis.kind,
        "events": found.counts.get("events"),
        "labelled": found.counts.get("labelled"),
        "target": None,
        "step": None,
        "best_gain": _gain(case, simulated, case.truth),
    }
    if found.proposed:
        assert found.target is not None
        assert found.step is not None
        assert found.step_gain is not None
        result.update(judged(case, simulated, found.target, found.step))
        result["holdout_gain"] = found.step_gain.value
    if seed % NAIVE_EVERY == 0:
        naive = naive_tuner.tune(log, case.in_force, betas=DEFAULT_BETA_SAL, gammas=DEFAULT_GAMMA)
        result["naive"] = {"target": None}
        if naive.target is not None:
            step = blended(case.in_force, naive.target)
            result["naive"] = judged(case, simulated, naive.target, step)
    result["seconds"] = round(time.process_time() - began, 4)
    return result


def judged(case: Case, simulated: Simulated, target: Pair, step: Pair) -> Result:
    """A target and the step to it against the truth; None where there is no truth to go to."""
    return {
        "target": target,
        "step": step,
        "towards": towards(case.in_force, step, case.truth) if case.signal else None,
        "target_gain": _gain(case, simulated, target),
        "step_gain": _gain(case, simulated, step),
    }


def towards(old: Pair, new: Pair, truth: Pair) -> bool:
    """Whether the logarithms are nearer to the truth's, by Euclidean distance.

    A parameter that is true already does not count, or moving the other one alone would.
    """
    wrong = np.not_equal(old, truth)
    away = [np.hypot.reduce(np.log(np.divide(each, truth))[wrong]) for each in (old, new)]
    return bool(away[1] < away[0])


def _gain(case: Case, simulated: Simulated, pair: Pair) -> float | None:
    return simulated.true_gain(*pair) if case.signal else None


def load(path: Path, wanted: Sequence[Case]) -> tuple[list[Result], int]:
    """The results of these cases and of this code, and how many lines count nothing."""
    known = {case.key: setting(case) for case in wanted}
    found: dict[tuple[str, int], Result] = {}
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue  # cut off where a run was killed: counted below
        if row["code"] == code() and known.get(row["case"]) == row["setting"]:
            found[row["case"], row["seed"]] = row
    return list(found.values()), len(lines) - len(found)


def run(
    path: Path,
    wanted: Sequence[Case],
    seeds: Sequence[int],
    *,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """All results of these cases and seeds; those that the file lacks are run and added to it.

    Seed by seed, so that a run that is stopped (Ctrl+C) has about as many of each case; what is
    there then is returned. ``jobs`` processes, by default one for each core.
    """
    there, _ = load(path, wanted)
    done = {(row["case"], row["seed"]) for row in there}
    todo = [(case, seed) for seed in seeds for case in wanted if (case.key, seed) not in done]
    asked = set(seeds)
    results = [row for row in there if row["seed"] in asked]
    total = len(results) + len(todo)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        _end_line(file)
        try:
            for result in _in_processes(todo, jobs or os.cpu_count() or 1):
                file.write(json.dumps(result).encode() + b"\n")
                file.flush()
                results.append(result)
                if progress is not None:
                    progress(len(results), total)
        except KeyboardInterrupt:
            pass  # asked for: what is done is in the file
    return results


def _in_processes(todo: Sequence[tuple[Case, int]], jobs: int) -> Iterator[Result]:
    if not todo:
        return
    # from scratch: forks of a process with threads may hang
    with multiprocessing.get_context("spawn").Pool(jobs, _alone) as pool:
        yield from pool.imap_unordered(_one, todo)


def _alone() -> None:
    """Each process has one core, and leaves Ctrl+C to the first one."""
    threadpool_limits(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _one(task: tuple[Case, int]) -> Result:
    case, seed = task
    try:
        return one(case, seed)
    except Exception as error:
        raise RuntimeError(f"{case.key}, seed {seed}: {error!r}") from error


def _end_line(file: Any) -> None:
    """What was cut off in the middle of a line must not spoil the next one."""
    if file.seek(0, os.SEEK_END):
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")
