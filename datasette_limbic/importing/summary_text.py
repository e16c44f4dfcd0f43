"""The summary of an import as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .summary import FileSummary, ImportSummary

_SHOWN = 5


def summary_text(summary: ImportSummary) -> str:
    """What came in, what was there, what was left out and why; nothing that is zero."""
    parts = [_file_text(file) for file in summary.files]
    if summary.near_equal_count:
        names = [" / ".join(_short(name) for name in group) for group in summary.near_equal]
        parts.append(
            _listed(
                "Names that differ only in case or accents, kept apart",
                summary.near_equal_count,
                names,
            )
        )
    return "\n".join(parts)


def _file_text(file: FileSummary) -> str:
    if file.refused:
        return f"{file.name}: refused. {file.refused}"
    head = f"{file.name} ({file.format}): {_count(file.lines, file.unit)}"
    extra = [
        text
        for number, text in (
            (file.blank, f"{file.blank:,} blank"),
            (file.glued, f"{_count(file.glued, 'further record')} on shared lines"),
            (file.rejected, f"{file.rejected:,} rejected"),
        )
        if number
    ]
    lines = [", ".join([head, *extra])]
    for group, title in _TITLES.items():
        figures = getattr(file, group)
        if figures.lines if group != "observations" else figures.in_file or figures.gone:
            shown = {what: getattr(figures, what) for what in _SAID if hasattr(figures, what)}
            said = _parts(**shown)
            if group == "access":
                said += f", in {_count(figures.lines, 'line')}"
            lines.append(f"  {title:<13} {said}")
        if group == "entities" and file.stubs:
            lines.append(f"                {_count(file.stubs, 'stub')} made for missing names")
    if file.restored:
        said = ", ".join(f"{n:,} {table}" for table, n in file.restored.items() if n)
        lines.append(f"  restored      {said or 'nothing: the file holds no row'}")
    return "\n".join([*lines, *_warnings(file)])


_TITLES = {
    "entities": "entities",
    "observations": "observations",
    "relations": "relations",
    "access": "accesses",
    "access_counts": "access counts",
    "access_log": "access log",
    "co_occurrences": "co-occurrences",
    "insights": "insights",
    "vectors": "vectors",
}
# in the order in which they are said; "updated" and "moved" are some of the merged or those
# already there
_SAID = (
    "created",
    "added",
    "merged",
    "already_there",
    "updated",
    "moved",
    "replaced",
    "reopened",
    "removed_here",
    "gone",
    "skipped",
    "dangling",
)
_WORDS = {
    "moved": "moved here since",
    "removed_here": "removed here before",
    "gone": "gone from the source, kept",
}


def _warnings(file: FileSummary) -> list[str]:
    notes, found = file.notes, []
    if file.type_conflict_count:
        shown = [
            f"line {c['line']}: {_short(c['name'])} stays {_short(c['kept'])}, "
            f"not {_short(c['given'])}"
            for c in file.type_conflicts[:_SHOWN]
        ]
        found.append(_listed("  Entities given two types", file.type_conflict_count, shown))
    if file.observations.skipped:
        shown = [
            f"line {s['line']}: {s['reason']} in {_short(s['name'])}"
            for s in file.skipped_observations[:_SHOWN]
        ]
        found.append(_listed("  Observations skipped", file.observations.skipped, shown))
    if notes.unreadable:
        shown = [f"{name} {value!r} × {n}" for (name, value), n in notes.unreadable.most_common(5)]
        total = notes.unreadable.total()
        found.append(_listed("  Values not readable, left unknown", total, shown))
    if notes.extra_keys:
        shown = [f"{_short(key)} × {n}" for key, n in notes.extra_keys.most_common(12)]
        total = len(notes.extra_keys)
        found.append(_listed("  Keys without a place here, not stored", total, shown))
    if notes.kept_confidence:
        found.append(
            "  Confidence that differs from what is here, kept as it is here: "
            f"{notes.kept_confidence:,}"
        )
    if file.sent_on:
        shown = [
            f"{_short(name)} → {_short(kept)} × {n:,}"
            for (name, kept), n in file.sent_on.most_common(_SHOWN)
        ]
        found.append(
            _listed("  New of entities merged here, sent to the one kept", len(file.sent_on), shown)
        )
    if notes.not_carried:
        shown = [f"{_short(what)} × {n:,}" for what, n in notes.not_carried.most_common(12)]
        found.append(_listed("  Not carried", len(notes.not_carried), shown))
    found += [f"  {remark}" for remark in notes.remarks[:_SHOWN]]
    if file.missing:
        total = sum(file.missing.values())
        which = ", ".join(f"{n:,} {table}" for table, n in file.missing.items())
        found.append(
            f"  MISSING: {_count(total, 'row')} that the first line promises "
            f"{'is' if total == 1 else 'are'} not in the file: it was cut off or edited ({which})"
        )
    if notes.replaced_characters:
        found.append(f"  Texts with broken characters (now U+FFFD): {notes.replaced_characters:,}")
    if file.rejects:
        shown = [f"line {x['line']}: {x['reason']}" for x in file.first_rejects[:_SHOWN]]
        found.append(_listed("  Rejects", file.rejects, shown))
    return found


def _listed(title: str, count: int, shown: list[str]) -> str:
    shown = shown[:12]
    more = f"; and {count - len(shown):,} more" if count > len(shown) else ""
    return f"{title} ({count:,}): {'; '.join(shown)}{more}"


def _parts(**counts: int) -> str:
    """``created=3, dangling=0`` → ``3 created``: zeros only where nothing else is to be said."""
    said = [f"{n:,} {_WORDS.get(what, what.replace('_', ' '))}" for what, n in counts.items() if n]
    return ", ".join(said) or f"0 {next(iter(counts)).replace('_', ' ')}"


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def _short(text: str) -> str:
    """One line of at most 60 characters: names may be of any length and hold line breaks."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:59] + "…"
