"""``datasette limbic import``."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from ..errors import BadParameter
from ..importing import import_files
from ..importing.import_job import Options
from .common import reports_errors


@click.command("import")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.argument("database", type=click.Path(dir_okay=False))
@click.option(
    "--create-missing",
    is_flag=True,
    help="Make an entity for each name that only relations mention, instead of leaving those "
    "relations out.",
)
@click.option(
    "--rejects",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write every line that was left out here, as JSON Lines: file, line, reason, raw.",
)
@click.option(
    "--restore-removed",
    is_flag=True,
    help="Bring back what these files brought before and what is missing here: deleted or edited "
    "since.",
)
@click.option(
    "--with-vectors",
    is_flag=True,
    help="Take over the vectors of an MCP Memory v2 file too, as a collection of llm.",
)
@click.option(
    "--vectors-model",
    metavar="MODEL",
    help="With --with-vectors: the model of llm that made them. Search then uses them; else they "
    "stand apart, in a collection of their own.",
)
@click.option(
    "--watch",
    "is_watching",
    is_flag=True,
    help="Import the files (JSON Lines) as they are, then what is added or changed in them, until "
    "stopped with Ctrl-C.",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch: how often to look.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@reports_errors
def import_command(
    files: tuple[Path, ...],
    database: str,
    create_missing: bool,
    rejects: Path | None,
    as_json: bool,
    quiet: bool,
    restore_removed: bool = False,
    with_vectors: bool = False,
    vectors_model: str | None = None,
    is_watching: bool = False,
    interval: float = 2.0,
) -> None:
    """Import memory files into DATABASE, which is made when it is not there.

    \b
      datasette limbic import memory.jsonl memory.db
      datasette limbic import work.jsonl home.json memory.db --rejects left-out.jsonl

    A file is recognised by what it holds, not by its name:

    \b
      JSON Lines, as MCP memory servers write them (often named memory.json)
        {"type":"entity","name":"Ana","entityType":"Person","observations":["likes tea"]}
        {"type":"relation","from":"Ana","to":"Atlas","relationType":"works_on"}
      a JSON array of such rows
      one object {"entities": [...], "relations": [...]}, such as read_graph answers
      the SQLite file of an MCP Memory v2 server, which may be running; it is never touched
      an NDJSON export of Engrama
      a full export of this program: into an empty DATABASE it restores everything

    \b
      datasette limbic import ~/mcp/memory.db mine.db
      datasette limbic import memory.jsonl memory.db --watch

    Rows without a type are told by their keys; _type, from_entity/to_entity, snake_case keys
    and observations as objects ({"text": ..., "timestamp": ...}) are read too, and so are
    createdAt, updatedAt, lastActivityAt, archivedAt, validFrom, validTo and confidence. Times
    may be ISO 8601 or Unix seconds or milliseconds; one that is not given stays unknown.
    History comes as {"type":"access","query":...,"accessedAt":...,"entities":[names]}.

    Entities of one name are merged and no observation is lost. Importing a file again is a sync:
    it adds and updates what changed in the file since, never resets counts, and leaves alone what
    was deleted, corrected or judged here. Names that differ in case or accents stay apart and are
    reported. All is one transaction: when it fails, DATABASE is as it was. Every line is
    accounted for; bad lines are left out and reported with the reason, and the rest comes in.

    Exit code 0, also where lines were left out; 1 where nothing could be read.
    """
    if is_watching:
        from .watch import follow

        if with_vectors:
            raise BadParameter(
                "--watch follows JSON Lines files, which hold no vectors: leave --with-vectors out"
            )
        if rejects:
            raise BadParameter(
                "--rejects holds what one import left out, and --watch makes many: import the "
                "files once with --rejects, or leave it out (limbic_import_rejects has them too)"
            )
        options = Options(create_missing=create_missing, restore_removed=restore_removed)
        follow(database, files, options, interval, as_json=as_json, quiet=quiet)
        return
    with ExitStack() as stack:
        progress = None
        if sys.stderr.isatty() and not quiet:
            size = sum(path.stat().st_size for path in files if path.is_file())
            bar: Any = stack.enter_context(
                click.progressbar(length=size, label="Importing", file=sys.stderr)
            )
            progress = bar.update
        summary = import_files(
            database,
            files,
            create_missing=create_missing,
            rejects_path=rejects,
            restore_removed=restore_removed,
            with_vectors=with_vectors,
            vectors_model=vectors_model,
            progress=progress,
        )
    for file in summary.files if quiet or as_json else ():
        if file.refused:
            click.echo(f"Error: {file.refused}", err=True)
    if quiet:
        return
    if as_json:
        click.echo(json.dumps(summary.as_dict(), ensure_ascii=False, indent=2))
        return
    click.echo(summary.text())
    if summary.rejects and rejects:
        click.echo(f"{summary.rejects:,} left out, kept in {rejects}")
    elif summary.rejects:
        click.echo(f"{summary.rejects:,} left out: --rejects FILE keeps them whole")
