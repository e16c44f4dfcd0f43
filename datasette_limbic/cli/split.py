"""``datasette limbic split``: what is worth splitting, how it could be done, and doing it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from tabulate import tabulate

from ..config import Settings
from ..errors import BadParameter, NotWritable, StaleProposal
from ..reports.entities import find_entity, typed
from ..text import counted
from .acting import Acting, hint, how_to, takes_action, warnings
from .bars import say
from .printing import as_json, line, printable
from .split_children import named, read_children, read_file


@click.command("split")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.argument("entity", required=False)
@click.option(
    "--children",
    metavar="FILE.json",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Split so, as edited: what --json gave, or its children alone; - for standard input",
)
@takes_action
def split_command(database: str, entity: str | None, children: str | None, acting: Acting) -> None:
    """Entities that are worth splitting; how one of them could be split; and the split itself.

    An entity needs a split when it has more observations than the threshold of its type (Sesion
    15, Proyecto 25, others 20; rows split_threshold… of limbic_settings) and topics that stand
    apart. With at least 80 % of the threshold it is approaching. ENTITY is a name or an id; for it
    the topics are shown, what would go into which new entity, and what would stay as general.

    Without --yes nothing is changed. With it the proposal is carried out: new entities, linked
    with contiene and parte_de; observations move with all that they have. To change the proposal
    first, edit what --json gives (names, types, which observation goes where) and give it back
    with --children.

    \b
      datasette limbic split memory.db
      datasette limbic split memory.db "Proyecto Atlas"
      datasette limbic split memory.db "Proyecto Atlas" --yes
      datasette limbic split memory.db "Proyecto Atlas" --json > atlas.json
      datasette limbic split memory.db "Proyecto Atlas" --children atlas.json
      datasette limbic split memory.db "Proyecto Atlas" --children atlas.json --yes
    """
    if entity is None:
        if acting.yes or children is not None:
            raise BadParameter("which entity is to be split? Name it, or its id, after the file")
        _print_candidates(database, acting)
    elif children is not None:
        _split(database, entity, children, acting)
    elif acting.yes:
        say("Looking for topics …")
        acting.run(database, "split", {"entity": entity})
    else:
        _print_proposal(database, entity, acting)


def _print_candidates(database: str, acting: Acting) -> None:
    from ..reports.splits import find_split_candidates

    say("Looking for topics …")
    with acting.open(database) as conn:
        found = find_split_candidates(conn, settings=acting.settings)
    click.echo(as_json(found) if acting.as_json else printable(_candidates(found)))


def _print_proposal(database: str, asked: str, acting: Acting) -> None:
    """The proposal with the basis for carrying it out."""
    from ..reports.splits import propose_entity_split

    say("Looking for topics …")
    with acting.open(database) as conn:
        found = propose_entity_split(conn, typed(conn, asked), settings=acting.settings)
        lines = [_proposal(found)]
        found["basis"] = None
        if found["children"]:
            lines += _how_to(conn, database, found, acting)
    click.echo(as_json(found) if acting.as_json else printable("\n".join(lines)))


def _how_to(conn: Any, database: str, found: dict[str, Any], acting: Acting) -> Iterator[str]:
    """How to carry a proposal out, whose ``basis`` is set; or why that cannot be."""
    try:
        answer = acting.act(
            conn, "split", {"entity": found["id"], "children": read_children(found)[0]}
        )
    except NotWritable as error:  # of an earlier version: it can be read all the same
        yield f"\nNothing has been changed: {error}"
        return
    found["basis"] = answer["basis"]
    yield ""
    yield from warnings(answer)
    yield from how_to(answer["basis"])
    name = str(found["id"])
    edit = hint("split", database, name, "--json")
    yield f"To change it first: {edit} > proposal.json, edit it, and then"
    yield f"  {hint('split', database, name, '--children', 'proposal.json')}"


def _split(database: str, asked: str, path: str, acting: Acting) -> None:
    """The split of a file, or what it would do."""
    children, proposal = read_file(path)
    with acting.open(database) as conn:
        number = find_entity(conn, typed(conn, asked))["id"]
        if proposal.get("id", number) != number:
            raise BadParameter(
                f"{named(path)} has a proposal for entity {proposal['id']!r:.40}, and {asked!r:.80}"
                f" is entity {number}: give the one that it was made for"
            )
        if acting.basis is None:
            acting.basis = proposal.get("basis")
        if acting.basis is None and "digest" in proposal:
            _refuse_changed(conn, number, proposal["digest"], acting.settings)
        answer = acting.act(conn, "split", {"entity": number, "children": children})
        acting.print(conn, database, answer)
    if path == "-" and not acting.yes and not acting.as_json:
        click.echo("It reads standard input again, so give it the same.")


def _refuse_changed(conn: Any, number: int, digest: Any, settings: Settings) -> None:
    """Raises StaleProposal where a proposal without a basis is of another state."""
    from ..reports.split_subject import read_subject

    if read_subject(conn, number, settings=settings).digest != digest:
        raise StaleProposal(
            "nothing was changed: the entity is not as it was when the proposal was made (its "
            "name, its type or its observations are others). Make a new one"
        )


def _candidates(found: dict[str, Any]) -> str:
    """A table, and below it how to go on."""
    rows = found["candidates"]
    if not rows:
        return "No entity is worth splitting, and none with topics that stand apart comes near it."
    table: str = tabulate(
        [
            [
                row["id"],
                line(row["name"], 40),
                line(row["entityType"], 14),
                row["status"],
                f"{row['observations']:,} of {row['threshold']:,}",
                row["split_score"],
                " | ".join(line(t["label"], 40) for t in row["topics"] if t["stands_apart"]),
            ]
            for row in rows
        ],
        headers=["id", "name", "type", "status", "observations", "score", "topics"],
        floatfmt=".2f",
        disable_numparse=[1, 2, 6],
    )
    counts = (
        f"{found['split']:,} to be split, {found['approaching']:,} approaching. "
        "Name one to see how it could be split."
    )
    return f"{table}\n\n{counts}"


def _proposal(found: dict[str, Any]) -> str:
    lines = [f"{line(found['name'], 200)} ({line(found['entityType'], 80)})", found["reason"]]
    lines.append(
        f"{found['observations']:,} of {found['threshold']:,} observations, "
        f"diversity {found['diversity']:.2f}, split score {found['split_score']:.2f}"
        + (f"; {found['ended_observations']:,} do not hold now" * bool(found["ended_observations"]))
    )
    if not found["vectors"]["used"] and found["observations"]:
        lines.append(f"Topics of words alone: {found['vectors']['reason']}.")
    lines += [f"Settings: {warning}" for warning in found["warnings"]]
    if found["topics"]:
        lines += ["", "Topics:"]
        lines += [
            f"  {topic['silhouette']:5.2f}  {counted(topic['size'], 'observation', 'observations')}"
            f": {', '.join(topic['terms']) or 'no words'}"
            + ("" if topic["stands_apart"] else " (does not stand apart)")
            for topic in found["topics"]
        ]
    lines += ["", found["summary"]]
    for child in found["children"]:
        lines += ["", f"New: {line(child['name'], 500)} ({child['entityType']}), firmness"]
        lines[-1] += f" {child['firmness']:.2f}"
        lines += [_observation(row) for row in child["observations"]]
    if found["children"]:
        stays = [f"{_observation(row)}  [{row['why']}]" for row in found["stays"]]
        lines += ["", f"Stays in {line(found['name'], 200)}:", *(stays or ["  nothing"])]
        lines += ["", "Relations that would be made:"]
        lines += [
            f"  {line(each['from'], 200)} → {each['relation_type']} → {line(each['to'], 500)}"
            for each in found["relations"]
        ]
    return "\n".join(lines)


def _observation(row: dict[str, Any]) -> str:
    return f"  {row['firmness']:5.2f}  #{row['id']} {line(row['content'], 100)}"
