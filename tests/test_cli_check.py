"""``datasette limbic check``, and the examples on its page."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3 as stock_sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cli_helpers import Terminal
from click.testing import CliRunner
from sqlite_utils.cli import cli as sqlite_utils

from datasette_limbic import integrity
from datasette_limbic.cli import check as module
from datasette_limbic.cli import limbic

PAGE = Path(__file__).resolve().parents[1] / "docs" / "checking.md"


def run(*args):
    return CliRunner().invoke(limbic, ["check", *map(str, args)])


def broken(path):
    with closing(stock_sqlite3.connect(path)) as conn:
        conn.execute("insert into _limbic_guard values ('my script')")
        conn.execute("update entities set confidence = 3 where id = 1")
        conn.commit()


def test_all_is_well(demo_db):
    result = run(demo_db)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(rf"{demo_db}: all is well, \d+ checks passed\n", result.stdout)
    assert result.stderr == ""


def test_findings(demo_db):
    broken(demo_db)
    result = run(demo_db)
    assert result.exit_code == 1
    assert "guards left behind" in result.stdout
    assert "name 'my script'" in result.stdout
    assert f"repair: datasette limbic sync {demo_db} --repair" in result.stdout
    assert "confidence is not between 0 and 1: 1 [values.entities.confidence]" in result.stdout
    assert "update entities set confidence = 1.0 where" in result.stdout
    assert f"{demo_db}: 2 findings" in result.stdout


def test_json(demo_db):
    names = [one.name for one in integrity.checks()]
    keys = {"name", "title", "ok", "count", "examples", "repair", "note"}
    found = json.loads(run(demo_db, "--json").stdout)
    assert (found["ok"], found["database"]) == (True, str(demo_db))
    assert [one["name"] for one in found["checks"]] == names
    assert all(set(one) == keys and one["ok"] is True for one in found["checks"])
    broken(demo_db)
    result = run(demo_db, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["ok"] is False
    wrong = {one["name"]: one for one in found["checks"] if not one["ok"]}
    assert set(wrong) == {"marks.guard", "values.entities.confidence"}
    guard = wrong["marks.guard"]
    assert (guard["count"], guard["examples"]) == (1, [{"name": "my script"}])
    assert guard["repair"]["command"].endswith("--repair")
    assert wrong["values.entities.confidence"]["repair"]["by"] == "person"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.write_text("no database at all, just text " * 40), "not a SQLite"),
        (lambda path: path.touch(), "holds no memory"),
    ],
)
def test_errors_are_one_sentence(make, message, tmp_path):
    make(tmp_path / "a.db")
    result = run(tmp_path / "a.db")
    assert result.exit_code == 1
    assert message in result.output
    assert result.output.startswith("Error: ")
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.write_text("no database at all, just text " * 40), "not a SQLite"),
        (lambda path: path.touch(), "holds no memory"),
        (lambda path: damaged(path), "is damaged"),
    ],
)
def test_json_where_nothing_can_be_checked(make, message, tmp_path):
    path = tmp_path / "a.db"
    make(path)
    result = run(path, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert set(found) == {"ok", "database", "error"}
    assert (found["ok"], found["database"]) == (False, str(path))
    assert message in found["error"]
    assert result.stderr == f"Error: {found['error']}\n"
    assert run(path).stdout == ""


def damaged(path):
    """Its schema cannot be read."""
    with closing(stock_sqlite3.connect(path)) as conn:
        for number in range(200):
            conn.execute(f"create table a_table_of_a_long_name_{number}(x)")
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3000)


def test_progress_bar_on_a_terminal(demo_db, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(module.sys, "stderr", terminal)
    with module._Bar(True) as bar:
        bar.show(0, 3, "first")
        bar.show(2, 3, "second")
        bar.show(3, 3, "done")
    assert "checking" in terminal.getvalue()
    assert "second" in terminal.getvalue()
    assert "100%" in terminal.getvalue()


def _lines():
    """The commands of the page with what they print, in order."""
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"^```\n(\$ .*?)^```$", text, re.M | re.S)
    return [
        part.split("\n", 1) for block in blocks for part in re.split(r"^\$ ", block, flags=re.M)[1:]
    ]


def test_the_page_is_true(demo_db, monkeypatch):
    """Its commands, one after another on the sample memory, print what stands there."""
    monkeypatch.chdir(demo_db.parent)
    commands = _lines()
    assert len(commands) >= 6
    for command, shown in commands:
        program, *args = shlex.split(command)
        if program == "datasette":
            got = CliRunner().invoke(limbic, args[1:]).output
        else:
            assert program == "sqlite-utils"
            got = CliRunner().invoke(sqlite_utils, args).output

        def plain(text):
            return re.sub(r"\d+ checks", "N checks", text).split()

        assert plain(got) == plain(shown), command


def test_the_page_names_every_kind_of_check():
    text = PAGE.read_text("utf-8")
    kinds = {one.name.split(".")[0] for one in integrity.checks()}
    assert [kind for kind in sorted(kinds) if f"| `{kind}` |" not in text] == []
