"""Turning a node of an Engrama export into an entity, and a finding of its own into an insight."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ...times import now_sql, to_sql
from ..items import Entity, Insight, Observation
from ..notes import Notes, as_text, confidence_of, text_of
from .identity import Identity

ARCHIVED = "archived"
# The review states that both programs know; anything else waits for a person.
_JUDGED = {"approved": "approved_at", "dismissed": "dismissed_at"}

_TIMES = ("created_at", "updated_at", "last_activity_at", "valid_from", "valid_to")
# Written out as they stand; of all other properties the text begins with the key.
_FREE_TEXT = frozenset({"notes", "description", "summary", "details", "body"})
_TENANT = frozenset({"org_id", "user_id", "agent_id", "session_id"})
_REVIEW = frozenset({"approved_at", "dismissed_at", "synced_at", "decayed_at"})
_TECHNICAL = frozenset({"needs_reindex", "obsidian_id", "obsidian_path", "embedding"})
# How much Engrama trusts the writer is not how much one may believe the fact.
_PROVENANCE = frozenset({"source", "source_agent", "source_session", "trust_level"})
WITHOUT_HOME = _TENANT | _REVIEW | _TECHNICAL | _PROVENANCE | {"engrama_id"}
# What an insight says elsewhere, or what says nothing of why it was found.
_NO_EVIDENCE = WITHOUT_HOME - {"engrama_id"} | {"body", "confidence", "status", *_TIMES}


class Node(NamedTuple):
    """``columns`` is how many properties became columns of the entity."""

    entity: Entity
    insight: Insight | None
    columns: int


def read_node(
    record: dict[str, Any], identity: Identity, name: str, notes: Notes, exported_at: str | None
) -> Node:
    """The node as an entity called ``name``.

    Each property but the key ends in exactly one place: a column, an observation (of the kind
    of its key), ``notes.extra_keys`` where nothing here has room for it, or, when it is null
    or empty, a number in ``notes.not_carried``. A column's value that cannot be read is noted
    and kept as an observation. ``approved_at`` and ``dismissed_at`` count as without room even
    where the insight has them, since the entity has not.
    """
    given = _with_value(record, notes)
    left = given.copy()
    entity = Entity(name, identity.label, [], [], key=identity.key, replaces=True)
    if "confidence" in left:
        entity.confidence = confidence_of({"confidence": left["confidence"]}, notes)
        if entity.confidence is not None:
            del left["confidence"]
    for column in _TIMES:
        setattr(entity, column, _time(left, column, notes))
    _archive(entity, left, notes, exported_at)
    columns = len(given) - len(left)
    homeless = WITHOUT_HOME & left.keys()
    if entity.archived_at is None and to_sql(left.get("archived_at")):
        # left over from before the node was restored
        homeless |= {"archived_at", "archived_reason"} & left.keys()
    notes.extras("node", {key: left.pop(key) for key in sorted(homeless)})
    for key, value in left.items():
        entity.observations.append(
            Observation(notes.text(_text(key, value)), kind=notes.text(key) or None)
        )
    return Node(entity, _insight(identity, entity, given, notes), columns)


def _with_value(record: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """The properties that hold something, but for the key, which stands among them again."""
    properties = record.get("properties") or {}
    field, value = record.get("key_field"), record.get("key_value")
    keys = (field,) if isinstance(field, str) else ("name", "title")
    found = {}
    for key, held in properties.items():
        if held is None or held in ("", [], {}) or (isinstance(held, str) and not held.strip()):
            notes.not_carried["empty properties"] += 1
        elif key not in keys or held != value:
            found[key] = held
    return found


def _time(left: dict[str, Any], column: str, notes: Notes) -> str | None:
    """Take a time out of the properties; one that cannot be read stays."""
    if column not in left:
        return None
    text = to_sql(left[column])
    if text is None:
        notes.cannot_read(f"node.{column}", left[column])
    else:
        del left[column]
    return text


def _archive(entity: Entity, left: dict[str, Any], notes: Notes, exported_at: str | None) -> None:
    """Archive what its status says is archived, or what has a time of archiving and no status.

    Without such a time the last change is the last moment at which it can have been, then any
    other time of the node, then that of the export. It may not stay empty: that would bring
    the node back to life.
    """
    status = left.get("status")
    if status != ARCHIVED and not (status is None and to_sql(left.get("archived_at"))):
        return
    left.pop("status", None)
    at = _time(left, "archived_at", notes) or entity.updated_at
    known = [time for time in (entity.created_at, entity.last_activity_at) if time]
    entity.archived_at = at or max(known, default=exported_at or now_sql())
    reason = text_of(left.get("archived_reason"), notes)
    if reason is not None:
        del left["archived_reason"]
    elif status == ARCHIVED:
        # the export says no more before 0.18
        reason = f"status: {ARCHIVED}"
    entity.archived_reason = reason


def _text(key: str, value: object) -> str:
    if isinstance(value, str):
        return value if key in _FREE_TEXT else f"{key}: {value}"
    if isinstance(value, list) and all(_is_plain(item) for item in value):
        shown = ", ".join(item if isinstance(item, str) else as_text(item) for item in value)
    else:
        shown = as_text(value)
    return f"{key}: {shown}"


def _is_plain(item: object) -> bool:
    """Whether an element of a list can be read without its quotes or brackets."""
    if isinstance(item, str):
        return bool(item.strip())
    return isinstance(item, (bool, int, float))


def _insight(
    identity: Identity, entity: Entity, given: dict[str, Any], notes: Notes
) -> Insight | None:
    """What Engrama's own ``reflect`` found; an Insight without a query is a person's note."""
    if identity.label != "Insight" or "source_query" not in given:
        return None
    status = given.get("status")
    judged = _JUDGED.get(status) if isinstance(status, str) else None
    told_by = given.get("engrama_id")
    query = given["source_query"]
    return Insight(
        key="engrama:" + (notes.text(told_by) if isinstance(told_by, str) else identity.key),
        kind=notes.text(query if isinstance(query, str) else as_text(query)),
        entity=identity.key,
        title=identity.value,
        body=text_of(given.get("body"), notes) or "",
        evidence=_evidence(given, notes),
        confidence=1.0 if entity.confidence is None else entity.confidence,
        status=str(status) if judged else "pending",
        judged_by=None,
        judged_at=to_sql(given.get(judged)) if judged else None,
        created_at=entity.created_at,
        updated_at=entity.updated_at,
    )


def _evidence(given: dict[str, Any], notes: Notes) -> str:
    """Why it was found, as JSON: the same text however often it is found and judged."""
    telling: dict[str, Any] = {}
    for key in sorted(given.keys() - _NO_EVIDENCE):
        try:
            json.dumps(given[key], allow_nan=False)
        except ValueError:
            # Python reads and writes NaN, and no JSON of anybody else has it
            telling[key] = as_text(given[key])
        else:
            telling[key] = given[key]
    return notes.text(as_text(telling))
