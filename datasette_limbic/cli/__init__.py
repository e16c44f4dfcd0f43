"""``datasette limbic …``: one module per command."""

from __future__ import annotations

import click

from .decay import decay_command
from .demo import demo_command
from .import_ import import_command
from .init import init_command
from .search import search_command
from .status import status_command
from .sync import sync_command


@click.group()
def limbic() -> None:
    """See, search and look after the memory of AI agents.

    A memory is one SQLite file: entities, their observations, and relations. Start with one
    that you have, or with the sample:

    \b
      datasette limbic import memory.jsonl memory.db
      datasette limbic sync memory.db
      datasette limbic search memory.db "where does Maria live now"
      datasette memory.db     # then open /memory/-/limbic
    """


for command in (
    init_command,
    import_command,
    sync_command,
    search_command,
    status_command,
    demo_command,
    decay_command,
):
    limbic.add_command(command)
