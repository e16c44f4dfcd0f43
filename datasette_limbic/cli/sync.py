"""``datasette limbic sync``: bring vectors and text index in line with the rows."""

from __future__ import annotations

import json
import sys

import click
from datasette.utils.sqlite import sqlite3

from ..config import Settings
from .bars import Bars
from .common import reports_errors, takes_settings

# Errors of SQLite's that are not about what stands in the file.
_OTHERWISE = ("locked", "busy", "readonly", "full", "interrupted", "disk I/O")


@click.command("sync")
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False))
@click.option(
    "-m",
    "--model",
    help="Embedding model of llm; left out: the one the file was embedded with, else the "
    "packaged limbic-multilingual, which works offline.",
)
@click.option("--full", is_flag=True, help="Check every text, not only what is marked as changed.")
@click.option("--reembed", is_flag=True, help="Discard all vectors first; may change the model.")
@click.option(
    "--repair",
    is_flag=True,
    help="First repair what 'datasette limbic check' finds and what can be rebuilt; then --full.",
)
@click.option(
    "--batch-size", type=click.IntRange(1), help="Texts embedded (and committed) at a time."
)
@click.option(
    "--no-reports",
    is_flag=True,
    help="Leave the reports (duplicates, topics) as they are, and the flags too.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@reports_errors
@takes_settings
def sync_command(
    path: str,
    model: str | None,
    full: bool,
    reembed: bool,
    repair: bool,
    batch_size: int | None,
    no_reports: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """Embed what changed in FILE, forget what was deleted, repair the indexes.

    Then look again at the entities that changed, for the reports: observations that are alike
    (the later one of two duplicates gets its similarity_flag), and topics. Last, where the
    setting retriever is postgres, push to the server what it lacks; where that fails, the rest
    is done all the same, and the exit code is 1.

    Safe to stop at any time: the next run goes on from there. Where nothing changed, nothing
    is written but the date.

    Vectors are stored as llm stores them, so these lines embed the same texts, and sync then
    only has to index them:

    \b
      llm embed-multi entities -d memory.db \\
        --sql 'select id, content from entity_snapshots' -m limbic-multilingual
      llm embed-multi observations -d memory.db \\
        --sql 'select id, content from observations' -m limbic-multilingual
      llm similar entities -d memory.db -c 'who works on billing'

    \b
    Examples:
      datasette limbic sync memory.db
      datasette limbic sync memory.db --full
      datasette limbic sync memory.db --repair
      datasette limbic sync memory.db --reembed -m sentence-transformers/all-MiniLM-L6-v2
    """
    from ..connection import connect
    from ..sync import sync

    conn = connect(path, settings=settings)
    try:
        with Bars() as bars:
            summary = sync(
                conn,
                model=model,
                settings=settings,
                full=full,
                reembed=reembed,
                repair=repair,
                batch_size=batch_size,
                reports=not no_reports,
                progress=bars.show if sys.stderr.isatty() else None,
            )
    except sqlite3.DatabaseError as error:
        if repair or any(word in str(error) for word in _OTHERWISE):
            raise
        raise click.ClickException(
            f"{path} cannot be synced ({error}): 'datasette limbic check {path}' says what repairs "
            "it, mostly 'datasette limbic sync --repair'"
        ) from error
    finally:
        conn.close()
    click.echo(json.dumps(summary.as_dict(), indent=2) if as_json else summary.text())
    if summary.pushed is not None and summary.pushed.problem:
        sys.exit(1)
