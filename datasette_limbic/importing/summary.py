"""What an import did, with every line accounted for."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from .notes import Notes

# Lists in the summary are for reading; beyond this many, only their count goes on.
MAX_LISTED = 1000


@dataclass
class EntityCounts:
    lines: int = 0
    created: int = 0
    merged: int = 0


@dataclass
class ObservationCounts:
    in_file: int = 0
    added: int = 0
    already_there: int = 0
    skipped: int = 0


@dataclass
class RelationCounts:
    lines: int = 0
    created: int = 0
    merged: int = 0
    reopened: int = 0
    dangling: int = 0


@dataclass
class AccessCounts:
    """``names`` are the entities that the access lines list; the last three are of names."""

    lines: int = 0
    names: int = 0
    added: int = 0
    already_there: int = 0
    dangling: int = 0


@dataclass
class FileSummary:
    """One file. In a JSON document, ``lines`` are its records, since its lines mean nothing."""

    name: str
    format: str = ""
    refused: str | None = None
    lines: int = 0
    blank: int = 0
    glued: int = 0
    rejected: int = 0
    stubs: int = 0
    entities: EntityCounts = field(default_factory=EntityCounts)
    observations: ObservationCounts = field(default_factory=ObservationCounts)
    relations: RelationCounts = field(default_factory=RelationCounts)
    access: AccessCounts = field(default_factory=AccessCounts)
    notes: Notes = field(default_factory=Notes)
    type_conflicts: list[dict[str, Any]] = field(default_factory=list)
    type_conflict_count: int = 0
    skipped_observations: list[dict[str, Any]] = field(default_factory=list)
    first_rejects: list[dict[str, Any]] = field(default_factory=list)

    @property
    def accepted(self) -> int:
        """Records that were an entity, a relation or an access, dangling ones included."""
        return self.entities.lines + self.relations.lines + self.access.lines

    @property
    def rejects(self) -> int:
        """Everything in the rejects file: bad lines, dangling relations and accesses."""
        return self.rejected + self.relations.dangling + self.access.dangling

    def type_conflict(self, line: int, name: str, kept: str, given: str) -> None:
        self.type_conflict_count += 1
        if len(self.type_conflicts) < MAX_LISTED:
            self.type_conflicts.append({"line": line, "name": name, "kept": kept, "given": given})

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
            self.lines - self.blank + self.glued == self.accepted + self.rejected
            and e.lines == e.created + e.merged
            and o.in_file == o.added + o.already_there + o.skipped
            and r.lines == r.created + r.merged + r.reopened + r.dangling
            and a.names == a.added + a.already_there + a.dangling
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "file": self.name,
            "format": self.format,
            "refused": self.refused,
            "lines": self.lines,
            "blank": self.blank,
            "glued": self.glued,
            "rejected": self.rejected,
            "rejects": self.rejects,
            "stubs": self.stubs,
            "entities": asdict(self.entities),
            "observations": asdict(self.observations),
            "relations": asdict(self.relations),
            "access": asdict(self.access),
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
            for group in ("entities", "observations", "relations", "access")
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
