"""``datasette limbic restore``."""

from __future__ import annotations

import click

from .acting import Acting, takes_action


@click.command("restore")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.argument("entity")
@takes_action
def restore_command(database: str, entity: str, acting: Acting) -> None:
    """Bring an archived entity back into search and reports, with all that it had.

    ENTITY is a name or an id. Without --yes it only shows what would be done.

    \b
      datasette limbic restore memory.db "Atlas"
      datasette limbic restore memory.db "Atlas" --yes
    """
    acting.run(database, "restore", {"entity": entity})
