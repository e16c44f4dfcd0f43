"""``datasette limbic prune``."""

from __future__ import annotations

import json

import click

from .. import connection, pruning
from ..config import Settings
from ..errors import BadParameter
from .common import reports_errors, takes_settings


@click.command("prune")
@click.argument("database", type=click.Path(dir_okay=False))
@click.option(
    "--older-than",
    type=float,
    metavar="DAYS",
    help="Delete what is older; left out: log_retention_days of --config",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON")
@reports_errors
@takes_settings
def prune_command(
    database: str,
    older_than: float | None,
    dry_run: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """Delete old logs: recorded searches, their ratings, the access log.

    Counts are kept: how often each entity was accessed, and which came up together. So ranking
    stays as it is; what goes is the record of each single use, and with it what tuning can
    learn from. A time that cannot be read counts as unknown, and such rows stay.

    Deletes in short steps, so that a server on the same file goes on recording; it is safe to
    stop at any time. The file keeps its size and fills the room again: 'sqlite-utils vacuum'
    makes it smaller.

    \b
      datasette limbic prune memory.db --older-than 90 --dry-run
      datasette limbic prune memory.db --older-than 90
      datasette limbic prune memory.db -c metadata.yml     # its log_retention_days

    A server prunes by itself, at most once an hour, where log_retention_days is set.
    """
    days = settings.log_retention_days if older_than is None else older_than
    if days is None:
        raise BadParameter(
            "after how many days are logs old? Give --older-than DAYS, or --config with a file "
            "that sets log_retention_days"
        )
    conn = connection.connect(database, readonly=dry_run, settings=settings)
    try:
        pruned = pruning.prune(conn, days, dry_run=dry_run)
    finally:
        conn.close()
    click.echo(json.dumps(pruned.as_dict(), indent=2) if as_json else pruned.text())
