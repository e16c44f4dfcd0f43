"""Packages from npm, installed once for all runs and kept in $LIMBIC_TESTS_CACHE.

Without one its tests are skipped; with $LIMBIC_MUST, as in .ci/run, they fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

INSTALL_S = 180


def lacking(why: str) -> NoReturn:
    """Skip the test for want of something, or fail it where nothing may be wanting."""
    if os.environ.get("LIMBIC_MUST"):
        pytest.fail(why)
    pytest.skip(why)


def installed(package: str, version: str) -> Path:
    """The folder of this version of the package; ``lacking`` says why it is not there."""
    if not shutil.which("node") or not shutil.which("npm"):
        lacking(f"node and npm are needed to install {package}")
    own = package.rpartition("/")[2]
    cache = Path(os.environ["LIMBIC_TESTS_CACHE"]) / f"datasette-limbic-{own}-{os.getuid()}"
    cache.mkdir(mode=0o700, exist_ok=True)
    if cache.stat().st_uid != os.getuid():
        lacking(f"{cache} belongs to somebody else")
    folder = cache / version
    if not folder.exists():
        # into a folder of its own: another run may be installing it too, or be stopped halfway
        fresh = Path(tempfile.mkdtemp(dir=cache))
        command = [
            "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts",
            "--prefix", str(fresh), f"{package}@{version}",
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
            failed = done.returncode and done.stderr.strip().split("\n")[-1]
        except (subprocess.TimeoutExpired, OSError) as error:
            failed = str(error)
        if failed:
            shutil.rmtree(fresh, ignore_errors=True)
            lacking(f"{package} could not be installed: {failed}")
        if folder.exists():
            shutil.rmtree(fresh, ignore_errors=True)
        else:
            fresh.rename(folder)
    return folder / "node_modules" / package
