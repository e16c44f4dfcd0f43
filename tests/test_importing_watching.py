"""Following files: only what is new is read, and in the end all of it is there, once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from importing_helpers import access, entity, new_memory, one, relation, write_lines

from datasette_limbic import connection
from datasette_limbic.errors import BadParameter, DatabaseUnusable, UnknownFormat
from datasette_limbic.importing import import_files
from datasette_limbic.importing.import_job import Options
from datasette_limbic.importing.summary import ImportSummary
from datasette_limbic.importing.watching import Watcher, increment, unresolved, watch, windows
from datasette_limbic.importing.watching.target import Target
from datasette_limbic.importing.writing import import_sources

# Longer than any test: a file stands still only where two looks find it the same.
LONG = 3600.0


class Follower:
    """A watcher whose rounds a test makes one by one."""

    def __init__(self, database: Any, *paths: Path, **options: Any) -> None:
        self.told: list[ImportSummary] = []
        self.said: list[str] = []
        self.target = Target(database, Options(**options), None)
        self.watcher = Watcher(self.target, paths, report=self.told.append, say=self.said.append)

    def round(self, count: int = 1, interval: float = LONG) -> list[ImportSummary]:
        before = len(self.told)
        for _ in range(count):
            self.watcher.round(interval)
        return self.told[before:]

    def lines(self, count: int = 1, interval: float = LONG) -> list[int]:
        """How many lines were read in each import that is reported."""
        return [told.files[0].lines for told in self.round(count, interval)]


def snapshot(database: Path) -> dict[str, Any]:
    """All that a memory says, without ids."""
    conn = connection.connect(database, readonly=True)
    try:
        return {
            name: Counter(map(tuple, conn.execute(sql)))
            for name, sql in {
                "entities": "select name, entity_type, archived_at, valid_from, valid_to"
                " from entities",
                "observations": "select e.name, o.content, o.valid_to from observations o"
                " join entities e on e.id = o.entity_id",
                "relations": "select f.name, t.name, r.relation_type, r.valid_to from relations r"
                " join entities f on f.id = r.from_entity join entities t on t.id = r.to_entity",
                "log": "select entity_name, query, accessed_at from entity_access_log",
                "pairs": "select a.name, b.name, co_count from co_occurrences"
                " join entities a on a.id = entity_a_id join entities b on b.id = entity_b_id"
                " where a.name < b.name union all select b.name, a.name, co_count"
                " from co_occurrences join entities a on a.id = entity_a_id"
                " join entities b on b.id = entity_b_id where a.name > b.name",
            }.items()
        }
    finally:
        conn.close()


def ordinary(folder: Path, source: Path) -> dict[str, Any]:
    """What an ordinary import of the file makes of it."""
    target = folder / "ordinary.db"
    target.unlink(missing_ok=True)
    import_files(target, [source])
    return snapshot(target)


def append(path: Path, *rows: Any, end: str = "\n") -> None:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    with path.open("ab") as file:
        file.write("\n".join(lines).encode() + end.encode())


def rename_over(path: Path, *rows: Any, end: str = "") -> None:
    """As the official server writes: temporary file, rename, no line end at the end."""
    temporary = path.with_name("temporary")
    write_lines(temporary, *rows)
    temporary.write_bytes(temporary.read_bytes().rstrip(b"\n") + end.encode())
    temporary.replace(path)


@pytest.fixture
def db(empty_db: Path) -> Path:
    return empty_db


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "in.jsonl", entity("A", "x"), entity("B"), relation("A", "B"))


# a file that grows ------------------------------------------------------------------------------


def test_only_new_lines_are_read(tmp_path: Path, source: Path) -> None:
    target = tmp_path / "new.db"
    follower = Follower(target, source)
    assert follower.lines(3) == [3]
    append(source, entity("A", "y"), "", "broken", relation("A", "C"), entity("C"))
    (told,) = follower.round()
    file = told.files[0]
    assert (file.lines, file.blank, file.rejected, file.relations.created) == (5, 1, 1, 1)
    assert file.entities.gone == file.relations.gone == 0
    conn = connection.connect(target)
    rejects = "select line, raw from limbic_import_rejects"
    assert one(conn, rejects) == (6, "broken")
    assert one(conn, "select count(*) from limbic_imports") == 2
    conn.close()
    assert follower.lines(3) == []
    assert snapshot(target) == ordinary(tmp_path, source)


def test_earlier_lines_still_hold(tmp_path: Path, db: Path, source: Path) -> None:
    append(source, entity("Old", archivedAt="2025-01-01", validFrom="2024-01-01"))
    follower = Follower(db, source)
    follower.round()
    append(source, entity("A", "z", entityType="Other"), {"name": "Old", "observations": ["more"]})
    (told,) = follower.round()
    assert told.files[0].lines == 2
    assert told.files[0].type_conflict_count + len(told.files[0].notes.remarks) == 1
    assert snapshot(db) == ordinary(tmp_path, source)


def test_what_was_changed_here_stays_so(db: Path, source: Path) -> None:
    follower = Follower(db, source)
    follower.round()
    conn = connection.connect(db)
    conn.execute("update entities set name = 'Renamed', entity_type = 'Mine' where name = 'A'")
    conn.execute("delete from observations")
    conn.execute("delete from entities where name = 'B'")
    conn.commit()
    append(source, entity("A", "x", "new"), entity("B", "back"), entity("D"), relation("A", "D"))
    follower.round()
    rename_over(source, entity("A", "x", "new"), entity("B", "back"), entity("D"))
    follower.round(3)
    assert {row[0] for row in conn.execute("select name from entities")} == {"Renamed", "D"}
    assert one(conn, "select entity_type from entities where name = 'Renamed'") == "Mine"
    assert [row[0] for row in conn.execute("select content from observations")] == ["new"]
    assert one(conn, "select count(*) from relations") == 1
    conn.close()


def test_a_relation_that_ends_and_begins(tmp_path: Path, db: Path, source: Path) -> None:
    follower = Follower(db, source)
    follower.round()
    append(source, relation("A", "B", validTo="2026-01-01"))
    follower.round(2)
    assert snapshot(db) == ordinary(tmp_path, source)
    Follower(db, source).round()  # started again: the file is read whole
    assert snapshot(db) == ordinary(tmp_path, source)


def test_a_last_line_without_an_end(tmp_path: Path, db: Path, source: Path) -> None:
    follower = Follower(db, source)
    follower.round()
    row = json.dumps(entity("Ñandú", "é", "u"), ensure_ascii=False).encode()
    cut = row.index("é".encode()) + 1
    for piece in (row[:9], row[9:cut], row[cut:-1]):
        with source.open("ab") as file:
            file.write(piece)
        assert follower.round(3) == []
        assert "line 4 of" in str(follower.watcher.finish().left)
    append(source, "}", end="")
    assert follower.lines() == []  # it may still grow
    assert follower.lines() == [1]
    assert follower.watcher.finish().left == []
    append(source, "", "broken")
    (told,) = follower.round()
    assert (told.files[0].lines, told.files[0].first_rejects[0]["line"]) == (1, 5)
    append(source, entity("E"), end="")
    assert follower.lines(2) == [1]
    append(source, entity("Glued"), end="\r\n")
    (told,) = follower.round()
    assert (told.files[0].lines, told.files[0].glued, told.files[0].entities.created) == (1, 1, 1)
    append(source, "broken too")
    assert follower.round()[0].files[0].first_rejects[0]["line"] == 7
    assert snapshot(db) == ordinary(tmp_path, source)


def test_a_last_line_that_cannot_be_used_waits(db: Path, source: Path) -> None:
    append(source, '{"type": "entity", "name": "cut off', end="")
    os.utime(source, (1, 1))
    follower = Follower(db, source)
    assert follower.lines(3) == [3]
    assert one_of(db, "select count(*) from limbic_import_rejects") == 0
    assert follower.watcher.finish().left == [
        f"line 4 of {source} has no end yet and was not taken"
    ]


def test_an_old_file_is_taken_to_its_last_byte(db: Path, source: Path) -> None:
    append(source, entity("Last"), end="")
    os.utime(source, (1, 1))
    assert Follower(db, source).lines() == [4]


def test_bytes_of_all_kinds(tmp_path: Path, db: Path) -> None:
    source = tmp_path / "odd.jsonl"
    source.write_bytes(b"\xef\xbb\xbf" + json.dumps(entity("A")).encode() + b"\r\n\r\n")
    follower = Follower(db, source)
    follower.round()
    with source.open("ab") as file:
        file.write(b'{"type":"entity","name":"\xff"}\r\n')
        file.write(
            '{"name":"U\u2028","observations":["\u0085"]}{"name":"G","entityType":"T"},\n'.encode()
        )
    (told,) = follower.round()
    assert (told.files[0].lines, told.files[0].rejected, told.files[0].glued) == (2, 1, 1)
    assert "not UTF-8" in told.files[0].first_rejects[0]["reason"]
    assert snapshot(db) == ordinary(tmp_path, source)


def test_a_line_that_is_too_long(
    tmp_path: Path, db: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasette_limbic.importing import reading
    from datasette_limbic.importing.watching import followed

    for module in (followed, reading):
        monkeypatch.setattr(module, "MAX_RECORD", 1000)
    follower = Follower(db, source)
    follower.round()
    append(source, entity("Long", "x" * 2000), end="")
    assert follower.round(3) == []
    append(source, "", entity("C"))
    (told,) = follower.round()
    assert (told.files[0].lines, told.files[0].rejected, told.files[0].entities.created) == (
        2,
        1,
        1,
    )


def test_bad_lines_alone_are_told_and_not_stored(db: Path, source: Path) -> None:
    follower = Follower(db, source)
    follower.round()
    before = db.read_bytes()
    append(source, "broken")
    assert [told.files[0].rejected for told in follower.round(3)] == [1]
    append(source, entity("A", "x"))
    assert follower.round(3) == []
    assert db.read_bytes() == before
    assert follower.watcher.finish().figures["rejected"] == 1


# written anew -----------------------------------------------------------------------------------


def test_rewritten_by_rename(db: Path, source: Path) -> None:
    follower = Follower(db, source)
    follower.round()
    rename_over(source, entity("A", "x", "y"), entity("B"), entity("C"), relation("A", "C"))
    assert follower.lines(3) == [3, 1]
    rename_over(source, entity("A", "x", "y"), entity("C"), relation("A", "C"))
    assert follower.lines(3) == []  # what is gone from the file stays
    assert one_of(db, "select count(*) from entities") == 3


@pytest.mark.parametrize("more", [0, 400])
def test_written_anew_in_place(db: Path, source: Path, more: int) -> None:
    follower = Follower(db, source)
    follower.round(2)
    data = source.read_bytes().replace(b'"A"', b'"Z"') + b" " * more + b"\n" * (more > 0)
    with source.open("r+b") as file:
        file.truncate()
        file.write(data)
    os.utime(source, (time.time() + 1, time.time() + 1))
    follower.round(3)
    assert one_of(db, "select count(*) from entities where name = 'Z'") == 1


def test_changed_in_its_middle(tmp_path: Path, db: Path) -> None:
    rows = [entity(f"E{i:03}", "x" * 50) for i in range(200)]
    source = write_lines(tmp_path / "in.jsonl", *rows)
    follower = Follower(db, source)
    follower.round(2)
    with source.open("r+b") as file:
        file.seek(source.read_bytes().index(b"E100"))
        file.write(b"F100")
    os.utime(source, (time.time() + 1, time.time() + 1))
    assert follower.lines() == []  # about to grow, maybe
    assert follower.lines() == [200]
    assert one_of(db, "select count(*) from entities") == 201


def test_shorter_and_deleted_and_there_again(tmp_path: Path, db: Path, source: Path) -> None:
    follower = Follower(db, source)
    follower.round()
    write_lines(source, entity("C"))
    assert follower.lines() == [1]
    source.write_bytes(b"")
    assert follower.round(2) == []
    source.unlink()
    follower.round(3)
    assert follower.said == [f"{source} is not there: waiting for it"]
    write_lines(source, entity("D"))
    assert follower.lines() == [1]
    source.unlink()
    follower.round(2)
    assert len(follower.said) == 2


def test_waits_for_a_file(tmp_path: Path, source: Path) -> None:
    late, target = tmp_path / "late.jsonl", tmp_path / "new.db"
    follower = Follower(target, late, source, source.parent / "." / source.name)
    assert follower.lines(2) == [3]
    late.touch()
    follower.round(2)
    late.write_text("\n \n")
    follower.round(2)
    assert follower.said == [f"{late} is not there: waiting for it"]
    append(late, relation("A", "L"), entity("L"))
    assert follower.round()[0].files[0].relations.created == 1


def test_unreadable_for_a_moment(db: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datasette_limbic.importing.watching import followed

    follower = Follower(db, source)
    follower.round()
    append(source, entity("C"))

    def refuse(path: Path) -> Any:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(followed, "open_raw", refuse)
        assert follower.round(3) == []
    assert follower.said == [f"{source} cannot be read (Permission denied): trying again"]
    assert follower.lines() == [1]


@pytest.mark.parametrize("change", ["rename", "truncate", "overwrite", "append", "delete"])
def test_changed_while_it_is_read(
    tmp_path: Path, db: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    first = [entity(f"E{i}", "x" * 200) for i in range(2000)]
    second = [entity(f"E{i}", "x" * 200) for i in range(1000)]
    source = write_lines(tmp_path / "in.jsonl", *first)
    read_lines = increment.read_lines
    done = False

    def disturbed(*arguments: Any) -> Iterator[Any]:
        nonlocal done
        for number, record in enumerate(read_lines(*arguments)):
            if number == 300 and not done:
                done = True
                if change == "rename":
                    rename_over(source, *second, entity("new"))
                elif change == "truncate":
                    write_lines(source, *second)
                elif change == "overwrite":
                    write_lines(source, entity("new"), *first, entity("more"))
                elif change == "append":
                    append(source, entity("new"), '{"type"', end="")
                else:
                    source.unlink()
            yield record

    monkeypatch.setattr(increment, "read_lines", disturbed)
    follower = Follower(db, source)
    follower.round()
    assert done
    follower.round(3)
    if change == "delete":
        assert one_of(db, "select count(*) from entities") == 2000
        return
    if change == "rename":
        assert one_of(db, "select count(*) from entities") == 2001
        return
    assert snapshot(db) == ordinary(tmp_path, source)
    assert one_of(db, "select count(*) from limbic_import_rejects") == 0


# names that come later --------------------------------------------------------------------------


def test_a_relation_before_its_entity(tmp_path: Path, db: Path, source: Path) -> None:
    follower = Follower(db, source)
    append(
        source,
        relation("A", "Later"),
        relation("Never", "A"),
        access("q", 1764410400, "A", "Later"),
    )
    follower.round()
    append(source, relation("Later", "Latest"))
    assert follower.round()[0].files[0].relations.dangling == 1
    append(source, entity("Later"))
    first, second = follower.round()
    assert (first.files[0].lines, second.files[0].lines) == (1, 3)
    assert second.files[0].relations.created == 1
    assert follower.round(2) == []
    append(source, entity("Latest"))
    assert [told.files[0].lines for told in follower.round()] == [1, 1]
    assert snapshot(db) == ordinary(tmp_path, source)
    assert follower.watcher.finish().figures["rejected"] == 1
    # the one that stays costs nothing: no name of its has come
    append(source, entity("Other"))
    assert follower.lines() == [1]


def test_an_entity_of_another_file(tmp_path: Path, db: Path, source: Path) -> None:
    other = write_lines(tmp_path / "other.jsonl", entity("O"), relation("O", "C"))
    follower = Follower(db, source, other)
    follower.round()
    append(source, entity("C"))
    follower.round()
    assert one_of(db, "select count(*) from relations") == 2


def test_too_many_lines_that_wait(db: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unresolved, "MAX_WAITING", 3)
    append(source, *(relation("A", f"L{i}") for i in range(10)))
    follower = Follower(db, source)
    follower.round()
    append(source, entity("L3"))
    follower.round(2)
    assert one_of(db, "select count(*) from relations") == 2


def test_create_missing(db: Path, source: Path) -> None:
    follower = Follower(db, source, create_missing=True)
    append(source, relation("A", "Stub"))
    follower.round()
    append(source, entity("Stub", "described"))
    follower.round()
    assert one_of(db, "select entity_type from entities where name = 'Stub'") == "T"


# the database -----------------------------------------------------------------------------------


def one_of(database: Path, sql: str) -> Any:
    conn = connection.connect(database, readonly=True)
    try:
        return one(conn, sql)
    finally:
        conn.close()


def test_idle_rounds_write_nothing(db: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(db, source)
    follower.round()
    os.utime(source, (1, 1))
    follower.round(3)
    before = db.read_bytes()
    monkeypatch.setattr(windows, "bytes_at", pytest.fail)
    monkeypatch.setattr(connection, "connect", pytest.fail)
    assert follower.round(5) == []
    assert db.read_bytes() == before


def test_a_locked_database(db: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.01)
    monkeypatch.setattr("datasette_limbic.importing.watching.target._PATIENCE_MS", 1)
    writer = connection.connect(db)
    writer.execute("begin immediate")
    follower = Follower(db, source)
    assert follower.round(2) == []
    writer.rollback()
    assert follower.lines() == [3]
    append(source, entity("C"), relation("A", "Later"))
    writer.execute("begin exclusive")
    assert follower.round(2) == []
    writer.rollback()
    assert follower.lines() == [2]
    said = f"{db} is locked by another program: trying again until it is free"
    assert follower.said == [said, said]
    writer.close()


def test_a_database_that_is_gone(tmp_path: Path, db: Path, source: Path) -> None:
    follower = Follower(db, source)
    follower.round()
    shutil.copy(db, tmp_path / "copy")
    (tmp_path / "copy").replace(db)
    with pytest.raises(DatabaseUnusable, match="was replaced by another file"):
        follower.round()
    db.unlink()
    with pytest.raises(DatabaseUnusable, match="was deleted while"):
        follower.round()
    assert not db.exists()


@pytest.mark.parametrize("moment", ["before connecting", "after connecting"])
@pytest.mark.parametrize("what", ["deleted", "replaced by another file"])
def test_a_database_that_goes_in_the_middle_of_a_round(
    tmp_path: Path,
    db: Path,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    what: str,
) -> None:
    follower = Follower(db, source)
    follower.round()
    connect = connection.connect

    def go() -> None:
        db.unlink()
        if what != "deleted":
            db.write_bytes(b"no database at all" * 100)

    def going(*arguments: Any, **more: Any) -> sqlite3.Connection:
        if moment == "before connecting":
            go()
            return connect(*arguments, **more)
        conn = connect(*arguments, **more)
        conn.execute("pragma query_only = 1")  # so that its next writing fails
        go()
        return conn

    monkeypatch.setattr(connection, "connect", going)
    append(source, entity("C"))
    with pytest.raises(DatabaseUnusable, match=f"{db} was {what} while files were followed"):
        follower.round()


def test_a_database_that_goes_right_after_the_first_import(
    db: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def import_and_go(*arguments: Any) -> ImportSummary:
        summary = import_sources(*arguments)
        db.unlink()
        return summary

    monkeypatch.setattr("datasette_limbic.importing.watching.target.import_sources", import_and_go)
    with pytest.raises(DatabaseUnusable, match=f"{db} was deleted while files were followed"):
        Follower(db, source).round()


def test_a_full_disk(db: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(db, source)
    follower.round()
    before = snapshot(db)
    connect = connection.connect

    def full(*arguments: Any, **more: Any) -> sqlite3.Connection:
        conn = connect(*arguments, **more)
        conn.execute("pragma max_page_count = 1")  # it becomes the size that there is
        return conn

    monkeypatch.setattr(connection, "connect", full)
    append(source, *(entity(f"E{i}", "x" * 2000) for i in range(500)))
    with pytest.raises(DatabaseUnusable, match=f"no room left for {db}"):
        follower.round()
    monkeypatch.setattr(connection, "connect", connect)
    assert snapshot(db) == before


def test_a_connection_of_the_callers(tmp_path: Path, source: Path) -> None:
    conn = new_memory(tmp_path / "own.db")
    follower = Follower(conn, source)
    follower.round()
    append(source, entity("C"))
    assert follower.lines() == [1]
    conn.execute("begin")
    conn.rollback()
    assert one(conn, "select count(*) from entities") == 3
    conn.close()


# what cannot be followed ------------------------------------------------------------------------


def test_other_formats_are_refused(tmp_path: Path, db: Path, source: Path) -> None:
    document = tmp_path / "list.json"
    document.write_text(json.dumps([entity("A")]))
    with pytest.raises(
        BadParameter, match="is in the format JSON document, and only JSON Lines can be"
    ):
        Follower(db, source, document).round()
    with pytest.raises(UnknownFormat, match="is a directory"):
        Follower(db, tmp_path).round()
    with pytest.raises(UnknownFormat, match="holds no entity and no relation"):
        Follower(db, write_lines(tmp_path / "x", {"a": 1})).round()
    with pytest.raises(BadParameter, match="no file"):
        Follower(db)
    with pytest.raises(BadParameter, match="interval"):
        watch(db, [source], interval=0)


def test_another_format_later_is_waited_out(tmp_path: Path, db: Path, source: Path) -> None:
    follower = Follower(db, source)
    follower.round()
    source.write_text(json.dumps([entity("A")]))
    follower.round(3)
    assert len(follower.said) == 1
    write_lines(source, entity("C"))
    assert follower.lines() == [1]


# cost -------------------------------------------------------------------------------------------


def test_a_round_costs_what_is_new(
    tmp_path: Path, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "big.jsonl"
    line = json.dumps(entity("A", "x" * 5_000_000)).encode() + b"\n"
    source.write_bytes(line * 10)
    follower = Follower(db, source)
    follower.round()
    read = 0

    class Counting(windows.io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            nonlocal read
            data = super().read(size)
            read += len(data or b"")
            return data  # type: ignore[return-value]

        def readinto(self, buffer: Any, /) -> int:
            nonlocal read
            count = super().readinto(buffer)
            read += count or 0
            return count  # type: ignore[return-value]

    monkeypatch.setattr(
        "datasette_limbic.importing.watching.followed.open_raw", lambda path: Counting(path, "rb")
    )
    for number in range(5):
        append(source, entity(f"E{number}", "new"), relation(f"E{number}", "Nobody"))
        follower.round(2)
    assert one_of(db, "select count(*) from entities") == 6
    assert read < 500_000 < source.stat().st_size / 100


def test_a_long_line_in_small_pieces(
    db: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(db, source)
    follower.round()
    lengths: list[int] = []
    bytes_at = windows.bytes_at

    def counting(file: Any, start: int, length: int) -> bytes:
        lengths.append(length)
        return bytes_at(file, start, length)

    for module in ("windows", "followed"):
        monkeypatch.setattr(f"datasette_limbic.importing.watching.{module}.bytes_at", counting)
    append(source, '{"type":"entity","name":"Long","observations":["', end="")
    for _ in range(20):
        append(source, "x" * 100_000, end="")
        follower.round()
    assert sum(lengths) < 3_000_000  # not again and again all that is there
    append(source, '"]}')
    assert follower.lines() == [1]


# a second process that writes -------------------------------------------------------------------

WRITER = """
import json, os, sys, time
path, mode = sys.argv[1:]
rows = [{"type": "entity", "name": f"Ñ{i}", "entityType": "T", "observations": [f"é{i} 日本", "y"]}
        for i in range(30)]
rows += [{"type": "relation", "from": f"Ñ{i}", "to": f"Ñ{(i * 7) % 30}", "relationType": "uses"}
         for i in range(30)]
rows.insert(0, rows.pop())
lines = [json.dumps(row, ensure_ascii=False).encode() for row in rows]
def pieces(data, size):
    with open(path, "ab", buffering=0) as file:
        for at in range(0, len(data), size):
            file.write(data[at:at + size])
            time.sleep(0.002)
if mode == "append":
    pieces(b"\\n".join(lines) + b"\\n", 37)
elif mode == "rename":
    for count in range(1, len(lines) + 1, 6):
        with open(path + ".new", "wb") as file:
            file.write(b"\\n".join(lines[:count]))
        os.replace(path + ".new", path)
        time.sleep(0.02)
    with open(path + ".new", "wb") as file:
        file.write(b"\\n".join(lines))
    os.replace(path + ".new", path)
elif mode == "truncate":
    for count in (5, 30, 20, 60):
        with open(path, "wb", buffering=0) as file:
            for at in range(count):
                file.write(lines[at][:11])
                file.write(lines[at][11:] + b"\\n")
                time.sleep(0.001)
elif mode == "recreate":
    for count in (10, 40, 60):
        if os.path.exists(path):
            os.unlink(path)
        time.sleep(0.02)
        pieces(b"\\n".join(lines[:count]) + b"\\n", 200)
"""


@pytest.mark.parametrize("mode", ["append", "rename", "truncate", "recreate"])
def test_a_process_that_writes(tmp_path: Path, db: Path, mode: str) -> None:
    source, stop, said = tmp_path / "in.jsonl", threading.Event(), []
    result: list[Any] = []

    def follow() -> None:
        result.append(watch(db, [source], interval=0.01, stop=stop, say=said.append))

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        subprocess.run([sys.executable, "-c", WRITER, str(source), mode], check=True, timeout=20)
        expected = ordinary(tmp_path, source)
        end = time.monotonic() + 8
        while snapshot(db) != expected and time.monotonic() < end:
            time.sleep(0.02)
    finally:
        stop.set()
        thread.join(10)
    assert snapshot(db) == expected
    assert one_of(db, "select count(*) from limbic_import_rejects where reason like 'not %'") == 0
    assert result[0].left == []


def test_stop_ends_the_wait_at_once(db: Path, source: Path) -> None:
    stop = threading.Event()
    begun = time.monotonic()
    watch(db, [source], interval=60, stop=stop, report=lambda summary: stop.set())
    assert time.monotonic() - begun < 10


def test_stop_undoes_a_long_round(tmp_path: Path, db: Path) -> None:
    source = write_lines(tmp_path / "long.jsonl", *(entity(f"E{i}") for i in range(1000)))
    target = Target(db, Options(), None)
    Watcher(target, [source], stopping=lambda: True).round(1)
    assert one_of(db, "select count(*) from entities") == 0


# any sequence -----------------------------------------------------------------------------------

GLUED = '{"type":"entity","name":"G"}{"name":"H","entityType":"T"}'
NAMES = st.sampled_from(["A", "B", "é", "日"])
ROWS = st.one_of(
    st.builds(
        lambda name, kind, texts: {"type": "entity", "name": name, **kind, "observations": texts},
        NAMES,
        st.sampled_from([{"entityType": "T"}, {"entityType": "U"}, {}, {"validTo": "2025-01-01"}]),
        st.lists(st.sampled_from(["x", "ñ", "z"]), max_size=3),
    ),
    st.builds(
        lambda a, b, more: relation(a, b, **more),
        NAMES,
        NAMES,
        st.sampled_from([{}, {}, {"validTo": "2025-01-01"}]),
    ),
    st.builds(lambda a, b: access("q", 1764410400, a, b), NAMES, NAMES),
    st.sampled_from(["", "broken", GLUED]),
)
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(ROWS, min_size=1, max_size=3), st.floats(0, 1)),
    st.tuples(st.just("rename"), st.lists(ROWS, max_size=4), st.booleans()),
    st.tuples(st.just("in place"), st.lists(ROWS, max_size=4), st.booleans()),
    st.tuples(st.just("round"), st.integers(4, 5), st.none()),
)


def encoded(rows: list[Any]) -> bytes:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    return "\n".join(lines).encode()


def without_unfinished(data: bytes) -> bytes:
    lines, end, last = data.rpartition(b"\n")
    try:
        if last != GLUED.encode():
            json.loads(last)
    except ValueError:
        return lines + end
    return data


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(STEPS, max_size=10))
def test_any_sequence_ends_as_ordinary_imports(empty_db: Path, steps: list[Any]) -> None:
    """An ordinary import at each point where the follower looks is the measure."""
    with tempfile.TemporaryDirectory() as name:
        source, ordinary_source = Path(name) / "in.jsonl", Path(name) / "ordinary.jsonl"
        followed, measure = (Path(shutil.copy(empty_db, Path(name) / n)) for n in ("f.db", "m.db"))
        source.write_bytes(encoded([entity("A", "first")]) + b"\n")
        follower = Follower(followed, source)
        rest = b""
        for what, rows, more in [("round", 1, None), *steps, ("append", [], 1), ("round", 4, None)]:
            if what == "append":
                data = rest + encoded(rows) + b"\n"
                cut = round(len(data) * more)
                with source.open("ab") as file:
                    file.write(data[:cut])
                rest = data[cut:]
            elif what == "round":
                follower.round(rows)
                ordinary_source.write_bytes(without_unfinished(source.read_bytes()))
                import_files(measure, [ordinary_source])
            else:
                data = encoded([entity("A", "first"), *rows])
                rest = b"" if more else b"\n"
                target = source.with_name("new") if what == "rename" else source
                target.write_bytes(data + b"\n" * more)
                target.replace(source)
        assert snapshot(followed) == snapshot(measure)
