"""The review queue on a terminal: the list, and one decision with what speaks for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tabulate import tabulate

from ..insights.words import words
from ..text import counted
from .acting import Acting, again, hint
from .printing import line, printable


def listed(database: str, found: Mapping[str, Any]) -> Iterator[str]:
    """What ``insights.standing.standing`` gives."""
    if found["reason"]:
        yield f"Contradictions, duplicates and splits: {printable(found['reason'])}"
    elif found["kept"]["settings_changed"] or found["kept"]["changed_since"]:
        changed = counted(found["kept"]["changed_since"], "entity", "entities")
        said = "the settings" if found["kept"]["settings_changed"] else changed
        yield f"Out of date: {said} changed since. Look again: {hint('reflect', database)}"
    if not found["insights"]:
        yield _nothing(database, found)
        return
    rows = [
        [
            row["id"],
            line(_kind(row), 16),
            f"{row['confidence']:.2f}",
            line(row["title"], 80),
            _standing(row),
        ]
        for row in found["insights"]
    ]
    table: str = tabulate(rows, headers=["id", "kind", "conf.", "what", ""], disable_numparse=True)
    yield table
    first = found["insights"][0]["id"] if found["first"] is None else found["first"]
    in_full = hint("review", database, str(first))
    yield f"\n{found['pending']:,} pending. One of them in full: {in_full}"
    if found["pages"] > 1 or found["page"] > 1:
        yield f"Page {found['page']:,} of {found['pages']:,}: --page turns it."


def _nothing(database: str, found: Mapping[str, Any]) -> str:
    if found["page"] > 1 and found["count"]:
        return f"No more on page {found['page']:,} of {found['pages']:,}."
    if found["pending"]:
        return f"No insight is such a one; {found['pending']:,} are pending."
    if found["judged"]:
        return f"Nothing waits for a decision: {found['judged']:,} judged, see --status all."
    return f"Nothing has been raised yet: {hint('reflect', database)}"


def _kind(row: Mapping[str, Any]) -> Any:
    known = words(row["kind"])
    return row["kind"] if known is None else known.one


def _standing(row: Mapping[str, Any]) -> str:
    if row["status"] != "pending":
        by = f" by {line(row['judged_by'], 20)}" if row["judged_by"] else ""
        return f"{row['status']}{by}"
    return "raised again" if row["judgements"] else ("" if row["ours"] else "imported")


def one(
    conn: Any, database: str, found: Mapping[str, Any], decision: str | None, acting: Acting
) -> Iterator[str]:
    """One decision: what speaks for it and what a yes would change, or what was done."""
    insight = found["insight"]
    if found["decision"] is None:
        yield from _evidence(insight)
    number = str(insight["id"])
    if found["decision"] is not None:
        yield from _done(conn, database, found, acting)
    elif decision in ("dismiss", "reopen"):
        yield "\nNothing has been changed. To do it:"
        yield f"  {again(None)}"
    elif insight["status"] != "pending":
        yield from _judged(database, found)
    elif found["refused"] is not None:
        yield f"\nIt cannot be approved: {printable(found['refused'])}"
        yield f"To let it go: {hint('review', database, number, '--dismiss', '--yes')}"
    elif found["answer"] is None:
        yield "\nIt came with an import: approving notes that it was seen, and no more."
        yield from _ways(database, number, decision)
    else:
        yield "\nWhat approving would do:"
        if decision == "approve":
            yield from acting.text(conn, database, found["answer"])
            return
        yield from _proposal(conn, found["answer"])
        for name, ids in found["options"].items():
            yield f"\n--{name} chooses: {', '.join(map(str, ids[:20]))}"
        yield from _ways(database, number, decision)


def _evidence(insight: Mapping[str, Any]) -> Iterator[str]:
    place = f", {insight['position']:,} of {insight['pending']:,}" if insight["position"] else ""
    kind = line(_kind(insight), 40)
    yield (
        f"Insight {insight['id']}, {kind}, {insight['status']}{place}, confidence "
        f"{insight['confidence']:.2f}"
    )
    yield line(insight["title"], 300)
    yield line(insight["body"], 2000)
    yield from _rows(insight)
    for judged in insight["judged_before"]:
        by = f" by {line(judged['judged_by'], 40)}" if judged["judged_by"] else ""
        note = f" (“{line(judged.get('note'), 300)}”)" if judged.get("note") else ""
        yield (
            f"Before, {judged['status']}{by} at {line(judged['judged_at'])[:19]}{note}. "
            f"Since then: {line(judged.get('what_changed'), 500)}"
        )


def _rows(insight: Mapping[str, Any]) -> Iterator[str]:
    """Observations or entities that it is about, with the ids by which one chooses."""
    facts = insight["facts"] if insight["ours"] and isinstance(insight["facts"], dict) else {}
    sides = [facts.get("earlier"), facts.get("later")]
    found = facts.get("observations")  # of a split their number
    observations = found if isinstance(found, list) else None
    for row in observations or facts.get("entities") or sides:
        if isinstance(row, dict) and "id" in row:
            text = row.get("content", row.get("name"))
            day = line(row.get("created_at"))[:10]
            yield f"  {line(row['id'], 20):>6}  {day:10}  {line(text, 120)}"


def _proposal(conn: Any, answer: Mapping[str, Any]) -> Iterator[str]:
    from ..actions.described import described
    from . import diffs
    from .acting import warnings

    yield line(answer["summary"], 2000)
    yield from warnings(answer)
    yield from diffs.lines(*described(conn, answer["diff"]))


def _ways(database: str, number: str, decision: str | None) -> Iterator[str]:
    yield "\nNothing has been changed. To decide:"
    for way in ("--approve",) if decision == "approve" else ("--approve", "--dismiss"):
        yield f"  {hint('review', database, number, way, '--yes')}"


def _judged(database: str, found: Mapping[str, Any]) -> Iterator[str]:
    insight, change = found["insight"], found["change"]
    by = f" by {line(insight['judged_by'], 40)}" if insight["judged_by"] else ""
    note = f": “{line(insight['note'], 1000)}”" if insight["note"] else ""
    yield (f"\n{insight['status'].capitalize()}{by} at {line(insight['judged_at'])[:19]}{note}")
    if change is not None and change["undone_by"] is None:
        yield f"To take it back: {hint('undo', database, str(change['id']))}"
    else:
        number = str(insight["id"])
        yield f"To open it again: {hint('review', database, number, '--reopen', '--yes')}"


def _done(conn: Any, database: str, found: Mapping[str, Any], acting: Acting) -> Iterator[str]:
    insight = found["insight"]
    if found["answer"] is not None:
        yield from acting.text(conn, database, found["answer"])
    else:
        word = "Open again" if found["decision"] == "reopen" else insight["status"].capitalize()
        yield f"{word}: insight {insight['id']}, {line(insight['title'], 200)}"
    if found["next"] is not None:
        yield f"Next: {hint('review', database, str(found['next']))}"
    else:
        yield f"{insight['pending']:,} pending: {hint('review', database)}"
