"""Restoring a full export into an empty memory: every row with its own id, as it was.

The rows go into the tables as they stand, without triggers: the caller drops these before, and
fills the indexes and makes the triggers again afterwards, all in one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from datasette.utils.sqlite import sqlite3

from ..errors import UnknownFormat
from ..exporting.envelope import read_envelope
from ..exporting.restorer import MAX_LINE, Restored, Restorer
from ..exporting.tables import RESTORED, present, quoted
from .records import Progress
from .rejects import Rejects
from .summary import FileSummary

__all__ = ["RESTORED", "Restored", "is_empty", "log_restore", "read_envelope", "restore"]


def is_empty(conn: sqlite3.Connection, ignore_imports: Iterable[int] = ()) -> bool:
    """Whether the memory holds nothing that an export would, but settings.

    Imports of these ids do not count: they are at work now.
    """
    ignored = json.dumps(list(ignore_imports))
    skip = {
        "limbic_imports": "id not in (select value from json_each(?))",
        "limbic_import_rejects": "import_id not in (select value from json_each(?))",
    }
    for table in present(conn, vectors=True):
        if table.name == "limbic_settings":
            continue
        more, args = (f" and {skip[table.name]}", [ignored]) if table.name in skip else ("", [])
        sql = f"select 1 from {quoted(table.name)} where {table.where}{more} limit 1"
        if conn.execute(sql, args).fetchone():
            return False
    return True


def log_restore(conn: sqlite3.Connection, source: str, started: str) -> int:
    """Note a restore in ``limbic_imports``; returns its id, for ``restore``.

    Below zero, since the ids above belong to the imports that the file holds.
    """
    (number,) = conn.execute(
        "select min(0, coalesce(min(id), 0)) - 1 from limbic_imports"
    ).fetchone()
    conn.execute(
        "insert into limbic_imports(id, source, format, counts, started_at, finished_at)"
        " values (?, ?, ?, '{}', ?, ?)",
        [number, source, RESTORED, started, started],
    )
    return int(number)


def restore(
    conn: sqlite3.Connection,
    path: Path,
    file: FileSummary,
    import_id: int,
    rejects: Rejects,
    progress: Progress | None = None,
) -> Restored:
    """Put the rows of the full export at ``path`` into the memory, which must be empty.

    Runs inside a transaction of the caller's, with our triggers dropped. ``import_id`` comes
    from ``log_restore``. A line that cannot be used is a reject and stops nothing. Raises
    UnknownFormat where the file is no full export, or one of a newer version.
    """
    if import_id >= 0:
        raise ValueError(f"import_id is {import_id}: use the one that log_restore gives")
    with path.open("rb") as handle:
        first = handle.readline(MAX_LINE).decode("utf-8", "replace")
    envelope = read_envelope(first)
    if envelope is None:
        raise UnknownFormat(
            f"{path} is no full export: its first line is not that of 'datasette limbic export "
            "--format full'"
        )
    restorer = Restorer(conn, envelope, file)
    with path.open("rb") as handle:
        restorer.read(handle, progress)
    restored = restorer.finish(path)
    # Only now: the file's own rejects had to come first, since their ids are theirs.
    for line, reason, raw in restorer.rejected():
        rejects.add(import_id, file, line, reason, raw)
    # the left side was counted where the file was read, the right one where it was stored
    graph = file.entities.created + file.observations.added + file.relations.created
    if file.lines - file.blank != graph + restored.lines + file.rejected:
        raise RuntimeError(f"lines do not add up: {file.as_dict()}, {restored}")
    return restored
