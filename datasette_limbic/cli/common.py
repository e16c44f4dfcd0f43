"""What the commands share."""

from __future__ import annotations

import functools
import sqlite3 as stock_sqlite3
from collections.abc import Callable
from typing import Any

import click
from datasette.utils.sqlite import sqlite3

from .. import connection
from ..errors import LimbicError

# Two modules may be at work (pysqlite3 where it is installed), each with classes of its own.
_SQLITE_ERRORS = (sqlite3.DatabaseError, stock_sqlite3.DatabaseError)


def reports_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn our errors and those of SQLite into one sentence and exit code 1.

    What SQLite says in three words ("database is locked") becomes a sentence that names the
    file and what to do: the file is the command's argument ``database`` or ``path``.
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except LimbicError as error:
            raise click.ClickException(str(error)) from error
        except _SQLITE_ERRORS as error:
            path = kwargs.get("database") or kwargs.get("path") or "the database"
            raise click.ClickException(str(connection.unusable(path, error))) from error

    return wrapped
