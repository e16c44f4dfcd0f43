"""``datasette limbic index``: how the nearest vectors are found, and how well."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from ..config import Settings
from .bars import Bars
from .common import reports_errors, takes_settings

if TYPE_CHECKING:
    from ..retrieval.state import Retrieval


@click.command("index")
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False))
@click.option(
    "--kind",
    type=click.Choice(("auto", "exact", "approximate")),
    default="auto",
    show_default=True,
    help="exact: no index beyond the vectors, every one is compared. approximate: codes of the "
    "vectors, many times as fast in a large memory. auto: approximate from 50,000 vectors on.",
)
@click.option(
    "--target-recall",
    type=float,
    default=0.98,
    show_default=True,
    help="Share of the truly nearest 30 that the approximate index is to find, .5 to 1.",
)
@click.option("--anew", is_flag=True, help="Do not go on with a build that was begun.")
@click.option("--json", "as_json", is_flag=True, help="Print what was built as JSON.")
@reports_errors
@takes_settings
def index_command(
    path: str,
    kind: str,
    target_recall: float,
    anew: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """Build the index that finds the entities nearest to a query, and measure it.

    Up to some ten thousand entities there is nothing to do: every vector is compared, and that
    takes milliseconds. In a larger memory build the approximate one once; 'datasette limbic sync'
    keeps it in step from then on, and says when it should be built anew.

    How many vectors are looked at is set so that the target recall is reached, measured against
    exact search with questions like this memory's own texts. The figure is told here, by
    'datasette limbic status' and on the overview page.

    Safe to stop at any time: the next run goes on, and until it is done searches use what was
    there before.

    \b
    Examples:
      datasette limbic index memory.db
      datasette limbic index memory.db --kind approximate --target-recall .99
      datasette limbic index memory.db --kind exact     # take the approximate one away
    """
    from ..connection import connect
    from ..retrieval import building, state
    from ..schema import require_memory

    building.check_target(target_recall)
    conn = connect(path, settings=settings)
    try:
        require_memory(conn)
        with Bars() as bars:
            building.index(
                conn,
                kind,
                target_recall=target_recall,
                anew=anew,
                progress=bars.show if sys.stderr.isatty() else None,
            )
        found = state.retrieval(conn, settings)
    finally:
        conn.close()
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for line in text(found):
        click.echo(line)
    built = found["approximate"]
    if built and built["recall"] and built["recall"]["30"] < built["target_recall"]:
        click.echo(
            f"The target of {built['target_recall']:.1%} was not reached: these vectors are too "
            "much alike for it, or the target is very high. Searches use what was reached; "
            "--kind exact compares every vector.",
            err=True,
        )


def text(found: Retrieval) -> list[str]:
    """How the nearest are found, in lines for a terminal."""
    built = found["approximate"]
    lines = [f"retrieval: {found['serves'] or 'none yet'} ({found['retriever']})"]
    if built is None:
        lines.append(
            f"  no approximate index: {found['vectors']:,} vectors are compared one by one"
            if found["vectors"]
            else "  there are no vectors yet: run 'datasette limbic sync'"
        )
    elif built["state"] != "ready":
        lines.append(
            f"  an approximate index was begun ({built['vectors']:,} vectors so far) and is not "
            "ready: 'datasette limbic index' goes on"
        )
    else:
        recall = built["recall"] or {}
        lines.append(
            f"  approximate index of {built['vectors']:,} vectors, built {built['built_at']} in "
            f"{built['seconds']:,.0f} s"
        )
        if recall:
            lines.append(
                f"  finds {recall['10']:.1%} of the nearest 10 and {recall['30']:.1%} of the "
                f"nearest 30, measured with {built['questions']:,} questions "
                f"(target {built['target_recall']:.1%})"
            )
    if found["due"]:
        lines.append(f"  {found['due']}")
    return lines
