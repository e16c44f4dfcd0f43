"""Bringing what follows the vectors in step with them: the last step of a sync."""

from __future__ import annotations

from typing import Any

from datasette.utils.sqlite import sqlite3

from ..errors import VectorsUnavailable
from ..schema import COLLECTIONS
from . import approximate, builds, changes
from .building import Progress, keep_in_step


def follow(
    conn: sqlite3.Connection, *, settings: Any = None, progress: Progress | None = None
) -> list[str]:
    """Take over what changed. Returns a sentence for each thing that a person should know."""
    said = []
    before = builds.serving(conn)
    if before is not None:
        try:
            build = keep_in_step(conn, progress)
        except VectorsUnavailable as error:
            said.append(str(error))
            build = before
        if build is None:
            said.append("the approximate index is gone: there are too few vectors left")
        elif build.build != before.build:
            said.append(f"the approximate index was built anew: {build.vectors:,} vectors")
        if build is not None and (due := approximate.due(conn, build)):
            said.append(due)
    for collection in COLLECTIONS:
        changes.forget(conn, collection)
    return said
