"""What the commands share."""

from __future__ import annotations

import functools
import os
import sqlite3 as stock_sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from datasette.utils import BadMetadataError, parse_metadata, resolve_env_secrets
from datasette.utils.sqlite import sqlite3

from .. import connection
from ..config import NAME, Settings
from ..errors import BadParameter, LimbicError
from .printing import printable

# Two modules may be at work (pysqlite3 where it is installed), each with classes of its own.
_SQLITE_ERRORS = (sqlite3.DatabaseError, stock_sqlite3.DatabaseError)


def reports_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn our errors and those of SQLite into one sentence and exit code 1.

    What SQLite says in three words ("database is locked") becomes a sentence that names the
    file and what to do: the file is the command's argument ``database`` or ``path``.
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        callback_tracebacks(False)
        try:
            return function(*args, **kwargs)
        except LimbicError as error:
            raise click.ClickException(printable(str(error))) from error
        except _SQLITE_ERRORS as error:
            path = kwargs.get("database") or kwargs.get("path") or "the database"
            raise click.ClickException(connection.unreadable(path, error)) from error
        finally:
            callback_tracebacks(True)

    return wrapped


def callback_tracebacks(shown: bool) -> None:
    """Whether SQLite's module prints a traceback where one of our SQL functions fails.

    Datasette switches that on for its log; on the command line the sentence is enough.
    """
    switch = getattr(sqlite3, "enable_callback_tracebacks", None)
    if switch is not None:
        switch(shown)


def takes_settings(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--config FILE`` and hand it the ``settings`` that stand there.

    The file is the one that Datasette is started with (``--metadata`` or ``--config``), so that
    the command line searches and embeds as the server does. As in Datasette, what is written
    under the database's own name replaces what is written for all.
    """

    @click.option(
        "-c",
        "--config",
        "config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The metadata.yml or datasette.yaml that Datasette is started with: the plugin's "
        "settings in it count here too.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, config: Path | None, **kwargs: Any) -> Any:
        database = Path(kwargs.get("database") or kwargs.get("path") or "").stem
        return function(*args, settings=read_settings(config, database), **kwargs)

    return wrapped


def read_settings(config: Path | None, database: str) -> Settings:
    """The plugin's settings in a file of Datasette's. Raises BadParameter, naming the file."""
    if config is None:
        return Settings()
    try:
        whole = parse_metadata(config.read_text("utf-8"))
    except (BadMetadataError, UnicodeDecodeError) as error:
        raise BadParameter(f"{config} is neither YAML nor JSON: {error}") from error

    def of(part: Any) -> Any:
        plugins = part.get("plugins") if isinstance(part, dict) else None
        return plugins.get(NAME) if isinstance(plugins, dict) else None

    databases = whole.get("databases") if isinstance(whole, dict) else None
    own = of(databases.get(database)) if isinstance(databases, dict) else None
    given = own if own is not None else of(whole)
    try:
        # {"$env": "NAME"} and {"$file": "PATH"}, as Datasette reads them
        given = resolve_env_secrets(given, os.environ)
    except (OSError, TypeError) as error:
        raise BadParameter(f"{config}: {error}") from error
    return Settings.from_mapping(given)
