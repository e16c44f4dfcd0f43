"""What an import did, with every line accounted for."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from .notes import Notes

if TYPE_CHECKING:
    from .observations import United

#: The groups of figures, in the order of the summary.
GROUPS = (
    "entities",
    "observations",
    "relations",
    "access",
    "access_counts",
    "access_log",
    "co_occurrences",
    "insights",
    "vectors",
)
_USES = ("access_counts", "access_log", "co_occurrences", "insights", "vectors")

# Lists in the summary are for reading; beyond this many, only their count goes on.
MAX_LISTED = 1000


@dataclass
class EntityCounts:
    """``updated`` are those of the merged to which anything was added. ``removed_here`` were
    brought by an earlier import and deleted here since. ``gone`` are no longer in the source,
    and stay."""

    lines: int = 0
    created: int = 0
    merged: int = 0
    updated: int = 0
    removed_here: int = 0
    gone: int = 0


@dataclass
class ObservationCounts:
    """``updated`` are those already there of which more is known now; ``replaced`` ended, since
    the source says otherwise now. ``moved`` are those already there that actions moved to another
    entity."""

    in_file: int = 0
    added: int = 0
    already_there: int = 0
    updated: int = 0
    moved: int = 0
    removed_here: int = 0
    replaced: int = 0
    gone: int = 0
    skipped: int = 0

    def add(self, united: United) -> None:
        """Count what became of the observations of one row."""
        self.added += united.added
        self.already_there += united.already_there
        self.updated += united.updated
        self.moved += united.moved
        self.removed_here += united.removed_here


@dataclass
class RelationCounts:
    """``updated`` are those of the merged and reopened that changed, ``moved`` those that actions
    moved to another entity."""

    lines: int = 0
    created: int = 0
    merged: int = 0
    updated: int = 0
    moved: int = 0
    reopened: int = 0
    removed_here: int = 0
    gone: int = 0
    dangling: int = 0


@dataclass
class AccessCounts:
    """``names`` are the entities that the access lines list; all but ``lines`` are of names."""

    lines: int = 0
    names: int = 0
    added: int = 0
    already_there: int = 0
    removed_here: int = 0
    dangling: int = 0


@dataclass
class UseCounts:
    """Rows of another program's counts, access log, or findings."""

    lines: int = 0
    rows: int = 0
    added: int = 0
    updated: int = 0
    already_there: int = 0
    removed_here: int = 0
    dangling: int = 0

    def add_up(self) -> bool:
        """Whether every row is counted exactly once."""
        parts = (self.added, self.updated, self.already_there, self.removed_here, self.dangling)
        return self.lines == self.rows == sum(parts)


@dataclass
class FileSummary:
    """One file. ``lines`` are what ``unit`` says: records of a JSON document, whose lines mean
    nothing, or rows of a database. ``beside`` are understood and hold nothing of a memory."""

    name: str
    format: str = ""
    unit: str = "line"
    refused: str | None = None
    lines: int = 0
    blank: int = 0
    glued: int = 0
    rejected: int = 0
    beside: int = 0
    observation_lines: int = 0  # observations that have lines of their own
    shared: int = 0  # insights that stand on the line of their entity
    stubs: int = 0
    entities: EntityCounts = field(default_factory=EntityCounts)
    observations: ObservationCounts = field(default_factory=ObservationCounts)
    relations: RelationCounts = field(default_factory=RelationCounts)
    access: AccessCounts = field(default_factory=AccessCounts)
    access_counts: UseCounts = field(default_factory=UseCounts)
    access_log: UseCounts = field(default_factory=UseCounts)
    co_occurrences: UseCounts = field(default_factory=UseCounts)
    insights: UseCounts = field(default_factory=UseCounts)
    vectors: UseCounts = field(default_factory=UseCounts)
    restored: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    notes: Notes = field(default_factory=Notes)
    type_conflicts: list[dict[str, Any]] = field(default_factory=list)
    type_conflict_count: int = 0
    skipped_observations: list[dict[str, Any]] = field(default_factory=list)
    first_rejects: list[dict[str, Any]] = field(default_factory=list)
    #: new facts about entities that were merged into others: (name, name of the one kept)
    sent_on: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def accepted(self) -> int:
        """Records that were an entity, a relation or a use, dangling ones included."""
        rows = sum(int(getattr(self, g).lines) for g in GROUPS if g != "observations")
        return rows + self.observation_lines

    @property
    def rejects(self) -> int:
        """Everything in the rejects file: bad lines, and what names nobody."""
        return self.rejected + sum(
            int(getattr(self, group).dangling)
            for group in GROUPS
            if group not in ("entities", "observations")
        )

    @property
    def changed(self) -> bool:
        """Whether anything is in the memory now that was not there before."""
        e, o, r = self.entities, self.observations, self.relations
        return bool(
            e.created + e.updated + self.stubs + o.added + o.updated + o.replaced
            + r.created + r.updated + r.reopened + self.access.added
            + sum(getattr(self, g).added + getattr(self, g).updated for g in _USES)
            + sum(self.restored.values())
        )  # fmt: skip

    def type_conflict(self, line: int, name: str, kept: str, given: str) -> None:
        self.type_conflict_count += 1
        if len(self.type_conflicts) < MAX_LISTED:
            self.type_conflicts.append({"line": line, "name": name, "kept": kept, "given": given})

    def send_on(self, name: str, kept: str, count: int) -> None:
        """So many new facts about an entity went to the one that it was merged into."""
        self.sent_on[name, kept] += count

    def skip(self, line: int, name: str, reasons: list[str]) -> None:
        self.observations.skipped += len(reasons)
        for reason in reasons[: MAX_LISTED - len(self.skipped_observations)]:
            self.skipped_observations.append({"line": line, "name": name, "reason": reason})

    def lines_add_up(self) -> bool:
        """Whether every line and record is counted exactly once.

        The left sides are counted where the file is read, the right sides where it is stored.
        """
        e, o, r, a = self.entities, self.observations, self.relations, self.access
        return (
            self.lines - self.blank + self.glued + self.shared - self.beside
            == self.accepted + self.rejected
            and e.lines == e.created + e.merged + e.removed_here
            and o.in_file == o.added + o.already_there + o.removed_here + o.skipped
            and r.lines == r.created + r.merged + r.reopened + r.removed_here + r.dangling
            and a.names == a.added + a.already_there + a.removed_here + a.dangling
            and all(getattr(self, group).add_up() for group in _USES)
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "file": self.name,
            "format": self.format,
            "unit": self.unit,
            "refused": self.refused,
            "lines": self.lines,
            "blank": self.blank,
            "glued": self.glued,
            "rejected": self.rejected,
            "rejects": self.rejects,
            "beside": self.beside,
            "stubs": self.stubs,
            "changed": self.changed,
            **{group: asdict(getattr(self, group)) for group in GROUPS},
            "restored": self.restored,
            "missing": self.missing,
            "warnings": {
                "type_conflicts": self.type_conflicts,
                "type_conflict_count": self.type_conflict_count,
                "skipped_observations": self.skipped_observations,
                "unreadable": [
                    {"field": name, "value": value, "count": count}
                    for (name, value), count in self.notes.unreadable.most_common(MAX_LISTED)
                ],
                "unreadable_count": self.notes.unreadable.total(),
                "extra_keys": dict(self.notes.extra_keys.most_common(MAX_LISTED)),
                "replaced_texts": self.notes.replaced_characters,
                "kept_confidence": self.notes.kept_confidence,
                "not_carried": dict(self.notes.not_carried.most_common(MAX_LISTED)),
                "sent_on": [
                    {"name": name, "kept": kept, "count": count}
                    for (name, kept), count in self.sent_on.most_common(MAX_LISTED)
                ],
                "remarks": self.notes.remarks,
            },
            "first_rejects": self.first_rejects,
        }


@dataclass
class ImportSummary:
    """All files of one import. ``near_equal`` lists names that differ in case or accents only."""

    files: list[FileSummary] = field(default_factory=list)
    near_equal: list[list[str]] = field(default_factory=list)
    near_equal_count: int = 0

    def lines_add_up(self) -> bool:
        """Whether every line of every file is counted exactly once."""
        return all(file.lines_add_up() for file in self.files)

    def total(self, group: str, what: str) -> int:
        """The sum of one figure over the files: ``total("entities", "created")``."""
        return sum(getattr(getattr(file, group), what) for file in self.files)

    @property
    def rejects(self) -> int:
        return sum(file.rejects for file in self.files)

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        totals: dict[str, Any] = {
            group: {what: self.total(group, what) for what in asdict(getattr(_NONE, group))}
            for group in GROUPS
        }
        return {
            "files": [file.as_dict() for file in self.files],
            "totals": {**totals, "rejects": self.rejects},
            "near_equal_names": self.near_equal,
            "near_equal_count": self.near_equal_count,
        }

    def text(self) -> str:
        """The summary for people, a few lines per file."""
        from .summary_text import summary_text

        return summary_text(self)


_NONE = FileSummary("")
