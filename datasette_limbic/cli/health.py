"""``datasette limbic health``: what wants looking after in a memory."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from .. import connection
from ..config import Settings
from .common import reports_errors, takes_settings

_CUT = 60


@click.command("health")
@click.argument("database", type=click.Path(dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
@click.option(
    "--list", "only", metavar="NAME", help="One list alone: its name stands in [brackets]."
)
@click.option("--page", default=1, show_default=True, help="Page of that list.")
@click.option("--size", default=20, show_default=True, help="Rows of each list (1 to 1000).")
@reports_errors
@takes_settings
def health_command(
    database: str, as_json: bool, only: str | None, page: int, size: int, settings: Settings
) -> None:
    """What is broken in a memory, what wants a look, what is worth knowing.

    Rows that point nowhere, times that cannot be read, vectors that are missing, archived
    entities that held live ones together, names that clash, entities without relations or
    observations, texts too long for the model, relations that ended. Reads only; the exit code
    is 0 whatever is found. 'datasette limbic check' looks at the file itself as well.

    \b
      datasette limbic health memory.db
      datasette limbic health memory.db --list orphans --page 2
      datasette limbic health memory.db --json
    """
    from ..health import health_report

    conn = connection.connect(database, readonly=True, settings=settings)
    try:
        found = health_report(
            conn, settings=settings, only=only, page=page, size=size, file=database
        )
    finally:
        conn.close()
    click.echo(json.dumps(found, ensure_ascii=False, indent=2) if as_json else as_text(found))


def as_text(found: dict[str, Any]) -> str:
    """The report for people: findings with their rows, then what was not found in a line."""
    lines: list[str] = []
    for finding in found["findings"]:
        if finding["count"]:
            lines += [*_finding(finding, paged=found["only"] is not None), ""]
    for finding in found["findings"]:
        if finding["count"] is None:
            lines.append(f"not looked at: {finding['title']}: {finding['note']}")
    nothing = [finding["title"] for finding in found["findings"] if finding["count"] == 0]
    if nothing:
        lines.append("not found: " + "; ".join(nothing))
    counts = found["counts"]
    lines.append(
        f"{counts['broken']} broken, {counts['attention']} want a look, "
        f"{counts['note']} worth knowing"
    )
    integrity = found["integrity"]
    lines.append(
        f"{integrity['made']} quick checks of the rows are among these; "
        f"{len(integrity['left_out'])} that take longer: {integrity['command']}"
    )
    return "\n".join(lines)


def _finding(finding: dict[str, Any], *, paged: bool) -> list[str]:
    out = [f"{finding['severity']}: {finding['title']}: {finding['count']:,} [{finding['name']}]"]
    out += [f"    {_row(finding, row)}" for row in finding["rows"]]
    if finding["pages"] > 1 or finding["page"] > 1:
        if paged:
            out.append(f"    page {finding['page']:,} of {finding['pages']:,}")
        else:
            out.append(f"    … --list {finding['name']} shows all")
    if finding["note"]:
        out.append(f"    ({finding['note']})")
    advice = finding["what_to_do"]
    out.append(f"  {advice['text']}")
    if advice["command"]:
        out.append(f"    {advice['command']}")
    out += [f"    {statement}" for statement in advice["sql"]]
    return out


def _row(finding: dict[str, Any], row: dict[str, Any]) -> str:
    """A row in one line: ``name 'Atlas', degree 4``."""
    shown = [(name, row[name]) for name in finding["columns"] if row[name] is not None]
    return ", ".join(f"{_words(name)} {_value(name, value)}" for name, value in shown)


def _words(column: str) -> str:
    """``only_link`` and ``entityType`` as one says them."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column).replace("_", " ").lower()


def _value(name: str, value: Any) -> str:
    if name == "names":
        return " | ".join(repr(each["name"]) + " (archived)" * each["archived"] for each in value)
    if name == "sides":
        return " | ".join(
            f"{side['entities']:,}: " + ", ".join(repr(each["name"]) for each in side["names"])
            for side in value
        )
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "share_left_out":
        return f"{value:.0%}"
    if isinstance(value, str):
        return repr(value if len(value) <= _CUT else value[: _CUT - 1] + "…")
    return f"{value:,}"
