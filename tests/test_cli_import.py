"""``datasette limbic import``."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from datasette.utils.sqlite import sqlite3
from importing_helpers import DIALECTS, entity, new_memory, one, relation, write_lines

from datasette_limbic import connection
from datasette_limbic.cli import limbic
from datasette_limbic.cli.common import reports_errors
from datasette_limbic.cli.import_ import import_command
from datasette_limbic.errors import UnknownEntity


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(import_command, [str(a) for a in arguments])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_lines(
        tmp_path / "in.jsonl",
        entity("A", "x"),
        entity("B"),
        relation("A", "B"),
        relation("A", "Nobody"),
        "broken",
    )


def test_makes_the_database_and_says_what_happened(tmp_path: Path, source: Path) -> None:
    result = invoke(source, tmp_path / "memory.db")
    assert result.exit_code == 0, result.output
    assert "2 created" in result.output
    assert "--rejects FILE" in result.output
    conn = connection.connect(tmp_path / "memory.db")
    assert one(conn, "select count(*) from entities") == 2
    conn.close()


def test_json_rejects_and_create_missing(tmp_path: Path, source: Path) -> None:
    db, rejects = tmp_path / "memory.db", tmp_path / "rejects.jsonl"
    result = invoke(source, db, "--json", "--rejects", rejects)
    assert result.exit_code == 0
    totals = json.loads(result.stdout)["totals"]
    assert (totals["entities"]["lines"], totals["entities"]["created"]) == (2, 2)
    assert totals["rejects"] == 2
    rows = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [(row["line"], row["file"]) for row in rows] == [(5, "in.jsonl"), (4, "in.jsonl")]
    result = invoke(source, db, "--create-missing")
    assert "1 stub made" in result.output
    assert "relations     1 created, 1 merged" in result.output


def test_quiet(tmp_path: Path, source: Path) -> None:
    result = invoke(source, tmp_path / "memory.db", "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_several_files_one_refused(tmp_path: Path, source: Path) -> None:
    result = invoke(source, DIALECTS / "array.json", DIALECTS, tmp_path / "memory.db")
    assert result.exit_code == 0
    assert "dialects: refused." in result.output
    assert "array.json (JSON document): 3 records" in result.output


NOTHING_TO_READ = {
    "chat_history.json": "neither entity nor relation: keys messages.\nRead are the memory files",
    "price_list.json": "neither entity nor relation: keys sku, name, price.\nRead are the memory",
    "nowhere.json": "nowhere.json does not exist: give the path of a memory file",
    ".": "is a directory: give the path of a file. Read are the memory files of MCP servers",
}


@pytest.mark.parametrize(("name", "said"), NOTHING_TO_READ.items())
def test_nothing_to_read_is_exit_code_1_and_leaves_no_file(
    tmp_path: Path, name: str, said: str
) -> None:
    db = tmp_path / "memory.db"
    result = invoke(DIALECTS / name, db)
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert said in result.output
    assert not db.exists()


def test_errors_are_sentences(tmp_path: Path, source: Path, monkeypatch: Any) -> None:
    result = invoke(source, source)
    assert result.exit_code == 1
    assert "not a SQLite database" in result.output
    result = invoke(source, tmp_path / "no" / "memory.db")
    assert "does not exist" in result.output
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.05)
    holder = new_memory(tmp_path / "memory.db")
    holder.execute("begin immediate")
    result = invoke(source, tmp_path / "memory.db")
    assert result.exit_code == 1
    assert "is locked by another program" in result.output
    holder.close()


def test_files_come_before_the_database(source: Path) -> None:
    result = invoke(source)
    assert result.exit_code == 2
    assert "FILE" in result.output


def test_progress_bar_only_on_a_terminal(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[Any] = []

    class Bar:
        def __init__(self, **arguments: Any) -> None:
            bars.append(arguments)
            self.seen = 0

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            bars.append(self.seen)

        def update(self, more: int) -> None:
            self.seen += more

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(click, "progressbar", Bar)
    invoke(source, tmp_path / "memory.db")
    assert not bars
    monkeypatch.setattr("datasette_limbic.cli.import_.sys.stderr", Terminal())
    import_command.callback(  # type: ignore[misc]
        files=(source,),
        database=str(tmp_path / "memory.db"),
        create_missing=False,
        rejects=None,
        as_json=False,
        quiet=False,
    )
    assert bars[0]["length"] == bars[1] == source.stat().st_size


def test_help_teaches() -> None:
    text = invoke("--help").output
    for words in ("memory.jsonl memory.db", "from_entity", "Exit code 0", "--create-missing"):
        assert words in text


def test_reports_errors_turns_ours_and_sqlites_into_sentences() -> None:
    @reports_errors
    def command(error: Exception, **_: Any) -> None:
        raise error

    with pytest.raises(click.ClickException, match="no such entity"):
        command(UnknownEntity("no such entity"))
    for keyword in ("database", "path"):
        with pytest.raises(click.ClickException, match=r"x\.db is locked by another program"):
            command(sqlite3.OperationalError("database is locked"), **{keyword: "x.db"})
    with pytest.raises(KeyError):
        command(KeyError("a fault of ours stays visible"))


# the pages -------------------------------------------------------------------------------------

DOCS = Path(__file__).resolve().parents[1] / "docs"
EXAMPLE = re.compile(r"^\$ datasette limbic (import \w+\.jsonl .*)\n((?:(?!\$ |```).*\n)*)", re.M)


def json_block(page: str, contains: str) -> str:
    return next(
        block for block in re.findall(r"```json\n(.*?)```", page, re.S) if contains in block
    )


def test_examples_of_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both pages tell one story: the file of the first, then notes.jsonl, twice."""
    monkeypatch.chdir(tmp_path)
    start, page = (
        (DOCS / name).read_text("utf-8") for name in ("getting-started.md", "importing.md")
    )
    Path("memory.jsonl").write_text(json_block(start, "Lives in Porto"), "utf-8")
    Path("notes.jsonl").write_text(json_block(page, "Prefers short meetings"), "utf-8")
    examples = [
        example
        for example in EXAMPLE.findall(start) + EXAMPLE.findall(page)
        if "--watch" not in example[0]
    ]
    assert [command.split()[1] for command, _ in examples] == ["memory.jsonl", *["notes.jsonl"] * 2]
    for command, shown in examples:
        result = CliRunner().invoke(limbic, shlex.split(command))
        assert result.exit_code == 0, result.output
        assert result.output == shown
    rejects = json_block(page, '"line": 4, "reason"')
    assert Path("left-out.jsonl").read_text("utf-8") == rejects
