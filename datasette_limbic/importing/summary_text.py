"""The summary of an import as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .reading import DOCUMENT

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
    unit = "record" if file.format == DOCUMENT else "line"
    e, o, r, a = file.entities, file.observations, file.relations, file.access
    head = f"{file.name} ({file.format}): {_count(file.lines, unit)}"
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
    if e.lines:
        lines.append(f"  entities      {_parts(created=e.created, merged=e.merged)}")
    if file.stubs:
        lines.append(f"                {_count(file.stubs, 'stub')} made for missing names")
    if o.in_file:
        counts = _parts(added=o.added, already_there=o.already_there, skipped=o.skipped)
        lines.append(f"  observations  {counts}")
    if r.lines:
        counts = _parts(
            created=r.created, merged=r.merged, reopened=r.reopened, dangling=r.dangling
        )
        lines.append(f"  relations     {counts}")
    if a.lines:
        counts = _parts(added=a.added, already_there=a.already_there, dangling=a.dangling)
        lines.append(f"  accesses      {counts}, in {_count(a.lines, 'line')}")
    return "\n".join([*lines, *_warnings(file)])


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
    said = [f"{n:,} {what.replace('_', ' ')}" for what, n in counts.items() if n]
    return ", ".join(said) or f"0 {next(iter(counts)).replace('_', ' ')}"


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def _short(text: str) -> str:
    """One line of at most 60 characters: names may be of any length and hold line breaks."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:59] + "…"
