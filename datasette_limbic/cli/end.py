"""``datasette limbic end``."""

from __future__ import annotations

from typing import Any

import click

from ..errors import BadParameter
from .acting import Acting, takes_action


@click.command("end")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.option("--observation", type=int, metavar="ID", help="The observation that ended")
@click.option("--relation", type=int, metavar="ID", help="The relation that ended")
@click.option(
    "--at", metavar="TIME", help="It held until then, such as 2026-03-01 (UTC); default: now"
)
@takes_action
def end_command(
    database: str,
    observation: int | None,
    relation: int | None,
    at: str | None,
    acting: Acting,
) -> None:
    """Say that an observation or a relation no longer holds.

    It stays, with the time until which it held (valid_to): search leaves it out, and search with
    --as-of an earlier time still finds it. To take it out for good, see 'datasette limbic
    delete'.

    Without --yes it only shows what would be done.

    \b
      datasette limbic end memory.db --observation 65
      datasette limbic end memory.db --observation 65 --at 2026-03-01 --yes
      datasette limbic end memory.db --relation 12 --yes
    """
    if (observation is None) == (relation is None):
        both = "both given" if observation is not None else "both missing"
        raise BadParameter(f"--observation and --relation are {both}: give the id of one of them")
    which: dict[str, Any] = {"observation": observation, "relation": relation, "at": at}
    acting.run(database, "end", {k: v for k, v in which.items() if v is not None})
