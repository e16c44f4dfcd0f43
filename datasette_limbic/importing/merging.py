"""What an entity becomes when a source says more of it: three states are compared.

What stands here, what the source says now, and what it said before (``State``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .activity import earliest, latest
from .items import GENERIC, Entity
from .source_state import Fields, State
from .summary import FileSummary


class Stored(NamedTuple):
    """An entity's columns as an import compares and writes them."""

    entity_type: str
    created_at: str | None
    updated_at: str | None
    archived_at: str | None
    archived_reason: str | None
    confidence: float
    valid_from: str | None
    valid_to: str | None


def merged(
    here: Stored,
    entity: Entity,
    state: State | None,
    *,
    is_new: bool,
    line: int,
    file: FileSummary,
) -> Stored:
    """What the entity becomes. ``is_new``: this very import made it, so nobody corrected it yet.

    What the row leaves out may stand in another one: see ``taken_back``.
    """
    confidence = here.confidence
    if entity.confidence is not None and confidence == 1.0 and is_new:
        confidence = entity.confidence
    elif entity.confidence not in (None, confidence):
        # belief is corrected by a person, not by a file: an old one holds decayed values
        file.notes.kept_confidence += 1
    archived = _settle("archived_at", here.archived_at, entity, state)
    reason = here.archived_reason
    is_told = reason is None and not _was(state, "archived_at")
    if archived is not None and (archived != here.archived_at or is_told):
        reason = entity.archived_reason
    return Stored(
        _settle_type(here.entity_type, entity, state, line, file),
        earliest(here.created_at, entity.created_at),
        latest(here.updated_at, entity.updated_at),
        archived,
        reason,
        confidence,
        _settle("valid_from", here.valid_from, entity, state),
        _settle("valid_to", here.valid_to, entity, state),
    )


def taken_back(here: Stored, before: Fields, now: Fields) -> Stored:
    """What the entity becomes when its source has been read whole: what the source said before
    and says no more is taken back, where it stands here as the source said it."""
    archived, start, end = (
        None if said is None and value == was else value
        for value, was, said in zip(
            (here.archived_at, here.valid_from, here.valid_to), before[1:], now[1:], strict=True
        )
    )
    return here._replace(
        archived_at=archived,
        archived_reason=here.archived_reason if archived == here.archived_at else None,
        valid_from=start,
        valid_to=end,
    )


def _settle_type(
    kind: str, entity: Entity, state: State | None, line: int, file: FileSummary
) -> str:
    given, was, said = entity.entity_type, _was(state, "entity_type"), _said(state)
    if not given or given in (kind, GENERIC):
        return kind
    if said not in (None, GENERIC):
        if given != said:  # the first row stays
            file.type_conflict(line, entity.name, kind, given)
        return kind
    # Generic is the default: it says that nobody gave a type yet
    if kind == GENERIC and was in (None, GENERIC):
        return given
    if kind == was:
        return given  # the source changed its mind, and nobody here did
    if given != was:
        file.type_conflict(line, entity.name, kind, given)
    return kind


def _was(state: State | None, field: str) -> Any:
    """What an earlier import of the source said of the entity."""
    return None if state is None or state.before is None else getattr(state.before, field)


def _said(state: State | None, field: str = "entity_type") -> Any:
    """What an earlier row of this import said of the entity."""
    return None if state is None or state.now is None else getattr(state.now, field)


def _settle(field: str, ours: Any, entity: Entity, state: State | None) -> Any:
    """A value that may be unknown: filled where nothing is here; of what an earlier import
    brought, changed where the source changed it and nobody here did."""
    theirs, was = getattr(entity, field), _was(state, field)
    if theirs is None or _said(state, field) is not None:
        return ours  # the first row that says it stays
    if was is None:
        return theirs if ours is None else ours
    if field == "archived_at":
        return ours  # still archived there, whatever the date is by now
    return theirs if ours == was else ours
