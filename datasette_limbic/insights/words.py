"""The kinds of findings in words, for pages and terminals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Words:
    """How one kind is called."""

    title: str
    """As the badge of one."""
    one: str
    """In a list."""
    many: str
    """Before a count of them."""
    no: str
    """What dismissing one says."""


WORDS = {
    "contradiction": Words("Contradiction?", "contradiction", "contradictions", "both hold"),
    "duplicate": Words("Duplicates", "duplicate", "duplicates", "keep them all"),
    "name_clash": Words("Names alike", "names alike", "name clashes", "not the same"),
    "bridge": Words("Archived bridge", "bridge", "archived bridges", "leave it archived"),
    "split": Words("Split", "split", "splits", "leave it whole"),
    "archive_candidate": Words("To archive", "to archive", "to archive", "leave it in use"),
}


def words(kind: Any) -> Words | None:
    """Of a kind of ours; None of one that only another program knows."""
    return WORDS.get(kind) if isinstance(kind, str) else None
