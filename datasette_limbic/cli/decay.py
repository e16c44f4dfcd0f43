"""``datasette limbic decay``: deprecated, changes nothing."""

from __future__ import annotations

from typing import Any

import click

from .. import connection, decay
from .common import reports_errors


@click.command("decay")
@click.argument("database", type=click.Path(dir_okay=False))
@click.option("--rate", type=float, default=0.01, help="Taken and ignored")
@click.option("--min-confidence", type=float, default=0.0, help="Taken and ignored")
@click.option("--max-age-days", type=float, help="Taken and ignored")
@click.option("--label", help="Taken and ignored")
@click.option("--dry-run", is_flag=True, help="Taken and ignored: nothing is ever written")
@reports_errors
def decay_command(database: str, **_old: Any) -> None:
    """Deprecated: stored confidence no longer decays. Changes nothing, exits 0.

    Recency is worked out when a search reads (temporal_score), so nothing has to be rewritten
    and nothing is archived by age. This command stays for one minor version so that scripts go
    on working; it reports what recency is now.
    """
    click.echo(
        "decay is deprecated and changes nothing: recency is computed at reading time "
        "(search --recency activity, SQL function temporal_score)",
        err=True,
    )
    conn = connection.connect(database, readonly=True)
    try:
        report = decay.recency_report(conn)
    finally:
        conn.close()
    for label, count in report:
        click.echo(f"{count:>8,}  {label}")
