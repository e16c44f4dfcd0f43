"""The note that somebody leaves with a judgement: it stands in the evidence, beside the rest."""

from __future__ import annotations

import json
from typing import Any

from ..errors import BadParameter
from ..text import storable
from .model import read_evidence

MAX_NOTE = 1000
"""Characters of a note."""
_NOTE, _WRAPPED = "review_note", "judged_evidence"
"""Where a note stands in the evidence, and the evidence itself where that is no object."""


def given(note: str | None) -> str | None:
    """A note as it is kept; None where there is none. Raises BadParameter."""
    if note is None or not note.strip():
        return None
    if len(note) > MAX_NOTE:
        raise BadParameter(f"the note has {len(note):,} characters: use at most {MAX_NOTE:,}")
    return storable(note.strip())


def note_of(evidence: Any) -> Any:
    """The note that somebody left in parsed evidence, or None."""
    return evidence.get(_NOTE) if isinstance(evidence, dict) else None


def noted(evidence: Any, note: str) -> str:
    """The column with a note; evidence of another form than an object is wrapped for it."""
    found = read_evidence(evidence)
    whole = found if isinstance(found, dict) else {_WRAPPED: found}
    return json.dumps({**whole, _NOTE: note}, ensure_ascii=False)


def unnoted(evidence: Any) -> Any:
    """Parsed evidence as it was before somebody judged it."""
    if not isinstance(evidence, dict) or _NOTE not in evidence:
        return evidence
    found = {key: value for key, value in evidence.items() if key != _NOTE}
    return found[_WRAPPED] if found.keys() == {_WRAPPED} else found


def as_raised(evidence: Any) -> Any:
    """The column without a note; as it stands where there is none."""
    found = read_evidence(evidence)
    plainly = unnoted(found)
    return evidence if plainly is found else json.dumps(plainly, ensure_ascii=False)
