"""Whether a visitor may change a memory: for pages that show buttons, and for what acts."""

from __future__ import annotations

import os
from typing import Any

from datasette.app import Datasette

from .. import compat, permissions


def unwritable(db: Any) -> str | None:
    """Why nothing can be written to a database, in a sentence; None where it can."""
    if not db.is_mutable:
        return "the database was opened as immutable"
    if db.path and not os.access(db.path, os.W_OK):
        return "the database file is read-only"
    return None


async def may_edit(datasette: Datasette, actor: dict[str, Any] | None, db: Any) -> bool:
    """Whether ``actor`` may change the memory, and it can be changed: who sees no button else."""
    return unwritable(db) is None and await compat.may(
        datasette, actor, permissions.EDIT, str(db.name)
    )
