"""``datasette limbic …``: one module per command, each imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

import click

# name → module and object. Datasette registers the group at each start, whatever it is started
# for; importing every command then would cost as much as Datasette itself.
COMMANDS = {
    "init": ("init", "init_command"),
    "import": ("import_", "import_command"),
    "export": ("export", "export_command"),
    "sync": ("sync", "sync_command"),
    "index": ("index", "index_command"),
    "search": ("search", "search_command"),
    "record": ("record", "record_group"),
    "add": ("add", "add_command"),
    "tune": ("tune", "tune_command"),
    "prune": ("prune", "prune_command"),
    "split": ("split", "split_command"),
    "merge": ("merge", "merge_command"),
    "delete": ("delete", "delete_command"),
    "archive": ("archive", "archive_command"),
    "restore": ("restore", "restore_command"),
    "end": ("end", "end_command"),
    "correct": ("correct", "correct_command"),
    "merge-entities": ("merge_entities", "merge_entities_command"),
    "changes": ("changes", "changes_command"),
    "undo": ("undo", "undo_command"),
    "duplicates": ("duplicates", "duplicates_command"),
    "report": ("report", "report_command"),
    "health": ("health", "health_command"),
    "reflect": ("reflect", "reflect_command"),
    "review": ("review", "review_command"),
    "status": ("status", "status_command"),
    "check": ("check", "check_command"),
    "demo": ("demo", "demo_command"),
    "decay": ("decay", "decay_command"),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when used (after Click's documentation)."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), name)
        return command


@click.group(cls=LazyGroup)
def limbic() -> None:
    """See, search and look after the memory of AI agents.

    A memory is one SQLite file: entities, their observations, and relations. Start with one
    that you have, or with the sample ('datasette limbic demo'):

    \b
      datasette limbic import memory.jsonl memory.db
      datasette limbic sync memory.db
      datasette limbic search memory.db "where does Maria live now"
      datasette memory.db     # then open /memory/-/limbic
    """
