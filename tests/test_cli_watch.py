"""``datasette limbic import --watch``: a real process, and how it is stopped."""

from __future__ import annotations

import json
import signal
import sqlite3 as stock_sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from importing_helpers import entity, one, relation, write_lines

from datasette_limbic import connection
from datasette_limbic.cli.import_ import import_command

Start = Callable[..., "subprocess.Popen[str]"]


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(import_command, [str(a) for a in arguments])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "in.jsonl", entity("A", "x"), relation("A", "Later"), "broken")


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[subprocess.Popen[str]] = []

    def run(*arguments: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "datasette", "limbic", "import", *map(str, arguments)]
        made.append(
            subprocess.Popen(
                [*command, "--watch", "--interval", "0.05"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return made[-1]

    yield run
    for process in made:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n").partition(" ")[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_follows_until_it_is_stopped(
    tmp_path: Path, source: Path, start: Start, number: signal.Signals
) -> None:
    db = tmp_path / "memory.db"
    process = start(source, db)
    assert line(process) == (
        "in.jsonl: 3 lines, 1 entity created, 1 observation added, 1 rejected, 1 dangling"
    )
    with source.open("a") as file:
        file.write(json.dumps(entity("Later")) + '\n{"type": "ent')
    assert line(process) == "in.jsonl: 1 line, 1 entity created"
    assert line(process) == "in.jsonl: 1 line, 1 relation created"
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert process.returncode == 0
    assert out == (
        "Stopped after 3 rounds with changes: 5 lines, 2 entities created, 1 observation added, "
        "1 relation created, 1 rejected\n"
    )
    assert err == f"Line 5 of {source} has no end yet and was not taken\n"
    conn = connection.connect(db)
    assert one(conn, "select count(*) from limbic_imports") == 3
    conn.close()


@pytest.mark.slow
def test_killed_at_any_point(tmp_path: Path, source: Path, start: Start) -> None:
    db = tmp_path / "memory.db"
    for delay in (0.0, 0.03, 0.06):
        process = start(source, db)
        line(process)
        with source.open("a") as file:
            rows = [entity(f"E{delay} {i}", "x" * 100) for i in range(300)]
            file.write("".join(json.dumps(row) + "\n" for row in rows))
        time.sleep(delay)
        process.kill()
        process.communicate()
    process = start(source, db)
    end = time.monotonic() + 10
    while _count(db) < 901 and time.monotonic() < end:
        time.sleep(0.02)
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == 0
    assert _count(db) == 901


def _count(db: Path) -> int:
    conn = connection.connect(db)
    try:
        return int(one(conn, "select count(*) from entities"))
    finally:
        conn.close()


def test_json_is_one_object_on_each_line(tmp_path: Path, source: Path, start: Start) -> None:
    process = start(source, tmp_path / "memory.db", "--json")
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    assert told["totals"]["entities"]["created"] == 1
    assert told["files"][0]["file"] == "in.jsonl"
    process.terminate()
    out, _ = process.communicate(timeout=10)
    last = json.loads(out)
    assert (last["stopped"], last["rounds"], last["totals"]["rejected"]) == (True, 1, 2)


def imported(db: Path) -> bool:
    """Whether the first import has been committed."""
    if not db.exists() or db.with_name("memory.db-journal").exists():
        return False
    try:
        with closing(stock_sqlite3.connect(f"{db.as_uri()}?mode=ro", uri=True)) as conn:
            found = conn.execute("select count(*) from limbic_imports where counts <> '{}'")
            return bool(found.fetchone()[0])
    except stock_sqlite3.OperationalError:
        return False  # no table yet, or locked


def test_quiet_and_a_database_that_is_deleted(tmp_path: Path, source: Path, start: Start) -> None:
    db = tmp_path / "memory.db"
    late = tmp_path / "late.jsonl"
    process = start(source, late, db, "--quiet")
    assert process.stderr is not None
    assert process.stderr.readline() == f"{late} is not there: waiting for it\n"
    end = time.monotonic() + 20
    while not imported(db):
        assert time.monotonic() < end
        time.sleep(0.05)
    db.unlink()
    out, err = process.communicate(timeout=10)
    assert process.returncode == 1
    assert out == ""
    assert err == (
        f"Error: {db} was deleted while files were followed into it: start again to import all "
        "of them anew\n"
    )


def test_what_cannot_be_followed(tmp_path: Path, source: Path) -> None:
    db = tmp_path / "memory.db"
    document = tmp_path / "list.json"
    document.write_text(json.dumps([entity("A")]))
    result = invoke(document, db, "--watch")
    assert result.exit_code == 1
    assert (
        "list.json is in the format JSON document, and only JSON Lines can be followed"
        in result.output
    )
    result = invoke(source, db, "--watch", "--rejects", tmp_path / "left.jsonl")
    assert result.exit_code == 1
    assert "--rejects holds what one import left out, and --watch makes many" in result.output
    assert invoke(source, db, "--watch", "--interval", "0").exit_code == 2
    assert not db.exists()
