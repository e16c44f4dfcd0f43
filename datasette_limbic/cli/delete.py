"""``datasette limbic delete``."""

from __future__ import annotations

import click

from .acting import Acting, takes_action


@click.command("delete")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.argument("observations", metavar="ID...", type=int, nargs=-1, required=True)
@takes_action
def delete_command(database: str, observations: tuple[int, ...], acting: Acting) -> None:
    """Delete observations, by their ids, of one entity or of several.

    They are no longer found, and stay in the log of changes, from where 'datasette limbic undo'
    brings them back as they were. What is no longer true is better ended than deleted
    ('datasette limbic end'): it can then still be asked what held before.

    Ids are those that 'datasette limbic split' and 'duplicates' print. Without --yes it only
    shows what would be done.

    \b
      datasette limbic delete memory.db 65 66
      datasette limbic delete memory.db 65 66 --yes --actor ana
    """
    acting.run(database, "delete", {"observations": list(observations)})
