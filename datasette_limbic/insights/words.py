"""The kinds of findings in words, for pages and terminals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..i18n import marked as _


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
    "contradiction": Words(_("Contradiction?"), "contradiction", "contradictions", _("both hold")),
    "duplicate": Words(_("Duplicates"), "duplicate", "duplicates", _("keep them all")),
    "name_clash": Words(_("Names alike"), "names alike", "name clashes", _("not the same")),
    "bridge": Words(_("Archived bridge"), "bridge", "archived bridges", _("leave it archived")),
    "split": Words(_("Split"), "split", "splits", _("leave it whole")),
    "archive_candidate": Words(_("To archive"), "to archive", "to archive", _("leave it in use")),
}


def words(kind: Any) -> Words | None:
    """Of a kind of ours; None of one that only another program knows."""
    return WORDS.get(kind) if isinstance(kind, str) else None
