"""Tests marked load run where --load is given, and no other option makes them run; those without
Datasette are marked by themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = """
import pytest

@pytest.mark.load
def test_heavy():
    pass

def test_light():
    pass
"""


# All in one process: what conftest.py imports takes longer than these tests.
RUN = """
import contextlib, io, json, sys
import pytest

said = []
for options in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        pytest.main(["-p", "no:cacheprovider", *options, "test_both.py"])
    said.append(out.getvalue())
print(json.dumps(said))
"""
CASES = {
    (): "1 passed, 1 skipped",
    ("-m", "not browser"): "1 passed, 1 skipped",
    ("-m", "load"): "1 skipped, 1 deselected",
    ("-m", "slow or load"): "1 skipped, 1 deselected",
    ("-k", "heavy"): "1 skipped, 1 deselected",
    # which none of them says: tests of a module without Datasette
    ("-m", "library"): "1 passed, 1 skipped",
    ("-m", "not library"): "2 deselected",
    ("--load",): "2 passed",
    ("--load", "-m", "load"): "1 passed, 1 deselected",
    ("--load", "-m", "not load"): "1 passed, 1 deselected",
}


def test_load_is_asked_for(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "from conftest_of_ours import pytest_addoption, pytest_collection_modifyitems\n"
    )
    (tmp_path / "conftest_of_ours.py").write_text((HERE / "conftest.py").read_text())
    (tmp_path / "test_both.py").write_text(SOURCE)
    (tmp_path / "pyproject.toml").write_text((HERE.parent / "pyproject.toml").read_text())
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(list(CASES))],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{HERE}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert len(said) == len(CASES)
    for (options, expected), output in zip(CASES.items(), said, strict=True):
        assert f"{expected} in " in output, f"{options}: {output}"
