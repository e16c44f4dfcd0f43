"""Turning one JSON object into an entity, a relation or an access, whatever its dialect.

Every spelling met in real memory files is read; what cannot be used is noted by name in
``Notes``, or the whole row comes back as a ``Rejection`` with its reason.
"""

from __future__ import annotations

import json
from typing import Any

from ..times import to_sql
from .items import Access, Entity, Observation, Rejection, Relation
from .notes import Notes, as_text, confidence_of, take, text_of, time_of

MAX_ACCESS_NAMES = 1000

_FROM = ("from", "from_entity", "fromEntity")
_TO = ("to", "to_entity", "toEntity")
_RELATION_TYPE = ("relationType", "relation_type")
_ENTITY_TYPE = ("entityType", "entity_type")
_OBSERVATION_TEXT = ("content", "text", "observation")
_CREATED = ("createdAt", "created_at", "timestamp")
_VALID_FROM = ("validFrom", "valid_from")
_VALID_TO = ("validTo", "valid_to")
# What was replaced or ended is history: imported as live, a corrected fact would come back.
_SUPERSEDED = (*_VALID_TO, "supersededAt", "superseded_at")
_ENDED = (*_VALID_TO, "endedAt", "ended_at")
_KINDS = ("entity", "relation", "access")
_SECTION_KIND = {"entities": "entity", "relations": "relation"}


Parsed = Entity | Relation | Access | Rejection


def parse_row(value: object, section: str | None, notes: Notes) -> Parsed:
    """Read one decoded row. ``section`` is the list it stands in, which tells its kind."""
    if not isinstance(value, dict):
        return Rejection(notes.text(f"no object but {_kind_of(value)}"))
    kind = _tell_kind(value, section)
    if kind == "entity":
        return _entity(dict(value), notes)
    if kind == "relation":
        return _relation(dict(value), notes)
    if kind == "access":
        return _access(dict(value), notes)
    return Rejection(notes.text(_unknown(value)))


def _tell_kind(value: dict[str, Any], section: str | None) -> str | None:
    """By the section, else by the discriminator, else by the keys."""
    if section in _SECTION_KIND:
        return _SECTION_KIND[section]
    for key in ("type", "_type"):
        given = value.get(key)
        if isinstance(given, str) and given.lower() in _KINDS:
            return given.lower()
    has_ends = any(k in value for k in _FROM) and any(k in value for k in _TO)
    has_content = "observations" in value or any(k in value for k in _ENTITY_TYPE)
    if "type" in value or "_type" in value:
        # an unknown type may be the entity's own, but only next to its observations
        return "entity" if "name" in value and "observations" in value else None
    if has_ends and any(k in value for k in _RELATION_TYPE):
        return "relation"
    return "entity" if "name" in value and has_content else None


def _unknown(value: dict[str, Any]) -> str:
    for key in ("type", "_type"):
        if key in value:
            return f"unknown record type {json.dumps(value[key], ensure_ascii=False)[:80]}"
    keys = ", ".join(list(value)[:8])[:200]
    return f"neither entity nor relation: keys {keys}" if keys else "an empty object"


def _entity(left: dict[str, Any], notes: Notes) -> Entity | Rejection:
    name = text_of(take(left, ("name",)), notes)
    if name is None or not name.strip():
        return Rejection("entity without a name")
    entity_type = text_of(take(left, _ENTITY_TYPE), notes)
    for key in ("type", "_type"):
        given = left.pop(key, None)
        if entity_type is None and isinstance(given, str) and given.lower() not in _KINDS:
            entity_type = notes.text(given)
    given = left.pop("observations", None)
    plain = _plain_observations(given, notes)
    observations, skipped = (plain, []) if plain else _observations(given, notes)
    entity = Entity(
        name=name,
        entity_type=entity_type if entity_type and entity_type.strip() else None,
        observations=observations,
        skipped=skipped,
        only_texts=bool(plain),
    )
    if left:
        entity.created_at = time_of(left, "createdAt", _CREATED, notes)
        entity.updated_at = time_of(left, "updatedAt", ("updatedAt", "updated_at"), notes)
        entity.last_activity_at = time_of(
            left, "lastActivityAt", ("lastActivityAt", "last_activity_at"), notes
        )
        entity.archived_at = time_of(left, "archivedAt", ("archivedAt", "archived_at"), notes)
        entity.archived_reason = text_of(take(left, ("archivedReason", "archived_reason")), notes)
        entity.confidence = confidence_of(left, notes)
        entity.valid_from = time_of(left, "validFrom", _VALID_FROM, notes)
        entity.valid_to = time_of(left, "validTo", _VALID_TO, notes)
        notes.extras("entity", left)
    return entity


def _plain_observations(value: object, notes: Notes) -> list[Observation]:
    """The common case, told quickly: a list of texts, none blank and none twice; else []."""
    if not isinstance(value, list) or set(map(type, value)) != {str}:
        return []
    if len(set(value)) < len(value) or not all(map(str.strip, value)):
        return []
    return [Observation(text if text.isascii() else notes.text(text)) for text in value]


def _observations(value: object, notes: Notes) -> tuple[list[Observation], list[str]]:
    """The observations that hold a text, and why each of the others was skipped."""
    if value is None:
        return [], []
    found, skipped = [], []
    texts: set[str] = set()
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str) and item.strip():
            if item in texts:
                skipped.append("the same text again")
                continue
            texts.add(item)
            found.append(Observation(notes.text(item)))
        elif isinstance(item, dict):
            found.append(_observation_object(dict(item), notes))
        elif item is None or isinstance(item, str):
            skipped.append("null" if item is None else "an empty text")
        else:
            found.append(Observation(notes.text(as_text(item))))
    return found, skipped


def _observation_object(left: dict[str, Any], notes: Notes) -> Observation:
    whole = left.copy()
    content = text_of(take(left, _OBSERVATION_TEXT), notes)
    if content is None or not content.strip():
        # of a shape nobody told us about: kept as it stands rather than lost
        return Observation(notes.text(as_text(whole)))
    observation = Observation(
        content,
        time_of(left, "observation.createdAt", _CREATED, notes),
        text_of(take(left, ("kind",)), notes),
        confidence_of(left, notes),
        time_of(left, "observation.validFrom", _VALID_FROM, notes),
        time_of(left, "observation.validTo", _SUPERSEDED, notes),
        1 if take(left, ("similarityFlag", "similarity_flag")) in (1, "1") else 0,
    )
    notes.extras("observation", left)
    return observation


def _relation(left: dict[str, Any], notes: Notes) -> Relation | Rejection:
    source = text_of(take(left, _FROM), notes)
    target = text_of(take(left, _TO), notes)
    relation_type = text_of(take(left, _RELATION_TYPE), notes)
    for key in ("type", "_type"):
        given = left.pop(key, None)
        if relation_type is None and isinstance(given, str) and given.lower() not in _KINDS:
            relation_type = notes.text(given)
    for what, text in (("from", source), ("to", target), ("relationType", relation_type)):
        if text is None or not text.strip():
            return Rejection(f"relation without {what}")
    relation = Relation(
        str(source),
        str(target),
        str(relation_type),
        time_of(left, "relation.createdAt", _CREATED, notes),
        time_of(left, "relation.validFrom", _VALID_FROM, notes),
        time_of(left, "relation.validTo", _ENDED, notes),
    )
    if left:
        notes.extras("relation", left)
    return relation


def _access(left: dict[str, Any], notes: Notes) -> Access | Rejection:
    for key in ("type", "_type"):
        left.pop(key, None)
    given = take(left, ("accessedAt", "accessed_at", "timestamp"))
    accessed_at = to_sql(given)
    if accessed_at is None:
        return Rejection(notes.text(f"access without a readable time: {as_text(given)[:60]}"))
    names = left.pop("entities", None)
    if not isinstance(names, list) or not names:
        return Rejection("access without a list of entities")
    if len(names) > MAX_ACCESS_NAMES:
        return Rejection(f"access of {len(names)} entities, at most {MAX_ACCESS_NAMES} are read")
    # a name that is no text cannot be known, and is reported as such where names are looked up
    texts = [text_of(name, notes) or notes.text(as_text(name)) for name in names]
    query = text_of(take(left, ("query",)), notes)
    notes.extras("access", left)
    return Access(query, accessed_at, list(dict.fromkeys(texts)))


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return "a list"
    shown = json.dumps(value, ensure_ascii=False)[:40]
    return f"{'a text' if isinstance(value, str) else 'a number'} ({shown})"
