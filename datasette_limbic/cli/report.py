"""``datasette limbic report``."""

from __future__ import annotations

import json
import sys
from contextlib import closing

import click
from click.core import ParameterSource

from ..config import Settings
from ..errors import BadParameter
from ..reports.consolidation import LISTS
from ..reports.lists import MAX_PAGE, MAX_SIZE, SIZE
from .acting import by
from .bars import Bars
from .common import reports_errors, takes_settings
from .printing import as_json as json_text
from .printing import line


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
@click.option(
    "--reviewed",
    is_flag=True,
    help="Mark the report as looked through, in place of showing it: writes.",
)
@click.option("--actor", metavar="NAME", help="Who looked it through; default: the user.")
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
    reviewed: bool = False,
    actor: str | None = None,
) -> None:
    """What of a memory wants attention: contradictions, duplicates, splits, what is stale.

    Reads only, unless --keep or --reviewed is given: marks and reports, people decide. Looks anew
    at every entity that changed since sync kept the last result, which may take minutes where it
    never did; --kept answers at once, and says of when.

    Once it was looked through, say so with --reviewed: after a month it is due again, which
    'datasette limbic status' and the pages show.

    \b
      datasette limbic report memory.db
      datasette limbic report memory.db --stale-days 30 --list stale_entities --page 2
      datasette limbic report memory.db --json | jq .summary
      datasette limbic report memory.db --reviewed
    """
    if actor is not None and not reviewed:
        raise BadParameter("--actor says who looked the report through: give --reviewed too")
    if reviewed:
        _mark_reviewed(database, actor, as_json, settings)
        return
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


def _mark_reviewed(database: str, actor: str | None, as_json: bool, settings: Settings) -> None:
    """Nothing else may be asked for: a report that was not shown is not looked through."""
    from .. import connection
    from ..reports.review import mark_reviewed

    context = click.get_current_context()
    others = [
        f"--{name.replace('_', '-')}"
        for name in ("stale_days", "only", "page", "size", "now", "keep", "kept")
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if others:
        raise BadParameter(
            f"--reviewed goes without {' and '.join(others).replace('--only', '--list')}: look at "
            "the report first, then mark it as looked through"
        )
    with closing(connection.connect(database, settings=settings)) as conn:
        found = mark_reviewed(conn, by(actor))
    if as_json:
        click.echo(json_text({"reviewed": found}))
    else:
        who = f" by {line(found['by'], 80)}" if found["by"] else ""
        click.echo(f"Marked as looked through{who}, {found['at']} UTC.")
