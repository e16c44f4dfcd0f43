"""``datasette limbic init``."""

from __future__ import annotations

import click

from .. import connection, schema
from .common import reports_errors


@click.command("init")
@click.argument("database", type=click.Path(dir_okay=False))
@reports_errors
def init_command(database: str) -> None:
    """Create the tables of a memory in DATABASE, or bring them up to date.

    Makes the file when it is not there. Running it again changes nothing. 'import' and 'demo'
    do this by themselves; you need it to write into an empty memory with other tools:

    \b
      datasette limbic init memory.db
      sqlite-utils insert memory.db entities - <<< '{"name": "Ana", "entity_type": "Person"}'
    """
    conn = connection.connect(database, create=True)
    try:
        ran = schema.init(conn)
    finally:
        conn.close()
    click.echo(f"{database}: ran {', '.join(ran)}" if ran else f"{database}: already up to date")
