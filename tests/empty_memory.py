"""A memory without rows: made once in a process, then copied."""

from __future__ import annotations

import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

from datasette_limbic import connection, schema


def empty_memory(path: Path) -> Path:
    """The file at ``path``, which must not be there yet, as ``datasette limbic init`` leaves it."""
    with path.open("xb") as file:
        file.write(_content())
    return path


@cache
def _content() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with closing(connection.connect(path, create=True)) as conn:
            schema.init(conn)
        return path.read_bytes()
