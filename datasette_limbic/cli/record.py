"""``datasette limbic record …``: search, open and rate, and leave signals of use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

import click

from .. import connection, schema, serving
from ..answers import plain, public
from ..config import Settings
from ..errors import BadParameter
from ..search_log import RATINGS
from ..text import counted, storable
from .common import reports_errors, takes_settings
from .search import as_text, takes_search_arguments


def _shared(function: Callable[..., Any]) -> Callable[..., Any]:
    """What all three have."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="The answer as the JSON API gives it"),
        click.option("--client", help="Who asks, for the log: a name such as nightly-report"),
    ):
        function = option(function)
    return function


class _InOrder(click.Group):
    """A group that lists its commands as they are written here, in the order of their use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group("record", cls=_InOrder)
def record_group() -> None:
    """Search, open and rate as agents do, and let it be remembered.

    What is used ranks higher next time. 'datasette limbic search' and GET leave no trace; these
    write what POST /search, /open and /feedback write, straight into the file and without a
    server:

    \b
      datasette limbic record search memory.db "who fixed the geocoder" --client deploy-bot
      datasette limbic record open memory.db "Atlas" "Ana" --search-id 5f0c29a81b7d3e46
      datasette limbic record feedback memory.db 5f0c29a81b7d3e46 "Atlas" useful

    The search prints its id, and the other two tell with it what became of its results.
    """


@record_group.command("search")
@click.argument("database", type=click.Path(dir_okay=False))
@click.argument("query")
@takes_search_arguments
@click.option(
    "--confident-only", is_flag=True, help="Record nothing where the answer is not confident"
)
@_shared
@reports_errors
@takes_settings
def search_command(
    database: str, query: str, as_json: bool, settings: Settings, **arguments: Any
) -> None:
    """Search, and record what was returned.

    Each result counts as accessed, each pair of results as having come up together, and the
    search is logged with all its candidates. The candidates that were not returned count as
    nothing. The last line says what was recorded, and the id of the search.

    \b
      datasette limbic record search memory.db "who fixed the geocoder"
      datasette limbic record search memory.db "qué es Atlas" -n 3 --client deploy-bot
      datasette limbic record search memory.db deploy --json | jq -r .search_id
    """
    with _opened(database, settings) as conn:
        answer = serving.search_semantic(conn, query, settings=settings, **arguments)
    if as_json:
        _print_json(answer)
        return
    click.echo(as_text(answer))
    line = _recorded(answer["recorded"])
    if answer["search_id"]:
        line += f" Search id: {answer['search_id']}"
    click.echo(line)


@record_group.command("open")
@click.argument("database", type=click.Path(dir_okay=False))
@click.argument("names", metavar="NAME...", nargs=-1)
@click.option("--id", "ids", type=int, multiple=True, help="By id; may be given several times")
@click.option("--search-id", help="The search that found them: logged as opened from it")
@_shared
@reports_errors
@takes_settings
def open_command(
    database: str,
    names: tuple[str, ...],
    search_id: str | None,
    as_json: bool,
    settings: Settings,
    **arguments: Any,
) -> None:
    """Print entities whole, by their exact names, and record that they were opened.

    Each counts as accessed, and two or more as having come up together. Archived ones are
    opened too, and say so. A name that is not in the memory is said to be unknown; exit code 1
    where none is known. Put -- before names that begin with a dash.

    \b
      datasette limbic record open memory.db "Atlas" "Ana"
      datasette limbic record open memory.db --id 12 --id 7 --json
      datasette limbic record open memory.db --search-id 5f0c29a81b7d3e46 -- "-v flag"
    """
    if not names and not arguments["ids"]:
        raise BadParameter("nothing to open: give names of entities, or --id ID")
    _check_ids(arguments["ids"])
    wanted = [storable(name) for name in names]
    if search_id is not None:
        search_id = storable(search_id)
    with _opened(database, settings) as conn:
        answer = serving.open_nodes(
            conn, wanted, search_id=search_id, settings=settings, **arguments
        )
    if as_json:
        _print_json(answer)
    else:
        for detail in answer["entities"]:
            click.echo(_entity(plain(detail)) + "\n")
        if answer["unknown"]:
            click.echo(f"Unknown: {', '.join(_quoted(each) for each in answer['unknown'])}")
        for name, near in answer["suggestions"].items():
            click.echo(f"Perhaps, for {_quoted(name)}: {', '.join(map(_quoted, near))}")
        click.echo(_recorded(answer["recorded"]))
    if not answer["entities"]:
        click.get_current_context().exit(1)


@record_group.command("feedback")
@click.argument("database", type=click.Path(dir_okay=False))
@click.argument("search_id")
@click.argument("rated", metavar="[NAME] RATING", nargs=-1, required=True)
@click.option("--id", "entity_id", type=int, help="The entity's id, in place of its name")
@_shared
@reports_errors
@takes_settings
def feedback_command(
    database: str,
    search_id: str,
    rated: tuple[str, ...],
    entity_id: int | None,
    client: str | None,
    as_json: bool,
    settings: Settings,
) -> None:
    """Rate a result of a recorded search: RATING is useful or not_useful.

    NAME is the entity's name as the search printed it. The last rating of a result counts.
    Tuning learns from ratings, and ranking itself does not change by them. Put -- before
    SEARCH_ID where NAME begins with a dash.

    \b
      datasette limbic record feedback memory.db 5f0c29a81b7d3e46 "Atlas" useful
      datasette limbic record feedback memory.db 5f0c29a81b7d3e46 --id 12 not_useful
    """
    *names, rating = rated
    if len(names) != (entity_id is None):
        raise BadParameter(
            f"which result is rated is not clear ({' '.join(rated)!r:.80}): give its NAME, or "
            f"--id ID, and then one of {', '.join(RATINGS)}"
        )
    entity = storable(names[0]) if entity_id is None else entity_id
    _check_ids([] if entity_id is None else [entity_id])
    with _opened(database, settings) as conn:
        schema.require_memory(conn, database)
        done = serving.rate(conn, storable(search_id), entity, rating, client=client)
    if as_json:
        _print_json(done)
    else:
        verdict = rating.replace("_", " ")
        click.echo(f"Recorded: {_quoted(done['name'])} is {verdict} for {_quoted(done['query'])}.")


def _entity(detail: dict[str, Any]) -> str:
    """One entity for people: what it is, what is known of it, what it is linked to."""
    archived = f", archived {detail['archived_at']}" if detail["archived_at"] else ""
    lines = [
        f"{_line(detail['name'])} ({_line(detail['entityType'])}, id {detail['id']}{archived})"
    ]
    if archived and detail["archived_reason"]:
        lines.append(f"  archived because: {_line(detail['archived_reason'])}")
    for each in detail["observations"]:
        lines.append(f"  - {_line(each['content'])}{_ended(each)}")
    for each in detail["relations_out"]:
        lines.append(
            f"  {_line(each['relation_type'])} → {_line(each['entity_name'])}{_ended(each)}"
        )
    for each in detail["relations_in"]:
        lines.append(
            f"  ← {_line(each['relation_type'])} {_line(each['entity_name'])}{_ended(each)}"
        )
    if detail["cut"]:
        least = {key: "+" if key in detail["at_least"] else "" for key in detail["counts"]}
        counts = {key: f"{n:,}{least[key]}" for key, n in detail["counts"].items() if n is not None}
        lines.append(
            f"  … of {counts['observations']} observations, {counts['relations_out']} "
            f"relations from it and {counts['relations_in']} to it: open fewer to see more"
        )
    return "\n".join(lines)


def _ended(row: dict[str, Any]) -> str:
    return f" (until {row['valid_to']})" if row["valid_to"] else ""


def _line(value: Any) -> str:
    return " ".join(str("" if value is None else value).split())


def _check_ids(ids: Iterable[int]) -> None:
    for each in ids:
        if not -(2**63) <= each < 2**63:
            raise BadParameter(f"--id {each!s:.60} is no id: it is too large")


def _opened(database: str, settings: Settings) -> closing[Any]:
    return closing(connection.connect(database, settings=settings))


def _print_json(answer: dict[str, Any]) -> None:
    click.echo(json.dumps(public(plain(answer)), ensure_ascii=False, indent=2))


def _recorded(recorded: dict[str, Any]) -> str:
    if recorded["status"] == "nothing":
        reason: str = recorded["reason"]
        return f"{reason[0].upper()}{reason[1:]}."
    counts = [
        counted(recorded["accesses"], "access", "accesses"),
        counted(recorded["co_occurrences"], "pair", "pairs"),
    ]
    if recorded["opened"]:
        counts.append(f"{recorded['opened']:,} opened from the search")
    return f"Recorded: {', '.join(counts)}."


def _quoted(value: str | int) -> str:
    return f"id {value}" if isinstance(value, int) else json.dumps(value, ensure_ascii=False)
