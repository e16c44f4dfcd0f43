"""The rejects file: what it holds, and what it must never overwrite."""

from __future__ import annotations

import base64
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from importing_helpers import dump, entity, new_memory, relation, write_lines

from datasette_limbic import connection
from datasette_limbic.cli import limbic
from datasette_limbic.errors import BadParameter
from datasette_limbic.importing import import_files

LINES = (entity("A", "x"), "not json", relation("A", "Nope"))


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "bad.jsonl", *LINES)


def make(kind: str, folder: Path, database: Path, bad: Path) -> Path:
    """A path that rejects must not be written to."""
    path = folder / "taken"
    if kind == "database":
        return database
    if kind == "beside the database":
        return database.with_name(database.name + "-wal")
    if kind == "link to the database":
        path.symlink_to(database)
    elif kind == "source":
        return bad
    elif kind == "another database":
        new_memory(path).close()
    elif kind == "notes":
        path.write_text("my notes")
    elif kind == "a memory":
        write_lines(path, entity("B"))
    elif kind == "folder":
        path.mkdir()
    elif kind == "missing folder":
        return folder / "nowhere" / "rejects"
    elif kind == "device":
        return Path(os.devnull)
    else:
        os.mkfifo(path)
    return path


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize(
    "kind",
    [
        "database",
        "beside the database",
        "link to the database",
        "source",
        "another database",
        "notes",
        "a memory",
        "folder",
        "missing folder",
        "device",
        "pipe",
    ],
)
def test_nothing_is_overwritten(tmp_path: Path, bad: Path, kind: str, is_new: bool) -> None:
    database = tmp_path / "memory.db"
    if not is_new or kind in ("database", "link to the database"):
        conn = new_memory(database)
        conn.execute("insert into entities(name) values ('kept')")
        conn.commit()
        conn.close()
    path = make(kind, tmp_path, database, bad)
    before = path.read_bytes() if path.is_file() else None
    listed = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadParameter) as raised:
        import_files(database, [bad], rejects_path=path)
    assert str(path) in str(raised.value) or str(path.parent) in str(raised.value)
    assert before is None or path.read_bytes() == before
    assert sorted(tmp_path.rglob("*")) == listed
    assert Path(os.devnull).is_char_device()
    if database.exists():
        with connection.connect(database) as conn:
            assert [r[0] for r in conn.execute("select name from entities")] == ["kept"]


@pytest.mark.parametrize("earlier", [None, "", "rejects"])
def test_what_holds_rejects_or_nothing_is_replaced(
    tmp_path: Path, bad: Path, earlier: str | None
) -> None:
    path = tmp_path / "rejects.jsonl"
    if earlier == "rejects":
        import_files(tmp_path / "other.db", [bad], rejects_path=path)
    elif earlier is not None:
        path.write_text(earlier)
    summary = import_files(tmp_path / "memory.db", [bad], rejects_path=path)
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    assert summary.rejects == len(rows) == 2
    assert [(row["line"], row["raw"]) for row in rows] == [
        (2, "not json"),
        (3, json.dumps(LINES[2])),
    ]


def test_a_link_stays_a_link(tmp_path: Path, bad: Path) -> None:
    target = tmp_path / "elsewhere" / "rejects.jsonl"
    target.parent.mkdir()
    target.touch()
    link = tmp_path / "link"
    link.symlink_to(target)
    import_files(tmp_path / "memory.db", [bad], rejects_path=link)
    assert link.is_symlink()
    assert len(target.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "raw",
    [b'{"a": "caf\xe9"}', b"\xff\xfe\xfa", b"ok \xed\xa0\x80 half a pair", b"\x80" * 300],
)
def test_bytes_are_kept_as_they_were(tmp_path: Path, raw: bytes) -> None:
    source = tmp_path / "source.jsonl"
    source.write_bytes(json.dumps(LINES[0]).encode() + b"\n" + raw + b"\r\n")
    path = tmp_path / "rejects.jsonl"
    summary = import_files(tmp_path / "memory.db", [source], rejects_path=path)
    (row,) = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    assert base64.b64decode(row["raw_base64"]) == raw
    assert row["raw"] == raw.decode("utf-8", "replace")
    assert "not UTF-8" in row["reason"]
    json.dumps(summary.as_dict()).encode("utf-8")
    with connection.connect(tmp_path / "memory.db") as conn:
        stored = conn.execute("select raw from limbic_import_rejects").fetchall()
    assert stored == [(row["raw"],)]


@pytest.mark.parametrize("fails", ["fsync", "open", "write"])
def test_no_room_for_rejects_imports_nothing(
    tmp_path: Path, bad: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    database = tmp_path / "memory.db"
    conn = new_memory(database)
    before = dump(conn)

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    if fails == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    elif fails == "open":
        monkeypatch.setattr(Path, "open", _only_reading(Path.open, full))
    else:
        monkeypatch.setattr("datasette_limbic.importing.rejects.json.dumps", full)
    with pytest.raises(BadParameter, match=r"rejects\.jsonl cannot be written .No space left"):
        import_files(conn, [bad], rejects_path=tmp_path / "rejects.jsonl")
    monkeypatch.undo()
    assert dump(conn) == before
    conn.close()
    assert not list(tmp_path.glob("*rejects*")) + list(tmp_path.glob(".*rejects*"))


def _only_reading(opens: Any, full: Any) -> Any:
    def wrapped(self: Path, mode: str = "r", *args: Any, **more: Any) -> Any:
        return full() if "w" in mode else opens(self, mode, *args, **more)

    return wrapped


def test_a_real_limit_of_size(tmp_path: Path) -> None:
    """More rejects than the file may hold: one sentence, and the database as before."""
    source = write_lines(tmp_path / "bad.jsonl", entity("A"), *["broken " + "x" * 500] * 9000)
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000));"
        "from datasette_limbic.cli import limbic; limbic(sys.argv[1:])"
    )
    command = [
        "import",
        str(source),
        str(tmp_path / "m.db"),
        "--rejects",
        str(tmp_path / "r.jsonl"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", program, *command], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "r.jsonl cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.jsonl"]


def test_a_line_that_was_cut_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasette_limbic.importing.reading.MAX_RECORD", 1000)
    monkeypatch.setattr("datasette_limbic.importing.reading.KEPT_OF_TOO_LONG", 10)
    source = write_lines(tmp_path / "source.jsonl", entity("A"), "x" * 3000)
    path = tmp_path / "rejects.jsonl"
    import_files(tmp_path / "memory.db", [source], rejects_path=path)
    row = json.loads(path.read_text())
    assert (row["raw"], row["reason"].endswith("kept are its first 10")) == ("x" * 10, True)


def test_quiet_still_says_what_was_refused(tmp_path: Path, bad: Path) -> None:
    missing = tmp_path / "nope.jsonl"
    arguments = ["import", bad, missing, tmp_path / "memory.db", "--quiet"]
    result = CliRunner().invoke(limbic, [str(a) for a in arguments])
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "nope.jsonl does not exist" in result.stderr
