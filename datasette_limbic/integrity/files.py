"""Checking a file without leaving a trace of it, beside it or in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import connection
from ..errors import DatabaseUnusable
from ..importing.sqlite_file import reading
from . import Progress, Report, check, require

# Bytes 18 and 19 of the file: 2 where the journal is a WAL.
_WAL = b"\x02\x02"


def check_file(
    path: str | Path, *, settings: Any = None, progress: Progress | None = None
) -> Report:
    """``check`` on the file ``path``, opened read-only.

    Raises NotAMemory, or DatabaseUnusable with what to do.
    """
    path = Path(path)
    report = None
    # -wal and -shm stand beside the file itself, not beside a link to it
    real = path.resolve()
    if _is_wal_alone(real):
        # a reader would make a -shm and leave it: a private copy is read
        with reading(real) as conn:
            connection.prepare(conn, settings)
            require(conn, str(path))
            report = check(conn, settings=settings, progress=progress)
    elif _is_quiet_wal(real):
        before = _state(real)
        try:
            report = _check(_open_immutable(path, settings), path, settings, progress)
        except (sqlite3.DatabaseError, DatabaseUnusable):
            if _state(real) == before:
                raise
        if _state(real) != before:
            report = None  # somebody wrote meanwhile: what was seen may be half of it
    if report is None:
        report = _check(_open(path, settings), path, settings, progress)
    report.database = str(path)
    return report


def _check(
    conn: sqlite3.Connection, path: Path, settings: Any, progress: Progress | None
) -> Report:
    try:
        require(conn, str(path))
        return check(conn, settings=settings, progress=progress)
    finally:
        conn.close()


def _open(path: Path, settings: Any) -> sqlite3.Connection:
    try:
        # not recovered: a check changes nothing
        return connection.connect(path, readonly=True, recover=False, settings=settings)
    except DatabaseUnusable:
        if _journal(path).exists() and _journal(path).stat().st_size:
            # a reader cannot roll back what a program that died left half written
            raise DatabaseUnusable(
                f"a program stopped while it wrote to {path}, and reading alone cannot undo "
                f"that: run 'datasette limbic init {path}', which opens it for writing, and "
                "check again"
            ) from None
        raise


def _open_immutable(path: Path, settings: Any) -> sqlite3.Connection:
    """For a WAL file that nobody has open: a reader would leave a -wal and a -shm behind."""
    conn = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
    )
    try:
        conn.execute("select count(*) from sqlite_master").fetchone()
        connection.prepare(conn, settings)
    except sqlite3.DatabaseError as error:
        conn.close()
        raise connection.unusable(path, error) from error
    return conn


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


def _is_quiet_wal(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError:
        return False
    return head[18:20] == _WAL and not os.path.exists(f"{path}-wal")


def _is_wal_alone(path: Path) -> bool:
    beside = [os.path.exists(f"{path}{suffix}") for suffix in ("", "-wal", "-shm")]
    return beside == [True, True, False]


def _state(path: Path) -> tuple[int, int, bool]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, os.path.exists(f"{path}-wal")
