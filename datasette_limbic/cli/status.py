"""``datasette limbic status``."""

from __future__ import annotations

import json
from typing import Any

import click

from .. import connection, status
from ..config import Settings
from .common import reports_errors, takes_settings
from .index import text as retrieval_text


@click.command("status")
@click.argument("database", type=click.Path(dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON")
@reports_errors
@takes_settings
def status_command(database: str, as_json: bool, settings: Settings) -> None:
    """What a memory holds, whether its vectors are in step, the parameters in force.

    Reads only.

    \b
      datasette limbic status memory.db
    """
    conn = connection.connect(database, readonly=True, settings=settings)
    try:
        found = status.status(conn, settings=settings)
    finally:
        conn.close()
    click.echo(json.dumps(found, ensure_ascii=False, indent=2) if as_json else as_text(found))


def as_text(found: dict[str, Any]) -> str:
    """The status for people."""
    counts, recency = found["counts"], found["recency"]
    lines = [
        f"{counts['entities']:,} entities ({counts['archived']:,} archived), "
        f"{counts['observations']:,} observations ({counts['flagged']:,} flagged), "
        f"{counts['relations']:,} relations ({counts['ended_relations']:,} ended)",
        f"{counts['accesses']:,} logged accesses, "
        f"{counts['co_occurrences']:,} co-occurring pairs, {counts['imports']:,} imports",
    ]
    lines += _review(found["review"])
    lines += _signals(found["signals"])
    if found["unreadable_validity"]:
        lines.append(
            f"warning: {found['unreadable_validity']:,} rows have a valid_from or valid_to that "
            "SQLite cannot read, so it does not count: write it as 2026-11-29 12:00:00 (UTC)"
        )
    vectors = found["vectors"]
    if not vectors["usable"]:
        lines.append(f"vectors: not usable: {vectors['reason']}")
    for name, state in vectors["collections"].items():
        lines.append(
            f"vectors of {name}: {state['indexed']:,} of {state['items']:,}, "
            f"model {state['model'] or 'none yet'}, dimension {state['dimension'] or '–'}, "
            + (
                "in step"
                if state["in_step"]
                else f"{state['pending']:,} pending: run 'datasette limbic sync'"
            )
        )
    if vectors["retrieval"] is not None:
        lines += retrieval_text(vectors["retrieval"])
    lines.append("parameters: " + ", ".join(f"{k} {v}" for k, v in found["parameters"].items()))
    if found["parameter_warning"]:
        lines.append(f"warning: {found['parameter_warning']}")
    lines.append(
        f"recency at reading time: half-life {recency['recency_half_life_days']:g} days "
        f"(insights {recency['insight_half_life_days']:g}), longer with degree; exempt: "
        f"{', '.join(recency['exempt_types']) or 'none'}"
    )
    return "\n".join(lines)


# by name in the JSON: one of them, several
REVIEWED = {
    "split_candidates": ("split candidate", "split candidates"),
    "approaching": ("approaching its threshold", "approaching their threshold"),
    "flagged_observations": ("flagged observation", "flagged observations"),
    "contradictions": ("contradiction", "contradictions"),
    "stale_entities": ("stale entity", "stale entities"),
    "large_entities": ("large entity", "large entities"),
    "orphans": ("orphan", "orphans"),
}


def _review(found: dict[str, Any]) -> list[str]:
    """What needs review, how old what is known of it is, and when it was last looked through."""
    counts = found["counts"]
    said = [
        f"{counts[name]:,} {one if counts[name] == 1 else several}"
        for name, (one, several) in REVIEWED.items()
        if counts[name]
    ]
    lines = [f"needs review: {', '.join(said) or 'nothing that is known'}"]
    kept, last = found["kept"], found["reviewed"]
    if kept is None:
        lines.append(f"  {found['reason']}")
    elif not kept["computed_at"]:
        lines.append("  observations have not been compared yet: run 'datasette limbic sync'")
    else:
        changed = kept["changed_since"]
        lines.append(
            f"  compared {kept['computed_at']} (UTC), {changed:,} "
            f"{'entity' if changed == 1 else 'entities'} changed since"
            + (", and so did the settings or the model" if kept["settings_changed"] else "")
            + (": run 'datasette limbic sync'" if changed or kept["settings_changed"] else "")
        )
    looked = f"last looked through {last['at']}" if last else "never marked as looked through"
    due = "; once a month is good practice" if found["review_due"] else ""
    return [*lines, f"  {looked}{due}: 'datasette limbic report' lists it"]


def _signals(found: dict[str, Any]) -> list[str]:
    """What use has left, and how long it is kept."""
    searches, events, days = found["searches"], found["events"], found["log_retention_days"]
    lines = ["searches recorded: none yet"]
    if searches["count"]:
        lines = [
            f"searches recorded: {searches['count']:,}, from {searches['first']} "
            f"to {searches['last']} (UTC)"
        ]
    lines += [
        f"  by {_caller(each)}: {each['searches']:,}, last {each['last']}" for each in found["by"]
    ]
    lines.append(
        f"results opened from a search {events['opened']:,}, rated useful {events['useful']:,}, "
        f"not useful {events['not_useful']:,}; last access {found['last_access'] or 'unknown'}"
    )
    kept = f"logs are kept {'for ever' if days is None else f'for {days:g} days'}"
    if found["baseline_share"]:
        kept += f"; {found['baseline_share']:.0%} of the searches are served the baseline"
    lines.append(kept)
    return lines


def _caller(each: dict[str, Any]) -> str:
    client, actor = (None if v is None else str(v)[:80] for v in (each["client"], each["actor"]))
    return f"{client or 'an unnamed client'} ({f'actor {actor}' if actor else 'not signed in'})"
