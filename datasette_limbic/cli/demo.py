"""``datasette limbic demo``."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from .. import connection, schema, search
from ..importing import import_files
from ..sync import sync
from .common import callback_tracebacks, reports_errors
from .search import as_text

QUERY = "queue of delivery events without a broker"


@click.command("demo")
@click.argument("database", type=click.Path(dir_okay=False), default="demo.db")
@click.option("--query", default=QUERY, show_default=True, help="What to search for at the end")
@click.option("--serve", is_flag=True, help="Start Datasette on the result")
@click.option("-p", "--port", default=8001, show_default=True, help="Port, with --serve")
@reports_errors
def demo_command(database: str, query: str, serve: bool, port: int) -> None:
    """Make DATABASE from the sample memory in this package, and search it.

    The sample goes the way of any memory: import, sync (embedding with the offline model,
    indexing), search. It holds the two years of one team's agent, in English and Spanish.
    Running it again changes nothing.

    \b
      datasette limbic demo demo.db --serve
    """
    folder = Path(str(resources.files("datasette_limbic") / "demo"))
    conn = connection.connect(database, create=True)
    try:
        schema.init(conn)
        click.echo("Importing the sample memory")
        summary = import_files(conn, [folder / "memory.jsonl", folder / "history.jsonl"])
        click.echo(summary.text())
        click.echo("\nEmbedding and indexing, offline")
        with click.progressbar(length=1, label="Embedding", show_eta=False) as bar:

            def progress(done: int, total: int, _collection: str) -> None:
                bar.length = max(total, 1)
                bar.update(done - bar.pos)

            report = sync(conn, progress=progress)
        click.echo(report.text())
        click.echo(f"\nSearching for {query!r}")
        click.echo(as_text(search.search(conn, query, limit=5)))
    finally:
        conn.close()
    if serve:
        from datasette.cli import cli

        name = Path(database).stem
        click.echo(f"\nOpen http://127.0.0.1:{port}/{name}/-/limbic   (Ctrl+C stops)")
        callback_tracebacks(True)  # into the server's log
        cli.main(["serve", database, "-p", str(port)], standalone_mode=False)
