"""``datasette limbic undo``."""

from __future__ import annotations

import click

from .acting import Acting, takes_action


@click.command("undo")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.argument("change", metavar="ID", type=int)
@takes_action
def undo_command(database: str, change: int, acting: Acting) -> None:
    """Take a change back: every row of it as it was before.

    ID is the number that the action said, and that 'datasette limbic changes' lists. What depends
    on a newer change is never half undone: it is refused, and says which one to undo first. An
    undo is a change too, so it can itself be undone.

    Without --yes it only shows what would be done.

    \b
      datasette limbic changes memory.db
      datasette limbic undo memory.db 12
      datasette limbic undo memory.db 12 --yes
    """
    acting.run(database, "undo", {"change": change})
