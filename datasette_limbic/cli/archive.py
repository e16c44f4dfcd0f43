"""``datasette limbic archive``."""

from __future__ import annotations

import click

from .acting import Acting, takes_action


@click.command("archive")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.argument("entity")
@click.option("--reason", metavar="TEXT", required=True, help="Why; it is kept with the entity")
@takes_action
def archive_command(database: str, entity: str, reason: str, acting: Acting) -> None:
    """Archive an entity: out of search and reports, until it is restored.

    Nothing is deleted: observations and relations stay as they are, and so do the times of its
    last activity and change, since archiving is no activity. Warns where the entity alone links
    others with each other. ENTITY is a name or an id. Nothing is ever archived by age.

    Without --yes it only shows what would be done.

    \b
      datasette limbic archive memory.db "Atlas" --reason "finished in 2024"
      datasette limbic archive memory.db "Atlas" --reason "finished in 2024" --yes
      datasette limbic restore memory.db "Atlas" --yes
    """
    acting.run(database, "archive", {"entity": entity, "reason": reason})
