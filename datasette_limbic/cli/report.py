"""``datasette limbic report``."""

from __future__ import annotations

import json
import sys

import click

from ..config import Settings
from ..reports.consolidation import LISTS
from ..reports.lists import MAX_PAGE, MAX_SIZE, SIZE
from .bars import Bars
from .common import reports_errors, takes_settings


@click.command("report")
@click.argument("database", type=click.Path(dir_okay=False))
@click.option(
    "--stale-days",
    help="Days without access after which an entity is stale, such as 90 or 0.5; left out: the "
    "setting stale_days of the table limbic_settings, 90 unless changed.",
)
@click.option("--list", "only", type=click.Choice(list(LISTS)), help="This list alone.")
@click.option(
    "--page", type=click.IntRange(1, MAX_PAGE), default=1, help="Page of it, from 1 (with --list)."
)
@click.option(
    "--size",
    type=click.IntRange(1, MAX_SIZE),
    default=SIZE,
    show_default=True,
    help="Rows of each list.",
)
@click.option("--now", help="Take this time as now, for a report that can be repeated.")
@click.option("--keep", is_flag=True, help="First keep what is found, as sync does: writes.")
@click.option("--kept", is_flag=True, help="Answer from what was kept, without looking anew.")
@click.option("--json", "as_json", is_flag=True, help="All of it, as the JSON API gives it.")
@reports_errors
@takes_settings
def report_command(
    database: str,
    stale_days: str | None,
    only: str | None,
    page: int,
    size: int,
    now: str | None,
    keep: bool,
    kept: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """What of a memory wants attention: contradictions, duplicates, splits, what is stale.

    Reads only, unless --keep is given: marks and reports, people decide. Looks anew at every
    entity that changed since sync kept the last result, which may take minutes where it never
    did; --kept answers at once, and says of when.

    \b
      datasette limbic report memory.db
      datasette limbic report memory.db --stale-days 30 --list stale_entities --page 2
      datasette limbic report memory.db --json | jq .summary
    """
    from .. import connection, schema
    from ..reports import consolidation_text, keeping
    from ..reports.consolidation import consolidation_report

    conn = connection.connect(database, readonly=not keep, settings=settings)
    try:
        with Bars() as bars:
            progress = bars.show if sys.stderr.isatty() else None
            if keep:
                schema.require_memory(conn, database)
                schema.init(conn)
                done = keeping.keep(conn, settings=settings, progress=progress)
                click.echo(done.text(), err=as_json)
            report = consolidation_report(
                conn,
                stale_days,  # type: ignore[arg-type]
                settings=settings,
                now=now,
                fresh=not kept,
                progress=progress,
                size=size,
                page=page,
                only=only,
            )
    finally:
        conn.close()
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        click.echo(consolidation_text.as_text(report))
