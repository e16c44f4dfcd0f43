"""Reading another program's SQLite file in every state that it may be in, and leaving no trace."""

from __future__ import annotations

import importlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from mcp_v2_helpers import ddl, folder_state, of, read, reasons

from datasette_limbic import connection
from datasette_limbic.errors import DatabaseUnusable
from datasette_limbic.importing import sqlite_file
from datasette_limbic.importing.items import Entity, Relation
from datasette_limbic.importing.mcp_v2 import source, sqlite_source, tables
from datasette_limbic.importing.notes import Notes

# What stands in for the server: it runs the SQL of its standard input, and says when it is done.
SERVER = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
print("ready", flush=True)
for line in sys.stdin:
    for row in conn.execute(line):
        pass
    print("done", flush=True)
conn.close()
"""


class Server:
    """A second process that has the file open."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._wait()

    def run(self, *statements: str) -> None:
        assert self.process.stdin
        for statement in statements:
            self.process.stdin.write(statement + "\n")
            self.process.stdin.flush()
            self._wait()

    def _wait(self) -> None:
        assert self.process.stdout
        assert self.process.stdout.readline(), "the server stopped"

    def stop(self) -> None:
        """As on an orderly exit."""
        if self.process.poll() is None:
            self.process.communicate(timeout=20)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=20)


@pytest.fixture
def start() -> Iterator[Callable[[Path], Server]]:
    running: list[Server] = []

    def begin(path: Path) -> Server:
        running.append(Server(path))
        return running[-1]

    yield begin
    for server in running:
        if server.process.poll() is None:
            server.kill()


@pytest.fixture(params=["sqlite3", "pysqlite3"])
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Python's own SQLite and the newer one, which is used where it is installed."""
    module = pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    if request.param == "pysqlite3":
        module = importlib.import_module("pysqlite3.dbapi2")
    for user in (sqlite_file, source, tables):
        monkeypatch.setattr(user, "sqlite3", module)
    return module


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the file is; copies go elsewhere, and are gone in the end."""
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    place = tmp_path / "server"
    place.mkdir()
    yield place
    assert list(copies.iterdir()) == []


def make(path: Path, wal: bool = True) -> Path:
    """A file with one entity, closed."""
    conn = sqlite3.connect(path)
    conn.execute(f"pragma journal_mode={'wal' if wal else 'delete'}")
    conn.executescript(ddl() + "insert into entities(name) values ('first');")
    conn.close()
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    return path


def names(path: Path) -> list[str]:
    """The entities' names; the folder is as it was."""
    before = folder_state(path.parent)
    items, _, _ = read(path)
    assert folder_state(path.parent) == before
    return [entity.name for entity in of(items, Entity)]


ADD = "insert into entities(name) values ('second')"


def test_rows_that_a_running_server_just_wrote(
    folder: Path, start: Callable[[Path], Server], driver: ModuleType
) -> None:
    path = make(folder / "m.db")
    server = start(path)
    server.run(ADD)
    assert (folder / "m.db-wal").stat().st_size > 0
    assert names(path) == ["first", "second"]
    server.run("delete from entities where name = 'first'")
    assert names(path) == ["second"]
    server.stop()
    assert names(path) == ["second"]
    assert [p.name for p in folder.iterdir()] == ["m.db"]


def test_a_running_server_that_has_not_written(
    folder: Path, start: Callable[[Path], Server], driver: ModuleType
) -> None:
    path = make(folder / "m.db")
    start(path).run("select * from entities")
    assert (folder / "m.db-wal").stat().st_size == 0
    assert names(path) == ["first"]


@pytest.mark.parametrize("index", ["there", "gone"])
def test_rows_that_a_killed_server_left(
    folder: Path, start: Callable[[Path], Server], driver: ModuleType, index: str
) -> None:
    path = make(folder / "m.db")
    server = start(path)
    server.run(ADD)
    server.kill()
    if index == "gone":
        (folder / "m.db-shm").unlink()
    left = sorted(p.name for p in folder.iterdir())
    assert left == ["m.db", *["m.db-shm"] * (index == "there"), "m.db-wal"]
    assert names(path) == ["first", "second"]
    # and by way of a link from elsewhere
    link = folder.parent / "link.db"
    link.symlink_to(path)
    assert len(read(link)[0]) == 2
    assert sorted(p.name for p in folder.iterdir()) == left


def test_a_cleanly_closed_file_gets_nothing_beside_it(folder: Path, driver: ModuleType) -> None:
    path = make(folder / "m.db")
    assert names(path) == ["first"]
    generator = sqlite_source(path).items(Notes())
    next(generator)
    generator.close()  # given up half-way
    assert [p.name for p in folder.iterdir()] == ["m.db"]


def test_an_empty_wal_without_its_index_is_nothing(folder: Path, driver: ModuleType) -> None:
    path = make(folder / "m.db")
    (folder / "m.db-wal").touch()
    assert names(path) == ["first"]


def test_a_server_that_starts_meanwhile_is_remarked(
    folder: Path, start: Callable[[Path], Server], driver: ModuleType
) -> None:
    path = make(folder / "m.db")
    notes = Notes()
    items = sqlite_source(path).items(notes)
    found = [next(items)]
    server = start(path)
    server.run(ADD)
    found += items
    assert [item.row.name for item in found if isinstance(item.row, Entity)] == ["first"]
    assert notes.remarks == [
        "A program began to write to m.db while it was read: import it again for what is new."
    ]
    assert names(path) == ["first", "second"]


@pytest.mark.parametrize("broken", [False, True])
def test_a_file_that_changes_meanwhile_is_not_taken(
    folder: Path, start: Callable[[Path], Server], driver: ModuleType, broken: bool
) -> None:
    path = make(folder / "m.db")
    items = sqlite_source(path).items(Notes())
    next(items)
    server = start(path)
    server.run(ADD, "pragma wal_checkpoint(truncate)")
    server.stop()
    if broken:
        path.write_bytes(path.read_bytes()[:20000])
    with pytest.raises(DatabaseUnusable, match=r"m\.db was written to while it was read: run"):
        list(items)


@pytest.mark.parametrize("wal", [True, False])
def test_all_tables_are_of_one_moment(
    folder: Path, start: Callable[[Path], Server], driver: ModuleType, wal: bool
) -> None:
    path = make(folder / "m.db", wal)
    relation = "insert into relations(from_entity, to_entity, relation_type) values (1, 1, 'r')"
    server = start(path)
    server.run(relation, "pragma busy_timeout=100")
    items = sqlite_source(path).items(Notes())
    found = [next(items)]
    if wal:
        server.run("delete from relations", "delete from entities")
    else:
        # the server has to wait in this mode, which it never runs in
        server.run("select 1")
    found += items
    assert not reasons(found)
    assert len(of(found, Relation)) == 1
    assert len(read(path)[0]) == (0 if wal else 2)


def test_a_transaction_that_a_crash_cut_off_is_rolled_back(
    folder: Path, start: Callable[[Path], Server], driver: ModuleType
) -> None:
    path = make(folder / "m.db", wal=False)
    server = start(path)
    server.run(
        "pragma cache_size=1",
        "begin immediate",
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)"
        " insert into entities(name) select 'name ' || i from n",
    )
    server.kill()
    assert (folder / "m.db-journal").stat().st_size > 512
    assert names(path) == ["first"]
    assert sorted(p.name for p in folder.iterdir()) == ["m.db", "m.db-journal"]


def test_a_journal_that_is_kept_but_over_is_nothing(folder: Path, driver: ModuleType) -> None:
    path = make(folder / "m.db", wal=False)
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("pragma journal_mode=persist")
    conn.execute(ADD)
    conn.close()
    assert (folder / "m.db-journal").exists()
    assert names(path) == ["first", "second"]


@pytest.mark.parametrize("wal", [True, False])
def test_a_locked_file_is_waited_for(
    folder: Path,
    start: Callable[[Path], Server],
    driver: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    wal: bool,
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.5)
    path = make(folder / "m.db", wal=False)
    server = start(path)
    if wal:
        # the lock of a server that wants the file for itself, index of the -wal included
        server.run("pragma locking_mode=exclusive", "begin exclusive", ADD, "commit")
    else:
        server.run("begin exclusive", ADD)
    before = folder_state(folder)
    began = time.monotonic()
    with pytest.raises(DatabaseUnusable, match=r"m\.db is locked by another program"):
        sqlite_source(path)
    assert 0.3 < time.monotonic() - began < 5
    assert folder_state(folder) == before
    server.run("pragma locking_mode=normal", "select * from entities" if wal else "commit")
    assert names(path) == ["first", "second"]


def test_a_file_that_is_locked_between_sniffing_and_reading(
    folder: Path,
    start: Callable[[Path], Server],
    driver: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.2)
    found = sqlite_source(make(folder / "m.db", wal=False))
    start(found.path).run("begin exclusive")
    with pytest.raises(DatabaseUnusable, match="is locked"):
        list(found.items(Notes()))


def without_shm(folder: Path, start: Callable[[Path], Server]) -> Path:
    """What a killed server left, of which only the file and its -wal were kept."""
    path = make(folder / "m.db")
    server = start(path)
    server.run(ADD)
    server.kill()
    (folder / "m.db-shm").unlink()
    return path


def test_changes_that_cannot_be_copied_are_told(
    folder: Path,
    start: Callable[[Path], Server],
    driver: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = without_shm(folder, start)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sqlite_file.shutil, "copyfile", full)
    with pytest.raises(DatabaseUnusable, match=r"m\.db-wal, .*No space left.*: copy both files"):
        sqlite_source(path)


def test_a_file_that_changes_while_it_is_copied_is_copied_again(
    folder: Path,
    start: Callable[[Path], Server],
    driver: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = without_shm(folder, start)
    copy, times = sqlite_file.shutil.copyfile, []

    def slow(source: Path, target: Path) -> None:
        copy(source, target)
        times.append(source)
        if len(times) < until:
            os.utime(path, ns=(len(times), len(times)))

    monkeypatch.setattr(sqlite_file.shutil, "copyfile", slow)
    until = 3
    assert names(path) == ["first", "second"]
    until = 1000
    with pytest.raises(DatabaseUnusable, match="being written to by another program"):
        sqlite_source(path)


@pytest.mark.parametrize("name", ["a b#c?d%41.db", "ñandú 🌊.db"])
def test_paths_with_odd_characters(folder: Path, name: str, driver: ModuleType) -> None:
    assert names(make(folder / name)) == ["first"]


def test_a_file_that_is_gone(folder: Path, driver: ModuleType) -> None:
    with pytest.raises(DatabaseUnusable, match=r"m\.db cannot be opened"):
        sqlite_source(folder / "m.db")
    assert list(folder.iterdir()) == []


def without_rights(work: Callable[[], str]) -> str:
    """The outcome in a process that is not root, for root may do anything."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no rights of that kind")
    if os.geteuid() != 0:
        return work()
    into, out = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            said = work()
        except BaseException as error:
            said = repr(error)
        os.write(out, said.encode())
        os._exit(0)
    os.close(out)
    with os.fdopen(into) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


STATES = ["closed", "rollback", "running", "killed", "killed, no index"]


@pytest.mark.parametrize("state", STATES)
def test_a_folder_that_cannot_be_written(
    start: Callable[[Path], Server], driver: ModuleType, state: str
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = make(folder / "m.db", wal=state != "rollback")
        if state not in ("closed", "rollback"):
            server = start(path)
            server.run(ADD)
            if state != "running":
                server.kill()
            if state == "killed, no index":
                (folder / "m.db-shm").unlink()
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)
        try:
            said = without_rights(lambda: " ".join(names(path)))
        finally:
            folder.chmod(0o755)
    assert said == ("first" if state in ("closed", "rollback") else "first second")


@pytest.mark.parametrize("index", ["there", "gone"])
def test_a_wal_that_may_not_be_read_is_told(
    start: Callable[[Path], Server], driver: ModuleType, index: str
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = make(folder / "m.db")
        folder.chmod(0o755)
        server = start(path)
        server.run(ADD)
        server.kill()
        if index == "gone":
            (folder / "m.db-shm").unlink()
        (folder / "m.db-wal").chmod(0)

        def work() -> str:
            with pytest.raises(DatabaseUnusable) as raised:
                sqlite_source(path)
            return str(raised.value)

        said = without_rights(work)
    assert f"the newest rows of {path} are in m.db-wal, which cannot be read here" in said
    assert "copy both files into a folder that you may write to" in said
