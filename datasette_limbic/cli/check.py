"""``datasette limbic check``: whether a memory is whole."""

from __future__ import annotations

import json
import sqlite3 as stock_sqlite3
import sys
from typing import Any

import click
from datasette.utils.sqlite import sqlite3

from ..config import Settings
from ..connection import unreadable
from ..errors import LimbicError
from .common import reports_errors, takes_settings

# pysqlite3, where it is installed, has classes of its own.
SQLITE_ERRORS = (sqlite3.DatabaseError, stock_sqlite3.DatabaseError)


@click.command("check")
@click.argument("database", type=click.Path(dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Every check, also those that passed.")
@reports_errors
@takes_settings
def check_command(database: str, as_json: bool, settings: Settings) -> None:
    """Whether a memory is whole: the file, its rows, its indexes, its vectors.

    Reads only, and leaves nothing behind. Exit code 1 when something is wrong; each finding
    says what repairs it. What the next sync will do anyway is only noted.

    \b
      datasette limbic check memory.db
      datasette limbic check memory.db --json
    """
    from ..integrity.files import check_file

    try:
        with _Bar(sys.stderr.isatty()) as bar:
            report = check_file(database, settings=settings, progress=bar.show)
    except (LimbicError, *SQLITE_ERRORS) as error:
        if as_json:
            says = str(error)
            if not isinstance(error, LimbicError):
                says = unreadable(database, error)
            failed = {"ok": False, "database": database, "error": says}
            click.echo(json.dumps(failed, ensure_ascii=False, indent=2))
        raise  # one sentence on stderr
    text = json.dumps(report.as_dict(), ensure_ascii=False, indent=2) if as_json else report.text()
    click.echo(text)
    if not report.ok:
        sys.exit(1)


class _Bar:
    """A progress bar on stderr, where that is a terminal."""

    def __init__(self, shown: bool) -> None:
        self.shown = shown
        self.bar: Any = None

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *args: Any) -> None:
        if self.bar is not None:
            self.bar.__exit__(*args)

    def show(self, done: int, total: int, title: str) -> None:
        """Say which check comes next."""
        if not self.shown:
            return
        if self.bar is None or done == 0:
            self.__exit__(None, None, None)
            self.bar = click.progressbar(
                length=total,
                label="checking",
                file=sys.stderr,
                item_show_func=lambda title: title or "",
            )
            self.bar.__enter__()
        self.bar.update(done - self.bar.pos, title)
