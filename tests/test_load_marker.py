"""Tests marked load run where --load is given, and no other option makes them run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = """
import pytest

@pytest.mark.load
def test_heavy():
    pass

def test_light():
    pass
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "1 passed, 1 skipped"),
        (["-m", "not browser"], "1 passed, 1 skipped"),
        (["-m", "load"], "1 skipped, 1 deselected"),
        (["-m", "slow or load"], "1 skipped, 1 deselected"),
        (["-k", "heavy"], "1 skipped, 1 deselected"),
        (["--load"], "2 passed"),
        (["--load", "-m", "load"], "1 passed, 1 deselected"),
        (["--load", "-m", "not load"], "1 passed, 1 deselected"),
    ],
    ids=" ".join,
)
def test_load_is_asked_for(options, said, tmp_path):
    (tmp_path / "conftest.py").write_text(
        "from conftest_of_ours import pytest_addoption, pytest_collection_modifyitems\n"
    )
    (tmp_path / "conftest_of_ours.py").write_text((HERE / "conftest.py").read_text())
    (tmp_path / "test_both.py").write_text(SOURCE)
    (tmp_path / "pyproject.toml").write_text((HERE.parent / "pyproject.toml").read_text())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "test_both.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{HERE}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert f"{said} in " in done.stdout, done.stdout + done.stderr
