"""``datasette limbic reflect``: what the reports find goes into the review queue."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from datasette.utils import tilde_encode

from .. import connection
from ..config import Settings
from ..insights.model import KINDS
from ..insights.words import WORDS
from ..reports.keeping import Kept
from .acting import hint
from .bars import Bars
from .common import reports_errors, takes_settings
from .printing import as_json, shell_word


@click.command("reflect")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    help="Only this kind; may be given several times. Left out: all.",
)
@click.option("--json", "json_wanted", is_flag=True, help="The counts, as JSON.")
@reports_errors
@takes_settings
def reflect_command(
    database: str, kinds: tuple[str, ...], json_wanted: bool, settings: Settings
) -> None:
    """Put what the reports find into the review queue, for a person to decide.

    First looks again at what changed, as sync does. Then, one insight each: observations that
    contradict each other, clusters of duplicates, names that differ in case, accents or
    punctuation alone, archived entities that still join live ones, large entities about several
    things, entities that nobody asked for in a long time. The graph itself stays as it is:
    nothing is merged, split or archived before somebody approves it.

    Run it as often as you like. What waits for a decision is refreshed or, where nothing raises
    it any more, withdrawn. What was approved or dismissed is not raised again unless what it
    rests on has changed, and then the queue says what. Where nothing changed, nothing is written.

    \b
      datasette limbic reflect memory.db
      datasette limbic reflect memory.db --kind contradiction --kind duplicate
      datasette limbic review memory.db      # decide, one after another
    """
    from ..insights.reflecting import reflect

    with closing(connection.connect(database, settings=settings)) as conn, Bars() as bars:
        found = reflect(
            conn,
            settings=settings,
            kinds=kinds or None,
            progress=bars.show if sys.stderr.isatty() else None,
        )
    click.echo(as_json(found) if json_wanted else "\n".join(_text(found, database)))


def _text(found: dict[str, Any], database: str) -> Iterator[str]:
    if found["kept"]:
        yield Kept(**found["kept"]).text()
    for kind, counts in found["kinds"].items():
        yield f"{WORDS[kind].many + ':':18}{_counts(counts)}"
    for kind, reason in found["left_out"].items():
        yield f"{WORDS[kind].many + ':':18}left as they are: {reason}"
    again = found["total"]["raised_again"]
    if again:
        yield (
            f"{again:,} judged before came up again, since what "
            f"{'it rests' if again == 1 else 'they rest'} on has changed: each says what."
        )
    yield from _next(found["pending"], database)


def _counts(counts: dict[str, int]) -> str:
    said = [
        f"{count:,} {words}"
        for name, words in (
            ("added", "new"),
            ("raised_again", "raised again"),
            ("refreshed", "refreshed"),
            ("unchanged", "as before"),
            ("withdrawn", "withdrawn"),
            ("left_judged", "judged"),
        )
        if (count := counts[name])
    ]
    return ", ".join(said) or "none"


def _next(pending: int, database: str) -> Iterator[str]:
    if not pending:
        yield "Nothing waits for a decision."
        return
    waits = "1 waits" if pending == 1 else f"{pending:,} wait"
    yield f"{waits} for a decision, one after another:"
    yield f"  {hint('review', database)}"
    page = f"/{tilde_encode(Path(database).stem)}/-/limbic/review"
    yield f"  datasette {shell_word(database)}   # then open {page}"
