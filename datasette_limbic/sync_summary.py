"""What a sync did, for a terminal and for JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .integrity import Result
    from .repairing import Repaired
    from .reports.keeping import Kept
    from .retrieval.postgres.push import PushSummary


@dataclass
class CollectionSummary:
    """What a sync did to one collection; counts of items."""

    collection: str
    model: str | None = None
    dimension: int = 0
    items: int = 0
    embedded: int = 0
    verified: int = 0
    pruned: int = 0
    indexed: int = 0
    pending: int = 0
    rebuilt: bool = False
    rejected: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class SyncSummary:
    """What a sync did."""

    collections: list[CollectionSummary] = field(default_factory=list)
    text_added: int = 0
    text_removed: int = 0
    vectors_missing: str | None = None
    seconds: float = 0.0
    repaired: list[Repaired] = field(default_factory=list)
    left: list[Result] = field(default_factory=list)
    """What ``repair`` left alone, since only a person can decide."""
    reports: Kept | None = None
    """What was looked at again for the reports; None where that was not asked for."""
    retrieval: list[str] = field(default_factory=list)
    """What a person should know of the approximate index, such as that a rebuild is due."""
    pushed: PushSummary | None = None
    """What a server got; None where the retriever is not ``postgres``."""

    @property
    def changed(self) -> bool:
        """Whether anything was brought in line."""
        repaired = any(not one.failed for one in self.repaired)
        kept = self.reports is not None and self.reports.entities > 0
        pushed = self.pushed is not None and self.pushed.changed
        return bool(self.text_added or self.text_removed or repaired or kept or pushed) or any(
            c.embedded or c.pruned or c.verified or c.rebuilt for c in self.collections
        )

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        left = [result.as_dict() for result in self.left]
        return {**asdict(self), "left": left, "changed": self.changed}

    def text(self) -> str:
        """The same in a few lines for a terminal."""
        lines = [one.text() for one in self.repaired]
        for c in self.collections:
            lines.append(
                f"{c.collection}: {c.embedded} embedded, {c.verified} already right, "
                f"{c.pruned} removed; {c.indexed} of {c.items} searchable"
                + (f" ({c.model}, {c.dimension} dimensions)" if c.model else "")
                + (", index rebuilt" if c.rebuilt else "")
            )
            if c.pending:
                lines.append(f"  {c.pending} changed meanwhile: run sync again")
            lines += [f"  not indexed: {r['id']} ({r['reason']})" for r in c.rejected[:10]]
            if len(c.rejected) > 10:
                lines.append(f"  … and {len(c.rejected) - 10} more")
        if self.text_added or self.text_removed:
            lines.append(f"text index: {self.text_added} added, {self.text_removed} removed")
        else:
            lines.append("text index: in step")
        lines += self.retrieval
        if self.vectors_missing:
            lines.append(f"no vector search: {self.vectors_missing}")
        if self.reports is not None:
            lines.append(self.reports.text())
        if self.pushed is not None:
            lines.append(self.pushed.text())
        for result in self.left:
            lines += ["", *result.lines()]
        return "\n".join(lines)
