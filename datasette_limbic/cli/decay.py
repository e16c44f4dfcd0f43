"""``datasette limbic decay``: deprecated, changes nothing."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from .. import connection, decay
from ..config import Settings
from .common import reports_errors, takes_settings

NOTICE = (
    "decay is deprecated and changes nothing: recency is computed at reading time (search "
    "--recency activity, SQL function temporal_score). The command is kept for one minor version: "
    "take it out of your scripts."
)


@click.command("decay")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.option("--rate", help="Taken and ignored")
@click.option("--min-confidence", help="Taken and ignored")
@click.option("--max-age", "--max-age-days", help="Taken and ignored")
@click.option("--label", help="Taken and ignored")
@click.option("--dry-run", is_flag=True, help="Taken and ignored: nothing is ever written")
@reports_errors
@takes_settings
def decay_command(database: str, settings: Settings, **_old: Any) -> None:
    """Deprecated: stored confidence no longer decays. Changes nothing, exits 0.

    Recency is worked out when a search reads (temporal_score), so nothing has to be rewritten
    and nothing is archived by age. The command is kept for one minor version, with the options
    that it had, so that scripts go on working; it reports what the recency of all that is not
    archived would be now.

    \b
      datasette limbic decay memory.db
      datasette limbic search memory.db "deploy" --recency activity   # in its place
    """
    click.echo(NOTICE, err=True)
    with closing(connection.connect(database, readonly=True, settings=settings)) as conn:
        report = decay.recency_report(conn)
    for label, count in report:
        click.echo(f"{count:>8,}  {label}")
