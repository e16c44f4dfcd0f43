"""What an export wrote and what it left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

# Why a row was left out of the graph, and what to do about it.
REASONS = {
    "archived": ("archived", "--include-archived writes them"),
    "ended": ("not valid now", "--include-ended writes them"),
    "dangling": ("their entity is gone", "no memory server could read them"),
    "unusable": ("without a name, text or type", "no memory server could read them"),
}
_ONE = {"entities": "entity", "observations": "observation", "relations": "relation"}
_SHOWN = 8


@dataclass
class ExportSummary:
    """``written`` counts rows by table; ``left_out`` does so for each reason.

    Each entity, observation and relation of the memory is in one of the two, exactly once.
    ``replaced`` counts texts whose broken bytes became U+FFFD; ``others`` are tables in the
    file that no memory has; ``vectors`` are those that were not asked for.
    """

    format: str
    written: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, Counter[str]] = field(default_factory=dict)
    replaced: int = 0
    vectors: int = 0
    others: list[str] = field(default_factory=list)

    def leave_out(self, reason: str, what: str, number: int = 1) -> None:
        if number:
            self.left_out.setdefault(reason, Counter())[what] += number

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "format": self.format,
            "written": dict(self.written),
            "left_out": {reason: dict(counts) for reason, counts in self.left_out.items()},
            "replaced_texts": self.replaced,
            "vectors_left_out": self.vectors,
            "other_tables": self.others,
        }

    def text(self) -> str:
        """The summary for people; nothing that is zero."""
        graph = Counter({what: self.written[what] for what in _ONE})
        more = sum(self.written.values()) - sum(graph.values())
        lines = ["Wrote " + (_counts(graph) or "no entity")]
        if more:
            lines[0] += f", and {more:,} row{'' if more == 1 else 's'} of other tables"
        for reason, (words, advice) in REASONS.items():
            if reason in self.left_out:
                lines.append(f"Left out, {words}: {_counts(self.left_out[reason])} ({advice})")
        if self.replaced:
            lines.append(f"Texts with broken characters, now U+FFFD: {self.replaced:,}")
        if self.vectors:
            lines.append(
                f"Left out: {self.vectors:,} vector{'' if self.vectors == 1 else 's'}"
                " (--vectors writes them; 'datasette limbic sync' makes them again)"
            )
        if self.others:
            names = ", ".join(self.others[:_SHOWN])
            rest = len(self.others) - _SHOWN
            names += f" and {rest:,} more" if rest > 0 else ""
            lines.append(f"Left out: tables that are no part of a memory: {names}")
        if self.format == "mcp":
            lines.append(
                "Times, confidence, history and settings have no place in this format: "
                "--format full keeps them"
            )
        return "\n".join(lines)


def _counts(counts: Counter[str]) -> str:
    return ", ".join(
        f"{counts[what]:,} {one if counts[what] == 1 else what}"
        for what, one in _ONE.items()
        if counts[what]
    )
