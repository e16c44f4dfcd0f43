"""The consolidation report for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tabulate import tabulate

from .. import times

Row = Mapping[str, Any]
_Columns = dict[str, Callable[[Row], Any]]


def _short(value: Any, length: int) -> str:
    text = " ".join(str("–" if value is None else value).split())
    return text if len(text) <= length else text[: length - 1] + "…"


def _day(value: Any) -> str:
    moment = times.to_sql(value)
    return ("never" if not value else _short(value, 10)) if moment is None else moment[:10]


def _topics(row: Row) -> str:
    return _short("; ".join(f"{t['label']} ({t['size']})" for t in row["topics"]), 60)


_NAMED: _Columns = {
    "id": lambda row: row["id"],
    "entity": lambda row: _short(row["name"], 32),
    "type": lambda row: _short(row["entityType"], 12),
}
_SIZED: _Columns = {
    "obs.": lambda row: row["observations"],
    "threshold": lambda row: row["threshold"],
}
_SPLIT: _Columns = {
    **_NAMED,
    **_SIZED,
    "diversity": lambda row: row["diversity"],
    "score": lambda row: row["split_score"],
    "topics": _topics,
}
_SCORES: _Columns = {
    "rule": lambda row: row["rule"],
    "cosine": lambda row: row["cosine"],
    "containment": lambda row: row["containment"],
}
# list → title, what to say where there is none, columns
_SHOWN: dict[str, tuple[str, str, _Columns]] = {
    "contradictions": (
        "Contradictions? (alike but for a number, date, name or negation)",
        "none found",
        {
            "entity": lambda row: _short(row["entity"], 20),
            "ids": lambda row: f"{row['earlier_id']}, {row['later_id']}",
            "earlier": lambda row: _short(row["earlier"], 36),
            "later": lambda row: _short(row["later"], 36),
            "differs in": lambda row: _short(row["difference"], 28),
            "cosine": lambda row: row["cosine"],
        },
    ),
    "flagged_observations": (
        "Flagged observations (like an earlier one of the same entity)",
        "none is flagged",
        {
            "entity": lambda row: _short(row["entity"], 20),
            "id": lambda row: row["id"],
            "observation": lambda row: _short(row["content"], 36),
            "like": lambda row: row["similar_to"],
            "which says": lambda row: _short(row["similar_content"], 36),
            **_SCORES,
        },
    ),
    "split_candidates": (
        "Split candidates (over the threshold, with topics that stand apart)",
        "no entity wants splitting",
        _SPLIT,
    ),
    "approaching": ("Approaching (from 80 % of the threshold)", "no entity comes near", _SPLIT),
    "stale_entities": (
        "Stale entities (first those that nothing is linked to)",
        "no entity is stale",
        {
            **_NAMED,
            "standing": lambda row: row["standing"],
            "days": lambda row: round(row["stale_for_days"]),
            "accesses": lambda row: row["access_count"],
            "last": lambda row: _day(row["last_access"]),
            "links": lambda row: row["degree"],
            "consolidation": lambda row: row["consolidation_importance"],
            "recency": lambda row: row["temporal_score"],
        },
    ),
    "large_entities": (
        "Large entities (over the threshold, whatever the topics)",
        "no entity is over its threshold",
        {
            **_NAMED,
            **_SIZED,
            "accesses": lambda row: row["access_count"],
            "last": lambda row: _day(row["last_access"]),
        },
    ),
}
_TEXT = ("entity", "type", "earlier", "later", "differs in", "observation", "which says", "topics")


def as_text(report: Mapping[str, Any]) -> str:
    """The report for people: counts, warnings, then a table of each list."""
    lines = [*_summary(report), *_notes(report)]
    for name in _SHOWN:
        if name in report:
            lines += ["", *_section(name, report)]
    return "\n".join(lines)


def _summary(report: Mapping[str, Any]) -> list[str]:
    found = {k: "?" if v is None else f"{v:,}" for k, v in report["summary"].items()}
    return [
        f"{found['entities']} entities, {found['observations']} observations (not archived)",
        f"{found['contradictions']} contradictions?, {found['flagged_observations']} flagged "
        f"observations, {found['split_candidates']} split candidates, {found['approaching']} "
        f"approaching, {found['stale_entities']} stale (more than "
        f"{report['stale_days']:.15g} days), {found['large_entities']} large",
        f"pairs: {found['duplicates']} duplicates, {found['worth_a_look']} worth a look",
    ]


def _notes(report: Mapping[str, Any]) -> list[str]:
    kept, notes = report["kept"], []
    if not report["fresh"] and kept is not None:
        if not kept["computed_at"]:
            notes.append("nothing has been compared yet: run 'datasette limbic sync'")
        else:
            changed = _entities(kept["changed_since"])
            notes.append(
                f"as of {kept['computed_at']} (UTC), {changed} changed since"
                + (", settings or model too" if kept["settings_changed"] else "")
            )
    if report["similarity"]["reason"]:
        notes.append(f"note: {report['similarity']['reason']}")
    notes += [f"warning: {warning}" for warning in report["warnings"]]
    return notes


def _entities(count: int) -> str:
    return f"{count:,} entit{'y' if count == 1 else 'ies'}"


def _section(name: str, report: Mapping[str, Any]) -> list[str]:
    title, nothing, columns = _SHOWN[name]
    rows, paging = report[name], report["paging"].get(name)
    if paging is None:
        return [title, f"  not known: {report['reasons'][name]}"]
    if not paging["count"]:
        return [title, f"  {nothing}"]
    if not rows:
        return [title, f"  no more on page {paging['page']:,}: the list has {paging['pages']:,}"]
    table = tabulate(
        [[get(row) for get in columns.values()] for row in rows],
        headers=list(columns),
        floatfmt=".3f",
        missingval="–",
        disable_numparse=[at for at, head in enumerate(columns) if head in _TEXT],
    )
    more = []
    if paging["pages"] > 1:
        shown = f"page {paging['page']:,} of {paging['pages']:,}, {paging['count']:,} in all"
        more = [f"{shown}: --list {name} --page N"]
    return [title, table, *more]
