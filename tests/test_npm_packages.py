"""What a test needs and does not find: left out by hand, an error where nothing may be left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from npm_packages import installed

RUN = Path(__file__).parents[1] / ".ci" / "run"


@pytest.mark.parametrize(
    ("must", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
@pytest.mark.parametrize("npm", ["#!/bin/sh\necho no such thing >&2\nexit 1\n", None])
def test_without_a_package(must, outcome, npm, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LIMBIC_TESTS_CACHE", str(tmp_path))
    monkeypatch.setenv("LIMBIC_MUST", must)
    if npm is not None:
        for name in ("node", "npm"):
            (tmp_path / name).write_text(npm)
            (tmp_path / name).chmod(0o700)
    why = "node and npm are needed to install thing" if npm is None else "thing could not be ins"
    with pytest.raises(outcome, match=why):
        installed("thing", "1.0.0")
    assert not list(tmp_path.glob("datasette-limbic-thing-*/*")), "nothing half made is left"


def test_the_gate_leaves_nothing_out():
    assert "\nexport LIMBIC_MUST=1\n" in RUN.read_text("utf-8")
