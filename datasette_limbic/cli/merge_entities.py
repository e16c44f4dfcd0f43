"""``datasette limbic merge-entities``."""

from __future__ import annotations

import click

from .acting import Acting, takes_action


@click.command("merge-entities")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.argument("keep")
@click.argument("others", metavar="OTHER...", nargs=-1, required=True)
@takes_action
def merge_entities_command(
    database: str, keep: str, others: tuple[str, ...], acting: Acting
) -> None:
    """Merge entities that are one and the same into KEEP.

    Observations and relations of the others move to it, and the others are archived. What KEEP
    says already stays with the archived one; nothing is deleted. Each of them is a name or an id.
    'datasette limbic duplicates' lists names that are the same but for case, accents and
    punctuation.

    Without --yes it only shows what would be done.

    \b
      datasette limbic merge-entities memory.db "Atlas" "ATLAS" "atlas."
      datasette limbic merge-entities memory.db 17 204 --yes
    """
    acting.run(database, "merge_entities", {"keep": keep, "others": list(others)})
