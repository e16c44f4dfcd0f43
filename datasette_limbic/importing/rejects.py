"""Where rejected lines go: a table for the first ones, a file for all of them."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from datasette.utils.sqlite import sqlite3

from ..errors import BadParameter
from .records import MAX_RECORD
from .summary import FileSummary

MAX_STORED = 10_000
MAX_RAW = 10_000
_BATCH = 500


_KEYS = {"file", "line", "reason", "raw"}


def check_rejects_path(path: Path, others: Iterable[Path]) -> Path:
    """The file to write, links followed. Raises BadParameter where it would destroy something.

    ``others`` are the files of the import; the database and what SQLite keeps beside it are
    among them by their names. A file that is there already is replaced only where it is empty
    or holds the rejects of an earlier import.
    """
    target = path.resolve()
    if not target.parent.is_dir():
        raise BadParameter(f"the folder {target.parent} does not exist: create it first")
    for other in others:
        same = target.exists() and other.exists() and target.samefile(other)
        beside = {other.name + suffix for suffix in ("", "-journal", "-wal", "-shm")}
        if same or (target.parent == other.resolve().parent and target.name in beside):
            raise BadParameter(
                f"{path} is one of the files of this import: name another for rejects"
            )
    if target.is_dir():
        raise BadParameter(f"{path} is a directory: give the path of a file for rejects")
    if target.exists() and not target.is_file():
        raise BadParameter(f"{path} is no regular file: give the path of a file for rejects")
    if target.exists() and not _holds_rejects(target):
        raise BadParameter(
            f"{path} exists and holds something else than rejects: name another, or remove it first"
        )
    return target


def _holds_rejects(path: Path) -> bool:
    """Whether a file is empty or begins as the ones that are written here."""
    try:
        with path.open("rb") as file:
            first = file.readline(MAX_RECORD)
        row = json.loads(first) if first else None
    except (OSError, ValueError, RecursionError):
        return False
    return row is None or (isinstance(row, dict) and row.keys() >= _KEYS)


class Rejects:
    """Collects rejects of one import.

    The table ``limbic_import_rejects`` holds the first 10,000 of each file, with long lines
    cut. The rejects file gets all, whole; it appears under its name only once the import has
    committed, so that a failed import leaves an older one alone.
    """

    def __init__(self, conn: sqlite3.Connection, path: Path | None) -> None:
        self.conn = conn
        self.path = path
        self.partial = path.with_name(f".{path.name}.{os.getpid()}") if path else None
        self.file: IO[str] | None = None
        self.stored: dict[int, int] = {}
        self.pending: list[tuple[int, int, str, str]] = []

    def __enter__(self) -> Rejects:
        if self.partial:
            with self._told():
                self.file = self.partial.open("w", encoding="utf-8", newline="\n")
        return self

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say in a sentence that the file cannot be written."""
        try:
            yield
        except OSError as error:
            raise BadParameter(
                f"{self.path} cannot be written ({error.strerror}), so nothing was imported: "
                "make room, or name another file for rejects"
            ) from error

    def add(self, import_id: int, file: FileSummary, line: int, reason: str, raw: str) -> None:
        """Keep one rejected record; counting it is up to the caller.

        Bytes that are no UTF-8 stand in ``raw`` as lone surrogates (``surrogateescape``).
        """
        shown = _readable(raw)
        if len(file.first_rejects) < 20:
            file.first_rejects.append({"line": line, "reason": reason, "raw": shown[:200]})
        if self.file:
            row = {"file": file.name, "line": line, "reason": reason, "raw": shown}
            if shown is not raw:
                row["raw_base64"] = base64.b64encode(_bytes_of(raw)).decode("ascii")
            with self._told():
                self.file.write(json.dumps(row, ensure_ascii=False) + "\n")
        stored = self.stored.get(import_id, 0)
        if stored < MAX_STORED:
            self.stored[import_id] = stored + 1
            self.pending.append((import_id, line, reason, shown[:MAX_RAW]))
            if len(self.pending) >= _BATCH:
                self.flush()

    def flush(self) -> None:
        """Write to the table what is pending."""
        self.conn.executemany(
            "insert into limbic_import_rejects(import_id, line, reason, raw) values (?, ?, ?, ?)",
            self.pending,
        )
        self.pending.clear()

    def finish(self) -> None:
        """Write the rest of the file; call before the commit, since there may be no room."""
        if self.file:
            with self._told():
                self.file.flush()
                os.fsync(self.file.fileno())
                self.file.close()

    def publish(self) -> None:
        """Give the rejects file its name; call after the commit."""
        if self.partial and self.path:
            self.partial.replace(self.path)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.file and self.partial:
            # what waits in its buffer may find no room: it is thrown away in any case
            with suppress(OSError):
                self.file.close()
            self.partial.unlink(missing_ok=True)


def _readable(raw: str) -> str:
    """``raw`` itself where it is text, else with U+FFFD for each byte that is none."""
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        return _bytes_of(raw).decode("utf-8", "replace")
    return raw


def _bytes_of(raw: str) -> bytes:
    try:
        return raw.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair, which stands for no byte
        return raw.encode("utf-8", "replace")
