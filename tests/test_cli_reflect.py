"""``datasette limbic reflect``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import Terminal
from click.testing import CliRunner
from health_helpers import change
from insights_helpers import KEYS, judge_all, memory, table

from datasette_limbic.cli import limbic
from datasette_limbic.insights.model import KINDS


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return memory(tmp_path_factory.mktemp("insights") / "memory.db")


@pytest.fixture(name="path")
def copy(master: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(master, tmp_path / "my memory.db"))


def run(*args: Any) -> Any:
    return CliRunner().invoke(limbic, ["reflect", *map(str, args)])


def test_in_words(path: Path) -> None:
    result = run(path)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("reports: 4 entities looked at, 2 new pairs")
    assert lines[1:7] == [
        "contradictions:   1 new",
        "duplicates:       1 new",
        "name clashes:     1 new",
        "archived bridges: 1 new",
        "splits:           1 new",
        "to archive:       1 new",
    ]
    assert lines[7:] == [
        "6 wait for a decision, one after another:",
        f"  datasette limbic review '{path}'",
        f"  datasette '{path}'   # then open /my+memory/-/limbic/review",
    ]


def test_again_and_after_decisions(path: Path) -> None:
    run(path)
    judge_all(path)
    change(
        path,
        "insert into observations(id, entity_id, content) select 50, 1, content from observations"
        " where id = 1",
    )
    lines = run(path).output.splitlines()
    assert "contradictions:   1 judged" in lines
    assert "duplicates:       1 raised again" in lines
    assert (
        "1 judged before came up again, since what it rests on has changed: each says what."
        in lines
    )
    assert "1 waits for a decision, one after another:" in lines
    change(path, "delete from observations where id = 50")
    lines = run(path).output.splitlines()
    assert "duplicates:       1 withdrawn, 1 judged" in lines
    assert lines[-1] == "Nothing waits for a decision."


def test_json_and_kinds(path: Path) -> None:
    result = run(path, "--json", "--kind", "split", "--kind", "bridge")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert list(found["kinds"]) == ["bridge", "split"]
    assert found["total"]["added"] == found["pending"] == 2
    assert found["kept"]["entities"] == 4
    assert len(table(path)) == 2
    assert json.loads(run(path, "--json").output)["total"] == {
        "added": len(KEYS) - 2,
        "refreshed": 0,
        "unchanged": 2,
        "raised_again": 0,
        "withdrawn": 0,
        "left_judged": 0,
    }


def test_a_bar_on_a_terminal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datasette_limbic.cli.reflect import reflect_command

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert reflect_command.callback is not None
    reflect_command.callback(database=str(path), kinds=(), json_wanted=True, config=None)
    assert "reports" in terminal.getvalue()
    assert "insights" in terminal.getvalue()
    assert "100%" in terminal.getvalue()


def test_help_teaches() -> None:
    text = run("--help").output
    for kind in KINDS:
        assert kind in text
    for words in ("datasette limbic review memory.db", "The graph itself stays as it", "--json"):
        assert words in text


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [(["--kind", "nonsense"], 2, "nonsense"), (["--config", "none.yml"], 2, "none.yml")],
)
def test_bad_options(path: Path, args: list[str], code: int, says: str) -> None:
    result = run(path, *args)
    assert result.exit_code == code
    assert says in result.output


def test_no_file_and_no_memory(tmp_path: Path) -> None:
    result = run(tmp_path / "none.db")
    assert result.exit_code == 1
    assert "none.db does not exist" in result.output
    (tmp_path / "other.db").write_bytes(b"")
    result = run(tmp_path / "other.db")
    assert result.exit_code == 1
    assert "datasette limbic init" in result.output


def test_a_memory_that_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datasette_limbic import connection

    connect = connection.connect
    monkeypatch.setattr(
        connection, "connect", lambda *a, **options: connect(*a, **{**options, "readonly": True})
    )
    result = run(path)
    assert result.exit_code == 1
    assert "cannot be written" in result.output
