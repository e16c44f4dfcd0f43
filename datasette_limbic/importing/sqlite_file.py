"""Reading a SQLite file of another program: its newest rows, without leaving a trace.

SQLite keeps changes beside the file. What is done depends on what stands there:

- a ``-wal`` with its ``-shm``: a program has the file open, or was killed. An ordinary read-only
  connection sees all of it and leaves both as they are.
- a ``-wal`` with rows and no ``-shm``, or a journal to roll back: reading in place would write
  beside the file, so a private copy is read.
- WAL mode and no ``-wal``: closed cleanly. An ordinary connection would make a ``-wal`` and a
  ``-shm`` and leave them; one that takes the file as immutable makes nothing, but has to look
  afterwards whether the file stayed as it was.
- else an ordinary read-only connection makes nothing.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from datasette.utils.sqlite import sqlite3

from .. import connection
from ..errors import DatabaseUnusable

# A few MB of pages; sorting beyond that goes to temporary files.
_PRAGMAS = ("cache_size=-4096", "temp_store=1", "mmap_size=0", "trusted_schema=0")
_ATTEMPTS = 3

Stamp = tuple[object, ...]


@contextmanager
def reading(path: Path, remarks: list[str] | None = None) -> Iterator[sqlite3.Connection]:
    """One read transaction over the newest rows of the file, which is never touched.

    Text that is no UTF-8 comes with lone surrogates, it does not raise. ``remarks`` gets a
    sentence where a program began to write beside the file meanwhile. Raises DatabaseUnusable
    for changes that cannot be read or that came in between, else SQLite's own errors.
    """
    # -wal and -journal stand beside the file itself, not beside a link to it
    path = path.resolve()
    before = _stamp(path)
    wal, journal = _size(path, "-wal"), _size(path, "-journal")
    shared = _beside(path, "-shm").exists()
    if wal is not None and shared:
        _check_readable(path, "-wal")
        with _open(path, "mode=ro") as conn:
            yield conn
    elif wal:
        with _copied(path, "-wal") as conn:
            yield conn
    elif wal is None and not _in_wal_mode(path):
        with _in_rollback_mode(path, bool(journal)) as conn:
            yield conn
    elif journal:
        with _copied(path, "-journal") as conn:
            yield conn
    else:
        try:
            with _open(path, "mode=ro&immutable=1") as conn:
                yield conn
        except sqlite3.Error as error:
            # rows that come out broken may come from this
            _check_unchanged(path, before, error)
            raise
        _check_unchanged(path, before)
        if remarks is not None and _size(path, "-wal"):
            remarks.append(
                f"A program began to write to {path.name} while it was read: import it again for "
                "what is new."
            )


def decode(data: bytes) -> str:
    """UTF-8, with a lone surrogate for each byte that is none."""
    return data.decode("utf-8", "surrogateescape")


@contextmanager
def _open(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    with closing(
        sqlite3.connect(
            f"{path.as_uri()}?{mode}",
            uri=True,
            timeout=connection.BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
    ) as conn:
        conn.text_factory = decode
        for pragma in _PRAGMAS:
            conn.execute(f"pragma {pragma}").close()
        conn.execute("begin")
        # the transaction begins, and the lock is asked for, with the first thing read
        conn.execute("select count(*) from sqlite_master").fetchone()
        yield conn


@contextmanager
def _in_rollback_mode(path: Path, journal: bool) -> Iterator[sqlite3.Connection]:
    with ExitStack() as stack:
        try:
            conn = stack.enter_context(_open(path, "mode=ro"))
        except sqlite3.OperationalError as error:
            # SQLite tells a journal that a crash left from one in use, and may not roll it back
            if not (journal and "readonly" in str(error)):
                raise
            conn = stack.enter_context(_copied(path, "-journal"))
        yield conn


@contextmanager
def _copied(path: Path, suffix: str) -> Iterator[sqlite3.Connection]:
    """A copy of the file and of the changes beside it, gone afterwards."""
    with tempfile.TemporaryDirectory(
        prefix="datasette-limbic-", ignore_cleanup_errors=True
    ) as folder:
        copy = Path(folder) / "copy.db"
        try:
            _copy(path, copy, suffix)
        except OSError as error:
            raise _cannot_read(path, suffix, error) from error
        # a journal is rolled back into the copy; the rows of a -wal are read beside it
        with _open(copy, "mode=rw" if suffix == "-journal" else "mode=ro") as conn:
            yield conn


def _copy(path: Path, copy: Path, suffix: str) -> None:
    for _ in range(_ATTEMPTS):
        before = _all_stamps(path)
        shutil.copyfile(path, copy)
        shutil.copyfile(_beside(path, suffix), _beside(copy, suffix))
        if _all_stamps(path) == before:
            return
    raise DatabaseUnusable(f"{path} is being written to by another program: run this again")


def _check_unchanged(path: Path, before: Stamp | None, cause: BaseException | None = None) -> None:
    if _stamp(path) != before:
        raise DatabaseUnusable(
            f"{path} was written to while it was read: run this again, nothing of it was taken"
        ) from cause


def _check_readable(path: Path, suffix: str) -> None:
    """Raise, with what to do, where the changes beside the file cannot be opened."""
    try:
        _beside(path, suffix).open("rb").close()
    except FileNotFoundError:
        return  # closed this moment, which SQLite will see too
    except OSError as error:
        raise _cannot_read(path, suffix, error) from error


def _cannot_read(path: Path, suffix: str, error: OSError) -> DatabaseUnusable:
    if isinstance(error, DatabaseUnusable):
        return error
    beside = _beside(path, suffix).name
    return DatabaseUnusable(
        f"the newest rows of {path} are in {beside}, which cannot be read here "
        f"({error.strerror or error}): copy both files into a folder that you may write to, "
        "and import the copy"
    )


def _in_wal_mode(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(20)[18:] == b"\x02\x02"
    except OSError as error:
        raise connection.unusable(path, error) from error


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _size(path: Path, suffix: str) -> int | None:
    try:
        return _beside(path, suffix).stat().st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _cannot_read(path, suffix, error) from error


def _stamp(path: Path) -> Stamp | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _all_stamps(path: Path) -> tuple[Stamp | None, ...]:
    # a program that opens the file makes the -shm first of all
    return tuple(_stamp(_beside(path, suffix)) for suffix in ("", "-wal", "-shm", "-journal"))
