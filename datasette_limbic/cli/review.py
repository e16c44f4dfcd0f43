"""``datasette limbic review``: the review queue, one decision of it, and deciding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ..errors import BadParameter, LimbicError, NotAMemory, NotEmbedded
from ..reports.entities import typed
from ..text import storable
from . import review_text
from .acting import Acting, takes_action
from .bars import say
from .printing import as_json

_DECISIONS = ("approve", "dismiss", "reopen")
_CHOICES = ("observation", "at", "keep", "reason")
_FILTERS = ("kind", "status", "entity", "page")


@click.command("review")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.argument("insight", metavar="[ID]", type=int, required=False)
@click.option("--approve", is_flag=True, help="Say yes to ID: do what it proposes")
@click.option("--dismiss", is_flag=True, help="Say no to ID: nothing is done")
@click.option("--reopen", is_flag=True, help="Take back what was said to ID")
@click.option("--note", metavar="TEXT", help="Why it is dismissed; it is kept with it")
@click.option("--observation", metavar="ID", type=int, help="Of a contradiction: which one ends")
@click.option("--at", metavar="TIME", help="Of a contradiction: when it ended; default: now")
@click.option(
    "--keep", metavar="ID", type=int, help="Of duplicates or names alike: which one stays"
)
@click.option("--reason", metavar="TEXT", help="Of an entity to archive: why")
@click.option("--kind", help="List only this kind, such as contradiction or split")
@click.option(
    "--status",
    type=click.Choice(("pending", "approved", "dismissed", "all")),
    default="pending",
    show_default=True,
    help="List those that stand so",
)
@click.option("--entity", metavar="ENTITY", help="List only those about this one, a name or an id")
@click.option("--page", type=int, default=1, show_default=True, help="Page of the list")
@takes_action
def review_command(
    database: str, insight: int | None, note: str | None, acting: Acting, **given: Any
) -> None:
    """What waits for a decision, and deciding it, one after another.

    'datasette limbic reflect' fills the queue. Without an ID it is listed; with an ID you see what
    speaks for it and every row that a yes would change. To decide, say --approve or --dismiss;
    without --yes it only shows what would be done. A yes is written into the log of changes and
    can be undone; what was judged is not raised again unless what it rests on changes.

    \b
      datasette limbic review memory.db
      datasette limbic review memory.db --kind contradiction
      datasette limbic review memory.db 12
      datasette limbic review memory.db 12 --approve --yes
      datasette limbic review memory.db 12 --approve --observation 204 --yes
      datasette limbic review memory.db 12 --dismiss --note "both hold" --yes
    """
    decision = _decision(insight, given, note, acting)
    with acting.open(database) as conn:
        if insight is None:
            found = _listed(conn, given)
            text = review_text.listed(database, found)
        else:
            chosen = {
                name: storable(value) if isinstance(value, str) else value
                for name in _CHOICES
                if (value := given[name]) is not None
            }
            found = _one(conn, insight, decision, chosen, note, acting)
            # before the file is closed: the diff is read with names
            text = review_text.one(conn, database, found, decision, acting)
        shown = None if acting.as_json else "\n".join(text)
    click.echo(as_json(found) if shown is None else shown)


def _decision(
    insight: int | None, given: Mapping[str, Any], note: str | None, acting: Acting
) -> str | None:
    """What is decided, if anything. Raises BadParameter for options that do not go together."""
    said = [name for name in _DECISIONS if given[name]]
    if len(said) > 1:
        raise BadParameter(f"--{said[0]} and --{said[1]} are both given: use one of them")
    chosen = [name for name in _CHOICES if given[name] is not None]
    if insight is None:
        if said or chosen or note is not None or acting.yes or acting.basis is not None:
            raise BadParameter("which one? Give the ID too: the list has them")
        return None
    context = click.get_current_context()
    source = click.core.ParameterSource.COMMANDLINE
    filters = [name for name in _FILTERS if context.get_parameter_source(name) is source]
    if filters:
        raise BadParameter(f"{insight} is one insight: leave out --{filters[0]}, or the id")
    if acting.yes and not said:
        raise BadParameter("--yes to what? Say --approve, --dismiss or --reopen too")
    if chosen and said in (["dismiss"], ["reopen"]):
        raise BadParameter(f"--{chosen[0]} is for approving: leave it out here")
    if note is not None and said not in (["dismiss"], ["approve"]):
        raise BadParameter("--note says why something is dismissed: say --dismiss too")
    return said[0] if said else None


def _listed(conn: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    from ..insights.standing import standing

    entity = given["entity"]
    return standing(
        conn,
        status=None if given["status"] == "all" else given["status"],
        kind=given["kind"] and storable(given["kind"]),
        entity=None if entity is None else typed(conn, entity),
        page=given["page"],
    )


def _one(
    conn: Any,
    insight: int,
    decision: str | None,
    chosen: Mapping[str, Any],
    note: str | None,
    acting: Acting,
) -> dict[str, Any]:
    """What ``deciding.as_it_stands`` says, after the decision or a dry run of it; of approving
    where none was given."""
    from ..insights import queue
    from ..insights.approving import approval
    from ..insights.deciding import as_it_stands, decide

    given: dict[str, Any] = {
        "chosen": chosen, "basis": acting.basis, "note": note, "actor": acting.actor,
        "embed": acting.embed, "dry_run": not acting.yes, "settings": acting.settings,
    }  # fmt: skip
    if decision is not None:
        if acting.yes and decision == "approve":
            say("Doing it, and embedding what changes …")
        return decide(conn, insight, decision, **given)
    found = queue.found(conn, insight)
    if found["status"] != "pending":
        if chosen:
            raise BadParameter(f"--{next(iter(chosen))} is for approving: leave it out here")
        return as_it_stands(conn, insight)
    would = approval(found, chosen)
    try:
        return decide(conn, insight, "approve", **given)
    except (NotAMemory, NotEmbedded):
        raise
    except LimbicError as error:
        return as_it_stands(conn, insight, would=would, refused=str(error))
