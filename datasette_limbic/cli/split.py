"""``datasette limbic split``: which entities are worth splitting, and how one could be."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from typing import Any

import click
from tabulate import tabulate

from .. import connection
from ..config import Settings
from ..errors import UnknownEntity
from ..text import counted, storable
from .common import reports_errors, takes_settings


@click.command("split")
@click.argument("database", type=click.Path(dir_okay=False))
@click.argument("entity", required=False)
@click.option("--json", "as_json", is_flag=True, help="The whole answer, as the JSON page gives it")
@reports_errors
@takes_settings
def split_command(database: str, entity: str | None, as_json: bool, settings: Settings) -> None:
    """Entities that are worth splitting, or how one of them could be split.

    An entity needs a split when it has more observations than the threshold of its type (Sesion
    15, Proyecto 25, others 20; rows split_threshold… of limbic_settings) and topics that stand
    apart. With at least 80 % of the threshold it is approaching. ENTITY is a name or an id; for it
    the topics are shown, what would go into which new entity, and what would stay as general.

    Reads only: nothing is split before a person approves it.

    \b
      datasette limbic split memory.db
      datasette limbic split memory.db "Proyecto Atlas"
      datasette limbic split memory.db 17 --json | jq .children
    """
    from ..reports.splits import find_split_candidates

    with closing(connection.connect(database, readonly=True, settings=settings)) as conn:
        if entity is None:
            found = find_split_candidates(conn, settings=settings)
            text = _candidates
        else:
            found = _propose(conn, entity, settings)
            text = _proposal
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        click.echo(storable(text(found)))


def _propose(conn: Any, entity: str, settings: Settings) -> dict[str, Any]:
    """By id, where digits are one, else by name."""
    from ..reports.splits import propose_entity_split

    if entity.isascii() and entity.isdigit() and len(entity) < 19:
        with suppress(UnknownEntity):  # a name may be digits too
            return propose_entity_split(conn, int(entity), settings=settings)
    return propose_entity_split(conn, entity, settings=settings)


def _candidates(found: dict[str, Any]) -> str:
    """A table, and below it how to go on."""
    rows = found["candidates"]
    if not rows:
        return "No entity is worth splitting, and none with topics that stand apart comes near it."
    table: str = tabulate(
        [
            [
                row["id"],
                _line(row["name"], 40),
                _line(row["entityType"], 14),
                row["status"],
                f"{row['observations']:,} of {row['threshold']:,}",
                row["split_score"],
                " | ".join(_line(t["label"], 40) for t in row["topics"] if t["stands_apart"]),
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
    lines = [f"{_line(found['name'], 200)} ({_line(found['entityType'], 80)})", found["reason"]]
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
        lines += ["", f"New: {child['name']} ({child['entityType']}), firmness"]
        lines[-1] += f" {child['firmness']:.2f}"
        lines += [_observation(row) for row in child["observations"]]
    if found["children"]:
        stays = [f"{_observation(row)}  [{row['why']}]" for row in found["stays"]]
        lines += ["", f"Stays in {found['name']}:", *(stays or ["  nothing"])]
        lines += ["", "Relations that would be made:"]
        lines += [
            f"  {each['from']} → {each['relation_type']} → {each['to']}"
            for each in found["relations"]
        ]
        lines += ["", "Nothing has been changed: a split is made only once a person approves it."]
    return "\n".join(lines)


def _observation(row: dict[str, Any]) -> str:
    return f"  {row['firmness']:5.2f}  #{row['id']} {_line(row['content'], 100)}"


def _line(text: str | None, most: int) -> str:
    joined = " ".join(str("" if text is None else text).split())
    return joined if len(joined) <= most else joined[: most - 1] + "…"
