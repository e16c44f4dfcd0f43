"""Which modules are told to have to do with Datasette, and so run on both of its lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from meeting_datasette import meets_datasette

HERE = Path(__file__).parent
ALONE = ["scoring", "actions_faults", "restoring", "importing_writing", "text"]
MEETING = [
    "views_search",  # a fixture with a Datasette
    "cli_sync",  # its commands
    "recording_load",  # a server, by a helper
    "start",  # in a program that a test writes
    "recorder",  # a module of the package that takes one
]


@pytest.mark.parametrize("name", ALONE)
def test_alone(name: str) -> None:
    assert not meets_datasette(HERE / f"test_{name}.py")


@pytest.mark.parametrize("name", MEETING)
def test_meeting(name: str) -> None:
    assert meets_datasette(HERE / f"test_{name}.py")


@pytest.mark.parametrize("path", sorted(HERE.glob("e2e/test_*.py")), ids=lambda path: path.stem)
def test_all_with_a_browser(path: Path) -> None:
    assert meets_datasette(path)


@pytest.mark.parametrize(
    ("line", "meets"),
    [
        ("from datasette.app import Datasette", True),
        ("import asyncio, datasette", True),
        ('CODE = "import sys; from datasette import hookimpl"', True),
        ('run([sys.executable, "-m", "datasette", path])', True),
        ("async def test_page(make_datasette):", True),
        ("from click.testing import CliRunner", True),
        ("from datasette_limbic import plugin", True),
        ("from datasette_limbic import (\n    connection,\n    recorder,\n)", True),
        ("from datasette_limbic.views.common import Forbidden", True),
        ("import datasette_limbic.compat", True),
        ("import view_helpers", True),
        ("from datasette.utils.sqlite import sqlite3", False),
        ("from datasette_limbic import connection, schema", False),
        ("import datasette_limbic.scoring as scoring", False),
        ('"""A page of datasette-limbic."""', False),
    ],
)
def test_lines(line: str, meets: bool, tmp_path: Path) -> None:
    path = tmp_path / "test_written.py"
    path.write_text(line)
    assert meets_datasette(path) is meets
