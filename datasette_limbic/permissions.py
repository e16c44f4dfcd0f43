"""The permissions that this plugin adds, denied by default, except to root."""

from __future__ import annotations

RECORD = "limbic-record"
EDIT = "limbic-edit"

# name → abbreviation (for restricted tokens) and description
DESCRIBED = {
    RECORD: ("lr", "Record how a memory is used: searches, openings, ratings"),
    EDIT: ("le", "Change what a memory says: add, split, merge, delete, archive, undo"),
}
