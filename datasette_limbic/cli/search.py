"""``datasette limbic search``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
from tabulate import tabulate

from .. import connection, search
from ..config import FUSIONS, MAX_LIMIT, MODES, RECENCIES, STRATEGIES, Settings
from ..text import short
from .common import reports_errors, takes_settings

_ARGUMENTS = (
    click.option("-n", "--limit", type=int, default=None, help=f"Results, 1 to {MAX_LIMIT}"),
    click.option("--mode", type=click.Choice(MODES), help="Which candidates are fetched"),
    click.option("--strategy", type=click.Choice(STRATEGIES), help="How scores are blended"),
    click.option("--recency", type=click.Choice(RECENCIES), help="Which recency counts"),
    click.option("--fusion", type=click.Choice(FUSIONS), help="How text evidence counts"),
    click.option("--type", help="Only entities of this type"),
    click.option("--beta-sal", type=float, help="Weight of salience"),
    click.option("--gamma", type=float, help="Weight of co-occurrence"),
    click.option(
        "--consolidation", is_flag=True, default=None, help="Let consolidation raise importance"
    ),
    click.option("--include-archived", is_flag=True, help="Archived entities too"),
    click.option("--as-of", help="What held at that time, such as 2025-06-30"),
    click.option("--now", help="Take this time as now, for results that can be repeated"),
    click.option("--explain", is_flag=True, help="Also the candidates that did not make it"),
)


def takes_search_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a search, by the names that ``search.search`` has for them."""
    for option in reversed(_ARGUMENTS):
        function = option(function)
    return function


@click.command("search")
@click.argument("database", type=click.Path(dir_okay=False))
@click.argument("query", required=False, default="")
@takes_search_arguments
@click.option("--json", "as_json", is_flag=True, help="The whole answer, as the JSON API gives it")
@reports_errors
@takes_settings
def search_command(
    database: str,
    query: str,
    as_json: bool,
    settings: Settings,
    **arguments: Any,
) -> None:
    """Search a memory, ranked, with the factors of each rank.

    final = blend of base similarity and limbic score; limbic score = base × salience × recency
    × co-occurrence. Reads only: looking leaves no trace. An empty QUERY lists what is used most
    and newest.

    \b
      datasette limbic search memory.db "who is the manager of the data team"
      datasette limbic search memory.db "qué es Atlas" --explain
      datasette limbic search memory.db deploy --type Decision --json
    """
    conn = connection.connect(database, readonly=True, settings=settings)
    try:
        answer = search.search(conn, query, settings=settings, **arguments)
    finally:
        conn.close()
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False, indent=2))
    else:
        click.echo(as_text(answer))


def as_text(answer: dict[str, Any]) -> str:
    """The answer for people: one line per result with its factors, then what to know about it."""
    lines = []
    if answer["degraded"]:
        lines.append(f"Degraded: {answer['degraded']}.")
    if not answer["results"]:
        return "\n".join([*lines, f"No results: {answer['reason']}."])
    if not answer["confident"]:
        lines.append("No confident match. Nearest:")
    lines.append(_table(answer["results"]))
    if answer.get("losers"):
        lines += ["", "Did not make it:", _table(answer["losers"], len(answer["results"]))]
    strategy = answer["results"][0]["routing_strategy"]
    lines += [
        "",
        f"{answer['candidates']} candidates, strategy {strategy}, mode {answer['mode']}, "
        f"fusion {answer['fusion']}, recency {answer['recency']}",
    ]
    return "\n".join(lines)


def _table(rows: list[dict[str, Any]], above: int = 0) -> str:
    table: str = tabulate(
        [
            [
                above + i,
                short(r["name"], 40),
                short(r["entityType"], 14),
                r["final_score"],
                r["limbic_score"],
                r["scoring"]["base"],
                r["scoring"]["importance"],
                r["scoring"]["temporal_factor"],
                r["scoring"]["cooc_boost"],
                "+".join(r["matched_by"]) or "–",
            ]
            for i, r in enumerate(rows, 1)
        ],
        headers=[
            "#",
            "name",
            "type",
            "final",
            "limbic",
            "base",
            "importance",
            "recency",
            "co-occ",
            "by",
        ],
        floatfmt=".3f",
        missingval="–",
        disable_numparse=[1, 2, 9],
    )
    return table
