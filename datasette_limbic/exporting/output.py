"""A file that appears under its name only once it is whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ..errors import BadParameter, CannotWrite, LimbicError


def check_output(path: str | Path, database: str | Path, *, force: bool = False) -> Path:
    """The file to write, links followed. Raises BadParameter where writing would destroy something.

    The database itself and what SQLite keeps beside it is refused always, another file that is
    there without ``force``: it could be the live file of a memory server.
    """
    target, source = Path(path).resolve(), Path(database).resolve()
    beside = {source.name + suffix for suffix in ("", "-wal", "-shm", "-journal")}
    same = target.exists() and source.exists() and target.samefile(source)
    if same or (target.parent == source.parent and target.name in beside):
        raise BadParameter(f"{path} belongs to the database itself: name another file to write")
    if target.is_dir():
        raise BadParameter(f"{path} is a directory: give the path of a file")
    if not target.parent.is_dir():
        raise BadParameter(f"the folder {target.parent} does not exist: create it first")
    if target.exists() and not target.is_file():
        raise BadParameter(f"{path} is no regular file: write to standard output (-) instead")
    if target.exists() and not force:
        raise BadParameter(
            f"{path} exists, and may be a file that a memory server uses: name another, or "
            "replace it with --force"
        )
    return target


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Write ``path`` as UTF-8 text with ``\\n``: beside it first, under its name when whole.

    Whatever fails, a file that stood there stays as it was. Raises CannotWrite.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            # a memory is private: no more rights than the file that is replaced, or than usual
            with partial.open("w", encoding="utf-8", newline="\n") as out:
                if path.exists():
                    shutil.copymode(path, partial)
                yield out
                out.flush()
                os.fsync(out.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error, LimbicError):
            raise
        raise CannotWrite(
            f"{path} cannot be written ({error.strerror or error}): free some room or name "
            "another file; what stood there is as it was"
        ) from error
