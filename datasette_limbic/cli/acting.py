"""What the commands that act share: first the diff, and only with --yes the deed."""

from __future__ import annotations

import functools
import getpass
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import click
from click.core import ParameterSource
from datasette.utils.sqlite import sqlite3

from .. import connection
from ..config import Settings
from ..errors import BadParameter
from ..reports.entities import typed
from ..serving import MAX_CLIENT
from ..text import storable
from . import diffs
from .bars import say
from .common import reports_errors, takes_settings
from .printing import as_json, printable, shell_word

MAX_BASIS = 2000
"""Characters of a basis that still goes into a command line to be copied."""
_NOT_AGAIN = frozenset(("yes", "dry_run", "as_json", "basis"))
_OPTIONS = (
    click.option("--yes", is_flag=True, help="Do it; without this nothing is changed"),
    click.option("--dry-run", is_flag=True, help="Only show what would be done: the default"),
    click.option(
        "--basis",
        metavar="TOKEN",
        help="Of the proposal that was looked at: refused if what it is about changed since",
    ),
    click.option("--actor", metavar="NAME", help="Who says yes, for the log; default: the user"),
    click.option(
        "--no-embed", is_flag=True, help="Call no model: search by meaning follows at the next sync"
    ),
    click.option("--json", "as_json", is_flag=True, help="The answer as the JSON API gives it"),
)


class Acting:
    """One call of a command that acts: what was asked for besides the action's arguments."""

    def __init__(
        self,
        settings: Settings,
        *,
        yes: bool,
        dry_run: bool,
        basis: str | None,
        actor: str | None,
        no_embed: bool,
        as_json: bool,
    ) -> None:
        if yes and dry_run:
            raise BadParameter("--yes and --dry-run are both given: use one of them")
        self.settings, self.yes, self.basis = settings, yes, basis
        self.actor = by(actor)
        self.embed, self.as_json = not no_embed, as_json

    def open(self, database: str) -> Any:
        """The file, for reading alone where nothing is to be changed; closed with the block."""
        return closing(connection.connect(database, readonly=not self.yes, settings=self.settings))

    def act(
        self, conn: Any, name: str, arguments: Mapping[str, Any], insight: int | None = None
    ) -> dict[str, Any]:
        """The answer of ``actions.acting.act``."""
        from ..actions.acting import act

        if self.yes:
            say("Doing it, and embedding what changes …")
        return act(
            conn,
            name,
            arguments,
            dry_run=not self.yes,
            basis=self.basis,
            actor=self.actor,
            insight=insight,
            embed=self.embed,
            settings=self.settings,
        )

    def run(self, database: str, name: str, arguments: Mapping[str, Any]) -> None:
        """Do an action, or say what it would do, and print that. ``entity`` among the arguments,
        ``keep`` and ``others`` are as somebody typed them: see ``typed``."""
        with self.open(database) as conn:
            answer = self.act(conn, name, _with_entities(conn, arguments))
            self.print(conn, database, answer)

    def print(self, conn: Any, database: str, answer: Mapping[str, Any]) -> None:
        """An answer of ``act``."""
        if self.as_json:
            click.echo(as_json(answer))
        else:
            click.echo("\n".join(self.text(conn, database, answer)))

    def text(self, conn: Any, database: str, answer: Mapping[str, Any]) -> Iterator[str]:
        """What it would do, or did: warnings first, then every row, then how to go on."""
        from ..actions.described import described

        yield printable(" ".join(answer["summary"].split()))
        yield from warnings(answer)
        if answer["dry_run"]:
            yield from diffs.lines(*described(conn, answer["diff"]))
            yield ""
            yield from how_to(answer["basis"])
            return
        change = str(answer["change"])
        try:
            yield from list(diffs.lines(*described(conn, answer["diff"])))
        except sqlite3.Error:  # it is done, so that this must not look like a failure
            yield f"\nWhat it did: {hint('changes', database, change)}"
        yield ""
        reason = answer["search"]["reason"]
        if reason:
            yield f"Not found by meaning yet: {printable(reason)}"
        yield f"Done: change {change}. To take it back: {hint('undo', database, change)}"


def takes_action(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of all that act, and hand it an ``Acting``."""

    @functools.wraps(function)
    def wrapped(
        *args: Any,
        settings: Settings,
        yes: bool,
        dry_run: bool,
        basis: str | None,
        actor: str | None,
        no_embed: bool,
        as_json: bool,
        **kwargs: Any,
    ) -> Any:
        acting = Acting(
            settings, yes=yes, dry_run=dry_run, basis=basis, actor=actor, no_embed=no_embed,
            as_json=as_json,
        )  # fmt: skip
        return function(*args, acting=acting, **kwargs)

    made = reports_errors(takes_settings(wrapped))
    for option in reversed(_OPTIONS):
        made = option(made)
    return made


def by(actor: str | None) -> str | None:
    """Who acts, for the log: as given, else the operating system's name of whoever runs the
    command; None where that has none. An empty name is none given. Cut to MAX_CLIENT characters,
    as over HTTP."""
    name = storable(actor or "").strip()
    if not name:
        try:
            name = storable(getpass.getuser()).strip()
        except (KeyError, OSError, ImportError):  # no such user id, or no way to ask
            return None
    return name[:MAX_CLIENT] or None


def warnings(answer: Mapping[str, Any]) -> Iterator[str]:
    """What to think of before saying yes."""
    yield from (f"Warning: {printable(' '.join(w.split()))}" for w in answer["warnings"])


def how_to(basis: str) -> Iterator[str]:
    """That nothing was changed, and the command line that changes it."""
    long = len(basis) > MAX_BASIS
    yield "Nothing has been changed. To do it:"
    yield f"  {again(None if long else basis)}"
    if long:
        yield (
            f"The basis of {len(basis):,} characters is left out. --json gives it: with --basis it "
            "is refused if what was shown has changed."
        )


def again(basis: str | None) -> str:
    """The command line that was given, with --yes and this basis."""
    context = click.get_current_context()
    options: list[str] = []
    arguments: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name)
        if name in _NOT_AGAIN or given is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        values = value if isinstance(value, tuple) else (value,)
        if isinstance(parameter, click.Argument):
            arguments += map(str, values)
        elif isinstance(parameter, click.Option) and parameter.is_flag:
            options.append(parameter.opts[-1])
        else:
            for each in values:
                options += [max(parameter.opts, key=len), str(each)]
    options += ["--yes", *(["--basis", basis] if basis is not None else [])]
    if any(word.startswith("-") for word in arguments):
        return command(context.info_name or "", *options, "--", *arguments)
    return command(context.info_name or "", *arguments, *options)


def hint(*words: str) -> str:
    """Another command to go on with, under the settings of this one."""
    config = click.get_current_context().params.get("config")
    return command(*words, *([] if config is None else ["--config", str(config)]))


def command(*words: str) -> str:
    """``datasette limbic …``, quoted for a shell."""
    return " ".join(["datasette limbic", *map(shell_word, words)])


def _with_entities(conn: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(arguments)
    for name in ("entity", "keep"):
        if isinstance(found.get(name), str):
            found[name] = typed(conn, found[name])
    if "others" in found:
        found["others"] = [typed(conn, each) for each in found["others"]]
    return found
