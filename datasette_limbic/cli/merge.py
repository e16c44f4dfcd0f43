"""``datasette limbic merge``: duplicate observations of one entity."""

from __future__ import annotations

from typing import Any

import click

from ..errors import BadParameter
from .acting import Acting, takes_action
from .bars import say


@click.command("merge")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.argument("entity")
@click.option("--keep", type=int, metavar="ID", help="The observation that stays")
@click.option(
    "--remove",
    type=int,
    multiple=True,
    metavar="ID",
    help="One that says the same and goes; may be given several times",
)
@takes_action
def merge_command(
    database: str, entity: str, keep: int | None, remove: tuple[int, ...], acting: Acting
) -> None:
    """Merge observations of an entity that say the same: exactly one of them stays.

    Without --keep and --remove these are all duplicates that 'datasette limbic duplicates'
    suggests for the entity, with those that it suggests to keep. Contradictions are never merged.
    A text goes only if the one that stays says it. To merge entities: 'datasette limbic
    merge-entities'. ENTITY is a name or an id.

    Without --yes it only shows what would be done.

    \b
      datasette limbic duplicates memory.db "Atlas"
      datasette limbic merge memory.db "Atlas"
      datasette limbic merge memory.db "Atlas" --keep 65 --remove 66 --remove 70 --yes
    """
    if (keep is None) != (not remove):
        missing, there = ("--keep", "--remove") if keep is None else ("--remove", "--keep")
        raise BadParameter(
            f"{there} is given without {missing}: give both, or neither to merge what is suggested"
        )
    arguments: dict[str, Any] = {"entity": entity}
    if keep is None:
        say("Looking for duplicates …")
    else:
        arguments["clusters"] = [{"keep": keep, "remove": list(remove)}]
    acting.run(database, "merge", arguments)
