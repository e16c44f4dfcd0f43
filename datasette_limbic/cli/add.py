"""``datasette limbic add``: add observations to one entity, and see what they are alike to."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import click

from .. import adding, adding_answer, connection
from ..answers import plain
from ..config import Settings
from ..errors import BadParameter
from ..text import counted
from .common import reports_errors, takes_settings

_SAID = {"duplicate": "says the same as", "contradiction": "contradicts?", "look": "is near"}


@click.command("add")
@click.argument("database", type=click.Path(dir_okay=False))
@click.argument("entity")
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@click.option("--id", "by_id", is_flag=True, help="ENTITY is the entity's id, not its name")
@click.option("--kind", help="What kind of observation it is, such as decision or preference")
@click.option("--confidence", type=float, help="Belief in it, 0 to 1; default: 1")
@click.option("--valid-from", metavar="TIME", help="It holds from then on, such as 2026-03-01")
@click.option("--valid-to", metavar="TIME", help="It holds until then")
@click.option("--json", "as_json", is_flag=True, help="The answer as the JSON API gives it")
@reports_errors
@takes_settings
def add_command(
    database: str,
    entity: str,
    texts: tuple[str, ...],
    by_id: bool,
    as_json: bool,
    settings: Settings,
    **details: Any,
) -> None:
    """Add observations to an entity that is there, each TEXT one fact.

    They are embedded with the file's own model, found by search at once, and compared with what
    the entity says already: what repeats an earlier observation is flagged, what differs from one
    in a number, a date, a name or a negation is shown as a contradiction to look into. Nothing
    else is changed. A text that is there already, character by character, is skipped. Exit code
    1 where nothing could be added. Put -- before texts that begin with a dash.

    \b
      datasette limbic add memory.db "Atlas" "The geocoder runs on port 8081 since March"
      datasette limbic add memory.db "Ana" "Vive en Lisboa" --valid-from 2026-03-01
      datasette limbic add memory.db 12 --id "Reviewed" "Signed off" --json
    """
    contents = [
        {"content": text, **{key: value for key, value in details.items() if value is not None}}
        for text in texts
    ]
    with closing(connection.connect(database, settings=settings)) as conn:
        answer = adding.add_observations(
            conn, [{**_entity(entity, by_id), "contents": contents}], settings=settings
        )
    if as_json:
        click.echo(json.dumps(adding_answer.public(plain(answer)), ensure_ascii=False, indent=2))
    else:
        click.echo("\n".join(_text(plain(answer))))
    if not answer["results"]:
        click.get_current_context().exit(1)


def _entity(entity: str, by_id: bool) -> dict[str, Any]:
    if not by_id:
        return {"entityName": entity}
    digits = entity.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise BadParameter(f"ENTITY is {entity!r:.60}, which is no id: use a whole number")
    return {"id": int(entity)}


def _text(answer: dict[str, Any]) -> list[str]:
    lines = []
    for result in answer["results"]:
        for each in result["added"]:
            flag = " (flagged)" if each["similarity_flag"] else ""
            lines.append(f"Added to {_quoted(result['entityName'])}, id {each['id']}{flag}")
            lines += [f"  {_similar(other)}" for other in each["similar"]]
        lines += [
            f"There already, id {each['id']}: {_quoted(each['content'])}"
            for each in result["skipped"]
        ]
    lines += [f"Not added: {each['error']}" for each in answer["rejected"]]
    counts = answer["counts"]
    lines.append(
        f"{counted(counts['added'], 'observation', 'observations')} added, "
        f"{counts['skipped']:,} there already, {counts['rejected']:,} not added."
    )
    if counts["added"]:
        for part, what in (
            ("similarity", "Compared by words alone"),
            ("search", "Not searched by meaning yet"),
        ):
            if answer[part]["reason"]:
                lines.append(f"{what}: {answer[part]['reason']}")
    return lines


def _similar(other: dict[str, Any]) -> str:
    figure = "" if other["cosine"] is None else f", cosine {other['cosine']:.2f}"
    difference = f" ({other['difference']})" if other["difference"] else ""
    return (
        f"{_SAID[other['kind']]} id {other['id']}: {_quoted(other['content'])}"
        f"{difference} [{other['rule']}{figure}]"
    )


def _quoted(value: str) -> str:
    short = value if len(value) <= 200 else value[:199] + "…"
    return json.dumps(short, ensure_ascii=False)
