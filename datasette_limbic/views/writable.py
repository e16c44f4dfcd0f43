"""Whether a visitor may change a memory, and writing: for pages with buttons, and for what acts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from datasette.app import Datasette
from datasette.utils.sqlite import sqlite3

from .. import compat, connection, lately, permissions
from ..errors import NotAllowed, NotRecorded, NotWritable
from ..i18n import gettext as _

if TYPE_CHECKING:
    from .common import Page

UNCHANGED = "nothing was changed"
T = TypeVar("T")


def unwritable(db: Any) -> str | None:
    """Why nothing can be written to a database, in a sentence; None where it can."""
    if not db.is_mutable:
        return _("the database was opened as immutable")
    if db.path and not os.access(db.path, os.W_OK):
        return _("the database file is read-only")
    return None


async def may_edit(datasette: Datasette, actor: dict[str, Any] | None, db: Any) -> bool:
    """Whether ``actor`` may change the memory, and it can be changed: who sees no button else."""
    return unwritable(db) is None and await compat.may(
        datasette, actor, permissions.EDIT, str(db.name)
    )


async def why_not(here: Page, permission: str = permissions.EDIT) -> str | None:
    """Why nothing can be written, in a sentence; None where it can. First who may not, so that
    nobody else learns how a file is opened."""
    if not await compat.may(here.datasette, here.request.actor, permission, here.db.name):
        return _("this needs the permission %(permission)s") % {"permission": permission}
    return unwritable(here.db)


async def require(here: Page, permission: str, doing: str, undone: str = UNCHANGED) -> None:
    """Raise NotAllowed ("``doing`` needs the permission …"), or NotWritable ("``undone``: …")."""
    if not await compat.may(here.datasette, here.request.actor, permission, here.db.name):
        raise NotAllowed(f"{doing} needs the permission {permission}")
    reason = unwritable(here.db)
    if reason:
        raise NotWritable(f"{undone}: {reason}")


async def written(
    here: Page, function: Callable[[sqlite3.Connection], T], undone: str = UNCHANGED
) -> T:
    """``function`` on the connection that writes. Raises NotRecorded where it cannot."""

    def write(conn: sqlite3.Connection) -> T:
        answer = function(conn)  # commits
        lately.forget(conn)  # who has just changed something wants to see it
        return answer

    try:
        return await compat.execute_write(here.db, write)
    except sqlite3.Error as error:
        raise unwritten(here, error, undone) from error


def unwritten(here: Page, error: sqlite3.Error, undone: str = UNCHANGED) -> NotRecorded:
    """Why nothing could be written, in a sentence."""
    why = connection.unwritten(here.db.name, error)
    again = ". Send it again" if connection.is_locked(error) else ""
    return NotRecorded(f"{undone}: {why}{again}")
