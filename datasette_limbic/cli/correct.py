"""``datasette limbic correct``."""

from __future__ import annotations

from typing import Any

import click

from ..errors import BadParameter
from .acting import Acting, takes_action


@click.command("correct")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.option("--entity", metavar="ENTITY", help="The entity to correct, a name or an id")
@click.option("--observation", type=int, metavar="ID", help="The observation to correct")
@click.option(
    "--confidence", type=float, required=True, metavar="X", help="Belief in it, from 0 to 1"
)
@takes_action
def correct_command(
    database: str,
    entity: str | None,
    observation: int | None,
    confidence: float,
    acting: Acting,
) -> None:
    """Correct the confidence of an entity or of one observation.

    Confidence is the belief that it is true. Nothing changes it by itself: it does not decay with
    time, so this is how it becomes another one.

    Without --yes it only shows what would be done.

    \b
      datasette limbic correct memory.db --observation 65 --confidence 0.5
      datasette limbic correct memory.db --entity "Atlas" --confidence 1 --yes
    """
    if (entity is None) == (observation is None):
        both = "both given" if entity is not None else "both missing"
        raise BadParameter(f"--entity and --observation are {both}: give one of them")
    which: dict[str, Any] = {"entity": entity, "observation": observation}
    given = {name: value for name, value in which.items() if value is not None}
    acting.run(database, "correct", {**given, "confidence": confidence})
