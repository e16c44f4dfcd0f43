"""``datasette limbic changes``: the log of what was done, and one change with all its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import click
from tabulate import tabulate

from .. import connection
from ..config import Settings
from ..errors import BadParameter
from ..reports.entities import typed
from ..text import counted, storable
from . import diffs
from .acting import hint
from .common import reports_errors, takes_settings
from .printing import as_json, line, printable


@click.command("changes")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.argument("change", metavar="[ID]", type=int, required=False)
@click.option("--entity", metavar="ENTITY", help="Only changes of this entity, a name or an id")
@click.option("--action", help="Only this action, such as split or merge")
@click.option("--actor", metavar="NAME", help="Only what was done by this one")
@click.option("--page", type=int, default=1, show_default=True, help="Page of the list")
@click.option("--size", type=int, default=50, show_default=True, help="Changes on a page")
@click.option("--json", "json_wanted", is_flag=True, help="The answer as the JSON API gives it")
@reports_errors
@takes_settings
def changes_command(
    database: str,
    change: int | None,
    entity: str | None,
    action: str | None,
    actor: str | None,
    page: int,
    size: int,
    json_wanted: bool,
    settings: Settings,
) -> None:
    """The log of changes, newest first; with ID every row of that one, before and after.

    Who did what and when: splits, merges, deletions, archiving, corrections, and what was undone.
    Reads only. 'datasette limbic undo' takes one back.

    \b
      datasette limbic changes memory.db
      datasette limbic changes memory.db --entity "Atlas" --action merge
      datasette limbic changes memory.db 12
      datasette limbic changes memory.db --json | jq .changes
    """
    from ..actions import log

    if change is not None and any(each is not None for each in (entity, action, actor)):
        raise BadParameter(
            f"{change} is one change: leave out --entity, --action and --actor, or the id"
        )
    with closing(connection.connect(database, readonly=True, settings=settings)) as conn:
        if change is None:
            found = log.changes_log(
                conn,
                entity=entity and typed(conn, entity),
                action=action and storable(action),
                actor=actor and storable(actor),
                page=page,
                size=size,
            )
            text = _list(database, found)
        else:
            found = log.change_detail(conn, change)
            text = _one(database, found)
    click.echo(as_json(found) if json_wanted else "\n".join(text))


def _list(database: str, found: dict[str, Any]) -> Iterator[str]:
    if not found["count_all"]:
        yield (
            "Nothing has been changed yet: splits, merges, deletions and the like stand here with "
            "who did them, and can be undone."
        )
        return
    if not found["changes"]:
        yield f"No change of {found['count_all']:,} is such a one."
        return
    rows = [
        [
            row["id"],
            line(row["created_at"], 19),
            line(row["actor"], 20) or "–",
            line(row["action"], 16),
            line(row["summary"], 80),
            f"undone by {row['undone_by']}" if row["undone_by"] is not None else "",
        ]
        for row in found["changes"]
    ]
    table: str = tabulate(
        rows, headers=["id", "when (UTC)", "by", "action", "what", ""], disable_numparse=True
    )
    yield table
    yield (
        f"\n{counted(found['count'], 'change', 'changes')}. One of them in full: "
        f"{hint('changes', database, str(found['changes'][0]['id']))}"
    )
    if found["pages"] > 1 or found["page"] > 1:
        yield f"Page {found['page']:,} of {found['pages']:,}: --page turns it."


def _one(database: str, found: dict[str, Any]) -> Iterator[str]:
    change = found["change"]
    by = f" by {line(change['actor'], 80)}" if change["actor"] else ""
    yield f"Change {change['id']}, {line(change['created_at'], 19)} UTC{by}: {change['action']}"
    yield line(change["summary"], 2000)
    if change["undone_by"] is not None:
        yield f"Undone by change {change['undone_by']}."
    yield from diffs.lines(found["diff"], found["names"])
    yield ""
    if found["undo"]["possible"]:
        yield f"To take it back: {hint('undo', database, str(change['id']))}"
    else:
        yield printable(f"It cannot be undone now: {found['undo']['reason']}.")
