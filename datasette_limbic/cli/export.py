"""``datasette limbic export``."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO

import click

from .. import connection, schema
from ..errors import BadParameter, CannotWrite, LimbicError
from ..exporting import export_full, export_mcp
from ..exporting.mcp import Progress
from ..exporting.output import check_output, whole_file
from ..exporting.tables import count, present
from .common import reports_errors

_GRAPH = ("entities", "observations", "relations")


@click.command("export")
@click.argument("database", type=click.Path(dir_okay=False))
@click.argument("output", type=click.Path(dir_okay=True, allow_dash=True), default="-")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["mcp", "full"]),
    default="mcp",
    show_default=True,
    help="mcp: the graph, for MCP memory servers. full: everything, to restore it from.",
)
@click.option(
    "--include-archived", is_flag=True, help="With mcp: write archived entities too, as live ones."
)
@click.option(
    "--include-ended",
    is_flag=True,
    help="With mcp: write what is no longer or not yet valid too, as if it were.",
)
@click.option(
    "--vectors",
    is_flag=True,
    help="With full: write the embeddings too, so that nothing has to be embedded again.",
)
@click.option("--force", is_flag=True, help="Replace OUTPUT where it exists.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@reports_errors
def export_command(
    database: str,
    output: str,
    kind: str,
    include_archived: bool,
    include_ended: bool,
    vectors: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Write the memory DATABASE to OUTPUT, or to standard output.

    \b
      datasette limbic export memory.db memory.jsonl
      datasette limbic export memory.db | gzip > memory.jsonl.gz
      datasette limbic export memory.db backup.ndjson --format full

    The format mcp is what MCP memory servers read and write: point MEMORY_FILE_PATH of the
    official server to the file and it goes on from there.

    \b
      {"type":"entity","name":"Ana","entityType":"Person","observations":["likes tea"]}
      {"type":"relation","from":"Ana","to":"Atlas","relationType":"works_on"}

    It holds what is live: archived entities are left out, and facts that are not valid now.
    It has no place for times, confidence or history. The format full keeps these: every column
    of every table but indexes, one row a line, for an empty memory to be restored from:

    \b
      datasette limbic import backup.ndjson new.db

    What was left out is said at the end, on standard error. The database is only read, at one
    state, also while another program writes. OUTPUT appears once it is whole; one that exists
    is replaced with --force alone.
    """
    if kind == "full" and (include_archived or include_ended):
        option = "--include-archived" if include_archived else "--include-ended"
        raise BadParameter(f"{option} goes with --format mcp: --format full keeps all")
    if kind == "mcp" and vectors:
        raise BadParameter("--vectors goes with --format full: no memory server reads vectors")
    path = None if output == "-" else check_output(output, database, force=force)
    conn = connection.connect(database, readonly=True)
    try:
        schema.require_memory(conn, database)
        with ExitStack() as stack:
            progress: Progress | None = None
            if path and not quiet and sys.stderr.isatty():
                tables = [
                    table
                    for table in present(conn, vectors=vectors)
                    if kind == "full" or table.name in _GRAPH
                ]
                rows = sum(count(conn, table) for table in tables)
                bar: Any = stack.enter_context(
                    click.progressbar(length=rows, label="Exporting", file=sys.stderr)
                )
                progress = bar.update
            opened = whole_file(path) if path else _standard_output()
            out = stack.enter_context(opened)
            if kind == "full":
                summary = export_full(conn, out, vectors=vectors, progress=progress)
            else:
                summary = export_mcp(
                    conn,
                    out,
                    include_archived=include_archived,
                    include_ended=include_ended,
                    progress=progress,
                )
    finally:
        conn.close()
    if not quiet:
        click.echo(summary.text(), err=True)


@contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Standard output as UTF-8 with ``\\n``, whatever the terminal or the system would have.

    A reader that stops early (``| head``) ends the command without a word.
    """
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
    try:
        yield out
        out.flush()
    except OSError as error:
        if isinstance(error, LimbicError):
            raise
        # what is still in the buffer would fail again, with a traceback, when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        raise CannotWrite(f"standard output cannot be written ({error.strerror})") from error
    finally:
        out.detach()  # the stream is not ours to close
