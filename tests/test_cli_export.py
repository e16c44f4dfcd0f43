"""``datasette limbic export``."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from exporting_helpers import fill, full, mcp
from importing_helpers import new_memory

from datasette_limbic import connection
from datasette_limbic.cli import limbic
from datasette_limbic.cli.export import export_command

ROOT = Path(__file__).resolve().parents[1]


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(export_command, [str(a) for a in arguments])


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "memory.db"
    conn = new_memory(path)
    fill(conn)
    conn.close()
    return path


def wanted(db: Path, kind: str, **options: Any) -> str:
    conn = connection.connect(db, readonly=True)
    text = full(conn, **options) if kind == "full" else mcp(conn, **options)[0]
    conn.close()
    return text


OPTIONS: list[tuple[list[str], str, dict[str, bool]]] = [
    ([], "mcp", {}),
    (["--include-archived"], "mcp", {"include_archived": True}),
    (["--include-ended", "--format", "mcp"], "mcp", {"include_ended": True}),
    (["--format", "full"], "full", {}),
    (["--format", "full", "--vectors"], "full", {"vectors": True}),
]


@pytest.mark.parametrize(("options", "kind", "same"), OPTIONS)
def test_to_standard_output_and_to_a_file(
    db: Path, tmp_path: Path, options: list[str], kind: str, same: dict[str, bool]
) -> None:
    text = wanted(db, kind, **same)
    before = db.read_bytes()
    result = invoke(db, *options)
    assert result.exit_code == 0, result.output
    assert result.stdout == text
    assert result.stderr.startswith("Wrote ")
    result = invoke(db, tmp_path / "out", *options)
    assert (result.exit_code, result.stdout) == (0, "")
    assert (tmp_path / "out").read_bytes() == text.encode("utf-8")
    assert sorted(os.listdir(tmp_path)) == ["memory.db", "out"]
    assert db.read_bytes() == before


def test_says_what_was_left_out(db: Path) -> None:
    said = invoke(db).stderr
    assert "Wrote 2 entities, 3 observations" in said
    assert "Left out, archived: 1 entity, 2 relations (--include-archived writes them)" in said
    assert "Left out, not valid now: 1 observation (--include-ended writes them)" in said
    assert "--format full keeps them" in said
    said = invoke(db, "--format", "full").stderr
    more = wanted(db, "full").count("\n") - 1 - 3 - 4 - 2
    assert f"Wrote 3 entities, 4 observations, 2 relations, and {more} rows of other" in said
    assert "Left out: 1 vector (--vectors" in said


def test_quiet(db: Path, tmp_path: Path) -> None:
    result = invoke(db, tmp_path / "out", "--quiet")
    assert (result.exit_code, result.output) == (0, "")


REFUSED = [
    (["--format", "full", "--include-archived"], "--include-archived goes with --format mcp"),
    (["--format", "full", "--include-ended"], "--include-ended goes with --format mcp"),
    (["--vectors"], "--vectors goes with --format full"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_options_that_do_not_go_together(
    db: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    result = invoke(db, tmp_path / "out", *options)
    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "out").exists()


def test_what_is_there_stays(db: Path, tmp_path: Path) -> None:
    out = tmp_path / "memory.jsonl"
    out.write_text("live")
    result = invoke(db, out)
    assert result.exit_code == 1
    assert "--force" in result.stderr
    assert out.read_text() == "live"
    assert invoke(db, out, "--force").exit_code == 0
    assert out.read_text("utf-8") == wanted(db, "mcp")


def test_the_database_is_never_written_over(db: Path) -> None:
    before = db.read_bytes()
    result = invoke(db, db, "--force")
    assert result.exit_code == 1
    assert "belongs to the database itself" in result.output
    assert db.read_bytes() == before


def test_no_memory_and_no_file(tmp_path: Path) -> None:
    result = invoke(tmp_path / "none.db", tmp_path / "out")
    assert (result.exit_code, "does not exist" in result.output) == (1, True)
    connection.connect(tmp_path / "empty.db", create=True).close()
    result = invoke(tmp_path / "empty.db", tmp_path / "out")
    assert (result.exit_code, "holds no memory yet" in result.output) == (1, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [[], ["--format", "full", "--vectors"]])
def test_without_sqlite_vec(
    demo_db: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """The sample has vector tables, which nothing here reads."""
    monkeypatch.setitem(sys.modules, "sqlite_vec", None)
    result = invoke(demo_db, *options)
    assert result.exit_code == 0, result.output
    assert f"Wrote {65 if options else 63} entities" in result.stderr


def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "datasette", "limbic", "export", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=120, cwd=ROOT, **options)


def test_utf8_whatever_the_system_says(db: Path) -> None:
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = run(db, "--include-archived", env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == wanted(db, "mcp", include_archived=True).encode("utf-8")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_no_room_on_standard_output(db: Path) -> None:
    command = [sys.executable, "-m", "datasette", "limbic", "export", str(db)]
    with open("/dev/full", "wb") as full_device:
        done = subprocess.run(
            command, stdout=full_device, stderr=subprocess.PIPE, timeout=120, cwd=ROOT
        )
    assert done.returncode == 1
    assert b"Error: standard output cannot be written (No space left on device)" in done.stderr
    assert b"Traceback" not in done.stderr


def test_no_room_for_the_file(db: Path, tmp_path: Path) -> None:
    """The system allows no file longer than 512 bytes."""
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    code = (
        "import resource, signal, sys; from datasette.cli import cli\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))\n"
        f"cli(['limbic', 'export', {str(db)!r}, {str(out)!r}, '--force', '--format', 'full'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "out.jsonl cannot be written (File too large)" in done.stderr
    assert "Traceback" not in done.stderr
    assert out.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["memory.db", "out.jsonl"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(db: Path, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    result = invoke(db, folder / "out.jsonl")
    assert result.exit_code == 1
    assert "cannot be written (Permission denied)" in result.output


@pytest.fixture
def large_db(tmp_path: Path) -> Path:
    path = tmp_path / "large.db"
    conn = new_memory(path)
    conn.execute("insert into entities(id, name) values (1, 'large')")
    conn.execute(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)"
        " insert into observations(entity_id, content) select 1, 'observation ' || i from n"
    )
    conn.commit()
    conn.close()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mcp", "full"])
def test_a_reader_that_stops_early(large_db: Path, kind: str) -> None:
    command = [sys.executable, "-m", "datasette", "limbic", "export", str(large_db)]
    with subprocess.Popen(
        [*command, "--format", kind], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


def test_killed_in_the_middle(large_db: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    code = (
        "import os, signal, sys; from datasette_limbic.exporting import mcp\n"
        "from datasette.cli import cli\n"
        "mcp.STEP = 100\n"
        "step = mcp._Writer.step\n"
        "def slow(self, rows, last=False):\n"
        "    print('at work', flush=True); import time; time.sleep(0.05)\n"
        "mcp._Writer.step = slow\n"
        f"cli(['limbic', 'export', {str(large_db)!r}, {str(out)!r}, '--force'])"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"at work\n"
        assert len(os.listdir(tmp_path)) == 3  # the unfinished one, beside it
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    assert out.read_text() == "old"


def test_a_progress_bar_on_a_terminal_alone(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Exporting" not in invoke(db, tmp_path / "a").stderr
    monkeypatch.setattr(
        "click.testing._NamedTextIOWrapper.isatty", lambda _self: True, raising=False
    )
    assert "100%" in invoke(db, tmp_path / "b", "--format", "full").stderr
    assert "100%" in invoke(db, tmp_path / "c").stderr
    assert "Exporting" not in invoke(db).stderr
    assert "Exporting" not in invoke(db, tmp_path / "d", "--quiet").stderr


def test_it_is_a_command() -> None:
    assert limbic.get_command(click.Context(limbic), "export") is export_command


# the page --------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "exporting.md").read_text("utf-8")
EXAMPLE = re.compile(r"^\$ datasette limbic (export demo\.db.*)\n((?:(?!\$ |```).*\n)*)", re.M)


@pytest.mark.parametrize(("command", "shown"), EXAMPLE.findall(PAGE))
def test_examples_of_the_page(
    command: str, shown: str, demo_db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(demo_db.parent)
    result = CliRunner().invoke(limbic, shlex.split(command))
    assert result.exit_code == 0, result.output
    assert result.output == shown


def test_lines_of_the_page_are_those_of_an_export(demo_db: Path) -> None:
    """Where a line is long, the page has … for what it leaves out."""
    text = {kind: wanted(demo_db, kind).split("\n") for kind in ("mcp", "full")}
    blocks = re.findall(r"<!-- lines: (\w+) -->\n+```json\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 2
    for kind, block in blocks:
        for line in block.splitlines():
            pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
            assert any(pattern.fullmatch(found) for found in text[kind]), line
            if "…" not in line:
                json.loads(line)
