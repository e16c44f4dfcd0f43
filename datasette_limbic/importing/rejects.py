"""Where rejected lines go: a table for the first ones, a file for all of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import IO

from datasette.utils.sqlite import sqlite3

from ..errors import BadParameter
from .summary import FileSummary

MAX_STORED = 10_000
MAX_RAW = 10_000
_BATCH = 500


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
            try:
                self.file = self.partial.open("w", encoding="utf-8", newline="\n")
            except OSError as error:
                raise BadParameter(
                    f"{self.path} cannot be written ({error.strerror}): name another for rejects"
                ) from error
        return self

    def add(self, import_id: int, file: FileSummary, line: int, reason: str, raw: str) -> None:
        """Keep one rejected record; counting it is up to the caller."""
        if len(file.first_rejects) < 20:
            file.first_rejects.append({"line": line, "reason": reason, "raw": raw[:200]})
        if self.file:
            row = {"file": file.name, "line": line, "reason": reason, "raw": raw}
            self.file.write(json.dumps(row, ensure_ascii=False) + "\n")
        stored = self.stored.get(import_id, 0)
        if stored < MAX_STORED:
            self.stored[import_id] = stored + 1
            self.pending.append((import_id, line, reason, raw[:MAX_RAW]))
            if len(self.pending) >= _BATCH:
                self.flush()

    def flush(self) -> None:
        """Write to the table what is pending."""
        self.conn.executemany(
            "insert into limbic_import_rejects(import_id, line, reason, raw) values (?, ?, ?, ?)",
            self.pending,
        )
        self.pending.clear()

    def publish(self) -> None:
        """Give the rejects file its name; call after the commit."""
        if self.file and self.partial and self.path:
            self.file.close()
            self.partial.replace(self.path)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.file and self.partial:
            self.file.close()
            self.partial.unlink(missing_ok=True)
